"""What the library says, in the words of the command line: it names parameters, which are options here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# Of parameters whose options have another name everywhere.
OTHER_NAMES = {
    "folder": "--out",
    "code": "--no-code",
    "scale": "--move-cost",
    "min_dwell": "--dwell",
    "hours": "--every",
    "side": "--block",
}
NEEDED = {"replay": "--policy cgp-lcb", "accept": "--reason ..."}  # options of commands that a remedy names


def options_of(command: Any) -> dict[str, str]:
    """Return the options of a command and of those within it, by the names of their parameters."""
    return OTHER_NAMES | _own_options(command)


def _own_options(command: Any) -> dict[str, str]:
    within = [*getattr(command, "commands", {}).values(), *getattr(command, "others", ())]
    own = {param.name: max(param.opts, key=len) for param in command.params if param.param_type_name == "option"}
    return {name: option for other in within for name, option in _own_options(other).items()} | own


def with_options(message: str, options: dict[str, str]) -> str:
    """Name the options of the command line in a message that names parameters, as in `high=500` or `high=`."""

    def option(found: re.Match[str]) -> str:
        has_value = not found[2] and re.match(r"[^\s,;.)]", message[found.end() :])
        return f"{options[found[1]]} " if has_value else options[found[1]]

    names = "|".join(sorted(options, key=len, reverse=True))
    message = re.sub(rf"(?<![\w?&])({names})=(True\b|False\b)?", option, message)
    message = re.sub(rf"^({names})(?= is | must )", lambda found: options[found[1]], message)
    return re.sub(
        rf"holdcourse ({'|'.join(NEEDED)}) \S+(?!\S| --)", lambda found: f"{found[0]} {NEEDED[found[1]]}", message
    )


def in_options(texts: Iterable[str], command: Any) -> list[str]:
    """Return what the library says in several texts, in the words of a command."""
    options = options_of(command)
    return [with_options(text, options) for text in texts]
