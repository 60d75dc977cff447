"""Many controllers of one kind, asked and told together.

Members are independent: each has its own seed, place, random numbers and what it has learned, and decides as a
`Controller` with that seed and start does, to the last bit. What makes a fleet quick is that one call does a round of
all of them: GP-MD on a flat posterior and the wind planner go through compiled loops over members. Every other policy
is a fleet too, of single controllers that take turns.

An ask of some or all members is a *call*; calls are counted from 0. Until a member of a call is asked anew, the same
call asked again gives the same decisions and changes nothing, and so does a measurement that is told again: whoever got
no answer can send the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive
from holdcourse.archive import Arrays, prefixed, under
from holdcourse.checks import array_of, checked_seed, file_path, float_array, is_whole, require_numbers, whole_number
from holdcourse.deciding.lockstep import RulesTogether, rules_together
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy, require_policy
from holdcourse.deciding.policyfile import Trust
from holdcourse.errors import DamagedFile, InvalidInput, NoActionLeft, TooLarge, counted, shown
from holdcourse.learning.history import LARGEST, check_contexts
from holdcourse.learning.lockstep import CostsTogether, costs_together
from holdcourse.movement.settings import chosen
from holdcourse.running import events
from holdcourse.running.array_fleet import ArrayFleet, Compiler
from holdcourse.running.events import FleetAsk, FleetTell, Identity, Members, digest
from holdcourse.running.fleet_calls import Answer, Calls, Question, written_rows
from holdcourse.running.fleet_record import (
    FleetRecord,
    question_of,
    read_members,
    written_contexts,
    written_members,
)
from holdcourse.running.identity import resumed
from holdcourse.running.limits import Limits
from holdcourse.running.session import Difference
from holdcourse.running.storage import ADDRESSES
from holdcourse.running.witness import Witness
from holdcourse.threads import one_thread

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MOST_MEMBERS = 10_000_000


@dataclass(frozen=True, eq=False)
class FleetDecisions:
    """The decisions of one call, one entry for each member; members that were not asked stay where they are.

    Attributes
    ----------
    action
        Chosen setting, by its index, (count,).
    probabilities
        Probability of each setting, (count, n); NaN for members that were not asked.
    expected_cost
        Expected cost of the chosen setting, (count,); NaN for members that were not asked.
    movement
        Cost of the move, (count,); 0 for members that were not asked.
    round
        Number of the round, (count,); -1 for members that were not asked.
    call
        Number of the call, counted from 0; -1 if no member was asked. The same call again gets the same answer. A fleet
        that was resumed in between may know only the chosen settings; then probabilities, expected costs and movement
        are NaN.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> pumps = hc.fleet(hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 0.5), 3)
    >>> decisions = pumps.ask(contexts=7.0, mask=np.array([True, True, False]))
    >>> decisions.action.tolist(), decisions.round.tolist()
    ([1, 1, 0], [0, 0, -1])
    """

    action: Ints
    probabilities: Array
    expected_cost: Array
    movement: Array
    round: Ints
    call: int = -1


class Fleet:
    """Controllers of one policy in lockstep; made by `fleet`.

    Attributes
    ----------
    policy, seeds
        The policy, and the seed of each member.
    record
        The record of the fleet; None if there is none.

    Examples
    --------
    >>> import holdcourse as hc
    >>> pumps = hc.fleet(hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 0.5), 3)
    >>> decisions = pumps.ask(contexts=[7.0, 8.0, 9.0])
    >>> pumps.pending.tolist()
    [True, True, True]
    >>> pumps.tell([1.0, float("nan"), 3.0])  # the second one measured nothing
    >>> pumps.round.tolist()
    [1, 1, 1]
    """

    def __init__(self, policy: Policy, starts: Ints, seeds: Sequence[int]) -> None:
        self.policy, self.seeds = policy, tuple(seeds)
        self._starts = starts
        with one_thread():
            rules = None if policy.limits else rules_together(policy, starts, self.seeds)
            costs = None if rules is None else costs_together(policy.costs, len(starts))
        self._rules: RulesTogether | None = rules if costs is not None else None
        self._costs: CostsTogether | None = costs
        self._pilots: list[Pilot] = []
        if self._rules is None:
            if policy.limits:
                raise InvalidInput(
                    f"{policy.name} has limits of its own, which a fleet does not support; use a Controller for each "
                    "machine, or save the policy without limits"
                )
            self._pilots = [Pilot(policy, int(x), seed) for x, seed in zip(starts, self.seeds, strict=True)]
        self._calls = Calls(len(starts))
        self.record: FleetRecord | None = None

    @classmethod
    def of_identity(cls, policy: Policy, identity: Identity) -> Fleet:
        """Make a fleet at its beginning, as `identity` describes it."""
        members = identity.members
        if members is None:
            raise InvalidInput("this is the record of a single controller; continue it with hc.Controller.resume(path)")
        seeds = _seeds(identity)
        starts = np.full(members.count, identity.start) if members.starts is None else np.array(members.starts)
        return cls(policy, starts, seeds)

    @classmethod
    def resume(cls, log: str | Path, *, trust: Trust = (), witness: Witness | None = None) -> Fleet:
        """Continue from a record alone, with its policy, seeds and starts.

        Parameters
        ----------
        log
            The record.
        trust
            Import paths of code that is not ours and may be run to make the policy; as in `load_policy`.
        witness
            As in `fleet`.

        Examples
        --------
        >>> import holdcourse as hc
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> policy = hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 0.5)
        >>> with hc.fleet(policy, 3, log=folder.name + "/pumps.log") as pumps:
        ...     decisions = pumps.ask(contexts=7.0)
        >>> with hc.Fleet.resume(folder.name + "/pumps.log") as pumps:
        ...     pumps.pending.tolist(), pumps.ask(contexts=7.0, call=0).action.tolist()
        ([True, True, True], [1, 1, 1])
        >>> folder.cleanup()
        """
        path = _file(log)
        remedy = "make it as it was made, and open the record with hc.fleet(policy, count, log=...)"
        return cls.of_identity(*resumed(path, trust, remedy)).recorded(path, witness)

    def recorded(self, path: Path, witness: Witness | None = None) -> Fleet:
        """Keep a record from now on, or continue where the record at this path ends; returns itself."""
        with one_thread():
            self.record = FleetRecord(self, path, witness)
        return self

    @property
    def count(self) -> int:
        """Return how many members there are."""
        return len(self._starts)

    @property
    def starts(self) -> Ints:
        """Return where each member was before its first round, by index, (count,)."""
        return self._starts.copy()

    @property
    def in_lockstep(self) -> bool:
        """Return whether all members are computed together in compiled code; otherwise one after another."""
        return self._rules is not None

    @property
    def action(self) -> Ints:
        """Return where each member is, by index, (count,)."""
        if self._rules is not None:
            return self._rules.actions.copy()
        return np.array([pilot.state.action for pilot in self._pilots])

    @property
    def round(self) -> Ints:
        """Return the number of each member's next round, (count,)."""
        if self._rules is not None:
            return self._rules.decided.copy()
        return np.array([pilot.state.round for pilot in self._pilots])

    @property
    def pending(self) -> Mask:
        """Return which members wait for their measurement, (count,)."""
        return self._calls.pending.copy()

    @property
    def last_call(self) -> Ints:
        """Return the call in which each member was last asked, (count,); -1 if it was never asked."""
        return self._calls.last.copy()

    @property
    def next_call(self) -> int:
        """Return the number of the next call."""
        return self._calls.next

    def ask(
        self,
        contexts: ArrayLike,
        allowed: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        call: int | None = None,
    ) -> FleetDecisions:
        """Decide the next round of every member, or of those in the mask; asking again gives the same answer.

        Parameters
        ----------
        contexts
            Context of each member, (count,) or (count, d), or a single number for all. Those of members that are not
            asked do not matter.
        allowed
            Settings that may be chosen: n booleans for all members, or (count, n).
        mask
            Members that are asked, (count,); default: all.
        call
            Number of this call, `next_call`, or of an earlier call whose answer was lost. Default: the next call, or an
            earlier call with the same question to these members that was not told yet.
        """
        if self.record is not None:
            self.record.catch_up()
        members = self._members(mask)
        rows = self._contexts(contexts, members)
        may = self._allowed(allowed)[members]
        question = Question(members, rows, None if may.all() else may)
        repeated = self._calls.repeated(question, call)
        if repeated is not None:
            return self._answer(repeated)
        late = members[self._calls.pending[members]]
        if len(late):
            others = f" and {counted(len(late) - 1, 'other')} of those asked" if len(late) > 1 else ""
            wait, them = ("wait for their measurements", "them") if others else ("waits for its measurement", "it")
            raise InvalidInput(
                f"member {late[0]}{others} still {wait}; tell {them} first (NaN if nothing was measured), or leave "
                f"{them} out with mask="
            )
        if not len(members):  # nobody is asked, and nothing changes
            return self._decisions()
        with nullcontext() if self.record is None else self.record.all_or_nothing():
            number, answer = self._step(question)
            if self.record is not None:
                self.record.write(replace(self._event(question, answer, number), extra=self.record.cause))
        return self._answer(number)

    def _step(self, question: Question) -> tuple[int, Answer]:
        """Decide; returns the number of the call and what it is answered with."""
        members, n = question.members, self.policy.problem.n
        may = np.ones((len(members), n), dtype=bool) if question.allowed is None else question.allowed
        before = self.action[members]
        with one_thread():
            probabilities, expected = self._decided(members, question.contexts, may)
        now = self.action[members]
        moves = np.asarray(self.policy.problem.move_costs(before, now))
        answer = Answer(probabilities, expected[np.arange(len(members)), now], moves)
        return self._calls.begin(question, answer), answer

    def _answer(self, call: int) -> FleetDecisions:
        """Return the answer to a call whose members were not asked since."""
        members, found, known = self._calls.members(call), self._decisions(call), self._calls.answer(call)
        found.probabilities[members] = np.nan if known is None else known.probabilities
        found.expected_cost[members] = np.nan if known is None else known.expected_cost
        found.movement[members] = np.nan if known is None else known.movement
        found.round[members] = self.round[members] - 1
        return found

    def _decisions(self, call: int = -1) -> FleetDecisions:
        """Return decisions in which nobody was asked."""
        count, n = self.count, self.policy.problem.n
        unknown = np.full((count, n), np.nan)
        return FleetDecisions(self.action, unknown, np.full(count, np.nan), np.zeros(count), np.full(count, -1), call)

    def _event(self, question: Question, answer: Answer, call: int) -> FleetAsk:
        """Return what the record says of a call."""
        return FleetAsk(
            call,
            written_members(question.members, self.count),
            written_contexts(question.contexts),
            written_rows(question.allowed),
            self.action[question.members].tolist(),
            digest(answer.probabilities),
            digest(answer.expected_cost),
        )

    def tell(self, measurements: ArrayLike, mask: ArrayLike | None = None, call: int | None = None) -> None:
        """Tell what every member, or those in the mask, measured at its action.

        Parameters
        ----------
        measurements
            Measurement of each member, (count,); NaN if nothing was measured. Those of members that are not told do not
            matter.
        mask
            Members that are told, (count,); default: those that wait for a measurement.
        call
            Call in which the members were asked. Only its members without a measurement are told, and telling the same
            again changes nothing.
        """
        if self.record is not None:
            self.record.catch_up()
        require_numbers(measurements, "measurements")
        values = float_array(measurements, "measurements")
        if values.shape != (self.count,):
            raise InvalidInput(
                f"measurements must be {self.count} numbers, one for each member, got shape {values.shape}"
            )
        wanted = None if mask is None else self._members(mask)
        if call is not None:
            told = self._calls.not_told_yet(values, wanted, call)
        else:
            told = np.flatnonzero(self._calls.pending) if wanted is None else wanted
        idle = told[~self._calls.pending[told]]
        if len(idle):
            raise InvalidInput(f"member {idle[0]} has no decision that is waiting for a measurement; ask it first")
        infinite = told[np.isinf(values[told])]
        if len(infinite):
            raise InvalidInput(
                f"the measurement of member {infinite[0]} is {values[infinite[0]]}; it must be finite, or NaN if "
                "nothing was measured"
            )
        members = told[~np.isnan(values[told])]
        large = members[np.abs(values[members]) > LARGEST]
        if len(large):
            raise InvalidInput(
                f"the measurement of member {large[0]} is {values[large[0]]:g}, which is too large to be squared; "
                "change the unit"
            )
        if not len(told):
            return
        with nullcontext() if self.record is None else self.record.all_or_nothing():
            self._take_in(told, values[told])
            if self.record is not None:
                measured = [None if y != y else y for y in values[told].tolist()]
                self.record.write(FleetTell(written_members(told, self.count), measured, extra=self.record.cause))
        if self.record is not None:
            self.record.snapshot_if_due()

    def _take_in(self, told: Ints, values: Array) -> None:
        """Learn what members measured; NaN: nothing."""
        measured = ~np.isnan(values)
        members = told[measured]
        if len(members):
            with one_thread():
                self._learn(members, self._calls.contexts(members), values[measured])
        self._calls.tell(told, values)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def identity(self) -> Identity:
        """Return the identity of the record that this fleet writes."""
        first, start = self.seeds[0], int(self._starts[0])
        follow = self.seeds == tuple(range(first, first + self.count))
        alike = bool((self._starts == start).all())
        members = Members(self.count, None if follow else list(self.seeds), None if alike else self._starts.tolist())
        policy = self.policy
        return Identity(policy.fingerprint, policy.name, start, first, Limits(), None, 1, members=members)

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the whole state as JSON values and arrays."""
        state = {"holds": "fleet", "identity": events.plain(self.identity()), **self._calls.state()}
        return state, self.arrays()

    def take_over(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Continue from a `snapshot` of a fleet with the same policy, starts and seeds."""
        self.restore(arrays)
        self._calls.take_over(state)

    def repeat(self, event: FleetAsk | FleetTell) -> list[Difference]:
        """Replay a recorded event, and return the differences.

        A recorded decision is a fact: if another version would have decided differently, the recorded action stands.
        """
        if isinstance(event, FleetTell):
            values = np.array([np.nan if y is None else y for y in event.measurements], dtype=np.float64)
            self._take_in(read_members(event.members, self.count), values)
            return []
        question = question_of(event, self.count)
        number, answer = self._step(question)
        again, found = self._event(question, answer, number), list[Difference]()
        if again.actions != event.actions:
            wrong = [k for k, (then, now) in enumerate(zip(event.actions, again.actions, strict=True)) if then != now]
            for k in wrong:
                then, now = (self.policy.problem.text(actions[k]) for actions in (event.actions, again.actions))
                words = (
                    f"call {number}: the action of member {question.members[k]} was {then}, and is {now} when repeated"
                )
                found.append(Difference(words))
            self._stand(question.members[wrong], [event.actions[k] for k in wrong])
        found += [
            Difference(f"call {number}: {name} were {then}, and are {now} when repeated", decisive=False)
            for name in ("probabilities", "expected_costs")
            if (then := getattr(event, name)) != (now := getattr(again, name))
        ]
        return found

    def _stand(self, members: Ints, actions: Sequence[int]) -> None:
        """Let members be where the record says that they went."""
        if self._rules is not None:
            self._rules.actions[members] = actions
        else:
            for b, action in zip(members, actions, strict=True):
                self._pilots[b].state = replace(self._pilots[b].state, action=action)

    def close(self) -> None:
        """Close the record's files."""
        if self.record is not None:
            self.record.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file in one step; `load` continues from it."""
        archive.write_file(file_path(path), archive.pack(*self.snapshot()))

    def load(self, path: str | Path) -> Fleet:
        """Continue from a saved state of a fleet with the same policy, seeds and starts; returns itself."""
        if self.record is not None:
            raise InvalidInput(
                f"this fleet continues its record, {self.record.log.path}, so no state can be loaded; make a fleet "
                "without log= first"
            )
        state, arrays = archive.unpack(archive.read_file(file_path(path)), str(path))
        if state.get("holds") != "fleet" or "identity" not in state:
            raise DamagedFile(f"{path} does not contain a fleet; give a file that fleet.save wrote")
        theirs, ours = events.from_plain(Identity, state["identity"], f"the state in {path}"), self.identity()
        for name, is_same in (
            ("policy", theirs.policy == ours.policy),
            ("count", cast(Members, theirs.members).count == self.count),
            ("set of seeds", _seeds(theirs) == self.seeds),
            ("set of starts", theirs == ours),
        ):
            if not is_same:
                raise InvalidInput(
                    f"{path} was saved by a fleet with a different {name}; make this fleet like that one first"
                )
        self.take_over(state, arrays)
        return self

    def arrays(self) -> Arrays:
        """Return everything that changes, of all members, as arrays."""
        common = self._calls.arrays()
        if self._rules is None or self._costs is None:
            own: Arrays = {}
            for k, pilot in enumerate(self._pilots):
                own |= prefixed(f"member{k}.", pilot.arrays())
            return common | own
        place = {"action": self._rules.actions.copy(), "round": self._rules.decided.copy()}
        return common | place | prefixed("rules.", self._rules.state()) | prefixed("models.", self._costs.state())

    def restore(self, arrays: Arrays) -> None:
        """Restore what `arrays` of a fleet with the same policy, starts and seeds returned."""
        if self._rules is None or self._costs is None:
            for k, pilot in enumerate(self._pilots):
                pilot.restore(under(f"member{k}.", arrays))
        else:
            self._costs.restore(under("models.", arrays))
            self._rules.restore(under("rules.", arrays))
            self._rules.actions = np.array(arrays["action"])
            self._rules.decided = np.array(arrays["round"])
        self._calls.restore(arrays)

    def arrays_of(self, member: int) -> Arrays:
        """Return everything that changes of one member, as `Pilot.arrays` of a single controller does."""
        if not (is_whole(member) and 0 <= member < self.count):
            raise InvalidInput(f"the members are numbered from 0 to {self.count - 1}, got {shown(member)}")
        if self._rules is None or self._costs is None:
            return self._pilots[member].arrays()
        place = {"rule": np.array([self._rules.actions[member], self._rules.decided[member]], dtype=np.int64)}
        models = self._costs.state_of(member)
        return prefixed("rule.", self._rules.state_of(member)) | place | prefixed("model.", models)

    def __repr__(self) -> str:
        how = "in lockstep" if self.in_lockstep else "taking turns"
        return f"Fleet({self.count} members of {self.policy.name}, {how})"

    # -- inside --------------------------------------------------------------------------------------------------------

    def _decided(self, members: Ints, contexts: Array, allowed: Mask) -> tuple[Array, Array]:
        """Decide; probabilities (k, n) and expected costs (k, n) of the members asked."""
        if self._rules is None or self._costs is None:
            return self._in_turn(members, contexts, allowed)
        self._costs.check(members, contexts)
        costs, expected = self._costs.look(members, contexts, self._rules.rounds, self._rules.interval)
        costs[:, 0] = np.where(allowed, costs[:, 0], np.inf)
        if np.isnan(costs).any() or not (costs > -np.inf).all():
            i = int(np.argmax((~(costs > -np.inf)).any(axis=(1, 2))))
            raise InvalidInput(f"a cost of member {members[i]} is not a number; check its measurements so far")
        usable = np.isfinite(costs[:, 0])
        if not usable.any(axis=1).all():
            raise NoActionLeft(
                f"no action is left for member {members[int(np.argmin(usable.any(axis=1)))]}: every allowed action "
                "has an infinite cost; allow at least one with a finite cost"
            )
        return self._rules.step(members, costs, usable, self._costs.settled_costs(members)), expected

    def _in_turn(self, members: Ints, contexts: Array, allowed: Mask) -> tuple[Array, Array]:
        choices, expected = [], []
        for b, context, may in zip(members, contexts, allowed, strict=True):
            pilot = self._pilots[b]
            estimate, view = pilot.look(context, may)
            choices.append((pilot, pilot.decide(view)))
            expected.append(estimate.expected)
        for pilot, choice in choices:  # only now that nothing can fail
            pilot.accept(choice)
        n = self.policy.problem.n
        return np.array([choice.probabilities for _, choice in choices]).reshape(-1, n), np.array(expected).reshape(
            -1, n
        )

    def _learn(self, members: Ints, contexts: Array, measurements: Array) -> None:
        if self._rules is not None and self._costs is not None:
            self._costs.learn(members, self._rules.actions[members], contexts, measurements)
            return
        learned = []
        for b, context, y in zip(members, contexts, measurements.tolist(), strict=True):
            pilot = self._pilots[b]
            model = pilot.model.copy()
            model.learn(pilot.state.action, context, y)
            learned.append((pilot, model))
        for pilot, model in learned:  # only now that nothing can fail
            pilot.model = model

    def _members(self, mask: ArrayLike | None) -> Ints:
        if mask is None:
            return np.arange(self.count)
        given = array_of(mask, "mask")
        if given.dtype != np.bool_ or given.shape != (self.count,):
            raise InvalidInput(
                f"mask must be {self.count} booleans, one for each member, got {given.dtype} of shape {given.shape}"
            )
        return np.flatnonzero(given)

    def _contexts(self, contexts: ArrayLike, members: Ints) -> Array:
        """Contexts of the members asked, (k, d)."""
        require_numbers(contexts, "contexts")
        given = float_array(contexts, "contexts")
        if given.ndim == 0:
            given = np.full(self.count, float(given))
        if given.ndim not in (1, 2) or len(given) != self.count:
            raise InvalidInput(
                f"contexts must be one for each of {self.count} members, (count,) or (count, d), got shape "
                f"{given.shape}"
            )
        rows = given.reshape(self.count, -1)[members]
        return check_contexts(rows, None if self._costs is None else self._costs.dimension)

    def _allowed(self, allowed: ArrayLike | None) -> Mask:
        n = self.policy.problem.n
        given = np.ones(n, dtype=bool) if allowed is None else array_of(allowed, "allowed")
        if given.dtype != np.bool_ or given.shape not in ((n,), (self.count, n)):
            raise InvalidInput(
                f"allowed must be {n} booleans, or ({self.count}, {n}) of them, got {given.dtype} of shape "
                f"{given.shape}"
            )
        return np.broadcast_to(given, (self.count, n))


def fleet(
    policy: Policy,
    count: int,
    *,
    seed: int | Sequence[int] = 0,
    start: Any = None,
    start_index: int | Sequence[int] | None = None,
    like: Any = None,
    compiler: Compiler | None = None,
    log: str | Path | None = None,
    witness: Witness | None = None,
) -> Any:
    """Make many independent controllers of one policy, which are asked and told together.

    Parameters
    ----------
    policy
        The policy of every member. GP-MD with a given kernel and given contexts, and the wind planner, are computed in
        lockstep.
    count
        Number of members.
    seed
        Seed of the first member, whose successors have the seeds that follow; or one seed for each member.
    start, start_index
        Setting before the first round, by its value or label, or by its index; default: the first setting. There may be
        one index for each member.
    like
        An array of another library, such as ``torch.empty(0, device="cuda")``: the fleet then runs in that library, on
        that device and in that precision, and is an `ArrayFleet`. For GP-MD with a kernel, listed contexts and a
        `tree_seed`.
    compiler
        Compiler of its two steps, such as ``torch.compile`` or ``jax.jit``; only with `like`.
    log
        File of a record. Every ask and tell is on the disk before it returns, and if you make the same fleet again, it
        continues where the record ends. `hc.audit.verify` repeats every decision in it.
    witness
        Witness of the record's length, as for a `Controller`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> problem, hours = hc.Problem([0.0, 0.5, 1.0]), np.arange(24.0)
    >>> policy = hc.gp_md(problem, kernel=hc.Kernel(RBF(0.5), RBF(6.0)), contexts=hours)
    >>> pumps = hc.fleet(policy, 1000, seed=7)
    >>> pumps
    Fleet(1000 members of GP-MD, in lockstep)
    >>> decisions = pumps.ask(contexts=13.0)
    >>> pumps.tell(np.where(decisions.action == 1, 0.0, 1.0))
    """
    require_policy(policy)
    number = whole_number(count, "count", 1)
    if number > MOST_MEMBERS:
        raise TooLarge(f"a fleet has at most {MOST_MEMBERS:,} members, got {number:,}; make several fleets")
    if policy.problem.in_groups:
        raise InvalidInput("a fleet does not support hc.knobs(...); make a Controller for each machine")
    if isinstance(seed, str) or array_of(seed, "seed").ndim == 0:
        first_seed = checked_seed(seed)
        seeds = [first_seed + k for k in range(number)]
    else:
        seeds = list(seed)  # type: ignore[arg-type]
    if len(seeds) != number:
        raise InvalidInput(f"seed must be one number, or {number} of them, got {len(seeds)}")
    checked = [checked_seed(one) for one in seeds]
    if start_index is not None and array_of(start_index, "start_index").ndim == 1:
        places = list(start_index)  # type: ignore[arg-type]
        if start is not None or len(places) != number:
            raise InvalidInput(f"start_index must be one index, or {number} of them, and without start")
        for place in places:
            policy.problem.check_action(place)
    else:
        first = chosen(policy.problem, start, start_index, "start")  # type: ignore[arg-type]
        places = [0 if first is None else first] * number
    starts = np.array(places, dtype=np.int64)
    if like is not None:
        if log is not None:
            raise InvalidInput("a fleet on arrays of another library keeps no record; leave out log= or like=")
        return ArrayFleet(policy, starts, checked, like, compiler)
    if compiler is not None:
        raise InvalidInput("compiler= is for a fleet on arrays of another library; give like= too")
    if witness is not None and log is None:
        raise InvalidInput("witness= needs a record to report on; give log= too")
    made = Fleet(policy, starts, checked)
    return made if log is None else made.recorded(_file(log), witness)


def _file(log: str | Path) -> Path:
    if isinstance(log, str) and log.startswith(ADDRESSES):
        raise InvalidInput(f"a fleet keeps its record in a file, not in a database; give a path, not {log!r}")
    return file_path(log, "log")


def _seeds(identity: Identity) -> tuple[int, ...]:
    members = identity.members
    assert members is not None
    return tuple(members.seeds or range(identity.seed, identity.seed + members.count))
