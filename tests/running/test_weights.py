"""What a model made of a reading: kept with the decision, in words, and over a restart; and how the promise stands."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.running import audit

PROBLEM = hc.Problem([0.0, 1.0, 2.0, 3.0], scale=2.0)
WRONG = 1e6


def play(controller, rounds, wrong=()):
    for number in range(controller.round, rounds):
        load = float(np.sin(number / 5))
        decision = controller.ask(context=load)
        y = 100 + 4 * (decision.action - 1 - load) ** 2 + float(np.random.default_rng(number).normal())
        controller.tell(decision.id, WRONG if number in wrong else y)
    return controller


def weights(controller, rounds):
    return [controller.entry(f"r{number}").weight for number in range(rounds)]


@pytest.fixture(scope="module")
def policy():
    return hc.recommended(PROBLEM)


def test_a_wrong_reading_has_weight_0_and_is_explained(policy):
    controller = play(hc.Controller(policy, start_index=2), 12, wrong=[10])
    assert [number for number, weight in enumerate(weights(controller, 12)) if weight == 0] == [10]
    entry = controller.entry("r10")
    assert entry.told == (WRONG, None)
    assert entry.instead == pytest.approx(100, abs=15)
    assert (
        f"The reading 1,000,000 was set aside: about {entry.instead:.4g} was expected."
        in controller.explain("r10").words
    )
    assert "The reading" not in controller.explain("r9").words
    assert controller.calibration == hc.costs.Calibration(controller.calibration.widening, 1)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_among_the_first_is_found_out_by_the_first_fit(policy, wrong):
    controller = play(hc.Controller(policy, start_index=2), 2, wrong=[wrong])
    assert weights(controller, 2) == [1.0, 1.0]
    play(controller, 4, wrong=[wrong])
    assert [number for number, weight in enumerate(weights(controller, 4)) if weight == 0] == [wrong]
    assert "was set aside: about 10" in controller.explain(f"r{wrong}").words


def test_pending_and_skipped_rounds_have_no_weight(policy):
    controller = play(hc.Controller(policy), 4)
    decision = controller.ask(context=0.1)
    assert controller.entry(decision.id).weight is None
    controller.tell(decision.id, None)
    assert controller.entry(decision.id).weight is None


def test_one_that_is_taken_back_is_not_spoken_of(policy):
    controller = play(hc.Controller(policy, start_index=2), 12, wrong=[10])
    controller.retract("r10", "unplugged")
    assert "was set aside" not in controller.explain("r10").words
    assert controller.calibration.set_aside == 0


def test_a_reading_that_counts_in_part():
    policy = hc.gp_md(PROBLEM, kernel=hc.Kernel(RBF(1.0)), guard=hc.OutlierGuard(4.0), noise_std=0.1)
    controller = hc.Controller(policy)
    controller.tell(controller.ask().id, 60.0)
    assert 0 < controller.entry("r0").weight < 1
    assert "The reading 60 was far from what was expected and counts only in part." in controller.explain("r0").words
    assert (controller.calibration, controller.promise) == (None, None)


def test_weights_survive(policy, tmp_path):
    path, state = tmp_path / "record", tmp_path / "state"
    with hc.Controller(policy, start_index=2, log=path) as controller:
        play(controller, 12, wrong=[1, 10])
        expected, stands = weights(controller, 12), controller.promise
        controller.save(state)
    assert [number for number, weight in enumerate(expected) if weight == 0] == [1, 10]
    with hc.Controller(policy, start_index=2, log=path) as again:
        assert (weights(again, 12), again.promise) == (expected, stands)
    loaded = hc.Controller.load(state, policy)
    assert (weights(loaded, 12), loaded.promise) == (expected, stands)
    assert audit.verify(path).verified


def test_the_promise_stands(policy):
    controller = play(hc.Controller(policy, start_index=2), 20)
    stands = controller.promise
    assert stands.left == stands.saved - stands.doubt + stands.allowed
    assert stands.baseline_bill == pytest.approx(20 * 105, rel=0.2)
    assert "than the baseline" in str(stands)
    assert hc.Controller(hc.recommended(PROBLEM, at_most=None)).promise is None
