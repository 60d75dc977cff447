"""Load wind data of any known layout, join what several files hold, and the data that ship with holdcourse."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import as_file, files
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import whole_number
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, counted, shown
from holdcourse.tables.times import Times, zone_of
from holdcourse.wind.files import csv_table, era5, windio
from holdcourse.wind.files.data import FASTEST_WIND, Array, Options, Piece, Site, WindData
from holdcourse.wind.files.grid import Field, levels_of, nearest_point, open_fields, quiet
from holdcourse.wind.files.paths import Paths, WindFile, kind_of, wind_files
from holdcourse.wind.files.units import checked_unit

SAME_PLACE = 0.01  # degrees
FIRST_YEAR, LAST_YEAR = np.datetime64("1900-01-01"), np.datetime64("2200-01-01")


def join(pieces: Sequence[Piece], *, ceiling: float, max_missing: float) -> WindData:
    """Join all pieces to one series of wind data.

    Parameters
    ----------
    pieces
        At least one, all of one layout and one site.
    ceiling
        Levels above this height (m) are left out.
    max_missing
        The largest share of missing speeds that still makes wind data.
    """
    ordered = sorted(pieces, key=lambda piece: piece.time.min())
    _require_alike(ordered)
    names = tuple(dict.fromkeys(name for piece in ordered for name in piece.levels))
    time = np.concatenate([piece.time for piece in ordered])
    heights = np.concatenate([_spread(piece, piece.heights, names) for piece in ordered])
    speed = np.concatenate([_spread(piece, piece.speed, names) for piece in ordered])
    require_plausible(ordered[0].label, time, speed)
    notes = list(dict.fromkeys(note for piece in ordered for note in piece.notes))
    fixed = all(piece.heights.ndim == 1 for piece in ordered)
    if fixed:
        # Also where a file lacks the column: there the speed is missing, not below ground.
        heights = np.broadcast_to(_nominal(heights), heights.shape)

    low = _nominal(heights) <= ceiling
    left_out = int((~low & np.isfinite(_nominal(heights))).sum())
    if not low.any():
        raise InvalidInput(f"{ordered[0].label} has no height up to the ceiling of {ceiling:g} m; raise ceiling=")
    if left_out:
        notes.append(f"{counted(left_out, 'level')} above {ceiling:g} m {'was' if left_out == 1 else 'were'} left out")
    heights, speed = heights[:, low], speed[:, low]
    _require_enough(ordered, np.array(names)[low], heights, speed, max_missing)

    kept = _each_time_once(ordered, time, speed)
    repeated = len(np.flatnonzero(np.isfinite(speed).any(axis=1))) - len(kept)
    if repeated:
        dropped = counted(repeated, "repeated time was", "repeated times were")
        notes.append(f"{dropped} dropped (the later file, and in a file the first row, is kept)")
    time, heights, speed = time[kept], heights[kept], speed[kept]
    used = np.isfinite(speed).any(axis=0)
    heights, speed = heights[:, used], speed[:, used]
    nominal = _nominal(heights)
    order = np.argsort(nominal, kind="stable")
    order = order[np.concatenate([[True], np.diff(nominal[order]) > 0])]
    share = np.isnan(speed[:, order])[np.isfinite(heights[:, order])].mean()
    if share > 0:
        notes.append(f"{100 * share:.1f} % of the speeds are missing")
    return WindData(
        time,
        nominal[order],
        speed[:, order],
        source=ordered[0].layout,
        site=ordered[0].site,
        notes=notes,
        level_heights=None if fixed else heights[:, order],
    )


def _require_alike(pieces: Sequence[Piece]) -> None:
    first = pieces[0]
    for other in pieces[1:]:
        if other.layout != first.layout:
            raise InvalidInput(
                f"{first.label} is {first.layout}, but {other.label} is {other.layout}; load them one at a time"
            )
        for mine, theirs in (
            (first.site.latitude, other.site.latitude),
            (first.site.longitude, other.site.longitude),
        ):
            if mine is not None and theirs is not None and abs(mine - theirs) > SAME_PLACE:
                raise InvalidInput(
                    f"{first.label} is at {first.site}, but {other.label} is at {other.site}; load one site at a time"
                )


def _spread(piece: Piece, table: Array, names: tuple[str, ...]) -> Array:
    """Return the columns of one piece among those of all; NaN where it has none."""
    spread = np.full((len(piece.time), len(names)), np.nan)
    spread[:, [names.index(name) for name in piece.levels]] = table
    return spread


def _nominal(heights: Array) -> Array:
    """Return the median height of each column; +inf where it has none, which is above every ceiling."""
    known = np.isfinite(heights).any(axis=0)
    nominal = np.full(heights.shape[1], np.inf)
    nominal[known] = np.nanmedian(heights[:, known], axis=0)
    return nominal


def require_plausible(label: str, time: Times, speed: Array, remedy: str = "units=") -> None:
    """Raise where a time or a speed (m/s) cannot be right; `remedy`: how to name another unit."""
    strange = (time < FIRST_YEAR) | (time >= LAST_YEAR)
    if strange.any():
        raise DamagedFile(f"{label}: the time {time[strange][0]} cannot be right; check the time column or axis")
    wild = speed[np.isinf(speed) | (speed > FASTEST_WIND)]
    if len(wild):
        raise DamagedFile(
            f"{label}: a speed of {wild[0]:.6g} m/s is not a wind speed; the file is damaged, "
            f"or its unit is not m/s ({remedy})"
        )


def _require_enough(
    pieces: Sequence[Piece], names: NDArray[np.str_], heights: Array, speed: Array, max_missing: float
) -> None:
    expected = np.isfinite(heights)
    missing = expected & np.isnan(speed)
    share = missing.sum() / max(1, expected.sum())
    label = pieces[0].label if len(pieces) == 1 else f"{pieces[0].label} and {len(pieces) - 1} more"
    if not expected.any() or share == 1.0:
        raise DamagedFile(f"{label} contains no wind speed, only missing values; download or export it again")
    if share > max_missing:
        by_level = missing.sum(axis=0) / np.maximum(1, expected.sum(axis=0))
        worst = int(np.argmax(by_level))
        raise InvalidInput(
            f"{100 * share:.0f} % of the speeds in {label} are missing (at {names[worst]}: {100 * by_level[worst]:.0f} "
            f"%); leave out such heights, or accept them with max_missing={np.ceil(share * 20) / 20:g}"
        )


def _each_time_once(pieces: Sequence[Piece], time: Times, speed: Array) -> NDArray[np.int64]:
    """Return the rows to keep, in order of time, of those that hold any speed."""
    number = np.repeat(np.arange(len(pieces)), [len(piece.time) for piece in pieces])
    rows = np.flatnonzero(np.isfinite(speed).any(axis=1))
    rows = rows[np.lexsort((rows, -number[rows], time[rows]))]
    first = np.concatenate([[True], np.diff(time[rows]).astype(np.int64) > 0])
    return np.asarray(rows[first], dtype=np.int64)


KNOWN_LAYOUTS = (
    "ERA5 on pressure levels (u, v, z), ERA5 on model levels (u, v), ECMWF/Cloudnet (uwind, vwind, height), "
    "speeds by time and height (windIO, NEWA, DOWA), or a CSV with one column per height. "
    "If it holds speeds by time and height, call these dimensions time and height, and the speeds wind_speed"
)


def load(
    paths: Paths,
    *,
    lat: float | None = None,
    lon: float | None = None,
    surface_height: float | None = None,
    units: str | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    header_line: int | None = None,
    ceiling: float = 3000.0,
    max_missing: float = 0.3,
) -> WindData:
    """Read wind speeds by time and height from one or more files.

    The layout is recognised by the content. Several files (months, or a pressure-level file and its single-level file)
    become one series. If a file is ambiguous, the error names the argument that settles it.

    Parameters
    ----------
    paths
        A path, a pattern such as ``"era5/*.nc"``, or several: NetCDF, GRIB, CSV (also .gz, .xz),
        windIO (YAML), or a ZIP of these.
    lat, lon
        Site in degrees (west and south negative); the nearest grid point is used. For a CSV file, the place of the
        measurements.
    surface_height
        Height of the ground above sea level in metres, for pressure-level files without surface data; 0 at sea.
    units
        Unit of speed in a CSV file that does not name it: "m/s", "km/h", "kn" or "mph".
    timezone
        Time zone of the times in a CSV file that does not name it, e.g. "UTC" or "Europe/Oslo".
    time_format
        Format of times in a CSV file, if it is ambiguous, e.g. "%d/%m/%Y %H:%M".
    header_line
        Number of the line that names the columns of a CSV file, from 1, if there are others above it, such as a title.
    ceiling
        Largest height in metres above ground; greater heights are left out.
    max_missing
        Largest share of missing speeds; files with more are refused.
    """
    options = _checked(lat, lon, surface_height, units, timezone, time_format, header_line)
    if not ceiling > 0:
        raise InvalidInput(f"ceiling must be metres above ground, greater than 0, got {shown(ceiling)}")
    if not 0 <= max_missing <= 1:
        raise InvalidInput(f"max_missing must be a share from 0 to 1, got {shown(max_missing)}")
    with quiet(), ExitStack() as stack:
        return join(_pieces(paths, options, stack), ceiling=ceiling, max_missing=max_missing)


def _checked(
    lat: float | None,
    lon: float | None,
    surface_height: float | None,
    units: str | None,
    timezone: str | None,
    time_format: str | None,
    header_line: int | None,
) -> Options:
    if (lat is None) != (lon is None):
        raise InvalidInput(f"a site needs both lat and lon, got lat={lat}, lon={lon}")
    if lat is not None and not -90 <= lat <= 90:
        raise InvalidInput(f"lat must be between -90 and 90 degrees, got {lat}")
    if lon is not None and not -180 <= lon <= 360:
        raise InvalidInput(f"lon must be between -180 and 360 degrees, got {lon}")
    if surface_height is not None and not -500 <= surface_height <= 9000:
        raise InvalidInput(f"surface_height must be metres above sea level, got {surface_height}")
    unit = None if units is None else checked_unit(units)
    if timezone is not None:
        zone_of(timezone)  # also where no file turns out to need it
    if header_line is not None:
        whole_number(header_line, "header_line=", 1)
    return Options(lat, lon, surface_height, unit, timezone, time_format, header_line)


def _pieces(paths: Paths, options: Options, stack: ExitStack) -> list[Piece]:
    pieces: list[Piece] = []
    wind: list[Field] = []
    ground: list[Field] = []
    for file in wind_files(paths, stack):
        with guarded(file.label):
            if file.kind in ("text", "sheet"):
                pieces.append(_table(file, options, stack))
                continue
            fields = open_fields(file, stack)
            with_wind = [field for field in fields if era5.is_ifs(field) or field.has("u", "v")]
            with_ground = [field for field in fields if era5.is_surface(field)]
            profiles = [field for field in fields if field not in with_wind and windio.is_profiles(field)]
            pieces += [windio.read_profiles(field, options, stack) for field in profiles]
            if not with_wind and not with_ground and not profiles:
                raise InvalidInput(
                    f"{' + '.join(map(str, fields))} has no layout that holdcourse knows: {KNOWN_LAYOUTS}"
                )
            wind += with_wind
            ground += with_ground
    for field in wind:
        with guarded(field.label):
            pieces.append(gridded(field, ground, options))
    if not pieces:
        with guarded(ground[0].label):
            surface = era5.read_surface(ground, Site(options.latitude, options.longitude))
            pieces.append(era5.piece(ground[0].label, surface))
    return pieces


def _table(file: WindFile, options: Options, stack: ExitStack) -> Piece:
    """Read a CSV, an Excel or Parquet file, or a windIO file."""
    if file.kind == "text" and windio.is_windio(file.path):
        return windio.read_windio(file, options, stack)
    return csv_table.read_piece(file, options)


def gridded(field: Field, ground: list[Field], options: Options) -> Piece:
    """Return the wind by height at the grid point nearest to a site."""
    point = nearest_point(field, options.latitude, options.longitude)
    if era5.is_ifs(field):
        return era5.read_ifs(field, point)
    levels = levels_of(field)
    if levels is None:
        raise InvalidInput(f"{field} has wind u, v but no levels; download it on pressure or model levels")
    surface = era5.read_surface([*ground, field], point.site)
    if levels[0] == "model":
        return era5.read_model_levels(field, point, surface)
    return era5.read_pressure_levels(field, point, surface, options)


@contextmanager
def guarded(label: str) -> Iterator[None]:
    """Turn whatever the reading libraries raise about a broken file into one line of ours."""
    try:
        yield
    except HoldcourseError:
        raise
    except Exception as error:  # the libraries under us raise some twenty kinds, and assertions
        # Their half-open files close now, while their warnings are kept quiet, and not when the error is dropped.
        traceback.clear_frames(error.__traceback__)
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DamagedFile(f"{label} cannot be read ({reason}); it may be truncated: download it again") from error


CREDIT = "Based on data from MET Norway (NORA3 hindcast), CC BY 4.0"
_FILES = {"test": "nora3_northsea_2010H2.csv.xz", "history": "nora3_northsea_2008_2010H1.csv.xz"}


@cache  # nobody can change what is read, and it takes half a second
def bundled(part: Literal["test", "history", "all"] = "test") -> WindData:
    """Load the bundled NORA3 hindcast at 53.32 N, 1.32 E, hourly, 10 to 750 m.

    Parameters
    ----------
    part
        Part of the data. "test": July to December 2010. "history": January 2008 to June 2010, the past that an engineer
        would have at that time. "all": the three years together.
    """
    if part not in (*_FILES, "all"):
        raise InvalidInput(f"the part of the bundled data must be 'test', 'history' or 'all', got {part!r}")
    pieces = []
    for name in [*_FILES.values()] if part == "all" else [_FILES[part]]:
        with as_file(files("holdcourse.wind") / "data" / name) as path:
            file = WindFile(path, kind_of(path, path.name), path.name)
            pieces.append(csv_table.read_piece(file, Options(latitude=53.32, longitude=1.32, units="m/s")))
    data = join(pieces, ceiling=3000.0, max_missing=0.0)
    return WindData(data.time, data.heights, data.speed, "NORA3 hindcast, MET Norway", data.site, (CREDIT,))
