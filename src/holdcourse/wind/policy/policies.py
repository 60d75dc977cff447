"""What a wind backtest makes of the table of policies: the setting that they are made for, and their makers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind.physics import HOURS_OF_DAY, WindWorld

Array: TypeAlias = NDArray[np.float64]

# The paper's hyperparameters (its section 5.1), on z-scored altitude and hour.
LENGTH_SCALE, VARIANCE, NOISE_VARIANCE = 3.67, 6.85, 2.73
FALLBACK_MEAN = 8.5  # m/s, where there is no past
FITTED_RECORDS = 4000  # so many measurements of the past are enough to fit a kernel to


@dataclass(frozen=True, eq=False)
class Past:
    """Wind before the test period, at the altitudes of the test.

    Parameters
    ----------
    hours
        Hour of the day, UTC, (t,).
    speed
        m/s, (t, n).
    time
        Hours since 1970, UTC, ascending, (t,). Where it is not given, `hours` are taken to follow each other.
    """

    hours: Array
    speed: Array
    time: Array | None = None

    @property
    def moments(self) -> Array | None:
        """Hours since some midnight, ascending; None where they cannot be told."""
        if self.time is not None:
            return self.time
        steps = np.diff(self.hours) % 24.0
        if not (steps > 0).all():
            return None
        return np.concatenate([self.hours[:1], self.hours[0] + np.cumsum(steps)])


@dataclass(frozen=True, eq=False)
class Setting:
    """What a policy is made for.

    Parameters
    ----------
    world
        The machine and its altitudes. A policy may look at the machine, not at the wind to come.
    past
        Wind before the test period, if there is any.
    context
        "hour": hour of the day as a number (the paper); "periodic": as an angle, so that 23 h is next to 0 h.
    hyperparameters
        "paper", or "fitted" on the past.
    prior_mean
        Expected wind speed; by default the mean of the past.
    fit
        Hyperparameters fitted before; see `fitted`.
    gauge_noise
        Standard deviation of the machine's wind measurements, m/s; None: `wind-planner` finds it out while flying.
    """

    world: WindWorld
    past: Past | None = None
    context: Literal["hour", "periodic"] = "hour"
    hyperparameters: Literal["paper", "fitted"] = "paper"
    prior_mean: float | None = None
    fit: hc.Fit | None = None
    gauge_noise: float | None = None

    def fitted(self) -> Setting:
        """Return the same with hyperparameters fitted now, once for all policies."""
        return replace(self, hyperparameters="fitted", fit=self._fit(self._kernel()))

    def learning(self) -> dict[str, Any]:
        """Return the options of the policies that learn the wind speed."""
        world = self.world
        noise_std: float = NOISE_VARIANCE**0.5
        kernel: Any = self._kernel()
        if self.hyperparameters == "fitted":
            fit = self.fit or self._fit(kernel)
            kernel, noise_std = fit.kernel, fit.noise_std
        mean = self.prior_mean
        if mean is None:
            mean = FALLBACK_MEAN if self.past is None else float(self.past.speed.mean())
        return {
            "kernel": kernel,
            "noise_std": noise_std,
            "prior_mean": mean,
            "contexts": HOURS_OF_DAY,
            "interval_map": world.energy_costs,
        }

    def _kernel(self) -> hc.Kernel:
        from sklearn.gaussian_process.kernels import RBF, ExpSineSquared

        shift, scale = hc.zscore(self.world.altitudes)
        hour_shift, hour_scale = hc.zscore(HOURS_OF_DAY)
        if self.context == "periodic":
            day = ExpSineSquared(LENGTH_SCALE, periodicity=24.0, periodicity_bounds="fixed")
            return hc.Kernel(RBF(LENGTH_SCALE), day, VARIANCE, shift, scale)
        return hc.Kernel(RBF(LENGTH_SCALE), RBF(LENGTH_SCALE), VARIANCE, shift, scale, hour_shift, hour_scale)

    def _fit(self, kernel: hc.Kernel) -> hc.Fit:
        if self.past is None:
            raise InvalidInput("hyperparameters='fitted' needs a history to fit them to; give a history file or period")
        hours, altitudes = self.past.speed.shape
        random = np.random.default_rng(0)
        taken = np.sort(random.choice(hours * altitudes, min(FITTED_RECORDS, hours * altitudes), replace=False))
        when, where = np.divmod(taken, altitudes)
        return hc.fit_kernel(
            self.world.problem, where, self.past.hours[when], self.past.speed[when, where], kernel=kernel
        )


Maker: TypeAlias = Callable[[Setting], hc.Policy]


def register(
    name: str, *, context: Literal["hour", "time"] = "hour", on_request: bool = False
) -> Callable[[Maker], Maker]:
    """Add a policy of your own to wind backtests, under this name; used as a decorator.

    Parameters
    ----------
    context
        Context of the policy: the "hour" of the day, as in the paper, or the "time" in hours since 1970.
    on_request
        Whether the policy is flown only if a plan names it.
    """

    def add(maker: Maker) -> Maker:
        sentence = (maker.__doc__ or "").strip().partition("\n")[0]
        known = registry.TABLE.get(name) or registry.Entry(name, name, sentence, "measurements")
        makers = {**known.makers, "wind": maker}
        registry.add(replace(known, makers=makers, context=context, on_request=on_request))
        return maker

    return add


def policy_of(name: str) -> Maker:
    """Return what makes the policy of this name."""
    return registry.entry_of(name, "wind").maker("wind")


def flown_by_default() -> list[str]:
    """Return the policies of a backtest where nobody names any, in the order of the table."""
    return [name for name in registry.names("wind") if not registry.TABLE[name].on_request]


def contexts_of(name: str, world: WindWorld) -> Array:
    """Return what a policy of the table is shown in each round, (t,)."""
    return world.moments if registry.entry_of(name, "wind").context == "time" else world.hours


def fixed(setting: Setting) -> hc.Policy:
    """The altitude that would have made most in the past: what an engineer would choose without a controller."""
    if setting.past is None:
        raise InvalidInput("the fixed altitude is the best one in the history; give a history file or period")
    return hc.fixed_at(setting.world.problem, setting_index=best_altitude(setting.world, setting.past.speed))


def best_altitude(world: WindWorld, speed: Array) -> int:
    """Return the altitude (index) at which wind of this speed, (t, n), makes most."""
    best = hc.best_fixed(-world.curve.power(speed), world.problem)
    assert best is not None  # power is finite
    return best


def wind_planner(setting: Setting) -> hc.Policy:
    """Return a wind filter with a 12-hour plan, and caution chosen on history."""
    from holdcourse.wind.policy.planner import wind_planner as make  # compiled code that only this policy needs

    return make(setting)


def stationary(setting: Setting) -> hc.Policy:
    """Stay at the altitude where the run begins."""
    return hc.stationary(setting.world.problem)


def gp_md(setting: Setting) -> hc.Policy:
    """The paper's algorithm: learns the wind where it flies, and moves if it expects that to pay."""
    return hc.gp_md(setting.world.problem, **setting.learning())


def cgp_lcb(setting: Setting) -> hc.Policy:
    """Fly where the bounds learned promise most, whatever the move costs."""
    return hc.cgp_lcb(setting.world.problem, **setting.learning())


def planner(setting: Setting) -> hc.Policy:
    """Plan on what it has learned of every hour of the day."""
    return hc.planner(setting.world.problem, period=24.0, **setting.learning())


def md_known(setting: Setting) -> hc.Policy:
    """Mirror descent that sees this hour's wind at every altitude."""
    return hc.md_known(setting.world.problem)


def minc_known(setting: Setting) -> hc.Policy:
    """The best altitude of every hour, whatever the move costs."""
    return hc.minc_known(setting.world.problem)
