"""Whatever a public name is given, it answers, or raises an error of ours in one line, and nothing has changed."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import HoldcourseError, InvalidInput, TooLarge
from holdcourse.worlds.logged import LoggedWorld

NAN = float("nan")
ODD = [
    None,
    True,
    "text",
    "",
    b"x",
    NAN,
    np.inf,
    -1,
    0,
    1.5,
    2**63,
    10**400,
    [],
    [[1], [2, 3]],
    [NAN, 1.0],
    ["a", "b"],
    {},
    {"a": 1},
    {1, 2},
    object(),
    np.array([1.0, None], dtype=object),
    np.zeros((2, 2, 2)),
    np.zeros((0, 3)),
    np.float32([1, 2]),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "h"),
    1 + 2j,
    np.array([1 + 2j, 0]),
    np.ma.array([1.0, 2.0], mask=[0, 1]),
    slice(1),
]

LINE = hc.Problem([0.0, 1.0, 2.0, 3.0])
MATRIX = np.ones((3, 3)) - np.eye(3)
TREE = hc.frt_tree(LINE, seed=0)
BEFORE = hc.mirror.start(TREE, 0)
AFTER = hc.mirror.descend(TREE, BEFORE, [1.0, 0.0, 2.0, 0.5])
P, Q = hc.mirror.leaf_probabilities(TREE, BEFORE), hc.mirror.leaf_probabilities(TREE, AFTER)
COSTS = np.random.default_rng(0).random((5, 4))
KERNEL = hc.Kernel(RBF(1.0), RBF(1.0))
GIVEN = {"kernel": KERNEL, "noise_std": 0.1, "prior_mean": 0.0, "contexts": [0.0, 1.0]}
POLICY = hc.gp_md(LINE, **GIVEN)
WORLD = hc.SyntheticWorld.sample(seed=0, grid=3, contexts=4)
FREE = hc.gp_md(WORLD.problem, kernel=WORLD.kernel, noise_std=WORLD.noise_std, contexts=WORLD.contexts)
TABLE = {
    "time": [f"2026-01-01T{hour:02}:00Z" for hour in range(8)],
    "load": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
    "setting": [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0],
    "kwh": [1.0, 2.0, 3.0, 4.0, 2.0, 3.0, 4.0, 5.0],
}
RUN = hc.simulate(hc.md_known(WORLD.problem), WORLD, WORLD.contexts)
MANY = hc.knobs(groups=[("x", "y")], x=hc.knob(range(3), change=1.0), y=hc.knob(range(3), change=1.0))
PAST = hc.History([0, 1, 2, 3, 0, 1], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0])


def asked(**options):
    controller = hc.Controller(POLICY, start=0.0)
    try:
        return controller.ask(**options)
    except HoldcourseError:
        assert controller.ask(context=0.0).id == "r0"  # the first round is still to come
        raise


def told(decision_id="r0", measurement=1.0, **options):
    controller = hc.Controller(POLICY, start=0.0)
    controller.ask(context=0.0)
    try:
        controller.tell(decision_id, measurement, **options)
    except HoldcourseError:
        controller.tell("r0", 1.0)  # nothing was told
        raise


def fleet_told(measurements, call=None):
    fleet = hc.fleet(POLICY, 2)
    fleet.ask(contexts=0.0)
    try:
        fleet.tell(measurements, call=call)
    except HoldcourseError:
        fleet.tell([1.0, 2.0])
        raise


LEARNING = {
    **GIVEN,
    "history": None,
    "width": 2.0,
    "every": "round",
    "maximise": False,
    "forgetting": 1.0,
    "guard": None,
}
STATES = {"tree": TREE, "q": BEFORE}
CALLS = {
    "Problem": (hc.Problem, {"actions": [0.0, 1.0, 2.0], "metric": "euclidean", "scale": 1.0, "fixed_cost": 0.0}),
    "Problem, names": (hc.Problem, {"actions": [0.0, 1.0], "labels": ["a", "b"], "unit": "m", "cost_unit": "kWh"}),
    "Problem, matrix": (hc.Problem, {"metric": MATRIX, "directed": True, "labels": ["a", "b", "c"]}),
    "knob": (hc.knob, {"values": [1, 2, 3], "per_unit": 0.2, "together": "x"}),
    "knob, steps": (hc.knob, {"values": ["a", "b", "c"], "ordered": True}),
    "knob, changes": (hc.knob, {"values": ["a", "b", "c"], "change": 2.0}),
    "grid": (hc.grid, {"x": [1, 2, 3], "y": ["a", "b"]}),
    "knobs": (hc.knobs, {"groups": [("x", "y")], "x": hc.knob(range(3)), "y": hc.knob(range(3))}),
    "resolution": (hc.resolution, {"low": 0.0, "high": 9.0, "length_scale": 6.0, "deviation": 2.0, "noise": 0.1}),
    "metric_closure": (hc.metric_closure, {"matrix": MATRIX}),
    "frt_tree": (hc.frt_tree, {"problem": LINE, "tau": 5.0, "seed": 0}),
    "optimal_path": (hc.optimal_path, {"costs": COSTS, "problem": LINE, "start": 0, "method": "auto"}),
    "price_path": (hc.price_path, {"actions": [0, 1, 2, 3, 0], "costs": COSTS, "problem": LINE, "start": 0}),
    "best_fixed": (hc.best_fixed, {"costs": COSTS, "problem": LINE, "start": 0, "episodes": 1}),
    "work_function": (hc.work_function, {"costs": COSTS, "problem": LINE, "start": 0}),
    "start": (hc.mirror.start, {"tree": TREE, "action": 0}),
    "descend": (hc.mirror.descend, {**STATES, "costs": COSTS[0], "kappa": 1.0}),
    "step": (hc.mirror.step, {**STATES, "action": 0, "costs": COSTS[0], "uniform": 0.5}),
    "leaf_probabilities": (hc.mirror.leaf_probabilities, STATES),
    "vertex_probabilities": (hc.mirror.vertex_probabilities, STATES),
    "conditional": (hc.coupling.conditional, {"tree": TREE, "p": P, "p_next": Q, "action": 0}),
    "sample": (hc.coupling.sample, {"tree": TREE, "p": P, "p_next": Q, "action": 0, "uniform": 0.5}),
    "sample_from_states": (
        hc.coupling.sample_from_states,
        {"tree": TREE, "q": BEFORE, "q_next": AFTER, "action": 0, "uniform": 0.5},
    ),
    "expected_movement": (hc.coupling.expected_movement, {"tree": TREE, "p": P, "p_next": Q}),
    "Kernel": (hc.Kernel, {"action": RBF(1.0), "context": RBF(1.0), "variance": 1.0, "context_scale": 1.0}),
    "KernelSum": (hc.KernelSum, {"terms": (KERNEL,)}),
    "zscore": (hc.zscore, {"values": [1.0, 2.0]}),
    "History": (hc.History, {"actions": [0, 1], "contexts": [0.0, 1.0], "measurements": [1.0, 2.0]}),
    "fit_kernel": (
        hc.fit_kernel,
        {"problem": LINE, "actions": PAST.actions, "contexts": PAST.contexts, "y": PAST.measurements, "kernel": KERNEL},
    ),
    "posterior": (
        hc.posterior,
        {"problem": LINE, **GIVEN, "method": "auto", "time": False, "forgetting": 1.0, "regularisation": None},
    ),
    "restore": (hc.posterior(LINE, KERNEL).restore, {"arrays": hc.posterior(LINE, KERNEL).state()}),
    "LowerBound": (hc.costs.LowerBound, {"posterior": hc.posterior(LINE, KERNEL), "width": 2.0, "every": "round"}),
    "KnownCosts": (hc.costs.KnownCosts, {"problem": LINE, "costs_of": None, "maximise": False}),
    "gp_md": (hc.gp_md, {"problem": LINE, **LEARNING, "tree": None, "kappa": 1.0}),
    "planner": (hc.planner, {"problem": LINE, **GIVEN, "discount": 0.97, "forecasts": "robust", "context_scale": 1.0}),
    "recommended": (hc.recommended, {"problem": LINE, "history": None, "max_step": 1.0, "baseline": 0.0}),
    "md_known": (hc.md_known, {"problem": LINE, "maximise": False}),
    "stationary": (hc.stationary, {"problem": LINE, "maximise": False}),
    "fixed": (hc.fixed, {"problem": LINE, "history": PAST, "maximise": False}),
    "fixed_at": (hc.fixed_at, {"problem": LINE, "setting": 0.0}),
    "hedged": (hc.hedged, {"policies": [POLICY, hc.cgp_lcb(LINE, **GIVEN)], "patience": 4.0}),
    "trial": (hc.trial, {"policy": POLICY, "baseline": 0.0, "block": 4, "blocks": None, "heard": 1.0}),
    "knob_planner": (hc.knob_planner, {"problem": MANY, "context_bounds": (0.0, 1.0), "discount": 0.97}),
    "refine": (hc.refine, {"policy": POLICY, "within": None, "rounds": 33.0, "loss": 0.01}),
    "rules": (hc.rules.MirrorDescent, {"problem": LINE, "tree": TREE, "kappa": 1.0}),
    "rules, staying": (hc.rules.Stay, {"problem": LINE, "home": 1}),
    "rules, moves": (hc.rules.Proximal, {"problem": LINE, "weight": 1.0}),
    "Policy": (
        hc.Policy,
        {"name": "x", "rule": hc.rules.Greedy(LINE), "costs": hc.costs.KnownCosts(LINE), "problem": LINE},
    ),
    "save": (POLICY.save, {"path": None}),
    "load_policy": (hc.load_policy, {"path": "no.policy"}),
    "registry.make": (hc.registry.make, {"name": "gp-md", "problem": LINE}),
    "Controller": (hc.Controller, {"policy": POLICY, "start": 0.0, "seed": 0, "log": None, "max_pending": 1}),
    "Controller.load": (hc.Controller.load, {"path": "no.state", "policy": POLICY}),
    "Controller.resume": (hc.Controller.resume, {"log": "no.log"}),
    "Limits": (hc.Limits, {"min_dwell": 1, "max_step": 1.0, "max_moves": 2, "window": 10, "max_step_cost": 1.0}),
    "Guard": (hc.Guard, {"threshold": 1.0, "revert_to": 0.0, "cool_down": 10}),
    "ask": (asked, {"context": 0.0, "allowed": None, "watching": False, "within": None, "round": None}),
    "tell": (told, {"decision_id": "r0", "measurement": 1.0, "applied": None, "reference": None}),
    "fleet": (hc.fleet, {"policy": POLICY, "count": 2, "seed": 0, "start": 0.0, "start_index": None, "like": None}),
    "fleet.ask": (hc.fleet(POLICY, 2).ask, {"contexts": 0.0, "mask": None, "allowed": None}),
    "fleet.tell": (fleet_told, {"measurements": [1.0, 2.0], "call": None}),
    "fleet.arrays_of": (hc.fleet(POLICY, 2).arrays_of, {"member": 0}),
    "simulate": (
        hc.simulate,
        {"policy": hc.md_known(WORLD.problem), "world": WORLD, "contexts": WORLD.contexts, "start": 0, "episodes": 1},
    ),
    "SyntheticWorld.sample": (hc.SyntheticWorld.sample, {"seed": 0, "grid": 3, "contexts": 4, "rho": 1.0}),
    "SyntheticWorld": (hc.SyntheticWorld, {name: getattr(WORLD, name) for name in WORLD.__dataclass_fields__}),
    "measure": (WORLD.measure, {"round": 0, "context": WORLD.contexts[0], "action": 0, "noise": 0.0}),
    "context_sequence": (WORLD.context_sequence, {"kind": "walk", "seed": 0, "rounds": 5}),
    "measurement_noise": (hc.measurement_noise, {"seed": 0, "round": 0}),
    "approximate_regret": (hc.approximate_regret, {"run": RUN, "alpha": 1.0, "beta": 0.0}),
    "ratio_to_optimum": (hc.ratio_to_optimum, {"run": RUN}),
    "theorem_quantities": (hc.theorem_quantities, {"run": RUN, "norm_bound": 1.0, "delta": 0.05}),
    "check_model": (hc.check_model, {"problem": LINE, "history": PAST, "folds": 3, "noise_std": 0.1}),
    "check_tree": (hc.testing.check_tree, {"tree": TREE, "problem": LINE}),
    "read_readings": (
        hc.read_readings,
        {"source": TABLE, "action": "setting", "cost": "kwh", "context": "load", "time": "time"}
        | {"bins": None, "named": False, "decimal": None, "thousands": None, "timezone": None, "missing": None}
        | {"duplicates": "refuse", "header_line": None},
    ),
    "Readings.about": (hc.read_readings(TABLE, action="setting", cost="kwh", context="load").about, {"problem": LINE}),
    "LoggedWorld": (LoggedWorld.check, {"problem": LINE, "readings": PAST, "rho": 1.0}),
    "plan_trial": (
        hc.plan_trial,
        {"policy": FREE, "baseline": hc.stationary(WORLD.problem), "world": WORLD, "contexts": WORLD.contexts}
        | {"gain": 5.0, "hours": 1.0, "blocks": [4], "noise": 0.1, "start": 0},
    ),
    "replay": (hc.replay, {"path": "no.log", "maker": "gp-md"}),
    "verify": (hc.audit.verify, {"path": "no.log"}),
    "connect": (hc.connect, {"url": "http://127.0.0.1:9", "token": None, "patience": 1.0, "timeout": 1.0}),
}
LONG = {("context_sequence", "rounds")}  # a number of rounds that no memory holds is numpy's to refuse


@pytest.mark.parametrize("name", CALLS)
def test_what_is_wrong_is_said_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, usual = CALLS[name]
    for argument in usual:
        for odd in ODD:
            if (name, argument) in LONG and isinstance(odd, int) and odd > 1e9:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", hc.FitWarning)
                warnings.filterwarnings("ignore", "Warning: converting a masked element to nan")
                said = error_of(lambda given: call(**{**usual, **given}), {argument: odd})
            assert said is None or ("\n" not in said and len(said) > 15), (argument, odd, said)


def error_of(call, given):
    """What an error of ours says; None if there was none. Any other error is a fault."""
    try:
        call(given)
    except HoldcourseError as error:
        return str(error)
    return None


# -- what was taken without a word ------------------------------------------------------------------------------------


def test_what_is_masked_is_missing():
    """What lies under numpy's mask is the filler of a file, such as 1e20."""
    gaps = np.ma.array([0.2, 1e20], mask=[False, True])
    for refused in (
        lambda: hc.History([0, 1], gaps, [1.0, 2.0]),
        lambda: hc.History([0, 1], [0.1, 0.2], gaps),
        lambda: hc.fit_kernel(LINE, [0, 1], [0.1, 0.2], gaps),
        lambda: hc.simulate(hc.md_known(WORLD.problem), WORLD, gaps),
        lambda: hc.Controller(POLICY, start=0.0).ask(context=gaps[1:]),
        lambda: hc.optimal_path(np.ma.array(COSTS, mask=COSTS > 0.5), LINE),
        lambda: hc.Problem(gaps),
    ):
        with pytest.raises(InvalidInput, match=r"nan"):
            refused()
    masked, missing = hc.fleet(POLICY, 2), hc.fleet(POLICY, 2)
    for fleet, measured in ((masked, gaps), (missing, [0.2, NAN])):  # the second member measured nothing
        fleet.ask(contexts=0.0)
        fleet.tell(measured)
    for name, array in missing.arrays().items():
        np.testing.assert_array_equal(masked.arrays()[name], array)


