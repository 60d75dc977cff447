"""Hedging: follow whichever of several policies does well, without running back and forth between them.

Every expert is a policy with a position of its own, which it moves as if it ran alone. All experts learn from what is
measured at the machine's position. In each round, an expert is charged for what the first expert's model expects its
position to cost, and for its own move. Mirror descent on a star, whose leaves are the experts, turns these charges into
probabilities. The coupling follows them by changing experts as rarely as possible. The machine has the position of the
expert that it follows.

**What is promised.** Let w be the weight of the star's edges. Let S be the cost of the cheapest schedule of experts
in hindsight that begins with the first expert and pays `2 w` per switch. S is at most what the first expert is
charged, and at most `2 w` more than what any other expert is charged. With p the probabilities after each round, the
sum of p times the charges is at most S for every sequence of charges. The probability moved, paid at `2 w`, is of the
order of log m times S for m experts. `2 w` is at least the largest movement cost, so a change of experts costs no
more. If charges do not depend on the hedge's own draws, these sums are the expectations of what the hedge is charged
and pays for switching.

**What is not promised:** anything about true costs. Charges are the model's estimates. If the model is wrong about a
position that only one expert visits, the hedge is wrong with it. Measurements are taken at the position of the expert
followed, so what is learned depends on the draws, and an expert might have learned more if it had run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import Arrays, prefixed, under
from holdcourse.checks import is_finite
from holdcourse.deciding.policy import Policy, require_policy
from holdcourse.deciding.rules import (
    Choice,
    Rule,
    RuleState,
    View,
    arrays_within,
    episode_begun,
    resumed,
    states_within,
)
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import (
    Calibration,
    CostModel,
    Costs,
    Estimate,
    ExpertCosts,
    OptimisticCosts,
    calibration_of,
    can,
    costs_of_some,
    costs_with_optimism,
    doubted_by,
    maximises,
    noise_variance_of,
    price_of,
    tried_by,
)
from holdcourse.learning.posteriors.protocol import Told
from holdcourse.movement import mirror
from holdcourse.movement.problem import Problem
from holdcourse.movement.tree import Tree

Array: TypeAlias = NDArray[np.float64]

SEED_STEP = 0x9E3779B97F4A7C15  # experts draw from streams of their own


def hedged(policies: Sequence[Policy], *, patience: float = 4.0) -> Policy:
    """Follow whichever of several policies does well. What that promises: `holdcourse.deciding.hedge`.

    Parameters
    ----------
    policies
        The experts, all on the same problem, and all for costs or all for gains (``maximise=True``). The first one is
        followed at the beginning, and its model judges all of them, so put the most promising policy first.
    patience
        Price of changing experts, at least 1/2: the weight of an edge of the tree over the experts, in units of the
        largest movement cost. An expert that is ahead of the
        followed one by about this much is more likely to be followed; larger values change experts more rarely, and
        are better the more often the first expert is the best one (see docs/beyond.md).

    Examples
    --------
    >>> import holdcourse as hc
    >>> line = hc.Problem([0.0, 1.0, 2.0])
    >>> hc.hedged([hc.minc_known(line), hc.md_known(line)]).name
    'hedged(MinC-Known, MD-Known)'
    """
    if not isinstance(policies, Sequence) or isinstance(policies, str):
        raise InvalidInput(f"hedged takes a list of policies, got {shown(policies)}")
    if not policies:
        raise InvalidInput("hedged needs at least one policy, got none")
    for k, policy in enumerate(policies):
        require_policy(policy, f"policy {k} of a hedge")
    first, problem = policies[0], policies[0].problem
    for policy in policies[1:]:
        if policy.problem.fingerprint != problem.fingerprint:
            raise InvalidInput(
                f"{policy.name} and {first.name} were made for different problems ({policy.problem!r} and {problem!r}, "
                "which may differ in actions, metric or labels); make both for the same problem"
            )
        if maximises(policy.costs) != maximises(first.costs):
            gains, costs = (first, policy) if maximises(first.costs) else (policy, first)
            raise InvalidInput(
                f"{gains.name} maximises gains and {costs.name} minimises costs, but both would be told the same "
                "measurements; give maximise=True to all or to none"
            )
    if not (is_finite(patience) and patience >= 0.5):
        raise InvalidInput(f"patience must be at least 1/2, got {shown(patience)}")
    name = f"hedged({', '.join(policy.name for policy in policies)})"
    made_by = ("hedged", {"policies": tuple(policies), "patience": float(patience)})
    maker, panel = HedgedMaker(tuple(policies), float(patience)), Panel([p.costs for p in policies])
    return Policy(name, maker, panel, problem, made_by)


@dataclass(frozen=True, eq=False)
class HedgedMaker:
    """Makes the rule of a run from the run's seed."""

    policies: tuple[Policy, ...]
    patience: float

    @property
    def asks(self) -> tuple[type, ...]:
        """The cost model must know the experts' own."""
        return (ExpertCosts,)

    def rule_for(self, seed: int) -> Hedged:
        """Return the rule of the run with this seed."""
        problem, m = self.policies[0].problem, len(self.policies)
        rules = tuple(policy.rule_for(_seed_of(seed, j)) for j, policy in enumerate(self.policies))
        weight = self.patience * problem.diameter or 1.0
        star = Tree([-1], [0.0]) if m == 1 else Tree([m] * m + [-1], [weight] * m + [0.0])
        return Hedged(problem, rules, star, tuple(policy.name for policy in self.policies))

    def describe(self) -> dict[str, Any]:
        """Return what it makes, in JSON values."""
        experts = [policy.rule.describe() for policy in self.policies]
        return {"rule": "Hedged", "patience": self.patience, "experts": experts}


