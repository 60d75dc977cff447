"""Grids of knobs: numbers, steps and names with prices of their own decide as a dense matrix of the same costs does."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF
from tests.oracles import knobs as oracle

import holdcourse as hc
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.movement import offline
from holdcourse.movement.steps import longest_step

WORDS = ("red", "green", "blue", "amber", "mauve")
TRIANGLE = [[0, 2, 3], [2, 0, 4], [3, 4, 0]]


@st.composite
def knob_lists(draw):
    """A few knobs of all kinds; whole prices, so that sums are exact in any order."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        count, price = draw(st.integers(1, 4)), float(draw(st.integers(1, 5)))
        together = draw(st.sampled_from(["", "", "restart"]))
        numbers = sorted(draw(st.sets(st.integers(-4, 9), min_size=count, max_size=count)))
        many = WORDS[:count]
        match draw(st.sampled_from(["unit", "step", "steps", "change", "numbers", "matrix", "plain"])):
            case "unit":
                found.append(hc.knob(numbers, per_unit=price, together=together))
            case "step":
                found.append(hc.knob(many, per_step=price, together=together))
            case "steps":
                found.append(hc.knob(numbers, per_step=[price + k for k in range(count - 1)], together=together))
            case "change":
                found.append(hc.knob(many, change=price, together=together))
            case "numbers":
                found.append(hc.knob(numbers, change=price, together=together))
            case "matrix":
                found.append(hc.knob(WORDS[:3], change=TRIANGLE, together=together))
            case "plain":
                found.append(hc.knob(numbers[::-1]))
    return found


def both(knobs, fixed_cost=0.0, metric="cityblock"):
    """The problem by its knobs, and by the dense matrix of the same costs."""
    sparse = hc.Problem(hc.grid(**{f"k{i}": k for i, k in enumerate(knobs)}), metric, fixed_cost=fixed_cost)
    return sparse, hc.Problem(metric=oracle.matrix(knobs, fixed_cost=fixed_cost, at_once=metric == "chebyshev"))


