"""The policy that we would fly, `wind-planner`: a wind filter, a plan on its predictions, and a caution.

**The wind model** is that of `Candidates`: a climate learned from the history, next to the climate that holds at any
site. Without a history, or with one of less than six weeks, which would take the weather of some days for the site, it
is the general climate alone.

**The plan** ends where it pays to settle in the long run, according to the energy that every altitude made in the
history and is estimated to have made since. So the machine leaves for an altitude that pays for the whole trip within
the plan. If the history was short or of another season, the altitude to which it returns changes as more is known.

**Caution** is the factor by which the expected gain of a move must exceed its cost. It is 1, unless a replay of the
policy over thirds of the history, each with a climate learned from the other two, supports another value by more than
two standard errors over the periods replayed. The replay uses the machine's own curve.

All lengths are hours, whatever the step of the data. Data finer than an hour are replayed as hourly means, which gives
the same caution in a thirtieth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse._numeric.wind_replay import PER_METRE_PER_SECOND, replay
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, shown
from holdcourse.wind.physics import PowerCurve, WindWorld
from holdcourse.wind.policy.candidates import Candidates
from holdcourse.wind.policy.climate import (
    GENERAL_HOURS,
    GENERAL_MEAN,
    STRANGE,
    Climate,
    GeneralWind,
    climate_from_data,
    general_climate,
    general_from_data,
    learn_climate,
    strangeness,
)
from holdcourse.wind.policy.filter import POINTS, SETTLING, WEIGHTS, ExpectedEnergy, expected_power
from holdcourse.wind.policy.policies import Past, Setting, best_altitude

Array: TypeAlias = NDArray[np.float64]

PLAN_HOURS = 12.0  # longer plans trust predictions that have faded
FEWEST_ROUNDS, MOST_ROUNDS = 4, 72  # of a plan, whatever the step
ANCHOR = 1.2  # times the way to where it settles: what ending a plan away from there costs; above 1, it comes back
CAUTIONS = (1.0, 1.5, 2.5, 5.0)  # tried on history; 2.5 promises two and a half times the way
USUAL_CAUTION = CAUTIONS[0]  # unless the history speaks for another
GENERAL_KNOWN = 168.0  # hours that count as known of what altitudes are worth, from the model alone
FOLDS, FEWEST_STRETCHES = 3, 6  # of the history that are replayed
WINDOW = 960.0  # hours that are replayed at a stretch; in less, little is learned of the site
REPLAYED_HOURS = 8640.0  # at most, evenly spread over the history
WEEK_HOURS = 168.0
PIECE_WEEKS, FLOWN_HOURS = 10, 26_880.0  # flown again to see how gains vary: weeks at a stretch, and hours at most
FASTEST = 80.0  # m/s, end of the power table
CLEAR = 2.0  # standard errors that another caution than the usual one has to be better by
SAMPLED = 400  # hours at which the usual wind is asked, to average over


def wind_planner(setting: Setting) -> hc.Policy:
    """Make `wind-planner` for a setting; its contexts are hours since 1970."""
    world, past = setting.world, setting.past
    times = None if past is None else past.moments
    if past is None or times is None or len(times) * _step(times) < GENERAL_HOURS:
        return _without_history(setting)
    try:
        climate = _climate(past, tuple(world.altitudes.tolist()))
    except InvalidInput:  # a history that no climate can be learned from, such as one of single hours
        return _without_history(setting)
    mean = past.speed.mean(axis=0)
    if strangeness(world.altitudes, mean, len(times) * _step(times)) > STRANGE:
        lowest, highest = world.altitudes[0], world.altitudes[-1]
        return _without_history(
            setting,
            f"The history is set aside: its mean wind, {mean[0]:.1f} m/s at {lowest:.0f} m and {mean[-1]:.1f} m/s at "
            f"{highest:.0f} m, is that of hardly any site. Check its heights, which may be upside down",
        )
    trial = choose_caution(world, times, past.speed)
    begin, end = climate.describe()["from"][:10], climate.describe()["to"][:10]
    home = world.altitudes[best_altitude(world, past.speed)]
    words = (
        f"Wind planner: a wind filter learned from {begin} to {end}, and a plan for the next {PLAN_HOURS:g} hours, "
        f"which at first includes a return to {home:.0f} m. Both keep learning. {climate.words} {trial.words}"
    )
    return _policy(setting, climate, trial.caution, words)


def _without_history(setting: Setting, known: str = "") -> hc.Policy:
    mean = GENERAL_MEAN if setting.prior_mean is None else setting.prior_mean
    if not known:
        known = (
            "There is no history" if setting.past is None else "The history is too short, or has no consecutive hours"
        )
    words = (
        f"Wind planner: a wind filter that learns the site as it goes, and a plan for the next {PLAN_HOURS:g} hours. "
        f"{known}, so it first expects a wind of about {mean:.1f} m/s. It moves only if it expects to earn more than "
        "the move costs."
    )
    return _policy(setting, None, USUAL_CAUTION, words)


def _policy(setting: Setting, climate: Climate | None, caution: float, words: str) -> hc.Policy:
    world, past = setting.world, setting.past
    mean = GENERAL_MEAN if setting.prior_mean is None or climate is not None else setting.prior_mean
    general = general_climate(world.altitudes, mean)
    accounts = [worth_by_altitude(world, general, world.step_hours)]
    if climate is not None:
        assert past is not None
        accounts = [worth_by_altitude(world, climate, world.step_hours, past.moments, past.speed), *accounts]
    wind = Candidates((general,) if climate is None else (climate, general), setting.gauge_noise)
    return planned(
        world.problem,
        wind=wind.to_data(),
        curve=world.curve.to_data(),
        scale=float(world.rho * world.step_hours),
        interval=float(world.step_hours),
        horizon=plan_rounds(world.step_hours),
        caution=float(caution),
        worth=[worth.tolist() for worth, _ in accounts],
        known=[known for _, known in accounts],
        explanation=words,
    )


def worth_by_altitude(
    world: WindWorld, climate: Climate, step: float, times: Array | None = None, speed: Array | None = None
) -> tuple[Array, float]:
    """Return what a round of `step` hours makes at each altitude in the long run, (n,), and the rounds it comes from.

    By what past wind, (t,) and (t, n), made there, and by the climate, which counts as some hours.
    """
    hours = np.arange(24.0) if times is None else times[:: max(1, len(times) // SAMPLED)]
    vectors, variances, _ = climate.states
    usual = climate(hours)
    spread = np.broadcast_to(np.sqrt((vectors**2 * variances).sum(axis=1)), usual.shape)
    made = expected_power(world.curve, usual, spread).mean(axis=0)
    covered = 0.0
    if times is not None:
        assert speed is not None
        covered = len(times) * _step(times)
        made = (covered * world.curve.power(speed).mean(axis=0) + GENERAL_KNOWN * made) / (covered + GENERAL_KNOWN)
    return np.asarray(world.rho * step * made), (covered + GENERAL_KNOWN) / step


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
    worth: Sequence[Sequence[float]] | None = None,
    known: Sequence[float] = (),
    explanation: str = "",
) -> hc.Policy:
    """Return the policy of a recipe: everything learned and chosen is given, in JSON values.

    Parameters
    ----------
    wind, curve
        As `to_data` of `Candidates`, or of the winds of earlier versions, and of the machine's power curve, gave them.
    scale
        Energy of one round per unit of power: length of a round in hours times rho.
    interval, horizon, caution
        As in `Lookahead`.
    worth, known
        As in `ExpectedEnergy`: with them, a plan ends where it pays to settle.
    home
        The altitude (index) that a plan has to be back at, in policies of earlier versions; None: it may end anywhere.
    """
    if not 1 <= horizon <= MOST_ROUNDS:
        raise InvalidInput(f"a plan has 1 to {MOST_ROUNDS} rounds, got {shown(horizon)}")
    if len(wind["altitudes"]) != problem.n:
        raise InvalidInput(f"the wind has {len(wind['altitudes'])} altitudes, but the problem has {problem.n}")
    if home is not None:
        problem.check_action(home)
    ending = None if home is None else ANCHOR * caution * problem.distances[:, home]
    anchor = None if worth is None else ANCHOR
    rule = hc.Lookahead(
        problem, horizon=horizon, interval=interval, caution=caution, ending=ending, takes_forecasts=True, anchor=anchor
    )
    machine = PowerCurve.from_data(curve)
    costs = ExpectedEnergy(wind_from_data(wind), problem, machine, scale, worth, known, interval)
    options = {"wind": wind, "curve": curve, "scale": scale, "interval": interval, "horizon": horizon}
    options |= {"caution": caution} | ({"home": home} if worth is None else {"worth": worth, "known": known})
    name = registry.label_of("wind-planner")
    return hc.Policy(name, rule, costs, problem, ("wind-planner", options), explanation)


def wind_from_data(data: Mapping[str, Any]) -> Candidates | Climate | GeneralWind:
    """Read what `to_data` of any wind gave, of this version or an earlier one."""
    readers: dict[str, Callable[[Mapping[str, Any]], Candidates | Climate | GeneralWind]] = {
        "candidates": Candidates.from_data,
        "climate": climate_from_data,
        "general": general_from_data,
    }
    if data["wind"] not in readers:
        raise InvalidInput(f"wind {data['wind']!r} is not known; choose one of {', '.join(readers)}")
    return readers[data["wind"]](data)


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
        The one that is taken.
    gains
        Net energy above staying, in percent, for each caution tried; empty if the history was too short to try.
    error
        Standard error, over the stretches replayed, of how much more the best one made than the usual one.
    hours
        How many were replayed.
    """

    caution: float
    gains: dict[float, float]
    error: float
    hours: float

    @property
    def words(self) -> str:
        """Say in a sentence what was chosen, and why."""
        if not self.gains:
            return f"The history is too short to find out how much caution pays, so its caution is {self.caution:g}."
        tried = ", ".join(f"{gain:+.1f} % with a caution of {caution:g}" for caution, gain in self.gains.items())
        said = f"In a replay of {self.hours:,.0f} hours of history its gain over staying was {tried}"
        best = max(self.gains, key=lambda caution: self.gains[caution])
        if best != self.caution:
            said += f" ({best:g} is not clearly better than {self.caution:g}: the error is {self.error:.1f} %)"
        least = "more than" if self.caution == 1.0 else f"{self.caution:g} times what"
        return f"{said}. It moves only if it expects to earn {least} the move costs."


