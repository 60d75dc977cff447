"""Check what a record of decisions proves, and read measurements from it.

Examples
--------
>>> import holdcourse as hc
>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = folder.name + "/valve.log"
>>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])), log=path) as controller:
...     for load in (0.2, 0.4, 0.6):
...         controller.tell(controller.ask(context=load).id, 1.0 - load)
>>> found = hc.audit.verify(path)
>>> found.decisions, found.verified
(3, True)
>>> folder.cleanup()
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse import archive
from holdcourse.checks import whole_number
from holdcourse.deciding import recipe
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Trust
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.history import History
from holdcourse.running.decision import Entry
from holdcourse.running.events import (
    Ask,
    Event,
    FleetAsk,
    FleetTell,
    Learn,
    RecordAccepted,
    Redirect,
    Snapshot,
    Tell,
)
from holdcourse.running.fleet import Fleet
from holdcourse.running.fleet_record import question_of, read_members
from holdcourse.running.fleet_record import relived as fleet_relived
from holdcourse.running.identity import differences, in_words
from holdcourse.running.log import Log
from holdcourse.running.retraction import relived, session_at
from holdcourse.running.session import LAST_DIGITS, Difference, Session, recorded_also
from holdcourse.running.storage import Location, located
from holdcourse.running.witness import contradictions as contradictions_of
from holdcourse.running.witness import read_key
from holdcourse.threads import one_thread, versions

TOLD_EVERY = 16  # events, of how far a verification is
# What to do with a record that does not hold its policy.
VERIFIED = "make it in Python as it was made for the record, and check it with hc.audit.verify(path, policy)"


@dataclass(frozen=True)
class Verification:
    """Result of repeating every recorded decision.

    Attributes
    ----------
    decisions, tells, retractions
        Numbers of decisions, tells and retractions in the record; for a fleet those of all members.
    differences
        What came out differently; empty if every decision is the same, to the last digit.
    last_digits
        Numbers that differ only in their last digits, as on another processor; the decisions are the same.
    versions
        Parts whose version is not the one that wrote the record: name, version then, version now. They explain
        differences.
    events, head
        Length of the record, and the hash of its last event. If you keep both elsewhere, they show later whether the
        record was shortened or rewritten.
    missing
        What is known to be missing at the end of the record, in words; empty if nothing is.
    statements, witnessed
        Number of statements of the witness that were compared, and the event up to which they reach; None without a
        witness.
    accepted
        Statements that the record was accepted although events were missing, with the reasons.
    """

    decisions: int
    tells: int
    differences: tuple[str, ...]
    versions: tuple[tuple[str, str, str], ...]
    last_digits: tuple[str, ...] = ()
    events: int = 0
    head: str = ""
    missing: str = ""
    statements: int | None = None
    witnessed: int | None = None
    accepted: tuple[str, ...] = ()
    retractions: int = 0

    @property
    def verified(self) -> bool:
        """Whether nothing is missing and every decision is the same; last digits may differ."""
        return not self.differences and not self.missing


def verify(
    path: str | Location,
    policy: Policy | None = None,
    *,
    witness: str | Path | None = None,
    key: str | Path | None = None,
    trust: Trust = (),
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Repeat every recorded decision from the beginning, and compare it with the original, bit for bit.

    Parameters
    ----------
    path
        The record. It may be in use, and may be in a read-only place.
    policy
        The policy; needed only if the record cannot make it, for example if its prior mean is a function.
    witness, key
        File with what a `Witness` was told, and the file of its key, to check that this is the record that the witness
        saw.
    trust
        Import paths of code that is not ours and may be run to make the policy that the record names, such as
        ``"mine.py:mine"``; as in `load_policy`.
    progress
        Function that is called with the number of events replayed and the total.
    """
    if (witness is None) != (key is None):
        raise InvalidInput(
            "witness and key belong together, the file of the reports and the file of the key; give both"
        )
    lines = None if witness is None else _lines(Path(witness))  # before the record: it may go on meanwhile
    log = Log.read(located(path), incomplete=True)
    try:
        log.check_snapshots()
        lived_again = _lived_again if log.about.identity.members is None else _fleet_lived_again
        found, counts = lived_again(log, recorded_policy(log, trust) if policy is None else policy, progress)
        statements, witnessed, contradictions = None, None, list[str]()
        if lines is not None and key is not None:
            statements, witnessed, contradictions = contradictions_of(
                lines, read_key(key), log.about.record, log.chain_at, log.last
            )
        return Verification(
            counts["ask"],
            counts["tell"],
            (*contradictions, *(str(each) for each in found if each.decisive)),
            tuple(_other_versions(log)),
            tuple(str(each) for each in found if not each.decisive),
            log.last,
            log.chain,
            "" if log.gap is None else log.gap[0],
            statements,
            witnessed,
            tuple(_accepted(log)),
            counts["retract"],
        )
    finally:
        log.close()


