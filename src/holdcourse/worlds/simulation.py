"""Run a policy in a world whose true costs are known.

`run_rounds` is the loop of everything that runs in a world. Every round takes the steps of a `Pilot` (look, decide,
accept); then a measurement is drawn, and the pilot learns it. The noise comes from a stream of its own, keyed by seed
and round (`measurement_noise`). So all policies get the same noise, and your own loop can draw the same measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import array_of, checked_seed, float_array, is_whole, one_number, whole_number
from holdcourse.deciding import rules
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy, require_policy
from holdcourse.deciding.rules import Choice
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.costs import CostModel, LowerBound, maximises
from holdcourse.learning.history import check_contexts
from holdcourse.movement.offline import PricedPath, optimal_path
from holdcourse.movement.problem import Problem
from holdcourse.threads import one_thread

__all__ = [
    "LearningSummary",
    "Question",
    "Round",
    "Run",
    "World",
    "measurement_noise",
    "run_rounds",
    "shown_costs",
    "simulate",
]


Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


class World(Protocol):
    """What a policy acts in. Rounds count from 0, and the count continues from one episode to the next.

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
        """True service cost of every action, shape (n,); the same arguments always give the same costs."""
        ...

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """Measurement at an action: its cost, or the quantity behind it; `noise` is a standard normal number."""
        ...


@dataclass(frozen=True)
class LearningSummary:
    """What a learner's model knows at the end of a run.

    Attributes
    ----------
    information_gain
        Realised information gain, 1/2 log det(I + K / lambda), with K the kernel matrix of all measurements.
    noise_std
        Standard deviation of a measurement that the learner assumes.
    regularisation
        lambda, the variance that the posterior adds to the diagonal of K.
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
        The world in which it ran, and the seed of the run.
    starts, lengths
        For each episode: the action before its first round, and its number of rounds.
    contexts
        Context of each round, shape (T, d).
    actions
        Action of each round, by its index, shape (T,).
    probabilities
        Probability that the rule gave to that action, shape (T,).
    service_costs, movement_costs
        The world's true costs of each round; movement includes the move from the start of an episode.
    measurements
        Measurement that the policy was told in each round.
    learned
        What the model knew at the end; None for policies that learn nothing, and for those with several experts.

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
        """The clairvoyant optimum of each episode; computed when you first read it."""
        problem = self.world.problem
        return tuple(
            optimal_path(self.true_costs(m), problem, int(start)) if length else PricedPath(self.actions[:0], 0.0, 0.0)
            for m, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True))
        )

    def true_costs(self, episode: int) -> Array:
        """True cost of every action in each round of an episode, shape (H, n)."""
        part = self._parts[episode]
        rounds = range(part.start, part.stop)
        return np.array([true_costs(self.world, t, self.contexts[t]) for t in rounds])

    def rows(self) -> list[dict[str, Any]]:
        """The run as flat rows, one per round. A context of one number is that number; other contexts are tuples."""
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
        rounds = f"{counted(len(self.actions), 'round')} in {counted(len(self.lengths), 'episode')}"
        bill = f"service {self.service:.6g} + movement {self.movement:.6g} = {self.total:.6g}"
        return f"Run({self.policy}: {rounds}, {bill})"


def previous_actions(actions: Indices, starts: Indices, lengths: Indices) -> Indices:
    """The action before each round, for episodes of these lengths that begin at these starts; shape (T,)."""
    before = np.concatenate([starts[:1], actions[:-1]])[: len(actions)]
    first = np.cumsum(lengths) - lengths
    before[first[lengths > 0]] = starts[lengths > 0]
    return before


def true_costs(world: World, t: int, context: Any) -> Array:
    """True cost of every action in a round, according to the world, checked; shape (n,)."""
    costs = float_array(world.costs(t, context), f"the world's costs of round {t}", copy=False)
    if costs.shape != (world.problem.n,):
        raise InvalidInput(
            f"the world gave costs of shape {costs.shape} in round {t}, but it has {world.problem.n} actions; give one "
            "cost for each"
        )
    lowest = costs.min()
    if not lowest > -np.inf:  # NaN is not, either
        action = int(np.argmin(costs > -np.inf))
        raise InvalidInput(f"the world gave the cost {costs[action]} for action {action} in round {t}; give a number")
    if lowest == np.inf:
        raise InvalidInput(f"the world forbids every action in round {t} (cost inf); leave one finite cost")
    return costs


def measured(world: World, t: int, context: Any, action: int, noise: float) -> float:
    """Measurement of a round, according to the world, checked."""
    told = world.measure(t, context, action, noise)
    try:
        value = one_number(told, "a measurement")
    except InvalidInput:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(
            f"the world's measure gave {shown(told)} for action {action} in round {t}; return a finite number"
        )
    return value


NORMAL = NormalDist()
ROUNDS_BETWEEN = 64  # two words about progress


class Question(NamedTuple):
    """What a policy is asked in a round: the context, which actions it may choose, and a forecast of what comes."""

    context: Any
    allowed: NDArray[np.bool_] | None = None
    forecast: Any = None


class Round(NamedTuple):
    """What happened in a round: the true costs of all actions, the choice, and what was measured there."""

    costs: Array
    choice: Choice
    measurement: float


def run_rounds(pilot: Pilot, world: World, questions: Iterable[Question], seed: int, first: int = 0) -> Iterator[Round]:
    """Run a pilot through rounds of a world, from round `first` on; it changes as it goes.

    The next question is taken when the round before it has ended, so it may depend on what the policy did.
    """
    for t, question in enumerate(questions, first):
        context = question.context
        costs = true_costs(world, t, context)
        choice = pilot.choose(context, question.allowed, question.forecast, shown_costs(pilot.model, costs))
        pilot.accept(choice)
        measurement = measured(world, t, context, choice.action, measurement_noise(seed, t))
        pilot.learn(choice.action, context, measurement, choice.turn)
        yield Round(costs, choice, measurement)


@one_thread()
def simulate(
    policy: Policy,
    world: World,
    contexts: ArrayLike,
    start: int | Sequence[int] | Indices = 0,
    seed: int = 0,
    *,
    episodes: int | Sequence[int] = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Run a policy in a world. This does not change the policy, so you can run it again.

    Parameters
    ----------
    policy
        The policy. It may assume movement costs that differ from the world's; the bill uses the world's.
    world
        The world, which gives costs and measurements. Policies that know the costs get the true costs.
    contexts
        The context of every round, shape (T,) or (T, d); the episodes follow one another.
    start
        The action before the first round of an episode, by its index: one for all episodes, or one for each.
    seed
        Seed of the policy's tree and draws, and of the noise; these are separate streams.
    episodes
        Number of episodes of equal length, or the length of each.
    progress
        Function that is called now and then with the number of rounds run so far and the total number.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> contexts = world.context_sequence("iid", rounds=20)
    >>> run = hc.simulate(hc.minc_known(world.problem), world, contexts, start=4, episodes=2)
    >>> len(run.rows()), [len(episode.actions) for episode in run.episodes], run.total == run.service + run.movement
    (20, [10, 10], True)
    """
    require_policy(policy)
    missing = [name for name in ("problem", "costs", "measure") if not hasattr(world, name)]
    if missing:
        raise InvalidInput(
            f"a world has problem, costs(round, context) and measure(round, context, action, noise), but "
            f"{type(world).__name__} has no {missing[0]}"
        )
    problem = world.problem
    if policy.problem.n != problem.n:
        raise InvalidInput(
            f"the policy has {policy.problem.n} actions, but the world has {problem.n}; make the policy for its problem"
        )
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function of two numbers, or None, got {shown(progress)}")
    rows = check_contexts(contexts, None)
    rows.setflags(write=False)
    lengths = _checked_lengths(episodes, len(rows))
    starts = _checked_starts(start, len(lengths), problem)
    seed = checked_seed(seed)
    pilot = Pilot(policy, int(starts[0]), seed)
    actions = np.empty(len(rows), dtype=np.int64)
    probabilities, service, measurements = (np.empty(len(rows)) for _ in range(3))
    t = 0
    for episode, length in enumerate(lengths.tolist()):
        if episode > 0:
            pilot.new_episode(int(starts[episode]))
        questions = (Question(context) for context in rows[t : t + length])
        for costs, choice, measurement in run_rounds(pilot, world, questions, seed, t):
            action = actions[t] = choice.action
            probabilities[t], service[t], measurements[t] = choice.probabilities[action], costs[action], measurement
            t += 1
            if progress is not None and t % ROUNDS_BETWEEN == 0:
                progress(t, len(rows))
    pilot.model.new_episode()  # the last one has ended too: its data belong to what was learned
    return Run(
        policy=policy.name,
        world=world,
        seed=seed,
        starts=starts,
        lengths=lengths,
        contexts=rows,
        actions=actions,
        probabilities=probabilities,
        service_costs=service,
        movement_costs=problem.move_costs(previous_actions(actions, starts, lengths), actions),
        measurements=measurements,
        learned=_learned(pilot.model),
    )


