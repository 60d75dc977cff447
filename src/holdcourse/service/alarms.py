"""Alarms from what is told: measurements that the model did not expect too often, and a sensor that stands still.

Both look at a short window and nothing else, so they cost the same for ever. An alarm that is open is cleared by the
same window once it looks well again, with some distance between the two, so that it does not flap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

WINDOW = 100  # tells that calibration looks back on; what lasts, as weather does, is then mostly over
ENOUGH = 40  # before so many, it says nothing
BAND = 2.0  # deviations; a well calibrated model is beyond them in 1 of 22 rounds
RAISED_AT, CLEARED_AT = (
    0.3,
    0.15,
)  # share of the window beyond the band; by chance 12 of 40 come once in 8 million times
STILL = 10  # equal measurements in a row that no noisy sensor gives


@dataclass(frozen=True)
class Watched:
    """What the alarms remember.

    Attributes
    ----------
    beyond
        Whether each of the newest measurements was outside the predicted band, newest last.
    value, repeats
        The newest measurement, and how often it came in a row.
    """

    beyond: tuple[bool, ...] = ()
    value: float | None = None
    repeats: int = 0

    def after(self, measurement: float, deviations: float | None) -> Watched:
        """One measurement later; `deviations` from what was expected, None where nothing was."""
        beyond = self.beyond if deviations is None else (*self.beyond, abs(deviations) > BAND)[-WINDOW:]
        return replace(
            self, beyond=beyond, value=measurement, repeats=self.repeats + 1 if measurement == self.value else 1
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Watched:
        """Read what `to_data` gave."""
        return cls(tuple(data["beyond"]), data["value"], data["repeats"])

    def to_data(self) -> dict[str, Any]:
        """In JSON values."""
        return {"beyond": list(self.beyond), "value": self.value, "repeats": self.repeats}


def notes_of(watched: Watched, open_kinds: Sequence[str]) -> list[dict[str, Any]]:
    """What the record shall say: alarms to raise and to clear."""
    notes: list[dict[str, Any]] = []
    count, outside = len(watched.beyond), sum(watched.beyond)
    if "calibration" not in open_kinds and count >= ENOUGH and outside >= RAISED_AT * count:
        message = (
            f"{outside} of the last {count} measurements were outside the band that the model predicted (expected: "
            f"about {count / 22:.0f}). The sensor may be wrong, or the model: something may have changed, or may last "
            "from round to round, that the context does not show"
        )
        notes.append(raised("calibration", message))
    if "calibration" in open_kinds and outside <= CLEARED_AT * count:
        notes.append(cleared("calibration"))
    if "sensor" not in open_kinds and watched.repeats >= STILL:
        message = f"the last {watched.repeats} measurements were all {watched.value:g}; is the sensor frozen?"
        notes.append(raised("sensor", message))
    if "sensor" in open_kinds and watched.repeats < STILL:
        notes.append(cleared("sensor"))
    return notes


def raised(kind: str, message: str) -> dict[str, Any]:
    """The note of a new alarm."""
    return {"note": "alarm", "kind": kind, "message": message}


def cleared(kind: str) -> dict[str, Any]:
    """The note of an alarm that is over."""
    return {"note": "cleared", "kind": kind}
