"""One round at the plant: which setting ran in it, what was measured, and what may honestly be told of it.

A measurement counts for a setting only if that setting ran for the whole round. Where control was lost, somebody else
moved the machine, or too few good values came, nothing is told but which setting ran, as far as that is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdcourse.bridge.bridgefile import BridgeFile, Setting
from holdcourse.bridge.plant import Reading, same_setting


def slot_end(at: float, period: float) -> float:
    """Return when a round that was asked at this time ends, in seconds since 1970.

    At a whole multiple of the period; one that would be shorter than half of it lasts until the next.
    """
    end = (math.floor(at / period) + 1) * period
    return end if end - at >= period / 2 else end + period


def key_of(number: int, at: float, period: float) -> str:
    """Return the key of a question: the same round in the same slot is the same question."""
    return f"bridge/r{number}/{math.floor(at / period)}"


@dataclass
class Told:
    """What is told of a decision: None for the measurement where there is none to tell, and why."""

    decision: str
    measurement: float | None
    applied: Setting | None
    why: str = ""


@dataclass
class Round:
    """A decision while it runs.

    Attributes
    ----------
    decision
        Its id.
    value
        The setting that was decided.
    act
        Whether the bridge is to bring the machine there.
    began, ends
        On the clock that nobody can set.
    spoilt
        Why nothing measured in it can be told; empty while it can.
    is_over_there
        Whether somebody else has told it already.
    """

    decision: str
    value: Setting
    act: bool
    began: float
    ends: float
    spoilt: str = ""
    is_over_there: bool = False
    _settled: float | None = None
    _seen: float | None = None
    _weight: float = 0.0
    _sum: float = 0.0
    _last: float | None = None
    _ran: list[Setting] = field(default_factory=list)

    @property
    def has_run(self) -> bool:
        """Whether the machine has been seen to do what it is meant to."""
        return bool(self._ran)

    def spoil(self, why: str) -> None:
        """Remember the first reason why nothing can be told."""
        self.spoilt = self.spoilt or why

    def sample(self, now: float, file: BridgeFile, measured: Reading, ran: Setting | None, runs: bool) -> None:
        """Look at the plant.

        Parameters
        ----------
        measured
            The measurement now.
        ran
            The setting that runs, as the plant reads it back.
        runs
            Whether the machine does in this round what it is meant to do: in control with the setting confirmed or,
            where operators move it, whatever they do.
        """
        lapse = 0.0 if self._seen is None else now - self._seen
        self._seen = now
        if not runs:
            return
        if ran is not None and not any(same_setting(ran, other, file.setpoint.tolerance) for other in self._ran):
            self._ran.append(ran)
        if self._settled is None:
            self._settled = now + (file.measurement.settle or 0.0)
        if now < self._settled or isinstance(measured.value, str) or measured.value is None:
            return
        self._last = float(measured.value)
        weight = min(lapse, 3 * file.heartbeat.every)  # a gap is not filled with its last value
        self._weight += weight
        self._sum += weight * self._last

    def told(self, now: float, file: BridgeFile, settings: Sequence[Any], ran: Setting | None) -> Told:
        """Return what is told of the round at its end; `ran` is the setting that runs now, None if that is unknown."""
        tolerance = file.setpoint.tolerance
        known = next((each for each in settings if same_setting(ran, each, tolerance)), None)
        applied = None if same_setting(known, self.value, tolerance) else known
        lasted = now - self.began - (file.measurement.settle or 0.0)
        why = self.spoilt
        if not why and len(self._ran) != 1:
            several = ", ".join(map(str, self._ran))
            why = f"several settings ran: {several}" if self._ran else "nobody knows which setting ran"
        if not why and known is None:
            why = f"{self._ran[0]!r} ran, which is not one of the controller's settings"
        if not why and (self._last is None or self._weight < file.least_share * lasted):
            share = 0.0 if lasted <= 0 else self._weight / lasted
            least = f"{100 * file.least_share:.0f} %"
            why = f"the measurement was good for {100 * share:.0f} % of the round, less than {least}"
        if why or self._last is None:
            return Told(self.decision, None, applied, why)
        value = self._last if file.measurement.over_the_round == "last" else self._sum / self._weight
        return Told(self.decision, value, applied)
