"""The backtest of wake steering: who knows what, what is billed, and what the fronts say."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.wakes.backtest import backtest, cheapest
from holdcourse.wakes.farm import Farm
from holdcourse.wakes.handover import steering_policy
from holdcourse.wakes.offsets import build_table, choice, in_zone, jumps, rate_limited
from holdcourse.wakes.planning import PlannedEnergy, degree_prices, follow, steering_problem, wake_planner
from holdcourse.wakes.report.page import page, write_report
from holdcourse.wakes.report.tables import as_data, comparison, words, write_decisions
from holdcourse.wakes.result import RULES, Study
from holdcourse.wakes.table import EnergyTable
from holdcourse.wakes.world import SteeringWorld, around, gp_md_on


def test_our_front_is_above_the_rules_at_their_travel(found):
    """Two months; the whole year is in tests/slow."""
    for name in RULES:
        for point in found.fronts[name]:
            assert found.gain_at(point.travel) > point.gain, (name, point)
    lookup = found.fronts["lookup"][0]
    assert found.travel_for(0.95 * lookup.gain) < lookup.travel / 3


def test_how_much_more_a_front_makes_is_told_by_weeks(found):
    """At the travel of every rule: the difference, and an interval around it that weeks of both together give."""
    rows = comparison(found)
    assert [row["policy"] for row in rows] == [name for name in RULES for _ in found.fronts[name]]
    weeks = found.weeks * 168.0 / found.rounds.hours
    for row, points in zip(rows, [found.fronts[row["policy"]] for row in rows], strict=True):
        (point,) = [point for point in points if point.setting == row["setting"]]
        assert row["more"] == pytest.approx(found.gain_at(point.travel) - point.gain)
        assert row["more_low"] < row["more"] < row["more_high"]
    # Half way between two points of a front one runs each of them for half of the time.
    one, two = found.fronts["wake-planner"][1:3]
    made = found.front_weeks["wake-planner"][1:3]
    middle = (one.travel + two.travel) / 2
    assert found.gain_at(middle) == pytest.approx((one.gain + two.gain) / 2)
    np.testing.assert_allclose(found.weeks_at(middle), (made[0] + made[1]) / 2)
    np.testing.assert_allclose(found.weeks_at(0.0), found.weekly(found.base))
    assert made[0].sum() == pytest.approx(found.base[: int(weeks)].sum(), rel=0.02)


def test_without_a_front_nothing_is_said_of_one(table, winter):
    study = Study(policies=("lookup", "hysteresis", "wake-planner"), hysteresis=(8.0,), front=(), folds=2)
    found = backtest(table, winter, study)
    assert comparison(found) == []
    assert words(found) == []
    assert "ours with as much travel" not in page(found)


def test_a_gain_in_more_wind_than_the_table_knows_is_a_warning(found):
    assert not any("up to which FLORIS was asked" in text for text in found.warnings)
    slower = replace(found, table=replace(found.table, speeds=found.table.speeds - 6.0))
    told = [text for text in slower.warnings if "up to which FLORIS was asked" in text]
    assert len(told) == 1
    assert "more wind than the 8 m/s" in told[0]


def test_one_week_is_one_week(table):
    record = hc.wakes.bundled_record().between("2014-01-01", "2014-01-10")
    found = backtest(table, record, Study(policies=("wake-planner",), front=(), folds=2))
    assert found.conclusion.endswith("; 1 week is too few to conclude anything.")
    assert "The record has 1 whole week. Fewer than 6 say nothing about a year." in found.warnings


def test_a_single_turbine_has_no_wakes_to_steer():
    alone = Farm("Lonely", ("T1",), np.zeros(1), np.zeros(1), np.full(1, 82.0))
    with pytest.raises(InvalidInput, match="Lonely has one turbine, so there is no wake to steer"):
        build_table(SimpleNamespace(farm=alone))


def test_a_true_table_of_other_settings_is_refused(table, winter):
    few = replace(table, offsets=table.offsets[:10], power=table.power[:, :, :10], n=10)
    with pytest.raises(InvalidInput, match="other settings"):
        backtest(table, winter, truth=few)


def test_fronts_rise_with_travel_and_hindsight_is_above_all(found):
    ours, hindsight = found.fronts["wake-planner"], found.fronts["clairvoyant"]
    assert np.diff([point.travel for point in ours]).min() >= 0
    for mine, best in zip(ours, hindsight, strict=True):  # at the same prices
        assert best.gain * 1.0 >= mine.gain
    assert found.line("clairvoyant").net == max(line.net for line in found.lines)


def test_travel_and_wear_are_what_the_offsets_say(found):
    for run in found.runs.values():
        before = np.vstack([np.zeros(4), run.offsets[:-1]])
        np.testing.assert_array_equal(run.travel, np.abs(run.offsets - before))
        assert found.wear(run).sum() == pytest.approx(0.5 * run.travel.sum())
    _, whole, steered = found.sector_hours("wake-planner")
    assert whole.sum() == pytest.approx(8766.0)
    assert steered.sum() == pytest.approx(found.line("wake-planner").steering_hours)
    assert found.turbine_travel("wake-planner").sum() == pytest.approx(found.line("wake-planner").travel)


def test_the_lookup_table_follows_the_interval_before(table, winter, found):
    record = found.rounds.record
    t = 777
    before = record.direction[found.rounds.first[t] - 1], record.speed[found.rounds.first[t] - 1]
    d = round(before[0] / 2) % 180
    s = int(np.abs(table.speeds - before[1]).argmin())
    assert found.runs["lookup"].offsets[t].tolist() == table.offsets[table.lookup[d, s]].tolist()


def test_idealised_gains_more_and_says_so(table, winter):
    study = Study(policies=("lookup", "wake-planner"), knowing=True, front=(), folds=2)
    ideal = backtest(table, winter, study)
    causal = backtest(table, winter, replace(study, knowing=False))
    assert ideal.line("lookup").gain > 2 * causal.line("lookup").gain
    assert ideal.line("wake-planner").gain > causal.line("wake-planner").gain
    assert "Idealised" in ideal.conclusion
    assert "Idealised" not in causal.conclusion
    assert any("Idealised" in text for text in ideal.warnings)


def test_what_the_future_holds_changes_no_decision(table, winter):
    """Causal: with a history, decisions before a day are the same whatever comes after."""
    study = Study(policies=("wake-planner",), front=())
    past = winter.between(end="2014-02-01")
    now = winter.between("2014-02-01")
    other = replace(now, direction=np.where(np.arange(len(now)) < 1000, now.direction, (now.direction + 90) % 360))
    one, two = (backtest(table, record, study, history=past).runs["wake-planner"].offsets for record in (now, other))
    np.testing.assert_array_equal(one[:1000], two[:1000])
    assert (one[1000:] != two[1000:]).any()


def test_the_compiled_replay_decides_as_the_policy(table, drift, winter):
    policy = wake_planner(table, drift, 0.2)
    rounds = winter.rounds()
    contexts = rounds.contexts[:400]
    world = SteeringWorld(policy.problem, rounds.energy(table), 0.0, rounds.energy(table)[:, 0])
    run = hc.simulate(policy, world, contexts, start=0)
    np.testing.assert_array_equal(run.actions, follow(policy.costs, contexts))
    assert len(set(run.actions.tolist())) > 3


def test_a_higher_price_turns_less(table, drift, winter):
    contexts = winter.rounds().contexts
    travel = []
    for price in (0.05, 0.2, 0.8):
        costs = PlannedEnergy(table, drift, steering_problem(table, price))
        offsets = table.settings[follow(costs, contexts)]
        travel.append(np.abs(np.diff(offsets, axis=0)).sum())
    assert travel[0] > travel[1] > travel[2] > 0


@pytest.mark.parametrize("rounds", [800, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_nacelle_turns_no_farther_than_it_can(table, drift, winter, rounds):
    problem = steering_problem(table, 0.05)
    taken = follow(PlannedEnergy(table, drift, problem, 10.0), winter.rounds().contexts[:rounds])
    assert np.abs(np.diff(table.settings[taken], axis=0)).max() <= 10.0
    assert len(set(taken.tolist())) > 2
    policy = wake_planner(table, drift, 0.2, longest=10.0)
    controller = hc.Controller(policy, start_index=0)
    at = np.zeros(4)
    for context in winter.rounds().contexts[:60]:
        decision = controller.ask(context.tolist())
        assert np.abs(np.array(decision.value) - at).max() <= 10.0
        at = np.array(decision.value)
        controller.tell(decision.id, None)


@pytest.mark.parametrize(
    ("price", "kwh_price", "kwh"),
    [
        (0.5, None, [0.5] * 4),
        ("0.5 kWh per degree", None, [0.5] * 4),
        ("500 Wh/°", None, [0.5] * 4),
        ("0.02 EUR per degree", 0.08, [0.25] * 4),
        (["1 kWh per degree", 2, 3, "4"], None, [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_prices_of_a_degree(price, kwh_price, kwh):
    np.testing.assert_allclose(degree_prices(price, 4, kwh_price), kwh)


@pytest.mark.parametrize(
    ("price", "message"),
    [
        ("0.02 EUR per degree", "give the value of a kWh"),
        ("cheap", "'cheap', has no number; write it like '0.5 kWh per degree'"),
        ("0.5 kWh", "does not say what it is paid for"),
        (-1.0, "must be above 0"),
        ([1, 2], "one price of a degree, or 4, one for each turbine; got 2"),
        ("1 kWh per m", "degree|°"),
    ],
)
def test_prices_that_say_too_little(price, message):
    with pytest.raises(InvalidInput, match=message):
        degree_prices(price, 4)


# -- the rules of others -----------------------------------------------------------------------------------------------


def little_table(offsets, step=10.0):
    """A farm of one turbine whose lookup table is given, one offset for each direction, at two speeds."""
    directions = np.arange(0.0, 360.0, step)
    vectors = np.unique(np.append(offsets, 0.0))
    vectors = np.concatenate([[0.0], vectors[vectors != 0]])[:, None]
    lookup = np.array([[int(np.flatnonzero(vectors[:, 0] == offset)[0])] * 2 for offset in offsets])
    farm = hc.wakes.Farm("one", ("T1",), np.zeros(1), np.zeros(1), np.full(1, 100.0))
    power = np.ones((len(directions), 2, len(vectors)))
    return EnergyTable(farm, directions, np.array([6.0, 8.0]), vectors, power, lookup, len(vectors))


def test_a_hysteresis_by_hand():
    """The table jumps from +100 to -100 between 180 and 190: the zone of 8 degrees lies from 181 to 189."""
    offsets = np.where(np.arange(36) < 19, 100.0, -100.0)
    offsets[:5] = offsets[-5:] = 0.0
    table = little_table(offsets)
    assert [each.tolist() for each in jumps(table)] == [[185.0]]  # from and to nothing is no change of sides
    inside = in_zone(table, np.array([180.9, 181.1, 185.0, 188.9, 189.1, 5.0]), 8.0)
    assert inside[:, 0].tolist() == [False, True, True, True, False, False]


def test_a_rate_limit_by_hand():
    """One degree per degree, steps of 10: rising and falling passes meet in the middle of a jump by 40."""
    offsets = np.where((np.arange(36) >= 10) & (np.arange(36) < 20), 40.0, 0.0)
    found = rate_limited(little_table(offsets), 1.0, per_speed=1000.0)[:, 0, 0]
    # rising: 0 before 10, then 10, 20, 30, 40; falling: 30, 20, 10 before 10, then 40: the mean of both.
    assert found[6:15].tolist() == [0.0, 5.0, 10.0, 15.0, 25.0, 30.0, 35.0, 40.0, 40.0]
    assert np.abs(np.diff(found, append=found[0])).max() <= 10.0


def test_a_small_rate_leaves_small_offsets():
    """A table of 5 degrees at a fifth of a degree per degree: whole degrees are left, not whole steps of the table."""
    offsets = np.where((np.arange(36) >= 10) & (np.arange(36) < 12), 5.0, 0.0)
    found = rate_limited(little_table(offsets), 0.2, per_speed=1000.0)[:, 0, 0]
    # rising: 2, 4, 2, 0 from 10 on; falling: 0, 2, 4 up to 11 and then 2, 4 from 9 on: the mean of both, rounded.
    assert found[8:14].tolist() == [0.0, 1.0, 3.0, 3.0, 1.0, 0.0]


def test_settings_are_taken_by_what_they_add():
    power = np.zeros((36, 1, 4))
    power[:12, 0, 1] = 10.0  # a vector for a third of the circle
    power[12:24, 0, 2] = 5.0
    power[:12, 0, 3] = 9.0  # always worse than the first
    found = choice(power, 10.0)
    assert found.vectors.tolist() == [0, 1, 2]
    assert found.share == pytest.approx(1.0)


# -- tables and pages --------------------------------------------------------------------------------------------------


def test_the_bundled_table_says_how_its_settings_were_chosen_in_todays_words(table):
    chosen = (
        "The policies choose from 46 settings, including no steering. These have 99.5 % of the gain that the 89 best"
    )
    assert chosen in table.words
    assert table.n == 46


def test_a_table_in_a_file_is_the_same(table, tmp_path):
    table.save(tmp_path / "farm.table")
    again = EnergyTable.load(tmp_path / "farm.table")
    np.testing.assert_array_equal(again.power, table.power)
    np.testing.assert_array_equal(again.lookup, table.lookup)
    assert again.words == table.words
    (tmp_path / "farm.table").write_bytes((tmp_path / "farm.table").read_bytes()[:5000])
    with pytest.raises(hc.errors.DamagedFile, match="compute it again"):
        EnergyTable.load(tmp_path / "farm.table")


def test_between_the_points_of_the_grid_power_is_interpolated(table):
    at = table.power_at(np.array([11.0, 10.0, 359.0]), np.array([8.0, 8.5, 8.0]))
    s = int(np.flatnonzero(table.speeds == 8.0)[0])
    np.testing.assert_allclose(at[0], (table.planned[5, s] + table.planned[6, s]) / 2)
    np.testing.assert_allclose(at[1], (table.planned[5, s] + table.planned[5, s + 1]) / 2)
    np.testing.assert_allclose(at[2], (table.planned[179, s] + table.planned[0, s]) / 2)
    assert (table.power_at([10.0], [2.0]) == 0).all()
    np.testing.assert_allclose(table.power_at([10.0], [30.0]), table.power_at([10.0], [14.0]))


def test_offsets_that_nobody_computed_need_floris(table, winter):
    with pytest.raises(MissingExtra, match=r"pip install \"holdcourse\[wakes\]\""):
        backtest(table, winter, Study(policies=("hysteresis",), hysteresis=(7.3,)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policies": ("lokup",)}, "did you mean lookup"),
        ({"folds": 1}, "folds must be 2 or more"),
        ({"noise": 2.0}, "from 0 to below 1"),
        ({"hysteresis": (-1.0,)}, "numbers above 0"),
    ],
)
def test_studies_that_cannot_be(given, message):
    with pytest.raises(InvalidInput, match=message):
        Study(**given)


def test_the_report_says_the_answer_and_holds_the_numbers(found, tmp_path):
    paths = write_report(found, tmp_path / "report")
    assert [path.name for path in paths] == [
        "report.html",
        "wakes.json",
        "summary.csv",
        "front.csv",
        "decisions.csv",
        "front.png",
    ]
    text = page(found)
    assert "Would wake steering have paid off?" in text
    assert "NaN" not in text
    assert " nan" not in text
    for line in found.lines:
        assert line.label in text
    data = json.loads((tmp_path / "report" / "wakes.json").read_text())
    assert data["conclusion"] == found.conclusion
    assert len((tmp_path / "report" / "decisions.csv").read_text().splitlines()) == len(found.rounds) + 1
    json.dumps(as_data(found), allow_nan=False)


def test_gp_md_runs_on_the_same_rounds(table, drift, winter):
    rounds = winter.rounds()
    problem = steering_problem(table, 0.5)
    world = SteeringWorld(problem, rounds.energy(table), 0.1, rounds.energy(table)[:, 0])
    run = hc.simulate(gp_md_on(table, drift, problem), world, around(rounds.contexts)[:20], start=0)
    assert len(run.actions) == 20


def test_brute_force_over_every_way_is_not_better_than_hindsight(table, winter):
    """Three settings, six rounds: all ways, by hand."""
    small = replace(table, n=3)
    rounds = winter.between("2014-01-05T00:00", "2014-01-05T01:10").rounds()
    energy = rounds.energy(small)
    problem = steering_problem(small, 0.1)
    costs = energy[:, :1] - energy
    best = min(
        sum(costs[t, y] for t, y in enumerate(way))
        + sum(problem.distance(x, y) for x, y in itertools.pairwise((0, *way)))
        for way in itertools.product(range(3), repeat=len(costs))
    )
    assert hc.optimal_path(costs, problem, 0).total == pytest.approx(best)


# -- what was learned from what ----------------------------------------------------------------------------------------


def test_a_history_that_is_no_past_is_refused_unless_allowed(table, winter):
    study = Study(policies=("wake-planner",), front=())
    past, now = winter.between(end="2014-02-01"), winter.between("2014-01-20", "2014-02-20")
    with pytest.raises(InvalidInput, match="allow_later_history=True"):
        backtest(table, now, study, history=past)
    found = backtest(table, now, study, history=past, allow_later_history=True)
    assert any("Hindsight" in text for text in found.warnings)
    assert as_data(found)["causal"] is False
    assert "later ones too" in backtest(table, now, study).drift_judged


def test_a_saved_policy_holds_what_was_believed_and_says_what_it_learned_from(table, winter, tmp_path):
    study = Study(policies=("wake-planner",), front=())
    past, now = winter.between(end="2014-02-01"), winter.between("2014-02-01", "2014-02-20")
    truth = replace(table, power=0.9 * table.power)
    found = backtest(table, now, study, history=past, truth=truth)
    policy = steering_policy(found)
    np.testing.assert_allclose(policy.costs.table.planned, table.planned, rtol=1e-3)
    assert "2014-01-01 to 2014-01-31" in policy.evidence.learned
    assert f"{policy.costs.drift.steps:,} steps" in policy.evidence.learned
    assert "2014-02-01 to 2014-02-19" in policy.evidence.judged


def test_with_a_history_nothing_is_chosen_on_the_record():
    """How many of the newest readings count is the history's choice."""
    record = hc.wakes.bundled_record().between("2014-01-01", "2014-02-01")
    chosen = replace(record.rounds(1.0), newest=2)
    assert chosen.memory == 2
    np.testing.assert_allclose(chosen.contexts[5, 1], record.speed[chosen.first[5] - 2 : chosen.first[5]].mean())