def test_a_state_of_another_shape_is_refused():
    """The compiled kernel would read beyond its end."""
    for call in (hc.mirror.leaf_probabilities, hc.mirror.vertex_probabilities):
        with pytest.raises(InvalidInput, match=r"the state must have shape .* mirror\.start"):
            call(TREE, BEFORE[:2])
    for wrong in (BEFORE[:2], np.full(len(BEFORE), 0.5), np.where(BEFORE > 0, NAN, BEFORE), -BEFORE):
        with pytest.raises(InvalidInput, match=r"the state must .* mirror\.start"):
            hc.mirror.descend(TREE, wrong, COSTS[0])
        with pytest.raises(InvalidInput, match=r"the state must .* mirror\.start"):
            hc.mirror.step(TREE, wrong, 0, COSTS[0], 0.5)
    assert hc.mirror.leaf_probabilities(TREE, BEFORE.tolist()).tolist() == P.tolist()
    with pytest.raises(InvalidInput, match="the state must have shape"):
        hc.coupling.sample_from_states(TREE, BEFORE, BEFORE[:2], 0, 0.5)


def test_small_whole_numbers_do_not_overflow():
    ends = np.array([-100, 100], dtype=np.int8)
    assert hc.Problem(ends, lambda a, b: abs(a - b)).distance(0, 1) == 200.0
    values = hc.resolution(*ends, length_scale=np.int16(300), deviation=np.int8(2))
    assert values.tolist() == hc.resolution(-100.0, 100.0, length_scale=300.0, deviation=2.0).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WORLD.measure(0, WORLD.contexts[0], -1, 0.0), "-1 is not an index"),
        (lambda: hc.measurement_noise(0, 1.5), "round must be a whole number"),
        (lambda: hc.SyntheticWorld.sample(seed=None), "seed must be a whole number"),
        (lambda: WORLD.context_sequence("walk", 5, seed=None), "seed must be a whole number"),
        (lambda: hc.md_known(None), "problem must be a Problem"),
        (lambda: hc.Policy(None, hc.rules.Greedy(LINE), hc.costs.KnownCosts(LINE), LINE), "must be text"),
        (lambda: hc.rules.Greedy(None), "problem must be a Problem"),
        (lambda: hc.rules.WorkFunction(3), "problem must be a Problem"),
        (lambda: hc.rules.Stay(LINE, 4), "4 is not an index from 0 to 3"),
        (lambda: hc.rules.MirrorDescent(hc.Problem([0.0, 1.0]), TREE), "the tree has 4 actions, but the problem has 2"),
        (
            lambda: hc.Policy("x", hc.rules.Greedy(LINE), hc.costs.KnownCosts(LINE), WORLD.problem),
            "the rule of x was made for 4 actions, but the problem has 9",
        ),
        (
            lambda: hc.Policy("x", hc.rules.Greedy(LINE), hc.costs.KnownCosts(WORLD.problem), LINE),
            "the cost model of x was made for 9 actions, but the problem has 4",
        ),
        (lambda: hc.simulate(hc.md_known(WORLD.problem), WORLD, [], progress=True), "progress must be a function"),
        (lambda: hc.optimal_path(COSTS, LINE, np.timedelta64(1, "h")), "is not an index"),
        (lambda: hc.Problem([0.0, 1.0], scale=np.datetime64("2020-01-01")), "scale must be numbers"),
    ],
)
def test_what_no_result_can_come_of_is_refused_at_once(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_function_is_not_drawn_at_more_points_than_can_be():
    for sizes in ({"grid": 10**9}, {"contexts": 10**9}):
        with pytest.raises(TooLarge):
            hc.SyntheticWorld.sample(**sizes)


def test_tables_are_shown_in_one_line():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInput, match=r"got a 0 1\.0 1 2\.0$"):
        hc.Problem([0.0, 1.0], fixed_cost=pandas.DataFrame({"a": [1.0, 2.0]}))


