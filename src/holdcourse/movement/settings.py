"""Settings as people write them: find the action that is meant, and write an action so that it is found again.

Inside, actions are indices 0..n-1. At a machine they are settings: a number, a point, a place on a grid, or a name. A
setting that the problem does not have is an error; it is never taken for an index or for the nearest setting.

Two numbers are equal if they differ by at most `TOLERANCE`, relative to their size or to the smallest step between
settings; a number that is equal to the last bit comes first. If settings have labels, these must match letter by
letter.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_whole
from holdcourse.errors import InvalidInput, plain, shown
from holdcourse.units import amount

if TYPE_CHECKING:
    from holdcourse.movement.knob import Knob
    from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]

TOLERANCE = 1e-9
SHOWN = 3  # nearest settings in an error
LISTED = 8  # labels in an error
DIGITS = (6, 9, 12, 15)  # with which a number is tried to be written before it is written in full


def index_of(problem: Problem, setting: Any, what: str = "setting") -> int:
    """Return the action that `setting` names; `what` is the name of the parameter in the error."""
    if problem.in_groups:
        return problem.index(setting)
    setting = plain(setting)
    if problem.labels is not None:
        found = _labelled(problem.labels, setting)
    else:
        point = _point(problem, setting, what)
        found = _at(problem, point)
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(
            f"{what}={setting!r} is equally near to {' and '.join(_said(problem, k) for k in found[:SHOWN])}; write "
            f"all digits, or give {what}_index={found[0]}"
        )
    raise InvalidInput(f"{what}={shown(setting)} is not a setting; {_instead(problem, setting, what)}")


def chosen(problem: Problem, setting: Any, index: int | None, what: str) -> int | None:
    """The action given as a setting, or by its index under a name of its own; None if it is neither."""
    if setting is not None and index is not None:
        raise InvalidInput(f"give {what} or {what}_index, not both; got {shown(setting)} and {shown(index)}")
    if index is not None:
        if not is_whole(index) or not 0 <= index < problem.n:
            raise InvalidInput(f"{what}_index={shown(index)} is not an index from 0 to {problem.n - 1}")
        return int(index)
    return None if setting is None else index_of(problem, setting, what)


def required(problem: Problem, setting: Any, index: int | None, what: str) -> int:
    """The action given as a setting, or by its index; an error where it is neither."""
    action = chosen(problem, setting, index, what)
    if action is None:
        raise InvalidInput(f"{what} is missing: give a setting, such as {_said(problem, 0)}, or {what}_index")
    return action


def several(problem: Problem, settings: Any, what: str) -> list[int]:
    """The actions that a list of settings names; each once."""
    if isinstance(settings, str | Mapping) or not hasattr(settings, "__iter__"):
        raise InvalidInput(f"{what} must be a list of settings or {problem.n} booleans, got {shown(settings)}")
    given = [plain(setting) for setting in settings]
    if len(given) == problem.n > 1 and all(type(each) is int and each in (0, 1) for each in given):
        raise InvalidInput(
            f"{what}={given} may be a mask or a list of settings; write True and False for a mask, or decimal numbers "
            "such as 1.0 for settings"
        )
    found = [index_of(problem, setting, what) for setting in given]
    if len(set(found)) < len(found):
        twice = next(k for k in found if found.count(k) > 1)
        raise InvalidInput(f"{what} names {_said(problem, twice)} twice; name every setting once")
    return found


def text_of(problem: Problem, action: int) -> str:
    """Return the setting as text without its unit, with enough digits to find it again."""
    value = problem.value(action)
    if problem.labels is not None:
        return str(value)
    for digits in DIGITS:
        text = _written(value, digits)
        if not any(isinstance(x, float) for x in (value.values() if isinstance(value, dict) else [0.0])):
            return text  # names only
        if _at(problem, _read_point(problem, text)) == [action]:
            return text
    return _written(value, None)


def read(problem: Problem, text: str, what: str = "setting") -> int:
    """Return the action of a setting that is text: ``8``, ``(1, 2)``, ``a=1, b=2``, or as `text_of` writes it.

    Labels must match letter by letter.
    """
    text = text.strip()
    if problem.labels is not None:
        found = [k for k, label in enumerate(problem.labels) if str(label) == text]
        return found[0] if len(found) == 1 else index_of(problem, text, what)
    parts = _parts(text, problem)
    knobs = dict(zip(problem.axis_names or (), problem.knobs or (), strict=True))
    in_order: list[Knob | None] = list(knobs.values()) or [None] * len(parts)
    units = dict(zip(problem.axis_names or range(len(problem.units)), problem.units, strict=True))
    try:
        numbers: Any = [
            _read_value(number, knobs.get(name) or in_order[place % len(in_order)], units.get(name or place, ""), what)
            for place, (name, number) in enumerate(parts)
        ]
    except InvalidInput as error:
        why = str(error).removeprefix(f"{what}={text!r} ")
        raise InvalidInput(f"{what}={text!r} is not a setting ({why}); {_instead(problem, text, what)}") from None
    names = [name for name, _ in parts if name]
    if names:
        if len(set(names)) < len(numbers):
            raise InvalidInput(f"{what}={text!r} is not a setting; give one value for each axis, each by its name")
        return index_of(problem, dict(zip(names, numbers, strict=True)), what)
    return index_of(problem, numbers[0] if len(numbers) == 1 else numbers, what)


def _read_value(text: str, knob: Knob | None, unit: str, what: str) -> Any:
    """One value of a setting, written as text: a number, or one of a knob's names."""
    if knob is None or not knob.is_named:
        return amount(text, unit, what, absolute=True)
    return next((value for value in knob.values if str(value) == text), text)


