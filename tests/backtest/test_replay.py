"""Another policy in a recorded run whose prices were changed, or that goes on from an earlier record."""

from __future__ import annotations

import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.backtest import replay as module
from holdcourse.running.events import Redirect
from holdcourse.running.log import Log
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.requests import AskGiven, Config
from holdcourse.service.core.status import Clock

KERNEL = hc.Kernel(RBF(1.0), RBF(0.5))
KNOWN = {"kernel": KERNEL, "noise_std": 0.1}


def drive(controller, rounds):
    for t in range(rounds):
        decision = controller.ask(context=0.1 * (t % 7))
        controller.tell(decision.id, 1.0 + (decision.value - 0.1 * (t % 7)) ** 2)


@pytest.fixture
def made_with(monkeypatch):
    """The prices that the other policies were made with."""
    found, make = [], module.recipe.make

    def made(given, trust=()):
        policy = make(given, trust)
        found.append(policy.problem.scale.tolist())
        return policy

    monkeypatch.setattr(module.recipe, "make", made)
    return found


@pytest.mark.parametrize("other", ["proximal-lcb", "gp-md"])
def test_rounds_before_other_prices_are_replayed_as_if_the_record_ended_there(tmp_path, other):
    paths = [tmp_path / "whole.log", tmp_path / "short.log"]
    for path in paths:
        with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), **KNOWN), log=path) as controller:
            drive(controller, 8)
            if path == paths[0]:
                controller.change(scale=50.0)
                drive(controller, 4)
    whole, short = (hc.replay(path, other) for path in paths)
    assert (whole.rounds, whole.ended_by, short.ended_by) == (8, "a change of prices", None)
    for bill in ("recorded", "other", "optimum"):
        assert getattr(whole, bill).total == getattr(short, bill).total
    assert whole.measured == short.measured


def test_at_prices_changed_before_the_first_round_the_other_policy_has_the_new_ones(tmp_path, made_with):
    with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), **KNOWN), log=tmp_path / "a.log") as controller:
        controller.change(scale=50.0)
        drive(controller, 6)
        controller.change(limits=hc.Limits(min_dwell=2))  # other limits end no replay
        drive(controller, 6)
    found = hc.replay(tmp_path / "a.log", "proximal-lcb")
    assert (found.rounds, found.ended_by) == (12, None)
    assert made_with[-1] == [50.0]


def test_a_new_episode_ends_a_replay_and_it_is_said(tmp_path):
    with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), **KNOWN), log=tmp_path / "a.log") as controller:
        drive(controller, 3)
        controller.new_episode(1.0)
        drive(controller, 2)
    found = hc.replay(tmp_path / "a.log", "cgp-lcb")
    assert (found.rounds, found.ended_by) == (3, "a new episode")


def test_a_round_of_an_earlier_record_may_have_been_redirected_in_this_one(tmp_path):
    seconds = [0.0]
    clock = Clock(lambda: 1.8e9 + seconds[0], lambda: 50.0 + seconds[0])
    store = DataFolder(tmp_path / "data")
    given = {"id": "mill", "actions": [0.0, 0.5, 1.0], "policy": "gp-md", "deadline_s": 60, "fallback": 1.0}
    given["options"] = {"kernel": KERNEL.to_json(), "noise_std": 0.1}
    epochs.begin(store, configuration.settings_of(Config.model_validate(given)), None)
    hosted = Hosted(store, "mill", clock)
    try:
        hosted.ask(AskGiven(context=0.3), None)
        hosted.change({"limits": {"min_dwell": 2}}, None)
        seconds[0] += 61.0
        hosted.watch()
        hosted.tell("r0", 1.0)
        for number in (1, 2):
            hosted.ask(AskGiven(context=0.3), None)
            hosted.tell(f"r{number}", 1.0)
        path = store.epochs("mill")[-1]
    finally:
        hosted.close()
        store.close()
    log = Log.read(path)
    assert [event.body.round for event in log.events() if isinstance(event.body, Redirect)] == [0]
    log.close()
    found = hc.replay(path, "stationary")
    assert found.rounds == 2
    assert found.other.movement == 0.0  # it stays where the machine is when the first round of this record is asked
    assert found.measured == (3.0, 3)
