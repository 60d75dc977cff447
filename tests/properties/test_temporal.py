from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.dense_gp import dense_posterior
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse._numeric.kalman import transitions
from holdcourse.learning.kernels import Kernel, KernelSum
from holdcourse.learning.posteriors.exact import Prior
from holdcourse.learning.posteriors.temporal import AT_REST, TemporalPosterior

PROBLEM = hc.Problem([0.0, 0.2, 0.6, 1.0])
NOISE = 0.2

contexts = st.one_of(
    st.none(),
    st.builds(Matern, length_scale=st.floats(0.1, 100.0), nu=st.sampled_from([0.5, 1.5, 2.5])),
)
parts = st.builds(
    Kernel,
    action=st.builds(RBF, st.sampled_from([0.3, 1.0])),
    context=contexts,
    variance=st.floats(0.1, 4.0),
    context_scale=st.sampled_from([1.0, 7.0]),
)
kernels = st.lists(parts, min_size=1, max_size=3).map(lambda found: KernelSum(tuple(found)))
steps = st.one_of(st.just(0.0), st.floats(1e-12, 1e-6), st.floats(0.01, 10.0), st.floats(100.0, 1e6))
rounds = st.lists(st.tuples(steps, st.integers(0, 3), st.floats(-3.0, 3.0)), min_size=1, max_size=30)
# In units of the process' own time; the longest products of two steps stay clear of underflow.
own_steps = st.one_of(st.just(0.0), st.floats(1e-9, 1e-3), st.floats(1e-3, 30.0))


def unzipped(rounds):
    gaps, actions, y = (np.array(column) for column in zip(*rounds, strict=True))
    return actions.astype(int), np.cumsum(gaps), y


def learned(kernel, actions, times, y):
    post = TemporalPosterior(Prior(PROBLEM, kernel, NOISE))
    for action, time, measurement in zip(actions, times, y, strict=True):
        post.condition(int(action), float(time), float(measurement))
    return post


def step_of(d, a):
    F, Q = np.zeros((1, 3, 3)), np.zeros((1, 3, 3))
    transitions(np.array([[d, 1, 0, 0]]), np.array([[1.0, 1.0]]), a, F, Q)
    return F[0, :d, :d], Q[0, :d, :d]


@given(kernels, rounds, steps)
def test_equals_dense_posterior(kernel, rounds, ahead):
    actions, times, y = unzipped(rounds)
    now = times[-1] + ahead
    mean, std = learned(kernel, actions, times, y).predict(now)
    expected, deviation = dense_posterior(PROBLEM, kernel, NOISE**2, actions, times, y, now)
    scale = np.sqrt(sum(part.variance for part in kernel.parts))
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(std, deviation, rtol=0, atol=1e-6 * scale)


@given(kernels, st.lists(st.tuples(st.integers(0, 3), st.floats(-3.0, 3.0)), min_size=2, max_size=8), st.randoms())
def test_order_within_one_time_does_not_matter(kernel, measured, random):
    actions, y = (np.array(column) for column in zip(*measured, strict=True))
    order = list(range(len(y)))
    random.shuffle(order)
    times = np.full(len(y), 3.0)
    one, other = learned(kernel, actions, times, y), learned(kernel, actions[order], times, y[order])
    np.testing.assert_allclose(one.predict(4.0), other.predict(4.0), rtol=0, atol=1e-10)


@given(kernels, rounds, steps, st.integers(0, 3))
def test_a_measurement_never_widens_what_is_ahead(kernel, rounds, ahead, action):
    actions, times, y = unzipped(rounds)
    post = learned(kernel, actions, times, y)
    _, before = post.predict(times[-1] + ahead)
    gain = post.information_gain
    post.condition(action, times[-1], 1.0)
    mean, std = post.predict_at([times[-1] + ahead])
    assert (std[0] <= before + 1e-12).all()
    assert post.information_gain >= gain
    np.testing.assert_array_equal([mean[0], std[0]], post.predict(times[-1] + ahead))


@given(kernels, rounds)
def test_covariance_stays_symmetric_and_positive(kernel, rounds):
    actions, times, y = unzipped(rounds)
    covariance = learned(kernel, actions, times, y).state()["covariance"]
    largest = np.abs(covariance).max()
    assert np.abs(covariance - covariance.T).max() <= 1e-14 * largest
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-13 * largest


@given(st.sampled_from([1, 2, 3]), own_steps, own_steps)
def test_two_steps_are_one(d, first, second):
    F, Q = step_of(d, first)
    F2, Q2 = step_of(d, second)
    whole, noise = step_of(d, first + second)
    np.testing.assert_allclose(F2 @ F, whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(F2 @ Q @ F2.T + Q2, noise, rtol=0, atol=1e-13)


@given(st.sampled_from([1, 2, 3]), own_steps)
def test_rest_stays_at_rest(d, a):
    F, Q = step_of(d, a)
    np.testing.assert_allclose(F @ AT_REST[d] @ F.T + Q, AT_REST[d], rtol=0, atol=1e-13)


@given(st.sampled_from([1, 2, 3]), st.floats(-40.0, 3.0))
def test_process_noise_is_a_covariance(d, exponent):
    _, Q = step_of(d, 10.0**exponent)
    deviations = np.sqrt(np.diag(Q))
    assume((deviations > 1e-150).all())
    correlations = Q / np.outer(deviations, deviations)
    assert np.linalg.eigvalsh(correlations)[0] > 1e-4
