"""Machines by name: a power curve, where it comes from, and which wind its speeds are.

A power curve says little without the height of its wind. Two meanings occur:

- **local**: the wind at the altitude flown. A controller of altitude needs this one.
- **reference**: the wind at a fixed height, while the machine chooses the altitude of its cycle by itself. Such a curve
  is led to the local wind with the altitude of the cycle and the wind profile that its source computed with.

What a metre of altitude costs is stated where a source states it; none of the sources at hand does, so it is the
paper's formula with the rated speed of the machine, as printed or as physics has it (`Machine.movement_words`).
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from holdcourse.errors import InvalidInput
from holdcourse.wind.files.awesio import power_curves, read_awesio
from holdcourse.wind.files.power_table import UnitWarning, read_curve, reference_height
from holdcourse.wind.files.wtg import read_wtg
from holdcourse.wind.physics import C3, PowerCurve, movement_cost, paper_curve, table_curve

Meaning: TypeAlias = Literal["local", "reference"]

FULL = 0.9  # of its largest power: a table that ends with more may end too early
PAPER = "Joshi, Schmehl, Kruijff, Wind Energ. Sci. 9, 2195 (2024), https://doi.org/10.5194/wes-9-2195-2024"


@dataclass(frozen=True, eq=False)
class Machine:
    """An airborne machine: its power curve, and what is known about it.

    Attributes
    ----------
    curve
        Power curve for the wind at the altitude flown, or a family of curves over altitudes.
    meaning
        Meaning of the speeds in the source: the wind at the altitude flown, or at a reference height.
    reference_height
        Height of the wind in the source, metres above ground; None if it is the altitude flown or is not stated.
    conversion
        How the wind of the source was converted to the wind at the altitude flown, in words.
    movement
        Cost of a metre of altitude according to the source, kWh; None if it does not state it.
    """

    name: str
    title: str
    curve: PowerCurve
    source: str
    licence: str
    meaning: Meaning = "local"
    reference_height: float | None = None
    conversion: str = ""
    movement: float | None = None
    notes: tuple[str, ...] = ()

    def movement_cost(self, kind: Literal["paper", "physical"] = "physical") -> float:
        """Return the cost of a metre of altitude, kWh: according to the source, or else to the formula."""
        return self.movement if self.movement is not None else movement_cost(kind, self.curve.rated_speed)

    @property
    def movement_words(self) -> str:
        """Cost of a metre of altitude, with the numbers behind it, in words."""
        if self.movement is not None:
            return f"{self.movement:g} kWh per metre, as its source says"
        rated = self.curve.rated_speed
        printed, physical = movement_cost("paper", rated), movement_cost("physical", rated)
        return (
            f"{printed:.3g} kWh per metre by the paper's formula as printed, {C3:g} x ({rated:g} m/s)^2 / 60; "
            f"{physical:.3g} kWh if its rate is meant per second (/ 3600). Its {C3:g} is for a machine of about 100 kW"
        )

    @property
    def wind_words(self) -> str:
        """Wind to which the curve refers, in words."""
        if self.conversion:
            return self.conversion
        if self.reference_height is not None:
            return f"wind at {self.reference_height:g} m, used as the wind at the altitude flown"
        return "wind at the altitude flown"

    def as_values(self) -> dict[str, Any]:
        """Return everything in JSON values."""
        curve = self.curve
        speeds = curve.knots
        powers = curve.tables(speeds).round(4).tolist()
        return {
            "name": self.name,
            "title": self.title,
            "largest_power_kw": curve.largest_power,
            "rated_speed_m_s": float(curve.rated_speed),
            "meaning": self.meaning,
            "reference_height_m": self.reference_height,
            "wind": self.wind_words,
            "movement_kwh_per_m": {kind: self.movement_cost(kind) for kind in ("paper", "physical")},
            "movement": self.movement_words,
            "source": self.source,
            "licence": self.licence,
            "notes": list(self.notes),
            "altitudes_m": None if curve.altitudes is None else curve.altitudes.tolist(),
            "speeds_m_s": speeds.tolist(),
            "power_kw": powers[0] if curve.altitudes is None else powers,
        }


def machine(name: str | Path) -> Machine:
    """Return a machine by its name, or from a file: CSV, awesIO (`.yml`) or WAsP (`.wtg`).

    A CSV holds speeds and powers, or a family: speeds, and a column of powers for each altitude (``100 m, 200 m``).

    >>> machine("skysails").curve.power([8.0, 12.0, 18.0]).round(1).tolist()
    [29.3, 95.8, 121.4]
    """
    known = _MACHINES.get(str(name).strip().lower())
    if known is not None:
        return known()
    path = Path(name)
    if not path.exists():
        raise InvalidInput(
            f"no machine is called {str(name)!r}, and there is no such file; choose one of {', '.join(_MACHINES)}, or "
            "give a file: .csv, .yml (awesIO) or .wtg"
        )
    return _from_file(path)


def machine_names() -> list[str]:
    """Return the names of the machines that come with holdcourse."""
    return list(_MACHINES)


def _from_file(path: Path) -> Machine:
    ending = path.suffix.lower()
    if ending in (".yml", ".yaml"):
        found = power_curves(read_awesio(path))
        cut_out = found.cut_out
        curve = replace(found.local_curve(), name=f"{found.name} ({path.name})")
        notes = [] if cut_out is None else [f"{path.name} states a cut-out of {cut_out:g} m/s at its reference height"]
        failed = int(np.isnan(found.power).sum())
        if failed:
            notes.append(f"{failed} of its {found.power.size} calculations failed among others and were bridged")
        return Machine(
            path.stem,
            found.name,
            curve,
            f"awesIO file {path.name}",
            "as the file's",
            "reference",
            found.reference_height,
            found.meaning,
            notes=tuple(notes),
        )
    if ending == ".wtg":
        curve, said = read_wtg(path)
        words = "wind at hub height, used as the wind at the altitude flown"
        return Machine(
            path.stem,
            curve.name,
            curve,
            f"WAsP file {path.name}",
            "as the file's",
            "reference",
            None,
            words,
            None,
            tuple(said),
        )
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UnitWarning)
        curve = read_curve(path)
    said = [str(warning.message) for warning in raised]
    end = curve.tables(curve.knots[curve.knots <= curve.cut_out])[:, -1].max()
    if end >= FULL * curve.largest_power:
        said.append(
            f"the table ends at {curve.cut_out:g} m/s with {end:g} kW; above that, no power is assumed. If the "
            "machine makes power in more wind, give its cut-out speed with cut_out="
        )
    height = reference_height(path)
    meaning: Meaning = "local" if height is None else "reference"
    return Machine(path.stem, curve.name, curve, path.name, "as the file's", meaning, height, notes=tuple(said))


# -- the machines that come with holdcourse ---------------------------------------------------------------------------


def _columns(file: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The numbers of a table in this package, a row for each column."""
    text = (files("holdcourse.wind") / "data" / file).read_text(encoding="utf-8")
    return np.array([[float(cell) for cell in row] for row in list(csv.reader(text.splitlines()))[1:]]).T


