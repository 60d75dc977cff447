"""The figures of an independent prototype, and learning: what the policies must come to in the paper's setting."""

from __future__ import annotations

import numpy as np
import pytest

from holdcourse.deciding import policy as policies
from holdcourse.worlds.simulation import simulate
from holdcourse.worlds.synthetic import SyntheticWorld

pytestmark = pytest.mark.slow

# Mean total cost of ten functions over 500 rounds: optimum, GP-MD. Only the ratio is compared: the functions differ.
PROTOTYPE = {0.5: (77, 124), 1.0: (147, 221), 2.0: (271, 383)}


def learner_knows(world):
    known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    return known | {"contexts": world.contexts}


@pytest.mark.parametrize("rho", PROTOTYPE)
def test_synthetic_order_and_ratio_to_the_optimum(rho, record_property):
    totals = {"OPT": [], "MD-Known": [], "GP-MD": [], "CGP-LCB": []}
    for seed in range(5):
        world = SyntheticWorld.sample(seed=seed, rho=rho)
        contexts = world.context_sequence("iid", rounds=500, seed=seed)
        start = int(np.random.default_rng([seed, 1]).integers(world.problem.n))
        for policy in (
            policies.md_known(world.problem),
            policies.gp_md(world.problem, **learner_knows(world)),
            policies.cgp_lcb(world.problem, **learner_knows(world)),
        ):
            run = simulate(policy, world, contexts, start, seed)
            totals[policy.name].append(run.total)
        totals["OPT"].append(run.optima[0].total)
    mean = {name: float(np.mean(values)) for name, values in totals.items()}
    record_property(f"rho {rho}: mean total cost", ", ".join(f"{name} {value:.0f}" for name, value in mean.items()))
    assert mean["MD-Known"] < mean["GP-MD"] < mean["CGP-LCB"]
    optimum, gp_md = PROTOTYPE[rho]
    ratio = mean["GP-MD"] / mean["OPT"]
    record_property(f"rho {rho}: GP-MD over the optimum", f"{ratio:.3f} (prototype {gp_md / optimum:.3f})")
    assert abs(ratio / (gp_md / optimum) - 1) < 0.15


def test_what_learning_costs_grows_sublinearly_over_episodes(record_property):
    """Episodic GP-MD against MD-Known on the same trees, contexts, starts and draws: the difference is learning."""
    episodes, rounds, seeds = 60, 20, 20
    extra = np.zeros(episodes)
    for seed in range(seeds):
        world = SyntheticWorld.sample(seed=seed)
        contexts = world.context_sequence("iid", rounds=episodes * rounds, seed=seed)
        starts = np.random.default_rng([seed, 1]).integers(world.problem.n, size=episodes)
        learning, knowing = (
            simulate(policy, world, contexts, starts, seed, episodes=episodes)
            for policy in (
                policies.gp_md(world.problem, every="episode", tree_seed=seed, **learner_knows(world)),
                policies.md_known(world.problem, tree_seed=seed),
            )
        )
        pairs = zip(learning.episodes, knowing.episodes, strict=True)
        extra += [(one.total - other.total) / seeds for one, other in pairs]
    cumulative = np.cumsum(extra)
    window = np.arange(10, episodes + 1)
    assert cumulative[window - 1].min() > 0
    slope = float(np.polyfit(np.log(window), np.log(cumulative[window - 1]), 1)[0])
    shown = ", ".join(f"{cumulative[m - 1]:.1f} after {m}" for m in (10, 20, 40, 60))
    record_property("learning: cumulative difference", shown)
    record_property("learning: log-log slope over episodes 10..60", f"{slope:.2f}")
    assert slope < 0.9
