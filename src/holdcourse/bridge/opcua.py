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
from holdcourse.bridge.faults import network_fault, no_answer
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
SERVER = "an OPC UA server"
NO_NODE = ("BadNodeIdUnknown", "BadNodeIdInvalid")
NOT_ALLOWED = ("BadUserAccessDenied", "BadNotWritable", "BadWriteNotSupported", "BadNotReadable")
NO_ROOM = ("BadTooManySessions", "BadMaxConnectionsReached", "BadTcpNotEnoughResources", "BadServerHalted")


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
        line, client = _Line(self._file.timeout), None
        url, seconds = self._about.url, 2 * self._file.timeout
        try:
            slow = no_answer(url, SERVER, seconds) + self._if_secured()
            client = line.call(self._made(secret), f"{url} could not be reached", seconds, slow)
            self._nodes = {name: client.get_node(node) for name, (node, _) in self._sources.items()}
            self._clock = client.get_node(CURRENT_TIME)
            points = self._file.points()
            self._written = {name: client.get_node(points[name].address) for name in WRITTEN if name in points}
            for name, node in self._written.items():
                kind = line.call(_type(node, name, points[name].address), f"the type of {name} did not come")
                self._types[name] = kind
        except BaseException as error:
            self._leave(line, client)
            if isinstance(error, ua.uaerrors.UaStringParsingError):
                text = str(error.args[0]).removeprefix("Error parsing string ")
                raise InvalidInput(
                    f"the node {text!r} is not written as OPC UA needs it; write it like ns=2;s=Mill.Load"
                ) from None
            raise
        self._line, self._client = line, client

    def _if_secured(self) -> str:
        if self._about.security is None:
            return ""
        return ". The key in opcua.security may also not belong to its certificate, or the server may not trust it"

    async def _made(self, secret: str | None) -> Client:
        url, timeout = self._about.url, self._file.timeout
        client = Client(url, timeout=timeout, watchdog_intervall=SESSION_S / 2)
        client.session_timeout = int(SESSION_S * 1000)
        client.name = client.description = "holdcourse bridge"
        try:
            if self._about.security is not None:
                await self._secure(client, in_folder(self._about.security, self._base))
            if self._about.user is not None:
                client.set_user(self._about.user)
                client.set_password(secret or "")
            await client.connect()
        except TimeoutError:
            raise PlantLost(no_answer(url, SERVER, timeout) + self._if_secured()) from None
        except OSError as error:
            raise PlantLost(network_fault(error, url, SERVER)) from None
        except ua.uaerrors.UaStatusCodeError as error:
            raise PlantLost(self._refusal(_name(error))) from None
        except ua.uaerrors.UaError as error:
            if not str(error).startswith("No matching endpoints"):
                raise
            raise PlantLost(await self._endpoints(Client(url, timeout=timeout))) from None
        return client

    async def _secure(self, client: Client, security: str) -> None:
        try:
            await client.set_security_string(security)
        except FileNotFoundError as error:
            path = error.filename
            raise InvalidInput(f"opcua.security: there is no file {path}; correct the name, or put it there") from None
        except OSError as error:
            if error.filename is None:  # of the network: it also asks the server for its certificate
                raise
            why = f"{error.filename} cannot be read ({error.strerror})"
            raise InvalidInput(f"opcua.security: {why}; give a file that the user of the bridge may read") from None
        except (ValueError, TypeError) as error:  # of the library that reads certificates and keys
            raise InvalidInput(
                f"opcua.security: the certificate or the key cannot be used ({str(error)[:80]}); the certificate is "
                "needed as DER or PEM, and its key as PEM, followed by ::password if it has one"
            ) from None

    def _refusal(self, code: str) -> str:
        """Return why the server does not let the bridge in, by the name of its answer."""
        url, user = self._about.url, self._about.user
        if code == "BadIdentityTokenRejected" and user is None:
            return f"{url} lets nobody in without a name ({code}); give opcua.user and opcua.password_file"
        if code == "BadIdentityTokenRejected":
            return f"{url} takes no names and passwords ({code}); leave out opcua.user, or allow them in the server"
        if code in ("BadUserAccessDenied", "BadIdentityTokenInvalid"):
            who = "somebody without a name" if user is None else f"the user {user!r}, or the password is wrong"
            remedy = "give opcua.user" if user is None else "check opcua.user and opcua.password_file"
            return f"{url} does not let in {who} ({code}); {remedy}"
        if code.startswith("BadCertificate") or code == "BadSecurityChecksFailed":
            return (
                f"{url} does not accept the certificate in opcua.security ({code}); let the server trust it, and check "
                "that it has not expired"
            )
        if code in NO_ROOM:
            return f"{url} has no room for another session ({code}); close a client that is not needed"
        if code == "BadTcpEndpointUrlInvalid":
            return f"the server has no endpoint {url} ({code}); check what follows the port in opcua.url"
        return f"{url} refuses the connection ({code}); check opcua.url, and the log of the server"

    async def _endpoints(self, client: Client) -> str:
        """Return which security the server offers instead of the one that was asked for."""
        found = await client.connect_and_get_server_endpoints()
        offered = {
            _policy(each.SecurityPolicyUri) + (f",{each.SecurityMode.name}" if each.SecurityMode != 1 else "")
            for each in found
        }
        ours = "an open connection" if self._about.security is None else ",".join(self._about.security.split(",")[:2])
        is_open = "None" in offered
        secured = sorted(offered - {"None"})
        ways = [f'begin opcua.security with "{secured[0]}"'] if secured else []
        ways += ["leave out opcua.security"] if is_open and self._about.security is not None else []
        also = ["an open connection"] if is_open else []
        return (
            f"{self._about.url} does not offer {ours}, but {' and '.join(secured + also) or 'nothing'}; "
            f"{' or '.join(ways) or 'add an endpoint in the server'}"
        )

    def read(self) -> dict[str, Reading]:
        """See `plant.Plant`."""
        if self._line is None:
            raise PlantLost("the plant is not connected")
        nodes = [self._clock, *self._nodes.values()]
        clock, *values = self._call(self._client.read_attributes(nodes), "the values did not come")
        now = None if clock.Value is None else clock.Value.Value
        found: dict[str, Reading] = {}
        for (name, (node, source)), value in zip(self._sources.items(), values, strict=True):
            found[name] = _judged(source, value, now, node)
        return found

    def write(self, point: str, value: Setting, about: Mapping[str, Any] | None = None) -> None:
        """See `plant.Plant`."""
        if point in ("setpoint", "advice"):
            value = in_plant_units(self._file, value)
        if point not in self._written:
            return
        variant = ua.Variant(_converted(value, self._types[point], point), self._types[point])
        address = self._file.points()[point].address
        self._call(_write(self._written[point], variant, point, address), f"{point} could not be written")

    def show(self, state: Mapping[str, Any]) -> None:
        """Show nothing: the nodes say it all."""

    def close(self) -> None:
        """See `plant.Plant`."""
        line, self._line = self._line, None
        if line is not None:
            self._leave(line, self._client)

    def _leave(self, line: _Line, client: Client | None) -> None:
        """End the session, if there is one: small controllers have room for few."""
        if client is not None:
            with suppress(Exception):
                line.call(client.disconnect(), "it did not close", min(self._file.timeout, 1.0))
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

    def call(
        self, work: Coroutine[Any, Any, Result], otherwise: str, seconds: float | None = None, slow: str = ""
    ) -> Result:
        """Do something; `otherwise` says what did not happen, and `slow` all of it when it takes too long."""
        limit = self._timeout if seconds is None else seconds
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(limit)
        except TookTooLong:
            future.cancel()
            raise PlantLost(slow or f"{otherwise} within {limit:g} s") from None
        except (OSError, asyncio.CancelledError):
            raise PlantLost(f"{otherwise}, because the connection was lost") from None
        except ua.uaerrors.UaStatusCodeError as error:
            raise PlantLost(f"{otherwise}; the server says {_name(error)}") from None
        except ua.uaerrors.UaStringParsingError:
            raise
        except HoldcourseError:
            raise
        except Exception as error:  # the library raises what it likes when a connection breaks
            raise PlantLost(f"{otherwise}: {type(error).__name__}: {error}".rstrip(": ")) from error

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


