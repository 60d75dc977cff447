"""Decisions that follow changing conditions when every change costs something.

Every public name is listed here and loaded on first use, so that importing the package
does nothing but define this table.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import audit, costs, coupling, errors, mirror, registry, rules, testing, wind, worlds
    from .client import RemoteController, RemoteDecision, Service, connect
    from .confidence import OutlierGuard, TheoryWidth
    from .controller import Controller
    from .decision import Decision, Explanation
    from .fitting import Fit, FitWarning, fit_kernel
    from .gp import Posterior, posterior
    from .hedge import hedged
    from .history import History
    from .kernels import Kernel, KernelSum, zscore
    from .limits import Guard, Limits
    from .metric import metric_closure
    from .offline import PricedPath, best_fixed, optimal_path, price_path, work_function
    from .planning import Lookahead, Outlook, planner, planner_known
    from .policy import Policy, cgp_lcb, fixed, fixed_at, gp_md, md_known, minc_known, proximal_lcb, stationary
    from .problem import Grid, Problem, grid
    from .recommendation import recommended
    from .regret import TheoremQuantities, approximate_regret, ratio_to_optimum, theorem_quantities
    from .simulation import Run, World, measurement_noise, simulate
    from .tree import Tree, frt_tree
    from .witness import Witness
    from .worlds import SyntheticWorld

__all__ = [
    "Controller",
    "Decision",
    "Explanation",
    "Fit",
    "FitWarning",
    "Grid",
    "Guard",
    "History",
    "Kernel",
    "KernelSum",
    "Limits",
    "Lookahead",
    "OutlierGuard",
    "Outlook",
    "Policy",
    "Posterior",
    "PricedPath",
    "Problem",
    "RemoteController",
    "RemoteDecision",
    "Run",
    "Service",
    "SyntheticWorld",
    "TheoremQuantities",
    "TheoryWidth",
    "Tree",
    "Witness",
    "World",
    "__version__",
    "approximate_regret",
    "audit",
    "best_fixed",
    "cgp_lcb",
    "connect",
    "costs",
    "coupling",
    "errors",
    "fit_kernel",
    "fixed",
    "fixed_at",
    "frt_tree",
    "gp_md",
    "grid",
    "hedged",
    "md_known",
    "measurement_noise",
    "metric_closure",
    "minc_known",
    "mirror",
    "optimal_path",
    "planner",
    "planner_known",
    "posterior",
    "price_path",
    "proximal_lcb",
    "ratio_to_optimum",
    "recommended",
    "registry",
    "rules",
    "simulate",
    "stationary",
    "testing",
    "theorem_quantities",
    "wind",
    "work_function",
    "worlds",
    "zscore",
]

_SUBMODULES = ("audit", "costs", "coupling", "errors", "mirror", "registry", "rules", "testing", "wind", "worlds")
_HOME = {
    "Controller": "controller",
    "Decision": "decision",
    "Explanation": "decision",
    "Fit": "fitting",
    "FitWarning": "fitting",
    "Grid": "problem",
    "Guard": "limits",
    "History": "history",
    "Kernel": "kernels",
    "KernelSum": "kernels",
    "Limits": "limits",
    "Lookahead": "planning",
    "OutlierGuard": "confidence",
    "Outlook": "planning",
    "Policy": "policy",
    "Posterior": "gp",
    "PricedPath": "offline",
    "Problem": "problem",
    "RemoteController": "client",
    "RemoteDecision": "client",
    "Run": "simulation",
    "Service": "client",
    "SyntheticWorld": "worlds",
    "TheoremQuantities": "regret",
    "TheoryWidth": "confidence",
    "Tree": "tree",
    "Witness": "witness",
    "World": "simulation",
    "approximate_regret": "regret",
    "best_fixed": "offline",
    "cgp_lcb": "policy",
    "connect": "client",
    "fit_kernel": "fitting",
    "fixed": "policy",
    "fixed_at": "policy",
    "frt_tree": "tree",
    "gp_md": "policy",
    "grid": "problem",
    "hedged": "hedge",
    "md_known": "policy",
    "measurement_noise": "simulation",
    "metric_closure": "metric",
    "minc_known": "policy",
    "optimal_path": "offline",
    "planner": "planning",
    "planner_known": "planning",
    "posterior": "gp",
    "price_path": "offline",
    "proximal_lcb": "policy",
    "ratio_to_optimum": "regret",
    "recommended": "recommendation",
    "simulate": "simulation",
    "stationary": "policy",
    "theorem_quantities": "regret",
    "work_function": "offline",
    "zscore": "kernels",
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
