"""The audit trail of a controller: who changed what, when and why, from its records.

Everything that people do to a controller is an event of its record, with the name of their token: nothing is kept
besides, so the trail is as complete, and as hard to alter, as the record. What a change of settings came to is worked
out from the settings before and after it. What happens to the service as a whole is in the `journal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from holdcourse.errors import InvalidInput, counted
from holdcourse.movement.problem import Problem
from holdcourse.running.events import (
    AlarmAcknowledged,
    Body,
    Cause,
    ControllerArchived,
    ControllerCreated,
    ControllerRestored,
    Episode,
    EpochBegun,
    ModeSet,
    OverrideSet,
    RecordAccepted,
    Retract,
    Settings,
    SettingsChanged,
    from_plain,
    plain,
)
from holdcourse.running.reasons import written
from holdcourse.service.core import configuration
from holdcourse.service.core.records import LocatedEvent, Records

Changed: TypeAlias = dict[str, tuple[Any, Any]]  # by the name of a setting: before and after

KINDS = (
    ControllerCreated,
    EpochBegun,
    SettingsChanged,
    ModeSet,
    OverrideSet,
    AlarmAcknowledged,
    ControllerArchived,
    ControllerRestored,
    RecordAccepted,
)
WHAT = (
    "created",
    "settings",
    "limits",
    "price",
    "trial",
    "mode",
    "override",
    "retract",
    "episode",
    "acknowledge",
    "archive",
    "restore",
    "accept",
)
GROUPS = {
    "limits": frozenset(("limits", "guard")),
    "price": frozenset(("scale", "fixed_cost", "metric", "directed", "rho")),
    "trial": frozenset(("trial",)),
}
WORDS = {"limits": "The limits were changed", "price": "The price of moving was changed"}
MOST = 5000  # of each kind in an epoch, the newest
LONGEST = 60  # characters of a value in a sentence


class Deed(NamedTuple):
    """What somebody did: where it stands in the records, when, what, who, why, and what it came to in words."""

    epoch: int
    number: int
    at: str
    what: str
    by: dict[str, Any] | None
    reason: str
    words: str
    changed: dict[str, Any]


def listed(
    records: Records, what: frozenset[str], by: str | None, before: str | None, limit: int
) -> tuple[list[Deed], str | None]:
    """Return the newest deeds first, of some kinds (none: all) and of whoever has a name with `by` in it.

    `before` is what was returned with the page before; the second value is for the next one, None after the last.
    """
    wrong = sorted(what.difference(WHAT))
    if wrong:
        raise InvalidInput(f"there is no kind {wrong[0]!r} of change; choose from {', '.join(WHAT)}")
    found: list[Deed] = []
    for deed in _deeds(records, _place(before)):
        named = "" if deed.by is None else f"{deed.by['name']} {deed.by['token'] or ''}"
        if (what and deed.what not in what) or (by is not None and by.lower() not in named.lower()):
            continue
        if len(found) == limit:
            return found, f"{found[-1].epoch}.{found[-1].number}"
        found.append(deed)
    return found, None


def _place(before: str | None) -> tuple[int, int] | None:
    if before is None:
        return None
    epoch, _, number = before.partition(".")
    if not (epoch.isdecimal() and number.isdecimal()):
        raise InvalidInput(f"before must be the value of next in an earlier answer, such as 1.42, got {before!r}")
    return int(epoch), int(number)


def _deeds(records: Records, before: tuple[int, int] | None) -> Iterator[Deed]:
    """Yield all deeds, newest first."""
    for epoch in reversed(list(records.paths)):
        if before is not None and epoch > before[0]:
            continue
        deeds = list(_in_epoch(records, epoch))
        for deed in reversed(deeds):
            if before is None or (deed.epoch, deed.number) < before:
                yield deed


def _in_epoch(records: Records, epoch: int) -> Iterator[Deed]:
    settings, last = records.beginning(epoch), _last_settings(records, epoch - 1)
    problem = configuration.problem_of(settings)
    for located in records.actions_of_people(epoch, KINDS, MOST):
        body, changed = located.event.body, Changed()
        if isinstance(body, EpochBegun):
            changed = _difference(last, settings)
            if last is not None and not changed:
                continue  # it began because a measurement was taken back, which is a deed of its own
        elif isinstance(body, SettingsChanged):
            after = _after(settings, body)
            changed, settings = _difference(settings, after), after
            problem = problem if "units" not in changed else configuration.problem_of(settings)
        what, reason, words = _told(body, problem, changed, records)
        cause = getattr(body, "extra", None)
        by = cause.by if isinstance(cause, Cause) else None
        yield Deed(
            epoch,
            located.event.number,
            located.event.at,
            what,
            None if by is None else plain(by),
            reason,
            words,
            {name: {"from": before, "to": after} for name, (before, after) in changed.items()},
        )


def _last_settings(records: Records, epoch: int) -> Settings | None:
    """Return the settings with which an epoch ended; None where it is not there."""
    if epoch not in records.paths:
        return None
    settings = records.beginning(epoch)
    changes: list[LocatedEvent[Body]] = records.actions_of_people(epoch, (SettingsChanged,), MOST)
    for located in changes:
        if isinstance(located.event.body, SettingsChanged):
            settings = _after(settings, located.event.body)
    return settings


def _after(settings: Settings, change: SettingsChanged) -> Settings:
    return from_plain(Settings, {**plain(settings), **change.changes}, "the settings")


def _difference(before: Settings | None, after: Settings) -> Changed:
    if before is None:
        return {}
    old, new = plain(before), plain(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    found: Changed = {}
    for name in names:
        was, now = old.get(name), new.get(name)
        if isinstance(was, Mapping) and isinstance(now, Mapping):  # only what is different in a group
            for part in {**was, **now}:
                if was.get(part) != now.get(part):
                    found[f"{name}.{part}"] = (was.get(part), now.get(part))
        else:
            found[name] = (was, now)
    return found


def _told(body: Body, problem: Problem, changed: Changed, records: Records) -> tuple[str, str, str]:
    """Return what kind of deed it is, the reason that was given, and what it came to in a sentence."""
    match body:
        case ControllerCreated():
            knew = f", with {counted(len(body.history), 'past measurement')}" if body.history else ""
            return "created", "", f"Created in mode {body.config.mode}{knew}."
        case EpochBegun() | SettingsChanged():
            return _group(changed), body.reason, _in_words(changed)
        case ModeSet():
            return "mode", body.reason, f"The mode is {body.mode}."
        case OverrideSet():
            if body.action is None:
                return "override", body.reason, "Control was handed back."
            how = "Forced to" if body.force else "Held at"
            return "override", body.reason, f"{how} {problem.named(body.action)}."
        case Retract():
            told = records.told(body.id)
            measured = None if told is None else told.event.body.measurement
            what = "The measurement" if measured is None else f"The measurement {written(measured)}"
            return "retract", body.reason, f"{what} of round {body.id[1:]} was taken back."
        case Episode():
            forced = "" if body.force is None else ", forced, whatever the limits say"
            return "episode", body.force or "", f"A new episode began at {problem.named(body.start)}{forced}."
        case AlarmAcknowledged():
            raised = f"{body.raised[:16].replace('T', ' ')} UTC"
            return "acknowledge", body.remark, f"The alarm {body.kind} of {raised} was acknowledged."
        case ControllerArchived():
            return "archive", body.reason, "The controller was archived."
        case ControllerRestored():
            return "restore", body.reason, "The controller was brought back."
        case RecordAccepted():
            return "accept", body.reason, "The record was accepted although events were missing."
        case _:
            raise TypeError(f"{type(body).__name__} is nothing that people do")


def _group(changed: Changed) -> str:
    names = {name.partition(".")[0] for name in changed}
    return next((group for group, members in GROUPS.items() if names and names <= members), "settings")


def _in_words(changed: Changed) -> str:
    group = _group(changed)
    if group == "trial":
        after = changed["trial"][1] if "trial" in changed else True
        return "The trial was ended." if after is None else "A trial was begun."
    parts = [f"{_called(name)} from {_short(was)} to {_short(now)}" for name, (was, now) in changed.items()]
    words = WORDS.get(group, "Settings were changed")
    return f"{words}: {', '.join(parts)}." if parts else "A new epoch began."


def _called(name: str) -> str:
    return name.rpartition(".")[2].replace("_", " ")


def _short(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, list) and len(value) == 1:
        return _short(value[0])
    if isinstance(value, list) and len(value) > 6:
        return f"{len(value)} values"
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