def test_a_plan_is_refused_before_anything_runs():
    def never(*given):
        raise AssertionError("it ran")

    for options in ({"gain": -1.0}, {"hours": 0.0}, {"blocks": []}, {"blocks": "4"}, {"rehearsals": -1}):
        with pytest.raises(InvalidInput, match=f"{next(iter(options))} "):
            hc.plan_trial(FREE, hc.stationary(WORLD.problem), WORLD, WORLD.contexts, progress=never, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem": None}, "problem must be a Problem"),
        ({"readings": None}, "readings must come from hc.read_readings"),
        ({"policies": "planner"}, "policies must be a list of names, .* got 'planner'"),
        ({"policies": [POLICY]}, "policies must be a list of names"),
        ({"context_names": "load"}, "context_names must be a list of names"),
        ({"step_hours": -1}, "step_hours must be above 0, .* got -1"),
        ({"step_hours": NAN}, "step_hours must be above 0, .* got nan"),
        ({"price": "0.3"}, "price must be 0 or more, .* got '0.3'"),
        ({"price": NAN}, "price must be 0 or more, .* got nan"),
        ({"currency": 3}, "currency must be text"),
        ({"rho": np.inf}, "rho must be positive, got inf"),
    ],
)
def test_a_backtest_with_terms_that_mean_nothing_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        hc.backtest_plant(**{"problem": LINE, "readings": PAST, **options})


