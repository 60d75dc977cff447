"""La Haute Borne, the whole of 2014, causal: our front against the published rules."""

from __future__ import annotations

import pytest

import holdcourse as hc
from holdcourse.wakes.result import RULES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("begin", "end"), [(None, None), ("2014-07-01", None)], ids=["year", "second half"])
def test_our_front_is_above_the_rules_at_every_travel_that_they_reach(begin, end):
    record = hc.wakes.bundled_record()
    # The half is judged with a drift learned from the other half; the year in four parts, each from the others.
    history = None if begin is None else record.between(end=begin)
    study = hc.wakes.Study(policies=(*RULES, "wake-planner"))
    found = hc.wakes.backtest(hc.wakes.bundled_table(), record.between(begin, end), study, history=history)
    for name in RULES:
        for point in found.fronts[name]:
            assert found.gain_at(point.travel) > point.gain, (name, point)
    (eight,) = [point for point in found.fronts["hysteresis"] if point.setting == 8.0]
    assert found.gain_at(eight.travel) >= 1.25 * eight.gain
    lookup = found.fronts["lookup"][0]
    assert found.travel_for(0.95 * lookup.gain) <= lookup.travel / 3
    for point in found.fronts["wake-planner"]:
        assert point.low < point.gain < point.high  # intervals by weeks beside each
