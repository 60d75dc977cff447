"""What was asked, checked and in plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, plain
from holdcourse.history import check_context, check_contexts
from holdcourse.problem import Problem


@dataclass(frozen=True)
class Request:
    """A question in plain JSON values, so that a repeated one can be compared and a recorded one asked again."""

    context: Any
    allowed: tuple[int, ...] | None = None
    forecast: Any = None
    costs: tuple[float, ...] | None = None

    @classmethod
    def of(cls, problem: Problem, context: Any, allowed: ArrayLike | None, forecast: Any, costs: Any) -> Request:
        """Check and simplify what a caller passed."""
        return cls(
            context=_context(context),
            allowed=_allowed_indices(allowed, problem.n),
            forecast=_forecast(forecast),
            costs=None if costs is None else _costs(costs, problem.n),
        )

    def mask(self, n: int) -> NDArray[np.bool_]:
        """Which actions may be chosen."""
        mask = np.full(n, self.allowed is None)
        mask[list(self.allowed or ())] = True
        return mask

    def describe(self) -> dict[str, Any]:
        """The request as JSON values; what was not given is left out."""
        fields = {"context": self.context, "allowed": self.allowed, "forecast": self.forecast, "costs": self.costs}
        given = {name: value for name, value in fields.items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Request:
        """Read what `describe` gave."""
        tuples = {name: tuple(data[name]) for name in ("allowed", "costs") if name in data}
        return cls(context=data.get("context"), forecast=data.get("forecast"), **tuples)


def _plain(value: Any, what: str) -> Any:
    """Numbers and nested lists of them, as JSON would hold them; None stays None."""
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be a number or a list of numbers, got {plain(value)!r}") from None
    if np.isnan(array).any():
        raise InvalidInput(f"{what} must not hold NaN, got {array.tolist()}; fill the gap before asking")
    return array.tolist()


def _context(context: Any) -> Any:
    simple = _plain(context, "context")
    check_context(simple, None)  # also for those who do not look at it: it must be possible to tell
    return simple


def _forecast(forecast: Any) -> Any:
    simple = _plain(forecast, "forecast")
    if simple is not None:
        check_contexts(simple, None, "forecast")
    return simple


def _costs(costs: Any, n: int) -> tuple[float, ...]:
    simple = _plain(costs, "costs")
    if np.shape(simple) != (n,):
        raise InvalidInput(f"costs must be {n} numbers, one per action, got {simple}")
    return tuple(simple)


def _allowed_indices(allowed: ArrayLike | None, n: int) -> tuple[int, ...] | None:
    if allowed is None:
        return None
    mask = np.asarray(allowed)
    if mask.shape != (n,) or mask.dtype != np.bool_:
        raise InvalidInput(f"allowed must be {n} booleans, one per action, got {mask.dtype} of shape {mask.shape}")
    if not mask.any():
        raise InvalidInput("allowed forbids every action; allow at least one")
    return tuple(np.flatnonzero(mask).tolist())
