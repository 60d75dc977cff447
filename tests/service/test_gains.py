"""What is booked as gained, in worlds where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from service.running import KERNEL
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

COSTS = np.array([3.0, 2.0, 1.0, 2.5])
BEST, HOME, SCALE = 2, 0, 0.1
SURE = {  # the model knows the costs, and nothing that is measured changes that
    "policy": "proximal-lcb",
    "options": {
        "kernel": hc.Kernel(RBF(1.0), RBF(0.5), variance=1e-12).to_json(),
        "noise_std": 10.0,
        "context_bounds": [[0.0, 1.0]],
    },
}
PAST = [[BEST, 0.5, 0.0]] * 5 + [[HOME, 0.5, 50.0]] * 5  # says no more than which action is the best fixed one


def with_prior(config, prior_mean, **more):
    return config | {"options": config["options"] | {"prior_mean": prior_mean, **more}}


class World:
    """All actions are shifted by the same amount in a round; we know what each would have cost."""

    def __init__(self, client, name, shocks, sign=1.0):
        self.client, self.name, self.shocks, self.sign = client, name, shocks, sign
        self.place, self.staying, self.fixed = HOME, 0.0, 0.0

    def round(self, shock, applied=None):
        decision = self.client.do(self.name, "ask", context=0.5)
        taken = decision["action"] if applied is None else applied
        costs, moved = COSTS + shock, SCALE * abs(taken - self.place)
        self.client.do(
            self.name,
            "tell",
            decision=decision["decision"],
            measurement=self.sign * costs[taken],
            applied=applied,
        )
        self.place = taken
        self.staying += costs[HOME] - costs[taken] - moved
        self.fixed += costs[BEST] - costs[taken] - moved

    def run(self, *applied):
        for k, shock in enumerate(self.shocks):
            self.round(shock, applied[k % len(applied)] if applied else None)
        return self.client.saved(self.name)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["costs", "gains"])
@pytest.mark.parametrize("applied", [(), (1, 3, None, 0)], ids=["as decided", "as the operator liked"])
def test_the_gain_is_exact_where_the_expectations_are_whatever_shifts_a_whole_round(client, name, sign, applied):
    history = [[action, context, sign * y] for action, context, y in PAST]
    config = with_prior(SURE, (sign * COSTS).tolist(), maximise=sign < 0)
    client.create(id=name, start_index=HOME, scale=SCALE, history_index=history, **config)
    shocks = np.random.default_rng(0).normal(-8.0, 5.0, 30)  # a cheap time: that alone gains nothing
    world = World(client, name, shocks, sign)
    assert world.run(*applied) == pytest.approx((world.staying, world.fixed), abs=1e-6)
    assert world.staying > 5.0


def test_the_gain_is_near_the_truth_where_the_model_learns(client, name):
    rng = np.random.default_rng(1)
    history = [[k % 4, 0.5, COSTS[k % 4] + rng.normal(0.0, 2.0)] for k in range(400)]
    options = {"kernel": KERNEL.to_json(), "noise_std": 2.0, "prior_mean": 2.0, "context_bounds": [[0.0, 1.0]]}
    client.create(id=name, start_index=HOME, scale=SCALE, history_index=history, policy="proximal-lcb", options=options)
    world = World(client, name, rng.normal(0.0, 2.0, 100))
    staying, fixed = world.run()
    assert world.staying > 100.0
    assert staying == pytest.approx(world.staying, rel=0.15)
    assert fixed == pytest.approx(world.fixed, abs=0.15 * world.staying)


def test_rounds_that_nobody_can_compare_count_on_neither_side(client, name):
    client.create(id=name, start_index=HOME, scale=SCALE, history_index=PAST, **with_prior(SURE, COSTS.tolist()))
    world = World(client, name, [])
    world.round(4.0, applied=1)
    booked, saved = client.see(name, "state"), client.saved(name)
    decision = client.do(name, "ask", context=0.5)["decision"]
    client.change(name, limits={"min_dwell": 2})  # the new epoch's model did not decide this round
    client.do(name, "tell", decision=decision, measurement=-50.0, applied_index=2)
    assert client.see(name, "state")["service"] == booked["service"] - 50.0
    staying, fixed = client.saved(name)
    assert staying == pytest.approx(saved[0])
    assert fixed == pytest.approx(saved[1] - 0.1)  # it ran: no estimate is needed


def test_a_round_without_a_measurement_compares_movement_only(client, name):
    client.create(id=name, start_index=HOME, scale=SCALE, history_index=PAST, **with_prior(SURE, COSTS.tolist()))
    client.do(name, "ask", context=0.5)
    client.do(name, "skip", decision="r0", applied_index=3)
    assert client.saved(name) == pytest.approx((-0.3, -0.3))


def test_gains_are_said_beside_the_costs_that_they_are_inside(client, name):
    config = with_prior(SURE, (-COSTS).tolist(), maximise=True)
    client.create(id=name, start_index=HOME, scale=SCALE, **config)
    decision = client.do(name, "ask", context=0.5)
    assert decision["expected_measurement"] == pytest.approx(-decision["expected_cost"])
    assert decision["expected_measurement"] == pytest.approx(-COSTS[decision["action"]])
    client.do(name, "tell", decision="r0", measurement=7.0)
    state = client.see(name, "state")
    assert (state["maximise"], state["measurements_sum"], state["service"]) == (True, 7.0, -7.0)
    row = client.see(name, "decisions")["decisions"][0]
    assert row["expected_measurement"] == decision["expected_measurement"]
    (listed,) = (row for row in client.get("/controllers").json()["controllers"] if row["id"] == name)
    assert (listed["maximise"], listed["measurements_sum"]) == (True, 7.0)
    words = client.see(name, "explain/r0")["words"]
    assert "The expected gain is" in words
    assert "cost there" not in words
