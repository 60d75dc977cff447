"""What is wrong with something that was given, in words: the mistakes that pydantic found, without its names for types.

A request over HTTP is answered with all of its mistakes. Where a value may be of several kinds, pydantic names a
mistake for each kind, with the kind as a part of its place. We say what is wrong with the kind that comes nearest or,
if none does, which kinds there are. Of a file or of options the first mistake is said, with what may have been meant.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from holdcourse.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Place: TypeAlias = tuple[str | int, ...]
Known: TypeAlias = Callable[[Place], Sequence[str]]  # the keys that exist at a place
UNKNOWN, MISSING, OURS = "extra_forbidden", "missing", "value_error"  # pydantic's types of mistakes
MOST = 5  # mistakes named
MOST_FIELDS = 12  # named where none comes close
LOOKED_AT = 200  # mistakes; a body may hold a million of them
KIND = re.compile(r"constrained-\w+|\w+Given|bool|(list|dict|tuple|literal|nullable|function-\w+)\[.*", re.DOTALL)
SINGLE = {"float": ("a number", "numbers"), "int": ("a whole number", "whole numbers"), "str": ("a text", "texts")}
SINGLE |= {"bool": ("true or false", "true or false"), "Given": ("an object", "objects")}
WRITTEN = {"None": "null", "True": "true", "False": "false"}  # as JSON has them
OF_KIND = ("_type", "literal_error")  # ends of the types of mistakes that say: another kind of value
WORDING = (
    (r"^Field required$", "is missing"),
    (r"^Extra inputs are not permitted$", "is not a field of this request"),
    (r"^Value error, ", ""),
    (r"^(Input|String|List|Dictionary|Tuple) should ", "must "),
    (r"^must match pattern '\\S'$", "must not be blank"),
    (r"^must match pattern '\^\[a-z0-9_-\]\{1,64\}\$'$", "must be 1 to 64 small letters, digits, - or _"),
    (r"^must match pattern '\^r\(0\|.*'$", "must be the id of a decision, such as r12"),
    (r"^must match pattern '\^j\[0-9a-f\].*'$", "must be the id of a job, as GET /jobs lists them"),
    (r"^must match pattern '\^\[0-9a-f\]\{12\}\$'$", "must be the id of a silence, as GET /notifications lists them"),
    (r"^must match pattern '\^\[a-z_\]\{1,40\}\$'$", "must be a kind of alarm, such as silent"),
    (r"^must match pattern '\^\[!-~\]\{1,200\}\$'$", "must be 1 to 200 letters, digits or signs without spaces"),
    (r"^Invalid JSON: EOF while parsing a value at line 1 column 0$", "is empty; send a JSON object"),
    (r"^Invalid JSON: ", "is not valid JSON: "),
    (r" after validation, not \d+$", ""),
    (r", unable to parse string as an? \w+$|, unable to interpret input$", ""),
    (r"\b10{30}\b", "1e30"),
    (r"\ba valid (number|string)\b", r"a \1"),
    (r"\ba valid integer\b", "a whole number"),
    (r"\ba valid array\b", "a list"),
    (r"\ba valid boolean\b", "true or false"),
)


class Mistake(NamedTuple):
    """A mistake: where, in which kind of value that may stand there (empty: there is one only), and further inside."""

    place: Place
    kind: str
    inside: Place
    found: Mapping[str, Any]

    @property
    def depth(self) -> int:
        """How far inside the value it is, without the kinds on the way."""
        return sum(not (isinstance(part, str) and KIND.fullmatch(part)) for part in self.inside)

    @property
    def is_of_kind(self) -> bool:
        """Whether it says that this is another kind of value."""
        return not self.inside and self.found["type"].endswith(OF_KIND)


def first_in_words(error: ValidationError, known: Known = lambda place: ()) -> tuple[Place, str]:
    """The first mistake: the place of its key, and the line about it.

    Parameters
    ----------
    known
        The keys that exist at a place, to suggest one for a key that does not.
    """
    mistakes = error.errors(include_url=False)
    # A misspelt key is also a missing one; what was written is the better thing to point at.
    first = next((mistake for mistake in mistakes if mistake["type"] == UNKNOWN), mistakes[0])
    place = tuple(part for part in first["loc"] if not (isinstance(part, str) and part.startswith("function-")))
    name = spelled(place)
    if first["type"] == UNKNOWN:
        there = list(known(place[:-1]))
        close = difflib.get_close_matches(str(place[-1]), there, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"known keys are {', '.join(there)}" if there else "remove it"
        )
        return place, f"key {name!r} is not known; {hint}"
    if first["type"] == MISSING:
        return place, f"key {name!r} is missing"
    given = first["input"]
    shown = isinstance(given, str | int | float | bool) and first["type"] != OURS  # ours name the value themselves
    return place, f"{_sentence(name, first['msg'])}{f', got {given!r}' if shown else ''}"


def keys_of(model: type[BaseModel]) -> Known:
    """Return what says which keys a model has at a place, also inside its parts: limits, policies[1]."""

    def known(place: Place) -> Sequence[str]:
        there: Any = model
        for part in place:
            if isinstance(part, str) and there is not None:
                there = _section(there.model_fields[part].annotation) if part in there.model_fields else None
        return () if there is None else [field.alias or name for name, field in there.model_fields.items()]

    return known


def _section(annotation: Any) -> Any:
    """Return the model within an annotation such as ``RandomCosts | None`` or ``tuple[PolicyConfig, ...]``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if hasattr(annotation, "model_fields") else None
    found = (_section(part) for part in get_args(annotation))
    return next((part for part in found if part is not None), None)


