"""Rounds of many members in one call: the kernels of single ones, looped over members where Python would not keep up.

Each loop calls the kernel that a single controller calls, on that member's arrays, so that both round alike. Members
that take part in a call are named by `members` (k,); arrays of theirs that change have one row per member of the fleet,
B of them, and arrays of the call one row per member that takes part.

Trees of different members may differ. They are laid one behind the other: member b has tree ``kind[b]``, whose vertices
begin at ``vertex[kind]``, its internal ones at ``inner[kind]``, its slots at ``slot[kind]`` and its blocks at
``block[kind]``; q of member b begins at ``place[b]``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdcourse._numeric.descent import step, vertex_probabilities
from holdcourse._numeric.gp import multiply, settle, sweep
from holdcourse._numeric.minplus import cheapest_next
from holdcourse._numeric.transport import sample
from holdcourse._numeric.wind_filter import predict, take

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
FIRST, SECOND = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
FIRST_STEP, SECOND_STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)


@njit(cache=True)
def _upper(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of a product of two numbers of 64 bits."""
    a_low, a_high, b_low, b_high = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, one, other = a_low * b_low, a_high * b_low, a_low * b_high
    middle = (low >> HALF) + (one & LOW) + (other & LOW)
    return a_high * b_high + (one >> HALF) + (other >> HALF) + (middle >> HALF)


@njit(cache=True)
def uniforms(seeds: NDArray[np.uint64], rounds: Ints, members: Ints, out: Array) -> None:
    """The random number of each member's round: `deciding.rules.uniform`."""
    for i in range(len(members)):
        b = members[i]
        c0, c1, c2, c3 = np.uint64(1), np.uint64(rounds[b]), np.uint64(0), np.uint64(0)
        k0, k1 = seeds[b], np.uint64(0)
        for _ in range(10):
            upper0, lower0 = _upper(FIRST, c0), FIRST * c0
            upper1, lower1 = _upper(SECOND, c2), SECOND * c2
            c0, c1, c2, c3 = upper1 ^ c1 ^ k0, lower1, upper0 ^ c3 ^ k1, lower0
            k0, k1 = k0 + FIRST_STEP, k1 + SECOND_STEP
        out[i] = float(c0 >> np.uint64(11)) * 2.0**-53


@njit(cache=True)
def sweeps(
    members: Ints,
    S: Array,  # (B, m, m)
    g: Array,  # (B, m)
    c: Array,  # (B,)
    psis: Array,  # (k, J)
    start: Ints,
    column: Ints,
    w: Array,  # (B, m)
    X: Array,  # (k, r, r)
    v: Array,  # (k, r)
) -> None:
    """`gp.sweep` of every member in its own context."""
    for i in range(len(members)):
        b = members[i]
        sweep(S[b], g[b], c[b], psis[i], start, column, w[b], X[i], v[i])
        c[b] = 0.0


@njit(cache=True)
def settled(members: Ints, S: Array, g: Array, c: Array) -> None:
    """Make the changes that are pending; see `gp.settle`."""
    for i in range(len(members)):
        b = members[i]
        if c[b] != 0.0:
            settle(S[b], g[b], c[b])
            c[b] = 0.0


@njit(cache=True)
def gains(members: Ints, S: Array, g: Array, c: Array, fade: float, phis: Array, G: Array) -> None:
    """S phi of every member after fading, (k, m); see `gp.multiply`."""
    settled(members, S, g, c)
    for i in range(len(members)):
        multiply(S[members[i]], fade, phis[i], G[i])


@njit(cache=True)
def condition(
    members: Ints,
    w: Array,  # (B, m)
    g: Array,  # (B, m)
    c: Array,  # (B,)
    totals: Array,  # (B, 2) log likelihood, information gain
    G: Array,  # (k, m)
    spread: Array,  # (k,) phi S phi
    surprise: Array,  # (k,)
    noise: float,
) -> None:
    """Weights, pending change and totals of every member after its measurement, as `FlatPosterior.condition` makes."""
    for i in range(len(members)):
        b = members[i]
        s = noise + max(spread[i], 0.0)
        by = surprise[i] / s
        for a in range(w.shape[1]):
            w[b, a] += G[i, a] * by
            g[b, a] = G[i, a]
        c[b] = 1.0 / s
        totals[b, 0] -= 0.5 * (surprise[i] * surprise[i] / s + math.log(2 * math.pi * s))
        totals[b, 1] += 0.5 * math.log(s / noise)


