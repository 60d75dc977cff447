import subprocess
import sys

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Matern, RationalQuadratic

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel, KernelSum, zscore
from holdcourse.movement.problem import Problem

GRID = Problem(np.array([(a, b) for a in (0.0, 1.0, 2.0) for b in (5.0, 7.0)]))
EXAMPLES = [
    Kernel(RBF(0.2)),
    Kernel(RBF([0.2, 0.3], length_scale_bounds="fixed"), Matern(1.5, nu=2.5), variance=3.7),
    Kernel(Matern([0.1, 2.0], nu=np.inf), RationalQuadratic(0.3, 0.7), action_shift=[1, 2], action_scale=[0.1, 3]),
    Kernel(ConstantKernel(2.0) * RBF(0.1) + DotProduct(0.5), ExpSineSquared(1.0, 24.0), context_shift=11.5),
    Kernel(RBF(np.array([0.2, 1 / 3])) ** 2, RBF(0.1), context_scale=6.9),
    Kernel(np.eye(6) + 1 / 3, RBF(0.5)),
    Kernel(RBF(0.2), RBF(1.0)) + Kernel(np.eye(6)) + Kernel(RBF(1.0), Matern(2.0)),
    Kernel(RBF(0.2), RBF([2.0, 3.0]), context_scale=1.5, context_period=24),
]


@pytest.mark.parametrize("kernel", EXAMPLES, ids=repr)
def test_json_round_trip_changes_no_bit(kernel):
    again = Kernel.from_json(kernel.to_json())
    assert again == kernel
    assert type(again) is type(kernel)
    actions, contexts = np.array([0, 3, 5, 3]), np.array([[0.1], [2.0], [2.0], [-1.0]])
    np.testing.assert_array_equal(again.covariance(GRID, actions, contexts), kernel.covariance(GRID, actions, contexts))


def test_kernels_that_differ_are_not_equal():
    assert Kernel(RBF(0.2)) != Kernel(RBF(0.3))
    assert Kernel(RBF(0.2)) != Kernel(RBF(0.2), variance=2.0)
    assert Kernel(RBF(0.2)) != Kernel(RBF(0.2)) + Kernel(RBF(0.2))
    assert Kernel(np.eye(2)) != Kernel(RBF(0.2))


def test_covariance_is_the_product_over_scaled_inputs():
    kernel = Kernel(
        RBF(0.5), Matern(2.0), 3.0, action_shift=[1, 6], action_scale=[2, 4], context_shift=10, context_scale=5
    )
    actions, contexts = np.array([0, 3, 5]), np.array([[1.0], [9.0], [30.0]])
    scaled = (GRID.actions[actions] - [1, 6]) / [2, 4]
    expected = 3.0 * RBF(0.5)(scaled) * Matern(2.0)((contexts - 10) / 5)
    np.testing.assert_allclose(kernel.covariance(GRID, actions, contexts), expected, rtol=1e-14)
    np.testing.assert_allclose(np.diag(expected), kernel.variances(GRID, contexts)[range(3), actions])


CLOCK = Kernel(RBF(0.5), RBF(2.0), context_scale=1.5, context_period=24)


def test_on_a_circle_it_is_scikit_learns_periodic_kernel():
    hours = np.random.default_rng(0).uniform(-30.0, 60.0, (40, 1))
    radius = 24 / (2 * np.pi * 1.5)
    expected = ExpSineSquared(2.0 / radius, 24.0)(hours)
    np.testing.assert_allclose(CLOCK.context_covariance(hours), expected, rtol=1e-12)


def test_a_circle_closes_and_whole_turns_change_no_bit():
    night, noon = np.array([[23.5], [0.5]]), np.array([[11.5], [12.5]])
    alike = [CLOCK.context_covariance(pair)[0, 1] for pair in (night, noon)]
    assert alike[0] == pytest.approx(alike[1], rel=1e-12)
    np.testing.assert_array_equal(CLOCK.context_inputs(night), CLOCK.context_inputs(night + 24 * 365))


def test_axes_beside_a_circle_are_as_they_were():
    both = Kernel(RBF(0.5), RBF([2.0, 3.0, 3.0]), context_shift=[5.0, 0.0], context_period=[None, 24])
    contexts = np.array([[4.0, 1.0], [9.0, 23.0]])
    apart = Kernel(RBF(0.5), RBF(2.0), context_shift=5.0).context_covariance(contexts[:, :1])
    around = Kernel(RBF(0.5), RBF(3.0), context_period=24).context_covariance(contexts[:, 1:])
    np.testing.assert_allclose(both.context_covariance(contexts), apart * around, rtol=1e-12)
    assert both.context_dimension == 2
    assert both.context_axes(2).tolist() == [0, 1, 1]


