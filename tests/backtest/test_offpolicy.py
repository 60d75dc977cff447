"""Another policy's service cost from draws: right on average, honest about its error, and refused where it must be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.backtest.offpolicy import doubly_robust, too_little_overlap

N, T = 3, 800


def world(seed, sticky):
    """A run of a policy that learns and draws: what was done, how probable it was, and what everything costs.

    `sticky`: it stays where its probabilities allow it, as policies do that pay for moving.
    """
    rng = np.random.default_rng(seed)
    context = rng.uniform(size=T)
    costs = rng.normal(size=N) + np.outer(context, rng.normal(size=N))
    sums, counts = np.zeros(N), np.ones(N)
    before, here = np.full(N, 1 / N), 0
    taken, measured, probable = np.empty(T, dtype=np.int64), np.empty(T), np.empty((T, N))
    for t in range(T):
        p = np.exp(-sums / counts)
        p = 0.6 * p / p.sum() + 0.4 / N
        rise = np.maximum(p - before, 0.0)
        stays = sticky and rng.uniform() > 0.3
        if not stays:
            here = min(int(np.searchsorted(np.cumsum(p), rng.uniform())), N - 1)
        elif rng.uniform() > p[here] / before[here]:
            here = min(int(np.searchsorted(np.cumsum(rise), rng.uniform() * rise.sum())), N - 1)
        taken[t], probable[t], before = here, p, p
        measured[t] = costs[t, here] + rng.normal()
        sums[here] += measured[t]
        counts[here] += 1
    return taken, measured, probable, costs


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [False, True], ids=["drawn anew", "staying"])
def test_the_interval_holds_the_truth_and_the_estimate_is_right_on_average_though_the_model_is_badly_wrong(sticky):
    wrong = np.tile([7.0, -5.0, 4.0], (T, 1))  # of costs that are all about 0
    always = np.tile([0.0, 0.0, 1.0], (T, 1))
    off, held, widths = [], [], []
    for seed in range(250):
        taken, measured, probable, costs = world(seed, sticky)
        found = doubly_robust(measured, taken, probable, always, wrong)
        if found.refusal is not None:
            continue
        truth = costs[:, 2].mean()
        off.append(found.mean - truth)
        held.append(found.low <= truth <= found.high)
        widths.append(found.high - found.low)
    assert len(off) > 200
    assert abs(np.mean(off)) < 0.1 * np.mean(widths)
    assert 0.92 <= np.mean(held) <= 0.985


def test_a_good_model_makes_it_precise():
    taken, measured, probable, costs = world(1, sticky=False)
    always = np.tile([0.0, 0.0, 1.0], (T, 1))
    rough = doubly_robust(measured, taken, probable, always, np.zeros((T, N)))
    costs_known = doubly_robust(measured, taken, probable, always, costs)
    assert costs_known.high - costs_known.low < rough.high - rough.low + 0.05
    same = doubly_robust(measured, taken, probable, probable, costs)
    assert same.low < costs[np.arange(T), taken].mean() < same.high
    assert same.saved == pytest.approx(0.0, abs=0.2)


def test_it_is_refused_where_nothing_was_drawn_or_hardly_ever_what_the_other_would_do():
    rng = np.random.default_rng(0)
    taken, first, second = np.zeros(200, dtype=np.int64), np.tile([1.0, 0.0], (200, 1)), np.tile([0.0, 1.0], (200, 1))
    assert "not drawn at random" in too_little_overlap(taken, first, second)
    assert "and the record has 50. Record for longer" in too_little_overlap(taken[:50], first[:50], second[:50])
    half = np.where(np.arange(200)[:, None] < 100, 0.5, first)
    drawn = np.where(np.arange(200) < 100, rng.integers(2, size=200), 0)
    assert "would hardly ever have drawn" in too_little_overlap(drawn, half, second)
    once = np.repeat([0, 1], 100)  # two long visits
    coin = np.full((200, 2), 0.5)
    assert "counts like 1 separate visit to its choices" in too_little_overlap(once, coin, second)
    rarely = np.tile([0.9, 0.1], (1000, 1))
    often = np.tile([1, 0], 500)
    assert "times as often as the probabilities predict" in too_little_overlap(
        often, rarely, np.tile([0.0, 1.0], (1000, 1))
    )
    found = doubly_robust(np.ones(200), taken, first, second, coin)
    assert math.isnan(found.mean)
    assert math.isnan(found.saved)
    assert found.recorded == 1.0


def written(path, policy, rounds=300, start_index=1):
    rng = np.random.default_rng(0)
    with hc.Controller(policy, start_index=start_index, seed=1, log=path) as controller:
        for t in range(rounds):
            context = 0.5 + 0.5 * math.sin(2 * math.pi * t / 8)
            decision = controller.ask(context)
            controller.tell(decision.id, 2 + (decision.action / 3 - context) ** 2 + 0.3 * rng.normal())
    return path


OPTIONS = {
    "kernel": hc.Kernel(RBF(1.0), RBF(0.5)),
    "noise_std": 0.3,
    "prior_mean": 2.0,
    "context_bounds": [[0.0, 1.0]],
}


def test_a_record_of_gp_md_is_judged_by_its_draws(tmp_path):
    problem = hc.Problem([0.0, 1.0, 2.0, 3.0], scale=0.3)
    path = written(tmp_path / "drawn.log", hc.gp_md(problem, **OPTIONS))
    found = hc.replay(path, "gp-md").doubly_robust
    assert found.refusal is None
    assert found.low < found.recorded < found.high  # the same policy, with other measurements
    assert found.rounds == 300
    assert "would hardly ever have drawn" in hc.replay(path, "stationary").doubly_robust.refusal


def test_a_record_of_a_deterministic_policy_or_under_a_promise_is_refused_in_words(tmp_path):
    problem = hc.Problem([0.0, 1.0, 2.0, 3.0], scale=0.3)
    path = written(tmp_path / "certain.log", hc.cgp_lcb(problem, **OPTIONS), rounds=120)
    assert "not drawn at random (in 100 %" in hc.replay(path, "gp-md").doubly_robust.refusal
    path = written(tmp_path / "promised.log", hc.recommended(problem, **OPTIONS), rounds=8)
    assert "a promise against a baseline" in hc.replay(path, "gp-md").doubly_robust.refusal


def test_rounds_in_which_something_else_than_the_draw_ran_do_not_count(tmp_path):
    problem = hc.Problem([0.0, 1.0, 2.0, 3.0], scale=0.3)
    path = tmp_path / "taken.log"
    with hc.Controller(hc.gp_md(problem, **OPTIONS), start_index=1, log=path) as controller:
        for t in range(10):
            decision = controller.ask(t % 2)
            controller.tell(decision.id, 2.0, applied_index=(decision.action + 1) % 4 if t % 2 else None)
    found = hc.replay(path, "gp-md").doubly_robust
    assert "in 5 of 10 rounds another setting ran than the one drawn" in found.refusal
    assert found.rounds == 5
