"""The parts of a kernel as JSON values, and back to the last bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from holdcourse.errors import InvalidInput

SERIALISABLE = (
    "RBF",
    "Matern",
    "RationalQuadratic",
    "ExpSineSquared",
    "ConstantKernel",
    "DotProduct",
    "Sum",
    "Product",
    "Exponentiation",
)


def encoded(value: Any) -> Any:
    """A field of a kernel, or a scikit-learn kernel, in JSON values; kernel classes of the user's own are refused."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}  # Matern's nu may be infinite
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    kind = type(value).__name__
    if kind not in SERIALISABLE or not type(value).__module__.startswith("sklearn."):
        raise InvalidInput(f"a {kind} cannot be written to JSON; the kernels that can are {list(SERIALISABLE)}")
    return {"kernel": kind, "with": {name: encoded(item) for name, item in value.get_params(deep=False).items()}}


def decoded(data: Any) -> Any:
    """Read what `encoded` gave."""
    if isinstance(data, list):
        return [decoded(item) for item in data]
    if not isinstance(data, Mapping):
        return data
    if "float" in data:
        return float(data["float"])
    if "array" in data:
        return np.array(data["array"], dtype=np.float64)
    if "tuple" in data:
        return tuple(decoded(item) for item in data["tuple"])
    kind = data["kernel"]
    if kind not in SERIALISABLE:
        raise InvalidInput(f"kernel {kind!r} is not known; the kernels that can be read are {list(SERIALISABLE)}")
    from sklearn.gaussian_process import kernels as sklearn_kernels

    return getattr(sklearn_kernels, kind)(**{name: decoded(item) for name, item in data["with"].items()})
