"""What a check of a model found, in sentences for the people at the plant, most important first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING

import numpy as np

from holdcourse.errors import counted
from holdcourse.movement.problem import Problem
from holdcourse.units import beside

if TYPE_CHECKING:
    from holdcourse.learning.checking.result import ModelCheck

FEWEST = 20  # readings, below which nothing is checked
TOO_NARROW, TOO_WIDE = 0.88, 0.75  # held by bands of 95 % and of 50 %
MOSTLY = 0.75  # share of readings at one setting that is worth a word
TOGETHER = 0.5  # share of the choice of settings that a context explains


def in_words(check: ModelCheck) -> Iterable[str]:
    """Give the sentences."""
    t = len(check.history)
    if not check.enough:
        readings = "There are no readings" if t == 0 else f"There {'are' if t > 1 else 'is'} {counted(t, 'reading')}"
        yield f"{readings}, too few to check a model: that takes {FEWEST} or more."
        yield from _words_on_settings(check)
        return
    yield _words_on_errors(check)
    yield _words_on_bands(check)
    yield from _words_on_settings(check)
    if check.explained > 0:
        yield from _words_on_axes(check)
    yield from _words_on_corners(check)
    if check.gaps:
        told = [f"{gap.axis} {_said(gap.low)} to {_said(gap.high)}" for gap in check.gaps]
        yield f"Hardly anything was measured at {_listed(told, 3)}."
    yield from _words_on_wrong(check)


def _words_on_errors(check: ModelCheck) -> str:
    begin = (
        f"Each of {int(check.fold[-1]) + 1} blocks of the {len(check.history):,} readings was predicted from the others"
    )
    error, median = (check.problem.cost(_said(size)) for size in (check.error, float(np.median(check.measured))))
    size = f"its mean error is {error}, and the median reading is {median}"
    if math.isnan(check.explained):
        return f"{begin}: all are alike, so there is nothing to explain."
    if check.explained <= 0:
        return (
            f"{begin}: the model predicts no better than their mean, so it has learned nothing from this history yet; "
            f"{size}."
        )
    beyond = check.explained_beyond_settings
    rest = "no more than the mean of each setting does"
    if beyond > 0:
        rest = f"{percent(beyond)} of the variation within each setting"
    return f"{begin}: the model explains {percent(check.explained)} of their variation ({rest}); {size}."


def _words_on_bands(check: ModelCheck) -> str:
    held = check.coverage
    sentence = f"Its 95 % bands contain {percent(held[0.95])} of the readings, its 50 % bands {percent(held[0.5])}"
    if held[0.95] < TOO_NARROW:
        return f"{sentence}: it is more certain than it should be."
    return f"{sentence}{': it is less certain than it could be' if held[0.5] > TOO_WIDE else ''}."


def _words_on_settings(check: ModelCheck) -> Iterable[str]:
    n, never, hardly, unsure = check.problem.n, len(check.never), len(check.hardly), len(check.unsure)
    if not len(check.history):
        return
    most = int(check.counts.argmax())
    if never == n - 1 and n > 1:
        only = _setting(check.problem, most)
        yield f"Only one of {n} settings was ever measured ({only}): this history cannot tell what the others cost."
        return
    if never or hardly:
        told = [f"{never} of {n} settings {'was' if never == 1 else 'were'} never tried"] if never else []
        if hardly:
            more = "more" if never else f"of {n} settings"
            told.append(f"{hardly} {more} {'was' if hardly == 1 else 'were'} tried in fewer than five readings")
        cost = "it costs is a guess from its" if never + hardly == 1 else "they cost is a guess from their"
        guess = f"{' and '.join(told)}: what {cost} neighbours"
        if check.enough and unsure:
            settings = counted(unsure, "setting")
            guess += f". The model is still more than half as unsure about {settings} as without any reading"
        yield f"{guess}."
    share = float(check.counts[most] / check.counts.sum())
    if check.enough and n > 1 and share > MOSTLY:
        yield f"{percent(share)} of the readings are at one setting ({_setting(check.problem, most)})."


def _words_on_axes(check: ModelCheck) -> Iterable[str]:
    seen = sorted((axis for axis in check.contexts if axis.visible), key=lambda axis: -axis.growth)
    if seen:
        told = [f"{axis.name} (errors {_larger(axis.growth)} without it)" for axis in seen]
        yield f"The cost depends on {_listed(told, 4)}."
    axes = [*check.contexts, *(check.settings if len(np.unique(check.history.actions)) > 1 else ())]
    useless = [axis.name for axis in axes if axis.varied and not axis.visible]
    if useless:
        yield f"{_begin(_listed(useless, 4))} {_verb(useless, 'makes', 'make')} no visible difference here."
    fixed = [axis.name for axis in axes if not axis.varied]
    if fixed:
        effects = _verb(fixed, "its effect", "their effects")
        yield f"{_begin(_listed(fixed, 4))} never changed, so {effects} cannot be known."


def _words_on_corners(check: ModelCheck) -> Iterable[str]:
    names = [axis.name for axis in check.contexts]
    followed = [name for name, share in zip(names, check.together, strict=True) if share > TOGETHER]
    if followed:
        yield (
            f"Settings were changed together with {_listed(followed, 3)}, so nobody can tell which of them made the "
            "difference."
        )
    matter = {axis.name for axis in check.contexts if axis.visible}
    corners = [corner for corner in check.corners if corner.axis in matter]
    if corners:
        tried: dict[int, list[str]] = {}
        for corner in corners:
            where = f"{corner.axis} {_said(corner.low)} to {_said(corner.high)}"
            tried.setdefault(corner.action, []).append(where)
        told = [f"{_setting(check.problem, action)} at {_listed(where, 3)}" for action, where in tried.items()]
        verb = _verb(tried, "setting was", "settings were")
        yield f"{len(tried)} {verb} tried only in a narrow range of conditions: {_listed(told, 2, '; ')}."


def _words_on_wrong(check: ModelCheck) -> Iterable[str]:
    if not len(check.wrong):
        return
    order = np.argsort(-np.abs(check.off[check.wrong]), kind="stable")
    told = [
        f"row {row} ({_said(check.measured[row])} where about {_said(check.predicted[row])} was expected)"
        for row in check.wrong[order]
    ]
    yield (
        f"{counted(len(told), 'reading looks', 'readings look')} wrong: {_listed(told, 3)}. Rows are counted from 0. "
        "Correct such readings, or leave them out."
    )


def _setting(problem: Problem, action: int) -> str:
    value = problem.value(action)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(number)}" for name, number in value.items())
    if isinstance(value, int | float | np.number):
        return beside(_said(float(value)), problem.units[0])
    return str(value)


def _listed(items: Sequence[str], most: int, comma: str = ", ") -> str:
    if len(items) > most:
        return f"{comma.join(items[:most])} and {len(items) - most} more"
    return comma.join(items) if comma != ", " or len(items) < 2 else f"{', '.join(items[:-1])} and {items[-1]}"


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


def _verb(things: Sized, one: str, several: str) -> str:
    return one if len(things) == 1 else several


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def _larger(growth: float) -> str:
    times = f"{1 + growth:.1f}" if growth < 9 else _said(1 + growth)
    return f"{times} times as large" if growth >= 1 else f"{100 * growth:.0f} % larger"


def _said(number: float) -> str:
    return f"{number:,.0f}" if 999.5 <= abs(number) < 1e15 else f"{number:.3g}"
