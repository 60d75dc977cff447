"""Why a decision was taken, in words: what staying was weighed against, and gains as gains."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

LINE = hc.Problem([100.0, 200.0, 300.0, 400.0], scale=0.01)
MASK = np.array([True, False, True, True])


def words(policy, costs=None, start=2, allowed=None, context=None):
    controller = hc.Controller(policy, start_index=start)
    return controller.explain(controller.ask(context, costs=costs, allowed=allowed).id).words


def test_staying_is_explained_by_the_best_alternative_and_the_way_there():
    said = words(hc.md_known(LINE), [9.0, 5.0, 0.9, 0.5])  # a rule that weighs the way
    assert said.startswith(
        "Round 0: stay at 300. The expected service cost there is 0.9. The best alternative is 0.5 at 400; "
        "moving there would have cost 1. The rule's probabilities: 300 "
    )
    assert "bound" not in said  # it is at 400 too, and the same: that is not told twice


def test_of_equal_alternatives_the_nearest_and_only_what_is_allowed():
    stay = hc.minc_known(LINE)
    assert "The best alternative is 5 at 400; moving there would have cost 1." in words(stay, [5.0, 9.0, 1.0, 5.0])
    assert "The best alternative is 7 at 100;" in words(stay, [7.0, 3.0, 1.0, 8.0], allowed=MASK)
    alone = words(stay, [7.0, 3.0, 1.0, 8.0], allowed=np.arange(4) == 2)
    assert alone == "Round 0: stay at 300. The expected service cost there is 1."


def test_who_knows_nothing_of_the_others_names_none():
    assert words(hc.stationary(LINE), context=0.5) == "Round 0: stay at 300."  # it asks nobody what that costs


def test_a_move_is_explained_as_before():
    assert words(hc.minc_known(LINE), [9.0, 5.0, 3.0, 1.0]) == (
        "Round 0: go from 300 to 400, a move that costs 1. The expected service cost is 1 there and 3 at 300."
    )


def test_known_gains_are_spoken_of_as_gains():
    best = hc.minc_known(LINE, maximise=True)
    assert words(best, [1.0, 2.0, 8.0, 6.0]) == (
        "Round 0: stay at 300. The expected gain there is 8. The best alternative is 6 at 400; moving there would "
        "have cost 1."
    )
    assert words(best, [1.0, 2.0, 8.0, 9.0]) == (
        "Round 0: go from 300 to 400, a move that costs 1. The expected gain is 9 there and 8 at 300."
    )


@pytest.mark.parametrize(("maximise", "sign"), [(True, 1.0), (False, -1.0)])
def test_learned_gains_are_spoken_of_as_gains(maximise, sign):
    """The same data as gains and as costs: the same decisions, in other words."""
    policy = hc.cgp_lcb(LINE, kernel=hc.Kernel(RBF(50.0), RBF(1.0)), noise_std=0.1, maximise=maximise)
    controller = hc.Controller(policy, start_index=2)
    for gain in (1.0, 2.0, 6.0, 2.0, 6.0, 2.0):
        decision = controller.ask(0.5)
        controller.tell(decision.id, sign * gain)
    decision = controller.ask(0.5)
    said = controller.explain(decision.id).words
    expected = sign * controller.explain(decision.id).mean[decision.action]
    assert (f"The expected gain there is {expected:.4g}" in said) == maximise
    assert (f"The expected service cost there is {-expected:.4g}" in said) == (not maximise)
    assert expected > 0


def test_the_bound_that_is_best_is_named_in_the_same_terms():
    limited = hc.Limits(max_step_cost=1.0)
    for maximise, best in ((True, "estimate, 7, is for 100"), (False, "estimate, -7, is for 100")):
        controller = hc.Controller(hc.minc_known(LINE, maximise=maximise), start_index=3, limits=limited)
        gains = np.array([7.0, 5.0, 4.0, 3.0])
        decision = controller.ask(costs=gains if maximise else -gains)
        assert controller.explain(decision.id).words.endswith(f"{best}; moving there would have cost 3.")


def test_explanations_have_the_units_of_the_policy_file(tmp_path):
    """A policy of a wind site is about metres and kWh; its problem has numbers alone."""
    hc.fixed_at(hc.Problem([50.0, 100.0]), setting_index=1).save(
        tmp_path / "site.policy", units={"action": "m", "measurement": "m/s", "cost": "kWh"}
    )
    with hc.Controller(hc.load_policy(tmp_path / "site.policy"), start_index=0) as controller:
        words = controller.explain(controller.ask().id).words
    assert "go from 50 m to 100 m, a move that costs 50 kWh" in words
