"""Records that continue each other: the first one of a controller, and a new one whenever its problem changes.

A record is written under another name and gets its own when it is whole, so a crash leaves the old state or the new.
The problem, the limits and the policy that it begins with are made in `configuration`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdcourse import archive
from holdcourse.deciding import recipe
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Evidence, PolicyFile
from holdcourse.deciding.rules import Turn
from holdcourse.deciding.trial import BASELINE, POLICY, without_trial
from holdcourse.errors import InvalidInput, counted
from holdcourse.learning.history import History, best_measured
from holdcourse.movement.problem import Problem
from holdcourse.running.decision import Order
from holdcourse.running.estimates import alternative, history_off
from holdcourse.running.events import (
    AlarmWindow,
    Ask,
    Author,
    Carried,
    Cause,
    ControllerCreated,
    EpochBegun,
    Learn,
    Note,
    PendingDecision,
    Retract,
    Settings,
    Tell,
)
from holdcourse.running.log import Log
from holdcourse.running.operation import Operation
from holdcourse.running.session import Origin, recorded_also
from holdcourse.running.storage import Location
from holdcourse.running.witness import Witness
from holdcourse.service.core import configuration
from holdcourse.service.core.ledger import Ledger
from holdcourse.service.core.store import Store

EPOCH_SETTINGS = (  # a change of these begins a new epoch
    *configuration.PROBLEM_SETTINGS,
    "policy",
    "options",
    "limits",
    "guard",
    "max_pending",
    "trial",
)


def begin(
    store: Store,
    settings: Settings,
    history: list[configuration.Measured] | None,
    author: Author | None = None,
    file: PolicyFile | None = None,
    unfinished: Path | None = None,
) -> None:
    """Write the first record of a controller; `author` is who wants it, `file` what its policy comes from.

    With `unfinished` it is written there and gets no name: the server gives it one, see `DataFolder.publish`.
    """
    problem = configuration.problem_of(settings)
    for action in (settings.start, settings.fallback):
        if action is not None:
            problem.check_action(action)
    past = _past(history or [])
    if file is None:
        policy = configuration.policy_of(settings, problem, past)
    else:
        configuration.require_room(settings)
        policy = file.policy()
    policy = configuration.on_trial(policy, settings, past)
    note = ControllerCreated(
        config=settings,
        history=history,
        start=settings.start,
        home=settings.start,
        fixed=None if past is None else best_measured(past, problem, maximise=settings.maximise),
        explanation=policy.explanation,
        history_off=None if past is None else history_off(policy.costs, past),
        extra=_cause(author),
    )
    _write(store, settings, policy, [note], Origin(), settings.start, unfinished)


def begin_next(
    store: Store,
    ledger: Ledger,
    controller: Operation,
    changes: Mapping[str, Any],
    notes: Sequence[Note | Retract],
    author: Author | None = None,
    reason: str = "",
) -> None:
    """Write the record of a new epoch, which knows all that was told before; `notes` stand at its beginning.

    `changes` are as `configuration.with_indices` gave them. What they take back, or was taken back before, it does not
    know.
    """
    settings = configuration.merged(ledger.settings, changes)
    _check_file(ledger.settings, settings)
    _check_meaning(store, ledger, settings)
    old, new = controller.session.policy.problem, configuration.problem_of(settings)
    places = nearest_actions(old, new)
    settings = _renamed(settings, changes, places)
    start = places[ledger.place]
    _check_step(settings, old, new, ledger.place, start)
    if settings.fallback is not None:
        new.check_action(settings.fallback)
    taken_back = {note.id for note in notes if isinstance(note, Retract)}
    carried = ledger.carried()
    if taken_back:
        again = _folded(store, settings.id, taken_back)
        carried = replace(carried, sums=again.sums, watched=again.watched)
    if settings.file is None:
        past = _past(told_so_far(store, settings.id, new, taken_back, Listener(settings, POLICY)))
        policy = configuration.policy_of(settings, new, past)
    else:
        policy = replace(_learned_again(store, settings, taken_back), explanation=ledger.explanation)
    policy = configuration.on_trial(policy, settings, _past_of_baseline(store, settings, new, taken_back))
    note = EpochBegun(
        config=settings,
        start=start,
        home=places[ledger.home],
        fixed=None if ledger.fixed is None else places[ledger.fixed],
        carried=_carried(carried, places, new),
        explanation=policy.explanation,
        reason=reason,
        extra=_cause(author),
    )
    forebears = None if controller.allowed.all() else nearest_actions(new, old)
    origin = controller.origin_of_next(places, forebears, start)
    controller.log.check_writable()  # fitting may have taken long
    _write(store, settings, policy, [note, *notes], origin, start)


def _check_file(before: Settings, after: Settings) -> None:
    """Raise where a change is about what the policy's file says."""
    if before.file is None:
        return
    said = (*configuration.PROBLEM_SETTINGS, "policy", "options")
    wrong = [name for name in said if getattr(before, name) != getattr(after, name)]
    if wrong:
        raise InvalidInput(
            f"the policy of {before.id} came from a file, which has its own {min(wrong)}; limits, guard and "
            "max_pending can be changed. For another policy, save one and create another controller from it"
        )


