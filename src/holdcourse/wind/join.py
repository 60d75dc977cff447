"""From the pieces of several files to one series of wind data: sorted, each time once, one order of heights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.wind.loaders.piece import Piece
from holdcourse.wind.record import FASTEST_WIND, Array, Times, WindData

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
    _require_plausible(ordered[0].label, time, speed)
    notes = list(dict.fromkeys(note for piece in ordered for note in piece.notes))
    fixed = all(piece.heights.ndim == 1 for piece in ordered)
    if fixed:
        # Also where a file lacks the column: there the speed is missing, not below ground.
        heights = np.broadcast_to(_nominal(heights), heights.shape)

    low = _nominal(heights) <= ceiling
    left_out = int((~low & np.isfinite(_nominal(heights))).sum())
    if not low.any():
        raise InvalidInput(f"{ordered[0].label}: no height up to the ceiling of {ceiling:g} m; raise ceiling=")
    if left_out:
        notes.append(f"{left_out} levels above {ceiling:g} m left out")
    heights, speed = heights[:, low], speed[:, low]
    _require_enough(ordered, np.array(names)[low], heights, speed, max_missing)

    kept = _each_time_once(ordered, time, speed)
    repeated = len(np.flatnonzero(np.isfinite(speed).any(axis=1))) - len(kept)
    if repeated:
        notes.append(f"{repeated} repeated times dropped (the later file, and in a file the first row, is kept)")
    time, heights, speed = time[kept], heights[kept], speed[kept]
    used = np.isfinite(speed).any(axis=0)
    heights, speed = heights[:, used], speed[:, used]
    nominal = _nominal(heights)
    order = np.argsort(nominal, kind="stable")
    order = order[np.concatenate([[True], np.diff(nominal[order]) > 0])]
    share = np.isnan(speed[:, order])[np.isfinite(heights[:, order])].mean()
    if share > 0:
        notes.append(f"{share:.1%} of the speeds are missing")
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
                    f"{first.label} is at {first.site}, but {other.label} at {other.site}; load one site at a time"
                )


def _spread(piece: Piece, table: Array, names: tuple[str, ...]) -> Array:
    """The columns of one piece among those of all; NaN where it has none."""
    spread = np.full((len(piece.time), len(names)), np.nan)
    spread[:, [names.index(name) for name in piece.levels]] = table
    return spread


def _nominal(heights: Array) -> Array:
    """Median height of each column; +inf where it has none, which is above every ceiling."""
    known = np.isfinite(heights).any(axis=0)
    nominal = np.full(heights.shape[1], np.inf)
    nominal[known] = np.nanmedian(heights[:, known], axis=0)
    return nominal


def _require_plausible(label: str, time: Times, speed: Array) -> None:
    strange = (time < FIRST_YEAR) | (time >= LAST_YEAR)
    if strange.any():
        raise DamagedFile(f"{label}: the time {time[strange][0]} cannot be right; check the time column or axis")
    wild = speed[np.isinf(speed) | (speed > FASTEST_WIND)]
    if len(wild):
        raise DamagedFile(
            f"{label}: a speed of {wild[0]:.6g} m/s is no wind; the file is damaged, or its unit is not m/s (units=)"
        )


def _require_enough(
    pieces: Sequence[Piece], names: NDArray[np.str_], heights: Array, speed: Array, max_missing: float
) -> None:
    expected = np.isfinite(heights)
    missing = expected & np.isnan(speed)
    share = missing.sum() / max(1, expected.sum())
    label = pieces[0].label if len(pieces) == 1 else f"{pieces[0].label} and {len(pieces) - 1} more"
    if not expected.any() or share == 1.0:
        raise DamagedFile(f"{label} holds no wind speed, only missing values; download or export it again")
    if share > max_missing:
        by_level = missing.sum(axis=0) / np.maximum(1, expected.sum(axis=0))
        worst = int(np.argmax(by_level))
        raise InvalidInput(
            f"{share:.0%} of the speeds in {label} are missing (at {names[worst]}: {by_level[worst]:.0%}); "
            f"leave out such heights, or accept them with max_missing={np.ceil(share * 20) / 20:g}"
        )


def _each_time_once(pieces: Sequence[Piece], time: Times, speed: Array) -> NDArray[np.int64]:
    """Rows to keep, in order of time, of those that hold any speed."""
    number = np.repeat(np.arange(len(pieces)), [len(piece.time) for piece in pieces])
    rows = np.flatnonzero(np.isfinite(speed).any(axis=1))
    rows = rows[np.lexsort((rows, -number[rows], time[rows]))]
    first = np.concatenate([[True], np.diff(time[rows]).astype(np.int64) > 0])
    return np.asarray(rows[first], dtype=np.int64)
