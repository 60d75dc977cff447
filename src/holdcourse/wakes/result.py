"""What a study of wake steering asks, and what its backtest found: runs, the table of results, fronts, the answer.

Energies are in kWh, travel in degrees that all nacelles turned for the sake of offsets; turning after the wind is
common to all policies and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.verdict import Verdict, gain_interval, line_of, verdict
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wakes.clusters import ClusteredTable
from holdcourse.wakes.drift import Drift
from holdcourse.wakes.learning import AT_MOST, LearnedEnergy
from holdcourse.wakes.record import Rounds
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]

BASE, OURS, LEARNER, HINDSIGHT = "no-steering", "wake-planner", "wake-learner", "clairvoyant"
RULES = ("lookup", "hysteresis", "rate-limit")
POLICIES = (BASE, *RULES, OURS, LEARNER, HINDSIGHT)
ON_REQUEST = ("gp-md",)
HOURS_PER_YEAR, HOURS_PER_WEEK = 8766.0, 168.0
FEWEST_WEEKS = 6
SECTOR = 30.0  # degrees
MOST_BEYOND = 0.05  # share of the gain in more wind than the table knows, above which a warning says so
# Label and colour of what only wake steering knows; the others are in the table of policies.
LOOKS = {
    BASE: ("No steering", "#737a82"),
    "lookup": ("Lookup table", "#00849c"),
    "hysteresis": ("Hysteresis", "#8348ff"),
    "rate-limit": ("Rate limit", "#3f78d8"),
}


def label_of(policy: str) -> str:
    """Return how a policy is called in tables and pictures."""
    return LOOKS[policy][0] if policy in LOOKS else registry.label_of(policy)


def colour_of(policy: str) -> str:
    """Return the colour of a policy."""
    return LOOKS[policy][1] if policy in LOOKS else registry.colour_of(policy)


@dataclass(frozen=True)
class Study:
    """Policies and prices that a backtest compares.

    Parameters
    ----------
    price, kwh_price
        Price of turning a nacelle by one degree, as in `steering_problem`, at which wear is billed and with which our
        policies plan.
    hours
        Hours between two decisions; default: the step of the record.
    knowing
        Whether every decision is shown the mean wind of its own interval, which is idealised.
    hysteresis
        Widths in degrees of the zones in which offsets are held.
    rate_limits
        Degrees of offset per degree of direction.
    policies
        Names of the policies; default: all except GP-MD, which takes minutes.
    yaw_speed
        Yaw speed of a nacelle, degrees per second, or a text such as "0.3 °/s".
    folds
        Without a history, the number of parts of the record that take turns in being judged and being learned from.
    noise
        Relative error of the power of an interval that the learner is told.
    at_most
        Share of the energy without steering that the learner may lose, as its promise.
    seed
        Seed of the noise, and of policies that draw at random.
    front
        Prices of a degree at which the fronts of the planner and of hindsight are traced, in tenths of the gain in a
        round in which steering gains much; the last prices are higher than steering is worth.
    """

    price: Any = 0.5
    kwh_price: float | None = None
    hours: float | None = None
    knowing: bool = False
    hysteresis: tuple[float, ...] = (2.0, 4.0, 8.0, 12.0, 16.0)
    rate_limits: tuple[float, ...] = (5.0, 3.0, 2.0, 1.0)
    policies: tuple[str, ...] = POLICIES
    yaw_speed: float | str = 0.3
    folds: int = 4
    noise: float = 0.1
    at_most: float = AT_MOST
    seed: int = 0
    front: tuple[float, ...] = (0.01, 0.03, 0.06, 0.12, 0.2, 0.35, 0.6, 1.0, 1.6)

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in (*POLICIES, *ON_REQUEST):
                raise registry.unknown(name, (*POLICIES, *ON_REQUEST))
        if self.folds < 2:
            raise InvalidInput(
                f"folds must be 2 or more, because the parts take turns in being judged; got {self.folds}"
            )
        if not 0 <= self.noise < 1:
            raise InvalidInput(f"noise must be a relative error of power, from 0 to below 1, got {self.noise}")
        for what, values in (("hysteresis", self.hysteresis), ("rate_limits", self.rate_limits), ("front", self.front)):
            if not all(np.isfinite(value) and value > 0 for value in values):
                raise InvalidInput(f"{what} must be numbers above 0, got {values}")


@dataclass(frozen=True, eq=False)
class Steered:
    """What one policy did and made; one entry per round.

    Attributes
    ----------
    policy, setting
        Its name in the table, and what tells it from others of that name: a width, a limit or a price.
    offsets
        Degrees of every turbine, (t, m).
    energy
        kWh, (t,).
    travel
        Degrees turned by every turbine to be there, (t, m).
    """

    policy: str
    setting: float | None
    offsets: Array
    energy: Array
    travel: Array

    @property
    def label(self) -> str:
        """How it is called in tables."""
        said = label_of(self.policy)
        if self.policy == "hysteresis":
            return f"{said}, {self.setting:g}°"
        return f"{said}, {self.setting:g}° per degree" if self.policy == "rate-limit" else said


@dataclass(frozen=True)
class Line:
    """One row of the result.

    Attributes
    ----------
    gain, gain_low, gain_high
        Energy above that of no steering in percent of it, and its 95 % interval by weeks; NaN where there is none.
    net, net_low, net_high
        The same less wear.
    travel
        Degrees a year, of all nacelles together.
    wear
        kWh a year.
    moves_per_day
        Changes of the offsets.
    steering_hours
        Hours a year with any offset.
    """

    policy: str
    label: str
    gain: float
    gain_low: float
    gain_high: float
    net: float
    net_low: float
    net_high: float
    travel: float
    wear: float
    moves_per_day: float
    steering_hours: float


@dataclass(frozen=True)
class Point:
    """A point of a front: a width, limit or price, degrees travelled a year, and energy gained in percent."""

    setting: float
    travel: float
    gain: float
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True, eq=False)
class Backtest:
    """Result of all policies over one record.

    Attributes
    ----------
    fronts
        Energy gained against travel, by policy, in ascending travel: ours and hindsight at several prices, rules at
        several settings.
    front_weeks
        Energy of each of these points in every whole week, kWh, in the same order.
    table
        Table of the true energy, by which bills are computed, including the vectors that rules passed through.
    believed
        Table that the policies use, as it was given.
    learned
        Model of the learner at the end.
    drift
        Drift learned from the history or, without one, from the whole record, for use after the backtest.
    drift_source
        The wind from which the drift was learned, in words.
    drift_judged
        The wind from which the judged decisions knew the drift, in words: without a history, the other parts of the
        record.
    hindsight
        Whether the history contains wind from after the beginning of the record.
    longest
        Degrees that a nacelle can turn between two decisions; None if there is no limit.
    """

    study: Study
    table: EnergyTable
    believed: EnergyTable | ClusteredTable
    rounds: Rounds
    prices: Array
    runs: dict[str, Steered]
    fronts: dict[str, list[Point]]
    front_weeks: dict[str, list[Array]]
    drift: Drift
    drift_source: str
    drift_judged: str
    learned: LearnedEnergy | None
    longest: float | None = None
    hindsight: bool = False
    notes: tuple[str, ...] = ()

    @property
    def years(self) -> float:
        """Length of the period judged, in years."""
        return len(self.rounds) * self.rounds.hours / HOURS_PER_YEAR

    @property
    def weeks(self) -> int:
        """Number of whole weeks in the period judged."""
        return len(self.rounds) // self._per_week

    @property
    def _per_week(self) -> int:
        return max(1, round(HOURS_PER_WEEK / self.rounds.hours))

    @property
    def base(self) -> Array:
        """Energy without steering, kWh, (t,)."""
        return self.runs[BASE].energy

    @property
    def period(self) -> str:
        """First and last day of the record."""
        time = self.rounds.time.astype("datetime64[D]")
        return f"{time[0]} to {time[-1]}"

    def weekly(self, values: Array) -> Array:
        """Return sums over whole weeks, without the incomplete week at the end."""
        per = self._per_week
        return np.asarray(values[: self.weeks * per].reshape(self.weeks, per).sum(axis=1))

    def _gain(self, energy: Array) -> tuple[float, float, float]:
        total = float(self.base.sum())
        if not total > 0:
            return (np.nan,) * 3
        gain = 100 * (float(energy.sum()) / total - 1)
        if self.weeks < FEWEST_WEEKS:
            return gain, np.nan, np.nan
        return gain, *gain_interval(self.weekly(energy), self.weekly(self.base), (), 1.0)

    def wear(self, run: Steered) -> Array:
        """Return the cost of turning, kWh, (t,)."""
        return np.asarray(run.travel @ self.prices)

    def point(self, run: Steered) -> Point:
        """Return where a run lies on its front."""
        return Point(float(run.setting or 0.0), float(run.travel.sum()) / self.years, *self._gain(run.energy))

    @cached_property
    def lines(self) -> list[Line]:
        """The result table, best net energy first."""
        rows = []
        days = self.years * HOURS_PER_YEAR / 24
        for run in self.runs.values():
            wear = self.wear(run)
            moves = float((run.travel > 0).any(axis=1).sum()) / days
            hours = float((run.offsets != 0).any(axis=1).sum()) * self.rounds.hours / self.years
            gains = (0.0, np.nan, np.nan) if run.policy == BASE else self._gain(run.energy)
            nets = (0.0, np.nan, np.nan) if run.policy == BASE else self._gain(run.energy - wear)
            travel = float(run.travel.sum()) / self.years
            rows.append(
                Line(run.policy, run.label, *gains, *nets, travel, float(wear.sum()) / self.years, moves, hours)
            )
        return sorted(rows, key=lambda row: -row.net)

    def line(self, policy: str) -> Line:
        """Return the first row of a policy."""
        return line_of(self.lines, policy)

    @property
    def judged(self) -> Line | None:
        """Policy that the answer is about: our planner, or else the learner."""
        found = [name for name in (OURS, LEARNER) if name in self.runs]
        return self.line(found[0]) if found else None

    @property
    def verdict(self) -> Verdict:
        """Answer as a word: whether steering would have paid off, net of wear, as far as the record can tell."""
        ours = self.judged
        if ours is None:
            return verdict(np.nan, np.nan, comparable=False)
        return verdict(ours.net_low, ours.net_high, enough=self.weeks >= FEWEST_WEEKS, stayed=ours.travel == 0)

    @property
    def conclusion(self) -> str:
        """Answer in sentences, even if it is no."""
        said = self._conclusion
        known = "Idealised, with the wind of every interval known in advance: "
        return f"{known}{said[0].lower()}{said[1:]}" if self.study.knowing and self.judged is not None else said

    @property
    def _conclusion(self) -> str:
        ours = self.judged
        if ours is None:
            return "No planner was run, so no conclusion can be drawn."
        name = f"The {label_of(ours.policy).lower()}"
        made = (
            f"{name} would have gained {ours.gain:+.2f} % energy over no steering, {ours.net:+.2f} % net of wear, "
            f"and turned the nacelles by {ours.travel:,.0f} degrees a year"
        )
        if self.verdict == "too few":
            weeks = "1 week is" if self.weeks == 1 else f"{self.weeks} weeks are"
            return f"{made}; {weeks} too few to conclude anything."
        if self.verdict == "stayed":
            return f"{name} found nothing worth turning a nacelle for, and did not steer."
        answer = {
            "yes": "Wake steering would have paid off here",
            "no": "Wake steering would not have paid off here",
            "undecided": "This record cannot tell whether wake steering pays off here",
        }[self.verdict]
        interval = f"95 % interval of the net gain, by weeks: {ours.net_low:+.2f} to {ours.net_high:+.2f} %"
        beside = ""
        if "lookup" in self.runs:
            table = self.line("lookup")
            beside = (
                f" FLORIS' lookup table would have gained {table.gain:+.2f} % with {table.travel:,.0f} degrees a year, "
                f"{table.net:+.2f} % net of wear."
            )
        return f"{answer}: {made[0].lower()}{made[1:]} ({interval}).{beside}"

    def gain_at(self, travel: float, policy: str = OURS) -> float:
        """Return the gain, in percent, that a front reaches with `travel` degrees a year.

        Between two points of a front the gain is interpolated, because one could run each of them for some of the
        weeks. Beyond the last point it is the gain of the best point.
        """
        gains = [0.0, *(point.gain for point in self.fronts[policy])]
        return sum(share * gains[k] for k, share in self._mixture(travel, policy))

    def _mixture(self, travel: float, policy: str) -> list[tuple[int, float]]:
        """Return the points of a front, from no steering on, that make so much travel, and the share of each."""
        points = [Point(0.0, 0.0, 0.0), *self.fronts[policy]]
        best = [max(range(k + 1), key=lambda j: points[j].gain) for k in range(len(points))]
        place = float(np.interp(travel, [point.travel for point in points], np.arange(len(points), dtype=np.float64)))
        low = min(int(place), len(points) - 1)
        return [(best[low], 1.0 - (place - low)), (best[min(low + 1, len(points) - 1)], place - low)]

    def weeks_at(self, travel: float, policy: str = OURS) -> Array:
        """Return the energy of a front in every whole week for a given travel in degrees a year, kWh."""
        each = [self.weekly(self.base), *self.front_weeks[policy]]
        return np.asarray(sum(share * each[k] for k, share in self._mixture(travel, policy)))

    def interval_of(self, ours: Array, theirs: Array) -> tuple[float, float]:
        """Return the 95 % interval by weeks of the difference between two energies, in percent of no steering.

        Weeks are drawn for both together, so that a windy week counts for both; so the interval is far narrower than
        theirs.
        """
        if self.weeks < FEWEST_WEEKS:
            return np.nan, np.nan
        base = self.weekly(self.base)
        return gain_interval(base + ours - theirs, base, (), 1.0)

    def travel_for(self, gain: float, policy: str = OURS) -> float:
        """Return the degrees a year that a front needs for a gain in percent; NaN if it does not reach the gain."""
        points = [Point(0.0, 0.0, 0.0), *self.fronts[policy]]
        gains = np.maximum.accumulate([p.gain for p in points])
        if gain > gains[-1]:
            return np.nan
        return float(np.interp(gain, gains, [p.travel for p in points]))

    def sector_hours(self, policy: str) -> tuple[Array, Array, Array]:
        """Return hours a year by direction: sectors' beginnings, all hours, and hours with any offset."""
        edges = np.arange(0.0, 360.0, SECTOR)
        which = (self.rounds.record.direction[self.rounds.first] // SECTOR).astype(np.int64)
        steers = (self.runs[policy].offsets != 0).any(axis=1)
        scale = self.rounds.hours / self.years
        whole, steered = (np.bincount(which, weights, len(edges)) * scale for weights in (None, steers.astype(float)))
        return edges, np.asarray(whole), np.asarray(steered)

    def turbine_travel(self, policy: str) -> Array:
        """Return degrees a year of every turbine, (m,)."""
        return np.asarray(self.runs[policy].travel.sum(axis=0) / self.years)

    def striking_rounds(self, count: int = 4) -> list[int]:
        """Return the rounds in which our planner gained most, at most one of each sector of direction."""
        more = self.runs[OURS].energy - self.base
        steers = (self.runs[OURS].offsets != 0).any(axis=1)
        direction = self.rounds.record.direction[self.rounds.first]
        taken: dict[int, int] = {}
        for t in np.argsort(-np.where(steers, more, -np.inf), kind="stable").tolist():
            if len(taken) == count or not (steers[t] and more[t] > 0):
                break
            taken.setdefault(int(direction[t] // SECTOR), t)
        return list(taken.values())

    @property
    def warnings(self) -> list[str]:
        """Warnings: why the record may not say much about next year."""
        found = []
        if self.study.knowing:
            found.append("Idealised: every decision knew the mean wind of its own interval, which nobody can know.")
        if self.hindsight:
            found.append("Hindsight: the history contains wind from after the record began, which nobody can know.")
        if self.weeks < FEWEST_WEEKS:
            weeks = f"{self.weeks} whole week{'' if self.weeks == 1 else 's'}"
            found.append(f"The record has {weeks}. Fewer than {FEWEST_WEEKS} say nothing about a year.")
        elif self.weeks < 51:
            found.append(f"The record has {self.weeks} weeks, and other seasons may be different.")
        share, fastest = self._share_beyond()
        if share > MOST_BEYOND:
            found.append(
                f"{100 * share:.0f} % of the gain was made in more wind than the {fastest:g} m/s up to which FLORIS "
                "was asked. There the gain is assumed to be that of this speed. In truth it is less, because "
                "downstream turbines reach their full power too. Make a table with higher speeds: "
                "hc.wakes.build_table(..., speeds=...)."
            )
        return found

    def _share_beyond(self) -> tuple[float, float]:
        """Return the share of the gain that was made in more wind than the table knows, and the highest speed of it."""
        fastest = float(self.table.speeds[-1])
        ours = self.judged
        if ours is None:
            return 0.0, fastest
        more = self.runs[ours.policy].energy - self.base
        beyond = self.rounds.record.speed[self.rounds.first] > fastest
        return (float(more[beyond].sum() / more.sum()) if more.sum() > 0 else 0.0), fastest
