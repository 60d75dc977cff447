"""The arithmetic under `WindData`: between heights, and across holes in time. Arrays in, arrays out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Times: TypeAlias = NDArray[np.datetime64]


def interpolate(wanted: Array, heights: Array, speed: Array, *, clamp: bool) -> Array:
    """Speeds at `wanted` (n,), logarithms of heights; row by row, since heights and holes differ from time to time."""
    found = np.full((len(speed), len(wanted)), np.nan)
    usable = np.isfinite(heights) & np.isfinite(speed)
    for row, (z, v, good) in enumerate(zip(heights, speed, usable, strict=True)):
        if not good.any():
            continue
        order = np.argsort(z[good], kind="stable")
        logs, values = np.log(z[good][order]), v[good][order]
        found[row] = np.interp(wanted, logs, values)
        if not clamp:
            # Within the heights of this time, but its end value is missing: not a number, never a guess.
            found[row, (wanted < logs[0] - 1e-6) | (wanted > logs[-1] + 1e-6)] = np.nan
    return found


def evenly_filled(
    time: Times,  # (t,), no gap longer than `longest`
    speed: Array,  # (t, k)
    heights: Array | None,  # (t, k), NaN below ground; None where they are fixed
    missing: NDArray[np.bool_],  # (t, k)
    step: float,  # seconds
    longest: float,  # seconds between two known speeds that are still bridged
) -> list[tuple[Times, Array, Array | None]]:
    """One stretch of times on an even grid, cut where a height is missing for too long."""
    seconds = time.astype(np.int64).astype(np.float64)
    grid = np.arange(seconds[0], seconds[-1] + 0.5 * step, step)
    filled = np.full((len(grid), speed.shape[1]), np.nan)
    rising = None if heights is None else np.full_like(filled, np.nan)
    whole = np.ones(len(grid), dtype=bool)
    for column in range(speed.shape[1]):
        known = ~missing[:, column]
        if not known.any():
            return []
        times = seconds[known]
        left = np.clip(np.searchsorted(times, grid, side="right") - 1, 0, len(times) - 1)
        right = np.clip(np.searchsorted(times, grid, side="left"), 0, len(times) - 1)
        inside = (grid >= times[0]) & (grid <= times[-1])
        whole &= inside & (times[right] - times[left] <= longest)
        # Below ground both are NaN, and stay so beside a filled time.
        filled[:, column] = np.interp(grid, times, speed[known, column])
        if rising is not None and heights is not None:
            rising[:, column] = np.interp(grid, times, heights[known, column])
            rising[np.isnan(filled[:, column]), column] = np.nan
    moments = np.round(grid).astype(np.int64).astype("datetime64[s]")
    edges = np.flatnonzero(np.diff(np.concatenate([[False], whole, [False]])))
    return [
        (moments[a:b], filled[a:b], None if rising is None else rising[a:b])
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]
