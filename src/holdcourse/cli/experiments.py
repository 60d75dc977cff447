"""Commands of the experiments: `holdcourse reproduce` and `holdcourse sweep`, and what `compare` shares with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from holdcourse.cli.arguments import Json, names_of, names_option
from holdcourse.deciding.named_policies import check_policy_name, policy_names
from holdcourse.errors import InvalidInput, counted
from holdcourse.experiments.paper import SyntheticPlan, WindPlan
from holdcourse.experiments.reproduce import Reproduction, reproduce, write_reports
from holdcourse.experiments.results import Results, cost_grid, mean_rows
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.runs import CLAIRVOYANT, Sweep
from holdcourse.experiments.store import Folder
from holdcourse.experiments.style import drawing
from holdcourse.experiments.sweepfile import EXAMPLE, json_schema, load_sweep
from holdcourse.mistakes import first_in_words

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

Plan = TypeVar("Plan", SyntheticPlan, WindPlan)
SHOWN_IDENTITY = 8  # letters of it in a table
LISTED = {"repetition": "rep."}  # headings of a list that is to fit 80 columns
SCENE = ("problem", "rho", "start")  # what the runs of all policies share

Numbers = list[str] | None
Rho = Annotated[Numbers, typer.Option("--rho", metavar="NUMBERS", help="Weights of the service cost, e.g. 0.5,1,2.")]
Workers = Annotated[int | None, typer.Option(help="Number of runs at a time; default: one per processor.")]
Dask = Annotated[str | None, typer.Option(help="Run on the Dask cluster at this address, e.g. tcp://10.0.0.1:8786.")]
Out = Annotated[Path, typer.Option(help="Folder of the results; the same command resumes a stopped run.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Remove the results in the folder first.")]


@app.command("reproduce", no_args_is_help=True)
def reproduce_paper(
    section: Annotated[Literal["synthetic", "wind", "all"], typer.Argument(help="Which section of the paper.")],
    rho: Rho = None,
    functions: Annotated[
        int | None, typer.Option(help="How many random functions, if synthetic; the paper has 25.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds (hours) of a run; the paper has 500, and 960 for wind.")
    ] = None,
    policies: Annotated[
        Numbers,
        names_option("--policies", "Which policies, e.g. gp-md,cgp-lcb.", policy_names()),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random number in the run.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="For wind: folder of the paper's own files, ml_2016_MM.netcdf.")
    ] = None,
    workers: Workers = None,
    dask: Dask = None,
    out: Out = Path("reproduction"),
    fresh: Fresh = False,
    quick: Annotated[bool, typer.Option("--quick", help="Do a few short runs, for a look within seconds.")] = False,
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments: runs, tables, figures, a report.

    synthetic: random functions on a grid, its Figure 2.
    wind: altitude of an airborne turbine, Figures 1 and 3 and the appendix, on
    the bundled wind or on the paper's own files.
    all: both, in one report.

    Example: [bold]holdcourse reproduce synthetic --quick[/]

    Example: [bold]holdcourse reproduce wind --data era5 --out results[/]

    Example: [bold]holdcourse reproduce all --workers 4[/]
    """
    for option, given, other in (("--functions", functions, "wind"), ("--data", data, "synthetic")):
        if given is not None and section == other:
            raise InvalidInput(f"{option} does not apply to the {other} experiments; leave it out")
    weights = numbers_of(rho, "--rho")
    changes = {"rho": weights, "rounds": rounds, "policies": names_of(policies), "seed": seed}
    plans: list[SyntheticPlan | WindPlan] = []
    if section != "wind":
        also = {"functions": functions, "sweep_rho": weights, "sweep_rounds": rounds}
        plans.append(_changed(SyntheticPlan.quick() if quick else SyntheticPlan(), changes | also))
    if section != "synthetic":
        wind = _changed(WindPlan.quick() if quick else WindPlan(), changes)
        plans.append(wind if data is None else wind.on(data))
    _reproduce(plans, out, workers, dask, fresh, as_json)


