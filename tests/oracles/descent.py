"""Slow, obvious twins of the mirror descent step."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize


def children_of(tree, u):
    return [v for v in range(len(tree.parent)) if tree.parent[v] == u]


def node_constants(tree, u):
    """Theta, eta, delta of the children of u, from the definition."""
    leaves = leaf_counts(tree)
    kin = children_of(tree, u)
    theta = np.array([leaves[v] / leaves[u] for v in kin])
    eta = 1 + np.log(1 / theta)
    return kin, eta, theta / eta


def leaf_counts(tree):
    counts = [1] * tree.n + [0] * (len(tree.parent) - tree.n)
    for v in range(len(tree.parent) - 1):
        counts[tree.parent[v]] += counts[v]
    return counts


def node_step(q, c, w, eta, delta, kappa):
    """One vertex by bisection on the multiplier."""
    allowed = np.isfinite(c)
    new = np.zeros(len(q))
    a, s = kappa * eta[allowed] / w[allowed], q[allowed] + delta[allowed]
    shift = c[allowed].min()
    cost = c[allowed] - shift

    def probabilities(b):
        return np.maximum(0, s * np.exp(np.minimum(a * (b - cost), 700)) - delta[allowed])

    top = np.min(cost + np.log((1 + delta[allowed]) / s) / a)
    b = brentq(
        lambda b: probabilities(b).sum() - 1, top - 1e3 / a.min() - cost.max(), top + 1e-9 / a.max(), xtol=1e-300
    )
    new[allowed] = probabilities(b)
    return new


def node_step_by_solver(q, c, w, eta, delta, kappa):
    """One vertex as the convex program that it is, by a general solver."""

    def objective(new):
        entropy = (new + delta) * np.log((new + delta) / (q + delta)) - (new - q)
        return c @ new + (w / (kappa * eta)) @ entropy

    def gradient(new):
        return c + w / (kappa * eta) * np.log((new + delta) / (q + delta))

    result = minimize(
        objective,
        np.full(len(q), 1 / len(q)),
        jac=gradient,
        bounds=[(0, 1)] * len(q),
        constraints={"type": "eq", "fun": lambda new: new.sum() - 1, "jac": lambda new: np.ones(len(q))},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.x


def descend(tree, q, costs, kappa=1.0, node=node_step):
    """The whole step, vertex by vertex, children before parents."""
    new = q.copy()
    cost = dict(enumerate(costs))
    for u in range(tree.n, len(tree.parent)):
        kin, eta, delta = node_constants(tree, u)
        c = np.array([cost[v] for v in kin])
        if np.isinf(c).all():
            cost[u] = np.inf
            continue
        new[kin] = node(q[kin], c, tree.weight[kin], eta, delta, kappa)
        cost[u] = sum(p * x for p, x in zip(new[kin], c, strict=True) if p > 0)
    return new


def kkt_residual(tree, q, new, costs, kappa=1.0):
    """Largest violation of the optimality conditions over all vertices, relative to max(|c|, w)."""
    worst = 0.0
    cost = dict(enumerate(costs))
    for u in range(tree.n, len(tree.parent)):
        kin, eta, delta = node_constants(tree, u)
        c = np.array([cost[v] for v in kin])
        allowed = np.isfinite(c)
        if not allowed.any():
            cost[u] = np.inf
            continue
        p, w = new[kin], tree.weight[kin]
        force = c[allowed] + (w / (kappa * eta) * np.log((p + delta) / (q[kin] + delta)))[allowed]
        active = p[allowed] > 0
        scale = max(np.abs(c[allowed]).max(), w.max())
        worst = max(worst, np.ptp(force[active]) / scale)  # equal multipliers where the probability is positive
        worst = max(worst, np.max(force[active].min() - force[~active], initial=0.0) / scale)  # no gain elsewhere
        cost[u] = sum(x * y for x, y in zip(p, c, strict=True) if x > 0)
    return worst
