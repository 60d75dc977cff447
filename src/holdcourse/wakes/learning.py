r"""Learning on top of the wake model, `wake-learner`: the table is the prior mean, farm power corrects it.

What is measured is what SCADA has: the farm's power in the interval less what the model says that it would have made
without steering in the wind of that interval, as a share of what it would make without any wakes (`power_surplus`).
Wind speeds that are measured wrong can be made up for by a reference turbine that stands in no wake. In context c at
setting y the expected surplus is

.. math:: s = \beta(c) + (1 + a(c))\,(g(c, y) + l(c, y)) - (1 + b)\,l(c, y)

=========  ============================================================================================================
symbol     meaning
=========  ============================================================================================================
g          what the model gains by the setting, as a share of the power without wakes
l          the share that the offsets cost the turbines themselves: the loss at directions where no wake is steered
a          by how much the model is wrong about what steering gives to others; one number for each 15 degrees
b          the same about what it takes, one number
\beta      by how much the model is wrong without steering, for each 5 degrees; no decision depends on it
=========  ============================================================================================================

All of these are unknown numbers with a Gaussian prior around 0, and the measurement is linear in them, so what is
believed after any number of rounds is a Gaussian again: Bayesian linear regression. Once a week the plan is made anew
with what is believed then.

**The promise.** The same belief says what steering has gained so far, and how wrong that may be. When its lower bound,
net of wear and with what `at_most` allows added, is below 0 at the beginning of a week, the farm does not steer in that
week.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, shown
from holdcourse.wakes.drift import Drift
from holdcourse.wakes.planning import SIGN, PlanAhead, PlannedEnergy, steering_problem
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]

NAME = "wake-learner"
SECTORS, FINE = 24, 72  # of the circle: for what steering gives, and for what is wrong without it
GIVES, TAKES, ALONE = 0.2, 0.15, 0.05  # prior deviations of a, b and beta; wider ones follow the noise
NOISE = 0.1  # of a surplus over ten minutes, before any was seen
NOISE_ROUNDS = 200.0  # as if so many had been seen with it
FAR_OFF = 5.0  # deviations: a surplus farther off is no measurement of wakes
WEEK = 168.0  # hours between two plans
WIDTH = 2.0  # deviations of the lower bound on what was gained
AT_MOST = 0.002  # of the energy without steering


def power_surplus(
    table: EnergyTable, power: ArrayLike, direction: ArrayLike, speed: ArrayLike, reference: ArrayLike = 1.0
) -> Array:
    """Return the power of a farm above its model without steering, as a share of its power without wakes.

    NaN in a calm: skip such rounds.

    Parameters
    ----------
    power
        Power of the farm, kW, in k intervals.
    direction, speed
        Direction and speed of the wind in these intervals, degrees and m/s.
    reference
        Measured power divided by expected power of a turbine that is in no wake and does not steer, if there is one;
        above 1 if the wind is stronger than measured.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.wakes.power_surplus(hc.wakes.bundled_table(), [2950.0], [200.0], [8.0]).round(3).tolist()
    [0.023]
    """
    d, u = (np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (direction, speed))
    alone = table.power_at(d, u, np.zeros(len(d), dtype=np.int64))
    free = np.interp(u, table.speeds, wakeless(table), left=0.0)
    made = np.atleast_1d(np.asarray(power, dtype=np.float64)) / np.asarray(reference, dtype=np.float64)
    return np.asarray(np.where(free > 0, (made - alone) / np.maximum(free, 1e-9), np.nan))


def wakeless(table: EnergyTable) -> Array:
    """Return the farm's power without wakes, kW, (S,): that of the best direction at each speed."""
    return np.asarray(table.planned[:, :, 0].max(axis=0))


