"""A plant as the bridge sees it, whatever it speaks: points that are read and written, within a time.

The libraries below can wait for ever: for a connection that nobody answers, for the answer to a write that was lost.
So every call of theirs is made in another thread or loop, and left alone when its time is over.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from holdcourse.bridge.bridgefile import BridgeFile, Setting, Source
from holdcourse.errors import HoldcourseError, InvalidInput

Result = TypeVar("Result")
SHORT_FLOAT = 1e-6  # relative error of a number of 32 bits, with room to spare
CONTROL, RELEASED, OFFLINE = "control", "released", "offline"  # what the bridge can be


class PlantLost(HoldcourseError):  # noqa: N818 - reads better without "Error" at every call
    """The plant cannot be reached, or does not do what it was told; the message says how it was noticed."""


@dataclass(frozen=True)
class Reading:
    """What a point holds.

    Attributes
    ----------
    value
        In the controller's units; None where there is none that can be believed.
    trouble
        Why it is not believed; empty where it is.
    """

    value: Setting | None
    trouble: str = ""


class Plant(Protocol):
    """Points by the names that `BridgeFile.points` gives them; every call ends within the file's timeout."""

    def connect(self) -> None:
        """Connect anew; what an earlier connection had not sent yet is never sent."""
        ...

    def read(self) -> dict[str, Reading]:
        """Return what all points hold; "setpoint" is what the plant reads back."""
        ...

    def write(self, point: str, value: Setting, about: Mapping[str, Any] | None = None) -> None:
        """Write to a point; "control" takes a bool. `about` may go beside the value where there is room for it."""
        ...

    def show(self, state: Mapping[str, Any]) -> None:
        """Show people what the bridge does, where the plant has a place for that."""
        ...

    def close(self) -> None:
        """Let go of the connection; never waits longer than the timeout and never raises."""
        ...


def plant_of(file: BridgeFile, base: Any) -> Plant:
    """Return the plant of a bridge file that lies in the folder `base`; nothing is connected yet."""
    if file.opcua is not None:
        from holdcourse.bridge.opcua import OpcUaPlant

        return OpcUaPlant(file, base)
    from holdcourse.bridge.mqtt import MqttPlant

    return MqttPlant(file, base)


def started(action: Callable[[], Result], name: str) -> Future[Result]:
    """Do something in a thread of its own, which ends with the process at the latest."""
    found: Future[Result] = Future()

    def run() -> None:
        try:
            found.set_result(action())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name=f"holdcourse bridge: {name}", daemon=True).start()
    return found


def within(seconds: float, action: Callable[[], Result], what: str) -> Result:
    """Do something that may hang; after so many seconds it is left alone."""
    try:
        return started(action, what).result(seconds)
    except TookTooLong as error:
        raise PlantLost(f"{what} took longer than {seconds:g} s") from error


def judged(source: Source, raw: Any, age: float | None, trouble: str = "") -> Reading:
    """Return what a point holds, believed or not.

    Parameters
    ----------
    raw
        The plant's own value.
    age
        Seconds since it was measured, negative where its clock is ahead of ours; None: nobody knows.
    trouble
        What is wrong with it by its own account: its quality.
    """
    if trouble or raw is None:
        return Reading(None, trouble or "there is no value")
    if source.stale_after is not None:
        if age is None:
            return Reading(None, "its age is not known; give it a time, or stale_after = 'never'")
        if age > source.stale_after:
            return Reading(None, f"it is {age:.1f} s old, more than {source.stale_after:g} s")
        if age < -source.stale_after:  # else a value that never changes again would be fresh until then
            ahead = f"its time is {-age:.1f} s in the future, more than {source.stale_after:g} s"
            return Reading(None, f"{ahead}; set the clocks of the plant and of this computer alike")
    if isinstance(raw, bool | str):
        return Reading(raw)
    try:
        value = float(raw) * source.factor
    except (TypeError, ValueError, OverflowError):
        return Reading(None, f"{raw!r:.60} is not a number")
    if not math.isfinite(value):
        return Reading(None, f"{value} is not a finite number")
    if source.low is not None and value < source.low:
        return Reading(None, f"{value:g} is below {source.low:g}")
    if source.high is not None and value > source.high:
        return Reading(None, f"{value:g} is above {source.high:g}")
    return Reading(value)


def same_setting(one: Setting | None, other: Setting | None, tolerance: float) -> bool:
    """Whether two settings are the same, numbers up to a tolerance and to what a plant's short floats can hold."""
    if one is None or other is None:
        return False
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(float(one) - float(other)) <= tolerance + SHORT_FLOAT * abs(float(other))


def in_plant_units(file: BridgeFile, value: Setting) -> Setting:
    """Return a setting as it is written; one that may not be written is an error."""
    if isinstance(value, list | dict | tuple):
        raise InvalidInput(f"the setting {value!r} has several parts; a bridge writes one number or one word")
    if not file.may_write(value):
        raise InvalidInput(
            f"the setting {value!r} is outside the bounds of the set-point, {file.setpoint.low} to "
            f"{file.setpoint.high}; change setpoint.low and high, or forbid it in the controller's limits"
        )
    if isinstance(value, str | bool):
        return value
    return value / file.setpoint.factor
