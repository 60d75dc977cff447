"""Power curves of WAsP turbine generator files (`.wtg`): XML with a table of wind speeds and powers."""

from __future__ import annotations

from pathlib import Path

# Of the standard library: no entities from elsewhere are fetched, and a document type is refused below.
from xml.etree import ElementTree

from holdcourse.errors import InvalidInput, counted
from holdcourse.wind.physics import PowerCurve, table_curve

MOST_BYTES = 20_000_000


def read_wtg(
    path: str | Path, cut_in: float | None = None, cut_out: float | None = None
) -> tuple[PowerCurve, list[str]]:
    """Read the power curve of a `.wtg` file, and say what was decided.

    Of several performance tables, which are for several air densities, the one nearest to 1.225 kg/m3 is taken. Speeds
    are in m/s and powers in W, as the format has them.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}; check the path") from None
    if len(raw) > MOST_BYTES or b"<!DOCTYPE" in raw[:4096] or b"<!ENTITY" in raw:
        raise InvalidInput(f"{path} is not a .wtg file: it is too large, or has a document type")
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise InvalidInput(f"{path} is not XML: {error}") from None
    tables = root.findall("PerformanceTable")
    if root.tag != "WindTurbineGenerator" or not tables:
        raise InvalidInput(
            f"{path} has no WindTurbineGenerator with a PerformanceTable; give a .wtg file, which has one"
        )
    try:
        table = min(tables, key=lambda each: abs(float(each.get("AirDensity", "1.225")) - 1.225))
        points = table.findall("./DataTable/DataPoint")
        pairs = sorted((float(point.attrib["WindSpeed"]), float(point.attrib["PowerOutput"])) for point in points)
        limits = table.find("StartStopStrategy")
        stated = {} if limits is None else {name: float(value) for name, value in limits.attrib.items()}
    except (KeyError, ValueError) as error:
        raise InvalidInput(
            f"{path}: an air density, wind speed or power is missing or not a number ({error})"
        ) from None
    if len(pairs) < 2:
        raise InvalidInput(
            f"{path}: the PerformanceTable has {counted(len(pairs), 'point')}, but a curve needs at least two"
        )
    low = stated.get("LowSpeedCutIn") if cut_in is None else cut_in
    high = stated.get("HighSpeedCutOut") if cut_out is None else cut_out
    notes = []
    density = table.get("AirDensity")
    if density is not None:
        of = f", the nearest to 1.225 of {len(tables)} tables" if len(tables) > 1 else ""
        notes.append(f"curve for an air density of {float(density):g} kg/m3{of}")
    name = root.get("Description") or path.name
    speed, power = zip(*pairs, strict=True)
    return table_curve(speed, [watts / 1000 for watts in power], low, high, name=name), notes
