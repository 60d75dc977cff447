"""Did it pay? The gain of a policy against a baseline, measured by a randomised trial, and how sure it is.

The gain is that of the trial's own period: what running the policy throughout would have saved against running the
baseline throughout. Whether another season is alike is another question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import whole_number
from holdcourse.deciding.trial import BASELINE, POLICY
from holdcourse.errors import InvalidInput, counted
from holdcourse.trials.adjustment import Known, cycle_features, guesses
from holdcourse.trials.blocks import Blocks
from holdcourse.trials.intervals import (
    FIRST_ANSWER,
    bounds_of_mean,
    bounds_of_percentage,
    pairs_needed,
    running_means,
)

Array: TypeAlias = NDArray[np.float64]
Verdict: TypeAlias = Literal["it pays", "it does not pay", "undecided", "too early"]

DROPPED = 0.25  # of a block: what the check of carry-over leaves out by default
UNEVEN = 3.0  # deviations of the coin: losses that one arm has so many more of are no chance
MOSTLY = 0.2  # of an arm's rounds: where something else ran in more of them, that is said
OUTLYING = 0.5  # of the scatter: one pair that makes more of it is named


class Measured(NamedTuple):
    """A number with its 95 % intervals; NaN if there is none yet.

    Attributes
    ----------
    value
        The estimate.
    low, high
        Ordinary interval, which is right if the time of the look was fixed before the trial began.
    always_low, always_high
        Interval from a sequence of intervals that are all right together, however often somebody looks.
    """

    value: float
    low: float
    high: float
    always_low: float
    always_high: float


@dataclass(frozen=True, eq=False)
class Looks:
    """A number after every pair, as arrays (pairs,) with the fields of `Measured`."""

    value: Array
    low: Array
    high: Array
    always_low: Array
    always_high: Array

    def __getitem__(self, pair: int) -> Measured:
        return Measured(*(float(getattr(self, name)[pair]) for name in Measured._fields))


class CarryOver(NamedTuple):
    """Change of the gain per round if the first rounds of each block are left out.

    Attributes
    ----------
    rounds
        Number of rounds left out of each block.
    change, low, high
        The change, and its ordinary 95 % interval; NaN if there is none yet.
    """

    rounds: int
    change: float
    low: float
    high: float

    @property
    def found(self) -> bool:
        """Whether blocks depend on the block before them, as far as this can tell."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a trial so far. Made by `answer`.

    Attributes
    ----------
    pairs, rounds
        Number of pairs of blocks that count, and number of rounds of a whole block.
    gain
        Net gain per round of the policy over the baseline, in the unit of the cost; positive if the policy pays.
    percent
        Net gain in % of the baseline's net bill; NaN if the bill may be zero.
    looks, looks_in_percent
        Gain and percentage after every pair.
    bill
        Net cost per round of the baseline (net reward, if rewards are told).
    carry_over
        Dependence of blocks on the block before; None if blocks have a single round.
    further_pairs
        Number of further pairs until the trial is decided, if the gain and its scatter stay as they are; 0 if it is
        decided, infinite if no end is in sight.
    lost, redirected
        Numbers of rounds without a measurement, and of rounds that were overridden: of the baseline, of the policy.
    left_out
        Pairs that do not count, because nothing was measured in the block of the baseline, of the policy.
    uneven
        Excess of rounds lost in the policy's blocks over the baseline's, in standard deviations of the coin.
    assigned
        Numbers of rounds that were assigned to the baseline, to the policy.
    outlying
        Number of the pair that alone causes more than half of the scatter; None if there is none.
    switching
        Cost per round of moving between the arms' paths; it is not part of either arm's bill.
    adjusted_by
        What made the two blocks of a pair comparable.
    """

    pairs: int
    rounds: int
    gain: Measured
    percent: Measured
    looks: Looks
    looks_in_percent: Looks
    bill: float
    carry_over: CarryOver | None
    further_pairs: float
    lost: tuple[int, int]
    redirected: tuple[int, int]
    left_out: tuple[int, int]
    uneven: float
    assigned: tuple[int, int]
    outlying: int | None
    switching: float
    adjusted_by: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Answer today, from the interval that is right however often somebody looks."""
        if math.isnan(self.gain.always_low):
            return "too early"
        if self.gain.always_low > 0:
            return "it pays"
        return "it does not pay" if self.gain.always_high < 0 else "undecided"

    def words(self, unit: str = "", hours: float | None = None) -> list[str]:
        """Return the answer in sentences.

        Parameters
        ----------
        unit
            Unit of the cost, such as kWh.
        hours
            Length of a round in hours, to say weeks instead of pairs of blocks.
        """
        per_round = f"{f' {unit}' if unit else ''} a round"
        said = [self._headline(per_round)]
        if self.verdict == "too early":
            return said + self._words_of_rounds()
        if self.verdict == "undecided" and self.gain.always_low < self.gain.always_high:
            said.append(self._needed(hours))
        fixed = f"{_signed(self.gain.low)} to {_signed(self.gain.high)}{per_round}"
        said.append(f"If you had planned to look only once, and now, the 95 % interval would be {fixed}.")
        if self.carry_over is not None and math.isfinite(self.carry_over.low):
            said.append(self._words_of_carry_over(self.carry_over, per_round))
        said += self._words_of_rounds()
        if self.switching > 0:
            spent = f"{_signed(self.switching)[1:]}{per_round}"
            said.append(f"Switching between the arms has cost {spent}, which is on neither bill.")
        return said

    def _words_of_carry_over(self, checked: CarryOver, per_round: str) -> str:
        first = "the first round" if checked.rounds == 1 else f"the first {checked.rounds} rounds"
        without = (
            f"Without {first} of each block the gain would be {_signed(self.gain.value + checked.change)}{per_round}"
        )
        if checked.found:
            return f"{without}: a block still feels the effect of the block before it. Use longer blocks."
        ends = f"{_signed(checked.low)} to {_signed(checked.high)}"
        return (
            f"{without}, a change of {_signed(checked.change)} ({ends}): there is no sign of carry-over from block to "
            "block."
        )

    def _words_of_rounds(self) -> list[str]:
        """What happened to rounds that were not measured, or not played as the arm's rule said."""
        said = []
        for counts, what in (
            (self.lost, "without a measurement"),
            (self.redirected, "in which a limit or a person decided"),
        ):
            if sum(counts):
                said.append(
                    f"Rounds {what}: {counts[BASELINE]} of the baseline, {counts[POLICY]} of the policy. "
                    "They count for the arm that they were assigned to."
                )
        if sum(self.left_out):
            said.append(
                f"{counted(sum(self.left_out), 'pair')} of blocks could not be counted, because nothing was measured "
                f"in one of the two: in {self.left_out[BASELINE]} it was the baseline's, in {self.left_out[POLICY]} "
                "the policy's."
            )
        if abs(self.uneven) > UNEVEN:
            more, less = ("policy", "baseline") if self.uneven > 0 else ("baseline", "policy")
            said.append(
                f"The {more}'s rounds were lost more often than the {less}'s, by more than chance explains. The "
                "rounds that were lost may be the expensive ones; find out why before you trust the answer."
            )
        for arm, whose in ((BASELINE, "baseline"), (POLICY, "policy")):
            share = self.redirected[arm] / max(self.assigned[arm], 1)
            if share > MOSTLY:
                said.append(
                    f"In {100 * share:.0f} % of the {whose}'s rounds something else ran than it chose. The trial "
                    f"measures the {whose} as it was followed here, not what always following it would bring."
                )
        return said

    def _headline(self, per_round: str) -> str:
        pairs = f"{counted(self.pairs, 'pair')} of blocks"
        if self.verdict == "too early":
            after = f"{FIRST_ANSWER} pairs ({2 * self.rounds * FIRST_ANSWER:,} rounds)"
            return f"Too early to say anything: {pairs} so far. The first answer comes after {after}."
        if self.gain.value == self.gain.always_low == self.gain.always_high == 0:
            return f"Undecided: in each of {pairs} both arms cost the same, so there is no difference to see."
        begin = {
            "it pays": "It pays",
            "it does not pay": "It does not pay",
            "undecided": "Undecided",
        }[self.verdict]
        interval = f"{_signed(self.gain.always_low)} to {_signed(self.gain.always_high)}"
        sentence = f"{begin}: {_signed(self.gain.value)}{per_round} against the baseline"
        if not math.isnan(self.percent.always_low):
            low, high = self.percent.always_low, self.percent.always_high
            shown = f"+.{_decimals(high - low)}f"
            ends = f"{low:{shown}} to {high:{shown}}"
            return f"{sentence}, {self.percent.value:{shown}} % of its bill (95 % interval {ends} %), after {pairs}."
        return f"{sentence} (95 % interval {interval}), after {pairs}."

    def _needed(self, hours: float | None) -> str:
        if math.isinf(self.further_pairs):
            return "With this gain and scatter the trial would not end in any reasonable time: any difference is small."
        rounds = 2 * self.rounds * self.further_pairs
        how_long = f"{counted(round(self.further_pairs), 'more pair')} of blocks ({rounds:,.0f} rounds)"
        if hours is not None:
            how_long = _longer(rounds * hours / 24)
        return f"If the gain and its scatter stay as they are, it takes about {how_long} to decide."

    def to_data(self) -> dict[str, Any]:
        """Return the answer in JSON values; None for what is not known."""

        def plain(value: float) -> float | None:
            return float(value) if math.isfinite(value) else None

        def listed(looks: Looks) -> dict[str, list[float | None]]:
            return {name: [plain(value) for value in getattr(looks, name)] for name in Measured._fields}

        return {
            "verdict": self.verdict,
            "pairs": self.pairs,
            "rounds": self.rounds,
            "gain": {name: plain(value) for name, value in self.gain._asdict().items()},
            "percent": {name: plain(value) for name, value in self.percent._asdict().items()},
            "looks": listed(self.looks),
            "looks_in_percent": listed(self.looks_in_percent),
            "bill": plain(self.bill),
            "carry_over": None
            if self.carry_over is None
            else {name: plain(value) for name, value in self.carry_over._asdict().items()},
            "further_pairs": plain(self.further_pairs),
            "lost": list(self.lost),
            "redirected": list(self.redirected),
            "left_out": list(self.left_out),
            "uneven": plain(self.uneven),
            "outlying": self.outlying,
            "switching": plain(self.switching),
            "adjusted_by": list(self.adjusted_by),
        }


