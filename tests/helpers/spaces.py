"""Random metric spaces and trees for tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import holdcourse as hc


def random_problem(kind, n, seed, scale=1.0):
    """A problem with n actions: points on a line or in the plane, equal distances, or a closed random matrix."""
    random = np.random.default_rng(seed)
    if kind == "line":
        return hc.Problem(np.sort(random.choice(10 * n, n, replace=False)) * scale)
    if kind == "plane":
        return hc.Problem(random.random((n, 2)) * scale)
    if kind == "uniform":
        return hc.Problem(metric=(np.ones((n, n)) - np.eye(n)) * scale)
    if kind == "clustered":
        centres = random.integers(0, max(2, n // 4), n)
        return hc.Problem((centres * 1e4 + random.permutation(n)) * scale)
    assert kind == "matrix"
    upper = np.triu(random.random((n, n)) + 0.01, 1)
    return hc.Problem(metric=hc.metric_closure((upper + upper.T) * scale))


KINDS = ("line", "plane", "uniform", "clustered", "matrix")


@st.composite
def problems(draw, max_actions=24, scales=(1e-6, 1.0, 1e6)):
    return random_problem(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(1, max_actions)),
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from(scales)),
    )


@st.composite
def trees(draw, max_actions=24, scales=(1e-6, 1.0, 1e6)):
    problem = draw(problems(max_actions, scales))
    tau = draw(st.sampled_from([4.5, 5.0, 8.0]))
    return hc.frt_tree(problem, tau=tau, seed=draw(st.integers(0, 2**20)))


def random_state(tree, seed, concentration=1.0):
    """Conditional probabilities drawn at random at every vertex, some of them 0."""
    random = np.random.default_rng(seed)
    q = np.ones(len(tree.parent))
    for u in range(len(tree.first_child) - 1):
        kin = tree.children[tree.first_child[u] : tree.first_child[u + 1]]
        p = random.dirichlet(np.full(len(kin), concentration))
        p[random.random(len(kin)) < 0.2] = 0.0
        q[kin] = p / p.sum() if p.sum() > 0 else np.eye(len(kin))[0]
    return q


def random_distribution(n, seed):
    """A distribution over n actions with some zeros."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(n, 0.5))
    p[random.random(n) < 0.3] = 0.0
    return p / p.sum() if p.sum() > 0 else np.eye(n)[0]
