"""Numbers as people write them: a decimal point or comma, thousands in groups, cells that are missing.

A text such as ``1,234`` may be 1.234 or 1234. What settles it is another number of the same file that can be read in
one way only; where there is none, an option. So a column is never read a thousand times too large.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput, counted
from holdcourse.tables.cells import Cell, Table

Array: TypeAlias = NDArray[np.float64]

# What stands for a missing number wherever it stands; words of a person's own come by an option.
MISSING_WORDS = frozenset(
    (
        *("", "nan", "-nan", "na", "n/a", "n.a.", "<na>", "null", "none", "nil", "nat", "-", "--", "---", "?", "."),
        *("missing", "#n/a", "#n/a n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!"),
        *("1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    )
)
SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2007": " ", "\u2212": "-", "\u2019": "'"})
SIGNS = {".": "point", ",": "comma"}
MOST_WORDS = 6  # that a message lists
BODY = re.compile(r"([+-]?)((?:[\d.,]|(?<=\d)[' ](?=\d))*\d[.,]?)([eE][+-]?\d{1,4})?")


@dataclass(frozen=True)
class Shape:
    """How a text can be read: what is its decimal sign and its sign of thousands, as far as it tells.

    Attributes
    ----------
    decimal, thousands
        "" where it has none.
    open
        The sign of which it cannot be told which of the two it is; "" where there is no doubt.
    """

    decimal: str = ""
    thousands: str = ""
    open: str = ""


@lru_cache(maxsize=1 << 16)  # readings have few digits, so the same numbers come again and again
def shape_of(text: str) -> Shape | None:
    """Return how a text can be read as a number; None where it is none.

    >>> shape_of("12,5"), shape_of("1.234,5").thousands, shape_of("1,234").open, shape_of("12:30")
    (Shape(decimal=',', thousands='', open=''), '.', ',', None)
    """
    match = BODY.fullmatch(text)
    if match is None:
        return None
    body, exponent = match[2], match[3]
    signs = {sign: body.count(sign) for sign in ".,' " if sign in body}
    if not signs:
        return Shape()
    last = max(signs, key=body.rindex)
    if len(signs) == 1:
        if last in "' ":
            return Shape(thousands=last) if _grouped(body, last) and not exponent else None
        if signs[last] > 1:
            return Shape(thousands=last) if _grouped(body, last) and not exponent else None
        before, _, after = body.partition(last)
        certain = before == "" or before[0] == "0" or len(before) > 3 or len(after) != 3 or exponent is not None
        return Shape(decimal=last) if certain else Shape(open=last)
    if len(signs) == 2 and last in ".," and signs[last] == 1:
        whole = body.partition(last)[0]
        other = next(sign for sign in signs if sign != last)
        return Shape(decimal=last, thousands=other) if _grouped(whole, other) else None
    return None


def _grouped(body: str, sign: str) -> bool:
    """Return whether digits stand in groups of three."""
    first, *groups = body.split(sign)
    return 1 <= len(first) <= 3 and first[0] != "0" and all(len(group) == 3 and group.isdigit() for group in groups)


@dataclass
class Signs:
    """The decimal sign and the sign of thousands of a file: given by a person, or found in its numbers.

    Attributes
    ----------
    decimal, thousands
        None: not given.
    """

    decimal: str | None = None
    thousands: str | None = None
    seen: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # (role, sign): (place, text)
    usual: str | None = None  # what an open sign is, where nothing else is known

    def __post_init__(self) -> None:
        words = {"comma": ",", "point": ".", "dot": ".", "space": " ", "apostrophe": "'", "none": ""}
        self.decimal = words.get(self.decimal or "", self.decimal)
        self.thousands = words.get(self.thousands or "", self.thousands)
        if self.decimal is not None and self.decimal not in SIGNS:
            raise InvalidInput(f"decimal {self.decimal!r} is not a decimal sign; give decimal=point or decimal=comma")
        if self.thousands is not None and self.thousands not in (".", ",", " ", "'", ""):
            raise InvalidInput(
                f"thousands {self.thousands!r} cannot separate thousands; give thousands=comma, point, space or "
                "apostrophe"
            )
        if self.thousands and self.thousands == self.decimal:
            raise InvalidInput(f"decimal and thousands are both {self.decimal!r}; change one of them")
        if self.thousands and self.thousands in SIGNS and self.decimal is None:
            self.decimal = "," if self.thousands == "." else "."

    def look(self, text: str, at: str) -> None:
        """Learn from a number what the signs of its file are."""
        shape = shape_of(text)
        if shape is None:
            return
        for role, sign in (("decimal", shape.decimal), ("thousands", shape.thousands)):
            if sign:
                self.seen.setdefault((role, sign), (at, text))

    def settle(self, separator: str) -> None:
        """Decide from what was seen; raise where two numbers contradict each other."""
        for sign, other in ((",", "."), (".", ",")):
            one, two = self.seen.get(("decimal", sign)), self.seen.get(("decimal", other))
            if one and two and self.decimal is None:
                raise InvalidInput(
                    f"{one[0]}: {one[1]!r} has a decimal {SIGNS[sign]}, but {two[1]!r} ({two[0].rpartition(', ')[2]}) "
                    f"has a decimal {SIGNS[other]}; write all numbers in one way, or give decimal=point or "
                    "decimal=comma"
                )
            both = self.seen.get(("thousands", sign))
            if one and both and self.decimal is None:
                raise InvalidInput(
                    f"{one[0]}: {one[1]!r} has a decimal {SIGNS[sign]}, but in {both[1]!r} "
                    f"({both[0].rpartition(', ')[2]}) it separates thousands; write all numbers in one way"
                )
        if self.decimal is None:
            self.decimal = next((sign for sign in SIGNS if ("decimal", sign) in self.seen), None)
        if self.decimal is None and self.thousands is None:
            grouped = next((sign for sign in SIGNS if ("thousands", sign) in self.seen), None)
            if grouped is not None:
                self.decimal = "," if grouped == "." else "."
        if separator == ",":
            self.usual = "."  # where commas separate cells, a point is the decimal sign

    def number(self, text: str) -> float | str:
        """Return the number that a text stands for, or what is wrong with it, after "... is"."""
        shape = shape_of(text)
        if shape is None:
            word = text.lower().lstrip("+-")
            return "not a finite number" if word in ("inf", "infinity", "nan") else "not a number"
        decimal, thousands = shape.decimal, shape.thousands
        if shape.open:
            if self.decimal == shape.open:
                decimal = shape.open
            elif self._groups(shape.open):
                thousands = shape.open
            elif self.decimal is None and self.usual == shape.open:
                decimal = shape.open
            else:
                small, large = text.replace(shape.open, "."), text.replace(shape.open, "")
                word = SIGNS[shape.open]
                if self.decimal is None:
                    return f"{small} or {large}: give decimal={word} or thousands={word}"
                return f"{small} or {large}: write it like the others, or give thousands={word}"
        if decimal and self.decimal is not None and decimal != self.decimal:
            return f"not a number with a decimal {SIGNS[self.decimal]}"
        if thousands and (thousands == self.decimal or (self.thousands is not None and thousands != self.thousands)):
            return "not a number in the way in which this file separates thousands"
        plain = text.replace(thousands, "") if thousands else text
        value = float(plain.replace(",", ".") if decimal == "," else plain)
        return value if math.isfinite(value) else "not a finite number"

    def _groups(self, sign: str) -> bool:
        if self.thousands is not None:
            return self.thousands == sign
        return ("thousands", sign) in self.seen


def cleaned(text: str) -> str:
    """Return a text with plain spaces and signs, as it is read and shown."""
    return text.strip() if text.isascii() else text.translate(SPACES).strip()


def missing_words(given: str | Sequence[str] | None) -> tuple[frozenset[str], frozenset[float]]:
    """Return what a person says stands for a missing number: words, and numbers."""
    texts = [] if given is None else [given] if isinstance(given, str) else list(given)
    for text in texts:
        if re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(text)):
            one, other = str(text).strip().split(",")
            raise InvalidInput(
                f"missing={str(text).strip()} may be one number with a decimal comma or two numbers; write "
                f"{one}.{other}, or '{one}, {other}'"
            )
    words = {cleaned(part).lower() for text in texts for part in str(text).split(",")}
    numbers = set()
    for word in words:
        try:
            numbers.add(float(word))
        except ValueError:
            continue
    return frozenset(words - {""}), frozenset(numbers)


def is_missing(cell: Cell, words: Collection[str] = ()) -> bool:
    """Return whether a cell stands for nothing; `words`: what else does, in small letters."""
    if isinstance(cell, str):
        text = cleaned(cell).lower()
        return text in MISSING_WORDS or text in words
    if isinstance(cell, datetime):
        return False
    return math.isnan(cell) or (bool(words) and f"{cell:g}" in words)


def is_number(cell: Cell) -> bool:
    """Return whether a cell is written like a number."""
    return shape_of(cleaned(cell)) is not None if isinstance(cell, str) else not isinstance(cell, datetime)


def read_numbers(table: Table, columns: Sequence[int], signs: Signs, missing: Collection[str] = ()) -> list[Array]:
    """Read columns as numbers, NaN where missing; the signs are those of all these columns together.

    Parameters
    ----------
    missing
        Words that also stand for a missing number, in small letters.
    """
    words = frozenset(missing)
    texts: dict[int, list[str | None]] = {}
    for column in columns:
        found: list[str | None] = []
        for row, cell in enumerate(table.cells[column]):
            text = cleaned(cell) if isinstance(cell, str) and not is_missing(cell, words) else None
            found.append(text)
            if text is not None and not text.isdigit():
                signs.look(text, table.at(row))
        texts[column] = found
    signs.settle(table.separator)
    return [_column(table, column, texts[column], signs, words) for column in columns]


def _column(table: Table, column: int, texts: list[str | None], signs: Signs, words: Collection[str]) -> Array:
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        cell = table.cells[column][row]
        number: float | str
        if text is not None:
            number = signs.number(text)
        elif isinstance(cell, str) or is_missing(cell, words):
            continue
        elif isinstance(cell, datetime):
            number = "a time, not a number"
        else:
            number = float(cell) if math.isfinite(cell) else "not a finite number"
        if isinstance(number, str):
            shown = str(cell) if text is None else text
            verb = "may be" if " or " in number and ": " in number else "is"
            remedy = _remedy(number, shown)
            if not remedy and verb == "is":
                remedy = f"; leave missing values empty, or {_named_as_missing(shown, texts, signs)}"
            raise InvalidInput(
                f"{table.at(row)}: {shown[:40]!r} in column {table.names[column]!r} {verb} {number}{remedy}"
            )
        values[row] = number
    return values


def _named_as_missing(shown: str, texts: Sequence[str | None], signs: Signs) -> str:
    """Return the remedy for all words of a column at once, so that a person need not meet them one by one."""
    words = [text for text in dict.fromkeys(texts) if text is not None and signs.number(text) == "not a number"]
    listed = ", ".join(word[:20] for word in words[:MOST_WORDS]) or shown[:20]
    told = repr(listed) if re.search(r"[^\w.+-]", listed) else listed
    more = f" and {counted(len(words) - MOST_WORDS, 'more word')}" if len(words) > MOST_WORDS else ""
    return f"name the {'words' if len(words) > 1 else 'word'}: missing={told}{more}"


def _remedy(number: str, shown: str) -> str:
    """Return what to do about a text that is no number; "" where it may stand for a missing one."""
    if " give " in number:
        return ""
    if "decimal" in number or "thousands" in number:
        return "; write all numbers in one way"
    negative = re.fullmatch(r"\((\d[\d.,' ]*)\)|(\d[\d.,' ]*)-", shown)  # as accountants and old programs write it
    if negative:
        return f"; write -{negative[1] or negative[2]}"
    # A unit: a sign such as % or a euro's, letters after a blank, or two letters and more; one letter is a slip (1O).
    beside = re.fullmatch(r"(\W?)\s*([+-]?\d[\d.,' ]*?)(\W|\s+[^\d\s]{1,6}|[^\W\d]{2}[^\d\s]{0,4})?", shown)
    if beside and (beside[1] or beside[3]) and shape_of(beside[2]) is not None:
        return f"; write {beside[2]}, and put the unit into the header"
    return ""
