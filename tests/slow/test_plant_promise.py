"""What is recommended, on three plants with a history: better than staying on average, and nowhere much dearer."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.worlds import plants

pytestmark = pytest.mark.slow

CASES = {"chiller": 1001, "mill": 1002, "pumps": 1003}


def test_the_bill_is_below_that_of_staying_on_average_and_nowhere_three_percent_above():
    ratios = {}
    for name, seed in CASES.items():
        case = plants.PLANTS[name].case(seed)
        run = plants.operate(hc.recommended(case.problem, case.history), case, seed)
        stay = plants.operate(plants.stay(case.problem, case.start), case, seed)
        ratios[name] = run.bill / stay.bill
    assert np.mean(list(ratios.values())) <= 1.0, ratios
    assert max(ratios.values()) <= 1.03, ratios
