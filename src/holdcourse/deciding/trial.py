"""A trial: two policies take turns in blocks of rounds, and the coin says who begins.

Which of them is better is then measured, not estimated; see `holdcourse.trials` for the answer. Blocks come in pairs.
In each pair the policy has one block and the baseline the other, in an order that a fair coin decides: one draw from
the run's seed for each pair, so the assignment can be proved from the record and neither arm gets more of a season.

**Both go their own way.** Each arm's rule decides in every round, as if it ran throughout, and has a place of its own;
the machine goes where the rule says whose turn it is. So an arm's movement in its own blocks, counted from its own
place, is what it would be if it ran throughout. The jump between the two places at a border is a cost of the trial and
belongs to neither.

**Each hears of the other.** An arm learns from all that is measured in its own blocks, and from a share of what is
measured in the other's, drawn round by round. Alone it would have measured in these rounds too, but elsewhere: hearing
nothing of them makes it worse in its own blocks than if it ran throughout, and hearing everything may make it better,
because the machine is in two places by turns. The share with which it comes out even is found by rehearsal, see
`holdcourse.trials.plan`.

**Operators as the baseline.** In their blocks people run the machine, and say where it was by ``applied``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite, whole_number
from holdcourse.deciding.hedge import Panel, expert_view
from holdcourse.deciding.policy import Policy, fixed_at, require_policy, stationary
from holdcourse.deciding.rules import (
    Choice,
    DemandingRule,
    Rule,
    RuleState,
    Stay,
    Turn,
    View,
    arrays_within,
    episode_begun,
    resumed,
    states_within,
    uniform,
)
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import CostModel, ExpertCosts, KnownCosts, Nothing, OptimisticCosts, can, maximises
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]

BASELINE, POLICY = 0, 1  # arms
OPERATORS = "operators"
COIN, HEARD = 17, 18  # lanes of a round's random numbers
SEED_STEP = 0x2545F4914F6CDD1D  # the baseline draws from a stream of its own


def trial(
    policy: Policy,
    baseline: Any = None,
    *,
    block: int,
    blocks: int | None = None,
    heard: float = 1.0,
    baseline_index: int | None = None,
) -> Policy:
    """Let a policy and a baseline take turns, so that the gain of the policy can be measured.

    Parameters
    ----------
    policy
        The policy to be tested, made for the machine as if it ran alone.
    baseline
        The other arm. None: staying where the run begins; or a setting, by its value or label; or another policy; or
        "operators": people run the machine in these blocks, and tell its setting as ``applied``.
    block
        Length of a block in rounds; `holdcourse.plan_trial` finds the best one.
    blocks
        Number of blocks, which is even; after them the policy runs alone. None: the trial has no end of its own.
    heard
        Share of the other arm's rounds from which an arm learns, 0 to 1. `holdcourse.plan_trial` finds the share with
        which each arm does as well in its own blocks as if it ran throughout.
    baseline_index
        Index of the baseline's setting, instead of `baseline`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> valves = hc.Problem([0.0, 0.5, 1.0])
    >>> controller = hc.Controller(hc.trial(hc.gp_md(valves), 0.5, block=2), start=0.5, seed=1)
    >>> turns = []
    >>> for _ in range(8):
    ...     decision = controller.ask(context=0.3)
    ...     turns.append(decision.turn.whose)
    ...     controller.tell(decision.id, 1.0)
    >>> turns  # doctest: +NORMALIZE_WHITESPACE
    ['policy', 'policy', 'baseline', 'baseline', 'baseline', 'baseline', 'policy', 'policy']
    """
    require_policy(policy)
    problem = policy.problem
    block = whole_number(block, "block", 1)
    if blocks is not None and whole_number(blocks, "blocks", 2) % 2:
        raise InvalidInput(f"blocks must be even, because they come in pairs, one for each arm; got {blocks}")
    if not (is_finite(heard) and 0 <= heard <= 1):
        raise InvalidInput(f"heard must be a share of the other arm's rounds, from 0 to 1, got {shown(heard)}")
    heard = float(heard)
    if policy.costs.needs_costs:
        raise InvalidInput(
            f"{policy.name} needs the true costs, which nobody knows in a trial; give a policy that learns from "
            "measurements"
        )
    other = _baseline(policy, baseline, baseline_index)
    if other is not None and other.problem.fingerprint != problem.fingerprint:
        raise InvalidInput(
            f"the baseline {other.name} and {policy.name} were made for different problems; make both for the same "
            "problem"
        )
    looks = other is not None and not _looks_at_nothing(other)
    if looks and other is not None and maximises(other.costs) != maximises(policy.costs):
        raise InvalidInput(
            f"{policy.name} and {other.name} would be told the same measurements, but one treats them as gains and the "
            "other as costs; give maximise=True to both or to neither"
        )
    costs = Panel([policy.costs, other.costs]) if looks and other is not None else policy.costs
    against = "operators" if other is None else other.name
    options: dict[str, Any] = {"policy": policy, "baseline": OPERATORS if other is None else other}
    options |= {"block": block, "heard": heard}
    if blocks is not None:
        options["blocks"] = int(blocks)
    words = (
        f"A trial: {policy.name} and {against} take turns in blocks of {block} rounds; in each pair of blocks a coin "
        f"decides which of them begins. {heard_in_words(heard)} {policy.explanation}"
    )
    return replace(
        policy,
        name=f"trial of {policy.name} against {against}",
        rule=TrialMaker(policy, other, looks, block, None if blocks is None else int(blocks), heard),
        costs=costs,
        made_by=("trial", options),
        explanation=words.strip(),
    )


def trial_of(
    problem: Problem,
    *,
    policy: Policy,
    baseline: Policy | str,
    block: int,
    blocks: int | None = None,
    heard: float = 1.0,
) -> Policy:
    """Return the trial of a recipe."""
    return trial(policy, baseline, block=block, blocks=blocks, heard=heard)


def heard_in_words(heard: float) -> str:
    """Say from which rounds an arm learns."""
    if heard == 1:
        return "Both learn from everything that is measured."
    if heard == 0:
        return "Each learns from its own blocks only."
    return f"Each learns from all of its own rounds, and from {100 * heard:.3g} % of the other's, drawn at random."


def without_trial(policy: Policy) -> Policy:
    """Return what is on trial, with all that was learned; a policy that is on none is itself."""
    if policy.made_by is None or policy.made_by[0] != "trial":
        return policy
    inner: Policy = policy.made_by[1]["policy"]
    own = isinstance(policy.rule, TrialMaker) and policy.rule.own_costs
    costs = policy.costs.models[0] if own and isinstance(policy.costs, Panel) else policy.costs
    return replace(inner, costs=costs, limits=policy.limits, units=policy.units, evidence=policy.evidence)


def _baseline(policy: Policy, baseline: Any, index: int | None) -> Policy | None:
    """The policy of the baseline; None: people."""
    if isinstance(baseline, Policy | None) and index is None:
        found = stationary(policy.problem) if baseline is None else baseline
        if found.costs.needs_costs:
            raise InvalidInput(
                f"the baseline {found.name} needs the true costs, which nobody knows in a trial; give another one"
            )
        return found
    if isinstance(baseline, Policy):
        raise InvalidInput("give baseline or baseline_index, not both")
    labels = policy.problem.labels or ()
    if isinstance(baseline, str) and baseline == OPERATORS and index is None:
        if OPERATORS in labels:
            raise InvalidInput(
                f"baseline={OPERATORS!r} means the people, but a setting has that label too; for the setting write "
                f"baseline_index={list(labels).index(OPERATORS)}"
            )
        return None
    try:
        return fixed_at(policy.problem, baseline, setting_index=index)
    except InvalidInput as error:
        raise InvalidInput(f"the baseline: {error}; it may also be {OPERATORS!r} or a Policy") from None


def _looks_at_nothing(policy: Policy) -> bool:
    """Whether a policy decides without any costs, so that no model is needed for it."""
    return isinstance(policy.costs, KnownCosts) and isinstance(policy.costs.costs_of, Nothing)


def begins(seed: int, first_round: int) -> int:
    """Return the arm that has the first block of the pair that begins in a round: a fair coin of the run's seed."""
    return POLICY if uniform(seed, first_round, COIN) < 0.5 else BASELINE


