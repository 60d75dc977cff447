"""From a controller's record to the table of a trial, against the same sums done by hand."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import durability

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.running.events import Ask
from holdcourse.running.log import Log
from holdcourse.trials.answer import answer
from holdcourse.trials.record import read_trial
from holdcourse.trials.report import page, summary, to_data, write_report

LINE = hc.Problem(np.linspace(0.0, 1.0, 5), scale=0.1, cost_unit="kWh")


def played(path, rounds=24, *, seed=2, baseline=0.5, block=2, heard=1.0, limits=None, act=None):
    """A trial on record; by hand, of each round: arm, cost, reference, the arm's way, if it was obeyed, what ran."""
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), baseline, block=block, heard=heard)
    random, hand = np.random.default_rng(seed), []
    with hc.Controller(policy, start=0.0, seed=seed, log=path, limits=limits) as controller:
        places = {"baseline": 0, "policy": 0}
        for t in range(rounds):
            context = float(random.random())
            decision = controller.ask(context=[context])
            # By hand: both arms' rules as the session has them after this round.
            own = [int(place) for place in controller._operation.session.pilot.state.arrays["places"]]
            arms = dict(zip(("baseline", "policy"), own, strict=True))
            whose = decision.turn.whose
            told = {} if act is None else act(t, whose)
            taken = decision.action
            if "applied" in told:
                taken = int(np.argmin(np.abs(LINE.actions[:, 0] - told["applied"])))
            reached = decision.wanted if taken == decision.action else taken
            way = LINE.distance(places[whose], reached)
            places = arms | {whose: reached}
            y = float((LINE.actions[taken, 0] - context) ** 2)
            controller.tell(decision.id, y, reference=context, **told)
            hand.append((decision.turn.arm, y, context, way, taken != decision.wanted, taken))
    return hand


def test_a_trial_that_ended_before_its_first_answer_says_so(tmp_path):
    played(tmp_path / "a.log", rounds=12)
    found = read_trial(tmp_path / "a.log")
    ended = "It ended before that. Begin another one, of 22 blocks or more."
    assert ended not in summary(found, answer(found.blocks))
    assert ended in summary(replace(found, over=True), answer(found.blocks))


@pytest.mark.parametrize("limits", [None, hc.Limits(max_step=0.25), hc.Limits(min_dwell=3)])
def test_the_table_is_what_the_rounds_add_up_to(tmp_path, limits):
    def act(t, whose):
        return {"applied": 1.0} if t in (5, 12) else {}

    hand = np.array(played(tmp_path / "a.log", limits=limits, act=act), dtype=float)
    found = read_trial(tmp_path / "a.log")
    table = found.blocks
    arm, cost, reference, way, moved, taken = hand.T
    np.testing.assert_array_equal(table.arm, arm)
    np.testing.assert_array_equal(table.block, np.arange(24) // 2)
    np.testing.assert_array_equal(table.cost, cost)
    np.testing.assert_array_equal(table.reference[:, 0], reference)
    np.testing.assert_allclose(table.movement, way, atol=1e-15)
    np.testing.assert_array_equal(table.overridden, moved.astype(bool))
    paid = np.array([LINE.distance(int(a), int(b)) for a, b in zip([0, *taken[:-1]], taken, strict=True)])
    np.testing.assert_allclose(table.movement + table.switching, paid, atol=1e-15)
    assert (found.policy, found.against, found.unit) == ("GP-MD", "fixed at 0.5", "kWh")
    assert len(found.rows()) == len(found.began) == 24


def test_what_was_taken_back_is_lost_and_gains_are_gains(tmp_path):
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1, maximise=True), block=1)
    with hc.Controller(policy, start=0.5, log=tmp_path / "a.log") as controller:
        for y in (1.0, 2.0, 3.0, 4.0):
            controller.tell(controller.ask(context=[0.1]).id, y)
        controller.retract("r1", "the sensor was unplugged")
    table = read_trial(tmp_path / "a.log").blocks
    assert table.maximise
    np.testing.assert_array_equal(table.cost, [1.0, np.nan, 3.0, 4.0])
    assert table.lost.sum() == 1


