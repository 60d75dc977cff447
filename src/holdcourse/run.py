"""What a policy did in a world, and what it cost: rows, totals, the clairvoyant optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.offline import PricedPath, optimal_path
from holdcourse.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


class World(Protocol):
    """Something to act in. Rounds count from 0 and go on from one episode to the next.

    Examples
    --------
    >>> import holdcourse as hc
    >>> class Valve:
    ...     problem = hc.Problem([0.0, 0.5, 1.0], scale=0.2)
    ...
    ...     def costs(self, round, context):
    ...         return (self.problem.actions[:, 0] - context[0]) ** 2
    ...
    ...     def measure(self, round, context, action, noise):
    ...         return float(self.costs(round, context)[action] + 0.01 * noise)
    >>> hc.simulate(hc.minc_known(Valve.problem), Valve(), [0.1, 0.9, 0.8], start=0).actions.tolist()
    [0, 2, 2]
    """

    @property
    def problem(self) -> Problem:
        """The actions, and what moving between them costs."""
        ...

    def costs(self, round: int, context: Any) -> Array:  # noqa: A002 - the word of the field
        """True service cost of every action, shape (n,); the same whenever it is asked."""
        ...

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """What a learner measures there: the cost, or what it is a function of; `noise` is a standard normal number."""
        ...


@dataclass(frozen=True)
class LearningSummary:
    """What a learner's model knows at the end of a run.

    Attributes
    ----------
    information_gain
        Realised, 1/2 log det(I + K / lambda) of all measurements of the run.
    noise_std
        Deviation of a measurement, as the learner believes.
    regularisation
        lambda.
    """

    information_gain: float
    noise_std: float
    regularisation: float


@dataclass(frozen=True, eq=False)
class Run:
    """What a policy did in a world, and what it cost. Arrays have one entry per round.

    Attributes
    ----------
    policy
        Name of the policy.
    world, seed
        Where it ran, and the seed of the run.
    starts, lengths
        Of each episode: the action before its first round, and its number of rounds.
    contexts
        Shape (T, d).
    actions
        Where the policy went.
    probabilities
        How probable that action was before it was drawn.
    service_costs, movement_costs
        What each round cost by the world's true costs; movement includes the way from the start of an episode.
    measurements
        What the policy was told.
    learned
        What the model knew at the end; None for policies that learn nothing, and for those of several experts.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> run = hc.simulate(hc.stationary(world.problem), world, world.context_sequence("iid", rounds=10), start=3)
    >>> run.movement, run.optima[0].total <= run.total
    (0.0, True)
    >>> sorted(run.rows()[0])[:4]
    ['action', 'context', 'episode', 'measurement']
    """

    policy: str
    world: World
    seed: int
    starts: Indices
    lengths: Indices
    contexts: Array
    actions: Indices
    probabilities: Array
    service_costs: Array
    movement_costs: Array
    measurements: Array
    learned: LearningSummary | None = None

    @property
    def service(self) -> float:
        """Service cost of the whole run."""
        return float(self.service_costs.sum())

    @property
    def movement(self) -> float:
        """Movement cost of the whole run."""
        return float(self.movement_costs.sum())

    @property
    def total(self) -> float:
        """Service plus movement."""
        return self.service + self.movement

    @cached_property
    def episodes(self) -> tuple[PricedPath, ...]:
        """The actions and the bill of each episode."""
        return tuple(
            PricedPath(
                self.actions[part], float(self.service_costs[part].sum()), float(self.movement_costs[part].sum())
            )
            for part in self._parts
        )

    @cached_property
    def optima(self) -> tuple[PricedPath, ...]:
        """The clairvoyant optimum of each episode; computed when first asked for."""
        problem = self.world.problem
        return tuple(
            optimal_path(self.true_costs(m), problem, int(start)) if length else PricedPath(self.actions[:0], 0.0, 0.0)
            for m, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True))
        )

    def true_costs(self, episode: int) -> Array:
        """What every action would have cost in each round of an episode, shape (H, n)."""
        part = self._parts[episode]
        rounds = range(part.start, part.stop)
        return np.array([true_costs(self.world, t, self.contexts[t]) for t in rounds])

    def rows(self) -> list[dict[str, Any]]:
        """The run as flat rows, one per round. A context of one number is given as that number, others as tuples."""
        contexts = [context[0] if len(context) == 1 else tuple(context) for context in self.contexts.tolist()]
        episode = np.repeat(np.arange(len(self.lengths)), self.lengths)
        columns = {
            "episode": episode.tolist(),
            "round": range(len(self.actions)),
            "context": contexts,
            "action": self.actions.tolist(),
            "value": [self.world.problem.value(action) for action in self.actions.tolist()],
            "probability": self.probabilities.tolist(),
            "service": self.service_costs.tolist(),
            "movement": self.movement_costs.tolist(),
            "measurement": self.measurements.tolist(),
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def _parts(self) -> tuple[slice, ...]:
        """The rounds of each episode."""
        ends = np.cumsum(self.lengths).tolist()
        return tuple(slice(end - length, end) for end, length in zip(ends, self.lengths.tolist(), strict=True))

    def __repr__(self) -> str:
        rounds = f"{len(self.actions)} rounds in {len(self.lengths)} episode{'s' * (len(self.lengths) != 1)}"
        bill = f"service {self.service:.6g} + movement {self.movement:.6g} = {self.total:.6g}"
        return f"Run({self.policy}: {rounds}, {bill})"


def previous_actions(actions: Indices, starts: Indices, lengths: Indices) -> Indices:
    """The action before each round, for episodes of these lengths that begin at these starts; shape (T,)."""
    before = np.concatenate([starts[:1], actions[:-1]])[: len(actions)]
    first = np.cumsum(lengths) - lengths
    before[first[lengths > 0]] = starts[lengths > 0]
    return before


def true_costs(world: World, t: int, context: Any) -> Array:
    """What the world says that every action costs in a round, checked; shape (n,)."""
    costs = np.asarray(world.costs(t, context), dtype=np.float64)
    if costs.shape != (world.problem.n,):
        raise InvalidInput(
            f"the world gave costs of shape {costs.shape} in round {t}; it has {world.problem.n} actions, one cost each"
        )
    if not (costs > -np.inf).all():  # NaN compares false too
        action = int(np.argmin(costs > -np.inf))
        raise InvalidInput(f"the world gave the cost {costs[action]} for action {action} in round {t}; give a number")
    return costs
