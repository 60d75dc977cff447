"""`holdcourse bridge CONFIG.toml`: what is read from a plant and what is written, checked before it is touched."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdcourse import units
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.mistakes import Place, first_in_words, read_toml

Setting = bool | int | float | str
POLICIES = ("Basic256Sha256", "Aes128Sha256RsaOaep", "Aes256Sha256RsaPss", "Basic256", "Basic128Rsa15")
MODES = ("SignAndEncrypt", "Sign")
TOKEN_LENGTH = 4096  # characters; a file that holds more holds no token


def _seconds(value: Any) -> float:
    try:
        return units.seconds(value, "it")
    except HoldcourseError as error:
        raise ValueError(f"{str(error).removeprefix('it')}; write a time as '15 min' or '2 s'".strip(" =")) from None


Seconds = Annotated[float, BeforeValidator(_seconds)]


def _check_range(low: float | None, high: float | None) -> None:
    given = [bound for bound in (low, high) if bound is not None]
    if any(math.isnan(bound) for bound in given):  # nothing would be within it
        raise ValueError("low and high must be numbers, got nan; leave out a bound that you do not need")
    if len(given) == 2 and not given[0] < given[1]:
        raise ValueError(f"low must be below high, got {low:g} and {high:g}")


class Section(BaseModel):
    """A section of the file: nothing in it changes, and no key is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Section):
    """One thing at the plant: a node of an OPC UA server, or a topic of an MQTT broker."""

    node: str | None = Field(default=None, min_length=1, description="node of OPC UA, such as ns=2;s=Mill.Load")
    topic: str | None = Field(default=None, min_length=1, description="topic of MQTT, such as mill/load")

    @field_validator("topic")
    @classmethod
    def _is_one_topic(cls, topic: str | None) -> str | None:
        if topic is not None and re.search(r"[+#\0]", topic):
            raise ValueError(f"must be one topic, without + and #, got {topic!r}")
        return topic

    @property
    def address(self) -> str:
        """The node or the topic."""
        return self.node or self.topic or ""


class Scaled(Point):
    """A point with a number in the plant's unit.

    Attributes
    ----------
    low, high
        Bounds of the number; the kinds of points say what becomes of one beyond them.
    factor
        What the controller knows is the plant's number times this.
    """

    low: float | None = None
    high: float | None = None
    factor: float = Field(default=1.0, allow_inf_nan=False)

    @field_validator("factor")
    @classmethod
    def _not_zero(cls, factor: float) -> float:
        if factor == 0:
            raise ValueError("must not be 0")
        return factor

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        _check_range(self.low, self.high)
        return self


class Source(Scaled):
    """A point that is read.

    Attributes
    ----------
    field, time_field, quality_field
        Of MQTT: where the value, its time and its quality are in a JSON payload, as ``sensor.value``; without `field`
        the payload is the value itself.
    good
        Of MQTT: the words or numbers for a quality that is believed.
    stale_after
        Older values are not believed, nor values from farther in the future; None: any age is.
    accept_uncertain
        Of OPC UA: whether a value of uncertain quality is believed too. A bad one never is.
    low, high
        What lies beyond is not believed.
    factor
        What the controller knows is the plant's number times this.
    """

    field: str | None = None
    time_field: str | None = None
    quality_field: str | None = None
    good: tuple[str | int, ...] = ("good", "GOOD", "Good", 192)
    stale_after: Seconds | None = 60.0
    accept_uncertain: bool = False

    @field_validator("stale_after", mode="before")
    @classmethod
    def _never(cls, value: Any) -> Any:
        return None if value == "never" else value


class Standing(Source):
    """A point that is read and may keep its value for as long as it likes: a switch, or a set-point."""

    stale_after: Seconds | None = None


class Context(Source):
    """A condition that the controller sees, under the name that it has there."""

    name: str = Field(min_length=1)


