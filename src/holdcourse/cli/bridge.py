"""The command `holdcourse bridge`: a controller of a service wired into a plant."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

import holdcourse as hc
from holdcourse.bridge.bridge import Bridge
from holdcourse.bridge.bridgefile import BridgeFile, load_bridge
from holdcourse.bridge.check import checked
from holdcourse.bridge.plant import plant_of
from holdcourse.cli.arguments import Json
from holdcourse.cli.progress import dated_log
from holdcourse.errors import InvalidInput

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command()
def bridge(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="TOML file that says what is read and written; see examples/.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and log what would be done; write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Read every point once, show its value, and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Connect a controller to a plant that speaks OPC UA or MQTT.

    Runs until you interrupt it. If a connection is lost, the plant goes back to its
    safe state; docs/how-to/wire-it-in.md says how.

    Example: [bold]holdcourse bridge mill.toml --check[/]

    Example: [bold]holdcourse bridge mill.toml --dry-run[/]

    Example: [bold]holdcourse bridge mill.toml[/]
    """
    file = load_bridge(config)
    base = config.resolve().parent
    service = hc.connect(file.service.url, file.service.token(base), patience=0.0, timeout=file.service.timeout)
    remote = service.controller(file.controller)
    logging.getLogger("asyncua").setLevel(logging.CRITICAL)  # it logs each lost connection several times over
    if check:
        lines, is_well = checked(file, plant_of(file, base), remote)
        typer.echo(json.dumps({"ok": is_well, "lines": lines}) if as_json else "\n".join(lines))
        if not is_well:
            raise typer.Exit(1)
        return
    held = None if dry_run else _held(config, file)
    dated_log(logging.INFO)
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda given, _: stopped.append(given))
    try:
        Bridge(file, plant_of(file, base), remote, dry_run=dry_run).run(lambda: bool(stopped))
    finally:
        if held is not None:
            held.close()


def _held(config: Path, file: BridgeFile) -> Any:
    """Hold the file until the process ends, however it ends: a second bridge on it would answer for the same rounds."""
    opened = config.open("rb")
    try:
        import fcntl
    except ImportError:  # not on POSIX: they would notice each other by the heartbeat
        return opened
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        opened.close()
        raise InvalidInput(
            f"another bridge is already running with {config}, for {file.controller}; stop it first"
        ) from None
    return opened
