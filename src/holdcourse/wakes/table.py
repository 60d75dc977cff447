"""What every vector of yaw offsets makes in every wind: FLORIS' answers, remembered.

An `EnergyTable` is a grid of wind directions (the whole circle, evenly spaced) and wind speeds with the farm's power
for each of N offset vectors. The first `n` of them are the settings that a policy may choose from; the others are what
rules such as a hysteresis also pass through, known only where the wind of a record took them. Between the points of
the grid power is interpolated, in direction and in speed; below the lowest speed it is 0, and above the highest one
that of the highest.
"""

from __future__ import annotations

import base64
import gzip
import json
import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import read_file, write_file
from holdcourse.errors import DamagedFile, InvalidInput, MissingExtra
from holdcourse.wakes.farm import INSTALL, Farm, WakeModel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

Table = TypeVar("Table")

FORMAT = "holdcourse energy table 1"
UNKNOWN, STEPS = 0, 60_000  # how a share of power is written: 0 is unknown, 1 + share x STEPS otherwise


class Places(NamedTuple):
    """Where winds lie on the grid: the bins below and above them, and how far towards the upper one."""

    low: Indices
    high: Indices
    share: Array
    slow: Indices
    fast: Indices
    rise: Array
    calm: NDArray[np.bool_]  # slower than the slowest wind of the grid

    def corners(self) -> list[tuple[Indices, Indices, Array]]:
        """Return the four corners of each wind's cell, with their weights."""
        return [
            (self.low, self.slow, (1 - self.share) * (1 - self.rise)),
            (self.low, self.fast, (1 - self.share) * self.rise),
            (self.high, self.slow, self.share * (1 - self.rise)),
            (self.high, self.fast, self.share * self.rise),
        ]


