"""A service, a plant's own controller and a bridge between them, each a process that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from bridge.lines import Line
from bridge.plc import BAD_FILE, DEAF_FILE, GAIN, SAFE, SILENT_FILE, WATCHDOG_S
from service.running import Client, Process, served
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

HERE = Path(__file__).parent
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
PERIOD_S = 0.8
RESTLESS = {  # goes to wherever it knows least, and all costs are nearly the same
    "policy": "cgp-lcb",
    "scale": 0.001,
    "options": {"kernel": hc.Kernel(RBF(0.3), RBF(0.02)).to_json(), "noise_std": 0.1, "context_bounds": [[0.0, 1.0]]},
}
COMMON = f"""
controller = "mill"
period = {PERIOD_S}
timeout = 0.4
grace = 0.2
hold_off = 0.05
least_share = 0.4
[service]
url = "http://127.0.0.1:{{service}}"
timeout = 0.5
lost_after = 0.7
look_every = 0.1
[heartbeat]
{{heartbeat}}
every = 0.05
"""
OPCUA = """
[opcua]
url = "opc.tcp://127.0.0.1:{plant}/plc"
[[contexts]]
name = "load"
node = "ns=2;s=Load"
stale_after = 0.6
[measurement]
node = "ns=2;s=Power"
settle = 0.15
[setpoint]
node = "ns=2;s=SetPoint"
read_back.node = "ns=2;s=Taken"
low = 0
high = 3
within = 0.4
[control]
node = "ns=2;s=Control"
[advice]
node = "ns=2;s=Advice"
[safe]
setpoint = 0.5
"""
MQTT = """
[mqtt]
host = "127.0.0.1"
port = {plant}
keepalive = 2
[mqtt.home_assistant]
name = "Mill"
[[contexts]]
name = "load"
topic = "plc/load"
field = "v"
quality_field = "q"
stale_after = 0.6
[measurement]
topic = "plc/power"
settle = 0.15
[setpoint]
topic = "plc/setpoint"
read_back.topic = "plc/taken"
low = 0
high = 3
within = 0.4
[safe]
setpoint = 0.5
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, what, seconds=120.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"waited {seconds:g} s for {what}"
        time.sleep(0.01)
    return found


