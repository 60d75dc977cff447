"""The command `holdcourse token`: who may use the service."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from holdcourse.cli.arguments import Json, names_of, names_option
from holdcourse.service.core import tokens

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Create, list and revoke the tokens of the service's clients.",
)

TokenFile = Annotated[Path, typer.Option("--token-file", help="The file that holds the tokens' hashes.")]
Expires = Annotated[
    str | None,
    typer.Option(help="When it expires: a date (2027-01-31), or 24h, 90d, 12w from now.", show_default="never"),
]


@app.command("make")
def make_token(
    token_file: TokenFile,
    name: Annotated[str, typer.Option(help="Name of the program or person that uses the token.")] = "",
    scope: Annotated[
        list[str] | None,
        names_option("--scope", "read, ask, tell or admin, e.g. ask,tell (default).", tokens.SCOPES),
    ] = None,
    controller: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Controllers that the token may use; default: all.")
    ] = None,
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it; it is never shown again.

    Example: [bold]holdcourse token make --token-file tokens.json --name scada[/]

    Example: [bold]holdcourse token make --token-file tokens.json --expires 90d[/]
    """
    scopes, controllers = names_of(scope) or ("ask", "tell"), names_of(controller) or (tokens.EVERYTHING,)
    _show(*tokens.make(token_file, name, scopes, controllers, expires), as_json=as_json)


@app.command("rotate")
def rotate_token(
    token: Annotated[str, typer.Argument(help="Id of the token, as the list shows it.")],
    token_file: TokenFile,
    overlap: Annotated[str, typer.Option(help="How long the old secret still works: 30m, 24h, 7d, or 0.")] = "24h",
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Give a token a new secret and print it; id, name and scopes stay. The old secret works until the overlap ends.

    Example: [bold]holdcourse token rotate 1f3a9c2e --token-file tokens.json[/]
    """
    _show(*tokens.rotate(token_file, token, overlap, expires), as_json=as_json)


def _show(token: tokens.Token, secret: str, *, as_json: bool) -> None:
    ends = token.expires or None
    if as_json:
        typer.echo(json.dumps({"id": token.id, "token": secret, "expires": ends}))
        return
    typer.echo(secret)
    where = "all controllers" if tokens.EVERYTHING in token.controllers else ", ".join(token.controllers)
    allowed = f"{', '.join(token.scopes)} on {where}; {f'expires {ends}' if ends else 'does not expire'}"
    typer.echo(f"Token {token.id} ({allowed}) is shown only this once; keep it secret.", err=True)
    if token.former:
        typer.echo(f"The previous secret works until {token.former[0][1]}.", err=True)


@app.command("list")
def list_tokens(token_file: TokenFile, as_json: Json = False) -> None:
    """List the tokens.

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
        ends = "never" if not token.expires else f"{token.expires[:10]}{' (expired)' if token.expires <= now else ''}"
        scopes = ", ".join(token.scopes)
        controllers = "all" if tokens.EVERYTHING in token.controllers else ", ".join(token.controllers)
        table.add_row(token.id, token.name, scopes, controllers, token.made[:10], ends)
    Console().print(table)
    for token in known:
        for _, until in token.former:
            if until > now:
                typer.echo(f"{token.id}: the previous secret works until {until}")


@app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Id of the token, as the list shows it.")], token_file: TokenFile
) -> None:
    """Revoke a token; a running server refuses it from the next request on.

    Example: [bold]holdcourse token revoke 1f3a9c2e --token-file tokens.json[/]
    """
    gone = tokens.revoke(token_file, token)
    typer.echo(f"token {gone.id} ({gone.name}) has been revoked" if gone.name else f"token {gone.id} has been revoked")
