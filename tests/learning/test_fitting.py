from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.fitting.likelihood import Likelihood, Ranges, kernel_with, parameters, theta_of
from holdcourse.learning.fitting.points import first_guesses, has_coordinates, metric_covariances, standardised, subset
from holdcourse.learning.fitting.search import Fit, FitWarning, fit_kernel
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.movement.problem import Problem

LINE = Problem(np.linspace(0, 1, 11))
GRID = Problem(np.stack([axis.ravel() for axis in np.meshgrid(*[np.linspace(0, 1, 12)] * 2)], axis=1))


def gp_sample(seed, points=200, action_scales=(0.2, 0.2), context_scale=0.2, noise=0.03):
    """Measurements of a function drawn from a Gaussian process, at random actions and contexts."""
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(GRID.n, size=points), rng.random(points)
    inputs = np.column_stack([GRID.actions[actions] / action_scales, contexts / context_scale])
    covariance = np.exp(-0.5 * ((inputs[:, None] - inputs) ** 2).sum(axis=2))
    cost = np.linalg.cholesky(covariance + 1e-10 * np.eye(points)) @ rng.standard_normal(points)
    return actions, contexts, cost + noise * rng.standard_normal(points)


def smooth(seed, points=60, noise=0.05):
    """Measurements on the line, of a smooth cost."""
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(LINE.n, size=points), rng.random(points)
    y = np.sin(5 * LINE.actions[actions, 0]) + contexts + noise * rng.standard_normal(points)
    return actions, contexts, y


def assert_sensible(fit: Fit) -> None:
    assert math.isfinite(fit.log_marginal_likelihood)
    assert math.isfinite(fit.noise_std)
    assert fit.noise_std > 0
    assert np.all(np.isfinite(fit.prior_mean))
    assert all(0 < value < math.inf for value in fit.parameters.values())
    assert all(part.variance > 0 for part in fit.kernel.parts)


def likelihood_of(problem, records, kernel, z, *, noise=None, free_mean=True):
    entries = parameters(problem, records.contexts, kernel, noise=noise is None)
    return Likelihood(problem, records, z, kernel, entries, noise, free_mean=free_mean)


# -- the likelihood and its gradient -----------------------------------------------------------------------------------

KERNELS = {
    "rbf": Kernel(RBF([0.3, 0.5]), RBF([0.4, 0.7]), variance=1.3),
    "isotropic": Kernel(RBF(0.3), Matern(0.4, nu=2.5), action_scale=[0.5, 2.0], context_shift=0.3),
    "cycle": Kernel(Matern([0.3, 0.6], nu=1.5), ExpSineSquared(0.8, 0.5)),
    "composite": Kernel(RBF(0.3), ConstantKernel(0.6) * RationalQuadratic(0.5, 1.2) + DotProduct(0.4)),
    "sum": Kernel(RBF(0.3), RBF(0.5), variance=0.7) + Kernel(RBF([0.2, 0.4]), variance=0.4),
    "matrix": Kernel(np.exp(-5 * GRID.distances), RBF(0.4)),
    "one fixed": Kernel(RBF(0.3, "fixed"), RBF([0.4, 0.5])),
}


def repeated(name, points=40):
    """Measurements with repeated actions and contexts; a cycle has one axis, the other contexts two."""
    rng = np.random.default_rng(3)
    contexts = rng.random((15, 1 if name == "cycle" else 2))[rng.integers(15, size=points)]
    return History(rng.integers(0, GRID.n, size=points), contexts, rng.standard_normal(points))


