"""What a record of decisions proves, and what another policy would have done with it.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdcourse import archive
from holdcourse.deciding import recipe, registry
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Trust
from holdcourse.deciding.promise import Promised
from holdcourse.deciding.rules import Choice
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import CostModel, maximises
from holdcourse.movement.offline import PricedPath, optimal_path, price_path
from holdcourse.movement.problem import Problem
from holdcourse.running.decision import Entry, Request
from holdcourse.running.events import Ask, Episode, Event, Learn, RecordAccepted, Redirect, Snapshot, Tell
from holdcourse.running.identity import differences, in_words
from holdcourse.running.log import Log
from holdcourse.running.offpolicy import DoublyRobust, doubly_robust, refused, too_little_overlap
from holdcourse.running.retraction import relived
from holdcourse.running.session import LAST_DIGITS, Difference, Session, recorded_also
from holdcourse.running.storage import Location, located
from holdcourse.running.witness import contradictions as contradictions_of
from holdcourse.running.witness import read_key
from holdcourse.threads import one_thread, versions
from holdcourse.worlds.simulation import Question, run_rounds

TOLD_EVERY = 16  # events, of how far a verification is
FOLDS, FAR_AWAY = 5, 50  # blocks of rounds predicted from the others, and rounds between the two
MOST_LIMITED = 0.2  # share of rounds in which something else than the draw may have run
# What to do with a record that does not hold its policy.
VERIFIED = "make it there as it was made for the record, and check: holdcourse.running.audit.verify(path, policy)"
REPLAYED = (
    "replay is for the policies that a record can hold; holdcourse.running.audit.verify(path, policy) checks this one"
)


@dataclass(frozen=True)
class Verification:
    """What came of deciding every recorded round again.

    Attributes
    ----------
    decisions, tells, retractions
        How many the record holds.
    differences
        What came out differently; empty where every decision is the same, to the last digit.
    last_digits
        What differs in its last digits only, as it does on another processor; the decisions are the same.
    versions
        Parts that are not those that wrote the record: name, then, now. They explain differences.
    events, head
        Length of the record, and the hash of its last event: written down elsewhere, they show later whether the record
        was shortened or written again.
    missing
        What is known to be missing at its end, in words; empty where nothing is.
    statements, witnessed
        How many statements of the witness were compared, and up to which event they reach; None where there was none.
    accepted
        Where the record was taken as it was although events were missing, and why.
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
        """Whether nothing is missing and every decision comes out the same; last digits may differ."""
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
    """Decide every recorded round again, from the beginning, and compare to the last bit.

    Parameters
    ----------
    path
        The record. It may be in use, and may lie where nothing can be written.
    policy
        Needed only where the record cannot make it by itself (a prior mean that is a function, say).
    witness, key
        File with what a `Witness` was told, and the file of its key: is this the record that it saw?
    trust
        Import paths of code that is not ours and may be run to make the policy that the record names, such as
        ``"mine.py:mine"``; as in `load_policy`.
    progress
        Called with how many events were lived through again, and how many there are.
    """
    if (witness is None) != (key is None):
        raise InvalidInput("witness and key go together: the file of what was said, and the file of the key")
    lines = None if witness is None else _lines(Path(witness))  # before the record: it may go on meanwhile
    log = Log.read(located(path), incomplete=True)
    try:
        log.check_snapshots()
        found, counts = _lived_again(log, _recorded_policy(log, trust) if policy is None else policy, progress)
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
    """Take a record whose newest events are missing as it is; returns how many events it holds.

    The record says from then on that something is missing and why that was accepted. Nothing else can bring a
    controller to go on with such a record, since it would decide rounds again that a machine may have run.
    """
    if not reason.strip():
        raise InvalidInput("say why the record is taken as it is; the reason becomes a part of it")
    return Log.accept(located(path), reason)


