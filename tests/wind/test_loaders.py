"""Every gridded layout, checked against values read by hand (scipy, h5py, eccodes) without the code under test."""

from __future__ import annotations

import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import wind_files
from helpers.wind_files import GRAVITY, LEVELS, new_cds, old_cds, pressure_fields, write_grib, write_netcdf4

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, MissingExtra
from holdcourse.wind import load
from holdcourse.wind.files.era5 import ICAO_HEIGHTS, hydrostatic_heights
from holdcourse.wind.files.grid import broken_heap

pytest.importorskip("xarray", reason="needs the extra: pip install 'holdcourse[wind]'")
pytest.importorskip("h5netcdf", reason="needs the extra: pip install 'holdcourse[wind]'")


def classic(path: Path) -> dict[str, np.ndarray]:
    """All variables of a classic file, unpacked by hand."""
    from scipy.io import netcdf_file

    found = {}
    with netcdf_file(path, "r", mmap=False) as file:
        for name, variable in file.variables.items():
            values = np.array(variable.data, dtype=np.float64)
            missing = values == getattr(variable, "_FillValue", np.nan)
            values = values * getattr(variable, "scale_factor", 1.0) + getattr(variable, "add_offset", 0.0)
            found[name] = np.where(missing, np.nan, values)
    return found


def hdf(path: Path) -> dict[str, np.ndarray]:
    import h5py

    with h5py.File(path) as file:
        names = [name for name in file if isinstance(file[name], h5py.Dataset) and file[name].dtype.kind in "if"]
        return {name: np.array(file[name][()], dtype=np.float64) for name in names}