@pytest.mark.parametrize("listed", [tuple, np.array, set])
def test_names_of_a_backtest_may_be_in_any_list(listed):
    random = np.random.default_rng(1)
    rows = hc.History(random.integers(4, size=40), random.random((40, 1)), random.random(40))
    names = {"policies": listed(["stationary"]), "context_names": listed(["load"])}
    found = hc.backtest_plant(LINE, rows, **names)
    assert "stationary" in {line.policy for line in found.lines}


# -- parts that somebody else has written -----------------------------------------------------------------------------


class Own:
    """A rule whose step returns what it is given, and a world of this cost and this measurement."""

    problem = LINE

    def __init__(self, cost=None, measurement=1.0, choice=None):
        self.cost, self.measurement, self.choice = cost, measurement, choice

    def begin(self, action, seed, round=0):  # noqa: A002
        return hc.rules.RuleState(action, round, seed, {})

    def step(self, state, view):
        return self.choice(state) if callable(self.choice) else self.choice

    def describe(self):
        return {"rule": "Own"}

    def costs(self, round, context):  # noqa: A002
        return self.cost

    def measure(self, round, context, action, noise):  # noqa: A002
        return self.measurement


def chosen(action, probabilities):
    return lambda state: hc.rules.Choice(replace(state, action=action, round=state.round + 1), probabilities)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (None, r"step of the rule Own must return a Choice\(state, probabilities\), got None"),
        (2, r"must return a Choice\(state, probabilities\), got 2"),
        (chosen(9, np.eye(4)[1]), "must return an action from 0 to 3, a whole number, got 9"),
        (chosen(1.0, np.eye(4)[1]), "must return an action from 0 to 3, a whole number, got 1.0"),
        (chosen(1, np.ones(3)), r"must return probabilities of shape \(4,\), got \(3,\)"),
    ],
)
def test_a_rule_that_chooses_nothing_is_named(choice, message):
    policy = hc.Policy("mine", Own(choice=choice), hc.costs.KnownCosts(LINE), LINE)
    controller = hc.Controller(policy, start=0.0)
    with pytest.raises(InvalidInput, match=message):
        controller.ask(costs=[1.0, 2.0, 3.0, 4.0])
    assert controller.round == 0
    with pytest.raises(InvalidInput, match=message):
        hc.simulate(policy, Own(cost=np.ones(4)), [0.1])
    allowed = hc.Policy("mine", Own(choice=chosen(np.int64(2), np.eye(4)[2])), hc.costs.KnownCosts(LINE), LINE)
    assert hc.Controller(allowed, start=0.0).ask(costs=[1.0, 2.0, 3.0, 4.0]).value == 2.0


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (Own(cost="abc"), "the world's costs of round 0 must be numbers, .* got 'abc'"),
        (Own(cost=[[1], [2, 3], 1, 2]), "costs of round 0 must be numbers, all rows of the same length"),
        (Own(cost=np.ones(4) * 1j), "costs of round 0 must be numbers"),
        (Own(cost=np.ma.array(np.ones(4), mask=[0, 1, 0, 0])), "the cost nan for action 1 in round 0"),
        (Own(cost=np.full(4, np.inf)), "forbids every action in round 0"),
        (Own(cost=np.ones(4), measurement="1.5"), "measure gave '1.5' for action 0 in round 0"),
        (Own(cost=np.ones(4), measurement=True), "measure gave True for action 0"),
        (Own(cost=np.ones(4), measurement=np.ones(1)), r"measure gave \[1.0\] for action 0"),
    ],
)
def test_a_world_that_gives_no_numbers_is_named(world, message):
    with pytest.raises(InvalidInput, match=message):
        hc.simulate(POLICY, world, [0.1, 0.2])


def test_a_record_that_is_taken_for_another_file_is_named(tmp_path):
    with hc.Controller(POLICY, start=0.0, log=tmp_path / "mill.log") as controller:
        controller.tell(controller.ask(context=0.5).id, 1.0)
    for wrong in (hc.load_policy, hc.fleet(POLICY, 2).load):
        with pytest.raises(InvalidInput, match=r"mill\.log is a record of a controller.*Controller\.resume"):
            wrong(tmp_path / "mill.log")