# -- nacelles that turn slowly -----------------------------------------------------------------------------------------


class Doubled:
    """A model that knows any offset: what it makes is of no interest here."""

    turbulence = 0.06

    def __init__(self, farm):
        self.farm = farm

    def power(self, directions, speeds, offsets):
        return np.full(np.shape(offsets), 100.0)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["2014-01-09", "2014-01-20"])
def test_no_policy_turns_farther_than_a_nacelle_can(table, winter, end):
    """At 0.01 degrees per second it turns by 6 degrees in ten minutes, whoever decides."""
    policies = ("lookup", "wake-planner", "wake-learner", "clairvoyant")
    study = Study(policies=policies, yaw_speed=0.01, front=(), folds=2, price=0.05)
    found = backtest(table, winter.between(end=end), study, model=Doubled(table.farm))
    for name in policies:
        assert 0 < found.runs[name].travel.max() <= 6.0 + 1e-6, name
    assert found.line("clairvoyant").net >= found.line("wake-planner").net


def test_a_record_of_calm_is_refused(table, winter):
    with pytest.raises(InvalidInput, match="no wind in it reaches 3 m/s"):
        backtest(
            table, replace(winter, speed=np.full(len(winter), 1.0)), Study(policies=("lookup",), front=(), folds=2)
        )


