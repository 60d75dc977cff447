"""Would altitude control have paid off? Policies on wind data, against a fixed altitude and hindsight."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.notes import traced
from holdcourse.wind.policies import Setting, contexts_of, flown_by_default, policy_of
from holdcourse.wind.result import HINDSIGHT, Array, Backtest, Flight, Indices, Line
from holdcourse.wind.world import WindWorld

__all__ = ["HINDSIGHT", "Backtest", "Flight", "Line", "backtest"]


def backtest(
    setting: Setting,
    policies: Sequence[str] | None = None,
    *,
    start: int | None = None,
    seed: int = 0,
    site: str = "",
    lengths: Sequence[int] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Backtest:
    """Fly every policy through the world's wind.

    Parameters
    ----------
    setting
        The world, and the past that policies may learn from.
    policies
        Names in the registry; default all that the setting allows and that do not wait for a request. Hindsight is
        always added.
    start
        Altitude (index) before the first round; default the middle one.
    lengths
        Rounds of each gapless segment, each at least 1; every segment begins at `start` again.
    progress
        Called with each policy's name before it is flown.
    """
    world = setting.world
    wanted = flown_by_default() if policies is None else list(policies)
    makers = {name: policy_of(name) for name in wanted}
    if policies is None and setting.past is None:
        wanted.remove("fixed")
    begin = len(world.altitudes) // 2 if start is None else int(start)
    world.problem.check_action(begin)
    parts = [len(world.time)] if lengths is None else [int(length) for length in lengths]
    if min(parts, default=0) < 1 or sum(parts) != len(world.time):
        raise InvalidInput(f"segments of {parts} rounds do not add up to the data's {len(world.time)}")
    slices = _slices(parts)
    flights: dict[str, Flight] = {}
    for name in wanted:
        if progress is not None:
            progress(name)
        policy, trace = traced(makers[name](setting))
        run = hc.simulate(policy, world, contexts_of(name, world), start=begin, seed=seed, episodes=parts)
        before = _before(run.actions, slices, begin)
        reasons = trace.reasons(before, run.actions)
        made = _made(world, run.actions)
        said = policy.explanation
        flights[name] = Flight(name, run.actions, before, made, run.movement_costs, run.probabilities, reasons, said)
    for name in HINDSIGHT:
        if progress is not None:
            progress(name)
        actions = _hindsight(name, world, slices, begin)
        before = _before(actions, slices, begin)
        moving = world.problem.move_costs(before, actions)
        flights[name] = Flight(name, actions, before, _made(world, actions), moving, np.ones(len(actions)))
    return Backtest(site, world, begin, flights, tuple(parts))


def _hindsight(name: str, world: WindWorld, parts: Sequence[slice], start: int) -> Indices:
    if name == "clairvoyant":
        paths = [hc.optimal_path(world.service[part], world.problem, start).actions for part in parts]
        return np.concatenate(paths)
    best = hc.best_fixed(world.service, world.problem, start, episodes=len(parts))  # each begins at the start again
    return np.full(len(world.time), best)


def _made(world: WindWorld, actions: Indices) -> Array:
    return world.energy[np.arange(len(actions)), actions]


def _before(actions: Indices, parts: Sequence[slice], start: int) -> Indices:
    """Where the turbine was before each round."""
    return np.concatenate([np.append(start, actions[part][:-1]) for part in parts])


def _slices(lengths: Sequence[int]) -> list[slice]:
    ends = np.cumsum(lengths)
    return [slice(int(end) - length, int(end)) for end, length in zip(ends, lengths, strict=True)]
