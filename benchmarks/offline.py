"""The clairvoyant optimum against the obvious dense numpy one: n = 400 actions, T = 500 rounds."""

from __future__ import annotations

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row, best_of_each

SIDE, ROUNDS, CONTEXTS = 20, 500, 40
PEER = "dense numpy"


def measure() -> list[Row]:
    axis = np.linspace(0.0, 1.0, SIDE)
    square = hc.grid(x=axis, y=axis)
    euclidean, cityblock = hc.Problem(square), hc.Problem(square, "cityblock")
    line = hc.Problem(np.linspace(0.0, 1.0, SIDE**2))
    rng = np.random.default_rng(0)
    landscape = smooth_costs(euclidean, rng)
    # Pruning pays by how much service weighs against movement: at 1 they are alike, and near 0.03 it has least to skip.
    return [
        compare("optimal path, any metric", landscape, euclidean, bar=4.0),
        compare("optimal path, any metric, costs x 4", 4.0 * landscape, euclidean, bar=4.0),
        compare("optimal path, any metric, costs x 0.03", 0.03 * landscape, euclidean),
        compare("optimal path, any metric, independent costs", rng.random((ROUNDS, SIDE**2)), euclidean, bar=4.0),
        compare("optimal path, L1 grid", landscape, cityblock, bar=30.0),
        compare("optimal path, line", landscape, line, bar=30.0),
    ]


def smooth_costs(problem: hc.Problem, rng: np.random.Generator) -> np.ndarray:
    """Costs of 500 rounds that draw from 40 smooth random functions, as large as the distances on average."""
    squared = ((problem.actions[:, None] - problem.actions[None]) ** 2).sum(axis=2)
    covariance = np.exp(-squared / (2 * 0.2**2)) + 1e-8 * np.eye(problem.n)
    functions = rng.standard_normal((CONTEXTS, problem.n)) @ np.linalg.cholesky(covariance).T
    functions -= functions.min()
    functions *= problem.distances.mean() / functions.mean()
    return functions[rng.integers(0, CONTEXTS, ROUNDS)]


def compare(name: str, costs: np.ndarray, problem: hc.Problem, bar: float | None = None) -> Row:
    distances = problem.distances  # known to both beforehand
    assert np.isclose(hc.optimal_path(costs, problem, 0).total, numpy_path(costs, distances, 0)[1], rtol=1e-11)
    ours, peer = best_of_each(
        [lambda: hc.optimal_path(costs, problem, 0), lambda: numpy_path(costs, distances, 0)], repeats=9
    )
    return Row(name, ours, PEER, peer, bar)


def numpy_path(costs: np.ndarray, distances: np.ndarray, start: int) -> tuple[list[int], float]:
    """Values forward over every pair, one argmin per round on the way back."""
    values = np.empty_like(costs)
    values[0] = distances[start] + costs[0]
    for t in range(1, len(costs)):
        values[t] = (values[t - 1][:, None] + distances).min(axis=0) + costs[t]
    path = [int(values[-1].argmin())]
    for t in range(len(costs) - 2, -1, -1):
        path.append(int((values[t] + distances[:, path[-1]]).argmin()))
    return path[::-1], float(values[-1].min())
