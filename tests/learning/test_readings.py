"""Readings as a fitted posterior keeps them: the watch for a change of what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.learning.posteriors.readings import MOST_WATCHED, SETTLED, WATCHED, ChangeWatch, Readings


def readings(told):
    """Readings of one place."""
    told = np.array(told, dtype=np.float64)
    place = History(np.zeros(len(told), np.int64), np.zeros((len(told), 1)), told)
    return Readings.none().with_more(place, told, np.zeros(len(told), np.bool_))


def watching(rows, surprised=True):
    watch = ChangeWatch()
    for row in rows:
        watch = watch.with_reading(row, surprised)
    return watch


@given(st.lists(st.booleans(), max_size=3 * WATCHED))
def test_the_last_readings_are_watched(surprises):
    watch = ChangeWatch()
    for row, surprised in enumerate(surprises):
        watch = watch.with_reading(row, surprised)
    kept = list(enumerate(surprises))[-WATCHED:]
    assert watch.surprising.tolist() == [row for row, surprised in kept if surprised]
    assert watch.suspects(SETTLED) is (sum(surprised for _, surprised in kept) >= MOST_WATCHED)
    again = ChangeWatch.from_arrays(watch.after_change(70).arrays())
    assert (again.changes, again.observations, len(again.last)) == (1, 70, 0)
    assert ChangeWatch.from_arrays(watch.arrays()).last.tolist() == watch.last.tolist()


def test_nothing_is_suspected_before_enough_readings():
    watch = watching(range(WATCHED))
    assert not watch.suspects(SETTLED - 1)
    later = watching(range(WATCHED)).after_change(100)
    for row in range(WATCHED):
        later = later.with_reading(row, True)
    assert not later.suspects(99 + SETTLED)
    assert later.suspects(100 + SETTLED)


@pytest.mark.parametrize(("before", "after", "changed"), [(1.0, 5.0, True), (1.0, 1.05, False), (5.0, 1.0, True)])
def test_a_change_is_unlike_what_was_read_before(before, after, changed):
    """What surprises, but was read in that place before, is a kernel that is wrong about it."""
    kept = readings([before] * 20 + [after] * WATCHED)
    watch = watching(range(20, 20 + WATCHED))
    assert watch.sees_change(kept, noise=0.1) is changed
    assert not watching(range(WATCHED)).sees_change(kept, noise=0.1)  # nothing was read before these


def test_rows_that_have_other_numbers_are_no_longer_watched():
    watch = watching(range(WATCHED)).after_change(80).with_reading(3, True)
    assert (watch.emptied().changes, watch.emptied().observations) == (1, 80)
    assert not len(watch.emptied().last)


def test_a_state_without_the_watch_is_refused():
    with pytest.raises(InvalidInput, match="not a saved state of a fitted posterior"):
        ChangeWatch.from_arrays({"watched": np.zeros((0, 2))})
