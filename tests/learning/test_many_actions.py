"""Learning over many actions: features without the covariance matrix, and what is believed with them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.errors import TooLarge
from holdcourse.learning import kernels
from holdcourse.learning.posteriors import basis, features
from holdcourse.learning.posteriors import exact as exact_module


def grid_problem(columns=9, rows=7):
    return hc.Problem(hc.grid(x=np.linspace(0, 1, columns), y=np.linspace(0, 2, rows)))


def left_of(phi, covariance):
    """What features leave of a covariance matrix."""
    return covariance - phi @ phi.T


@pytest.mark.parametrize("lengths", [0.3, [0.2, 0.7]])
def test_products_over_a_grid_are_features(lengths):
    problem = grid_problem()
    kernel = hc.Kernel(RBF(lengths), action_scale=[1.0, 2.0], action_shift=0.3)
    axes = features.axis_covariances(problem, kernel)
    phi = features.product_features(axes, 1e-6)
    left = left_of(phi, kernel.action_covariance(problem))
    assert 0.0 <= np.diag(left).max() <= 1e-6
    assert np.linalg.eigvalsh(left).min() > -1e-12  # features never claim more than there is
    across = phi.T @ phi
    assert_allclose(across - np.diag(np.diag(across)), 0.0, atol=1e-10)
    assert (np.diff(np.diag(across)) <= 1e-12).all()


@pytest.mark.parametrize("kernel", [RBF(0.4), RBF([0.4, 0.8]), Matern(1.5, nu=2.5)])
def test_inducing_points_are_features(kernel, monkeypatch):
    monkeypatch.setattr(features, "TRIED", 30)  # so that some have to be found elsewhere
    problem = hc.Problem(np.random.default_rng(2).random((80, 2)))
    part = hc.Kernel(kernel)
    phi = features.inducing_features(problem, part, 1e-6)
    left = left_of(phi, part.action_covariance(problem))
    assert np.diag(left).max() <= 1e-6
    assert np.linalg.eigvalsh(left).min() > -1e-9
    across = phi.T @ phi
    assert_allclose(across - np.diag(np.diag(across)), 0.0, atol=1e-10)


def test_another_kernel_than_a_product_is_no_product():
    assert features.axis_covariances(grid_problem(), hc.Kernel(Matern(0.3))) is None
    assert features.axis_covariances(hc.Problem([0.0, 1.0]), hc.Kernel(RBF(0.3))) is None


def test_too_many_features_say_what_to_do(monkeypatch):
    monkeypatch.setattr(features, "MOST_NUMBERS", 200)
    with pytest.raises(TooLarge, match="the kernel's length scale is too short for this many actions"):
        features.many_features(grid_problem(), hc.Kernel(RBF(0.1)))


def test_the_tolerance_gives_way_before_memory_does(monkeypatch):
    problem, kernel = grid_problem(), hc.Kernel(RBF(0.5))
    wide = features.many_features(problem, kernel).shape[1]
    monkeypatch.setattr(features, "MOST_NUMBERS", problem.n * (wide - 1))
    assert features.many_features(problem, kernel).shape[1] < wide


@pytest.mark.slow
def test_a_rough_kernel_of_some_thousand_actions_ends_soon():
    """By an answer, or by what to do; it took many minutes."""
    problem = hc.Problem(hc.grid(x=np.linspace(0, 1, 72), y=np.linspace(0, 1, 72)))
    begin = time.process_time()
    with pytest.raises(TooLarge, match=r"5184 actions need more than 1920 features.* Use a longer one, a smoother"):
        features.many_features(problem, hc.Kernel(Matern(0.2, nu=1.5)))
    assert time.process_time() - begin < 60.0


@pytest.fixture
def many(monkeypatch):
    """Small problems are treated as large ones."""
    for module in (kernels, basis, exact_module):
        monkeypatch.setattr(module, "MATRIX_ACTIONS", 10)
    monkeypatch.setattr("holdcourse.learning.posteriors.MATRIX_ACTIONS", 10)
    monkeypatch.setattr("holdcourse.learning.posteriors.flat.TOGETHER_ACTIONS", 16)


@pytest.mark.parametrize("scattered", [False, True])
def test_what_is_believed_is_what_the_matrix_gives(scattered, request):
    random = np.random.default_rng(4)
    kernel = hc.Kernel(RBF(0.5), RBF(0.3), variance=2.0)

    def learned():
        problem = hc.Problem(np.random.default_rng(5).random((70, 2))) if scattered else grid_problem()
        return hc.posterior(problem, kernel, noise_std=0.1, context_bounds=(0, 1), method="flat")

    dense = learned()
    request.getfixturevalue("many")
    free = learned()
    history = [(int(random.integers(60)), float(random.random()), float(random.normal())) for _ in range(25)]
    for row in history:
        dense.condition(*row)
        free.condition(*row)
    for context in (0.1, 0.55):
        (mean, std), (mean_free, std_free) = dense.predict(context), free.predict(context)
        assert_allclose(mean_free, mean, atol=0.02)
        assert_allclose(std_free, std, atol=0.005)
        rows, deviations = free.predict_at([context])
        assert_array_equal(rows[0], mean_free)
        assert_array_equal(deviations[0], std_free)
    assert free.discarded_variance < 1e-3


def test_state_of_many_actions_leaves_features_out(many):
    problem = grid_problem()
    post = hc.posterior(problem, hc.Kernel(RBF(0.5), RBF(0.3)), context_bounds=(0, 1))
    post.condition(3, 0.2, 1.0)
    state = post.state()
    assert "phi0" not in state
    again = hc.posterior(problem, hc.Kernel(RBF(0.5), RBF(0.3)), context_bounds=(0, 1)).restore(state)
    assert_array_equal(again.predict(0.4)[0], post.predict(0.4)[0])
    assert_array_equal(again.copy().predict(0.4)[1], post.predict(0.4)[1])


def test_undeclared_contexts_of_many_actions_are_learned_flat(many):
    post = hc.posterior(grid_problem(), hc.Kernel(RBF(0.5), RBF(0.3)))
    post.condition(3, 0.2, 1.0).condition(4, 1.4, 2.0)
    assert post.method == "flat"
    assert "there are many actions" in repr(post)
    mean, std = post.predict(1.4)
    assert mean[4] == pytest.approx(2.0, abs=0.1)
    assert std[4] < 0.15


def test_contexts_that_no_basis_covers_are_capped(request):
    def predicted(**options):
        kernel = hc.Kernel(RBF(0.5), RBF([0.02, 0.02]))
        post = hc.posterior(grid_problem(), kernel, context_bounds=[(0, 1), (0, 1)], **options)
        return post, post.condition(4, [0.5, 0.5], 2.0).predict([0.5, 0.5])

    _, (mean, std) = predicted(method="flat")
    request.getfixturevalue("many")
    post, (mean_free, std_free) = predicted()
    assert "there are many actions" in repr(post)
    assert "capped" in repr(post)
    assert_allclose(mean_free, mean, atol=0.02)
    assert_allclose(std_free, std, atol=0.005)


def test_what_needs_the_matrix_is_refused(many, monkeypatch):
    monkeypatch.setattr("holdcourse.learning.posteriors.CAPPED_ACTIONS", 10)
    problem = grid_problem()
    with pytest.raises(TooLarge, match="use method='flat'"):
        hc.posterior(problem, hc.Kernel(RBF(0.5), RBF(0.3)), method="exact")
    with pytest.raises(TooLarge, match="learns with features"):
        hc.Kernel(RBF(0.5)).action_covariance(problem)
    with pytest.raises(TooLarge, match="give a longer length scale"):
        hc.posterior(problem, hc.Kernel(RBF(0.5), RBF([0.02, 0.02])), context_bounds=[(0, 1), (0, 1)])


def test_single_covariances_of_many_actions(many):
    problem, kernel = grid_problem(), hc.Kernel(RBF(0.5), RBF(0.3), variance=2.0)
    actions, contexts = np.array([0, 5, 9]), np.array([[0.1], [0.2], [0.9]])
    free = kernel.covariance(problem, actions, contexts)
    apart = problem.actions[actions][:, None] - problem.actions[actions][None]
    expected = 2.0 * np.exp(-0.5 * (apart**2).sum(axis=2) / 0.25)
    expected *= np.exp(-0.5 * (contexts - contexts.T) ** 2 / 0.09)
    assert_allclose(free, expected, rtol=1e-12)
    assert_allclose(kernel.variances(problem, contexts), 2.0)


def test_a_controller_of_many_settings_is_resumed(tmp_path):
    """Above all thresholds at once: 20,164 settings, learned, logged, resumed."""
    axis = np.linspace(0, 1, 142)
    problem = hc.Problem(hc.grid(x=axis, y=axis), scale=0.5)
    policy = hc.gp_md(problem, kernel=hc.Kernel(RBF(0.5), RBF(0.5)), context_bounds=(0, 1))
    log = tmp_path / "controller.db"
    controller = hc.Controller(policy, start_index=0, log=log, seed=3)
    for t in range(4):
        decision = controller.ask(context=0.1 * t)
        controller.tell(decision.id, float(problem.actions[decision.action].sum()))
    expected = controller.ask(context=0.9)
    controller.close()
    again = hc.Controller.resume(log)
    assert again.round == 5
    assert again.action == expected.action
    assert "distances" not in vars(problem)
    assert log.stat().st_size < 8e6
    again.close()
