"""ERA5 on model levels: the archive of the paper (`ml_2010_06.netcdf`) and the Climate Data Store.

| symbol | meaning | shape |
|---|---|---|
| a, b | half-level coefficients: pressure a + b * surface pressure | (levels + 1,) |
| t, q | temperature (K), specific humidity (kg/kg) | (times, levels) |

Level 137 is the lowest. With t, q and the surface pressure the heights are integrated from the ground up; without, they
are the heights of the standard atmosphere, as in the paper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wind.grid import MODEL_LEVELS, Field, Point, levels_of, read, times_of, wind_speed
from holdcourse.wind.loaders.era5_surface import GRAVITY, Surface
from holdcourse.wind.loaders.piece import Piece
from holdcourse.wind.record import Array

LAYOUT = "ERA5 model levels"
DRY_AIR = 287.0597  # J/(kg K)
VAPOUR = 0.609133  # by how much water vapour is lighter than air

# Heights of levels 137, 136, ..., 113 in the standard (ICAO) atmosphere, metres above ground.
ICAO_HEIGHTS = (
    10.0, 30.96, 53.92, 79.04, 106.54, 136.62, 169.5, 205.44, 244.68, 287.51, 334.22, 385.14, 440.58, 500.91, 566.49,
    637.7, 714.94, 798.62, 889.17, 987.0, 1092.54, 1206.21, 1328.43, 1459.58, 1600.04,
)  # fmt: skip

# ECMWF's coefficients of the 42 lowest half levels, 96 to 137 (the ground); level n lies between n - 1 and n.
TOP_HALF_LEVEL = 96
HALF_A = (
    18006.925781, 17471.839844, 16888.6875, 16262.046875, 15596.695313, 14898.453125, 14173.324219, 13427.769531,
    12668.257813, 11901.339844, 11133.304688, 10370.175781, 9617.515625, 8880.453125, 8163.375, 7470.34375, 6804.421875,
    6168.53125, 5564.382813, 4993.796875, 4457.375, 3955.960938, 3489.234375, 3057.265625, 2659.140625, 2294.242188,
    1961.5, 1659.476563, 1387.546875, 1143.25, 926.507813, 734.992188, 568.0625, 424.414063, 302.476563, 202.484375,
    122.101563, 62.78125, 22.835938, 3.757813, 0.0, 0.0,
)  # fmt: skip
HALF_B = (
    0.332939, 0.358254, 0.384363, 0.411125, 0.438391, 0.466003, 0.4938, 0.521619, 0.549301, 0.576692, 0.603648,
    0.630036, 0.655736, 0.680643, 0.704669, 0.727739, 0.749797, 0.770798, 0.790717, 0.809536, 0.827256, 0.843881,
    0.859432, 0.873929, 0.887408, 0.8999, 0.911448, 0.922096, 0.931881, 0.94086, 0.949064, 0.95655, 0.963352, 0.969513,
    0.975078, 0.980072, 0.984542, 0.9885, 0.991984, 0.995003, 0.99763, 1.0,
)  # fmt: skip


def read_piece(field: Field, point: Point, surface: Surface) -> Piece:
    """Wind by height above ground at the grid point."""
    found = levels_of(field)
    assert found is not None
    _, level_axis, levels = found
    if (levels != np.round(levels)).any() or levels.min() < 1 or levels.max() > MODEL_LEVELS:
        raise InvalidInput(f"{field.label}: model levels are whole numbers 1..{MODEL_LEVELS}, got {levels.tolist()}")
    time_axis, times = times_of(field)
    axes = (time_axis, level_axis)
    speed = wind_speed(field, "u", "v", point, *axes)
    order = np.argsort(-levels, kind="stable")  # the ground first
    numbers = levels[order].astype(np.int64)
    pressure = surface.pressure_at(times)
    if field.has("t", "q") and np.isfinite(pressure).any() and _unbroken(numbers):
        order = order[numbers > TOP_HALF_LEVEL]
        heights = hydrostatic_heights(
            read(field, "t", point, *axes)[:, order], read(field, "q", point, *axes)[:, order], pressure
        )
        how = "heights computed from temperature, humidity and surface pressure"
    else:
        order = order[numbers > MODEL_LEVELS - len(ICAO_HEIGHTS)]
        if not len(order):
            raise InvalidInput(
                f"{field.label} has model levels {numbers[-1]}..{numbers[0]}, all above 1600 m; download 113..137"
            )
        heights = np.array([ICAO_HEIGHTS[MODEL_LEVELS - int(level)] for level in levels[order]])
        how = "heights of the standard atmosphere (no t, q and surface pressure for all levels down to 137)"
    names = tuple(f"level {level:g}" for level in levels[order])
    return Piece(field.label, LAYOUT, times, names, heights, speed[:, order], point.site, (point.note, how))


def hydrostatic_heights(temperature: Array, humidity: Array, surface_pressure: Array) -> Array:
    """Heights above ground, shape (t, k), of the k lowest levels, the lowest first; ECMWF's own integration."""
    moist = DRY_AIR * temperature * (1.0 + VAPOUR * humidity)
    half = np.array(HALF_A)[::-1] + np.array(HALF_B)[::-1] * surface_pressure[:, None]  # the ground first
    below = np.zeros(len(temperature))  # geopotential of the half level under the level
    heights = np.empty_like(temperature)
    for level in range(temperature.shape[1]):
        thickness = np.log(half[:, level] / half[:, level + 1])
        share = 1.0 - half[:, level + 1] / (half[:, level] - half[:, level + 1]) * thickness
        heights[:, level] = (below + moist[:, level] * share) / GRAVITY
        below = below + moist[:, level] * thickness
    return heights


def _unbroken(numbers: NDArray[np.int64]) -> bool:
    """Whether the levels go down to the ground without a hole: a missing layer has no thickness to add."""
    return numbers[0] == MODEL_LEVELS and bool((np.diff(numbers) == -1).all())