@dataclass(frozen=True, eq=False)
class Hedged:
    """Mirror descent over experts, whose models stand in a cost model that is `ExpertCosts`, such as a `Panel`."""

    problem: Problem
    experts: tuple[Rule, ...]
    star: Tree
    names: tuple[str, ...] = ()

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start with all experts at the action, following the first one."""
        states = [rule.begin(action, _seed_of(seed, j), round) for j, rule in enumerate(self.experts)]
        q = mirror.start(self.star, 0)
        return RuleState(int(action), round, seed, self._arrays((q, 0), (q, 0), states))

    def step(self, state: RuleState, view: View) -> Choice:
        """Let every expert decide, charge them, and follow."""
        states = self._states(state)
        view = replace(view, at=state.action if view.at is None else view.at)
        choices = [rule.step(states[j], expert_view(view, j)) for j, rule in enumerate(self.experts)]
        expected = self._expected(view)
        moves = [
            float(self.problem.move_costs(np.array([old.action]), np.array([choice.action]))[0])
            for old, choice in zip(states, choices, strict=True)
        ]
        # What a trial costs is nobody's charge: all experts learn from it.
        charges = np.array(
            [expected[choice.action] + move - choice.excess for choice, move in zip(choices, moves, strict=True)]
        )
        last = state.arrays["q"], int(state.arrays["followed"][0])
        followed, q, weights = mirror.step(self.star, *last, charges, state.uniform())
        # Given which expert is followed, what it does may be random too: the mixture is what each action had.
        probabilities = np.asarray(weights @ np.array([choice.probabilities for choice in choices]))
        probabilities /= probabilities.sum()
        arrays = self._arrays((q, followed), last, [choice.state for choice in choices])
        trial = next((choice for choice in choices if choice.excess > 0), None)
        if trial is not None:  # whoever is followed: all learn from it
            state = RuleState(trial.action, state.round + 1, state.seed, arrays)
            return Choice(state, trial.probabilities, self._in_words(followed, weights, trial.words), trial.excess)
        state = RuleState(choices[followed].action, state.round + 1, state.seed, arrays)
        chosen = choices[followed]
        words = self._in_words(followed, weights, chosen.words)
        return Choice(state, probabilities, words, prospect=chosen.prospect, restraint=chosen.restraint)

    def _in_words(self, followed: int, weights: Array, said: str) -> str:
        """Return which expert is followed, how much weight each has, and what the followed one says itself."""
        if len(self.names) < 2:
            return said
        shares = ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in zip(self.names, weights, strict=True))
        return f"It follows {self.names[followed]} (weights: {shares}). {said}".strip()

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Move all experts there, with what they know: somebody moved us. The last round is charged to nobody."""
        a, before = state.arrays, self._states(state)
        states = [resumed(rule, old, action) for rule, old in zip(self.experts, before, strict=True)]
        last = a["last_q"], int(a["last_followed"][0])
        kept = last if action != state.action else (a["q"], int(a["followed"][0]))
        return replace(state, action=int(action), arrays=self._arrays(kept, last, states))

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Bring all experts to the start of an episode, with what they know; the last round stays charged."""
        a, played = state.arrays, state.action if at is None else at
        states = [
            episode_begun(rule, old, action, played)
            for rule, old in zip(self.experts, self._states(state), strict=True)
        ]
        now = a["q"], int(a["followed"][0])
        return replace(state, action=int(action), arrays=self._arrays(now, now, states))

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        weight = float(self.star.weight[0])
        return {"rule": "Hedged", "weight": weight, "experts": [rule.describe() for rule in self.experts]}

    @property
    def asks(self) -> tuple[type, ...]:
        """The cost model must know the experts' own."""
        return (ExpertCosts,)

    def _expected(self, view: View) -> Array:
        """Return what the first expert's model expects of every action."""
        if view.model is None:
            return view.costs
        assert can(view.model, ExpertCosts)
        expected = view.model.expected_at([_vector(view.context)])
        return view.costs if expected is None else np.asarray(expected[0])

    def _states(self, state: RuleState) -> list[RuleState]:
        seeds = [_seed_of(state.seed, j) for j in range(len(self.experts))]
        return states_within(state, state.arrays["positions"], seeds)

    def _arrays(self, now: tuple[Array, int], last: tuple[Array, int], states: Sequence[RuleState]) -> dict[str, Array]:
        arrays = {"q": now[0], "followed": np.array([float(now[1])])}
        arrays |= {"last_q": last[0], "last_followed": np.array([float(last[1])])}
        arrays["positions"] = np.array([float(state.action) for state in states])
        return arrays | arrays_within(states)


