"""The whole road: readings, a backtest, a file, a controller in process, one over HTTP, and the proof of both.

For a wind site, a plant, a wind farm, and a user's own policy. What was backtested is what runs: decisions are compared
bit by bit.
"""

from __future__ import annotations

import csv
import json
from typing import NamedTuple

import numpy as np
import pytest
from service.running import Client, served
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.backtest.handover import plant_policy
from holdcourse.backtest.plant import backtest_plant, known_to_learners
from holdcourse.backtest.readings import read_readings
from holdcourse.cli.root import app
from holdcourse.deciding.named_policies import make_policy
from holdcourse.running import audit
from holdcourse.wind.backtest.handover import site_policy
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.policy.policies import contexts_of
from holdcourse.worlds.simulation import simulate

HOURS = 700
MINE = '''
"""A policy of somebody's own: cost per setting as a running mean, and moves that pay within ten rounds."""

import numpy as np

import holdcourse as hc


class Means:
    needs_costs = False

    def __init__(self, problem, memory):
        self.problem, self.memory = problem, memory
        self.sums, self.counts = np.zeros(problem.n), np.zeros(problem.n)

    def estimate(self, context, shown=None):
        costs = np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1.0), 0.0)
        return hc.costs.Estimate(costs, costs)

    def costs_at(self, contexts):
        return np.array([self.estimate(context).costs for context in np.atleast_2d(contexts)])

    def learn(self, action, context, measurement):
        self.sums, self.counts = self.memory * self.sums, self.memory * self.counts
        self.sums[action] += measurement
        self.counts[action] += 1.0
        return 1.0

    def new_episode(self):
        pass

    def copy(self):
        twin = Means(self.problem, self.memory)
        return twin.restore(self.state())

    def state(self):
        return {"sums": self.sums.copy(), "counts": self.counts.copy()}

    def restore(self, arrays):
        self.sums, self.counts = np.array(arrays["sums"]), np.array(arrays["counts"])
        return self

    def describe(self):
        return {"model": "Means", "memory": self.memory}


def mine(problem, memory=0.98):
    return hc.Policy("mine", hc.rules.Proximal(problem, 0.1), Means(problem, memory), problem)
'''


class Road(NamedTuple):
    """What was decided in the backtest, and what is needed to walk the road again."""

    policy: hc.Policy  # as judged
    contexts: list
    measurements: list[float]
    decided: list[tuple[int, float]]  # action, and how probable it was
    start: int
    seed: int
    trust: str | None = None


