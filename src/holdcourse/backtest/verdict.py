"""The verdict of a backtest: which line it is about, how sure its gain is, and how percentages are put into words."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit as student_quantile

from holdcourse.deciding import registry

Array: TypeAlias = NDArray[np.float64]
Verdict: TypeAlias = Literal["yes", "no", "stayed", "undecided", "too few", "no comparison"]

REFERENCE = "gp-md"  # the paper's algorithm
BOOTSTRAP_DRAWS = 2000
LEVEL = 0.95  # of an interval
MONTH = 4  # weeks that are resampled together
BATCH, FEWEST_BATCHES = 10, 6  # weeks whose gains are compared, and how many of them
STRETCH = 2.5  # of intervals from the weeks of a half-year; see docs/how-to/wind-backtest.md
VERDICTS: dict[Verdict, tuple[str, str]] = {
    "yes": ("yes", "✔ Yes"),
    "no": ("no", "✘ No"),
    "stayed": ("no", "= It stayed"),
    "undecided": ("unsure", "? Undecided"),
    "too few": ("unsure", "? Too few data"),
    "no comparison": ("unsure", "? No comparison"),
}


class Line(Protocol):
    """One row of the result of a backtest: a policy, and what it would have made."""

    @property
    def policy(self) -> str:
        """Name of the policy."""
        ...


AnyLine = TypeVar("AnyLine", bound=Line)


def line_of(lines: Sequence[AnyLine], policy: str) -> AnyLine:
    """Return the line of one policy."""
    return next(line for line in lines if line.policy == policy)


def runnable(lines: Sequence[AnyLine], others: Collection[str]) -> list[AnyLine]:
    """Return the policies that could have been run: all but those that know too much, and `others`; in the order given.

    A policy that is not in the table, such as a user's own, counts as one that could be run.
    """
    return [line for line in lines if line.policy not in others and not registry.is_knowing(line.policy)]


def judged(candidates: Sequence[AnyLine], ours: str) -> AnyLine | None:
    """Return the line that the answer is about: the policy that we would run, or else the first of the candidates."""
    return next((line for line in candidates if line.policy == ours), next(iter(candidates), None))


Blocks: TypeAlias = tuple[Array, Array]  # what one policy and the other made in blocks that follow each other


def gain_interval(
    ours: Array, theirs: Array, past: Sequence[Blocks] = (), stretch: float = STRETCH
) -> tuple[float, float]:
    """Bound the gain that one policy has over another at a site, in percent; NaN where that says nothing.

    Weeks are alike for months, seasons and years differ, and a half-year may hold none of the few weeks that make the
    difference: neither can be seen in the weeks of a half-year. So the interval comes from how much the gain of
    `BATCH` weeks varied over all weeks that are known, those of a history too, and Student's distribution. Where there
    are fewer than `FEWEST_BATCHES` of them, weeks and blocks of `MONTH` weeks are resampled, and the wider interval is
    stretched by what that was too narrow by, on average, where years were known.

    Parameters
    ----------
    ours, theirs
        What each made in every week, shape (weeks,).
    past
        The same in earlier weeks, in pieces without gaps.
    stretch
        By how much an interval by resampling is widened.
    """
    single, together = (_resampled(ours, theirs, length) for length in (1, MONTH))
    if not len(single):
        return math.nan, math.nan
    gain = 100 * (float(ours.sum()) / float(theirs.sum()) - 1)
    half = half_width(ours, theirs, past)
    if not math.isnan(half):
        return gain - half, gain + half
    ends = [np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) for gains in (single, together) if len(gains)]
    low, high = (float(pick(each)) for pick, each in zip((min, max), zip(*ends, strict=True), strict=True))
    return gain + stretch * (low - gain), gain + stretch * (high - gain)


def _resampled(ours: Array, theirs: Array, length: int) -> Array:
    """Gains in percent of weeks drawn in blocks of some; none where a percentage of next to nothing says nothing."""
    weeks = len(ours)
    starts = np.random.default_rng(0).integers(weeks, size=(BOOTSTRAP_DRAWS, -(-weeks // length)))
    drawn = ((starts[:, :, None] + np.arange(length)) % weeks).reshape(BOOTSTRAP_DRAWS, -1)[:, :weeks]
    made, made_by_them = ours[drawn].sum(axis=1), theirs[drawn].sum(axis=1)
    usable = made_by_them > 0
    if usable.mean() < LEVEL:
        return np.zeros(0)
    return np.asarray(100 * (made[usable] - made_by_them[usable]) / made_by_them[usable])


def half_width(ours: Array, theirs: Array, past: Sequence[Blocks] = ()) -> float:
    """Half of the interval of a gain, by batches of all weeks that are known; NaN where these are too few.

    The arguments are as in `gain_interval`.
    """
    pieces = [*past, (ours, theirs)]
    made, made_by_them = (sum(float(piece[side].sum()) for piece in pieces) for side in (0, 1))
    batches = [
        (float(mine[k : k + BATCH].sum()), float(other[k : k + BATCH].sum()))
        for mine, other in pieces
        for k in range(0, len(mine) - BATCH + 1, BATCH)
    ]
    if len(batches) < FEWEST_BATCHES or not made_by_them > 0:
        return math.nan
    table = np.array(batches)
    more = 100 * (table[:, 0] - made / made_by_them * table[:, 1]) / table[:, 1].mean()  # than usual, in percent
    deviation = math.sqrt(float((more**2).sum()) / (len(more) - 1) * BATCH / len(ours))
    return float(student_quantile(len(more) - 1, (1 + LEVEL) / 2)) * deviation


def next_interval(gain: float, low: float, high: float) -> tuple[float, float]:
    """Return where the gain of another period of the same length would lie: it varies as much as this one."""
    return gain + math.sqrt(2) * (low - gain), gain + math.sqrt(2) * (high - gain)


def verdict(low: float, high: float, *, comparable: bool = True, enough: bool = True, stayed: bool = False) -> Verdict:
    """Return whether the policy judged would have paid off.

    Parameters
    ----------
    low, high
        Interval of its gain in percent; NaN where there is none.
    comparable
        Whether there is a policy to judge, and something to compare it with.
    enough
        Whether there are enough data to say anything.
    stayed
        Whether it did nothing but stay where it is compared with staying.
    """
    if not comparable:
        return "no comparison"
    if not enough:
        return "too few"
    if math.isnan(low):
        return "no comparison"
    if stayed:
        return "stayed"
    if low > 0:
        return "yes"
    return "no" if high < 0 else "undecided"


def compared(percent: float, above: str, below: str) -> str:
    """Return a difference in words: ``1.2 % less``; `above` is the word for 0 and more."""
    return f"{abs(percent):.1f} % {above if percent >= 0 else below}"


def signed(percent: float) -> str:
    """Return a percentage with its sign; what one digit would call zero, with two."""
    return f"{percent:+.1f}" if round(percent, 1) else f"{round(percent, 2) + 0.0:+.2f}"


def style(name: str = "report") -> str:
    """Return the style that all our reports share, or that of one kind of them."""
    return (files("holdcourse.backtest") / "page" / f"{name}.css").read_text(encoding="utf-8")
