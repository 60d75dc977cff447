"""One round where the context is time (predict all actions, learn one measurement): late against early, and a refit."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from benchmarks.timing import Row, best_of_each
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel, Kernel
from holdcourse.learning.posteriors.exact import Prior
from holdcourse.learning.posteriors.temporal import TemporalPosterior

NOISE = 0.1
EARLY, LATE, REFIT = 1_000, 100_000, 500  # measurements so far
ROUNDS = 100  # timed together
NOT_SLOWER = 0.77  # at most 1.3 times the early cost
PEER = "refit, numpy + LAPACK"


def measure() -> list[Row]:
    axis = np.linspace(0.0, 1.0, 20)
    line, square = hc.Problem(np.linspace(0.0, 1.0, 25)), hc.Problem(hc.grid(x=axis, y=axis))
    single = Kernel(RBF(0.2), Matern(20.0, nu=1.5))
    wind = Kernel(RBF(0.3)) + Kernel(RBF(0.3), Matern(30.0, nu=0.5)) + Kernel(RBF(0.3), Matern(8.0, nu=0.5))
    rows = []
    for name, problem, kernel in (
        ("n = 25, Matern 3/2", line, single),
        ("n = 25, static + slow + fast", line, wind),
        ("n = 400, Matern 3/2", square, single),
    ):
        rows += [late_against_early(name, problem, kernel), ours_against_refit(name, problem, kernel)]
    return rows


def late_against_early(name: str, problem: hc.Problem, kernel: AnyKernel) -> Row:
    early, late = (Running(problem, kernel, rounds) for rounds in (EARLY, LATE))
    seconds = best_of_each([early.rounds, late.rounds], repeats=15)
    return Row(
        f"temporal round, {name}, t = {LATE:,}", seconds[1] / ROUNDS, f"t = {EARLY:,}", seconds[0] / ROUNDS, NOT_SLOWER
    )


def ours_against_refit(name: str, problem: hc.Problem, kernel: AnyKernel) -> Row:
    running = Running(problem, kernel, REFIT)
    history, now = running.history, running.now
    among = running.posterior.prior.action_covariances  # known to both beforehand
    mean, std = running.posterior.predict(now)
    expected, deviation = refit(kernel, among, history, now)
    assert max(np.abs(mean - expected).max(), np.abs(std - deviation).max()) < 1e-6
    ours, peer = best_of_each([running.rounds, lambda: refit(kernel, among, history, now)], repeats=9)
    return Row(f"temporal round, {name}, t = {REFIT}", ours / ROUNDS, PEER, peer)


class Running:
    """A posterior in use, at irregular times."""

    def __init__(self, problem: hc.Problem, kernel: AnyKernel, rounds: int) -> None:
        rng = np.random.default_rng(0)
        times = np.cumsum(rng.exponential(1.0, rounds))
        self.history = History(rng.integers(0, problem.n, rounds), times, rng.standard_normal(rounds))
        self.posterior = TemporalPosterior(Prior(problem, kernel, NOISE)).condition_on(self.history)
        self.now = float(times[-1])

    def rounds(self) -> None:
        """Go on for as many rounds as are timed together."""
        for k in range(ROUNDS):
            self.now += 0.7
            self.posterior.predict(self.now)
            self.posterior.condition(int(self.history.actions[k]), self.now, float(self.history.measurements[k]))


def refit(kernel: AnyKernel, among: list[np.ndarray], history: History, now: float) -> tuple[np.ndarray, np.ndarray]:
    """The posterior from scratch, as the paper's loop computes it."""
    actions, times, here = history.actions, history.contexts, np.array([[now]])
    K, cross = NOISE**2 * np.eye(len(times)), np.zeros((len(among[0]), len(times)))
    for part, covariance in zip(kernel.parts, among, strict=True):
        K += covariance[np.ix_(actions, actions)] * part.context_covariance(times)
        cross += covariance[:, actions] * part.context_covariance(here, times)
    factor = cho_factor(K, lower=True)
    prior = sum(np.diag(covariance) for covariance in among)
    variance = prior - np.einsum("xt,tx->x", cross, cho_solve(factor, cross.T))
    return cross @ cho_solve(factor, history.measurements), np.sqrt(variance)
