"""Processes that contexts may follow: what a world shows round after round, out of a list of contexts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import whole_number
from holdcourse.errors import InvalidInput
from holdcourse.history import check_contexts

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

WALK_STEP = 0.05  # deviation of one step, as a share of the list of contexts
DAY_ROUNDS = 24
DAY_SPREAD = 0.05  # no two days are quite the same
BLOCK_ROUNDS = 25.0  # mean length
DRIFT_SPREAD = 0.03  # deviation from a steady drift, as a share of the list of contexts
PULSE_CHANCE = 0.1  # of a round's interruption
REGIME_ROUNDS, REGIME_CONTEXTS = 60.0, 5  # mean length of a regime, and how many contexts belong to it
TRIP_STOPS = 8


def context_sequence(
    contexts: ArrayLike, kind: str | ArrayLike = "iid", rounds: int | None = None, seed: int = 0
) -> Array:
    """A sequence of contexts out of a list, shape (rounds, d).

    Parameters
    ----------
    contexts
        What can occur, (k,) or (k, d). "walk" and "daily" move along this list in the order of the first coordinate.
    kind
        "iid": each round any of them, all alike (the paper). "walk": a random walk, reflected at the ends, with steps
        of 5 % of the list. "daily": up and down within 24 rounds, with 5 % of chance. "blocks": one context for a
        while, 25 rounds in the mean (geometric), then any other. "alternating": two of them in turn. Four that are
        built to be hard for rules that learn: "drift": once along the list, never back. "pulse": one context,
        interrupted for single rounds by any other. "regimes": about every 60 rounds another five contexts. "chain
        change": a round trip over eight contexts, halfway the same eight in another order. Or a sequence of contexts,
        which is returned as it is (its first `rounds`, if those are given).
    rounds
        How many.
    seed
        Of the draw.

    Examples
    --------
    >>> context_sequence([0.1, 0.5, 0.9], "alternating", rounds=4, seed=1).ravel().tolist()
    [0.1, 0.5, 0.1, 0.5]
    """
    points = check_contexts(contexts, None)
    if not isinstance(kind, str):
        given = check_contexts(kind, points.shape[1])
        if rounds is not None and not 0 <= rounds <= len(given):
            raise InvalidInput(f"rounds is {rounds}, but the sequence given has {len(given)} contexts")
        return given[:rounds]
    if kind not in CONTEXT_PROCESSES:
        raise InvalidInput(f"kind {kind!r} is not known; use one of {list(CONTEXT_PROCESSES)}, or give a sequence")
    many = whole_number(rounds, "rounds", 0)
    if len(points) == 0:
        raise InvalidInput("contexts is empty; give at least one context to draw from")
    ordered = points[np.lexsort(points.T[::-1])] if points.shape[1] else points
    which = CONTEXT_PROCESSES[kind](len(ordered), many, np.random.default_rng(seed))
    return np.asarray(ordered[which])


# -- context processes: indices into the ordered list of k contexts, one per round ------------------------------------


def _iid(k: int, rounds: int, random: np.random.Generator) -> Indices:
    return random.integers(k, size=rounds)


def _walk(k: int, rounds: int, random: np.random.Generator) -> Indices:
    steps = WALK_STEP * random.standard_normal(rounds)
    steps[:1] = random.random()  # the start, anywhere on [0, 1)
    folded = np.abs(np.mod(np.cumsum(steps) + 1.0, 2.0) - 1.0)  # reflected at 0 and 1
    return _places(folded, k)


def _daily(k: int, rounds: int, random: np.random.Generator) -> Indices:
    phase = 2 * np.pi * (np.arange(rounds) / DAY_ROUNDS + random.random())
    return _places(0.5 - 0.5 * np.cos(phase) + DAY_SPREAD * random.standard_normal(rounds), k)


def _blocks(k: int, rounds: int, random: np.random.Generator) -> Indices:
    changes = random.random(rounds) < 1 / BLOCK_ROUNDS
    changes[:1] = False
    hops = np.where(changes, random.integers(1, max(k, 2), size=rounds), 0)  # never back to the same one
    hops[:1] = random.integers(k)
    return np.asarray(np.cumsum(hops) % k)


def _alternating(k: int, rounds: int, random: np.random.Generator) -> Indices:
    pair = random.choice(k, size=2, replace=k < 2)
    return np.asarray(pair[np.arange(rounds) % 2])


def _drift(k: int, rounds: int, random: np.random.Generator) -> Indices:
    return _places(np.linspace(0.0, 1.0, rounds) + DRIFT_SPREAD * random.standard_normal(rounds), k)


def _pulse(k: int, rounds: int, random: np.random.Generator) -> Indices:
    sequence = np.full(rounds, random.integers(k))
    rare = random.random(rounds) < PULSE_CHANCE
    sequence[rare] = random.integers(k, size=int(rare.sum()))
    return sequence


def _regimes(k: int, rounds: int, random: np.random.Generator) -> Indices:
    sequence = np.empty(rounds, dtype=np.int64)
    few = random.choice(k, size=min(REGIME_CONTEXTS, k), replace=False)
    for t in range(rounds):
        if random.random() < 1 / REGIME_ROUNDS:
            few = random.choice(k, size=min(REGIME_CONTEXTS, k), replace=False)
        sequence[t] = random.choice(few)
    return sequence


def _chain_change(k: int, rounds: int, random: np.random.Generator) -> Indices:
    stops = random.choice(k, size=min(TRIP_STOPS, k), replace=False)
    later = random.permutation(stops)
    t = np.arange(rounds)
    return np.asarray(np.where(t < rounds // 2, stops[t % len(stops)], later[t % len(stops)]))


CONTEXT_PROCESSES: Mapping[str, Callable[[int, int, np.random.Generator], Indices]] = MappingProxyType(
    {
        "iid": _iid,
        "walk": _walk,
        "daily": _daily,
        "blocks": _blocks,
        "alternating": _alternating,
        "drift": _drift,
        "pulse": _pulse,
        "regimes": _regimes,
        "chain change": _chain_change,
    }
)


def _places(shares: Array, k: int) -> Indices:
    """Places 0..k-1 in the list, of shares of it that lie nominally in [0, 1]."""
    return np.clip((shares * k).astype(np.int64), 0, k - 1)
