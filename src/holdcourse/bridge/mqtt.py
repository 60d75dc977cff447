"""A plant that speaks MQTT (extra ``[mqtt]``).

Each connection is a new client with a clean session: what an earlier one had not sent yet, or the broker had kept for
it, would come too late and is dropped. Every message is sent with quality of service 1 and waited for. While the bridge
beats, it listens to its own heartbeat: a broker that does not return it has lost the subscriptions, or is a black hole.
A message may come twice; only the newest value counts, so that does no harm. One that the broker retained is of unknown
age, and is believed only where age does not matter or its payload says the time.

If the bridge dies, the broker publishes its last will: "offline" on the topic of its status.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdcourse.bridge import discovery
from holdcourse.bridge.bridgefile import BridgeFile, Setting, Source, read_secret
from holdcourse.bridge.faults import network_fault, no_answer
from holdcourse.bridge.plant import CONTROL, OFFLINE, RELEASED, PlantLost, Reading, in_plant_units, judged, within
from holdcourse.errors import InvalidInput, MissingExtra

try:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise MissingExtra('a plant that speaks MQTT needs paho-mqtt: pip install "holdcourse[mqtt]"') from error

AT_LEAST_ONCE = 1
BROKER = "an MQTT broker"
NOT_LET_IN = ("Not authorized", "Bad user name or password")  # MQTT 3.1.1 has few words
REFUSED = 128  # reason codes from here on are failures
WORDS = {"true": True, "on": True, "false": False, "off": False}


@dataclass(frozen=True)
class Message:
    """The newest message of a topic: what it says, when it came (monotonic), and whether the broker had kept it."""

    payload: bytes
    came: float
    retained: bool


class MqttPlant:
    """See `plant.Plant`."""

    def __init__(self, file: BridgeFile, base: Path) -> None:
        assert file.mqtt is not None
        self._file, self._about, self._base = file, file.mqtt, base
        self.status = file.mqtt.status or f"holdcourse/{file.controller}/status"
        self.state = file.mqtt.state or f"holdcourse/{file.controller}/state"
        points = file.points()
        self._sources = {name: point for name, point in points.items() if isinstance(point, Source)}
        self._sources.pop("setpoint.read_back")
        self._sources["setpoint"] = file.read_back
        self._beats = file.heartbeat.address
        self._client: paho.Client | None = None
        self._lock = threading.Lock()

    def connect(self) -> None:
        """See `plant.Plant`."""
        self.close()
        with self._lock:
            self._latest: dict[str, Message] = {}
            self._unreturned: float | None = None  # since when a heartbeat has been on its way
            self._lost = ""
        self._shown: dict[str, Any] | None = None
        self._announced: dict[str, str] | None = None
        address = f"{self._about.host}:{self._about.port}"
        timeout, greeted, subscribed = self._file.timeout, threading.Event(), threading.Event()
        client = self._made()

        def connected(_: Any, __: Any, ___: Any, code: Any, ____: Any = None) -> None:
            if code.is_failure:
                self._drop(client, self._refusal(address, str(code)))
            greeted.set()

        def accepted(_: Any, __: Any, ___: Any, codes: Any, ____: Any = None) -> None:
            refused = [str(code) for code in codes if code.value >= REFUSED]
            if refused:
                forbidden = "the bridge may not read all topics of its file; allow them in the broker's access list"
                self._drop(client, f"the broker refuses a subscription ({refused[0]}): {forbidden}")
            subscribed.set()

        client.on_connect, client.on_subscribe = connected, accepted
        client.on_message = lambda _, __, message: self._heard(client, message)
        client.on_disconnect = lambda _, __, ___, code, ____=None: self._drop(client, f"the connection ended: {code}")
        self._client = client
        try:
            within(
                timeout,
                lambda: client.connect(self._about.host, self._about.port, self._about.keepalive),
                f"connecting to {address}",
            )
            client.loop_start()
            self._await(greeted, no_answer(address, BROKER, timeout) + self._about_tls())
            topics = sorted({source.address for source in self._sources.values()} | {self._beats, self.status})
            client.subscribe([(topic, AT_LEAST_ONCE) for topic in topics])
            self._await(subscribed, f"{address} did not accept the subscriptions within {timeout:g} s")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                traceback.clear_frames(error.__traceback__)  # paho's hold a socket whose TLS failed
                raise PlantLost(self._fault(error, address)) from None
            raise

    def _about_tls(self) -> str:
        if self._about.tls_ca is None:
            return "; if its port is for TLS (often 8883), give mqtt.tls_ca"
        return (
            ". It may also want a certificate of the bridge, which has none; let it take a name and a password instead"
        )

    def _fault(self, error: OSError, address: str) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message.rstrip(".") or "it cannot be verified"
            return (
                f"the certificate of {address} is not trusted: {why}; give the certificate of the authority that "
                "signed it in mqtt.tls_ca, and write mqtt.host as it stands in the certificate"
            )
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):  # which only TLS can send
            return (
                f"{address} speaks TLS, but refuses the bridge ({error.reason}); let it take TLS 1.2 or later, "
                "and a name and a password instead of a certificate of the bridge, which has none"
            )
        if self._about.tls_ca is not None and isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError):
            return f"{address} does not speak TLS; if its port is not for TLS (often 1883), leave out mqtt.tls_ca"
        return network_fault(error, address, BROKER)

    def _refusal(self, address: str, code: str) -> str:
        """Return why the broker does not let the bridge in."""
        user = self._about.user
        if code in NOT_LET_IN and user is None:
            return f"{address} lets nobody in without a name ({code}); give mqtt.user and mqtt.password_file"
        if code in NOT_LET_IN:
            remedy = "check mqtt.user and mqtt.password_file, and the broker's list of users"
            return f"{address} does not let in the user {user!r}, or the password is wrong ({code}); {remedy}"
        if code == "Client identifier not valid":
            return f"{address} does not take the name of this client ({code}); give another in mqtt.client_id"
        return f"{address} refuses the connection ({code}); look at the broker's log"

    def _made(self) -> paho.Client:
        about = self._about
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=about.client_id or f"holdcourse-{self._file.controller}",
            clean_session=True,
            reconnect_on_failure=False,
        )
        client.connect_timeout = self._file.timeout
        if about.user is not None:
            secret = None
            if about.password_file is not None:
                secret = read_secret(self._base / about.password_file, "password")
            client.username_pw_set(about.user, secret)
        if about.tls_ca is not None:
            try:
                client.tls_set(str(self._base / about.tls_ca))
            except (OSError, ValueError) as error:
                path = self._base / about.tls_ca
                why = f"there is no file {path}" if isinstance(error, FileNotFoundError) else f"{path}: {_said(error)}"
                remedy = "give the certificate of the authority that signed the broker's, as PEM"
                raise InvalidInput(f"mqtt.tls_ca cannot be used, because {why}; {remedy}") from None
        client.will_set(self.status, OFFLINE, AT_LEAST_ONCE, retain=True)
        return client

    def _await(self, event: threading.Event, otherwise: str) -> None:
        if not event.wait(self._file.timeout):
            raise PlantLost(otherwise)
        self._check()

    def _drop(self, client: paho.Client, why: str) -> None:
        with self._lock:
            if client is self._client and not self._lost:
                self._lost = why

    def _check(self) -> None:
        with self._lock:
            if self._lost or self._client is None:
                raise PlantLost(self._lost or "the broker is not connected")

    def _heard(self, client: paho.Client, message: paho.MQTTMessage) -> None:
        with self._lock:
            if client is self._client:
                self._latest[message.topic] = Message(bytes(message.payload), time.monotonic(), message.retain)
                if message.topic == self._beats:
                    self._unreturned = None

    def read(self) -> dict[str, Reading]:
        """See `plant.Plant`."""
        self._check()
        now = time.monotonic()
        with self._lock:
            latest, since = dict(self._latest), self._unreturned
        if since is not None and now - since > self._file.timeout:
            raise PlantLost(
                f"the broker did not return our own heartbeat within {self._file.timeout:g} s; if this happens again "
                f"and again, let the bridge write and read {self._beats} in the broker's access list"
            )
        found = {name: _read(source, latest.get(source.address), now) for name, source in self._sources.items()}
        beat, status = latest.get(self._beats), latest.get(self.status)
        found["heartbeat"] = Reading(None if beat is None or beat.retained else _number(beat.payload))
        found["control"] = Reading(status is not None and status.payload == CONTROL.encode())
        return found

    def write(self, point: str, value: Setting, about: Mapping[str, Any] | None = None) -> None:
        """See `plant.Plant`."""
        if point == "control":
            self._publish(self.status, CONTROL if value else RELEASED, retain=True)
            return
        target = self._file.points()[point]
        if point in ("setpoint", "advice"):
            value = in_plant_units(self._file, value)
        text = json.dumps(value) if not isinstance(value, str) else value
        if point == "setpoint" and self._file.setpoint.as_json:
            text = json.dumps({"value": value, **(about or {}), "at": datetime.now(UTC).isoformat()})
        if point == "heartbeat":
            with self._lock:
                self._unreturned = self._unreturned or time.monotonic()
        # Not retained: a plant that comes back shall wait for what is meant now.
        self._publish(target.address, text, retain=False)

    def show(self, state: Mapping[str, Any]) -> None:
        """See `plant.Plant`."""
        units = {name: str(state.get(name) or "") for name in ("unit", "gain_unit")}
        if self._about.home_assistant is not None and units != self._announced:
            for topic, payload in discovery.payloads(self._file, self.status, self.state, **units):
                self._publish(topic, json.dumps(payload), retain=True)
            self._announced = units
        if state != self._shown:
            self._publish(self.state, json.dumps(state), retain=True)
            self._shown = dict(state)

    def _publish(self, topic: str, payload: str, *, retain: bool) -> None:
        self._check()
        assert self._client is not None
        sent = self._client.publish(topic, payload, AT_LEAST_ONCE, retain)
        try:
            sent.wait_for_publish(self._file.timeout)
        except (RuntimeError, ValueError) as error:
            raise PlantLost(f"cannot publish on {topic}: {error}") from None
        self._check()
        if not sent.is_published():
            raise PlantLost(f"the broker did not take a message on {topic} within {self._file.timeout:g} s")

    def close(self) -> None:
        """See `plant.Plant`."""
        with self._lock:
            client, self._client = self._client, None
        if client is None:
            return

        def end() -> None:
            client.disconnect()
            client.loop_stop()

        try:
            within(min(self._file.timeout, 1.0), end, "closing")
        except Exception:  # it hangs, or was never connected; nothing holds on to it any more
            return
        finally:  # these know the client, which would keep its sockets until Python looks for such circles
            client.on_connect = client.on_subscribe = client.on_message = client.on_disconnect = None


def _said(error: Exception) -> str:
    return "it contains no certificate" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", str(error))


def _read(source: Source, message: Message | None, now: float) -> Reading:
    """What the newest message of a topic says."""
    if message is None:
        return Reading(None, f"no message has arrived on {source.address}")
    said: Any = None
    age: float | None = None if message.retained else now - message.came
    trouble = ""
    try:
        text = message.payload.decode()
        if source.field is None and source.time_field is None and source.quality_field is None:
            said = _plain(text)
        else:
            content = json.loads(text)
            said = _part(content, source.field) if source.field is not None else content
            if source.quality_field is not None:
                quality = _part(content, source.quality_field)
                if quality not in source.good:
                    trouble = f"its quality is {quality!r}"
            if source.time_field is not None:
                age = time.time() - _time(_part(content, source.time_field))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        trouble = f"{message.payload[:60]!r} cannot be read: {type(error).__name__}: {error}"
    return judged(source, WORDS.get(said.lower(), said) if isinstance(said, str) else said, age, trouble)


def _plain(text: str) -> Setting | None:
    """A payload that is the value itself."""
    try:
        return float(text)
    except ValueError:
        return text.strip() or None


def _part(content: Any, path: str) -> Any:
    for name in path.split("."):
        content = content[int(name)] if isinstance(content, list) else content[name]
    return content


def _time(said: Any) -> float:
    if isinstance(said, int | float):
        return said / 1000 if said > 1e11 else float(said)  # thousandths of seconds, as JavaScript counts
    at = datetime.fromisoformat(str(said))
    if at.tzinfo is None:
        raise ValueError(f"{said!r} has no zone")
    return at.timestamp()


def _number(payload: bytes) -> float | None:
    try:
        return float(payload)
    except ValueError:
        return None
