"""The conformance suite must pass what is right and catch what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.costs import Estimate, KnownCosts, LowerBound, Mapped
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior


def test_check_tree_accepts_a_right_tree():
    problem = hc.Problem(np.arange(20.0))
    hc.testing.check_tree(hc.frt_tree(problem, seed=1), problem)


def test_check_tree_catches_a_tree_that_does_not_dominate():
    problem = hc.Problem([0.0, 1.0, 10.0])
    with pytest.raises(AssertionError, match=r"does not dominate the metric: actions 0 and 2 .*\(2 such pairs\)"):
        hc.testing.check_tree(hc.Tree([3, 3, 4, 4, -1], [0.5, 0.5, 4.0, 4.0, 0.0]), problem)


def test_check_tree_catches_edges_that_fall_too_slowly():
    problem = hc.Problem([0.0, 1.0, 10.0])
    with pytest.raises(AssertionError, match=r"vertex 0 weighs 2, .* parent 3 only 6: less than tau = 5 times"):
        hc.testing.check_tree(hc.Tree([3, 3, 4, 4, -1], [2.0, 2.0, 6.0, 6.0, 0.0]), problem)


def test_check_tree_catches_another_problem():
    with pytest.raises(AssertionError, match="the tree has 2 leaves, but the problem has 3 actions"):
        hc.testing.check_tree(hc.frt_tree(hc.Problem([0.0, 1.0])), hc.Problem([0.0, 1.0, 2.0]))


LINE = hc.Problem(np.linspace(0.0, 1.0, 6))
TIMES = np.cumsum([0.1, 0.2, 0.0, 0.15, 0.3, 0.05, 0.1, 0.2])  # in order, one of them twice
SMOOTH, FADING = Kernel(RBF(0.3), RBF(0.4)), Kernel(RBF(0.3), Matern(0.5, nu=1.5))


def exact():
    return posterior(LINE, SMOOTH, 0.2, method="exact")


def flat():
    return posterior(LINE, SMOOTH, 0.2, method="flat", context_bounds=(0.0, 2.0))


def fading():
    return posterior(LINE, SMOOTH, 0.2, method="flat", context_bounds=(0.0, 2.0), forgetting=0.95)


def adaptive():
    return posterior(LINE, SMOOTH, 0.2)


def temporal():
    return posterior(LINE, FADING, 0.2, method="temporal")


def fitted():
    return posterior(LINE, "auto")


def parabola(low, high):
    """The least of (x - 0.3)^2 over an interval."""
    return np.maximum(np.maximum(low - 0.3, 0.3 - high), 0.0) ** 2


@pytest.mark.parametrize("make", [exact, flat, fading, adaptive, temporal, fitted])
@pytest.mark.parametrize("every", ["round", "episode"])
def test_check_cost_model_accepts_lower_bounds(make, every):
    hc.testing.check_cost_model(lambda: LowerBound(make(), every=every), LINE, TIMES)
    options = {"every": every, "guard": OutlierGuard(0.5)}
    hc.testing.check_cost_model(lambda: LowerBound(make(), TheoryWidth(1.0), **options), LINE, TIMES)
    hc.testing.check_cost_model(lambda: Mapped(make(), parabola, guaranteed=True, **options), LINE, TIMES)


def test_check_cost_model_accepts_contexts_of_two_numbers_and_own_measurements():
    kernel = Kernel(RBF(0.3), RBF([0.4, 2.0]))
    contexts = np.random.default_rng(0).normal(size=(8, 2))
    told = []

    def measure(action, context):
        told.append(context)
        return 5.0 + action

    hc.testing.check_cost_model(
        lambda: LowerBound(posterior(LINE, kernel, method="exact"), maximise=True), LINE, contexts, measure=measure
    )
    np.testing.assert_array_equal(told, contexts[:-1])


def test_check_cost_model_accepts_known_costs():
    hc.testing.check_cost_model(lambda: KnownCosts(LINE), LINE, TIMES)
    hc.testing.check_cost_model(lambda: KnownCosts(LINE, maximise=True), LINE, TIMES)
    hc.testing.check_cost_model(lambda: KnownCosts(LINE, lambda e: LINE.actions[:, 0] * e[0]), LINE, TIMES)


def test_check_cost_model_needs_some_contexts():
    with pytest.raises(AssertionError, match="at least 4 contexts, got 3"):
        hc.testing.check_cost_model(lambda: KnownCosts(LINE), LINE, TIMES[:3])


def test_a_model_instead_of_a_function_that_makes_it():
    with pytest.raises(AssertionError, match="give a function that makes the model"):
        hc.testing.check_cost_model(KnownCosts(LINE), LINE, TIMES)


class Broken:
    """A right model, of which each subclass spoils one thing."""

    needs_costs = False

    def __init__(self, inner=None):
        self.inner = LowerBound(exact()) if inner is None else inner

    def estimate(self, context, shown=None):
        return self.inner.estimate(context)

    def costs_at(self, contexts):
        return self.inner.costs_at(contexts)

    def learn(self, action, context, measurement):
        return self.inner.learn(action, context, measurement)

    def new_episode(self):
        self.inner.new_episode()

    def copy(self):
        return type(self)(self.inner.copy())

    def state(self):
        return self.inner.state()

    def restore(self, arrays):
        self.inner.restore(arrays)
        return self

    def describe(self):
        return self.inner.describe()


class WrongShape(Broken):
    def estimate(self, context, shown=None):
        known = self.inner.estimate(context)
        return Estimate(known.costs[None], known.expected)


class NotANumber(Broken):
    def estimate(self, context, shown=None):
        known = self.inner.estimate(context)
        return Estimate(np.where(np.arange(6) == 4, np.nan, known.costs), known.expected)


class MinusInfinity(Broken):
    def estimate(self, context, shown=None):
        known = self.inner.estimate(context)
        return Estimate(known.costs, np.where(np.arange(6) == 2, -np.inf, known.expected))


class NegativeDeviation(Broken):
    def estimate(self, context, shown=None):
        known = self.inner.estimate(context)
        return Estimate(known.costs, known.expected, known.mean, known.std - 0.5)


class Forgetful(Broken):
    """Grows unsure of itself with every question."""

    asked = 0

    def estimate(self, context, shown=None):
        self.asked += 1
        known = self.inner.estimate(context)
        return Estimate(known.costs - 1e-12 * self.asked, known.expected)


class LearnsByAsking(Broken):
    """Repeats itself word for word, but what it was asked changes what it learns."""

    asked = 0

    def estimate(self, context, shown=None):
        self.asked += 1
        return self.inner.estimate(context)

    def learn(self, action, context, measurement):
        return self.inner.learn(action, context, measurement + 1e-3 * self.asked)


class SharedCopy(Broken):
    def copy(self):
        return self


class HalfCopy(Broken):
    def copy(self):
        return type(self)()


class HalfState(Broken):
    def state(self):
        return LowerBound(exact()).state() | {"note": np.zeros(1)}


class RoundedState(Broken):
    def state(self):
        arrays = self.inner.state()
        return arrays | {"posterior.weights": arrays["posterior.weights"].astype(np.float32).astype(np.float64)}


class LosesWhatWaits(Broken):
    """Keeps the posterior but not the measurements that wait for the end of the episode."""

    def __init__(self, inner=None):
        super().__init__(LowerBound(exact(), every="episode") if inner is None else inner)

    def restore(self, arrays):
        return super().restore(arrays | {name: array[:0] for name, array in arrays.items() if "waiting" in name})


class PickledState(Broken):
    def state(self):
        return self.inner.state() | {"model": np.array([self.inner], dtype=object)}


class LiveState(Broken):
    """Hands out its own buffer instead of a copy."""

    def __init__(self, inner=None):
        super().__init__(inner)
        self.count = np.zeros(1)

    def learn(self, action, context, measurement):
        weight = self.inner.learn(action, context, measurement)
        self.count += 1
        return weight

    def state(self):
        return self.inner.state() | {"count": self.count}


class OtherTable(Broken):
    def costs_at(self, contexts):
        return self.inner.costs_at(contexts) + 1e-6


class FlatTable(Broken):
    def costs_at(self, contexts):
        return self.inner.costs_at(contexts).reshape(-1)


class WrongOptimism(Broken):
    def costs_at_optimism(self, contexts, optimism):
        return self.inner.costs_at(contexts)


class BelievesSilence(Broken):
    def costs_at_outlook(self, contexts, outlook):
        return self.inner.costs_at(contexts) + 1.0


class HeavyWeight(Broken):
    def learn(self, action, context, measurement):
        return 1.5 * self.inner.learn(action, context, measurement)


class NoWeight(Broken):
    def learn(self, action, context, measurement):
        self.inner.learn(action, context, measurement)
        return float("nan")


class SilentWeight(Broken):
    def learn(self, action, context, measurement):
        self.inner.learn(action, context, measurement)


class BareArray(Broken):
    def estimate(self, context, shown=None):
        return self.inner.estimate(context, shown).costs


class TakesAnyMeasurement(Broken):
    def learn(self, action, context, measurement):
        return self.inner.learn(action, context, measurement) if np.isfinite(measurement) else 1.0


class TakesNegativeActions(Broken):
    def learn(self, action, context, measurement):
        return self.inner.learn(action % 6, context, measurement)


class CutsContexts(Broken):
    def estimate(self, context, shown=None):
        return self.inner.estimate(np.atleast_1d(context)[:1])


class WrongError(Broken):
    def learn(self, action, context, measurement):
        if not 0 <= action < 6:
            raise IndexError(action)
        return self.inner.learn(action, context, measurement)


class ChangedByRefusal(Broken):
    """Takes note of the context before it looks at the measurement."""

    def learn(self, action, context, measurement):
        self.inner.posterior.condition(0, context, 0.0)
        return self.inner.learn(action, context, measurement)


class ChangedLaterByRefusal(Broken):
    """What it refuses waits for the end of the episode."""

    refused = 0

    def learn(self, action, context, measurement):
        try:
            return self.inner.learn(action, context, measurement)
        except ValueError:
            self.refused += 1
            raise

    def new_episode(self):
        if self.refused > 0:
            self.inner.posterior.condition(0, TIMES[-2], 3.0)


class SilentRestore(Broken):
    def restore(self, arrays):
        super().restore(arrays)


class UnspeakableDescription(Broken):
    def describe(self):
        return self.inner.describe() | {"width": np.float32(2.0)}


class InfiniteDescription(Broken):
    def describe(self):
        return self.inner.describe() | {"width": float("inf")}


class PersonalDescription(Broken):
    def describe(self):
        return self.inner.describe() | {"self": id(self)}


class GrowingDescription(Broken):
    def describe(self):
        return self.inner.describe() | {"measurements": self.inner.posterior.observations}


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (WrongShape, r"costs must be an array of shape \(6,\)"),
        (NotANumber, "costs of action 4 is nan"),
        (MinusInfinity, "expected of action 2 is -inf"),
        (NegativeDeviation, "std of action . is -0"),
        (Forgetful, "asking twice gave two answers"),
        (LearnsByAsking, "asking changed what was learned"),
        (SharedCopy, "what its copy learned changed the model"),
        (HalfCopy, "a copy differs from its original"),
        (HalfState, "a restored model differs from the one saved"),
        (RoundedState, "a restored model differs from the one saved"),
        (LosesWhatWaits, "restored and told the same, it differs"),
        (PickledState, "the state must consist of arrays of numbers or text, but 'model'"),
        (LiveState, "learning changed 'count' of a state that was saved before"),
        (OtherTable, "costs_at differs"),
        (FlatTable, r"costs_at gave shape \(12,\) for 2 contexts and 6 actions"),
        (WrongOptimism, "costs_at_optimism with 0 differs from the expected costs"),
        (BelievesSilence, "costs_at_outlook without any forecast differs from costs_at"),
        (HeavyWeight, r"weight, from 0 to 1, but returned 1\.5"),
        (NoWeight, "weight, from 0 to 1, but returned nan"),
        (SilentWeight, "weight, from 0 to 1, but returned None"),
        (BareArray, "estimate must return an Estimate, but returned array"),
        (TakesAnyMeasurement, r"measurement nan must raise InvalidInput, but gave 1\.0"),
        (TakesNegativeActions, r"action -1 must raise InvalidInput, but gave 1\.0"),
        (CutsContexts, r"context \[.*, 0\.0\] must raise InvalidInput, but gave Estimate"),
        (WrongError, r"action -1 must raise InvalidInput, but raised IndexError"),
        (ChangedByRefusal, "was refused, but changed the estimates"),
        (ChangedLaterByRefusal, "wrong input was refused, but changed what came later"),
        (SilentRestore, "restore must return a model, but returned None; end restore with 'return self'"),
        (UnspeakableDescription, "the description is not JSON"),
        (InfiniteDescription, "the description is not JSON"),
        (PersonalDescription, "two models made alike describe themselves differently"),
        (GrowingDescription, "the description changed by learning"),
    ],
)
def test_check_cost_model_catches(model, complaint):
    hc.testing.check_cost_model(Broken, LINE, TIMES)
    with pytest.raises(AssertionError, match=complaint):
        hc.testing.check_cost_model(model, LINE, TIMES)


def test_check_cost_model_catches_known_costs_that_accept_nothing():
    class Careless(KnownCosts):
        def estimate(self, context, shown=None):
            costs = np.zeros(6) if shown is None else np.nan_to_num(shown)
            return Estimate(costs, costs)

    with pytest.raises(AssertionError, match="shown costs None must raise InvalidInput"):
        hc.testing.check_cost_model(lambda: Careless(LINE), LINE, TIMES)


def test_checks_name_what_a_protocol_lacks():
    class Mute:
        needs_costs = False
        estimate = step = None

    complaint = "a cost model has copy, costs_at, .*; Mute has no copy"
    with pytest.raises(AssertionError, match=complaint):
        hc.testing.check_cost_model(Mute, LINE, TIMES)
    greedy = hc.rules.Greedy(LINE)
    with pytest.raises(AssertionError, match=r"a CostModel has .* has no copy"):
        hc.testing.check_policy(lambda: hc.Policy("mute", greedy, Mute(), LINE), np.arange(12.0))
    with pytest.raises(AssertionError, match=r"a Rule has .* has no begin"):
        hc.testing.check_policy(lambda: hc.Policy("mute", Mute(), KnownCosts(LINE), LINE), np.arange(12.0))
