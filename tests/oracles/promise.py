"""The account of a promise, kept the slow way: every round is remembered, and everything is asked again each time."""

from __future__ import annotations

import math

import numpy as np


class SlowAccount:
    """What was played against what the baseline would have played, for a model that can be asked for bounds.

    Parameters
    ----------
    distance
        How far apart two contexts are, in correlation lengths.
    """

    def __init__(self, problem, at_most, budget, distance, together):
        self.problem, self.at_most, self.budget = problem, at_most / 2, budget  # half of it is kept back
        self.distance, self.together = distance, together
        self.rounds = []  # context, action, the baseline's action
        self.bill = self.movement = 0.0

    def played(self, model, context, here, action, base_here, base_action):
        """One more round; the baseline's bill is what was expected of it before the round."""
        self.bill += self._costs(model, context)[0][base_action]
        self.movement += self.problem.distance(here, action) - self.problem.distance(base_here, base_action)
        self.rounds.append((context, action, base_action))

    def _costs(self, model, context):
        expected = model.costs_at_optimism([context], 0.0)[0]
        return expected, expected - model.costs_at_optimism([context], 1.0)[0]

    def _difference(self, model, context, action, base):
        """What an action costs more than the baseline's, and how far that may be off."""
        expected, spread = self._costs(model, context)
        if action == base:
            return 0.0, 0.0
        shared = min(spread) ** 2
        return expected[action] - expected[base], math.sqrt(max(spread[action] ** 2 + spread[base] ** 2 - shared, 0.0))

    def stands(self, model):
        """Saved, doubt, allowed and the baseline's bill."""
        found = [(context, *self._difference(model, context, x, b)) for context, x, b in self.rounds if x != b]
        saved = -sum(more for _, more, _ in found) - self.movement
        variance = 0.0
        for one, _, doubt in found:
            for other, _, another in found:
                alike = math.exp(-0.5 * self.distance(one, other) ** 2)
                variance += doubt * another * (self.together + (1 - self.together) * alike)
        return saved, math.sqrt(variance), self.at_most * abs(self.bill) + self.budget, self.bill

    def may_be_played(self, model, context, here, base_here, base_action):
        """Whether each action may be played in a round that is about to be decided."""
        expected, _ = self._costs(model, context)
        saved, doubt, _, bill = self.stands(model)
        left = saved - doubt + self.at_most * abs(bill + expected[base_action]) + self.budget
        left += self.problem.distance(base_here, base_action)
        permitted = []
        for action in range(self.problem.n):
            more, off = self._difference(model, context, action, base_action)
            ways = self.problem.distance(here, action) + self.problem.distance(action, base_action)
            fits = left - more - off - ways >= 0
            better_here = action == here and more + off <= 0
            permitted.append(bool(fits or better_here or action == base_action))
        return np.array(permitted)
