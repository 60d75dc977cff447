"""Measure a large farm: what clusters make in a year of wind, and how long FLORIS and the backtest take.

    python tools/wakes_large_farms.py 10x5 --table 10x5.table

The turbines are those of La Haute Borne, on a grid of columns x rows at 6 rotor diameters, in its wind of 2014. The
table is computed if the file is not there; `--only-table` ends after that. Times are of the processor, not of the
clock. Needs the extra [wakes].
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from holdcourse.wakes.backtest import backtest
from holdcourse.wakes.bundled import bundled_farm_file, bundled_record
from holdcourse.wakes.clusters import farm_table, load_table
from holdcourse.wakes.farm import FlorisModel
from holdcourse.wakes.groups import wake_model
from holdcourse.wakes.result import HINDSIGHT, OURS, RULES, Study

APART, ROTOR = 6.0, 82.0  # diameters, and metres of one
STUDY = Study(policies=(*RULES, OURS, HINDSIGHT), hysteresis=(8.0,), rate_limits=(5.0, 2.0), front=())


def grid_model(columns: int, rows: int) -> FlorisModel:
    """Return FLORIS' model of a grid of turbines."""
    data = yaml.safe_load(bundled_farm_file().read_text(encoding="utf-8"))
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    places = {"layout_x": x, "layout_y": y}
    data["farm"] |= {name: (APART * ROTOR * each.ravel()).tolist() for name, each in places.items()}
    data["name"] = f"{columns} x {rows} turbines at {APART:g} diameters"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.yaml"
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return FlorisModel(path)


def main() -> None:
    """Print a line for each policy, and the seconds that both parts took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grid", help="columns x rows: 5x5")
    parser.add_argument("--table", type=Path, required=True, help="energy tables of the clusters")
    parser.add_argument("--only-table", action="store_true")
    asked = parser.parse_args()
    columns, rows = (int(part) for part in asked.grid.split("x"))
    model = wake_model(grid_model(columns, rows))
    if not asked.table.exists():
        began = time.process_time()
        farm_table(model).save(asked.table)
        print(f"FLORIS' tables: {time.process_time() - began:.0f} s", flush=True)
    table = load_table(asked.table)
    print(table)
    if asked.only_table:
        return
    began = time.process_time()
    found = backtest(table, bundled_record(), STUDY, model=model)
    print(f"backtest: {time.process_time() - began:.0f} s")
    for line in found.lines:
        print(
            f"{line.label}: energy {line.gain:+.2f} % ({line.gain_low:+.2f} to {line.gain_high:+.2f}), net of wear "
            f"{line.net:+.2f} % ({line.net_low:+.2f} to {line.net_high:+.2f}), {line.travel:,.0f} degrees a year"
        )


if __name__ == "__main__":
    main()
