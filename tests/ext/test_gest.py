"""The generator of the accelerator community's standard."""

from __future__ import annotations

import importlib
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gest_api import Generator
from gest_api.vocs import VOCS, ContextualVariable, ContinuousVariable, DiscreteVariable
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import HoldcourseError, MissingExtra
from holdcourse.ext.gest import CourseGenerator

KERNEL = hc.Kernel(RBF(0.3), RBF(0.3))
VALLEY = VOCS(
    variables={"k1": [0.0, 1.0], "temperature": "CONTEXTUAL"},
    objectives={"size": "MINIMIZE"},
    constants={"charge": 0.5},
    observables=["current"],
)


def generator(vocs=VALLEY, **options):
    given = {"policy": hc.gp_md, "kernel": KERNEL, "noise_std": 0.05, "scale": 0.2, "points": 5}
    return CourseGenerator(vocs, **(given | options))


def measured(point, noise=0.0):
    """The magnet should follow the temperature."""
    return point | {"size": (point["k1"] - point["temperature"]) ** 2 + noise, "current": 1.0}


def drive(found, rounds, seed=0):
    """Suggest, measure, ingest."""
    rng = np.random.default_rng(seed)
    points = []
    for t in range(rounds):
        found.observe(temperature=0.5 + 0.4 * math.sin(t / 5))
        (point,) = found.suggest(1)
        found.ingest([measured(point, 0.05 * rng.standard_normal())])
        points.append(point)
    return points


def test_importing_without_the_extra_names_the_command(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "gest_api"]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "holdcourse.ext.gest")
    with pytest.raises(MissingExtra, match=re.escape('pip install "holdcourse[gest]"')):
        importlib.import_module("holdcourse.ext.gest")


def test_is_a_generator_of_the_standard():
    found = generator()
    assert isinstance(found, Generator)
    assert found.returns_id
    found.observe(temperature=0.2)
    (point,) = found.suggest()
    assert set(point) == {*VALLEY.variable_names, *VALLEY.constant_names, "_id"}
    assert all(np.isscalar(value) for value in point.values())
    assert point["charge"] == 0.5
    assert found.ingest([measured(point)]) is None
    assert found.finalize() is None


def test_exactly_as_many_points_as_asked_or_an_error():
    found = generator(max_pending=3)
    found.observe(temperature=0.2)
    points = found.suggest(2)
    assert [point["_id"] for point in points] == [0, 1] == found.pending
    with pytest.raises(ValueError, match="cannot suggest 2 points"):
        found.suggest(2)
    assert found.suggest(0) == []
    found.ingest([measured(points[1])])  # in any order
    assert [point["_id"] for point in found.suggest(2)] == [2, 3]
    with pytest.raises(ValueError, match="num_points"):
        found.suggest(-1)


def test_does_what_a_controller_does():
    """The same policy asked and told directly takes the same course."""
    found = generator(start={"k1": 0.0}, seed=4)
    controller = hc.Controller(found.policy, start_index=0, seed=4)
    rng = np.random.default_rng(0)
    for point in drive(found, 40):
        decision = controller.ask([point["temperature"]])
        assert decision.value == {"k1": point["k1"]}
        controller.tell(decision.id, measured(point, 0.05 * rng.standard_normal())["size"])


def test_follows_the_context_by_default():
    """Recommended, with nothing told about the machine: it finds and follows the valley."""
    bills, fixed = [], []
    for scale in (0.01, 0.02, 0.03):  # 80 rounds are few: a single run may stay in the middle by chance
        late = drive(CourseGenerator(VALLEY, points=5, scale=scale), 80)[40:]
        bills += [(point["k1"] - point["temperature"]) ** 2 for point in late]
        fixed += [(0.5 - point["temperature"]) ** 2 for point in late]
    assert np.mean(bills) < 0.6 * np.mean(fixed)


def test_a_gain_is_a_cost_of_the_other_sign():
    gain = VOCS(variables={"k1": [0.0, 1.0], "temperature": "CONTEXTUAL"}, objectives={"charge": "MAXIMIZE"})
    cost, profit = generator(), generator(gain)
    for temperature in np.linspace(0.1, 0.9, 30):
        for found in (cost, profit):
            found.observe(temperature=temperature)
        (one,), (two,) = cost.suggest(1), profit.suggest(1)
        assert one["k1"] == two["k1"]
        size = measured(one)["size"]
        cost.ingest([one | {"size": size}])
        profit.ingest([two | {"charge": -size}])


def test_moving_costs_what_was_said():
    knobs = VOCS(variables={"a": [0.0, 1.0], "b": {1, 2, 4}}, objectives={"f": "MINIMIZE"})
    found = generator(knobs, points={"a": 3}, scale={"b": 2.0}, fixed_cost=0.5, metric="cityblock", kernel="auto")
    assert found.problem.n == 9
    assert found.problem.distance(0, 8) == pytest.approx(0.5 + 1.0 + 2.0 * 3)
    directed = generator(
        knobs, points=3, scale=1.0, metric=lambda x, y: 3.0 * (y["b"] > x["b"]) + (x != y), directed=True
    )
    assert directed.problem.distance(0, 2) == 4.0
    assert directed.problem.distance(2, 0) == 1.0