@pytest.fixture(scope="module")
def lidar(tmp_path_factory):
    path, random = tmp_path_factory.mktemp("site") / "lidar.csv", np.random.default_rng(4)
    tilt = np.zeros(HOURS)
    for t in range(1, HOURS):
        tilt[t] = 0.93 * tilt[t - 1] + 1.4 * random.standard_normal()
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "60 m", "120 m", "200 m", "300 m"])
        for t in range(HOURS):
            time = np.datetime64("2022-03-01T00:00") + np.timedelta64(t, "h")
            speed = np.maximum(8.0 + tilt[t] * np.linspace(-0.9, 0.9, 4) + 0.1 * random.standard_normal(4), 0.1)
            rows.writerow([f"{time}Z", *(f"{v:.2f}" for v in speed)])
    return path


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    path, random = tmp_path_factory.mktemp("plant") / "plant.csv", np.random.default_rng(6)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["load", "outdoor", "setpoint", "kwh"])
        for t in range(160):
            load, outdoor = 0.5 + 0.3 * np.sin(t / 9), 12 + 6 * np.sin(t / 40) + random.normal()
            setpoint = (6.0, 8.0, 10.0)[(t // 5) % 3]
            kwh = 20 * load + 0.4 * (setpoint - 6 - 5 * load) ** 2 + 0.1 * outdoor + 0.3 * random.normal()
            rows.writerow([f"{load:.2f}", f"{outdoor:.1f}", setpoint, f"{kwh:.3f}"])
    return path


def plant_backtest(plant, name, make=make_policy):
    found = read_readings(plant, action="setpoint", cost="kwh", context=["load", "outdoor"])
    return backtest_plant(found.problem(scale=0.4), found.history, [name], seed=2, make=make)


def ran(found, policy, seed=2):
    """What a policy did in the world of a plant's backtest, with what it was told."""
    world, start = found.world, int(found.world.readings.actions[0])
    run = simulate(policy, world, world.contexts, start=start, seed=seed)
    decided = list(zip(run.actions.tolist(), run.probabilities.tolist(), strict=True))
    contexts = [context.tolist() for context in world.contexts]
    return Road(policy, contexts, run.measurements.tolist(), decided, start, seed)


def wind_site(lidar, plant, folder):
    plan = Plan(low=60, high=300, count=5, movement="physical", policies=("fixed", "wind-planner"), what_if=())
    result = run_backtest(lidar, plan=plan)
    flight, world = result.backtest.flights["wind-planner"], result.backtest.world
    times = contexts_of("wind-planner", world).tolist()
    measured = world.speed[np.arange(len(flight.actions)), flight.actions].tolist()
    decided = list(zip(flight.actions.tolist(), flight.probabilities.tolist(), strict=True))
    assert len(result.backtest.lengths) == 1
    policy = site_policy(result, as_judged=True)
    assert policy.evidence.as_judged
    return Road(policy, times, measured, decided, result.backtest.start, plan.seed)


def a_plant(lidar, plant, folder):
    found = plant_backtest(plant, "recommended")
    policy = plant_policy(found, as_judged=True)
    return ran(found, policy)


def ones_own(lidar, plant, folder):
    (folder / "mine.py").write_text(MINE)
    source = f"{folder / 'mine.py'}:mine"

    def make(name, problem, learning, options):
        return make_policy(name, problem, learning, options, source)

    found = plant_backtest(plant, "mine", make)
    return ran(found, plant_policy(found, as_judged=True))._replace(trust=source)


def a_wind_farm(lidar, plant, folder):
    table = hc.wakes.bundled_table()
    year = hc.wakes.bundled_record()
    history, record = year.between("2014-01-03", "2014-01-09"), year.between("2014-01-10", "2014-01-16")
    study = hc.wakes.Study(price=0.1, policies=("wake-planner",), front=())
    found = hc.wakes.backtest(table, record, study, history=history)
    run, contexts = found.runs["wake-planner"], found.rounds.contexts[:400]
    decided = [(int(action), 1.0) for action in table.vector_of(run.offsets)[:400]]
    return Road(hc.wakes.steering_policy(found), contexts.tolist(), [0.0] * len(contexts), decided, 0, 0)


def a_wind_farm_that_learns(lidar, plant, folder):
    """A week and a day, so that it plans anew: told what `power_surplus` makes of the power of every interval."""
    table, year = hc.wakes.bundled_table(), hc.wakes.bundled_record()
    history, record = year.between("2014-01-03", "2014-01-09"), year.between("2014-01-10", "2014-01-18")
    study = hc.wakes.Study(price=0.1, policies=("wake-learner",), front=(), seed=4)
    found = hc.wakes.backtest(table, record, study, history=history)
    run, rounds = found.runs["wake-learner"], found.rounds
    noise = np.array([hc.measurement_noise(study.seed, t) for t in range(len(rounds))])
    power = run.energy / rounds.hours * (1.0 + study.noise * noise)
    wind = (record.direction[rounds.first], record.speed[rounds.first])
    told = [None if np.isnan(each) else float(each) for each in hc.wakes.power_surplus(table, power, *wind)]
    decided = [(int(action), 1.0) for action in table.vector_of(run.offsets)]
    return Road(hc.wakes.steering_policy(found), rounds.contexts.tolist(), told, decided, 0, 4)


def walked(controller, road, rounds=None):
    """Ask and tell as in the backtest; the decisions, each with the probability of its action."""
    found = []
    for context, measurement in list(zip(road.contexts, road.measurements, strict=True))[:rounds]:
        decision = controller.ask(context)
        found.append(
            (decision.action, float(decision.probabilities[decision.action]), decision.probabilities.tobytes())
        )
        controller.tell(decision.id, measurement)
    return found


ROADS = [wind_site, a_plant, a_wind_farm, a_wind_farm_that_learns, ones_own]


@pytest.mark.parametrize("begin", ROADS, ids=lambda begin: begin.__name__)
@pytest.mark.parametrize("served_rounds", [40, pytest.param(120, marks=pytest.mark.slow)])
def test_what_was_backtested_is_what_runs(begin, served_rounds, lidar, plant, tmp_path):
    road = begin(lidar, plant, tmp_path)
    file, log = tmp_path / "site.policy", tmp_path / "machine.log"
    road.policy.save(file)
    trust = () if road.trust is None else road.trust
    loaded = hc.load_policy(file, trust=trust)
    assert loaded.fingerprint == road.policy.fingerprint
    assert loaded.evidence == road.policy.evidence

    with hc.Controller(loaded, start_index=road.start, seed=road.seed, log=log) as controller:
        here = walked(controller, road)
    assert [decided[:2] for decided in here] == road.decided  # in the backtest and in process: bit by bit
    if begin is not ones_own:
        assert len({action for action, _, _ in here}) > 1

    options = [] if road.trust is None else ["--trust", road.trust]
    said = CliRunner().invoke(app, ["verify", str(log), *options, "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.output)["decisions"] == len(here)

    with served(tmp_path / "data") as url, hc.connect(url) as service, Client(url) as client:
        if road.trust is not None:  # a service runs no code that a file names
            with pytest.raises(hc.errors.InvalidInput, match="a service runs no code that a file names"):
                service.create_from_file(file, "machine")
            return
        remote = service.create_from_file(file, "machine", start_index=road.start, seed=road.seed)
        assert walked(remote, road, served_rounds) == here[:served_rounds]
        assert client.see("machine", "verify", full=True)["ok"]
    (record,) = (tmp_path / "data").rglob("epoch-*.db")
    assert audit.verify(record).verified


def test_ones_own_policy_over_http_is_installed_there(lidar, plant, tmp_path, monkeypatch):
    """As an entry point of a package that is installed where the service runs."""
    road = ones_own(lidar, plant, tmp_path)
    rounds = 40  # few enough to be verified in this process, which alone knows the entry point
    maker = hc.registry.load(road.trust)

    class Point:
        def load(self):
            return maker

    monkeypatch.setattr(hc.registry, "entry_points", lambda group, name: [Point()] if name == "running-means" else [])
    policy = hc.registry.make("running-means", road.policy.problem)
    policy.save(tmp_path / "means.policy")
    here = walked(hc.Controller(policy, start_index=road.start, seed=road.seed), road, rounds)
    assert [decided[:2] for decided in here] == road.decided[:rounds]
    with served(tmp_path / "data") as url, hc.connect(url) as service:
        remote = service.create_from_file(tmp_path / "means.policy", "machine", start_index=road.start, seed=road.seed)
        assert walked(remote, road, rounds) == here
        assert remote.verify()["ok"]


# -- the same by commands ----------------------------------------------------------------------------------------------


def command(*words):
    said = CliRunner().invoke(app, [str(word) for word in words])
    assert said.exit_code == 0, f"{said.output}\n{said.exception!r}"
    return said.output


def test_the_road_of_a_wind_site_by_commands(lidar, tmp_path):
    file, judged = tmp_path / "site.policy", tmp_path / "judged.policy"
    flying = ["--low", 60, "--high", 300, "--count", 5, "--movement", "physical", "--policies", "fixed,wind-planner"]
    words = ["backtest", lidar, *flying, "--what-if", "none", "--json"]
    assert json.loads(command(*words, "--save", file))["saved"] == str(file)
    command(*words, "--save", judged, "--as-judged")
    shown = json.loads(command("policy", "show", file, "--json"))
    assert shown["policy"] == "wind-planner"
    assert shown["evidence"]["files"].keys() == {"lidar.csv"}
    assert shown["evidence"]["as_judged"] is False
    assert "2022-03-01 to 2022-03-30, 700 profiles" in shown["evidence"]["learned"]
    first = json.loads(command("policy", "show", judged, "--json"))
    assert first["evidence"]["as_judged"] is True
    assert "2022-03-01 to 2022-03-08, 175 profiles" in first["evidence"]["learned"]
    assert first["evidence"]["conclusion"] == shown["evidence"]["conclusion"]
    said = " ".join(command("policy", "show", file).split())
    assert "One of 5 settings: 60, 120, 180, 240, 300 m." in said
    assert " kWh. - It is asked" in said.partition("A move costs from ")[2][:40]
    assert "It has learned from these data since." in said
    log = tmp_path / "kite.log"
    with hc.Controller(hc.load_policy(file), start_index=2, log=log) as controller:
        for hour in range(30):
            decision = controller.ask(457000.0 + hour)
            controller.tell(decision.id, 8.0 + hour % 3)
    assert "30 decisions, 30 tells: verified" in command("verify", log)


def test_the_road_of_a_plant_by_commands(plant, tmp_path):
    file = tmp_path / "plant.policy"
    reading = ["--log", plant, "--action", "setpoint", "--cost", "kwh", "--context", "load", "--context", "outdoor"]
    words = ["backtest", *reading, "--move-cost", 0.4, "--policies", "recommended", "--save", file]
    assert "saved:" in command(*words)
    said = " ".join(command("policy", "show", file).split())
    assert "It has learned from 160 readings." in said
    assert "It is asked with: load, outdoor." in said
    log = tmp_path / "plant.log"
    with hc.Controller(hc.load_policy(file), log=log) as controller:
        for t in range(20):
            decision = controller.ask([0.4 + 0.02 * t, 13.7])
            controller.tell(decision.id, 12.0 + 0.1 * t)
    assert "verified" in command("verify", log)


def test_what_is_saved_knows_all_readings_in_the_plants_own_units(plant):
    """With a weight of the service cost, what runs is told what the plant measures, and moving costs a share."""
    read = read_readings(plant, action="setpoint", cost="kwh", context=["load", "outdoor"])
    problem, readings = read.problem(scale=0.4, fixed_cost=0.2), read.history
    found = backtest_plant(problem, readings, ["recommended"], rho=2.0)
    policy = plant_policy(found)
    np.testing.assert_allclose(policy.problem.distances, problem.distances / 2.0)
    mean = policy.costs.estimate(readings.contexts[0]).expected
    world = found.world.expected[found.world.rows[tuple(readings.contexts[0].tolist())]]
    np.testing.assert_allclose(mean, world, atol=0.5)
    with pytest.raises(hc.errors.InvalidInput, match="judged on weighted costs"):
        plant_policy(found, as_judged=True)
    assert known_to_learners(found.world)["noise_std"] == pytest.approx(2.0 * found.world.fitted.noise_std)


def test_a_wrong_reading_does_not_move_what_was_saved(plant):
    """One reading wrong by 1e4 is set aside by what runs from a file, as if it had not been told."""
    read = read_readings(plant, action="setpoint", cost="kwh", context=["load", "outdoor"])
    found = backtest_plant(read.problem(scale=0.4, fixed_cost=0.2), read.history, ["recommended"])
    policy = plant_policy(found)

    def decided(wrong):
        with hc.Controller(policy, start_index=0, seed=1) as controller:
            for t in range(40):
                context = read.history.contexts[t]
                decision = controller.ask(context)
                right = float(found.world.costs(t, context)[decision.action])
                controller.tell(decision.id, wrong(right) if t == 12 else right)
                yield decision.action

    assert list(decided(lambda right: 1e4 * right)) == list(decided(lambda right: None))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--as-judged"], "give --save FILE too"),
        (["--save", "{folder}"], "it is a folder"),
        (["--save", "{folder}/none/site.policy"], "there is no folder"),
        (["--save", "{folder}/site.policy", "--policies", "md-known"], "there is none to save"),
        (["--save", "{folder}/site.policy", "--each", "{lidar}"], "one site, but there are 2"),
    ],
    ids=str,
)
def test_what_cannot_be_saved_is_said(lidar, tmp_path, words, message):
    given = [word.format(folder=tmp_path, lidar=lidar) for word in words]
    other = tmp_path / "other.csv"
    other.write_bytes(lidar.read_bytes())
    site = (
        ["--count", "3", "--what-if", "none", "--policies", "md-known"]
        if "md-known" in given
        else ["--what-if", "none"]
    )
    given = [str(other) if word == str(lidar) else word for word in given]
    said = CliRunner().invoke(app, ["backtest", str(lidar), *site, *given, "--json"])
    assert said.exit_code != 0
    assert message in str(said.exception)


def test_a_record_is_no_policy(tmp_path):
    with hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0])), log=tmp_path / "a.log") as controller:
        controller.ask(0.1)
    said = CliRunner().invoke(app, ["policy", "show", str(tmp_path / "a.log")])
    assert "is a controller's record" in str(said.exception)


