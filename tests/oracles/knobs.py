"""What moves between settings of knobs cost, pair by pair, straight from what the prices mean."""

from __future__ import annotations

import itertools

import numpy as np


def turning(knob, here: int, there: int) -> float:
    """What turning one knob from its value number `here` to number `there` costs."""
    if here == there:
        return 0.0
    if knob.per_unit is not None:
        return knob.per_unit * abs(knob.values[here] - knob.values[there])
    if knob.per_step is not None:
        prices = knob.per_step if isinstance(knob.per_step, tuple) else (knob.per_step,) * (len(knob.values) - 1)
        return sum(prices[min(here, there) : max(here, there)])
    if isinstance(knob.change, tuple):
        return knob.change[here][there]
    if knob.change is not None:
        return knob.change
    return abs(knob.values[here] - knob.values[there])


def matrix(knobs, *, fixed_cost: float = 0.0, at_once: bool = False) -> np.ndarray:
    """Cost of every move, (n, n): knobs turned together cost as much as the dearest of them, all else is added."""
    settings = list(itertools.product(*(range(len(knob.values)) for knob in knobs)))
    costs = np.zeros((len(settings), len(settings)))
    for i, j in itertools.permutations(range(len(settings)), 2):
        bills: dict = {}
        for axis, (knob, a, b) in enumerate(zip(knobs, settings[i], settings[j], strict=True)):
            bills.setdefault("all" if at_once else knob.together or axis, []).append(turning(knob, a, b))
        costs[i, j] = fixed_cost + sum(max(bill) for bill in bills.values())
    return costs