@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("noise", [None, 0.2])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_equals_finite_differences(name, noise, free_mean):
    records = repeated(name)
    model = likelihood_of(GRID, records, KERNELS[name], records.measurements + 0.4, noise=noise, free_mean=free_mean)
    theta = np.append(theta_of(KERNELS[name]), [] if noise else [math.log(0.2)])
    slopes = model.loss(theta)[1]
    step = 1e-5
    for k in range(len(theta)):
        ahead, behind = (model.loss(theta + sign * step * np.eye(len(theta))[k])[0] for sign in (1, -1))
        assert_allclose(slopes[k], (ahead - behind) / (2 * step), rtol=2e-5, atol=2e-6, err_msg=model.entries[k].name)


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "matrix"])
def test_likelihood_equals_a_dense_evaluation(name):
    records = repeated(name)
    kernel = KERNELS[name]
    model = likelihood_of(GRID, records, kernel, records.measurements, noise=0.2, free_mean=False)
    covariance = kernel.covariance(GRID, records.actions, records.contexts) + 0.04 * np.eye(len(records))
    expected = -0.5 * (
        records.measurements @ np.linalg.solve(covariance, records.measurements)
        + np.linalg.slogdet(covariance)[1]
        + len(records) * math.log(2 * math.pi)
    )
    assert_allclose(model.evaluate(theta_of(kernel))[0], expected, rtol=1e-10)


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_fit_has_the_likelihood_that_scikit_learn_computes(unit):
    actions, contexts, y = gp_sample(0, points=80)
    fit = fit_kernel(GRID, actions, contexts, unit * (y + 3.0), restarts=0)
    inputs = np.column_stack([GRID.actions[actions], contexts])
    scales = np.append(fit.kernel.action.length_scale, fit.kernel.context.length_scale)
    # scikit-learn factors in the units of y; the density of y / unit differs by the constant t log(unit).
    joint = ConstantKernel(fit.kernel.variance / unit**2) * RBF(scales)
    peer = GaussianProcessRegressor(joint, alpha=(fit.noise_std / unit) ** 2, optimizer=None)
    peer.fit(inputs, unit * (y + 3.0) / unit - fit.prior_mean / unit)
    expected = peer.log_marginal_likelihood(peer.kernel_.theta) - len(y) * math.log(unit)
    assert_allclose(fit.log_marginal_likelihood, expected, rtol=1e-9)


def test_fit_is_as_likely_as_what_scikit_learn_finds():
    """Our weak priors cost little: no peer optimum is more than one unit of log likelihood better."""
    actions, contexts, y = gp_sample(1, points=150, action_scales=(0.3, 0.3), noise=0.2)
    fit = fit_kernel(GRID, actions, contexts, y, prior_mean=0.0)
    joint = ConstantKernel(1.0) * RBF([0.5, 0.5, 0.5]) + WhiteKernel(0.01)
    peer = GaussianProcessRegressor(joint, alpha=0.0, n_restarts_optimizer=1, random_state=0)
    peer.fit(np.column_stack([GRID.actions[actions], contexts]), y)
    assert peer.log_marginal_likelihood_value_ - 1.0 < fit.log_marginal_likelihood
    assert fit.log_marginal_likelihood <= peer.log_marginal_likelihood_value_ + 1e-3


def test_the_result_is_a_stationary_point():
    actions, contexts, y = smooth(0)
    fit = fit_kernel(LINE, actions, contexts, y)
    assert not fit.on_bounds
    z, _, scale, _ = standardised(y, None)
    model = likelihood_of(LINE, History(actions, contexts, y), fit.kernel, z)
    theta = np.append(theta_of(fit.kernel), math.log(fit.noise_std))
    theta -= np.array([2, 0, 0, 1]) * math.log(scale)
    assert np.abs(model.loss(theta)[1]).max() < 1e-2


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_length_scales_are_recovered():
    """The full count, 30 seeds, is in the slow tests."""
    seeds = range(6)
    within = 0
    for seed in seeds:
        fit = fit_kernel(GRID, *gp_sample(seed, action_scales=(0.2, 0.4), context_scale=0.3))
        found = np.append(fit.kernel.action.length_scale, fit.kernel.context.length_scale)
        within += bool(np.all(np.abs(np.log(found / [0.2, 0.4, 0.3])) < math.log(1.5)))
        assert 0.01 < fit.noise_std < 0.09
    assert within >= 0.9 * len(seeds)


def test_units_do_not_matter():
    actions, contexts, y = smooth(1)
    plain = fit_kernel(LINE, actions, contexts, y)
    for unit in (1e-12, 1e12):
        fit = fit_kernel(LINE, actions, contexts, unit * y)
        assert_allclose(fit.noise_std, unit * plain.noise_std, rtol=1e-6)
        assert_allclose(fit.prior_mean, unit * plain.prior_mean, rtol=1e-5)
        assert_allclose(fit.kernel.variance, unit**2 * plain.kernel.variance, rtol=1e-5)
        assert_allclose(fit.kernel.context.length_scale, plain.kernel.context.length_scale, rtol=1e-5)
    metres = Problem(1000 * LINE.actions)
    fit = fit_kernel(metres, actions, 1e6 * contexts + 1.7e9, y)
    assert_allclose(fit.kernel.action.length_scale, 1000 * plain.kernel.action.length_scale, rtol=1e-3)
    assert_allclose(fit.kernel.context.length_scale, 1e6 * plain.kernel.context.length_scale, rtol=1e-3)


