"""Ten knobs: the knob planner beats staying and turning one knob at a time, also where costs are not quite a sum."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no package of ours to install
from benchmarks import knobs  # noqa: E402


@pytest.mark.parametrize("mixed", [0.0, 0.3])
def test_ten_knobs(mixed, record_property):
    found = knobs.many(range(60, 64), mixed)
    planned = found.pop("knob planner")
    record_property("measured", f"knob planner less staying, mixed {mixed:g}: {knobs.described(planned)}")
    assert (planned < 0).all()
    for name, others in found.items():
        if name.startswith("one at a time"):
            assert planned.mean() < others.mean() - 2 * np.std(planned - others, ddof=1) / 2
