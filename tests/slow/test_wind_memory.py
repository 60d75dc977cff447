"""One site out of two gigabytes, in a process of its own so that its peak memory is its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.wind_files import LEVELS

pytestmark = pytest.mark.slow
pytest.importorskip("xarray", reason="needs the extra: pip install 'holdcourse[wind]'")
pytest.importorskip("h5netcdf", reason="needs the extra: pip install 'holdcourse[wind]'")

if not Path("/proc/self/status").exists():
    pytest.skip("peak memory is read from /proc, which this system does not have", allow_module_level=True)

TIMES, NORTH, EAST, BLOCK = 8760, 41, 61, 73
MEGABYTES = 400

SCRIPT = r"""
import re, sys
from holdcourse import wind
data = wind.load(sys.argv[1], lat=55, lon=5, surface_height=0)
assert data.speed.shape == (8760, 8)
# Not getrusage: its peak includes that of the process which started this one.
print(int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) / 1024)
"""


def blocks() -> tuple[np.ndarray, np.ndarray]:
    wind = np.random.default_rng(0).normal(6, 2, (BLOCK, len(LEVELS), NORTH, EAST)).astype("f4")
    heights = 9.80665 * 8000 * np.log(1013 / LEVELS)[None, :, None, None]
    return wind, (heights + np.zeros_like(wind)).astype("f4")


def write_new(path: Path) -> None:
    import h5netcdf

    wind, heights = blocks()
    axes = ("valid_time", "pressure_level", "latitude", "longitude")
    with h5netcdf.File(path, "w") as file:
        file.dimensions = dict(zip(axes, (TIMES, len(LEVELS), NORTH, EAST), strict=True))
        seconds = file.create_variable("valid_time", axes[:1], "i8", data=1577836800 + 3600 * np.arange(TIMES))
        seconds.attrs["units"] = "seconds since 1970-01-01"
        file.create_variable("pressure_level", axes[1:2], "f8", data=LEVELS.astype(float)).attrs["units"] = "hPa"
        file.create_variable("latitude", axes[2:3], "f8", data=60 - 0.25 * np.arange(NORTH))
        file.create_variable("longitude", axes[3:], "f8", data=0.25 * np.arange(EAST))
        for name in "uvz":
            variable = file.create_variable(name, axes, "f4", chunks=(BLOCK, len(LEVELS), NORTH, EAST))
            for start in range(0, TIMES, BLOCK):
                variable[start : start + BLOCK] = heights if name == "z" else wind


def write_old(path: Path) -> None:
    from scipy.io import netcdf_file

    wind, heights = blocks()
    axes = ("time", "level", "latitude", "longitude")
    with netcdf_file(path, "w", version=2) as file:
        for axis, size in zip(axes, (TIMES, len(LEVELS), NORTH, EAST), strict=True):
            file.createDimension(axis, size)
        values = (1051896 + np.arange(TIMES), LEVELS, 60 - 0.25 * np.arange(NORTH), 0.25 * np.arange(EAST))
        units = ("hours since 1900-01-01 00:00:0.0", "millibars", "degrees_north", "degrees_east")
        for axis, data, unit in zip(axes, values, units, strict=True):
            variable = file.createVariable(axis, "i4" if axis in ("time", "level") else "f4", (axis,))
            variable[:] = data
            variable.units = unit
        for name in "uvz":
            variable = file.createVariable(name, "f4", axes)
            for start in range(0, TIMES, BLOCK):
                variable[start : start + BLOCK] = heights if name == "z" else wind


@pytest.mark.parametrize("write", [write_new, write_old], ids=["netcdf4", "netcdf3"])
def test_one_site_from_two_gigabytes(tmp_path: Path, write: object, record_property: pytest.RecordProperty) -> None:
    path = tmp_path / "large.nc"
    write(path)  # type: ignore[operator]
    try:
        assert path.stat().st_size > 2e9
        run = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    finally:
        path.unlink()
    peak = float(run.stdout)
    record_property(f"wind: peak memory, one site of 2.1 GB ({write.__name__})", f"{peak:.0f} MB")  # type: ignore[attr-defined]
    assert peak < MEGABYTES
