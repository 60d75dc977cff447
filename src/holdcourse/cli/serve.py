"""The command `holdcourse serve`: what it listens on, and for whom."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from holdcourse.cli.progress import dated_log
from holdcourse.errors import InvalidInput, MissingExtra, counted
from holdcourse.running.storage import ADDRESSES
from holdcourse.running.witness import Witness

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

LEASE_S = 3600.0  # of a copy: no server opens what is not whole
OPEN_FILES = 65_536  # a controller holds about ten


@app.command()
def serve(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the records (with --database: for everything else); created if needed."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; if other machines can reach it, tokens are needed.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free port.", min=0, max=65535)] = 8000,
    token_file: Annotated[Path | None, typer.Option(help="File of accepted tokens; see holdcourse token make.")] = None,
    connections: Annotated[int, typer.Option(help="Largest number of open connections.", min=8)] = 1024,
    per_address: Annotated[int, typer.Option(help="Largest number of connections from one address.", min=4)] = 512,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds until the headers must arrive, and between parts of a body.", min=0.1)
    ] = 10.0,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a reverse proxy, which names the real clients; --per-address ignores it. Needs tokens.",
        ),
    ] = None,
    witness: Annotated[
        str | None,
        typer.Option(metavar="SINK", help="Witness that is told the ends of records: a file, syslog:, https://..."),
    ] = None,
    witness_key: Annotated[Path | None, typer.Option(help="File of the key that signs reports to the witness.")] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            envvar="HOLDCOURSE_DATABASE",
            help="Database for the records, which several servers may share: postgresql://... The environment variable "
            "keeps its password out of sight.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="HOLDCOURSE_ADDRESS",
            help="Address at which other servers reach this one; default: where it listens.",
        ),
    ] = None,
    lease: Annotated[
        float, typer.Option(help="Seconds after which other servers take over from a silent one.", min=0.5, max=3600)
    ] = 10.0,
    notify: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file that says who receives alarms, by webhook or e-mail.")
    ] = None,
) -> None:
    """Run controllers over HTTP, with a page to watch them.

    It runs until you interrupt it. The next start continues from the folder's records.

    Example: [bold]holdcourse serve --data fleet[/]

    Example: [bold]holdcourse serve --data fleet --token-file tokens.json --host 0.0.0.0[/]

    Example: [bold]holdcourse serve --database postgresql://db.plant/holdcourse[/]
    """
    try:
        from holdcourse.service.core.notices import load_notify
        from holdcourse.service.http.admission import is_local
        from holdcourse.service.http.app import create_app
        from holdcourse.service.http.server import Bounds, Server
    except ModuleNotFoundError as error:
        raise MissingExtra(f'serve needs {error.name}: pip install "holdcourse[serve]"') from None
    if data is None and database is None:
        raise InvalidInput("say where to keep the records: give --data FOLDER, or --database postgresql://...")
    if data is None and notify is not None:
        raise InvalidInput("--notify needs a folder in which to remember what was sent; give --data FOLDER as well")
    if database is None and address is not None:
        raise InvalidInput("--address is for servers that share a database; give --database as well, or leave it out")
    if token_file is None and not is_local(host):
        raise InvalidInput(
            f"{host} can be reached from other machines, so tokens are needed: give --token-file "
            "(see: holdcourse token make), or listen on 127.0.0.1"
        )
    if proxy and token_file is None:
        raise InvalidInput(
            f"behind the proxy {proxy[0]} every caller seems to be on this machine, so tokens are needed: give "
            "--token-file (see: holdcourse token make)"
        )
    for given in proxy or ():
        _check_address(given)
    if (witness is None) != (witness_key is None):
        raise InvalidInput(
            "--witness and --witness-key belong together, the receiver of the reports and the key that signs them; "
            "give both"
        )
    told = None if witness is None or witness_key is None else Witness(witness_key, witness)
    _allow_many_files()
    dated_log(logging.WARNING)
    listener = _listening(host, port)
    try:
        store = _store(data, database, address or _address(listener), lease)
        app = create_app(store, token_file, witness=told, notify=None if notify is None else load_notify(notify))
    except BaseException:
        listener.close()
        raise
    bounds = Bounds(connections, per_address, frozenset(proxy or ()), head_s=request_timeout, body_s=request_timeout)

    def listening() -> None:
        typer.echo(f"serving {data if database is None else store.database} on {_address(listener)}")

    with listener, suppress(KeyboardInterrupt):
        Server(app, listener, bounds, listening).run()


@app.command()
def share(
    data: Annotated[Path, typer.Argument(help="Folder of the records; stop its server first.")],
    database: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", envvar="HOLDCOURSE_DATABASE", help="postgresql://..., a database made for the service."
        ),
    ],
) -> None:
    """Copy the controllers of a folder into a database that servers share.

    Copies every event and leaves the folder as it is. To go back to a folder, make a
    back-up of the database's controllers: a back-up is a data folder.

    Example: [bold]holdcourse share /var/lib/holdcourse postgresql://db.plant/holdcourse[/]
    """
    try:
        from holdcourse.service.core.data_folder import DataFolder
    except ModuleNotFoundError as error:
        raise MissingExtra(f'share needs {error.name}: pip install "holdcourse[serve,postgres]"') from None
    if not data.is_dir():
        raise InvalidInput(f"there is no folder {data}; give the folder that holdcourse serve --data used")
    folder = DataFolder(data)
    try:
        store = _store(None, database, "http://nowhere", LEASE_S)
        try:
            copied = store.take_over(folder)
            fleets = [] if folder.fleets is None else folder.fleets.ids()
        finally:
            store.close()
    finally:
        folder.close()
    for name, events in copied.items():
        typer.echo(f"{name}: {counted(events, 'event')}, read back and complete")
    typer.echo(
        f"{counted(len(copied), 'controller is', 'controllers are')} in {store.database}; serve them with --database"
    )
    if fleets:
        typer.echo(f"Fleets are kept in folders only. These stay in {data}: {', '.join(fleets)}")


def _store(data: Path | None, database: str | None, address: str, lease: float) -> Any:
    if database is None:
        return data
    if not database.startswith(ADDRESSES):
        raise InvalidInput(
            f"--database {database.partition(':')[0]!r} is not a supported database; give postgresql://host/name"
        )
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"--address must look like http://10.0.0.5:8000, got {address!r}")
    if parts.hostname in ("0.0.0.0", "::"):
        raise InvalidInput(
            f"other servers cannot reach this one at {address}; give the address at which they can, such as "
            "--address http://10.0.0.5:8000"
        )
    from holdcourse.service.core.shared_store import SharedStore

    return SharedStore(database, address, lease, data)


def _address(listener: socket.socket) -> str:
    address, bound = listener.getsockname()[:2]
    return f"http://{f'[{address}]' if ':' in address else address}:{bound}"


def _check_address(given: str) -> None:
    try:
        ip_address(given)
    except ValueError:
        raise InvalidInput(f"--proxy {given!r} is not an address; give it as numbers, such as 127.0.0.1") from None


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else "this name has no address"  # as those of a name are negative
        remedies = {errno.EADDRINUSE: "stop what runs there, or use --port", errno.EACCES: "use --port 1024 or more"}
        remedy = remedies.get(number, "give --host an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all")
        raise InvalidInput(f"cannot listen on {host}, port {port}: {reason}; {remedy}") from None
    # asyncio does this for sockets that it made itself; without it every answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener


def _allow_many_files() -> None:
    with suppress(ImportError, ValueError, OSError):  # where there is no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
