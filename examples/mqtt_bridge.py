"""A bridge between MQTT and the HTTP service, for plants whose controllers speak MQTT.

    python examples/mqtt_bridge.py --broker 127.0.0.1 --service http://127.0.0.1:8000 --token "$TOKEN"

A plant publishes its question, `{"context": [7.5], "key": "2026-03-01T07"}`, on `holdcourse/<controller>/ask`; the
decision comes back on `holdcourse/<controller>/decision`. It publishes `{"decision": "r12", "measurement": 3.2}` on
`holdcourse/<controller>/tell`, and hears `holdcourse/<controller>/told`. What goes wrong is said on `.../error`.

Messages are sent with quality of service 1: at least once. A message that comes twice does no harm, since a question
under the same key gets the same decision, and telling the same again changes nothing. So give every question a key of
its own, such as the hour it is for. The broker keeps messages for the bridge while it is away.

Needs `pip install paho-mqtt`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import paho.mqtt.client as mqtt

import holdcourse as hc

TOPICS = "holdcourse/{controller}/{what}"
AT_LEAST_ONCE = 1


class Bridge:
    """Hands questions and measurements on to the service, and its answers back."""

    def __init__(self, service: hc.Service, broker: str, port: int = 1883, name: str = "holdcourse-bridge") -> None:
        self.service = service
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self.client.on_connect = self._connected
        self.client.on_message = self._message
        self.client.connect(broker, port)

    def run(self) -> None:
        """Serve until interrupted; reconnects by itself."""
        self.client.loop_forever(retry_first_connection=True)

    def _connected(self, client: mqtt.Client, *_: Any) -> None:
        client.subscribe([(TOPICS.format(controller="+", what=what), AT_LEAST_ONCE) for what in ("ask", "tell")])

    def _message(self, client: mqtt.Client, _: Any, message: mqtt.MQTTMessage) -> None:
        _, controller, what = message.topic.split("/")
        try:
            said = json.loads(message.payload)
            answer, topic = self._answered(self.service.controller(controller), what, said)
        except (hc.errors.HoldcourseError, ValueError, KeyError, TypeError, AttributeError) as error:
            answer, topic = {"error": f"{type(error).__name__}: {error}"}, "error"
        client.publish(TOPICS.format(controller=controller, what=topic), json.dumps(answer), AT_LEAST_ONCE)

    def _answered(self, controller: hc.RemoteController, what: str, said: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if what == "tell":
            controller.tell(said["decision"], said["measurement"], said.get("applied"))
            return {"decision": said["decision"]}, "told"
        decision = controller.ask(said.get("context"), said.get("allowed"), said.get("forecast"), key=said.get("key"))
        answer = {"decision": decision.id, "setting": decision.value, "act": decision.act}
        return answer | {"key": said.get("key")}, "decision"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--service", default="http://127.0.0.1:8000")
    parser.add_argument("--token")
    given = parser.parse_args()
    Bridge(hc.connect(given.service, given.token), given.broker, given.port).run()


if __name__ == "__main__":
    main()
