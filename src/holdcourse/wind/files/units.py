"""Units of wind speed and of height as people write them."""

from __future__ import annotations

import itertools
import re

from holdcourse.errors import InvalidInput

METRES_PER_SECOND = {"m/s": 1.0, "km/h": 1.0 / 3.6, "kn": 1852.0 / 3600.0, "mph": 0.44704}

_SPELLINGS = {
    "m/s": ("m/s", "ms", "ms-1", "mps", "m/sec", "meterspersecond", "metrespersecond"),
    "km/h": ("km/h", "kmh", "kph", "kmh-1", "km/hr", "kmph"),
    "kn": ("kn", "kt", "kts", "knot", "knots"),
    "mph": ("mph", "mi/h", "mi/hr", "mileh-1", "milesperhour", "miles/h", "miles/hr", "miles/hour"),
}
_CANONICAL = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}

METRES = {"m": 1.0, "km": 1000.0, "ft": 0.3048, "cm": 0.01, "mm": 0.001}

_HEIGHTS = {
    "m": ("m", "meter", "meters", "metre", "metres", "mtr", "gpm"),  # geopotential metres are metres within 0.1 %
    "km": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    "ft": ("ft", "foot", "feet"),
    "cm": ("cm",),
    "mm": ("mm",),
}
_HEIGHT = {spelling: unit for unit, spellings in _HEIGHTS.items() for spelling in spellings}
# Other units in which something called a height may be; elsewhere in a name, shorter words mean too much.
_OTHER_HEIGHTS = frozenset(
    (
        *("yd", "yard", "yards", "mi", "mile", "miles", "nmi", "inch", "inches", "dam", "hft", "kft", "fl"),
        *("hpa", "pa", "kpa", "mbar"),
    )
)
_NO_UNITS = frozenset(("agl", "asl", "msl", "amsl", "z", "alt"))  # short words in brackets that are none


def speed_unit(text: str) -> str | None:
    """Return the unit that `text` names, or None.

    >>> speed_unit("m s**-1"), speed_unit("[km/h]"), speed_unit("m·s⁻¹"), speed_unit("degrees")
    ('m/s', 'km/h', 'm/s', None)
    """
    power = re.sub(r"\*\*|\^", "", text.lower()).replace("⁻¹", "-1").replace("\u2212", "-")
    return _CANONICAL.get(re.sub(r"[\s_()\[\].·*]", "", power))


def speed_unit_in(text: str) -> str | None:
    """Return the unit among the notes of a bracket, or None; 0.1 m/s is none.

    >>> speed_unit_in("avg, km/h"), speed_unit_in("m/s mean"), speed_unit_in("0.1 m/s")
    ('km/h', 'm/s', None)
    """
    parts = [text, *re.split(r"[,;]", text)]
    parts += [word for part in parts if not re.search(r"\d", part) for word in part.split() if "/" in word]
    return next((unit for part in parts if (unit := speed_unit(part))), None)


def height_unit(text: str) -> str | None:
    """Return the unit of height that `text` is, or None.

    >>> height_unit("Feet"), height_unit("m"), height_unit("height")
    ('ft', 'm', None)
    """
    return _HEIGHT.get(text.strip().lower())


def height_unit_in(heading: str, label: str) -> str | None:
    """Return the unit of height that a heading names, or None; one that cannot be converted is an error.

    >>> [height_unit_in(name, "mast.csv") for name in ("height_ft", "Height (m agl)", "z [km]", "height")]
    ['ft', 'm', 'km', None]
    """
    brackets = re.findall(r"[(\[]([^)\]]*)[)\]]", heading.lower())
    inside = [re.findall(r"[^\W\d_]+", bracket) for bracket in brackets]
    around = re.findall(r"[^\W\d_]+", re.sub(r"[(\[][^)\]]*[)\]]", " ", heading.lower()))
    words = [*itertools.chain(*inside), *around]
    found = {unit for word in words if (unit := height_unit(word))}
    strange = [word for word in words if word in _OTHER_HEIGHTS]
    for bracket, parts in zip(brackets, inside, strict=True):
        units = [height_unit(word) for word in parts if height_unit(word)]
        short = len(parts) == 1 and len(parts[0]) <= 3 and parts[0] not in _NO_UNITS
        if (units and re.match(r"\s*\d", bracket)) or (short and not units):  # 100 ft, or what only its author knows
            strange.append(bracket)
    if len(found) > 1:
        strange.append(" and ".join(sorted(found)))
    if strange:
        raise InvalidInput(
            f"{label}: the heights in column {heading!r} are in {strange[0]!r}, from which metres cannot be computed; "
            "convert them, and name the column like 'height (m)'"
        )
    return found.pop() if found else None


def checked_unit(text: str) -> str:
    """Return the unit that a person named."""
    unit = speed_unit(text)
    if unit is None:
        raise InvalidInput(f"units {text!r} are not known; use one of {', '.join(METRES_PER_SECOND)}")
    return unit