@dataclass(frozen=True, eq=False)
class EnergyTable:
    """The farm's power by direction, speed and offset vector.

    Parameters
    ----------
    farm
        Layout of the farm.
    directions, speeds
        Directions in degrees, evenly over the circle, (D,); wind speeds in m/s, ascending, (S,).
    offsets
        Offset vectors: degrees of each turbine, (N, m); the first vector is no steering.
    power
        Power of the farm, kW, (D, S, N); NaN if it was never computed.
    lookup
        Index of the best vector at each direction and speed, (D, S).
    n
        Number of vectors, counted from the first, that are settings to choose from.
    words
        How the settings were chosen, in words.
    turbulence
        Ambient turbulence intensity.
    most, step
        Largest offset and step of offsets, degrees, as they were requested; None if unknown.
    computed_by
        Digest of the wake model that computed the table, `FlorisModel.digest`; None if unknown.
    """

    farm: Farm
    directions: Array
    speeds: Array
    offsets: Array
    power: Array
    lookup: Indices
    n: int
    words: str = ""
    turbulence: float = 0.06
    most: float | None = None
    step: float | None = None
    computed_by: str | None = None

    def __post_init__(self) -> None:
        d, s, n = self.power.shape
        if (d, s) != (len(self.directions), len(self.speeds)) or n != len(self.offsets):
            raise InvalidInput(
                f"power has shape {self.power.shape} for {len(self.directions)} directions, {len(self.speeds)} speeds "
                f"and {len(self.offsets)} offset vectors"
            )
        if self.offsets[0].any():
            raise InvalidInput("the first offset vector must be no steering, all zeros")

    @property
    def settings(self) -> Array:
        """Offset vectors to choose from, degrees, (n, m)."""
        return self.offsets[: self.n]

    @property
    def planned(self) -> Array:
        """Power of the settings, kW, (D, S, n)."""
        return self.power[:, :, : self.n]

    def places(self, direction: ArrayLike, speed: ArrayLike) -> Places:
        """Find winds, (k,) and (k,), on the grid."""
        d, u = np.asarray(direction, dtype=np.float64), np.asarray(speed, dtype=np.float64)
        steps = (d % 360.0) / (360.0 / len(self.directions))
        low = np.floor(steps).astype(np.int64)
        slow = np.clip(np.searchsorted(self.speeds, u, side="right") - 1, 0, len(self.speeds) - 2)
        rise = np.clip((u - self.speeds[slow]) / (self.speeds[slow + 1] - self.speeds[slow]), 0.0, 1.0)
        bins = len(self.directions)
        return Places(low % bins, (low + 1) % bins, steps - low, slow, slow + 1, rise, u < self.speeds[0])

    def power_at(self, direction: ArrayLike, speed: ArrayLike, vectors: ArrayLike | None = None) -> Array:
        """Return the power in k winds, kW: of all settings, (k, n), or of one vector (index) for each, (k,)."""
        places = self.places(direction, speed)
        if vectors is None:
            found = sum(weight[:, None] * self.planned[d, s] for d, s, weight in places.corners())
            return np.where(places.calm[:, None], 0.0, found)
        which = np.asarray(vectors, dtype=np.int64)
        # A corner of weight 0 may be unknown: it does not count.
        made = [np.where(weight > 0, self.power[d, s, which], 0.0) * weight for d, s, weight in places.corners()]
        return np.where(places.calm, 0.0, np.sum(made, axis=0))

    def vector_of(self, offsets: ArrayLike) -> Indices:
        """Return the index of each of k offset vectors, (k, m); -1 if the table does not have it."""
        known = {tuple(row): k for k, row in enumerate(self.offsets.round(3).tolist())}
        given = np.asarray(offsets, dtype=np.float64).round(3) + 0.0
        return np.array([known.get(tuple(row), -1) for row in given.tolist()], dtype=np.int64)

    def knowing(
        self, direction: ArrayLike, speed: ArrayLike, offsets: ArrayLike, model: WakeModel | None
    ) -> tuple[EnergyTable, Indices]:
        """Return a table with these offset vectors, (k, m), in the winds in which they were held, and their indices.

        The model computes what is missing, at the corners of the grid around each wind.
        """
        given = np.asarray(offsets, dtype=np.float64).round(3) + 0.0
        distinct, inverse = np.unique(given, axis=0, return_inverse=True)
        inverse = np.ravel(inverse)
        places = self.vector_of(distinct)
        new = np.flatnonzero(places < 0)
        places[new] = len(self.offsets) + np.arange(len(new))
        vectors = places[inverse]
        blank = np.full((len(self.directions), len(self.speeds), len(new)), np.nan)
        power = np.concatenate([self.power, blank], axis=2)
        held = np.concatenate([self.offsets, distinct[new]])
        found = self.places(direction, speed)
        needed = [np.stack([d, s, vectors], axis=1)[(weight > 0) & ~found.calm] for d, s, weight in found.corners()]
        cells = np.unique(np.concatenate(needed), axis=0)
        cells = cells[np.isnan(power[cells[:, 0], cells[:, 1], cells[:, 2]])]
        if len(cells):
            if model is None:
                raise MissingExtra(
                    f"{len(cells)} combinations of wind and offsets are not in the energy table, so FLORIS must "
                    f"compute them: {INSTALL}, and give the farm's FLORIS file"
                )
            made = model.power(self.directions[cells[:, 0]], self.speeds[cells[:, 1]], held[cells[:, 2]])
            power[cells[:, 0], cells[:, 1], cells[:, 2]] = made.sum(axis=1)
        return replace(self, offsets=held, power=power), vectors

    def to_data(self) -> dict[str, Any]:
        """Return the settings in JSON values; power is rounded to a sixty-thousandth of its largest value."""
        return self._data(self.n)

    def whole_data(self) -> dict[str, Any]:
        """Return the whole table in JSON values, including vectors that are not settings."""
        return self._data(len(self.offsets)) | {
            "most": self.most,
            "step": self.step,
            "computed_by": self.computed_by,
        }

    def _data(self, count: int) -> dict[str, Any]:
        largest, least = float(np.nanmax(self.power)), min(0.0, float(np.nanmin(self.power)))
        share = np.rint((self.power[:, :, :count] - least) / (largest - least) * STEPS)
        coded = np.where(np.isnan(share), UNKNOWN, share + 1).astype("<u2")
        return {
            "farm": self.farm.to_data(),
            "directions": len(self.directions),
            "speeds": self.speeds.tolist(),
            "offsets": self.offsets[:count].tolist(),
            "lookup": _packed(self.lookup.astype("<u2")),
            "largest": largest,
            # A cluster in weak wind can take more from others than it makes.
            **({"least": least} if least < 0 else {}),
            "power": _packed(coded),
            "n": self.n,
            "words": self.words,
            "turbulence": self.turbulence,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EnergyTable:
        """Read what `to_data` gave."""
        directions = np.arange(int(data["directions"])) * 360.0 / int(data["directions"])
        speeds, offsets = (np.array(data[key], dtype=np.float64) for key in ("speeds", "offsets"))
        shape = (len(directions), len(speeds), len(offsets))
        coded = _unpacked(data["power"], shape)
        largest, least = float(data["largest"]), float(data.get("least", 0.0))
        power = np.where(coded == UNKNOWN, np.nan, (coded - 1.0) * (largest - least) / STEPS + least)
        lookup = _unpacked(data["lookup"], shape[:2]).astype(np.int64)
        return cls(
            Farm.from_data(data["farm"]),
            directions,
            speeds,
            offsets,
            power,
            lookup,
            int(data["n"]),
            str(data["words"]),
            float(data["turbulence"]),
            data.get("most"),
            data.get("step"),
            data.get("computed_by"),
        )

    def save(self, path: str | Path) -> None:
        """Write the table to a file, so that FLORIS need not compute it again; `load` reads it."""
        content = gzip.compress(json.dumps({"format": FORMAT, **self.whole_data()}).encode(), mtime=0)
        write_file(Path(path), content)

    @classmethod
    def load(cls, path: str | Path) -> EnergyTable:
        """Read what `save` wrote."""
        return read_table(path, {FORMAT: cls.from_data})

    def __repr__(self) -> str:
        return (
            f"EnergyTable({self.farm.name!r}, {len(self.directions)} directions, {len(self.speeds)} speeds "
            f"{self.speeds[0]:g}..{self.speeds[-1]:g} m/s, {self.n} settings)"
        )


def read_table(path: str | Path, kinds: Mapping[str, Callable[[Mapping[str, Any]], Table]]) -> Table:
    """Read a file of tables by what reads each kind of it."""
    raw = read_file(Path(path))
    try:
        data = json.loads(gzip.decompress(raw))
        read = kinds.get(data.get("format"))
        if read is None:
            raise InvalidInput(f"{path} contains no energy table of this version; compute it again")
        return read(data)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise DamagedFile(f"{path} is damaged, or is not an energy table; compute it again") from None


def _packed(values: NDArray[Any]) -> str:
    # Neighbours in direction are alike: with that axis last, the same numbers take a third less.
    turned = np.ascontiguousarray(np.moveaxis(values, 0, -1))
    return base64.b64encode(lzma.compress(turned.tobytes(), preset=6)).decode("ascii")


def _unpacked(text: str, shape: tuple[int, ...]) -> Array:
    try:
        raw = lzma.decompress(base64.b64decode(text))
        turned = np.frombuffer(raw, dtype="<u2").reshape(*shape[1:], shape[0])
    except (ValueError, lzma.LZMAError) as error:
        raise InvalidInput(f"the energy table is damaged: {error}; compute it again") from None
    return np.moveaxis(turned, -1, 0).astype(np.float64)
