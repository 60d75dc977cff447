"""What Home Assistant is told of a bridge over MQTT, so that its entities appear by themselves.

One message for each entity, retained, on ``<prefix>/<component>/<node>/<object>/config``. All of them belong to one
device and share the bridge's state in JSON; they are unavailable while its status is "offline", which its last will
says for it.
"""

from __future__ import annotations

import re
from typing import Any

import holdcourse
from holdcourse.bridge.bridgefile import BridgeFile
from holdcourse.bridge.plant import OFFLINE

ESTIMATES = {  # never without its interval
    "estimated_gain": "Estimated gain",
    "estimated_gain_low": "Estimated gain, lower end (95 %)",
    "estimated_gain_high": "Estimated gain, upper end (95 %)",
}
AVAILABLE = "{{ '" + OFFLINE + "' if value == '" + OFFLINE + "' else 'online' }}"


def payloads(
    file: BridgeFile, status: str, state: str, unit: str = "", gain_unit: str = ""
) -> list[tuple[str, dict[str, Any]]]:
    """Return topics and what is published on them.

    Parameters
    ----------
    status, state
        The topics of the bridge's status and of its state.
    unit, gain_unit
        Of settings and of gains; empty: none.
    """
    assert file.mqtt is not None
    assert file.mqtt.home_assistant is not None
    about = file.mqtt.home_assistant
    node = "holdcourse_" + re.sub(r"[^a-zA-Z0-9_-]", "_", file.controller)
    shared = {
        "availability": [
            {
                "topic": status,
                "value_template": AVAILABLE,
                "payload_available": "online",
                "payload_not_available": OFFLINE,
            }
        ],
        "device": {
            "identifiers": [node],
            "name": about.name or file.controller,
            "manufacturer": "holdcourse",
            "model": "bridge",
            "sw_version": holdcourse.__version__,
        },
        "origin": {"name": "holdcourse", "sw_version": holdcourse.__version__},
        "qos": 1,
    }

    def entity(component: str, name: str, words: str, **more: Any) -> tuple[str, dict[str, Any]]:
        topic = f"{about.prefix}/{component}/{node}/{name}/config"
        return topic, {"name": words, "unique_id": f"{node}_{name}", **more, **shared}

    def sensor(name: str, words: str, **more: Any) -> tuple[str, dict[str, Any]]:
        return entity("sensor", name, words, state_topic=state, value_template="{{ value_json." + name + " }}", **more)

    found = [
        sensor("setting", "Set-point", **({"unit_of_measurement": unit} if unit else {})),
        sensor("mode", "Mode", icon="mdi:robot-industrial"),
        *(
            sensor(name, words, icon="mdi:scale-balance", **({"unit_of_measurement": gain_unit} if gain_unit else {}))
            for name, words in ESTIMATES.items()
        ),
        entity(
            "binary_sensor",
            "alarm",
            "Alarm",
            state_topic=state,
            value_template="{{ 'ON' if value_json.alarms or value_json.loss else 'OFF' }}",
            json_attributes_topic=state,
            device_class="problem",
            payload_on="ON",
            payload_off="OFF",
        ),
        entity(
            "binary_sensor",
            "control",
            "In control",
            state_topic=state,
            value_template="{{ 'ON' if value_json.in_control else 'OFF' }}",
            device_class="running",
            payload_on="ON",
            payload_off="OFF",
        ),
    ]
    if file.permit is not None:
        found.append(
            entity(
                "switch",
                "permit",
                "May control",
                command_topic=file.permit.address,
                state_topic=file.permit.address,
                payload_on="ON",
                payload_off="OFF",
                retain=True,  # a bridge that comes back later must know it
                icon="mdi:hand-back-right",
            )
        )
    return found
