r"""The wind filter as a cost model: from the wind at the machine to the expected energy at every altitude.

The wind is what is usual plus a Gaussian process in time: `Candidates`, of which one leads. What a rule sees is the
expected energy through the power curve, by Gauss-Hermite quadrature of

.. math:: E(x, h) = \int P(v)\, N(v; \mu(x, h), \sigma(x, h)^2)\, dv,

less than the largest one of the hour. The power curve bends, so this is not the power of the expected wind: where it is
convex (weak wind) variance is worth something, near rated speed it costs.

**Numerical weather forecasts** arrive as an `hc.Outlook`. The filter estimates their mean squared error s^2 at each
lead from its measurements. The trust in a lead is the share of the filter's own variance v that the forecast would
remove, max(0, 1 - s^2/v), and the mean moves by that share from the filter's prediction to the forecast. A forecast
that was no better than the filter is ignored.

**What an altitude is worth** in the long run, energy a round, begins with what the history made there and goes on as a
mean over all rounds, with the energy that the filter expects of each altitude in every round flown. Each climate has
its own account, by what it expects itself: one that takes the lead later brings nothing of what the one before
believed. A plan ends where it pays to settle by that (`settled_costs`): for a day, and the longer the more rounds the
mean is of.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import Estimate
from holdcourse.wind.physics import EnergyCosts, PowerCurve
from holdcourse.wind.policy.candidates import CandidateFilter
from holdcourse.wind.policy.profiles import forecast_rows, profile_at

Array: TypeAlias = NDArray[np.float64]

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
REMEMBERED = 72  # measurements that forecasts are compared with
PRIOR_ROUNDS = 6.0  # the error of a forecast begins as if so many had been seen with the error that it claims ...
CLAIMED = 0.5  # ... or, if it claims none, with this share of the filter's variance
POOLED = 2  # leads that far apart are taken to be alike
SETTLING = (24.0, 0.02)  # hours that a plan settles for at its end: at first, and more for every hour known


def expected_power(curve: PowerCurve, mean: Array, std: Array) -> Array:
    """Return the power expected where the wind has this mean and deviation."""
    winds = np.maximum(mean[..., None] + std[..., None] * POINTS, 0.0)  # (..., n, points)
    if curve.altitudes is not None:  # a family's altitudes are the last axis
        return np.asarray(np.moveaxis(curve.power(np.moveaxis(winds, -1, 0)), 0, -1) @ WEIGHTS)
    return np.asarray(curve.power(winds) @ WEIGHTS)


def settled_energy(worth: Array, known: Array, interval: float) -> Array:
    """Return what settling at each altitude makes less than at the best one, (..., n).

    By what a round of `interval` hours is worth at each, (..., n), and how many rounds that is known from, (...).
    """
    rounds = SETTLING[0] / interval + SETTLING[1] * known
    return np.asarray(rounds[..., None] * (worth.max(axis=-1, keepdims=True) - worth))


class WindModel(Protocol):
    """What is believed of the wind before the first measurement. Contexts are hours since 1970."""

    def __call__(self, hours: Array) -> Array:
        """Return the usual wind at k hours, (k, n)."""
        ...

    def posterior(self, problem: hc.Problem) -> hc.Posterior | CandidateFilter:
        """Return the anomalies, wind less what is usual, as a process over altitudes and time."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what it is, in JSON values."""
        ...


