"""What a record proves: verified to the last bit, differences found, and another policy replayed."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.running import audit
from holdcourse.running.events import ModeSet
from holdcourse.running.log import Log, _link  # a forger would use it

PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 7))
LEARNING = {"kernel": hc.Kernel(RBF(0.3), RBF(0.5)), "noise_std": 0.1, "context_bounds": (0, 1)}


def write_record(path, policy, rounds=40, **options):
    with hc.Controller(policy, start_index=3, seed=5, log=path, **options) as controller:
        for t in range(rounds):
            if t == rounds - 5:
                controller.new_episode(start_index=1)
            context = 0.37 * t % 1.0
            decision = controller.ask(context, allowed=np.arange(7) != t % 7)
            applied = 2 if t == 9 else None
            controller.tell(
                decision.id, None if t % 8 == 3 else (decision.action / 6 - context) ** 2, applied_index=applied
            )
    return path


@pytest.fixture
def record(tmp_path):
    return write_record(tmp_path / "plant.log", hc.gp_md(PROBLEM, **LEARNING))


def forge(path, number=0, change=None, versions=()):
    """Change an event or the versions, and mend the whole chain, as a careful forger would."""
    connection = sqlite3.connect(path)
    about = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM about")}
    about["versions"] |= dict(versions)
    connection.execute("UPDATE about SET value = ? WHERE key = 'versions'", (json.dumps(about["versions"]),))
    chain = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    rows = connection.execute("SELECT number, at, kind, body FROM events ORDER BY number").fetchall()
    for n, at, kind, text in rows:
        if n == number:
            body = json.loads(text)
            change(body)
            text = json.dumps(body, sort_keys=True)
        chain = _link(chain, n, at, kind, text)
        connection.execute("UPDATE events SET body = ?, chain = ? WHERE number = ?", (text, chain, n))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "policy",
    [
        hc.gp_md(PROBLEM, **LEARNING),
        hc.gp_md(PROBLEM, **LEARNING, history=hc.History([1, 5], [0.2, 0.4], [0.3, 0.1]), every="episode"),
        hc.cgp_lcb(PROBLEM, **LEARNING, maximise=True),
        hc.stationary(PROBLEM),
    ],
    ids=["gp_md", "history and episodes", "cgp_lcb", "stationary"],
)
def test_a_record_verifies(policy, tmp_path):
    limits, guard = hc.Limits(min_dwell=2, max_step=0.9), hc.Guard(threshold=0.2, revert_to_index=0, cool_down=3)
    path = write_record(tmp_path / "plant.log", policy, limits=limits, guard=guard)
    found = hc.audit.verify(path)
    assert found.verified
    assert (found.decisions, found.tells) == (40, 40)
    assert found.versions == ()


def test_a_changed_measurement_is_found_out_by_the_decisions_after_it(record):
    forge(record, 2, lambda body: body.update(measurement=9.0))
    found = hc.audit.verify(record)
    assert not found.verified
    assert found.differences[0].startswith("round 1: ")


def test_a_changed_decision_is_found_out_and_stands(record):
    forge(record, 21, lambda body: body.update(action=6, wanted=6))
    found = hc.audit.verify(record)
    assert any("round 10: action was 1," in line for line in found.differences)


def test_a_clumsy_change_is_damage(record):
    connection = sqlite3.connect(record)
    connection.execute("UPDATE events SET body = replace(body, '0.37', '0.38') WHERE number = 3")
    connection.commit()
    connection.close()
    with pytest.raises(DamagedFile, match="damaged at event 3"):
        hc.audit.verify(record)


def test_other_versions_are_said(record):
    forge(record, versions={"numpy": "1.0"})
    ((name, then, now),) = hc.audit.verify(record).versions
    assert (name, then) == ("numpy", "1.0")
    assert now == np.__version__


def test_a_policy_that_only_python_knows(tmp_path):
    policy = hc.gp_md(PROBLEM, **LEARNING, prior_mean=lambda actions, context: context[0])
    path = write_record(tmp_path / "plant.log", policy)
    with pytest.raises(InvalidInput, match=r"does not contain its policy .*prior_mean is a function.*\(path, policy\)"):
        hc.audit.verify(path)
    with pytest.raises(InvalidInput, match=r"prior_mean is a function.*; only policies that a record can"):
        hc.replay(path, "cgp-lcb")
    assert hc.audit.verify(path, policy).verified
    with pytest.raises(InvalidInput, match=r"policy was GP-MD.*and is Stationary"):
        hc.audit.verify(path, hc.stationary(PROBLEM))


def test_replay_of_the_same_policy_costs_about_the_same(record):
    found = hc.replay(record, "gp-md")
    assert found.rounds == 35  # up to the new episode
    assert found.optimum.total <= min(found.recorded.total, found.other.total) + 1e-9
    assert found.measured[1] == 35 - 4
    stay = hc.replay(record, "minc-known")
    assert stay.other.service <= found.other.service


@pytest.mark.parametrize("maker", ["cgp-lcb", "minc-known"])
def test_replay_of_gains_goes_where_they_are_large(tmp_path, maker):
    """Gains and their negatives, measured as costs, are the same record."""
    bills = []
    for sign in (1.0, -1.0):
        policy = hc.gp_md(PROBLEM, **LEARNING, maximise=sign < 0)
        with hc.Controller(policy, start_index=3, seed=5, log=tmp_path / f"{sign}") as controller:
            for t in range(30):
                context = 0.37 * t % 1.0
                decision = controller.ask(context)
                controller.tell(decision.id, sign * (decision.action / 6 - context) ** 2)
        bills.append(hc.replay(tmp_path / f"{sign}", maker))
    costs, gains = bills
    np.testing.assert_array_equal(gains.other.actions, costs.other.actions)
    assert gains.other.total == pytest.approx(costs.other.total, rel=1e-9)


def test_replay_of_nothing(tmp_path):
    path = tmp_path / "empty.log"
    hc.Controller(hc.stationary(PROBLEM), log=path).close()
    with pytest.raises(InvalidInput, match="contains no decision yet"):
        hc.replay(path, "stationary")
    with pytest.raises(InvalidInput, match="there is no record at"):
        hc.audit.verify(tmp_path / "none.log")


def test_replay_of_an_unknown_policy(record):
    with pytest.raises(InvalidInput, match="policy 'magic' is not known; choose one of fixed, recommended, planner"):
        hc.replay(record, "magic")


def test_another_spelling_of_a_policy_is_answered_with_the_right_one(record):
    with pytest.raises(InvalidInput, match=r"policy 'cgp_lcb' is not known \(did you mean cgp-lcb\?\)"):
        hc.replay(record, "cgp_lcb")


def test_an_old_decision_is_rebuilt_bit_for_bit(record):
    policy = hc.gp_md(PROBLEM, **LEARNING)
    with hc.Controller(policy, start_index=3, seed=5, log=record) as controller:
        wanted = {name: controller.explain(name) for name in ("r0", "r9", "r36")}
    log = Log.read(record)
    for name, explanation in wanted.items():
        asked = next(e for e in log.events() if e.kind == "ask" and e.body.round == int(name[1:]))
        again = audit.rebuilt(log, policy, asked).explain(PROBLEM)
        assert again.words == explanation.words
        for column in ("bounds", "expected", "probabilities"):
            assert np.array_equal(getattr(again, column), getattr(explanation, column))
    log.close()


def test_notes_do_not_disturb_a_replay(tmp_path):
    policy = hc.gp_md(PROBLEM, **LEARNING)
    for name in ("plain", "noted"):
        with hc.Controller(policy, start_index=3, seed=5, log=tmp_path / name) as controller:
            for t in range(6):
                if name == "noted":
                    controller._operation.note(ModeSet("act", ""))  # as the service does
                controller.tell(controller.ask(0.1 * t).id, 1.0)
    plain, noted = (repr(hc.replay(tmp_path / name, "stationary")) for name in ("plain", "noted"))
    assert noted == plain


def test_a_record_under_a_callable_metric_is_verified(tmp_path):
    problem = hc.Problem(["low", "high"], metric=lambda x, y: float(x != y))
    with hc.Controller(hc.minc_known(problem), log=tmp_path / "record") as controller:
        controller.tell(controller.ask(costs=[1.0, 2.0]).id, 1.0)
    assert audit.verify(tmp_path / "record").verified


def test_replay_bills_what_was_really_taken(tmp_path):
    problem = hc.Problem([0.0, 0.5, 1.0])
    with hc.Controller(hc.minc_known(problem), log=tmp_path / "record") as controller:
        controller.new_episode(start_index=1)  # before the first decision: the record begins there
        for instructed, applied in ((None, None), (None, 2), (1, None), (1, 0)):
            decision = controller.ask(costs=[1.0, 2.0, 3.0], instructed_index=instructed)
            controller.tell(decision.id, 1.0, applied_index=applied)
    found = hc.replay(tmp_path / "record", "stationary")
    assert found.recorded.actions.tolist() == [0, 2, 1, 0]
    assert found.other.actions.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("maker", "missing"), [("hedged", "policies"), ("fixed-at", "setting")])
def test_replay_of_a_policy_that_needs_more_than_the_record_says(record, maker, missing):
    with pytest.raises(InvalidInput, match=f"policy '{maker}' needs .*{missing}.* replay another policy"):
        hc.replay(record, maker)
