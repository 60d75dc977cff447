"""The planner straight from its definition: dictionaries, loops over every pair, every row asked every round."""

from __future__ import annotations

import numpy as np


def backup(costs_to_go, distances):
    """min over y of d(x, y) + costs_to_go[y], for every x."""
    n = len(distances)
    return np.array([min(distances[x][y] + costs_to_go[y] for y in range(n)) for x in range(n)])


class SlowPlanner:
    """Optimistic value iteration on the contexts seen, for contexts that are single numbers and repeat.

    `believe(context)` gives expected costs and spread, (n,) and (n,).
    """

    def __init__(self, distances, start, believe, *, scale, shared, discount=0.97, stay=1.0, sweeps=2):
        self.distances, self.action, self.believe = distances, start, believe
        self.scale, self.shared, self.discount, self.stay, self.sweeps = scale, shared, discount, stay, sweeps
        self.seen, self.followed, self.values, self.last = [], {}, {}, None

    def alike(self, one, other, length=1.0):
        return np.exp(-(((one - other) / (self.scale * length)) ** 2) / 2)

    def chance(self, context):
        weights = dict.fromkeys(self.seen, 0.0)
        for (before, after), count in self.followed.items():
            weights[after] += self.alike(context, before, 0.15) * count
        weights[context] += self.stay
        total = sum(weights.values())
        return {other: weight / total for other, weight in weights.items()}

    def shares(self, context, chances):
        """Discounted rounds to come in each context, by summing them one by one."""
        now, share = {other: float(other == context) for other in self.seen}, dict.fromkeys(self.seen, 0.0)
        for t in range(900):  # 0.97^900 is 1e-12
            for other in self.seen:
                share[other] += self.discount**t * now[other]
            now = {to: sum(now[of] * chances[of][to] for of in self.seen) for to in self.seen}
        total = sum(share.values())
        return {other: value / total for other, value in share.items()}

    def step(self, context):
        if context not in self.seen:
            nearest = min(self.seen, key=lambda other: abs(other - context), default=None)
            self.values[context] = np.zeros(len(self.distances)) if nearest is None else self.values[nearest].copy()
            self.seen.append(context)
        if self.last is not None:
            self.followed[self.last, context] = self.followed.get((self.last, context), 0) + 1
        self.last = context
        chances = {other: self.chance(other) for other in self.seen}
        beliefs = {other: self.believe(other) for other in self.seen}
        costs = {}
        share = self.shares(context, chances)
        for other in self.seen:
            expected, spread = beliefs[other]
            part = np.ones(len(expected))
            if self.shared:
                for y in range(len(expected)):
                    b = {e: beliefs[e][1][y] for e in self.seen}
                    variance = sum(
                        share[e] * b[e] * self.alike(e, f) * share[f] * b[f] for e in self.seen for f in self.seen
                    )
                    covariance = sum(self.alike(other, f) * share[f] * b[f] for f in self.seen)
                    part[y] = covariance / np.sqrt(variance)
            costs[other] = expected - part * spread
        for _ in range(self.sweeps):
            new = {
                other: backup(costs[other] + self.discount * self.onward(chances[other]), self.distances)
                for other in self.seen
            }
            least = min(values.min() for values in new.values())
            self.values = {other: values - least for other, values in new.items()}
        total = self.distances[self.action] + costs[context] + self.discount * self.onward(chances[context])
        self.action = int(np.argmin(total))
        return self.action, total

    def onward(self, chances):
        return sum(chance * self.values[other] for other, chance in chances.items())
