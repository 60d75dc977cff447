"""Wake steering: a FLORIS model and a year of wind show which offsets are worth turning the nacelles.

Examples
--------
>>> import holdcourse as hc
>>> hc.wakes.bundled_table()
EnergyTable('La Haute Borne', 180 directions, 12 speeds 3..14 m/s, 46 settings)
>>> hc.wakes.bundled_record()
WindRecord('La Haute Borne 2014', 52466 readings every 10 min, 2014-01-01T00:00:00Z..2014-12-31T23:50:00Z)
"""

from __future__ import annotations

from holdcourse.wakes.backtest import backtest
from holdcourse.wakes.bundled import bundled_farm_file, bundled_record, bundled_table
from holdcourse.wakes.clusters import ClusteredTable, build_clusters, clusters_of, farm_table, load_table
from holdcourse.wakes.controller import FarmController, FarmDecision
from holdcourse.wakes.drift import Drift, learn_drift
from holdcourse.wakes.farm import Farm, FlorisModel
from holdcourse.wakes.groups import GroupedModel, groups_of, wake_model
from holdcourse.wakes.handover import steering_policies, steering_policy
from holdcourse.wakes.learning import power_surplus, wake_learner
from holdcourse.wakes.offsets import build_table
from holdcourse.wakes.planning import steering_problem, wake_planner
from holdcourse.wakes.record import Rounds, WindRecord, circle_mean, read_record
from holdcourse.wakes.result import Backtest, Study
from holdcourse.wakes.table import EnergyTable

__all__ = [
    "Backtest",
    "ClusteredTable",
    "Drift",
    "EnergyTable",
    "Farm",
    "FarmController",
    "FarmDecision",
    "FlorisModel",
    "GroupedModel",
    "Rounds",
    "Study",
    "WindRecord",
    "backtest",
    "build_clusters",
    "build_table",
    "bundled_farm_file",
    "bundled_record",
    "bundled_table",
    "circle_mean",
    "clusters_of",
    "farm_table",
    "groups_of",
    "learn_drift",
    "load_table",
    "power_surplus",
    "read_record",
    "steering_policies",
    "steering_policy",
    "steering_problem",
    "wake_learner",
    "wake_model",
    "wake_planner",
]
