"""How right the answers of trials are: the tables of docs/trials.md, held to their bounds."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "tools" / "trial_table.py"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("trial_table", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wind(tables):
    return tables.half_year()


@pytest.fixture(scope="module")
def rows(tables, wind):
    """Of every kind of trial and block length, what they came to."""
    every = [*tables.synthetic_rows(), *tables.plant_rows(), *tables.wind_rows(wind)]
    return {(name, block): found for name, block, found in every}


def test_every_kind_is_unbiased_and_holds_at_every_look(rows):
    for kind, found in rows.items():
        assert abs(found["bias"]) < 0.1 * found["width"], kind
        assert found["held"] >= 93.0, kind
        assert found["always"] >= 95.0, kind
        if "no effect" in kind[0]:
            assert found["pays"] <= 5.0, kind
            assert found["held"] <= 97.0, kind


def test_all_together_hold_as_often_as_they_say(rows):
    """Single kinds may hold more often: where the gain differs between pairs the variance is taken for the worse."""
    trials = [found["trials"] for found in rows.values()]
    assert sum(trials) >= 1000
    assert 93.0 <= np.average([found["held"] for found in rows.values()], weights=trials) <= 97.0


def test_the_half_year_of_wind(rows):
    found = {name: row for (name, _), row in rows.items()}
    assert found["wind"]["deviation"] <= 1.2
    assert abs(found["wind"]["bias"]) <= 0.4
    assert found["wind, a mast of 100 m as reference"]["deviation"] <= 0.6


def test_the_promised_weeks_over_the_half_year(tables, wind):
    for block, gain, promised, needed in tables.weeks_rows(wind):
        assert promised == pytest.approx(needed, rel=0.2), (block, gain)


def test_the_rule_itself_over_half_years(tables, record_property):
    """Each planned from the time before it, the answer is right for running either arm throughout, on average.

    In a single half year it is not: the last one is off by +1.1 (docs/trials.md says so).
    """
    off, deviations, masts = [], [], []
    for name, (begin, end) in tables.ROLLING.items():
        plan, site = tables.planned(begin), tables.flown(begin, end)
        assert plan.best.block == 2
        assert 0.3 <= plan.heard <= 0.7
        found = tables.by_the_rule(site, plan.best.block, plan.heard, seeds=6)
        off.append(found[:, 2].mean())
        deviation = found[:, :2].std(axis=0, ddof=1)
        deviations.append(deviation[0])
        masts.append(deviation[1])
        record_property(
            f"the rule itself, {name}",
            {
                "heard": float(plan.heard),
                "alone": round(float(site.backtest.line(tables.OURS).gain), 2),
                "measured": round(float(found[:, 0].mean()), 2),
                "with a mast": round(float(found[:, 1].mean()), 2),
                "policy's blocks less the same hours alone": round(float(off[-1]), 2),
            },
        )
    assert abs(np.mean(off)) <= 0.4
    assert max(map(abs, off)) <= 1.5
    assert np.sqrt(np.mean(np.square(deviations))) <= 1.2
    assert np.sqrt(np.mean(np.square(masts))) <= 0.7
