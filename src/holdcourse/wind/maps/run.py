"""A map: blocks of a grid are computed by workers, saved when they are done, and joined at the end.

A saved block is never computed again: an interrupted map continues with the missing blocks. If a worker dies, another
worker takes its block.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import check_writable, pack, read_file, unpack, write_file, writing
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, counted
from holdcourse.wind.files.data import WindData, interpolate
from holdcourse.wind.files.grid import need
from holdcourse.wind.machines import machine, machine_names
from holdcourse.wind.maps.blocks import Lattice, altitudes_of, lattice, paths_of, winds
from holdcourse.wind.maps.worth import SHORTEST_STRETCH, Worth, worth_of
from holdcourse.wind.physics import PowerCurve, WindWorld, movement_cost, wind_world

Array: TypeAlias = NDArray[np.float64]
Format: TypeAlias = Literal["netcdf", "zarr"]
Workers: TypeAlias = Callable[[], Executor]

FIGURES = {
    "best_altitude": ("m", "fixed altitude that makes most energy"),
    "fixed_energy": ("kWh", "energy of a year at a fixed altitude chosen on other parts of the record"),
    "gain": ("percent", "net energy of altitude control above the fixed altitude"),
    "gain_p90": ("percent", "gain that a year to come exceeds with a probability of 90 percent"),
    "moves_per_day": ("1/day", "moves of the wind planner"),
    "coverage": ("1", "share of the hours of the record that were flown"),
}
LEAST_COVERAGE = 0.5  # of a point's hours; with fewer it is left blank
WHOLE = 0.95  # of the hours: with fewer flown, people are told
MOST_DEATHS = 3  # of workers at one block, until it is taken to be the block's fault
WAITING = 256  # blocks handed out at a time where the workers are many
MAX_GAP = 3.0  # hours that are bridged


@dataclass(frozen=True)
class MapPlan:
    """Plan of a map: what is flown at every point.

    Attributes
    ----------
    machine
        Machine, by its name or file.
    low, high, count
        Lowest and highest altitude, m, and number of altitudes.
    movement
        Cost of a metre of altitude: "physical", "paper", or a price such as "20 Wh/m".
    surface_height
        Height of the ground above sea level in metres, for wind on pressure levels without a file of the ground; 0 at
        sea.
    """

    machine: str = "textbook"
    low: float = 50.0
    high: float = 500.0
    count: int = 12
    movement: str | float = "physical"
    surface_height: float | None = None

    @property
    def altitudes(self) -> Array:
        """Metres above ground, (count,)."""
        return altitudes_of(self.low, self.high, self.count)


@dataclass(frozen=True, eq=False)
class WindMap:
    """A map: the figures of `Worth` by name, (rows, columns), and the reasons for blank points."""

    lattice: Lattice
    plan: MapPlan
    figures: dict[str, Array]
    blank: dict[str, int]  # reasons, and of how many points
    found: int  # blocks that were there before
    folder: Path

    def dataset(self) -> Any:
        """Return the map as an `xarray.Dataset`."""
        xarray = need("xarray", "writing a map")
        values = {
            name: (("latitude", "longitude"), array, {"units": FIGURES[name][0], "long_name": FIGURES[name][1]})
            for name, array in self.figures.items()
        }
        degrees = {
            "latitude": ("latitude", self.lattice.latitudes, {"units": "degrees_north"}),
            "longitude": ("longitude", self.lattice.longitudes, {"units": "degrees_east"}),
        }
        begin, end = self.lattice.period
        said = {
            "title": "where altitude control pays",
            "source": self.lattice.source,
            "period": f"{begin}Z to {end}Z",
            "machine": self.plan.machine,
            "movement": str(self.plan.movement),
            "altitudes_m": ", ".join(f"{x:g}" for x in self.plan.altitudes.round(1)),
        }
        return xarray.Dataset(values, degrees, said)

    @property
    def words(self) -> list[str]:
        """What the map shows, in sentences."""
        gain, sure, best = (self.figures[name] for name in ("gain", "gain_p90", "best_altitude"))
        points, told = gain.size, int(np.isfinite(gain).sum())
        begin, end = (moment[:10] for moment in self.lattice.period)
        flown = machine(self.plan.machine)
        price = movement_cost(self.plan.movement, flown.curve.rated_speed)
        found = [
            f"The map has {counted(points, 'point')}, with wind from {begin} to {end}. The machine is {flown.title}; a "
            f"metre of altitude costs {price:.3g} kWh."
        ]
        if np.isfinite(best).any():
            low, high = (float(np.nanquantile(best, share)) for share in (0.1, 0.9))
            between = f"lies between {low:.0f} and {high:.0f} m" if round(low) < round(high) else f"is {high:.0f} m"
            found.append(f"At four fifths of the points the best fixed altitude {between}.")
        if told:
            place = np.unravel_index(int(np.nanargmax(gain)), gain.shape)
            north, east = self.lattice.latitudes[place[0]], self.lattice.longitudes[place[1]]
            found.append(
                f"Altitude control gains {np.nanmedian(gain):+.1f} % at the median point. It gains most at latitude "
                f"{north:g}, longitude {east:g}: {np.nanmax(gain):+.1f} %. At {int((sure > 0).sum()):,} of {told:,} "
                "points a year gains something with a probability of 90 % or more."
            )
        covered = self.figures["coverage"][np.isfinite(self.figures["coverage"])]
        if told and np.median(covered) < WHOLE:
            found.append(
                f"The record has gaps: at the median point {100 * np.median(covered):.0f} % of its hours were flown."
            )
        if short := int(self._short.sum()):
            found.append(
                f"At {counted(short, 'point')} the record is too short to say what control gains: give eleven days of "
                "wind or more."
            )
        if calm := int((np.isfinite(self.figures["fixed_energy"]) & ~np.isfinite(gain)).sum()):
            found.append(
                f"At {counted(calm, 'point')} the machine makes no energy at a fixed altitude, so that a gain has "
                "nothing to be compared with."
            )
        found += [f"{counted(count, 'point is', 'points are')} blank: {why}." for why, count in self.blank.items()]
        return found

    @property
    def _short(self) -> NDArray[np.bool_]:
        """Where the record is too short to say more than the best altitude."""
        return np.isfinite(self.figures["best_altitude"]) & ~np.isfinite(self.figures["fixed_energy"])


def fly_block(
    paths: Sequence[str], latitudes: Array, longitudes: Array, plan: dict[str, Any]
) -> tuple[dict[str, Array], list[str]]:
    """Work out a block: figures by name, (rows, columns), and why a point was left blank, one entry each.

    What a worker does, perhaps on another machine: arguments and result are plain values.
    """
    flown = MapPlan(**plan)
    kite = machine(flown.machine)
    shape = (len(latitudes), len(longitudes))
    figures = {part.name: np.full(shape, np.nan) for part in fields(Worth)}
    blank = []
    for i, j, wind in winds(paths, latitudes, longitudes, flown.surface_height):
        try:
            if isinstance(wind, HoldcourseError):
                raise wind
            found = _worth(wind, kite.curve, flown)
        except HoldcourseError as error:  # of this point; the others have their wind
            blank.append(str(error))
            continue
        for name, value in asdict(found).items():
            figures[name][i, j] = value
    return figures, blank


def _worth(wind: WindData, curve: Any, plan: MapPlan) -> Worth:
    heights = np.broadcast_to(wind.heights, wind.speed.shape) if wind.level_heights is None else wind.level_heights
    speed = interpolate(np.log(plan.altitudes), heights, wind.speed, clamp=False)
    there = np.isfinite(speed).all(axis=1)
    if there.mean() < LEAST_COVERAGE:
        raise InvalidInput(f"less than half of the hours have wind from {plan.low:g} to {plan.high:g} m above ground")
    data = WindData(wind.time[there], plan.altitudes, speed[there])
    parts = [
        part for part in data.segments(MAX_GAP) if len(part) * data.step >= min(SHORTEST_STRETCH, len(data) * data.step)
    ]
    if not parts:
        raise InvalidInput(f"no stretch of {SHORTEST_STRETCH:g} hours without a gap")
    time, table = np.concatenate([part.time for part in parts]), np.concatenate([part.speed for part in parts])
    world: WindWorld = wind_world(time, plan.altitudes, table, curve=curve, movement=plan.movement)
    return worth_of(world)


def wind_map(
    paths: Sequence[str],
    plan: MapPlan,
    out: str | Path,
    *,
    executors: Sequence[Workers] = (),
    at_once: int = 1,
    side: int | None = None,
    fresh: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> WindMap:
    """Compute a map, block by block, in a folder; finished blocks are not computed again.

    Parameters
    ----------
    paths
        Files of wind on a grid (ERA5 on pressure or model levels) and of the ground.
    executors
        Functions that each start an executor. An executor is started again if one of its workers dies. Default: this
        process.
    at_once
        Number of blocks that each executor gets at a time.
    side
        Number of points of a block along each axis; default: as many as need `BLOCK_BYTES` of wind.
    fresh
        Whether to remove the results in the folder first.
    progress
        Function that is called with the number of blocks done and the total.
    """
    folder = Path(out)
    check_writable(folder)
    files = paths_of(paths)
    curve = machine(plan.machine).curve  # a misspelt name is told now, and a price or altitudes that make no sense
    movement_cost(plan.movement, curve.rated_speed)
    if Path(plan.machine).is_file() and plan.machine not in machine_names():
        plan = replace(plan, machine=str(Path(plan.machine).resolve()))  # a worker may stand in another folder
    altitudes_of(plan.low, plan.high, plan.count)
    grid = lattice(list(files), side)
    with writing(folder):
        blocks = _Blocks(folder, grid, plan, files, curve, fresh=fresh)
        waiting = [k for k in range(len(grid.blocks)) if not blocks.has(k)]
        found = len(grid.blocks) - len(waiting)
        progress(found, len(grid.blocks))
        done = found
        for number, result in _worked(waiting, blocks.task, executors, at_once):
            blocks.save(number, *result)
            done += 1
            progress(done, len(grid.blocks))
        figures, blank = blocks.together()
    return WindMap(grid, plan, figures, blank, found, folder)


def _worked(waiting: Sequence[int], task: Any, executors: Sequence[Workers], at_once: int) -> Any:
    """Number and result of every block, in the order in which they are done."""
    if not executors:
        for number in waiting:
            yield number, fly_block(*task(number))
        return
    left, deaths = deque(waiting), dict.fromkeys(waiting, 0)
    lanes = [start() for start in executors]
    running: dict[Future[Any], tuple[int, int]] = {}  # lane and block

    def lose(lane: int, number: int, error: Exception) -> None:
        """A worker died at a block: somebody else takes it.

        A lane that is broken begins again once nothing of it runs. A cluster is not: it has other workers, and is the
        same for all lanes.
        """
        deaths[number] += 1
        if deaths[number] >= MOST_DEATHS:
            raise HoldcourseError(
                f"block {number} has lost {MOST_DEATHS} workers (out of memory, or killed). Finished blocks are saved; "
                "run the same command again to continue, with a smaller side= if memory is short"
            )
        left.appendleft(number)
        if isinstance(error, BrokenExecutor) and not any(other == lane for other, _ in running.values()):
            lanes[lane].shutdown(wait=False)
            lanes[lane] = executors[lane]()

    try:
        while left or running:
            for lane in range(len(lanes)):
                while left and sum(1 for other, _ in running.values() if other == lane) < at_once:
                    number = left.popleft()
                    try:
                        running[lanes[lane].submit(fly_block, *task(number))] = lane, number
                    except BrokenExecutor as error:  # it died while it had nothing to do
                        lose(lane, number, error)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                lane, number = running.pop(future)
                try:
                    yield number, future.result()
                except Exception as error:
                    if not _died(error):
                        raise
                    lose(lane, number, error)
    finally:
        for future in running:
            future.cancel()
        for executor in lanes:
            executor.shutdown(wait=not running)


def _died(error: Exception) -> bool:
    """Whether a worker was lost, and not an error of the work; Dask's own kind is not known where it is missing."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"


