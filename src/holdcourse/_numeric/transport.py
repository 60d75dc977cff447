"""Optimal coupling of two distributions over the leaves of a tree (lines 12 and 13 of the paper's Algorithm 1).

The mathematics is in docs/theory/movement.md, under "The coupling".

Notation
--------
p, p'       (n,)         distributions over the actions, before and after
z, z'       (vertices,)  probability of being below each vertex
q, q'       (vertices,)  the same, given that one is below its parent: the state of the descent
supply_v    max(0, z_v - z'_v): what v cannot match inside itself and sends up
demand_v    max(0, z'_v - z_v): what v misses and takes from above
U           uniform random number on [0, 1)

A unit of probability at action x stays with probability min(1, p'_x / p_x). Else it climbs. At vertex u the supply and
demand of u's children are matched as far as possible: it is matched there with probability
min(1, demand_u / supply_u), both summed over u's children, and then descends in proportion to demand.
Sums of z round, so a demand can be positive where no child shows any; then the likeliest child is taken, which is
never a forbidden one.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, error_model="numpy")
def distribution_error(p: Array) -> float:
    """How far p is from a distribution: |sum - 1|, or infinity when an entry is negative or not a number."""
    total = 0.0
    for i in range(p.size):
        if not p[i] >= 0.0:
            return np.inf
        total += p[i]
    return abs(total - 1.0)


@njit(cache=True, error_model="numpy")
def below(p: Array, parent: Ints) -> Array:
    """Add up the probabilities p of the leaves into z, the probability of all leaves below each vertex."""
    z = np.zeros(parent.size)
    for x in range(p.size):  # one by one: a slice would take the compiler a second and a half more
        z[x] = p[x]
    for v in range(parent.size - 1):
        z[parent[v]] += z[v]
    return z


@njit(cache=True, error_model="numpy")
def _unmatched(z: Array, z_next: Array, kin: Ints) -> tuple[float, float]:
    """Supply and demand at a vertex, summed over its children."""
    supply, demand = 0.0, 0.0
    for v in kin:
        difference = z[v] - z_next[v]
        if difference > 0.0:
            supply += difference
        else:
            demand -= difference
    return supply, demand


@njit(cache=True, error_model="numpy")
def _stay_probability(p: Array, p_next: Array, x: int) -> float:
    # An action of probability 0 is treated as the limit of a vanishing one.
    if p[x] > 0.0:
        return min(1.0, float(p_next[x] / p[x]))
    return 1.0 if p_next[x] > 0.0 else 0.0


@njit(cache=True, error_model="numpy")
def _match_probability(supply: float, demand: float, at_root: bool) -> float:
    if at_root or demand >= supply:
        return 1.0 if at_root or demand > 0.0 else 0.0
    return demand / supply


@njit(cache=True, error_model="numpy")
def _likeliest(z_next: Array, kin: Ints) -> int:
    best = int(kin[0])
    for v in kin:
        if z_next[v] > z_next[best]:
            best = int(v)
    return best


@njit(cache=True, error_model="numpy")
def conditional(p: Array, p_next: Array, x: int, parent: Ints, first: Ints, children: Ints) -> Array:
    """Probability of each next action given that the current one is x, shape (n,)."""
    n, size = p.size, parent.size
    z, z_next = below(p, parent), below(p_next, parent)
    arriving = np.zeros(size)  # probability matched with demand below each vertex
    row = arriving[:n]
    row[x] = _stay_probability(p, p_next, x)
    climbing = 1.0 - row[x]
    u = x
    while climbing > 0.0 and u != size - 1:
        u = parent[u]
        kin = children[first[u - n] : first[u - n + 1]]
        supply, demand = _unmatched(z, z_next, kin)
        matched = climbing * _match_probability(supply, demand, u == size - 1)
        climbing -= matched
        _spread(matched, demand, z, z_next, kin, arriving)
    for v in range(size - 1, n - 1, -1):
        if arriving[v] > 0.0:
            kin = children[first[v - n] : first[v - n + 1]]
            _, demand = _unmatched(z, z_next, kin)
            _spread(arriving[v], demand, z, z_next, kin, arriving)
    return row


@njit(cache=True, error_model="numpy")
def _spread(mass: float, demand: float, z: Array, z_next: Array, kin: Ints, arriving: Array) -> None:
    """Share mass among the children in proportion to their demand."""
    if mass <= 0.0:
        return
    if demand <= 0.0:
        arriving[_likeliest(z_next, kin)] += mass
        return
    for v in kin:
        arriving[v] += mass * max(0.0, z_next[v] - z[v]) / demand


@njit(cache=True, error_model="numpy")
def sample(p: Array, p_next: Array, x: int, U: float, parent: Ints, first: Ints, children: Ints) -> int:
    """The next action, drawn from `conditional` with one uniform number.

    Each decision uses the leading part of U and hands the rest, rescaled to [0, 1), to the next decision.
    """
    n, size = p.size, parent.size
    stay = _stay_probability(p, p_next, x)
    if stay > U or size == 1:
        return x
    U = (U - stay) / (1.0 - stay)
    z, z_next = below(p, parent), below(p_next, parent)
    u = x
    demand = 0.0
    while u != size - 1:
        u = parent[u]
        supply, demand = _unmatched(z, z_next, children[first[u - n] : first[u - n + 1]])
        match = _match_probability(supply, demand, u == size - 1)
        if match > U:
            U /= match
            break
        U = (U - match) / (1.0 - match)
    while u >= n:
        kin = children[first[u - n] : first[u - n + 1]]
        _, demand = _unmatched(z, z_next, kin)
        chosen = _likeliest(z_next, kin)
        if demand > 0.0:
            U *= demand
            for v in kin:
                share = z_next[v] - z[v]
                if share > 0.0:
                    chosen = v
                    if share > U:
                        U /= share
                        break
                    U -= share
        # After rounding U may be left at or above 1: the last child with demand is taken then.
        U = min(max(U, 0.0), 1.0)
        u = chosen
    return u


@njit(cache=True, error_model="numpy")
def sample_from_states(q: Array, q_next: Array, x: int, U: float, parent: Ints, first: Ints, children: Ints) -> int:
    """`sample` from conditional probabilities (vertices,): only the children along two paths are looked at.

    z is the product of q down from the root, so below a vertex of known z that of every child is one product more.
    """
    size = parent.size
    n = size - (first.size - 1)
    path = np.empty(size - n + 1, np.int64)
    depth, v = 0, x
    while v != size - 1:
        path[depth] = v
        depth += 1
        v = parent[v]
    # z and z' of x and of all above it
    z, z_next = np.ones(depth + 1), np.ones(depth + 1)
    for k in range(depth - 1, -1, -1):
        z[k], z_next[k] = z[k + 1] * q[path[k]], z_next[k + 1] * q_next[path[k]]
    stay = min(1.0, z_next[0] / z[0]) if z[0] > 0.0 else (1.0 if z_next[0] > 0.0 else 0.0)
    if stay > U or size == 1:
        return x
    U = (U - stay) / (1.0 - stay)
    u, here, there = x, 0.0, 0.0
    for k in range(1, depth + 1):
        u = path[k] if k < depth else size - 1
        here, there = z[k], z_next[k]
        supply, demand = _unmatched_below(q, q_next, here, there, children[first[u - n] : first[u - n + 1]])
        match = _match_probability(supply, demand, u == size - 1)
        if match > U:
            U /= match
            break
        U = (U - match) / (1.0 - match)
    while u >= n:
        kin = children[first[u - n] : first[u - n + 1]]
        _, demand = _unmatched_below(q, q_next, here, there, kin)
        chosen = _likeliest(q_next, kin)
        if demand > 0.0:
            U *= demand
            for v in kin:
                share = there * q_next[v] - here * q[v]
                if share > 0.0:
                    chosen = v
                    if share > U:
                        U /= share
                        break
                    U -= share
        U = min(max(U, 0.0), 1.0)  # as in `sample`
        here, there = here * q[chosen], there * q_next[chosen]
        u = chosen
    return u


@njit(cache=True, error_model="numpy")
def _unmatched_below(q: Array, q_next: Array, z: float, z_next: float, kin: Ints) -> tuple[float, float]:
    """Supply and demand, summed over the children of a vertex with z and z' of its own."""
    supply, demand = 0.0, 0.0
    for v in kin:
        difference = z * q[v] - z_next * q_next[v]
        if difference > 0.0:
            supply += difference
        else:
            demand -= difference
    return supply, demand


@njit(cache=True, error_model="numpy")
def movement(p: Array, p_next: Array, parent: Ints, weight: Array) -> float:
    """Least expected movement between the distributions on the tree: sum of w_v |z_v - z'_v|."""
    difference = below(p_next - p, parent)
    total = 0.0
    for v in range(parent.size - 1):
        total += weight[v] * abs(difference[v])
    return total