def choose_caution(world: WindWorld, hours: Array, speed: Array) -> Trial:
    """Replay the policy over the past, (t,) and (t, n), with each caution, and choose the clearly best one."""
    hours, speed = _hourly(hours, speed)
    step = _step(hours)
    edges = np.linspace(0, len(hours), FOLDS + 1).astype(int)
    more: list[list[float]] = []  # than staying, kWh; a row for each stretch, a column for each caution
    stayed, rounds = 0.0, 0
    for a, b in pairwise(edges.tolist()):
        rest = np.r_[0:a, b : len(hours)]
        try:
            taught = Taught.by(world, hours[rest], speed[rest], step)
        except InvalidInput:  # two thirds are too little to learn from
            return Trial(USUAL_CAUTION, {}, 0.0, 0)
        for part in _windows(hours[a:b], step, REPLAYED_HOURS / FOLDS):
            wind, begin = speed[a:b][part], float(hours[a:b][part][0])
            flown = Replayed(world, taught, wind, begin, step)
            more.append([float(flown.hourly(caution).sum()) - flown.stayed for caution in CAUTIONS])
            stayed += flown.stayed
            rounds += len(wind)
    if len(more) < FEWEST_STRETCHES or not stayed > 0:
        return Trial(USUAL_CAUTION, {}, 0.0, 0)
    table = 100 * np.array(more) / stayed
    gains = table.sum(axis=0)
    best, usual = int(np.argmax(gains)), CAUTIONS.index(USUAL_CAUTION)
    error = float((table[:, best] - table[:, usual]).std(ddof=1) * len(table) ** 0.5)
    caution = CAUTIONS[best] if gains[best] - gains[usual] > CLEAR * error else USUAL_CAUTION
    return Trial(caution, dict(zip(CAUTIONS, gains.tolist(), strict=True)), error, rounds * step)