def test_same_seed_same_fit():
    one, two = (fit_kernel(LINE, *smooth(2), seed=5) for _ in range(2))
    assert one.kernel == two.kernel
    assert one.noise_std == two.noise_std
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - that it stays as it is is what is tested
    fit_kernel(LINE, *smooth(2), seed=6)
    assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_known_noise_and_prior_mean_are_kept():
    actions, contexts, y = smooth(3)
    fit = fit_kernel(LINE, actions, contexts, y, noise_std=0.2, prior_mean=1)
    assert fit.noise_std == 0.2
    assert fit.prior_mean == 1.0
    assert "noise_std" not in fit.parameters
    per_action = np.sin(5 * LINE.actions[:, 0])
    by_list = fit_kernel(LINE, actions, contexts, y, prior_mean=per_action)
    by_function = fit_kernel(LINE, actions, contexts, y, prior_mean=lambda points, context: np.sin(5 * points[:, 0]))
    assert_array_equal(by_list.prior_mean, per_action)
    assert by_list.kernel == by_function.kernel
    # What the mean explains is no longer there to be explained by the actions.
    assert by_list.log_marginal_likelihood > fit.log_marginal_likelihood
    explained = fit_kernel(
        LINE, actions, contexts, y, prior_mean=lambda points, context: np.sin(5 * points[:, 0]) + context
    )
    assert_allclose(math.hypot(explained.noise_std, math.sqrt(explained.kernel.variance)), 0.05, rtol=0.5)


def test_a_structure_is_kept_and_its_parameters_fitted():
    rng = np.random.default_rng(4)
    actions, hours = rng.integers(LINE.n, size=120), 24 * 10 * rng.random(120)
    y = LINE.actions[actions, 0] + np.sin(2 * np.pi * hours / 24) + 0.05 * rng.standard_normal(120)
    given = Kernel(Matern(0.3, nu=2.5), ExpSineSquared(1.0, periodicity=24.0))
    fit = fit_kernel(LINE, actions, hours, y, kernel=given)
    assert isinstance(fit.kernel, Kernel)
    assert fit.kernel.action.nu == 2.5
    assert fit.kernel.context.periodicity == pytest.approx(24.0, rel=1e-12)
    assert fit.noise_std == pytest.approx(0.05, rel=0.3)
    assert given.context.length_scale == 1.0  # the user's own kernel is not touched
    free = Kernel(RBF(0.3), ExpSineSquared(1.0, periodicity=23.8, periodicity_bounds=(22.0, 26.0)))
    assert fit_kernel(LINE, actions, hours, y, kernel=free).kernel.context.periodicity == pytest.approx(24.0, abs=0.1)
    fixed = Kernel(RBF(0.123, "fixed"), RBF(5.0)) + Kernel(RBF(0.5))
    fit = fit_kernel(LINE, actions, hours, y, kernel=fixed, restarts=1)
    assert fit.kernel.parts[0].action.length_scale == 0.123
    assert "part 2 action length scale" in fit.parameters
    assert fit.kernel == type(fit.kernel).from_json(fit.kernel.to_json())


def test_repr_speaks_in_words():
    fit = fit_kernel(LINE, *smooth(5), restarts=0)
    text = repr(fit)
    for words in ("action length scale = ", "context length scale = ", "noise_std = ", "prior mean = ", "60 points"):
        assert words in text
    thinned = fit_kernel(LINE, *smooth(5), restarts=0, max_points=20)
    assert "20 of 60 points" in repr(thinned)


# -- little or odd data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1, 2, 3, 5])
def test_few_points(points):
    for seed in range(3):
        fit = fit_kernel(GRID, *gp_sample(seed, points=points))
        assert_sensible(fit)
        assert fit.points_used == points
        assert 0.01 < np.min(fit.kernel.action.length_scale) <= np.max(fit.kernel.action.length_scale) < 10


