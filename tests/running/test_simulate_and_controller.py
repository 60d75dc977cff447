"""`simulate` and `Controller` take the same steps: equal rows."""

from __future__ import annotations

import pytest

import holdcourse as hc

WORLD = hc.SyntheticWorld.sample(seed=3, grid=5, contexts=6)
CONTEXTS = WORLD.context_sequence("iid", rounds=30, seed=1)
KNOWN = {"kernel": WORLD.kernel, "noise_std": WORLD.noise_std, "prior_mean": WORLD.prior_mean}
POLICIES = {
    "gp_md": hc.gp_md(WORLD.problem, contexts=WORLD.contexts, **KNOWN),
    "gp_md, exact": hc.gp_md(WORLD.problem, method="exact", **KNOWN),
    "gp_md, frozen in episodes": hc.gp_md(WORLD.problem, every="episode", **KNOWN),
    "cgp_lcb": hc.cgp_lcb(WORLD.problem, **KNOWN),
    "proximal_lcb": hc.proximal_lcb(WORLD.problem, **KNOWN),
    "md_known": hc.md_known(WORLD.problem),
    "minc_known": hc.minc_known(WORLD.problem),
    "stationary": hc.stationary(WORLD.problem),
}


@pytest.mark.parametrize("name", POLICIES)
def test_equal_rows(name):
    policy, starts, seed = POLICIES[name], [4, 12], 8
    run = hc.simulate(policy, WORLD, CONTEXTS, starts, seed, episodes=2)
    controller = hc.Controller(policy, start_index=starts[0], seed=seed)
    rows = []
    for t, context in enumerate(CONTEXTS):
        if t == 15:
            controller.new_episode(start_index=starts[1])
        costs = WORLD.costs(t, context)
        decision = controller.ask(context, costs=costs if policy.costs.needs_costs else None)
        measurement = WORLD.measure(t, context, decision.action, hc.measurement_noise(seed, t))
        controller.tell(decision.id, measurement)
        rows.append(
            {
                "episode": decision.episode,
                "round": decision.round,
                "context": float(context[0]),
                "action": decision.action,
                "value": decision.value,
                "probability": float(decision.probabilities[decision.action]),
                "service": float(costs[decision.action]),
                "movement": decision.movement,
                "measurement": measurement,
            }
        )
    assert run.rows() == rows