def _reproduce(
    plans: list[SyntheticPlan | WindPlan],
    out: Path,
    workers: int | None,
    dask: str | None,
    fresh: bool,
    as_json: bool,
) -> None:
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    with drawing():
        pass  # a missing matplotlib should not be found after an hour of runs
    done: list[Reproduction] = []
    with executor_of(dask) as executor, resumable(out):
        for plan in plans:
            one = reproduce(plan, out, executor=executor, workers=workers, fresh=fresh, say=notes.print)
            done.append(one)
            if not as_json:
                console = Console()
                for grid in one.grids:
                    console.print(grid.shown(console.width))
                for line in one.notes:
                    typer.echo(line)
                if one.figures:
                    typer.echo(f"figures: {one.report.folder / 'figures'}")
    page = write_reports(done, out)
    if as_json:
        found = [as_values(one.report) | {"tables": [grid.as_json() for grid in one.grids]} for one in done]
        typer.echo(json.dumps({"report": str(page), "sections": found}))
    else:
        typer.echo(f"report: {page}")
    finish([one.report for one in done], notes)


@contextmanager
def executor_of(dask: str | None) -> Iterator[Executor | None]:
    """Connect to the Dask cluster at this address; None stands for our own processes."""
    if dask is None:
        yield None
        return
    from holdcourse.ext.dask import cluster

    with cluster(dask) as executor:
        yield executor


