"""The command line: its first page, and which module holds which command.

Conventions of every command: `--json` where a table is printed; errors in one line with the remedy (`--debug` shows
the traceback); exit code 0, 1 (failed) or 2 (bad usage); progress on standard error, quiet when that is no terminal.
Help fits 80 columns, and its examples are one line each, to be copied.

A command's module is imported when the command is used: to list them all, only this one is.
"""

from __future__ import annotations

import re
import sys
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import holdcourse as hc
from holdcourse.cli.wording import options_of, with_options
from holdcourse.errors import HoldcourseError

SITE, RUNNING, RESEARCH = "Would it have paid off?", "A running system", "Research"


class CommandEntry(NamedTuple):
    """A command in the list of all: its module in this package, its panel, and the first line of its help."""

    module: str
    panel: str
    help: str


COMMANDS = {
    "demo": CommandEntry("backtest", SITE, "Run a backtest on bundled wind: a SkySails kite in the North Sea."),
    "backtest": CommandEntry(
        "backtest", SITE, "Would it have paid off? Run policies on a plant's readings, or on your wind."
    ),
    "serve": CommandEntry("serve", RUNNING, "Run controllers over HTTP, with a page to watch them."),
    "bridge": CommandEntry("bridge", RUNNING, "Connect a controller to a plant that speaks OPC UA or MQTT."),
    "compare": CommandEntry("compare", RESEARCH, "Compare policies on our benchmark."),
    "sweep": CommandEntry("experiments", RESEARCH, "Compare policies on a problem of your own."),
    "reproduce": CommandEntry(
        "experiments", RESEARCH, "Repeat the paper's experiments: runs, tables, figures, a report."
    ),
    "tree": CommandEntry("tools", RESEARCH, "Draw a random tree that approximates a metric, and show its stretch."),
    "optimum": CommandEntry(
        "tools", SITE, "Compute what perfect foresight, a fixed setting and simple rules would have paid."
    ),
    "export": CommandEntry("records", RUNNING, "Write every round of a controller to CSV or Parquet."),
    "verify": CommandEntry("records", RUNNING, "Repeat every recorded decision and compare it bit by bit."),
    "backup": CommandEntry("records", RUNNING, "Copy a record completely while its controller runs."),
    "accept": CommandEntry("records", RUNNING, "Continue with a record whose newest events are missing."),
    "replay": CommandEntry("records", RUNNING, "Estimate what another policy would have done in a recorded run."),
    "policy": CommandEntry("policy", RUNNING, "Show what a policy file contains."),
    "wind": CommandEntry("wind", SITE, "List airborne machines, and map where altitude control pays."),
    "wakes": CommandEntry("wakes", SITE, "Would wake steering have paid off? Run every policy on a farm's wind."),
    "data": CommandEntry("data", SITE, "Inspect a data file: wind, or a plant's readings."),
    "trial": CommandEntry("trial", RUNNING, "Did it pay? Plan a trial against a baseline, and report its result."),
    "share": CommandEntry("serve", RUNNING, "Copy the controllers of a folder into a database that servers share."),
    "token": CommandEntry("tokens", RUNNING, "Create, list and revoke the tokens of the service's clients."),
}


class LazyCommand(TyperCommand):
    """A command as the list of all shows it; `loaded` is the command itself."""

    def __init__(self, name: str, listed: CommandEntry) -> None:
        super().__init__(name, help=listed.help, rich_help_panel=listed.panel, rich_markup_mode="rich")
        self._module = f"holdcourse.cli.{listed.module}"

    @cached_property
    def loaded(self) -> Any:
        """The command, or the group of commands, from its module's `app`."""
        found = typer.main.get_command(import_module(self._module).app)
        command = getattr(found, "commands", {}).get(self.name, found)
        for each in (command, *getattr(command, "commands", {}).values()):
            each.help = _unwrapped(each.help or "")
        return command


def _unwrapped(text: str) -> str:
    """A help text without the ends of lines in its paragraphs, so that it fills a terminal of any width."""
    return re.sub(r"(?<!\n)(?<!Example:)\n(?!\n|Example)", " ", text)


def _flags_without_type(params: list[Any]) -> list[Any]:
    """Keep typer from showing a type behind an option that takes no value, as in `--json <bool>`."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _with_flags_alone(command: Any, ctx: Any) -> Any:
    _flags_without_type(command.get_params(ctx))
    for within in (*getattr(command, "commands", {}).values(), *getattr(command, "others", ())):
        _with_flags_alone(within, ctx)
    return command


class LazyGroup(TyperGroup):
    """Lists commands without their modules; says in the words of the command line what the library refuses."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.commands = {name: LazyCommand(name, listed) for name, listed in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None else _with_flags_alone(command.loaded, ctx), rest  # type: ignore[attr-defined]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of `holdcourse` itself."""
        return _flags_without_type(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors of the library name parameters, which are options here."""
        try:
            return super().invoke(ctx)
        except HoldcourseError as error:
            command = self.commands[ctx.invoked_subcommand].loaded  # type: ignore[attr-defined]
            error.args = (with_options(str(error), options_of(command)),)
            raise


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; errors that we raise on purpose become one line."""
    given = sys.argv[1:]
    try:
        app([word for word in given if word != "--debug"])  # it may stand anywhere
    except HoldcourseError as error:
        if "--debug" in given:
            raise
        from rich.console import Console
        from rich.markup import escape

        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdcourse {hc.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Hold course unless it pays to change.

    Decides which setting to run while conditions change and every change costs
    something. Learns what each setting costs, and moves only when that pays.

    You have a year of wind, or a plant's readings. Would it have paid off?
    Example: [bold]holdcourse backtest lidar.csv[/]
    Example: [bold]holdcourse backtest --log plant.csv --action setting --cost kwh --context load[/]

    You run a system. Which setting should it run now?
    Example: [bold]holdcourse serve --data fleet[/]

    You do research. Is your policy better than ours?
    Example: [bold]holdcourse compare --policies recommended,mine=mine.py:mine[/]

    New here? Run [bold]holdcourse demo[/]. Every command has examples in its --help.
    The documentation begins at docs/index.md in the source.
    """
