"""A plant's own controller, to be wired in: run as a program, ``plc.py opcua|mqtt PORT LOG``, and killed at will.

It follows the set-point only while the bridge says that it is in control and its heartbeat changes; otherwise it takes
its own safe value. What it measures is a share of the setting that runs, so a measurement tells of which setting it is.
It writes down, as lines of JSON, every change of what it was told and of what it does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

SAFE = 0.5
GAIN = 0.001  # what is measured is the setting that runs times this
WATCHDOG_S = 0.5
SCAN_S = 0.02
SILENT_FILE = "silent"  # beside the log: while it is there, the load is not measured any more
BAD_FILE = "bad"  # ... or measured with bad quality
DEAF_FILE = "deaf"  # ... or set-points are not taken


class Logic:
    """What the plant does, whatever it speaks."""

    def __init__(self, log):
        self.log, self.folder = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), os.path.dirname(log)
        self.told = {"setpoint": SAFE, "heartbeat": None, "control": False}
        self.taken, self.effective, self.beat_at = SAFE, SAFE, float("-inf")
        self.say({"start": True, "effective": SAFE})

    def say(self, what):
        os.write(self.log, (json.dumps({"at": time.time(), **what}) + "\n").encode())

    def has(self, name):
        return os.path.exists(os.path.join(self.folder, name))

    def hear(self, name, value):
        if self.told[name] != value:
            self.told[name] = value
            if name == "heartbeat":
                self.beat_at = time.monotonic()
            else:
                self.say({name: value})

    def scan(self):
        """One scan; returns the setting that runs."""
        if not self.has(DEAF_FILE):
            self.taken = self.told["setpoint"]
        is_alive = time.monotonic() - self.beat_at < WATCHDOG_S
        effective = self.taken if self.told["control"] and is_alive else SAFE
        if effective != self.effective:
            self.effective = effective
            self.say({"effective": effective})
        return effective

    @property
    def load(self):
        return round(time.time() % 1.0, 3)


async def opcua(port, log):
    from asyncua import Server, ua

    server = Server()
    await server.init()
    server.set_endpoint(f"opc.tcp://127.0.0.1:{port}/plc")
    server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
    space = await server.register_namespace("urn:holdcourse:test")
    assert space == 2
    kinds = {"Load": 0.0, "Power": GAIN * SAFE, "SetPoint": SAFE, "Taken": SAFE, "Control": False, "Advice": 0.0}
    nodes = {}
    for name, first in kinds.items():
        nodes[name] = await server.nodes.objects.add_variable(ua.NodeId(name, space), name, first)
        await nodes[name].set_writable()
    beat = await server.nodes.objects.add_variable(
        ua.NodeId("Heartbeat", space), "Heartbeat", 0, varianttype=ua.VariantType.UInt16
    )
    await beat.set_writable()
    logic = Logic(log)
    async with server:
        logic.say({"listens": port})
        while True:
            logic.hear("setpoint", await nodes["SetPoint"].read_value())
            logic.hear("control", await nodes["Control"].read_value())
            count = await beat.read_value()
            if count:
                logic.hear("heartbeat", count)
            setting = logic.scan()
            await nodes["Taken"].write_value(logic.taken)
            await nodes["Power"].write_value(GAIN * setting)
            if logic.has(BAD_FILE):
                bad = ua.DataValue(
                    ua.Variant(0.5, ua.VariantType.Double), ua.StatusCode(ua.StatusCodes.BadSensorFailure)
                )
                await server.write_attribute_value(nodes["Load"].nodeid, bad)
            elif not logic.has(SILENT_FILE):
                await nodes["Load"].write_value(logic.load)
            await asyncio.sleep(SCAN_S)


def mqtt(port, log):
    import paho.mqtt.client as paho

    logic = Logic(log)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="plc")

    def connected(*_):
        client.subscribe([("plc/setpoint", 1), ("plc/heartbeat", 1), ("holdcourse/mill/status", 1)])

    def heard(_, __, message):
        if message.topic == "plc/setpoint":
            logic.hear("setpoint", float(message.payload))
        elif message.topic == "plc/heartbeat":
            logic.hear("heartbeat", int(message.payload))
        else:
            logic.hear("control", message.payload == b"control")

    client.on_connect, client.on_message = connected, heard
    client.reconnect_delay_set(0.05, 0.1) if hasattr(client, "reconnect_delay_set") else None
    client.connect_async("127.0.0.1", port, 1)
    client.loop_start()
    logic.say({"listens": port})
    while True:
        setting = logic.scan()
        if client.is_connected():
            quality = "bad" if logic.has(BAD_FILE) else "good"
            if not logic.has(SILENT_FILE):
                client.publish("plc/load", json.dumps({"v": logic.load, "q": quality}), 0)
            client.publish("plc/power", str(GAIN * setting), 0)
            client.publish("plc/taken", str(logic.taken), 0)
        time.sleep(SCAN_S)


if __name__ == "__main__":
    kind, port, log = sys.argv[1:]
    if kind == "opcua":
        import logging

        logging.disable(logging.CRITICAL)
        asyncio.run(opcua(int(port), log))
    else:
        mqtt(int(port), log)
