"""What the commands share: options of one meaning, lists such as `a,b`, and the folder of `--out`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from holdcourse.errors import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Matrix = Annotated[Path | None, typer.Option(help="CSV of what each move costs: a row from, a column to.")]
Directed = Annotated[bool, typer.Option("--directed", help="The matrix may cost differently there and back.")]


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
