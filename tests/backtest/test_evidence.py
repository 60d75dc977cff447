"""Simulated plants whose truth is known: the interval holds it, and where readings cannot tell there is no number."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.backtest.evidence import blocks_of, supported
from holdcourse.backtest.plant import AS_RUN, FIXED, backtest_plant

VALUES = np.arange(6.0) + 6


def wandering(rng, rounds, memory):
    """Noise of variance 1 that remembers the hour before."""
    steps = rng.normal(size=rounds) * np.sqrt(1 - memory**2)
    found = np.empty(rounds)
    found[0] = rng.normal()
    for k in range(1, rounds):
        found[k] = memory * found[k - 1] + steps[k]
    return found


def plant(seed, rounds=1500, setting="by lot", memory=0.9, bowl=3.0):
    """Readings of a plant, and what every setting would have cost in every round, (rounds, 6)."""
    rng = np.random.default_rng(seed)
    hour = np.arange(rounds)
    outdoor = 10 + 5 * np.sin(2 * np.pi * hour / 24) + 2 * wandering(rng, rounds, 0.95)
    load = 60 + 20 * np.sin(2 * np.pi * hour / 24 + 1) + 8 * wandering(rng, rounds, 0.9)
    best = 8.5 + 0.15 * (outdoor - 10) + 0.03 * (load - 60)
    costs = 200 + 2 * load[:, None] + bowl * (VALUES[None] - best[:, None]) ** 2
    ran = np.empty(rounds, dtype=np.int64)
    here = 2
    for k in range(rounds):
        if setting == "by load":
            here = int(np.clip(round((load[k] - 20) / 16), 0, 5))
        elif setting == "by lot" and rng.random() < 0.03:
            here = int(rng.integers(6))
        elif setting == "hardly ever":
            here = (2, 4, 2)[3 * k // rounds]
        ran[k] = here
    measured = costs[hour, ran] + 6 * wandering(rng, rounds, memory)
    return hc.Problem(VALUES, scale=0.5), hc.History(ran, np.column_stack([outdoor, load]), measured), costs


def judged(seed, **options):
    problem, readings, costs = plant(seed, **options)
    names = ("outdoor", "load")
    return backtest_plant(problem, readings, ("gp-md",), step_hours=1.0, context_names=names), costs


def truly_saved(found, costs, rival):
    """What the policy would have saved in truth, moves included."""
    problem, start = found.world.problem, int(found.taken[AS_RUN][0])
    bills = []
    for actions in (found.taken[rival], found.taken["gp-md"]):
        before = np.concatenate([[start], actions[:-1]])
        bills.append(costs[np.arange(len(actions)), actions].sum() + problem.move_costs(before, actions).sum())
    return bills[0] - bills[1]


def held(seeds, **options):
    """How often the interval holds the truth, against what was done and against the setting chosen on one half."""
    inside = []
    for seed in seeds:
        found, costs = judged(seed, **options)
        for rival in (AS_RUN, FIXED):
            interval = found.against[rival]
            inside.append(interval.low <= truly_saved(found, costs, rival) <= interval.high)
    return inside


@pytest.mark.slow
@pytest.mark.parametrize("cases", [2, 4])
def test_the_interval_holds_the_truth(cases):
    inside = held(range(20, 20 + cases))
    assert sum(inside) >= 2 * cases - 1  # two rivals each


@pytest.mark.slow
def test_the_interval_holds_the_truth_often(record_property):
    counts = {}
    for name, options in {
        "a bowl": {},
        "errors that stay": {"memory": 0.98},
        "nothing to be saved": {"bowl": 0.0, "memory": 0.95},
    }.items():
        inside = held(range(30, 50), **options)
        counts[name] = sum(inside) / len(inside)
        record_property(f"interval holds the truth, {name}", f"{counts[name]:.2f} of {len(inside)}")
    assert min(counts.values()) >= 0.85


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_nothing_to_be_saved_is_not_called_a_gain(seed):
    """A policy that only follows noise is judged by noise that it has not seen."""
    assert judged(seed, bowl=0.0)[0].verdict != "yes"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_setting_that_follows_the_load_gives_no_number(seed):
    found, _ = judged(seed, setting="by load")
    assert found.verdict == "too few"
    assert found.support is not None
    assert "only together with outdoor and load" in found.support.reasons[0]
    conclusion = found.conclusion
    assert conclusion.startswith("These readings cannot tell.")
    assert "kWh" not in conclusion
    assert "less than what was done" not in conclusion
    assert "in turn with" in conclusion
    assert "24 h at a time" in conclusion
    assert "Draw the order at random" in conclusion


def test_a_setting_that_hardly_ever_changed_gives_no_number():
    found, _ = judged(5, setting="hardly ever")
    assert found.verdict == "too few"
    assert "The setting changed twice in 1,500 readings" in found.conclusion


def test_support_counts_what_was_never_shown():
    problem, readings, costs = plant(3)
    blocks = blocks_of(len(readings), 1.0)
    asked = {"names": ["outdoor", "load"], "blocks": blocks}
    assert supported(problem, readings, readings.actions, **asked).unsupported == 0.0
    assert supported(problem, readings, costs.argmin(axis=1), **asked).unsupported < 0.1
    only_low = hc.History(
        np.where(readings.contexts[:, 1] > 60, 0, readings.actions), readings.contexts, readings.measurements
    )
    high = np.where(readings.contexts[:, 1] > 60, 5, only_low.actions)
    lacking = supported(problem, only_low, high, **asked)
    assert lacking.unsupported > 0.5
    assert not lacking.enough


@pytest.mark.parametrize(
    ("rows", "step", "count"), [(8760, 1.0, 53), (8760, 0.25, 14), (240, 1.0, 10), (500, None, 20)]
)
def test_blocks(rows, step, count):
    blocks = blocks_of(rows, step)
    assert blocks.max() + 1 == count
    assert (np.diff(blocks) >= 0).all()