def test_a_kernel_without_circles_is_written_as_before():
    assert "context_period" not in Kernel(RBF(0.5), RBF(2.0), context_period=[None]).to_json()
    assert Kernel(RBF(0.5), RBF(2.0), context_period=24) != Kernel(RBF(0.5), RBF(2.0))


@pytest.mark.parametrize("period", [0.0, -24.0, float("nan"), float("inf"), "day", True, [24.0, "day"]])
def test_what_is_no_period_is_refused(period):
    with pytest.raises(InvalidInput, match="context_period must be positive and finite"):
        Kernel(RBF(0.5), RBF(2.0), context_period=period)


def test_circles_that_do_not_fit_the_contexts_are_named():
    with pytest.raises(InvalidInput, match="must have one entry, or 3, one for each number of a context, got 2"):
        Kernel(RBF(0.5), RBF(2.0), context_period=[None, 24]).context_covariance(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="one length scale, or 3, one for each axis of the contexts, got 2"):
        Kernel(RBF(0.5), RBF([2.0, 1.0]), context_period=[None, 24]).context_covariance(np.zeros((1, 2)))


def test_sum_adds_and_keeps_its_parts():
    a, b = Kernel(RBF(0.5), RBF(1.0), 2.0), Kernel(np.eye(6))
    total = a + b + a
    assert total.parts == (a, b, a)
    actions, contexts = np.array([0, 3]), np.array([[1.0], [1.5]])
    expected = 2 * a.covariance(GRID, actions, contexts) + b.covariance(GRID, actions, contexts)
    np.testing.assert_allclose(total.covariance(GRID, actions, contexts), expected)
    np.testing.assert_allclose(total.variances(GRID, contexts), np.full((2, 6), 5.0))


def test_zscore_matches_its_name():
    values = np.random.default_rng(0).normal(3.0, 5.0, size=(50, 2))
    shift, scale = zscore(values)
    scaled = (values - shift) / scale
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0)
    assert zscore([2.0, 2.0])[1] == 1.0


def test_context_dimension_is_known_where_the_kernel_fixes_it():
    assert Kernel(RBF(0.1), RBF(0.1)).context_dimension is None
    assert Kernel(RBF(0.1), RBF([0.1, 0.2, 0.3])).context_dimension == 3
    assert Kernel(RBF(0.1), RBF(0.1), context_scale=[1, 2]).context_dimension == 2
    assert (Kernel(RBF(0.1)) + Kernel(RBF(0.1), RBF([1, 2]))).context_dimension == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "rbf"}, "scikit-learn kernel"),
        ({"action": RBF}, "scikit-learn kernel"),
        ({"action": np.ones((2, 3))}, "(n, n)"),
        ({"action": np.array([[1.0, 2.0], [2.0, 1.0]])}, "positive semidefinite"),
        ({"action": np.array([[1.0, 0.5], [0.2, 1.0]])}, "symmetric"),
        ({"action": np.array([[1.0, np.nan], [0.2, 1.0]])}, "finite"),
        ({"action": np.zeros((2, 2))}, "variances"),
        ({"action": RBF(1.0) + sk.WhiteKernel(0.1)}, "noise_std"),
        ({"action": RBF(1.0), "context": 3.0}, "scikit-learn kernel"),
        ({"action": RBF(1.0), "variance": 0.0}, "variance"),
        ({"action": RBF(1.0), "variance": np.inf}, "variance"),
        ({"action": RBF(1.0), "context_scale": 0.0}, "context_scale"),
        ({"action": RBF(1.0), "action_shift": [np.nan]}, "action_shift"),
        ({"action": RBF(1.0), "variance": "large"}, "variance must be a positive number, got 'large'"),
        ({"action": RBF(1.0), "action_scale": "large"}, "action_scale must be numbers"),
    ],
)
def test_what_is_no_kernel_is_refused(arguments, message):
    with pytest.raises(InvalidInput) as caught:
        Kernel(**arguments)
    assert message in str(caught.value)