def _textbook() -> Machine:
    return Machine(
        "textbook",
        "the paper's textbook turbine",
        paper_curve(),
        "the paper's section 5: 0.0579 min(V, 12)^3 - 0.09 V^2",
        "a formula",
        notes=("no machine was built like this; its power falls above the rated speed",),
    )


def _skysails() -> Machine:
    speed, power = _columns("machine_skysails.csv")
    return Machine(
        "skysails",
        "SkySails kite, measured",
        table_curve(speed, power, name="SkySails, measured"),
        f"plotted in {PAPER}; read off the figure file of AWE-Power",
        "MIT (AWE-Power); cite the paper",
        "reference",
        200.0,
        notes=("no power below 5.5 m/s; above 15.4 m/s the last value is assumed up to 20 m/s, which nobody measured",),
    )


def _awe_power() -> Machine:
    shear, height = 0.143, 100.0  # windShearExp and h_ref of the example of AWE-Power
    speed, power, altitude = _columns("machine_awe_power_150.csv")
    altitude[altitude == 0] = altitude[altitude > 0].min()  # where it makes nothing it does not fly
    local = speed * (altitude / height) ** shear
    return Machine(
        "awe-power-150",
        "fixed wing, 150 kW, computed",
        table_curve(local, power, name="AWE-Power, 150 kW, computed"),
        f"example output of AWE-Power, https://github.com/awegroup/AWE-Power; {PAPER}",
        "MIT (AWE-Power); cite the paper",
        "reference",
        height,
        f"wind at {height:g} m, converted to the mean altitude of the cycle ({altitude.min():.0f} to "
        f"{altitude.max():.0f} m) "
        f"with the shear exponent {shear:g} that it was computed with",
        notes=("net electrical power over a whole cycle, by a steady model; not measured",),
    )


def _v3() -> Machine:
    speed, power = _columns("machine_v3.csv")
    return Machine(
        "v3",
        "TU Delft V3 kite, 19.75 m2, computed",
        table_curve(speed, power, name="TU Delft V3, computed"),
        "awesIO power curves by AWESPA, https://github.com/awegroup; mean over 8 wind profiles",
        "MIT (Airborne Wind Energy Research Group)",
        "reference",
        200.0,
        notes=("the file does not say at which altitude the kite flies, nor the losses of generator and storage",),
    )


_MACHINES: dict[str, Callable[[], Machine]] = {
    "textbook": _textbook,
    "skysails": _skysails,
    "awe-power-150": _awe_power,
    "v3": _v3,
}
