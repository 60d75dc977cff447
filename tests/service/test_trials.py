"""Trials over HTTP: begun and ended on a running controller, proved from its record, answered."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from service.running import KERNEL

import holdcourse as hc
from holdcourse.errors import Conflict
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Hosted, SettingGiven
from holdcourse.service.core.requests import AskGiven, Config
from holdcourse.trials.record import read_trial


def turns(client, name, rounds, applied=None):
    """Decide and tell rounds; returns the answers."""
    answers = []
    for t in range(rounds):
        answer = client.do(name, "ask", context=0.1 * (t % 7))
        answers.append(answer)
        told = {} if answer["act"] or applied is None else {"applied": applied}
        body = {"decision": answer["decision"], "measurement": 1.0 + 0.1 * (t % 3), "reference": float(t % 5)}
        client.do(name, "tell", **body, **told)
    return answers


def test_a_trial_begins_and_ends_on_a_running_controller(client, name):
    client.create(id=name, start_index=0)
    turns(client, name, 4)
    state = client.change(name, trial={"block": 2, "baseline_index": 1, "heard": 0.4})
    assert (state["epoch"], state["round"]) == (2, 4)
    assert client.see(name, "state")["trial"]["heard"] == 0.4
    rows = turns(client, name, 12)
    arms = [row["turn"]["arm"] for row in rows]
    assert [row["turn"]["block"] for row in rows] == [block for block in range(6) for _ in range(2)]
    assert [arms[4 * pair] + arms[4 * pair + 2] for pair in range(3)] == [1, 1, 1]
    assert client.see(name, "config")["trial"]["block"] == 2
    assert client.change(name, trial=None)["epoch"] == 3
    assert client.do(name, "ask", context=0.3)["turn"] is None
    found = client.see(name, "verify", full=True)
    assert found["ok"], found


def test_people_run_the_machine_in_their_blocks(client, name):
    client.create(id=name, start_index=0, trial={"block": 1, "operators": True})
    rows = turns(client, name, 8, applied=0.0)
    for row in rows:
        people = row["turn"]["arm"] == 0
        assert (row["act"], row["reason"]) == (not people, "trial" if people else None)
    assert client.see(name, "verify", full=True)["ok"]


def test_a_policy_from_a_file_goes_on_trial_and_comes_back(client, name, tmp_path):
    hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), kernel=KERNEL, noise_std=0.1).save(tmp_path / "mine.policy")
    content = base64.b64encode((tmp_path / "mine.policy").read_bytes()).decode()
    made = client.post("/controllers", json={"id": name, "policy_file": content, "start": 0.5})
    assert made.status_code == 201, made.text
    turns(client, name, 3)
    assert client.change(name, trial={"block": 1, "baseline_policy": "planner"})["epoch"] == 2
    turns(client, name, 6)
    assert client.change(name, trial={"block": 3})["epoch"] == 3
    turns(client, name, 6)
    assert client.change(name, trial=None)["epoch"] == 4
    turns(client, name, 2)
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"block": 0}, "block"),
        ({"block": 2, "blocks": 3}, "multiple of 2"),
        ({"block": 2, "heard": 1.5}, "less than or equal to 1"),
        ({"block": "6 h"}, "say how long a round is"),
        ({"block": 2, "baseline": 0.123}, "0.123"),
        ({"block": 2, "baseline_index": 1, "operators": True}, "give at most one of baseline"),
    ],
)
def test_what_is_no_trial_is_refused(client, name, terms, words):
    client.create(id=name)
    assert words in str(client.change(name, trial=terms, status=422))


def test_a_block_is_as_long_as_a_time(client, name):
    client.create(id=name, limits={"round_length": "30 min"}, trial={"block": "2 h"})
    assert client.see(name, "config")["trial"]["block"] == 4


def test_the_answer_is_read_from_the_record(client, name):
    client.create(id=name, start_index=0)
    assert client.see(name, "trial") == {"trial": None}
    client.change(name, trial={"block": 1, "baseline_index": 0}, limits={"round_length": "1 h"})
    turns(client, name, 40)
    client.change(name, limits={"min_dwell": 2})  # a new epoch, in which the trial goes on
    turns(client, name, 20)
    found = client.see(name, "trial")["trial"]
    assert (found["pairs"], found["rounds"], found["against"]) == (30, 1, "fixed at 0")
    assert found["verdict"] in ("it pays", "it does not pay", "undecided")
    assert "the reference" in found["adjusted_by"]
    assert "the time of the cycle" in found["adjusted_by"]
    assert len(found["looks"]["always_low"]) == len(found["net"]) == len(found["began"]) == 30
    assert (found["over"], found["until"] is None) == (False, False)
    client.change(name, trial=None)
    ended = client.see(name, "trial")["trial"]
    assert ended["over"]
    assert (ended["pairs"], ended["gain"], ended["until"]) == (30, found["gain"], found["until"])
    turns(client, name, 3)
    assert client.see(name, "trial")["trial"] == ended
    client.change(name, trial={"block": 1, "baseline_index": 0})  # another one, of the same arms
    assert client.see(name, "trial")["trial"]["pairs"] == 0


def test_a_trial_goes_on_under_other_limits_whatever_was_learned(client, name):
    """The policy that people have by default chooses anew which setting it would hold, from all that was told."""
    client.create(id=name, policy="recommended", options={}, start_index=0, trial={"block": 1, "baseline_index": 0})
    for t in range(12):
        decision = client.do(name, "ask", context=0.1 * (t % 7))
        client.do(name, "tell", decision=decision["decision"], measurement=2.0 - decision["action"])
    for limits in ({"min_dwell": 2}, {"max_step": 0.5}):
        client.change(name, limits=limits)
        turns(client, name, 4)
    assert client.see(name, "trial")["trial"]["pairs"] == 10


@pytest.fixture
def hosted(tmp_path):
    """Opens controllers of three settings on a trial, as the service does, without HTTP."""
    there = []

    def open_(**config):
        store = DataFolder(tmp_path / f"data{len(there)}")
        given = {"id": "mill", "actions": [0.0, 0.5, 1.0], "policy": "gp-md"} | config
        given.setdefault("options", {"kernel": KERNEL.to_json(), "noise_std": 0.1})
        epochs.begin(store, configuration.settings_of(Config.model_validate(given)), None)
        there.append((store, Hosted(store, "mill")))
        return there[-1]

    yield open_
    for store, controller in there:
        controller.close()
        store.close()


def play(controller, rounds, wrong=()):
    """Ask and tell rounds; returns whose turns they were, and which of them the other arm heard."""
    found = []
    for t in range(rounds):
        number = controller.controller.session.round
        controller.ask(AskGiven(context=0.1 * (t % 7)), None)
        turn = controller.controller.entry(f"r{number}").decision.turn
        found.append((turn.whose, turn.heard))
        controller.tell(f"r{number}", 1e6 if number in wrong else 1.0 + 0.1 * (t % 3))
    return found


def costs_in(store):
    return read_trial(*store.epochs("mill")).blocks.cost


OTHER_LIMITS = {"limits": {"max_step": 1.0}}


@pytest.mark.parametrize("then", [{}, {"trial": None}, {"trial": None, "actions": [0.0, 1.0]}])
def test_a_measurement_that_a_later_epoch_takes_back_does_not_count(hosted, then):
    store, controller = hosted(trial={"block": 2, "baseline": 0.5})
    play(controller, 8, wrong=(3,))
    controller.change(OTHER_LIMITS, None)
    play(controller, 4)
    assert costs_in(store)[3] == 1e6
    if then:  # the trial is over; its answer still must not count it
        changes = configuration.with_indices(then, lambda: controller._problem)
        controller.change(changes, None)
    controller.retract("r3", "the sensor was unplugged", None)
    costs = costs_in(store)
    assert np.flatnonzero(np.isnan(costs)).tolist() == [3]
    assert len(costs) == 12
    assert np.nanmax(costs) < 2.0


@pytest.mark.parametrize("then", [OTHER_LIMITS, {"trial": None}, {"trial": None, "actions": [1.0, 0.5, 0.0]}])
def test_a_round_that_is_told_in_the_next_epoch_is_not_lost(hosted, then):
    store, controller = hosted(trial={"block": 2, "baseline": 0.5})
    play(controller, 3)
    asked = controller.ask(AskGiven(context=0.3), None).answer
    controller.change(then, None)
    controller.tell(asked["decision"], 2.0, reference=8.1)
    controller.tell(asked["decision"], 2.0, reference=8.1)  # the same again is fine
    with pytest.raises(Conflict, match="reference"):
        controller.tell(asked["decision"], 2.0, reference=9.0)
    found = read_trial(*store.epochs("mill")).blocks
    assert (found.cost[3], found.reference[3, 0], found.lost.sum()) == (2.0, 8.1, 0)
    assert not found.overridden.any()


def test_where_it_ran_counts_too_and_cannot_be_told_in_other_settings(hosted):
    for settings, lost, elsewhere in (({}, False, True), ({"actions": [0.0, 1.0], "trial": None}, True, False)):
        store, controller = hosted(trial={"block": 2, "baseline": 0.5})
        play(controller, 3)
        asked = controller.ask(AskGiven(context=0.3), None).answer
        controller.change(OTHER_LIMITS | settings, None)
        other = 1.0 if asked["value"] != 1.0 else 0.0
        controller.tell(asked["decision"], 2.0, SettingGiven(other))
        found = read_trial(*store.epochs("mill")).blocks
        assert found.overridden[3] == elsewhere
        assert np.isnan(found.cost[3]) == lost


@pytest.mark.parametrize("settings", [{}, {"actions": [1.0, 0.5, 0.0]}])
def test_where_it_fell_back_to_cannot_be_told_in_other_settings(hosted, settings):
    store, controller = hosted(trial={"block": 2, "baseline": 0.5}, deadline_s=100.0, fallback_index=0)
    play(controller, 3)
    asked = controller.ask(AskGiven(context=0.3), None).answer
    controller.change({"trial": None} | settings, None)
    problem = controller.controller.session.policy.problem
    fallback = next(k for k in (0, 2) if problem.value(k) != asked["value"])
    controller.controller.redirect(fallback)  # as the watchdog does
    controller.recall()
    controller.tell(asked["decision"], 2.0)
    found = read_trial(*store.epochs("mill")).blocks
    assert np.isnan(found.cost[3]) == bool(settings)
    assert found.overridden[3] == (not settings)


def test_a_trial_between_names_is_not_told_in_other_names(hosted):
    table = [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    for names, lost in ((["a", "b", "c"], False), (["d", "c", "b", "a"], True), (["c", "b", "a"], True)):
        given = {"actions": None, "metric": table, "labels": ["a", "b", "c"]}
        store, controller = hosted(trial={"block": 2, "baseline": "b"}, policy="stationary", options={}, **given)
        play(controller, 3)
        asked = controller.ask(AskGiven(context=0.3), None).answer
        metric = (1.0 - np.eye(len(names))).tolist()
        controller.change({"trial": None, "metric": metric, "labels": names}, None)
        controller.tell(asked["decision"], 2.0, SettingGiven("a"))
        found = read_trial(*store.epochs("mill")).blocks
        assert np.isnan(found.cost[3]) == lost


def learned(controller):
    """How many measurements the policy and, where it learns, the baseline know."""
    model = controller.controller.session.pilot.model
    return [one.posterior.observations for one in getattr(model, "models", [model])]


@pytest.mark.parametrize("heard", [0.0, 0.4, 1.0])
def test_an_arm_hears_no_more_of_the_other_after_other_limits(hosted, heard):
    _, controller = hosted(trial={"block": 2, "baseline_policy": "cgp-lcb", "heard": heard})
    turns = play(controller, 12)
    own = [sum(whose == arm or known for whose, known in turns) for arm in ("policy", "baseline")]
    assert learned(controller) == own
    for limits in ({"min_dwell": 3}, {"min_dwell": 2}):
        controller.change({"limits": limits}, None)
        assert learned(controller) == own
    controller.change({"trial": None}, None)  # the trial is over: nothing is kept from anybody any more
    assert learned(controller) == [12]


def test_a_round_that_is_told_in_the_next_epoch_is_kept_from_the_other_arm(hosted):
    _, controller = hosted(trial={"block": 1, "baseline_policy": "cgp-lcb", "heard": 0.0})
    own = [0, 0]
    for dwell in range(2, 6):
        asked = controller.ask(AskGiven(context=0.3), None).answer
        own[asked["turn"]["whose"] == "baseline"] += 1
        controller.change({"limits": {"min_dwell": dwell}}, None)
        controller.tell(asked["decision"], 1.0)
        assert learned(controller) == own
    assert min(own) > 0
    assert hc.audit.verify(controller.store.epochs("mill")[-1]).verified


def test_another_trial_keeps_nothing_of_the_rounds_before_it(hosted):
    """A round of a trial that had all of its blocks is told in the next epoch, where another trial has begun."""
    _, controller = hosted(trial={"block": 1, "blocks": 2, "baseline_policy": "cgp-lcb", "heard": 0.0}, max_pending=3)
    for number in range(3):
        controller.ask(AskGiven(context=0.3, round=number), None)
    controller.change(OTHER_LIMITS, None)
    for number in range(3):
        controller.tell(f"r{number}", 1.0)
    assert learned(controller) == [3, 3]
    controller.change({"limits": {"min_dwell": 2}}, None)
    assert learned(controller) == [3, 3]


def test_another_trial_begins_with_everything(hosted):
    _, controller = hosted(trial={"block": 1, "blocks": 4, "baseline": 0.5, "heard": 0.0})
    play(controller, 4)
    assert learned(controller) == [2]
    controller.ask(AskGiven(context=0.3), None)  # all blocks are over: this is nobody's turn
    controller.tell("r4", 1.0)
    controller.change(OTHER_LIMITS, None)
    assert learned(controller) == [5]
    play(controller, 4)
    controller.change({"trial": {"block": 2, "baseline_index": 1, "heard": 0.0}}, None)
    assert learned(controller) == [9]


def test_the_arms_of_a_policy_from_a_file_keep_what_they_learned(hosted, tmp_path):
    hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), kernel=KERNEL, noise_std=0.1).save(tmp_path / "mine.policy")
    store = DataFolder(tmp_path / "file")
    given = {"id": "mill", "policy_file": base64.b64encode((tmp_path / "mine.policy").read_bytes()).decode()}
    config = Config.model_validate(given | {"trial": {"block": 2, "baseline_policy": "cgp-lcb", "heard": 0.0}})
    file = configuration.policy_file_of(config)
    epochs.begin(store, configuration.settings_of(config), None, None, file)
    controller = Hosted(store, "mill")
    try:
        turns = play(controller, 12)
        own = [sum(whose == arm for whose, _ in turns) for arm in ("policy", "baseline")]
        assert learned(controller) == own
        controller.change(OTHER_LIMITS, None)
        assert learned(controller) == own
        controller.change({"trial": None}, None)
        assert learned(controller) == [12]
    finally:
        controller.close()
        store.close()
