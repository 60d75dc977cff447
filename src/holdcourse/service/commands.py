"""The command line of the service: `holdcourse serve` and `holdcourse token`."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from holdcourse.arguments import Json, names_of, names_option
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.service import tokens
from holdcourse.witness import Witness

token_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Tokens: who may use the service.")

TokenFile = Annotated[Path, typer.Option("--token-file", help="The file that holds the tokens' hashes.")]
Expires = Annotated[
    str | None, typer.Option(help="A date (2027-01-31), or how long it counts: 24h, 90d, 12w.", show_default="never")
]
OPEN_FILES = 65_536  # a controller holds about ten


def serve(
    data: Annotated[Path, typer.Option(help="Folder of the records; made if needed.")],
    host: Annotated[str, typer.Option(help="Address to listen on; another than this machine's needs tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[Path | None, typer.Option(help="Tokens that are let in; see: holdcourse token make.")] = None,
    connections: Annotated[int, typer.Option(help="Most connections open at once.", min=8)] = 1024,
    per_address: Annotated[int, typer.Option(help="Most connections from one address.", min=4)] = 512,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds in which headers must arrive, and a body must go on arriving.", min=0.1)
    ] = 10.0,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A reverse proxy, which says for whom it speaks; --per-address does not hold for it. Needs tokens.",
        ),
    ] = None,
    witness: Annotated[
        str | None, typer.Option(metavar="SINK", help="Who is told how far records are: a file, syslog:, https://...")
    ] = None,
    witness_key: Annotated[Path | None, typer.Option(help="File of the key that signs what a witness is told.")] = None,
) -> None:
    """Run controllers over HTTP, with a page to watch them.

    Until interrupted; the next start goes on from the records in the folder.

    Example: [bold]holdcourse serve --data fleet[/]

    Example: [bold]holdcourse serve --data fleet --token-file tokens.json --host 0.0.0.0[/]
    """
    try:
        from holdcourse.service.app import create_app, is_local
        from holdcourse.service.connections import Bounds
        from holdcourse.service.server import Server
    except ModuleNotFoundError as error:
        raise MissingExtra(f'serve needs {error.name}: pip install "holdcourse[serve]"') from None
    if token_file is None and not is_local(host):
        raise InvalidInput(
            f"{host} can be reached from other machines: give --token-file (see: holdcourse token make), or listen on "
            "127.0.0.1"
        )
    if proxy and token_file is None:
        raise InvalidInput(
            f"behind the proxy {proxy[0]} everybody looks as if he sat there: give --token-file (see: holdcourse token "
            "make)"
        )
    for address in proxy or ():
        _check_address(address)
    if (witness is None) != (witness_key is None):
        raise InvalidInput("--witness and --witness-key go together: who is told, and the key that signs it")
    told = None if witness is None or witness_key is None else Witness(witness_key, witness)
    _allow_many_files()
    listener = _listening(host, port)
    app = create_app(data, token_file, witness=told)
    bounds = Bounds(connections, per_address, frozenset(proxy or ()), head_s=request_timeout, body_s=request_timeout)

    def listening() -> None:
        address, bound = listener.getsockname()[:2]
        typer.echo(f"{data} is served on http://{f'[{address}]' if ':' in address else address}:{bound}")

    with listener, suppress(KeyboardInterrupt):
        Server(app, listener, bounds, listening).run()


def _check_address(given: str) -> None:
    try:
        ip_address(given)
    except ValueError:
        raise InvalidInput(f"--proxy {given!r} is no address; give it as numbers, such as 127.0.0.1") from None


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; stop what runs there, or use --port"
        ) from None
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


@token_app.command("make")
def make_token(
    token_file: TokenFile,
    name: Annotated[str, typer.Option(help="Whose it is; shown in the list.")] = "",
    scope: Annotated[
        list[str] | None,
        names_option("--scope", "read, ask, tell or admin, e.g. ask,tell (default).", tokens.SCOPES),
    ] = None,
    controller: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="For which controllers; default all.")
    ] = None,
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it; it is shown only this once.

    Example: [bold]holdcourse token make --token-file tokens.json --name scada[/]

    Example: [bold]holdcourse token make --token-file tokens.json --expires 90d[/]
    """
    scopes, controllers = names_of(scope) or ("ask", "tell"), names_of(controller) or (tokens.EVERYTHING,)
    _show(*tokens.make(token_file, name, scopes, controllers, expires), as_json=as_json)


@token_app.command("rotate")
def rotate_token(
    token: Annotated[str, typer.Argument(help="Id of the token, as the list shows it.")],
    token_file: TokenFile,
    overlap: Annotated[str, typer.Option(help="How long the old secret is let in: 30m, 24h, 7d; 0: no more.")] = "24h",
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Give a token a new secret and print it; id, name and scopes stay. The old one works until the overlap ends.

    Example: [bold]holdcourse token rotate 1f3a9c2e --token-file tokens.json[/]
    """
    _show(*tokens.rotate(token_file, token, overlap, expires), as_json=as_json)


def _show(token: tokens.Token, secret: str, *, as_json: bool) -> None:
    ends = token.expires or None
    if as_json:
        typer.echo(json.dumps({"id": token.id, "token": secret, "expires": ends}))
        return
    typer.echo(secret)
    allowed = f"{', '.join(token.scopes)} on {', '.join(token.controllers)}, expires {ends or 'never'}"
    typer.echo(f"Token {token.id} ({allowed}) is shown only this once; keep it secret.", err=True)
    if token.former:
        typer.echo(f"The secret before it is let in until {token.former[0][1]}.", err=True)


@token_app.command("list")
def list_tokens(token_file: TokenFile, as_json: Json = False) -> None:
    """Which tokens there are.

    Example: [bold]holdcourse token list --token-file tokens.json[/]
    """
    known = tokens.read(token_file)
    if as_json:
        shown = [
            {
                **{name: getattr(token, name) for name in ("id", "name", "scopes", "controllers", "made")},
                "expires": token.expires or None,
                "former_until": [until for _, until in token.former],
            }
            for token in known
        ]
        typer.echo(json.dumps(shown))
        return
    table = Table("id", "name", "scopes", "controllers", Column("made", no_wrap=True), Column("expires", no_wrap=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for token in known:
        ends = "never" if not token.expires else f"{token.expires[:10]}{' (over)' if token.expires <= now else ''}"
        scopes, controllers = ", ".join(token.scopes), ", ".join(token.controllers)
        table.add_row(token.id, token.name, scopes, controllers, token.made[:10], ends)
    Console().print(table)
    for token in known:
        for _, until in token.former:
            if until > now:
                typer.echo(f"{token.id}: a former secret is let in until {until}")


@token_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Id of the token, as the list shows it.")], token_file: TokenFile
) -> None:
    """Revoke a token; a running server refuses it from the next request on.

    Example: [bold]holdcourse token revoke 1f3a9c2e --token-file tokens.json[/]
    """
    gone = tokens.revoke(token_file, token)
    typer.echo(f"{gone.id} {gone.name} is revoked")
