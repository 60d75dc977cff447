"""What a bridge does in every mode, with a real service, at a plant that is simulated in this process."""

from __future__ import annotations

import itertools
import logging
import time

import pytest
from service.running import Client, served

import holdcourse as hc
from holdcourse.bridge.bridge import Bridge
from holdcourse.bridge.bridgefile import BridgeFile
from holdcourse.bridge.check import checked
from holdcourse.bridge.plant import PlantLost, Reading
from holdcourse.errors import ServiceError

NUMBERS = itertools.count()
FILE = {
    "period": 0.3,
    "timeout": 1.0,
    "grace": 0.01,
    "hold_off": 0.01,
    "least_share": 0.3,
    "service": {"url": "http://127.0.0.1:1", "look_every": 0.05, "lost_after": 5.0},
    "opcua": {"url": "opc.tcp://127.0.0.1:1"},
    "contexts": [{"name": "load", "node": "load"}],
    "measurement": {"node": "power"},
    "setpoint": {"node": "setpoint", "low": 0, "high": 3, "within": 0.2},
    "heartbeat": {"node": "beat", "every": 0.01},
    "control": {"node": "control"},
    "safe": {"setpoint": 1.0},
}


class SimulatedPlant:
    """Points that hold what was written to them; a machine that follows while it is controlled, else its operator."""

    def __init__(self):
        self.held = {"setpoint": 0.0, "heartbeat": 0, "control": False, "context load": 0.5}
        self.writes, self.by_hand, self.is_there, self.trouble = [], 2.0, True, {}

    def connect(self):
        if not self.is_there:
            raise PlantLost("it is switched off")

    def read(self):
        self.connect()
        if not self.held["control"]:
            self.held["setpoint"] = self.by_hand if self.by_hand is not None else self.held["setpoint"]
        found = {name: Reading(value) for name, value in self.held.items()}
        found["measurement"] = Reading(10.0 * float(self.held["setpoint"]))
        return found | {name: Reading(None, why) for name, why in self.trouble.items()}

    def write(self, point, value, about=None):
        self.connect()
        self.writes.append((point, value))
        self.held[point] = value
        if point == "setpoint":
            self.by_hand = None

    def show(self, state):
        self.shown = state

    def close(self):
        pass

    def written(self, point):
        return [value for name, value in self.writes if name == point]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service") / "data") as url:
        yield url


@pytest.fixture
def made(url):
    """Makes a bridge to a new controller."""
    bridges = []

    def make(dry_run=False, file=None, **settings):
        name = f"b{next(NUMBERS)}"
        with Client(url) as client:
            client.create(id=name, **{"mode": "act", "start": 0.0} | settings)
        parsed = BridgeFile.model_validate({**FILE, **(file or {}), "controller": name})
        remote = hc.connect(url, patience=0.0).controller(name)
        bridges.append(Bridge(parsed, SimulatedPlant(), remote, dry_run=dry_run))
        return bridges[-1]

    yield make
    for bridge in bridges:
        bridge.part()


