"""What is wrong with a configuration, in one line: where, what, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from pydantic import ValidationError

UNKNOWN, MISSING = "extra_forbidden", "missing"


def explain(
    error: ValidationError, known: Callable[[tuple[int | str, ...]], Sequence[str]] = lambda place: ()
) -> tuple[tuple[int | str, ...], str]:
    """The first complaint: the place of the key, and the line about it.

    Parameters
    ----------
    known
        The keys that exist at a place, to suggest one for a key that does not.
    """
    complaints = error.errors(include_url=False)
    # A misspelt key is also a missing one; what was written is the better thing to point at.
    first = next((complaint for complaint in complaints if complaint["type"] == UNKNOWN), complaints[0])
    place = tuple(part for part in first["loc"] if not (isinstance(part, str) and part.startswith("function-")))
    name = spelled(place)
    if first["type"] == UNKNOWN:
        there = list(known(place[:-1]))
        close = difflib.get_close_matches(str(place[-1]), there, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(there)}" if there else "remove it"
        return place, f"key {name!r} is not known; {hint}"
    if first["type"] == MISSING:
        return place, f"key {name!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    given = first["input"]
    ours = first["type"] == "value_error"  # names the value itself
    shown = f", got {given!r}" if isinstance(given, str | int | float | bool) and not ours else ""
    return place, f"{name}: {message}{shown}" if name else f"{message}{shown}"


def spelled(place: Sequence[int | str]) -> str:
    """A place as people write it: policies[1].name."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
