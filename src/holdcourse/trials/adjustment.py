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
block, which depends on c, nor coefficients that have seen the pair itself.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

CAUTION = 4.0  # pairs: coefficients are shrunk as if so many pairs of usual size had shown no connection


def guesses(differences: Array, features: Array, coins: Array) -> Array:
    """Guess each pair's difference w from its features, by ridge regression on the pairs before it; 0 for the first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known, coins = rng.normal(size=300), rng.choice([-1.0, 1.0], 300)
    >>> difference = 2 * known + 0.1 * rng.normal(size=300) + 0.3 * coins
    >>> rest = difference - guesses(difference, known[:, None], coins)
    >>> round(float(rest[100:].std() / difference[100:].std()), 2)
    0.15
    """
    k = features.shape[-1]
    if k == 0 or differences.shape[-1] == 0:
        return np.zeros_like(differences)
    effect = _before(np.cumsum(coins * differences, axis=-1))  # the arms' own difference is none of f's business
    count = np.maximum(np.arange(differences.shape[-1]), 1)
    rest = differences - coins * effect / count
    squares = _before(np.cumsum(features[..., :, None] * features[..., None, :], axis=-3), axis=-3)
    products = _before(np.cumsum(features * rest[..., None], axis=-2), axis=-2)
    # The pair's own features count for their size: one that was small so far and is large now must not be trusted.
    size = np.cumsum(features**2, axis=-2) / (count[:, None] + 1)
    unused = np.where(size > 0, 0.0, 1.0)  # a feature that was always zero gets the coefficient 0
    ridge = (CAUTION * size + unused)[..., None] * np.eye(k)
    coefficients = np.linalg.solve(squares + ridge, products[..., None])[..., 0]
    guessed = (features * coefficients).sum(axis=-1)
    saved = _before(np.cumsum(rest**2 - (rest - guessed) ** 2, axis=-1))
    return np.where(saved > 0, guessed, 0.0)  # no guess while guessing has not helped


def _before(sums: Array, axis: int = -1) -> Array:
    """Running sums as they were before each entry."""
    shifted = np.roll(sums, 1, axis=axis)
    first = [slice(None)] * sums.ndim
    first[axis] = slice(0, 1)
    shifted[tuple(first)] = 0.0
    return shifted