def test_wrong_numbers_of_axes_are_named():
    with pytest.raises(InvalidInput, match="or 2, one for each axis of the actions, got 3"):
        Kernel(RBF([1.0, 2.0, 3.0])).action_covariance(GRID)
    with pytest.raises(InvalidInput, match=r"action_scale must be one number, or 2, .* got 3"):
        Kernel(RBF(1.0), action_scale=[1, 2, 3]).action_covariance(GRID)
    with pytest.raises(InvalidInput, match="4 actions"):
        Kernel(np.eye(4)).action_covariance(GRID)


def test_json_refuses_classes_that_are_not_listed():
    with pytest.raises(InvalidInput, match="PairwiseKernel"):
        Kernel(sk.PairwiseKernel()).to_json()

    class RBF(sk.RBF):  # the name alone is not enough
        pass

    with pytest.raises(InvalidInput, match=r"cannot be written.*its matrix: Kernel\(kernel\(problem.actions\)\)"):
        Kernel(RBF(1.0)).to_json()
    assert Kernel.from_json(Kernel(RBF(1.0)(GRID.actions)).to_json()).action.shape == (GRID.n, GRID.n)
    with pytest.raises(InvalidInput, match="not known"):
        Kernel.from_json('{"parts": [{"action": {"kernel": "Kernel"}}]}')
    for text in ("{}", "[]", "nonsense", None, '{"parts": [{"verb": 1}]}', '{"parts": [{"action": {"float": "x"}}]}'):
        with pytest.raises(InvalidInput, match="to_json"):
            Kernel.from_json(text)


