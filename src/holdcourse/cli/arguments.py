"""What commands share: options of one meaning, lists such as `a,b`, prices, `--out` and `--save`, what paths cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import holdcourse as hc
from holdcourse import archive
from holdcourse.errors import InvalidInput
from holdcourse.units import amount

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Matrix = Annotated[Path | None, typer.Option(help="CSV of what each move costs, from row to column.")]
Trusted = Annotated[
    list[str] | None,
    typer.Option("--trust", metavar="PATH", help="Your own code that may be run, e.g. mine.py:mine."),
]
# How a plant's table is written; what a file does not tell, these do.
HOW = "Format of the file, if the file itself does not make it clear"
Time = Annotated[
    str | None,
    typer.Option(help="Column of the time, or 'date,time'; default: rows are in order.", rich_help_panel=HOW),
]
Timezone = Annotated[
    str | None, typer.Option(help="Time zone of times without one: Europe/Oslo, +01:00.", rich_help_panel=HOW)
]
TimeFormat = Annotated[
    str | None,
    typer.Option(help="How times are written, e.g. '%d/%m/%Y %H:%M'; excel for 45719.5.", rich_help_panel=HOW),
]
Separator = Annotated[
    str | None, typer.Option(help="Separator of cells: comma, semicolon, tab, bar, space.", rich_help_panel=HOW)
]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign: point or comma.", rich_help_panel=HOW)]
Thousands = Annotated[
    str | None, typer.Option(help="Separator of thousands: comma, point, space, apostrophe.", rich_help_panel=HOW)
]
Encoding = Annotated[str | None, typer.Option(help="Encoding, e.g. utf-8, utf-16, cp1252.", rich_help_panel=HOW)]
HeaderLine = Annotated[
    int | None, typer.Option(help="Number of the line that names the columns, from 1.", rich_help_panel=HOW)
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel file.", rich_help_panel=HOW)]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="Code for a missing number: -9999; repeat it for others; none: there is none.", rich_help_panel=HOW
    ),
]

Duplicated = Annotated[
    str,
    typer.Option(help="If rows of the same time differ: refuse, first, last or keep.", rich_help_panel=HOW),
]
KeepAll = Annotated[
    bool, typer.Option("--keep-all", help="Keep readings that are off by orders of magnitude.", rich_help_panel=HOW)
]
Directed = Annotated[bool, typer.Option("--directed", help="Let a move and its reverse have different costs.")]

OUTPUT = "Output"
Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save the policy that the answer is about, ready to run.",
        rich_help_panel=OUTPUT,
    ),
]
AsJudged = Annotated[
    bool,
    typer.Option("--as-judged", help="With --save: without what it learned in the test.", rich_help_panel=OUTPUT),
]


def names_of(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Read names separated by commas, or from an option given again; each once. None where there are none."""
    if not texts:
        return None
    names = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))
    if "" in names:
        raise InvalidInput(
            f"there is an empty name in {','.join(texts)!r}; write names with single commas between them"
        )
    return names


def names_option(name: str, meaning: str, known: Iterable[str], panel: str | None = None) -> Any:
    """Return an option for a list such as `a,b`, completed from what is known; read it with `names_of`."""
    return typer.Option(name, metavar="NAMES", help=meaning, autocompletion=completing(known), rich_help_panel=panel)


def completing(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Tell a shell how a list can go on: its last name is completed, and those before are not offered again."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known if name.startswith(begun) and name not in before.split(",")]

    return complete


def check_out(folder: Path | None) -> None:
    """Raise where nothing could be written to `--out`, before work that takes long; nothing is made."""
    if folder is not None:
        archive.check_writable(folder)


def check_save(path: Path | None, as_judged: bool) -> None:
    """Raise where a policy could not be saved, before work that takes long."""
    if path is None:
        if as_judged:
            raise InvalidInput("--as-judged changes what --save writes; give --save FILE too")
        return
    if path.is_dir():
        raise InvalidInput(f"cannot write a policy to {path}: it is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}; create it first")
    archive.check_writable(path.absolute().parent)


def saved_words(path: Path, policy: hc.Policy) -> list[str]:
    """Return what was saved, and how to go on with it."""
    evidence = policy.evidence
    learned = "" if evidence is None else f" It has learned from {evidence.learned}."
    return [f"\nsaved: {path}, {policy.name}.{learned}", f"to look into it: holdcourse policy show {path}"]


def number_or_text(given: str) -> float | str:
    """Return a number, also with a decimal comma, or the text of a price, which the problem reads in its units."""
    try:
        return float(given)
    except ValueError:
        pass
    try:
        return amount(given, "", "the price")
    except InvalidInput:
        return given


def checked_price(price: float | None) -> float | None:
    """Return the price of a kWh; it may be 0 or negative, as markets are."""
    if price is not None and not math.isfinite(price):
        raise InvalidInput(f"the price of a kWh must be a number, got {price}")
    return price


def checked_currency(text: str, price: float | None) -> str:
    """Return the currency of the price."""
    if text and price is None:
        raise InvalidInput(f"--currency {text} needs a price of energy; give --price too")
    if len(text) > 12 or not text.isprintable():
        raise InvalidInput(f"--currency is a short name such as EUR, got {text!r}")
    return text.strip()


def bill_rows(bills: dict[str, hc.PricedPath]) -> list[dict[str, Any]]:
    """Return what each path cost, in JSON values."""
    return [{"policy": k, "service": p.service, "movement": p.movement, "total": p.total} for k, p in bills.items()]


def bill_table(bills: dict[str, hc.PricedPath], best: float, title: str) -> Table:
    """Return what each path cost, beside `best`."""
    shown = Table("policy", title=title)
    for name in ("service", "movement", "total", "of optimum"):
        shown.add_column(name, justify="right")
    for name, path in bills.items():
        ratio = f"{path.total / best:.2f}" if best > 0 else ""
        shown.add_row(name, *(_amount(cost) for cost in (path.service, path.movement, path.total)), ratio)
    return shown


def _amount(cost: float) -> str:
    return f"{cost:,.0f}" if 1e3 <= abs(cost) < 1e9 else f"{cost:.4g}"
