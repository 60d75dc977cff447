"""What wind data hold: figures for people and programs, and a picture of the profile over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdcourse.errors import InvalidInput
from holdcourse.tables.times import HOUR
from holdcourse.wind.files.data import Array, WindData
from holdcourse.wind.files.grid import need

SHADES = " ▁▂▃▄▅▆▇█"
FALLING = 0.9  # of the mean wind at the lowest height; with less at the greatest, the heights may be upside down
MOST_GAPS = 20  # gaps named one by one; the rest is counted
MOST_STRIPS = 12  # heights in the picture of the terminal
PICTURE_COLUMNS = 1500


def describe(data: WindData, *, max_gap: float = 3.0) -> dict[str, Any]:
    """Return the wind data in plain values, ready for JSON.

    Parameters
    ----------
    data
        What `load` gave.
    max_gap
        Hours; gaps up to this are bridged when counting segments.
    """
    gaps = data.gaps
    pieces = data.segments(max_gap)
    return {
        "layout": data.source,
        "site": str(data.site),
        "latitude": data.site.latitude,
        "longitude": data.site.longitude,
        "units": "m/s, metres above ground, UTC",
        "start": f"{data.time[0]}Z",
        "end": f"{data.time[-1]}Z",
        "times": len(data),
        "step_hours": data.step,
        "heights_fixed": data.level_heights is None,
        "heights": [_height_row(data, column) for column in range(len(data.heights))],
        "gaps": [
            {"after": f"{gap.after}Z", "before": f"{gap.before}Z", "missing_hours": gap.hours}
            for gap in gaps[:MOST_GAPS]
        ],
        "gap_count": len(gaps),
        "segments": len(pieces),
        "longest_segment_hours": max((len(piece) * data.step for piece in pieces), default=0.0),
        "notes": [*data.notes, *_upside_down(data)],
    }


def _upside_down(data: WindData) -> list[str]:
    """Return a note if the mean wind at the greatest height is clearly below that at the lowest, as in few places."""
    known = np.isfinite(data.speed[:, [0, -1]]).all(axis=1)
    if len(data.heights) < 2 or not known.any():
        return []
    low, high = data.speed[known][:, [0, -1]].mean(axis=0)
    if high > FALLING * low:
        return []
    top, bottom = f"at {data.heights[-1]:g} m, {high:.1f} m/s", f"at {data.heights[0]:g} m, {low:.1f} m/s"
    return [f"the mean wind {top}, is below that {bottom}; check that the columns have the right heights"]


def _height_row(data: WindData, column: int) -> dict[str, float]:
    speed = data.speed[:, column]
    finite = speed[np.isfinite(speed)]
    expected = len(speed) if data.level_heights is None else np.isfinite(data.level_heights[:, column]).sum()
    row = {"height": float(data.heights[column])}
    if data.level_heights is not None:
        row["lowest"] = float(np.nanmin(data.level_heights[:, column]))
        row["highest"] = float(np.nanmax(data.level_heights[:, column]))
    row |= {"min": float(finite.min()), "mean": float(finite.mean()), "max": float(finite.max())}
    row["missing_share"] = float(data.missing[:, column].sum() / max(1, expected))
    return row


def strips(data: WindData, width: int = 72) -> list[str]:
    """Return the profile over time as lines of text, the highest first; a point marks missing wind.

    >>> hours = np.arange("2020-01-01T00", "2020-01-01T08", dtype="datetime64[h]")
    >>> for line in strips(WindData(hours, [10.0, 100.0], np.outer(np.arange(8), [1.0, 2.0])), width=8):
    ...     print(line)
     100 m  ▁▂▃▅▆▇█
      10 m  ▁▁▂▂▃▃▄
    """
    if width < 1:
        raise InvalidInput(f"width must be 1 or more columns, got {width}")
    chosen = np.unique(np.linspace(0, len(data.heights) - 1, MOST_STRIPS).round().astype(int))
    table = _in_columns(data, width)[:, chosen]
    top = max(float(np.nanmax(table)), 1e-9)
    lines = []
    for column in range(len(chosen) - 1, -1, -1):
        marks = [
            "·" if np.isnan(value) else SHADES[round(value / top * (len(SHADES) - 1))] for value in table[:, column]
        ]
        lines.append(f"{data.heights[chosen[column]]:>4.0f} m {''.join(marks)}")
    return lines


def _in_columns(data: WindData, width: int) -> Array:
    """Average the speed in `width` equal parts of the period (fewer for fewer steps), NaN where missing; (width, k)."""
    seconds = (data.time - data.time[0]).astype(np.int64)
    steps = int(seconds[-1] // max(1, round(data.step * HOUR))) + 1
    width = min(width, steps)
    position = np.minimum(seconds * width // (int(seconds[-1]) + max(1, round(data.step * HOUR))), width - 1)
    total = np.zeros((width, len(data.heights)))
    count = np.zeros_like(total)
    np.add.at(total, position, np.nan_to_num(data.speed))
    np.add.at(count, position, np.isfinite(data.speed))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def draw(data: WindData, path: Path) -> Path:
    """Write a picture of speed over time and height, with the mean profile beside it."""
    need("matplotlib", "drawing", extra="plot")
    figures = need("matplotlib.figure", "drawing", extra="plot")
    figure = figures.Figure(figsize=(11, 4.5), layout="constrained")
    field, profile = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1])
    table = _in_columns(data, PICTURE_COLUMNS)
    length = float((data.time[-1] - data.time[0]).astype(np.int64)) + data.step * HOUR
    moments = data.time[0] + np.linspace(0, length, len(table) + 1).astype("timedelta64[s]")
    edges = _edges(data.heights)
    shown = field.pcolormesh(moments, edges, np.ma.masked_invalid(table.T), cmap="viridis")
    field.set(ylabel="height above ground (m)", title=f"{data.source}, {data.site}")
    figure.colorbar(shown, ax=field, label="wind speed (m/s)")
    for label in field.get_xticklabels():
        label.set(rotation=30, ha="right")
    low, middle, high = np.nanpercentile(data.speed, [10, 50, 90], axis=0)
    profile.fill_betweenx(data.heights, low, high, alpha=0.3, label="10..90 %")
    profile.plot(middle, data.heights, label="median")
    profile.set(xlabel="wind speed (m/s)", ylim=(edges[0], edges[-1]))
    profile.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def _edges(heights: Array) -> Array:
    """Return the borders between heights, half way; the outermost as far out as in."""
    if len(heights) == 1:
        return np.array([heights[0] * 0.5, heights[0] * 1.5])
    middle = (heights[1:] + heights[:-1]) / 2.0
    first = max(0.0, heights[0] - (middle[0] - heights[0]))
    return np.concatenate([[first], middle, [heights[-1] + (heights[-1] - middle[-1])]])