def measurement_noise(seed: int, round: int) -> float:  # noqa: A002
    """The standard normal number in a round's measurement; it is independent of the rule's random number.

    `seed` is the seed of the run, and `round` the number of the round, counted from 0.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.measurement_noise(seed=0, round=3) == hc.measurement_noise(seed=0, round=3)
    True
    """
    # Half a step up: the stream's 0 has no finite quantile.
    return NORMAL.inv_cdf(rules.uniform(checked_seed(seed), whole_number(round, "round", 0), lane=1) + 2.0**-54)


def shown_costs(model: CostModel, costs: Array) -> Array | None:
    """What a model that knows the costs is shown: gains, if it maximises."""
    if not model.needs_costs:
        return None
    return -costs if maximises(model) else costs


def _learned(model: CostModel) -> LearningSummary | None:
    if not isinstance(model, LowerBound):
        return None
    prior = model.posterior.prior
    return LearningSummary(float(model.posterior.information_gain), prior.noise_std, prior.noise_variance)


def _checked_lengths(episodes: int | Sequence[int], rounds: int) -> Indices:
    if is_whole(episodes):
        if episodes < 1 or rounds % episodes:
            raise InvalidInput(
                f"{counted(rounds, 'round')} cannot be split into {episodes} equal episodes; give their lengths"
            )
        return np.full(episodes, rounds // episodes, dtype=np.int64)
    lengths = array_of(episodes, "episodes")
    if lengths.ndim != 1 or lengths.size == 0 or not np.issubdtype(lengths.dtype, np.integer) or lengths.min() < 0:
        raise InvalidInput(f"episodes must be their number or a list of their lengths, got {shown(episodes)}")
    if lengths.sum() != rounds:
        raise InvalidInput(
            f"the lengths of the episodes must add up to the {counted(rounds, 'context')}, got {lengths.sum()}"
        )
    return lengths.astype(np.int64)


def _checked_starts(start: int | Sequence[int] | Indices, episodes: int, problem: Problem) -> Indices:
    given = array_of(start, "start").reshape(-1).tolist()
    for action in given:
        problem.check_action(action)
    if np.ndim(start) > 0 and len(given) != episodes:
        raise InvalidInput(f"start must be one action, or {episodes}, one for each episode, got {len(given)}")
    return np.array(given if len(given) == episodes else given * episodes, dtype=np.int64)