def _digest(curve: PowerCurve) -> str:
    """A hash that is equal for curves of the same power."""
    parts = asdict(curve)
    del parts["name"]
    return hashlib.sha256(repr(_plain(parts)).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Arrays as lists, however deep, so that none is shortened when it is written."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


class _Blocks:
    """The folder: what the map is of, and one file for each block that is done."""

    def __init__(
        self, folder: Path, grid: Lattice, plan: MapPlan, files: Sequence[str], curve: PowerCurve, *, fresh: bool
    ) -> None:
        self.folder, self.grid, self._plan, self._files = folder / "blocks", grid, plan, files
        of = {
            "plan": asdict(plan),
            "curve": _digest(curve),  # a machine's file may hold another one tomorrow
            "files": [[Path(file).name, os.stat(file).st_size, int(os.stat(file).st_mtime)] for file in files],
            "side": grid.side,
            "latitudes": grid.latitudes.tolist(),
            "longitudes": grid.longitudes.tolist(),
        }
        described = json.dumps(of, sort_keys=True, indent=1).encode()
        self._identity = hashlib.sha256(described).hexdigest()[:16]
        self.folder.mkdir(exist_ok=True)
        plan_file = folder / "plan.json"
        if fresh:
            for file in sorted(self.folder.glob("*.block")):
                file.unlink()
        elif plan_file.exists() and plan_file.read_bytes() != described:
            raise InvalidInput(
                f"{folder} contains a map of other files or options; choose another folder=, or give fresh=True to "
                "start over"
            )
        write_file(plan_file, described)

    def task(self, number: int) -> tuple[Any, ...]:
        """Arguments of `fly_block`."""
        rows, columns = self.grid.blocks[number]
        return self._files, self.grid.latitudes[rows], self.grid.longitudes[columns], asdict(self._plan)

    def has(self, number: int) -> bool:
        """Whether a block is done, and sound."""
        path = self._path(number)
        return path.exists() and self._read(path) is not None

    def save(self, number: int, figures: dict[str, Array], blank: list[str]) -> None:
        """Keep a block."""
        state = {"holds": "block of a wind map", "map": self._identity, "blank": blank}
        write_file(self._path(number), pack(state, figures))

    def together(self) -> tuple[dict[str, Array], dict[str, int]]:
        """All figures, and why points are blank, most frequent first."""
        shape = (len(self.grid.latitudes), len(self.grid.longitudes))
        figures = {name: np.full(shape, np.nan) for name in FIGURES}
        reasons: dict[str, list[str]] = {}  # by their words without numbers, which differ from point to point
        for number, (rows, columns) in enumerate(self.grid.blocks):
            found = self._read(self._path(number))
            assert found is not None
            for name, array in figures.items():
                array[rows, columns] = found[1][name]
            for why in found[0]:
                reasons.setdefault(re.sub(r"\d+(\.\d+)?", "#", why), []).append(why)
        blank = {
            (alike[0] if len(set(alike)) == 1 else f"for example, {alike[0]}"): len(alike) for alike in reasons.values()
        }
        return figures, dict(sorted(blank.items(), key=lambda pair: -pair[1]))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05d}.block"

    def _read(self, path: Path) -> tuple[list[str], dict[str, Array]] | None:
        try:
            state, arrays = unpack(read_file(path), str(path))
        except DamagedFile:  # cut short by a full disk: it is worked out again
            return None
        return (state["blank"], arrays) if state.get("map") == self._identity else None


