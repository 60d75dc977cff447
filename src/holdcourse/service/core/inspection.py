"""What can be read of a controller: its rounds, why they were decided so, the learned field, and its record's state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from holdcourse.errors import HoldcourseError, InvalidInput, computing
from holdcourse.learning.checking import ModelCheck, check_model
from holdcourse.learning.costs import CostModel
from holdcourse.learning.history import History, check_context
from holdcourse.running import audit
from holdcourse.running.events import Ask, FleetAsk
from holdcourse.running.log import Log
from holdcourse.running.storage import Location
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.data_folder import number_of
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.ledger import finite, plain_value, shown_problem
from holdcourse.service.core.records import EpochChain, LocatedEvent, Records, entry, numbered, rounds_of, row
from holdcourse.service.core.store import Store
from holdcourse.trials.answer import answer
from holdcourse.trials.record import read_trial
from holdcourse.trials.report import to_data

FIELD_CONTEXTS = 48
FIELD_ROUNDS = 480  # newest rounds whose contexts the field may show
CHECKED_READINGS = 3000  # newest ones that the check of the model looks at
DRAWN_READINGS = 300  # of these, in its picture
DECIDED_AGAIN = 1000  # decisions; a longer record is decided again only when that is asked for
AT_ONCE_DECIDED = 50  # decisions that are decided again while the client waits; more are a job
AT_ONCE_READ = 5000  # ... or only read
HASHED = 0.1  # of the work, once every event was read
FIRST_LOOK = 4  # events at the end of a fleet's record among which its newest call is looked for
TOGETHER = 100  # decisions of members of a fleet that take as long as one of a controller


def rows(hosted: Hosted, after: int | None, limit: int) -> dict[str, Any]:
    """List the rounds after `after`, or the newest ones."""
    there = hosted.records
    asked = there.newest_asks(limit + 1) if after is None else there.asks_after(after, limit + 1)
    kept = asked[-limit:] if after is None else asked[:limit]

    counted = [*_counted_until_retracted(there), *_counted_until_corrected(hosted)]
    weights = {each.decision: each.weight for _, each in hosted.ledger.corrections}

    def one(located: LocatedEvent[Ask]) -> dict[str, Any]:
        name = located.event.body.id
        tell, retraction = there.told(name), there.retracted(name)
        told = None if tell is None else (tell.epoch, tell.event.number)
        return row(
            located.epoch,
            located.event,
            None if tell is None else tell.event,
            None if retraction is None else retraction.event,
            sum(service for since, until, service in counted if told is not None and since <= told < until),
            weights.get(name),
        )

    return {"decisions": [one(located) for located in kept], "more": len(asked) > limit}


def _counted_until_retracted(there: Records) -> Iterator[tuple[tuple[int, int], tuple[int, int], float]]:
    """Costs that were taken back: from which event to which they were in the sums, by epoch and number."""
    for retraction in there.retractions():
        tell = there.told(retraction.event.body.id)
        if tell is not None and tell.event.body.extra is not None:
            until = (retraction.epoch, retraction.event.number)
            yield (tell.epoch, tell.event.number), until, tell.event.body.extra.service or 0.0


def _counted_until_corrected(hosted: Hosted) -> Iterator[tuple[tuple[int, int], tuple[int, int], float]]:
    """Costs of readings that were found out later: from which event to which they were in the sums, and how much.

    One that was taken back later still was, from there on, in the sums with what was expected in its place.
    """
    there = hosted.records
    for number, each in hosted.ledger.corrections:
        tell, retraction = there.told(each.decision), there.retracted(each.decision)
        if tell is None:
            continue
        found = (hosted.epoch, number)
        if retraction is None:
            yield (tell.epoch, tell.event.number), found, -each.change
        else:
            yield found, (retraction.epoch, retraction.event.number), each.change


def explanation(hosted: Hosted, decision: str) -> dict[str, Any]:
    """Return why a decision was taken, in words and numbers; an old one is rebuilt. Needs no turn."""
    located = hosted.records.asked(int(decision[1:]))
    if located is None:
        raise hosted.no_decision(decision)
    decided, problem = entry(hosted.controller, hosted.records, located)
    settings = hosted.ledger.settings
    found = decided.explain(shown_problem(problem, settings), maximise=settings.maximise)
    taken = decided.decision
    columns = {
        "bounds": found.bounds,
        "expected": found.expected,
        "mean": found.mean,
        "std": found.std,
        "probabilities": found.probabilities,
        "movement": found.movement,
    }
    data: dict[str, Any] = {
        name: None if column is None else [finite(number) for number in column.tolist()]
        for name, column in columns.items()
    }
    data |= {
        "action": taken.action,
        "value": plain_value(taken.value),
        "wanted": taken.wanted,
        "wanted_value": plain_value(taken.wanted_value),
        "limited_by": taken.limited_by,
        "before": decided.before,
        "before_value": plain_value(problem.value(decided.before)),
        "expected_cost": finite(taken.expected_cost),
        "movement_cost": taken.movement,
        "request": decided.request.describe(),
        "values": [plain_value(problem.value(action)) for action in range(problem.n)],
    }
    return {"decision": decision, "words": found.words, "data": data}


def config(hosted: Hosted, *, with_history: bool) -> dict[str, Any]:
    """Return the settings in force as people write them, with the measurements that it started from if wanted."""
    found = configuration.in_words(hosted.view.settings, hosted.controller.session.policy.problem)
    measured = hosted.records.history() if with_history else None
    if measured is not None:
        first = epochs.recorded_problem(hosted.records.path(1))
        names = [plain_value(first.value(action)) for action in range(first.n)]
        measured = [[names[action], context, y] for action, context, y in measured]
    return found | {"history": measured}


def field_contexts(hosted: Hosted) -> list[list[float]]:
    """Return the contexts that came up lately, few enough to look at, in order."""
    asked = [located.event.body.request.context for located in hosted.records.newest_asks(FIELD_ROUNDS)]
    vectors = [check_context(context, None) for context in asked]
    if not vectors:
        return []
    alike = np.array([vector for vector in vectors if len(vector) == len(vectors[-1])])
    distinct = np.unique(alike, axis=0) if alike.size else alike[:1]
    if len(distinct) > FIELD_CONTEXTS:
        distinct = distinct[np.linspace(0, len(distinct) - 1, FIELD_CONTEXTS).round().astype(int)]
    return [list(vector) for vector in distinct.tolist()]


def cost_field(model: CostModel, contexts: list[list[float]], values: list[Any]) -> dict[str, Any]:
    """Return the learned cost of every action in these contexts."""
    try:
        found = [model.estimate(context) for context in contexts]
    except HoldcourseError:  # nothing is learned, or about other contexts
        found, contexts = [], []
    deviations = [estimate.std for estimate in found]
    known = [std.tolist() for std in deviations if std is not None]
    return {
        "contexts": contexts,
        "mean": [estimate.expected.tolist() for estimate in found],
        "std": known if len(known) == len(found) else None,
        "values": values,
    }


def is_long_to_verify(paths: Sequence[Location], full: bool | None) -> bool:
    """Return whether so much would be read or decided again that it is done beside the service, as a job."""
    effort = 0.0
    with suppress(HoldcourseError):  # a damaged record is soon found out
        effort = sum(_extent(path).effort for path in paths)
    return effort > (AT_ONCE_DECIDED if _decides(full, effort) else AT_ONCE_READ)


def missing(store: Store, name: str) -> dict[str, Any] | None:
    """Return the verdict on records of which the newest, or all, have been taken away; None if they are there."""
    try:
        store.check_newest(name)
    except HoldcourseError as error:
        return _verdict(False, 0, [], str(error))
    return None


def verified(
    paths: Sequence[Location], full: bool | None, tell: Callable[[float, str], None] = lambda share, words: None
) -> dict[str, Any]:
    """Check that the records, of a controller or of a fleet, are whole and continue each other; and decide again.

    That is done if it is wanted, or if they are short. `tell` is called with how much is done, and what is being done.
    """
    events, decisions, chain = 0, 0, EpochChain()
    try:
        for number, path in enumerate(paths):
            tell(HASHED * number / len(paths), f"reading {path.name}")
            log = Log.read(path)
            log.close()
            chain.add(log)
            events += log.last
        extents = [_extent(path) for path in paths]
        if not _decides(full, sum(each.effort for each in extents)):
            words = (
                f"every event is as it was written; its {sum(each.length for each in extents)} {extents[0].of} were "
                "not repeated (full=true repeats them)"
            )
            return _verdict(True, events, paths, words)
        for number, path in enumerate(paths):

            def decided(done: int, total: int, number: int = number, name: str = path.name) -> None:
                share = (number + done / max(total, 1)) / len(paths)
                tell(HASHED + (1 - HASHED) * share, f"deciding {name} again, event {done:,} of {total:,}")

            found = audit.verify(path, progress=decided)
            decisions += found.decisions
            if not found.verified:
                return _verdict(False, events, paths, f"{path.name}: {'; '.join(found.differences[:3])}")
    except HoldcourseError as error:
        return _verdict(False, events, paths, str(error))
    come = "its decision comes" if decisions == 1 else f"all {decisions:,} decisions come"
    same = f"{come} out the same when repeated" if decisions else "there is no decision to repeat yet"
    return _verdict(True, events, paths, f"every event is as it was written, and {same}")


def trial(store: Store, name: str) -> dict[str, Any] | None:
    """Return what the newest trial has measured, also after it was ended; None where none was made."""
    store.check_newest(name)
    paths = store.epochs(name)
    if not any(_on_trial(path) for path in paths):
        return None
    found = read_trial(*paths, checked=False)
    return to_data(found, answer(found.blocks, cycle=found.day))


def _on_trial(path: Location) -> bool:
    log = Log.read(path, checked=False)
    try:
        return log.about.recipe is not None and log.about.recipe["policy"] == "trial"
    finally:
        log.close()


def model_check(hosted: Hosted) -> dict[str, Any]:
    """Return what the model that is learned from all that was told is worth; see `check_model`. Needs no turn."""
    problem, settings = hosted.controller.session.policy.problem, hosted.view.settings
    told = epochs.told_so_far(hosted.store, hosted.id, problem)
    if not told:
        raise InvalidInput("nothing has been measured yet, so there is no model to check; that takes about 20 readings")
    with computing():
        found = check_model(
            shown_problem(problem, settings),
            History.from_triples(told[-CHECKED_READINGS:]),
            context_names=settings.context_names,
        )
    values = found.as_values()
    wrong = set(found.wrong.tolist())
    last = len(found.fold) - 1
    drawn = np.linspace(0, last, DRAWN_READINGS).astype(int).tolist() if found.enough else []
    points = sorted({*drawn, *wrong})
    return {
        "enough": found.enough,
        "words": list(found.words),
        "readings": len(found.history),
        "left_out": max(len(told) - CHECKED_READINGS, 0),
        "explained": values["explained"],
        "error": values["error"],
        "coverage": values["coverage"],
        "points": [
            {name: finite(float(column[k])) for name, column in _drawn(found).items()} | {"wrong": k in wrong}
            for k in points
        ],
    }


def _drawn(found: ModelCheck) -> dict[str, Any]:
    return {"measured": found.measured, "predicted": found.predicted, "low": found.low, "high": found.high}


class _Extent(NamedTuple):
    """How long a record is: its decisions, or calls of a fleet; and how many decisions of a controller take as long."""

    length: int
    of: str
    effort: float


def _decides(full: bool | None, effort: float) -> bool:
    """Whether decisions are repeated: if that is wanted or, where nothing was said, if there are few."""
    return full is True or (full is None and effort <= DECIDED_AGAIN)


def _extent(path: Location) -> _Extent:
    """Return how long a record is, without reading it: rounds and calls are numbered without a gap."""
    log = Log.read(path, checked=False)
    try:
        members = log.about.identity.members
        if members is None:
            first, last = rounds_of(log)
            return _Extent(last - first + 1, "decisions", last - first + 1)
        calls = _calls(log)
        return _Extent(calls, "calls", members.count * (calls + 1) / TOGETHER)  # the members are made first
    finally:
        log.close()


def _calls(log: Log) -> int:
    """How many calls a fleet's record holds: the newest stands among its last events, unless many told one by one."""
    newest, looked = 0, FIRST_LOOK
    while True:
        for event in log.events(after=max(log.last - looked, 0)):
            if isinstance(event.body, FleetAsk):
                newest = event.body.call + 1
        if newest or looked >= log.last:
            return newest
        looked *= 2


def _verdict(ok: bool, events: int, paths: Sequence[Location], message: str) -> dict[str, Any]:
    there = {number_of(path) for path in paths}
    archived = [number for number in range(1, max(there, default=1)) if number not in there]
    if ok and archived:
        message += f"; {numbered(archived)} archived and {'was' if len(archived) == 1 else 'were'} not checked"
    return {"ok": ok, "events": events, "epochs": len(paths), "message": message}
