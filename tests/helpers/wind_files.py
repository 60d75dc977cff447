"""Small wind files of every layout, written without the code under test, and broken copies of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

GRAVITY = 9.80665
LEVELS = np.array([1000, 975, 950, 925, 900, 850, 800, 700])


def pressure_fields(times: int, seed: int = 0, north: int = 3, east: int = 4) -> dict[str, np.ndarray]:
    """u, v (m/s) and z (m2/s2) of shape (time, level, latitude, longitude) over sea, levels as in `LEVELS`."""
    rng = np.random.default_rng(seed)
    shape = (times, len(LEVELS), north, east)
    heights = 8000.0 * np.log(1013.0 / LEVELS)[None, :, None, None]
    return {
        "u": rng.normal(6.0, 3.0, shape),
        "v": rng.normal(2.0, 3.0, shape),
        "z": GRAVITY * (heights + rng.normal(0.0, 15.0, (times, 1, north, east))),
    }


def write_netcdf4(path: Path, dims: dict[str, int], variables: dict[str, tuple[Any, ...]]) -> Path:
    """`variables`: name to (dims, values, attributes)."""
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        file.dimensions = dims
        for name, (axes, values, attributes) in variables.items():
            array = np.asarray(values)
            variable = file.create_variable(name, axes, array.dtype, data=array)
            for key, value in attributes.items():
                variable.attrs[key] = value
    return path


def write_netcdf3(path: Path, dims: dict[str, int], variables: dict[str, tuple[Any, ...]]) -> Path:
    from scipy.io import netcdf_file

    with netcdf_file(path, "w", version=2) as file:
        for name, size in dims.items():
            file.createDimension(name, size)
        for name, (axes, values, attributes) in variables.items():
            array = np.asarray(values)
            variable = file.createVariable(name, array.dtype, axes)
            variable[...] = array
            for key, value in attributes.items():
                setattr(variable, key, value)
    return path


def new_cds(path: Path, times: int = 30, seed: int = 0, hours_from: int = 0, surface: bool = True) -> Path:
    """ERA5 pressure levels of the new store, surface pressure in the same file, with a single-point grid."""
    fields = pressure_fields(times, seed, 1, 1)
    seconds = 1577836800 + 3600 * (hours_from + np.arange(times, dtype=np.int64))
    axes = ("valid_time", "pressure_level", "latitude", "longitude")
    variables: dict[str, tuple[Any, ...]] = {
        "valid_time": (("valid_time",), seconds, {"units": "seconds since 1970-01-01", "calendar": "standard"}),
        "pressure_level": (("pressure_level",), LEVELS.astype(float), {"units": "hPa"}),
        "latitude": (("latitude",), [53.0], {"units": "degrees_north"}),
        "longitude": (("longitude",), [350.0], {"units": "degrees_east"}),
        "u": (axes, fields["u"].astype("f4"), {"units": "m s**-1"}),
        "v": (axes, fields["v"].astype("f4"), {"units": "m s**-1"}),
        "z": (axes, fields["z"].astype("f4"), {"units": "m**2 s**-2"}),
    }
    if surface:
        ground = np.full((times, 1, 1), 101300.0, dtype="f4")
        variables["sp"] = (("valid_time", "latitude", "longitude"), ground, {"units": "Pa"})
    dims = {"valid_time": times, "pressure_level": len(LEVELS), "latitude": 1, "longitude": 1}
    return write_netcdf4(path, dims, variables)


def old_cds(path: Path, times: int = 30, seed: int = 0) -> Path:
    """ERA5 pressure levels of the old store: classic NetCDF, levels ascending."""
    fields = pressure_fields(times, seed, 1, 1)
    axes = ("time", "level", "latitude", "longitude")
    variables: dict[str, tuple[Any, ...]] = {
        "time": (("time",), (1051896 + np.arange(times)).astype("i4"), {"units": "hours since 1900-01-01 00:00:0.0"}),
        "level": (("level",), LEVELS[::-1].astype("i4"), {"units": "millibars", "long_name": "pressure_level"}),
        "latitude": (("latitude",), np.array([53.0], "f4"), {"units": "degrees_north"}),
        "longitude": (("longitude",), np.array([-10.0], "f4"), {"units": "degrees_east"}),
        "sp": (("time", "latitude", "longitude"), np.full((times, 1, 1), 101300.0, "f4"), {"units": "Pa"}),
    }
    for name, unit in (("u", "m s**-1"), ("v", "m s**-1"), ("z", "m**2 s**-2")):
        variables[name] = (axes, fields[name][:, ::-1].astype("f4"), {"units": unit})
    dims = {"time": times, "level": len(LEVELS), "latitude": 1, "longitude": 1}
    return write_netcdf3(path, dims, variables)


def csv_text(rows: int = 40, seed: int = 0) -> str:
    """One column per height, with times in UTC."""
    rng = np.random.default_rng(seed)
    hours = np.datetime64("2020-01-01T00", "h") + np.arange(rows)
    lines = ["time,ws_10m,ws_100m,ws_500m"]
    for hour in hours:
        speeds = rng.gamma(4.0, 2.0, 3).round(2)
        lines.append(f"{hour}:00:00Z," + ",".join(map(str, speeds)))
    return "\n".join(lines) + "\n"


def write_grib(path: Path, messages: list[tuple[str, str, int, int, np.ndarray]], north: Any, east: Any) -> Path:
    """`messages`: short name, type of level, level, hour of 1 January 2020, values (latitude, longitude)."""
    import eccodes

    grid = {
        "gridType": "regular_ll",
        "Ni": len(east),
        "Nj": len(north),
        "latitudeOfFirstGridPointInDegrees": north[0],
        "latitudeOfLastGridPointInDegrees": north[-1],
        "longitudeOfFirstGridPointInDegrees": east[0],
        "longitudeOfLastGridPointInDegrees": east[-1],
        "iDirectionIncrementInDegrees": abs(east[1] - east[0]),
        "jDirectionIncrementInDegrees": abs(north[1] - north[0]),
        "centre": 98,
        "dataDate": 20200101,
    }
    with path.open("wb") as stream:
        for name, kind, level, hour, values in messages:
            message = eccodes.codes_grib_new_from_samples("GRIB1")
            own = {"typeOfLevel": kind, "level": level, "dataTime": hour * 100, "shortName": name, "bitsPerValue": 24}
            for key, value in (grid | own).items():
                eccodes.codes_set(message, key, value)
            eccodes.codes_set_values(message, np.asarray(values, dtype=np.float64).ravel())
            eccodes.codes_write(message, stream)
            eccodes.codes_release(message)
    return path


def mutated(data: bytes, rng: np.random.Generator, text: bool) -> bytes:
    """A broken copy: bytes flipped, cut, doubled, swapped for others; in text also cells and lines."""
    broken = bytearray(data)
    if rng.random() < 0.4:  # a single wrong byte, which may pass unseen into the values
        broken[int(rng.integers(0, len(broken)))] = int(rng.integers(32, 127) if text else rng.integers(0, 256))
        return bytes(broken)
    for _ in range(int(rng.integers(1, 6))):
        if not broken:
            break
        kind = int(rng.integers(0, 7 if text else 4))
        at = int(rng.integers(0, len(broken)))
        length = int(rng.integers(1, 40))
        # Headers are where readers break: half the hits go to the first two kilobytes.
        if rng.random() < 0.5:
            at = min(at, int(rng.integers(0, 2000)), len(broken) - 1)
        if kind == 0:
            broken[at] = int(rng.integers(0, 256))
        elif kind == 1:
            del broken[at:]
        elif kind == 2:
            broken[at : at + length] = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
        elif kind == 3:
            broken[at:at] = broken[at : at + length]
        elif kind == 4:
            choices = [
                b"",
                b",",
                b";",
                b'"',
                b"\n",
                b"nan",
                b"-999",
                b"1e400",
                b"inf",
                b"abc",
                b"#",
                b"\t",
                b"24:00",
                b"Z",
            ]
            broken[at : at + int(rng.integers(0, 6))] = choices[int(rng.integers(0, len(choices)))]
        else:
            lines = bytes(broken).split(b"\n")
            one, other = rng.integers(0, len(lines), 2)
            if kind == 5:
                lines[one], lines[other] = lines[other], lines[one]
            else:
                del lines[min(one, other) : max(one, other)]
            broken = bytearray(b"\n".join(lines))
    return bytes(broken)
