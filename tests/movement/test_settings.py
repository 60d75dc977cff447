"""Settings as people write and read them: whatever is written as a setting is found again, and nothing else is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.movement.settings import chosen, index_of, read, required, several, text_of

NUMBERS = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).map(str.strip).filter(bool)
STAIRS = hc.Problem([0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0])
NAMED = hc.Problem([18.0, 20.0, 22.0], labels=["night", "eco", "day"])
KNOBS = hc.Problem(hc.grid(workers=[1, 2, 4], cache_mb=[64, 256]))
POINTS = hc.Problem([[0.0, 1.0], [0.5, 1.0], [0.5, 2.0]])


@st.composite
def problems(draw):
    """Problems whose settings are numbers, points, places on a grid or names."""
    kind = draw(st.sampled_from(["numbers", "points", "grid", "labels"]))
    if kind == "grid":
        axes = {
            name: draw(st.lists(NUMBERS.map(lambda x: round(x, 3)), min_size=1, max_size=4, unique=True))
            for name in draw(st.lists(st.sampled_from(["speed", "valve", "fan"]), min_size=1, max_size=3, unique=True))
        }
        return hc.Problem(hc.grid(**axes))
    values = draw(st.lists(NUMBERS.map(lambda x: round(x, 6)), min_size=1, max_size=8, unique=True))
    if kind == "points":
        return hc.Problem([[x, -2 * x] for x in values])
    labels = (
        draw(st.lists(NAMES, min_size=len(values), max_size=len(values), unique=True)) if kind == "labels" else None
    )
    return hc.Problem(values, labels=labels)


@given(problem=problems(), data=st.data())
def test_what_is_written_as_a_setting_is_found_again(problem, data):
    action = data.draw(st.integers(0, problem.n - 1))
    value = problem.value(action)
    assert problem.index(value) == action
    assert index_of(problem, json.loads(json.dumps(value))) == action  # over HTTP and in files
    assert read(problem, text_of(problem, action)) == action  # on a command line, on a page
    assert problem.index(np.array(value)) == action if isinstance(value, tuple) else True
    controller = hc.Controller(hc.stationary(problem), start=value)
    assert (controller.action, controller.setting) == (action, value)


@given(problem=problems(), number=NUMBERS)
def test_what_is_no_setting_is_refused(problem, number):
    numbers = problem.n if problem.labels is None and problem.actions.shape[1] == 1 else 0
    near = [k for k in range(numbers) if problem.actions[k, 0] == pytest.approx(number, rel=1e-9)]
    if near:
        assert problem.index(number) in near
    else:
        with pytest.raises(InvalidInput, match="is not a setting"):
            problem.index(number)


@pytest.mark.parametrize(
    ("problem", "setting", "action"),
    [
        (STAIRS, 0.6, 3),
        (STAIRS, 0.6 * (1 + 1e-10), 3),
        (STAIRS, np.float32(0.0), 0),
        (STAIRS, 1, 5),
        (STAIRS, [0.2], 1),
        (STAIRS, 1e-12, 0),
        (NAMED, "eco", 1),
        (KNOBS, {"cache_mb": 256, "workers": 2}, 3),
        (KNOBS, (2, 256), 3),
        (KNOBS, [2.0, 256.0], 3),
        (POINTS, (0.5, 2), 2),
        (POINTS, np.array([0.5, 1.0]), 1),
        (hc.Problem([2.0, 1.0, 0.0]), 0, 2),  # a value, although it could be an index
        (hc.Problem([0.1, 0.2, 0.30000000000000004]), 0.3, 2),
        (hc.Problem([1.0, 1.0 + 1e-12]), 1.0 + 1e-12, 1),
        (hc.Problem(metric=[[0, 1], [1, 0]]), 1, 1),
        (hc.Problem([0, 1], labels=[300, 400]), 400.0, 1),
        (hc.Problem(np.arange(-1, 1, 0.1)), 0, 10),
    ],
)
def test_settings_that_are_found(problem, setting, action):
    assert problem.index(setting) == action


@pytest.mark.parametrize(
    ("problem", "setting", "words"),
    [
        (STAIRS, 0.61, ["start=0.61 is not a setting", "the nearest are 0.6, 0.8, 0.4"]),
        (STAIRS, 0.6 * (1 + 1e-7), ["is not a setting"]),
        (STAIRS, 3, ["start=3 is not a setting", "for the action with index 3, which is 0.6, write start_index=3"]),
        (STAIRS, True, ["start=True is not a setting", "a setting here is a number, such as 0"]),
        (STAIRS, "0.2", ["start='0.2' is not a setting", "a setting here is a number"]),
        (STAIRS, float("nan"), ["is not a setting"]),
        (STAIRS, float("inf"), ["is not a setting"]),
        (STAIRS, 10**400, ["is not a setting"]),
        (STAIRS, [0.2, 0.4], ["is not a setting"]),
        (STAIRS, {"x": 0.2}, ["its axes have no names"]),
        (NAMED, "Eco", ["start='Eco' is not a setting", "did you mean 'eco'?"]),
        (NAMED, "nigth", ["did you mean 'night'?", "the settings are 'night', 'eco', 'day'"]),
        (NAMED, 20, ["these settings are given by their labels, and that one is 'eco'"]),
        (NAMED, 1, ["which is 'eco', write start_index=1"]),
        (KNOBS, {"workers": 2}, ["give one value for each of ['workers', 'cache_mb']"]),
        (KNOBS, {"workers": 3, "cache_mb": 64}, ["the nearest are workers 2, cache_mb 64"]),
        (KNOBS, 3, ["a setting here is 2 numbers", "write start_index=3"]),
        (POINTS, (0.5, 1.5), ["the nearest are (0.5, 1), (0.5, 2)"]),
        (hc.Problem(metric=[[0, 1], [1, 0]], labels=["a", "b"]), 1, ["which is 'b', write start_index=1"]),
        (hc.Problem(range(20), labels=[f"s{k}" for k in range(20)]), "t9", ["'s7' and 12 more"]),
        (hc.Problem([1.0, 1.0 + 1e-12]), 1.0 + 4e-13, ["write all digits, or give start_index=0"]),
    ],
)
def test_settings_that_are_not_found(problem, setting, words):
    with pytest.raises(InvalidInput) as caught:
        index_of(problem, setting, "start")
    for part in words:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("problem", "text", "action"),
    [
        (STAIRS, "0.6", 3),
        (STAIRS, " 1 ", 5),
        (STAIRS, "2e-1", 1),
        (NAMED, "day", 2),
        (KNOBS, "workers=2, cache_mb=256", 3),
        (KNOBS, "cache_mb 256, workers 2", 3),
        (KNOBS, "2, 256", 3),
        (POINTS, "(0.5, 2)", 2),
        (POINTS, "0.5; 2", 2),
        (hc.Problem([0, 1], labels=[300, 400]), "400", 1),
    ],
)
def test_settings_as_text(problem, text, action):
    assert read(problem, text) == action


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (STAIRS, "warm"),
        (STAIRS, ""),
        (STAIRS, "0.6, 0.8"),
        (STAIRS, "nan"),
        (NAMED, "20"),
        (KNOBS, "workers=2"),
        (KNOBS, "workers=2, workers=256"),
        (KNOBS, "workers=2, 256"),
    ],
)
def test_text_that_is_no_setting(problem, text):
    with pytest.raises(InvalidInput, match="is not a setting"):
        read(problem, text)


def test_a_setting_or_its_index():
    assert chosen(STAIRS, None, None, "start") is None
    assert chosen(STAIRS, None, np.int64(3), "start") == 3
    assert chosen(STAIRS, 0.2, None, "start") == 1
    for index in (6, -1, 1.0, True, "1"):
        with pytest.raises(InvalidInput, match=r"start_index=.* is not an index from 0 to 5"):
            chosen(STAIRS, None, index, "start")
    with pytest.raises(InvalidInput, match=r"give start or start_index, not both; got 0\.2 and 1"):
        chosen(STAIRS, 0.2, 1, "start")
    with pytest.raises(InvalidInput, match="start is missing: give a setting, such as 0, or start_index"):
        required(STAIRS, None, None, "start")


def test_a_list_of_settings():
    assert several(STAIRS, [0.2, 1], "allowed") == [1, 5]
    assert several(KNOBS, [(1, 64), {"workers": 4, "cache_mb": 64}], "allowed") == [0, 4]
    assert several(NAMED, {"eco"}, "allowed") == [1]
    with pytest.raises(InvalidInput, match=r"names 0\.2 twice"):
        several(STAIRS, [0.2, 0.2], "allowed")
    with pytest.raises(InvalidInput, match="write True and False for a mask"):
        several(hc.Problem([0.0, 1.0]), [1, 0], "allowed")
    with pytest.raises(InvalidInput, match="must be a list of settings"):
        several(NAMED, "eco", "allowed")


def test_labels_are_given_once():
    with pytest.raises(InvalidInput, match="two actions have the label 'a'"):
        hc.Problem([0.0, 1.0], labels=["a", "a"])


def test_a_controller_by_value_and_by_index():
    """The same controller twice: nothing depends on how its settings were named."""
    policy = hc.minc_known(STAIRS)
    guard = {"threshold": 4.0, "cool_down": 2}
    one = hc.Controller(policy, start=0.6, guard=hc.Guard(revert_to=0.2, **guard))
    two = hc.Controller(policy, start_index=3, guard=hc.Guard(revert_to_index=1, **guard))
    assert one.guard == two.guard == hc.Guard(4.0, 0.2, 2)
    mask = np.array([True, True, False, False, False, True])
    for t in range(4):
        costs = np.roll([3.0, 1.0, 2.0, 5.0, 4.0, 6.0], t)
        first = one.ask(costs=costs, allowed=[1.0, 0.0, 0.2], instructed=0.0 if t == 2 else None)
        second = two.ask(costs=costs, allowed=mask, instructed_index=0 if t == 2 else None)
        assert (first.action, first.value, first.wanted_value) == (second.action, second.value, second.wanted_value)
        one.tell(first.id, 5.0 * (t == 1), applied=0.2 if t == 3 else None)
        two.tell(second.id, 5.0 * (t == 1), applied_index=1 if t == 3 else None)
    assert one.permitted(0.8) == two.permitted(wanted_index=4)
    one.new_episode(0.2)
    two.new_episode(start_index=1)
    assert one.setting == two.setting == 0.2
