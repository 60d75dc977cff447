"""The likelihood of a fit: against the dense one with a row for each measurement, compiled or not, repeated or not."""

import numpy as np
import pytest
from oracles.likelihood import dense_log_likelihood, rbf_slopes
from scipy.optimize import approx_fprime
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from holdcourse._numeric.gp import exponents, pulled
from holdcourse.learning.fitting.likelihood import MEAN_WIDTH, Likelihood, kernel_with, parameters
from holdcourse.learning.fitting.points import subset
from holdcourse.learning.fitting.search import fit_kernel
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.movement.grid import grid
from holdcourse.movement.problem import Problem

PLANT = Problem(grid(x=[0.0, 0.5, 1.0], y=[0.0, 1.0]))
APART = np.exp(-np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))))
KERNELS = {
    "one length": Kernel(RBF(0.6), RBF(0.4)),
    "a length per axis": Kernel(RBF([0.6, 1.2]), RBF([0.4, 0.9]), 2.0, context_shift=0.3, context_scale=[0.5, 2.0]),
    "matrix": Kernel(APART, RBF([0.4, 0.9])),
    "matrix alone": Kernel(APART),
    "no context": Kernel(RBF(0.6)),
    "not compiled": Kernel(Matern(0.6, nu=1.5), RBF([0.4, 0.9])),
    "sum": Kernel(RBF(0.6), RBF([0.4, 0.9])) + Kernel(RBF([0.6, 1.2]), Matern(0.7), 0.5) + Kernel(APART, variance=0.2),
}


def measured(repeated):
    rng = np.random.default_rng(4)
    actions, contexts = rng.integers(6, size=30), rng.random((30, 2))
    if repeated:  # pairs of action and context that come several times, and some that come once
        again = rng.integers(12, size=25)
        actions, contexts = np.append(actions, actions[again]), np.vstack([contexts, contexts[again]])
    order = rng.permutation(len(actions))
    return History(actions[order], contexts[order], rng.normal(size=len(actions)))


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("free_mean", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_value_and_gradient(name, free_mean, repeated):
    past, kernel = measured(repeated), KERNELS[name]
    z = past.measurements
    entries = parameters(PLANT, past.contexts, kernel, noise=True)
    model = Likelihood(PLANT, past, z, kernel, entries, None, free_mean=free_mean)
    theta = np.array([entry.start for entry in entries])
    theta[-1] = np.log(0.3)
    value, slopes, mean = model.evaluate(theta)

    def dense(at):
        return dense_log_likelihood(
            PLANT, past, z, kernel_with(kernel, at), np.exp(at[-1]), MEAN_WIDTH if free_mean else None
        )

    np.testing.assert_allclose((value, mean), dense(theta), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        slopes, approx_fprime(theta, lambda at: fixed(at, past, z, kernel, mean), 1e-7), atol=2e-4
    )
    assert model.points == (30 if repeated else len(z))


def fixed(theta, past, z, kernel, mean):
    """The dense value at a mean that is held: the gradient is taken so."""
    return dense_log_likelihood(PLANT, past, z - mean, kernel_with(kernel, theta), np.exp(theta[-1]))[0]


@pytest.mark.kernel
def test_compiled_loops():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(3, 6))
    E = np.full((6, 6), 9.0)
    exponents(P, E)
    apart = ((P[:, :, None] - P[:, None]) ** 2).sum(axis=0)
    np.testing.assert_allclose(E, np.tril(-0.5 * apart), atol=1e-14)
    cov, alpha = np.exp(-0.5 * apart), rng.normal(size=6)
    inverse = np.linalg.inv(cov + 0.1 * np.eye(6))
    slopes = np.full(4, 9.0)
    pulled(P, np.tril(cov), np.tril(inverse), alpha, slopes)
    np.testing.assert_allclose(slopes, rbf_slopes(P, cov, inverse, alpha), rtol=1e-10)