def test_a_round_that_still_runs_is_not_lost(tmp_path):
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), block=2)
    with hc.Controller(policy, start=0.5, log=tmp_path / "a.log") as controller:
        for y in (1.0, None, 3.0):
            controller.tell(controller.ask(context=[0.1]).id, y)
        last = controller.ask(context=[0.1])
        table = read_trial(tmp_path / "a.log").blocks
        assert (len(table.block), table.lost.sum(), table.pairs) == (3, 1, 0)
        controller.tell(last.id, 4.0)
    assert read_trial(tmp_path / "a.log").blocks.pairs == 1


def test_a_wind_record_is_in_energy(tmp_path):
    wind_policy = hc.load_policy(Path(__file__).parents[1] / "data" / "site.policy")
    with hc.Controller(hc.trial(wind_policy, block=2), start_index=0, log=tmp_path / "a.log") as controller:
        for t in range(8):
            controller.tell(controller.ask(context=440500.0 + t).id, 9.0)
    table = read_trial(tmp_path / "a.log").blocks
    price = hc.costs.price_of(wind_policy.costs)
    np.testing.assert_allclose(table.cost, price(9.0))
    assert not table.maximise


@pytest.mark.parametrize("seed", range(4))
def test_other_prices_within_the_first_block_begin_another_pair(tmp_path, seed):
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), 0.5, block=3)
    with hc.Controller(policy, start=0.0, seed=seed, log=tmp_path / "a.log") as controller:
        for t in range(11):
            if t in (2, 3):  # the second one before the new block is over, too
                controller.change(scale=0.1 * t)
            controller.tell(controller.ask(context=[0.5]).id, 1.0)
    found = read_trial(tmp_path / "a.log").blocks
    assert found.block.tolist() == [0, 0, 2, 4, 4, 4, 5, 5, 5, 6, 6]
    assert found.arm[3] + found.arm[6] == 1


def test_a_trial_goes_on_after_other_prices(tmp_path):
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), block=2)
    with hc.Controller(policy, start=0.5, log=tmp_path / "a.log") as controller:
        for t in range(6):
            controller.tell(controller.ask(context=[0.1 * t]).id, 1.0)
        controller.change(scale=0.4)
        for t in range(8):
            controller.tell(controller.ask(context=[0.1 * t]).id, 1.0)
    table = read_trial(tmp_path / "a.log").blocks
    assert table.block.tolist() == [0, 0, 1, 1, 2, 2, *[4, 4, 5, 5, 6, 6, 7, 7]]
    assert table.pairs == 3


def test_a_record_without_a_trial_is_said_to_have_none(tmp_path):
    with hc.Controller(hc.gp_md(LINE), log=tmp_path / "a.log") as controller:
        controller.ask(context=[0.1])
    with pytest.raises(InvalidInput, match=r"a\.log contains no trial; begin one on the service's page, or with "):
        read_trial(tmp_path / "a.log")


def test_the_report_says_what_the_answer_says(tmp_path):
    played(tmp_path / "a.log", rounds=80)
    found = read_trial(tmp_path / "a.log")
    measured = answer(found.blocks)
    paths = write_report(found, measured, tmp_path / "out")
    assert [path.name for path in paths] == ["report.html", "trial.json", "pairs.csv", "rounds.csv"]
    text = page(found, measured)
    assert summary(found, measured)[1].split(":")[0] in text
    assert json.loads(paths[1].read_text())["verdict"] == measured.verdict
    assert len(paths[2].read_text().splitlines()) == 1 + found.blocks.pairs == 21
    assert len(paths[3].read_text().splitlines()) == 81
    assert len(to_data(found, measured)["net"]) == 20
    assert not any("learns" in sentence for sentence in summary(found, measured))


def test_a_picture_of_large_costs_has_no_exponents(tmp_path):
    with hc.Controller(hc.trial(hc.gp_md(LINE, noise_std=0.1), 0.5, block=2), log=tmp_path / "a.log") as controller:
        for t in range(60):
            controller.tell(controller.ask(context=[0.1]).id, 1800.0 + 100 * (t % 3))
    found = read_trial(tmp_path / "a.log")
    text = page(found, answer(found.blocks))
    assert re.search(r">[12],\d{3}</text>", text)
    assert "e+0" not in text


