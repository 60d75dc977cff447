"""Gridded files (NetCDF, GRIB): opened with care and lazily, the grid point found, and only what is there read.

Nothing but headers and coordinates is read before the grid point is known, so a file of many gigabytes costs little.
The packages that read such files are optional: they are imported when first needed, and named with the install command
when missing.

HDF5's global heaps are checked before the HDF5 library sees them. They carry no checksum and are walked by lengths
found in the file: one wrong byte there, and the library walks for ever, deaf to signals and timeouts. The format is in
the HDF5 file format specification, III.E.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import DamagedFile, InvalidInput, MissingExtra
from holdcourse.tables.times import Times
from holdcourse.wind.files.data import Array, Site
from holdcourse.wind.files.paths import WindFile
from holdcourse.wind.files.units import METRES_PER_SECOND, speed_unit


def need(module: str, what: str, extra: str = "wind") -> Any:
    """Import `module`, which `what` needs.

    >>> need("math", "counting").floor(1.5)
    1
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as error:  # cfgrib without its library raises the latter two
        raise MissingExtra(
            f"{what} needs {module}, which is not usable here ({_first_line(error)}): pip install 'holdcourse[{extra}]'"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


SIGNATURE = b"GCOL\x01\x00\x00\x00"  # with version 1 and the reserved zeros: will not occur in data by chance
HEADER = 16  # bytes, of a collection and of each object in it
WHOLE = 256 << 20  # files up to this size are searched whole
ENDS = 32 << 20  # of larger ones the beginning and the end, where writers put what is not data


def broken_heap(path: Path) -> int | None:
    """Return where a global heap is broken, in bytes from the start of the file; None where all are sound."""
    size = path.stat().st_size
    parts = [(0, size)] if size <= WHOLE else [(0, ENDS), (size - ENDS, ENDS)]
    with path.open("rb") as stream:
        for start, length in parts:
            stream.seek(start)
            data = stream.read(length)
            at = data.find(SIGNATURE)
            while at >= 0:
                if not _sound(data, at, whole=start + len(data) == size):
                    return start + at
                at = data.find(SIGNATURE, at + 8)
    return None


def _sound(data: bytes, at: int, *, whole: bool) -> bool:
    """Return whether the objects of the collection at `at` fill it exactly."""
    end = at + int.from_bytes(data[at + 8 : at + HEADER], "little")
    if end > len(data):
        return not whole  # cut by the window, not by damage
    position = at + HEADER
    while position + HEADER <= end:
        index = int.from_bytes(data[position : position + 2], "little")
        length = int.from_bytes(data[position + 8 : position + HEADER], "little")
        if index == 0:  # the free space that ends the collection; its length counts its own header
            return length == end - position
        position += HEADER + (length + 7) // 8 * 8
    return position <= end


LevelKind: TypeAlias = Literal["pressure", "model"]

MODEL_LEVELS = 137
# A classic file is mapped into memory; this much of it is touched before it is let go again.
MAPPED_BYTES = 64 << 20
MOST_VALUES = 100_000_000  # at one site: eighty years of hours at 137 levels; more is a broken header
MOST_STEPS = 10_000_000  # of one axis, which is read whole: a thousand years of hours
LARGEST_CHUNK = 1 << 29  # bytes of a block that is unpacked at once

_LATITUDE = ("latitude", "lat")
_LONGITUDE = ("longitude", "lon")
_TIME = ("valid_time", "time")
_LEVEL = ("pressure_level", "isobaricInhPa", "plev", "model_level", "hybrid", "level", "lev")


@dataclass(frozen=True)
class Field:
    """One data set of a file, opened but not read."""

    file: WindFile
    data: Any  # xarray.Dataset

    @property
    def label(self) -> str:
        """Name of the data set in messages."""
        return self.file.label

    def has(self, *names: str) -> bool:
        """Return whether all these variables are there."""
        return all(name in self.data.variables for name in names)

    def __str__(self) -> str:
        return f"{self.label} ({', '.join(map(str, self.data.data_vars)) or 'no variables'})"


@dataclass(frozen=True)
class Point:
    """A grid point: its position along each axis, where it lies, and how it was chosen."""

    index: dict[str, int]
    site: Site
    note: str


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings of the reading libraries to themselves: what matters is raised by us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def open_fields(file: WindFile, stack: ExitStack) -> list[Field]:
    """Return the data sets of a file: one for NetCDF, one per kind of level for GRIB."""
    xarray = need("xarray", "reading NetCDF and GRIB files")
    if file.kind == "grib":
        cfgrib = need("cfgrib", "reading GRIB files")
        # No index file beside the user's data: the folder may be read-only, and a stale one misleads.
        found = cfgrib.open_datasets(str(file.path), backend_kwargs={"indexpath": "", "errors": "raise"})
    else:
        need("h5netcdf" if file.kind == "netcdf4" else "scipy", "reading this NetCDF file")
        found = [_open(xarray, file)]
    for data in found:
        stack.callback(data.close)
    if not found:
        raise DamagedFile(f"{file.label} contains no field; download it again")
    return [Field(file, data) for data in found]


def _open(xarray: Any, file: WindFile) -> Any:
    engine = "h5netcdf" if file.kind == "netcdf4" else "scipy"
    if engine == "h5netcdf":
        damage = broken_heap(file.path)
        if damage is not None:
            raise DamagedFile(f"{file.label} is damaged (a broken list at byte {damage}); download it again")
        # What h5netcdf looks at first: on a broken file it would also print a traceback while it tidies up.
        with need("h5py", "reading this NetCDF file").File(file.path, "r") as plain:
            plain.attrs.get("_nc3_strict")
            plain.visititems(lambda name, item: _require_plausible_sizes(file.label, name, item))
    return xarray.open_dataset(file.path, engine=engine, cache=False)


def _require_plausible_sizes(label: str, name: str, item: Any) -> None:
    """Raise where a header claims an axis, or a block to unpack, of a size that no such file has."""
    shape, chunks = getattr(item, "shape", None), getattr(item, "chunks", None)
    if shape is not None and len(shape) == 1 and shape[0] > MOST_STEPS:
        raise DamagedFile(
            f"{label}: {name} claims {shape[0]:.3g} values, but at most {MOST_STEPS:.0e} are read; split it by years"
        )
    if chunks is not None and math.prod(chunks) * item.dtype.itemsize > LARGEST_CHUNK:
        raise DamagedFile(
            f"{label}: {name} is stored in blocks of {math.prod(chunks) * item.dtype.itemsize / 1e9:.1f} GB; "
            f"rewrite it in smaller ones: nccopy -c time/24 {label} smaller.nc"
        )


def times_of(field: Field) -> tuple[str | None, Times]:
    """Return the time axis and its values; the axis is None where the file holds a single time."""
    name = next((name for name in _TIME if field.has(name)), None)
    if name is None:
        raise InvalidInput(f"{field} has no time axis; name it valid_time or time")
    variable = field.data[name]
    if variable.ndim > 1:
        raise InvalidInput(f"{field.label} contains forecasts with several steps; keep one step per time")
    if not np.issubdtype(variable.dtype, np.datetime64):
        raise DamagedFile(f"{field.label}: {name} is not a time ({variable.attrs.get('units', 'no units')!r})")
    times = whole_seconds(np.atleast_1d(variable.values))
    if not times.size or np.isnat(times).any():
        raise DamagedFile(
            f"{field.label}: the time axis is {'empty' if not times.size else 'broken'}; download it again"
        )
    return (str(variable.dims[0]) if variable.ndim else None), times


def whole_seconds(times: NDArray[np.datetime64]) -> Times:
    """Return times to the nearest second: 01:00 as a part of a day in floats is a little before or after it."""
    return (times + np.timedelta64(500, "ms")).astype("datetime64[s]")


def levels_of(field: Field) -> tuple[LevelKind, str | None, Array] | None:
    """Kind of level, its axis, and the levels (hPa, or the number of the model level); None without levels."""
    name = next((name for name in _LEVEL if field.has(name)), None)
    if name is None:
        return None
    variable = field.data[name]
    if variable.ndim > 1:
        raise InvalidInput(f"{field.label}: {name} has {variable.ndim} axes; levels must be a single list")
    values = np.atleast_1d(variable.values).astype(np.float64)
    if not values.size or not np.isfinite(values).all():
        raise DamagedFile(f"{field.label}: the levels in {name} are not numbers; download it again")
    axis = str(variable.dims[0]) if variable.ndim else None
    units = str(variable.attrs.get("units", "")).strip().lower()
    meaning = f"{name} {variable.attrs.get('long_name', '')} {variable.attrs.get('standard_name', '')}".lower()
    if "pressure" in meaning or name in ("isobaricInhPa", "plev") or units in ("hpa", "millibars", "mb", "pa"):
        return "pressure", axis, values / 100.0 if units == "pa" else values
    if name in ("model_level", "hybrid") or "model" in meaning or "hybrid" in meaning or values.max() <= MODEL_LEVELS:
        return "model", axis, values
    return "pressure", axis, values


def axes_of(field: Field) -> tuple[Array, Array] | None:
    """Return the latitudes and longitudes of a file, (rows,) and (columns,); None where it does not say."""
    names = [next((n for n in options if field.has(n)), None) for options in (_LATITUDE, _LONGITUDE)]
    if None in names:
        return None
    axes = [field.data[name] for name in names]
    if any(axis.ndim > 1 for axis in axes):
        raise InvalidInput(f"{field.label} has a curved grid (2-D latitude); extract the nearest point first")
    north, east = (np.atleast_1d(axis.values).astype(np.float64) for axis in axes)
    if not (north.size and east.size and np.isfinite(north).all() and np.isfinite(east).all()):
        raise DamagedFile(f"{field.label}: latitude or longitude is not a number; download it again")
    return north, east


def cut(field: Field, latitudes: Array, longitudes: Array, variables: tuple[str, ...]) -> Field:
    """Return the part of a file between some points, of these variables, read into memory."""
    chosen: dict[str, slice] = {}
    for options, wanted in ((_LATITUDE, latitudes), (_LONGITUDE, longitudes)):
        name = next((n for n in options if field.has(n)), None)
        if name is not None and field.data[name].ndim:
            values = field.data[name].values.astype(np.float64)
            places = [int(np.argmin(np.abs((values - one + 180.0) % 360.0 - 180.0))) for one in wanted]
            chosen[str(field.data[name].dims[0])] = slice(min(places), max(places) + 1)
    kept = [name for name in variables if field.has(name)]
    return replace(field, data=field.data[kept].isel(chosen).load())


def nearest_point(field: Field, latitude: float | None, longitude: float | None) -> Point:
    """Return the grid point nearest to the site; the only one where no site is asked for."""
    found = axes_of(field)
    if found is None:
        return Point({}, Site(latitude, _west(longitude)), "the file does not say where it lies")
    north, east = found
    if latitude is None or longitude is None:
        if north.size * east.size > 1:
            raise InvalidInput(
                f"{field.label} has {north.size} x {east.size} grid points ({_span(north, east)}); "
                "choose one with lat= and lon="
            )
        i = j = 0
        note = "its only grid point"
    else:
        # East and west may be counted to 360 or to 180: compare around the circle.
        away = (east - longitude + 180.0) % 360.0 - 180.0
        i, j = int(np.argmin(np.abs(north - latitude))), int(np.argmin(np.abs(away)))
        if abs(north[i] - latitude) > _reach(north) or abs(away[j]) > _reach(east):
            raise InvalidInput(
                f"the site {Site(latitude, _west(longitude))} lies outside {field.label} ({_span(north, east)}); "
                "check lat= and lon=, or download the area around the site"
            )
        km = 111.2 * float(np.hypot(north[i] - latitude, away[j] * np.cos(np.radians(latitude))))
        note = f"nearest of {north.size} x {east.size} grid points, {km:.0f} km from the site asked for"
    axes = [field.data[next(n for n in options if field.has(n))] for options in (_LATITUDE, _LONGITUDE)]
    index = {str(axis.dims[0]): position for axis, position in zip(axes, (i, j), strict=True) if axis.ndim}
    site = Site(round(float(north[i]), 4), _west(float(east[j])))
    return Point(index, site, f"grid point {site}: {note}")


def read(field: Field, name: str, point: Point, *axes: str | None) -> Array:
    """Return a variable at the grid point, with the given axes in this order (None: an axis of length 1)."""
    if not field.has(name):
        raise InvalidInput(f"{field} has no variable {name!r}; add it to the download")
    if field.file.kind != "netcdf3":
        return _read(field.data, field, name, point, axes)
    # Pages of a mapped file count as memory until it is closed, so a large classic file is read in parts.
    variable = field.data[name]
    time = axes[0] if axes and axes[0] in variable.dims else None
    if time is None or variable.size * 8 <= MAPPED_BYTES:
        return _read(field.data, field, name, point, axes)
    xarray, parts = need("xarray", "reading NetCDF files"), []
    rows = max(1, int(MAPPED_BYTES // (variable.size // variable.sizes[time] * 8)))
    for start in range(0, variable.sizes[time], rows):
        with _open(xarray, field.file) as data:
            parts.append(_read(data.isel({time: slice(start, start + rows)}), field, name, point, axes))
    return np.concatenate(parts)


def _read(data: Any, field: Field, name: str, point: Point, axes: tuple[str | None, ...]) -> Array:
    array = data[name]
    array = array.isel({axis: at for axis, at in point.index.items() if axis in array.dims})
    for axis in array.dims:
        if axis not in axes and axis != "expver":
            if array.sizes[axis] != 1:
                raise InvalidInput(
                    f"{field.label}: {name} has {array.sizes[axis]} entries along {axis!r}; keep one of them"
                )
            array = array.isel({axis: 0})
    if array.size > MOST_VALUES:
        raise DamagedFile(f"{field.label}: {name} claims {array.size:.3g} values at one site; download it again")
    if "expver" in array.dims:
        # Final data (1) and preliminary data (5): each is missing where the other holds.
        versions = [array.isel(expver=i) for i in range(array.sizes["expver"])]
        array = versions[0].load()
        for version in versions[1:]:
            array = array.fillna(version.load())
    present = [axis for axis in axes if axis in array.dims]
    values: NDArray[Any] = np.asarray(array.transpose(*present).values)
    if not np.issubdtype(values.dtype, np.number):
        raise DamagedFile(f"{field.label}: {name} does not contain numbers; download it again")
    shape = [array.sizes[axis] if axis in array.dims else 1 for axis in axes]
    return values.astype(np.float64).reshape(shape)


def wind_speed(field: Field, east: str, north: str, point: Point, *axes: str | None) -> Array:
    """Return the speed in m/s from the two components."""
    factors = []
    for name in (east, north):
        stated = str(field.data[name].attrs.get("units", "m/s")) if field.has(name) else "m/s"
        unit = speed_unit(stated)
        if unit is None:
            raise InvalidInput(f"{field.label}: {name} is in {stated!r}; wind must be in m/s, km/h, kn or mph")
        factors.append(METRES_PER_SECOND[unit])
    return np.hypot(read(field, east, point, *axes) * factors[0], read(field, north, point, *axes) * factors[1])


def _west(longitude: float | None) -> float | None:
    return None if longitude is None else round((longitude + 180.0) % 360.0 - 180.0, 4)


def _reach(axis: Array) -> float:
    """Return how far from a grid point a site may lie: one step, or half a degree around a single point."""
    return float(np.abs(np.diff(axis)).max()) if axis.size > 1 else 0.5


def _span(north: Array, east: Array) -> str:
    return f"latitude {north.min():g}..{north.max():g}, longitude {east.min():g}..{east.max():g}"
