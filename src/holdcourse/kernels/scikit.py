"""scikit-learn's kernels, told apart without importing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdcourse.checks import float_array
from holdcourse.errors import InvalidInput, plain

OPERANDS = ("k1", "k2", "kernel")
# What each number of scikit-learn's kernels must be above, whether it may be equal, and how many axes it may have.
NUMBERS = {
    "length_scale": (0.0, False, 1),
    "nu": (0.0, False, 0),
    "alpha": (0.0, False, 0),
    "periodicity": (0.0, False, 0),
    "constant_value": (0.0, False, 0),
    "sigma_0": (0.0, True, 0),
    "exponent": (0.0, False, 0),
}


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


def check_parameters(kernel: Any, name: str) -> None:
    """Raise where a number in a kernel makes no sense, however deep; `name` says whose part it is.

    scikit-learn takes any value, and a NaN would only be found in a decision. Of a class of the user's own we know just
    that NaN is no parameter.
    """
    if not is_sklearn_kernel(kernel):
        return
    kind, ours = type(kernel).__name__, type(kernel).__module__.startswith("sklearn.")
    for option, value in kernel.get_params(deep=False).items():
        where = f"{option} of {kind} in {name}"
        if is_sklearn_kernel(value):
            check_parameters(value, name)
        elif ours and option in OPERANDS:
            raise InvalidInput(f"{where} must be a kernel, got {value!r}")
        elif ours and option in NUMBERS:
            _check_numbers(value, where, *NUMBERS[option])
        elif ours and option.endswith("_bounds") and not isinstance(value, str):
            _check_numbers(value, where, 0.0, False, 2)
        elif isinstance(value, float | np.floating | np.ndarray) and np.isnan(value).any():
            raise InvalidInput(f"{where} is {value!r}, which is no number")


def _check_numbers(value: Any, where: str, least: float, or_equal: bool, axes: int) -> None:
    numbers = float_array(value, where)
    fits = numbers >= least if or_equal else numbers > least
    finite = np.isfinite(numbers) | (np.isposinf(numbers) & where.startswith("nu "))  # an infinite nu is the RBF kernel
    if numbers.ndim > axes or numbers.size == 0 or not (fits & finite).all():
        beyond = f"{least:g} or more" if or_equal else f"above {least:g}"
        raise InvalidInput(f"{where} must be finite and {beyond}, got {plain(value)!r}")


def axis_counts(kernel: Any) -> list[int]:
    """Sizes of the per-axis length scales in a kernel, 1 where there is one for all."""
    own = [int(np.size(kernel.get_params(deep=False).get("length_scale", 1.0)))]
    return own + [count for child in _children(kernel) for count in axis_counts(child)]
