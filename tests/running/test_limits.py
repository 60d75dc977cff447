"""Limits: each by itself, which one yields to which, and an obvious twin over the whole past."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.spaces import problems
from hypothesis import given
from hypothesis import strategies as st
from oracles.limits import right_action, sent, violations

import holdcourse as hc
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.running.decision import Order
from holdcourse.running.limits import KEPT_MOVES, Limits, Position, nearest_permitted, settings_within

LINE = hc.Problem([0.0, 1.0, 2.0, 4.0, 8.0])
ALL = np.ones(5, dtype=bool)


def at(action, *arrivals):
    """A machine that began at `action`, then moved as told by (round, action) pairs."""
    return Position(((-1, action), *arrivals))


def only(*actions):
    return np.isin(np.arange(5), actions)


def played(limits, where, wanted, allowed=ALL, round_number=10):
    return nearest_permitted(LINE, limits, where, wanted, allowed, round_number)


def test_without_limits_the_wish_is_played():
    for wanted in range(5):
        assert played(Limits(), at(0, (9, 2)), wanted) == (wanted, None)


def test_allowed_is_never_left_and_the_nearest_is_taken():
    assert played(Limits(), at(0), 3, only(0, 2, 4)) == (2, "allowed")
    assert played(Limits(), at(0), 1, only(0, 2)) == (0, "allowed")  # a tie: stay
    assert played(Limits(), at(4), 1, only(0, 2)) == (0, "allowed")  # a tie elsewhere: the lowest index
    assert played(Limits(), at(1), 1, only(4)) == (4, "allowed")


def test_max_step_goes_as_far_as_it_may():
    assert played(Limits(max_step=2.0), at(0), 4) == (2, "max_step")
    assert played(Limits(max_step=2.0), at(2), 3) == (3, None)
    assert played(Limits(max_step=0.0), at(2), 3) == (2, "max_step")
    assert played(Limits(max_step=0.5), at(2), 2) == (2, None)


def test_max_step_is_measured_in_the_direction_of_the_move():
    uphill = hc.Problem(metric=[[0, 5, 5], [1, 0, 5], [1, 1, 0]], directed=True)
    allowed = np.ones(3, dtype=bool)
    limits = Limits(max_step_cost=2.0)
    assert nearest_permitted(uphill, limits, at(0), 2, allowed, 0) == (0, "max_step")
    assert nearest_permitted(uphill, limits, at(2), 0, allowed, 0) == (0, None)


def test_min_dwell_counts_the_round_of_the_move():
    limits = Limits(min_dwell=3)
    where = at(0, (8, 2))
    assert played(limits, where, 4, round_number=9) == (2, "min_dwell")
    assert played(limits, where, 4, round_number=10) == (2, "min_dwell")
    assert played(limits, where, 4, round_number=11) == (4, None)
    assert played(limits, where, 2, round_number=9) == (2, None)


def test_the_start_has_no_dwell():
    assert played(Limits(min_dwell=100), at(0), 4, round_number=0) == (4, None)


def test_max_moves_within_a_window():
    limits = Limits(max_moves=2, window=4)
    where = at(0, (7, 1), (8, 2))
    assert played(limits, where, 3, round_number=9) == (2, "max_moves")
    assert played(limits, where, 3, round_number=10) == (2, "max_moves")
    assert played(limits, where, 3, round_number=11) == (3, None)  # round 7 has left the window
    assert played(Limits(max_moves=0, window=1), at(0), 3) == (0, "max_moves")


def test_dwell_is_named_before_moves():
    assert played(Limits(min_dwell=5, max_moves=0, window=5), at(0, (9, 2)), 3) == (2, "min_dwell")


@pytest.mark.parametrize("limits", [Limits(min_dwell=9), Limits(max_moves=0, window=9)])
def test_what_says_stay_yields_where_staying_is_not_allowed(limits):
    where = at(0, (9, 2))
    assert played(limits, where, 4, only(0, 4)) == (4, None)
    assert played(limits, where, 2, only(0, 4)) == (0, "allowed")


def test_step_does_not_yield():
    with pytest.raises(NoActionLeft, match=r"max_step \(3, which costs 3\) of 0;.*the nearest allowed, 4, costs 4\)"):
        played(Limits(max_step=3.0, min_dwell=9), at(0), 4, only(3, 4))


def test_step_and_dwell_together():
    limits = Limits(max_step=2.0, min_dwell=3)
    assert played(limits, at(0, (9, 1)), 4) == (1, "min_dwell")
    assert played(limits, at(0, (9, 1)), 4, only(0, 2, 4)) == (2, "max_step")  # leave 1, but not far


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_dwell": 0}, "min_dwell must be a whole number, 1 or more, got 0"),
        ({"min_dwell": 2.5}, "min_dwell must be a whole number"),
        ({"min_dwell": None}, "min_dwell must be a whole number"),
        ({"min_dwell": float("nan")}, "min_dwell must be a whole number"),
        ({"max_step": -1.0}, "max_step must be 0 or more, got -1.0"),
        ({"max_step": float("nan")}, "max_step must be 0 or more, got nan"),
        ({"max_step_cost": "far"}, "max_step_cost must be 0 or more, got 'far'"),
        ({"max_step_cost": -1.0}, "max_step_cost must be 0 or more, got -1.0"),
        ({"max_step_cost": [1.0]}, r"max_step_cost must be 0 or more, got \[1\.0\]"),
        ({"max_step": [-1.0]}, r"max_step must be 0 or more, got -1\.0"),
        ({"min_dwell": "45 min"}, "min_dwell='45 min' is a time; say how long a round is"),
        ({"min_dwell": "45 m", "round_length": "15 min"}, "min_dwell is in m, which cannot be converted to s"),
        ({"max_moves": 3}, "max_moves and window belong together"),
        ({"window": 3}, "max_moves and window belong together"),
        ({"max_moves": -1, "window": 3}, "max_moves must be a whole number, 0 or more, got -1"),
        ({"max_moves": 1, "window": 0}, "window must be a whole number, 1 or more, got 0"),
        ({"max_moves": True, "window": 2}, "max_moves must be a whole number"),
    ],
)
def test_wrong_limits(options, message):
    with pytest.raises(InvalidInput, match=message):
        Limits(**options)


def test_limits_of_numpy_numbers_can_be_written_as_json():
    limits = Limits(np.int64(2), np.float32(1.5), np.int32(3), np.int64(4))
    assert Limits(**json.loads(json.dumps(limits.describe()))) == limits == Limits(2, 1.5, 3, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {}),
        ({"min_dwell": 2}, {"min_dwell": "2 rounds"}),
        ({"max_step": 2.0}, {"max_step": "2 m, which costs 1 kWh"}),
        (
            {"max_step": 0.5},
            {
                "max_step": "0.5 m, which costs 0.25 kWh; this forbids every move, because the shortest is 1 m, which "
                "costs 0.5 kWh"
            },
        ),
        ({"max_step_cost": 1.5}, {"max_step_cost": "1.5 kWh"}),
        ({"max_moves": 0, "window": 1}, {"max_moves": "0 in any 1 round"}),
        (
            {"min_dwell": "2 h", "max_moves": 2, "window": "6 h", "round_length": "30 min"},
            {"min_dwell": "2 h (4 rounds)", "max_moves": "2 in any 6 h (12 rounds)"},
        ),
    ],
)
def test_limits_in_words_are_those_that_limit(options, words):
    problem = hc.Problem([0.0, 1.0, 2.0, 4.0, 8.0], unit="m", cost_unit="kWh", scale=0.5)
    assert Limits(**options).in_words(problem) == words


def test_a_limit_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(InvalidInput, match=r"'min_dwel'; the limits are min_dwell, max_step, .*round_length"):
        Limits.from_data({"min_dwel": 3})


def test_settings_within_a_range_have_open_ends_and_one_number():
    assert settings_within(LINE, (1.0, 4.0)).tolist() == [False, True, True, True, False]
    assert settings_within(LINE, (None, 2.0)).tolist() == [True, True, True, False, False]
    assert settings_within(LINE, (4.0, None)).tolist() == [False, False, False, True, True]
    with pytest.raises(InvalidInput, match="allowed="):
        settings_within(hc.Problem([[0.0, 0.0], [1.0, 1.0]]), (0.0, 1.0))


def test_a_guard_lasts_ten_rounds_unless_told_otherwise_and_cannot_be_changed():
    guard = hc.Guard(5.0, revert_to=0.0)
    assert guard.cool_down == 10
    with pytest.raises(AttributeError):
        guard.threshold = 6.0


# -- position ----------------------------------------------------------------------------------------------------------


def test_staying_is_no_move():
    where = at(3)
    assert where.after(3, 0, Limits()) == where
    assert where.moves == ()
    assert where.after(1, 4, Limits()).moves == (4,)


def test_a_position_in_other_actions_knows_the_same_moves():
    where = at(0, (3, 2), (7, 1))
    assert where.renamed([4, 3, 2], here=3, newest=9) == at(4, (3, 2), (7, 3)), "the machine is where it was"
    assert where.renamed([4, 3, 2], here=0, newest=9) == at(4, (3, 2), (7, 3), (9, 0)), "the machine was moved"


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 4)), max_size=6),
    st.integers(1, 9),
    st.integers(1, 12),
)
def test_position_knows_every_move_that_a_limit_may_ask_for(path, corrections, min_dwell, window):
    """Also after corrections of rounds long past, against the whole past kept as a plain list."""
    limits = Limits(min_dwell=min_dwell, max_moves=1, window=window)
    where, real = at(0), [0]
    for t, action in enumerate(path):
        where, real = where.after(action, t, limits), [*real, action]
        for when, other in corrections:
            if when % len(path) <= t and (when + other) % 3 == t % 3:
                where = where.corrected(other, when % len(path), t)
                real[when % len(path) + 1] = other
        assert where.action == real[-1]
        reach = max(min_dwell, window)
        asked = range(max(0, t + 2 - reach), t + 1)  # what the decision of round t + 1 may look at
        assert [r for r in where.moves if r in asked] == [r for r in asked if real[r + 1] != real[r]]


def test_position_does_not_grow():
    limits = Limits(min_dwell=3, max_moves=5, window=7)
    where, many = at(0), at(0)
    for t in range(10_000):
        where = where.after(t % 5, t, limits)
        many = many.after(t % 5, t, Limits(max_moves=1000, window=1000))
    assert len(where.arrivals) == KEPT_MOVES + 1
    assert len(many.arrivals) <= 1002


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 4), st.integers(1, 50))
def test_position_knows_the_moves_that_limits_set_later_ask_for(path, max_moves, window):
    where, real = at(0), [0]
    for t, action in enumerate(path):
        where, real = where.after(action, t, Limits()), [*real, action]
    limits = Limits(max_moves=max_moves, window=window)
    everywhere = np.ones(LINE.n, dtype=bool)
    for wanted in range(LINE.n):
        found = nearest_permitted(LINE, limits, where, wanted, everywhere, len(path))
        assert found == right_action(real, limits, LINE.distances, wanted, everywhere)


def test_every_move_within_a_round_counts():
    where = at(0).after(1, 3, Limits()).after(0, 3, Limits()).after(2, 5, Limits())
    assert where == at(0, (3, 1), (3, 0), (5, 2))
    assert [where.moves_since(t) for t in (-5, 3, 4, 5, 6)] == [3, 3, 1, 1, 0]
    assert at(4).moves_since(-9) == 0
    assert at(4).newest_move is None
    assert where.newest_move == 5


def test_what_was_applied_in_the_round_before_leaves_the_moves_within_a_round():
    where = at(0, (3, 1), (4, 2), (4, 3), (6, 0))
    assert where.corrected(4, 3, 6) == at(0, (3, 4), (4, 2), (4, 3), (6, 0))
    assert where.corrected(2, 3, 6) == at(0, (3, 2), (4, 3), (6, 0))
    assert where.corrected(4, 4, 6) == at(0, (3, 1), (4, 4), (5, 3), (6, 0))


def test_what_was_applied_late_leaves_the_move_from_where_the_next_round_began():
    """Round 4 began at 1, and within it the machine was sent to 0: where it really was in round 3."""
    where = at(0, (2, 1), (4, 0))
    assert where.corrected(0, 3, 5, next_began=1) == at(0, (2, 1), (3, 0), (4, 1), (4, 0))
    assert where.corrected(0, 3, 5, next_began=0) == at(0, (2, 1), (3, 0)), "it was decided"

    controller = hc.Controller(hc.md_known(LINE), start_index=1, limits=hc.Limits(min_dwell=2), max_pending=3)
    costs = np.ones(LINE.n)
    controller.ask(costs=costs, round=0, instructed_index=1)
    controller.ask(costs=costs, round=1, instructed_index=1)
    controller.redirect(wanted_index=0)
    controller.tell("r0", 1.0, applied_index=0)
    decision = controller.ask(costs=costs, round=2, instructed_index=2)
    assert controller.entry(decision.id).order == Order(2, 0, "min_dwell"), "it came there in round 1"


# -- against the twin --------------------------------------------------------------------------------------------------


@st.composite
def limits_on(draw, problem):
    moves = draw(st.none() | st.integers(0, 4))
    distances = sorted({float(d) for d in problem.distances.ravel()})
    return Limits(
        min_dwell=draw(st.integers(1, 6)),
        max_step_cost=draw(st.none() | st.sampled_from(distances)),
        max_moves=moves,
        window=None if moves is None else draw(st.integers(1, 8)),
    )


@st.composite
def cases(draw):
    problem = draw(problems(max_actions=7, scales=(1.0,)))
    action = st.integers(0, problem.n - 1)
    mask = st.lists(st.booleans(), min_size=problem.n, max_size=problem.n).filter(any)
    round_ = st.tuples(action, mask, st.none() | action, st.lists(action, max_size=3))
    rounds = draw(st.lists(round_, min_size=1, max_size=25))
    return problem, draw(limits_on(problem)), draw(action), rounds


@given(cases())
def test_twin(case):
    problem, limits, start, rounds = case
    where, real = at(start), [start]
    for t, (wanted, mask, override, sent_to) in enumerate(rounds):
        expected = right_action(real, limits, problem.distances, wanted, mask)
        try:
            found = nearest_permitted(problem, limits, where, wanted, np.array(mask), t)
        except NoActionLeft:
            assert expected is None
            found = (where.action, None)  # the operator decides
        else:
            assert found == expected
            assert violations(real, limits, problem.distances, found[0], mask) == []
        where = where.after(found[0], t, limits)
        real.append(found[0])
        for other in sent_to:  # within the round
            right = right_action(real, limits, problem.distances, other, mask, within=True)
            if right is None:
                continue
            assert nearest_permitted(problem, limits, where, other, np.array(mask), t + 1, t) == right
            assert violations(real, limits, problem.distances, right[0], mask, within=True) == []
            where = where.after(right[0], t, limits)
            sent(real, right[0])
        if override is not None:
            where = where.corrected(override, t, t)
            real[-1] = override
