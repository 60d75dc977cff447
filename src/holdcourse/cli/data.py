"""The command `holdcourse data info`: what a file holds, be it wind or a plant's readings."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdcourse.archive import writing
from holdcourse.backtest.preview import Preview, duration, preview
from holdcourse.cli.arguments import (
    Decimal,
    Encoding,
    HeaderLine,
    Json,
    Missing,
    Separator,
    Sheet,
    Thousands,
    Time,
    TimeFormat,
    Timezone,
    check_out,
)
from holdcourse.cli.progress import Working
from holdcourse.cli.wording import in_options
from holdcourse.errors import HoldcourseError, InvalidInput, MissingExtra, counted
from holdcourse.tables.sources import read_file
from holdcourse.wind.files.awesio import read_awesio
from holdcourse.wind.files.csv_table import NoWindColumn, tidy_columns, wide_columns
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.info import describe, draw, strips
from holdcourse.wind.files.load import load
from holdcourse.wind.files.paths import expand, is_workbook
from holdcourse.wind.files.windio import is_windio

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Inspect a data file: wind, or a plant's readings.",
)

Kind: TypeAlias = Literal["wind", "readings"]

Files = Annotated[list[str], typer.Argument(help="A plant's table or wind: CSV, Excel, Parquet, NetCDF, GRIB, ZIP.")]
Latitude = Annotated[float | None, typer.Option("--lat", help="Latitude of the site, south negative.")]
AWESIO = {  # where files that are no tables are looked at
    "power_curves": "look at it with: holdcourse wind machines FILE",
    "operational_constraints": "give it to a backtest as --constraints",
    "wind_resource": "read it in Python with holdcourse.wind.files.awesio.wind_resource",
    "system": "read it in Python with holdcourse.wind.files.awesio.system",
}
Longitude = Annotated[float | None, typer.Option("--lon", help="Longitude of the site, west negative.")]
SurfaceHeight = Annotated[
    float | None, typer.Option(help="Ground above sea level, m; for pressure levels without surface data.")
]
Units = Annotated[str | None, typer.Option(help="Unit of speed in a CSV that does not say: m/s, km/h, kn, mph.")]
Ceiling = Annotated[float, typer.Option(help="Leave out heights above this, metres above ground.")]
MaxMissing = Annotated[float, typer.Option(help="Largest share of missing speeds that is accepted.")]
MaxGap = Annotated[float, typer.Option(help="Longest gap that is bridged, hours; a longer gap ends a segment.")]


@app.callback()
def data() -> None:
    """Inspect a data file: wind, or a plant's readings."""


