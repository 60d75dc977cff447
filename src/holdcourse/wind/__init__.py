"""Airborne wind: from a wind file to what a turbine that changes its altitude would have earned.

Examples
--------
>>> import holdcourse as hc
>>> hc.wind.bundled("test")
WindData(4416 times 2010-07-01T00:00:00..2010-12-31T23:00:00, 7 heights 10..750 m, 53.32 N, 1.32 E)
"""

from __future__ import annotations

from holdcourse.wind.files.data import Gap, Site, WindData
from holdcourse.wind.files.load import bundled, load
from holdcourse.wind.machines import Machine, machine, machine_names

__all__ = ["Gap", "Machine", "Site", "WindData", "bundled", "load", "machine", "machine_names"]
