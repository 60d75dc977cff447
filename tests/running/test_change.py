"""Other limits, another guard or other prices in the middle of a record: what was learned stays."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from helpers.driving import operation_of
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.running.events import Ask, Change
from holdcourse.running.log import Log

LINE = hc.Problem([100.0, 150.0, 200.0, 300.0], unit="m", scale="10 Wh/m", cost_unit="kWh")
KNOWN = {"kernel": hc.Kernel(RBF(80.0), RBF(0.3)), "noise_std": 0.05, "prior_mean": 1.0}
MAKERS = {"gp-md": hc.gp_md, "planner": hc.planner, "recommended": hc.recommended, "cgp-lcb": hc.cgp_lcb}


def drive(controller, rounds):
    """Decisions of some rounds; the best setting depends on the context."""
    made = []
    for _ in range(rounds):
        context = 0.5 + 0.5 * np.sin(controller.round / 3)
        decision = controller.ask(context=context)
        controller.tell(decision.id, 1.0 + abs(decision.value / 300 - context))
        made.append(decision)
    return made


def believed(controller):
    """What the model expects of every setting."""
    return np.array([controller.model.estimate(context).expected for context in (0.1, 0.5, 0.9)])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("on_disk", [True, False])
def test_what_was_learned_stays(name, on_disk, tmp_path):
    policy, path = MAKERS[name](LINE, **KNOWN), tmp_path / "record" if on_disk else None
    controller = hc.Controller(policy, start=150, seed=3, log=path)
    drive(controller, 12)
    before, here, number = believed(controller), controller.setting, controller.round
    controller.change(limits=hc.Limits(max_step="60 m", min_dwell=2), scale="50 Wh/m", fixed_cost="1 kWh")
    np.testing.assert_array_equal(believed(controller), before)
    assert (controller.setting, controller.round) == (here, number)
    assert controller.policy.problem.distance(0, 2) == pytest.approx(6.0)
    assert controller.limits == hc.Limits(max_step=60.0, min_dwell=2)
    again = drive(controller, 8)
    assert all(abs(decision.value - then.value) <= 60 for then, decision in itertools.pairwise(again))
    if on_disk:
        controller.close()
        found = hc.audit.verify(path)
        assert found.verified, found.differences
        new = MAKERS[name](hc.Problem([100.0, 150.0, 200.0, 300.0], scale=0.05, fixed_cost=1.0), **KNOWN)
        limits = hc.Limits(min_dwell=2, max_step=60)
        with hc.Controller(new, start=150, seed=3, log=path, limits=limits) as opened:
            assert (opened.round, opened.setting) == (20, controller.setting)
            np.testing.assert_array_equal(believed(opened), believed(controller))
            drive(opened, 3)


@pytest.mark.parametrize("before", [None, hc.Limits(min_dwell=2), hc.Limits(max_moves=9, window=2)])
def test_limits_set_later_count_the_moves_of_before(before, tmp_path):
    path = tmp_path / "record"
    with hc.Controller(hc.minc_known(LINE), start=100, log=path, limits=before) as controller:
        for t in range(8):
            costs = [0.0, 5.0, 5.0, 5.0] if t % 4 < 2 else [5.0, 5.0, 0.0, 5.0]
            controller.tell(controller.ask(costs=costs).id, 0.0)  # moves in rounds 2, 4 and 6
        later = hc.Limits(max_moves=3, window=24)
        controller.change(limits=later)
        decided = []
        for _ in range(20):
            decision = controller.ask(costs=[0.0, 5.0, 5.0, 5.0])
            decided.append((decision.value, decision.limited_by))
            controller.tell(decision.id, 0.0)
        assert decided == [(200.0, "max_moves")] * 18 + [(100.0, None)] * 2  # round 2 is 24 rounds before round 26
    with hc.Controller(hc.minc_known(LINE), start=100, log=path, limits=later) as again:
        assert again.setting == 100.0
    assert hc.audit.verify(path).verified


def test_threads_that_change_different_things_lose_nothing():
    controller = hc.Controller(hc.gp_md(LINE, **KNOWN))
    changes = [
        {"limits": hc.Limits(max_step=60.0)},
        {"guard": hc.Guard(threshold=3.0, revert_to=100.0)},
        {"max_pending": 3},
        {"scale": 0.5},
        {"fixed_cost": 2.0},
    ]
    waiting = [threading.Thread(target=lambda change=change: controller.change(**change)) for change in changes]
    with operation_of(controller)._lock:  # all have begun before the first one is done
        for thread in waiting:
            thread.start()
        time.sleep(0.2)
    for thread in waiting:
        thread.join()
    assert controller.limits == hc.Limits(max_step=60.0)
    assert controller.guard == hc.Guard(threshold=3.0, revert_to=100.0)
    assert controller.max_pending == 3
    assert controller.policy.problem.distance(0, 2) == pytest.approx(0.5 * 100 + 2.0)


MANY = hc.knobs(
    groups=[("a", "b")],
    **{name: hc.knob([1, 2, 3], change=1.0) for name in "ab"},
    c=hc.knob(["x", "y"], change=1.0),
)


@pytest.mark.parametrize("price", [{"scale": 5.0}, {"metric": np.zeros((18, 18))}, {"scale": 5.0, "fixed_cost": 1.0}])
def test_prices_that_apply_to_no_knob_are_refused(price):
    controller = hc.Controller(hc.knob_planner(MANY, context_bounds=[(0, 1)]))
    controller.tell(controller.ask(context=0.1).id, 1.0)
    remedy = r"cannot be changed for hc\.knobs.*its own.*Change fixed_cost, or begin another record with knobs"
    with pytest.raises(InvalidInput, match=f"{min(price.keys() - {'fixed_cost'})} {remedy}"):
        controller.change(**price)
    assert controller.policy.problem.distance(0, MANY.n - 1) == 3.0


def test_the_fixed_cost_of_knobs_can_be_changed(tmp_path):
    path = tmp_path / "record"
    with hc.Controller(hc.knob_planner(MANY, context_bounds=[(0, 1)]), log=path) as controller:
        for t in range(4):
            controller.tell(controller.ask(context=0.1 * t).id, 1.0)
        controller.change(fixed_cost=5.0)
        assert controller.policy.problem.distance(0, MANY.n - 1) == 13.0  # which each group pays
        controller.tell(controller.ask(context=0.5).id, 1.0)
    with hc.Controller.resume(path) as again:
        assert again.policy.problem.fixed_cost == 5.0
    assert hc.audit.verify(path).verified


def test_other_knobs_are_other_settings():
    with_one_more = hc.knobs(a=hc.knob([1, 2, 3], change=1.0), b=hc.knob([1, 2], change=1.0))
    apart = hc.knobs(**{name: hc.knob([1, 2, 3], change=1.0) for name in "ab"}, c=hc.knob(["x", "y"], change=1.0))
    dearer = MANY.repriced({"fixed_cost": 2.0})
    assert MANY.has_settings_of(dearer)
    assert not any(MANY.has_settings_of(other) for other in (with_one_more, apart, LINE))
    assert not LINE.has_settings_of(MANY)


def test_a_matrix_takes_the_place_of_a_scale():
    controller = hc.Controller(hc.gp_md(LINE, **KNOWN))
    matrix = 3.0 * (1.0 - np.eye(4))
    controller.change(metric=matrix)
    np.testing.assert_array_equal(controller.policy.problem.distances, matrix)


def test_no_round_is_in_progress_after_a_change_of_price(tmp_path):
    """The decisions of before are not kept; that they were told still is."""
    path = tmp_path / "record"
    with hc.Controller(hc.gp_md(LINE, **KNOWN), start=150, log=path) as controller:
        drive(controller, 2)
        for change in ({}, {"scale": 0.5}, {"limits": hc.Limits(max_step=60)}):
            controller.change(**change)
            with pytest.raises(InvalidInput, match=r"no round is in progress.*ask\(\.\.\., instructed="):
                controller.redirect(200)
        here = controller.setting
        controller.save(tmp_path / "state")
        loaded = hc.Controller.load(tmp_path / "state", controller.policy)
    with hc.Controller.resume(path) as again:
        for each in (loaded, again):
            with pytest.raises(InvalidInput, match="no round is in progress"):
                each.redirect(200)
            assert each.setting == here
            each.ask(context=0.5)
            each.redirect(150)
            assert each.setting == 150
    assert hc.audit.verify(path).verified


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("price", [{}, {"scale": 0.5}])
def test_a_measurement_of_before_the_change_can_be_taken_back(on_disk, price, tmp_path):
    """The state is that of a controller that never learned it, and was changed alike."""
    states = []
    for skipped in (False, True):
        path = tmp_path / f"record{skipped}" if on_disk else None
        controller = hc.Controller(hc.cgp_lcb(LINE, **KNOWN), start=150, seed=3, log=path)
        for t in range(9):
            decision = controller.ask(context=0.1 * t, instructed_index=t % 4)
            controller.tell(decision.id, None if skipped and t == 2 else 1.0 + 0.1 * t)
            if t == 5:
                controller.change(limits=hc.Limits(min_dwell=2), **price)
        if not skipped:
            controller.retract("r2", "the sensor was off")
        states.append(believed(controller))
        assert controller.limits.min_dwell == 2
        if on_disk:
            controller.close()
            assert hc.audit.verify(path).verified
    np.testing.assert_allclose(states[0], states[1], atol=1e-9)


def test_limits_change_while_a_decision_is_pending(tmp_path):
    with hc.Controller(hc.gp_md(LINE, **KNOWN), start=150, log=tmp_path / "record") as controller:
        decision = controller.ask(context=0.3)
        controller.change(limits=hc.Limits(min_dwell=3), guard=hc.Guard(5.0, revert_to=100))
        assert controller.pending[0].id == decision.id
        controller.tell(decision.id, 9.0)
        assert controller.ask(context=0.3).limited_by in ("cool_down", "min_dwell")
        assert controller.guard == hc.Guard(5.0, 100.0)
        with pytest.raises(InvalidInput, match=r"r1 still waits .*; tell or skip it before this change"):
            controller.change(scale=3.0)
        controller.tell("r1", 1.0)
        controller.change(guard=None)
        assert controller.guard is None
    assert hc.audit.verify(tmp_path / "record").verified


def test_a_changed_record_is_gone_on_with_by_itself(tmp_path):
    path = tmp_path / "record"
    hc.gp_md(LINE, **KNOWN).save(tmp_path / "line.policy", limits=hc.Limits(min_dwell=2))
    loaded = hc.load_policy(tmp_path / "line.policy")
    with hc.Controller(loaded, start=150, log=path, guard=hc.Guard(9.0, revert_to=100.0)) as controller:
        drive(controller, 6)
        controller.change(limits=hc.Limits(max_step="60 m"), scale="50 Wh/m")
        drive(controller, 3)
    with pytest.raises(InvalidInput, match=r"scale was \[0\.05\].*hc\.Controller\.resume\(path\)"):
        hc.Controller(loaded, start=150, log=path, guard=hc.Guard(9.0, revert_to=100.0))
    with hc.Controller.resume(path) as resumed:
        assert (resumed.round, resumed.setting, resumed.limits) == (9, controller.setting, hc.Limits(max_step=60.0))
        assert (resumed.guard, resumed.policy.fingerprint) == (controller.guard, controller.policy.fingerprint)
        np.testing.assert_array_equal(believed(resumed), believed(controller))
        drive(resumed, 2)
    assert hc.audit.verify(path).verified


def test_a_change_that_changes_nothing_is_not_recorded(tmp_path):
    with hc.Controller(hc.gp_md(LINE, **KNOWN), start=150, log=tmp_path / "record") as controller:
        controller.change()
        controller.change(limits=hc.Limits(), scale="10 Wh/m")
        assert controller.log.last == 0
        controller.change(limits=hc.Limits(min_dwell=2))
        assert next(type(event.body) for event in controller.log.events()) is Change


def test_wrong_changes_change_nothing(tmp_path):
    with hc.Controller(hc.gp_md(LINE, **KNOWN), start=150, log=tmp_path / "record") as controller:
        drive(controller, 3)
        last = controller.log.last
        for wrong, words in (
            ({"scale": "3 EUR/m"}, "scale is in EUR, which cannot be converted to kWh"),
            ({"scale": -1.0}, "scale must be positive"),
            ({"limits": hc.Limits(max_step="3 s")}, "max_step is in s"),
            ({"guard": hc.Guard(1.0, revert_to=120)}, "revert_to=120 is not a setting; the nearest are 100, 150, 200"),
            ({"max_pending": 0}, "max_pending must be a whole number"),
            ({"limits": 5}, "limits must be made by Limits"),
            ({"guard": "safe"}, "guard must be made by Guard"),
            ({"metric": [[0, 1], [1, 0]]}, "must have 4 rows and as many columns"),
        ):
            with pytest.raises(InvalidInput, match=words):
                controller.change(**wrong)
        assert (controller.log.last, controller.limits) == (last, hc.Limits())
    mine = hc.Policy("mine", hc.rules.Greedy(LINE), hc.costs.KnownCosts(LINE), LINE)
    controller = hc.Controller(mine)
    controller.change(limits=hc.Limits(min_dwell=2))
    with pytest.raises(InvalidInput, match="only your own Python code can make it again"):
        controller.change(scale=2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": hc.gp_md(LINE, kappa=2.0, **KNOWN)}, "kappa was 1.0 and is 2.0 now"),
        ({"policy": hc.cgp_lcb(LINE, **KNOWN)}, "policy was 'gp-md' and is 'cgp-lcb' now"),
        (
            {"policy": hc.gp_md(hc.Problem([100.0, 150.0, 200.0, 300.0], scale=0.02), **KNOWN)},
            r"scale was \[0.01\] and is \[0.02\] now",
        ),
        ({"policy": hc.gp_md(LINE, **(KNOWN | {"noise_std": 0.1}))}, "noise_std was 0.05 and is 0.1 now"),
        ({"start": 200}, "start was 150 and is 200 now"),
        ({"seed": 4}, "seed was 3 and is 4 now"),
        ({"limits": hc.Limits(max_step="50 m")}, "max_step was not given and is 50.0 now"),
        ({"limits": hc.Limits(min_dwell=4)}, "min_dwell was 1 and is 4 now"),
        ({"guard": hc.Guard(5.0, 100)}, r"guard was none and is \(threshold 5, revert_to 100, cool_down 10\) now"),
    ],
)
def test_what_differs_is_said(options, words, tmp_path):
    given = {"policy": hc.gp_md(LINE, **KNOWN), "start": 150, "seed": 3, "log": tmp_path / "record"}
    with hc.Controller(**given) as controller:
        drive(controller, 2)
        controller.save(tmp_path / "state")
    with pytest.raises(InvalidInput, match=words) as caught:
        hc.Controller(**(given | options))
    assert "controller.change(...)" in str(caught.value)
    if "policy" in options:
        with pytest.raises(InvalidInput, match=words):
            hc.Controller.load(tmp_path / "state", options["policy"])
        with pytest.raises(InvalidInput, match=words):
            hc.audit.verify(tmp_path / "record", options["policy"])


@pytest.mark.parametrize(
    "changes", [{"limits": hc.Limits(min_dwell=5)}, {"scale": "90 Wh/m"}, {"guard": hc.Guard(1.05, 100, cool_down=2)}]
)
def test_an_old_decision_is_rebuilt_as_it_was_after_a_change(changes, tmp_path):
    policy = hc.cgp_lcb(LINE, **KNOWN)
    with hc.Controller(policy, start=150, seed=3, log=tmp_path / "record") as controller:
        drive(controller, 6)
        controller.change(**changes)
        made = drive(controller, 12)
    log = Log.read(tmp_path / "record")
    try:
        for decision in made:
            (asked,) = (each for each in log.events() if isinstance(each.body, Ask) and each.body.id == decision.id)
            entry = hc.audit.rebuilt(log, policy, asked)
            again = entry.decision
            assert (again.action, again.wanted, again.limited_by) == (
                decision.action,
                decision.wanted,
                decision.limited_by,
            )
            assert (again.movement, again.expected_cost) == (decision.movement, decision.expected_cost)
            assert again.probabilities.tolist() == decision.probabilities.tolist()
    finally:
        log.close()
