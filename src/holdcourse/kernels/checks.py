"""What a kernel may be made of: covariance matrices, shifts and scales."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import float_array, require_finite
from holdcourse.errors import InvalidInput

Array: TypeAlias = NDArray[np.float64]

SYMMETRY_TOLERANCE = 1e-9  # relative; rounding in a user's own covariance matrix is not an error


def checked_covariance(matrix: Any) -> Array:
    """An (n, n) covariance matrix of the actions, exactly symmetric and read-only."""
    try:
        square = np.array(matrix, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(
            f"action must be a scikit-learn kernel such as RBF(0.2), or an (n, n) covariance matrix, got {matrix!r}"
        ) from None
    if square.ndim != 2 or square.shape[0] != square.shape[1] or square.size == 0:
        raise InvalidInput(f"the action covariance must be an (n, n) matrix, got shape {square.shape}")
    require_finite(square, "the action covariance")
    scale = float(np.abs(square).max())
    if scale == 0 or np.diag(square).min() < 0:
        raise InvalidInput("the action covariance must have variances on its diagonal: not negative, and not all 0")
    uneven = np.abs(square - square.T)
    if uneven.max() > SYMMETRY_TOLERANCE * scale:
        i, j = (int(k) for k in np.unravel_index(int(uneven.argmax()), square.shape))
        raise InvalidInput(
            f"the action covariance must be symmetric, but ({i}, {j}) is {square[i, j]:.6g} and back {square[j, i]:.6g}"
        )
    square = (square + square.T) / 2
    lowest = float(np.linalg.eigvalsh(square)[0])
    if lowest < -SYMMETRY_TOLERANCE * scale * len(square):
        raise InvalidInput(f"the action covariance must be positive semidefinite, but has the eigenvalue {lowest:.3g}")
    square.setflags(write=False)
    return square


def checked_axis_numbers(values: Any, name: str, *, positive: bool) -> float | Array:
    """A shift or a scale: one number, or one per axis."""
    numbers = float_array(values, name)
    if numbers.ndim > 1 or numbers.size == 0 or not np.isfinite(numbers).all() or (positive and (numbers <= 0).any()):
        raise InvalidInput(f"{name} must be a finite{' positive' * positive} number, or one per axis, got {values!r}")
    if numbers.size == 1:
        return float(numbers.reshape(-1)[0])
    numbers.setflags(write=False)
    return numbers