def answer(blocks: Blocks, *, adjust: bool = True, cycle: int | None = None, drop: int | None = None) -> Answer:
    """Compute what a trial has measured.

    Parameters
    ----------
    blocks
        Table of the trial.
    adjust
        Whether to make the two blocks of a pair comparable with what was known when the pair began and with the
        reference signal.
    cycle
        Number of rounds of a day, or of another cycle that costs follow; its phase is known beforehand too.
    drop
        Number of rounds left out of each block, to see whether blocks depend on the block before; default: a quarter of
        a block.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coin = rng.integers(2, size=60)
    >>> arm = np.repeat(np.stack([coin, 1 - coin], axis=1).ravel(), 4)  # 60 pairs of blocks of 4 rounds
    >>> table = Blocks(block=np.arange(480) // 4, arm=arm, cost=10 - arm + rng.normal(size=480))
    >>> found = answer(table)
    >>> print(found.words(unit="kWh")[0])  # doctest: +NORMALIZE_WHITESPACE
    It pays: +0.993 kWh a round against the baseline, +9.9 % of its bill (95 % interval +7.2 to +12.6 %), after 60
    pairs of blocks.
    """
    others = _others(blocks, cycle)
    known = Known.of(blocks.net, others) if adjust else Known(np.zeros((blocks.pairs, 0)), ())
    gains, bills = adjusted_pairs(blocks.net, blocks.coins, known)
    bills = -bills if blocks.maximise else bills
    looks, in_percent = looks_of(gains, bills)
    nothing = Measured(*[math.nan] * 5)
    gain, percent = (looks[-1], in_percent[-1]) if blocks.pairs else (nothing, nothing)
    further = math.inf
    if blocks.pairs > 1:
        deviation = float(gains.std(ddof=1))
        needed = pairs_needed(gain.value / deviation) if deviation > 0 else math.inf
        further = max(needed - blocks.pairs, 1.0)
    if gain.always_low > 0 or gain.always_high < 0:
        further = 0.0
    return Answer(
        pairs=blocks.pairs,
        rounds=blocks.length,
        gain=gain,
        percent=percent,
        looks=looks,
        looks_in_percent=in_percent,
        bill=float(bills.mean()) if blocks.pairs else math.nan,
        carry_over=_carry_over(blocks, drop),
        further_pairs=further,
        lost=(int(blocks.lost[BASELINE]), int(blocks.lost[POLICY])),
        redirected=(int(blocks.redirected[BASELINE]), int(blocks.redirected[POLICY])),
        left_out=(int(blocks.left_out[BASELINE]), int(blocks.left_out[POLICY])),
        uneven=blocks.uneven,
        assigned=(int((blocks.arm == BASELINE).sum()), int((blocks.arm == POLICY).sum())),
        outlying=_outlying(gains),
        switching=float(blocks.switching.mean()) if len(blocks.block) else 0.0,
        adjusted_by=("the level before", *others) if adjust else (),
    )