def _read_point(problem: Problem, text: str) -> Array:
    """The coordinates of a setting that `_written` wrote, with all its parts in their order."""
    knobs = problem.knobs or (None,) * problem.actions.shape[1]
    values = [
        _read_value(part, knob, "", "setting") for (_, part), knob in zip(_parts(text, problem), knobs, strict=True)
    ]
    return np.array([_coordinate(value, knob) for value, knob in zip(values, knobs, strict=True)])


def _coordinate(value: Any, knob: Knob | None) -> float:
    """The coordinate of a value of a setting; NaN where a knob has no such name."""
    if knob is None or not knob.is_named:
        return float(value) if _is_number(value) else math.nan
    place = knob.place(plain(value))
    return math.nan if place is None else place


def _parts(text: str, problem: Problem) -> list[tuple[str, str]]:
    """The parts of a setting that is written as text, each with the name of its axis, if it has one.

    Of several parts a comma is between two of them, and a semicolon where commas come before decimals.
    """
    inside = text.strip().removeprefix("(").removeprefix("[").removesuffix(")").removesuffix("]")
    axes = problem.actions.shape[1]
    several_parts = axes > 1 and ";" not in inside
    return [_part(part.strip(), problem) for part in inside.split("," if several_parts else ";")]


def _part(text: str, problem: Problem) -> tuple[str, str]:
    if "=" in text:
        name, _, number = text.partition("=")
        return name.strip(), number.strip()
    for name in sorted(problem.axis_names or (), key=len, reverse=True):  # "a b 1" is of axis "a b", if there is one
        if text.startswith(f"{name} "):
            return name, text.removeprefix(name).strip()
    return "", text


def _written(value: Any, digits: int | None) -> str:
    def number(x: Any) -> str:
        if not isinstance(x, float):
            return str(x)  # a name
        return repr(x) if digits is None else f"{x:.{digits}g}"

    match value:
        case dict(named):
            return ", ".join(f"{axis} {number(x)}" for axis, x in named.items())
        case tuple(point):
            return f"({', '.join(number(x) for x in point)})"
        case x:
            return number(x)


def _labelled(labels: Sequence[Any], setting: Any) -> list[int]:
    if isinstance(setting, str):
        return [k for k, label in enumerate(labels) if isinstance(label, str) and label == setting]
    close = [k for k, label in enumerate(labels) if _same(label, setting, TOLERANCE)]
    return [k for k in close if _same(labels[k], setting, 0.0)] or close


def _same(label: Any, setting: Any, tolerance: float) -> bool:
    """Whether two names are the same: numbers nearly, all else entirely."""
    label = plain(label)
    if isinstance(label, bool) or isinstance(setting, bool):
        return label is setting
    if isinstance(label, int | float) and isinstance(setting, int | float):
        return math.isclose(label, setting, rel_tol=tolerance)
    if isinstance(label, list | tuple) and isinstance(setting, list | tuple):
        pairs = zip(label, setting, strict=False)
        return len(label) == len(setting) and all(_same(a, b, tolerance) for a, b in pairs)
    if isinstance(label, Mapping) and isinstance(setting, Mapping):
        return label.keys() == setting.keys() and all(_same(label[key], setting[key], tolerance) for key in label)
    return type(label) is type(setting) and bool(label == setting)