def backup(path: str | Location, target: str | Path) -> int:
    """Write a whole copy of a record in one file, while a controller goes on writing to it; returns how many events.

    The copy is read back and its hashes are compared before this returns.
    """
    log = Log.read(located(path), checked=False)
    try:
        log.backup(Path(target))
    finally:
        log.close()
    copy = Log.read(Path(target))
    copy.close()
    return copy.last


@one_thread()
def _lived_again(
    log: Log, policy: Policy, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Difference], Counter[str]]:
    found, counts = list[Difference](), Counter[str]()
    for event, session, changed in relived(log, _from_beginning(log, policy), 0):
        body = event.body
        found += changed
        counts[event.kind] += 1
        if progress is not None and event.number % TOLD_EVERY == 0:
            progress(event.number, log.last)
        if isinstance(body, Snapshot) and body.sha256 != archive.fingerprint(*session.snapshot()):
            words = f"the snapshot after event {body.follows} does not hold the state that the events before it give"
            found.append(Difference(words, decisive=not _nearly_kept(log, body.follows, session)))
    return found, counts


def _nearly_kept(log: Log, number: int, session: Session) -> bool:
    """Whether the snapshot after an event, if it is still there, differs from a session in last digits only."""
    kept, content = log.newest_snapshot(at_most=number)
    if kept != number:  # it was let go: then only another processor or library can explain the difference
        return any(_other_versions(log))
    state, arrays = archive.unpack(content, f"a snapshot in {log.path}")
    present, own = session.snapshot()
    plain = ("identity", "round", "episode", "where", "cool_until")
    return (
        all(state[name] == json.loads(json.dumps(present[name])) for name in plain)
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
            yield f"at event {event.number}, {event.at}, the record was taken as it was: {event.body.reason}"


def _lines(said: Path) -> list[str]:
    try:
        return said.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read what the witness was told, {said}: {error}") from None


@one_thread()
def rebuilt(log: Log, policy: Policy, asked: Event[Ask]) -> Entry:
    """A decision with all that explains it, by living again through the record from the last snapshot before it."""
    session = Session.of_identity(policy, log.about.identity)
    position, content = log.newest_snapshot(at_most=asked.number - 1)
    session.restore(*archive.unpack(content, f"a snapshot in {log.path}"))
    lived = relived(log, session, position)
    entry = next(after.entry(asked.body.id) for event, after, _ in lived if event.number == asked.number)
    told = next((event.body for event in log.find("decision", asked.body.id, newest=True)), None)
    if not isinstance(told, Tell):
        return entry
    return entry.with_tell(told.measurement, told.applied, None, recorded_also(told), told.reference)


@dataclass(frozen=True)
class Replay:
    """What another policy would have done in the recorded contexts, and what that would have cost: two kinds of number.

    Attributes
    ----------
    rounds
        How many were replayed: the recorded ones up to the first new episode, if there is one.
    recorded, other, optimum
        Bills by the record's own model: of the actions that were really taken, of the other policy, and of perfect
        foresight. The movement in them is exact for these paths; their service is the model's opinion.
    measured
        Sum of the measurements told, and how many; without those taken back.
    doubly_robust
        The other policy's service cost per round from the draws of the recorded one, right however wrong the model is;
        or why the record cannot tell. See `holdcourse.running.offpolicy`.
    """

    rounds: int
    recorded: PricedPath
    other: PricedPath
    optimum: PricedPath
    measured: tuple[float, int]
    doubly_robust: DoublyRobust


@dataclass
class _Recorded:
    """What a record holds of one round, for judging another policy by it."""

    request: Request
    probabilities: NDArray[np.float64]
    drawn: int
    ran: int
    as_drawn: bool
    cost: float | None = None


@one_thread()
def replay(path: str | Location, maker: str, *, trust: Trust = ()) -> Replay:
    """What another policy would have done, by the model that the recorded policy ended with, and by its draws.

    `maker` is its name, such as "cgp-lcb"; `trust` is as in `verify`.

    The other policy gets the recorded contexts and masks, is told what the model expects at its own actions, and has
    the recorded policy's options as far as it takes them. The bills are an estimate by that model: the record knows
    only the costs of the actions that were taken. Where decisions were drawn at random (GP-MD, hedges), what was
    measured corrects the model: `Replay.doubly_robust`, with an interval, or with the reason why that is impossible.
    """
    log = Log.read(located(path))
    try:
        session = _from_beginning(log, _recorded_policy(log, trust, REPLAYED))
        first, unlearned = session.pilot.state, session.pilot.model.copy()
        retracted = {event.body.id: event.body.reason for event in log.retractions()}
        rounds: dict[str, _Recorded] = {}  # by the id of the decision
        measured: list[float] = []
        sign = -1.0 if maximises(session.pilot.model) else 1.0
        for event in log.events():
            body = event.body
            if isinstance(body, Episode) and rounds:
                break
            session.repeat(body, retracted)
            match body:
                case Episode():  # nothing was decided before it
                    first = session.pilot.state
                case Ask():
                    probabilities = session.entry(body.id).decision.probabilities
                    as_drawn = body.limited_by is None and body.order is None
                    rounds[body.id] = _Recorded(body.request, probabilities, body.action, body.meant, as_drawn)
                case Redirect():
                    rounds[f"r{body.round}"].ran = body.order.action
                case Tell():
                    told = rounds[body.id]
                    told.ran = told.ran if body.applied is None else body.applied
                    believed = session.entry(body.id).weight != 0
                    if body.measurement is not None and body.id not in retracted and believed:
                        told.cost = sign * body.measurement
            if isinstance(body, Tell | Learn) and body.measurement is not None and body.id not in retracted:
                measured.append(body.measurement)
        problem = session.policy.problem
        if not rounds:
            raise InvalidInput(f"{path} holds no decision yet; there is nothing to replay")
        requests = [each.request for each in rounds.values()]
        model = session.pilot.model
        try:
            expected = np.array([model.estimate(request.context, request.costs).expected for request in requests])
        except InvalidInput as error:  # one of a process in time
            raise InvalidInput(
                f"{path} cannot be replayed: the model of {session.policy.name} does not answer about rounds that have "
                f"passed ({error})"
            ) from None
        costs = np.where([request.mask(problem.n) for request in requests], expected, np.inf)
        other = Pilot(_other(log, maker), first.action, first.seed)
        # Estimates are costs; who measures gains is told gains.
        told_costs = -expected if maximises(other.model) else expected
        questions = (Question(request.context, request.mask(problem.n), request.forecast) for request in requests)
        world = _Estimated(problem, expected, told_costs)
        choices = [one.choice for one in run_rounds(other, world, questions, first.seed)]
        return Replay(
            len(requests),
            price_path([each.ran for each in rounds.values()], expected, problem, first.action),
            price_path([choice.action for choice in choices], expected, problem, first.action),
            optimal_path(costs, problem, first.action),
            (float(sum(measured)), len(measured)),
            _doubly_robust(list(rounds.values()), choices, unlearned, isinstance(session.pilot.rule, Promised)),
        )
    finally:
        log.close()


def _doubly_robust(
    rounds: list[_Recorded], choices: list[Choice], unlearned: CostModel, promised: bool
) -> DoublyRobust:
    """What the other policy's choices would have cost, by the rounds in which the recorded policy's draw ran."""
    limited = sum(not each.as_drawn or each.ran != each.drawn for each in rounds)
    used = [t for t, each in enumerate(rounds) if each.as_drawn and each.ran == each.drawn and each.cost is not None]
    chosen = [rounds[t] for t in used]
    measured = np.array([each.cost for each in chosen], dtype=np.float64)
    if promised or limited > MOST_LIMITED * len(rounds):
        why = "a promise against a baseline decided which draws were followed"
        if not promised:
            why = (
                f"in {limited} of {len(rounds)} rounds something else than the draw ran (limits, overrides, operators)"
            )
        return refused(measured, f"{why}, so the probabilities of what ran are not known. Run a trial of the two")
    taken = np.array([each.ran for each in chosen], dtype=np.int64)
    probable = np.array([each.probabilities for each in chosen])
    wanted = np.array([choices[t].probabilities for t in used])
    why_not = too_little_overlap(taken, probable, wanted) if used else "nothing was drawn and measured"
    if why_not is not None:
        return refused(measured, why_not)
    return doubly_robust(measured, taken, probable, wanted, _expected_from_afar(rounds, unlearned)[used])


def _expected_from_afar(rounds: list[_Recorded], unlearned: CostModel) -> NDArray[np.float64]:
    """What every action is expected to cost in each round by a model that has learned rounds far from it only, (T, n).

    What is drawn depends on what was measured shortly before; what the model says must not.
    """
    t, sign = len(rounds), -1.0 if maximises(unlearned) else 1.0
    gap, expected = min(FAR_AWAY, t // 20), []
    for block in np.array_split(np.arange(t), FOLDS):
        model = unlearned.copy()
        for each in (*rounds[: max(0, block[0] - gap)], *rounds[block[-1] + 1 + gap :]):
            if each.cost is not None:
                model.learn(each.ran, each.request.context, sign * each.cost)
        expected += [model.estimate(rounds[k].request.context, rounds[k].request.costs).expected for k in block]
    return np.array(expected)


@dataclass(frozen=True, eq=False)
class _Estimated:
    """The world as the record's own model believes it to be: its estimates, (T, n), are what costs and is measured."""

    problem: Problem
    expected: NDArray[np.float64]
    told: NDArray[np.float64]

    def costs(self, round: int, context: Any) -> NDArray[np.float64]:  # noqa: A002
        """Estimated cost of every action in a round."""
        costs: NDArray[np.float64] = self.expected[round]
        return costs

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The estimate itself, without noise: a cost, or a gain for who measures gains."""
        return float(self.told[round, action])


def _recorded_policy(log: Log, trust: Trust, remedy: str = VERIFIED) -> Policy:
    """The policy that the record says wrote it, before it had learned anything."""
    return recipe.make(_recipe(log, remedy), (trust,) if isinstance(trust, str) else tuple(trust))


def _from_beginning(log: Log, policy: Policy) -> Session:
    """The session as it was before the first event."""
    identity = log.about.identity
    if policy.fingerprint != identity.policy:
        ours = replace(identity, policy=policy.fingerprint)
        words = in_words(list(differences(identity, ours, policy, log.about.recipe)))
        raise InvalidInput(f"{log.path} was begun by another policy than the one given: {words}")
    session = Session.of_identity(policy, identity)
    session.restore(*archive.unpack(log.newest_snapshot(at_most=0)[1], f"the first snapshot in {log.path}"))
    return session


def _recipe(log: Log, remedy: str) -> dict[str, Any]:
    found = log.about.recipe
    if found is None:
        raise InvalidInput(f"{log.path} does not hold its policy ({log.about.recipe_missing}); {remedy}")
    return found


def _other(log: Log, maker: str) -> Policy:
    found = _recipe(log, REPLAYED)
    options = registry.entry_of(maker, "problem").options()
    taken = {name: value for name, value in found["options"].items() if name in options.names}
    missing = [name for name in options.required if name not in taken]
    if missing:
        needs = ", ".join(missing)
        raise InvalidInput(f"policy {maker!r} needs {needs}, which {log.path} does not say; replay another one")
    return recipe.make({**found, "policy": maker, "options": taken}, (maker,))  # named by the caller


def _other_versions(log: Log) -> Iterator[tuple[str, str, str]]:
    here = versions()
    for name, then in log.about.versions.items():
        if then != here.get(name):
            yield name, then, here.get(name, "none")
