"""Run a policy in a world whose true costs are known.

`run_rounds` is the loop of all that runs in a world: every round takes the steps of a `Pilot` (look, decide, accept),
then a measurement is drawn and learned. The noise comes from a stream of its own, keyed by seed and round
(`measurement_noise`), so that all policies meet the same noise and a loop of one's own can draw the same measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import stream
from holdcourse.checks import checked_seed, is_whole
from holdcourse.costs import CostModel, LowerBound, maximises
from holdcourse.errors import InvalidInput
from holdcourse.history import check_contexts
from holdcourse.pilot import Pilot
from holdcourse.policy import Policy
from holdcourse.problem import Problem
from holdcourse.rules import Choice
from holdcourse.run import LearningSummary, Run, World, previous_actions, true_costs
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

NORMAL = NormalDist()


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
        _, view = pilot.look(context, question.allowed, question.forecast, shown_costs(pilot.model, costs))
        choice = pilot.decide(view)
        pilot.accept(choice)
        measurement = float(world.measure(t, context, choice.action, measurement_noise(seed, t)))
        pilot.learn(choice.action, context, measurement)
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
) -> Run:
    """Run a policy in a world. The policy itself is not changed and can be run again.

    Parameters
    ----------
    policy
        What decides. It may believe in other movement costs than the world's; the world's are billed.
    world
        What it costs and what is measured. Policies that know the costs are shown the true ones.
    contexts
        The context of every round, shape (T,) or (T, d); those of all episodes one after the other.
    start
        The action before the first round of an episode: one for all, or one for each.
    seed
        Of the policy's tree and draws, and of the noise; these are separate streams.
    episodes
        How many of equal length, or the length of each.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> contexts = world.context_sequence("iid", rounds=20)
    >>> run = hc.simulate(hc.minc_known(world.problem), world, contexts, start=4, episodes=2)
    >>> len(run.rows()), [len(episode.actions) for episode in run.episodes], run.total == run.service + run.movement
    (20, [10, 10], True)
    """
    problem = world.problem
    if policy.problem.n != problem.n:
        raise InvalidInput(f"the policy has {policy.problem.n} actions but the world {problem.n}")
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
    """The standard normal number of a round's measurement; in another lane of the stream than the rule's draw.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.measurement_noise(seed=0, round=3) == hc.measurement_noise(seed=0, round=3)
    True
    """
    # Half a step up: the stream's 0 has no finite quantile.
    return NORMAL.inv_cdf(stream.uniform(checked_seed(seed), int(round), lane=1) + 2.0**-54)


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
            raise InvalidInput(f"{rounds} rounds cannot be split into {episodes} equal episodes; give their lengths")
        return np.full(episodes, rounds // episodes, dtype=np.int64)
    lengths = np.asarray(episodes)
    if lengths.ndim != 1 or lengths.size == 0 or not np.issubdtype(lengths.dtype, np.integer) or lengths.min() < 0:
        raise InvalidInput(f"episodes must be their number or a list of their lengths, got {episodes!r}")
    if lengths.sum() != rounds:
        raise InvalidInput(f"the episodes have {lengths.sum()} rounds together, but there are {rounds} contexts")
    return lengths.astype(np.int64)


def _checked_starts(start: int | Sequence[int] | Indices, episodes: int, problem: Problem) -> Indices:
    given = np.asarray(start).reshape(-1).tolist()
    for action in given:
        problem.check_action(action)
    if np.ndim(start) > 0 and len(given) != episodes:
        raise InvalidInput(f"start must be one action, or one for each of the {episodes} episodes, got {len(given)}")
    return np.array(given if len(given) == episodes else given * episodes, dtype=np.int64)
