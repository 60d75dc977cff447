"""What a backtest found: the flights, the table of results, and the answer in plain words.

Energies are in kWh. The interval of a difference is that of the site's gain over many years. It comes from how much the
gains of some weeks varied in the period flown and in the history, through which our policy is flown again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.verdict import (
    REFERENCE,
    STRETCH,
    Verdict,
    compared,
    gain_interval,
    half_width,
    judged,
    line_of,
    next_interval,
    runnable,
    signed,
    verdict,
)
from holdcourse.wind.backtest.trace import Plans, Reasons
from holdcourse.wind.physics import WindWorld

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

HINDSIGHT = ("best-fixed", "clairvoyant")
OURS = "wind-planner"  # what we would fly
HOURS_PER_WEEK = 168
WEEKS_PER_YEAR = 52
FEWEST_WEEKS = 6  # fewer say nothing about the next year
ARRIVAL = 24.0  # hours from the start of a piece in which one who stays may still be on the way


@dataclass(frozen=True, eq=False)
class Draw:
    """What another seed of a policy that draws made: energy made and lost, kWh, and altitudes (index), per round."""

    gross: Array
    moving: Array
    actions: Indices


@dataclass(frozen=True, eq=False)
class Flight:
    """What one policy flew and made; arrays have one entry per round, energies in kWh.

    Attributes
    ----------
    actions, before
        Altitude (index) of each round, and the one it came from.
    gross, moving
        Energy made, and energy lost by moving there.
    probabilities
        How probable the altitude was before it was drawn; 1 for policies that do not draw.
    reasons
        What a learning policy believed when it decided; None for the others.
    explanation
        What the policy is and why, in sentences, for one that chose among others.
    others
        What its other seeds made, for a policy that draws.
    plans
        What justified its moves, for a policy that plans ahead in time.
    """

    policy: str
    actions: Indices
    before: Indices
    gross: Array
    moving: Array
    probabilities: Array
    reasons: Reasons | None = None
    explanation: str = ""
    others: tuple[Draw, ...] = ()
    plans: Plans | None = None

    @property
    def net(self) -> Array:
        """Energy made less energy lost to moving."""
        return self.gross - self.moving

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """Energy made and lost to moving in every round, the mean over all seeds flown."""
        if not self.others:
            return self.gross, self.moving
        return (
            np.mean([self.gross, *(other.gross for other in self.others)], axis=0),
            np.mean([self.moving, *(other.moving for other in self.others)], axis=0),
        )

    @property
    def expected_net(self) -> Array:
        """Net energy of every round, the mean over all seeds flown."""
        gross, moving = self.expected
        return gross - moving

    @property
    def sums(self) -> list[float]:
        """Net energy of the period, kWh, for each seed flown."""
        return [float(self.net.sum()), *(float((other.gross - other.moving).sum()) for other in self.others)]

    @property
    def moves(self) -> int:
        """How often the altitude changed, the first move included."""
        return int((self.actions != self.before).sum())

    @property
    def expected_moves(self) -> float:
        """The same, the mean over all seeds flown."""
        moved = [self.moves, *(int((other.moving > 0).sum()) for other in self.others)]
        return sum(moved) / len(moved)


@dataclass(frozen=True)
class Line:
    """One row of the result: energies in kWh over the whole period.

    Attributes
    ----------
    share
        Net energy in percent of the clairvoyant's.
    gain, gain_low, gain_high
        Net energy above that of `fixed`, in percent of it, and the 95 % interval of what it is at this site over many
        years; NaN where there is no `fixed`, where there are too few weeks, and for hindsight.
    draws, net_low, net_high
        Of a policy that draws, how many seeds were flown: everything else is their mean, and these the least and the
        largest net energy among them.
    """

    policy: str
    net: float
    gross: float
    moving: float
    moves_per_day: float
    share: float
    gain: float
    gain_low: float
    gain_high: float
    draws: int = 1
    net_low: float = np.nan
    net_high: float = np.nan


@dataclass(frozen=True, eq=False)
class Backtest:
    """The flights of all policies over one period at one site.

    `past` is what our policy and staying made in every week of the history, in pieces; empty where it was not flown.
    """

    site: str
    world: WindWorld
    start: int
    flights: dict[str, Flight]
    lengths: tuple[int, ...]
    past: tuple[tuple[Array, Array], ...] = ()

    @property
    def days(self) -> float:
        """Length of the period in days."""
        return len(self.world.time) * self.world.step_hours / 24

    @property
    def weeks(self) -> int:
        """Number of whole weeks in the period."""
        return len(self.world.time) // self._rounds_per_week

    @property
    def _rounds_per_week(self) -> int:
        return max(1, round(HOURS_PER_WEEK / self.world.step_hours))

    @cached_property
    def lines(self) -> list[Line]:
        """The result table, best first."""
        best = float(self.flights["clairvoyant"].net.sum())
        rows = []
        for name, flight in self.flights.items():
            net, gross, moving = (float(part.sum()) for part in (flight.expected_net, *flight.expected))
            share = 100 * net / best if best > 0 else np.nan
            spread = (len(flight.sums), min(flight.sums), max(flight.sums)) if flight.others else ()
            moves = flight.expected_moves / self.days
            rows.append(Line(name, net, gross, moving, moves, share, *self._gain(flight), *spread))
        return sorted(rows, key=lambda row: -row.net)

    def line(self, policy: str) -> Line:
        """Return the row of one policy."""
        return line_of(self.lines, policy)

    def _gain(self, flight: Flight) -> tuple[float, float, float]:
        """Return the net energy above `fixed` in percent, and the interval of the site's."""
        base = float(self.flights["fixed"].net.sum()) if "fixed" in self.flights else np.nan
        if not base > 0:
            return (np.nan,) * 3
        gain = 100 * (float(flight.expected_net.sum()) - base) / base
        if self.weeks < FEWEST_WEEKS or flight.policy in ("fixed", *HINDSIGHT):  # hindsight is about this period
            return gain, np.nan, np.nan
        ours, theirs = self._weekly(flight.expected_net), self._weekly(self.flights["fixed"].net)
        past = self.past if flight.policy == OURS else ()
        return gain, *gain_interval(ours, theirs, past, self._stretch)

    @cached_property
    def _stretch(self) -> float:
        """By how much intervals of policies that were not flown over the history are widened: as ours is by it."""
        if OURS not in self.flights or not self.past:
            return STRETCH
        ours, theirs = self._weekly(self.flights[OURS].net), self._weekly(self.flights["fixed"].net)
        half = half_width(ours, theirs, self.past)
        low, high = gain_interval(ours, theirs, (), 1.0)
        return STRETCH if np.isnan(half) or not high > low else max(1.0, 2 * half / (high - low))

    def _weekly(self, values: Array) -> Array:
        """Return the sums over whole weeks; what is left over at the end belongs to none."""
        rounds = self._rounds_per_week
        return np.asarray(values[: self.weeks * rounds].reshape(self.weeks, rounds).sum(axis=1))

    @cached_property
    def flyable(self) -> list[Line]:
        """Controllers that need no more than the machine's own gauge, best first."""
        return runnable(self.lines, ("fixed", "stationary"))

    @property
    def judged(self) -> Line | None:
        """The controller that the answer is about: ours, or else the best that could be flown."""
        return judged(self.flyable, OURS)

    @property
    def stayed(self) -> bool:
        """Whether the controller that the answer is about went to the fixed altitude and never left it."""
        if self.judged is None or "fixed" not in self.flights:
            return False
        ours, home = self.flights[self.judged.policy].actions, self.flights["fixed"].actions
        ends = np.cumsum(self.lengths)
        since = np.arange(len(ours)) - np.repeat(ends - self.lengths, self.lengths)  # rounds since the piece began
        there = since * self.world.step_hours >= ARRIVAL
        return bool(there.any() and (ours[there] == home[there]).all())

    @property
    def verdict(self) -> Verdict:
        """Whether altitude control would have paid off, as far as these data can tell."""
        best = self.judged
        if best is None or "fixed" not in self.flights:
            return verdict(np.nan, np.nan, comparable=False)
        return verdict(best.gain_low, best.gain_high, enough=self.weeks >= FEWEST_WEEKS, stayed=self.stayed)

    @property
    def conclusion(self) -> str:
        """The answer in plain words, also when it is no."""
        best = self.judged
        if best is None:
            return "No controller that a real machine could use was flown, so there is nothing to conclude."
        if "fixed" not in self.flights:
            return "The policy `fixed` was not run, so there is nothing to compare with."
        altitude = f"{self.world.altitudes[int(self.flights['fixed'].actions[-1])]:.0f} m"
        weeks = (
            "1 week is" if self.weeks == 1 else f"{self.weeks} weeks are" if self.weeks else f"{self.days:.1f} days are"
        )
        too_few = f"; {weeks} too few to conclude anything."
        if np.isnan(best.gain):
            return (
                f"Staying at {altitude}, the best altitude in the history, would have made no net energy at all "
                f"({self.line('fixed').net:,.0f} kWh; {best.policy}: {best.net:,.0f} kWh)"
                + (too_few if self.verdict == "too few" else ": this machine does not suit this wind.")
            )
        tried = len(self.flyable)
        chosen = tried == 1 or best.policy == OURS  # beforehand, not for having come out best
        who = best.policy if chosen else f"{best.policy}, the best of {tried} controllers tried,"
        more = f"{compared(best.gain, 'more', 'less')} net energy"
        sentence = f"{who} would have made {more} than staying at {altitude}, the best altitude in the history"
        if self.stayed:
            sentence = f"{who} found nothing worth a move and stayed at {altitude}, the best altitude in the history"
        if self.verdict == "too few":
            return sentence + too_few
        if self.verdict == "no comparison":
            return f"{sentence}; but the fixed altitude makes so little energy that a percentage of it means nothing."
        if self.verdict == "stayed":
            most = f"perfect hindsight would have made {self.line('clairvoyant').gain:.1f} % more"
            return f"{sentence} ({signed(best.gain)} % against it{self._beside(best)}); {most}."
        interval = f"95 % interval {signed(best.gain_low)} to {signed(best.gain_high)} %{self._beside(best)}"
        answer = {
            "yes": "Altitude control would have paid off here",
            "no": "Altitude control would not have paid off here",
            "undecided": "These data cannot tell whether altitude control pays off here",
        }[self.verdict]
        return f"{answer}: {sentence} ({interval}).{self._caveat(best)} {self._next(best)}"

    def _next(self, best: Line) -> str:
        """Say what another period of this length may bring."""
        low, high = next_interval(best.gain, best.gain_low, best.gain_high)
        return f"In another {self.weeks} weeks at this site, expect a gain between {signed(low)} and {signed(high)} %."

    def _beside(self, best: Line) -> str:
        """Return the paper's algorithm, as the reference beside ours."""
        if best.policy == REFERENCE or REFERENCE not in self.flights:
            return ""
        return f"; {REFERENCE}, the paper's algorithm: {signed(self.line(REFERENCE).gain)} %"

    def _caveat(self, best: Line) -> str:
        """Warn where a gain is no merit of the controller: one over a badly chosen altitude."""
        free = self.line("best-fixed") if "best-fixed" in self.flights else None
        if self.verdict != "yes" or free is None or free.net <= best.net:
            return ""
        altitude = f"{self.world.altitudes[int(self.flights['best-fixed'].actions[-1])]:.0f} m"
        return (
            f" But staying at {altitude} would have made even more: the best altitude in the history was a poor choice."
        )

    @property
    def draw_words(self) -> list[str]:
        """How far the seeds of policies that draw lie apart."""
        return [
            f"{row.policy} draws its moves at random. Its line is the mean of {row.draws} seeds, which made "
            f"{row.net_low:,.0f} to {row.net_high:,.0f} kWh; its hours are shown for the first seed."
            for row in self.lines
            if row.draws > 1
        ]

    @property
    def warnings(self) -> list[str]:
        """Warnings: why these data may not say much about next year."""
        found = []
        if self.weeks < FEWEST_WEEKS:
            found.append(
                f"The data cover {self.days:.1f} days. Fewer than {FEWEST_WEEKS} weeks say nothing about a year."
            )
        elif self.weeks < WEEKS_PER_YEAR - 1:
            found.append(
                f"The data cover {self.weeks} weeks, and other seasons may be different. "
                "Use a whole year or more if you can."
            )
        if len(self.lengths) > 1:
            found.append(f"The data have gaps, so {len(self.lengths)} pieces were flown, each from the start altitude.")
        return found
