"""What one file holds at one site, before the files are joined."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdcourse.wind.record import Array, Site, Times


@dataclass(frozen=True)
class Options:
    """What only the user can know; see `holdcourse.wind.load`."""

    latitude: float | None = None
    longitude: float | None = None
    surface_height: float | None = None
    units: str | None = None
    timezone: str | None = None
    time_format: str | None = None


@dataclass(frozen=True)
class Piece:
    """Times in any order, perhaps twice; levels in any order.

    Attributes
    ----------
    levels
        A name for each column, by which files are joined: "1000 hPa", "level 137", "100 m".
    heights
        Metres above ground, (k,) if fixed, (t, k) if not; NaN below ground.
    speed
        m/s, (t, k); NaN where missing or below ground.
    """

    label: str
    layout: str
    time: Times
    levels: tuple[str, ...]
    heights: Array
    speed: Array
    site: Site = field(default_factory=Site)
    notes: tuple[str, ...] = ()
