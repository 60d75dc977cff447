"""Past measurements: which action was measured in which context, and the checks that contexts and measurements pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import CONVERT, are_numbers, float_array, one_number, require_numbers, too_large, with_gaps
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.movement.offline import best_fixed
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

LARGEST = 1e150  # squares of larger numbers overflow, and of numbers smaller than its inverse vanish


@dataclass(frozen=True, eq=False, init=False)
class History:
    """Past measurements, oldest first; several may come from one round (a whole profile measured at once).

    Parameters
    ----------
    actions
        Indices of the actions measured, shape (t,).
    contexts
        The context of each measurement, shape (t, d), or (t,) for contexts that are single numbers.
    measurements
        Measurements, shape (t,).

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = hc.History(actions=[0, 2, 2], contexts=[0.1, 0.1, 0.7], measurements=[3.0, 4.5, 4.0])
    >>> len(past), past.contexts.shape
    (3, (3, 1))
    """

    actions: Indices
    contexts: Array
    measurements: Array

    def __init__(self, actions: ArrayLike, contexts: ArrayLike, measurements: ArrayLike) -> None:
        try:
            actions = np.asarray(actions)
        except ValueError:
            raise InvalidInput(f"history actions must be a list of action indices, got {shown(actions)}") from None
        if actions.ndim != 1 or (actions.size and not np.issubdtype(actions.dtype, np.integer)):
            raise InvalidInput(
                f"history actions must be a list of action indices, got {actions.dtype} of shape {actions.shape}"
            )
        contexts = check_contexts(contexts, None, "history contexts")
        require_numbers(measurements, "history measurements")
        measurements = float_array(measurements, "history measurements")
        if measurements.ndim != 1 or not len(actions) == len(contexts) == len(measurements):
            raise InvalidInput(
                f"a history needs one context and one measurement per action, got {counted(len(actions), 'action')}, "
                f"{counted(len(contexts), 'context')} and measurements of shape {measurements.shape}"
            )
        bad = np.flatnonzero(~np.isfinite(measurements))
        if len(bad):
            raise InvalidInput(
                f"measurement {bad[0]} of the history is {measurements[bad[0]]}; leave out what was not measured"
            )
        for name, array in (
            ("actions", actions.astype(np.int64)),
            ("contexts", contexts),
            ("measurements", measurements),
        ):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def of(cls, past: History | Iterable[tuple[int, ArrayLike, float]]) -> History:
        """Return the history itself, or make one of (action, context, measurement) triples."""
        return past if isinstance(past, History) else cls.from_triples(past)

    @classmethod
    def from_triples(cls, triples: Iterable[tuple[int, ArrayLike, float]]) -> History:
        """Make a history of (action, context, measurement) triples; None is the empty context."""
        if not isinstance(triples, Iterable):
            raise InvalidInput(f"history must be (action, context, measurement) triples, got {shown(triples)}")
        rows = list(triples)
        if not rows:
            return cls(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), np.zeros(0))
        wrong = next((k for k, row in enumerate(rows) if not isinstance(row, Sequence) or len(row) != 3), None)
        if wrong is not None:
            raise InvalidInput(
                f"measurement {wrong} of the history must be (action, context, measurement), got {shown(rows[wrong])}"
            )
        actions, contexts, measurements = zip(*rows, strict=True)
        dimension = len(check_context(contexts[0], None))
        return cls(actions, np.array([check_context(context, dimension) for context in contexts]), measurements)

    def check(self, problem: Problem, dimension: int | None) -> None:
        """Raise an error unless every action is one of `problem` and every context has this dimension."""
        actions, contexts = self.actions, self.contexts
        bad = np.flatnonzero((actions < 0) | (actions >= problem.n))
        if len(bad):
            raise InvalidInput(
                f"measurement {bad[0]} of the history belongs to action {actions[bad[0]]}, but the actions are "
                f"numbered from 0 to {problem.n - 1}"
            )
        if len(self) and dimension is not None and contexts.shape[1] != dimension:
            raise InvalidInput(
                f"the contexts of the history must have {counted(dimension, 'number')}, got {contexts.shape[1]}"
            )

    def __len__(self) -> int:
        return len(self.actions)


def context_vector(context: Any) -> Array:
    """One context as a vector (d,), for those who hand it on to one who checks its length and its numbers."""
    if context is None:
        context = ()
    try:
        vector = np.array(with_gaps(context), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"a context must be a number or a list of numbers, got {shown(context)}") from None
    except OverflowError:
        raise too_large(context, "a context") from None
    if vector.ndim == 0:
        vector = vector.reshape(1)
    if vector.ndim != 1:
        raise _wrong_shape(context, vector, None)
    return vector


def check_context(context: Any, dimension: int | None) -> Array:
    """Return one context as a vector (d,); a plain number is a vector of one, None is the empty vector."""
    if not are_numbers(context):
        raise InvalidInput(f"a context must be a number or a list of numbers, got {shown(context)}; {CONVERT}")
    vector = context_vector(context)
    if dimension is not None and vector.shape[0] != dimension:
        raise _wrong_shape(context, vector, dimension)
    for value in vector.tolist():
        if not math.isfinite(value):
            raise InvalidInput(
                f"a context must be finite, got {vector.tolist()}; fill the gap before asking or telling"
            )
    return vector


def _wrong_shape(context: Any, vector: Array, dimension: int | None) -> InvalidInput:
    if dimension == 0:
        return InvalidInput(
            f"no earlier round had a context, so this one cannot have one, got {shown(context)}; leave it out, or "
            "start again and give a context from the first round on"
        )
    expected = (
        "a number or a flat list of numbers" if dimension is None else f"{dimension} number{'s' * (dimension != 1)}"
    )
    if vector.ndim == 1 and dimension is not None:
        return InvalidInput(f"a context must be {expected}, got {shown(context) if vector.size else 'none'}")
    return InvalidInput(f"a context must be {expected}, got {shown(context)} of shape {vector.shape}")


def context_rows(contexts: Any, dimension: int | None = None, what: str = "contexts") -> Array:
    """Several contexts as rows (k, d), for those who hand them on to one who checks their numbers."""
    try:
        rows = np.array(with_gaps(contexts), dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be an array of shape (k,) or (k, d), got {shown(contexts)}") from None
    except OverflowError:
        raise too_large(contexts, what) from None
    if rows.ndim == 1:
        rows = rows[:, None] if len(rows) or dimension is None else rows.reshape(0, dimension)
    if rows.ndim != 2 or (dimension is not None and rows.shape[1] != dimension):
        raise InvalidInput(f"{what} must have shape (k, {'d' if dimension is None else dimension}), got {rows.shape}")
    return rows


def check_contexts(contexts: Any, dimension: int | None, what: str = "contexts") -> Array:
    """Return several contexts as rows (k, d); a flat list is k contexts of one number each."""
    require_numbers(contexts, what)
    rows = context_rows(contexts, dimension, what)
    if not np.isfinite(rows).all():
        i = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InvalidInput(f"{what} must be finite, but row {i} is {rows[i].tolist()}")
    return rows


def check_measurement(y: Any) -> float:
    """Return a measurement as a float, which must be finite."""
    value = one_number(y, "a measurement")
    if not math.isfinite(value):
        raise InvalidInput(f"a measurement must be finite, got {value}; skip the round if nothing was measured")
    return value


def require_squarable(values: ArrayLike, what: str) -> None:
    """Raise where a number is too large to be learned from."""
    largest = abs(values) if isinstance(values, float) else float(np.abs(values).max(initial=0.0))
    if largest > LARGEST:
        raise InvalidInput(
            f"{what} contain {largest:g}, which is too large to be squared; change the unit so that numbers stay below "
            f"{LARGEST:g}"
        )


def best_measured(past: History, problem: Problem, *, maximise: bool = False) -> int | None:
    """The action of least mean cost in a history, of those that were tried; None if there were none."""
    past.check(problem, None)
    sums = np.bincount(past.actions, weights=past.measurements, minlength=problem.n)
    counts = np.bincount(past.actions, minlength=problem.n)
    means = np.full(problem.n, np.inf)
    np.divide(-sums if maximise else sums, counts, out=means, where=counts > 0)
    return best_fixed(means[None], problem)
