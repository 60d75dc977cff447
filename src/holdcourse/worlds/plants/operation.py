"""Run a policy on a plant: late and missing readings, operators who step in, and the bill."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import checked_seed
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import Turn
from holdcourse.errors import InvalidInput
from holdcourse.threads import one_thread
from holdcourse.worlds.plants.case import PlantCase
from holdcourse.worlds.simulation import shown_costs

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlantRun:
    """What a policy did on a plant. Arrays have one entry per round.

    Attributes
    ----------
    policy
        Name of the policy.
    case
        Plant on which it ran.
    actions
        Settings that were applied, by the policy or by operators.
    service, movement
        True expected cost and movement cost of each round; movement includes the move from the incumbent.
    """

    policy: str
    case: PlantCase
    actions: Indices
    service: Array
    movement: Array

    @property
    def bill(self) -> float:
        """Sum of all costs, movement included."""
        return self.bill_of(slice(None))

    def bill_of(self, rounds: slice) -> float:
        """Return the costs of some of the rounds, movement included."""
        return float(self.service[rounds].sum() + self.movement[rounds].sum())

    def __repr__(self) -> str:
        return f"PlantRun({self.policy} on {self.case.plant.name}: {self.bill:.6g} {self.case.plant.unit})"


@one_thread()
def operate(policy: Policy, case: PlantCase, seed: int = 0) -> PlantRun:
    """Run a policy on a plant for its four weeks. The policy itself is not changed and can be run again.

    In each round the policy is asked. If operators step in, their setting is applied instead; the policy continues from
    there and learns the reading for that setting. The reading of a round is told `case.delay` rounds later, before the
    next decision; a missing reading is never told.

    Parameters
    ----------
    seed
        Seed of the policy's own draws; the plant's noise belongs to the case.

    Examples
    --------
    >>> from holdcourse.worlds import plants
    >>> case = plants.PLANTS["chiller"].case(seed=1000)
    >>> run = plants.operate(plants.stay(case.problem, case.start), case)
    >>> bool((run.actions == case.start).all()), run.bill > case.optimum.total
    (True, True)
    """
    problem = case.problem
    if policy.problem.n != problem.n:
        raise InvalidInput(
            f"the policy has {policy.problem.n} actions, but the plant has {problem.n}; make the policy for its problem"
        )
    pilot = Pilot(policy, case.start, checked_seed(seed))
    actions = np.empty(case.rounds, dtype=np.int64)
    waiting: deque[tuple[int, int, Turn | None]] = deque()  # rounds without a reading yet, what was applied, whose turn
    for t, context in enumerate(case.contexts):
        _, view = pilot.look(context, shown=shown_costs(pilot.model, case.costs[t]))
        choice = pilot.decide(view)
        pilot.accept(choice)
        applied = case.overrides.get(t, choice.action)
        if applied != choice.action:
            pilot.move_to(applied)
        actions[t] = applied
        waiting.append((t, applied, choice.turn))
        if waiting[0][0] == t - case.delay:
            told, action, turn = waiting.popleft()
            y = case.reading(told, action)
            if y is not None:
                pilot.learn(action, case.contexts[told], y, turn)
    before = np.concatenate([[case.start], actions[:-1]])
    return PlantRun(
        policy.name, case, actions, case.costs[np.arange(case.rounds), actions], problem.move_costs(before, actions)
    )
