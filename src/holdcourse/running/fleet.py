"""Many controllers of one kind, asked and told together.

Members are independent: each has its own seed, place, random numbers and what it has learned, and decides as a
`Controller` with that seed and start does, to the last bit. What makes a fleet quick is that one call does a round of
all of them: GP-MD on a flat posterior and the wind planner go through compiled loops over members. Every other policy
is a fleet too, of single controllers that take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive
from holdcourse.archive import Arrays, prefixed, under
from holdcourse.checks import checked_seed, float_array, whole_number
from holdcourse.deciding.lockstep import RulesTogether, rules_together
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.errors import DamagedFile, InvalidInput, NoActionLeft
from holdcourse.learning.history import LARGEST, check_contexts
from holdcourse.learning.lockstep import CostsTogether, costs_together
from holdcourse.movement.settings import chosen
from holdcourse.running.array_fleet import ArrayFleet, Compiler
from holdcourse.threads import one_thread

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FleetDecisions:
    """A round's decisions; one entry for each member, of whom those not asked stay where they are.

    Attributes
    ----------
    action
        Chosen setting, by its index, (count,).
    probabilities
        That each setting had, (count, n); NaN where nobody asked.
    expected_cost
        Of the setting chosen, (count,); NaN where nobody asked.
    movement
        What the move costs, (count,); 0 where nobody asked.
    round
        Number of the round, (count,); -1 where nobody asked.

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


