"""What the commands share: options of one meaning, and lists such as `a,b`, read and completed in a shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def names_of(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names separated by commas, or from an option given again; each once. None where there are none."""
    return None if not texts else tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))


def completing(known: Iterable[str]) -> Callable[[str], list[str]]:
    """For a shell: how a list can go on. Its last name is completed, and those before are not offered again."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known if name.startswith(begun) and name not in before.split(",")]

    return complete
