"""What a controller carries from round to round, and the steps that change it; knows nothing of files.

Deciding changes nothing; accepting, learning and starting an episode do. The whole of it can be written down as JSON
and arrays, and lived through again from the events of a record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import Arrays, prefixed, under
from holdcourse.checks import checked_seed, whole_number
from holdcourse.deciding import recipe
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.promise import Budget, Promised
from holdcourse.deciding.rules import Choice, Turn, View
from holdcourse.errors import InvalidInput, NoActionLeft, shown
from holdcourse.learning.costs import doubted_by, maximises, tried_by
from holdcourse.learning.history import check_context
from holdcourse.learning.posteriors.protocol import Told
from holdcourse.movement.problem import Problem
from holdcourse.running.decision import Also, Decision, Entry, Order, Request
from holdcourse.running.events import (
    Ask,
    AskDetails,
    Body,
    Change,
    Episode,
    Identity,
    Learn,
    Previous,
    Redirect,
    Tell,
    digest,
    from_plain,
)
from holdcourse.running.limits import Guard, Limits, Mask, Position, nearest_permitted

LAST_DIGITS = 1e-6  # relative; costs that differ by no more than this were computed elsewhere, not otherwise
MOST_NAMED = 5  # decisions in a message
# What must come out the same when a recorded decision is taken again.
COMPARED = ("round", "request", "wanted", "action", "limited_by", "expected_cost", "probabilities", "order", "turn")
KEPT_ENTRIES = 64  # newest decisions that can be explained and compared without the log
# Of very many settings fewer are kept: of each decision five numbers for every setting.
KEPT_NUMBERS, FEWEST_KEPT = 25_000_000, 4


@dataclass(frozen=True)
class Origin:
    """Where a new record goes on from: the round and episode of an earlier one, and what to say of that.

    `where`, `cool_until` and `allowed`, its newest mask, are those of the earlier one in the actions of the new;
    without, limits and guard begin afresh and nothing is forbidden. `settled` is as in a `Session`.
    """

    round: int = 0
    episode: int = 0
    previous: Previous | None = None
    where: Position | None = None
    cool_until: int = 0
    allowed: tuple[int, ...] | None = None
    settled: int = 0


class Learned(NamedTuple):
    """What a model made of a measurement, as in `Entry`, and the earlier decisions of whose it makes something else.

    Of these, the entry before and the one from now on.
    """

    weight: float | None = None
    instead: float | None = None
    changed: tuple[tuple[Entry, Entry], ...] = ()


class Wish(NamedTuple):
    """What somebody wants the machine to do in a round in place of the decision.

    `action` None means that nobody moves it; `force` is the reason for going there whatever the limits say.
    """

    action: int | None
    force: str | None = None


@dataclass(frozen=True)
class Difference:
    """Something that came out differently when a recorded event was lived through again.

    `decisive` is False where only last digits differ, as they do with another processor or linear algebra.
    """

    words: str
    decisive: bool = True

    def __str__(self) -> str:
        return self.words


def _check_kinds(limits: Any, guard: Any) -> None:
    if limits is not None and not isinstance(limits, Limits):
        raise InvalidInput(f"limits must be made by Limits(...), got {shown(limits)}")
    if guard is not None and not isinstance(guard, Guard):
        raise InvalidInput(f"guard must be made by Guard(...), got {shown(guard)}")


class Session:
    """A pilot under limits: where the machine is, what was decided and what was told.

    Parameters are those of `Controller`; `start` is an index.
    """

    def __init__(
        self,
        policy: Policy,
        start: int = 0,
        seed: int = 0,
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
        origin: Origin | None = None,
    ) -> None:
        policy.problem.check_action(start)
        self.policy = policy
        self.policies = {policy.fingerprint: policy}  # those that it had, by fingerprint
        _check_kinds(limits, guard)
        self.limits = (limits or Limits()).on(policy.problem)
        self.guard = None if guard is None else guard.on(policy.problem, self.limits.round_length)
        self.max_pending = whole_number(max_pending, "max_pending", 1)
        self.seed, self.start = checked_seed(seed), int(start)
        self.origin = origin or Origin()
        self._begin()

    def _begin(self) -> None:
        self.pilot = Pilot(self.policy, self.start, self.seed)
        if self.origin.round:  # it goes on from an earlier record: its random numbers must be new ones
            self.pilot.state = self.pilot.rule.begin(self.start, self.seed, self.origin.round)
        self.round = self.origin.round
        self.episode = self.origin.episode
        self.where = self.origin.where or Position(((self.round - 1, self.start),))
        # Rounds before this one are spent at the guard's action.
        self.cool_until = 0 if self.guard is None else self.origin.cool_until
        self.settled = self.origin.settled  # rounds before this one are over, also where no entry says so
        self.mask: Mask = np.full(self.policy.problem.entries, self.origin.allowed is None)  # of the newest question
        self.mask[list(self.origin.allowed or ())] = True
        self.entries: dict[int, Entry] = {}  # by round: all pending ones and the newest others
        self.learned = Learned()  # of the newest measurement
        self.tried = tried_by(self.pilot.model)  # actions that were measured; None: nobody can say
        self._aside: frozenset[Told] | None = None  # what the model does not believe, when it was last looked at

    @classmethod
    def of_identity(cls, policy: Policy, identity: Identity) -> Session:
        """A session at its beginning, as `identity` described it."""
        if identity.members is not None:
            raise InvalidInput(
                f"this is the record of a fleet of {identity.members.count} members, not of a controller; continue it "
                "with hc.Fleet.resume(path), or check it with hc.audit.verify(path)"
            )
        return cls(
            policy,
            identity.start,
            identity.seed,
            limits=identity.limits,
            guard=identity.guard,
            max_pending=identity.max_pending,
        )

    @property
    def pending(self) -> list[Entry]:
        """Return the decisions that are not told yet, oldest first."""
        return [entry for entry in self.entries.values() if entry.told is None]

    @property
    def in_progress(self) -> bool:
        """Return whether the newest round is not over; one of an earlier record may be until somebody tells it."""
        entry = self.entries.get(self.round - 1)
        return self.settled < self.round if entry is None else entry.told is None

    def decide(self, request: Request, wish: Wish | None = None) -> tuple[Choice, Entry]:
        """What the next round's decision is; changes nothing. `wish`: what the machine shall do in its place."""
        problem, round_number = self.policy.problem, self.round
        mask = request.mask(problem.entries)
        estimate, view = self.pilot.look(request.context, mask, request.forecast, request.costs)
        unheeded = wish is not None and (wish.action is None or wish.force is not None)  # forced elsewhere, or watched
        choice = self._chosen(view, unheeded=unheeded)
        wanted, cooling = choice.action, self.guard is not None and round_number < self.cool_until
        if cooling and self.guard is not None:
            wanted = self.guard.safe_action
        try:
            action, limit = nearest_permitted(problem, self.limits, self.where, wanted, view.allowed, round_number)
        except NoActionLeft:
            if not unheeded:
                raise
            action, limit = self.where.action, "max_step"
        if cooling and limit is None and action != choice.action:
            limit = "cool_down"
        decision = Decision(
            id=f"r{round_number}",
            round=round_number,
            episode=self.episode,
            action=action,
            value=problem.value(action),
            probabilities=choice.probabilities,
            expected_cost=problem.read(estimate.expected, action),
            movement=problem.distance(self.where.action, action),
            wanted=choice.action,
            wanted_value=problem.value(choice.action),
            limited_by=limit,
            turn=choice.turn,
        )
        entry = Entry(
            request,
            decision,
            self.where.action,
            view.costs,
            estimate.expected,
            estimate.mean,
            estimate.std,
            said=choice.words,
            order=None if wish is None else self._order(wish, view.allowed),
            prospect=choice.prospect,
            restraint=choice.restraint,
            tried=self.tried,
        )
        return choice, entry

    def _chosen(self, view: View, *, unheeded: bool) -> Choice:
        """What the rule chooses; a rule that knows the longest step may find nothing within it, from where it is.

        Limits may have kept the machine elsewhere, from where something is. Where nobody heeds the decision, as of
        `unheeded`, the rule goes on from the nearest allowed action.
        """
        try:
            return self.pilot.decide(view)
        except NoActionLeft:
            here = self.where.action
            try:
                return self.pilot.decide(view, here)
            except NoActionLeft:
                if not unheeded:
                    raise
                return self.pilot.decide(view, self.policy.problem.nearest(here, view.allowed))

    def _order(self, wish: Wish, allowed: Mask, moves_in: int | None = None) -> Order:
        """What comes of a wish: only a forced one, or none to move at all, does not pass through the limits.

        `moves_in` is that of `nearest_permitted`.
        """
        if wish.action is None:
            return Order(None, self.where.action)
        if wish.force is not None:
            return Order(wish.action, wish.action, None, wish.force)
        problem = self.policy.problem
        found = nearest_permitted(problem, self.limits, self.where, wish.action, allowed, self.round, moves_in)
        return Order(wish.action, *found)

    def permitted(self, wanted: int, *, next_round: bool = False) -> Order:
        """Where the machine may go now if `wanted` is wanted: by the newest mask, and all limits from where it is.

        With `next_round`: where it might go if the next round began now.
        """
        here = self.where.action
        if not self.policy.problem.any_permitted(self.mask):  # the newest mask was about actions that are gone
            return Order(wanted, here, None if wanted == here else "allowed")
        try:
            within = self.round - 1 if self.in_progress and not next_round else None
            return self._order(Wish(wanted), self.mask, within)
        except NoActionLeft:
            return Order(wanted, here, "max_step")  # it cannot leave a forbidden action in one step: it stays

    def refusal_of(self, start: int) -> str | None:
        """Why an episode may not begin at `start`; None where it may. Being where it is already needs no leave."""
        problem, here = self.policy.problem, self.where.action
        if start == here:
            return None
        there, remedy = problem.named(start), "or force it and give a reason"
        if not problem.permits(self.mask, start):
            return f"{there} was not allowed in the newest round; begin at another setting, {remedy}"
        longest = self.limits.longest(problem)
        if not problem.permits(longest.within(here), start):
            away = problem.cost(f"{problem.distance(here, start):g}")
            return (
                f"going to {there} from {problem.named(here)}, where the machine is, costs {away}, but max_step is "
                f"{longest}; begin at a nearer setting, {remedy}"
            )
        return None

    def accept(self, choice: Choice, entry: Entry) -> None:
        """Go on from a decision."""
        self.pilot.accept(choice)
        if entry.meant != entry.decision.action:
            self.pilot.move_to(entry.meant)
        self.where = self.where.after(entry.meant, self.round, self.limits)
        self.mask = np.isfinite(entry.bounds)
        self.entries[self.round] = entry
        self.round += 1
        if len(self.entries) > self.kept_entries + self.max_pending:  # then at least one of them was told
            del self.entries[next(number for number, kept in self.entries.items() if kept.told is not None)]

    @property
    def kept_entries(self) -> int:
        """How many of the newest decisions are kept in memory."""
        return min(KEPT_ENTRIES, max(KEPT_NUMBERS // (5 * self.policy.problem.entries), FEWEST_KEPT))

    def learn(
        self,
        entry: Entry,
        measurement: float | None,
        applied: int | None,
        retracted: str | None = None,
        also: Also = (),
        reference: float | None = None,
    ) -> Learned:
        """Take in what was told of a decision; `retracted` is why the measurement does not count, where it does not.

        `also` is what was measured at other actions; from `reference`, a signal that no decision touches, nothing is
        learned.
        """
        decision = entry.decision
        taken = entry.meant if applied is None else applied
        counted = measurement if retracted is None else None
        learned = self._measured(taken, entry.request.context, counted, decision.turn)
        if retracted is None:
            self._learn_also(entry.request.context, also)
        if taken != entry.meant:
            self._correct(taken, decision.round)
            if decision.round == self.round - 1:  # only then is the machine still there
                self.pilot.move_to(taken)
        told = entry.with_tell(measurement, applied, retracted, also, reference)
        self.entries[decision.round] = told.with_weight(learned.weight, learned.instead)
        return learned

    def learn_earlier(
        self,
        decision_id: str,
        action: int,
        context: Any,
        measurement: float | None,
        place: int | None,
        also: Also = (),
        turn: Turn | None = None,
    ) -> Learned:
        """Take in what was told of a decision of an earlier record; `place`: where the machine is, if that changed.

        `turn` is that of the decision, where its trial goes on here.
        """
        learned = self._measured(action, context, measurement, turn)
        self._learn_also(context, also)
        told = round_of(decision_id)
        if place is not None:
            self._place(place)
        elif told < self.round - 1 and self.where.at(told) not in (None, action):
            self._correct(action, told)
        if told == self.round - 1:
            self.settled = self.round
        return learned

    def _correct(self, action: int, number: int) -> None:
        """Take in that the machine was at an action in a round, whatever was meant: limits count from there."""
        following = self.entries.get(number + 1)
        next_began = None if following is None else following.began
        self.where = self.where.corrected(action, number, self.round - 1, next_began)

    def _learn_also(self, context: Any, also: Also) -> None:
        """Take in what was measured at other actions than the one that ran."""
        for action, y in also:
            self.pilot.learn(action, context, y)
            self._count(action)

    def redirect(self, order: Order) -> None:
        """Send the machine elsewhere within the round in progress; a tell of that round then means this action."""
        entry = self.entries.get(self.round - 1)  # of an earlier record, the round is not known here
        if entry is not None:
            self.entries[self.round - 1] = replace(entry, redirected=order)
        if order.action != self.where.action:
            # It was where it was sent before: this is one move more, also on the way back.
            self.where = self.where.after(order.action, self.round - 1, self.limits)
            self.pilot.move_to(order.action)

    def _place(self, place: int) -> None:
        """Take in that the machine was at `place` in the newest round, or is there now."""
        newest = self.round - 1
        corrected = self.where.corrected(place, newest, newest)
        self.where = corrected if corrected.action == place else Position(((newest, place),))
        self.pilot.move_to(place)

    def _count(self, action: int) -> None:
        if self.tried is not None and action not in self.tried:
            self.tried |= {int(action)}

    def _measured(self, action: int, context: Any, measurement: float | None, turn: Turn | None = None) -> Learned:
        if measurement is None:
            self.learned = Learned()
            return self.learned
        weight = self.pilot.learn(action, context, measurement, turn)
        if self.guard is not None and self.guard.trips(measurement, maximise=maximises(self.pilot.model)):
            self.cool_until = self.round + self.guard.cool_down
        if weight is None:  # a trial keeps it from the policy
            self.learned = Learned()
            return self.learned
        self._count(action)
        aside = doubted_by(self.pilot.model)
        if aside is not None:  # a fit within the tell may have changed its mind
            weight = 0.0 if _told(action, context, measurement) in aside else weight or 1.0
        instead = self._expected_reading(context, action) if weight == 0 else None
        self.learned = Learned(weight, instead, self._weighed_again(aside))
        return self.learned

    def _expected_reading(self, context: Any, action: int) -> float | None:
        """What the model expects to be measured."""
        mean = self.pilot.model.estimate(context).mean
        return None if mean is None or not math.isfinite(mean[action]) else float(mean[action])

    def _weighed_again(self, aside: frozenset[Told] | None) -> tuple[tuple[Entry, Entry], ...]:
        """Take over what the model makes of earlier measurements by now; returns what has changed, before and after.

        `aside` is what it does not believe: a fit finds out wrong ones, and a measurement may confirm an earlier one.
        """
        if aside is None or aside == self._aside:
            return ()
        self._aside, changed = aside, []
        for number, entry in self.entries.items():
            if entry.told is None or entry.told[0] is None or entry.weight is None or entry.retracted is not None:
                continue
            wrong = _told(entry.taken, entry.request.context, entry.told[0]) in aside
            if wrong != (entry.weight == 0):
                instead = self._expected_reading(entry.request.context, entry.taken) if wrong else None
                changed.append((number, entry, entry.with_weight(0.0 if wrong else 1.0, instead)))
        self.entries |= {number: now for number, _, now in changed}
        return tuple((before, now) for _, before, now in changed)

    @property
    def promise(self) -> Budget | None:
        """How the promise against the baseline stands; None where the rule has made none."""
        rule = self.pilot.rule
        return rule.stands(self.pilot.state) if isinstance(rule, Promised) else None

    def start_episode(self, start: int) -> None:
        """End the episode and begin the next one at `start`."""
        self.pilot.new_episode(start)
        self.episode += 1
        self.where = Position(((self.round - 1, start),))
        self.cool_until, self.settled = 0, self.round

    def entry(self, decision_id: str) -> Entry:
        """The entry of a decision, if it is still kept."""
        if not isinstance(decision_id, str):
            raise InvalidInput(f"a decision is named by its id, e.g. 'r0', not by a {type(decision_id).__name__}")
        number = round_of(decision_id)
        entry = self.entries.get(number)
        if entry is not None:
            return entry
        if 0 <= number < self.round:
            raise InvalidInput(
                f"{decision_id} was told long ago, or before prices were changed; only the newest "
                f"{self.kept_entries} decisions are kept in memory"
            )
        waiting = first_few([entry.decision.id for entry in self.pending]) or "none"
        raise InvalidInput(f"there is no decision {decision_id!r}; decisions that wait for a measurement: {waiting}")

    def identity(self) -> Identity:
        """What does not change while the controller lives."""
        return Identity(
            self.policy.fingerprint,
            self.policy.name,
            self.start,
            self.seed,
            self.limits,
            self.guard,
            self.max_pending,
        )

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the whole state as JSON values and arrays."""
        identity = asdict(self.identity())
        del identity["members"]  # only fleets have some
        state: dict[str, Any] = {
            "identity": identity,
            "round": self.round,
            "episode": self.episode,
            "where": self.where.arrivals,
            "cool_until": self.cool_until,
            "settled": self.settled,
            "allowed": None if self.mask.all() else np.flatnonzero(self.mask).tolist(),
            "tried": None if self.tried is None else sorted(self.tried),
            "entries": [],
        }
        arrays = prefixed("pilot.", self.pilot.arrays())
        for number, entry in self.entries.items():
            data, own = entry.to_data()
            state["entries"].append(data)
            arrays |= prefixed(f"entry{number}.", own)
        return state, arrays

    def restore(self, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `snapshot` gave."""
        self._begin()
        self.pilot.restore(under("pilot.", arrays))
        self.round, self.episode = state["round"], state["episode"]
        self.where = Position(tuple((past, action) for past, action in state["where"]))
        self.cool_until = state["cool_until"]
        self.settled = state.get("settled", 0)  # a record of before does not say
        self.mask[:] = state["allowed"] is None
        self.mask[list(state["allowed"] or ())] = True
        tried = state.get("tried")  # a record of before does not say
        self.tried = None if tried is None else frozenset(tried)
        for data in state["entries"]:
            number = data["decision"]["round"]
            self.entries[number] = Entry.from_data(data, under(f"entry{number}.", arrays), self.policy.problem)

    def at(self, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Session:
        """Another session of the same controller, in a state that `snapshot` gave; with the policy that it had then."""
        identity = identity_in(state)
        if identity.policy not in self.policies:
            raise InvalidInput(
                "this reaches back to before the price of movement was changed, and the policy of that time is no "
                "longer known here"
            )
        other = Session(
            self.policies[identity.policy],
            self.start,
            self.seed,
            limits=identity.limits,
            guard=identity.guard,
            max_pending=identity.max_pending,
            origin=self.origin,
        )
        other.policies = self.policies
        other.restore(state, arrays)
        return other

    def changed(self, limits: Limits, guard: Guard | None, max_pending: int, problem: Problem | None = None) -> Change:
        """What the record says of a change; it is checked, and changes nothing yet."""
        _check_kinds(limits, guard)
        if problem is not None and problem.fingerprint == self.policy.problem.fingerprint:
            problem = None
        policy = self.policy if problem is None else self._repriced(problem)
        limits = limits.on(policy.problem)
        guard = None if guard is None else guard.on(policy.problem, limits.round_length)
        count = whole_number(max_pending, "max_pending", 1)
        waiting = [entry.decision.id for entry in self.pending]
        if len(waiting) > (count if problem is None else 0):
            words, them = still_waiting(waiting)
            raise InvalidInput(f"{words}; tell or skip {them} before this change")
        identity = replace(
            self.identity(),
            policy=policy.fingerprint,
            policy_name=policy.name,
            limits=limits,
            guard=guard,
            max_pending=count,
        )
        return Change(identity, None if problem is None else problem.describe())

    def change(self, event: Change) -> None:
        """Go on with other limits, guard or prices; what was learned of costs stays, and the rule begins where we are.

        Decisions of before are not kept in memory where prices change: they were taken at others.
        """
        if event.problem is not None:
            policy = self._repriced(Problem.from_data(event.problem))
            pilot = Pilot(policy, self.where.action, self.seed)
            pilot.model.restore(self.pilot.model.state())
            pilot.state = pilot.rule.begin(self.where.action, self.seed, self.round)
            self.policy, self.pilot, self.entries = policy, pilot, {}
            self.settled = self.round  # all were told, or this would have been refused
            self.policies[policy.fingerprint] = policy
        identity = event.identity
        self.limits, self.guard, self.max_pending = identity.limits, identity.guard, identity.max_pending
        if self.guard is None:
            self.cool_until = 0

    def _repriced(self, problem: Problem) -> Policy:
        """The policy for the same settings at other prices."""
        if not problem.has_settings_of(self.policy.problem):
            raise InvalidInput("the settings must stay the same; begin another record for other settings")
        described = recipe.describe(self.policy)
        trust = recipe.code_in(described)  # its code runs here already
        policy = recipe.make({**described, "problem": problem.describe()}, trust)
        if policy.costs.describe() != self.policy.costs.describe():
            raise InvalidInput(
                f"what {self.policy.name} learned cannot be carried over: its cost model depends on the prices of "
                "movement; begin another record"
            )
        return policy

    def keep_entries(self, entries: Mapping[int, Entry], retracted: Mapping[str, str]) -> None:
        """Take over what was decided and told, as it was; of `retracted` decisions it is said why.

        Who has lived again through rounds without some measurements believes other things of them than were believed
        when they were decided.
        """
        self.entries = {
            number: entry
            if entry.told is None or entry.decision.id not in retracted
            else entry.with_tell(*entry.told, retracted[entry.decision.id], entry.also, entry.reference)
            for number, entry in entries.items()
        }
        self._aside = None

    def repeat(self, event: Body, retracted: Mapping[str, str] = MappingProxyType({})) -> list[Difference]:
        """Live through a recorded event again; returns what came out differently this time.

        A recorded decision is a fact: where another version would have decided otherwise, the recorded action stands.
        What was measured does not count of decisions that are in `retracted`, by id, with the reason; all else of their
        tells does. Retractions, which need a look back, are for `retraction.relived`. Notes and snapshots change
        nothing.
        """
        match event:
            case Ask():
                return self._ask_again(event)
            case Tell():
                why, also = retracted.get(event.id), recorded_also(event)
                self.learn(self.entry(event.id), event.measurement, event.applied, why, also, event.reference)
            case Learn():
                gone = event.id in retracted
                measurement, also = None if gone else event.measurement, () if gone else recorded_also(event)
                self.learn_earlier(event.id, event.action, event.context, measurement, event.place, also, event.turn)
            case Episode():
                refusal = None if event.force is not None else self.refusal_of(event.start)
                self.start_episode(event.start)
                return [] if refusal is None else [Difference(f"episode {self.episode}: {refusal}")]
            case Redirect():
                return self._redirect_again(event)
            case Change():
                self.change(event)
                if self.policy.fingerprint != event.identity.policy:
                    then, now = event.identity.policy, self.policy.fingerprint
                    return [Difference(f"the policy after the change was {then}, and is {now} when repeated")]
        return []

    def _redirect_again(self, event: Redirect) -> list[Difference]:
        recorded = event.order
        assert recorded.wanted is not None  # it was sent somewhere
        again = self.permitted(recorded.wanted)
        self.redirect(recorded)
        then, now = self._shown("order", recorded), self._shown("order", again)
        words = f"round {event.round}: sent by {then}, and by {now} when repeated"
        return [] if again == recorded else [Difference(words)]

    def _shown(self, name: str, value: Any) -> str:
        """A part of a decision in words, with settings as people call them."""
        problem = self.policy.problem
        if name in ("action", "wanted"):
            return problem.text(value)
        if isinstance(value, Order):
            wanted = None if value.wanted is None else problem.text(value.wanted)
            return repr(asdict(value) | {"wanted": wanted, "action": problem.text(value.action)})
        return repr(value)

    def _ask_again(self, event: Ask) -> list[Difference]:
        order = event.order
        wish = None if order is None else Wish(order.wanted, order.force)
        choice, entry = self.decide(event.request, wish)
        again = asked(entry)
        differences = [
            Difference(
                f"round {event.round}: {name} was {self._shown(name, then)}, and is {self._shown(name, now)} when "
                "repeated",
                name != "probabilities" and not _same_but_for_last_digits(name, then, now),
            )
            for name in COMPARED
            if (then := getattr(event, name)) != (now := getattr(again, name))
        ]
        if again.action != event.action or again.wanted != event.wanted:
            decision = replace(
                entry.decision,
                action=event.action,
                value=self.policy.problem.value(event.action),
                expected_cost=event.expected_cost,
                movement=self.policy.problem.distance(entry.before, event.action),
                wanted=event.wanted,
                wanted_value=self.policy.problem.value(event.wanted),
                limited_by=event.limited_by,
            )
            entry = replace(entry, decision=decision)
            choice = replace(choice, state=replace(choice.state, action=event.wanted))
        if order is not None:
            entry = replace(entry, order=order)
        self.accept(choice, entry)
        return differences


def recorded_also(event: Tell | Learn) -> Also:
    """What was measured at other actions, as an event holds it."""
    return tuple((int(action), float(y)) for action, y in event.also or ())


def still_waiting(ids: Sequence[str]) -> tuple[str, str]:
    """Say which decisions wait for a measurement; and what a remedy calls them."""
    if len(ids) == 1:
        return f"{ids[0]} still waits for its measurement", "it"
    return f"{first_few(ids)} still wait for their measurements", "them"


def first_few(names: Sequence[str]) -> str:
    """Return names as a list that people read, a long one shortened: r0, r1 and 7 more."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def identity_in(state: Mapping[str, Any]) -> Identity:
    """Whose state it is that `Session.snapshot` gave."""
    return from_plain(Identity, json.loads(json.dumps(state["identity"])), "a saved state")


def round_of(decision_id: Any) -> int:
    """The round of the decision of this name; -1 where it is no name of one."""
    if not (isinstance(decision_id, str) and decision_id.startswith("r") and len(decision_id) < 20):
        return -1
    digits = decision_id[1:]
    number = int(digits) if digits.isdecimal() else -1
    return number if decision_id == f"r{number}" else -1


def _told(action: int, context: Any, measurement: float) -> Told:
    return action, tuple(check_context(context, None).tolist()), measurement


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=LAST_DIGITS, abs_tol=LAST_DIGITS)


def _same_but_for_last_digits(name: str, then: Any, now: Any) -> bool:
    if name == "expected_cost":
        return _close(then, now)
    if name == "turn" and then is not None and now is not None and then.predicted and now.predicted:
        return replace(then, predicted=now.predicted) == now and all(map(_close, then.predicted, now.predicted))
    return False


def asked(entry: Entry, extra: AskDetails | None = None) -> Ask:
    """A decision as an event of the record: the question, and enough of the answer to recognise it to the last bit."""
    decision = entry.decision
    return Ask(
        decision.round,
        entry.request,
        decision.wanted,
        decision.action,
        decision.limited_by,
        decision.expected_cost,
        digest(decision.probabilities),
        turn=decision.turn,
        order=entry.order,
        extra=extra,
    )
