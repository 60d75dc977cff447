"""States as arrays by name. The arrays of a state within another one are named under a prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

from holdcourse.errors import InvalidInput

Arrays: TypeAlias = dict[str, NDArray[Any]]


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The same arrays, named under a prefix."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays named under a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def require_arrays(arrays: Mapping[str, NDArray[Any]], names: Iterable[str], whose: str) -> None:
    """Raise unless a saved state holds these arrays."""
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InvalidInput(f"this is not the state of {whose}: {missing} missing, found {sorted(arrays)}")
