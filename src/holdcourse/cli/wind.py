"""The command line of the wind files: `holdcourse wind info`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdcourse.archive import writing
from holdcourse.cli.arguments import Json, check_out
from holdcourse.cli.wording import options_of, with_options
from holdcourse.errors import MissingExtra
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.info import describe, draw, strips
from holdcourse.wind.files.load import load

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="Wind data: what a file holds."
)

Files = Annotated[list[str], typer.Argument(help="Wind files or patterns: NetCDF, GRIB, CSV, or a ZIP of these.")]
Latitude = Annotated[float | None, typer.Option("--lat", help="Latitude of the site, south negative.")]
Longitude = Annotated[float | None, typer.Option("--lon", help="Longitude of the site, west negative.")]
SurfaceHeight = Annotated[
    float | None, typer.Option(help="Ground above sea level in metres, for pressure levels without surface data.")
]
Units = Annotated[str | None, typer.Option(help="Unit of speed in a CSV that does not say: m/s, km/h, kn, mph.")]
Timezone = Annotated[str | None, typer.Option(help="Zone of the times in a CSV that does not say: UTC, Europe/Oslo.")]
TimeFormat = Annotated[str | None, typer.Option(help="How a CSV writes its times, e.g. '%d/%m/%Y %H:%M'.")]
Ceiling = Annotated[float, typer.Option(help="Leave out heights above this, metres above ground.")]
MaxMissing = Annotated[float, typer.Option(help="Largest share of missing speeds to accept.")]
MaxGap = Annotated[float, typer.Option(help="Hours; gaps up to this are bridged, longer ones end a segment.")]


@app.callback()
def wind() -> None:
    """Wind data: what a file holds."""


@app.command()
def info(
    files: Files,
    lat: Latitude = None,
    lon: Longitude = None,
    surface_height: SurfaceHeight = None,
    units: Units = None,
    timezone: Timezone = None,
    time_format: TimeFormat = None,
    ceiling: Ceiling = 3000.0,
    max_missing: MaxMissing = 0.3,
    max_gap: MaxGap = 3.0,
    out: Annotated[Path | None, typer.Option(help="Folder for wind.json and the picture wind.png.")] = None,
    as_json: Json = False,
) -> None:
    """What a wind file holds.

    Layout, heights, period, step, gaps, and the profile over time.

    Example: [bold]holdcourse wind info levels.nc surface.nc --lat 53 --lon -10[/]

    Example: [bold]holdcourse wind info 'lidar/*.csv' --timezone UTC --out report[/]
    """
    check_out(out)
    data = load(
        files,
        lat=lat,
        lon=lon,
        surface_height=surface_height,
        units=units,
        timezone=timezone,
        time_format=time_format,
        ceiling=ceiling,
        max_missing=max_missing,
    )
    found, options = describe(data, max_gap=max_gap), options_of(typer.main.get_command(app))
    found["notes"] = [with_options(note, options) for note in found["notes"]]
    written: list[Path] = []
    if out is not None:
        with writing(out):
            (out / "wind.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            written.append(out / "wind.json")
            try:
                written.append(draw(data, out / "wind.png"))
            except MissingExtra as error:
                typer.echo(f"note: no wind.png: {error}", err=True)
    if as_json:
        typer.echo(json.dumps(found))
        return
    _show(data, found, max_gap)
    for path in written:
        typer.echo(f"wrote {path}")


def _show(data: WindData, found: dict[str, Any], max_gap: float) -> None:
    console = Console(highlight=False)
    step = found["step_hours"]
    console.print(f"[bold]{escape(found['layout'])}[/], {escape(found['site'])}")
    console.print(
        f"{found['start']} to {found['end']}, {found['times']} times, "
        f"every {f'{step:g} h' if step >= 1 else f'{step * 60:g} min'}"
    )
    console.print(_gap_lines(found, max_gap))
    table = Table()
    for name in ("height (m)", "min", "mean", "max (m/s)", "missing"):
        table.add_column(name, justify="right")
    for row in reversed(found["heights"]):
        height = f"{row['height']:.0f}"
        if not found["heights_fixed"]:
            height += f" ({row['lowest']:.0f}..{row['highest']:.0f})"
        missing = f"{row['missing_share']:.1%}" if row["missing_share"] else ""
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
        f"  {gap['missing_hours']:g} h missing between {gap['after']} and {gap['before']}" for gap in found["gaps"][:5]
    ]
    more = found["gap_count"] - len(lines)
    lines += [f"  and {more} more"] if more > 0 else []
    head = (
        f"{found['gap_count']} gaps in time; with gaps up to {max_gap:g} h bridged: {found['segments']} segments, "
        f"the longest {found['longest_segment_hours']:g} h"
    )
    return "\n".join([head, *lines])