def _check_meaning(store: Store, ledger: Ledger, after: Settings) -> None:
    """Raise where measurements would turn from costs to gains, or back: sums and models have them as they were told."""
    before = ledger.settings
    if after.maximise == before.maximise:
        return
    count = len(told_so_far(store, before.id, configuration.problem_of(before))) or ledger.sums.told
    if count:
        was, now = ("gains", "costs") if before.maximise else ("costs", "gains")
        wanted, where = str(after.maximise).lower(), f"GET /controllers/{before.id}/rounds.csv"
        where += f" and /controllers/{before.id}/config?history=true have" if before.history_count else " has"
        raise InvalidInput(
            f"{before.id} has {counted(count, 'measurement')} that counted as {was} so far, so options.maximise cannot "
            f"become {wanted}: they would all be learned as {now}. Create another controller with options.maximise "
            f"{wanted} and, as its history, those measurements that are {now}; {where} them"
        )


def _past_of_baseline(
    store: Store, settings: Settings, problem: Problem, taken_back: Collection[str]
) -> History | None:
    """Return what the baseline of a trial begins with, where it is a policy, which may learn."""
    if settings.trial is None or settings.trial.baseline_policy is None:
        return None
    return _past(told_so_far(store, settings.id, problem, taken_back, Listener(settings, BASELINE)))


def _learned_again(store: Store, settings: Settings, taken_back: Collection[str]) -> Policy:
    """Return the policy of a file as the oldest epoch that is there began with it, and all that it heard since."""
    gone = _taken_back(store, settings.id) | set(taken_back)
    oldest = store.epochs(settings.id)[0]
    log = Log.read(oldest, checked=False)
    try:
        _, arrays = archive.unpack(log.newest_snapshot(at_most=0)[1], f"the first snapshot in {oldest.name}")
        policy = recorded_policy(log)
    finally:
        log.close()
    policy.costs.restore(archive.under("pilot.model.", arrays))
    policy = without_trial(policy)
    for _, told in _heard(_told_in_epochs(store, settings.id, gone), Listener(settings, POLICY)):
        policy.costs.learn(told.action, told.context, told.measurement)
    policy.costs.new_episode()  # what waits for the end of an episode is let in: here it ends
    return policy


def _carried(carried: Carried, places: list[int], problem: Problem) -> Carried:
    """Return what an epoch goes on with, in the numbers of the new actions."""
    held, sent, fresh = carried.override, carried.fallback, carried.fresh_episode
    return replace(
        carried,
        override=None if held is None else replace(held, action=places[held.action]),
        fallback=_moved_order(sent, places),
        pending={name: _moved(asked, places, problem) for name, asked in carried.pending.items()},
        fresh_episode=None if fresh is None else places[fresh],
        proposed_place=places[carried.proposed_place],
        watched=_moved_suspect(carried.watched, places),
    )


def _moved_order(sent: Order | None, places: list[int]) -> Order | None:
    if sent is None:
        return None
    wanted = None if sent.wanted is None else places[sent.wanted]
    return replace(sent, wanted=wanted, action=places[sent.action])


def _moved_suspect(watched: AlarmWindow, places: list[int]) -> AlarmWindow:
    suspect = watched.suspect
    return watched if suspect is None else replace(watched, suspect=replace(suspect, action=places[suspect.action]))