def accept(path: str | Location, reason: str) -> int:
    """Accept a record whose newest events are missing; return the number of events that it contains.

    The record then says that something is missing and why that was accepted. Without this, no controller continues such
    a record, because it would decide again rounds that a machine may have run.
    """
    if not reason.strip():
        raise InvalidInput("give reason=, why the record is accepted as it is; it becomes a part of the record")
    return Log.accept(located(path), reason)


def backup(path: str | Location, target: str | Path) -> int:
    """Write a whole copy of a record to one file, even while a controller writes to it; return the number of events.

    The copy is read back, and its hashes are compared, before the function returns.
    """
    log = Log.read(located(path), checked=False)
    try:
        log.backup(Path(target))
    finally:
        log.close()
    copy = Log.read(Path(target))
    copy.close()
    return copy.last


def history(path: str | Location, *, member: int | None = None) -> History:
    """Return the measurements of a record that were not taken back: action, context and number.

    Another policy can learn them, for these settings or for finer ones; see `refine`. Not included are what the policy
    had learned before the record began, and what an arm of a trial kept to itself.

    Parameters
    ----------
    path
        The record. It may be in use.
    member
        Number of the member whose measurements are returned, from 0, for the record of a fleet.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/valve.log"
    >>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])), log=path) as controller:
    ...     for load in (0.2, 0.4, 0.6):
    ...         controller.tell(controller.ask(context=load).id, 1.0 - load)
    >>> hc.audit.history(path).measurements.tolist()
    [0.8, 0.6, 0.4]
    >>> folder.cleanup()
    """
    log = Log.read(located(path), checked=False)
    try:
        if log.about.identity.members is not None:
            return History.from_triples(_member_measured(log, log.about.identity.members.count, member))
        if member is not None:
            raise InvalidInput(
                f"{log.path} is the record of one controller, so it has no member {shown(member)}; leave member out"
            )
        gone = {event.body.id for event in log.retractions()}
        asked: dict[str, Ask] = {}
        ran: dict[str, int] = {}
        measured: list[tuple[int, Any, float]] = []
        for event in log.events():
            match event.body:
                case Ask() as ask:
                    asked[ask.id], ran[ask.id] = ask, ask.meant
                case Redirect() as sent:
                    ran[f"r{sent.round}"] = sent.order.action
                case Tell() as told if told.id not in gone:
                    ask = asked.pop(told.id)
                    taken = ran.pop(ask.id) if told.applied is None else told.applied
                    if ask.turn is None or ask.turn.heard:
                        measured += _measured(told, taken, ask.request.context)
                case Learn() as learned if learned.id not in gone and (learned.turn is None or learned.turn.heard):
                    measured += _measured(learned, learned.action, learned.context)
        return History.from_triples(measured)
    finally:
        log.close()


def _member_measured(log: Log, count: int, member: int | None) -> list[tuple[int, Any, float]]:
    """All that one member of a fleet measured, in the order in which it was told."""
    if member is None:
        raise InvalidInput(
            f"{log.path} is the record of a fleet of {count} members, and each has measurements of its own machine; "
            f"say whose you want: hc.audit.history(path, member=0), up to member={count - 1}"
        )
    if whole_number(member, "member", 0) >= count:
        raise InvalidInput(f"{log.path} has no member {member}; its members are 0 to {count - 1}")
    newest: tuple[int, Any] | None = None
    measured: list[tuple[int, Any, float]] = []
    for event in log.events():
        body = event.body
        if not isinstance(body, FleetAsk | FleetTell):
            continue
        places = np.flatnonzero(read_members(body.members, count) == member)
        if not len(places):
            continue
        if isinstance(body, FleetAsk):
            question = question_of(body, count)
            newest = body.actions[places[0]], question.contexts[places[0]]
        elif newest is not None and (y := body.measurements[places[0]]) is not None:
            measured.append((*newest, y))
    return measured


def _measured(told: Tell | Learn, action: int, context: Any) -> Iterator[tuple[int, Any, float]]:
    """All that one event says was measured, in its context."""
    if told.measurement is not None:
        yield action, context, told.measurement
    yield from ((other, context, y) for other, y in recorded_also(told))


@one_thread()
def _lived_again(
    log: Log, policy: Policy, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Difference], Counter[str]]:
    found, counts = list[Difference](), Counter[str]()
    for event, session, changed in relived(log, from_beginning(log, policy), 0):
        body = event.body
        found += changed
        counts[event.kind] += 1
        if progress is not None and event.number % TOLD_EVERY == 0:
            progress(event.number, log.last)
        if isinstance(body, Snapshot) and body.sha256 != archive.fingerprint(*session.snapshot()):
            plain = ("identity", "round", "episode", "where", "cool_until", "settled")
            found.append(_unlike(log, body.follows, session, plain))
    return found, counts


