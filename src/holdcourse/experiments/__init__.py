"""Experiments: sweeps that resume and run in parallel, the paper's figures, and plots of the results."""

from holdcourse.experiments.comparison import Comparison, ComparisonPlan
from holdcourse.experiments.paper import SyntheticPlan, WindPlan
from holdcourse.experiments.plant_comparison import PlantComparison, PlantPlan
from holdcourse.experiments.plots import (
    plot_costs,
    plot_movement,
    plot_probabilities,
    plot_regret,
    plot_rho,
    plot_trajectory,
    plot_tree,
    probabilities_of,
)
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.runs import PolicyConfig, RunConfig, Scene, Sweep, WorldConfig

__all__ = [
    "Comparison",
    "ComparisonPlan",
    "PlantComparison",
    "PlantPlan",
    "PolicyConfig",
    "Report",
    "Results",
    "RunConfig",
    "Scene",
    "Sweep",
    "SyntheticPlan",
    "WindPlan",
    "WorldConfig",
    "plot_costs",
    "plot_movement",
    "plot_probabilities",
    "plot_regret",
    "plot_rho",
    "plot_trajectory",
    "plot_tree",
    "probabilities_of",
    "run_sweep",
]