class Panel:
    """The experts' cost models side by side; what the outside sees is the first one's.

    Parameters
    ----------
    models
        Each learns everything that is measured.
    seats
        For each expert the model that it looks at and how much of that model's optimism it shares, so that experts who
        differ in nothing else need not learn the same twice. Default: a model for each expert.
    """

    def __init__(self, models: Sequence[CostModel], seats: Sequence[tuple[int, float]] | None = None) -> None:
        self.models = list(models)
        self.seats = [(j, 1.0) for j in range(len(self.models))] if seats is None else list(seats)
        for place, share in self.seats:
            if share != 1.0 and not isinstance(self.models[place], OptimisticCosts):
                raise InvalidInput(
                    f"{type(self.models[place]).__name__} has no costs_at_optimism, so an expert cannot share only "
                    f"{share:g} of its optimism; give a share of 1"
                )

    @property
    def needs_costs(self) -> bool:
        """Whether any of them must be shown the true costs."""
        return any(model.needs_costs for model in self.models)

    @property
    def maximise(self) -> bool:
        """Whether the first one learns gains."""
        return maximises(self.models[0])

    @property
    def noise_variance(self) -> float | None:
        """How noisy the first one believes measurements to be."""
        return noise_variance_of(self.models[0])

    def calibration(self) -> Calibration | None:
        """How the first one stands to what it was told."""
        return calibration_of(self.models[0])

    def price(self) -> Callable[[float], float] | None:
        """Say how a cost follows from what the first one is told."""
        return price_of(self.models[0])

    def tried(self) -> frozenset[int] | None:
        """Actions of which the first one was told."""
        return tried_by(self.models[0])

    def doubted(self) -> frozenset[Told] | None:
        """Measurements that the first one does not believe."""
        return doubted_by(self.models[0])

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Return what the first model says; if another one must be shown the costs, those are what counts."""
        judge = next((model for model in self.models if model.needs_costs), self.models[0])
        return judge.estimate(context, shown if judge.needs_costs else None)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Return the costs by the first expert's model."""
        return self._seat(0).costs_at(contexts)

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Return the costs by the first expert's model, at another optimism."""
        place, share = self.seats[0]
        return costs_with_optimism(self.models[place], contexts, optimism * share)

    def costs_of(self, contexts: ArrayLike, actions: NDArray[np.int64], optimism: float) -> Array:
        """Return the costs of some actions by the first expert's model, at an optimism."""
        place, share = self.seats[0]
        return costs_of_some(self.models[place], contexts, actions, optimism * share)

    def of_expert(self, expert: int) -> Costs | None:
        """Return the costs as an expert sees them; None if its model must be shown them."""
        return None if self.models[self.seats[expert][0]].needs_costs else self._seat(expert)

    def expected_at(self, contexts: ArrayLike) -> Array | None:
        """Return what the first expert's model expects; None if it must be shown the costs."""
        judge = self.models[self.seats[0][0]]
        return None if judge.needs_costs else costs_with_optimism(judge, contexts, 0.0)

    def _seat(self, expert: int) -> Costs:
        place, share = self.seats[expert]
        model = self.models[place]
        if share == 1.0:
            return model
        assert can(model, OptimisticCosts)  # checked when the panel was made
        return LessOptimistic(model, share)

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Let all models learn; the weight returned is the first one's."""
        weights = [model.learn(action, context, measurement) for model in self.models]
        return weights[0]

    def new_episode(self) -> None:
        """Tell all models that an episode has ended."""
        for model in self.models:
            model.new_episode()

    def copy(self) -> Panel:
        """Make an independent twin."""
        return Panel([model.copy() for model in self.models], self.seats)

    def state(self) -> Arrays:
        """Return everything learned, as arrays."""
        arrays: Arrays = {}
        for j, model in enumerate(self.models):
            arrays |= prefixed(f"{j}.", model.state())
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Panel:
        """Take over what `state` of an equal panel gave."""
        for j, model in enumerate(self.models):
            model.restore(under(f"{j}.", arrays))
        return self

    def describe(self) -> dict[str, Any]:
        """Return what the models are, in JSON values."""
        seats = [list(seat) for seat in self.seats]
        return {"model": "Panel", "models": [model.describe() for model in self.models], "seats": seats}


