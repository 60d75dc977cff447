"""Clocks that are set: deadlines do not move with them, and it is said that they were."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from service.running import QUICK, Client, served, wait_for

from holdcourse.errors import InvalidInput
from holdcourse.running.log import Log
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.requests import AskGiven, Config, Profile
from holdcourse.service.core.status import STEADY_S, Clock

HOUR = 3600.0

FALLEN = {"action": 2, "value": 2.0, "reason": "fallback", "limited_by": None, "forced": None}


class Hands(Clock):
    """Clocks that stand still until they are moved."""

    def __init__(self):
        self.seconds, self.set_by = 0.0, 0.0
        super().__init__(lambda: 1.8e9 + self.seconds + self.set_by, lambda: 50.0 + self.seconds)

    def passes(self, seconds):
        """Time passes, and everybody looks at the clock now and then."""
        self.step()
        self.seconds += seconds
        self.step()

    def is_set(self, seconds):
        self.step()
        self.set_by += seconds


@pytest.fixture
def clock():
    return Hands()


@pytest.fixture
def store(tmp_path):
    folder = DataFolder(tmp_path / "data")
    yield folder
    folder.close()


@pytest.fixture
def opened(store, clock):
    """Opens the controller "a", with a deadline of 100 s; again if it is open."""
    there = []

    def open_(with_clock=clock):
        while there:
            there.pop().close()
        there.append(Hosted(store, "a", with_clock))
        return there[0]

    given = QUICK | {"id": "a", "deadline_s": 100.0, "fallback_index": 2}
    epochs.begin(store, configuration.settings_of(Config.model_validate(given)), None)
    yield open_
    while there:
        there.pop().close()


def kinds(hosted):
    """Open alarms, after a look of the watchdog."""
    hosted.watch()
    assert not hosted.view.has_unreported
    return sorted(hosted.ledger.alarms)


def ask(hosted):
    return hosted.ask(AskGiven(context=0.5), None).answer["decision"]


@pytest.mark.parametrize("looked", [False, True])
def test_a_late_profile_is_booked_where_the_machine_fell_back_to(tmp_path, clock, looked):
    """Whether the watchdog looked before the late tell or within it, the same is learned."""
    content = (Path(__file__).parents[1] / "data" / "site.policy").read_bytes()
    given = {"id": "kite", "policy_file": base64.b64encode(content).decode(), "deadline_s": 100.0}
    config = Config.model_validate(given | {"start_index": 0, "fallback_index": 2})
    store, file = DataFolder(tmp_path / "data"), configuration.policy_file_of(config)
    epochs.begin(store, configuration.settings_of(config), None, None, file)
    hosted = Hosted(store, "kite", clock)
    try:
        asked = hosted.ask(AskGiven(context=440500.0), None).answer
        heights = file.problem.actions[:, 0].tolist()
        assert asked["action"] != 2
        clock.passes(101)
        if looked:
            hosted.watch()
        wrong = Profile(heights=[1.0], speeds=[1.0])
        with pytest.raises(InvalidInput, match="covers none"):
            hosted.tell(asked["decision"], None, profile=wrong)
        assert hosted.view.has_unreported == (not looked)  # a refused tell has changed nothing
        profile = Profile(heights=heights, speeds=[5.0 + k for k in range(len(heights))])
        done = hosted.tell(asked["decision"], None, profile=profile)
        assert done.answer["assumed"] == "fallback"
        told = hosted.records.told(asked["decision"]).event.body
        assert (told.extra.taken, told.measurement) == (2, pytest.approx(7.0))
        assert [action for action, _ in told.also] == [k for k in range(len(heights)) if k != 2]
        again = hosted.tell(asked["decision"], None, profile=profile)
        assert again.happened == []
    finally:
        hosted.close()
        store.close()


@pytest.mark.parametrize("step", [10 * 365 * 24 * HOUR, -10 * 365 * 24 * HOUR])
def test_a_clock_that_is_set_commands_no_fallback_and_blinds_nobody(opened, clock, step):
    hosted = opened()
    ask(hosted)
    clock.passes(60)
    clock.is_set(step)
    assert hosted.view.has_unreported
    assert kinds(hosted) == ["clock"]
    assert f"set {'forward' if step > 0 else 'back'} by 315360000 s" in hosted.ledger.alarms["clock"].message
    state = hosted.view.state()
    assert (state["status"], state["instruction"]["reason"]) == ("waiting", "decision")
    assert hosted.view.seconds_since() == 60.0
    clock.passes(41)  # the deadline is over, by whatever clock
    assert hosted.view.has_unreported
    assert kinds(hosted) == ["clock", "stale"]
    assert hosted.view.state()["instruction"] == FALLEN


def test_the_alarm_is_cleared_when_the_clock_is_steady_again(opened, clock):
    hosted = opened()
    clock.is_set(HOUR)
    assert kinds(hosted) == ["clock"]
    clock.passes(STEADY_S - 1)
    clock.is_set(-HOUR)  # mended: another step
    assert kinds(hosted) == ["clock"]
    clock.passes(STEADY_S - 1)
    assert kinds(hosted) == ["clock"]
    clock.passes(2)
    assert hosted.view.has_unreported
    assert kinds(hosted) == []


def test_a_clock_that_is_only_too_fast_is_no_alarm(opened, clock):
    hosted = opened()
    for _ in range(100):
        clock.passes(10)
        clock.is_set(1.0)
    assert kinds(hosted) == []


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_silence_is_counted_by_the_time_that_passed(opened, clock, step):
    hosted = opened()
    hosted.tell(ask(hosted), 1.0)
    clock.passes(60)
    clock.is_set(step)
    assert kinds(hosted) == ["clock"]
    clock.passes(41)
    assert kinds(hosted) == ["clock", "silent"]
    assert hosted.view.status() == "silent"
    ask(hosted)
    assert kinds(hosted) == ["clock"]


def test_after_a_restart_the_record_says_how_old_a_decision_is(opened, clock):
    ask(opened())
    clock.passes(60)
    hosted = opened()
    assert kinds(hosted) == []
    clock.passes(41)
    assert kinds(hosted) == ["stale"]
    assert hosted.view.seconds_since() == 101.0


def test_a_record_that_ends_in_the_future_gets_its_deadlines_anew(opened, clock):
    clock.is_set(HOUR)
    ask(opened())
    clock.passes(90)
    restarted = Hands()  # a new process, and the clock was mended
    restarted.seconds = clock.seconds
    hosted = opened(restarted)
    assert kinds(hosted) == ["clock"]
    assert "ended 3510 s in the future" in hosted.ledger.alarms["clock"].message
    restarted.passes(61)
    assert kinds(hosted) == []
    restarted.passes(38)
    assert kinds(hosted) == []
    restarted.passes(2)
    assert kinds(hosted) == ["stale"]  # as 3 is: the watchdog is not blind until the record's time has come


def test_a_deadline_goes_on_in_the_next_epoch(opened, clock):
    hosted = opened()
    ask(hosted)
    clock.passes(60)
    clock.is_set(-HOUR)
    hosted.change({"limits": {"min_dwell": 2}}, None)
    clock.passes(41)
    assert kinds(hosted) == ["clock", "stale"]


def test_times_of_a_record_go_back_only_with_a_clock_that_was_set(opened, clock, store):
    hosted = opened()
    for seconds in (0.0, -2.0, 1.0, -HOUR, 1.0):
        clock.is_set(seconds)
        clock.passes(0.5)
        hosted.tell(ask(hosted), 1.0)
    hosted.watch()
    log = Log.read(store.epochs("a")[-1])
    events = list(log.events(after=1))
    log.close()
    times = [event.at for event in events]
    back = [k for k in range(1, len(times)) if times[k] < times[k - 1]]
    assert len(back) == 1  # where it was set back by an hour; 2 seconds were waited for
    assert [event.body.kind for event in events if event.kind == "note"] == ["clock"]


def test_a_server_says_that_its_clock_was_set(tmp_path, clock):
    with served(tmp_path / "data", clock=clock) as url, Client(url) as client:
        client.create(id="a", deadline_s=100.0, fallback_index=2)
        client.do("a", "ask", context=0.5)
        clock.is_set(HOUR)
        wait_for(lambda: client.see("a", "alarms")["alarms"], "the watchdog")
        (alarm,) = client.see("a", "alarms")["alarms"]
        assert (alarm["kind"], alarm["cleared_at"]) == ("clock", None)
        assert client.see("a", "state")["status"] == "waiting"