class Exponential(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A kernel of a user's own, whose length scikit-learn does not print."""

    def __init__(self, length=1.0):
        self.length = length

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.exp(-np.abs(X[:, None] - (X if Y is None else Y)).sum(axis=-1) / self.length)

    def diag(self, X):
        return np.ones(len(X))


def test_a_description_tells_kernels_of_any_class_apart():
    """sklearn's own words would not: they round, and hold hyperparameters only."""
    assert all(kernel.describe() == kernel.to_json() for kernel in EXAMPLES)

    class Own(sk.RBF):
        pass

    class Namesake(sk.RBF):
        pass

    Namesake.__name__ = "RBF"
    found = [Own(0.3), Own(0.30001), sk.RBF(0.3), Namesake(0.3), Exponential(0.4), Exponential(0.9)]
    found += [sk.PairwiseKernel(metric=np.dot), sk.PairwiseKernel(metric=np.vdot), Exponential(0.4) + RBF(0.3)]
    assert len({Kernel(one).describe() for one in found}) == len(found)
    assert Kernel(Exponential(0.4)).describe() == Kernel(Exponential(0.4)).describe()


def test_a_record_is_not_continued_with_another_kernel_of_the_users_own(tmp_path):
    def controller(length):
        policy = hc.gp_md(hc.Problem([0.0, 1.0]), kernel=Kernel(Exponential(length)), noise_std=0.1)
        return hc.Controller(policy, start=0.0, log=tmp_path / "mill.log")

    with controller(0.4) as before:
        before.tell(before.ask().id, 1.0)
    with pytest.raises(InvalidInput, match="record of another controller"):
        controller(0.9)
    with controller(0.4) as after:
        assert after.ask().id == "r1"


class Parabola(Exponential):
    """A function of the distance that is no covariance."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.maximum(0.0, 1 - np.abs(X[:, None] - (X if Y is None else Y)).sum(axis=-1) ** 2 / self.length)


@pytest.mark.parametrize("kernel", [Parabola(0.5), RBF(9.0) * Parabola(0.5)])
def test_a_kernel_of_the_users_own_that_is_no_covariance_is_refused(kernel):
    line = hc.Problem(np.linspace(0.0, 1.0, 7))
    assert hc.gp_md(line, kernel=Kernel(Exponential(0.4), RBF(0.3)), noise_std=0.1).problem is line
    with pytest.raises(
        InvalidInput, match=r"action kernel .* gives no covariance of these actions: .* the eigenvalue -"
    ):
        hc.gp_md(line, kernel=Kernel(kernel, RBF(0.3)), noise_std=0.1)


def test_an_action_kernel_that_is_no_covariance_is_refused_among_very_many_actions():
    plane = hc.Problem(hc.grid(x=range(75), y=range(75)))
    for kernel in (Parabola(900.0), sk.ExpSineSquared(1.0, 24.0)):
        with pytest.raises(InvalidInput, match=r"gives no covariance of these actions: .* the eigenvalue -.*use anoth"):
            hc.posterior(plane, Kernel(kernel), context_bounds=(0, 1))


def lopsided(X, Y):
    return np.exp(-np.abs(X - Y.T)) * (1.0 + 0.5 * (X > Y.T))


NO_COVARIANCES = {
    "distance": (lambda X, Y: 1.0 + np.abs(X - Y.T), "for 2 contexts, .* has the eigenvalue -"),
    "step": (lambda X, Y: np.abs(X - Y.T) < 0.5, "such as .*, .*, .* has the eigenvalue -"),
    "lopsided": (lopsided, r"between the contexts \[0\..*\] and \[0\..*\] it is .* in the other"),
    "gaps": (lambda X, Y: np.where(X == Y.T, 1.0, np.nan), "must give finite numbers, but gives nan for"),
    "negative": (lambda X, Y: -1.0 * (X == Y.T), "must give variances, 0 or more, but gives -1 for"),
    "wide": (lambda X, Y: np.zeros((len(X), 9)), r"must give an array of shape \(1, 1\) .* got \(1, 9\)"),
    "words": (lambda X, Y: "near", "gives must be numbers, .* got 'near'"),
}


class Own(sk.Kernel):
    """What a user writes without knowing which functions are covariances."""

    def __init__(self, name="distance"):
        self.name = name

    def __call__(self, X, Y=None, eval_gradient=False):
        return NO_COVARIANCES[self.name][0](X, X if Y is None else Y)

    def diag(self, X):
        return np.full(len(X), -1.0 if self.name == "negative" else 1.0)

    def is_stationary(self):
        return False


@pytest.mark.parametrize("name", NO_COVARIANCES)
def test_a_context_kernel_that_is_no_covariance_is_named_in_the_round_that_shows_it(name):
    line, contexts = hc.Problem([0.0, 1.0, 2.0]), np.random.default_rng(0).random(40)
    post = hc.posterior(line, Kernel(RBF(1.0), Own(name)), 0.1, method="exact")
    learned = []

    def learn():
        for k, context in enumerate(contexts):
            learned[:] = [post.state()]
            post.predict(context)
            post.condition(k % 3, context, 1.0)

    with pytest.raises(InvalidInput, match=f"context kernel Own.*{NO_COVARIANCES[name][1]}"):
        learn()
    assert all(np.array_equal(post.state()[key], array) for key, array in learned[0].items())


def test_a_controller_says_that_its_kernel_is_no_covariance():
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0]), kernel=Kernel(RBF(1.0), Own("step")), noise_std=0.1)
    controller = hc.Controller(policy, start=0.0)

    def run():
        for context in np.random.default_rng(0).random(40):
            controller.tell(controller.ask(context=context).id, 1.0)

    with pytest.raises(InvalidInput, match=r"context kernel Own.* not positive semidefinite"):
        run()


@pytest.mark.parametrize("kernel", [Own("step"), sk.ExpSineSquared(1.0, 24.0), sk.RationalQuadratic() + Own("step")])
@pytest.mark.parametrize("given", [{"contexts": np.random.default_rng(1).random(9)}, {"context_bounds": (0.0, 1.0)}])
def test_a_context_kernel_that_is_no_covariance_is_refused_where_contexts_are_declared(kernel, given):
    if not isinstance(kernel, sk.ExpSineSquared):
        where = given
    elif "contexts" in given:
        where = {"contexts": np.random.default_rng(1).uniform(0.0, 30.0, (40, 2))}
    else:
        where = {"context_bounds": [(0.0, 30.0)] * 2}
    with pytest.raises(InvalidInput, match=r"context kernel .* not positive semidefinite: .* give context_period"):
        hc.posterior(hc.Problem([0.0, 1.0]), Kernel(RBF(1.0), kernel), 0.1, **where)


def test_a_periodic_context_kernel_takes_one_number():
    line, random = hc.Problem([0.0, 1.0]), np.random.default_rng(2)
    hours, pairs = random.uniform(0.0, 24.0, 60), random.uniform(0.0, 24.0, (60, 2))
    daily = hc.posterior(line, Kernel(RBF(1.0), sk.ExpSineSquared(1.0, 24.0)), 0.1)
    for hour in hours:
        daily.condition(0, hour, 1.0)
    assert np.isfinite(daily.predict(5.0)).all()
    both = hc.posterior(line, Kernel(RBF(1.0), sk.ExpSineSquared(1.0, 24.0)), 0.1)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        both.condition_on(hc.History(np.zeros(60, dtype=int), pairs, np.ones(60)))


def test_several_covariances_are_no_kernel():
    with pytest.raises(InvalidInput, match=r"context contains a CompoundKernel.*add or multiply its kernels"):
        Kernel(RBF(1.0), sk.CompoundKernel([RBF(1.0), RBF(2.0)]))


def test_importing_kernels_does_not_import_sklearn():
    code = "import sys, holdcourse.learning.kernels, holdcourse.learning.posteriors; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_sum_is_of_kernels():
    both = KernelSum([Kernel(RBF(1.0)), Kernel(RBF(2.0))])
    assert (both + Kernel(RBF(3.0))).parts[2] == Kernel(RBF(3.0))
    for terms in ((), (RBF(1.0),)):
        with pytest.raises(InvalidInput, match="a sum of kernels needs one Kernel or more"):
            KernelSum(terms)
    with pytest.raises(InvalidInput, match="a sum of kernels needs"):
        Kernel.from_json('{"parts": []}')


def test_scaling_multiplies_every_variance():
    assert Kernel(RBF(1.0), variance=2.0).scaled(3.0) == Kernel(RBF(1.0), variance=6.0)
    both = Kernel(RBF(1.0)) + Kernel(RBF(2.0), RBF(0.5), variance=0.5)
    assert [part.variance for part in both.scaled(4.0).parts] == [4.0, 2.0]


def test_zscore_of_nothing():
    for values in ([], [1.0, np.nan], 3.0, ["a"]):
        with pytest.raises(InvalidInput):
            zscore(values)


def test_history_checks_its_records():
    past = History.from_triples([(0, 0.1, 3.0), (2, [0.7], 4.0)])
    assert past.contexts.tolist() == [[0.1], [0.7]]
    assert len(History.from_triples([])) == 0
    assert History.from_triples([(0, None, 3.0), (1, None, 2.0)]).contexts.shape == (2, 0)
    assert History.of(past) is past
    assert len(History.of([(0, 0.1, 3.0)])) == 1
    with pytest.raises(InvalidInput, match=r"measurement 1 of the history must be \(action, context, measurement\)"):
        History.from_triples([(0, 0.1, 3.0), (0, 0.1)])
    with pytest.raises(InvalidInput, match="measurement 0 of the history must be"):
        History.of([3, 4])
    with pytest.raises(InvalidInput, match="a context must be"):
        History.from_triples([(0, 0.1, 3.0), (0, [0.1, 0.2], 3.0)])
    for actions, contexts, measurements in [
        ([0, 1], [0.1], [1.0, 2.0]),
        ([0.5], [0.1], [1.0]),
        ([0], [np.nan], [1.0]),
        ([0], [0.1], [np.inf]),
        ([0], [[[0.1]]], [1.0]),
        ([0], [0.1], 1.0),
        ([0], [0.1], ["high"]),
    ]:
        with pytest.raises(InvalidInput):
            History(actions, contexts, measurements)
    with pytest.raises(InvalidInput, match="action 6"):
        History([6], [0.1], [1.0]).check(GRID, None)
    with pytest.raises(InvalidInput, match="must have 2 numbers, got 1"):
        History([0], [0.1], [1.0]).check(GRID, 2)
    with pytest.raises(ValueError, match="read-only"):
        past.measurements[0] = 0.0


def test_threads_that_need_scikit_learn_first_do_not_wait_for_each_other():
    """As when a service opens its records: one is read while another begins with a first guess."""
    code = """
import sys, threading, time
import holdcourse as hc
from holdcourse.learning.kernels import decoded
from holdcourse.learning.posteriors.fitted import _first_kernel  # what a policy that fits its kernel begins with

failed = []

def needs(action):
    try:
        action()
    except BaseException as error:
        failed.append(error)

one = threading.Thread(target=needs, args=(lambda: decoded({"kernel": "RBF", "with": {}}),))
other = threading.Thread(target=needs, args=(lambda: _first_kernel(hc.Problem([1.0, 2.0])),))
one.start()
while "sklearn" not in sys.modules:  # its import has begun
    time.sleep(0.001)
other.start()
one.join()
other.join()
sys.exit(str(failed) if failed else 0)
"""
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
