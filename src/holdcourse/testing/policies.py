"""Check that a policy keeps what a controller promises its operator."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import is_whole
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import Choice, Rule, RuleState, episode_begun, resumed
from holdcourse.errors import HoldcourseError
from holdcourse.learning.costs import CostModel
from holdcourse.learning.history import check_contexts
from holdcourse.movement.knobs import Knobs
from holdcourse.movement.problem import Problem
from holdcourse.running.controller import Controller
from holdcourse.running.decision import Decision

Array: TypeAlias = NDArray[np.float64]

FASTEST_GROWTH = 4.5  # of the saved state when the rounds double: an exact posterior holds a triangle of all its data
DRAWS = 64  # of the first round, to compare how often an action is drawn with its probability
IMPROBABLE = 6.0  # deviations: chance alone does not take frequencies that far from the probabilities


def check_policy(factory: Callable[[], Policy], contexts: ArrayLike, *, start: int = 0, seed: int = 0) -> None:
    """Check that a policy is fit for a `Controller`.

    - Rule and cost model have what their protocols declare, and equal policies have equal fingerprints.
    - `begin` and `resume` return a state at the action that they are given, with the round and the seed of the run.
    - `step` returns a `Choice`, advances the count of rounds by one, and changes neither the state nor the view that it
      is given. The state consists of arrays.
    - The probabilities are a distribution, and actions are drawn from it.
    - The same seed gives the same decisions. A run that is saved and loaded at a random round continues bit for bit.
    - No forbidden action is chosen or has any probability, even if exactly the action that the rule would choose is
      forbidden. Wrong input raises an error and changes nothing.
    - A new episode begins at its start, and the count of rounds continues.
    - The saved state does not grow faster than that of an exact posterior.

    Parameters
    ----------
    factory
        Function that makes a new policy each time it is called.
    contexts
        Contexts of the rounds to be played, at least 12, in order; shape (T,) or (T, d).
    start, seed
        First action, and seed, of the controllers. The seed also determines the masks, costs and measurements.

    Raises
    ------
    AssertionError
        The first check that failed: what differs, and in which round.
    """
    if not callable(factory):
        raise AssertionError(
            f"give a function that makes the policy, such as lambda: hc.gp_md(problem), not the policy itself: "
            f"got {factory!r}"
        )
    made: Any = factory()  # somebody wrote it
    if not isinstance(made, Policy):
        raise AssertionError(
            f"the function must return a Policy, such as hc.Policy(name, rule, costs, problem), but returned {made!r}"
        )
    rounds = _Rounds(factory, check_contexts(contexts, None), seed)
    if len(rounds) < 12:
        raise AssertionError(f"the check needs at least 12 contexts, got {len(rounds)}")
    _check_identity(factory)
    # With another seed than the default: a rule that forgets the seed has 0.
    _check_begin(factory(), start, seed + 1)
    _check_step(factory(), rounds, start, seed + 1)
    _check_draws(factory(), rounds, start, seed + 1)
    whole, size_halfway, size_at_end = rounds.play(Controller(factory(), start_index=start, seed=seed))
    _check_decisions(whole, rounds)
    again, _, _ = rounds.play(Controller(factory(), start_index=start, seed=seed))
    _check_same(whole, again, "a second run with the same seed")
    _check_resume(factory, rounds, whole, start, seed)
    _check_episode(factory(), start, seed)
    _check_bad_input(factory(), rounds, start, seed)
    if size_at_end > FASTEST_GROWTH * size_halfway:
        raise AssertionError(
            f"the saved state grew from {size_halfway} to {size_at_end} bytes while the rounds doubled; keep it bounded"
        )


class _Rounds:
    """The same questions and answers for every run of the check."""

    def __init__(self, factory: Callable[[], Policy], contexts: Array, seed: int) -> None:
        policy = factory()
        self.problem = policy.problem
        n = policy.problem.entries
        self.contexts = contexts
        random = np.random.default_rng(seed)
        self.masks = random.random((len(contexts), n)) < 0.7
        for part in policy.problem.parts:
            some = part.start + random.integers(part.stop - part.start, size=len(contexts))
            self.masks[np.arange(len(contexts)), some] = True
        self.costs = random.random((len(contexts), n))
        self.shown = policy.costs.needs_costs

    def __len__(self) -> int:
        return len(self.contexts)

    def question(self, t: int) -> dict[str, Any]:
        """The arguments of `ask` in round t; every third round has a mask."""
        asked: dict[str, Any] = {"context": self.contexts[t].tolist()}
        if t % 3 == 0:
            asked["allowed"] = self.masks[t]
        if self.shown:
            asked["costs"] = self.costs[t]
        return asked

    def play(self, controller: Controller, upto: int | None = None) -> tuple[list[Decision], int, int]:
        """Ask and tell to the end, or before round `upto`; the decisions, and sizes saved halfway and at the end."""
        decisions, halfway = [], 0
        for t in range(controller.round, len(self) if upto is None else upto):
            if t == len(self) // 2:
                halfway = len(_saved(controller))
            decision = controller.ask(**self.question(t))
            decisions.append(decision)
            skipped = t % 7 == 5
            controller.tell(decision.id, None if skipped else self.problem.read(self.costs[t], decision.action))
        return decisions, halfway, len(_saved(controller))


def _check_identity(factory: Callable[[], Policy]) -> None:
    one, other = factory(), factory()
    rule, costs = one.rule_for(0), one.costs  # of whatever types: somebody wrote them
    for part, protocol in ((rule, Rule), (costs, CostModel)):
        if not isinstance(part, protocol):
            names = [name for name in dir(protocol) if not name.startswith("_")]
            missing = [name for name in names if not hasattr(part, name)]
            raise AssertionError(f"a {protocol.__name__} has {', '.join(names)}; {part!r} has no {missing[0]}")
    if rule.problem.fingerprint != one.problem.fingerprint:
        raise AssertionError(f"the rule was made for {rule.problem!r}, but the policy is for {one.problem!r}")
    for described in (one.rule.describe(), one.costs.describe()):
        if not isinstance(described, dict):
            raise AssertionError(f"describe() must return a dictionary, such as {{'rule': 'Mine'}}, got {described!r}")
        try:
            json.dumps(described)
        except TypeError as error:
            raise AssertionError(f"describe() must return JSON values only, got {described!r}: {error}") from None
    if one.fingerprint != other.fingerprint:
        raise AssertionError("two policies of the same factory have different fingerprints; describe() must not vary")


def _check_begin(policy: Policy, start: int, seed: int) -> None:
    """Check the states with which a rule starts, starts again, and continues elsewhere."""
    rule: Any = policy.rule_for(seed)  # somebody wrote it
    for count in (0, 3):
        try:
            begun = rule.begin(start, seed, count)
        except TypeError as error:
            raise AssertionError(f"begin(action, seed, round) failed: {error}") from error
        _require_at(begun, start, count, seed, "begin")
        _require_arrays(begun, "begin")
    other = (start + 1) % policy.problem.n
    _require_at(resumed(rule, rule.begin(start, seed, 3), other), other, 3, seed, "resume")


def _require_at(state: Any, action: int, count: int, seed: int, what: str) -> None:
    """Require a state at an action, with a count of rounds and a seed."""
    if not isinstance(state, RuleState):
        raise AssertionError(f"{what} must return a RuleState, got {state!r}")
    if (state.action, state.round, state.seed) != (action, count, seed):
        raise AssertionError(
            f"{what} was given action {action}, round {count} and seed {seed}, and must return a state that has them; "
            f"it has action {state.action}, round {state.round} and seed {state.seed}"
        )


def _require_arrays(state: RuleState, what: str) -> None:
    """Require that a state can be saved, and is the same when it is read again."""
    for name, array in state.arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise AssertionError(
                f"the state of a rule must consist of numpy arrays of numbers, but {name!r} of {what} is {array!r}"
            )


def _check_step(policy: Policy, rounds: _Rounds, start: int, seed: int) -> None:
    """Check what a `step` returns, and that it leaves what it was given as it was."""
    pilot = Pilot(policy, start, seed)
    for t in range(4):
        asked = rounds.question(t)
        allowed = asked.get("allowed")
        _, view = pilot.look(asked["context"], allowed, None, asked.get("costs"))
        state = pilot.state
        kept = {name: np.array(array) for name, array in state.arrays.items()}
        costs, permitted = view.costs.copy(), view.allowed.copy()
        choice: Any = pilot.rule.step(state, view)  # somebody wrote it
        if not isinstance(choice, Choice):
            raise AssertionError(f"step must return a Choice, got {choice!r} in round {t}")
        if not (is_whole(choice.action) and 0 <= choice.action < policy.problem.n):
            raise AssertionError(
                f"round {t}: the state in the Choice has the action {choice.action!r}, which is not an index from 0 to "
                f"{policy.problem.n - 1}"
            )
        if choice.state.round != state.round + 1:
            raise AssertionError(
                f"round {t}: the state in the Choice has the round {choice.state.round}, but must have "
                f"{state.round + 1}, one more than the state that step was given; otherwise every round draws the "
                "same random number"
            )
        if choice.state.seed != state.seed:
            raise AssertionError(
                f"round {t}: the state in the Choice has the seed {choice.state.seed}, but must keep the seed of the "
                f"run, {state.seed}"
            )
        _require_distribution(choice.probabilities, rounds, t)
        if not (choice.probabilities[_entries(rounds.problem, choice.action)] > 0).all():
            raise AssertionError(
                f"round {t}: the rule chose action {choice.action}, but its probabilities say that this action could "
                f"not be drawn: {choice.probabilities!r}"
            )
        _require_arrays(choice.state, "the state in the Choice")
        for name, now, before in (("costs", view.costs, costs), ("allowed", view.allowed, permitted)):
            if not np.array_equal(now, before, equal_nan=name == "costs"):
                raise AssertionError(f"round {t}: step changed view.{name}; change a copy instead: view.{name}.copy()")
        for name, array in kept.items():
            if not np.array_equal(array, state.arrays[name], equal_nan=array.dtype.kind == "f"):
                raise AssertionError(
                    f"round {t}: step changed {name!r} in the state that it was given; return a new array instead, "
                    "because step may be called twice for one round"
                )
        _check_choice_forbidden(pilot, choice, rounds, t)
        pilot.accept(choice)
        pilot.learn(choice.action, asked["context"], rounds.problem.read(rounds.costs[t], choice.action), choice.turn)


def _entries(problem: Problem, action: int) -> Any:
    """Return which entries of the probabilities stand for an action."""
    return problem.entries_of(action)[0] if isinstance(problem, Knobs) else [action]


def _require_distribution(p: Any, rounds: _Rounds, t: int) -> None:
    """Require a probability for each action."""
    whole = isinstance(p, np.ndarray) and p.shape == rounds.masks[t].shape and p.dtype.kind == "f"
    sums = np.array([p[part].sum() for part in rounds.problem.parts]) if whole else np.zeros(1)
    if not (whole and (p >= 0).all() and np.abs(sums - 1).max() <= 1e-9):
        raise AssertionError(
            f"round {t}: probabilities must be a distribution over the actions, an array of shape "
            f"({rounds.masks.shape[1]},) that sums to 1, got {p!r}"
        )


def _check_draws(policy: Policy, rounds: _Rounds, start: int, seed: int) -> None:
    """Check that a rule which draws its action does so with the probabilities that it states, in the first round."""
    pilot = Pilot(policy, start, seed)
    asked = rounds.question(0)
    _, view = pilot.look(asked["context"], asked.get("allowed"), None, asked.get("costs"))
    drawn, expected, variance = (np.zeros(rounds.masks.shape[1]) for _ in range(3))
    for k in range(DRAWS):
        choice = pilot.rule.step(replace(pilot.state, seed=seed + k), view)
        drawn[_entries(rounds.problem, choice.action)] += 1.0
        expected += choice.probabilities
        variance += choice.probabilities * (1.0 - choice.probabilities)
        if k == 0 and not variance.any():
            return  # nothing is drawn
    excess = np.abs(drawn - expected) / (1.0 + IMPROBABLE * np.sqrt(np.maximum(variance, 0.0)))
    if excess.max() > 1.0:
        action = int(np.argmax(excess))
        raise AssertionError(
            f"round 0: with {DRAWS} seeds the rule chose action {action} {drawn[action]:.0f} times, but by its "
            f"probabilities it would be {expected[action]:.1f} times; draw the action with state.uniform() from the "
            "probabilities that the Choice states"
        )


def _check_choice_forbidden(pilot: Pilot, choice: Choice, rounds: _Rounds, t: int) -> None:
    """Check that the rule takes another action if exactly the one that it chose is forbidden."""
    asked, problem = rounds.question(t), rounds.problem
    mask = np.ones(problem.entries, dtype=bool) if asked.get("allowed") is None else asked["allowed"].copy()
    mask[_entries(problem, choice.action)] = False
    if not problem.any_permitted(mask):
        return
    _, view = pilot.look(asked["context"], mask, None, asked.get("costs"))
    instead = pilot.rule.step(pilot.state, view)
    _require_allowed(problem, mask, instead.action, instead.probabilities, t)


def _require_allowed(problem: Problem, mask: NDArray[np.bool_], action: int, p: Array, t: int) -> None:
    if not problem.permits(mask, action) or p[~mask].any():
        likely = np.flatnonzero(~mask & (p > 0)).tolist()
        raise AssertionError(
            f"round {t}: only the actions {np.flatnonzero(mask).tolist()} are allowed, but the rule gave a probability "
            f"to {likely or [action]}; leave out what view.allowed forbids"
        )


def _check_decisions(decisions: list[Decision], rounds: _Rounds) -> None:
    for t, decision in enumerate(decisions):
        _require_distribution(decision.probabilities, rounds, t)
        if t % 3 == 0:
            _require_allowed(rounds.problem, rounds.masks[t], decision.action, decision.probabilities, t)


def _check_same(decisions: list[Decision], others: list[Decision], what: str) -> None:
    for one, other in zip(decisions, others, strict=True):
        if one.action != other.action or one.probabilities.tobytes() != other.probabilities.tobytes():
            raise AssertionError(
                f"round {one.round} of {what} differs: action {one.action} and {other.action}, probabilities apart by "
                f"{np.abs(one.probabilities - other.probabilities).max():.3g}"
            )


def _check_resume(factory: Callable[[], Policy], rounds: _Rounds, whole: list[Decision], start: int, seed: int) -> None:
    cut = int(np.random.default_rng([seed, 1]).integers(1, len(rounds)))
    controller = Controller(factory(), start_index=start, seed=seed)
    rounds.play(controller, upto=cut)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        controller.save(path)
        resumed = Controller.load(path, factory())
    rest, _, _ = rounds.play(resumed)
    _check_same(whole[cut:], rest, f"a run resumed at round {cut}")


def _check_episode(policy: Policy, start: int, seed: int) -> None:
    rule = policy.rule_for(seed)
    state = replace(rule.begin(start, seed), round=3)
    begun = episode_begun(rule, state, start)
    if (begun.action, begun.round, begun.seed) != (start, state.round, state.seed):
        raise AssertionError(
            f"an episode that begins at action {start} must go on from round {state.round} there, with the same seed; "
            f"the state says action {begun.action}, round {begun.round}"
        )


def _check_bad_input(policy: Policy, rounds: _Rounds, start: int, seed: int) -> None:
    controller = Controller(policy, start_index=start, seed=seed)
    rounds.play(controller, upto=4)
    before = _saved(controller)
    good = rounds.question(4)
    nothing = np.zeros(policy.problem.entries, dtype=bool)
    attempts: dict[str, Callable[[], object]] = {
        "a NaN in the context": lambda: controller.ask(**{**good, "context": [np.nan] * rounds.contexts.shape[1]}),
        "a mask that forbids everything": lambda: controller.ask(**{**good, "allowed": nothing}),
        "a mask of the wrong length": lambda: controller.ask(**{**good, "allowed": [True]}),
        "an unknown decision": lambda: controller.tell("r99", 1.0),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except HoldcourseError:
            pass
        else:
            raise AssertionError(f"{what} must raise an error")
        if _saved(controller) != before:
            raise AssertionError(f"{what} changed the state; an error must leave it as it was")


def _saved(controller: Controller) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        controller.save(path)
        return path.read_bytes()
