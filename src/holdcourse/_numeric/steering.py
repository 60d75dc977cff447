r"""Plans of yaw offsets on a table of contexts: what a setting is worth when the wind goes on as it usually does.

A context is a bin of wind direction (a circle) and one of wind speed. From one decision to the next the direction
turns by some bins and the speed changes, each with probabilities that depend on the speed of now.

==================  ==============================================================================  ==============
symbol              meaning                                                                         shape
==================  ==============================================================================  ==============
D, S, n             bins of direction, bins of speed, settings
values              what being at a setting in a context costs from here on                         (D, S, n)
turns               probability of turning by so many bins, the middle one none, by speed           (S, 2 r + 1)
speeds              probability of a speed to come (column), by speed of now (row)                  (S, S)
moves               cost of a move from row to column; infinite where it is too far                 (n, n)
onward              cost of choosing a setting in a context, without the move there                 (D, S, n)
==================  ==============================================================================  ==============
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NEGLIGIBLE = 1e-7  # probabilities below it are left out


@njit(cache=True)
def expected(values: Array, turns: Array, speeds: Array) -> Array:
    """Return what values, (D, S, n), are expected to be one step later, seen from each context, (D, S, n)."""
    directions, speed_bins, n = values.shape
    reach = (turns.shape[1] - 1) // 2
    found = np.empty_like(values)
    mixed = np.empty((directions, n))  # values at the speeds to come, for one speed of now
    total = np.empty((directions, n))
    for s in range(speed_bins):
        mixed[:] = 0.0
        for later in range(speed_bins):
            p = speeds[s, later]
            if p > NEGLIGIBLE:
                for d in range(directions):
                    for y in range(n):
                        mixed[d, y] += p * values[d, later, y]
        total[:] = 0.0
        for j in range(2 * reach + 1):
            p = turns[s, j]
            if p > NEGLIGIBLE:
                # All directions at once, around the circle: two long stretches instead of many short ones.
                shift = (j - reach) % directions
                head, tail = total[: directions - shift].ravel(), total[directions - shift :].ravel()
                ahead, around = mixed[shift:].ravel(), mixed[:shift].ravel()
                for k in range(len(head)):
                    head[k] += p * ahead[k]
                for k in range(len(tail)):
                    tail[k] += p * around[k]
        for d in range(directions):  # one by one: a slice would take the compiler two seconds more
            for y in range(n):
                found[d, s, y] = total[d, y]
    return found


@njit(cache=True)
def with_moves(onward: Array, moves: Array) -> Array:
    """Return the cost of going on from each setting by the best move, (D, S, n)."""
    directions, speed_bins, n = onward.shape
    ways = np.ascontiguousarray(moves.T)  # to a setting (row) from each: all that start are compared at once
    found = np.empty_like(onward)
    for d in range(directions):
        for s in range(speed_bins):
            row, best = onward[d, s], found[d, s]
            best[:] = math.inf
            for y in range(n):
                on, way = row[y], ways[y]
                for x in range(n):
                    cost = way[x] + on
                    best[x] = cost if cost < best[x] else best[x]
    return found


@njit(cache=True)
def plan(
    costs: Array,  # (D, S, n) of a round that is spent at a setting, as expected when it is decided on
    turns: Array,  # (S, 2 r + 1)
    speeds: Array,  # (S, S)
    moves: Array,  # (n, n)
    discount: float,
    sweeps: int,  # at most
    tolerance: float,  # it ends when no difference between two settings changes by more
) -> Array:
    """Return the cost of choosing each setting in each context, up to a constant per context, (D, S, n)."""
    onward = costs.copy()
    for _ in range(sweeps):
        values = with_moves(onward, moves)
        values -= values.min()
        later = expected(values, turns, speeds)
        change = 0.0
        for d in range(costs.shape[0]):
            for s in range(costs.shape[1]):
                low, high = math.inf, -math.inf
                for y in range(costs.shape[2]):
                    new = costs[d, s, y] + discount * later[d, s, y]
                    moved = new - onward[d, s, y]
                    low, high = min(low, moved), max(high, moved)
                    onward[d, s, y] = new
                change = max(change, high - low)
        if change < tolerance:
            break
    return onward


@njit(cache=True)
def replay(
    onward: Array,  # (k, D, S, n) one plan for each part of the year
    moves: Array,  # (n, n)
    part: Indices,  # (t,) of the year
    low_direction: Indices,  # (t,) bin below the direction, and how far it lies towards the next one
    direction_share: Array,
    low_speed: Indices,
    speed_share: Array,
    start: int,
) -> Indices:
    """Return the setting that the plan takes in every round, (t,)."""
    rounds, n = len(part), moves.shape[0]
    bins = onward.shape[1]
    taken = np.empty(rounds, np.int64)
    x = start
    for t in range(rounds):
        table = onward[part[t]]
        d, s = low_direction[t], low_speed[t]
        e = (d + 1) % bins
        f, g = direction_share[t], speed_share[t]
        up = min(s + 1, onward.shape[2] - 1)
        best, choice = math.inf, x
        for y in range(n):
            here = (1 - f) * ((1 - g) * table[d, s, y] + g * table[d, up, y])
            here += f * ((1 - g) * table[e, s, y] + g * table[e, up, y])
            cost = here + moves[x, y]
            if cost < best or (cost == best and y == x):
                best, choice = cost, y
        taken[t] = choice
        x = choice
    return taken


@njit(cache=True)
def held(wanted: Array, holding: Mask, start: Array) -> Array:
    """Return offsets that follow `wanted`, (t, m), except where a turbine holds the one it has."""
    offsets = np.empty_like(wanted)
    now = start.copy()
    for t in range(len(wanted)):
        for i in range(len(now)):
            if not holding[t, i]:
                now[i] = wanted[t, i]
            offsets[t, i] = now[i]
    return offsets
