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

SPEEDS, STEP = (5.0, 7.0, 9.0, 11.0), 4.0
OFFSETS = (-20.0, 0.0, 20.0)
D = 82.0
FARMS = {
    "a row of three": ([0.0, 5 * D, 10 * D], [0.0, 0.3 * D, 0.0]),
    "a row of five": (np.arange(5) * 3.5 * D, np.arange(5) * 3.5 * D),
    "two by three": ([0.0, 5 * D, 10 * D] * 2, [0.0] * 3 + [5 * D] * 3),
}


@pytest.mark.parametrize("name", FARMS)
@pytest.mark.parametrize("largest", [1, 2, 3])
def test_clusters_lose_little_against_the_joint_optimum(name, largest, tmp_path):
    """A year causally: net energy of clusters beside that of the plan on all 3^m joint vectors."""
    x, y = (np.asarray(each, dtype=float) for each in FARMS[name])
    data = yaml.safe_load(hc.wakes.bundled_farm_file().read_text())
    data["farm"]["layout_x"], data["farm"]["layout_y"] = x.tolist(), y.tolist()
    (tmp_path / "farm.yaml").write_text(yaml.safe_dump(data))
    model = hc.wakes.FlorisModel(tmp_path / "farm.yaml")
    table = build_clusters(model, most=20.0, step=20.0, direction_step=STEP, speeds=SPEEDS, largest=largest)
    vectors = np.array(list(itertools.product(OFFSETS, repeat=len(x))))
    vectors = np.concatenate([vectors[~vectors.any(axis=1)], vectors[vectors.any(axis=1)]])
    d, u = (each.ravel() for each in np.meshgrid(table.whole.directions, np.array(SPEEDS), indexing="ij"))
    made = np.stack([model.power(d, u, np.tile(vector, (len(d), 1))).sum(axis=1) for vector in vectors], axis=1)
    power = made.reshape(len(table.whole.directions), len(SPEEDS), -1)
    joint = EnergyTable(
        model.farm, table.whole.directions, np.array(SPEEDS), vectors, power, power.argmax(axis=2), len(vectors)
    )
    study = hc.wakes.Study(policies=("wake-planner",), front=(), price=0.1)
    record = hc.wakes.bundled_record()
    apart, best = (hc.wakes.backtest(each, record, study, model=model).line("wake-planner") for each in (table, joint))
    print(name, largest, f"net {apart.net:.3f} of {best.net:.3f} %, gain {apart.gain:.3f} of {best.gain:.3f} %")
    assert best.net > 0
    assert apart.net >= 0.9 * best.net