def assert_levels(data: Any, heights: np.ndarray, speed: np.ndarray) -> None:
    """The data hold exactly these (t, k) heights and speeds of the levels up to 3000 m, whatever their order."""
    assert data.level_heights is not None
    low = np.nanmedian(heights, axis=0) <= 3000.0
    order = np.argsort(np.nanmedian(heights[:, low], axis=0))
    np.testing.assert_allclose(data.level_heights, heights[:, low][:, order], rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(data.speed, speed[:, low][:, order], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(data.heights, np.nanmedian(data.level_heights, axis=0))
    assert (np.diff(data.heights) > 0).all()


def test_legacy_store(shared_data: Path) -> None:
    path = shared_data / "formats" / "euroc_2023_all_windows.nc"
    raw = classic(path)
    data = load(path, lat=39.3, lon=-8.8, surface_height=20.0)
    i, j = raw["latitude"].tolist().index(39.25), raw["longitude"].tolist().index(-8.75)
    heights = raw["z"][:, :, i, j] / 9.80665 - 20.0
    assert (heights > 10).all()
    assert_levels(data, heights, np.hypot(raw["u"], raw["v"])[:, :, i, j])
    expected = [datetime(1900, 1, 1) + timedelta(hours=int(hour)) for hour in raw["time"]]
    assert data.time.tolist() == expected
    assert (data.site.latitude, data.site.longitude) == (39.25, -8.75)
    assert any(note.startswith("grid point 39.25 N, 8.75 W: nearest of 5 x 9") for note in data.notes)
    assert [gap.hours for gap in data.gaps] == [13.0, 13.0, 13.0]
    assert [len(part) for part in data.segments()] == [11, 11, 11, 11]
    assert data.source == "ERA5 pressure levels"


def test_new_store(shared_data: Path) -> None:
    path = shared_data / "formats" / "euroc_2022_all_windows.nc"
    raw = hdf(path)
    data = load(path, lat=39.0, lon=352.0, surface_height=0.0)  # longitudes may be counted to 360
    i, j = raw["latitude"].tolist().index(39.0), raw["longitude"].tolist().index(-8.0)
    assert_levels(data, raw["z"][:, :, i, j] / 9.80665, np.hypot(raw["u"], raw["v"])[:, :, i, j])
    assert data.time.astype(np.int64).tolist() == raw["valid_time"].tolist()


def test_levels_below_ground_are_never_used(shared_data: Path) -> None:
    folder = shared_data / "formats"
    levels, ground = (
        hdf(folder / "era5_pl_newcds_walnut_gulch_48h.nc"),
        hdf(folder / "era5_sfc_newcds_walnut_gulch_48h.nc"),
    )
    data = load(str(folder / "era5_*_newcds_walnut_gulch_48h.nc"), lat=31.744, lon=-110.0525)
    sp, z = ground["sp"][:, 1, 1], levels["z"][:, :, 1, 1] / 9.80665
    pressure = levels["pressure_level"]
    above = pressure[None, :] * 100 < sp[:, None]
    assert above.sum(axis=0)[pressure >= 875].tolist() == [0] * 6  # 1000..875 hPa lie under the ground at every hour
    at_ground = [np.interp(np.log(p), np.log(pressure[::-1] * 100), row[::-1]) for p, row in zip(sp, z, strict=True)]
    heights = np.where(above, z - np.median(at_ground), np.nan)
    heights[heights < 10] = np.nan
    used = np.isfinite(heights).any(axis=0)
    speed = np.where(np.isfinite(heights), np.hypot(levels["u"], levels["v"])[:, :, 1, 1], np.nan)
    ten = np.hypot(ground["u10"], ground["v10"])[:, 1, 1]
    assert_levels(
        data,
        np.concatenate([np.full((48, 1), 10.0), heights[:, used]], axis=1),
        np.concatenate([ten[:, None], speed[:, used]], axis=1),
    )
    assert any("1000..875 hPa" in note for note in data.notes)
    assert 1370 < np.median(at_ground) < 1374  # the ground in the model
    assert (data.site.latitude, data.site.longitude) == (31.744, pytest.approx(-110.0525))
    # Each wind used is that of a level above ground, or the 10 m wind: none is that of a level below.
    below = np.hypot(levels["u"], levels["v"])[:, :6, 1, 1]
    assert not np.isin(data.speed.astype(np.float32), below.astype(np.float32)).any()


def test_pressure_levels_alone_ask_for_the_ground(shared_data: Path) -> None:
    path = shared_data / "formats" / "era5_pl_newcds_walnut_gulch_48h.nc"
    with pytest.raises(InvalidInput, match=r"where the ground is.*surface_height="):
        load(path, lat=31.744, lon=-110.0525)
    for wrong in (0.0, 700.0, 1000.0):
        with pytest.raises(InvalidInput, match=r"repeat one wind.*below ground"):
            load(path, lat=31.744, lon=-110.0525, surface_height=wrong)
    with pytest.raises(InvalidInput, match=r"every level lies below ground|no height up to the ceiling"):
        load(path, lat=31.744, lon=-110.0525, surface_height=9000.0, ceiling=100.0)
    right = load(path, lat=31.744, lon=-110.0525, surface_height=1372.0)
    assert 60 < right.heights[0] < 120


def test_single_levels_alone(shared_data: Path) -> None:
    path = shared_data / "formats" / "era5_sfc_newcds_walnut_gulch_48h.nc"
    raw = hdf(path)
    data = load(path, lat=32.0, lon=-110.3)
    assert data.heights.tolist() == [10.0]
    np.testing.assert_allclose(data.speed[:, 0], np.hypot(raw["u10"], raw["v10"])[:, 0, 0], rtol=1e-6)


def test_cloudnet(shared_data: Path) -> None:
    path = shared_data / "formats" / "cloudnet_20190517_mace-head_ecmwf.nc"
    raw = classic(path)
    data = load(path)
    assert_levels(data, raw["height"], np.hypot(raw["uwind"], raw["vwind"]))
    expected = np.datetime64("2019-05-17T00:00", "s") + (raw["time"] * 3600).astype(int)
    np.testing.assert_array_equal(data.time, expected)
    assert (data.site.latitude, data.site.longitude, data.site.name) == (53.32, -9.92, "Mace-Head")
    # The same day, taken from the file by others.
    lines = (shared_data / "wind" / "ifs_macehead_20190517_hourly.csv").read_text().splitlines()[1:]
    np.testing.assert_allclose(data.speed[:, :25].ravel(), [float(line.split(",")[3]) for line in lines], atol=6e-4)


def test_packed_numbers_missing_values_and_descending_axes(tmp_path: Path) -> None:
    fields = pressure_fields(5)
    variables: dict[str, tuple[Any, ...]] = {
        "time": (("time",), np.arange(5, dtype="i4"), {"units": "hours since 2020-01-01"}),
        "level": (("level",), LEVELS.astype("i4"), {"units": "millibars"}),
        "latitude": (("latitude",), np.array([54.0, 53.75, 53.5], "f4"), {}),
        "longitude": (("longitude",), np.array([359.5, 359.75, 0.0, 0.25], "f4"), {}),
        "sp": (("time", "latitude", "longitude"), np.full((5, 3, 4), 101325.0, "f4"), {}),
    }
    for name, values in fields.items():
        scale, offset = np.ptp(values) / 65000, (values.max() + values.min()) / 2
        packed = np.round((values - offset) / scale).astype("i2")
        packed[2, 3, 0, 2] = -32767
        attributes = {"scale_factor": scale, "add_offset": offset, "_FillValue": np.int16(-32767)}
        variables[name] = (("time", "level", "latitude", "longitude"), packed, attributes)
        fields[name] = np.where(packed == -32767, np.nan, packed * scale + offset)
    path = wind_files.write_netcdf3(
        tmp_path / "packed.nc", {"time": 5, "level": 8, "latitude": 3, "longitude": 4}, variables
    )
    data = load(path, lat=54.0, lon=0.05)
    assert (data.site.latitude, data.site.longitude) == (54.0, 0.0)
    ground = np.median(
        [
            np.interp(np.log(1013.25), np.log(LEVELS[::-1]), row[::-1])
            + (np.log(1013.25 / 1000) / np.log(1000 / 975)) * (row[0] - row[1])
            for row in fields["z"][[0, 1, 3, 4], :, 0, 2] / GRAVITY
        ]
    )
    heights = fields["z"][:, :, 0, 2] / GRAVITY - ground
    assert data.level_heights is not None
    np.testing.assert_allclose(data.level_heights, heights, atol=0.02)
    np.testing.assert_allclose(data.speed, np.hypot(fields["u"], fields["v"])[:, :, 0, 2], rtol=1e-6)
    assert np.isnan(data.speed[2, 3])


def test_preliminary_months_are_merged(tmp_path: Path) -> None:
    fields = {name: values.astype("f4") for name, values in pressure_fields(6, north=1, east=1).items()}
    axes = ("time", "expver", "level", "latitude", "longitude")
    variables: dict[str, tuple[Any, ...]] = {
        "time": (("time",), np.arange(6, dtype="i4"), {"units": "hours since 2020-01-01"}),
        "expver": (("expver",), np.array([1, 5], "i4"), {}),
        "level": (("level",), LEVELS.astype("i4"), {"units": "millibars"}),
        "latitude": (("latitude",), [53.0], {}),
        "longitude": (("longitude",), [4.0], {}),
    }
    for name, values in fields.items():
        both = np.full((6, 2, 8, 1, 1), np.nan, "f4")
        both[:4, 0], both[4:, 1] = values[:4], values[4:]
        variables[name] = (axes, both, {})
    dims = {"time": 6, "expver": 2, "level": 8, "latitude": 1, "longitude": 1}
    data = load(write_netcdf4(tmp_path / "expver.nc", dims, variables), surface_height=0.0)
    assert len(data) == 6
    np.testing.assert_allclose(data.speed, np.hypot(fields["u"], fields["v"])[:, :, 0, 0], rtol=1e-5)
    assert not np.isnan(data.speed).any()


def model_level_file(path: Path, times: int = 3, first: int = 100, **extra: np.ndarray) -> dict[str, np.ndarray]:
    """The layout of the paper's archive: levels in ascending number, packed wind."""
    rng = np.random.default_rng(1)
    levels = np.arange(first, 138)
    shape = (times, len(levels), 2, 2)
    fields = {"u": rng.normal(5, 3, shape), "v": rng.normal(0, 3, shape)} | extra
    variables: dict[str, tuple[Any, ...]] = {
        "longitude": (("longitude",), np.array([-10.0, -9.75], "f4"), {"units": "degrees_east"}),
        "latitude": (("latitude",), np.array([53.0, 52.75], "f4"), {"units": "degrees_north"}),
        "level": (("level",), levels.astype("i4"), {"long_name": "model_level_number"}),
        "time": (("time",), 960000 + np.arange(times, dtype="i4"), {"units": "hours since 1900-01-01 00:00:0.0"}),
    }
    for name, values in fields.items():
        axes = ("time", "level", "latitude", "longitude") if values.ndim == 4 else ("time", "latitude", "longitude")
        variables[name] = (axes, values.astype("f4"), {})
    dims = {"longitude": 2, "latitude": 2, "level": len(levels), "time": times}
    write_netcdf4(path, dims, variables)
    return fields


def test_the_papers_archive_has_fixed_heights(tmp_path: Path) -> None:
    fields = model_level_file(tmp_path / "ml_2010_06.netcdf", first=70)
    data = load(tmp_path / "ml_2010_06.netcdf", lat=53.0, lon=-10.0)
    assert data.heights.tolist() == list(ICAO_HEIGHTS)
    assert data.level_heights is None
    speed = np.hypot(fields["u"], fields["v"])[:, :, 0, 0]
    np.testing.assert_allclose(data.speed[:, 0], speed[:, -1], rtol=1e-5)  # level 137 is the lowest
    np.testing.assert_allclose(data.speed, speed[:, ::-1][:, :25], rtol=1e-5)
    assert data.time[0] == np.datetime64("2009-07-08T00:00")
    assert any("standard atmosphere" in note for note in data.notes)
    ground = {"z": (("latitude", "longitude"), np.zeros((2, 2), "f4"), {})}
    axes = {"longitude": (("longitude",), [-10.0, -9.75], {}), "latitude": (("latitude",), [53.0, 52.75], {})}
    write_netcdf4(tmp_path / "geopotential.netcdf", {"longitude": 2, "latitude": 2}, axes | ground)
    assert load(str(tmp_path / "*.netcdf"), lat=53.0, lon=-10.0).heights.tolist() == list(ICAO_HEIGHTS)
    with pytest.raises(InvalidInput, match="describes the ground only"):
        load(tmp_path / "geopotential.netcdf", lat=53.0, lon=-10.0)


def test_months_are_joined(tmp_path: Path) -> None:
    for number in range(3):
        new_cds(tmp_path / f"{number}.nc", times=24, seed=number, hours_from=24 * number - 2 * (number == 2))
    data = load([tmp_path / "2.nc", tmp_path / "0.nc", tmp_path / "1.nc"])
    assert len(data) == 70  # two hours overlap
    np.testing.assert_array_equal(np.diff(data.time).astype(int), 3600)
    later = pressure_fields(24, 2, 1, 1)
    np.testing.assert_allclose(data.speed[46], np.hypot(later["u"], later["v"])[0, :, 0, 0], rtol=1e-5)


def test_heights_of_model_levels_from_temperature_and_pressure(shared_data: Path, tmp_path: Path) -> None:
    raw = classic(shared_data / "formats" / "cloudnet_20190517_mace-head_ecmwf.nc")
    low = slice(0, 38)  # levels 137..100
    heights = hydrostatic_heights(raw["temperature"][:, low], raw["q"][:, low], raw["sfc_pressure"])
    np.testing.assert_allclose(heights, raw["height"][:, low], rtol=0.025)
    np.testing.assert_allclose(heights[:, 5:], raw["height"][:, 5:38], rtol=0.005)
    grid = np.ones((1, 1, 2, 2))
    fields = model_level_file(
        tmp_path / "full.nc",
        times=25,
        t=raw["temperature"][:, low][:, ::-1, None, None] * grid,
        q=raw["q"][:, low][:, ::-1, None, None] * grid,
        sp=raw["sfc_pressure"][:, None, None] * grid[0],
    )
    data = load(tmp_path / "full.nc", lat=53.0, lon=-10.0)
    speed = np.hypot(fields["u"], fields["v"])[:, :, 0, 0][:, ::-1]
    assert_levels(data, heights, speed)
    del fields["sp"]
    fields["lnsp"] = np.full((25, 38, 2, 2), np.nan)
    fields["lnsp"][:, 0] = np.log(raw["sfc_pressure"])[:, None, None]
    model_level_file(tmp_path / "log.nc", times=25, **fields)
    np.testing.assert_allclose(load(tmp_path / "log.nc", lat=53.0, lon=-10.0).heights, data.heights, rtol=1e-5)


def test_hydrostatic_heights_of_the_standard_atmosphere_are_the_fixed_ones() -> None:
    temperature = 288.15 - 0.0065 * np.array(ICAO_HEIGHTS)[None, :]
    found = hydrostatic_heights(temperature, np.zeros_like(temperature), np.array([101325.0]))
    np.testing.assert_allclose(found[0], ICAO_HEIGHTS, rtol=3e-3)


def grib_messages(hours: int = 4) -> tuple[list[tuple[str, str, int, int, np.ndarray]], dict[str, np.ndarray]]:
    fields = pressure_fields(hours, 3, 3, 2)
    messages = [
        (name, "isobaricInhPa", int(level), hour, values[hour, k])
        for name, values in fields.items()
        for hour in range(hours)
        for k, level in enumerate(LEVELS)
    ]
    for hour in range(hours):
        messages.append(("sp", "surface", 0, hour, np.full((3, 2), 101300.0)))
        messages.append(("10u", "surface", 0, hour, np.full((3, 2), 3.0)))
        messages.append(("10v", "surface", 0, hour, np.full((3, 2), 4.0)))
    return messages, fields


def test_grib(tmp_path: Path) -> None:
    pytest.importorskip("cfgrib", reason="needs cfgrib and eccodes: pip install 'holdcourse[wind]'")
    messages, fields = grib_messages()
    path = write_grib(tmp_path / "download", messages, [54.0, 53.75, 53.5], [1.0, 1.25])
    data = load(path, lat=53.8, lon=1.2)
    assert (data.site.latitude, data.site.longitude) == (53.75, 1.25)
    np.testing.assert_array_equal(data.time, np.datetime64("2020-01-01T00:00", "s") + 3600 * np.arange(4))
    z = fields["z"][:, :, 1, 1] / GRAVITY
    ground = np.median(z[:, 0] - (z[:, 1] - z[:, 0]) * np.log(1.013) / np.log(1000 / 975))
    heights = np.concatenate([np.full((4, 1), 10.0), z - ground], axis=1)
    speed = np.concatenate([np.full((4, 1), 5.0), np.hypot(fields["u"], fields["v"])[:, :, 1, 1]], axis=1)
    low = np.median(heights, axis=0) <= 3000
    assert data.level_heights is not None
    np.testing.assert_allclose(data.level_heights, heights[:, low], atol=0.01)
    np.testing.assert_allclose(data.speed, speed[:, low], atol=1e-4)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["download"]  # no index file is left behind
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFile, match="download cannot be read"):
        load(path, lat=53.8, lon=1.2)


def test_zip_of_the_store(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "formats"
    names = [f"era5_{kind}_newcds_walnut_gulch_48h.nc" for kind in ("pl", "sfc")]
    archive = tmp_path / "download.nc"  # the store names it as it likes
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.write(folder / name, f"../{name}")
    data = load(archive, lat=31.744, lon=-110.0525)
    plain = load([folder / name for name in names], lat=31.744, lon=-110.0525)
    np.testing.assert_array_equal(data.speed, plain.speed)
    np.testing.assert_array_equal(data.heights, plain.heights)
    archive.write_bytes(archive.read_bytes()[:-50])
    with pytest.raises(DamagedFile, match="cannot be unpacked"):
        load(archive)
    with zipfile.ZipFile(archive, "w"):
        pass
    with pytest.raises(HoldcourseError, match=r"download\.nc"):
        load(archive)


def test_the_grid_point_must_be_settled(shared_data: Path) -> None:
    path = shared_data / "formats" / "euroc_2022_all_windows.nc"
    with pytest.raises(InvalidInput, match=r"5 x 5 grid points .*lat= and lon="):
        load(path)
    with pytest.raises(InvalidInput, match="both lat and lon"):
        load(path, lat=39.0)
    with pytest.raises(InvalidInput, match="lies outside"):
        load(path, lat=60.0, lon=5.0)
    with pytest.raises(InvalidInput, match=r"lat must be between -90 and 90"):
        load(path, lat=139.0, lon=-8.0)


def test_ensembles_and_wind_without_levels_are_refused(tmp_path: Path) -> None:
    variables: dict[str, tuple[Any, ...]] = {
        "time": (("time",), np.arange(4, dtype="i4"), {"units": "hours since 2020-01-01"}),
        "u": (("time", "number"), np.ones((4, 10), "f4"), {}),
        "v": (("time", "number"), np.ones((4, 10), "f4"), {}),
    }
    path = write_netcdf4(tmp_path / "flat.nc", {"time": 4, "number": 10}, variables)
    with pytest.raises(InvalidInput, match="no levels"):
        load(path)
    variables |= {"level": (("level",), np.array([137], "i4"), {})}
    path = write_netcdf4(tmp_path / "members.nc", {"time": 4, "number": 10, "level": 1}, variables)
    with pytest.raises(InvalidInput, match="10 entries along 'number'"):
        load(path)


def test_broken_files_say_so_in_one_line(tmp_path: Path) -> None:
    for make in (new_cds, old_cds):
        path = make(tmp_path / "good.nc")
        assert len(load(path)) == 30
        data = path.read_bytes()
        for size in (8, 100, len(data) // 2, len(data) - 2000):
            broken = tmp_path / "broken.nc"
            broken.write_bytes(data[:size])
            with pytest.raises(HoldcourseError, match=r"broken\.nc") as caught:
                load(broken)
            assert "\n" not in str(caught.value)
    (tmp_path / "x.nc").write_bytes(b"\x00\x01\x02")
    with pytest.raises(InvalidInput, match="neither NetCDF, GRIB, ZIP nor text"):
        load(tmp_path / "x.nc")
    (tmp_path / "x.nc").write_bytes(b"")
    with pytest.raises(DamagedFile, match="is empty"):
        load(tmp_path / "x.nc")
    other = write_netcdf4(tmp_path / "other.nc", {"x": 2}, {"depth": (("x",), [1.0, 2.0], {})})
    with pytest.raises(InvalidInput, match=r"other\.nc \(depth\) has no layout that holdcourse knows"):
        load(other)
    with pytest.raises(InvalidInput, match="where the ground is"):
        load(new_cds(tmp_path / "no_surface.nc", surface=False))


def test_a_broken_list_in_the_file_does_not_hang_the_library(tmp_path: Path) -> None:
    path = new_cds(tmp_path / "good.nc")
    data = bytearray(path.read_bytes())
    assert broken_heap(path) is None
    heap = data.index(b"GCOL")
    data[heap + 24 : heap + 32] = (2**64 - 16).to_bytes(8, "little")  # the length of its first object
    path.write_bytes(data)
    assert broken_heap(path) == heap
    with pytest.raises(DamagedFile, match=f"broken list at byte {heap}"):
        load(path)


def test_files_of_two_layouts_or_sites_are_refused(tmp_path: Path) -> None:
    one = new_cds(tmp_path / "one.nc")
    csv = tmp_path / "two.csv"
    csv.write_text(wind_files.csv_text())
    with pytest.raises(InvalidInput, match="load them one at a time"):
        load([one, csv])


def test_a_half_empty_file_is_refused(tmp_path: Path) -> None:
    import h5py

    path = new_cds(tmp_path / "half.nc")
    with h5py.File(path, "a") as file:
        file["u"][:20] = np.nan
    with pytest.raises(InvalidInput, match=r"67 % of the speeds in half\.nc are missing.*max_missing=0\.7"):
        load(path)
    assert len(load(path, max_missing=0.7)) == 10


def test_a_missing_extra_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def refuse(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    path = new_cds(tmp_path / "one.nc")
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtra, match=r"pip install 'holdcourse\[wind\]'"):
        load(path)