class ExpectedEnergy:
    """Cost model of altitudes: the expected energy of the best altitude of the hour less that of each altitude, kWh.

    Parameters
    ----------
    wind
        Model of the wind: usual wind and anomalies.
    problem
        The altitudes.
    curve
        The machine.
    scale
        Energy of one round per unit of power: length of a round in hours times rho.
    worth, known
        Energy of a round at each altitude in the long run, as believed at first, in each climate of the wind, (c, n),
        and how many rounds that comes from, (c,). None: a plan may end anywhere.
    interval
        Length of a round in hours.
    """

    needs_costs = False

    def __init__(
        self,
        wind: WindModel,
        problem: hc.Problem,
        curve: PowerCurve,
        scale: float,
        worth: ArrayLike | None = None,
        known: ArrayLike = 0.0,
        interval: float = 1.0,
    ) -> None:
        if not (np.isfinite(scale) and scale > 0):
            raise InvalidInput(f"scale must be positive, got {shown(scale)}")
        self.wind = wind
        self.problem = problem
        self.posterior = wind.posterior(problem)
        self.curve = curve
        self.scale = float(scale)
        self.interval = float(interval)
        self._told = np.full((REMEMBERED, 3), np.nan)  # time, action, speed; newest first
        self._worth = None if worth is None else np.array(np.atleast_2d(np.asarray(worth, dtype=np.float64)))
        if self._worth is not None:
            begun = np.broadcast_to(np.asarray(known, dtype=np.float64), self._worth.shape[:1])
            if self._worth.shape[1] != problem.n or not (np.isfinite(self._worth).all() and (begun > 0).all()):
                raise InvalidInput(f"worth must be {problem.n} numbers for each climate, of more than 0 rounds known")
            self._known = np.array(begun)
        self._described = None if self._worth is None else [*self._worth.ravel().tolist(), *self._known.tolist()]

    def settled_costs(self) -> Array:
        """Return the energy that is lost by settling at each altitude after a plan instead of the best one, (n,)."""
        if self._worth is None:
            return np.zeros(self.problem.n)
        return settled_energy(self._worth[self._climate], self._known[self._climate], self.interval)

    @property
    def _climate(self) -> int:
        return self.posterior.climate if isinstance(self.posterior, CandidateFilter) else 0

    @property
    def notice(self) -> str:
        """Notice for people about what was found while flying; empty if there is nothing."""
        return self.posterior.notice if isinstance(self.posterior, CandidateFilter) else ""

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Return the costs of every altitude at this hour."""
        anomaly, std = self.posterior.predict(context)
        mean = anomaly + self.wind(np.reshape(context, -1))[0]
        costs = self._costs(mean, std)
        return Estimate(costs, costs, mean, std)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Return the costs at each of k hours, (k, n)."""
        return self._costs(*self._predicted(contexts))

    def costs_at_outlook(self, contexts: ArrayLike, outlook: hc.Outlook) -> Array:
        """Return the costs at each of k hours, (k, n), given what forecasts say of them."""
        return self._costs(*self._blended(*self._predicted(contexts), outlook))

    def _predicted(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Return the mean and deviation of the wind at each of k hours, all at once."""
        anomaly, std = self.posterior.predict_at(contexts)
        return anomaly + self.wind(np.reshape(np.asarray(contexts, dtype=np.float64), -1)), std

    def _costs(self, mean: Array, std: Array) -> Array:
        made = expected_power(self.curve, mean, std)
        return np.asarray(self.scale * (made.max(axis=-1, keepdims=True) - made))

    def _blended(self, mean: Array, std: Array, outlook: hc.Outlook) -> tuple[Array, Array]:
        """Return the prediction and forecast, as far as the forecasts were right so far."""
        mean, variance = mean.copy(), std**2
        squares, counts = self._forecast_errors(outlook.said)
        for k, lead in enumerate(outlook.leads.tolist()):
            if lead == 0:
                continue
            near = slice(max(0, lead - 1 - POOLED), lead + POOLED)
            own = outlook.std[k]
            claimed = own * own if np.isfinite(own) else CLAIMED * variance[k]
            seen = counts[near].sum() / len(counts[near])  # neighbours tell about each other: not as many rounds more
            measured = squares[near].sum() / max(counts[near].sum(), 1.0)
            error = (PRIOR_ROUNDS * claimed + seen * measured) / (PRIOR_ROUNDS + seen)
            trust = np.maximum(0.0, 1.0 - error / variance[k])
            mean[k] += trust * (outlook.values[k] - mean[k])
            variance[k] *= 1.0 - trust
        return mean, np.sqrt(variance)

    def _forecast_errors(self, said: Array) -> tuple[Array, Array]:
        """Sum the squared errors of the forecasts, and count them, for each lead; (leads,) and (leads,)."""
        squares, counts = np.zeros(said.shape[1] - 2), np.zeros(said.shape[1] - 2)
        for time, action, speed in self._told[np.isfinite(self._told[:, 0])]:
            for row in said[(said[:, 0] == time) & (said[:, 1] == action), 2:]:
                known = np.isfinite(row)
                squares[known] += (row[known] - speed) ** 2
                counts[known] += 1.0
        return squares, counts

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Learn the wind speed measured at an altitude; hours may be missing, but never go back."""
        self.problem.check_action(action)
        self.posterior.predict(context)  # refuses a context that is no time, or one that has passed
        hour = float(np.reshape(context, -1)[0])
        if self._worth is not None and hour != self._told[0, 0]:
            made = self.scale * expected_power(self.curve, *self._expected_by_each(hour))
            self._known = self._known + 1.0
            self._worth = self._worth + (made - self._worth) / self._known[:, None]
        usual = float(self.wind(np.array([hour]))[0, action])
        self.posterior.condition(action, hour, measurement - usual)
        if hour != self._told[0, 0]:  # of a profile, what was measured where the machine is, which comes first
            newest = [hour, float(action), float(measurement)]
            self._told = np.vstack([newest, self._told[:-1]])
        return 1.0

    def _expected_by_each(self, hour: float) -> tuple[Array, Array]:
        """Return the mean and deviation of the wind as each climate has them, (c, n) and (c, n)."""
        if isinstance(self.posterior, CandidateFilter):
            return self.posterior.predict_each(hour)
        return self._predicted([hour])

    def context_at(self, hours: float) -> float:
        """Give the context of a time: hours since 1970, UTC."""
        return float(hours)

    def readings_of(self, heights: ArrayLike, values: ArrayLike) -> list[tuple[int, float]]:
        """Turn a profile of the wind into readings of the altitudes that lie within it."""
        speeds = profile_at(self.problem.actions[:, 0], heights, values)
        return [(int(action), float(speeds[action])) for action in np.flatnonzero(np.isfinite(speeds))]

    def forecast_of(self, said: Mapping[str, Any], now: float, interval: float) -> list[list[float]]:
        """Turn a forecast of profiles into rows of speeds at the altitudes, for the rounds to come."""
        return forecast_rows(said, self.problem.actions[:, 0], now, interval)

    def price(self) -> Callable[[float], float]:
        """Return the function from a wind speed to the cost of its round: minus the energy made."""
        return EnergyCosts(self.curve, self.scale).cost_of

    def new_episode(self) -> None:
        """Change nothing: the wind goes on from one episode to the next."""

    def in_lockstep(self, count: int) -> Any:
        """Make copies that are computed together; None for filters of earlier versions, which cannot be."""
        if self._worth is None or not isinstance(self.posterior, CandidateFilter):
            return None
        from holdcourse.wind.policy.lockstep import WindsTogether  # compiled code that only a fleet needs

        return WindsTogether(self, count)

    def copy(self) -> ExpectedEnergy:
        """Make an independent twin."""
        twin = copy.copy(self)  # what the wind and the machine are is shared
        twin.posterior = self.posterior.copy()
        twin._told = self._told
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the filter's arrays and the last measurements."""
        arrays = {f"posterior.{name}": array for name, array in self.posterior.state().items()} | {"told": self._told}
        return arrays if self._worth is None else arrays | {"worth": self._worth, "known": self._known}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> ExpectedEnergy:
        """Take over what `state` of an equal model gave."""
        if "told" not in arrays or np.shape(arrays["told"]) != self._told.shape:
            raise InvalidInput(f"this is not a saved state of a wind filter: it contains {sorted(arrays)}")
        account = [] if self._worth is None else self._account()
        if any(name not in arrays or arrays[name].shape != own.shape for name, own in account):
            raise InvalidInput(f"this is not a saved state of this wind filter: it contains {sorted(arrays)}")
        prefix = "posterior."
        self.posterior.restore({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
        self._told = np.array(arrays["told"], dtype=np.float64)
        if self._worth is not None:
            self._worth, self._known = (np.array(arrays[name], dtype=np.float64) for name, _ in self._account())
        return self

    def _account(self) -> list[tuple[str, Array]]:
        assert self._worth is not None
        return [("worth", self._worth), ("known", self._known)]

    def describe(self) -> dict[str, Any]:
        """Return what the model is, in JSON values."""
        return {
            "model": "ExpectedEnergy",
            "curve": self.curve.describe(),
            "scale": self.scale,
            "wind": self.wind.describe(),
            "anomalies": self.posterior.describe(),
        } | ({} if self._described is None else {"worth": self._described, "interval": self.interval})
