"""Units of wind speed as people write them."""

from __future__ import annotations

import re

from holdcourse.errors import InvalidInput

METRES_PER_SECOND = {"m/s": 1.0, "km/h": 1.0 / 3.6, "kn": 1852.0 / 3600.0, "mph": 0.44704}

_SPELLINGS = {
    "m/s": ("m/s", "ms", "ms-1", "ms**-1", "ms^-1", "mps", "m.s-1", "ms⁻¹", "meterspersecond", "metrespersecond"),
    "km/h": ("km/h", "kmh", "kph", "kmh-1", "kmh**-1", "km/hr"),
    "kn": ("kn", "kt", "kts", "knot", "knots"),
    "mph": ("mph", "mi/h", "mileh-1", "milesperhour"),
}
_CANONICAL = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}


def speed_unit(text: str) -> str | None:
    """Return the unit that `text` names, or None.

    >>> speed_unit("m s**-1"), speed_unit("[km/h]"), speed_unit("degrees")
    ('m/s', 'km/h', None)
    """
    return _CANONICAL.get(re.sub(r"[\s_()\[\]]", "", text.lower()))


def checked_unit(text: str) -> str:
    """Return the unit that a person named."""
    unit = speed_unit(text)
    if unit is None:
        raise InvalidInput(f"units {text!r} are not known; use one of {', '.join(METRES_PER_SECOND)}")
    return unit