@njit(cache=True)
def descend(
    members: Ints,
    costs: Array,  # (k, n)
    uniform: Array,  # (k,)
    kappa: float,
    kind: Ints,  # (B,)
    place: Ints,  # (B,)
    vertex: Ints,  # (kinds + 1,), inner, slot and block likewise
    inner: Ints,
    slot: Ints,
    block: Ints,
    parent: Ints,
    first: Ints,
    children: Ints,
    blocks: Ints,
    speed: Array,
    shift: Array,
    q: Array,  # (all vertices of all members,)
    actions: Ints,  # (B,)
    probabilities: Array,  # (k, n)
) -> None:
    """Mirror descent and a draw from the coupling for every member: `MirrorDescent.step`."""
    n = costs.shape[1]
    for i in range(len(members)):
        b = members[i]
        t = kind[b]
        size = vertex[t + 1] - vertex[t]
        its_parent = parent[vertex[t] : vertex[t + 1]]
        its_first = first[inner[t] : inner[t + 1]]
        its_children = children[slot[t] : slot[t + 1]]
        own = q[place[b] : place[b] + size]
        before = vertex_probabilities(own, its_parent)[:n]
        new = step(
            own,
            costs[i],
            kappa,
            speed[slot[t] : slot[t + 1]],
            shift[slot[t] : slot[t + 1]],
            its_first,
            its_children,
            blocks[block[t] : block[t + 1]],
        )
        after = vertex_probabilities(new, its_parent)[:n]
        actions[b] = sample(before, after, actions[b], uniform[i], its_parent, its_first, its_children)
        own[:] = new
        probabilities[i] = after


@njit(cache=True)
def winds_ahead(
    members: Ints,
    leaders: Ints,  # (B,)
    vectors: Array,  # (m, n, r)
    variances: Array,  # (m, r)
    hours: Array,  # (m, r)
    means: Array,  # (B, m, r)
    covariances: Array,  # (B, m, r, r)
    ahead: Array,  # (k, rounds)
    expected: Array,  # (k, rounds, n), written
    deviation: Array,  # (k, rounds, n), written
) -> None:
    """`wind_filter.predict` of every member, by the climate that leads."""
    for i in range(len(members)):
        b = members[i]
        c = leaders[b]
        predict(vectors[c], variances[c], hours[c], means[b, c], covariances[b, c], ahead[i], expected[i], deviation[i])


@njit(cache=True)
def winds_taken(
    members: Ints,
    means: Array,  # (B, m, r), written
    covariances: Array,  # (B, m, r, r), written
    variances: Array,  # (m, r)
    decays: Array,  # (k, m, r)
    vectors: Array,  # (n, m, r)
    actions: Ints,  # (k,)
    surprises: Array,  # (k, m)
    noises: Array,  # (m,)
    likely: Array,  # (k, m), written
) -> None:
    """`wind_filter.take` of every member."""
    for i in range(len(members)):
        b = members[i]
        take(means[b], covariances[b], variances, decays[i], vectors[actions[i]], surprises[i], noises, likely[i])


@njit(cache=True)
def endings(ways: Array, settled: Array, out: Array) -> None:
    """The cheapest of going somewhere and settling there: ways (n, n) from row to column, settled and out (k, n)."""
    k, n = out.shape
    for i in range(k):
        for x in range(n):
            least = np.inf
            for y in range(n):
                least = min(least, ways[x, y] + settled[i, y])
            out[i, x] = least


@njit(cache=True)
def cheapest(members: Ints, costs: Array, ways: Array, tolerance: float, actions: Ints) -> None:
    """`minplus.cheapest_next` of every member; ways (n, n) from row to column, costs (k, n)."""
    for i in range(len(members)):
        b = members[i]
        actions[b] = cheapest_next(costs[i], ways[actions[b]], actions[b], tolerance)
