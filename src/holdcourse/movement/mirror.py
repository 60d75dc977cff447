"""Mirror descent on the tree: how the probabilities follow the costs (lines 4 to 11 of the paper's Algorithm 1).

`step` is a whole round: it descends, and then draws the next action from the optimal coupling (lines 12 and 13), which
`holdcourse.movement.coupling` computes between any two distributions.

The state is one array `q` over the tree's vertices: the probability that the action is below a vertex, given that it is
below the vertex's parent. All functions are pure: they return a new state.

Examples
--------
>>> import holdcourse as hc
>>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
>>> q = hc.mirror.start(tree, action=0)
>>> q = hc.mirror.descend(tree, q, costs=[1.0, 0.0, 1.0, 1.0])
>>> p = hc.mirror.leaf_probabilities(tree, q)
>>> bool(p[1] > 0.0), bool(p[2] < p[1])  # probability flows to the cheap neighbour
(True, True)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric import descent, lanes, transport
from holdcourse.checks import check_index, float_array, is_finite
from holdcourse.errors import InvalidInput, shown
from holdcourse.movement.tree import Tree, check_tree

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-9  # the probabilities below a vertex may miss the sum 1 by this much
LARGE = 20_000  # actions, above which vertices are stepped side by side; below, the whole tree is in the cache


def start(tree: Tree, action: int) -> Array:
    """Return the state at the start of an episode: the probability of `action` is 1.

    Below vertices of probability 0 the paper's inverse is undefined; there every leaf is equally likely.

    Parameters
    ----------
    tree
        Tree over the n actions, as `frt_tree` returns it.
    action
        The action at which the machine is, by its index.

    Returns
    -------
    State, shape (vertices,).
    """
    check_tree(tree)
    check_index(action, tree.n)
    q = tree.share.copy()
    vertex = int(action)
    while vertex != tree.root:
        parent = int(tree.parent[vertex])
        low, high = tree.first_child[parent - tree.n : parent - tree.n + 2]
        q[tree.children[low:high]] = 0.0
        q[vertex] = 1.0
        vertex = parent
    return q


def descend(tree: Tree, q: Array, costs: ArrayLike, kappa: float = 1.0) -> Array:
    """Shift probability towards cheap actions for one round; the farther away they are, the less.

    Parameters
    ----------
    tree
        Tree over the n actions, as `frt_tree` returns it.
    q
        State, shape (vertices,), as `start` or the last round returned it.
    costs
        Cost of each action this round, shape (n,). Any finite numbers; +inf forbids an action.
    kappa
        Eagerness, at least 1; larger values move sooner.

    Returns
    -------
    The new state, shape (vertices,).
    """
    return _descended(tree, checked_state(tree, q), costs, kappa)


def _descended(tree: Tree, q: Array, costs: ArrayLike, kappa: float) -> Array:
    """As `descend`, from a state that was checked."""
    costs = float_array(costs, "costs", copy=False)
    if costs.shape != (tree.n,):
        raise InvalidInput(f"costs must have shape ({tree.n},), one per action, got {costs.shape}")
    if not descent.usable_costs(costs):
        raise InvalidInput(_what_is_wrong(costs))
    if not (is_finite(kappa) and kappa >= 1):
        raise InvalidInput(f"kappa must be at least 1, got {shown(kappa)}")
    out: Array
    if tree.n > LARGE:
        out = lanes.step(q, costs, float(kappa), *tree.lanes)
        return out
    out = descent.step(
        q, costs, float(kappa), tree.slot_speed, tree.slot_shift, tree.first_child, tree.children, tree.blocks
    )
    return out


def step(
    tree: Tree, q: Array, action: int, costs: ArrayLike, uniform: float, kappa: float = 1.0
) -> tuple[int, Array, Array]:
    """Descend for one round, and draw the next action with as little movement as the new probabilities allow.

    Parameters
    ----------
    tree, q, costs, kappa
        As in `descend`.
    action
        The present action, by its index.
    uniform
        A random number from [0, 1).

    Returns
    -------
    The next action, the new state, and the probability of each action in it, shape (n,).

    Examples
    --------
    >>> import holdcourse as hc
    >>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
    >>> q = hc.mirror.start(tree, action=0)
    >>> action, q, p = hc.mirror.step(tree, q, 0, costs=[1.0, 0.0, 1.0, 1.0], uniform=0.9)
    >>> action, int(p.argmax())
    (1, 1)
    """
    q = checked_state(tree, q)
    if not (type(action) is int and 0 <= action < tree.n):  # `check_index` takes longer, and says what is wrong
        check_index(action, tree.n)
    check_uniform(uniform)
    q_next = _descended(tree, q, costs, kappa)
    after = _leaf_probabilities(tree, q_next)
    paths = tree.parent, tree.first_child, tree.children
    if tree.n > LARGE:
        drawn = transport.sample_from_states(q, q_next, int(action), float(uniform), *paths)
    else:
        drawn = transport.sample(_leaf_probabilities(tree, q), after, int(action), float(uniform), *paths)
    return int(drawn), q_next, after


def vertex_probabilities(tree: Tree, q: Array) -> Array:
    """Return the probability that the action is below each vertex, shape (vertices,), of a `tree` and its state `q`."""
    z: Array = descent.vertex_probabilities(state_array(tree, q), tree.parent)
    return z


def leaf_probabilities(tree: Tree, q: Array) -> Array:
    """Return the probability of each action, shape (n,), of a `tree` and its state `q`, shape (vertices,)."""
    return _leaf_probabilities(tree, state_array(tree, q))


def state_array(tree: Tree, q: ArrayLike) -> Array:
    """A state as floats, shape (vertices,); what they are is not looked at."""
    if not isinstance(tree, Tree):
        check_tree(tree)
    state = float_array(q, "the state", copy=False)
    if state.shape != tree.parent.shape:
        raise InvalidInput(
            f"the state must have shape {tree.parent.shape}, got {state.shape}; begin with mirror.start(tree, action)"
        )
    return state


def checked_state(tree: Tree, q: ArrayLike) -> Array:
    """A state as floats, shape (vertices,); raises unless the children of each vertex share its probability.

    That is not looked at where it would take a good part of a round: for more than `LARGE` actions.
    """
    state = state_array(tree, q)
    if tree.n <= LARGE and not descent.is_state(state, tree.first_child, tree.children, SUM_TOLERANCE):
        raise InvalidInput(
            "the state must give the children of every vertex probabilities of 0 or more that sum to 1, but does not; "
            "take it from mirror.start or mirror.descend, for this tree"
        )
    return state


def check_uniform(uniform: Any) -> None:
    """Raise unless it is a number from [0, 1)."""
    if not (is_finite(uniform) and 0.0 <= uniform < 1.0):
        raise InvalidInput(f"uniform must lie in [0, 1), got {shown(uniform)}")


def _leaf_probabilities(tree: Tree, q: Array) -> Array:
    leaves: Array = descent.vertex_probabilities(q, tree.parent)[: tree.n]
    return leaves


def _what_is_wrong(costs: Array) -> str:
    bad = np.flatnonzero(np.isnan(costs) | (costs == -math.inf))
    if len(bad):
        i = bad[0]
        return f"the cost of action {i} is {costs[i]:g}; costs must be numbers above -inf (+inf forbids an action)"
    return "all actions are forbidden (every cost is +inf); at least one must be allowed"