def _write(
    store: Store,
    settings: Settings,
    policy: Policy,
    notes: Sequence[Note | Retract],
    origin: Origin,
    start: int,
    unnamed: Path | None = None,
) -> None:
    recipe.describe(policy)  # raises where the record could not be opened again
    unfinished, final = store.next_epoch(settings.id) if unnamed is None else (unnamed, None)
    controller = Operation.begin(
        policy,
        start,
        settings.seed,
        unfinished,
        limits=configuration.limits_of(settings),
        guard=settings.guard,
        max_pending=settings.max_pending,
        origin=origin,
    )
    try:
        controller.log.index()
        controller.log.extend(notes)  # none of them changes the session: what they take back it never knew
    finally:
        controller.close()
    if final is not None:
        store.publish(unfinished, final)


def _cause(author: Author | None) -> Cause | None:
    return None if author is None else Cause(by=author)


def _check_step(settings: Settings, old: Problem, new: Problem, place: int, there: int) -> None:
    """Raise unless the new action that stands for the machine's present one lies within `max_step` of it."""
    longest = configuration.limits_of(settings).longest(new)
    if longest.is_any or not isinstance(settings.metric, str) or (old.actions[place] == new.actions[there]).all():
        return
    points = [old.actions[place].tolist(), new.actions[there].tolist()]
    away = configuration.problem_of(replace(settings, actions=points, labels=None, directed=False)).distance(0, 1)
    near = longest.between(old.actions[place], new.actions[there])
    if not near or (longest.cost is not None and away > longest.cost):
        raise InvalidInput(
            f"the machine is at {old.named(place)}, and the nearest of the new settings, {new.named(there)}, costs "
            f"{away:g} to reach, more than max_step ({longest}). Keep its present setting among the new ones, "
            "move it nearer first with an override, or raise max_step in the same change"
        )


def _renamed(settings: Settings, changes: Mapping[str, Any], places: list[int]) -> Settings:
    """Return the settings with the actions in them under their new numbers; those just given are new ones already."""
    guard, fallback, action = settings.guard, settings.fallback, settings.kept_action
    if guard is not None and "guard" not in changes:
        guard = replace(guard, revert_to_index=places[guard.safe_action])
    if fallback is not None and "fallback" not in changes:
        fallback = places[fallback]
    if action is not None and "setting_index" not in changes.get("options", {}):
        settings = settings.with_kept_action(places[action])
    if settings.baseline is not None and "baseline_index" not in changes.get("options", {}):
        settings = settings.with_baseline(places[settings.baseline])
    terms = settings.trial
    if terms is not None and terms.baseline_index is not None and "trial" not in changes:
        settings = replace(settings, trial=replace(terms, baseline_index=places[terms.baseline_index]))
    return replace(settings, guard=guard, fallback=fallback)


def recorded_policy(log: Log) -> Policy:
    """Make the policy that wrote a record."""
    assert log.about.recipe is not None  # else the record would not have been begun
    policy, said = recipe.make(log.about.recipe), log.about.evidence
    evidence = None if said is None else Evidence.from_data(said, log.path.name)
    return replace(policy, name=log.about.identity.policy_name, evidence=evidence)


def reopened(path: Location, witness: Witness | None = None) -> Operation:
    """Open a controller as its record describes it."""
    log = Log.read(path, checked=False)
    try:
        identity, policy = log.about.identity, recorded_policy(log)
    finally:
        log.close()
    return Operation.begin(
        policy,
        identity.start,
        identity.seed,
        path,
        limits=identity.limits,
        guard=identity.guard,
        max_pending=identity.max_pending,
        witness=witness,
    )


def _past(measured: list[configuration.Measured]) -> History | None:
    return History.from_triples(measured) if measured else None


def nearest_actions(old: Problem, new: Problem) -> list[int]:
    """Find for each old action the new one of the same label, or else the nearest."""
    if old.actions.shape[1] != new.actions.shape[1]:
        raise InvalidInput(
            f"the actions had {old.actions.shape[1]} coordinates and now have {new.actions.shape[1]}; what was learned "
            "cannot be carried over. Create another controller"
        )
    labels = {label: k for k, label in enumerate(new.labels or ())}
    places = []
    actions = _in_places_of(old, new)
    for k in range(old.n):
        away = np.linalg.norm((new.actions - actions[k]) * new.scale, axis=1)
        label = None if old.labels is None else old.labels[k]
        places.append(labels.get(label, int(np.argmin(away))))
    return places