@dataclass(frozen=True, eq=False)
class Taught:
    """What past wind teaches, for a replay: the climate, what altitudes are worth, and the best one of them."""

    climate: Climate
    worth: Array
    known: float
    home: int

    @classmethod
    def by(cls, world: WindWorld, hours: Array, speed: Array, step: float) -> Taught:
        """Learn from wind of the past, (t,) and (t, n), for rounds of `step` hours."""
        climate = learn_climate(hours, speed, world.altitudes)
        return cls(climate, *worth_by_altitude(world, climate, step, hours, speed), best_altitude(world, speed))


class Replayed:
    """A gapless stretch of past wind, (t, n), to fly through again from home."""

    def __init__(self, world: WindWorld, taught: Taught, speed: Array, begin: float, step: float) -> None:
        self.world, self.taught, self.speed, self.step = world, taught, speed, step
        self.home, self.rounds = taught.home, plan_rounds(step)
        self._usual = taught.climate(np.asarray(begin + step * np.arange(len(speed) + self.rounds)))
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
        climate = self.taught.climate
        vectors, variances, hours = climate.states
        flown: NDArray[np.int64] = replay(
            self.speed,
            self._usual,
            vectors,
            variances,
            np.exp(-self.step / hours),
            climate.unexplained**2,
            self._power,
            POINTS,
            WEIGHTS,
            caution * self.world.problem.distances,
            ANCHOR,
            self.taught.worth,
            self.taught.known,
            np.array([SETTLING[0] / self.step, SETTLING[1]]),
            self.rounds,
            self.home if start is None else start,
            lidar,
            np.empty((0, self.speed.shape[1])) if said is None else said,
            np.zeros(self.rounds) if errors is None else errors,
        )
        return flown

    def hourly(self, caution: float) -> Array:
        """Return the energy made less energy lost to moving in every round, kWh, (t,)."""
        return self.net_of(self.actions(caution))

    def net_of(self, actions: NDArray[np.int64]) -> Array:
        """Return what these altitudes make in every round less what moving there from home costs, kWh, (t,)."""
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
        return float(self.home_energy.sum())


