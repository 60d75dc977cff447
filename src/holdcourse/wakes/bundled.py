"""La Haute Borne, a farm of four turbines: one year of its wind, its FLORIS file, and what FLORIS says of it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from holdcourse.wakes.record import WindRecord, read_record
from holdcourse.wakes.table import EnergyTable

NAME = "La Haute Borne 2014"
CREDIT = "Data: ENGIE, La Haute Borne (Etalab open licence 2.0)"
TURBINES = ("R80711", "R80721", "R80736", "R80790")


@lru_cache(maxsize=1)
def bundled_record() -> WindRecord:
    """Return the wind of 2014 in steps of ten minutes: the mean of four turbines, and the farm's power."""
    with as_file(files("holdcourse.wakes") / "data" / "la_haute_borne_2014.csv.xz") as path:
        return read_record(path, power="power", name=NAME)


@lru_cache(maxsize=1)
def bundled_table() -> EnergyTable:
    """Return the energy table of the farm, so that FLORIS is not needed for it."""
    with as_file(files("holdcourse.wakes") / "data" / "la_haute_borne.table") as path:
        return replace(EnergyTable.load(path), most=25.0, step=5.0)  # as its words say


def bundled_farm_file() -> Path:
    """Return the farm's FLORIS input file."""
    return Path(str(files("holdcourse.wakes") / "data" / "la_haute_borne.yaml"))