def check_extras(form: Format = "netcdf") -> None:
    """Raise where writing or drawing a map would fail for want of a library, hours after it was begun."""
    need("xarray", "writing a map")
    _need_for(form)
    need("matplotlib", "the picture of a map", "plot")


def _need_for(form: Format) -> None:
    if form == "zarr":
        need("zarr", "writing Zarr", "zarr")
    else:
        need("h5netcdf", "writing NetCDF")


def write_map(found: WindMap, form: Format = "netcdf") -> Path:
    """Write the map next to its blocks, as `map.nc` or `map.zarr`, and return the path."""
    data = found.dataset()
    _need_for(form)
    if form == "zarr":
        path = found.folder / "map.zarr"
        data.to_zarr(path, mode="w", zarr_format=2)  # which every reader knows
        return path
    path = found.folder / "map.nc"
    data.to_netcdf(path, engine="h5netcdf")
    return path


def side_by_side(longitudes: Array) -> tuple[Array, NDArray[np.int64]]:
    """Longitudes as neighbours on the ground, rising, and the columns that they are of.

    Files count from 0 to 360 or from -180 to 180: a region across one of these ends would be drawn in two parts.
    """
    ways = (longitudes % 360.0, (longitudes + 180.0) % 360.0 - 180.0)
    kept = min((longitudes, *ways), key=lambda east: round(float(np.ptp(east)), 6))  # of equals as they were written
    columns = np.argsort(kept, kind="stable")
    return kept[columns], columns


