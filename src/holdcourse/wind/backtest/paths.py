"""From wind to the plan of a trial: what two policies made, each as if it had flown throughout.

A plan is made from all the wind there is, and no policy may have learned from the hours that it is flown in: in the
real trial it will not have. So the record is flown in parts, each by a policy that learned from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest import period
from holdcourse.wind.backtest.handover import site_policy
from holdcourse.wind.backtest.result import OURS, Backtest
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.load import load
from holdcourse.wind.files.paths import Paths as Files
from holdcourse.wind.physics import PowerCurve, WindWorld, wind_world
from holdcourse.wind.policy.filter import ExpectedEnergy
from holdcourse.wind.policy.policies import best_altitude

MAX_GAP = 3.0  # hours that are filled in
PART_HOURS = 0.5 * 8766  # half a year: what is flown with a policy that learned from the rest
FEWEST_PARTS = 4  # of a shorter record: what is learned from is three quarters of it at least
COINS_APART = 1000  # seeds from one part to the next


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


def left_out_paths(
    wind: WindData,
    plan: Plan,
    *,
    altitude: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[hc.trials.Paths, Rehearse, float]:
    """Return what our policy and a fixed altitude made in a whole record, their rehearsal, and the hours of a round.

    Each part of half a year, or a quarter of a shorter record, is flown by a policy that learned from the others.

    Parameters
    ----------
    plan
        The machine and the price of moving; what is flown, and when, is chosen here.
    altitude
        What the baseline holds, in metres; default in each part the one that made most in the others.
    """
    paths, runs, lengths, step = [], [], [], 1.0
    edges = _edges(wind)
    for k, (begin, end) in enumerate(pairwise(edges)):
        if progress is not None:
            progress(f"flying from {begin[:10]}, learned from the rest", k, len(edges) - 1)
        part = replace(plan, policies=("fixed", OURS), what_if=(), begin=begin, end=end, allow_later_history=True)
        site = run_backtest(wind, wind, part)
        flown, world = site.backtest, site.backtest.world
        held = int(flown.flights["fixed"].actions[-1]) if altitude is None else world.problem.index(altitude)
        ours, still = flown.flights[OURS], np.full(len(world.time), held)
        paths.append(_paths(world, (ours.actions, ours.before), (still, still)))
        runs.append(rehearsal(site_policy(site, OURS, as_judged=True), held, world, flown.start))
        lengths.append(len(world.time))
        step = world.step_hours

    def rehearse(block: int, heard: float, coin: int, tell: Callable[[int, int], None]) -> hc.trials.Blocks:
        tables = []
        for k, run in enumerate(runs):

            def tell_all(done: int, _: int, before: int = sum(lengths[:k])) -> None:
                tell(before + done, sum(lengths))

            tables.append(run(block, heard, coin + k * COINS_APART, tell_all))
        return hc.trials.joined(tables)

    names = [each.name for each in fields(hc.trials.Paths) if each.name != "maximise"]
    columns = {name: np.concatenate([getattr(each, name) for each in paths]) for name in names}
    return hc.trials.Paths(**columns, maximise=True), rehearse, step


def _edges(wind: WindData) -> list[str]:
    """Return the times at which the parts of a record begin, and one after its end."""
    count = max(FEWEST_PARTS, round(len(wind) * wind.step / PART_HOURS))
    first = np.linspace(0, len(wind), count + 1).round().astype(int)[:-1]
    times = [*wind.time[first], wind.time[-1] + np.timedelta64(1, "s")]
    return [str(each.astype("datetime64[s]")) for each in times]


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

    Where a wind planner learned from hours of these data, such planners fly that learned from the rest of them.

    Parameters
    ----------
    altitude
        What the baseline holds, in metres; default the altitude that makes most in these data.
    curve
        The machine's; default the one that the policy was made for.
    """
    if policy.units.get("measurement") != "m/s":
        raise InvalidInput(
            f"{policy.name} does not measure wind speeds, so wind data cannot be used for it; give its own readings"
        )
    problem = policy.problem
    altitudes = problem.actions[:, 0]
    data = wind if isinstance(wind, WindData) else load(wind)
    hours = data.time.astype("datetime64[s]").astype(np.int64) / 3600.0
    up, down = (float(problem.move_costs(np.array([a]), np.array([b]))[0]) for a, b in ((0, 1), (1, 0)))
    metre = float(altitudes[1] - altitudes[0])
    if curve is None and isinstance(policy.costs, ExpectedEnergy):
        curve = policy.costs.curve
    known = _learned_from(policy)
    if known is not None and (known[0] <= hours[-1]) and (hours[0] <= known[1]):
        plan = Plan(altitudes=tuple(altitudes), movement=(up / metre, down / metre), seed=seed, gauge_noise=known[2])
        plan = plan if curve is None else replace(plan, curve=curve)
        return left_out_paths(data, plan, altitude=altitude, progress=progress)
    pieces, _ = period.pieces(data.onto(altitudes), MAX_GAP)
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


def _learned_from(policy: hc.Policy) -> tuple[float, float, float | None] | None:
    """Return the first and last hour that a wind planner learned from, and what its gauge is stated to be."""
    wind = {} if policy.made_by is None else policy.made_by[1].get("wind", {})
    if wind.get("wind") != "candidates" or len(wind["climates"]) < 2:  # the last one is what holds at any site
        return None
    begin, end = wind["climates"][0]["period"]
    return float(begin), float(end), wind["gauge"]


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