class Rig:
    """All of it; `kind` is what the plant speaks."""

    def __init__(self, kind, folder, *, mode="act", more="", in_process=False):
        self.kind, self.folder = kind, folder
        self.log, self.overridden = folder / "plc.jsonl", []
        self._stack = contextlib.ExitStack()
        self.plant_port, self.plc, self.bridge, self.broker = free_port(), None, None, None
        if in_process:  # quicker to start, and cannot be killed
            url = self._stack.enter_context(served(folder / "data"))
        else:
            self.service = Process(folder / "data")
            self._stack.callback(lambda: self.service.__exit__())
            url = self.service.url
        self.service_port = urlsplit(url).port
        self.plant_line, self.service_line = Line(self.plant_port), Line(self.service_port)
        self._stack.callback(self.plant_line.close)
        self._stack.callback(self.service_line.close)
        with self.client() as client:
            client.create(id="mill", mode=mode, context_names=["load"], start=0.0, **RESTLESS)
            client.round("mill", [0.5], 0.0)  # what is compiled at the first question, is compiled now
        beat = 'node = "ns=2;s=Heartbeat"' if kind == "opcua" else 'topic = "plc/heartbeat"'
        text = COMMON.format(service=self.service_line.port, heartbeat=beat)
        text += (OPCUA if kind == "opcua" else MQTT).format(plant=self.plant_line.port) + more
        self.config = folder / "mill.toml"
        self.config.write_text(text)
        if kind == "mqtt":
            self.start_broker()
        self.start_plc()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in (self.bridge, self.plc, self.broker):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self._stack.close()

    # -- processes -----------------------------------------------------------------------------------------------------

    def client(self):
        return Client(f"http://127.0.0.1:{self.service_port}")

    def start_plc(self):
        known = len(self.lines())
        self.plc = subprocess.Popen([sys.executable, HERE / "plc.py", self.kind, str(self.plant_port), self.log])
        wait_for(lambda: any("listens" in line for line in self.lines()[known:]), "the plant's controller")

    def start_broker(self):
        settings = self.folder / "mosquitto.conf"
        settings.write_text(
            f"listener {self.plant_port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {self.folder}/\nautosave_interval 1\n"
        )
        self.broker = subprocess.Popen([MOSQUITTO, "-c", settings], stderr=subprocess.DEVNULL)
        wait_for(lambda: answers(self.plant_port), "the broker")

    def start_bridge(self, *options):
        command = [sys.executable, "-c", "from holdcourse.cli import main; main()", "bridge", self.config, *options]
        with (self.folder / "bridge.log").open("ab") as log:
            self.bridge = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, "NO_COLOR": "1"})

    def restart_service(self, *, kill):
        (self.service.kill if kill else self.service.stop)()
        return lambda: self._again()

    def _again(self):
        for pipe in (self.service.started.stdout, self.service.started.stderr):
            pipe.close()
        self.service = Process(self.folder / "data", port=self.service_port)

    # -- what the plant saw --------------------------------------------------------------------------------------------

    def lines(self):
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def effective(self):
        return next(line["effective"] for line in reversed(self.lines()) if "effective" in line)

    def is_followed(self):
        """Whether the plant runs what the bridge wants."""
        return self.effective() != SAFE

    def decisions(self):
        with self.client() as client:
            return client.see("mill", "decisions", limit=1000)["decisions"]

    def measured(self):
        return sum(row["measurement"] is not None for row in self.decisions())

    def said(self):
        return (self.folder / "bridge.log").read_text()

    # -- interruptions: each returns what heals it ---------------------------------------------------------------------

    def kill_bridge(self):
        self.bridge.kill()
        self.bridge.wait()
        return self.start_bridge

    def stop_bridge(self):
        self.bridge.send_signal(signal.SIGTERM)
        assert self.bridge.wait(60) == 0
        return self.start_bridge

    def kill_plant(self):
        """The plant's own controller; of MQTT the broker too goes on without it."""
        self.plc.kill()
        self.plc.wait()
        return self.start_plc

    def kill_broker(self):
        self.broker.kill()
        self.broker.wait()
        return self.start_broker

    def hole_to_plant(self):
        self.plant_line.hole()
        return self.plant_line.heal

    def late_from_hole(self):
        """What was held back is delivered when the line works again."""
        self.plant_line.hole()
        return lambda: self.plant_line.heal(late=True)

    def hole_to_service(self):
        self.service_line.hole()
        return self.service_line.heal

    def kill_service(self):
        return self.restart_service(kill=True)

    def stop_service(self):
        return self.restart_service(kill=False)

    def _marked(self, name):
        (self.folder / name).touch()
        return (self.folder / name).unlink

    def bad_reading(self):
        return self._marked(BAD_FILE)

    def stale_reading(self):
        return self._marked(SILENT_FILE)

    def deaf_plant(self):
        """It does not take set-points: found out with the next one that differs, so one is made to."""
        heal, began = self._marked(DEAF_FILE), time.time()
        with self.client() as client:
            now = client.see("mill", "state")["value"]
            client.do("mill", "override", setting=3.0 if now < 1.5 else 0.0, reason="make it move")

        def healed():
            heal()
            with self.client() as client:
                client.do("mill", "override", setting=None)
            self.overridden.append((began, time.time() + 2 * PERIOD_S))

        return healed

    def interrupted(self, what):
        """Interrupt, see the safe state, heal, and see control taken again; returns seconds until it was safe."""
        began = time.time()
        heal = getattr(self, what)()
        if what == "kill_plant":  # nobody can look at it while it is down; it must begin safe
            heal()
            took = 0.0
            began_again = [line for line in self.lines() if "start" in line][-1]
            assert began_again["effective"] == SAFE
        else:
            wait_for(lambda: not self.is_followed(), f"the safe state after {what}", 10)
            took = time.time() - began
            heal()
        return took

    def check(self):
        """No decision lost, none doubled, each measurement told of the setting that ran; returns the rounds."""
        rows = self.decisions()
        assert [row["round"] for row in rows] == list(range(rows[0]["round"], rows[0]["round"] + len(rows)))
        for row in rows[:-1]:
            assert row["told_at"] is not None, f"{row['decision']} was lost"
        for row in rows[1:]:  # the first was told by hand
            if row["measurement"] is not None:
                assert abs(row["measurement"] - GAIN * row["value"]) < 1e-9 * GAIN, row
        self._check_what_was_written(rows)
        return rows

    def _check_what_was_written(self, rows):
        """Whatever set-point came to the plant was the safe one, or that of the decision of then."""
        asked = [datetime.fromisoformat(row["at"]).timestamp() for row in rows]
        asked.append(float("inf"))
        for line in self.lines():
            value, at = line.get("setpoint", SAFE), line["at"]
            if value == SAFE or any(since <= at <= until for since, until in self.overridden):
                continue
            now = [row["value"] for k, row in enumerate(rows) if asked[k] <= at + 0.1 and at - LATEST_S <= asked[k + 1]]
            assert value in now, f"{value} was written at {at}, when {now} was decided"


INTERRUPTIONS = {
    "opcua": (
        "kill_bridge",
        "kill_plant",
        "hole_to_plant",
        "late_from_hole",
        "hole_to_service",
        "kill_service",
        "stop_bridge",
        "bad_reading",
        "stale_reading",
        "deaf_plant",
        "stop_service",
    ),
    "mqtt": (
        "kill_bridge",
        "kill_broker",
        "hole_to_plant",
        "late_from_hole",
        "hole_to_service",
        "kill_service",
        "stop_bridge",
        "bad_reading",
        "stale_reading",
        "kill_plant",
        "deaf_plant",
        "stop_service",
    ),
}
LATEST_S = 1.0  # a write that a dead line held back may come so late
SAFE_WITHIN_S = WATCHDOG_S + 0.7 + 0.5 + 1.0  # the plant's watchdog, the service given up, one call, a busy machine
