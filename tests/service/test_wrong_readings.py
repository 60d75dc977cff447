"""A reading that cannot be right: it is named, it moves no figure, and decisions go on as without it."""

from __future__ import annotations

import numpy as np
import pytest

ACTIONS = [0.0, 1.0, 2.0, 3.0, 4.0]
PLANT = {"policy": "recommended", "options": {}, "actions": ACTIONS, "scale": 2.0, "start_index": 1, "seed": 5}
FACTOR = 1e4


def cost(action, number):
    """What a plant costs: about 100, with a valley that moves with the context, and some noise."""
    load = np.sin(number / 5)
    return float(100 + 4 * (action - 2 - load) ** 2 + np.random.default_rng(number).normal()), float(load)


def play(client, name, rounds, told=cost, wrong=None, by=None):
    """Play rounds; the reading of round `wrong` is `by` times what it should be, and skipped where that is None."""
    actions = []
    for number in range(client.see(name, "state")["round"], rounds):
        _, load = told(0, number)
        asked = client.do(name, "ask", context=load)
        actions.append(asked["action"])
        y, _ = told(asked["action"], number)
        if number == wrong and by is None:
            client.do(name, "skip", decision=asked["decision"])
        else:
            client.do(name, "tell", decision=asked["decision"], measurement=y * by if number == wrong else y)
    return actions


@pytest.mark.parametrize(
    ("wrong", "rounds"), [(1, 50), *(pytest.param(*late, marks=pytest.mark.slow) for late in ((30, 80), (200, 250)))]
)
def test_one_reading_is_wrong(client, name, wrong, rounds):
    """The twin was told nothing in that round; one reading more or less among the first few shifts what is explored."""
    twin = f"{name}-twin"
    for each in (name, twin):
        client.create(id=each, **PLANT)
    ours, theirs = play(client, name, rounds, wrong=wrong, by=FACTOR), play(client, twin, rounds, wrong=wrong)
    assert np.mean(np.array(ours) != theirs) <= 0.02
    alarms = [alarm for alarm in client.see(name, "alarms")["alarms"] if alarm["kind"] == "reading"]
    assert len(alarms) == 1
    assert f"of r{wrong} was set aside (about 1" in alarms[0]["message"]
    assert "retract" in alarms[0]["message"]
    assert not [alarm for alarm in client.see(twin, "alarms")["alarms"] if alarm["kind"] == "reading"]
    rows = client.see(name, "decisions", limit=rounds)["decisions"]
    assert [row["round"] for row in rows if row["weight"] == 0] == [wrong]
    assert rows[wrong]["measurement"] > 5e5
    assert max(row["cumulative_service"] for row in rows) < 200 * rounds
    state, other = (client.see(each, "state") for each in (name, twin))
    assert state["calibration"]["set_aside"] == 1
    one_round = 60 if wrong < 10 else 20  # which the twin does not count
    assert client.saved(name)[0] == pytest.approx(client.saved(twin)[0], abs=one_round)
    assert state["service"] - other["service"] == pytest.approx(100, abs=40)  # what was expected in its place
    assert "was set aside: about 1" in client.see(name, f"explain/r{wrong}")["words"]


def test_its_alarm_is_over_when_it_is_taken_back(client, name):
    """And no figure is another than if nothing had been told."""
    twin = f"{name}-twin"
    for each in (name, twin):
        client.create(id=each, **PLANT)
        play(client, each, 12, wrong=9, by=FACTOR if each == name else None)
    assert [alarm["kind"] for alarm in client.see(name, "state")["alarms"]] == ["reading"]
    client.do(name, "retract", decision="r9", reason="unplugged")
    state, other = (client.see(each, "state") for each in (name, twin))
    assert state["alarms"] == []
    figures = ("measurements_sum", "service", "estimate", "rounds_told", "calibration")
    ours, theirs = ([found[figure] for figure in figures] for found in (state, other))
    assert ours == theirs
    left = other["promise"]["left"]
    assert state["promise"]["left"] == pytest.approx(left, abs=20)  # where it went stands


def test_its_alarm_does_not_stay_for_ever(client, name):
    client.create(id=name, **PLANT)
    play(client, name, 36, wrong=9, by=FACTOR)
    alarms = client.see(name, "alarms")["alarms"]
    assert [(alarm["kind"], alarm["cleared_at"] is not None) for alarm in alarms] == [("reading", True)]


def test_gains_are_not_moved_either(client, name):
    client.create(id=name, **(PLANT | {"options": {"maximise": True}}))
    play(client, name, 20, wrong=12, by=-FACTOR)
    state = client.see(name, "state")
    assert 20 * 80 < state["measurements_sum"] < 20 * 150
    assert "the reading -1," in state["alarms"][0]["message"]


def test_a_policy_that_believes_all_says_nothing(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1e6)
    state = client.see(name, "state")
    assert (state["promise"], state["calibration"], state["alarms"]) == (None, None, [])
    assert state["measurements_sum"] == 1e6
    assert client.see(name, "decisions")["decisions"][0]["weight"] == 1


# -- the promise -------------------------------------------------------------------------------------------------------


def test_the_promise_is_an_option(client, name):
    options = {"baseline_index": 3, "at_most": 0.05, "budget": 40.0, "guard": {"deviations": 8.0}}
    client.create(id=name, **(PLANT | {"options": options}))
    promise = client.see(name, "state")["promise"]
    assert (promise["baseline_index"], promise["at_most"], promise["budget"], promise["left"]) == (3, 0.05, 40.0, 40.0)
    play(client, name, 6)
    promise = client.see(name, "state")["promise"]
    assert (promise["estimated_saved"], promise["estimated_doubt"]) == (None, None)  # nobody can check it yet
    assert promise["estimated_baseline_bill"] is None  # less what was measured, it would tell the same
    assert promise["left"] < promise["allowed"]
    client.change(name, actions=ACTIONS[1:])  # the baseline gets its new number
    assert client.see(name, "state")["promise"]["baseline_index"] == 2
    assert client.see(name, "state")["promise"]["baseline"] == ACTIONS[3]
    assert client.see(name, "config")["options"]["baseline"] == ACTIONS[3]
    lines = client.get("/metrics").text.splitlines()
    assert f'holdcourse_promise_allowed{{controller="{name}"}} 40' in lines
    client.change(name, options={"at_most": "none"})
    assert client.see(name, "state")["promise"] is None


def test_the_best_of_the_history_is_a_baseline(client, name):
    history = [[k % 5, 0.0, 100.0 + 4 * (k % 5 - 3) ** 2] for k in range(20)]
    client.create(id=name, **(PLANT | {"options": {"baseline": "history"}, "history_index": history}))
    assert "the bill of fixed at 3" in client.see(name, "state")["explains_itself"].lower()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"baseline_index": 9}, "baseline_index=9 is not an index"),
        ({"baseline": "history"}, "give history"),
        ({"baseline": "operators"}, "baseline='operators' is not a setting"),
        ({"at_most": -0.1}, "options.at_most"),
        ({"at_most": "all"}, "options.at_most"),
        ({"budget": -1.0}, "options.budget"),
        ({"guard": {"deviations": 0.0}}, "options.guard.deviations"),
        ({"guard": 3.0}, "options.guard"),
    ],
)
def test_options_that_make_no_sense(client, name, options, words):
    assert words in client.create(status=422, id=name, **(PLANT | {"options": options}))["message"]


def test_a_policy_without_a_promise_takes_no_baseline(client, name):
    config = {"policy": "stationary", "options": {"baseline_index": 1}}
    assert "does not take the option 'baseline_index'" in client.create(status=422, id=name, **config)["message"]
