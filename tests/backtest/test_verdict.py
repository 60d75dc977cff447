"""The verdict of a backtest: who is judged, how sure a gain is, and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from holdcourse.backtest import verdict as v
from holdcourse.deciding import registry

NAN = np.nan


def lines(*names):
    return [SimpleNamespace(policy=name) for name in names]


@pytest.mark.parametrize(
    ("low", "high", "options", "expected"),
    [
        (1.0, 2.0, {}, "yes"),
        (-2.0, -1.0, {}, "no"),
        (-1.0, 1.0, {}, "undecided"),
        (0.0, 0.0, {}, "undecided"),
        (-np.inf, np.inf, {}, "undecided"),
        (NAN, NAN, {}, "no comparison"),
        (1.0, 2.0, {"stayed": True}, "stayed"),
        (NAN, NAN, {"stayed": True}, "no comparison"),
        (NAN, NAN, {"enough": False}, "too few"),
        (1.0, 2.0, {"enough": False, "comparable": False}, "no comparison"),
    ],
)
def test_the_verdict(low, high, options, expected):
    assert v.verdict(low, high, **options) == expected


def test_the_recommended_policy_is_judged_or_else_the_first():
    found = lines("clairvoyant", "md-known", "gp-md", "planner-known", "recommended", "fixed")
    able = v.runnable(found, ("clairvoyant", "fixed"))
    assert [line.policy for line in able] == ["gp-md", "recommended"]
    assert v.judged(able, "recommended").policy == "recommended"
    assert v.judged(able[:1], "recommended").policy == "gp-md"
    assert v.judged([], "recommended") is None
    assert v.line_of(found, "gp-md") is found[2]


def test_a_policy_that_is_not_in_the_table_could_be_run():
    found = lines("my-own", "my_package.my_module:my_policy", "md-known")
    assert [line.policy for line in v.runnable(found, ())] == ["my-own", "my_package.my_module:my_policy"]


def test_a_policy_that_is_added_later_is_asked_for_as_it_is(monkeypatch):
    monkeypatch.setitem(registry.TABLE, "seer", registry.Entry("seer", "Seer", "Knows all.", "costs"))
    assert v.runnable(lines("seer"), ()) == []


def test_the_interval_comes_from_all_weeks_that_are_known():
    """A half-year that holds none of the weeks that make the difference looks sure by itself."""
    random = np.random.default_rng(2)
    rare = 100.0 + np.repeat(random.uniform(size=13) < 0.3, 10) * 30.0
    calm, still = 100.0 + random.normal(0, 0.1, 26), np.full(26, 100.0)
    low, high = v.gain_interval(calm, still)
    assert high - low < 1.0
    low, high = v.gain_interval(calm, still, [(rare, np.full(130, 100.0))])
    assert high - low > 10.0
    assert (low + high) / 2 == pytest.approx(calm.mean() - 100.0)
    assert np.isnan(v.half_width(calm, still))  # two batches say nothing
    assert v.next_interval(1.0, 0.0, 2.0) == pytest.approx((1 - 2**0.5, 1 + 2**0.5))


def test_the_interval_comes_from_resampled_blocks():
    assert v.BOOTSTRAP_DRAWS >= 1000
    random = np.random.default_rng(1)
    theirs = random.uniform(5, 6, 40)
    low, high = v.gain_interval(1.1 * theirs, theirs)
    assert (low, high) == (pytest.approx(10.0), pytest.approx(10.0))
    low, high = v.gain_interval(theirs + random.normal(0, 1, 40), theirs)
    assert low < 0 < high
    assert np.isnan(v.gain_interval(theirs, np.zeros(40))).all()


@pytest.mark.parametrize(
    ("percent", "text"), [(1.23, "+1.2"), (-0.06, "-0.1"), (0.04, "+0.04"), (-0.04, "-0.04"), (0.0, "+0.00")]
)
def test_percentages_with_their_sign(percent, text):
    assert v.signed(percent) == text


def test_differences_in_words():
    assert v.compared(1.25, "less", "more") == "1.2 % less"
    assert v.compared(-3.0, "less", "more") == "3.0 % more"
    assert v.compared(0.0, "more", "less") == "0.0 % more"
