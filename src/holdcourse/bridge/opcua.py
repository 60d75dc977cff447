"""A plant that speaks OPC UA (extra ``[opcua]``).

Values are polled and not subscribed to, so there is no subscription that could die unnoticed. How old a value is, is
counted on the server's clock, which is read in the same request. Every connection has a loop and a thread of its own:
whatever hangs in it is left behind with them. A session that is lost ends at the server after half a minute; by default
it would stay for an hour, and small controllers have room for few.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from holdcourse.bridge.bridgefile import BridgeFile, Setting, Source, Standing, read_secret
from holdcourse.bridge.plant import PlantLost, Reading, in_plant_units, judged
from holdcourse.errors import HoldcourseError, InvalidInput, MissingExtra

try:
    from asyncua import ua
    from asyncua.client.client import Client
    from asyncua.common.node import Node
except ImportError as error:
    raise MissingExtra('a plant that speaks OPC UA needs asyncua: pip install "holdcourse[opcua]"') from error

Result = TypeVar("Result")
SESSION_S = 30.0
CURRENT_TIME = "i=2258"  # of the server: Server.ServerStatus.CurrentTime
WRITTEN = ("setpoint", "heartbeat", "control", "advice")
WHOLE = {
    ua.VariantType.SByte: 2**7,
    ua.VariantType.Byte: 2**8,
    ua.VariantType.Int16: 2**15,
    ua.VariantType.UInt16: 2**16,
    ua.VariantType.Int32: 2**31,
    ua.VariantType.UInt32: 2**32,
    ua.VariantType.Int64: 2**63,
    ua.VariantType.UInt64: 2**64,
}
ANY = Standing()


class OpcUaPlant:
    """See `plant.Plant`."""

    def __init__(self, file: BridgeFile, base: Path) -> None:
        assert file.opcua is not None
        self._file, self._about, self._base = file, file.opcua, base
        self._sources: dict[str, tuple[str, Source]] = {}
        for name, point in file.points().items():
            if name != "setpoint.read_back":
                self._sources[name] = (point.address, point if isinstance(point, Source) else ANY)
        self._sources["setpoint"] = (file.read_back.address, file.read_back)
        self._sources.pop("advice", None)  # only written
        self._line: _Line | None = None
        self._types: dict[str, ua.VariantType] = {}

    def connect(self) -> None:
        """See `plant.Plant`."""
        self.close()
        secret = None
        if self._about.password_file is not None:
            secret = read_secret(self._base / self._about.password_file, "password")
        line = _Line(self._file.timeout)
        try:
            self._client = line.call(self._made(secret), f"connecting to {self._about.url}", 2 * self._file.timeout)
            self._nodes = {name: self._client.get_node(node) for name, (node, _) in self._sources.items()}
            self._clock = self._client.get_node(CURRENT_TIME)
            points = self._file.points()
            self._written = {name: self._client.get_node(points[name].address) for name in WRITTEN if name in points}
            for name, node in self._written.items():
                kind = line.call(_type(node), f"reading the type of {name} ({points[name].address})")
                self._types[name] = kind
        except BaseException as error:
            line.close()
            if isinstance(error, ua.uaerrors.UaStringParsingError):
                raise InvalidInput(
                    f"a node is not written as OPC UA needs it, such as ns=2;s=Mill.Load: {error}"
                ) from None
            raise
        self._line = line

    async def _made(self, secret: str | None) -> Client:
        client = Client(self._about.url, timeout=self._file.timeout, watchdog_intervall=SESSION_S / 2)
        client.session_timeout = int(SESSION_S * 1000)
        client.name = client.description = "holdcourse bridge"
        if self._about.security is not None:
            await client.set_security_string(in_folder(self._about.security, self._base))
        if self._about.user is not None:
            client.set_user(self._about.user)
            client.set_password(secret or "")
        await client.connect()
        return client

    def read(self) -> dict[str, Reading]:
        """See `plant.Plant`."""
        if self._line is None:
            raise PlantLost("the plant is not connected")
        nodes = [self._clock, *self._nodes.values()]
        clock, *values = self._call(self._client.read_attributes(nodes), "reading")
        now = None if clock.Value is None else clock.Value.Value
        found: dict[str, Reading] = {}
        for (name, (_, source)), value in zip(self._sources.items(), values, strict=True):
            found[name] = _judged(source, value, now)
        return found

    def write(self, point: str, value: Setting, about: Mapping[str, Any] | None = None) -> None:
        """See `plant.Plant`."""
        if point in ("setpoint", "advice"):
            value = in_plant_units(self._file, value)
        if point not in self._written:
            return
        variant = ua.Variant(_converted(value, self._types[point], point), self._types[point])
        # No times: many controllers refuse to write them.
        self._call(self._written[point].write_value(ua.DataValue(variant)), f"writing {point}")

    def show(self, state: Mapping[str, Any]) -> None:
        """Show nothing: the nodes say it all."""

    def close(self) -> None:
        """See `plant.Plant`."""
        line, self._line = self._line, None
        if line is not None:
            with suppress(Exception):
                line.call(self._client.disconnect(), "closing", min(self._file.timeout, 1.0))
            line.close()

    def _call(self, work: Coroutine[Any, Any, Result], what: str) -> Result:
        if self._line is None:
            work.close()
            raise PlantLost("the plant is not connected")
        return self._line.call(work, what)


class _Line:
    """One connection's loop, in a thread; closed, it leaves behind what hangs."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # of what was left behind, nobody wants to know
        self._thread = threading.Thread(target=self._run, name="holdcourse bridge: OPC UA", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=self._timeout))
        finally:
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, Result], what: str, seconds: float | None = None) -> Result:
        limit = self._timeout if seconds is None else seconds
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(limit)
        except TookTooLong:
            future.cancel()
            raise PlantLost(f"{what} took longer than {limit:g} s") from None
        except (OSError, ua.uaerrors.UaError, asyncio.CancelledError) as error:
            raise PlantLost(f"{what} failed: {type(error).__name__}: {error}".rstrip(": ")) from None
        except HoldcourseError:
            raise
        except Exception as error:  # the library raises what it likes when a connection breaks
            raise PlantLost(f"{what} failed: {type(error).__name__}: {error}".rstrip(": ")) from error

    def close(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(self._timeout)


def in_folder(security: str, base: Path) -> str:
    """Return `security` with its files as they lie in the folder `base`, like all files that a bridge file names."""
    parts = [part.strip() for part in security.split(",")]
    files = [str(base / part) for part in parts[2:]]
    if any("," in file for file in files):
        raise InvalidInput(
            f"the folder {base} has a comma in its name, and commas separate the parts of `security`; move the bridge "
            "file and its certificates to another folder"
        )
    return ",".join([*parts[:2], *files])


async def _type(node: Node) -> ua.VariantType:
    return await node.read_data_type_as_variant_type()


def _judged(source: Source, value: ua.DataValue, now: datetime | None) -> Reading:
    status = value.StatusCode
    trouble = ""
    if status is not None and not status.is_good() and (status.is_bad() or not source.accept_uncertain):
        trouble = f"its quality is {status.name}"
    raw = None if value.Value is None else value.Value.Value
    age = None
    if value.SourceTimestamp is not None and now is not None:
        age = (_aware(now) - _aware(value.SourceTimestamp)).total_seconds()
    return judged(source, raw, age, trouble)


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _converted(value: Setting, kind: ua.VariantType, point: str) -> Any:
    """A value as a node of this type takes it."""
    if kind == ua.VariantType.Boolean:
        return int(value) % 2 == 1 if point == "heartbeat" else bool(value)
    if kind == ua.VariantType.String:
        return value if isinstance(value, str) else f"{value:.12g}"
    if isinstance(value, str):
        raise InvalidInput(f"{point} is {value!r}, but its node takes numbers ({kind.name}); connect a text node")
    if kind in WHOLE:
        if point == "heartbeat":
            return int(value) % WHOLE[kind]
        whole = round(float(value))
        if abs(whole - float(value)) > 1e-6:
            raise InvalidInput(f"{point} is {value:g}, but its node takes whole numbers ({kind.name}); use `factor`")
        return whole
    return float(value)
