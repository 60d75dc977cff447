"""What a worker does: the runs of one scene, one after the other, on one thread."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from holdcourse.experiments.runs import CLAIRVOYANT, RunConfig, Scene
from holdcourse.offline import PricedPath, optimal_path
from holdcourse.policy import Policy

Arrays: TypeAlias = dict[str, NDArray[Any]]

PROCESS = uuid.uuid4().hex  # tells a worker's process from the one that sent the work


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    numbers
        start, service, movement, total and optimum; empty if it failed.
    curves
        One entry per round: the action, and what it cost (float32: they are for figures).
    error
        The traceback of a run that failed.
    """

    run: RunConfig
    numbers: dict[str, Any] = field(default_factory=dict)
    curves: Arrays = field(default_factory=dict)
    error: str | None = None


def execute(runs: Sequence[RunConfig], sender: str = "") -> list[Outcome]:
    """Do runs that share a scene. One that fails does not stop the others.

    `sender` is the process that wants the results: any other one belongs to workers, and stays on one thread for good.
    """
    if sender != PROCESS:
        _stay_on_one_thread()
    try:
        scene = runs[0].world.scene(runs[0])
        costs = np.array([scene.world.costs(t, context) for t, context in enumerate(scene.contexts)])
        best = optimal_path(costs, scene.world.problem, scene.start) if len(costs) else None
    except Exception:
        return [Outcome(run, error=traceback.format_exc()) for run in runs]
    made: dict[str, Policy] = {}
    outcomes = []
    for run in runs:
        try:
            outcomes.append(_one(run, scene, costs, best, made))
        except Exception:
            outcomes.append(Outcome(run, error=traceback.format_exc()))
    return outcomes


@cache
def _stay_on_one_thread() -> None:
    threadpool_limits(limits=1)


def _one(
    run: RunConfig, scene: Scene, costs: NDArray[np.float64], best: PricedPath | None, made: dict[str, Policy]
) -> Outcome:
    problem = scene.world.problem
    optimum = None if best is None else best.total
    if run.policy.name == CLAIRVOYANT:
        assert best is not None  # sweeps whose contexts depend on the policy have no such run
        actions = best.actions
        before = np.append(scene.start, actions[:-1])
        service, movement = costs[np.arange(len(actions)), actions], problem.move_costs(before, actions)
    else:
        key = run.policy.model_dump_json()
        if key not in made:  # repetitions run the same policy
            made[key] = run.world.policy(run.policy, run, scene)
        played = run.world.play(made[key], run, scene)
        actions, service, movement = played.actions, played.service, played.movement
        optimum = played.optimum if optimum is None else optimum
    paid = {"service": float(service.sum()), "movement": float(movement.sum())}
    numbers = {"start": scene.start, **paid, "total": sum(paid.values()), "optimum": optimum}
    curves: Arrays = {
        "actions": actions.astype(np.min_scalar_type(problem.n - 1)),
        "service": service.astype(np.float32),
        "movement": movement.astype(np.float32),
    }
    if scene.best is not None:
        curves["gain"] = (scene.best - service).astype(np.float32)
    return Outcome(run, numbers, curves)