@app.command()
def info(
    files: Files,
    lat: Latitude = None,
    lon: Longitude = None,
    surface_height: SurfaceHeight = None,
    units: Units = None,
    ceiling: Ceiling = 3000.0,
    max_missing: MaxMissing = 0.3,
    max_gap: MaxGap = 3.0,
    kind: Annotated[
        Literal["wind", "readings"] | None, typer.Option(help="What the file contains, if it is not recognised.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the result as JSON, and for a picture of the wind.")
    ] = None,
    as_json: Json = False,
    time: Time = None,
    timezone: Timezone = None,
    time_format: TimeFormat = None,
    separator: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    header_line: HeaderLine = None,
    sheet: Sheet = None,
    missing: Missing = None,
) -> None:
    """Show what a file contains, before you use it.

    For a plant's readings: columns, ranges, gaps, how often the setting changed, and
    what looks wrong. For wind: layout, heights, period, gaps, the profile over time.

    Example: [bold]holdcourse data info plant.csv --timezone Europe/Oslo[/]

    Example: [bold]holdcourse data info levels.nc surface.nc --lat 53 --lon -10[/]

    Example: [bold]holdcourse data info 'lidar/*.csv' --timezone UTC --out report[/]
    """
    check_out(out)
    written = {"separator": separator, "encoding": encoding, "header_line": header_line, "sheet": sheet}
    if (kind or kind_of(files, **written)) == "readings":
        if len(expand(files)) > 1:
            raise InvalidInput("a plant's readings are one table; give one file, or kind=wind if these contain wind")
        with Working("reading"):
            seen = preview(
                expand(files)[0],
                time=time,
                timezone=timezone,
                time_format=time_format,
                decimal=decimal,
                thousands=thousands,
                missing=missing,
                **written,
            )
        told: dict[str, Any] = {
            "--timezone": timezone,
            "--time-format": time_format,
            "--decimal": decimal,
            "--thousands": thousands,
        }
        told |= {f"--{name.replace('_', '-')}": value for name, value in written.items()}
        pairs = [*told.items(), *(("--missing", code) for code in missing or ())]
        options = [f"{name} {_quoted(str(value))}" for name, value in pairs if value is not None]
        _show_readings(seen, files[0], " ".join(["", *options]), out, as_json)
        return
    tables: dict[str, Any] = {"time": time, "separator": separator, "decimal": decimal, "thousands": thousands}
    tables |= {"encoding": encoding, "sheet": sheet, "missing": missing}
    needless = [f"--{name}" for name, value in tables.items() if value is not None]
    if needless:
        raise InvalidInput(
            f"{files[0]} contains wind, for which {needless[0]} is not used; leave it out, or give --kind readings if "
            "these are a plant's readings"
        )
    try:
        wind = load(
            files,
            lat=lat,
            lon=lon,
            surface_height=surface_height,
            units=units,
            timezone=timezone,
            time_format=time_format,
            header_line=header_line,
            ceiling=ceiling,
            max_missing=max_missing,
        )
    except NoWindColumn as error:
        given = expand(files)
        if kind is None and len(given) > 1:
            error.args = (f"{error}. If these are a plant's tables, give one at a time",)
        elif kind is None and zipfile.is_zipfile(given[0]) and not is_workbook(given[0]):
            error.args = (f"{error}. If this is a plant's table, unpack it and give the file in it",)
        raise
    found = describe(wind, max_gap=max_gap)
    found["notes"] = in_options(found["notes"], typer.main.get_command(app))
    paths: list[Path] = []
    if out is not None:
        with writing(out):
            (out / "wind.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            paths.append(out / "wind.json")
            try:
                paths.append(draw(wind, out / "wind.png"))
            except MissingExtra as error:
                typer.echo(f"note: no wind.png: {error}", err=True)
    if as_json:
        typer.echo(json.dumps(found))
        return
    _show(wind, found, max_gap)
    for path in paths:
        typer.echo(f"wrote {path}")


def kind_of(files: list[str], **options: Any) -> Kind:
    """Return what files hold: wind by height, or anything else in a table."""
    path = expand(files)[0]
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from None
    if head[:3] == b"CDF" or head in (b"\x89HDF", b"GRIB"):
        return "wind"
    if head == b"PK\x03\x04" and not is_workbook(path):
        return "readings" if path.suffix.lower() == ".xlsx" else "wind"  # which says what is wrong with it
    if options.get("sheet") is not None:
        return "readings"
    _refuse_awesio(path)
    if len(expand(files)) > 1 or is_windio(path):
        return "wind"  # a plant's readings are one table
    try:
        table, _ = read_file(path, **options)
        heights = wide_columns(table.names, table.label)
        if not heights:
            tidy_columns(table.names, table.label)
    except HoldcourseError:
        return "readings"  # which says what is wrong with the table
    # One speed at a height among other columns is a plant's; a table of wind is times and little else.
    return "wind" if len(heights) != 1 or len(table.names) <= 3 else "readings"


def _refuse_awesio(path: Path) -> None:
    """Raise where a file is one of awesIO: it is no table, and is looked at elsewhere."""
    if path.suffix.lower() not in (".yml", ".yaml"):
        return
    try:
        kind = read_awesio(path).kind
    except InvalidInput:
        return  # windIO, or what says itself what is wrong with it
    raise InvalidInput(f"{path.name} contains awesIO {kind.replace('_', ' ')}, not a table; {AWESIO[kind]}")


def _show_readings(found: Preview, given: str, options: str, out: Path | None, as_json: bool) -> None:
    """Show what a table holds, and the command for it; `options` say how it is read."""
    values, command = found.as_values(), typer.main.get_command(app)
    values |= {key: in_options(values[key], command) for key in ("notes", "remarks")}
    if out is not None:
        with writing(out):
            (out / "readings.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(values))
        return
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(found.label)}[/]: {counted(found.rows, 'row')}, {counted(len(found.columns), 'column')}"
    )
    if found.start is not None and found.step_hours is not None:
        every = f", every {duration(found.step_hours)}" if found.step_hours else ""
        console.print(f"{found.start} to {found.end}{every}")
        shown = [f"  {gap}" for gap in found.gaps]
        more = found.gap_count - len(shown)
        shown += [f"  and {more} more"] if more > 0 else []
        head = f"{counted(found.gap_count, 'gap') if found.gap_count else 'no gaps'} in time"
        console.print("\n".join([head, *shown]))
        if found.repeated:
            console.print(f"{counted(found.repeated, 'row has', 'rows have')} the same time as another row")
        if not found.ordered:
            console.print("rows are not in order of time; --time sorts them")
    table = Table()
    table.add_column("column", overflow="fold")
    table.add_column("holds", no_wrap=True)
    for name in ("missing", "different", "changes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("from .. to (median)", overflow="fold")
    for column in found.columns:
        span = escape(column.example)
        if column.low is not None:
            span = f"{column.low:.5g} .. {column.high:.5g} ({column.middle:.5g})"
        counts = (str(column.missing or ""), str(column.distinct), str(column.changes))
        table.add_row(escape(column.name), column.kind, *counts, span)
    console.print(table)
    for what, names in (("setting", found.settings), ("cost", found.costs), ("context", found.contexts)):
        if names:
            console.print(f"may be the {what}: {escape(', '.join(names[:8]))}", soft_wrap=True)
    if not found.settings and _like_wind([column.name for column in found.columns]):
        remedy = "if this is wind, name the speeds like ws_100m, with the height in metres"
        told = f"holdcourse data info {_quoted(given)} --kind wind says what is missing"
        console.print(f"[bold]look:[/] {remedy}; {escape(told)}", soft_wrap=True)
    for remark in values["remarks"]:
        console.print(f"[bold]look:[/] {escape(remark)}", soft_wrap=True)
    for note in values["notes"]:
        console.print(f"- {escape(note)}", soft_wrap=True, style="dim")
    if found.settings or found.costs:
        time = f" --time {_quoted(','.join(found.time))}" if found.time else ""
        action, cost = (_quoted(names[0]) if names else "COLUMN" for names in (found.settings, found.costs))
        contexts = list(found.contexts[:2]) or ["COLUMN"]
        contexts = contexts if any("," in name for name in contexts) else [", ".join(contexts)]  # commas separate names
        asked = f"--action {action} --cost {cost} {' '.join(f'--context {_quoted(name)}' for name in contexts)}"
        named = any(column.name in found.settings[:1] and column.kind == "names" for column in found.columns)
        price = "with --fixed-cost" if named else "with --move-cost and --fixed-cost"
        blank = ", fill in the COLUMN that is missing" if "COLUMN" in (action, cost, *contexts) else ""
        console.print(
            f"\nIf these are what they seem{blank}, add what a change costs {price}, and run:\n"
            f"holdcourse backtest --log {_quoted(given)}{escape(time)}{escape(options)} {escape(asked)}",
            soft_wrap=True,
        )


def _like_wind(names: Sequence[str]) -> bool:
    """Whether names speak of wind, or differ in a number that may be a height, as V_50 and V_100 do."""
    series = Counter(re.sub(r"\d+", "#", name) for name in names if re.search(r"(?<!\d)\d{2,3}(?!\d)", name))
    return any("wind" in name.lower() for name in names) or max(series.values(), default=0) > 1


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _show(data: WindData, found: dict[str, Any], max_gap: float) -> None:
    console = Console(highlight=False)
    step = found["step_hours"]
    console.print(f"[bold]{escape(found['layout'])}[/], {escape(found['site'])}")
    console.print(f"{found['start']} to {found['end']}, {counted(found['times'], 'time')}, every {duration(step)}")
    console.print(_gap_lines(found, max_gap))
    table = Table()
    for name in ("height (m)", "min", "mean", "max (m/s)", "missing"):
        table.add_column(name, justify="right")
    for row in reversed(found["heights"]):
        height = f"{row['height']:.0f}"
        if not found["heights_fixed"]:
            height += f" ({row['lowest']:.0f}..{row['highest']:.0f})"
        missing = f"{100 * row['missing_share']:.1f} %" if row["missing_share"] else ""
        table.add_row(height, f"{row['min']:.1f}", f"{row['mean']:.1f}", f"{row['max']:.1f}", missing)
    console.print(table)
    width = max(20, min(100, shutil.get_terminal_size().columns) - 8)
    console.print("Wind over time (taller is faster):")
    for line in strips(data, width):
        console.print(line, markup=False, soft_wrap=True)
    for note in found["notes"]:
        console.print(f"- {escape(note)}", soft_wrap=True)


def _gap_lines(found: dict[str, Any], max_gap: float) -> str:
    if not found["gap_count"]:
        return "no gaps in time"
    lines = [
        f"  {duration(gap['missing_hours'])} missing between {gap['after']} and {gap['before']}"
        for gap in found["gaps"][:5]
    ]
    more = found["gap_count"] - len(lines)
    lines += [f"  and {more} more"] if more > 0 else []
    head = (
        f"{counted(found['gap_count'], 'gap')} in time; with gaps up to {max_gap:g} h bridged: "
        f"{counted(found['segments'], 'segment')}, the longest {found['longest_segment_hours']:g} h"
    )
    return "\n".join([head, *lines])
