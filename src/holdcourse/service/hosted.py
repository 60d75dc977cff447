"""One controller of the service: what an operator, and the machine's own program, may do to it.

Not safe for several threads at once: the fleet gives each controller one turn at a time. What others look at meanwhile
is `view`, which is replaced as a whole after every change. Whatever is answered is on disk before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdcourse import audit
from holdcourse.controller import Controller
from holdcourse.decision import Record
from holdcourse.decision import Request as Question
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.log import Event, Log
from holdcourse.problem import Problem
from holdcourse.service import booking, epochs, refusals, repeats
from holdcourse.service.alarms import raised
from holdcourse.service.ledger import Ledger
from holdcourse.service.refusals import Refusal
from holdcourse.service.rows import carried_answer, decision_answer, tell_answer
from holdcourse.service.schemas import Ask
from holdcourse.service.shelf import Entry, Shelf
from holdcourse.service.store import DataFolder
from holdcourse.service.view import View, of_epoch


class Done(NamedTuple):
    """An answer, and what happened: (kind, data) for those who watch; nothing if it was a repetition."""

    answer: dict[str, Any]
    happened: list[tuple[str, dict[str, Any]]]


class Hosted:
    """A controller opened from its records."""

    def __init__(self, store: DataFolder, name: str) -> None:
        self.store, self.id = store, name
        self.shelf = Shelf()
        try:
            self._open()
        except BaseException:
            self.shelf.close()
            raise

    def _open(self) -> None:
        """Go on with the newest record."""
        self._outdated = True  # until all of this has worked
        paths = self.store.epochs(self.id)
        self.shelf.take_in(paths)
        self.controller: Controller = epochs.reopened(paths[-1])
        try:
            self.controller.log.index()
            self._check_links()
            self._unchanging = of_epoch(self.id, len(paths), self.controller.policy)
            self.ledger = Ledger()
            self._outdated = False
            self._recall()
        except BaseException:
            self._outdated = True
            self.controller.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        self.controller.close()
        self.shelf.close()

    # -- the machine's program ----------------------------------------------------------------------------------------

    def ask(self, request: Ask, key: str | None) -> Done:
        """Decide the next round, or say again what was decided."""
        self._recall()
        problem, ledger = self.controller.policy.problem, self.ledger
        earlier = None if key is None else self.shelf.with_key(key)
        if earlier is not None:
            return Done(self._same_decision(repeats.asked_under(self.shelf, earlier, key), request), [])
        number = self._round_meant(request.round, key)
        if number < self.controller.round:
            entry = self.shelf.asked(number)
            if entry is None:
                raise refusals.unknown("round", str(number), f"the next one is {self.controller.round}")
            answer = self._same_decision(entry, request)
            if key is not None:  # the key must mean this round from now on, whatever comes
                self._commit({"note": "repeat", "round": number, "extra": {"key": key}})
            return Done(answer, [])
        if number > self.controller.round:
            raise refusals.conflict(
                f"round {number} cannot be decided yet; the next one is {self.controller.round}",
                self.controller.round,
                number,
            )
        waiting = list(ledger.pending)
        if len(waiting) >= self.controller.max_pending:
            raise refusals.conflict(
                f"{', '.join(waiting)} still wait for their measurement; tell or skip them first", waiting, number
            )
        with refusals.computing():
            decision = self.controller.ask(
                request.context,
                request.allowed,
                request.forecast,
                round=number,
                instructed=booking.instructed(ledger),
                extra=lambda record: booking.asked(ledger, problem, record, key),
            )
        event = self._catch_up()[-1]
        answer = self._answers[decision.id] = decision_answer(
            len(self.shelf.paths), event, decision.probabilities.tolist()
        )
        self._publish()
        return Done(answer, [("decision", answer)])

    def tell(
        self, decision: str, measurement: float | None, applied: int | None, key: str | None, epoch: int | None = None
    ) -> Done:
        """Take in what was measured (None: nothing was), or say again that it was.

        `applied` is in the numbers of `epoch`; without, in those of the epoch in which it is told.
        """
        self._recall()
        earlier = None if key is None else self.shelf.with_key(key)
        asked = self.ledger.pending.get(decision)
        if earlier is not None or asked is None:
            told = earlier or self.shelf.told(decision)
            if told is None:
                waiting = list(self.ledger.pending)
                raise refusals.unknown("decision", decision, f"pending: {', '.join(waiting) or 'none'}")
            applied = self._renumbered(applied, epoch, told.epoch)
            return Done(repeats.same_tell(told.event, decision, measurement, applied), [])
        applied = self._renumbered(applied, epoch, len(self.shelf.paths))
        taken = asked["action"] if applied is None else applied
        self.controller.policy.problem.check_action(taken)
        with refusals.computing():
            record = None if asked.get("earlier") else self.controller.record(decision)
            off = booking.deviations(record, self.controller.model, taken, measurement)
            extra, notes = booking.told(self.ledger, self.controller.policy.problem, decision, measurement, taken, off)
            if key is not None:
                extra["key"] = key
            if record is None:
                place = taken if decision == self.ledger.newest and taken != self.controller.action else None
                self.controller.learn_earlier(
                    decision, taken, asked["context"], measurement, place, extra=extra, notes=notes
                )
            else:
                other = None if taken == record.meant else taken
                self.controller.tell(decision, measurement, other, extra=extra, notes=notes)
        event = next(event for event in self._catch_up() if event.body.get("id") == decision)
        del self._answers[decision]
        self._publish()
        answer = tell_answer(event)
        return Done(answer, [("tell", answer), *(("alarm", alarm) for alarm in answer["alarms"])])

    # -- the operator -------------------------------------------------------------------------------------------------

    def set_mode(self, mode: str, reason: str, key: str | None) -> Done:
        """From now on; a request that was carried out before changes nothing, whatever came in between."""
        self._recall()
        note = {"note": "mode", "mode": mode, "reason": reason}
        if repeats.noted(self.shelf, note, key) or mode == self.ledger.mode:
            return Done(self.view.state(), [])
        self._commit(repeats.keyed(note, key))
        return Done(self.view.state(), [("mode", {"mode": mode, "reason": reason})])

    def set_override(self, action: int | None, reason: str, key: str | None) -> Done:
        """Hold the machine at an action, or hand it back; likewise."""
        self._recall()
        if action is not None:
            self.controller.policy.problem.check_action(action)
        held = self.ledger.override
        note = {"note": "override", "action": action, "reason": reason}
        if repeats.noted(self.shelf, note, key) or (None if held is None else (held["action"], held["reason"])) == (
            None if action is None else (action, reason)
        ):
            return Done(self.view.state(), [])
        self._commit(repeats.keyed(note, key))
        return Done(self.view.state(), [("override", {"action": action, "reason": reason})])

    def new_episode(self, start: int) -> Done:
        """End the episode; if no round followed the last one, at the same start, it is the same request again."""
        self._recall()
        self.controller.policy.problem.check_action(start)
        if self.ledger.fresh_episode == start:
            return Done(self.view.state(), [])
        waiting = list(self.ledger.pending)
        if waiting:
            raise refusals.conflict(
                f"{', '.join(waiting)} still wait for their measurement; tell or skip them first", waiting, start
            )
        self.controller.new_episode(start)
        self._catch_up()
        self._publish()
        return Done(self.view.state(), [("state", {"episode": self.controller.episode})])

    def change(self, changes: Mapping[str, Any]) -> Done:
        """Other settings; in a new epoch where decisions depend on them."""
        self._recall()
        config = epochs.merged(self.ledger.config, changes)
        if config == self.ledger.config:
            return Done(self.view.state(), [])
        if any(config[name] != self.ledger.config[name] for name in epochs.EPOCH_SETTINGS):
            try:
                with refusals.computing():
                    epochs.begin_next(self.store, self.ledger, self.controller, changes)
            finally:
                if self.store.epochs(self.id) != self.shelf.paths:  # then the old one must not be written to any more,
                    self._outdated = True  # even if something failed after the new one got its name
                    self.controller.close()
            self._open()
        else:
            if config["fallback"] is not None:
                self.controller.policy.problem.check_action(config["fallback"])
            changed = {name: value for name, value in config.items() if value != self.ledger.config[name]}
            self._commit({"note": "config", "changes": changed})
        return Done(self.view.state(), [("state", {"epoch": len(self.shelf.paths)})])

    def watch(self, now: datetime) -> Done:
        """Report decisions that should have been told by now."""
        self._recall()
        late = [name for name in self.ledger.overdue(now) if name not in self.ledger.stale]
        if not late:
            return Done({}, [])
        notes: list[dict[str, Any]] = [{"note": "stale", "decision": name} for name in late]
        if "stale" not in self.ledger.alarms:
            seconds = self.ledger.config["deadline_s"]
            message = f"{', '.join(late)} was not told within {seconds:g} s; the machine should be at its fallback"
            notes.append(raised("stale", message))
        self._commit(*notes)
        return Done({}, [("alarm", {**alarm, "cleared_at": None}) for alarm in self.ledger.alarms.values()])

    # -- looking ------------------------------------------------------------------------------------------------------

    def record_of(self, decision: str) -> tuple[Record, Problem]:
        """A decision with all that explains it, and the problem of its epoch; an old one is rebuilt. Needs no turn."""
        entry = self.shelf.asked(int(decision[1:]))
        if entry is None:
            raise refusals.unknown("decision", decision, f"the next one will be r{self.controller.round}")
        return self._record(entry)

    def remembers(self, decision: str) -> bool:
        """Whether explaining a decision needs nothing rebuilt."""
        with suppress(HoldcourseError):
            return self.controller.record(decision) is not None
        return False

    def _record(self, entry: Entry) -> tuple[Record, Problem]:
        policy = self.controller.policy
        current = entry.epoch == len(self.shelf.paths)
        if current:
            with suppress(HoldcourseError):  # it may no longer be in memory
                return self.controller.record(f"r{entry.event.body['round']}"), policy.problem
        log = Log.read(self.shelf.paths[entry.epoch - 1], checked=False)
        try:
            policy = policy if current else epochs.recorded_policy(log)
            return audit.rebuilt(log, policy, entry.event), policy.problem
        finally:
            log.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _check_links(self) -> None:
        previous, paths = self.controller.log.about.get("previous"), self.shelf.paths
        if previous is None:
            return
        before = None if len(paths) < 2 else Log.read(paths[-2], checked=False)
        if before is not None:
            before.close()
        if before is None or before.chain != previous["chain"]:
            raise DamagedFile(f"{paths[-1]} does not continue {previous['file']} as it is; restore from a back-up")

    def _recall(self) -> None:
        """Take in what the record holds already; nothing new, unless the last request was cut off after its commit."""
        if self._outdated:
            self._open()
        elif self._catch_up():
            self._answers = {name: self._pending_answer(name, asked) for name, asked in self.ledger.pending.items()}
            self._publish()

    def _catch_up(self) -> list[Event]:
        events = list(self.controller.log.events(after=self.ledger.seen))
        for event in events:
            self.ledger.saw(event)
        return events

    def _commit(self, *notes: Mapping[str, Any]) -> None:
        self.controller.note(*notes)
        self._catch_up()
        self._publish()

    def _publish(self) -> None:
        self.view = View.of(self._unchanging, self.controller, self.ledger, list(self._answers.values()))

    def _pending_answer(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.get("earlier"):
            return carried_answer(len(self.shelf.paths), name, asked)
        entry = self.shelf.asked(asked["round"])
        assert entry is not None
        return decision_answer(entry.epoch, entry.event, self.controller.record(name).decision.probabilities.tolist())

    def _round_meant(self, number: int | None, key: str | None) -> int:
        if number is not None:
            return number
        if self.controller.max_pending > 1:
            if key is None:
                raise Refusal(
                    422,
                    "round_needed",
                    f"several decisions may be pending: say which round is asked, e.g. {self.controller.round}, or "
                    "send an Idempotency-Key",
                )
            return self.controller.round
        waiting = list(self.ledger.pending.values())
        return int(waiting[-1]["round"]) if waiting else self.controller.round

    def _described(self, request: Ask) -> dict[str, Any]:
        """A question as the record holds it, whatever the actions were when it was asked."""
        question = Question.of(self.controller.policy.problem, request.context, None, request.forecast, None).describe()
        if request.allowed is not None:
            question["allowed"] = [k for k, may_be in enumerate(request.allowed) if may_be]
        return question

    def _same_decision(self, entry: Entry, request: Ask) -> dict[str, Any]:
        body = entry.event.body
        recorded = {"round": body["round"], **body["request"]}
        given = {"round": body["round"] if request.round is None else request.round, **self._described(request)}
        if recorded != given:
            raise refusals.conflict(
                f"round {body['round']} was asked with {recorded}, now with {given}; tell or skip it before asking "
                "something else",
                recorded,
                given,
            )
        name = f"r{body['round']}"
        if name in self._answers and entry.epoch == len(self.shelf.paths):
            return self._answers[name]
        return decision_answer(entry.epoch, entry.event, self._record(entry)[0].decision.probabilities.tolist())

    def _renumbered(self, action: int | None, epoch: int | None, into: int) -> int | None:
        """An action in the numbers of epoch `into`, given in those of `epoch`."""
        paths = self.shelf.paths
        if epoch is not None and epoch > len(paths):
            raise InvalidInput(f"there is no epoch {epoch} yet; the present one is {len(paths)}")
        if action is None or epoch is None or epoch == into:
            return action
        given = epochs.recorded_problem(paths[epoch - 1])
        given.check_action(action)
        return epochs.nearest_actions(given, epochs.recorded_problem(paths[into - 1]))[action]


def now() -> datetime:
    """The time, as records tell it."""
    return datetime.now(UTC)
