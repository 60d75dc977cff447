"""Decide which setting to run while conditions change and every change costs something.

Every public name is listed here and loaded on first use, so that importing the package
does nothing but define this table.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, testing, trials, wakes, wind, worlds
    from .backtest.handover import plant_policy
    from .backtest.plant import PlantBacktest, backtest_plant
    from .backtest.readings import Readings, read_readings
    from .backtest.replay import Replay, replay
    from .client import RemoteController, RemoteDecision, RemoteFleet, RemoteFleetDecisions, Service, connect
    from .deciding import registry, rules
    from .deciding.hedge import hedged
    from .deciding.planning import Lookahead, planner, planner_known
    from .deciding.planning.knob_plan import knob_planner
    from .deciding.policy import Policy, cgp_lcb, fixed, fixed_at, gp_md, md_known, minc_known, proximal_lcb, stationary
    from .deciding.policyfile import Evidence, load_policy
    from .deciding.recommended import recommended
    from .deciding.refinement import Refinement, refine
    from .deciding.trial import trial
    from .learning import costs
    from .learning.checking import ModelCheck, check_model
    from .learning.confidence import OutlierGuard, TheoryWidth
    from .learning.costs import Outlook
    from .learning.fitting import Fit, FitWarning, fit_kernel
    from .learning.history import History
    from .learning.kernels import Kernel, KernelSum, zscore
    from .learning.posteriors import Posterior, posterior
    from .movement import coupling, mirror
    from .movement.grid import Grid, grid
    from .movement.knob import Knob, knob
    from .movement.knobs import Knobs, knobs
    from .movement.metric import metric_closure
    from .movement.offline import PricedPath, best_fixed, optimal_path, price_path, work_function
    from .movement.problem import Problem
    from .movement.resolution import resolution
    from .movement.tree import Tree, frt_tree
    from .running import audit
    from .running.array_fleet import ArrayFleet
    from .running.controller import Controller
    from .running.decision import Decision, Explanation
    from .running.fleet import Fleet, FleetDecisions, fleet
    from .running.limits import Guard, Limits
    from .running.witness import Witness
    from .trials.plan import TrialPlan, plan_trial
    from .worlds import SyntheticWorld
    from .worlds.regret import TheoremQuantities, approximate_regret, ratio_to_optimum, theorem_quantities
    from .worlds.simulation import Run, World, measurement_noise, simulate

__all__ = [
    "ArrayFleet",
    "Controller",
    "Decision",
    "Evidence",
    "Explanation",
    "Fit",
    "FitWarning",
    "Fleet",
    "FleetDecisions",
    "Grid",
    "Guard",
    "History",
    "Kernel",
    "KernelSum",
    "Knob",
    "Knobs",
    "Limits",
    "Lookahead",
    "ModelCheck",
    "OutlierGuard",
    "Outlook",
    "PlantBacktest",
    "Policy",
    "Posterior",
    "PricedPath",
    "Problem",
    "Readings",
    "Refinement",
    "RemoteController",
    "RemoteDecision",
    "RemoteFleet",
    "RemoteFleetDecisions",
    "Replay",
    "Run",
    "Service",
    "SyntheticWorld",
    "TheoremQuantities",
    "TheoryWidth",
    "Tree",
    "TrialPlan",
    "Witness",
    "World",
    "__version__",
    "approximate_regret",
    "audit",
    "backtest_plant",
    "best_fixed",
    "cgp_lcb",
    "check_model",
    "connect",
    "costs",
    "coupling",
    "errors",
    "fit_kernel",
    "fixed",
    "fixed_at",
    "fleet",
    "frt_tree",
    "gp_md",
    "grid",
    "hedged",
    "knob",
    "knob_planner",
    "knobs",
    "load_policy",
    "md_known",
    "measurement_noise",
    "metric_closure",
    "minc_known",
    "mirror",
    "optimal_path",
    "plan_trial",
    "planner",
    "planner_known",
    "plant_policy",
    "posterior",
    "price_path",
    "proximal_lcb",
    "ratio_to_optimum",
    "read_readings",
    "recommended",
    "refine",
    "registry",
    "replay",
    "resolution",
    "rules",
    "simulate",
    "stationary",
    "testing",
    "theorem_quantities",
    "trial",
    "trials",
    "wakes",
    "wind",
    "work_function",
    "worlds",
    "zscore",
]

_MODULES = {
    "audit": "running.audit",
    "costs": "learning.costs",
    "coupling": "movement.coupling",
    "errors": "errors",
    "mirror": "movement.mirror",
    "registry": "deciding.registry",
    "rules": "deciding.rules",
    "testing": "testing",
    "trials": "trials",
    "wakes": "wakes",
    "wind": "wind",
    "worlds": "worlds",
}
_HOME = {
    "ArrayFleet": "running.array_fleet",
    "Controller": "running.controller",
    "Decision": "running.decision",
    "Evidence": "deciding.policyfile",
    "Explanation": "running.decision",
    "Fit": "learning.fitting",
    "FitWarning": "learning.fitting",
    "Fleet": "running.fleet",
    "FleetDecisions": "running.fleet",
    "Grid": "movement.grid",
    "Knob": "movement.knob",
    "Knobs": "movement.knobs",
    "Guard": "running.limits",
    "History": "learning.history",
    "Kernel": "learning.kernels",
    "KernelSum": "learning.kernels",
    "Limits": "running.limits",
    "Lookahead": "deciding.planning",
    "ModelCheck": "learning.checking",
    "OutlierGuard": "learning.confidence",
    "Outlook": "learning.costs",
    "PlantBacktest": "backtest.plant",
    "Policy": "deciding.policy",
    "Posterior": "learning.posteriors",
    "PricedPath": "movement.offline",
    "Problem": "movement.problem",
    "Readings": "backtest.readings",
    "Refinement": "deciding.refinement",
    "RemoteController": "client",
    "RemoteDecision": "client",
    "RemoteFleet": "client",
    "RemoteFleetDecisions": "client",
    "Replay": "backtest.replay",
    "Run": "worlds.simulation",
    "Service": "client",
    "SyntheticWorld": "worlds",
    "TheoremQuantities": "worlds.regret",
    "TheoryWidth": "learning.confidence",
    "Tree": "movement.tree",
    "TrialPlan": "trials.plan",
    "Witness": "running.witness",
    "World": "worlds.simulation",
    "approximate_regret": "worlds.regret",
    "backtest_plant": "backtest.plant",
    "best_fixed": "movement.offline",
    "cgp_lcb": "deciding.policy",
    "check_model": "learning.checking",
    "connect": "client",
    "fit_kernel": "learning.fitting",
    "fixed": "deciding.policy",
    "fixed_at": "deciding.policy",
    "fleet": "running.fleet",
    "frt_tree": "movement.tree",
    "gp_md": "deciding.policy",
    "grid": "movement.grid",
    "knob": "movement.knob",
    "knob_planner": "deciding.planning.knob_plan",
    "knobs": "movement.knobs",
    "resolution": "movement.resolution",
    "hedged": "deciding.hedge",
    "load_policy": "deciding.policyfile",
    "md_known": "deciding.policy",
    "measurement_noise": "worlds.simulation",
    "metric_closure": "movement.metric",
    "minc_known": "deciding.policy",
    "optimal_path": "movement.offline",
    "plan_trial": "trials.plan",
    "planner": "deciding.planning",
    "planner_known": "deciding.planning",
    "plant_policy": "backtest.handover",
    "posterior": "learning.posteriors",
    "price_path": "movement.offline",
    "proximal_lcb": "deciding.policy",
    "ratio_to_optimum": "worlds.regret",
    "read_readings": "backtest.readings",
    "recommended": "deciding.recommended",
    "refine": "deciding.refinement",
    "replay": "backtest.replay",
    "simulate": "worlds.simulation",
    "stationary": "deciding.policy",
    "theorem_quantities": "worlds.regret",
    "trial": "deciding.trial",
    "work_function": "movement.offline",
    "zscore": "learning.kernels",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _MODULES:
        value = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version(__name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # so that it is found at once the next time
    return value


def __dir__() -> list[str]:
    return __all__