class LearnedEnergy(PlannedEnergy):
    """Expected energy by a wake model that measurements correct, and the plan on it, kWh.

    Parameters
    ----------
    table, drift, problem, longest
        As in `PlannedEnergy`.
    at_most
        Share of the energy without steering that steering may have lost, wear included.
    """

    def __init__(
        self,
        table: EnergyTable,
        drift: Drift,
        problem: hc.Problem,
        longest: float | None = None,
        at_most: float = AT_MOST,
    ) -> None:
        super().__init__(table, drift, problem, longest)
        if not (np.isfinite(at_most) and at_most >= 0):
            raise InvalidInput(f"at_most must be a share of the energy, 0 or more, got {shown(at_most)}")
        self.at_most = float(at_most)
        free = np.maximum(wakeless(table), 1e-9)[None, :, None]
        gained = (table.planned - table.planned[:, :, :1]) / free
        # At most directions nobody stands in a wake that a setting steers: the usual gain there is what it takes.
        lost = np.maximum(-np.median(gained, axis=0, keepdims=True), 0.0)
        self._free, self._given = free, gained + lost
        self._lost = np.ascontiguousarray(np.broadcast_to(lost, gained.shape))
        self._features: dict[int, tuple[Array, ...]] = {}
        prior = np.concatenate([np.full(SECTORS, GIVES), [TAKES], np.full(FINE, ALONE)])
        self._precision, self._weighted = np.diag(prior**-2.0), np.zeros(len(prior))
        self._planned_with: Array = np.zeros(len(prior))
        self._sums = np.zeros(SECTORS + 1)  # energy given by sector, and taken, by the model: what was steered so far
        # Rounds, energy without steering, wear, squared errors, their number, last setting, resting (1) or not.
        self._account = np.array([0.0, 0.0, 0.0, NOISE**2 * NOISE_ROUNDS, NOISE_ROUNDS, 0.0, 0.0])

    def _gain(self) -> Array:
        gives = 1.0 + np.maximum(_hats(self.table.directions, SECTORS) @ self._planned_with[:SECTORS], -1.0)
        takes = 1.0 + max(float(self._planned_with[SECTORS]), -0.9)
        return np.asarray(self._free * (gives[:, None, None] * self._given - takes * self._lost))

    def _expected_features(self, season: int) -> tuple[Array, ...]:
        """Return shares given and taken, the same in kW, and power without steering, as expected from every context."""
        if season not in self._features:
            alone = np.ascontiguousarray(self.table.planned[:, :, :1])
            parts = (self._given, self._lost, self._free * self._given, self._free * self._lost, alone)
            self._features[season] = tuple(self.drift.expect(part, season) for part in parts)
        return self._features[season]

    def onward(self, context: Any) -> Array:
        """Return the cost of choosing each setting now, and of what follows, (n,)."""
        if self._account[6]:  # resting: what counts is how many rounds it takes to come home
            return np.asarray(1e6 * self._rounds_home + np.asarray(self.problem.distances)[:, 0])
        return super().onward(context)

    @property
    def rounds_ahead(self) -> int:
        """About how many rounds count; 0 while the farm rests, since then nothing is weighed."""
        return 0 if self.resting else super().rounds_ahead

    @cached_property
    def _rounds_home(self) -> Array:
        """Rounds that it takes from each setting to no steering, as far as nacelles can turn in each, (n,)."""
        reachable = np.isfinite(self.moves)
        rounds = np.full(len(reachable), float(len(reachable)))
        rounds[0], near, count = 0.0, np.arange(len(reachable)) == 0, 0
        while True:
            count += 1
            more = reachable[:, near].any(axis=1) & ~near
            if not more.any():
                return rounds
            rounds[more], near = count, near | more

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a surplus of power; returns its weight, 0 where it is too far off to be one of wakes."""
        super().learn(action, context, measurement)
        if not np.isfinite(measurement):
            raise InvalidInput(
                f"a measurement must be a finite share of power, got {shown(measurement)}; if nothing was measured, "
                "skip the round"
            )
        row = np.reshape(np.asarray(context, dtype=np.float64), -1)
        given, lost, given_kw, lost_kw, alone = self._read(self._expected_features, row)
        hats, fine = _hats(row[:1], SECTORS)[0], _hats(row[:1], FINE)[0]
        phi = np.concatenate([hats * given[action], [-lost[action]], fine])
        usual = float(given[action] - lost[action])
        error = measurement - usual - float(phi @ self._planned_with)
        variance = self._account[3] / self._account[4]
        weight = 1.0 if abs(error) <= FAR_OFF * np.sqrt(variance) and alone[0] > 0 else 0.0
        if weight:
            there = np.flatnonzero(phi)  # a few of a hundred
            self._precision[np.ix_(there, there)] += np.outer(phi[there], phi[there]) / variance
            self._weighted[there] += phi[there] * (measurement - usual) / variance
        wear = self.problem.distance(int(self._account[5]), action)
        steered = np.concatenate([hats * given_kw[action], [-lost_kw[action]]])
        self._sums = self._sums + self.drift.hours * steered
        energy = float(alone[0]) * self.drift.hours
        self._account = self._account + np.array([1.0, energy, wear, weight * error**2, weight, 0.0, 0.0])
        self._account[5] = action
        if int(self._account[0]) % max(1, round(WEEK / self.drift.hours)) == 0:
            self._plan_anew()
        return weight

    def _plan_anew(self) -> None:
        """Take over what is believed by now, and look whether the promise lets the farm steer."""
        self._planned_with = np.asarray(np.linalg.solve(self._precision, self._weighted), dtype=np.float64)
        self._costs, self._plans = {}, {}
        gained, doubt = self.gained()
        allowed = self.at_most * self._account[1]
        self._account = self._account.copy()
        self._account[6] = float(gained - WIDTH * doubt - self._account[2] + allowed < 0)

    def gained(self) -> tuple[float, float]:
        """Return what steering is believed to have gained so far, kWh, wear not counted, and the deviation of that."""
        part = slice(0, SECTORS + 1)
        mean = np.linalg.solve(self._precision, self._weighted)[part]
        covariance = np.linalg.inv(self._precision)[part, part]
        return float(self._sums @ (1.0 + mean)), float(np.sqrt(self._sums @ covariance @ self._sums))

    @property
    def resting(self) -> bool:
        """Whether the promise keeps the farm from steering this week."""
        return bool(self._account[6])

    def correction(self) -> tuple[Array, Array]:
        """Return by how much the model is believed to be wrong about what steering gives: sectors' middles, shares."""
        believed = np.linalg.solve(self._precision, self._weighted)
        return np.arange(SECTORS) * 360.0 / SECTORS, np.asarray(believed[:SECTORS])

    def copy(self) -> LearnedEnergy:
        """Make an independent twin."""
        twin = LearnedEnergy(self.table, self.drift, self.problem, self.longest, self.at_most)
        twin._features = self._features  # what the model says is the same for both
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what was learned."""
        return {
            "precision": self._precision.copy(),
            "weighted": self._weighted.copy(),
            "planned_with": self._planned_with,
            "sums": self._sums,
            "account": self._account,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> LearnedEnergy:
        """Take over what `state` of an equal model gave."""
        known = self.state()
        if set(arrays) != set(known) or any(np.shape(arrays[name]) != known[name].shape for name in known):
            raise InvalidInput(f"this is not a saved state of a wake learner: it contains {sorted(arrays)}")
        taken = {name: np.array(arrays[name], dtype=np.float64) for name in known}
        self._precision, self._weighted = taken["precision"], taken["weighted"]
        if not np.array_equal(taken["planned_with"], self._planned_with):
            self._costs, self._plans = {}, {}
        self._planned_with, self._sums, self._account = taken["planned_with"], taken["sums"], taken["account"]
        return self

    def describe(self) -> dict[str, Any]:
        """Return what the model is, in JSON values."""
        return super().describe() | {"model": "LearnedEnergy", "at_most": self.at_most}


def _hats(direction: ArrayLike, sectors: int) -> Array:
    """Return how much each of k directions belongs to each sector, (k, sectors): hats that add up to 1."""
    place = (np.asarray(direction, dtype=np.float64) % 360.0) / (360.0 / sectors)
    apart = np.abs(place[:, None] - np.arange(sectors))
    return np.asarray(np.maximum(1.0 - np.minimum(apart, sectors - apart), 0.0))


def learning(
    problem: hc.Problem,
    *,
    table: Mapping[str, Any],
    drift: Mapping[str, Any],
    longest: float | None = None,
    at_most: float = AT_MOST,
) -> hc.Policy:
    """Return the policy of a recipe: everything learned beforehand is given, in JSON values."""
    costs = LearnedEnergy(EnergyTable.from_data(table), Drift.from_data(drift), problem, longest, at_most)
    options = {"table": table, "drift": drift, "longest": longest, "at_most": at_most}
    words = (
        f"Wake learner: {problem.n} offset vectors, planned on the energy that is expected over what the wind does "
        "next, by a wake model that the farm's own power corrects. Steering may have lost at most "
        f"{100 * at_most:g} % of the energy without it, wear included. {SIGN} {costs.table.words}"
    )
    return hc.Policy(registry.label_of(NAME), PlanAhead(problem, longest), costs, problem, (NAME, options), words)


def wake_learner(
    table: EnergyTable,
    drift: Drift,
    price: float | str | ArrayLike = 0.5,
    *,
    kwh_price: float | None = None,
    longest: float | None = None,
    at_most: float = AT_MOST,
) -> hc.Policy:
    """Return the policy that plans with an energy table and corrects it by the farm's measured power.

    Parameters
    ----------
    price, kwh_price, longest
        As in `wake_planner`.
    at_most
        Share of the energy without steering that steering may have lost, wear included.
    """
    problem = steering_problem(table, price, kwh_price=kwh_price)
    return learning(problem, table=table.to_data(), drift=drift.to_data(), longest=longest, at_most=at_most)
