"""From wind to the plan of a trial: what two policies made, each as if it had flown throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest import period
from holdcourse.wind.backtest.result import Backtest
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.load import load
from holdcourse.wind.files.paths import Paths as Files
from holdcourse.wind.physics import PowerCurve, WindWorld, wind_world
from holdcourse.wind.policy.policies import best_altitude

MAX_GAP = 3.0  # hours that are filled in


Rehearse: TypeAlias = Callable[[int, float, int, Callable[[int, int], None]], hc.trials.Blocks]


def trial_paths(flown: Backtest, policy: str, baseline: str = "fixed") -> hc.trials.Paths:
    """Return what two policies of a backtest made, and what changing between them would cost, for `plan_of`.

    The reference is what the baseline makes: a twin machine that stays with it, or a mast at its altitude.
    """
    ours, theirs = flown.flights[policy], flown.flights[baseline]
    return _paths(flown.world, (ours.actions, ours.before), (theirs.actions, theirs.before))


def rehearsal(policy: hc.Policy, altitude: int, world: WindWorld, start: int) -> Rehearse:
    """Return what runs a trial of a policy against an altitude (index) over the wind, for `plan_of`."""
    still = hc.fixed_at(policy.problem, setting_index=altitude)

    def run(block: int, heard: float, coin: int, tell: Callable[[int, int], None]) -> hc.trials.Blocks:
        on_trial = hc.trial(policy, still, block=block, heard=heard)
        contexts, energy = _contexts(policy, world), world.energy
        return hc.trials.simulate_trial(
            on_trial, world, contexts, start=start, seed=coin, measured=energy, maximise=True, progress=tell
        )

    return run


def _contexts(policy: hc.Policy, world: WindWorld) -> Any:
    """What the policy is asked with: the hour of the day, or the time."""
    return world.hours if policy.units.get("context", "").startswith("hour of the day") else world.moments


def policy_paths(
    policy: hc.Policy,
    wind: WindData | Files,
    *,
    altitude: float | None = None,
    curve: PowerCurve | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[hc.trials.Paths, Rehearse, float]:
    """Return the same for a saved wind policy over wind data, its rehearsal, and the hours of a round.

    Parameters
    ----------
    altitude
        What the baseline holds, in metres; default the altitude that makes most in these data.
    curve
        The machine's; default the paper's.
    """
    if policy.units.get("measurement") != "m/s":
        raise InvalidInput(f"{policy.name} is told no wind speeds, so wind data say nothing about it; give --log")
    problem = policy.problem
    altitudes = problem.actions[:, 0]
    data = wind if isinstance(wind, WindData) else load(wind)
    pieces, _ = period.pieces(data.onto(altitudes), MAX_GAP)
    up, down = (float(problem.move_costs(np.array([a]), np.array([b]))[0]) for a, b in ((0, 1), (1, 0)))
    metre = float(altitudes[1] - altitudes[0])
    world = wind_world(
        np.concatenate([piece.time for piece in pieces]),
        altitudes,
        np.concatenate([piece.speed for piece in pieces]),
        curve=curve,
        movement=(up / metre, down / metre),
    )
    held = best_altitude(world, world.speed) if altitude is None else problem.index(altitude)
    lengths = [len(piece) for piece in pieces]

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress(f"flying {policy.name}", done, total)

    run = hc.simulate(policy, world, _contexts(policy, world), start=held, seed=seed, episodes=lengths, progress=tell)
    still = np.full(len(world.time), held)
    first = np.cumsum(lengths) - lengths
    before = np.append(held, run.actions[:-1])
    before[first] = held
    paths = _paths(world, (run.actions, before), (still, still))
    return paths, rehearsal(policy, held, world, held), world.step_hours


def _paths(world: WindWorld, ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> hc.trials.Paths:
    """Of both: the altitude (index) of every round, and the one before it."""
    move, rounds = world.problem.move_costs, np.arange(len(world.time))
    moving, moving_theirs = (move(before, actions) for actions, before in (ours, theirs))
    return hc.trials.Paths(
        policy=world.energy[rounds, ours[0]],
        baseline=world.energy[rounds, theirs[0]],
        policy_movement=moving,
        baseline_movement=moving_theirs,
        to_policy=move(theirs[1], ours[0]) - moving,
        to_baseline=move(ours[1], theirs[0]) - moving_theirs,
        reference=world.energy[rounds, theirs[0]],
        maximise=True,
    )