class Measurement(Source):
    """What is told after a round: the mean over it, or the last value in it.

    Attributes
    ----------
    settle
        So much of the beginning of a round is left out, while the plant still follows its new setting.
    """

    over_the_round: Literal["mean", "last"] = "mean"
    settle: Seconds | None = None


class SetPoint(Scaled):
    """Where the setting is written.

    Attributes
    ----------
    read_back
        Where the plant says which setting it has taken; of OPC UA the node itself if left out. Of MQTT a topic, which
        the plant must publish: without, nobody knows whether it heard.
    low, high
        A setting beyond is never written, whoever decided it.
    factor
        What the controller knows is the plant's number times this.
    tolerance
        By how much the value that is read back may differ, in the controller's units.
    within
        So long the plant may take until it reads back what was written.
    as_json
        Of MQTT: write ``{"value": 50.0, "decision": "r12", "at": "..."}`` in place of the bare value.
    """

    read_back: Standing | None = None
    tolerance: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    within: Seconds = 5.0
    as_json: bool = False


class Heartbeat(Point):
    """A counter that goes on while the bridge is in control; the plant watches it."""

    every: Seconds = 1.0


class Safe(Section):
    """What is written on a loss, beside handing back; None: nothing."""

    setpoint: Setting | None = None

    @field_validator("setpoint")
    @classmethod
    def _can_be_written(cls, setpoint: Setting | None) -> Setting | None:
        if isinstance(setpoint, float) and not math.isfinite(setpoint):
            raise ValueError(f"must be a number that a machine can be set to, got {setpoint:g}")
        return setpoint


class Service(Section):
    """The service, and how to get in."""

    url: str
    token_file: Path | None = None
    token_env: str | None = None
    timeout: Seconds = 5.0
    lost_after: Seconds = 30.0
    look_every: Seconds = 5.0

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one:
            raise ValueError(f"must look like http://127.0.0.1:8000, got {url!r}")
        return url

    @model_validator(mode="after")
    def _one_token(self) -> Service:
        if self.token_file is not None and self.token_env is not None:
            raise ValueError("give token_file or token_env, not both")
        return self

    def token(self, base: Path) -> str | None:
        """Read the token; None where none is named."""
        if self.token_env is not None:
            found = os.environ.get(self.token_env, "").strip()
            if not found:
                raise InvalidInput(
                    f"the environment variable {self.token_env} is not set; set it to the token of the service, or "
                    "leave token_env out if the service needs no tokens"
                )
            return found
        return None if self.token_file is None else read_secret(base / self.token_file, "token")


class OpcUa(Section):
    """An OPC UA server.

    Attributes
    ----------
    security
        As asyncua takes it: ``Basic256Sha256,SignAndEncrypt,certificate.der,key.pem``; the files lie in the folder of
        the bridge file, or have absolute paths.
    """

    url: str
    user: str | None = None
    password_file: Path | None = None
    security: str | None = None

    @field_validator("security")
    @classmethod
    def _is_security(cls, security: str | None) -> str | None:
        parts = [] if security is None else [part.strip() for part in security.split(",")]
        example = "write it like Basic256Sha256,SignAndEncrypt,certificate.der,key.pem"
        if security is not None and not (len(parts) in (4, 5) and all(parts)):
            raise ValueError(f"must name a policy, a mode, our certificate and its key; {example}, got {security!r}")
        if parts and parts[0] not in POLICIES:
            raise ValueError(f"has the policy {parts[0]!r}, but it must be one of {', '.join(POLICIES)}; {example}")
        if parts and parts[1] not in MODES:
            raise ValueError(f"has the mode {parts[1]!r}, but it must be {' or '.join(MODES)}; {example}")
        return security

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        if re.fullmatch(r"opc\.tcp://[^/\s]+(/\S*)?", url) is None:
            raise ValueError(f"must look like opc.tcp://10.0.0.5:4840, got {url!r}")
        return url


