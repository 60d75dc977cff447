"""What the commands share: options of one meaning, lists such as `a,b`, the folder of `--out`, files mixed up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from holdcourse.database import is_record
from holdcourse.errors import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Matrix = Annotated[Path | None, typer.Option(help="CSV of what each move costs: a row from, a column to.")]
Directed = Annotated[bool, typer.Option("--directed", help="The matrix may cost differently there and back.")]


def refuse_record(path: Path, wanted: str) -> None:
    """Raise where a controller's own record is given for a file of another kind; `wanted` says of which."""
    if is_record(path):
        raise InvalidInput(
            f"{path} is a controller's record, and {wanted}; to see what another policy would have done in its place: "
            f"holdcourse replay {path} --policy cgp-lcb"
        )


def names_of(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names separated by commas, or from an option given again; each once. None where there are none."""
    if not texts:
        return None
    names = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))
    if "" in names:
        raise InvalidInput(
            f"there is an empty name in {','.join(texts)!r}; write names with single commas between them"
        )
    return names


def names_option(name: str, meaning: str, known: Iterable[str], panel: str | None = None) -> Any:
    """An option for a list such as `a,b`, completed from what is known; read it with `names_of`."""
    return typer.Option(name, metavar="NAMES", help=meaning, autocompletion=completing(known), rich_help_panel=panel)


def completing(known: Iterable[str]) -> Callable[[str], list[str]]:
    """For a shell: how a list can go on. Its last name is completed, and those before are not offered again."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known if name.startswith(begun) and name not in before.split(",")]

    return complete


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Within it, files go into the folder, which is made if needed; where they cannot, the error is one line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error)
        raise InvalidInput(f"cannot write to {error.filename or folder}: {reason}; choose another --out") from None


def check_out(folder: Path | None) -> None:
    """Raise where `writing` would, and make nothing: for work that takes long, before it begins."""
    if folder is None:
        return
    there = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not (there.is_dir() and os.access(there, os.W_OK)):
        reason = "may not be written to" if there.is_dir() else "is a file"
        raise InvalidInput(f"cannot write to {folder}: {there} {reason}; choose another --out")