def adjusted_pairs(net: Array, coins: Array, known: Known) -> tuple[Array, Array]:
    """Gain of the policy and net cost of the baseline in every pair, made comparable; both (..., pairs).

    Parameters
    ----------
    net
        Net cost per round of the first and second block, (..., pairs, 2).
    coins
        +1 where the policy had the first block, else -1; (..., pairs).
    known
        What is known of first less second without the coin.
    """
    half = guesses(net[..., 0] - net[..., 1], known.features, coins, known.sets) / 2
    first, second = net[..., 0] - half, net[..., 1] + half
    return coins * (second - first), np.where(coins > 0, second, first)


def looks_of(gains: Array, bills: Array) -> tuple[Looks, Looks]:
    """The mean gain, and its percentage of the mean bill, after every pair; arrays (..., pairs)."""
    mean, bill = running_means(gains), running_means(bills)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 100 * mean / np.abs(bill)
    fixed, always = bounds_of_mean(gains, "ordinary"), bounds_of_mean(gains, "sequence")
    looks = Looks(mean, fixed.low, fixed.high, always.low, always.high)
    fixed, always = bounds_of_percentage(gains, bills, "ordinary"), bounds_of_percentage(gains, bills, "sequence")
    return looks, Looks(np.where(bill == 0, np.nan, ratio), fixed.low, fixed.high, always.low, always.high)