@settings(max_examples=60)
@given(knob_lists(), st.sampled_from([0.0, 2.0]), st.sampled_from(["cityblock", "chebyshev"]), st.integers(0, 999))
def test_costs_trees_paths_and_limits_are_those_of_the_dense_matrix(knobs, fixed_cost, metric, seed):
    sparse, dense = both(knobs, fixed_cost, metric)
    assert np.array_equal(sparse.distances, dense.distances)
    rng = np.random.default_rng(seed)
    points = sparse.points
    for action in rng.integers(sparse.n, size=3).tolist():
        assert np.array_equal(points.row(action), dense.distances[action])
        permitted = rng.random(sparse.n) < 0.5
        permitted[rng.integers(sparse.n)] = True
        assert points.nearest(action, permitted) == dense.nearest(action, permitted)
        assert sparse.index(sparse.value(action)) == action
        assert hc.Problem.from_data(json.loads(json.dumps(sparse.describe()))).fingerprint == sparse.fingerprint
    if sparse.n > 1:
        assert points.diameter == dense.diameter
        others = np.where(np.eye(sparse.n, dtype=bool), np.inf, dense.distances)
        assert np.array_equal(points.nearest_others, others.min(axis=1)[points.action])
    one, other = hc.frt_tree(sparse, seed=seed), hc.frt_tree(dense, seed=seed)
    assert np.array_equal(one.parent, other.parent)
    assert np.array_equal(one.weight, other.weight)
    costs = rng.integers(0, 6, size=(6, sparse.n)).astype(float)
    best = hc.optimal_path(costs, dense, start=0)
    for method in ("auto", "dense", "pruned", "search"):
        found = hc.optimal_path(costs, sparse, start=0, method=method)
        assert np.array_equal(found.actions, best.actions)
        assert found.total == best.total
    moves = offline.KnobMoves.find(sparse)
    if moves is not None:
        values = rng.integers(0, 9, size=sparse.n).astype(float)
        assert np.array_equal(moves.relax(values), (values[:, None] + dense.distances).min(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("together", ["", "restart"])
def test_the_tree_of_a_thousand_settings_is_that_of_the_dense_matrix(together):
    """So many that boxes are halved several times by every kind of knob."""
    knobs = [
        hc.knob(range(7), per_unit=1.0),
        hc.knob(["a", "b", "c", "d", "e"], change=30.0, together=together),
        hc.knob([3, 1, 2, 9, 4], change=30.0, together=together),
        hc.knob(WORDS[:3], change=TRIANGLE),
        hc.knob([1], per_step=5.0),
        hc.knob([False, True], change=1.0),
    ]
    sparse, dense = both(knobs)
    for seed in range(3):
        one, other = hc.frt_tree(sparse, seed=seed), hc.frt_tree(dense, seed=seed)
        assert np.array_equal(one.parent, other.parent)
        assert np.array_equal(one.weight, other.weight)


@settings(max_examples=12)
@given(knob_lists(), st.sampled_from([0.0, 2.0]), st.integers(0, 999))
def test_policies_decide_as_on_the_dense_matrix(knobs, fixed_cost, seed):
    sparse, dense = both(knobs, fixed_cost)
    kernel = hc.Kernel(RBF(1.5), RBF(0.4))
    same = hc.Kernel(kernel.action_covariance(sparse), RBF(0.4))
    limits = hc.Limits(max_step_cost=float(np.quantile(dense.distances, 0.8)))
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=sparse.n)
    for maker, options in (
        (hc.gp_md, ({"kernel": kernel}, {"kernel": same})),
        (
            hc.planner,
            (
                {"kernel": kernel, "max_step_cost": limits.max_step_cost},
                {"kernel": same, "max_step_cost": limits.max_step_cost},
            ),
        ),
    ):
        one = hc.Controller(maker(sparse, **options[0]), start_index=0, seed=seed, limits=limits)
        other = hc.Controller(maker(dense, **options[1]), start_index=0, seed=seed, limits=limits)
        for context in rng.random(5):
            a, b = one.ask(context), other.ask(context)
            assert (a.action, a.movement) == (b.action, b.movement)
            assert np.allclose(a.probabilities, b.probabilities, rtol=0, atol=1e-9)
            for controller, decision in ((one, a), (other, b)):
                controller.tell(decision.id, float(truth[a.action] + context))


def database():
    return hc.grid(
        shared_buffers_gb=hc.knob([1, 2, 4, 8], change="30 s", together="restart"),
        max_connections=hc.knob([50, 100, 200], change="30 s", together="restart"),
        work_mem_mb=hc.knob([4, 16, 64], change="1 s"),
        compression=hc.knob(["lz4", "zstd", "none"], change="1 s"),
        log=hc.knob(["quiet", "normal", "loud"], per_step="0.5 s"),
        sync=hc.knob([True, False], change="1000 ms"),
    )


def test_settings_by_name_everywhere():
    problem = hc.Problem(database(), cost_unit="s")
    setting = {"shared_buffers_gb": 4, "max_connections": 100, "work_mem_mb": 16}
    setting |= {"compression": "zstd", "log": "loud", "sync": False}
    action = problem.index(setting)
    assert problem.value(action) == setting
    text = "shared_buffers_gb 4, max_connections 100, work_mem_mb 16, compression zstd, log loud, sync False"
    assert problem.text(action) == text
    from holdcourse.movement.settings import read

    assert read(problem, text) == action
    assert (
        read(
            problem, "sync=False, log=loud, compression=zstd, work_mem_mb=16, max_connections=100, shared_buffers_gb=4"
        )
        == action
    )
    with pytest.raises(InvalidInput, match=r"compression='lzma' is not one of its values, \['lz4', 'zstd', 'none'\]"):
        problem.index({**setting, "compression": "lzma"})
    elsewhere = problem.index({**setting, "shared_buffers_gb": 1, "max_connections": 50, "log": "quiet", "sync": True})
    assert problem.distance(action, elsewhere) == 30.0 + 1.0 + 1.0
    decision = hc.Controller(hc.planner(problem, kernel=hc.Kernel(RBF(1.0))), start=setting).ask(0.0)
    assert decision.value == problem.value(decision.action)


def test_a_category_is_the_same_or_not():
    problem = hc.Problem(
        hc.grid(
            size=hc.knob([1, 2], per_unit=1.0),
            codec=hc.knob(WORDS[:3], change=1.0),
            sync=hc.knob([True, False], change=1.0),
        )
    )
    assert problem.features.shape == (12, 1 + 3 + 1)
    covariance = hc.Kernel(RBF(1.0)).action_covariance(problem)
    at = lambda size, codec, sync: problem.index({"size": size, "codec": codec, "sync": sync})  # noqa: E731
    here = at(1, "red", True)
    apart = np.exp(-0.5)
    assert covariance[here, at(1, "green", True)] == pytest.approx(apart)
    assert covariance[here, at(1, "blue", True)] == pytest.approx(apart)
    assert covariance[here, at(1, "red", False)] == pytest.approx(apart)
    assert covariance[here, at(2, "blue", False)] == pytest.approx(apart**3)


def test_features_of_a_large_mixed_grid_are_those_of_its_kernel():
    from holdcourse.learning.posteriors.features import axis_covariances, product_features

    problem = hc.Problem(
        hc.grid(size=[1, 2, 3, 4], codec=hc.knob(WORDS, change=1.0), sync=hc.knob([True, False], change=1.0))
    )
    kernel = hc.Kernel(RBF([2.0, *[0.8, 0.9, 1.0, 1.1, 1.2], 1.5]))
    phi = product_features(axis_covariances(problem, kernel), 1e-9)
    assert np.allclose(phi @ phi.T, kernel.action_covariance(problem), atol=1e-8)


def test_a_fitted_kernel_tells_categories_apart():
    problem = hc.Problem(hc.grid(size=[1, 2, 3], codec=hc.knob(WORDS[:4], change=1.0)))
    rng = np.random.default_rng(3)
    level = dict(zip(WORDS, (0.0, 3.0, -2.0, 1.0, 0.0), strict=True))
    actions = rng.integers(problem.n, size=80)
    cost = np.array([level[problem.value(int(a))["codec"]] + 0.1 * problem.value(int(a))["size"] for a in actions])
    fit = hc.fit_kernel(problem, actions, None, cost + 0.1 * rng.normal(size=80), restarts=0)
    covariance = fit.kernel.action_covariance(problem)
    here = problem.index({"size": 2, "codec": "red"})
    assert (
        covariance[here, problem.index({"size": 3, "codec": "red"})]
        > covariance[here, problem.index({"size": 2, "codec": "green"})]
    )


def test_steps_along_knobs():
    problem = hc.Problem(database(), cost_unit="s")
    here = problem.index(problem.value(0))
    within = longest_step(problem, {"work_mem_mb": 12, "log": 1}).within(here)
    reached = {(problem.value(int(k))["work_mem_mb"], problem.value(int(k))["log"]) for k in np.flatnonzero(within)}
    assert reached == {(4.0, "quiet"), (4.0, "normal"), (16.0, "quiet"), (16.0, "normal")}
    with pytest.raises(InvalidInput, match="its values have no order; limit max_step_cost"):
        longest_step(problem, {"compression": 1})
    with pytest.raises(InvalidInput, match="give max_step by name"):
        longest_step(problem, 1.0)


def test_steps_along_knobs_of_many_settings_are_those_of_few():
    knobs = {
        "a": hc.knob(range(8), per_unit=1.0),
        "b": hc.knob(WORDS, change=3.0),
        "c": hc.knob(range(5), per_step=2.0),
    }
    problem = hc.Problem(hc.grid(**knobs))
    step = longest_step(problem, {"a": 2, "c": 1}, 8.0)
    values = np.random.default_rng(0).integers(0, 30, size=(2, problem.n)).astype(float)
    allowed = np.where(step.within_all(), problem.distances, np.inf)
    assert np.array_equal(problem.points.relax(values, step.reach), (values[:, :, None] + allowed).min(axis=1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hc.Problem(hc.grid(a=["x", "y"])), "axis 'a' has names; say what changing it costs"),
        (lambda: hc.knob([1, 2], per_unit=1.0, change=2.0), "a knob has one price, but per_unit and change are given"),
        (lambda: hc.knob(["x", "y"], per_unit=1.0), "per_unit is for numbers"),
        (lambda: hc.knob(["x", "y"], change=0.0), "change must be a positive number"),
        (lambda: hc.knob(["x", "x"], change=1.0), "the value 'x' occurs twice"),
        (lambda: hc.knob(["x, y", "z"], change=1.0), "must be text without"),
        (lambda: hc.knob([1, 2, 3], per_step=[1.0]), "2 prices, one for each step between the 3 values, got 1"),
        (lambda: hc.knob(["x", "y"], change=[[0, 1], [2, 0]]), "the same in both directions"),
        (lambda: hc.grid(a={"values": [1], "cost": 2}), "axis 'a': a knob has values"),
        (lambda: hc.Problem(hc.grid(a=hc.knob([1, 2], change="3 s"))), "say in which unit costs are measured"),
        (lambda: hc.Problem(hc.grid(a=hc.knob([1, 2], change=3.0)), scale="2 s/m"), "prices of their own"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_too_many_columns_are_refused():
    changes = 1.0 - np.eye(31)
    with pytest.raises(TooLarge, match="take 62 columns, but only 60 fit"):
        hc.Problem(hc.grid(a=hc.knob(range(31), change=changes), b=hc.knob(range(31), change=changes)))


def test_prices_are_multiplied_by_the_scale():
    problem = hc.Problem(hc.grid(a=hc.knob([1, 2], change=3.0), b=[1, 5]), scale=0.5)
    assert problem.distance(0, 3) == 0.5 * (3.0 + 4.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hc.knob(["a", float("nan")]), "a number among names must be finite"),
        (lambda: hc.knob(["1", 1]), "the values '1' and 1 look the same"),
        (lambda: hc.knob(["a", 1, 1.0]), "the values 1 and 1.0 look the same"),
        (lambda: hc.knob([True, 1]), "the values True and 1 look the same"),
        (lambda: hc.knob(["True", True]), "the values 'True' and True look the same"),
        (lambda: hc.knob([1, 2], change=[1, 2]), r"a row and a column for each of the 2 values; got shape \(2,\)"),
        (lambda: hc.knob([1, 2], change=[[0, float("nan")], [float("nan"), 0]]), "change must be finite"),
        (lambda: hc.grid(**{"a, b": [1, 2]}), "the name of an axis must not contain , ; or ="),
        (lambda: hc.grid(**{"": [1, 2]}), "the name of an axis"),
        (
            lambda: hc.Problem(hc.grid(a=hc.knob([1, 2], change="soon")), cost_unit="s"),
            "axis 'a': change must be a positive number or a price such as '30 s', got 'soon'",
        ),
        (
            lambda: hc.Problem(hc.grid(a=[1, 2], b=hc.knob([1, 2], per_unit="1 s/MB")), cost_unit="s"),
            "axis 'b': per_unit is a price for each MB; say in which unit the settings are: unit='MB', or a list",
        ),
    ],
)
def test_what_would_be_mistaken_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_numbers_among_names_are_found_as_numbers():
    grid = hc.grid(level=hc.knob(["off", 1, 2.5], change=1.0))
    problem = hc.Problem(grid)
    assert [problem.index({"level": each}) for each in ("off", 1, 1.0, 2.5)] == [0, 1, 1, 2]
    assert grid.index(level=1.0) == 1
    with pytest.raises(InvalidInput, match="is not one of its values"):
        problem.index({"level": True})


def test_the_longer_name_of_an_axis_is_read_first():
    problem = hc.Problem(hc.grid(**{"a": [1, 2], "a b": [1, 2]}))
    assert [problem.text(k) for k in range(4)] == ["a 1, a b 1", "a 1, a b 2", "a 2, a b 1", "a 2, a b 2"]


@pytest.mark.parametrize("step", [1, [1]])
def test_no_step_along_names_without_order(step):
    problem = hc.Problem(hc.grid(a=hc.knob(WORDS, change=1.0)))
    with pytest.raises(InvalidInput, match="max_step does not apply to 'a'"):
        longest_step(problem, step)
    whole = longest_step(problem, {"a": 4}).describe()["max_step"]  # what a limit of other knobs says of this one
    assert longest_step(problem, whole).size == (4.0,)
