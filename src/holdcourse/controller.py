"""The controller: a policy beside a running system, asked and told round by round.

The one mutable shell. Each `ask` computes a decision without changing anything, commits it to the record if there is
one, and only then goes on; so a failure at any point leaves the state as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive, database
from holdcourse.checks import whole_number
from holdcourse.costs import CostModel, maximises
from holdcourse.decision import Decision, Explanation, Order, Record
from holdcourse.errors import Conflict, DamagedFile, InvalidInput, plain
from holdcourse.history import check_measurement
from holdcourse.limits import Guard, Limits
from holdcourse.log import Event, Log
from holdcourse.policy import Policy
from holdcourse.problem import Problem
from holdcourse.recording import Recording
from holdcourse.request import Request
from holdcourse.session import Origin, Session, Wish, asked
from holdcourse.threads import one_thread
from holdcourse.witness import Witness

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _one_at_a_time(
    method: Callable[Concatenate[Controller, Given], Result],
) -> Callable[Concatenate[Controller, Given], Result]:
    """Threads take turns, each computes with one thread of linear algebra, and forked processes are refused."""

    @wraps(method)
    def alone(self: Controller, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if self._process != os.getpid():
            raise InvalidInput(
                f"this controller was made in process {self._process} and is used in {os.getpid()}, which was forked "
                "from it; make a controller in each process, with a record of its own"
            )
        with self._lock, one_thread():
            return method(self, *args, **kwargs)

    return alone


class Controller:
    """Asks a policy and tells it what was measured, within the limits given.

    Threads may share a controller: they take turns. Forked processes may not. While it is open, a record belongs to one
    controller; other processes may read it and copy it.

    Parameters
    ----------
    policy
        What decides.
    start
        The action before the first round.
    seed
        Of all randomness.
    log
        File of the append-only record. If it exists, the controller goes on where the record ends.
    limits
        What the machine may do; see `Limits`.
    guard
        When to go to a safe action; see `Guard`.
    max_pending
        How many decisions may wait for their measurement; with more than one, `ask` needs `round`.
    origin
        For a new record that continues an earlier one; see `Origin`.
    witness
        Who is told how far the record has come; see `Witness`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.minc_known(hc.Problem([100.0, 200.0, 300.0])), start=0)
    >>> decision = controller.ask(context=None, costs=[3.0, 1.0, 2.0])
    >>> decision.value
    200.0
    >>> controller.tell(decision.id, measurement=1.1)
    """

    def __init__(
        self,
        policy: Policy,
        start: int = 0,
        seed: int = 0,
        log: str | Path | None = None,
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
        origin: Origin | None = None,
        witness: Witness | None = None,
    ) -> None:
        with one_thread():
            session = Session(policy, start, seed, limits=limits, guard=guard, max_pending=max_pending, origin=origin)
            self._set_up(Recording(session, None if log is None else Path(log), witness))

    def _set_up(self, recording: Recording) -> None:
        self._recording = recording
        self._lock = RLock()
        self._process = os.getpid()

    @property
    def _session(self) -> Session:
        return self._recording.session

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._session.policy

    @property
    def limits(self) -> Limits:
        """What the machine may do."""
        return self._session.limits

    @property
    def guard(self) -> Guard | None:
        """When it goes to a safe action."""
        return self._session.guard

    @property
    def max_pending(self) -> int:
        """How many decisions may wait for their measurement."""
        return self._session.max_pending

    @property
    def log(self) -> Log:
        """The record; an error where there is none."""
        return self._recording.log

    @property
    def model(self) -> CostModel:
        """What has been learned; it goes on learning, so look at a copy."""
        return self._session.pilot.model

    @property
    def action(self) -> int:
        """Where the machine is."""
        return self._session.where.action

    @property
    def round(self) -> int:
        """The next round to be decided."""
        return self._session.round

    @property
    def episode(self) -> int:
        """The present episode."""
        return self._session.episode

    @property
    @_one_at_a_time
    def pending(self) -> list[Decision]:
        """Decisions not yet told, oldest first."""
        return [record.decision for record in self._session.pending]

    @_one_at_a_time
    def ask(
        self,
        context: Any = None,
        allowed: ArrayLike | None = None,
        forecast: Any = None,
        *,
        costs: ArrayLike | None = None,
        round: int | None = None,  # noqa: A002
        instructed: int | None = None,
        force: str | None = None,
        watching: bool = False,
        extra: Callable[[Record], dict[str, Any]] | None = None,
    ) -> Decision:
        """Decide the next round; asking again the same gives the same decision.

        Where somebody else decides what the machine does, `action` says afterwards what it is, a `tell` without
        `applied` means that, and limits count from there.

        Parameters
        ----------
        context
            What is known now: a number, a list of numbers, or None.
        allowed
            Which actions may be chosen, n booleans; default all.
        forecast
            Contexts expected in the next rounds, for policies that plan.
        costs
            The true costs, for policies that know them.
        round
            Which round is meant; needed only where several decisions may be pending.
        instructed
            What somebody wants the machine to do in place of the decision. It passes through `allowed` and all limits
            as the decision does: the machine goes as near as it may.
        force
            The reason why the machine shall go to `instructed` whatever mask and limits say; it is recorded.
        watching
            Nobody moves the machine in this round: it stays where it is, whatever is decided.
        extra
            What else the record shall hold of a new decision, in JSON values.
        """
        self._recording.catch_up()
        session = self._session
        request = Request.of(session.policy.problem, context, allowed, forecast, costs)
        pending = session.pending
        waiting = [record.decision.id for record in pending]
        if round is None:
            if session.max_pending > 1:
                raise InvalidInput(
                    f"several decisions may be pending: say which round is asked, e.g. round={session.round}"
                )
            round = pending[0].decision.round if pending else session.round  # noqa: A001
        if whole_number(round, "round", 0) < session.round:
            return self._repeated(round, request)
        if round > session.round:
            raise InvalidInput(f"round {round} cannot be decided yet; the next one is {session.round}")
        if len(waiting) >= session.max_pending:
            raise InvalidInput(
                f"{waiting} still wait for their measurement; tell them first, or skip with tell(id, None)"
            )
        choice, record = session.decide(request, _wish(session.policy.problem, instructed, force, watching))
        with self._recording.all_or_nothing():
            self._recording.write("ask", asked(record) | ({} if extra is None else {"extra": extra(record)}))
            session.accept(choice, record)
        return record.decision  # a snapshot can wait for the tell

    @_one_at_a_time
    def tell(
        self,
        decision_id: str,
        measurement: float | None,
        applied: int | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        notes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Say what was measured; telling the same again is fine.

        Parameters
        ----------
        decision_id
            `Decision.id`.
        measurement
            What was measured, or None if nothing was.
        applied
            The action that was really taken, if it was not the one meant; it is learned there. If no later decision
            has been taken, that is where the machine is, and the rule starts again from there.
        extra, notes
            What else the record shall hold of it, in JSON values: in the event itself, and as notes after it.
        """
        self._recording.catch_up()
        record = self._session.record(decision_id)
        y = None if measurement is None else check_measurement(measurement)
        if applied is not None:
            self.policy.problem.check_action(applied)
            applied = int(applied)
        if record.told is not None:
            if record.told != (y, applied):
                raise Conflict(
                    f"{decision_id} was told measurement={record.told[0]}, applied={record.told[1]}; "
                    f"now measurement={y}, applied={applied}. A measurement is told once",
                    {"measurement": record.told[0], "applied": record.told[1]},
                    {"measurement": y, "applied": applied},
                )
            return
        with self._recording.all_or_nothing():
            self._session.learn(record, y, applied)
            body = {"id": decision_id, "measurement": y, "applied": applied}
            self._recording.write("tell", _with(body, extra), notes)
        self._recording.snapshot_if_due()

    @_one_at_a_time
    def note(self, *notes: Mapping[str, Any]) -> list[Event]:
        """Write into the record what happened around the decisions; it changes nothing else."""
        self._recording.catch_up()
        return self._recording.note(notes)

    @_one_at_a_time
    def learn_earlier(
        self,
        decision_id: str,
        action: int,
        context: Any,
        measurement: float | None,
        place: int | None,
        *,
        extra: Mapping[str, Any],
        notes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Take in what was told of a decision of the record before this one.

        `action` is the one that ran, in this record's numbers; `place` is where the machine is, if that changed.
        """
        self.log  # noqa: B018 - an error where there is none, before anything has changed
        self._recording.catch_up()
        self.policy.problem.check_action(action)
        with self._recording.all_or_nothing():
            self._session.learn_earlier(action, context, measurement, place)
            body = {"id": decision_id, "action": action, "context": context, "measurement": measurement, "place": place}
            self._recording.write("learn", _with(body, extra), notes)
        self._recording.snapshot_if_due()

    @_one_at_a_time
    def origin_of_next(
        self, places: Sequence[int], forebears: Sequence[int] | None, here: int, about: Mapping[str, Any]
    ) -> Origin:
        """Where a record that continues this one begins: there action k is `places[k]`, and the machine at `here`.

        `forebears[j]` is the action of this record by whose leave action j of the next may be taken; None: all may.
        """
        session = self._session
        where = session.where.renamed(places, here, session.round - 1)
        allowed = None if forebears is None else tuple(np.flatnonzero(session.mask[list(forebears)]).tolist())
        return Origin(session.round, session.episode, about, where, session.cool_until, allowed)

    @property
    @_one_at_a_time
    def allowed(self) -> NDArray[np.bool_]:
        """Which actions were allowed at the newest question; all before the first one."""
        return self._session.mask.copy()

    @_one_at_a_time
    def permitted(self, wanted: int) -> Order:
        """Where the machine may go now if somebody wants it at `wanted`: by the newest mask, and all limits.

        Changes nothing. Where a forbidden action cannot be left within `max_step`, the machine stays.
        """
        self._recording.catch_up()
        self.policy.problem.check_action(wanted)
        return self._session.permitted(int(wanted))

    @_one_at_a_time
    def redirect(self, wanted: int, *, notes: Sequence[Mapping[str, Any]] = ()) -> Order:
        """Send the machine elsewhere within the round in progress, as far as `permitted` says.

        A `tell` of that round without `applied` then means where it was sent, and limits count from there. `notes` are
        what else the record shall hold of it.
        """
        order, session = self.permitted(wanted), self._session
        newest = session.records.get(session.round - 1)
        if session.round == 0 or (newest is not None and newest.told is not None):
            raise InvalidInput("no round is in progress; the machine is sent elsewhere with ask(..., instructed=...)")
        with self._recording.all_or_nothing():
            session.redirect(order)
            self._recording.write("redirect", {"round": session.round - 1, "order": asdict(order)}, notes)
        return order

    @_one_at_a_time
    def new_episode(self, start: int, *, force: str | None = None, extra: Mapping[str, Any] | None = None) -> None:
        """End the episode; the next one begins at `start`, with limits and guard afresh.

        A start that was not allowed at the newest question, or that is farther than `max_step` from where the machine
        is, is refused unless `force` says why; the reason is recorded.
        """
        self._recording.catch_up()
        self.policy.problem.check_action(start)
        _check_force(force)
        waiting = [decision.id for decision in self.pending]
        if waiting:
            raise InvalidInput(f"{waiting} still wait for their measurement; tell or skip them before a new episode")
        refusal = None if force is not None else self._session.refusal_of(int(start))
        if refusal is not None:
            raise InvalidInput(refusal)
        with self._recording.all_or_nothing():
            self._session.start_episode(int(start))
            self._recording.write("episode", _with({"start": int(start), "force": force}, extra))
        self._recording.snapshot_if_due()

    @_one_at_a_time
    def record(self, decision_id: str) -> Record:
        """A pending decision, or one of the newest others, with all that explains it."""
        return self._session.record(decision_id)

    @_one_at_a_time
    def explain(self, decision_id: str) -> Explanation:
        """Why a decision was taken: bounds, probabilities, movement prices, limits; as data and in words."""
        return self.record(decision_id).explain(self.policy.problem, maximise=maximises(self.model))

    @_one_at_a_time
    def save(self, path: str | Path) -> None:
        """Write the whole state to a file, atomically. With a `log` there is no need to."""
        self._recording.catch_up()
        archive.write_file(Path(path), archive.pack(*self._session.snapshot()), private=True)

    @_one_at_a_time
    def backup(self, path: str | Path) -> None:
        """Write a whole copy of the record to a new file; a plain copy of one in use may miss its newest events."""
        self.log.backup(Path(path))

    @classmethod
    def load(cls, path: str | Path, policy: Policy) -> Controller:
        """Go on from a saved state; `policy` must be equal to the one that was saved."""
        path = Path(path)
        if database.is_record(path):  # which nobody but SQLite may open
            raise InvalidInput(f"{path} is a record, not a saved state; go on from it: Controller(policy, log=path)")
        content = archive.read_file(path)
        state, arrays = archive.unpack(content, str(path))
        identity = state.get("identity")
        if identity is None:
            raise DamagedFile(f"{path} does not hold a controller")
        if identity["policy"] != policy.fingerprint:
            raise InvalidInput(
                f"{path} was saved by another policy ({identity['policy_name']}, fingerprint {identity['policy']}); "
                f"this one is {policy.name}, {policy.fingerprint}. Make it with the same problem and options"
            )
        session = Session.of_identity(policy, identity)
        session.restore(state, arrays)
        controller = cls.__new__(cls)  # a session of its own would be made only to be thrown away
        controller._set_up(Recording(session))
        return controller

    @_one_at_a_time
    def close(self) -> None:
        """Let go of the log."""
        self._recording.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = self.policy.problem.value(self.action)
        return f"Controller({self.policy.name}, round {self.round}, at {place}, {len(self.pending)} pending)"

    def _repeated(self, round_number: int, request: Request) -> Decision:
        record = self._session.record(f"r{round_number}")
        if record.request != request:
            raise Conflict(
                f"round {round_number} was asked with {record.request.describe()}, now with {request.describe()}; "
                "tell or skip it before asking something else",
                record.request.describe(),
                request.describe(),
            )
        return record.decision


def _wish(problem: Problem, instructed: int | None, force: str | None, watching: bool) -> Wish | None:
    """What somebody wants in place of the decision, if anything, checked."""
    _check_force(force)
    if watching and (instructed is not None or force is not None):
        raise InvalidInput("watching means that nobody moves the machine; leave instructed and force out")
    if force is not None and instructed is None:
        raise InvalidInput("force is the reason for an instruction; say with instructed= where the machine shall go")
    if watching:
        return Wish(None)
    if instructed is None:
        return None
    problem.check_action(instructed)
    return Wish(int(instructed), force)


def _check_force(force: str | None) -> None:
    if force is not None and not (isinstance(force, str) and force.strip()):
        raise InvalidInput(f"force must be the reason in words, got {plain(force)!r}")


def _with(body: dict[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """An event with what else the caller wants it to hold."""
    return body if extra is None else {**body, "extra": dict(extra)}
