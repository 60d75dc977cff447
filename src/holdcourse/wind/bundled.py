"""Wind data that ship with holdcourse: three years at one site in the North Sea."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Literal

from holdcourse.errors import InvalidInput
from holdcourse.wind.files import WindFile, kind_of
from holdcourse.wind.join import join
from holdcourse.wind.loaders import csv_table
from holdcourse.wind.loaders.piece import Options
from holdcourse.wind.record import WindData

CREDIT = "Based on data from MET Norway (NORA3 hindcast), CC BY 4.0"
_FILES = {"test": "nora3_northsea_2010H2.csv.xz", "history": "nora3_northsea_2008_2010H1.csv.xz"}


def bundled(part: Literal["test", "history"] = "test") -> WindData:
    """NORA3 hindcast at 53.32 N, 1.32 E, hourly, 10 to 750 m.

    Parameters
    ----------
    part
        "test": July to December 2010. "history": January 2008 to June 2010, the past an engineer would have then.
    """
    if part not in _FILES:
        raise InvalidInput(f"bundled data are 'test' or 'history', got {part!r}")
    with as_file(files("holdcourse.wind") / "data" / _FILES[part]) as path:
        file = WindFile(path, kind_of(path, path.name), path.name)
        piece = csv_table.read_piece(file, Options(latitude=53.32, longitude=1.32, units="m/s"))
    data = join([piece], ceiling=3000.0, max_missing=0.0)
    return WindData(data.time, data.heights, data.speed, "NORA3 hindcast, MET Norway", data.site, (CREDIT,))
