"""Commands on what a controller has recorded: verify, backup, accept, replay, export."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import holdcourse as hc
from holdcourse.cli.arguments import Json, Trusted, bill_rows, bill_table, completing
from holdcourse.cli.progress import Working
from holdcourse.deciding import registry
from holdcourse.errors import counted
from holdcourse.running import audit

Record = Annotated[
    str, typer.Argument(help="The record that a controller wrote: a file, or postgresql://host/name#controller.")
]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)
EXPORT_PATIENCE_S, EXPORT_TIMEOUT_S = 5.0, 60.0


@app.command()
def verify(
    log: Record,
    witness: Annotated[Path | None, typer.Option(help="File with the reports to a witness.")] = None,
    key: Annotated[Path | None, typer.Option(help="File with the witness's key.")] = None,
    trust: Trusted = None,
    as_json: Json = False,
) -> None:
    """Repeat every recorded decision and compare it bit by bit.

    The controller may be running meanwhile. The exit code is 1 if anything differs
    or is missing.

    Example: [bold]holdcourse verify turbine.log[/]

    Example: [bold]holdcourse verify turbine.log --witness said.jsonl --key witness.key[/]
    """
    with Working("reading the record") as working:
        found = audit.verify(
            log,
            witness=witness,
            key=key,
            trust=trust or (),
            progress=lambda done, total: working.tell("deciding again", done, total),
        )
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"verified": found.verified}))
    else:
        for line in _verdict(log, found):
            typer.echo(line)
    if not found.verified:
        raise typer.Exit(1)


def _verdict(log: str, found: audit.Verification) -> list[str]:
    if found.differences:
        outcome = counted(len(found.differences), "difference")
    else:
        outcome = "incomplete" if found.missing else "verified"
    taken_back = f" ({found.retractions} taken back)" if found.retractions else ""
    size = f"{counted(found.decisions, 'decision')}, {counted(found.tells, 'tell')}{taken_back}"
    lines = [f"{log}: {size}: {outcome}"]
    lines.append(f"  {counted(found.events, 'event')}, the last has the hash {found.head}")
    if found.statements is not None:
        reach = f"up to event {found.witnessed}"
        lines.append(f"  statements of the witness that were compared: {found.statements}, {reach}")
    lines += [f"  {line}" for line in found.accepted]
    lines += [f"  {line}" for line in found.differences[:20]]
    if found.last_digits:
        values = counted(len(found.last_digits), "value differs in its", "values differ in their")
        lines.append(f"  {values} last digits only; the decisions are the same")
    if found.missing:
        lines.append(f"  {found.missing}")
    lines += [f"  written with {name} {then}, checked with {now}" for name, then, now in found.versions]
    return lines


@app.command()
def backup(
    log: Record,
    target: Annotated[Path, typer.Argument(help="File for the copy; must not exist yet.")],
) -> None:
    """Copy a record completely while its controller runs.

    An ordinary copy of a record in use may miss its newest events; this one does not.

    Example: [bold]holdcourse backup turbine.log turbine-monday.log[/]
    """
    typer.echo(f"{target}: {counted(audit.backup(log, target), 'event')} of {log}, read back and complete")


@app.command()
def accept(
    log: Annotated[Path, typer.Argument(help="A record whose newest events are missing.")],
    reason: Annotated[str, typer.Option(help="Why you accept it; kept in the record.")],
) -> None:
    """Continue with a record whose newest events are missing.

    A controller refuses such a record, because it would decide rounds again that the
    machine may already have run. Restore the missing part instead if you can.

    Example: [bold]holdcourse accept turbine.log --reason "the disk failed"[/]
    """
    typer.echo(f"{log} is accepted with {counted(audit.accept(log, reason), 'event')}; the record says so")


@app.command()
def replay(
    log: Record,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The other policy: gp-md, cgp-lcb, proximal-lcb, stationary, ...",
            autocompletion=completing(registry.names("problem")),
        ),
    ],
    trust: Trusted = None,
    as_json: Json = False,
) -> None:
    """Estimate what another policy would have done in a recorded run.

    There are two kinds of numbers: bills estimated by the record's own model and,
    if decisions were drawn at random, a doubly robust estimate of the service cost,
    which is right even if that model is wrong.

    Example: [bold]holdcourse replay turbine.log --policy cgp-lcb[/]
    """
    with Working("deciding again"):
        found = hc.replay(log, policy, trust=trust or ())
    bills = {"as recorded": found.recorded, policy: found.other, "perfect foresight": found.optimum}
    total, count = found.measured
    note = (
        f"Model-based: every service cost is an estimate of the recorded model, learned from "
        f"{counted(count, 'measurement')} (sum {total:.6g}). Movement is exact for these paths."
    )
    if found.ended_by is not None:
        note += f" The replay ends after {counted(found.rounds, 'round')}, at {found.ended_by}."
    robust = found.doubly_robust
    if as_json:
        values = {name: _number(value) for name, value in vars(robust).items()} | {"saved": _number(robust.saved)}
        rows = {"rounds": found.rounds, "bills": bill_rows(bills), "note": note, "doubly_robust": values}
        typer.echo(json.dumps(rows))
        return
    Console().print(bill_table(bills, found.optimum.total, f"{counted(found.rounds, 'round')}, model-based"))
    typer.echo(note)
    if robust.refusal is not None:
        typer.echo(f"Doubly robust: no estimate is possible. {robust.refusal[0].upper()}{robust.refusal[1:]}.")
        return
    typer.echo(
        f"Doubly robust, from {robust.rounds} rounds that ran as drawn, which count like {robust.visits:.0f} visits: "
        f"{policy} would have cost {robust.mean:.4g} a round in service (95 % interval {robust.low:.4g} to "
        f"{robust.high:.4g}). "
        f"What ran cost {robust.recorded:.4g} a round, so {policy} would have saved {robust.saved:.3g} "
        f"({robust.recorded - robust.high:.3g} to {robust.recorded - robust.low:.3g})."
    )


def _number(value: Any) -> Any:
    """A value as JSON holds it: what is no number is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@app.command()
def export(
    url: Annotated[str, typer.Argument(help="Address of the service, as holdcourse serve prints it.")],
    controller: Annotated[str, typer.Argument(help="The controller's id.")],
    target: Annotated[Path, typer.Argument(help="File to write: .csv or .parquet.")],
    token: Annotated[
        str | None,
        typer.Option(envvar="HOLDCOURSE_TOKEN", help="A token, if the service asks for one.", show_envvar=True),
    ] = None,
) -> None:
    """Write every round of a controller to CSV or Parquet.

    The table covers all epochs: settings by value, times in the plant's zone, units
    in the headers, who was in charge, what was expected, measured and taken back.

    Example: [bold]holdcourse export http://127.0.0.1:8000 turbine-1 rounds.csv[/]
    """
    # Whoever waits at a shell would rather know soon that nobody answers; a long table may take its time.
    with hc.connect(url, token, patience=EXPORT_PATIENCE_S, timeout=EXPORT_TIMEOUT_S) as service:
        try:
            length = service.controller(controller).export(target)
        except hc.errors.ServiceError as error:
            if error.status == 401:
                error.args = (f"{error}; give it with --token, or in HOLDCOURSE_TOKEN",)
            raise
    typer.echo(f"{target}: {length:,} bytes")