async def _type(node: Node, name: str, address: str) -> ua.VariantType:
    try:
        return await node.read_data_type_as_variant_type()
    except ua.uaerrors.UaStatusCodeError as error:
        code = _name(error)
        if code == "BadAttributeIdInvalid":
            raise PlantLost(f"{name}: {address} has no value ({code}); name a variable of the server") from None
        raise PlantLost(f"{name}: {_trouble(code, address)}") from None


async def _write(node: Node, variant: ua.Variant, name: str, address: str) -> None:
    try:
        await node.write_value(ua.DataValue(variant))  # no times: many controllers refuse to write them
    except ua.uaerrors.UaStatusCodeError as error:
        code, said = _name(error), f"{name} cannot be written to {address}"
        if code in NOT_ALLOWED:
            why = f"the server does not let the bridge write there ({code}); allow it, or give opcua.user"
        elif code == "BadTypeMismatch":
            why = f"its type is another than it says ({code}); connect a node whose type is {variant.VariantType.name}"
        elif code == "BadOutOfRange":
            why = f"the server does not take {variant.Value!r} ({code}); widen its range, or narrow low and high"
        else:
            why = f"the server says {code}"
        raise PlantLost(f"{said}: {why}") from None


def _trouble(code: str, address: str) -> str:
    """Return what is wrong with a node by what the server says of it."""
    if code in NO_NODE:
        return f"the server has no node {address} ({code}); check the number after ns= and the name, letter by letter"
    if code in NOT_ALLOWED:
        return f"the server does not let the bridge read {address} ({code}); allow it, or give opcua.user"
    return f"its quality is {code}"


def _name(error: ua.uaerrors.UaStatusCodeError) -> str:
    return ua.StatusCode(error.code).name


def _policy(uri: str) -> str:
    return uri.rpartition("#")[2].replace("_", "")


def _judged(source: Source, value: ua.DataValue, now: datetime | None, address: str) -> Reading:
    status = value.StatusCode
    trouble = ""
    if status is not None and not status.is_good() and (status.is_bad() or not source.accept_uncertain):
        trouble = _trouble(status.name, address)
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