def test_values_are_the_users_own():
    knobs = VOCS(
        variables={
            "a": ContinuousVariable(domain=[0.0, 1.0], default_value=0.1),
            "b": DiscreteVariable(values={4, 1, 2}),
            "load": ContextualVariable(domain=[0.0, 1.0], default_value=0.3),
        },
        objectives={"f": "MINIMIZE"},
    )
    found = CourseGenerator(knobs, hc.stationary, points=3, start={"b": 4})
    assert found.position == {"a": 0.0, "b": 4}
    (point,) = found.suggest(1)
    assert point == {"a": 0.0, "b": 4, "load": 0.3, "_id": 0}
    assert isinstance(point["b"], int)


def test_contexts_are_read_observed_or_taken_from_the_last_row():
    found = generator()
    with pytest.raises(ValueError, match="the value of 'temperature' is not known"):
        found.suggest(1)
    found.ingest([{"k1": 0.5, "temperature": 0.7, "size": 0.1}])
    (point,) = found.suggest(1)
    assert point["temperature"] == 0.7
    found.ingest([measured(point | {"temperature": 0.8})])
    assert found.suggest(1)[0]["temperature"] == 0.8
    read = generator(context=iter([{"temperature": 0.1}, {"temperature": 0.2}]).__next__, max_pending=2)
    assert [point["temperature"] for point in read.suggest(2)] == [0.1, 0.2]
    with pytest.raises(ValueError, match="not a contextual variable"):
        found.observe(k1=0.5)


def test_past_evaluations_are_learned_and_move_nothing():
    told, untold = generator(), generator()
    rows = [{"k1": k1, "temperature": 0.9, "size": (k1 - 0.9) ** 2} for k1 in np.linspace(0, 1, 5) for _ in range(4)]
    before = told.position
    told.ingest(rows)
    assert told.position == before
    assert told.pending == []
    for found in (told, untold):
        found.observe(temperature=0.9)
    knows = told.explain(told.suggest(1)[0]["_id"])
    guesses = untold.explain(untold.suggest(1)[0]["_id"])
    assert knows.std.max() < guesses.std.max() / 2
    np.testing.assert_allclose(knows.mean, (np.linspace(0, 1, 5) - 0.9) ** 2, atol=0.05)


def test_a_result_is_learned_where_it_was_measured():
    """Other settings than suggested, and another context than assumed."""
    found = generator()
    found.observe(temperature=0.2)
    (point,) = found.suggest(1)
    found.ingest([measured(point | {"k1": 0.98, "temperature": 0.6})])
    assert found.position == {"k1": 1.0}
    found.observe(temperature=0.6)
    why = found.explain(found.suggest(1)[0]["_id"])
    assert np.argmin(why.std) == 4
    assert found.explain(point["_id"]).decision.id == "r0"


def test_a_failed_evaluation_is_skipped():
    found = generator()
    found.observe(temperature=0.2)
    (point,) = found.suggest(1)
    before = found.explain(point["_id"]).std
    found.ingest([measured(point) | {"size": math.nan}])
    np.testing.assert_array_equal(found.explain(found.suggest(1)[0]["_id"]).std, before)


@pytest.mark.parametrize(
    "mark", [{"xopt_error": True}, {"xopt_error": np.True_}, {"_status": SimpleNamespace(name="FAILED")}]
)
def test_what_the_driver_marks_as_failed_is_not_measured(mark):
    """Xopt and Optimas leave the objective out, where there is none."""
    found, silent = generator(), generator()
    for each in (found, silent):
        each.observe(temperature=0.2)
    (point,), (same,) = found.suggest(1), silent.suggest(1)
    found.ingest([{**point, **mark}, {"k1": 0.5, **mark}])  # the second is nothing that was suggested
    silent.ingest([same | {"size": math.nan}])
    assert found.pending == []
    assert found.suggest(1) == silent.suggest(1)
    for other in ({}, {"xopt_error": False}, {"xopt_error": math.nan}):  # a misspelt objective is no failed evaluation
        with pytest.raises(ValueError, match="'size' is not in"):
            found.ingest([{**point, "_id": 1, **other}])


def test_contexts_may_be_left_to_whoever_measures():
    """Xopt takes no result that differs from its suggestion, so a suggestion must not say what will be reported."""
    shown, left_out = generator(), generator(suggest_context=False)
    for temperature in (0.2, 0.5, 0.8):
        for found in (shown, left_out):
            found.observe(temperature=temperature)
        (one,), (two,) = shown.suggest(1), left_out.suggest(1)
        assert two == {name: value for name, value in one.items() if name != "temperature"}
        result = measured(one | {"temperature": temperature + 0.01})
        shown.ingest([result])
        left_out.ingest([two | {"temperature": temperature + 0.01, "size": result["size"]}])
    (one,), (two,) = shown.suggest(1), left_out.suggest(1)
    shown.ingest([measured(one)])
    left_out.ingest([{name: value for name, value in measured(one).items() if name != "temperature"}])  # as assumed
    assert shown.suggest(1)[0]["k1"] == left_out.suggest(1)[0]["k1"]
    np.testing.assert_array_equal(shown.explain(4).mean, left_out.explain(4).mean)