def past_weeks(setting: Setting, policy: hc.Policy) -> list[tuple[Array, Array]]:
    """Fly a wind planner again over its history: what it and staying made in every week, kWh, in pieces.

    Each piece is of `PIECE_WEEKS` without a gap, flown with a climate learned from the other two thirds. Of a long
    history some are flown, evenly spread. Empty where there is no history that a climate can be learned from.
    """
    world, past = setting.world, setting.past
    options = {} if policy.made_by is None else policy.made_by[1]
    times = None if past is None else past.moments
    if past is None or times is None or len(times) < 2 or "caution" not in options:
        return []
    times, speed = _hourly(times, past.speed)
    step, caution = _step(times), float(options["caution"])
    week = max(1, round(WEEK_HOURS / step))
    rounds = PIECE_WEEKS * week
    edges = np.linspace(0, len(times), FOLDS + 1).astype(int)
    found = []
    for fold, (a, b) in enumerate(pairwise(edges.tolist())):
        cuts = np.flatnonzero(np.abs(np.diff(times[a:b]) - step) > 0.01 * step) + 1
        for k, stop in zip(np.append(0, cuts), np.append(cuts, b - a), strict=True):
            found += [(fold, a + begin) for begin in range(int(k), int(stop) - rounds + 1, rounds)]
    most = max(1, int(FLOWN_HOURS / step) // rounds)
    if len(found) > most:
        found = [found[k] for k in np.linspace(0, len(found) - 1, most).round().astype(int)]
    pieces = []
    taught: dict[int, Taught] = {}
    for fold, begin in found:
        if fold not in taught:
            rest = np.r_[0 : edges[fold], edges[fold + 1] : len(times)]
            try:
                taught[fold] = Taught.by(world, times[rest], speed[rest], step)
            except InvalidInput:  # two thirds are too little to learn from
                return []
        flown = Replayed(world, taught[fold], speed[begin : begin + rounds], float(times[begin]), step)
        pieces.append(
            (flown.hourly(caution).reshape(-1, week).sum(axis=1), flown.home_energy.reshape(-1, week).sum(axis=1))
        )
    return pieces


def _step(hours: Array) -> float:
    return float(np.median(np.diff(hours))) if len(hours) > 1 else 0.0


def _hourly(hours: Array, speed: Array) -> tuple[Array, Array]:
    """Return means of whole hours where the step is shorter, and else the same."""
    step = _step(hours)
    many = round(1.0 / step) if step > 0 else 1
    if many < 2:
        return hours, speed
    which = np.floor(hours + 1e-6)
    found, first, counts = np.unique(which, return_index=True, return_counts=True)
    whole = counts == many
    sums = np.add.reduceat(speed, first, axis=0)
    return found[whole], np.ascontiguousarray(sums[whole] / many)


def _windows(hours: Array, step: float, most: float) -> list[slice]:
    """Return the gapless stretches of up to `WINDOW` hours, evenly spread, of at most `most` hours together."""
    length = max(1, round(WINDOW / step))
    cuts = np.flatnonzero(np.abs(np.diff(hours) - step) > 0.01 * step) + 1
    found = []
    for a, b in zip(np.append(0, cuts), np.append(cuts, len(hours)), strict=True):
        found += [slice(k, min(k + length, int(b))) for k in range(int(a), int(b), length)]
    long_enough = [part for part in found if (part.stop - part.start) * step >= 2 * PLAN_HOURS]
    count = max(1, int(most / (length * step)))
    if len(long_enough) <= count:
        return long_enough
    return [long_enough[k] for k in np.linspace(0, len(long_enough) - 1, count).round().astype(int)]