@one_thread()
def _fleet_lived_again(
    log: Log, policy: Policy, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Difference], Counter[str]]:
    """As `_lived_again`; decisions and tells are counted by member."""
    _check_policy(log, policy)
    fleet = Fleet.of_identity(policy, log.about.identity)
    fleet.take_over(*archive.unpack(log.newest_snapshot(at_most=0)[1], f"the first snapshot in {log.path}"))
    found, counts = list[Difference](), Counter[str]()
    for event, changed in fleet_relived(log, fleet, 0):
        body = event.body
        found += changed
        if isinstance(body, FleetAsk):
            counts["ask"] += len(body.actions)
        elif isinstance(body, FleetTell):
            counts["tell"] += len(body.measurements)
        if progress is not None and event.number % TOLD_EVERY == 0:
            progress(event.number, log.last)
        if isinstance(body, Snapshot) and body.sha256 != archive.fingerprint(*fleet.snapshot()):
            found.append(_unlike(log, body.follows, fleet, ("identity", "next_call", "calls")))
    return found, counts


def _unlike(log: Log, number: int, kept: Session | Fleet, plain: Sequence[str]) -> Difference:
    """Say that a snapshot does not hold the state that the events before it give; `plain` may not differ at all."""
    words = f"the snapshot after event {number} does not contain the state that the events before it lead to"
    return Difference(words, decisive=not _nearly_kept(log, number, kept, plain))


def _nearly_kept(log: Log, number: int, session: Session | Fleet, plain: Sequence[str]) -> bool:
    """Whether the snapshot after an event, if it is still there, differs from a state in last digits only."""
    kept, content = log.newest_snapshot(at_most=number)
    if kept != number:  # it was let go: then only another processor or library can explain the difference
        return any(_other_versions(log))
    state, arrays = archive.unpack(content, f"a snapshot in {log.path}")
    present, own = session.snapshot()
    return (
        all(state.get(name) == json.loads(json.dumps(present[name])) for name in plain)
        and arrays.keys() == own.keys()
        and all(
            arrays[name].shape == np.shape(own[name])
            and np.allclose(arrays[name], own[name], rtol=LAST_DIGITS, atol=LAST_DIGITS, equal_nan=True)
            for name in arrays
        )
    )


def _accepted(log: Log) -> Iterator[str]:
    for event in log.find("note", RecordAccepted.NOTE, limit=100):
        if isinstance(event.body, RecordAccepted):
            yield f"at event {event.number}, {event.at}, the record was accepted as it was: {event.body.reason}"


def _lines(said: Path) -> list[str]:
    try:
        return said.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read the reports to the witness, {said}: {reason}; check the path") from None


@one_thread()
def rebuilt(log: Log, policy: Policy, asked: Event[Ask]) -> Entry:
    """A decision with all that explains it, by living again through the record from the last snapshot before it."""
    position, content = log.newest_snapshot(at_most=asked.number - 1)
    # Limits, guard and prices are those of the snapshot: they may have been changed since the record began.
    session = session_at(log, Session.of_identity(policy, log.about.identity), content)
    lived = relived(log, session, position)
    entry = next(after.entry(asked.body.id) for event, after, _ in lived if event.number == asked.number)
    told = next((event.body for event in log.find("decision", asked.body.id, newest=True)), None)
    if not isinstance(told, Tell):
        return entry
    return entry.with_tell(told.measurement, told.applied, None, recorded_also(told), told.reference)


def recorded_policy(log: Log, trust: Trust, remedy: str = VERIFIED) -> Policy:
    """The policy that the record says wrote it, before it had learned anything."""
    return recipe.make(log.recipe(remedy), (trust,) if isinstance(trust, str) else tuple(trust))


def from_beginning(log: Log, policy: Policy) -> Session:
    """The session as it was before the first event."""
    _check_policy(log, policy)
    session = Session.of_identity(policy, log.about.identity)
    session.restore(*archive.unpack(log.newest_snapshot(at_most=0)[1], f"the first snapshot in {log.path}"))
    return session


def _check_policy(log: Log, policy: Policy) -> None:
    """Raise where a policy is not the one that the record was begun by."""
    identity = log.about.identity
    if policy.fingerprint != identity.policy:
        ours = replace(identity, policy=policy.fingerprint)
        words = in_words(list(differences(identity, ours, policy, log.about.recipe)))
        raise InvalidInput(f"{log.path} was begun by a different policy: {words}; give the policy that began it")


def _other_versions(log: Log) -> Iterator[tuple[str, str, str]]:
    here = versions()
    for name, then in log.about.versions.items():
        if then != here.get(name):
            yield name, then, here.get(name, "none")