def _point(problem: Problem, setting: Any, what: str) -> Array:
    """The coordinates that somebody wrote; an error that says how they are written."""
    names, axes = problem.axis_names, problem.actions.shape[1]
    given = setting
    if isinstance(setting, Mapping):
        if names is None:
            raise InvalidInput(f"{what}={setting!r} is not a setting: its axes have no names; {_how(problem)}")
        if set(setting) != set(names):
            raise InvalidInput(f"{what}={setting!r} is not a setting: give one value for each of {list(names)}")
        given = [setting[name] for name in names]
    elif not isinstance(setting, list | tuple):
        given = [setting]
    knobs = problem.knobs
    if knobs is not None and len(given) == axes:
        for name, knob, value in zip(names or (), knobs, given, strict=True):
            if knob.is_named and knob.place(plain(value)) is None:
                raise InvalidInput(f"{what}: {name}={value!r} is not one of its values, {list(knob.values)}")
        given = [_coordinate(value, knob) for value, knob in zip(given, knobs, strict=True)]
    if len(given) != axes or not all(_is_number(x) for x in given):
        hint = f"; {_by_index(problem, setting, what)}" if _by_index(problem, setting, what) else ""
        raise InvalidInput(f"{what}={shown(setting)} is not a setting; {_how(problem)}{hint}")
    return np.array(given, dtype=np.float64)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _at(problem: Problem, point: Array) -> list[int]:
    """The actions at a point: the one that is there to the last bit, or else all that are near enough."""
    actions = problem.actions
    if point.shape != actions.shape[1:]:
        return []
    apart = np.abs(actions - point)
    exact: list[int] = np.flatnonzero((apart == 0).all(axis=1)).tolist()
    if exact:
        return exact
    near = np.maximum(TOLERANCE * np.maximum(np.abs(actions), np.abs(point)), TOLERANCE * problem.smallest_steps)
    found: list[int] = np.flatnonzero((apart <= near).all(axis=1)).tolist()
    return found


def smallest_steps(actions: Array) -> Array:
    """The smallest difference between two values on each axis, 0 where there is only one; shape (d,)."""
    steps = []
    for axis in actions.T:
        values = np.unique(axis)
        steps.append(float(np.diff(values).min()) if len(values) > 1 else 0.0)
    return np.array(steps)


def _said(problem: Problem, action: int) -> str:
    """A setting as it may be written in place of what was given."""
    return repr(problem.value(action)) if problem.labels is not None else text_of(problem, action)


def _how(problem: Problem) -> str:
    """How a setting of the problem is written."""
    axes = problem.actions.shape[1]
    what = "a number" if axes == 1 and problem.axis_names is None else f"{axes} numbers" if axes > 1 else "its axis"
    return f"a setting here is {what}, such as {_said(problem, 0)}"


def _by_index(problem: Problem, setting: Any, what: str) -> str:
    """What to write instead where an index may be meant."""
    if is_whole(setting) and 0 <= setting < problem.n and what == "allowed":
        return f"to choose actions by their index, give {problem.n} booleans"
    if is_whole(setting) and 0 <= setting < problem.n:
        return f"for the action with index {setting}, which is {_said(problem, setting)}, write {what}_index={setting}"
    return ""


def _instead(problem: Problem, setting: Any, what: str) -> str:
    """What may be meant by something that is no setting."""
    labels = problem.labels
    parts = []
    if labels is None and not isinstance(setting, str):
        point = _point(problem, setting, what)
        extent = np.ptp(problem.actions, axis=0)
        away = (np.abs(problem.actions - point) / np.where(extent > 0, extent, 1.0)).sum(axis=1)
        nearest = np.argsort(away, kind="stable")[:SHOWN].tolist()
        near = ", ".join(_said(problem, k) for k in nearest)
        parts.append(f"the nearest are {near}" if problem.n > 1 else f"the only setting is {near}")
    elif labels is None:
        parts.append(_how(problem))
    else:
        parts += _near_labels(problem, labels, setting)
    index = _by_index(problem, setting, what)
    return "; ".join([*parts, index] if index else parts)


def _near_labels(problem: Problem, labels: Sequence[Any], setting: Any) -> list[str]:
    parts = []
    if isinstance(setting, str):
        words = [label for label in labels if isinstance(label, str)]
        folded = [label for label in words if label.strip().casefold() == setting.strip().casefold()]
        near = folded or difflib.get_close_matches(setting, words, SHOWN, 0.6)
        if near:
            parts.append(f"did you mean {' or '.join(repr(label) for label in near[:SHOWN])}?")
    elif problem.has_coordinates:
        single = [setting] if not isinstance(setting, list | tuple) else setting
        at = _at(problem, np.array(single, dtype=np.float64)) if all(_is_number(x) for x in single) else []
        if at:
            parts.append(f"these settings are given by their labels, and that one is {_said(problem, at[0])}")
    more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    parts.append(f"the settings are {', '.join(_said(problem, k) for k in range(min(len(labels), LISTED)))}{more}")
    return parts
