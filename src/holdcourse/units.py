"""Units as people write them after numbers: "50 m", "0,36 kWh/m", "45 min", "0,5 EUR per change".

A number without a unit is in the expected unit. A number with a unit is converted to the expected unit; if that is
impossible, the error names both. Known units have a quantity and a factor; any other word is a unit of its own, which
only equals itself. Upper and lower case count only if they mean different things (mW and MW).
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Any

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, shown

# Quantity, and how many of its first unit one of each is.
QUANTITIES: dict[str, dict[str, float]] = {
    "energy": dict(
        zip(
            ("kWh", "Wh", "mWh", "MWh", "GWh", "J", "kJ", "MJ", "GJ"),
            (1.0, 1e-3, 1e-6, 1e3, 1e6, 1 / 3.6e6, 1 / 3600, 1 / 3.6, 1e3 / 3.6),
            strict=True,
        )
    ),
    "power": {"kW": 1.0, "W": 1e-3, "mW": 1e-6, "MW": 1e3, "GW": 1e6},
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3, "ft": 0.3048},
    "time": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0, "week": 604800.0},
    "temperature difference": {"K": 1.0, "°C": 1.0, "°F": 5 / 9},
    "angle": {"°": 1.0, "rad": 180 / math.pi},
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "kn": 1852 / 3600},
    "share": {"": 1.0, "%": 1e-2},
    "pressure": {"bar": 1.0, "mbar": 1e-3, "Pa": 1e-5, "kPa": 1e-2, "MPa": 10.0},
}
OTHER_NAMES: dict[str, str] = {
    name: unit
    for unit, names in {
        "°C": "degC celsius",
        "°F": "degF",
        "K": "kelvin",
        "°": "deg degree degrees",
        "m": "metre metres meter meters",
        "ft": "feet",
        "W": "watt watts",
        "s": "second seconds sec",
        "min": "minute minutes mins",
        "h": "hour hours hr hrs",
        "d": "day days",
        "week": "weeks",
        "%": "percent",
        "m/s": "ms-1 mps m.s-1",
        "km/h": "kmh kph",
        "kn": "knots",
        "EUR": "€ euro euros EUR",
        "USD": "$ USD",
        "GBP": "£ GBP",
        **{each: each for each in ("NOK", "SEK", "DKK", "CHF", "PLN")},
    }.items()
    for name in names.split()
}
MONEY = ("EUR", "USD", "GBP", "NOK", "SEK", "DKK", "CHF", "PLN")
MOST_ROUNDS = 1_000_000
MOVES = ("change", "move", "switch", "start")  # what a price may be paid for each time
# Blanks and apostrophes belong to a number only where three digits follow: the 1 of "5 1/min" is one of the unit.
NUMBER = re.compile(
    r"\s*([+-]?(?:\d[\d.,]*(?:['\u00a0\u202f ]\d{3}(?!\d)[.,]?\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL
)
PLAIN = re.compile(r"[+-]?\d*[.,]?\d*(?:[eE][+-]?\d+)?")
OPEN = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234 is 1.234 or 1234
# Thousands in groups of three, as in tables.
GROUPED = re.compile(
    r"[+-]?[1-9]\d{0,2}(?:([' ])\d{3}(?:\1\d{3})*(?:[.,]\d*)?|(?:,\d{3})+\.\d*|(?:\.\d{3})+,\d*)(?:[eE][+-]?\d+)?"
)


@dataclass(frozen=True)
class Price:
    """A price: an amount in a unit, for each unit of a setting or for each change.

    Attributes
    ----------
    amount, unit
        The number and its unit; the unit is empty if the text has none.
    per
        The unit of a setting, or "change".
    """

    amount: float
    unit: str
    per: str

    def in_units(self, unit: str, per: str, what: str) -> float:
        """Return the amount in another unit, for each of another unit."""
        amount = self.amount * factor(self.unit, unit, what) if self.unit else self.amount
        if self.per == per or "change" in (self.per, per):
            if self.per != per:
                paid = "each change" if self.per == "change" else f"each {self.per}"
                other = {"scale": "fixed_cost", "fixed_cost": "scale"}.get(what)
                remedy = f"; give such a price as {other}=" if other else ""
                raise InvalidInput(f"{what} is paid for {paid}, but must be for each {per}{remedy}")
            return amount
        return amount / factor(self.per, per, what)


def known(unit: str) -> str:
    """Return a unit as we write it; one that is not known as it is.

    Examples
    --------
    >>> from holdcourse.units import known
    >>> known("kwh"), known("metres"), known("workers")
    ('kWh', 'm', 'workers')
    """
    unit = unit.strip()
    if unit in _FACTORS:
        return unit
    if re.fullmatch(r"m[ ·]?s(?:-1|\^-1|⁻¹)", unit):  # m s-1
        return "m/s"
    if unit in OTHER_NAMES:
        return OTHER_NAMES[unit]
    alike = [each for each in _FACTORS if each and each.casefold() == unit.casefold()]
    alike += [OTHER_NAMES[name] for name in OTHER_NAMES if name.casefold() == unit.casefold()]
    if len(set(alike)) > 1:
        raise InvalidInput(f"the unit {unit!r} may be {' or '.join(sorted(set(alike)))}; write which")
    return alike[0] if alike else unit


def quantity(unit: str) -> str | None:
    """Return what a unit measures; None if it is not known."""
    return _FACTORS.get(known(unit), (None, 0.0))[0]


def rate(unit: str) -> tuple[str, float] | None:
    """Return what a rate is a rate of, and how many hours it is paid for; None where a unit is no such rate.

    Examples
    --------
    >>> from holdcourse.units import rate
    >>> rate("EUR/h"), rate("m3/d"), rate("kWh"), rate("m/s")
    (('EUR', 1.0), ('m3', 24.0), None, None)
    """
    of, slash, time = (part.strip() for part in unit.partition("/"))
    if not slash or of in ("", "1") or quantity(unit) is not None or quantity(time) != "time":
        return None
    return known(of), QUANTITIES["time"][known(time)] / 3600.0


def factor(unit: str, into: str, what: str) -> float:
    """Return how many of `into` one `unit` is; an error where they measure different things."""
    one, other = known(unit), known(into)
    if one == other:
        return 1.0
    if one in _FACTORS and other in _FACTORS and _FACTORS[one][0] == _FACTORS[other][0]:
        return _FACTORS[one][1] / _FACTORS[other][1]
    if (_FACTORS.get(one, ("",))[0], _FACTORS.get(other, ("",))[0]) == ("energy", "power"):
        raise InvalidInput(
            f"{what} is in {one}, but the measurements are a power, in {other}; name the column of the times, which "
            f"says how long a round lasts, or divide by the hours of a round and write it in {other}"
        )
    near = difflib.get_close_matches(one, [each for each in _FACTORS if each], 1) if one not in _FACTORS else []
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidInput(f"{what} is in {one}, which cannot be converted to {other or 'a number without a unit'}{hint}")


def amount(value: Any, unit: str, what: str, *, absolute: bool = False) -> float:
    """Return a number, or text with a number and a unit, in `unit`; a number without a unit is returned as it is.

    `absolute` says that the number is a point on a scale, not a difference, so that temperatures are not converted.

    Examples
    --------
    >>> from holdcourse.units import amount
    >>> amount("1,5 km", "m", "max_step"), amount(50, "m", "max_step")
    (1500.0, 50.0)
    """
    if not isinstance(value, str):
        if isinstance(value, bool) or not is_finite(value):
            raise InvalidInput(f"{what} must be a number, or text with a number and a unit, got {shown(value)}")
        return float(value)
    number, written = _number_and_rest(value, what)
    if not written:
        return number
    if not unit and written:
        raise InvalidInput(
            f"{what}={value!r} has a unit, but that of the settings is not known; say in which unit the settings are"
        )
    if absolute and known(written) != known(unit) and quantity(written) == "temperature difference":
        raise InvalidInput(f"{what}={value!r} must be in {unit}")
    return number * factor(written, unit, what)


def price(text: str, what: str = "the price") -> Price:
    """Read a price from text.

    Examples
    --------
    >>> from holdcourse.units import price
    >>> price("0,36 kWh/m")
    Price(amount=0.36, unit='kWh', per='m')
    >>> price("0.5 EUR per change").per
    'change'
    """
    number, rest = _number_and_rest(text, what)
    per = re.split(r"\s+per\s+", f" {rest} ", maxsplit=1)
    parts = per if len(per) == 2 else rest.split("/", 1)
    if len(parts) != 2 or not parts[1].strip():
        raise InvalidInput(
            f"{what}{' ' if ' ' in what else '='}{text!r} does not say what it is paid for; write it like '20 Wh/m', "
            "'0.36 kWh/m' or '0.5 EUR per change'"
        )
    unit, each = (part.strip() for part in parts)
    unit = "" if unit == "1" else unit  # 5 1/min
    return Price(number, known(unit) if unit else "", "change" if each.casefold() in MOVES else known(each))


def rounds(value: Any, round_s: float | None, what: str) -> int | Any:
    """Return a time as a number of rounds, rounded up; a whole number stays as it is. `round_s`: seconds in a round."""
    if not isinstance(value, str):
        return value
    number, unit = _number_and_rest(value, what)
    if not unit or known(unit) in ("round", "rounds"):
        return int(number) if number.is_integer() else number
    seconds = number * factor(unit, "s", what)
    if seconds <= 0:
        raise InvalidInput(f"{what}={value!r} must be more than 0")
    if round_s is None:
        raise InvalidInput(f"{what}={value!r} is a time; say how long a round is, such as round_length='15 min'")
    count = seconds / round_s
    if not count <= MOST_ROUNDS:
        raise InvalidInput(f"{what}={value!r} is {count:.3g} rounds; give at most {MOST_ROUNDS:,} rounds")
    return max(math.ceil(count - 1e-9), 1)


def seconds(value: Any, what: str) -> float:
    """Return a length of time in seconds: a number of them, or text such as '15 min'."""
    found = amount(value, "s", what)
    if found <= 0:
        raise InvalidInput(f"{what} must be more than 0, got {shown(value)}")
    return found


def lasting(length_s: float) -> str:
    """Return a length of time as people say it: "45 min", "1.5 h".

    Examples
    --------
    >>> from holdcourse.units import lasting
    >>> lasting(2700), lasting(5400), lasting(86400)
    ('45 min', '1.5 h', '1 d')
    """
    for unit in ("d", "h", "min"):
        one = QUANTITIES["time"][unit]
        if length_s >= one and (unit == "min" or math.isclose(length_s / one * 2, round(length_s / one * 2))):
            return f"{length_s / one:.4g} {unit}"
    return f"{length_s:.4g} s"


def beside(number: str, unit: str) -> str:
    """Return a written number with its unit, if it has one."""
    return number if not unit else f"{number}{unit}" if unit in ("°", "%") else f"{number} {unit}"


def _number_and_rest(text: str, what: str) -> tuple[float, str]:
    """The number that a text begins with, and what follows it."""
    found = NUMBER.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{what}={text!r} must begin with a number")
    rest = found[2].strip()
    if re.match(r"[\d.,']", rest) and not re.match(r"1\s*/", rest):  # 12 3 m
        raise _two_ways(text.removesuffix(rest.lstrip("0123456789.,' ")).strip(), text, what)
    number = _number(found[1].strip(), text, what)
    if not math.isfinite(number):
        raise InvalidInput(f"{what}={text!r} is too large to compute with; give a smaller number, or another unit")
    return number, rest


def _number(written: str, text: str, what: str) -> float:
    shown = re.sub(r"[\u00a0\u202f]", " ", written)
    if OPEN.fullmatch(shown) or not (PLAIN.fullmatch(shown) or GROUPED.fullmatch(shown)):
        raise _two_ways(written, text, what)
    digits = re.sub(r"[' ]", "", shown)
    if "," in digits and "." in digits:  # the last one is the decimal sign
        digits = digits.replace("," if digits.rfind(".") > digits.rfind(",") else ".", "")
    return float(digits.replace(",", "."))


def _two_ways(written: str, text: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{what}={text!r}: {written!r} may be read in two ways; write the number without signs between thousands, "
        "and with a point or a comma before decimals"
    )


_FACTORS: dict[str, tuple[str, float]] = {
    unit: (name, size) for name, units in QUANTITIES.items() for unit, size in units.items()
}