def _in_places_of(old: Problem, new: Problem) -> NDArray[np.float64]:
    """The old actions as coordinates of the new ones, (n, d): names are where these have them, or far from all."""
    actions = old.actions.copy()
    for axis, (before, after) in enumerate(zip(old.knobs or (), new.knobs or (), strict=False)):
        if before.is_named:
            places = [after.place(name) for name in before.values]
            far = len(after.values) + 1.0
            actions[:, axis] = [far if (place := places[int(k)]) is None else place for k in actions[:, axis]]
    return actions


def recorded_problem(path: Location) -> Problem:
    """Make the problem of an epoch."""
    log = Log.read(path, checked=False)
    try:
        return configuration.problem_of(_beginning(log).config)
    finally:
        log.close()


class Listener(NamedTuple):
    """An arm in the next epoch of a controller, which will have these settings."""

    settings: Settings
    arm: int

    def hears(self, turn: Turn | None) -> bool:
        """Whether it learns from a round of its trial."""
        return turn is None or turn.heard or turn.arm == self.arm


def told_so_far(
    store: Store,
    controller: str,
    problem: Problem,
    taken_back: Collection[str] = (),
    listener: Listener | None = None,
) -> list[configuration.Measured]:
    """Return the history and tells of all epochs, oldest first, about the actions of `problem`.

    Without what was taken back, without what was measured in the rounds of `taken_back`, and without what `listener`,
    where there is one, may not hear while its trial goes on.
    """
    gone = _taken_back(store, controller) | set(taken_back)
    epochs = _told_in_epochs(store, controller, gone)
    places = [nearest_actions(configuration.problem_of(epoch.config), problem) for epoch in epochs]
    return [(places[k][told.action], told.context, told.measurement) for k, told in _heard(epochs, listener)]


class _Told(NamedTuple):
    """A measurement, and whose turn it was in its round; None: it is for all."""

    action: int
    context: Any
    measurement: float
    turn: Turn | None = None


class _Epoch(NamedTuple):
    """What was told in an epoch, and the history that it began with; `ended`: its trial had all of its blocks."""

    config: Settings
    told: list[_Told]
    ended: bool


def _told_in_epochs(store: Store, controller: str, taken_back: Collection[str]) -> list[_Epoch]:
    """Return what was told in each epoch, oldest first."""
    found: list[_Epoch] = []
    for path in store.epochs(controller):
        log = Log.read(path, checked=False)
        try:
            first = _beginning(log)
            past = (first.history or []) if isinstance(first, ControllerCreated) else []
            told, over = _told(log, taken_back)
        finally:
            log.close()
        found.append(_Epoch(first.config, [*(_Told(*measured) for measured in past), *told], over))
    return found


def _heard(epochs: Sequence[_Epoch], listener: Listener | None) -> Iterator[tuple[int, _Told]]:
    """Yield what was told and may be heard, with the place of its epoch, oldest first.

    In epochs before the trial that goes on, everything may: there the arms were others.
    """
    first = len(epochs)
    while listener is not None and first and not epochs[first - 1].ended:
        if not is_same_trial(epochs[first - 1].config, listener.settings):
            break
        first -= 1
    for k, epoch in enumerate(epochs):
        yield from ((k, told) for told in epoch.told if k < first or listener is None or listener.hears(told.turn))


def is_same_trial(before: Settings, after: Settings) -> bool:
    """Whether a trial goes on from one epoch to the next: with the same arms, blocks and settings."""
    names = ("trial", "policy", "options", "actions")
    return (
        after.trial is not None
        and all(getattr(before, name) == getattr(after, name) for name in names)
        and configuration.action_count(before.actions, before.metric)
        == configuration.action_count(after.actions, after.metric)
    )


def trial_goes_on(paths: Sequence[Location]) -> bool:
    """Whether one trial goes on through these epochs, which follow each other, and had not all of its blocks before."""
    configs, ended = [], []
    for path in paths:
        log = Log.read(path, checked=False)
        try:
            configs.append(_beginning(log).config)
            newest = log.find("round", 0, 2**62, newest=True)
            ended.append(any(asked.body.turn is None for asked in newest))
        finally:
            log.close()
    return not any(ended[:-1]) and all(is_same_trial(before, configs[-1]) for before in configs)


