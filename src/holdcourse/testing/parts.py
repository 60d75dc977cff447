"""Check a tree against the theory's conditions, and a cost model against its protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.deciding.planning.lookahead import LEADS
from holdcourse.learning.costs import CostModel, Estimate, ForecastCosts, OptimisticCosts, Outlook
from holdcourse.learning.history import check_contexts
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.movement.tree import Tree
from holdcourse.movement.tree import check_tree as check_tree_type


def check_tree(tree: Tree, problem: Problem) -> None:
    """Check that a tree may stand for the problem's metric (docs/theory/movement.md).

    Its leaves are the actions; its distances are nowhere below the metric's (the mean of both directions for directed
    costs); every edge weighs at most 1/tau of the edge above it. Whether the arrays form a tree at all is checked by
    `Tree` itself.
    """
    check_tree_type(tree)
    check_problem(problem)
    if tree.n != problem.n:
        raise AssertionError(f"the tree has {tree.n} leaves, but the problem has {problem.n} actions")
    above = tree.parent[:-1]
    inner = above != tree.root
    lighter = tree.weight[:-1][inner] <= tree.weight[above[inner]] / tree.tau
    if not lighter.all():
        v = int(np.flatnonzero(inner)[np.argmin(lighter)])
        raise AssertionError(
            f"the edge above vertex {v} weighs {tree.weight[v]:.6g}, and the one above its parent {tree.parent[v]} "
            f"only {tree.weight[tree.parent[v]]:.6g}: less than tau = {tree.tau:g} times as much"
        )
    distances, metric = tree.distances(), problem.symmetric_distances
    short = distances < metric
    if short.any():
        i, j = (int(k) for k in np.argwhere(short)[0])
        raise AssertionError(
            f"the tree does not dominate the metric: actions {i} and {j} are {metric[i, j]!r} apart, "
            f"but only {distances[i, j]!r} in the tree ({int(short.sum()) // 2} such pairs)"
        )


SAME = 1e-9  # relative: what may differ between two ways of computing the same


def check_cost_model(
    factory: Callable[[], CostModel],
    problem: Problem,
    contexts: ArrayLike,
    *,
    measure: Callable[[int, Any], float] | None = None,
    seed: int = 0,
) -> None:
    """Check that a cost model keeps its promises (see `holdcourse.learning.costs.CostModel`).

    - Costs have the right shape and are finite or +inf, and `costs_at` agrees with `estimate`.
    - `estimate` and `costs_at` change nothing, and a copy is independent of its original.
    - `restore` brings back a saved state to the last bit, also in the middle of an episode.
    - Wrong input raises `InvalidInput` (or another `ValueError`) and changes nothing.
    - `learn` returns a weight from 0 to 1.
    - The description is JSON, is equal for equal models, and does not depend on what was learned.
    - If the model has them: `costs_at_optimism` gives the costs of `costs_at` at 1 and expected costs at 0, and
      `costs_at_outlook` without a forecast gives those of `costs_at`.

    Parameters
    ----------
    factory
        Function that makes the model as it is before the first round; every call makes an equal model.
    problem
        The actions of the model.
    contexts
        At least 4 contexts that may occur, (k,) or (k, d). The model learns them in this order and is asked about the
        last two, so if contexts are times, give them in order of time.
    measure
        Function ``measure(action, context)`` of what is measured; default: standard normal numbers.
    seed
        Seed of the actions tried and the measurements.

    Raises
    ------
    AssertionError
        The first check that failed, with the numbers at fault.
    """
    if not callable(factory):
        raise AssertionError(
            f"give a function that makes the model, such as lambda: MyCosts(problem), not the model itself: got "
            f"{factory!r}"
        )
    rows = check_contexts(contexts, None)
    if len(rows) < 4:
        raise AssertionError(f"the check needs at least 4 contexts, got {len(rows)}")
    trial = _Trial(factory, problem, rows, measure, seed)
    trial.check_protocol()
    trial.check_description()
    trial.check_estimates()
    trial.check_abilities()
    trial.check_copy()
    trial.check_state()
    trial.check_wrong_input()


class _Trial:
    """Measurements to tell a model of each kind, in two halves, and the questions to ask it afterwards."""

    def __init__(
        self,
        factory: Callable[[], CostModel],
        problem: Problem,
        contexts: Any,  # (k, d)
        measure: Callable[[int, Any], float] | None,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.factory = factory
        self.problem = problem
        self.probes = contexts[-2:]
        self.shown = rng.normal(size=problem.n)
        triples = []
        for context in contexts[:-1]:
            action = int(rng.integers(problem.n))
            y = float(rng.normal()) if measure is None else float(measure(action, context))
            triples.append((action, context, y))
        self.early, self.late = triples[: len(triples) // 2], triples[len(triples) // 2 :]

    # -- what is checked -----------------------------------------------------------------------------------------------

    def check_protocol(self) -> None:
        model: Any = self.factory()
        names = [name for name in dir(CostModel) if not name.startswith("_")]
        missing = [name for name in names if not hasattr(model, name)]
        if missing:
            raise AssertionError(f"a cost model has {', '.join(names)}; {type(model).__name__} has no {missing[0]}")

    def check_abilities(self) -> None:
        model = self.told()
        if model.needs_costs:
            return
        expected = [[estimate[1]] for estimate in self.ask(model)]
        usual = [[row] for row in model.costs_at(self.probes)]
        if isinstance(model, OptimisticCosts):
            for optimism, costs, what in ((1.0, usual, "costs_at"), (0.0, expected, "the expected costs")):
                table = [[row] for row in model.costs_at_optimism(self.probes, optimism)]
                self.require_same(table, costs, f"costs_at_optimism with {optimism:g} differs from {what}", SAME)
        if isinstance(model, ForecastCosts):
            k, silent = len(self.probes), np.full((len(self.probes), self.problem.n), np.nan)
            none = Outlook(silent, np.zeros(k, dtype=np.int64), np.full(k, np.nan), np.full((0, 2 + LEADS), np.nan))
            table = [[row] for row in model.costs_at_outlook(self.probes, none)]
            self.require_same(table, usual, "costs_at_outlook without any forecast differs from costs_at", SAME)

    def check_description(self) -> None:
        model = self.factory()
        before = _as_json(model)
        if _as_json(self.factory()) != before:
            raise AssertionError(f"two models made alike describe themselves differently: {before}")
        self.tell(model, self.early)
        model.new_episode()
        if _as_json(model) != before:
            raise AssertionError(f"the description changed by learning, from {before} to {_as_json(model)}")

    def check_estimates(self) -> None:
        asked, quiet = self.factory(), self.factory()
        for triples in ([], self.early, self.late):
            for triple in triples:
                self.ask(asked)
                self.tell(asked, [triple])
            self.tell(quiet, triples)
            answers = self.ask(asked)
            self.require_same(self.ask(asked), answers, "asking twice gave two answers")
            asked.new_episode()
            quiet.new_episode()
            self.require_same(self.ask(quiet), self.ask(asked), "asking changed what was learned", SAME)
        if not asked.needs_costs:
            table = np.asarray(asked.costs_at(self.probes))
            if table.shape != (len(self.probes), self.problem.n):
                raise AssertionError(
                    f"costs_at gave shape {table.shape} for {len(self.probes)} contexts and {self.problem.n} actions"
                )
            self.require_same([[row] for row in table], [[e[0]] for e in self.ask(asked)], "costs_at differs", SAME)

    def check_copy(self) -> None:
        model = self.told()
        twin = _a_model(model.copy(), "copy")
        before = self.ask(model)
        self.require_same(self.ask(twin), before, "a copy differs from its original")
        self.tell(twin, self.late)
        twin.new_episode()
        self.require_same(self.ask(model), before, "what its copy learned changed the model")
        after = self.ask(twin)
        another = model.copy()
        self.tell(model, self.late)
        model.new_episode()
        self.require_same(self.ask(another), before, "what the model learned changed its copy")
        self.require_same(self.ask(model), after, "model and copy, told the same, differ")

    def check_state(self) -> None:
        model = self.told()
        saved = model.state()
        for name, array in saved.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise AssertionError(f"the state must consist of arrays of numbers or text, but {name!r} is {array!r}")
        kept = {name: array.copy() for name, array in saved.items()}
        resumed = _a_model(self.factory().restore(saved), "restore")
        self.require_same(self.ask(resumed), self.ask(model), "a restored model differs from the one saved")
        for one in (model, resumed):
            self.tell(one, self.late)
            one.new_episode()
        self.require_same(self.ask(resumed), self.ask(model), "restored and told the same, it differs")
        for name, array in kept.items():
            if not np.array_equal(array, saved[name], equal_nan=array.dtype.kind == "f"):
                raise AssertionError(f"learning changed {name!r} of a state that was saved before")

    def check_wrong_input(self) -> None:
        model, twin = self.told(), self.told()
        for one in (model, twin):
            one.new_episode()
        before = self.ask(model)
        action, context, y = self.late[0]
        wrong: list[tuple[str, Callable[..., object], tuple[Any, ...]]] = [
            *((f"action {bad!r}", model.learn, (bad, context, y)) for bad in (-1, self.problem.n, 0.5)),
            *((f"measurement {bad}", model.learn, (action, context, bad)) for bad in (np.nan, np.inf)),
        ]
        if model.state():  # who keeps nothing need not look at the context
            for vector in (np.append(context, 0.0), np.full(len(context), np.nan)):
                what = f"context {vector.tolist()}"
                wrong.append((what, model.learn, (action, vector, y)))
                wrong.append((what, model.estimate, (vector, self.shown if model.needs_costs else None)))
                wrong.append((what, model.costs_at, ([vector],)))
        if model.needs_costs:
            bad_costs = (None, self.shown[1:], np.full(self.problem.n, np.nan))
            wrong += [(f"shown costs {costs}", model.estimate, (context, costs)) for costs in bad_costs]
        for what, call, arguments in wrong:
            _require_refused(what, call, *arguments)
            self.require_same(self.ask(model), before, f"{what} was refused, but changed the estimates")
        for one in (model, twin):
            self.tell(one, self.late)
            one.new_episode()
        self.require_same(self.ask(model), self.ask(twin), "wrong input was refused, but changed what came later", SAME)

    # -- how it is done ------------------------------------------------------------------------------------------------

    def told(self) -> CostModel:
        """A model that has learned; its episode is not over."""
        model = self.factory()
        self.tell(model, self.early[:-1])
        model.new_episode()
        self.tell(model, self.early[-1:])
        return model

    def tell(self, model: CostModel, triples: Sequence[tuple[int, Any, float]]) -> None:
        for action, context, y in triples:
            weight = model.learn(action, context, y)
            if not (isinstance(weight, (int, float, np.number)) and 0.0 <= weight <= 1.0):
                raise AssertionError(
                    f"learn must return the measurement's weight, from 0 to 1, but returned {weight!r}"
                )

    def ask(self, model: CostModel) -> list[list[Any]]:
        """Costs, expected costs, mean and deviation in each of the probed contexts."""
        answers = []
        for context in self.probes:
            estimate: Any = model.estimate(context, self.shown.copy() if model.needs_costs else None)
            if not isinstance(estimate, Estimate):
                raise AssertionError(f"estimate must return an Estimate, but returned {estimate!r}")
            for name in ("costs", "expected", "mean", "std"):
                self.require_sound(getattr(estimate, name), name)
            arrays = (estimate.costs, estimate.expected, estimate.mean, estimate.std)
            answers.append([None if array is None else np.array(array) for array in arrays])
        return answers

    def require_sound(self, array: Any, name: str) -> None:
        if array is None and name in ("mean", "std"):
            return
        if not isinstance(array, np.ndarray) or array.shape != (self.problem.n,):
            raise AssertionError(f"{name} must be an array of shape ({self.problem.n},), got {array!r}")
        sound = array > -np.inf if name in ("costs", "expected") else np.isfinite(array)
        sound = sound & (array >= 0) if name == "std" else sound
        if not sound.all():
            action = int(np.argmin(sound))
            raise AssertionError(f"{name} of action {action} is {array[action]}")

    def require_same(
        self, answers: list[list[Any]], expected: list[list[Any]], what: str, tolerance: float = 0.0
    ) -> None:
        for context, some, others in zip(self.probes, answers, expected, strict=True):
            for one, other in zip(some, others, strict=True):
                if one is None and other is None:
                    continue
                scale = np.abs(other, where=np.isfinite(other), out=np.ones_like(other)).max()
                if not np.allclose(one, other, rtol=0.0, atol=tolerance * scale):
                    action = int(np.argmax(one != other))
                    raise AssertionError(
                        f"{what}: {float(one[action])!r} and {float(other[action])!r} for action {action} in context "
                        f"{context.tolist()}"
                    )


def _a_model(returned: Any, method: str) -> Any:
    if not hasattr(returned, "estimate"):
        raise AssertionError(f"{method} must return a model, but returned {returned!r}; end restore with 'return self'")
    return returned


def _as_json(model: CostModel) -> str:
    description = model.describe()
    try:
        text = json.dumps(description, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the description is not JSON ({error}): {description!r}") from error
    if not isinstance(description, dict) or "model" not in description:
        raise AssertionError(f"a description is a dictionary that names the 'model', got {description!r}")
    return text


def _require_refused(what: str, call: Callable[..., object], *arguments: Any) -> None:
    try:
        result = call(*arguments)
    except ValueError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise InvalidInput, but raised {error!r}") from error
    raise AssertionError(f"{what} must raise InvalidInput, but gave {result!r}")