@pytest.mark.parametrize("value", [0.0, 0.1, -3e12, 1e-12])
def test_constant_measurements(value):
    actions, contexts, _ = smooth(6)
    fit = fit_kernel(LINE, actions, contexts, np.full(60, value))
    assert_sensible(fit)
    assert fit.prior_mean == pytest.approx(value, rel=1e-12)
    assert not fit.on_bounds


ODD = {
    "single action": lambda a, c, y: (0 * a, c, y),
    "single context": lambda a, c, y: (a, 0 * c + 5.0, y),
    "context 0": lambda a, c, y: (a, 0 * c, y),
    "no context": lambda a, c, y: (a, None, y),
    "collinear contexts": lambda a, c, y: (a, np.column_stack([c, 2 * c]), y),
    "one context axis constant": lambda a, c, y: (a, np.column_stack([c, 0 * c + 7.0]), y),
    "huge offset": lambda a, c, y: (a, c + 1e12, y),
    "contexts 1e-15 apart": lambda a, c, y: (a, np.round(c, 1) + 1e-15 * (a % 2), y),
    "tiny contexts": lambda a, c, y: (a, c * 1e-200, y),
    "one point over and over": lambda a, c, y: (0 * a, 0 * c, np.cos(7.0 * np.arange(len(y)))),
    "every point twice": lambda a, c, y: (np.repeat(a[:30], 2), np.repeat(c[:30], 2), y),
    "noise alone": lambda a, c, y: (a, c, np.random.default_rng(0).standard_normal(len(y))),
    "offset of y": lambda a, c, y: (a, c, y + 1e9),
    "outlier": lambda a, c, y: (a, c, np.where(np.arange(len(y)) == 3, 1e6, y)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # some of these rightly end on a bound
        fit = fit_kernel(LINE, *ODD[name](*smooth(7)), restarts=1)
    assert_sensible(fit)


def test_zero_noise_is_kept_even_with_contradicting_measurements():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        fit = fit_kernel(LINE, [3] * 20, [0.5] * 20, np.arange(20.0), noise_std=0.0)
    assert fit.noise_std == 0.0
    assert math.isfinite(fit.log_marginal_likelihood)


def test_a_bound_is_named_with_the_remedy():
    actions, contexts, y = smooth(8, noise=0.0)
    with pytest.warns(FitWarning, match=r"noise_std = .* \(lower\): .*free of noise: pass noise_std"):
        fit = fit_kernel(LINE, actions, contexts, y)
    assert dict(fit.on_bounds) == {"noise_std": "lower"}
    assert "noise_std on its lower bound" in repr(fit)
    tight = Kernel(RBF(0.05, (0.05, 0.1)), RBF(0.3))
    with pytest.warns(FitWarning, match=r"action length scale = 0.1 \(upper\): give it wider bounds"):
        fit = fit_kernel(LINE, *smooth(8), kernel=tight)
    assert fit.on_bounds["action length scale"] == "upper"


def test_many_points_are_thinned_to_pairs_of_neighbours():
    """A length of 0.025 in three dimensions is lost on 400 points at random, but not on 200 pairs of neighbours."""
    rng = np.random.default_rng(0)
    problem = Problem(np.stack([axis.ravel() for axis in np.meshgrid(*[np.linspace(0, 1, 100)] * 2)], axis=1))
    length, features, points = 0.025, 500, 20_000
    actions, contexts = rng.integers(problem.n, size=points), rng.random(points)
    waves = np.column_stack([problem.actions[actions], contexts]) / length @ rng.standard_normal((3, features))
    cost = math.sqrt(2 / features) * np.cos(waves + 2 * np.pi * rng.random(features)) @ rng.standard_normal(features)
    y = cost + 0.05 * rng.standard_normal(points)
    fit = fit_kernel(problem, actions, contexts, y, max_points=400, restarts=2)
    assert (fit.points_used, fit.points_given) == (400, points)
    found = np.append(fit.kernel.action.length_scale, fit.kernel.context.length_scale)
    assert np.all(np.abs(np.log(found / length)) < math.log(1.5))


def test_subset_is_spread_and_without_repetition():
    rng = np.random.default_rng(1)
    records = History(rng.integers(GRID.n, size=5000), rng.random(5000), np.arange(5000.0))
    chosen = subset(GRID, records, 200, np.random.default_rng(0))
    assert len(chosen) == len(np.unique(chosen.measurements)) == 200
    counts = np.histogramdd(np.column_stack([GRID.actions[chosen.actions], chosen.contexts]), bins=(2, 2, 2))[0]
    assert counts.min() >= 15  # 25 expected in each octant
    assert subset(GRID, records, 5000, rng) is records


# -- actions known by a metric only ------------------------------------------------------------------------------------

RING = np.minimum(gap := np.abs(np.subtract.outer(np.arange(12), np.arange(12))), 12 - gap).astype(float)


def test_metric_without_coordinates_gives_a_covariance_matrix():
    problem = Problem(metric=RING, fixed_cost=2.0)
    rng = np.random.default_rng(2)
    truth = np.linalg.cholesky(np.exp(-RING / 4.0)) @ rng.standard_normal(12)
    actions, contexts = rng.integers(12, size=100), rng.random(100)
    y = truth[actions] + 0.1 * rng.standard_normal(100)
    fit = fit_kernel(problem, actions, contexts, y)
    assert fit.kernel.action.shape == (12, 12)
    length = fit.parameters["metric length"]
    assert_allclose(fit.kernel.action, np.exp(-RING / length), atol=1e-12)  # without the fixed cost
    assert 1.0 < length < 30.0
    assert fit.noise_std == pytest.approx(0.1, rel=0.4)
    near = fit.kernel.covariance(problem, np.array([0]), np.zeros((1, 1)), np.array([1, 6]), np.zeros((2, 1)))[0]
    assert near[0] > near[1]


def test_settings_that_are_equally_far_apart_need_no_warning():
    """Names with one price for every change: no length of the metric fits better than another."""
    problem = Problem(metric=1.0 - np.eye(3), labels=["low", "middle", "high"])
    rng = np.random.default_rng(0)
    actions, contexts = rng.integers(3, size=480), 50 + 20 * np.sin(np.arange(480) / 4) + rng.normal(0, 4, 480)
    y = 1000 + 14 * contexts + 40 * (actions + 1 - contexts / 25) ** 2 + rng.normal(0, 5, 480)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        fit = fit_kernel(problem, actions, contexts, y)
    assert not any("metric" in name for name in fit.on_bounds)


def test_metric_that_allows_no_exponential_kernel_is_clipped():
    """Steps in the complete bipartite graph: no exp(-d / length) of them is positive semidefinite at long lengths."""
    parts = np.arange(10) % 2
    matrix = np.where(parts[:, None] == parts, 2.0, 1.0) - 2.0 * np.eye(10)
    problem = Problem(metric=matrix)
    raw = np.exp(-matrix / 8.0)
    assert np.linalg.eigvalsh(raw)[0] < -1e-3
    for covariance, _ in metric_covariances(problem):
        assert np.linalg.eigvalsh(covariance)[0] > -1e-9
        assert_allclose(np.diag(covariance), 1.0)
        assert_array_equal(covariance, covariance.T)
    rng = np.random.default_rng(0)
    actions = rng.integers(10, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert_sensible(fit_kernel(problem, actions, rng.random(40), actions + rng.standard_normal(40)))


def test_coordinates_are_used_where_there_are_any():
    assert has_coordinates(Problem([0.0, 1.0, 2.0]))
    assert has_coordinates(Problem([5.0, 1.0, 2.0], metric=RING[:3, :3]))
    assert not has_coordinates(Problem(metric=RING))
    assert not has_coordinates(Problem(["a", "b"], metric=lambda one, other: float(one != other)))
    assert isinstance(
        fit_kernel(Problem([5.0, 1.0, 2.0], metric=RING[:3, :3]), [0, 1], None, [1.0, 2.0]).kernel.action, RBF
    )
    single = fit_kernel(Problem(metric=[[0.0]]), [0, 0, 0], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    assert_array_equal(single.kernel.action, np.ones((1, 1)))


def test_too_many_actions_without_coordinates():
    n = 2001
    problem = copy.copy(Problem(metric=RING))
    problem.n = n  # a real matrix of that size takes seconds to check
    with pytest.raises(TooLarge, match="2001 actions without coordinates"):
        metric_covariances(problem)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0.1, 0.2], [1.0, np.nan]), "measurement 1 of the history is nan"),
        (([0, 1], [0.1, np.inf], [1.0, 2.0]), r"row 1 is \[inf\]"),
        (([0, 11], [0.1, 0.2], [1.0, 2.0]), "belongs to action 11, but the actions are numbered from 0 to 10"),
        (([0, -1], [0.1, 0.2], [1.0, 2.0]), "belongs to action -1"),
        (([0.5, 1.0], [0.1, 0.2], [1.0, 2.0]), "list of action indices"),
        (([0, 1], [0.1, 0.2, 0.3], [1.0, 2.0]), "2 actions, 3 contexts"),
        (([0, 1], [0.1, 0.2], [1.0]), r"measurements of shape \(1,\)"),
        (([0, 1], [0.1, 0.2], ["a", "b"]), "y must be numbers, all rows of the same length, got"),
        (([], [], []), "at least one measurement"),
        (([0, 1], [0.1, 0.2], [1.0, 1e200]), r"y contain 1e\+200, which is too large .* change the unit"),
        (([0, 1], [0.1, 1e200], [1.0, 2.0]), r"contexts contain 1e\+200"),
    ],
)
def test_bad_measurements_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        fit_kernel(LINE, *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_std": -1.0}, "noise_std must be a number, 0 or more, .* got -1.0"),
        ({"noise_std": np.nan}, "got nan"),
        ({"noise_std": "small"}, "got 'small'"),
        ({"prior_mean": np.nan}, "prior_mean is nan for measurement 0; it must be finite"),
        ({"prior_mean": [1.0, 2.0]}, r"11 of them .* got \[1.0, 2.0\]"),
        ({"prior_mean": lambda actions, context: "much"}, "got 'much'"),
        ({"restarts": -1}, "restarts must be a whole number, 0 or more, got -1"),
        ({"seed": None}, "seed must be a whole number from 0"),
        ({"max_points": 1}, "max_points must be a whole number, 2 or more, got 1"),
        ({"kernel": Kernel(RBF([0.1, 0.2]), RBF(0.1))}, "must have one length scale, got 2"),
        ({"kernel": Kernel(RBF(0.1), RBF([0.1, 0.2]))}, "contexts of the history must have 2 numbers, got 1"),
        ({"kernel": Kernel(np.eye(3), RBF(0.1))}, "for 3 actions, but the problem has 11"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        fit_kernel(LINE, *smooth(0), **options)


def test_a_context_kernel_needs_contexts():
    with pytest.raises(InvalidInput, match="there are no contexts"):
        fit_kernel(LINE, [0, 1], None, [1.0, 2.0], kernel=Kernel(RBF(0.1), RBF(0.1)))


def test_a_kernel_that_is_none_is_refused():
    records = repeated("two axes")
    around = Kernel(RBF(0.3), ExpSineSquared(0.8, 0.5))
    with pytest.raises(InvalidInput, match="not positive semidefinite at these inputs"):
        fit_kernel(GRID, records.actions, records.contexts, records.measurements, kernel=around, noise_std=0.0)


# -- small parts -------------------------------------------------------------------------------------------------------


def test_ranges():
    ranges = Ranges.of(np.array([[0.0, 5.0, 1.0], [2.0, 5.0, 1.0 + 1e-9], [3.0, 5.0, 2.0]]))
    assert_allclose(ranges.spacing, [1.0, 0.0, 1e-3])
    assert_allclose(ranges.extent, [3.0, 0.0, 1.0])
    assert_allclose(ranges.size, [3.0, 5.0, 2.0])
    assert ranges.varying == 2
    assert_allclose(ranges.merged().extent, [3.0])
    assert_allclose(ranges.merged().spacing, [1e-3])


def test_theta_round_trip():
    for kernel in KERNELS.values():
        assert_allclose(theta_of(kernel_with(kernel, theta_of(kernel))), theta_of(kernel), rtol=1e-12)


def test_default_structure():
    records = History([0, 1], [[0.0, 1e9], [1.0, 1e9]], [1.0, 2.0])
    [(kernel, length)] = first_guesses(GRID, records, None)
    assert length is None
    assert isinstance(kernel, Kernel)
    assert np.size(kernel.action.length_scale) == np.size(kernel.context.length_scale) == 2
    assert_allclose(kernel.context_shift, [0.5, 0.0])
