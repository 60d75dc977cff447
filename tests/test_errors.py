"""How messages show what was given and how many things there are: as people write it, and never at any length."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import LONGEST_SHOWN, InvalidInput, counted, how_often, shown


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.float64(0.5), "0.5"),
        (np.bool_(True), "True"),
        ([np.float64(0.5), 1], "[0.5, 1]"),
        ([(np.float64(0.0), np.float64(1.0))], "[(0.0, 1.0)]"),
        ({"load": np.int64(3)}, "{'load': 3}"),
        (np.arange(3.0), "[0.0, 1.0, 2.0]"),
        (np.datetime64("2026-03-01T07:00:00.000000000"), "'2026-03-01T07:00:00.000000000'"),
    ],
)
def test_values_are_shown_as_people_write_them(value, words):
    assert shown(value) == words


def test_long_values_are_shortened():
    assert len(shown(list(range(10_000)))) == LONGEST_SHOWN
    assert shown(list(range(10_000))).endswith("...")
    assert shown(10**5000) == "a whole number of thousands of digits"


@pytest.mark.parametrize(
    "refused",
    [
        lambda given: hc.Problem([0.0, 1.0], fixed_cost=given[0]),
        lambda given: hc.Problem([0.0, 1.0], unit=given),
        lambda given: hc.gp_md(hc.Problem([0.0, 1.0]), context_bounds=[(given[1], given[0])] * 2000),
        lambda given: hc.gp_md(hc.Problem([0.0, 1.0]), history=[given] * 2000),
        lambda given: hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0]))).ask([[given]] * 2000),
        lambda given: hc.recommended(hc.Problem([0.0, 1.0]), at_most=given),
    ],
)
def test_errors_show_numbers_and_not_their_wrapping(refused):
    with pytest.raises(InvalidInput) as error:
        refused([np.float64(-1.0), np.float64(3.5)])
    assert "np." not in str(error.value)
    assert len(str(error.value)) < 400


def test_things_are_counted():
    assert [counted(n, "row") for n in (0, 1, 2, 12_000)] == ["0 rows", "1 row", "2 rows", "12,000 rows"]
    assert [counted(n, "policy", "policies") for n in (0, 1, 2)] == ["0 policies", "1 policy", "2 policies"]
    assert counted(1, "row was", "rows were") == "1 row was"
    assert [how_often(n) for n in (0, 1, 2, 3)] == ["never", "once", "twice", "3 times"]
