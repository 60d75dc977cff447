"""The command `holdcourse export`: the rounds of a controller of a service as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import holdcourse as hc

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command()
def export(
    url: Annotated[str, typer.Argument(help="The service, as holdcourse serve prints it.")],
    controller: Annotated[str, typer.Argument(help="The controller's id.")],
    target: Annotated[Path, typer.Argument(help="The table: .csv or .parquet.")],
    token: Annotated[
        str | None,
        typer.Option(envvar="HOLDCOURSE_TOKEN", help="A token, where the service asks for one.", show_envvar=True),
    ] = None,
) -> None:
    """All rounds of a controller as CSV or Parquet.

    Over all epochs: settings by value, times with the plant's offset, units in
    the heads, who was in charge, what was expected, measured and taken back.

    Example: [bold]holdcourse export http://127.0.0.1:8000 turbine-1 rounds.csv[/]
    """
    with hc.connect(url, token) as service:
        length = service.controller(controller).export(target)
    typer.echo(f"{target}: {length:,} bytes")
