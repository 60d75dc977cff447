"""Airborne wind: from a wind file to what a turbine that changes its altitude would have earned.

Each name is loaded on first use, so that reading a wind file does not load the backtest.

Examples
--------
>>> import holdcourse as hc
>>> hc.wind.bundled("test")
WindData(4416 times 2010-07-01T00:00:00..2010-12-31T23:00:00, 7 heights 10..750 m, 53.32 N, 1.32 E)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdcourse.wind.backtest.handover import site_policy
    from holdcourse.wind.backtest.run import Plan, SiteResult, run_backtest
    from holdcourse.wind.files.data import Gap, Site, WindData
    from holdcourse.wind.files.load import bundled, load
    from holdcourse.wind.files.power_table import read_curve
    from holdcourse.wind.machines import Machine, machine, machine_names
    from holdcourse.wind.physics import PowerCurve, curve_family, movement_cost, paper_curve, table_curve
    from holdcourse.wind.policy.policies import register
    from holdcourse.wind.report.page import write_report

__all__ = [
    "Gap",
    "Machine",
    "Plan",
    "PowerCurve",
    "Site",
    "SiteResult",
    "WindData",
    "bundled",
    "curve_family",
    "load",
    "machine",
    "machine_names",
    "movement_cost",
    "paper_curve",
    "read_curve",
    "register",
    "run_backtest",
    "site_policy",
    "table_curve",
    "write_report",
]

_HOME = {
    "Gap": "files.data",
    "Machine": "machines",
    "Plan": "backtest.run",
    "PowerCurve": "physics",
    "Site": "files.data",
    "SiteResult": "backtest.run",
    "WindData": "files.data",
    "bundled": "files.load",
    "curve_family": "physics",
    "load": "files.load",
    "machine": "machines",
    "machine_names": "machines",
    "movement_cost": "physics",
    "paper_curve": "physics",
    "read_curve": "files.power_table",
    "register": "policy.policies",
    "run_backtest": "backtest.run",
    "site_policy": "backtest.handover",
    "table_curve": "physics",
    "write_report": "report.page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that it is found at once the next time
    return value


def __dir__() -> list[str]:
    return __all__