@dataclass(frozen=True, eq=False)
class TrialMaker:
    """Makes the rule of a run from the run's seed."""

    policy: Policy
    baseline: Policy | None
    own_costs: bool
    block: int
    blocks: int | None = None
    heard: float = 1.0

    @property
    def asks(self) -> tuple[type, ...]:
        """What the policy asks of the cost model; or that it knows both, where the baseline has costs of its own."""
        if self.own_costs:
            return (ExpertCosts,)
        return self.policy.rule.asks if isinstance(self.policy.rule, DemandingRule) else ()

    def rule_for(self, seed: int) -> Trial:
        """Return the rule of the run with this seed."""
        people = Stay(self.policy.problem)
        other = people if self.baseline is None else self.baseline.rule_for(_other_seed(seed))
        rules = (other, self.policy.rule_for(seed))
        terms = self.block, self.blocks, self.heard
        return Trial(self.policy.problem, rules, self.baseline is None, self.own_costs, *terms)

    def describe(self) -> dict[str, Any]:
        """Say what it makes, in JSON values."""
        other = OPERATORS if self.baseline is None else self.baseline.rule.describe()
        described = {"rule": "Trial", "block": self.block, "blocks": self.blocks, "heard": self.heard}
        return described | {"policy": self.policy.rule.describe(), "baseline": other}


