"""The plants: frozen, calibrated, the same for every policy; late, missing, wrong and overridden as they say."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import plants as slow
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.testing import check_cost_model, check_policy
from holdcourse.worlds import plants
from holdcourse.worlds.plants import HISTORY, PLANTS, ROUNDS
from holdcourse.worlds.plants.case import SPIKE
from holdcourse.worlds.plants.rivals import NEARBY, TableCosts

TUNING = range(1000, 1004)
CALM = {"mill", "ventilation"}  # run well: next to nothing can be earned, and harm shows

# Of seed 0: incumbent, first and last cost there, a reading, the sum of the history, the bill of staying, the optimum.
FROZEN = {
    "chiller": (8, 19.2731209885, 58.7672002186, 20.3926090568, 20807.1834519, 50283.2151934, 44882.3897487),
    "database": (13, 6.89696960424, 4.29293938852, 3.11653434181, 2052.34092385, 2722.1955871, 2355.88108538),
    "wastewater": (9, 21.5496696942, 21.0678880557, 25.4256590085, 11011.891525, 21497.0088404, 19134.0304284),
    "heating": (5, 6.67360857528, 7.90483040492, 9.79845593252, 2059.55306724, 5263.79926547, 4509.38527667),
    "compressors": (23, 23.5875, 32.215, 33.01813295, 16455.4547347, 31541.79, 27633.81),
    "dryer": (20, 56.9975655932, 58.4412248023, 62.307544424, 20353.4564592, 43019.0096497, 35802.9913471),
    "exchanger": (12, 19.1345111979, 35.0989789159, 24.4114214661, 9437.33233117, 26709.5891168, 18985.536101),
    "pumps": (21, 48.3439160332, 34.75298488, 58.2905010786, 20004.8301127, 46408.3352311, 34426.877208),
    "district-heat": (20, 108.612021975, 103.76406277, 177.791316381, 27040.1990432, 76895.7255236, 64109.6231517),
    "mill": (4, 89.6696111804, 92.0710702331, 117.786860421, 54221.8284402, 79833.7669333, 77758.1205555),
    "boiler": (28, 73.8430052581, 75.7391928199, 92.5510348165, 28904.8834458, 58351.6973884, 52811.1831849),
    "ventilation": (3, 21.8683728251, 22.3258769637, 22.1869256322, 9445.80450434, 18508.0481199, 18091.0590279),
    "extruder": (11, 39.7192651042, 47.5671980228, 38.4585548449, 16155.3387696, 31825.330468, 27510.2927444),
    "servers": (3, 8.84330548809, 10.9272481115, 9.08435607362, 3119.26171796, 6142.20011503, 5030.24110317),
}


def numbers(case):
    reading = next(y for t in range(100, 120) if (y := case.reading(t, case.start)) is not None)
    first, last = case.costs[0, case.start], case.costs[-1, case.start]
    return (case.start, first, last, reading, case.history.measurements.sum(), case.stay.total, case.optimum.total)


@pytest.fixture(scope="module")
def cases():
    made = {}

    def case(name, seed):
        if (name, seed) not in made:
            made[name, seed] = PLANTS[name].case(seed)
        return made[name, seed]

    return case


def test_the_published_seeds():
    assert list(plants.PUBLIC_SEEDS) == list(range(10))
    assert set(FROZEN) == set(PLANTS)


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_frozen(name, cases):
    assert numbers(cases(name, 0)) == pytest.approx(FROZEN[name], rel=1e-9)


@pytest.mark.parametrize("name", PLANTS)
def test_everything_follows_from_the_name_and_the_seed(name, cases):
    one, again, other = cases(name, 1000), PLANTS[name].case(1000), cases(name, 1001)
    assert one.start == again.start
    assert one.overrides == again.overrides
    np.testing.assert_array_equal(one.all_costs, again.all_costs)
    np.testing.assert_array_equal(one.all_contexts, again.all_contexts)
    np.testing.assert_array_equal(one.history.measurements, again.history.measurements)
    assert [one.reading(t, 0) for t in range(40)] == [again.reading(t, 0) for t in range(40)]
    assert not np.array_equal(one.all_costs, other.all_costs)


@pytest.mark.parametrize("name", PLANTS)
def test_a_shorter_case_is_the_beginning_of_the_whole(name, cases):
    whole, part = cases(name, 1000), PLANTS[name].case(1000, rounds=50)
    assert (part.rounds, whole.rounds) == (50, ROUNDS)
    np.testing.assert_array_equal(part.costs, whole.costs[:50])
    np.testing.assert_array_equal(part.contexts, whole.contexts[:50])
    np.testing.assert_array_equal(part.history.measurements, whole.history.measurements)
    assert part.overrides == {t: action for t, action in whole.overrides.items() if t < 50}
    assert [part.reading(t, 1) for t in range(50)] == [whole.reading(t, 1) for t in range(50)]
    with pytest.raises(InvalidInput, match="the rounds of this case are 0 to 49, got 50"):
        part.reading(50, 0)
    with pytest.raises(InvalidInput, match="a plant has 1 to 672 rounds, got 673"):
        PLANTS[name].case(1000, rounds=673)


@pytest.mark.parametrize("name", PLANTS)
def test_there_is_something_to_earn(name, cases):
    """The optimum is below the best fixed setting, and that below staying; by how much, in the mean."""
    some = [cases(name, seed) for seed in TUNING]
    for case in some:
        assert case.optimum.total <= case.best_fixed.total <= case.stay.total
        hour = case.stay.total / ROUNDS
        assert 0.5 <= case.problem.distances.max() / hour <= 3.0, "across the range, in rounds' bills"
        means = case.all_costs[:HISTORY].mean(axis=0)
        assert means[case.start] <= np.median(means), "no sensible incumbent"
    below = 1 - np.mean([case.optimum.total / case.stay.total for case in some])
    assert 0.015 < below < 0.035 if name in CALM else 0.07 < below < 0.3


@pytest.mark.parametrize("name", PLANTS)
def test_costs_are_positive_and_contexts_what_their_names_say(name, cases):
    plant, case = PLANTS[name], cases(name, 1001)
    assert case.costs.shape == (ROUNDS, case.problem.n)
    assert case.contexts.shape == (ROUNDS, len(plant.factors))
    assert np.isfinite(case.all_costs).all()
    assert (case.all_costs > 0).all()
    assert np.isfinite(case.all_contexts).all()
    assert plant.sentence.endswith(".")
    assert plant.unit in ("kWh", "EUR", "ms")
    for factor, column in zip(plant.factors, case.all_contexts.T, strict=True):
        for edge in factor.edges:
            assert 0.02 < (column < edge).mean() < 0.98, (factor, "a bin is hardly ever met")


@pytest.mark.parametrize("name", PLANTS)
def test_the_history_is_the_incumbent_with_excursions(name, cases):
    case = cases(name, 1002)
    history = case.history
    at_home = (history.actions == case.start).mean()
    assert 0.4 < at_home < 0.99
    near = np.argsort(case.problem.distances[case.start], kind="stable")[: NEARBY + 1]
    assert set(history.actions.tolist()) <= set(near.tolist())
    assert len(history) == HISTORY if case.plant.sensor.missing == 0 else 0.7 * HISTORY < len(history) < 0.9 * HISTORY
    assert history.contexts.shape[1] == len(case.plant.factors)


@pytest.mark.parametrize("name", PLANTS)
def test_the_noise_of_a_round_is_the_same_at_every_setting(name, cases):
    case = cases(name, 1000)
    for t in range(0, ROUNDS, 61):
        readings = [case.reading(t, action) for action in range(case.problem.n)]
        if readings[0] is None:
            assert readings == [None] * case.problem.n
        elif case.plant.sensor.spread:
            assert np.ptp(np.array(readings) - case.costs[t]) < 1e-9
        else:
            np.testing.assert_allclose(np.array(readings) / case.costs[t], readings[0] / case.costs[t, 0], rtol=1e-12)


def errors(cases, name):
    """Readings over costs, less 1, of several cases; missing ones left out."""
    some = [cases(name, seed) for seed in TUNING]
    pairs = [(c.reading(t, c.start), c.costs[t, c.start]) for c in some for t in range(ROUNDS)]
    return np.array([y / cost - 1 for y, cost in pairs if y is not None])


@pytest.mark.parametrize("name", [name for name in PLANTS if PLANTS[name].sensor.wrong == 0])
def test_readings_are_right_in_the_mean(name, cases):
    off = errors(cases, name)
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    if PLANTS[name].sensor.spikes == 0 and PLANTS[name].sensor.spread == 0:
        assert off.std() == pytest.approx(PLANTS[name].sensor.noise, rel=0.1)


def test_sensors_fail_as_often_as_they_say(cases):
    counts = {name: errors(cases, name) for name in ("database", "district-heat", "mill")}
    hours = ROUNDS * len(TUNING)
    assert len(counts["district-heat"]) / hours == pytest.approx(0.8, abs=0.03)
    assert ((counts["mill"] > 5) | (counts["mill"] < -0.8)).mean() == pytest.approx(0.05, abs=0.015)
    assert (counts["database"] > SPIKE / 2).mean() == pytest.approx(0.01, abs=0.006)
    assert {name for name in PLANTS if PLANTS[name].sensor.delay} == {"district-heat"}
    boiler = cases("boiler", 1000)
    added = [boiler.reading(t, 0) - boiler.costs[t, 0] for t in range(ROUNDS)]
    assert np.std(added) == pytest.approx(0.2 * np.ptp(boiler.all_costs), rel=0.1)
    stepped_in = [len(cases("ventilation", seed).overrides) / ROUNDS for seed in TUNING]
    assert np.mean(stepped_in) == pytest.approx(0.1, abs=0.05)
    assert {name for name in PLANTS if cases(name, 1000).overrides} == {"ventilation"}


def test_landscapes_are_of_the_kinds_they_say(cases):
    steps = cases("compressors", 1000)
    assert len(np.unique(np.round(steps.all_costs[:, 20], 9))) < 40, "piecewise constant"
    product = cases("extruder", 1000).all_contexts[:, 0]
    assert set(product.tolist()) == set(range(6))
    idle = cases("servers", 1000).all_contexts[:, 4]
    costs = cases("servers", 1000).all_costs
    assert abs(np.corrcoef(idle, costs.mean(axis=1))[0, 1]) < 0.1
    fouled = cases("exchanger", 1000)
    flow = fouled.problem.actions[:, 0]
    best = flow[fouled.all_costs.argmin(axis=1)]
    assert best[-200:].mean() > best[:200].mean() + 0.1, "more flow as it fouls"
    pumps = cases("pumps", 1000)
    level = pumps.costs.min(axis=1)
    fixed = int(pumps.costs[:250].mean(axis=0).argmin())
    loss = pumps.costs[:, fixed] / level
    assert loss[-250:].mean() > loss[:250].mean() + 0.05, "what was best is not any more"


@pytest.mark.parametrize("name", ["district-heat", "ventilation", "chiller"])
def test_a_run_is_what_a_controller_does(name):
    """Late, missing and overridden rounds against the slow twin; rules of people and learners alike."""
    case = PLANTS[name].case(1003, rounds=80)
    assert name != "ventilation" or case.overrides
    axes = case.problem.actions.shape[1]
    kernel = hc.Kernel(RBF(np.ones(axes)), RBF(np.ones(2)))
    mean = float(case.history.measurements.mean())
    for policy in (
        plants.stay(case.problem, case.start),
        plants.operators(case.problem, case.start),
        plants.table(case.problem, case.plant.edges, case.history),
        hc.gp_md(case.problem, kernel=kernel, noise_std=0.1 * mean, prior_mean=mean),
        hc.minc_known(case.problem),
    ):
        run = plants.operate(policy, case, seed=3)
        assert run.actions.tolist() == slow.operated(policy, case, seed=3)
        assert run.bill == pytest.approx(slow.bill(case, run.actions.tolist()), rel=1e-12)
        assert run.bill_of(slice(0, 30)) + run.bill_of(slice(30, None)) == pytest.approx(run.bill)
        assert {t: run.actions[t] for t in case.overrides} == case.overrides


class Listener(TableCosts):
    """A table that tells what it was told, and when."""

    def __init__(self, problem, edges, history=None):
        super().__init__(problem, edges, history)
        self.heard = []

    def copy(self):
        return self

    def estimate(self, context, shown=None):
        self.heard.append(("asked", tuple(context)))
        return super().estimate(context, shown)

    def learn(self, action, context, measurement):
        self.heard.append(("told", tuple(context), action, measurement))
        return super().learn(action, context, measurement)


@pytest.mark.parametrize("name", ["district-heat", "ventilation", "boiler"])
def test_a_reading_comes_after_its_delay_under_the_setting_that_was_applied(name):
    case = PLANTS[name].case(1000, rounds=120)
    model = Listener(case.problem, case.plant.edges)
    rule = hc.rules.Proximal(case.problem, 0.2)
    run = plants.operate(hc.Policy("listener", rule, model, case.problem), case)
    expected = []
    for t in range(120):
        expected.append(("asked", tuple(case.contexts[t])))
        due = t - case.delay
        reading = case.reading(due, int(run.actions[due])) if due >= 0 else None
        if reading is not None:
            expected.append(("told", tuple(case.contexts[due]), int(run.actions[due]), reading))
    assert model.heard == expected


def test_hindsight_follows_operators_where_they_step_in(cases):
    case = cases("ventilation", 1001)
    for path in (case.optimum, case.best_fixed, case.stay):
        assert {t: path.actions[t] for t in case.overrides} == case.overrides
        assert path.total == pytest.approx(slow.bill(case, path.actions.tolist()))
    assert plants.operate(plants.stay(case.problem, case.start), case).bill == pytest.approx(case.stay.total)


def test_the_table_is_that_of_its_twin(cases):
    case = cases("heating", 1000)
    edges, history = case.plant.edges, case.history
    model = TableCosts(case.problem, edges, history)
    told = list(zip(history.actions.tolist(), history.contexts.tolist(), history.measurements.tolist(), strict=True))
    for t in range(0, 200, 7):
        expected = slow.table(told, edges, case.contexts[t], case.problem.n)
        costs = model.estimate(case.contexts[t]).costs
        known = [k for k, cost in enumerate(expected) if cost is not None]
        assert costs[known] == pytest.approx([expected[k] for k in known])
        unknown = np.delete(costs, known)
        assert (unknown > costs[known].max() + case.problem.distances.max()).all()
        y = case.reading(t, t % case.problem.n)
        told.append((t % case.problem.n, case.contexts[t].tolist(), y))
        model.learn(t % case.problem.n, case.contexts[t], y)


def test_rivals_are_policies_like_others(cases):
    case = cases("ventilation", 1000)
    problem, edges = case.problem, case.plant.edges
    contexts = case.contexts[:24]
    for policy in (
        lambda: plants.table(problem, edges, case.history),
        lambda: plants.table(problem, edges),
        lambda: plants.operators(problem, 4),
        lambda: plants.stay(problem, 4),
        lambda: plants.fixed_on_history(problem, case.history),
    ):
        check_policy(policy, contexts, start=4)
    check_cost_model(lambda: TableCosts(problem, edges, case.history), problem, contexts)


def test_a_table_without_readings_stays(cases):
    case = cases("chiller", 1000)
    run = plants.operate(plants.table(case.problem, case.plant.edges), case)
    assert (run.actions == case.start).all()


def test_operators_leave_and_come_back(cases):
    case = cases("chiller", 1000)
    run = plants.operate(plants.operators(case.problem, case.start), case, seed=5)
    away = run.actions != case.start
    assert 0.1 < away.mean() < 0.45
    spells = np.flatnonzero(np.diff(np.concatenate([[0], away.astype(int), [0]]))).reshape(-1, 2)
    assert 3 < np.mean(spells[:, 1] - spells[:, 0]) < 14
    assert all(len(set(run.actions[a:b].tolist())) == 1 for a, b in spells)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda case: plants.operate(hc.stationary(hc.Problem([0.0, 1.0])), case), "2 actions, but the plant has 56"),
        (lambda case: case.reading(0, 99), "99"),
        (lambda case: case.reading(-1, 0), "the rounds of this case are 0 to 671, got -1"),
        (lambda case: plants.table(case.problem, case.plant.edges, rounds=0), "rounds must be positive, got 0"),
        (lambda case: plants.operators(case.problem, 56), "56"),
    ],
)
def test_errors_name_the_value(wrong, message, cases):
    with pytest.raises(InvalidInput, match=message):
        wrong(cases("chiller", 1000))