def test_curvature_and_last_steps_find_the_same_optimum():
    rng = np.random.default_rng(2)
    actions, contexts = rng.integers(6, size=150), rng.random((150, 2))
    z = np.sin(3 * contexts.sum(axis=1) + actions) + 0.1 * rng.normal(size=150)
    past, kernel = History(actions, contexts, z), Kernel(RBF([1.0, 1.0]), RBF([1.0, 1.0]))
    entries = parameters(PLANT, contexts, kernel, noise=True)
    model = Likelihood(PLANT, past, z, kernel, entries, None, free_mean=True)
    best, value = model.maximise(model.centre, 200)
    away = best + 0.3 * rng.normal(size=len(best))
    near = model.finish(away, model.curvature(away), 30)
    assert -model.loss(near)[0] == pytest.approx(value, abs=0.05)
    inside = model.finish(np.array([entry.upper for entry in entries]), np.zeros((len(best),) * 2), 12)
    assert all(entry.lower <= x <= entry.upper for entry, x in zip(entries, inside, strict=True))


def test_many_measurements_of_few_pairs_all_count():
    """Two states and two contexts, a thousand times: 4 points, and the noise from the scatter of all."""
    rng = np.random.default_rng(3)
    actions, contexts = rng.integers(2, size=3000), rng.integers(2, size=3000).astype(float)
    y = np.array([[1.0, 2.0], [4.0, 2.0]])[contexts.astype(int), actions] + 0.2 * rng.normal(size=3000)
    fit = fit_kernel(Problem([0.0, 1.0]), actions, contexts, y)
    assert fit.points_used == 3000
    assert fit.noise_std == pytest.approx(0.2, rel=0.05)
    past = History(actions, contexts, y)
    assert subset(Problem([0.0, 1.0]), past, 4, rng) is past
    assert len(subset(Problem([0.0, 1.0]), past, 3, rng)) == 2


def test_a_kernel_of_constants_is_fitted_as_before():
    rng = np.random.default_rng(5)
    actions, contexts = rng.integers(6, size=60), rng.random((60, 2))
    y = np.sin(3 * contexts[:, 0] + actions) + 0.1 * rng.normal(size=60)
    held = Kernel(RBF(0.6, "fixed"), ConstantKernel(0.5) * RBF(0.5))
    fit = fit_kernel(PLANT, actions, contexts, y, kernel=held, restarts=1)
    assert fit.kernel.action.length_scale == 0.6
    assert np.isfinite(fit.log_marginal_likelihood)


def test_few_steps_with_all_points_are_enough():
    """What is found mostly on 400 points is as likely, for all 700, as what a long climb with all of them finds."""
    rng = np.random.default_rng(6)
    actions, contexts = rng.integers(6, size=700), rng.random((700, 2))
    y = (
        np.sin(4 * contexts[:, 0] + PLANT.actions[actions].sum(axis=1))
        + contexts[:, 1] ** 2
        + 0.1 * rng.normal(size=700)
    )
    fit = fit_kernel(PLANT, actions, contexts, y)
    assert fit.points_used == 700
    scale = float(y.std())
    past, z = History(actions, contexts, y), (y - y.mean()) / scale
    entries = parameters(PLANT, contexts, fit.kernel, noise=True)
    model = Likelihood(PLANT, past, z, fit.kernel, entries, None, free_mean=True)
    found = np.log(list(fit.parameters.values()))
    found[0] -= 2 * np.log(scale)  # a variance; lengths have no unit of y
    found[-1] -= np.log(scale)  # the noise
    _, best = model.maximise(found, 200)
    assert -model.loss(found)[0] > best - 0.1


def test_where_arrays_lie_does_not_matter():
    """Small arrays that stand close together in memory must give the same bits as any others."""
    results = set()
    for gap in range(40):
        rng = np.random.default_rng(7)
        memory = np.zeros(400 + 6 * gap)
        P, alpha, cov, inverse, slopes = _placed(memory, gap, (3, 10), (10,), (10, 10), (10, 10), (4,))
        P[:], alpha[:] = rng.normal(size=(3, 10)), rng.normal(size=10)
        exponents(P, cov)
        np.exp(cov, out=cov)
        inverse[:] = rng.normal(size=(10, 10))
        waste = [np.empty(k + 1) for k in range(gap)]  # moves what is allocated inside
        pulled(P, cov, inverse, alpha, slopes)
        del waste
        results.add((cov.tobytes(), slopes.tobytes()))
    assert len(results) == 1


def _placed(memory, gap, *shapes):
    """Arrays of these shapes one after the other in memory, with a gap between them."""
    place, arrays = 0, []
    for shape in shapes:
        size = int(np.prod(shape))
        arrays.append(memory[place : place + size].reshape(shape))
        place += size + gap
    return arrays