def until(bridge, condition, what, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: {bridge.loss}, {bridge.plant.writes[-5:]}"
        bridge.tick()
        time.sleep(0.005)


def measured(bridge):
    return [row for row in bridge.remote.decisions() if row["measurement"] is not None]


def told(bridge):
    return [row for row in bridge.remote.decisions() if row["told_at"] is not None]


def test_it_acts_and_tells_what_ran(made):
    bridge = made()
    until(bridge, lambda: len(measured(bridge)) >= 2, "two rounds that are measured", 30)
    assert bridge.in_control
    assert bridge.plant.held["control"] is True
    beats = bridge.plant.written("heartbeat")
    assert all(after == before + 1 for before, after in itertools.pairwise(beats))
    rows = told(bridge)
    for row in rows:
        assert row["measurement"] in (None, pytest.approx(10 * row["value"]))
        assert row["key"].startswith(f"bridge/r{row['round']}/")
    bridge.part()
    assert bridge.plant.held["control"] is False
    assert bridge.plant.held["setpoint"] == 1.0  # the safe one


@pytest.mark.parametrize("mode", ["observe", "shadow", "advise"])
def test_where_operators_decide_it_moves_nothing_and_tells_what_they_did(made, mode):
    bridge = made(mode=mode, file={"advice": {"node": "advice"}})
    until(bridge, lambda: measured(bridge), "a round that is measured", 30)
    assert bridge.plant.written("setpoint") == []
    assert bridge.plant.written("heartbeat") == []
    assert set(bridge.plant.written("control")) == {False}
    assert bool(bridge.plant.written("advice")) == (mode == "advise")
    rows = told(bridge)
    assert {row["applied"] for row in rows} == {2.0}
    assert measured(bridge)[0]["measurement"] == pytest.approx(20.0)


def test_a_setting_that_is_none_of_the_controllers_is_not_told(made):
    bridge = made(mode="shadow")
    bridge.plant.by_hand = 2.5
    until(bridge, lambda: len(told(bridge)) >= 1, "a round")
    assert told(bridge)[0]["measurement"] is None


def test_another_mode_hands_back_at_once(made):
    bridge = made(file={"period": 60.0, "heartbeat": {"node": "beat", "every": 0.01}})
    until(bridge, lambda: bridge.in_control, "control")
    bridge.remote.mode("shadow")
    until(bridge, lambda: not bridge.in_control, "control to be handed back")
    assert bridge.plant.held["control"] is False
    count = len(bridge.plant.written("heartbeat"))
    until(bridge, lambda: bridge._looked > time.monotonic() - 0.02, "a look")  # only ticks
    assert len(bridge.plant.written("heartbeat")) == count
    assert 1.0 not in bridge.plant.written("setpoint")  # nothing was lost


def test_an_override_is_followed_at_once_and_spoils_the_round(made):
    bridge = made(file={"period": 2.0})
    until(bridge, lambda: bridge.in_control, "control")
    bridge.remote.override(3.0, "inspection")
    until(bridge, lambda: bridge.plant.held["setpoint"] == 3.0 and bridge.in_control, "the override")
    until(bridge, lambda: told(bridge), "the end of the round")
    (row, *_) = told(bridge)
    assert row["measurement"] is None
    assert row["applied"] == 3.0


def test_the_operators_switch_decides(made):
    bridge = made(file={"permit": {"node": "permit"}})
    bridge.plant.held["permit"] = False
    until(bridge, lambda: len(told(bridge)) >= 1, "a round")
    assert bridge.plant.written("setpoint") == []
    bridge.plant.held["permit"] = True
    until(bridge, lambda: bridge.in_control, "control")
    bridge.plant.held["permit"] = False
    until(bridge, lambda: not bridge.in_control, "control to be handed back")
    assert bridge.plant.held["control"] is False


def test_a_setting_beyond_the_bounds_is_never_written(made):
    bridge = made(file={"setpoint": FILE["setpoint"] | {"low": 0.5}})
    bridge.plant.write = beyond = Beyond(bridge)  # writes as the real plants do
    until(bridge, lambda: "outside the bounds" in bridge.loss, "a loss")
    assert not bridge.in_control
    assert all(value >= 0.5 for point, value in beyond.writes if point == "setpoint")


class Beyond:
    """Writes to a simulated plant, in its units."""

    def __init__(self, bridge):
        self.bridge, self.writes, self.plainly = bridge, [], bridge.plant.write

    def __call__(self, point, value, about=None):
        from holdcourse.bridge.plant import in_plant_units

        if point == "setpoint":
            value = in_plant_units(self.bridge.file, value)
        self.writes.append((point, value))
        self.plainly(point, value, about)


def test_a_dry_run_only_logs(made, caplog):
    caplog.set_level(logging.INFO, "holdcourse.bridge")
    bridge = made(dry_run=True)
    bridge.plant.held["control"] = True  # as a bridge that was killed left it
    until(bridge, lambda: "would write the set-point" in caplog.text, "what it would do")
    bridge.part()
    assert "would ask round 0 with [0.5]" in caplog.text
    assert bridge.plant.writes == []
    assert bridge.remote.state()["round"] == 0


def test_a_dry_run_leaves_a_pending_decision_alone(made, caplog):
    caplog.set_level(logging.INFO, "holdcourse.bridge")
    bridge = made(dry_run=True, file={"period": 0.1})
    bridge.remote.ask([0.4])
    time.sleep(0.3)
    until(bridge, lambda: caplog.text.count("would ask round 1") > 2, "what it would do")
    assert told(bridge) == []


def test_a_service_that_is_busy_for_a_moment_is_no_loss(made):
    bridge = made(file={"period": 5.0})
    until(bridge, lambda: bridge.in_control, "control")
    plainly, times = bridge.remote.state, itertools.count()

    def busy():
        if next(times) < 3:
            raise ServiceError("it is being opened", 503)
        return plainly()

    bridge.remote.state = busy
    until(bridge, lambda: next(times) > 4 or not bridge.in_control, "it to answer again")
    assert bridge.in_control


def test_a_service_that_refuses_is_a_loss(made):
    bridge = made(file={"period": 5.0})
    until(bridge, lambda: bridge.in_control, "control")

    def refuse():
        raise ServiceError("this token was revoked", 401)

    bridge.remote.state = refuse
    until(bridge, lambda: not bridge.in_control, "a loss")
    assert bridge.loss == "the service refuses: this token was revoked"


@pytest.mark.parametrize("lost", ["ask", "tell"])
def test_an_answer_that_is_lost_doubles_nothing(made, lost):
    """The request is carried out, and nobody hears of it."""
    bridge = made()
    plainly, times = getattr(bridge.remote, lost), itertools.count()

    def deaf(*given, **named):
        answer = plainly(*given, **named)
        if next(times) % 2 == 0:
            raise ServiceError("the line broke", None)
        return answer

    setattr(bridge.remote, lost, deaf)
    until(bridge, lambda: len(told(bridge)) >= 3, "three rounds")
    rows = bridge.remote.decisions()
    assert [row["round"] for row in rows] == list(range(len(rows)))
    assert all(row["measurement"] in (None, pytest.approx(10 * row["value"])) for row in told(bridge))


def test_a_bridge_that_starts_goes_on_with_what_is_pending_and_skips_what_is_over(made):
    bridge = made(file={"period": 1.5})
    pending = bridge.remote.ask([0.4])
    until(bridge, lambda: bridge.in_control, "control")
    assert bridge.remote.state()["round"] == 1
    assert bridge.plant.held["setpoint"] == pending.value
    until(bridge, lambda: told(bridge), "the end of the round")
    assert told(bridge)[0]["measurement"] is None  # nobody saw all of it
    late = made(file={"period": 0.2})
    late.remote.ask([0.4])
    time.sleep(0.5)
    late.plant.held["context load"], late.plant.trouble = None, {"context load": "away"}  # so that no other is asked
    until(late, lambda: told(late), "the old one to be skipped")
    assert late.plant.written("setpoint") == []


def test_a_second_bridge_is_noticed_by_its_heartbeat(made):
    bridge = made(file={"period": 5.0})
    until(bridge, lambda: bridge.in_control, "control")
    bridge.plant.held["heartbeat"] += 60
    until(bridge, lambda: "is a second bridge running" in bridge.loss, "a loss")
    assert not bridge.in_control


def test_somebody_else_who_writes_the_set_point_is_noticed(made):
    bridge = made(file={"period": 5.0})
    until(bridge, lambda: bridge.in_control, "control")
    bridge.plant.held["setpoint"] = 2.2
    until(bridge, lambda: "was not confirmed when read back: 2.2" in bridge.loss, "a loss")
    assert bridge.plant.held["control"] is False


@pytest.mark.parametrize(("point", "value"), [("control", False), ("setpoint", 2.2)])
def test_an_operator_who_takes_the_machine_has_it_until_the_next_round(made, point, value):
    bridge = made(file={"period": 2.0})
    until(bridge, lambda: bridge.in_control, "control")
    number = bridge.remote.state()["round"]
    bridge.plant.held[point] = value
    until(bridge, lambda: not bridge.in_control, "control to be handed back")
    until(bridge, lambda: bridge.in_control, "control again")
    assert bridge.remote.state()["round"] == number + 1
    assert told(bridge)[-1]["measurement"] is None


def test_a_plant_that_is_lost_in_control_is_made_safe_when_it_is_back(made):
    bridge = made(file={"period": 5.0})
    until(bridge, lambda: bridge.in_control, "control")
    bridge.plant.is_there = False
    until(bridge, lambda: not bridge.in_control, "the loss")
    bridge.plant.is_there, known = True, len(bridge.plant.writes)
    until(bridge, lambda: bridge.in_control, "control again")
    after = [each for each in bridge.plant.writes[known:] if each[0] != "heartbeat"]
    assert after[:3] == [("control", False), ("control", False), ("setpoint", 1.0)]
    assert after[-1] == ("control", True)


def test_contexts_come_in_the_controllers_order(made):
    both = [{"name": "moisture", "node": "m"}, {"name": "load", "node": "l"}]
    bridge = made(file={"contexts": both}, context_names=["load", "moisture"], options={})
    bridge.plant.held["context moisture"] = 0.1
    until(bridge, lambda: bridge.remote.decisions(), "a question")
    assert bridge.remote.decisions()[0]["context"] == [0.5, 0.1]


def test_other_names_of_contexts_are_a_loss_in_words(made):
    bridge = made(context_names=["wind"])
    until(bridge, lambda: "the controller's contexts are wind, but the file has load" in bridge.loss, "a loss")
    assert bridge.remote.state()["round"] == 0


def test_a_check_tries_everything_and_writes_nothing(made):
    bridge = made(context_names=["load"])
    lines, is_well = checked(bridge.file, bridge.plant, bridge.remote)
    assert is_well, lines
    assert "  ok    context load (load): 0.5" in lines
    bridge.plant.trouble["context load"] = "its quality is Bad"
    lines, is_well = checked(bridge.file, bridge.plant, bridge.remote)
    assert not is_well
    assert "  WRONG context load (load): its quality is Bad" in lines
    bridge.plant.trouble = {"setpoint": "its quality is BadNodeIdUnknown"}
    lines, is_well = checked(bridge.file, bridge.plant, bridge.remote)
    assert not is_well, "it could never take control"
    assert f"  WRONG setpoint ({bridge.file.read_back.address}): its quality is BadNodeIdUnknown" in lines
    assert bridge.plant.writes == []