def test_the_same_result_twice_is_fine_and_another_is_not():
    found = generator()
    found.observe(temperature=0.2)
    (point,) = found.suggest(1)
    found.ingest([measured(point)])
    found.ingest([measured(point)])
    with pytest.raises(ValueError, match="another result with _id"):
        found.ingest([measured(point, noise=1.0)])


def test_a_table_with_past_rows_has_no_id_there():
    """Rows of a data frame have the same columns: what has no id holds NaN."""
    found, other = generator(), generator()
    for each in (found, other):
        each.observe(temperature=0.2)
    (point,), (same,) = found.suggest(1), other.suggest(1)
    past = {"k1": 1.0, "temperature": 0.2, "size": 0.6}
    found.ingest([past | {"_id": math.nan}, measured(point)])
    other.ingest([past, measured(same)])
    assert found.pending == []
    assert found.suggest(1) == other.suggest(1)


def test_wrong_results_are_refused_and_change_nothing():
    found = generator()
    found.observe(temperature=0.2)
    (point,) = found.suggest(1)
    good = measured(point)
    for rows, complaint in [
        ([good, good | {"_id": 7}], "no decision 'r7'.*did not suggest are ingested without _id"),
        ([good, good], "the same _id"),
        ([good, {"k1": 0.5, "size": 1.0}], "'temperature' is not in"),
        ([good | {"k1": 3.0}], "not on the grid"),
        ([good | {"temperature": math.inf}], "must be finite"),
        ([good | {"temperature": "warm"}], "'temperature' must be a number, got 'warm'"),
        ([good | {"size": None}], "'size' must be a number, got None; NaN if it was not measured"),
        ([good | {"k1": None}], "'k1' must be a number, got None"),
        ([good | {"_id": "seven"}], "_id must be a whole number, 0 or more, got 'seven'"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            found.ingest(rows)
        assert found.pending == [0]


@pytest.mark.parametrize(
    ("vocs", "options", "complaint"),
    [
        (VOCS(variables={}, objectives={"f": "MINIMIZE"}), {}, "at least one variable"),
        (VOCS(variables={"t": "CONTEXTUAL"}, objectives={"f": "MINIMIZE"}), {}, "at least one variable"),
        (VOCS(variables={"x": [0, 1]}, objectives={}), {}, "one objective"),
        (VOCS(variables={"x": [0, 1]}, objectives={"f": "MINIMIZE", "g": "MINIMIZE"}), {}, "one objective"),
        (VOCS(variables={"x": [0, 1]}, objectives={"f": "EXPLORE"}), {}, "MINIMIZE or MAXIMIZE"),
        (VOCS(variables={"x": {"a", "b"}}, objectives={"f": "MINIMIZE"}), {}, "finite numbers"),
        (VALLEY, {"points": 1}, "2 or more"),
        (VALLEY, {"scale": {"k2": 1.0}}, "not one of the settings"),
        (VALLEY, {"start": {"k1": 2.0}}, "not on the grid"),
        (VALLEY, {"start": {"k2": 0.5}}, "start names 'k2', which is not one of the settings"),
        (VALLEY, {"points": {"k2": 5}}, "points names 'k2', which is not one of the settings"),
    ],
)
def test_a_problem_that_does_not_fit_is_refused(vocs, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        generator(vocs, **options)


def test_constraints_are_refused_with_a_remedy():
    vocs = VOCS(variables={"x": [0, 1]}, objectives={"f": "MINIMIZE"}, constraints={"c": ["LESS_THAN", 1.0]})
    with pytest.raises(ValueError, match="cannot be learned here"):
        generator(vocs)


def test_goes_on_where_it_was_saved(tmp_path):
    whole, first, second = generator(seed=3), generator(seed=3), generator(seed=3)
    course = drive(whole, 30)
    rng = np.random.default_rng(0)

    def follow(found, points):
        for point in points:
            found.observe(temperature=point["temperature"])
            (again,) = found.suggest(1)
            assert again == point
            found.ingest([measured(again, 0.05 * rng.standard_normal())])

    follow(first, course[:17])
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    follow(second, course[17:])
    with pytest.raises(HoldcourseError, match="its seed is 3"):
        generator(seed=4).load(tmp_path / "state")


def test_limits_hold():
    found = generator(limits=hc.Limits(max_step_cost=0.2 * 0.25), start={"k1": 0.0})
    places = [0.0] + [point["k1"] for point in drive(found, 40)]
    assert max(np.abs(np.diff(places))) <= 0.25 + 1e-12