def _others(blocks: Blocks, cycle: int | None) -> dict[str, Array]:
    """What else than the blocks' own costs is known of every pair without its coin, by name; (pairs, k) each."""
    found = {}
    for name, values in (("the prediction", blocks.predictions[..., None]), ("the reference", blocks.references)):
        difference = values[:, 0] - values[:, 1]
        difference = np.where(np.isfinite(difference), difference, 0.0)
        if difference.any():  # what never differs tells nothing
            found[name] = difference
    if cycle is not None:
        found["the time of the cycle"] = cycle_features(blocks.began, whole_number(cycle, "cycle", 2))
    return found


def _outlying(gains: Array) -> int | None:
    """The pair that alone makes more than half of the scatter; None if there is none, or too few to say."""
    squares = (gains - np.median(gains)) ** 2 if len(gains) >= FIRST_ANSWER else np.zeros(1)
    return int(squares.argmax()) if squares.max() > OUTLYING * squares.sum() else None


def _carry_over(blocks: Blocks, drop: int | None) -> CarryOver | None:
    rounds = max(1, round(DROPPED * blocks.length)) if drop is None else whole_number(drop, "drop", 1)
    if drop is not None and rounds >= blocks.length:
        raise InvalidInput(f"drop must be less than a block's {blocks.length} rounds, got {rounds}")
    if blocks.length < 2:
        return None
    change = blocks.coins * np.diff(blocks.net_after(rounds) - blocks.net, axis=1)[:, 0]
    change = change[np.isfinite(change)]  # a pair all of whose later rounds were lost shows none
    if len(change) == 0:
        return CarryOver(rounds, math.nan, math.nan, math.nan)
    low, high = bounds_of_mean(change, "ordinary")
    return CarryOver(rounds, float(change.mean()), float(low[-1]), float(high[-1]))


def _signed(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 999.5 else f"{value:+.3g}"


def _longer(days: float) -> str:
    """How much longer a trial takes."""
    if days < 14:
        return counted(max(1, math.ceil(days)), "more day")
    return f"{days / 7:,.0f} more weeks"


def _decimals(width: float) -> int:
    """How many decimals show an interval of a width: two digits of it, and one decimal at least."""
    return min(max(1, 1 - math.floor(math.log10(width))), 12) if width > 0 else 1