class Fleet:
    """Controllers of one policy in lockstep; made by `fleet`.

    Attributes
    ----------
    policy, seeds
        What decides, and the seed of each member.

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
                    f"{policy.name} has limits of its own, which a fleet does not hold; use a Controller for each "
                    "machine, or save the policy without limits"
                )
            self._pilots = [Pilot(policy, int(x), seed) for x, seed in zip(starts, self.seeds, strict=True)]
        self._pending = np.zeros(len(starts), dtype=bool)
        self._asked: Array | None = None  # contexts of the newest questions, (count, d)

    @property
    def count(self) -> int:
        """Return how many members there are."""
        return len(self._starts)

    @property
    def in_lockstep(self) -> bool:
        """Return whether members are stepped together in compiled code; else they take turns."""
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
        return self._pending.copy()

    def ask(
        self, contexts: ArrayLike, allowed: ArrayLike | None = None, mask: ArrayLike | None = None
    ) -> FleetDecisions:
        """Decide the next round of every member, or of those in the mask.

        Parameters
        ----------
        contexts
            One for each member, (count,) or (count, d), or a single number for all. Those of members not asked are
            not looked at.
        allowed
            Which settings may be chosen: n booleans for all, or (count, n).
        mask
            Which members are asked, (count,); default all.
        """
        members = self._members(mask)
        rows, n = self._contexts(contexts, members), self.policy.problem.n
        may = self._allowed(allowed)[members]
        if self._pending[members].any():
            late = members[self._pending[members]]
            raise InvalidInput(
                f"member {late[0]} still waits for its measurement ({len(late)} of those asked do); tell it first, NaN "
                "where nothing was measured, or leave it out by mask="
            )
        before = self.action
        with one_thread():
            probabilities, expected = self._decided(members, rows, may)
        now = self.action
        found = FleetDecisions(
            now,
            np.full((self.count, n), np.nan),
            np.full(self.count, np.nan),
            np.asarray(self.policy.problem.move_costs(before, now)),
            np.full(self.count, -1),
        )
        found.probabilities[members] = probabilities
        found.expected_cost[members] = expected[np.arange(len(members)), now[members]]
        found.round[members] = self.round[members] - 1
        self._pending[members] = True
        if self._asked is None or self._asked.shape[1] != rows.shape[1]:
            self._asked = np.full((self.count, rows.shape[1]), np.nan)
        self._asked[members] = rows
        return found

    def tell(self, measurements: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Say what every member, or those in the mask, measured at its action.

        Parameters
        ----------
        measurements
            One for each member, (count,); NaN where nothing was measured. Those of members not told are not looked at.
        mask
            Which members are told, (count,); default those that wait for it.
        """
        told = np.flatnonzero(self._pending) if mask is None else self._members(mask)
        values = float_array(measurements, "measurements")
        if values.shape != (self.count,):
            raise InvalidInput(f"measurements must be {self.count} numbers, one for each member, got {values.shape}")
        idle = told[~self._pending[told]]
        if len(idle):
            raise InvalidInput(f"member {idle[0]} has no decision that waits for a measurement; ask it first")
        infinite = told[np.isinf(values[told])]
        if len(infinite):
            raise InvalidInput(
                f"the measurement of member {infinite[0]} is {values[infinite[0]]}; it must be finite, or NaN where "
                "nothing was measured"
            )
        members = told[~np.isnan(values[told])]
        large = members[np.abs(values[members]) > LARGEST]
        if len(large):
            raise InvalidInput(
                f"the measurement of member {large[0]} is {values[large[0]]:g}, whose square is not a finite number"
            )
        if len(members):
            assert self._asked is not None
            with one_thread():
                self._learn(members, self._asked[members], values[members])
        self._pending[told] = False

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file, in one step; `load` goes on from it."""
        state = {
            "holds": "fleet",
            "policy": self.policy.fingerprint,
            "seeds": [str(seed) for seed in self.seeds],
            "starts": self._starts.tolist(),
        }
        archive.write_file(Path(path), archive.pack(state, self.arrays()))

    def load(self, path: str | Path) -> Fleet:
        """Go on from a saved state of a fleet of the same policy, seeds and starts; returns itself."""
        state, arrays = archive.unpack(archive.read_file(Path(path)), str(path))
        if state.get("holds") != "fleet":
            raise DamagedFile(f"{path} does not hold a fleet")
        for name, ours in (
            ("policy", self.policy.fingerprint),
            ("seeds", [str(seed) for seed in self.seeds]),
            ("starts", self._starts.tolist()),
        ):
            if state.get(name) != ours:
                raise InvalidInput(f"{path} was saved by a fleet with other {name}; make this one alike before loading")
        self.restore(arrays)
        return self

    def arrays(self) -> Arrays:
        """Return everything that changes, of all members, as arrays."""
        asked = np.zeros((self.count, 0)) if self._asked is None else self._asked
        common = {"pending": self._pending.copy(), "asked": asked.copy()}
        if self._rules is None or self._costs is None:
            own: Arrays = {}
            for k, pilot in enumerate(self._pilots):
                own |= prefixed(f"member{k}.", pilot.arrays())
            return common | own
        place = {"action": self._rules.actions.copy(), "round": self._rules.decided.copy()}
        return common | place | prefixed("rules.", self._rules.state()) | prefixed("models.", self._costs.state())

    def restore(self, arrays: Arrays) -> None:
        """Take over what `arrays` of a fleet of the same policy, starts and seeds gave."""
        if self._rules is None or self._costs is None:
            for k, pilot in enumerate(self._pilots):
                pilot.restore(under(f"member{k}.", arrays))
        else:
            self._costs.restore(under("models.", arrays))
            self._rules.restore(under("rules.", arrays))
            self._rules.actions = np.array(arrays["action"])
            self._rules.decided = np.array(arrays["round"])
        self._pending = np.array(arrays["pending"])
        self._asked = np.array(arrays["asked"]) if arrays["asked"].shape[1] else None

    def arrays_of(self, member: int) -> Arrays:
        """Return everything that changes of one member, as `Pilot.arrays` of a single controller gives it."""
        if not 0 <= member < self.count:
            raise InvalidInput(f"there are members 0 to {self.count - 1}, got {member!r}")
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
            raise InvalidInput(f"a cost of member {members[i]} is not a number; look at its measurements so far")
        usable = np.isfinite(costs[:, 0])
        if not usable.any(axis=1).all():
            raise NoActionLeft(
                f"no action is left for member {members[int(np.argmin(usable.any(axis=1)))]}: all that are allowed "
                "have infinite cost; allow at least one of finite cost"
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
        given = np.asarray(mask)
        if given.dtype != np.bool_ or given.shape != (self.count,):
            raise InvalidInput(
                f"mask must be {self.count} booleans, one for each member, got {given.dtype} of shape {given.shape}"
            )
        return np.flatnonzero(given)

    def _contexts(self, contexts: ArrayLike, members: Ints) -> Array:
        """Contexts of the members asked, (k, d)."""
        given = float_array(contexts, "contexts")
        if given.ndim == 0:
            given = np.full(self.count, float(given))
        if given.ndim not in (1, 2) or len(given) != self.count:
            raise InvalidInput(
                f"contexts must be one for each of {self.count} members, (count,) or (count, d), got {given.shape}"
            )
        rows = given.reshape(self.count, -1)[members]
        return check_contexts(rows, None if self._costs is None else self._costs.dimension)

    def _allowed(self, allowed: ArrayLike | None) -> Mask:
        n = self.policy.problem.n
        given = np.ones(n, dtype=bool) if allowed is None else np.asarray(allowed)
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
) -> Any:
    """Make many independent controllers of one policy, which are asked and told together.

    Parameters
    ----------
    policy
        What decides. GP-MD with a kernel and contexts that are given, and the wind planner, are stepped in lockstep.
    count
        How many.
    seed
        Of the first member; the next ones have the numbers that follow. Or one for each.
    start, start_index
        The setting before the first round, by its value or label, or by its index; default the first one. Indices may
        be one for each member.
    like
        An array of another library, such as ``torch.empty(0, device="cuda")``: the fleet then runs in that library, on
        that device and in that precision, and is an `ArrayFleet`. For GP-MD with a kernel, listed contexts and a
        `tree_seed`.
    compiler
        What compiles its two steps, such as ``torch.compile`` or ``jax.jit``; with `like` only.

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
    number = whole_number(count, "count", 1)
    if policy.problem.in_groups:
        raise InvalidInput("a fleet takes no problem of hc.knobs(...); make a Controller for each machine")
    if isinstance(seed, str) or np.ndim(seed) == 0:
        first_seed = checked_seed(seed)
        seeds = [first_seed + k for k in range(number)]
    else:
        seeds = list(seed)  # type: ignore[arg-type]
    if len(seeds) != number:
        raise InvalidInput(f"seed must be one number, or {number} of them, got {len(seeds)}")
    checked = [checked_seed(one) for one in seeds]
    if start_index is not None and np.ndim(start_index) == 1:
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
        return ArrayFleet(policy, starts, checked, like, compiler)
    if compiler is not None:
        raise InvalidInput("compiler= is for a fleet in another library; give like= too")
    return Fleet(policy, starts, checked)
