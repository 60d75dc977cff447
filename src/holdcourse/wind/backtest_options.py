"""What the options of `holdcourse backtest` mean: a machine, and which files belong to which site."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdcourse.errors import InvalidInput
from holdcourse.wind.files import expand
from holdcourse.wind.power import PowerCurve, paper_curve, read_curve
from holdcourse.wind.run import Wind


@dataclass(frozen=True)
class SiteFiles:
    """What to load for one site, and what to call it; None: what the data say."""

    wind: Wind
    history: Wind | None
    name: str | None
    loading: dict[str, Any]


def curve(path: Path | None, rated_speed: float | None, cut_in: float | None, cut_out: float | None) -> PowerCurve:
    """The machine: the paper's, or the table in a file."""
    if path is None:
        rated = {} if rated_speed is None else {"rated_speed": rated_speed}
        return paper_curve(cut_in=cut_in or 0.0, cut_out=math.inf if cut_out is None else cut_out, **rated)
    if rated_speed is not None:
        raise InvalidInput("a curve from a file has its own rated speed; leave out --rated-speed")
    return read_curve(path, cut_in, cut_out)


def movement(movement: str, climb: float | None, sink: float | None) -> str | float | tuple[float, float]:
    """The cost of moving, as a `Plan` takes it."""
    if (climb is None) != (sink is None):
        raise InvalidInput("--climb and --sink go together: give both")
    if climb is not None and sink is not None:
        if movement != "paper":
            raise InvalidInput("--climb and --sink replace --movement; leave it out")
        return climb, sink
    try:
        return float(movement)
    except ValueError:
        return movement


def price(price: float | None) -> float | None:
    """The price of a kWh; it may be 0 or negative, as markets are."""
    if price is not None and not math.isfinite(price):
        raise InvalidInput(f"the price of a kWh must be a number, got {price}")
    return price


def numbers(text: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas; an empty tuple for "none"."""
    if text is None:
        return None
    if text.strip().lower() in ("none", ""):
        return ()
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < number < math.inf for number in found):
        raise InvalidInput(f"--what-if takes numbers above 0 such as 1,2,4, or none, got {text!r}")
    return found


def sites(
    files: list[str],
    history: list[str] | None,
    each: bool,
    lat: list[float],
    lon: list[float],
    names: list[str],
    loading: dict[str, Any],
) -> list[SiteFiles]:
    """Which files and coordinates make up which site."""
    if len(lat) != len(lon):
        raise InvalidInput(f"every site needs --lat and --lon, got {len(lat)} and {len(lon)}")
    if each:
        found = _each(files, history, lat, lon, loading)
    else:
        past: Wind | None = history or None
        points = [{"lat": y, "lon": x} for y, x in zip(lat, lon, strict=True)] or [{}]
        found = [SiteFiles(files, past, None, loading | point) for point in points]
    if names and len(names) != len(found):
        raise InvalidInput(f"{len(names)} names for {len(found)} sites; give one --name for each")
    return [replace(site, name=name) for site, name in zip(found, names, strict=True)] if names else found


def _each(
    files: list[str], history: list[str] | None, lat: list[float], lon: list[float], loading: dict[str, Any]
) -> list[SiteFiles]:
    """Every file is a site; histories and coordinates go with them in order."""
    paths = [[str(path)] for path in expand(files)]
    pasts: list[list[str] | None] = [None] * len(paths) if not history else [[str(p)] for p in expand(history)]
    if len(pasts) != len(paths) or len(lat) not in (0, len(paths)):
        raise InvalidInput(
            f"with --each, histories and coordinates go one to one with the files: {len(paths)} files, "
            f"{len(pasts)} histories, {len(lat)} coordinates"
        )
    points: list[dict[str, float]] = [{"lat": y, "lon": x} for y, x in zip(lat, lon, strict=True)]
    points = points or [{} for _ in paths]
    names = [Path(path[0]).name.split(".")[0] for path in paths]
    return [
        SiteFiles(path, past, name, loading | point)
        for path, past, name, point in zip(paths, pasts, names, points, strict=True)
    ]