def spelled(place: Sequence[int | str]) -> str:
    """A place in a file as people write it: policies[1].name."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def all_in_words(mistakes: Sequence[Mapping[str, Any]], known: Known = lambda place: ()) -> str:
    """Mistakes that pydantic found, in one line; `known` says the fields that there are instead of one that is not."""
    lines: list[str] = []
    for place, group in _by_place(_read(found, tuple(found["loc"])) for found in mistakes[:LOOKED_AT]):
        lines += _of_place(place, group, known)
    left_out = len(lines) - MOST + max(len(mistakes) - LOOKED_AT, 0)
    more = [f"and {left_out} more"] if len(lines) > MOST else []
    return "; ".join(lines[:MOST] + more)


def _by_place(mistakes: Iterable[Mistake]) -> Iterator[tuple[Place, list[Mistake]]]:
    for place, group in groupby(mistakes, key=lambda mistake: mistake.place):
        yield place, list(group)


def _read(found: Mapping[str, Any], parts: Place) -> Mistake:
    at = next((k for k, part in enumerate(parts) if isinstance(part, str) and KIND.fullmatch(part)), None)
    if at is None:
        return Mistake(parts, "", (), found)
    return Mistake(parts[:at], str(parts[at]), parts[at + 1 :], found)


def _of_place(place: Place, mistakes: list[Mistake], known: Known) -> list[str]:
    kinds = {mistake.kind: [other for other in mistakes if other.kind == mistake.kind] for mistake in mistakes}
    if len(kinds) > 1 and all(mistake.is_of_kind for mistake in mistakes):
        words = [_kind(mistake.kind, mistake.found["msg"]) for mistake in mistakes]
        return [f"{_name(place)} must be {_either(words)}{_got(mistakes[0].found)}"]
    if set(kinds) == {""}:
        return [_one(place, mistake.found, known) for mistake in mistakes]
    nearest = max(kinds.values(), key=_nearness)
    inner = _by_place(_read(mistake.found, mistake.inside) for mistake in nearest)
    return [line for further, group in inner for line in _of_place(place + further, group, known)]


def _nearness(mistakes: list[Mistake]) -> tuple[int, bool, int]:
    return max(m.depth for m in mistakes), not any(m.is_of_kind for m in mistakes), -len(mistakes)


def _one(place: Place, found: Mapping[str, Any], known: Known) -> str:
    meant = _meant(place, known) if found["type"] == UNKNOWN else ""
    return f"{_sentence(_name(place), found['msg'])}{_got(found) if place else ''}{meant}"


def _meant(place: Place, known: Known) -> str:
    """Which field may have been meant by one that is not known."""
    there = known(place[:-1])
    close = difflib.get_close_matches(str(place[-1]), there, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; its fields are {', '.join(there)}" if 0 < len(there) <= MOST_FIELDS else ""


def _sentence(name: str, message: str) -> str:
    """A message of pydantic, in our words, about something of this name."""
    for pattern, plain in WORDING:
        message = re.sub(pattern, plain, message)
    if not name:
        return message
    return f"{name}{' ' if message.startswith(('must ', 'is ')) else ': '}{message}"


def _name(place: Place) -> str:
    return ".".join(str(part) for part in place) or "the body"


def _got(found: Mapping[str, Any]) -> str:
    if found["type"] in (MISSING, OURS):  # ours name the value themselves
        return ""
    given = repr(found.get("input"))
    given = WRITTEN.get(given, given)
    return f", got {given if len(given) < 60 else given[:57] + '...'}"


def _kind(kind: str, message: str) -> str:
    """A kind of value, as people call it."""
    return message.removeprefix("Input should be ") if kind.startswith("literal[") else _called(kind, 0)


def _called(kind: str, many: int) -> str:
    name, _, inner = kind.partition("[")
    inner = inner.removesuffix("]")
    match name:
        case "list" | "tuple":
            return f"{('a list', 'lists')[many]} of {_called(inner, 1)}"
        case "dict":
            return f"{('an object', 'objects')[many]} of {_called(inner.partition(',')[2], 1)}"
        case "nullable":
            return f"{_called(inner, many)} or null"
        case _:
            return next((words[many] for key, words in SINGLE.items() if kind.rstrip("]").endswith(key)), "a value")


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def difference(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, str]:
    """What differs between an earlier request and this one, in words, of each: `context 7.0`."""
    names = [name for name in {**recorded, **given} if recorded.get(name, ...) != given.get(name, ...)]

    def said(request: Mapping[str, Any]) -> str:
        return " and ".join(f"no {name}" if request.get(name) is None else f"{name} {request[name]}" for name in names)

    return said(recorded), said(given)


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a file as text, and what it says as TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read {path}: {reason}; give the path of a TOML file in UTF-8") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
