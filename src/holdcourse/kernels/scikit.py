"""scikit-learn's kernels, told apart without importing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdcourse.errors import InvalidInput


def is_sklearn_kernel(value: Any) -> bool:
    """Whether it has what we ask of one; a class of the user's own may have it too."""
    return callable(value) and hasattr(value, "diag") and hasattr(value, "get_params") and not isinstance(value, type)


def _children(kernel: Any) -> list[Any]:
    return [value for value in kernel.get_params(deep=False).values() if is_sklearn_kernel(value)]


def refuse_noise(kernel: Any, name: str) -> None:
    """Raise where a kernel holds noise, however deep; `name` says whose part it is."""
    if not is_sklearn_kernel(kernel):
        return
    if type(kernel).__name__ == "WhiteKernel":
        raise InvalidInput(
            f"{name} holds a WhiteKernel; noise is no part of a kernel here, pass it as noise_std instead"
        )
    for child in _children(kernel):
        refuse_noise(child, name)


def axis_counts(kernel: Any) -> list[int]:
    """Sizes of the per-axis length scales in a kernel, 1 where there is one for all."""
    own = [int(np.size(kernel.get_params(deep=False).get("length_scale", 1.0)))]
    return own + [count for child in _children(kernel) for count in axis_counts(child)]
