"""The policy that we would fly, `wind-planner`: a wind filter, a plan on its predictions, caution chosen on history.

**With history** the wind model is learned from it (`Climate`), and the plan has to be back at the altitude that made
most in the past by its end: it leaves only for what pays the whole way within the plan. How much more than the way a
move has to promise (the caution) is decided by replaying the policy over thirds of the history, each with a climate
learned from the other two, and comparing with staying at the altitude chosen on these. Unless the best caution beats
that by more than the standard error over the stretches replayed, the policy stays.

**Without history** the model is `GeneralWind`, which learns the site as it goes, and the caution is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse._numeric.wind_replay import PER_METRE_PER_SECOND, replay
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind.physics import PowerCurve, WindWorld
from holdcourse.wind.policy.climate import SHORTEST_HISTORY, Climate, GeneralWind, learn_climate, wind_from_data
from holdcourse.wind.policy.filter import POINTS, WEIGHTS, ExpectedEnergy
from holdcourse.wind.policy.policies import FALLBACK_MEAN, Past, Setting, best_altitude

Array: TypeAlias = NDArray[np.float64]

PLAN_HOURS = 12.0  # longer plans trust predictions that have faded
FEWEST_ROUNDS, MOST_ROUNDS = 4, 72  # of a plan, whatever the step
ANCHOR = 1.2  # times the way back: what ending a plan away from home costs; above 1, it comes back
CAUTIONS = (1.0, 1.5, 2.5)  # tried on history; 2.5 promises two and a half times the way
STAY = 1000.0  # caution that never leaves home
GENERAL_CAUTION = 1.5  # where there is no history to choose it on
FOLDS = 3
WINDOW = 480  # rounds that are replayed at a stretch
REPLAYED_ROUNDS = 8640  # at most, evenly spread over the history
WEEK_HOURS = 168.0
PIECE_WEEKS, FLOWN_ROUNDS = 10, 26_880  # flown again to see how gains vary: weeks at a stretch, and rounds at most
FASTEST = 80.0  # m/s, end of the power table


def wind_planner(setting: Setting) -> hc.Policy:
    """Return the policy for a setting; contexts are hours since 1970."""
    world, past = setting.world, setting.past
    times = None if past is None else past.moments
    if past is None or times is None or len(times) * _step(times) < SHORTEST_HISTORY:
        return _without_history(setting)
    try:
        climate = _climate(past, tuple(world.altitudes.tolist()))
    except InvalidInput:  # a history that no climate can be learned from, such as one of single hours
        return _without_history(setting)
    home = best_altitude(world, past.speed)
    trial = choose_caution(world, times, past.speed)
    begin, end = climate.describe()["from"][:10], climate.describe()["to"][:10]
    words = (
        f"Wind planner: a wind filter learned from {begin} to {end} with a {PLAN_HOURS:g}-hour plan around "
        f"{world.altitudes[home]:.0f} m. {climate.words} {trial.words}"
    )
    return _policy(world, climate, trial.caution, home, words)


def _without_history(setting: Setting) -> hc.Policy:
    world, past = setting.world, setting.past
    mean: float | Array = FALLBACK_MEAN if setting.prior_mean is None else setting.prior_mean
    known = f"wind of about {mean:.1f} m/s is expected at first"
    home: int | None = None
    if past is not None:
        mean, home = past.speed.mean(axis=0), best_altitude(world, past.speed)
        known = "what there is gives its mean profile and where to begin"
    words = (
        f"Wind planner: a wind filter that learns the site as it goes, with a {PLAN_HOURS:g}-hour plan. There is no "
        f"history that a climate could be learned from: {known}. A move has to promise {GENERAL_CAUTION:g} times what "
        "the way costs."
    )
    return _policy(world, GeneralWind(world.altitudes, mean), GENERAL_CAUTION, home, words)


def _policy(world: WindWorld, wind: Climate | GeneralWind, caution: float, home: int | None, words: str) -> hc.Policy:
    return planned(
        world.problem,
        wind=wind.to_data(),
        curve=world.curve.to_data(),
        scale=float(world.rho * world.step_hours),
        interval=float(world.step_hours),
        horizon=plan_rounds(world.step_hours),
        caution=float(caution),
        home=home,
        explanation=words,
    )


def planned(
    problem: hc.Problem,
    *,
    wind: Mapping[str, Any],
    curve: Mapping[str, Any],
    scale: float,
    interval: float,
    horizon: int,
    caution: float,
    home: int | None = None,
    explanation: str = "",
) -> hc.Policy:
    """Return the policy of a recipe: everything learned and chosen is given, in JSON values.

    Parameters
    ----------
    wind, curve
        As `to_data` of a climate or of `GeneralWind`, and of the machine's power curve, gave them.
    scale
        Energy of one round per unit of power: hours of a round times rho.
    interval, horizon, caution
        As in `Lookahead`.
    home
        The altitude (index) that a plan has to be back at; None: it may end anywhere.
    """
    if not 1 <= horizon <= MOST_ROUNDS:
        raise InvalidInput(f"a plan has 1 to {MOST_ROUNDS} rounds, got {horizon!r}")
    if len(wind["altitudes"]) != problem.n:
        raise InvalidInput(f"the wind is about {len(wind['altitudes'])} altitudes, and the problem has {problem.n}")
    if home is not None:
        problem.check_action(home)
    ending = None if home is None else ANCHOR * caution * problem.distances[:, home]
    rule = hc.Lookahead(
        problem, horizon=horizon, interval=interval, caution=caution, ending=ending, takes_forecasts=True
    )
    costs = ExpectedEnergy(wind_from_data(wind), problem, PowerCurve.from_data(curve), scale)
    options = {"wind": wind, "curve": curve, "scale": scale, "interval": interval, "horizon": horizon}
    options |= {"caution": caution, "home": home}
    name = registry.label_of("wind-planner")
    return hc.Policy(name, rule, costs, problem, ("wind-planner", options), explanation)


def plan_rounds(step_hours: float) -> int:
    """Return how many rounds a plan has."""
    return int(np.clip(round(PLAN_HOURS / step_hours), FEWEST_ROUNDS, MOST_ROUNDS))


@lru_cache(maxsize=4)  # a backtest asks again for every rho
def _climate(past: Past, altitudes: tuple[float, ...]) -> Climate:
    assert past.moments is not None
    return learn_climate(past.moments, past.speed, np.array(altitudes))


@dataclass(frozen=True)
class Trial:
    """What replaying the history showed.

    Attributes
    ----------
    caution
        The one that made most.
    gains
        Net energy above staying, in percent, for each caution tried; empty if the history was too short to try.
    error
        Standard error of the largest gain, over the stretches replayed.
    rounds
        How many were replayed.
    """

    caution: float
    gains: dict[float, float]
    error: float
    rounds: int

    @property
    def words(self) -> str:
        """Say in a sentence what was chosen, and why."""
        if not self.gains:
            return f"The history is too short to try how much caution pays; {self.caution:g} is taken."
        tried = ", ".join(f"{caution:g}: {gain:+.1f} %" for caution, gain in self.gains.items())
        said = f"Replayed over {self.rounds} rounds of history it made this more than staying, by caution: {tried}"
        if self.caution == STAY:
            return f"{said} (standard error of the best {self.error:.1f}); that is too little, so it stays."
        times = "" if self.caution == 1.0 else f"{self.caution:g} times "
        return f"{said}; a move has to promise {times}what the way costs."


def choose_caution(world: WindWorld, hours: Array, speed: Array) -> Trial:
    """Replay the policy over the past, (t,) and (t, n), with each caution, and take the one that made most."""
    step = _step(hours)
    edges = np.linspace(0, len(hours), FOLDS + 1).astype(int)
    more: list[list[float]] = []  # than staying, kWh; a row for each stretch, a column for each caution
    stayed, rounds = 0.0, 0
    for a, b in pairwise(edges.tolist()):
        rest = np.r_[0:a, b : len(hours)]
        try:
            climate = learn_climate(hours[rest], speed[rest], world.altitudes)
        except InvalidInput:  # two thirds are too little to learn from
            return Trial(GENERAL_CAUTION, {}, 0.0, 0)
        home = best_altitude(world, speed[rest])
        for part in _windows(hours[a:b], step, REPLAYED_ROUNDS // FOLDS):
            wind, begin = speed[a:b][part], float(hours[a:b][part][0])
            flown = Replayed(world, climate, wind, begin, step, home)
            more.append([flown.net(caution) - flown.stayed for caution in CAUTIONS])
            stayed += flown.stayed
            rounds += len(wind)
    if len(more) < 2 or not stayed > 0:
        return Trial(GENERAL_CAUTION, {}, 0.0, 0)
    table = 100 * np.array(more) / stayed
    gains, errors = table.sum(axis=0), table.std(axis=0, ddof=1) * len(table) ** 0.5
    best = int(np.argmax(gains))
    caution = CAUTIONS[best] if gains[best] > errors[best] else STAY
    return Trial(caution, dict(zip(CAUTIONS, gains.tolist(), strict=True)), float(errors[best]), rounds)


class Replayed:
    """A gapless stretch of past wind, (t, n), to fly through again from home."""

    def __init__(self, world: WindWorld, climate: Climate, speed: Array, begin: float, step: float, home: int) -> None:
        self.world, self.climate, self.speed, self.step, self.home = world, climate, speed, step, home
        self.rounds = plan_rounds(step)
        self._usual = climate(np.asarray(begin + step * np.arange(len(speed) + self.rounds)))
        self._scale = world.rho * step
        speeds = np.arange(FASTEST * PER_METRE_PER_SECOND) / PER_METRE_PER_SECOND
        self._power = self._scale * world.curve.tables(speeds)

    def actions(
        self,
        caution: float,
        start: int | None = None,
        *,
        lidar: bool = False,
        said: Array | None = None,
        errors: Array | None = None,
    ) -> NDArray[np.int64]:
        """Return the altitudes that the policy takes.

        Parameters
        ----------
        lidar
            The wind at all altitudes is measured after each round, not only where the machine was.
        said, errors
            What is wrong with forecasts of every round, in deviations, (t, n), and these, for each round of the plan.
        """
        moves = caution * self.world.problem.distances
        climate = self.climate
        flown: NDArray[np.int64] = replay(
            self.speed,
            self._usual,
            climate.modes,
            climate.variances,
            np.exp(-self.step / climate.time_scales),
            climate.unexplained**2,
            self._power,
            POINTS,
            WEIGHTS,
            moves,
            ANCHOR * moves[:, self.home],
            self.rounds,
            self.home if start is None else start,
            lidar,
            np.empty((0, self.speed.shape[1])) if said is None else said,
            np.zeros(self.rounds) if errors is None else errors,
        )
        return flown

    def net(self, caution: float) -> float:
        """Return the energy made less energy lost to moving, kWh."""
        actions = self.actions(caution)
        energy = self._scale * self.world.curve.power(self.speed)[np.arange(len(actions)), actions]
        before = np.append(self.home, actions[:-1])
        return float(energy.sum() - self.world.problem.distances[before, actions].sum())

    def hourly(self, caution: float) -> Array:
        """Return the same of every round, kWh, (t,)."""
        actions = self.actions(caution)
        energy = self._scale * self.world.curve.power(self.speed)[np.arange(len(actions)), actions]
        net: Array = energy - self.world.problem.distances[np.append(self.home, actions[:-1]), actions]
        return net

    @property
    def home_energy(self) -> Array:
        """Energy made at home in every round, kWh, (t,)."""
        energy: Array = self._scale * self.world.curve.power(self.speed)[:, self.home]
        return energy

    @property
    def stayed(self) -> float:
        """Energy made at home."""
        return float(self._scale * self.world.curve.power(self.speed)[:, self.home].sum())


def past_weeks(setting: Setting, policy: hc.Policy) -> list[tuple[Array, Array]]:
    """Fly a wind planner again over its history: what it and staying made in every week, kWh, in pieces.

    Each piece is of `PIECE_WEEKS` without a gap, flown with a climate learned from the other two thirds. Of a long
    history some are flown, evenly spread. Empty where there is no history that a climate can be learned from.
    """
    world, past = setting.world, setting.past
    options = {} if policy.made_by is None else policy.made_by[1]
    times = None if past is None else past.moments
    if past is None or times is None or len(times) < 2 or options.get("home") is None:
        return []
    step, caution = _step(times), float(options["caution"])
    week = max(1, round(WEEK_HOURS / step))
    rounds = PIECE_WEEKS * week
    edges = np.linspace(0, len(times), FOLDS + 1).astype(int)
    found = []
    for fold, (a, b) in enumerate(pairwise(edges.tolist())):
        cuts = np.flatnonzero(np.abs(np.diff(times[a:b]) - step) > 0.01 * step) + 1
        for k, stop in zip(np.append(0, cuts), np.append(cuts, b - a), strict=True):
            found += [(fold, a + begin) for begin in range(int(k), int(stop) - rounds + 1, rounds)]
    most = max(1, FLOWN_ROUNDS // rounds)
    if len(found) > most:
        found = [found[k] for k in np.linspace(0, len(found) - 1, most).round().astype(int)]
    pieces = []
    for fold, begin in found:
        rest = np.r_[0 : edges[fold], edges[fold + 1] : len(times)]
        try:
            climate = _climate_without(past, tuple(world.altitudes.tolist()), fold)
        except InvalidInput:  # two thirds are too little to learn from
            return []
        home = best_altitude(world, past.speed[rest])
        flown = Replayed(world, climate, past.speed[begin : begin + rounds], float(times[begin]), step, home)
        pieces.append(
            (flown.hourly(caution).reshape(-1, week).sum(axis=1), flown.home_energy.reshape(-1, week).sum(axis=1))
        )
    return pieces


@lru_cache(maxsize=2 * FOLDS)  # the same at every rho
def _climate_without(past: Past, altitudes: tuple[float, ...], fold: int) -> Climate:
    times = past.moments
    assert times is not None
    edges = np.linspace(0, len(times), FOLDS + 1).astype(int)
    rest = np.r_[0 : edges[fold], edges[fold + 1] : len(times)]
    return learn_climate(times[rest], past.speed[rest], np.array(altitudes))


def _step(hours: Array) -> float:
    return float(np.median(np.diff(hours))) if len(hours) > 1 else 0.0


def _windows(hours: Array, step: float, most: int) -> list[slice]:
    """Return the gapless stretches of up to `WINDOW` rounds, evenly spread, of at most `most` rounds together."""
    cuts = np.flatnonzero(np.abs(np.diff(hours) - step) > 0.01 * step) + 1
    found = []
    for a, b in zip(np.append(0, cuts), np.append(cuts, len(hours)), strict=True):
        found += [slice(k, min(k + WINDOW, int(b))) for k in range(int(a), int(b), WINDOW)]
    long_enough = [part for part in found if (part.stop - part.start) * step >= 2 * PLAN_HOURS]
    count = max(1, most // WINDOW)
    if len(long_enough) <= count:
        return long_enough
    return [long_enough[k] for k in np.linspace(0, len(long_enough) - 1, count).round().astype(int)]
