"""A made-up continent in ERA5's layout, whose wind has the statistics of real profiles: NORA3 over the North Sea."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import holdcourse as hc
from holdcourse.wind.policy.climate import learn_climate

LEVELS = np.array([1000.0, 975.0, 950.0, 925.0])  # hPa
GRAVITY = 9.80665


def write_continent(
    folder: Path, rows: int = 3, columns: int = 4, hours: int = 24 * 28, seed: int = 0, months: int = 1
) -> list[Path]:
    """Write wind on pressure levels, in so many files, and one of the ground; returns all paths.

    The wind is what the climate of the bundled history says is usual, and its modes as Ornstein-Uhlenbeck processes,
    the same in time for all points but for a share of their own. Towards the east land rises, and wind gets weaker.
    """
    import xarray

    past = hc.wind.bundled("history")
    heights = np.array([10.0, 100.0, 110.0, 320.0, 535.0, 755.0])
    inside = np.minimum(heights, past.heights[-1])
    speeds = past.at(inside)
    whole = np.isfinite(speeds).all(axis=1)
    moments = past.time.astype("datetime64[s]").astype(np.int64) / 3600.0
    climate = learn_climate(moments[whole], speeds[whole], heights)
    random = np.random.default_rng(seed)
    time = np.datetime64("2010-01-01T00", "ns") + np.arange(hours) * np.timedelta64(1, "h")
    clock = time.astype("datetime64[s]").astype(np.int64) / 3600.0
    usual = climate(clock)  # (t, k)
    north, east = 52.0 + 0.25 * np.arange(rows)[::-1], 1.0 + 0.25 * np.arange(columns)
    decay = np.exp(-1.0 / climate.time_scales)
    kick = np.sqrt(climate.variances * (1.0 - decay**2))
    points = rows * columns
    common, own = np.zeros(len(decay)), np.zeros((points, len(decay)))
    wind = np.empty((hours, len(heights), points), dtype=np.float32)
    weaker = np.tile(np.linspace(1.05, 0.8, columns), rows)
    for t in range(hours):
        common = decay * common + kick * random.normal(size=len(decay))
        own = decay * own + kick * random.normal(size=own.shape)
        now = usual[t] + (np.sqrt(0.7) * common + np.sqrt(0.3) * own) @ climate.modes.T  # (points, k)
        wind[t] = np.maximum(now * weaker[:, None], 0.0).T
    ground = np.tile(np.linspace(0.0, 60.0, columns), rows).reshape(rows, columns)
    shape = (hours, len(heights), rows, columns)
    wind = wind.reshape(shape)
    coordinates = {"valid_time": time, "latitude": north, "longitude": east}
    flat = ("valid_time", "latitude", "longitude")
    surface = xarray.Dataset(
        {
            "z": (("latitude", "longitude"), GRAVITY * ground),
            "u10": (flat, wind[:, 0], {"units": "m s**-1"}),
            "v10": (flat, np.zeros_like(wind[:, 0]), {"units": "m s**-1"}),
            "u100": (flat, wind[:, 1], {"units": "m s**-1"}),
            "v100": (flat, np.zeros_like(wind[:, 1]), {"units": "m s**-1"}),
        },
        coordinates,
    )
    paths = [folder / "era5_ground.nc"]
    surface.to_netcdf(paths[0], engine="h5netcdf")
    axes = ("valid_time", "pressure_level", "latitude", "longitude")
    above = (ground[None, None] + heights[2:][None, :, None, None] + np.zeros((hours, 1, 1, 1))).astype(np.float32)
    for number, part in enumerate(np.array_split(np.arange(hours), months)):
        levels = xarray.Dataset(
            {
                "u": (axes, wind[part, 2:], {"units": "m s**-1"}),
                "v": (axes, np.zeros_like(wind[part, 2:]), {"units": "m s**-1"}),
                "z": (axes, GRAVITY * above[part], {"units": "m**2 s**-2"}),
            },
            {**coordinates, "valid_time": time[part], "pressure_level": ("pressure_level", LEVELS, {"units": "hPa"})},
        )
        paths.append(folder / f"era5_levels_{number:02d}.nc")
        levels.to_netcdf(paths[-1], engine="h5netcdf")
    return paths
