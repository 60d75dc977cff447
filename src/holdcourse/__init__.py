"""Decisions that follow changing conditions when every change costs something.

Every public name is listed here and loaded on first use, so that importing the package
does nothing but define this table.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdcourse.offline import Path, optimal_path, price_path, work_function
    from holdcourse.problem import Grid, Problem, grid, metric_closure
    from holdcourse.tree import Tree, frt_tree

    from . import coupling, errors, mirror, testing

__all__ = [
    "Grid",
    "Path",
    "Problem",
    "Tree",
    "__version__",
    "coupling",
    "errors",
    "frt_tree",
    "grid",
    "metric_closure",
    "mirror",
    "optimal_path",
    "price_path",
    "testing",
    "work_function",
]

_SUBMODULES = ("coupling", "errors", "mirror", "testing")
_HOME = {
    "Grid": "problem",
    "Path": "offline",
    "Problem": "problem",
    "Tree": "tree",
    "frt_tree": "tree",
    "grid": "problem",
    "metric_closure": "problem",
    "optimal_path": "offline",
    "price_path": "offline",
    "work_function": "offline",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version(__name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
