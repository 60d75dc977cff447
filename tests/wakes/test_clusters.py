"""Farms in clusters: exact where no wake passes between them, near the joint optimum where some do."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.toy_wakes import OFFSETS, ToyModel, farm_at
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.cli.root import app
from holdcourse.errors import DamagedFile, InvalidInput, MissingExtra
from holdcourse.wakes import planning
from holdcourse.wakes.backtest import joint_energies, joint_energy
from holdcourse.wakes.clusters import build_clusters, clusters_of, interplay, load_table
from holdcourse.wakes.farm import Farm
from holdcourse.wakes.groups import GroupedModel, distinct_rows, groups_of, in_wake, parts_of, serial_refine
from holdcourse.wakes.report.page import page
from holdcourse.wakes.result import Study
from holdcourse.wakes.table import EnergyTable

GRID = {"most": 20.0, "step": 20.0, "direction_step": 5.0, "speeds": (6.0, 8.0, 10.0)}
PAIRS = farm_at([0.0, 350.0, 9000.0, 9200.0], [0.0, 350.0, 0.0, 450.0], "two pairs")
ROW = farm_at([0.0, 350.0, 700.0, 1050.0], [0.0, 350.0, 700.0, 1050.0], "a row")
PRICE = 0.05  # kWh per degree
SQUARE = farm_at([0.0, 500.0, 1000.0, 20.0, 520.0, 1020.0], [0.0, 30.0, 60.0, 500.0, 530.0, 560.0], "two by three")


def joint_table(model, vectors):
    """Every joint vector in every wind of the grid: what no large farm could have."""
    directions = np.arange(0.0, 360.0, GRID["direction_step"])
    speeds = np.array(GRID["speeds"])
    d, u = (each.ravel() for each in np.meshgrid(directions, speeds, indexing="ij"))
    made = np.stack([model.power(d, u, np.tile(vector, (len(d), 1))).sum(axis=1) for vector in vectors], axis=1)
    power = made.reshape(len(directions), len(speeds), -1)
    return EnergyTable(model.farm, directions, speeds, vectors, power, power.argmax(axis=2), len(vectors))


def zero_first(vectors):
    return np.concatenate([vectors[~vectors.any(axis=1)], vectors[vectors.any(axis=1)]])


def clustered(farm, largest, **options):
    model = ToyModel(farm)
    return model, build_clusters(model, **{**GRID, **options}, largest=largest)


# -- who is decided together -------------------------------------------------------------------------------------------


def test_clusters_are_the_whole_farm_in_parts_and_neighbours_come_first():
    x, y = np.meshgrid(np.arange(5) * 600.0, np.arange(5) * 600.0)
    farm = farm_at(x.ravel(), y.ravel())
    found = clusters_of(farm)
    assert sorted(np.concatenate(found).tolist()) == list(range(25))
    assert max(map(len, found)) == 4
    for cluster in found:  # nobody is together with somebody from the other end
        apart = np.hypot(farm.x[cluster][:, None] - farm.x[cluster], farm.y[cluster][:, None] - farm.y[cluster])
        nearest = np.where(apart > 0, apart, np.inf).min(axis=1)
        assert len(cluster) == 1 or nearest.max() <= 1200.0 * np.sqrt(2)
    with pytest.raises(InvalidInput, match="must be 1 or more"):
        clusters_of(farm, 0)


def test_turbines_that_never_meet_are_never_together():
    assert [each.tolist() for each in clusters_of(PAIRS)] == [[0, 1], [2, 3]]
    between = interplay(PAIRS)
    # Within 1.5 diameters of the axis at 4.95 diameters: an angle to either side, from two directions.
    assert between[0, 1] == pytest.approx(4 * np.degrees(np.arcsin(1.5 / 4.95)) / 360, abs=0.01)
    assert between[0, 2] == 0


# -- against the joint optimum -----------------------------------------------------------------------------------------


def test_where_no_wake_passes_between_clusters_they_decide_as_one(monkeypatch, winter):
    """Two pairs: the plan on all joint settings takes the same offsets in every round."""
    monkeypatch.setattr(planning, "EXACT", 1e-9)
    model = ToyModel(PAIRS, reach=20.0)  # diameters: so that nothing at all passes
    table = build_clusters(model, **GRID)
    rounds = winter.rounds()
    drift = hc.wakes.learn_drift(rounds, table.whole.directions, table.whole.speeds)
    contexts = rounds.contexts[:3000]
    apart = np.zeros((len(contexts), 4))
    for members, part in zip(table.members, table.tables, strict=True):
        costs = planning.PlannedEnergy(part, drift, planning.steering_problem(part, PRICE))
        apart[:, members] = part.settings[planning.follow(costs, contexts)]
    product = np.array([np.concatenate(each) for each in itertools.product(*(t.settings for t in table.tables))])
    joint = joint_table(model, zero_first(product))
    costs = planning.PlannedEnergy(joint, drift, planning.steering_problem(joint, PRICE))
    np.testing.assert_array_equal(apart, joint.settings[planning.follow(costs, contexts)])
    assert len(np.unique(apart, axis=0)) > 4


@pytest.mark.parametrize(("farm", "largest", "share"), [(ROW, 2, 0.9), (ROW, 1, 0.9)], ids=["pairs", "single"])
def test_where_wakes_pass_little_is_lost_against_the_joint_optimum(farm, largest, share, winter):
    model, table = clustered(farm, largest)
    study = Study(policies=("wake-planner",), front=(), price=PRICE, folds=2)
    found = hc.wakes.backtest(table, winter, study, model=model)
    joint = joint_table(model, zero_first(np.array(list(itertools.product(OFFSETS, repeat=len(farm))))))
    best = hc.wakes.backtest(joint, winter, study)
    np.testing.assert_allclose(found.base, best.base)
    assert best.line("wake-planner").net > 0
    assert found.line("wake-planner").net >= share * best.line("wake-planner").net


def test_what_joint_offsets_make_is_what_a_table_of_them_says(winter):
    model, table = clustered(ROW, 2)
    rounds = winter.between(end="2014-01-08").rounds()
    random = np.random.default_rng(0)
    offsets = random.choice(OFFSETS, (len(rounds), 4))
    offsets[::3] = 0.0
    known, vectors = table.whole.knowing(
        rounds.record.direction[rounds.first], rounds.record.speed[rounds.first], offsets, model
    )
    np.testing.assert_allclose(joint_energy(rounds, table.whole, offsets, model), rounds.energy_of(known, vectors))


def test_a_clusters_energy_is_its_own_and_what_it_gives_to_others():
    model, table = clustered(ROW, 2)
    d, s = 45, 1  # 225 degrees and 8 m/s: along the row
    members, part = table.members[0], table.tables[0]
    offsets = np.zeros((part.n, 4))
    offsets[:, members] = part.settings
    made = model.power(225.0, 8.0, offsets)
    np.testing.assert_allclose(part.power[d, s] - part.power[d, s, 0], made.sum(axis=1) - made[0].sum())
    assert part.power[d, s, 0] == pytest.approx(made[0, members].sum())


# -- groups ------------------------------------------------------------------------------------------------------------


def test_groups_that_are_alike_are_computed_once_and_right():
    x, y = np.meshgrid(np.arange(4) * 500.0, np.arange(3) * 4000.0)
    model = ToyModel(farm_at(x.ravel(), y.ravel()), reach=20.0)
    groups = GroupedModel(model)
    random = np.random.default_rng(1)
    directions = np.concatenate([random.uniform(262, 278, 15), random.uniform(82, 98, 15)])  # along the rows
    offsets = np.tile(random.choice(OFFSETS, (30, 4)), 3)
    found = groups.power(directions, 8.0, offsets)
    np.testing.assert_allclose(found, model.power(directions, 8.0, offsets), rtol=1e-3)  # edges of wakes left out
    along = groups.power(np.full(30, 270.0), 8.0, offsets)
    row = groups._models[groups._shape(groups.groups(135)[0])]
    assert len(groups.groups(135)) == 3
    assert row.asked <= 3 * 30  # three rows with the same offsets are one case each
    near = groups.power(np.full(30, 270.0), 8.0, offsets, around=[5])
    np.testing.assert_array_equal(near[:, 4:8], along[:, 4:8])
    assert not near[:, :4].any()
    assert not near[:, 8:].any()


def grid_of_five(apart):
    x, y = np.meshgrid(np.arange(5) * apart, np.arange(5) * apart)
    return farm_at(x.ravel(), y.ravel())


def test_a_large_group_is_computed_in_parts_with_all_that_stand_upwind():
    farm = grid_of_five(500.0)
    in_parts = 0
    for direction in range(0, 90, 2):
        parts = parts_of(farm, direction)
        owned = np.concatenate([part.turbines[part.own] for part in parts])
        assert sorted(owned.tolist()) == list(range(25))  # everybody once
        in_parts += max(len(part.turbines) for part in parts) < max(map(len, groups_of(farm, direction)))
        behind = np.any([in_wake(farm, at, 20.0) for at in np.linspace(direction - 1, direction + 1, 5)], axis=0)
        for part in parts:  # nobody upwind of a member is left out
            inside = np.isin(np.arange(25), part.turbines)
            assert not behind[np.ix_(~inside, inside)].any()
    assert in_parts > 20
    row = farm_at(np.arange(12) * 500.0, np.zeros(12))  # everybody stands in the wake of the first
    assert [part.turbines.tolist() for part in parts_of(row, 270.0)] == [list(range(12))]


def test_parts_make_what_their_group_makes():
    model = ToyModel(grid_of_five(500.0), reach=20.0)
    groups = GroupedModel(model)
    random = np.random.default_rng(2)
    one = [sector for sector in range(45) if len(groups.groups(sector)) == 1 < len(groups.parts(sector))]
    directions = np.repeat(2.0 * np.array(one[:3]), 10)  # where all 25 are one group
    offsets = random.choice(OFFSETS, (30, 25))
    found, whole = groups.power(directions, 8.0, offsets), model.power(directions, 8.0, offsets)
    np.testing.assert_allclose(found.sum(axis=1), whole.sum(axis=1), rtol=0.015)  # the edges of wakes are left out
    for part in groups.parts(one[0]):  # and just what each part makes as a farm of its own
        alone = model.part(part.turbines).power(directions[:10], 8.0, offsets[:10, part.turbines])
        np.testing.assert_allclose(found[:10, part.turbines[part.own]], alone[:, part.own], rtol=1e-9)
    near = groups.power(directions, 8.0, offsets, around=[12])
    computed = near != 0
    np.testing.assert_array_equal(near[computed], found[computed])
    turned = offsets.copy()
    turned[:, 12] += 5.0
    other = groups.power(directions, 8.0, turned)
    np.testing.assert_array_equal(other[~computed], found[~computed])  # nobody else notices
    assert computed.any(axis=0).sum() > 1


def test_the_search_in_parts_finds_what_the_search_on_the_whole_group_finds():
    model = ToyModel(grid_of_five(500.0), reach=20.0)
    groups = GroupedModel(model)
    directions, speeds = np.array([18.0, 72.0]), np.array([7.0, 9.0])
    told = []
    found = groups.best_offsets(directions, speeds, 20.0, told.append)

    def whole(rows, yaw, turbine):
        return model.power(directions[rows], speeds[rows], yaw).sum(axis=1)

    blows = np.radians(270.0 - directions)
    orders = [np.argsort(model.farm.x * np.cos(b) + model.farm.y * np.sin(b), kind="stable") for b in blows]
    twin = serial_refine(whole, orders, 25, 20.0)
    alone, made, best = (model.power(directions, speeds, each).sum(axis=1) for each in (np.zeros((2, 25)), found, twin))
    assert (made - alone >= 0.98 * (best - alone)).all()
    assert (best > alone).all()
    assert told == sorted(told)
    assert told[0] >= 0
    assert told[-1] <= 1


def test_distinct_rows_are_those_of_numpy():
    random = np.random.default_rng(4)
    rows = random.choice([-5.0, 0.0, -0.0, 5.0, 1e-300], (500, 3))
    found, which = distinct_rows(rows)
    np.testing.assert_array_equal(found[which], rows)
    assert len(found) == len(np.unique(rows, axis=0))
    assert len(distinct_rows(np.zeros((0, 3)))[0]) == 0


def test_several_runs_at_once_make_what_each_makes_alone(winter):
    model, table = clustered(ROW, 2)
    rounds = winter.between(end="2014-01-04").rounds()
    random = np.random.default_rng(5)
    runs = [random.choice(OFFSETS, (len(rounds), 4)) for _ in range(2)] + [np.zeros((len(rounds), 4))]
    told = []
    together = joint_energies(rounds, table.whole, runs, model, told.append)
    for offsets, made in zip(runs, together, strict=True):
        np.testing.assert_array_equal(made, joint_energy(rounds, table.whole, offsets, model))
    assert told


# -- the road ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def road(winter):
    model, table = clustered(SQUARE, 3)
    record = winter.between(end="2014-01-20")
    study = Study(
        policies=("lookup", "hysteresis", "rate-limit", "wake-planner", "clairvoyant"), front=(0.1,), price=PRICE
    )
    return table, model, hc.wakes.backtest(table, record, study, model=model, history=None)


def test_every_rule_runs_on_a_farm_in_clusters(road):
    table, _, found = road
    assert {line.policy for line in found.lines} == {"no-steering", *found.study.policies}
    assert len(table.members) == 2
    for run in found.runs.values():
        assert run.offsets.shape == (len(found.rounds), 6)
    assert found.fronts["wake-planner"][0].travel > 0


def test_what_was_backtested_is_what_the_clusters_run(road, winter, tmp_path):
    table, model, _ = road
    past, now = winter.between(end="2014-01-12"), winter.between("2014-01-12", "2014-01-14")
    found = hc.wakes.backtest(
        table, now, Study(policies=("wake-planner",), front=(), price=PRICE), model=model, history=past
    )
    policies = hc.wakes.steering_policies(found)
    for k, policy in enumerate(policies):
        policy.save(tmp_path / f"{k}.policy")
    loaded = [hc.load_policy(tmp_path / f"{k}.policy") for k in range(len(policies))]
    assert loaded[1].evidence.source.startswith("two by three, cluster 2 of 2")
    taken = []
    for part in (slice(0, 100), slice(100, None)):  # and goes on after a restart
        with hc.wakes.FarmController(loaded, tmp_path / "records") as farm:
            for context in found.rounds.contexts[part].tolist():
                decision = farm.ask(context)
                taken.append([decision.offsets[name] for name in table.farm.turbines])
                farm.tell(decision)
    offsets = found.runs["wake-planner"].offsets
    np.testing.assert_array_equal(taken, offsets)
    assert offsets.any()
    for k in (1, 2):
        assert not hc.audit.verify(tmp_path / "records" / f"cluster-{k}.log").differences


def test_a_farm_that_was_stopped_between_two_clusters_goes_on(road, tmp_path):
    _, _, found = road
    policies = hc.wakes.steering_policies(found)
    with hc.wakes.FarmController(policies, tmp_path) as farm:
        farm.tell(farm.ask([270.0, 8.0, 10]))
        farm.controllers[0].ask([272.0, 8.0, 10])  # and then the power goes
    with hc.wakes.FarmController(policies, tmp_path) as farm:
        farm.tell(farm.ask([250.0, 9.0, 10]))
        assert [controller.pending for controller in farm.controllers] == [[], []]


def test_a_cluster_of_one_turbine_answers_with_its_offset(table, drift):
    farm = table.farm
    alone = replace(
        table,
        farm=Farm("alone", farm.turbines[:1], farm.x[:1], farm.y[:1], farm.diameter[:1]),
        offsets=np.array([[0.0], [10.0], [20.0]]),
        power=table.power[:, :, :3],
        n=3,
    )
    with hc.wakes.FarmController([hc.wakes.wake_planner(alone, drift)]) as controller:
        assert list(controller.ask([158.0, 8.2, 35]).offsets) == list(farm.turbines[:1])


def test_policies_that_are_no_farm_are_refused(road):
    _, _, found = road
    policies = hc.wakes.steering_policies(found)
    with pytest.raises(InvalidInput, match="T1 is steered by two policies"):
        hc.wakes.FarmController([policies[0], policies[0]])
    with pytest.raises(InvalidInput, match="at least one cluster"):
        hc.wakes.FarmController([])
    with pytest.raises(InvalidInput, match="does not steer wakes"):
        hc.wakes.FarmController([hc.fixed_at(hc.Problem([0.0, 1.0]), 0.0)])
    with pytest.raises(InvalidInput, match="give cluster=0 to 1, got None, or use steering_policies"):
        hc.wakes.steering_policy(found)


def test_tables_of_clusters_in_a_file_are_the_same(road, tmp_path):
    table, _, _ = road
    takes = replace(table.tables[0], power=table.tables[0].power - 5000.0)  # more taken from others than made
    assert takes.power.min() < 0
    table = replace(table, tables=(takes, *table.tables[1:]))
    table.save(tmp_path / "farm.table")
    again = load_table(tmp_path / "farm.table")
    assert [each.tolist() for each in again.members] == [each.tolist() for each in table.members]
    for one, two in zip((again.whole, *again.tables), (table.whole, *table.tables), strict=True):
        np.testing.assert_allclose(one.power, two.power, atol=float(np.nanmax(two.power) + 5000.0) / 60_000)
        np.testing.assert_array_equal(one.lookup, two.lookup)
    (tmp_path / "farm.table").write_bytes((tmp_path / "farm.table").read_bytes()[:500])
    with pytest.raises(DamagedFile, match="compute it again"):
        load_table(tmp_path / "farm.table")
    with pytest.raises(InvalidInput, match="to exactly one cluster"):
        replace(table, members=(table.members[0], table.members[0]))


def test_the_report_says_which_turbines_are_decided_together(road):
    _, _, found = road
    text = page(found)
    assert "<th>cluster</th>" in text
    assert "decided in 2 clusters" in text
    assert "nan" not in text.lower()


def test_from_the_command_to_a_policy_for_each_cluster(road, winter, monkeypatch, tmp_path):
    table, model, _ = road
    command = importlib.import_module("holdcourse.cli.wakes")
    monkeypatch.setattr(command, "FlorisModel", lambda path, turbines=None: model)
    record = winter.between(end="2014-01-20")
    rows = zip(record.time, record.direction, record.speed, strict=True)
    lines = ["time,wind_direction,wind_speed", *(f"{time}Z,{d:.1f},{u:.2f}" for time, d, u in rows)]
    (tmp_path / "wind.csv").write_text("\n".join(lines))
    table.save(tmp_path / "farm.table")
    given = [tmp_path / "wind.csv", "--farm", tmp_path / "farm.yaml", "--table", tmp_path / "farm.table", "--no-front"]
    given += ["--save", tmp_path / "site.policy", "--json", "--price", "0.05 kWh per degree"]
    given += ["--hysteresis", "8", "--rate-limits", "5"]  # and every policy that runs by default
    said = CliRunner().invoke(app, ["wakes", *map(str, given)])
    assert said.exit_code == 0, f"{said.output}\n{said.exception!r}"
    data = json.loads(said.stdout)
    assert [Path(each).name for each in data["saved"]] == ["site-1.policy", "site-2.policy"]
    assert "wake-learner" not in {line["policy"] for line in data["lines"]}
    farm = hc.wakes.FarmController([hc.load_policy(each) for each in data["saved"]])
    assert sorted(farm.ask([225.0, 8.0, 10]).offsets) == sorted(table.farm.turbines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "0.02 EUR per degree"], "--kwh-price"),
        (["--price", "1; 2"], "one price of a degree, or 6, one for each turbine; got 2"),
        (["--yaw-speed", "0"], "--yaw-speed"),
        (["--every", "7 min"], "give a multiple"),
        (["--end", "2014-01-02"], "at least 500 are needed"),
        (["--history", "wind.csv"], "decisions would know later wind"),
        (["--table", "nowhere/farm.table"], "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_is_refused_before_floris_works(options, message, winter, monkeypatch, tmp_path):
    class Waiting(ToyModel):
        def best_offsets(self, directions, speeds, most):
            raise AssertionError("minutes of work, for nothing")

    command = importlib.import_module("holdcourse.cli.wakes")
    monkeypatch.setattr(command, "FlorisModel", lambda path: Waiting(SQUARE))
    monkeypatch.chdir(tmp_path)
    record = winter.between(end="2014-01-08")
    rows = zip(record.time, record.direction, record.speed, strict=True)
    lines = ["time,wind_direction,wind_speed", *(f"{time}Z,{d:.1f},{u:.2f}" for time, d, u in rows)]
    Path("wind.csv").write_text("\n".join(lines))
    said = CliRunner().invoke(app, ["wakes", "wind.csv", "--farm", "farm.yaml", *options])
    assert said.exit_code == 1, said.output
    assert message in str(said.exception) or message in said.output


def test_a_table_of_another_wake_model_is_refused(road, winter, monkeypatch, tmp_path):
    table, model, _ = road
    known = replace(table, whole=replace(table.whole, computed_by="one model"))
    known.save(tmp_path / "farm.table")
    assert load_table(tmp_path / "farm.table").computed_by == "one model"
    command = importlib.import_module("holdcourse.cli.wakes")
    # The check alone: the command would have FLORIS read a farm first.
    command._same_farm("farm.table", table, model)  # nobody wrote down which one it was
    model = ToyModel(model.farm)
    model.digest = "another one"
    with pytest.raises(InvalidInput, match="computed for another wake model or other turbines"):
        command._same_farm("farm.table", known, model)  # as above


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"study": Study(policies=("wake-learner",))}, InvalidInput, "wake-learner cannot run a farm in clusters"),
        ({"model": None}, MissingExtra, "FLORIS computes"),
        ({"truth": hc.wakes.bundled_table()}, InvalidInput, "leave out truth="),
    ],
)
def test_what_clusters_cannot_do_is_said(road, winter, given, error, message):
    table, model, _ = road
    with pytest.raises(error, match=message):
        hc.wakes.backtest(table, winter, **{"model": model, **given})
