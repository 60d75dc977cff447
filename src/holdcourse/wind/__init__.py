"""Airborne wind: from a wind file to what a turbine that changes its altitude would have earned."""

from holdcourse.wind.bundled import bundled
from holdcourse.wind.load import load
from holdcourse.wind.record import Gap, Site, WindRecord

__all__ = ["Gap", "Site", "WindRecord", "bundled", "load"]
