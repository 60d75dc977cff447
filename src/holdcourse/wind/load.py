"""Load wind data of any known layout into one `WindData`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.wind.files import Paths, wind_files
from holdcourse.wind.grid import Field, levels_of, nearest_point, open_fields, quiet
from holdcourse.wind.join import join
from holdcourse.wind.loaders import csv_table, era5_model, era5_pressure, era5_surface, ifs
from holdcourse.wind.loaders.piece import Options, Piece
from holdcourse.wind.loaders.times import zone_of
from holdcourse.wind.record import Site, WindData
from holdcourse.wind.units import checked_unit

KNOWN_LAYOUTS = (
    "ERA5 on pressure levels (u, v, z), ERA5 on model levels (u, v), ECMWF/Cloudnet (uwind, vwind, height), "
    "or a CSV with one column per height"
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
    ceiling: float = 3000.0,
    max_missing: float = 0.3,
) -> WindData:
    """Read wind speed by time and height from one or more files.

    The layout is found by content. Several files (months, or a pressure-level file and its single-level file) become
    one series. What a file leaves open is an error that names the argument which settles it.

    Parameters
    ----------
    paths
        A path, a pattern such as ``"era5/*.nc"``, or several: NetCDF, GRIB, CSV (also .gz, .xz), or a ZIP of these.
    lat, lon
        The site in degrees (west and south negative); the nearest grid point is taken. For a CSV, where it is from.
    surface_height
        Height of the ground above sea level in metres, for pressure-level files without surface data; 0 at sea.
    units
        Unit of speed in a CSV that does not say: "m/s", "km/h", "kn" or "mph".
    timezone
        Zone of the times in a CSV that does not say, e.g. "UTC" or "Europe/Oslo".
    time_format
        How times are written in a CSV where that is unclear, e.g. "%d/%m/%Y %H:%M".
    ceiling
        Heights above this (metres above ground) are left out.
    max_missing
        The share of missing speeds above which the files are refused.
    """
    options = _checked(lat, lon, surface_height, units, timezone, time_format)
    if not ceiling > 0:
        raise InvalidInput(f"ceiling must be metres above ground, greater than 0, got {ceiling!r}")
    if not 0 <= max_missing <= 1:
        raise InvalidInput(f"max_missing is a share, 0 to 1, got {max_missing!r}")
    with quiet(), ExitStack() as stack:
        return join(_pieces(paths, options, stack), ceiling=ceiling, max_missing=max_missing)


def _checked(
    lat: float | None,
    lon: float | None,
    surface_height: float | None,
    units: str | None,
    timezone: str | None,
    time_format: str | None,
) -> Options:
    if (lat is None) != (lon is None):
        raise InvalidInput(f"a site needs both lat and lon, got lat={lat}, lon={lon}")
    if lat is not None and not -90 <= lat <= 90:
        raise InvalidInput(f"lat must be -90..90 degrees, got {lat}")
    if lon is not None and not -180 <= lon <= 360:
        raise InvalidInput(f"lon must be -180..360 degrees, got {lon}")
    if surface_height is not None and not -500 <= surface_height <= 9000:
        raise InvalidInput(f"surface_height must be metres above sea level, got {surface_height}")
    unit = None if units is None else checked_unit(units)
    if timezone is not None:
        zone_of(timezone)  # also where no file turns out to need it
    return Options(lat, lon, surface_height, unit, timezone, time_format)


def _pieces(paths: Paths, options: Options, stack: ExitStack) -> list[Piece]:
    pieces: list[Piece] = []
    wind: list[Field] = []
    ground: list[Field] = []
    for file in wind_files(paths, stack):
        with _guarded(file.label):
            if file.kind == "text":
                pieces.append(csv_table.read_piece(file, options))
                continue
            fields = open_fields(file, stack)
            with_wind = [field for field in fields if ifs.is_ifs(field) or field.has("u", "v")]
            with_ground = [field for field in fields if era5_surface.is_surface(field)]
            if not with_wind and not with_ground:
                raise InvalidInput(
                    f"{' + '.join(map(str, fields))} has no layout that holdcourse knows: {KNOWN_LAYOUTS}"
                )
            wind += with_wind
            ground += with_ground
    for field in wind:
        with _guarded(field.label):
            pieces.append(_gridded(field, ground, options))
    if not pieces:
        with _guarded(ground[0].label):
            surface = era5_surface.read_surface(ground, Site(options.latitude, options.longitude))
            pieces.append(era5_surface.piece(ground[0].label, surface))
    return pieces


def _gridded(field: Field, ground: list[Field], options: Options) -> Piece:
    point = nearest_point(field, options.latitude, options.longitude)
    if ifs.is_ifs(field):
        return ifs.read_piece(field, point)
    levels = levels_of(field)
    if levels is None:
        raise InvalidInput(f"{field} has wind u, v but no levels; download it on pressure or model levels")
    surface = era5_surface.read_surface([*ground, field], point.site)
    if levels[0] == "model":
        return era5_model.read_piece(field, point, surface)
    return era5_pressure.read_piece(field, point, surface, options)


@contextmanager
def _guarded(label: str) -> Iterator[None]:
    """Whatever the reading libraries raise about a broken file becomes one line of ours."""
    try:
        yield
    except HoldcourseError:
        raise
    except Exception as error:  # the libraries under us raise some twenty kinds, and assertions
        # Their half-open files close now, while their warnings are kept quiet, and not when the error is dropped.
        traceback.clear_frames(error.__traceback__)
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DamagedFile(f"{label} cannot be read ({reason}); it may be truncated: fetch it again") from error
