"""What comes from a plant is believed or not, and no call of it takes longer than it may."""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from bridge.interrupting import needs
from bridge.lines import Line
from bridge.rig import MOSQUITTO, answers, free_port, wait_for

from holdcourse.bridge import discovery
from holdcourse.bridge.bridgefile import BridgeFile, Source
from holdcourse.bridge.plant import PlantLost, in_plant_units, judged, plant_of, same_setting
from holdcourse.errors import InvalidInput

BASE = {
    "controller": "mill",
    "period": 60.0,
    "timeout": 0.5,
    "service": {"url": "http://127.0.0.1:1"},
    "heartbeat": {"node": "ns=2;s=Beat"},
    "setpoint": {"node": "ns=2;s=SetPoint"},
    "measurement": {"node": "ns=2;s=Power"},
    "control": {"node": "ns=2;s=Control"},
}
SPOKEN = {
    **{name: BASE[name] for name in ("controller", "period", "timeout", "service")},
    "heartbeat": {"topic": "plc/beat"},
    "setpoint": {"topic": "plc/set", "read_back": {"topic": "plc/taken"}, "as_json": True},
    "measurement": {"topic": "plc/power", "stale_after": 5},
    "permit": {"topic": "plc/permit"},
}


def over_mqtt(port, **more):
    about = {"host": "127.0.0.1", "port": port, "home_assistant": {"name": "Mill"}}
    return BridgeFile.model_validate({**SPOKEN, "mqtt": about, **more})


def over_opcua(port):
    return BridgeFile.model_validate({**BASE, "opcua": {"url": f"opc.tcp://127.0.0.1:{port}"}})


