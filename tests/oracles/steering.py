"""Slow, obvious twins of the kernels in `holdcourse._numeric.steering`."""

from __future__ import annotations

import itertools

import numpy as np


def expected(values, turns, speeds):
    """Every context to come, one after the other."""
    directions, bins, _ = values.shape
    reach = (turns.shape[1] - 1) // 2
    found = np.zeros_like(values)
    for d, s in itertools.product(range(directions), range(bins)):
        for later, j in itertools.product(range(bins), range(2 * reach + 1)):
            found[d, s] += speeds[s, later] * turns[s, j] * values[(d + j - reach) % directions, later]
    return found


def transition(turns, speeds, directions):
    """The chain of contexts as one matrix, (D S, D S)."""
    bins = len(speeds)
    matrix = np.zeros((directions, bins, directions, bins))
    reach = (turns.shape[1] - 1) // 2
    for d, s, later, j in itertools.product(range(directions), range(bins), range(bins), range(2 * reach + 1)):
        matrix[d, s, (d + j - reach) % directions, later] += speeds[s, later] * turns[s, j]
    return matrix.reshape(directions * bins, directions * bins)


def plan(costs, turns, speeds, moves, discount):
    """The discounted decision process on (context, setting) solved by policy iteration with a dense linear solve."""
    directions, bins, n = costs.shape
    chain = transition(turns, speeds, directions)
    contexts = directions * bins
    cost = costs.reshape(contexts, n)
    policy = np.tile(np.arange(n), (contexts, 1))  # stay
    for _ in range(200):
        matrix, paid = np.zeros((contexts, n, contexts, n)), np.zeros((contexts, n))
        for c, x in itertools.product(range(contexts), range(n)):
            y = policy[c, x]
            paid[c, x] = moves[x, y] + cost[c, y]
            matrix[c, x, :, y] = chain[c]
        size = contexts * n
        value = np.linalg.solve(np.eye(size) - discount * matrix.reshape(size, size), paid.ravel()).reshape(contexts, n)
        onward = cost + discount * chain @ value
        better = (moves[None] + onward[:, None, :]).argmin(axis=2)
        kept = np.take_along_axis(moves[None] + onward[:, None, :], policy[:, :, None], 2)[:, :, 0]
        new = np.where(kept <= (moves[None] + onward[:, None, :]).min(axis=2) + 1e-12, policy, better)
        if (new == policy).all():
            return onward.reshape(costs.shape)
        policy = new
    raise AssertionError("policy iteration did not end")
