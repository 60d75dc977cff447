"""Make the bundled data of La Haute Borne: record, FLORIS file and energy table.

    python tools/wakes_data.py la_haute_borne_2014.csv.gz turbines.csv

The first file has the columns time, wind_direction, wind_speed and power_<turbine>, the second names, latitudes and
longitudes of the turbines. Needs the extra [wakes].
"""

from __future__ import annotations

import csv
import gzip
import lzma
import sys
from pathlib import Path

import floris
import numpy as np
import yaml

from holdcourse.wakes.backtest import backtest
from holdcourse.wakes.farm import FlorisModel
from holdcourse.wakes.offsets import build_table
from holdcourse.wakes.record import WindRecord, read_record
from holdcourse.wakes.result import Study
from holdcourse.wakes.table import EnergyTable

DATA = Path(__file__).parents[1] / "src/holdcourse/wakes/data"
RATED, ROTOR, HUB = 2050.0, 82.0, 80.0
EARTH = 111_194.9  # metres of a degree of latitude
RULES = ("lookup", "hysteresis", "rate-limit")


def write_record(source: Path) -> None:
    """Write times, directions to 0.1 degrees, speeds to 0.01 m/s and the farm's power in kW."""
    lines = ["time,wind_direction,wind_speed,power"]
    with gzip.open(source, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            made = [row[name] for name in row if name.startswith("power_")]
            power = f"{sum(map(float, made)):.0f}" if all(made) else ""
            lines.append(
                f"{row['time']},{float(row['wind_direction']) % 360:.1f},{float(row['wind_speed']):.2f},{power}"
            )
    text = "\n".join(lines) + "\n"
    (DATA / "la_haute_borne_2014.csv.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def write_farm(source: Path) -> tuple[str, ...]:
    """Write FLORIS' default model with the layout, and its 5 MW turbine scaled to this one; returns the names."""
    folder = Path(floris.__file__).parent
    model = yaml.safe_load((folder / "default_inputs.yaml").read_text(encoding="utf-8"))
    turbine = yaml.safe_load((folder / "turbine_library/nrel_5MW.yaml").read_text(encoding="utf-8"))
    curve = turbine["power_thrust_table"]
    largest = max(curve["power"])
    curve["power"] = [round(power * RATED / largest, 2) for power in curve["power"]]
    turbine |= {"turbine_type": "mm82_like", "rotor_diameter": ROTOR, "hub_height": HUB}
    with source.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    latitude, longitude = (np.array([float(row[name]) for row in rows]) for name in ("Latitude", "Longitude"))
    x = (longitude - longitude.mean()) * EARTH * np.cos(np.radians(latitude.mean()))
    y = (latitude - latitude.mean()) * EARTH
    model |= {"name": "La Haute Borne", "description": "FLORIS' default model at La Haute Borne; see CREDIT.md"}
    model["farm"] = {
        "layout_x": x.round(1).tolist(),
        "layout_y": y.round(1).tolist(),
        "turbine_type": [turbine],
    }
    wind = {"wind_directions": [270.0], "wind_speeds": [8.0], "turbulence_intensities": [0.06]}
    model["flow_field"] |= wind
    (DATA / "la_haute_borne.yaml").write_text(yaml.safe_dump(model, sort_keys=False), encoding="utf-8")
    return tuple(row["Wind_turbine_name"] for row in rows)


def walked(table: EnergyTable, record: WindRecord, study: Study, model: FlorisModel, year: WindRecord) -> EnergyTable:
    """Return a table that also knows what the rules pass through; they use no drift, so any history will do."""
    return backtest(table, record, study, model=model, history=year, allow_later_history=True).table


def write_table(names: tuple[str, ...]) -> None:
    """Write the energy table with all that the rules of the default study pass through, from the first of any month."""
    model = FlorisModel(DATA / "la_haute_borne.yaml", turbines=names)
    table = build_table(model)
    record = read_record(DATA / "la_haute_borne_2014.csv.xz", power="power")
    for knowing in (False, True):
        study = Study(policies=("no-steering", *RULES), knowing=knowing)
        table = walked(table, record, study, model, record)
    study = Study(policies=("no-steering", *RULES))
    for month in range(2, 13):
        part = record.between(f"2014-{month:02}-01", f"2014-{month:02}-08")
        table = walked(table, part, study, model, record)
    table.save(DATA / "la_haute_borne.table")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write_record(Path(sys.argv[1]))
    write_table(write_farm(Path(sys.argv[2])))