def test_the_road_of_a_wind_farm_by_commands(tmp_path):
    """The command, the file, the service, a trial there, and its report."""
    file = tmp_path / "site.policy"
    words = ["wakes", "--begin", "2014-01-01", "--end", "2014-02-15", "--policies", "wake-planner", "--no-front"]
    found = json.loads(command(*words, "--price", "0.1 kWh per degree", "--save", file, "--json"))
    assert found["saved"] == str(file)
    assert "offset vectors" in command("policy", "show", file)

    table, year = hc.wakes.bundled_table(), hc.wakes.bundled_record()
    rounds = year.between("2014-02-15", "2014-02-16").rounds()
    energy = rounds.energy(table)
    with served(tmp_path / "data") as url, hc.connect(url) as service, Client(url) as client:
        farm = service.create_from_file(file, "farm", start_index=0)
        first = farm.ask(rounds.contexts[0].tolist())
        assert len(first.value) == len(table.farm)  # an offset for each turbine
        farm.tell(first.id, 0.0)
        no_steering = table.settings[0].tolist()
        client.change("farm", trial={"block": 12, "baseline": no_steering})
        arms = []
        for context, made in zip(rounds.contexts.tolist(), energy, strict=True):
            row = client.do("farm", "ask", context=context)
            arms.append(row["turn"]["arm"])
            if arms[-1] == 0:  # the baseline's turn
                assert row["value"] == no_steering
            client.do("farm", "tell", decision=row["decision"], measurement=float(made[0] - made[row["action"]]))
        assert sorted(set(arms)) == [0, 1]
        assert client.see("farm", "verify", full=True)["ok"]
    records = sorted((tmp_path / "data").rglob("epoch-*.db"))
    assert audit.verify(records[-1]).verified
    assert "blocks" in command("trial", "report", records[-1])