@pytest.fixture
def silent_port():
    """Accepts connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def broker(tmp_path):
    needs("mqtt")
    port = free_port()
    (tmp_path / "m.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = subprocess.Popen([MOSQUITTO, "-c", tmp_path / "m.conf"], stderr=subprocess.DEVNULL)
    wait_for(lambda: answers(port), "the broker")
    yield port
    process.terminate()
    process.wait(60)


@pytest.fixture
def listener(broker):
    """Somebody else at the broker, and what they heard: topic to payload and whether it was retained."""
    import paho.mqtt.client as paho

    client, heard = paho.Client(paho.CallbackAPIVersion.VERSION2), {}
    client.on_message = lambda _, __, message: heard.update({message.topic: (message.payload.decode(), message.retain)})
    client.connect("127.0.0.1", broker)
    client.subscribe("#", 1)
    client.loop_start()
    client.heard = heard
    yield client
    client.disconnect()
    client.loop_stop()


# -- what is believed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "age", "words"),
    [
        (None, 1.0, "there is no value"),
        (5.0, 61.0, "it is 61.0 s old, more than 60 s"),
        (5.0, None, "its age is not known"),
        (5.0, -60.1, "its time is 60.1 s in the future, more than 60 s; set the clocks of the plant and of this comp"),
        (5.0, -3600.0, "its time is 3600.0 s in the future"),
        (float("nan"), 1.0, "not a finite number"),
        (float("inf"), 1.0, "not a finite number"),
        ([1.0], 1.0, "is not a number"),
        (-0.6, 1.0, "-1.2 is below -1"),
        (5.1, 1.0, "10.2 is above 10"),
    ],
)
def test_what_is_not_believed(raw, age, words):
    found = judged(Source(node="x", low=-1, high=10, factor=2), raw, age)
    assert found.value is None
    assert words in found.trouble


def test_what_is_believed():
    source = Source(node="x", factor=0.5)
    assert judged(source, 5, 59.0).value == 2.5
    assert judged(source, 5, -59.0).value == 2.5  # clocks differ a little
    assert judged(Source(node="x", stale_after="never"), 5, -3600.0).value == 5.0
    assert judged(source, 5, 1.0, "its quality is Bad").value is None
    assert judged(Source(node="x", stale_after="never"), 5, None).value == 5.0


def test_settings_and_units():
    assert same_setting(1.0, 1, 1e-6)
    assert not same_setting(1.0, 1.01, 1e-6)
    assert not same_setting("high", 1.0, 1e-6)
    assert not same_setting(None, 1.0, 1e-6)
    file = BridgeFile.model_validate(
        {**BASE, "opcua": {"url": "opc.tcp://x"}, "setpoint": {"node": "x", "low": 0, "high": 5, "factor": 0.1}}
    )
    assert in_plant_units(file, 2.0) == pytest.approx(20.0)
    assert same_setting(float(np.float32(450.1)), 450.1, 0.0)
    assert (file.read_back.node, file.read_back.factor) == ("x", 0.1)
    for value, words in ((5.5, "outside the bounds"), ([1.0, 2.0], "several parts")):
        with pytest.raises(InvalidInput, match=words):
            in_plant_units(file, value)


def test_values_become_what_a_node_takes():
    needs("opcua")
    from asyncua import ua

    from holdcourse.bridge.opcua import _converted  # private: what is sent cannot be seen otherwise

    kinds = ua.VariantType
    assert _converted(70_000, kinds.UInt16, "heartbeat") == 70_000 - 65_536
    assert _converted(3, kinds.Boolean, "heartbeat") is True
    assert _converted(4, kinds.Boolean, "heartbeat") is False
    assert _converted(True, kinds.Boolean, "control") is True
    assert _converted(7.0, kinds.Int32, "setpoint") == 7
    assert _converted(7.5, kinds.Float, "setpoint") == 7.5
    assert _converted("high", kinds.String, "setpoint") == "high"
    for value, kind, words in ((7.5, kinds.Int32, "whole numbers"), ("high", kinds.Double, "takes numbers")):
        with pytest.raises(InvalidInput, match=words):
            _converted(value, kind, "setpoint")


def test_messages_are_read_by_field_time_and_quality():
    needs("mqtt")
    from holdcourse.bridge.mqtt import Message, _read  # private: a broker could only show one case after the other

    def read(payload, *, retained=False, **source):
        return _read(Source(topic="t", **source), Message(payload, 100.0, retained), 101.0)

    assert read(b"5.5").value == 5.5
    assert read(b"ON").value is True
    assert read(b"").trouble == "there is no value"
    assert "its age is not known" in read(b"5.5", retained=True).trouble
    assert read(b"5.5", retained=True, stale_after="never").value == 5.5
    fields = {"field": "a.0.v", "quality_field": "q", "time_field": "t"}
    now = datetime.now(UTC)
    said = {"a": [{"v": 3}], "q": 192, "t": now.isoformat()}
    assert read(json.dumps(said).encode(), retained=True, **fields).value == 3.0
    assert read(json.dumps(said | {"t": now.timestamp() * 1000}).encode(), **fields).value == 3.0
    old = said | {"t": (now - timedelta(hours=1)).isoformat()}
    assert "s old, more than 60 s" in read(json.dumps(old).encode(), **fields).trouble
    assert read(json.dumps(said | {"q": "bad"}).encode(), **fields).trouble == "its quality is 'bad'"
    for wrong in ({"a": []}, {"q": 192}, said | {"t": "2026-01-01T00:00:00"}, [1]):
        assert "cannot be read" in read(json.dumps(wrong).encode(), **fields).trouble
    assert "cannot be read" in read(b"\xff{", **fields).trouble


# -- nothing hangs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["opcua", "mqtt"])
def test_a_server_that_never_answers_is_given_up_in_time(kind, silent_port):
    needs(kind)
    plant = plant_of(over_opcua(silent_port) if kind == "opcua" else over_mqtt(silent_port), Path())
    before = threading.active_count()
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(PlantLost):
            plant.connect()
        assert time.monotonic() - began < 3.0
    plant.close()
    wait_for(lambda: threading.active_count() <= before, "the threads of what hung to end", 10)


def test_a_lost_connection_leaves_no_sockets(silent_port):
    """A bridge tries again for months; sockets that wait for Python to look for circles could run out."""
    pytest.importorskip("paho.mqtt.client")
    plant = plant_of(over_mqtt(silent_port), Path())
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(2):
            with pytest.raises(PlantLost, match="did not answer"):
                plant.connect()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["opcua", "mqtt"])
def test_nobody_listens(kind):
    needs(kind)
    plant = plant_of(over_opcua(free_port()) if kind == "opcua" else over_mqtt(free_port()), Path())
    with pytest.raises(PlantLost):
        plant.connect()
    with pytest.raises(PlantLost):
        plant.read()
    plant.close()


def test_the_broker_does_not_return_the_heartbeat(broker):
    line = Line(broker)
    with contextlib.closing(line), contextlib.closing(plant_of(over_mqtt(line.port), Path())) as plant:
        plant.connect()
        plant.write("heartbeat", 7)
        wait_for(lambda: plant.read()["heartbeat"].value == 7, "its own heartbeat")
        line.hole()
        began = time.monotonic()
        with pytest.raises(PlantLost):
            plant.write("setpoint", 2.0)
        with pytest.raises(PlantLost):
            plant.connect()
        assert time.monotonic() - began < 4.0


# -- what others see ---------------------------------------------------------------------------------------------------

# What the documentation of Home Assistant names for these entities, as far as it is used here.
ENTITY = {"name", "unique_id", "icon", "availability", "device", "origin", "qos", "state_topic", "value_template"}
ALLOWED = {
    "sensor": ENTITY | {"unit_of_measurement"},
    "binary_sensor": ENTITY | {"device_class", "payload_on", "payload_off", "json_attributes_topic"},
    "switch": ENTITY | {"command_topic", "payload_on", "payload_off", "retain"},
}
REQUIRED = {"sensor": {"state_topic"}, "binary_sensor": {"state_topic"}, "switch": {"command_topic"}}


def test_what_home_assistant_is_told():
    found = discovery.payloads(over_mqtt(1), "status", "state", "Hz", "kWh")
    assert len({payload["unique_id"] for _, payload in found}) == len(found) == 8
    for topic, payload in found:
        prefix, component, node, name, end = topic.split("/")
        assert (prefix, node, end) == ("homeassistant", "holdcourse_mill", "config")
        assert payload["unique_id"] == f"{node}_{name}"
        assert set(payload) <= ALLOWED[component]
        assert REQUIRED[component] | {"unique_id", "availability", "device", "origin"} <= set(payload)
        assert payload["device"]["identifiers"] == ["holdcourse_mill"]
        assert payload["origin"]["name"] == "holdcourse"
        (available,) = payload["availability"]
        assert set(available) == {"topic", "value_template", "payload_available", "payload_not_available"}
        assert json.loads(json.dumps(payload)) == payload
    by_name = {topic.split("/")[3]: payload for topic, payload in found}
    assert by_name["setting"]["unit_of_measurement"] == "Hz"
    estimates = [name for name in by_name if "gain" in name]
    assert estimates == ["estimated_gain", "estimated_gain_low", "estimated_gain_high"]
    assert {by_name[name]["unit_of_measurement"] for name in estimates} == {"kWh"}
    assert all(by_name[name]["name"].startswith("Estimated") for name in estimates)
    assert by_name["permit"]["command_topic"] == "plc/permit"
    assert by_name["permit"]["retain"] is True


def test_entities_are_announced_and_a_last_will_takes_control_back(broker, listener):
    line = Line(broker)
    with contextlib.closing(line), contextlib.closing(plant_of(over_mqtt(line.port), Path())) as plant:
        plant.connect()
        plant.show({"setting": 2.0, "mode": "act", "unit": "Hz", "gain_unit": "kWh"})
        plant.write("control", True)
        plant.write("setpoint", 2.0, {"decision": "r7"})
        status = "holdcourse/mill/status"
        wait_for(lambda: listener.heard.get(status) == ("control", False), "the status")
        wait_for(lambda: "plc/set" in listener.heard, "the set-point")
        said = json.loads(listener.heard["plc/set"][0])
        assert (said["value"], said["decision"]) == (2.0, "r7")
        announced = {topic for topic, _ in discovery.payloads(over_mqtt(line.port), "", "")}
        assert {topic for topic in listener.heard if topic.startswith("homeassistant/")} == announced
        listener.publish("plc/power", "3.5", 1, retain=True)
        wait_for(lambda: plant.read()["measurement"].value == 3.5, "a value")
        line.cut()  # as if it had died
        wait_for(lambda: listener.heard[status][0] == "offline", "the last will")
        time.sleep(0.1)
        with pytest.raises(PlantLost, match="the connection ended"):
            plant.read()
        plant.connect()
        wait_for(lambda: "its age is not known" in plant.read()["measurement"].trouble, "the retained value")
        assert plant.read()["control"].value is False


def test_a_server_that_wants_a_password(tmp_path):
    needs("opcua")
    with password_server() as port:
        for secret, is_let_in in (("right", True), ("wrong", False)):
            (tmp_path / "password").write_text(secret + "\n")
            about = {"url": f"opc.tcp://127.0.0.1:{port}", "user": "bridge", "password_file": "password"}
            plant = plant_of(BridgeFile.model_validate({**BASE, "opcua": about, "timeout": 5.0}), tmp_path)
            with contextlib.closing(plant):
                if is_let_in:
                    plant.connect()
                    plant.write("setpoint", 4.0)
                    assert plant.read()["setpoint"].value == 4.0
                else:
                    with pytest.raises(
                        PlantLost, match=r"^opc.tcp://127.0.0.1:\d+ does not let in the user 'bridge', or"
                    ):
                        plant.connect()


@contextlib.contextmanager
def password_server():
    """An OPC UA server in a thread that lets in one user."""
    import asyncio

    from asyncua import Server, ua
    from asyncua.crypto.permission_rules import User, UserRole

    class Users:
        def get_user(self, iserver, username=None, password=None, certificate=None):
            return User(role=UserRole.Admin) if (username, password) == ("bridge", "right") else None

    port, ready, ended = free_port(), threading.Event(), threading.Event()

    async def serve():
        server = Server(user_manager=Users())
        await server.init()
        server.set_endpoint(f"opc.tcp://127.0.0.1:{port}")
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        await server.register_namespace("urn:holdcourse:test")
        for name, first in (("Beat", 0), ("SetPoint", 1.0), ("Power", 1.0), ("Control", False)):
            node = await server.nodes.objects.add_variable(ua.NodeId(name, 2), name, first)
            await node.set_writable()
        async with server:
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        yield port
    finally:
        ended.set()
        thread.join(20)


def test_certificates_lie_beside_the_bridge_file_wherever_it_is_started(tmp_path, monkeypatch):
    pytest.importorskip("asyncua")
    from asyncua.client.client import Client

    from holdcourse.bridge.opcua import in_folder

    asked = []

    async def remembered(self, text):
        asked.append(text)
        raise ConnectionError("far enough")

    monkeypatch.setattr(Client, "set_security_string", remembered)
    monkeypatch.chdir("/")
    security = "Basic256Sha256, SignAndEncrypt,own/bridge.der,/etc/keys/bridge.pem::secret,plc.der"
    given = {**BASE, "opcua": {"url": "opc.tcp://127.0.0.1:1", "security": security}}
    with pytest.raises(PlantLost, match="closed the connection"):
        plant_of(BridgeFile.model_validate(given), tmp_path).connect()
    files = f"{tmp_path}/own/bridge.der,/etc/keys/bridge.pem::secret,{tmp_path}/plc.der"
    assert asked == [f"Basic256Sha256,SignAndEncrypt,{files}"]
    with pytest.raises(InvalidInput, match="has a comma in its name"):
        in_folder("Basic256Sha256,Sign,a.der,a.pem", tmp_path / "mill, north")
    assert in_folder("Basic256Sha256,Sign", tmp_path) == "Basic256Sha256,Sign"  # asyncua says what is missing