def _beginning(log: Log) -> ControllerCreated | EpochBegun:
    """Return the note with which every epoch begins."""
    first = next(log.events()).body
    assert isinstance(first, ControllerCreated | EpochBegun)
    return first


def _taken_back(store: Store, controller: str) -> set[str]:
    """Decisions whose measurement was taken back, in whichever epoch that was said."""
    found: set[str] = set()
    for path in store.epochs(controller):
        log = Log.read(path, checked=False)
        try:
            found.update(event.body.id for event in log.retractions())
        finally:
            log.close()
    return found


def _folded(store: Store, controller: str, taken_back: Collection[str]) -> Ledger:
    """The ledger after all epochs, whose sums are without what was taken back in them all.

    From the first such measurement on, the models that said what the alternatives would have cost had learned it: of
    those rounds only alternatives that really ran are known.
    """
    ledger, gone, misled = Ledger(), _taken_back(store, controller).union(taken_back), False
    for path in store.epochs(controller):
        log = Log.read(path, checked=False)
        try:
            for event in log.events():
                body, sums, watched = event.body, ledger.sums, ledger.watched
                if isinstance(body, EpochBegun) and watched.suspect is not None:
                    then, now = map(configuration.problem_of, (ledger.settings, body.config))
                    watched = _moved_suspect(watched, nearest_actions(then, now))
                if isinstance(body, Tell | Learn) and body.id in gone:
                    body, misled = replace(body, measurement=None), True
                if isinstance(body, Tell | Learn) and misled:
                    body = _without_alternatives(ledger, body, gone)
                ledger.take_in(replace(event, body=body))
                if isinstance(body, Retract) or (isinstance(body, EpochBegun) and sums.asks):  # they say the old ones
                    ledger.sums, ledger.watched = sums, watched
        finally:
            log.close()
    return ledger


def _without_alternatives(ledger: Ledger, body: Tell | Learn, gone: Collection[str]) -> Tell | Learn:
    """What was told, with only those alternatives booked that really ran."""
    assert body.extra is not None  # the service writes it with every tell
    service = None if body.measurement is None else body.extra.service
    reweighed = tuple(each for each in body.extra.reweighed if each.decision not in gone)
    proposed = ledger.pending[body.id].proposed
    staying, fixed, proposal = (
        alternative(None, service, body.extra.taken, action) if body.extra.taken == action else None
        for action in (ledger.home, ledger.fixed, proposed)
    )
    booked = replace(
        body.extra,
        service=service,
        estimated_staying=staying,
        estimated_fixed=fixed,
        estimated_proposal=proposal,
        reweighed=reweighed,
    )
    return replace(body, extra=booked)


def _told(log: Log, taken_back: Collection[str]) -> tuple[list[_Told], bool]:
    """Return what was told in a record and not taken back, and whether its newest question was nobody's turn."""
    asked: dict[str, Ask] = {}
    told: list[_Told] = []
    over = False
    for event in log.events(after=1):
        body = event.body
        if isinstance(body, Ask):
            asked[body.id], over = body, body.turn is None
        elif isinstance(body, Tell | Learn) and body.id not in taken_back:
            assert body.extra is not None  # the service writes it with every tell
            if isinstance(body, Learn):
                context, turn = body.context, body.turn
            else:
                ask = asked.pop(body.id)
                context, turn = ask.request.context, ask.turn
            if body.measurement is not None:
                told.append(_Told(body.extra.taken, context, body.measurement, turn))
            # What else was measured does not depend on whose turn it is: both arms know it.
            told += [_Told(action, context, y) for action, y in recorded_also(body)]
    return told, over


def _moved(asked: PendingDecision, places: list[int], problem: Problem) -> PendingDecision:
    """Return a pending decision in the numbers of the new actions; it was asked in an earlier epoch."""
    here = places[asked.action]
    return replace(
        asked,
        action=here,
        before=places[asked.before],
        proposed_before=places[asked.proposed_before],
        proposed=places[asked.proposed],
        value=problem.value(here),
        fallback=_moved_order(asked.fallback, places),
        earlier=True,
    )