@contextmanager
def resumable(out: Path, what: str = "runs") -> Iterator[None]:
    """Say, when interrupted within, which work is finished and how to go on; the exit code is 1."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"interrupted; finished {what} are in {out}, and the same command continues from there"
        )
        raise typer.Exit(1) from None


def finish(reports: list[Report], notes: Console) -> None:
    """Say what was done; exit code 1 if a run failed."""
    for report in reports:
        if report.done:
            rate = f"{report.done / report.seconds:.1f} runs/s, {report.decisions / report.seconds:.0f} decisions/s"
            notes.print(f"{report.folder}: {counted(report.done, 'run')} in {report.seconds:.1f} s ({rate})")
    failed = [pair for report in reports for pair in report.failed]
    for run, path in failed[:10]:
        reason = path.read_text(encoding="utf-8").strip().splitlines()[-1]
        notes.print(
            f"failed: {run.policy.name}, rho {run.rho:g}, problem {run.problem}: {reason} ({path})", markup=False
        )
    if failed:
        rest = "the others are in the tables" if any(report.rows for report in reports) else "no other run was done"
        notes.print(f"{counted(len(failed), 'run')} failed; {rest}")
        raise typer.Exit(1)


def as_values(report: Report) -> dict[str, Any]:
    """Return a report in JSON values."""
    return {
        "folder": str(report.folder),
        "found": report.found,
        "done": report.done,
        "damaged": list(report.damaged),
        "failed": [str(path) for _, path in report.failed],
        "seconds": report.seconds,
        "decisions": report.decisions,
    }


def _changed(plan: Plan, changes: dict[str, Any]) -> Plan:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        made = type(plan).model_validate(dict(plan) | given)
    except ValidationError as error:
        raise InvalidInput(first_in_words(error)[1]) from None
    for name in made.policies:
        check_policy_name(name)
    return made


def numbers_of(texts: Numbers, option: str) -> tuple[float, ...] | None:
    """Read comma-separated numbers; `option` is named in the error."""
    names = names_of(texts)
    try:
        return None if names is None else tuple(dict.fromkeys(float(name) for name in names))
    except ValueError:
        raise InvalidInput(f"{option} takes numbers, such as 0.5,1,2; got {','.join(names or ())!r}") from None


@app.command()
def sweep(
    config: Annotated[Path | None, typer.Argument(help="The sweep file, TOML; --example prints one.")] = None,
    out: Out = Path("sweep"),
    workers: Workers = None,
    dask: Dask = None,
    fresh: Fresh = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and count the runs, without running any.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="With --dry-run: list every run.")] = False,
    no_code: Annotated[
        bool, typer.Option("--no-code", help="Refuse a sweep file that names Python code of its own; run none of it.")
    ] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a sweep file with comments.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of sweep files.")] = False,
    as_json: Json = False,
) -> None:
    """Compare policies on a problem of your own.

    A sweep file may name Python functions: costs, movement, policies of your own. They
    run with your rights, even with --dry-run; their names are printed first.

    Example: [bold]holdcourse sweep --example > mine.toml[/]

    Example: [bold]holdcourse sweep mine.toml --dry-run[/]

    Example: [bold]holdcourse sweep mine.toml --out results --workers 4[/]

    Example: [bold]holdcourse sweep from-a-stranger.toml --no-code[/]
    """
    if example or schema:
        typer.echo(EXAMPLE if example else json.dumps(json_schema(), indent=1), nl=schema)
        return
    if config is None:
        raise typer.BadParameter("give a sweep file, or --example to print one", param_hint="CONFIG")
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    wanted = load_sweep(config, code=not no_code, say=notes.print)
    if dry_run:
        _show_plan(wanted, out, listed, as_json)
        return
    if listed:
        raise InvalidInput("--list works only with --dry-run; give --dry-run too")
    with executor_of(dask) as executor, resumable(out):
        report = run_sweep(wanted, out, executor=executor, workers=workers, fresh=fresh, say=notes.print)
    results = Results.load(out)
    if as_json:
        typer.echo(json.dumps(as_values(report) | {"means": mean_rows(results)}))
    elif results.rows:
        console = Console()
        order = list(dict.fromkeys(run.policy.name for run in wanted.runs))  # as in the file
        for what, ratio in (("mean total cost", False), ("total cost over the clairvoyant optimum", True)):
            title = f"{wanted.name}: {what}, ± standard error"
            grid = cost_grid(results, wanted.name, title, ratio=ratio, order=order)
            for table in grid.by_policy(console.width):
                console.print(table)
        typer.echo(f"summary: {report.folder / 'summary.csv'}")
    finish([report], notes)


def _show_plan(wanted: Sweep, out: Path, listed: bool, as_json: bool) -> None:
    there = set(Folder(out).identities())
    rows: list[dict[str, Any]] = [
        {
            "identity": run.identity,
            "policy": run.policy.name,
            "rho": run.rho,
            "problem": run.problem,
            "start": "random" if run.start is None else run.start,
            "repetition": run.repetition,
            "rounds": run.rounds,
            "done": run.identity in there,
        }
        for run in wanted.runs
    ]
    if as_json:
        typer.echo(json.dumps({"runs": rows, "decisions": wanted.decisions}))
        return
    values = {name: list(dict.fromkeys(row[name] for row in rows)) for name in rows[0]}
    policies = [name for name in values["policy"] if name != CLAIRVOYANT]
    scenes = " x ".join(_counted(values[name], name) for name in SCENE)
    each = f"{_counted(policies, 'policy')} x {_counted(values['repetition'], 'repetition')}"
    typer.echo(
        f"{wanted.name}: {counted(len(rows), 'run')}, {counted(wanted.decisions, 'decision')}; this was a dry run"
    )
    typer.echo(f"{scenes} x ({each} + the {CLAIRVOYANT})")
    typer.echo(f"policies: {', '.join(policies)}")
    typer.echo(f"rho: {', '.join(f'{rho:g}' for rho in values['rho'])}")
    typer.echo(f"finished earlier, in the folder {out}: {sum(row['done'] for row in rows)} of {len(rows)}")
    if not listed:
        return
    table = Table(*(LISTED.get(name, name) for name in rows[0]))
    for row in rows:
        shown = row | {"identity": row["identity"][:SHOWN_IDENTITY], "done": "yes" if row["done"] else ""}
        table.add_row(*map(str, shown.values()))
    Console().print(table)


def _counted(values: list[Any], word: str) -> str:
    return counted(len(values), word, {"policy": "policies", "rho": "rho"}.get(word, ""))
