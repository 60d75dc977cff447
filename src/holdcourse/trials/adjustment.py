"""Making the two blocks of a pair comparable by what the coin cannot have changed.

| symbol | meaning | shape |
|---|---|---|
| w | net cost of a pair's first block less that of its second | (..., pairs) |
| f | what is known of w without the coin: features | (..., pairs, k) |
| c | the coin: +1 where the policy had the first block, else -1 | (..., pairs) |
| β | coefficients, fitted on earlier pairs only | (..., pairs, k) |

The policy's block less the baseline's costs c w. With a guess f·β that does not depend on c, c (w - f·β) has the same
mean over the coin, and less scatter the better the guess. So a guess may use all that was known when the *pair* began,
and what nobody at the machine can change (a reference signal); it must not use what the model learned in the first
block, which depends on c, nor coefficients that have seen the pair itself. Of several sets of features the one is used
that has guessed best so far, and none while no guess has helped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

CAUTION = 4.0  # pairs: coefficients are shrunk as if so many pairs of usual size had shown no connection
ALWAYS = 2  # features that every set has: the usual difference, and the level before


class Known(NamedTuple):
    """What is known of every pair's difference without its coin: features (..., pairs, k), and which go together."""

    features: Array
    sets: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, net: Array, others: Mapping[str, Array]) -> Known:
        """From the blocks' net cost (..., pairs, 2), and other features (..., pairs, k) by name."""
        always = [np.ones(net.shape[:-1]), level(net)]
        parts = [np.stack(always, axis=-1)]
        sets: list[tuple[int, ...]] = [(0, 1)]
        at = ALWAYS
        for columns in others.values():
            parts.append(np.broadcast_to(columns, (*net.shape[:-1], columns.shape[-1])))
            sets.append((0, 1, *range(at, at + columns.shape[-1])))
            at += columns.shape[-1]
        if len(others) > 1:
            sets.append(tuple(range(at)))
        return cls(np.concatenate(parts, axis=-1), tuple(sets))


def level(net: Array) -> Array:
    """How far the last block before each pair was above the mean of all before; 0 for the first pair. (..., pairs)."""
    found = np.zeros(net.shape[:-1])
    if net.shape[-2] > 1:
        means = np.cumsum(net.mean(axis=-1), axis=-1) / np.arange(1, net.shape[-2] + 1)
        found[..., 1:] = (net[..., 1] - means)[..., :-1]
    return found


def cycle_features(began: NDArray[np.int64], cycle: int) -> Array:
    """Phase of a cycle of so many rounds in which every pair began, as two features; (pairs, 2)."""
    phase = 2 * np.pi * began / cycle
    return np.stack([np.cos(phase), np.sin(phase)], axis=-1)


def guesses(differences: Array, features: Array, coins: Array, sets: Sequence[Sequence[int]] | None = None) -> Array:
    """Guess each pair's difference w from its features, by ridge regression on the pairs before it; 0 for the first.

    Parameters
    ----------
    sets
        Columns of `features` that are used together; the set is taken that has guessed best before. Default: all.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known, coins = rng.normal(size=300), rng.choice([-1.0, 1.0], 300)
    >>> difference = 2 * known + 0.1 * rng.normal(size=300) + 0.3 * coins
    >>> rest = difference - guesses(difference, known[:, None], coins)
    >>> round(float(rest[100:].std() / difference[100:].std()), 2)
    0.15
    """
    if features.shape[-1] == 0 or differences.shape[-1] == 0:
        return np.zeros_like(differences)
    effect = _before(np.cumsum(coins * differences, axis=-1))  # the arms' own difference is none of f's business
    rest = differences - coins * effect / np.maximum(np.arange(differences.shape[-1]), 1)
    best, most = np.zeros_like(differences), np.zeros_like(differences)
    for columns in [range(features.shape[-1])] if sets is None else sets:
        guessed = _regressed(rest, features[..., list(columns)])
        saved = _before(np.cumsum(rest**2 - (rest - guessed) ** 2, axis=-1))
        best, most = np.where(saved > most, guessed, best), np.maximum(saved, most)
    return best


def _regressed(rest: Array, features: Array) -> Array:
    """What ridge regression on the pairs before says of each pair."""
    k, count = features.shape[-1], np.maximum(np.arange(rest.shape[-1]), 1)
    squares = _before(np.cumsum(features[..., :, None] * features[..., None, :], axis=-3), axis=-3)
    products = _before(np.cumsum(features * rest[..., None], axis=-2), axis=-2)
    # The pair's own features count for their size: one that was small so far and is large now must not be trusted.
    size = np.cumsum(features**2, axis=-2) / (count[:, None] + 1)
    unused = np.where(size > 0, 0.0, 1.0)  # a feature that was always zero gets the coefficient 0
    ridge = (CAUTION * size + unused)[..., None] * np.eye(k)
    coefficients = np.linalg.solve(squares + ridge, products[..., None])[..., 0]
    return np.asarray((features * coefficients).sum(axis=-1))


def _before(sums: Array, axis: int = -1) -> Array:
    """Running sums as they were before each entry."""
    shifted = np.roll(sums, 1, axis=axis)
    first = [slice(None)] * sums.ndim
    first[axis] = slice(0, 1)
    shifted[tuple(first)] = 0.0
    return shifted