def test_a_nacelle_that_reaches_no_setting_is_said(table, winter):
    with pytest.raises(InvalidInput, match="Decide less often"):
        backtest(table, winter, Study(yaw_speed=0.005))


def test_hindsight_with_limited_moves_is_the_best_of_all_ways():
    random = np.random.default_rng(3)
    costs, moves = random.uniform(0, 5, (6, 3)), np.array([[0, 1, np.inf], [1, 0, 1], [np.inf, 1, 0.0]])
    bills = {
        way: sum(costs[t, y] for t, y in enumerate(way)) + sum(moves[x, y] for x, y in itertools.pairwise((0, *way)))
        for way in itertools.product(range(3), repeat=6)
    }
    assert tuple(cheapest(costs, moves).tolist()) == min(bills, key=bills.get)


def test_gp_md_is_told_what_a_farm_could_measure(table, winter, monkeypatch):
    """Where the truth is another model, no steering is known by the table only; each part has a drift of its own."""
    worlds, drifts = [], []

    def world_of(*given):
        worlds.append(SteeringWorld(*given))
        return worlds[-1]

    def policy_of(table, drift, problem):
        drifts.append(drift)
        return hc.minc_known(problem)  # GP-MD itself takes half a minute to begin

    module = importlib.import_module("holdcourse.wakes.backtest")
    monkeypatch.setattr(module, "SteeringWorld", world_of)
    monkeypatch.setattr(module, "gp_md_on", policy_of)
    record = winter.between(end="2014-01-09")
    study = Study(policies=("gp-md",), noise=0.0, folds=2, front=())
    found = backtest(table, record, study, truth=replace(table, power=0.9 * table.power))
    first = worlds[0]
    assert first.measure(70, None, 0, 0.0) == pytest.approx(first.energy[70, 0] / 9, rel=1e-3)
    assert len(drifts) == 2
    assert all(drift is not found.drift for drift in drifts)
    assert len(found.runs["gp-md"].energy) == len(found.rounds)


def test_a_reason_says_over_which_time_a_setting_saves(table, drift, winter):
    controller = hc.Controller(wake_planner(table, drift, 0.2), start_index=0)
    said = []
    for context in winter.rounds().contexts[:150]:
        decision = controller.ask(context.tolist())
        said.append(str(controller.explain(decision.id)))
        controller.tell(decision.id, None)
    assert any("about the next 144 rounds" in text for text in said)  # a day of ten minutes
    assert not any("over this round" in text for text in said)


def test_it_is_said_which_side_is_positive(found, tmp_path):
    assert "counterclockwise" in steering_policy(found).explanation
    write_decisions(found, tmp_path / "decisions.csv")
    assert "counterclockwise" in (tmp_path / "decisions.csv").read_text().splitlines()[0]
