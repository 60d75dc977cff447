"""What the machine's own program may do: ask and tell, round by round. Whatever is answered is on disk before."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from holdcourse.log import LogError
from holdcourse.service import booking, past, refusals, repeats
from holdcourse.service.alarms import cleared
from holdcourse.service.hosted import Done, Hosted
from holdcourse.service.refusals import Refusal
from holdcourse.service.rows import decision_answer, tell_answer
from holdcourse.service.schemas import Ask
from holdcourse.service.shelf import Entry


class LongAgo(Exception):  # noqa: N818 - not an error: there is more to do
    """The question was answered so long ago that its answer must be rebuilt, which is not done in the turn."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"round {entry.event.body['round']} must be rebuilt")
        self.entry = entry


def ask(hosted: Hosted, request: Ask, key: str | None, rebuilt: dict[str, Any] | None = None) -> Done:
    """Decide the next round, or say again what was decided; `rebuilt` is what was answered long ago."""
    hosted.recall()
    controller, ledger = hosted.controller, hosted.ledger
    earlier = repeats.asked_under(hosted.shelf, key)
    if earlier is not None:
        return Done(_same_decision(hosted, earlier, request, rebuilt), [])
    number = _round_meant(hosted, request.round, key)
    if number < controller.round:
        return _asked_before(hosted, number, request, key, rebuilt)
    if number > controller.round:
        words = f"round {number} cannot be decided yet; the next one is {controller.round}"
        raise refusals.conflict(words, controller.round, number)
    if len(ledger.pending) >= controller.max_pending:
        raise hosted.still_waiting(number)
    with refusals.computing():
        decision = controller.ask(
            request.context,
            request.allowed,
            request.forecast,
            round=number,
            **booking.orders(ledger),
            extra=lambda record: hosted.signed(booking.asked(ledger, controller.policy.problem, record, key)),
        )
    event = hosted.catch_up()[-1]
    answer = hosted.answers[decision.id] = decision_answer(hosted.epoch, event, decision.probabilities.tolist())
    hosted.publish()
    if "silent" in ledger.alarms:
        with suppress(LogError):  # the decision is on disk and counts; the watchdog clears the alarm later
            hosted.commit(cleared("silent"))
    return Done(answer, [("decision", answer)])


def tell(
    hosted: Hosted,
    decision: str,
    measurement: float | None,
    applied: int | None,
    key: str | None,
    epoch: int | None = None,
) -> Done:
    """Take in what was measured (None: nothing was), or say again that it was.

    `applied` is in the numbers of `epoch`; without, in those of the epoch in which it is told.
    """
    hosted.recall()
    shelf, ledger = hosted.shelf, hosted.ledger
    earlier = None if key is None else shelf.with_key(key)
    asked = ledger.pending.get(decision)
    if earlier is not None or asked is None:
        told = earlier or shelf.told(decision)
        if told is None:
            raise refusals.unknown("decision", decision, f"pending: {', '.join(ledger.pending) or 'none'}")
        applied = past.renumbered(shelf, applied, epoch, told.epoch)
        return Done(repeats.same_tell(told.event, decision, measurement, applied, key), [])
    applied = past.renumbered(shelf, applied, epoch, hosted.epoch)
    if applied is not None:
        hosted.controller.policy.problem.check_action(applied)
    late = hosted.watch().happened if hosted.view.has_unreported else []  # what it says by now, it was told
    with refusals.computing():
        _learn(hosted, decision, measurement, applied, key)
    event = next(event for event in hosted.catch_up() if event.body.get("id") == decision)
    del hosted.answers[decision]
    hosted.publish()
    answer = tell_answer(event)
    return Done(answer, [*late, ("tell", answer), *(("alarm", alarm) for alarm in answer["alarms"])])


def _learn(hosted: Hosted, decision: str, measurement: float | None, applied: int | None, key: str | None) -> None:
    """Book what was measured; of a decision of an earlier epoch the controller knows nothing any more."""
    controller, ledger = hosted.controller, hosted.ledger
    asked = ledger.pending[decision]
    taken = ledger.meant(decision) if applied is None else applied
    record = None if asked.get("earlier") else controller.record(decision)
    off = booking.deviations(record, controller.model, taken, measurement)
    extra, notes = booking.told(ledger, controller.policy.problem, decision, measurement, applied, record, off)
    if key is not None:
        extra["key"] = key
    extra = hosted.signed(extra)
    if record is None:
        place = taken if decision == ledger.newest and taken != controller.action else None
        controller.learn_earlier(decision, taken, asked["context"], measurement, place, extra=extra, notes=notes)
    else:
        other = None if taken == record.meant else taken
        controller.tell(decision, measurement, other, extra=extra, notes=notes)


def _asked_before(hosted: Hosted, number: int, request: Ask, key: str | None, rebuilt: dict[str, Any] | None) -> Done:
    """The answer to a round that was decided, with the question that it must be the same as."""
    entry = hosted.shelf.asked(number)
    if entry is None:
        raise refusals.unknown("round", str(number), f"the next one is {hosted.controller.round}")
    answer = _same_decision(hosted, entry, request, rebuilt)
    if key is not None:  # the key must mean this round from now on, whatever comes
        hosted.commit({"note": "repeat", "round": number, **repeats.keyed(key)})
    return Done(answer, [])


def _same_decision(hosted: Hosted, entry: Entry, request: Ask, rebuilt: dict[str, Any] | None) -> dict[str, Any]:
    repeats.check_question(hosted.controller.policy.problem, entry.event, request)
    name = f"r{entry.event.body['round']}"
    if entry.epoch == hosted.epoch:
        if name in hosted.answers:
            return hosted.answers[name]
        if past.remembers(hosted.controller, name):
            return past.answer(hosted.controller, hosted.shelf, entry)
    if rebuilt is not None and (rebuilt["epoch"], rebuilt["decision"]) == (entry.epoch, name):
        return rebuilt
    raise LongAgo(entry)


def _round_meant(hosted: Hosted, number: int | None, key: str | None) -> int:
    """Without a number: the one that is pending or, where several may be, the next one."""
    controller = hosted.controller
    if number is not None:
        return number
    if controller.max_pending == 1:
        waiting = [int(asked["round"]) for asked in hosted.ledger.pending.values()]
        return waiting[-1] if waiting else controller.round
    if key is None:
        words = f"say which round is asked, e.g. {controller.round}, or send an Idempotency-Key"
        raise Refusal(422, "round_needed", f"several decisions may be pending: {words}")
    return controller.round
