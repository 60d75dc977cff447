"""Clusters of turbines against one decision for the whole farm, by FLORIS, where every joint vector can be tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.wakes.clusters import build_clusters
from holdcourse.wakes.table import EnergyTable

pytestmark = pytest.mark.slow

pytest.importorskip("floris", reason="needs the extra: pip install 'holdcourse[wakes]'")
yaml = pytest.importorskip("yaml")

SPEEDS, STEP = (6.0, 8.0, 10.0), 5.0
OFFSETS = (-20.0, 0.0, 20.0)
D = 82.0
FARMS = {
    "a row of three": ([0.0, 5 * D, 10 * D], [0.0, 0.3 * D, 0.0]),
    "a row of five": (np.arange(5) * 3.5 * D, np.arange(5) * 3.5 * D),
    "two by two": ([0.0, 5 * D, 0.0, 5 * D], [0.0, 0.0, 5 * D, 5 * D]),
}


@pytest.mark.parametrize("name", FARMS)
def test_clusters_lose_little_against_the_joint_optimum(name, tmp_path):
    """Two months, causally: net energy of clusters beside that of the plan on all 3^m joint vectors."""
    x, y = (np.asarray(each, dtype=float) for each in FARMS[name])
    data = yaml.safe_load(hc.wakes.bundled_farm_file().read_text())
    data["farm"]["layout_x"], data["farm"]["layout_y"] = x.tolist(), y.tolist()
    (tmp_path / "farm.yaml").write_text(yaml.safe_dump(data))
    model = hc.wakes.FlorisModel(tmp_path / "farm.yaml")
    vectors = np.array(list(itertools.product(OFFSETS, repeat=len(x))))
    vectors = np.concatenate([vectors[~vectors.any(axis=1)], vectors[vectors.any(axis=1)]])
    grid = (np.arange(0.0, 360.0, STEP), np.array(SPEEDS))
    d, u = (each.ravel() for each in np.meshgrid(*grid, indexing="ij"))
    made = np.stack([model.power(d, u, np.tile(vector, (len(d), 1))).sum(axis=1) for vector in vectors], axis=1)
    power = made.reshape(len(grid[0]), len(grid[1]), -1)
    joint = EnergyTable(model.farm, *grid, vectors, power, power.argmax(axis=2), len(vectors))
    study = hc.wakes.Study(policies=("wake-planner",), front=(), price=0.1, folds=2)
    record = hc.wakes.bundled_record().between(end="2014-03-01")
    best = hc.wakes.backtest(joint, record, study).line("wake-planner")
    assert best.net > 0
    for largest in (1, 2, 3):
        table = build_clusters(model, most=20.0, step=20.0, direction_step=STEP, speeds=SPEEDS, largest=largest)
        apart = hc.wakes.backtest(table, record, study, model=model).line("wake-planner")
        print(name, largest, f"net {apart.net:.3f} of {best.net:.3f} %, gain {apart.gain:.3f} of {best.gain:.3f} %")
        assert apart.net >= 0.9 * best.net
