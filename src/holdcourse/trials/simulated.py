"""A trial in a world of ours: the very rule that runs a trial at a machine, and its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import checked_seed, float_array
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.learning.history import check_contexts
from holdcourse.threads import one_thread
from holdcourse.trials.blocks import Blocks
from holdcourse.worlds.simulation import ROUNDS_BETWEEN, Question, World, run_rounds

Array: TypeAlias = NDArray[np.float64]


@one_thread()
def simulate_trial(
    trial: Policy,
    world: World,
    contexts: ArrayLike,
    *,
    start: int = 0,
    seed: int = 0,
    measured: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    maximise: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Blocks:
    """Run a trial in a world, and return its table.

    Parameters
    ----------
    trial
        Trial, as `holdcourse.trial` makes it.
    world, contexts, start, seed
        As in `holdcourse.simulate`; the seed is also the seed of the coin.
    measured
        Measured cost (or gain, if `maximise`) that each action would have in every round, (T, n). Default: the
        measurements that the policy is told. Needed if these are something else, such as a wind speed.
    reference
        Signal that neither arm can change, (T,).
    progress
        Function that is called now and then with the number of rounds run so far and the total.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> contexts = world.context_sequence("iid", rounds=40)
    >>> table = simulate_trial(hc.trial(hc.gp_md(world.problem), block=2), world, contexts)
    >>> table.pairs, table.length
    (10, 2)
    """
    rows = check_contexts(contexts, None)
    rounds, problem = len(rows), world.problem
    told = None if measured is None else float_array(measured, "measured")
    if told is not None and told.shape != (rounds, problem.n):
        raise InvalidInput(f"measured must have the shape ({rounds}, {problem.n}), got {told.shape}")
    problem.check_action(start)
    pilot = Pilot(trial, int(start), checked_seed(seed))
    block, arm, places, actions = (np.empty(rounds, dtype=np.int64) for _ in range(4))
    cost = np.empty(rounds)
    for t, (_, choice, measurement) in enumerate(run_rounds(pilot, world, map(Question, rows), seed)):
        turn = choice.turn
        if turn is None:
            raise InvalidInput(
                f"{trial.name} is not on trial in round {t}; make a trial with holdcourse.trial, without blocks="
            )
        block[t], arm[t], places[t], actions[t] = turn.block, turn.arm, turn.place, choice.action
        cost[t] = measurement if told is None else told[t, choice.action]
        if progress is not None and (t + 1) % ROUNDS_BETWEEN == 0:
            progress(t + 1, rounds)
    movement = problem.move_costs(places, actions)
    moved = problem.move_costs(np.append(start, actions[:-1])[:rounds], actions)
    return Blocks(
        block=block,
        arm=arm,
        cost=cost,
        movement=movement,
        reference=float_array(np.full(rounds, np.nan) if reference is None else reference, "reference"),
        switching=moved - movement,
        maximise=maximise,
    )