def test_the_report_says_what_is_odd(tmp_path):
    """A reference that hardly comes, one that never changes, a reading that cannot be right."""
    with hc.Controller(hc.trial(hc.gp_md(LINE, noise_std=0.1), 0.5, block=2), log=tmp_path / "a.log") as controller:
        for t in range(60):
            y = 1e6 if t == 21 else 10.0 + t % 3
            controller.tell(controller.ask(context=[0.1]).id, y, reference=float(t % 3) if t % 2 else None)
    found = read_trial(tmp_path / "a.log")
    said = summary(found, answer(found.blocks))
    assert "The reference is missing in 30 of 60 rounds; it helps only if both blocks have it." in said
    began = found.began[20].replace("T", " ")[:16]
    assert any(words.startswith(f"One pair of blocks, which began at {began} UTC, causes more") for words in said)
    constant = replace(found, blocks=replace(found.blocks, reference=np.full(60, 7.0)))
    assert "The reference was 7 in every round, so it does not help." in summary(constant, answer(constant.blocks))


@pytest.mark.parametrize("says", [False, True])
def test_operators_who_never_say_where_the_machine_was_are_told_so(tmp_path, says):
    with hc.Controller(
        hc.trial(hc.gp_md(LINE, noise_std=0.1), "operators", block=1), log=tmp_path / "a.log"
    ) as controller:
        for t in range(4):
            decision = controller.ask(context=[0.1])
            people = decision.turn.whose == "baseline"
            controller.tell(decision.id, 1.0, **({"applied": 0.25} if says and people and t > 1 else {}))
    found = read_trial(tmp_path / "a.log")
    assert found.untold is not says
    said = summary(found, answer(found.blocks))
    assert any(words.startswith("Nobody has reported which settings the operators ran") for words in said) is not says


def test_pictures_are_in_units_where_the_bill_may_be_zero(tmp_path):
    rng = np.random.default_rng(0)
    with hc.Controller(hc.trial(hc.gp_md(LINE, noise_std=0.1), 0.5, block=2), log=tmp_path / "a.log") as controller:
        for t in range(160):  # a bill that is clearly above zero at first, and may be zero in the end
            y = (5.0 if t < 60 else -3.0) + rng.normal()
            controller.tell(controller.ask(context=[0.1]).id, y)
    found = read_trial(tmp_path / "a.log")
    measured = answer(found.blocks)
    assert np.isfinite(measured.looks_in_percent.always_low[12])
    assert np.isnan(measured.percent.always_low)
    assert "against the baseline in kWh a round, after every pair" in page(found, measured)


def test_what_an_arm_heard_stands_in_the_record(tmp_path):
    """Also where a reading that was not heard is taken back."""
    played(tmp_path / "a.log", rounds=40, heard=0.3)
    found = read_trial(tmp_path / "a.log")
    assert found.heard == 0.3
    said = summary(found, answer(found.blocks))
    assert "Each learns from all of its own rounds, and from 30 % of the other's, drawn at random." in said
    log = Log.read(tmp_path / "a.log")
    turns = [event.body.turn for event in log.events() if isinstance(event.body, Ask)]
    log.close()
    unheard = next(t for t, turn in enumerate(turns) if turn.arm == 0 and not turn.heard)
    assert hc.audit.verify(tmp_path / "a.log").verified
    with hc.Controller.resume(tmp_path / "a.log") as controller:
        learned = controller.model.posterior.observations
        assert learned == sum(turn.heard or turn.arm == 1 for turn in turns)
        controller.retract(f"r{unheard}", "the sensor was wet")
        assert controller.model.posterior.observations == learned
    assert hc.audit.verify(tmp_path / "a.log").verified


@pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX")
def test_killed_at_random_moments_the_answer_is_the_same(tmp_path, record_property):
    outcome = durability.check_kills(kills=8, seed=1, path=tmp_path / "record", policy="trial")
    record_property("a trial killed 8 times", outcome)
    disturbed, calm = (read_trial(tmp_path / name).blocks for name in ("record", "undisturbed"))
    told = len(disturbed.cost)
    for name in ("block", "arm", "switching"):
        np.testing.assert_array_equal(getattr(disturbed, name), getattr(calm, name)[:told])
    for name in ("cost", "movement", "overridden"):  # of the last round nothing may be told yet
        np.testing.assert_array_equal(getattr(disturbed, name)[:-1], getattr(calm, name)[: told - 1])
