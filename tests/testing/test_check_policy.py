"""Every public policy passes `check_policy`, and broken ones do not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.deciding.rules import Choice, Greedy, RuleState, WorkFunction
from holdcourse.learning.costs import KnownCosts

PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 9))
CONTEXTS = np.linspace(0.0, 2.0, 30)
LEARNING = {"kernel": hc.Kernel(RBF(0.3), RBF(0.5)), "noise_std": 0.1, "prior_mean": 0.5}
PAST = hc.History([0, 3, 3, 8], [0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.9])

POLICIES = {
    "gp_md": lambda: hc.gp_md(PROBLEM, **LEARNING),
    "gp_md, flat": lambda: hc.gp_md(PROBLEM, **LEARNING, context_bounds=(0, 2)),
    "gp_md, temporal": lambda: hc.gp_md(
        PROBLEM, kernel=hc.Kernel(RBF(0.3), Matern(0.5, nu=1.5)), noise_std=0.1, method="temporal"
    ),
    "gp_md, auto": lambda: hc.gp_md(PROBLEM),
    "gp_md, frozen in episodes": lambda: hc.gp_md(PROBLEM, **LEARNING, every="episode"),
    "gp_md, history and guard": lambda: hc.gp_md(
        PROBLEM, **LEARNING, history=PAST, guard=hc.OutlierGuard(3.0), maximise=True
    ),
    "gp_md, theory": lambda: hc.gp_md(PROBLEM, **LEARNING, width=hc.TheoryWidth(1.0)),
    "cgp_lcb": lambda: hc.cgp_lcb(PROBLEM, **LEARNING),
    "proximal_lcb": lambda: hc.proximal_lcb(PROBLEM, **LEARNING, weight=0.5),
    "md_known": lambda: hc.md_known(PROBLEM),
    "minc_known": lambda: hc.minc_known(PROBLEM),
    "stationary": lambda: hc.stationary(PROBLEM),
    "fixed": lambda: hc.fixed(PROBLEM, PAST),
    "work function": lambda: hc.Policy("WFA", WorkFunction(PROBLEM), KnownCosts(PROBLEM), PROBLEM),
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_public_policy_passes(name):
    hc.testing.check_policy(POLICIES[name], CONTEXTS, start=4, seed=3)


@dataclass(frozen=True, eq=False)
class Forgetful(Greedy):
    """Decides by a coin that nobody saves."""

    def step(self, state, view):
        choice = super().step(state, view)
        action = int(np.random.default_rng().choice(np.flatnonzero(view.allowed)))
        p = np.zeros(self.problem.n)
        p[action] = 1.0
        return Choice(replace(choice.state, action=action), p)


@dataclass(frozen=True, eq=False)
class Deaf(Greedy):
    """Does not hear what is allowed."""

    def step(self, state, view):
        p = np.zeros(self.problem.n)
        p[2] = 1.0
        return Choice(replace(state, action=2, round=state.round + 1), p)


@dataclass(frozen=True, eq=False)
class Hoarder(Greedy):
    """Keeps everything it ever saw, many times over."""

    def step(self, state, view):
        choice = super().step(state, view)
        kept = state.arrays.get("kept", np.zeros(1000))
        return Choice(
            replace(choice.state, arrays={"kept": np.concatenate([kept, kept[: 10**6]])}), choice.probabilities
        )


@dataclass(frozen=True, eq=False)
class Improbable(Greedy):
    """Its probabilities sum to 2."""

    def step(self, state, view):
        choice = super().step(state, view)
        return Choice(choice.state, 2 * choice.probabilities)


class Stateful(Greedy):
    """Remembers in itself instead of in its state."""

    def step(self, state: RuleState, view):
        object.__setattr__(self, "count", getattr(self, "count", 0) + 1)
        allowed = np.flatnonzero(view.allowed)
        action = int(allowed[self.count % len(allowed)])
        p = np.zeros(self.problem.n)
        p[action] = 1.0
        return Choice(replace(state, action=action, round=state.round + 1), p)


class Restless(Greedy):
    """Counts the start of an episode as a round."""

    def begin_episode(self, state, action, at=None):
        return replace(state, action=action, round=state.round + 1)


class Careless(Greedy):
    """Changes the state that it is given."""

    def begin(self, action, seed, round=0):  # noqa: A002
        return RuleState(action, round, seed, {"count": np.zeros(1)})

    def step(self, state, view):
        state.arrays["count"] += 1.0
        choice = super().step(state, view)
        return Choice(replace(choice.state, arrays=state.arrays), choice.probabilities)


class Timeless(Greedy):
    """Forgets to count the round, so that every round draws the same random number."""

    def step(self, state, view):
        choice = super().step(state, view)
        return Choice(replace(choice.state, round=state.round), choice.probabilities)


class Bare(Greedy):
    """Returns the action alone."""

    def step(self, state, view):
        return 3


class Lost(Greedy):
    """Names an action that there is not."""

    def step(self, state, view):
        choice = super().step(state, view)
        return Choice(replace(choice.state, action=17), choice.probabilities)


class Seedless(Greedy):
    """Forgets the seed when it begins."""

    def begin(self, action, seed, round=0):  # noqa: A002
        return RuleState(action, round, 0, {})


class Reseeding(Greedy):
    """Forgets the seed in a step."""

    def step(self, state, view):
        choice = super().step(state, view)
        return Choice(replace(choice.state, seed=0), choice.probabilities)


class Short(Greedy):
    """Cannot begin in the middle of a run."""

    def begin(self, action, seed):
        return RuleState(action, 0, seed, {})


class Wordless(Greedy):
    """Begins with the numbers alone."""

    def begin(self, action, seed, round=0):  # noqa: A002
        return action, round, seed


class Immovable(Greedy):
    """Stays where it was when somebody else moved the machine."""

    def resume(self, state, action):
        return state


class Listing(Greedy):
    """Keeps a list instead of an array."""

    def step(self, state, view):
        choice = super().step(state, view)
        return Choice(replace(choice.state, arrays={"seen": [1.0]}), choice.probabilities)


class Vandal(Greedy):
    """Changes the view that it is given."""

    def step(self, state, view):
        view.costs[~view.allowed] = 1e9
        return super().step(state, view)


class Curt(Greedy):
    """States one probability for all actions."""

    def step(self, state, view):
        return Choice(super().step(state, view).state, np.ones(1))


class Contrary(Greedy):
    """Chooses what it calls impossible."""

    def step(self, state, view):
        choice = super().step(state, view)
        likely = np.flatnonzero(view.allowed)[-1]
        action = int(np.flatnonzero(view.allowed)[0])
        return Choice(replace(choice.state, action=action), np.eye(self.problem.n)[likely])


class Insincere(Greedy):
    """Says that it draws any action, but always takes the cheapest one."""

    def step(self, state, view):
        return Choice(super().step(state, view).state, view.allowed / view.allowed.sum())


class Silent(Greedy):
    """Describes itself by nothing."""

    def describe(self):
        return None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Seedless, r"begin was given action 0, round 0 and seed 4, .* it has action 0, round 0 and seed 0"),
        (Reseeding, "has the seed 0, but must keep the seed of the run, 4"),
        (Short, r"begin\(action, seed, round\) failed: .* takes 3 positional arguments but 4 were given"),
        (Wordless, r"begin must return a RuleState, got \(0, 0, 4\)"),
        (Immovable, "resume was given action 1, round 3 .* it has action 0"),
        (Listing, "must consist of numpy arrays of numbers, but 'seen' of the state in the Choice is"),
        (Vandal, r"step changed view.costs; change a copy instead: view.costs.copy\(\)"),
        (Curt, r"an array of shape \(9,\) that sums to 1, got array\(\[1.\]\)"),
        (Contrary, "its probabilities say that this action could not be drawn"),
        (Insincere, r"with 64 seeds the rule chose action \d 64 times, but by its probabilities it would be"),
        (Silent, "must return a dictionary, such as {'rule': 'Mine'}, got None"),
        (Careless, "step changed 'count' in the state that it was given"),
        (Timeless, "every round draws the same random number"),
        (Bare, "step must return a Choice, got 3 in round 0"),
        (Lost, "the action 17, which is not an index from 0 to 8"),
        (Forgetful, "differs"),
        (Deaf, r"are allowed, but the rule gave a probability to \[2\]"),
        (Hoarder, "keep it bounded"),
        (Improbable, "must be a distribution"),
        (Stateful, "resumed at round"),
        (Restless, "an episode that begins at action 0 must go on from round 3 there"),
    ],
)
def test_broken_policies_are_caught(rule, message):
    def factory():
        return hc.Policy("broken", rule(PROBLEM), KnownCosts(PROBLEM), PROBLEM)

    with pytest.raises(AssertionError, match=message):
        hc.testing.check_policy(factory, CONTEXTS[:14] if rule is Hoarder else CONTEXTS, seed=3)


def test_a_description_that_varies_is_caught():
    class Varying(Greedy):
        def describe(self):
            return {"rule": str(id(self))}

    kept = []

    def factory():
        kept.append(hc.Policy("varying", Varying(PROBLEM), KnownCosts(PROBLEM), PROBLEM))
        return kept[-1]

    with pytest.raises(AssertionError, match="different fingerprints"):
        hc.testing.check_policy(factory, CONTEXTS)


def test_a_rule_of_another_problem_is_caught():
    other = hc.Problem(2.0 * np.arange(PROBLEM.n))
    with pytest.raises(
        AssertionError, match=r"the rule was made for Problem\(9 actions.* the policy is for Problem\(9"
    ):
        hc.testing.check_policy(lambda: hc.Policy("mixed", Greedy(other), KnownCosts(PROBLEM), PROBLEM), CONTEXTS)


def test_too_few_contexts():
    with pytest.raises(AssertionError, match="at least 12 contexts, got 3"):
        hc.testing.check_policy(POLICIES["stationary"], [0.0, 1.0, 2.0])


def test_a_policy_instead_of_a_function_that_makes_it():
    with pytest.raises(AssertionError, match="give a function that makes the policy"):
        hc.testing.check_policy(hc.stationary(PROBLEM), CONTEXTS)


def test_a_rule_instead_of_a_policy():
    with pytest.raises(AssertionError, match=r"must return a Policy, such as hc.Policy\(name, rule, costs, problem\)"):
        hc.testing.check_policy(lambda: Greedy(PROBLEM), CONTEXTS)


def test_a_rule_that_ignores_the_mask_is_caught_whatever_the_seed():
    three = hc.Problem([0.0, 0.5, 1.0])

    class AlwaysFirst(Greedy):
        def step(self, state, view):
            return Choice(replace(state, action=0, round=state.round + 1), np.eye(3)[0])

    for seed in range(20):
        with pytest.raises(
            AssertionError, match=r"only the actions .* are allowed, but the rule gave a probability to \[0\]"
        ):
            hc.testing.check_policy(
                lambda: hc.Policy("first", AlwaysFirst(three), KnownCosts(three), three), CONTEXTS[:12], seed=seed
            )


def test_an_action_may_be_an_integer_of_numpy(tmp_path):
    class Argmin(Greedy):
        def step(self, state, view):
            action = np.argmin(view.costs)
            return Choice(replace(state, action=action, round=state.round + 1), np.eye(self.problem.n)[action])

    def factory():
        return hc.Policy("argmin", Argmin(PROBLEM), KnownCosts(PROBLEM), PROBLEM)

    hc.testing.check_policy(factory, CONTEXTS)
    with hc.Controller(factory(), log=tmp_path / "argmin.log") as controller:
        assert type(controller.ask(costs=np.arange(9.0)[::-1]).action) is int


@pytest.mark.parametrize("costs", [None, lambda context: context, KnownCosts])
def test_a_policy_without_a_cost_model_is_refused(costs):
    with pytest.raises(hc.errors.InvalidInput, match="costs must be a cost model, such as hc"):
        hc.Policy("mine", Greedy(PROBLEM), costs, PROBLEM)


@pytest.mark.parametrize("rule", [None, Greedy, KnownCosts(PROBLEM)])
def test_a_policy_without_a_rule_is_refused(rule):
    with pytest.raises(hc.errors.InvalidInput, match="rule must be a rule, such as hc"):
        hc.Policy("mine", rule, KnownCosts(PROBLEM), PROBLEM)