@dataclass(frozen=True, eq=False)
class LessOptimistic:
    """The costs of a model, with a share of its optimism."""

    model: OptimisticCosts
    share: float

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Return the costs with the share of the optimism."""
        return self.model.costs_at_optimism(contexts, self.share)

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Return the costs with `optimism` times the share."""
        return self.model.costs_at_optimism(contexts, optimism * self.share)

    def costs_of(self, contexts: ArrayLike, actions: NDArray[np.int64], optimism: float) -> Array:
        """Return the costs of some actions with `optimism` times the share."""
        return costs_of_some(self.model, contexts, actions, optimism * self.share)


def expert_view(view: View, expert: int) -> View:
    """The round as one of the experts of a model that is `ExpertCosts` sees it: by its own costs."""
    if view.model is None:
        return view
    assert can(view.model, ExpertCosts)  # as the rule's `asks` says
    own = view.model.of_expert(expert)
    if own is None:  # a model that must be shown the costs: they are the ones in the view
        return replace(view, model=None)
    costs = np.where(view.allowed, own.costs_at([_vector(view.context)])[0], np.inf)
    allowed = np.isfinite(costs)
    if not allowed.any():
        return view
    return View(costs, view.context, allowed, view.forecast, own, view.at)


def _vector(context: Any) -> Any:
    return () if context is None else np.atleast_1d(context)


def _seed_of(seed: int, expert: int) -> int:
    return (seed + (expert + 1) * SEED_STEP) % 2**64
