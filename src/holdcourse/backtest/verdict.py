"""The verdict of a backtest: which line it is about, how sure its gain is, and how percentages are put into words."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdcourse.deciding import registry

Array: TypeAlias = NDArray[np.float64]
Verdict: TypeAlias = Literal["yes", "no", "stayed", "undecided", "too few", "no comparison"]

REFERENCE = "gp-md"  # the paper's algorithm
BOOTSTRAP_DRAWS = 2000
LEVEL = 0.95  # of an interval
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


def gain_interval(ours: Array, theirs: Array) -> tuple[float, float]:
    """Bound one policy's gain over another, in percent, by resampling blocks; NaN where that says nothing.

    Parameters
    ----------
    ours, theirs
        What each made in every block, shape (blocks,). Blocks are long enough to be nearly independent.
    """
    blocks = len(ours)
    drawn = np.random.default_rng(0).integers(blocks, size=(BOOTSTRAP_DRAWS, blocks))
    made, made_by_them = ours[drawn].sum(axis=1), theirs[drawn].sum(axis=1)
    usable = made_by_them > 0
    if usable.mean() < LEVEL:  # a percentage of next to nothing says nothing
        return math.nan, math.nan
    gains = 100 * (made[usable] - made_by_them[usable]) / made_by_them[usable]
    low, high = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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
