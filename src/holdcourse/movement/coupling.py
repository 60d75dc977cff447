"""From one distribution over actions to the next by moving as little as possible.

These are lines 12 and 13 of the paper's Algorithm 1.

On a tree the optimal coupling has a closed form (docs/theory/movement.md); no linear program is solved.

Examples
--------
>>> import holdcourse as hc
>>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
>>> before, after = [1.0, 0.0, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0]
>>> hc.coupling.conditional(tree, before, after, action=0).tolist()
[0.75, 0.25, 0.0, 0.0]
>>> hc.coupling.expected_movement(tree, before, after)  # a quarter of the probability moves by 1
0.25
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric import transport
from holdcourse.checks import check_index, float_array
from holdcourse.errors import InvalidInput
from holdcourse.movement.mirror import check_uniform, state_array
from holdcourse.movement.tree import Tree, check_tree

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-9  # a distribution may miss the sum 1 by this much


def conditional(tree: Tree, p: ArrayLike, p_next: ArrayLike, action: int) -> Array:
    """Return the probability of each next action, given the current one; shape (n,).

    Parameters
    ----------
    tree
        Tree over the n actions, as `frt_tree` returns it.
    p, p_next
        Distributions over the actions before and after the round, shape (n,).
    action
        The present action, by its index. If its probability in p is 0, the result is the limit for a vanishing
        probability.
    """
    before, after = _checked(tree, p, "p"), _checked(tree, p_next, "p_next")
    check_index(action, tree.n)
    row: Array = transport.conditional(before, after, int(action), tree.parent, tree.first_child, tree.children)
    return row


def sample(tree: Tree, p: ArrayLike, p_next: ArrayLike, action: int, uniform: float) -> int:
    """Draw the next action from what `conditional` returns for these arguments.

    `uniform` is a random number from [0, 1). Returns the index of the action.
    """
    before, after = _checked(tree, p, "p"), _checked(tree, p_next, "p_next")
    if not (type(action) is int and 0 <= action < tree.n):  # else all is well, which is most often so
        check_index(action, tree.n)
    check_uniform(uniform)
    return int(
        transport.sample(before, after, int(action), float(uniform), tree.parent, tree.first_child, tree.children)
    )


def sample_from_states(tree: Tree, q: Array, q_next: Array, action: int, uniform: float) -> int:
    """Draw as `sample` does, between two states of the mirror descent; it visits only the vertices of two paths.

    Parameters
    ----------
    tree
        Tree over the n actions, as `frt_tree` returns it.
    q, q_next
        States before and after the round, shape (vertices,), as `holdcourse.mirror` returns them. For speed only their
        shape is checked.
    action
        The present action, by its index.
    uniform
        A random number from [0, 1).

    Examples
    --------
    >>> import holdcourse as hc
    >>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
    >>> q = hc.mirror.start(tree, action=0)
    >>> q_next = hc.mirror.descend(tree, q, costs=[1.0, 0.0, 1.0, 1.0])
    >>> hc.coupling.sample_from_states(tree, q, q_next, action=0, uniform=0.9)
    1
    """
    before, after = state_array(tree, q), state_array(tree, q_next)
    check_index(action, tree.n)
    check_uniform(uniform)
    drawn = transport.sample_from_states(
        before, after, int(action), float(uniform), tree.parent, tree.first_child, tree.children
    )
    return int(drawn)


def expected_movement(tree: Tree, p: ArrayLike, p_next: ArrayLike) -> float:
    """Return the expected movement of the coupling, measured in the tree: the least that any coupling can have.

    `tree`, `p` and `p_next` are those of `conditional`; the result has the unit of the movement costs.
    """
    before, after = _checked(tree, p, "p"), _checked(tree, p_next, "p_next")
    return float(transport.movement(before, after, tree.parent, tree.weight))


def _checked(tree: Tree, p: ArrayLike, name: str) -> Array:
    check_tree(tree)
    array = float_array(p, name, copy=False)
    if array.shape != (tree.n,):
        raise InvalidInput(f"{name} must have shape ({tree.n},), one probability per action, got {array.shape}")
    if not transport.distribution_error(array) <= SUM_TOLERANCE:
        raise InvalidInput(
            f"{name} must be a distribution, with entries of 0 or more that sum to 1; "
            f"it sums to {array.sum():.12g}, and its smallest entry is {array.min():g}"
        )
    return array
