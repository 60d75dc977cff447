"""kernel="auto": a posterior that fits its own kernel, keeps what it learned, and resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.posteriors import posterior

PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 12))


def measured(t, scale=1.0):
    """A smooth cost with a little noise, at an action and context that depend on the round."""
    random = np.random.default_rng(t)
    action, context = int(random.integers(12)), float(random.random())
    x = PROBLEM.actions[action, 0]
    return action, context, scale * (np.sin(6 * x) + np.cos(4 * context) + 3.0 + 0.05 * random.standard_normal())


@pytest.fixture(scope="module")
def trained():
    post = posterior(PROBLEM, "auto")
    for t in range(80):
        post.condition(*measured(t))
    return post


def test_it_predicts_what_it_never_saw(trained):
    errors = []
    for t in range(1000, 1040):
        action, context, y = measured(t)
        mean, std = trained.predict(context)
        errors.append((mean[action] - y) / np.hypot(std[action], trained.prior.noise_std))
    assert np.sqrt(np.mean(np.square(errors))) < 2.0  # calibrated: about 1
    assert trained.prior.noise_std < 0.2
    assert "kernel fitted to" in trained.reason


def test_before_any_measurement_it_is_finite_and_even():
    mean, std = posterior(PROBLEM, "auto").predict(0.3)
    assert (mean == 0).all()
    np.testing.assert_allclose(std, 1.0, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale):
    post = posterior(PROBLEM, "auto")
    for t in range(20):
        post.condition(*measured(t, scale))
    mean, std = post.predict(0.5)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert abs(mean.mean() - 3 * scale) < 2 * scale


def test_history_first_gives_the_same_start_as_a_posterior_of_the_fitted_kernel():
    past = hc.History.from_triples([measured(t) for t in range(60)])
    post = posterior(PROBLEM, "auto", history=past)
    fit = post.fit
    by_hand = posterior(PROBLEM, fit.kernel, fit.noise_std, fit.prior_mean, history=past)
    np.testing.assert_allclose(post.predict(0.4), by_hand.predict(0.4), rtol=1e-10)


def test_given_noise_and_mean_are_kept():
    post = posterior(PROBLEM, "auto", noise_std=0.3, prior_mean=2.0)
    for t in range(20):
        post.condition(*measured(t))
    assert post.prior.noise_std == 0.3
    assert (post.prior.mean(np.array([0.1])) == 2.0).all()


def test_resuming_is_bit_identical(trained):
    twin = posterior(PROBLEM, "auto").restore(trained.state())
    ours = trained.copy()
    for t in range(80, 170):  # over the next fit, at 128
        ours.condition(*measured(t))
        twin.condition(*measured(t))
    np.testing.assert_array_equal(ours.predict(0.7), twin.predict(0.7))
    assert ours.fit.parameters == twin.fit.parameters
    assert ours.fit.points_used == 128
    assert trained.observations == 80


def test_predict_at_follows_through_a_fit(trained):
    post = trained.copy()
    for t in range(80, 140):
        post.condition(*measured(t))
    mean, std = post.predict_at([0.2, 0.8])
    np.testing.assert_array_equal([mean[1], std[1]], post.predict(0.8))


def test_bad_input_leaves_it_unchanged(trained):
    before = trained.predict(0.5)
    for action, context, y in [(99, 0.5, 1.0), (0, float("nan"), 1.0), (0, [0.5, 0.5], 1.0), (0, 0.5, float("inf"))]:
        with pytest.raises(InvalidInput):
            trained.condition(action, context, y)
    np.testing.assert_array_equal(trained.predict(0.5), before)
    assert trained.observations == 80


def test_what_no_fit_can_use_is_refused_and_forgotten():
    post = posterior(PROBLEM, "auto").condition(0, 0.5, 1.0)
    for action, context, y in [(1, 0.5, 1e200), (1, 1e200, 1.0)]:
        with pytest.raises(InvalidInput, match=r"hold 1e\+200, too large to be squared"):
            post.condition(action, context, y)
        with pytest.raises(InvalidInput, match=r"hold 1e\+200, too large to be squared"):
            post.condition_on(hc.History([action], [context], [y]))
    assert post.observations == 1
    assert post.condition(1, 0.5, 2.0).observations == 2
    with pytest.raises(InvalidInput, match=r"actions hold 1e\+200"):
        posterior(hc.Problem([0.0, 1e200]), "auto")


def test_prior_mean_per_action_and_as_a_function():
    for mean in (np.linspace(0, 1, 12), lambda actions, context: actions[:, 0]):
        post = posterior(PROBLEM, "auto", prior_mean=mean)
        np.testing.assert_allclose(post.predict(0.5)[0], PROBLEM.actions[:, 0])
        assert post.describe() == posterior(PROBLEM, "auto", prior_mean=mean).describe()


def test_what_auto_cannot_do():
    with pytest.raises(InvalidInput, match="kernel 'rbf' is not known"):
        posterior(PROBLEM, "rbf")
    with pytest.raises(InvalidInput, match="need a Kernel"):
        posterior(PROBLEM, "auto", method="temporal")