def draw_map(found: WindMap) -> Path:
    """Draw the map as `map.png`, and return the path. Needs the extra [plot]."""
    matplotlib = need("matplotlib", "the picture of a map", "plot")
    from matplotlib.figure import Figure

    from holdcourse.backtest.pictures import STYLE

    north = found.lattice.latitudes
    east, columns = side_by_side(found.lattice.longitudes)
    panels = (
        ("best_altitude", "best fixed altitude", "m", "viridis"),
        ("gain", "gain of altitude control", "%", "RdBu"),
        ("gain_p90", "P90 of the gain: 9 of 10 years gain more", "%", "RdBu"),
        ("moves_per_day", "moves a day", "", "magma"),
    )
    wide = np.ptp(east) * math.cos(math.radians(float(north.mean()))) >= np.ptp(north)
    size = (13.0, 9.0) if wide else (11.0, 12.0)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        for axes, (name, title, unit, colours) in zip(figure.subplots(2, 2).flat, panels, strict=True):
            values = found.figures[name][:, columns]
            axes.set_title(title)
            axes.set_aspect(1 / max(math.cos(math.radians(float(north.mean()))), 0.1))
            if not np.isfinite(values).any():
                why = "the record is too short to tell" if found._short.any() else "there is nothing to show"
                axes.text(0.5, 0.5, why, ha="center", transform=axes.transAxes)
                axes.set(xticks=[], yticks=[])
                continue
            limit = float(np.nanmax(np.abs(values)))
            span = {"vmin": -limit, "vmax": limit} if colours == "RdBu" and limit > 0 else {}
            shown = axes.pcolormesh(east, north, values, cmap=colours, shading="nearest", **span)
            figure.colorbar(shown, ax=axes, label=unit, shrink=0.85)
        for axes in figure.axes[:4]:
            axes.set_xlabel("longitude, degrees east")
            axes.set_ylabel("latitude, degrees north")
        begin, end = (moment[:10] for moment in found.lattice.period)
        figure.suptitle(f"{found.plan.machine}, {begin} to {end}", x=0.01, ha="left")
        path = found.folder / "map.png"
        figure.savefig(path, dpi=140, bbox_inches="tight")
    return path