class HomeAssistant(Section):
    """Entities that Home Assistant finds by itself."""

    prefix: str = "homeassistant"
    name: str = ""


class Mqtt(Section):
    """An MQTT broker.

    Attributes
    ----------
    status
        Topic of what the bridge is: "control", "released" or, by its last will, "offline"; retained.
    state
        Topic of what it does, in JSON, for people; retained.
    """

    host: str = Field(min_length=1)
    port: int = Field(default=1883, ge=1, le=65535)
    user: str | None = None
    password_file: Path | None = None
    client_id: str | None = Field(default=None, min_length=1)
    tls_ca: Path | None = None
    keepalive: Annotated[int, Field(ge=1, le=3600)] = 10
    status: str = ""
    state: str = ""
    home_assistant: HomeAssistant | None = None


class BridgeFile(Section):
    """A bridge file. `examples/bridge_opcua.toml` and `examples/bridge_mqtt.toml` show it at work.

    Attributes
    ----------
    period
        Of a round; rounds begin at whole multiples of it since midnight UTC of 1 January 1970.
    time
        Whether the controller is asked with the time, as the wind policy is.
    control
        True while the bridge is in control, false once it hands back.
    permit
        Where operators say whether the bridge may be in control.
    advice
        Where the proposal is shown in mode advise.
    timeout
        For one call of the plant, of whatever kind.
    grace
        So long a reading may be bad or stale before that is a loss.
    hold_off
        After a loss, all must be well for so long before control is taken again.
    least_share
        Of a round: with fewer good values of the measurement nothing is told of it.
    """

    controller: str = Field(pattern=r"^[a-z0-9_-]{1,64}$")
    period: Seconds
    time: bool = False
    service: Service
    opcua: OpcUa | None = None
    mqtt: Mqtt | None = None
    contexts: tuple[Context, ...] = ()
    measurement: Measurement
    setpoint: SetPoint
    heartbeat: Heartbeat
    control: Point | None = None
    permit: Standing | None = None
    advice: Point | None = None
    safe: Safe = Safe()
    timeout: Seconds = 2.0
    grace: Seconds = 10.0
    hold_off: Seconds = 5.0
    least_share: float = Field(default=0.8, gt=0, le=1)

    @model_validator(mode="after")
    def _is_whole(self) -> BridgeFile:
        if (self.opcua is None) == (self.mqtt is None):
            raise ValueError("give exactly one of the sections [opcua] and [mqtt], the protocol that the plant speaks")
        kind = "node" if self.mqtt is None else "topic"
        for name, point in self.points().items():
            given = point.node if kind == "node" else point.topic
            if given is None:
                raise ValueError(
                    f"{name} needs a {kind}, because the plant speaks {'OPC UA' if self.opcua else 'MQTT'}"
                )
        names = [context.name for context in self.contexts]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two contexts are called {twice!r}; give each its own name")
        if self.time and self.contexts:
            raise ValueError("a controller that is asked with the time has no other contexts; leave out [[contexts]]")
        if self.mqtt is not None and self.control is not None:
            raise ValueError(
                "MQTT has no [control]: the topic mqtt.status says who is in control, and if the bridge dies its last "
                "will takes that back; leave [control] out"
            )
        if self.control is None and self.safe.setpoint is None and self.mqtt is None:
            raise ValueError(
                "the file does not say what happens when a connection is lost: give [control] node, a flag that hands "
                "back to the operators, or "
                "[safe] setpoint, a value to write, or both"
            )
        settle = self.measurement.settle or 0.0
        if settle > self.period / 2:
            raise ValueError(
                f"measurement.settle must be at most half of the period, {self.period / 2:g} s, got {settle:g} s"
            )
        if self.heartbeat.every > self.period / 4:
            raise ValueError(
                f"heartbeat.every must be at most a quarter of the period, {self.period / 4:g} s, got "
                f"{self.heartbeat.every:g} s"
            )
        low, high = self.setpoint.low, self.setpoint.high
        if self.safe.setpoint is not None and not self.may_write(self.safe.setpoint):
            raise ValueError(
                f"safe.setpoint {self.safe.setpoint!r} is not between setpoint.low and setpoint.high, "
                f"{'any' if low is None else low} to {'any' if high is None else high}; change it or them"
            )
        if self.mqtt is not None and self.setpoint.read_back is None:
            raise ValueError(
                "MQTT needs [setpoint.read_back] topic, on which the plant reports the set-point that it has taken"
            )
        self._check_written()
        return self

    def _check_written(self) -> None:
        """Raise where something is written to what is also something else: a counter must not drive a machine."""
        addresses = {name: point.address for name, point in self.points().items()}
        written: list[str] = [name for name in ("setpoint", "heartbeat", "control", "advice") if name in addresses]
        if self.mqtt is not None:
            addresses |= {"mqtt.status": self.mqtt.status, "mqtt.state": self.mqtt.state}
            written += ["mqtt.status", "mqtt.state"]
        for one in written:
            for other, address in addresses.items():
                is_own = self.opcua is not None and (one, other) == ("setpoint", "setpoint.read_back")
                if address and address == addresses[one] and other != one and not is_own:
                    raise ValueError(
                        f"{one} and {other} are both {address!r}; give each a node or topic of its own, so that a "
                        "value that is written overwrites nothing else"
                    )

    def points(self) -> dict[str, Point]:
        """Every point, by what it is called in the file."""
        found: dict[str, Point] = {f"context {each.name}": each for each in self.contexts}
        named = ("measurement", "setpoint", "heartbeat", "control", "permit", "advice")
        found |= {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        if self.setpoint.read_back is not None:
            found["setpoint.read_back"] = self.setpoint.read_back
        return found

    @property
    def read_back(self) -> Standing:
        """Where the plant says which setting it has taken; in the units of the set-point unless it has its own."""
        given = self.setpoint.read_back or Standing(node=self.setpoint.node, topic=self.setpoint.topic)
        return (
            given if "factor" in given.model_fields_set else given.model_copy(update={"factor": self.setpoint.factor})
        )

    def may_write(self, value: Setting) -> bool:
        """Whether a setting lies within the bounds of the set-point; those that are no numbers do."""
        if isinstance(value, str | bool):
            return True
        low, high = self.setpoint.low, self.setpoint.high
        return (low is None or value >= low) and (high is None or value <= high)


def read_secret(path: Path, what: str) -> str:
    """Return what a file holds, without the end of its line."""
    try:
        found = path.read_text(encoding="utf-8")[:TOKEN_LENGTH].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read {path}: {reason}; it must contain the {what}") from None
    if not found:
        raise InvalidInput(f"{path} is empty; it must contain the {what}")
    return found


def load_bridge(path: Path) -> BridgeFile:
    """Read a bridge file; one line names the key at fault and the remedy."""
    _, data = read_toml(path)
    try:
        return BridgeFile.model_validate(data)
    except ValidationError as error:
        _, line = first_in_words(error, _known_keys)
        raise InvalidInput(f"{path}: {line}") from None


SECTIONS: dict[str, type[Section]] = {
    "service": Service,
    "opcua": OpcUa,
    "mqtt": Mqtt,
    "contexts": Context,
    "measurement": Measurement,
    "setpoint": SetPoint,
    "read_back": Standing,
    "heartbeat": Heartbeat,
    "control": Point,
    "permit": Standing,
    "advice": Point,
    "safe": Safe,
    "home_assistant": HomeAssistant,
}


def _known_keys(place: Place) -> list[str]:
    """Return the keys of the section at a place."""
    named = [part for part in place if isinstance(part, str)]
    model = SECTIONS.get(named[-1], BridgeFile) if named else BridgeFile
    return list(model.model_fields)
