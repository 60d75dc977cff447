"""What the wind planner must be worth: the half year after its history, another year, another site.

docs/theory/wind-in-time.md says what had been seen of them when the policy was made.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no package of ours to install
from benchmarks import wind_time

pytestmark = pytest.mark.slow

PHYSICAL = [2, 3]  # columns
WITHOUT_HISTORY = [0, 2, 3]  # where it must beat GP-MD by three points


def measured(record_property, title, found):
    for name, row in found.items():
        record_property(f"{title}: {name}", "  ".join(f"{value:.1f}" for value in row))
    return found


@pytest.fixture(scope="module")
def next_half_year():
    return wind_time.next_half_year()


def test_with_history(next_half_year, record_property):
    flown, past = next_half_year
    names = ("fixed", "wind-planner", "gp-md")
    found = measured(record_property, "wind", wind_time.shares(flown, past, names, wind_time.STARTS))
    gain = found["wind-planner"] - found["fixed"]
    assert (gain >= 0).all()
    assert (gain[PHYSICAL] >= 4).all()
    assert (found["wind-planner"] > found["gp-md"]).all()


def test_without_history(next_half_year, record_property):
    flown, _ = next_half_year
    names = ("wind-planner", "gp-md")
    found = measured(record_property, "wind, no history", wind_time.shares(flown, None, names, wind_time.STARTS))
    assert (found["wind-planner"] - found["gp-md"])[WITHOUT_HISTORY].min() >= 3


def test_another_year(record_property):
    """One of the half years that choices were made on, so no fresh check: the physical bar is what it reaches."""
    flown, past = wind_time.other_year()
    names = ("fixed", "wind-planner", "gp-md")
    found = measured(record_property, "wind, 2008", wind_time.shares(flown, past, names, wind_time.STARTS))
    gain = found["wind-planner"] - found["fixed"]
    assert (gain >= 0).all()
    assert (gain[PHYSICAL] >= 3.5).all()
    assert (found["wind-planner"] > found["gp-md"]).all()


@cache
def another_site(folder):
    flown, past = wind_time.other_site(str(folder / "wind" / "wrf_foxes_200901_10min.csv"))
    return wind_time.shares(flown, past, ("fixed", "wind-planner", "gp-md"), wind_time.STARTS)


def test_another_site(shared_data, record_property):
    """Two weeks of history only, which are not learned from: no worse than fixed, but for rho 4."""
    found = measured(record_property, "wind, January 2009", another_site(shared_data))
    assert (found["wind-planner"] >= found["fixed"])[WITHOUT_HISTORY].all()
    assert (found["wind-planner"] > found["gp-md"]).all()


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="0.3 points below at rho 4 since decision 80")
def test_another_site_at_rho_4(shared_data):
    found = another_site(shared_data)
    assert found["wind-planner"][1] >= found["fixed"][1]


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="3.9 points at rho 1: two weeks are not learned from")
def test_another_site_where_moving_is_cheap(shared_data):
    found = another_site(shared_data)
    assert (found["wind-planner"] - found["fixed"])[PHYSICAL].min() >= 4