@dataclass(frozen=True, eq=False)
class Trial:
    """Two rules that take turns.

    Attributes
    ----------
    rules
        The baseline's and the policy's.
    people
        The baseline are people.
    own_costs
        The baseline has costs of its own; then the cost model is `ExpertCosts`, the policy's first.
    block, blocks, heard
        As in `trial`.
    """

    problem: Problem
    rules: tuple[Rule, Rule]
    people: bool
    own_costs: bool
    block: int
    blocks: int | None = None
    heard: float = 1.0

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start both rules at the action, with a new pair of blocks."""
        states = [rule.begin(action, s, round) for rule, s in zip(self.rules, _seeds(seed), strict=True)]
        return RuleState(int(action), round, seed, self._arrays(states, round))

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Go on elsewhere: somebody moved the machine away from where the arm had it whose turn it is."""
        states = self._states(state)
        arm = self._turn(state, max(state.round - 1, int(state.arrays["first"][0])))[1]
        if self.people and arm == BASELINE:
            states[arm] = self.rules[arm].begin(int(action), states[arm].seed, state.round)
        else:
            states[arm] = resumed(self.rules[arm], states[arm], action)
        return replace(state, action=int(action), arrays=self._arrays(states, int(state.arrays["first"][0])))

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Bring both arms to the start of an episode: that is where either would begin it if it ran throughout."""
        played = state.action if at is None else at
        states = [
            episode_begun(rule, old, action, played) for rule, old in zip(self.rules, self._states(state), strict=True)
        ]
        return replace(state, action=int(action), arrays=self._arrays(states, int(state.arrays["first"][0])))

    def step(self, state: RuleState, view: View) -> Choice:
        """Let both decide; the one whose turn it is, is followed."""
        states, views = self._states(state), self._views(replace(view, at=state.action))
        number, arm = self._turn(state, state.round)
        if self.people and arm == BASELINE and state.action != states[BASELINE].action:
            # They begin where the machine is, and say where they put it.
            standing = self.rules[BASELINE].begin(state.action, states[BASELINE].seed, state.round)
        else:
            standing = states[BASELINE]
        choices = (
            self.rules[BASELINE].step(standing, views[BASELINE]),
            self.rules[POLICY].step(states[POLICY], views[POLICY]),
        )
        chosen, first = choices[arm], int(state.arrays["first"][0])
        predicted = None
        if (state.round - first) % (2 * self.block) == 0:
            predicted = self._predicted(view, choices[BASELINE].action)
        heard = self.heard == 1 or uniform(state.seed, state.round, HEARD) < self.heard
        turn = None if number is None else Turn(number, arm, states[arm].action, predicted, heard)
        arrays = self._arrays([choice.state for choice in choices], first)
        words = "" if turn is None else self._in_words(turn, state.round - first)
        said = " ".join(part for part in (words, chosen.words) if part)
        after = RuleState(chosen.action, state.round + 1, state.seed, arrays)
        return Choice(after, chosen.probabilities, said, chosen.excess, turn, chosen.prospect, chosen.restraint)

    def learn_alone(self, model: CostModel, arm: int, action: int, context: Any, measurement: float) -> float | None:
        """Let one arm alone learn a measurement; returns what weight the policy gave to it, None if it learned none.

        `model` is that of the trial.
        """
        if self.own_costs:
            assert isinstance(model, Panel)  # as `trial` made it
            weight = model.models[POLICY - arm].learn(action, context, measurement)  # the policy's stands first
            return weight if arm == POLICY else None
        return model.learn(action, context, measurement) if arm == POLICY else None

    def _turn(self, state: RuleState, round_number: int) -> tuple[int | None, int]:
        """The number of the block of a round, None after the last, and the arm that has it."""
        first = int(state.arrays["first"][0])
        number = (round_number - first) // self.block
        if self.blocks is not None and number >= self.blocks:
            return None, POLICY
        beginner = begins(state.seed, first + (number - number % 2) * self.block)
        return number, beginner if number % 2 == 0 else 1 - beginner

    def _views(self, view: View) -> tuple[View, View]:
        """The round as the baseline and as the policy sees it: the costs are the policy's."""
        if not self.own_costs or view.model is None:
            return view, view
        assert can(view.model, ExpertCosts)  # as the maker's `asks` says
        return expert_view(view, 1), replace(view, model=view.model.of_expert(0))

    def _predicted(self, view: View, action: int) -> tuple[float, float] | None:
        """What an action is expected to cost a round in the two blocks of a pair, where a forecast reaches its end."""
        ahead = np.asarray(() if view.forecast is None else view.forecast, dtype=np.float64)
        if view.context is None or len(ahead) < 2 * self.block - 1 or not can(view.model, OptimisticCosts):
            return None
        now = np.atleast_1d(view.context)
        rows = np.vstack([now, ahead.reshape(len(ahead), -1)[: 2 * self.block - 1, : len(now)]])
        costs = view.model.costs_at_optimism(rows, 0.0)[:, action].reshape(2, self.block).mean(axis=1)
        return (float(costs[0]), float(costs[1])) if np.isfinite(costs).all() else None

    def _in_words(self, turn: Turn, rounds: int) -> str:
        left = self.block - rounds % self.block
        whose = "people run the machine" if self.people and turn.arm == BASELINE else f"it is the {turn.whose}'s turn"
        for_how_long = "this round" if left == 1 else f"this round and {left - 1} more"
        return f"Trial, block {turn.block + 1}: {whose} for {for_how_long}."

    def describe(self) -> dict[str, Any]:
        """Say what the rule is, in JSON values."""
        other = OPERATORS if self.people else self.rules[BASELINE].describe()
        described = {"rule": "Trial", "block": self.block, "blocks": self.blocks, "heard": self.heard}
        return described | {"policy": self.rules[POLICY].describe(), "baseline": other}

    def _states(self, state: RuleState) -> list[RuleState]:
        return states_within(state, state.arrays["places"], _seeds(state.seed))

    def _arrays(self, states: Sequence[RuleState], first: int) -> dict[str, Array]:
        arrays = {"places": np.array([float(state.action) for state in states]), "first": np.array([float(first)])}
        return arrays | arrays_within(states)


def _seeds(seed: int) -> tuple[int, int]:
    return _other_seed(seed), seed


def _other_seed(seed: int) -> int:
    return (seed + SEED_STEP) % 2**64
