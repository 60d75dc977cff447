"""`holdcourse bridge --check`: every point is tried once, and nothing is written."""

from __future__ import annotations

import time
from typing import Any

from holdcourse.bridge.bridgefile import BridgeFile
from holdcourse.bridge.plant import Plant, same_setting
from holdcourse.client.remote import RemoteController
from holdcourse.errors import HoldcourseError
from holdcourse.units import lasting

LEAVES_ROOM_S = 3.0  # of MQTT: for the first messages to come


def checked(file: BridgeFile, plant: Plant, remote: RemoteController) -> tuple[list[str], bool]:
    """Return what was found, in lines, and whether the bridge could run."""
    lines, mistakes = [f"{file.controller} at {file.service.url}, a round every {lasting(file.period)}"], 0

    def say(is_well: bool, text: str) -> None:
        nonlocal mistakes
        mistakes += not is_well
        lines.append(f"  {'ok   ' if is_well else 'WRONG'} {text}")

    state: dict[str, Any] = {}
    try:
        state = remote.state()
        say(True, f"the service answers: mode {state['mode']}, at {state['value']!r}, round {state['round']}")
    except HoldcourseError as error:
        say(False, f"the service: {error}")
    if state:
        for is_well, text in _against_the_controller(file, state):
            say(is_well, text)
    try:
        plant.connect()
        say(True, "the plant answers")
        for name, reading in _read(file, plant).items():
            if name in ("heartbeat", "control"):
                continue
            point = file.read_back if name == "setpoint" else file.points().get(name)
            address = "" if point is None else f" ({point.address})"
            # Over MQTT a machine need not have said yet which set-point it has taken, nor the switch where it stands.
            is_needed = file.mqtt is None or name == "measurement" or name.startswith("context ")
            found = f"{reading.value!r}" if not reading.trouble else reading.trouble
            say(not (reading.trouble and is_needed), f"{name}{address}: {found}")
    except HoldcourseError as error:
        say(False, f"the plant: {error}")
    finally:
        plant.close()
        remote.service.close()
    lines.append("all is well; nothing was written" if not mistakes else f"{mistakes} to correct; nothing was written")
    return lines, not mistakes


def _read(file: BridgeFile, plant: Plant) -> Any:
    """What the points hold; of MQTT, once each has had time to come."""
    until = time.monotonic() + (LEAVES_ROOM_S if file.mqtt is not None else 0.0)
    while True:
        found = plant.read()
        if time.monotonic() >= until or not any(reading.trouble for reading in found.values()):
            return found
        time.sleep(0.1)


def _against_the_controller(file: BridgeFile, state: dict[str, Any]) -> list[tuple[bool, str]]:
    """Whether file and controller speak of the same things."""
    found: list[tuple[bool, str]] = []
    names, given = state.get("context_names"), [each.name for each in file.contexts]
    if names and not file.time:
        same = set(names) == set(given)
        remedy = "" if same else f"; the file has {', '.join(given) or 'none'}"
        found.append((same, f"its contexts are {', '.join(names)}{remedy}"))
    several = [value for value in state["actions"] if isinstance(value, list | dict)]
    if several:
        found.append((False, f"its settings have several parts, like {several[0]!r}; a bridge writes one value"))
        return found
    beyond = [value for value in state["actions"] if not file.may_write(value)]
    if beyond:
        remedy = "widen them, or remove the setting from the controller"
        found.append((False, f"setpoint.low and high forbid its setting {beyond[0]!r}; {remedy}"))
    safe = file.safe.setpoint
    if safe is not None and not any(same_setting(safe, each, file.setpoint.tolerance) for each in state["actions"]):
        found.append((True, f"safe.setpoint {safe!r} is not one of its settings, so rounds that end there are skipped"))
    deadline = state.get("deadline_s")
    if deadline is None:
        found.append((True, "its deadline_s is not set, so no alarm is raised when the bridge falls silent"))
    elif deadline < 1.5 * file.period:
        found.append(
            (False, f"its deadline_s, {deadline:g} s, is too short: a round may last {1.5 * file.period:g} s; raise it")
        )
    return found
