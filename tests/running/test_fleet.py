"""Fleets decide as single controllers do, to the last bit; on other arrays up to rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.driving import operation_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse._numeric import lockstep_arrays as arrays
from holdcourse.deciding.rules import uniform
from holdcourse.errors import InvalidInput, NoActionLeft, TooLarge
from holdcourse.learning.lockstep import costs_together
from holdcourse.wind.physics import curve_family, table_curve, wind_world
from holdcourse.wind.policy.candidates import Candidates
from holdcourse.wind.policy.climate import GeneralWind, general_climate
from holdcourse.wind.policy.planner import planned
from holdcourse.wind.policy.policies import Past, Setting, wind_planner
from holdcourse.wind.policy.policies import gp_md as wind_gp_md

HOURS = np.arange(24.0)
COUNT = 7


POWERS = np.minimum(100.0, np.arange(3.0, 26.0) ** 3 / 20)
CURVES = {
    "table": table_curve(np.arange(3.0, 26.0), POWERS),
    "family": curve_family([50.0, 500.0], np.arange(3.0, 26.0), [POWERS, 0.8 * POWERS]),
}


def wind_setting(curve=None):
    random = np.random.default_rng(3)
    altitudes, rounds = np.linspace(50.0, 500.0, 10), 900
    time = np.datetime64("2010-03-01T00") + np.arange(rounds)
    modes = np.array([np.ones(10), np.linspace(-1.0, 1.0, 10)])
    state, speed = np.zeros(2), np.empty((rounds, 10))
    for t in range(rounds):
        state = 0.95 * state + 0.5 * random.normal(size=2)
        speed[t] = np.maximum(8.0 + np.log(altitudes / 100.0) + state @ modes + 0.2 * random.normal(size=10), 0.0)
    world = wind_world(time, altitudes, speed, movement="physical", curve=curve)
    return Setting(world, Past(world.hours[:600], speed[:600], world.moments[:600]))


def plain_policy(**options):
    problem = hc.Problem(np.linspace(0.0, 3.0, 7))
    kernel = hc.Kernel(RBF(1.0), RBF(6.0))
    return hc.gp_md(problem, **{"kernel": kernel, "contexts": HOURS, **options})


def policy_and_contexts(name):
    if name == "gp-md, forgetting":
        return plain_policy(forgetting=0.98, maximise=True), HOURS
    if name == "gp-md, one tree":
        return plain_policy(tree_seed=3, context_bounds=(0.0, 24.0), contexts=None), HOURS
    setting = wind_setting(CURVES.get(name.rpartition(", ")[2]))
    if name.startswith("wind-planner"):
        return wind_planner(setting), setting.world.moments[600:]
    return wind_gp_md(setting), setting.world.hours[600:]


def same(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f"), name


# The random numbers of a round are products whose upper half is lost: compiled, in silence; plain Python warns.
wraps_around = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

KINDS = [
    pytest.param("gp-md, forgetting", marks=pytest.mark.kernel),
    pytest.param("gp-md, one tree", marks=pytest.mark.kernel),
    "gp-md, wind",
    pytest.param("gp-md, wind, table", marks=pytest.mark.kernel),
    pytest.param("wind-planner", marks=pytest.mark.kernel),
    "wind-planner, table",
    "wind-planner, family",
]


@wraps_around
@pytest.mark.parametrize("name", KINDS)
def test_members_are_single_controllers_to_the_last_bit(name, tmp_path):
    policy, contexts = policy_and_contexts(name)
    n, random = policy.problem.n, np.random.default_rng(1)
    starts = (np.arange(COUNT) * 3) % n
    fleet = hc.fleet(policy, COUNT, seed=40, start_index=starts.tolist())
    assert fleet.in_lockstep
    single = [hc.Controller(policy, start_index=int(starts[k]), seed=40 + k) for k in range(COUNT)]
    offset, moved = random.integers(0, 5, COUNT), 0
    for t in range(30):
        at = contexts[(t * 3 + offset) % len(contexts)]
        mask = random.random(COUNT) > 0.25
        allowed = random.random((COUNT, n)) > 0.4
        allowed[:, 0] = True
        allowed = allowed if t % 2 else np.ones((COUNT, n), dtype=bool)
        found = fleet.ask(at, allowed=allowed, mask=mask)
        measured = 8.0 + np.sin(found.action + np.arange(COUNT)) + random.normal(size=COUNT)
        nothing = random.random(COUNT) < 0.15
        fleet.tell(np.where(nothing, np.nan, measured))
        for k in range(COUNT):
            if not mask[k]:
                assert (found.round[k], found.movement[k]) == (-1, 0.0)
                assert np.isnan(found.probabilities[k]).all()
                continue
            decision = single[k].ask(float(at[k]), allowed=allowed[k])
            assert decision.action == found.action[k]
            assert np.array_equal(decision.probabilities, found.probabilities[k])
            assert decision.expected_cost == found.expected_cost[k]
            assert (decision.movement, decision.round) == (found.movement[k], found.round[k])
            single[k].tell(decision.id, None if nothing[k] else float(measured[k]))
            moved += decision.movement > 0
        if t == 14:  # a fleet that is saved in the middle goes on as if nothing had happened
            fleet.save(tmp_path / "fleet")
            fleet = hc.fleet(policy, COUNT, seed=40, start_index=starts.tolist()).load(tmp_path / "fleet")
    assert moved > 10
    for k in range(COUNT):
        same(operation_of(single[k]).session.pilot.arrays(), fleet.arrays_of(k))


def test_other_policies_take_turns_and_decide_alike(tmp_path):
    problem = hc.Problem([0.0, 0.5, 1.0])
    policy = hc.planner(problem, kernel=hc.Kernel(RBF(1.0), RBF(1.0)))
    fleet = hc.fleet(policy, 3, seed=[5, 9, 7])
    assert not fleet.in_lockstep
    assert "taking turns" in repr(fleet)
    single = [hc.Controller(policy, seed=seed) for seed in (5, 9, 7)]
    for t in range(6):
        found = fleet.ask(0.1 * t)
        for k, controller in enumerate(single):
            decision = controller.ask(0.1 * t)
            assert decision.action == found.action[k]
            assert decision.expected_cost == found.expected_cost[k]
            controller.tell(decision.id, float(decision.action == 1))
        fleet.tell((found.action == 1).astype(float))
        if t == 2:
            fleet.save(tmp_path / "fleet")
            fleet = hc.fleet(policy, 3, seed=[5, 9, 7]).load(tmp_path / "fleet")
    for k, controller in enumerate(single):
        same(operation_of(controller).session.pilot.arrays(), fleet.arrays_of(k))


def test_members_with_many_settings_take_turns_and_decide_alike(monkeypatch):
    """Large trees are stepped by another kernel, which rounds in another order."""
    monkeypatch.setattr(hc.mirror, "LARGE", 5)
    policy = plain_policy(tree_seed=3)
    fleet, single = hc.fleet(policy, 2, seed=4), [hc.Controller(policy, seed=seed) for seed in (4, 5)]
    assert not fleet.in_lockstep
    for t in range(5):
        found = fleet.ask(float(t))
        for k, controller in enumerate(single):
            decision = controller.ask(float(t))
            assert np.array_equal(decision.probabilities, found.probabilities[k])
            controller.tell(decision.id, float(decision.action) ** 0.5)
        fleet.tell(found.action**0.5)


def refused(fleet, match, call, kind=InvalidInput):
    before = fleet.arrays()
    with pytest.raises(kind, match=match):
        call()
    same(before, fleet.arrays())


def test_bad_questions_and_measurements_change_nothing(tmp_path):
    fleet = hc.fleet(plain_policy(tree_seed=1), 4)
    refused(fleet, "ask it first", lambda: fleet.tell(np.zeros(4), mask=np.ones(4, dtype=bool)))
    fleet.ask([1.0, 2.0, 3.0, 4.0], mask=np.array([True, True, False, False]))
    refused(
        fleet,
        "member 0 and 1 other of those asked still wait for",
        lambda: fleet.ask(1.0),
    )
    refused(fleet, "one for each of 4 members", lambda: fleet.ask(np.zeros(3)))
    refused(fleet, "mask must be 4 booleans", lambda: fleet.ask(1.0, mask=[1, 1, 0, 0]))
    refused(fleet, "member 0 is inf", lambda: fleet.tell([np.inf, 1.0, 1.0, 1.0]))
    refused(fleet, "member 1 is 1e", lambda: fleet.tell([1.0, 1e200, 1.0, 1.0]))
    refused(fleet, "4 numbers", lambda: fleet.tell(1.0))
    fleet.tell([0.5, np.nan, 9.0, 9.0])
    assert fleet.pending.tolist() == [False] * 4
    assert fleet.round.tolist() == [1, 1, 0, 0]
    other = np.array([1.0, 2.0, 30.0, 4.0])
    refused(fleet, r"\[30.0\] of member 2 is not covered", lambda: fleet.ask(other))
    refused(fleet, "allowed must be 7 booleans", lambda: fleet.ask(1.0, allowed=np.ones(6, dtype=bool)))
    refused(
        fleet, "no action is left for member 0", lambda: fleet.ask(1.0, allowed=np.zeros(7, dtype=bool)), NoActionLeft
    )
    refused(fleet, "contexts", lambda: fleet.ask(np.array([1.0, np.nan, 2.0, 3.0])))
    fleet.save(tmp_path / "fleet")
    with pytest.raises(InvalidInput, match="a different set of seeds"):
        hc.fleet(plain_policy(tree_seed=1), 4, seed=9).load(tmp_path / "fleet")
    with pytest.raises(InvalidInput, match="a different policy"):
        hc.fleet(plain_policy(tree_seed=2), 4).load(tmp_path / "fleet")
    with pytest.raises(InvalidInput, match="or 4 of them"):
        hc.fleet(plain_policy(), 4, seed=[1, 2])
    with pytest.raises(InvalidInput, match="count"):
        hc.fleet(plain_policy(), 0)


def test_times_never_go_back():
    setting = wind_setting()
    fleet = hc.fleet(wind_planner(setting), 2)
    now = setting.world.moments[600]
    fleet.ask(now)
    fleet.tell([8.0, 9.0])
    refused(fleet, "member 0: the time", lambda: fleet.ask(now - 1.0))


def test_members_give_up_a_wrong_history_each_for_itself():
    """The history was calm. The wind of some members is as calm; the others drop it, when it shows."""
    world = wind_setting().world
    general = general_climate(world.altitudes)
    calm = replace(general, usual=0.5 * general.usual, variances=0.05 * general.variances)
    policy = planned(
        world.problem,
        wind=Candidates((calm, general)).to_data(),
        curve=world.curve.to_data(),
        scale=1.0,
        interval=1.0,
        horizon=12,
        caution=1.5,
        worth=[np.linspace(1.0, 2.0, 10).tolist(), np.linspace(20.0, 30.0, 10).tolist()],
        known=[500.0, 168.0],
    )
    share, change = np.array([0.5, 1.0, 0.5, 1.2]), np.array([0.05, 1.2, 0.05, 0.9])  # of the usual wind, m/s an hour
    swing, random = np.zeros(4), np.random.default_rng(0)
    fleet, single = hc.fleet(policy, 4), [hc.Controller(policy, seed=k) for k in range(4)]
    for t in range(120):
        hour = world.moments[t - t % 7 // 6]  # now and then an hour is asked twice
        found = fleet.ask(hour)
        swing = 0.97 * swing + change * random.normal(size=4)
        measured = np.maximum(share * general.usual[0, found.action] + swing, 0.0)
        fleet.tell(measured)
        for k, controller in enumerate(single):
            decision = controller.ask(float(hour))
            assert (decision.action, decision.expected_cost) == (found.action[k], found.expected_cost[k])
            controller.tell(decision.id, float(measured[k]))
    for k, controller in enumerate(single):
        same(operation_of(controller).session.pilot.arrays(), fleet.arrays_of(k))
    given_up = fleet.arrays()["models.posterior.since"]
    assert np.isnan(given_up).tolist() == (share == 0.5).tolist()
    assert len(set(given_up[share > 0.5])) == 2


def test_wind_planners_of_earlier_versions_take_turns():
    setting = wind_setting()
    world = setting.world
    wind = GeneralWind(world.altitudes, 8.5).to_data()
    curve = world.curve.to_data()
    policy = planned(world.problem, wind=wind, curve=curve, scale=1.0, interval=1.0, horizon=12, caution=2.5, home=3)
    fleet, single = hc.fleet(policy, 2), hc.Controller(policy)
    assert not fleet.in_lockstep
    for hour in world.moments[600:604]:
        decision = single.ask(float(hour))
        assert fleet.ask(hour).action.tolist() == [decision.action] * 2
        fleet.tell([9.0, 9.0])
        single.tell(decision.id, 9.0)


def array_fleet(policy, like, seed=3, **options):
    return hc.fleet(
        policy, COUNT, seed=seed, start_index=(np.arange(COUNT) % policy.problem.n).tolist(), like=like, **options
    )


@pytest.mark.parametrize("options", [{}, {"forgetting": 0.97, "maximise": True}, {"kappa": 4.0}])
def test_array_fleets_agree_up_to_rounding(options):
    policy = plain_policy(tree_seed=5, **options)
    ours = hc.fleet(policy, COUNT, seed=3, start_index=(np.arange(COUNT) % policy.problem.n).tolist())
    theirs = array_fleet(policy, np.zeros(0))
    random = np.random.default_rng(0)
    for t in range(25):
        places = random.integers(0, len(theirs.contexts), COUNT)
        mask = random.random(COUNT) > 0.3
        allowed = random.random((COUNT, policy.problem.n)) > 0.3
        allowed[:, 2] = True
        found = ours.ask(theirs.contexts[places, 0], allowed=allowed, mask=mask)
        action = theirs.ask(places, allowed=allowed, mask=mask)
        assert action.tolist() == found.action.tolist(), t
        measured = np.where(random.random(COUNT) < 0.2, np.nan, np.cos(action) + random.normal(size=COUNT))
        ours.tell(measured)
        theirs.tell(measured, mask=mask & ~np.isnan(measured))
    state = arrays.State(*theirs.state)
    learned = ours.arrays()
    assert np.allclose(state.w, learned["models.weights"], rtol=1e-9, atol=1e-12)
    lower = np.tril_indices(state.w.shape[1])
    assert np.allclose(
        arrays.settled(state)[:, lower[0], lower[1]], learned["models.covariance"], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("name", ["array_api_strict", "torch", "jax.numpy"])
def test_other_libraries_agree_with_numpy(name):
    """The first one has nothing but what the standard has, and refuses what it leaves open."""
    library = pytest.importorskip(name)
    if name == "jax.numpy":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    policy = plain_policy(tree_seed=5)
    like = library.zeros(0, dtype=library.float64)
    fleets = [array_fleet(policy, np.zeros(0)), array_fleet(policy, like)]
    random = np.random.default_rng(0)
    for _ in range(12):
        places, noise = random.integers(0, 24, COUNT), random.normal(size=COUNT)
        mask, allowed = random.random(COUNT) > 0.3, random.random((COUNT, 7)) > 0.3
        allowed[:, 2] = True
        mine = fleets[0].ask(places, allowed, mask)
        its = fleets[1].ask(*(library.asarray(values) for values in (places, allowed, mask)))
        assert mine.tolist() == np.asarray(its).tolist()
        fleets[0].tell(np.cos(mine) + noise, mask)
        fleets[1].tell(library.asarray(np.cos(mine) + noise), library.asarray(mask))
    assert np.allclose(fleets[0].state[1], np.asarray(fleets[1].state[1]), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tree_seed": None}, "a tree of its own"),
        ({"contexts": None, "context_bounds": (0.0, 24.0), "tree_seed": 1}, "not listed"),
        ({"tree_seed": 1, "every": "episode"}, "plain bounds"),
        ({"tree_seed": 1, "history": [(0, 1.0, 2.0)]}, "history already"),
    ],
)
def test_what_cannot_run_on_arrays_says_why(options, why):
    with pytest.raises(InvalidInput, match=why):
        array_fleet(plain_policy(**options), np.zeros(0))


def test_every_seed_is_looked_at_before_one_tree_serves_all():
    seeds = [3, 3, 5]
    with pytest.raises(InvalidInput, match="a tree of its own"):
        hc.fleet(plain_policy(), 3, seed=seeds, like=np.zeros(0))
    assert hc.fleet(plain_policy(tree_seed=1), 3, seed=seeds, like=np.zeros(0)).seeds == (3, 3, 5)


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_arrays_learn_nothing_from_nan(forgetting):
    policy = plain_policy(tree_seed=1, forgetting=forgetting)
    told, masked = (array_fleet(policy, np.zeros(0)) for _ in range(2))
    for t in range(4):
        action = told.ask(np.full(COUNT, t))
        assert action.tolist() == masked.ask(np.full(COUNT, t)).tolist()
        measured = np.where(np.arange(COUNT) == 2, np.nan, np.cos(action))
        told.tell(measured)
        masked.tell(measured, mask=np.isfinite(measured))
    for one, other in zip(told.state, masked.state, strict=True):
        assert np.isfinite(one).all()
        assert np.array_equal(one, other)


def test_members_that_take_turns_all_learn_or_none(monkeypatch):
    policy = hc.planner(hc.Problem([0.0, 0.5, 1.0]), kernel=hc.Kernel(RBF(1.0), RBF(1.0)))
    fleet = hc.fleet(policy, 3)
    fleet.ask(0.0)
    kind, calls = type(policy.costs), []
    learn = kind.learn

    def failing(model, *measured):
        calls.append(measured)
        if len(calls) == 2:
            raise InvalidInput("the second one cannot")
        return learn(model, *measured)

    monkeypatch.setattr(kind, "learn", failing)
    refused(fleet, "the second one cannot", lambda: fleet.tell([1.0, 2.0, 3.0]))
    fleet.tell([1.0, 2.0, 3.0])
    assert not fleet.pending.any()
    fleet.ask(0.1)


@pytest.mark.parametrize("seed", ["a", None, 1.5, "3"])
def test_a_seed_that_is_none_is_told(seed):
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        hc.fleet(plain_policy(), 2, seed=seed)


@wraps_around
@pytest.mark.kernel
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_random_numbers_are_those_of_the_round(seed, number):
    from holdcourse._numeric import lockstep

    expected, out = uniform(seed, number), np.empty(1)
    lockstep.uniforms(np.array([seed], dtype=np.uint64), np.array([number]), np.array([0]), out)
    halves = arrays.halves([seed])
    assert out[0] == expected
    assert arrays.uniforms(arrays.Library(np.zeros(0)), halves, np.array([number]))[0] == expected


@settings(max_examples=60)
@given(st.integers(2, 14), st.integers(0, 10**6), st.floats(0.01, 100.0), st.booleans())
def test_descent_and_coupling_on_arrays_follow_the_kernels(n, seed, scale, forbid):
    random = np.random.default_rng(seed)
    tree = hc.frt_tree(hc.Problem(np.sort(random.random(n)) + np.arange(n) * 0.01), seed=seed)
    kind = arrays.shared(
        np.zeros(0),
        psi=np.ones((1, 1)),
        phi=np.ones((n, 1)),
        start=np.array([0, 1]),
        column=np.array([0]),
        means=np.zeros((1, n)),
        noise=1.0,
        width=1.0,
        parent=tree.parent,
        weight=tree.weight,
    )
    members = 5
    starts = random.integers(0, n, members)
    q = arrays.begin(kind, starts).q
    assert np.array_equal(q.T, [hc.mirror.start(tree, int(x)) for x in starts])
    for _ in range(4):
        costs = scale * random.random((n, members))
        if forbid:
            costs[random.random(costs.shape) < 0.4] = np.inf
            costs[random.integers(0, n, members), np.arange(members)] = scale * random.random(members)
        expected = np.array([hc.mirror.descend(tree, q[:, b], costs[:, b]) for b in range(members)]).T
        found = arrays.descend(kind, q, costs)
        before, after = (arrays.leaf_probabilities(kind, x) for x in (q, found))
        probabilities = np.array([hc.mirror.leaf_probabilities(tree, row) for row in expected.T]).T
        assert np.allclose(after, probabilities, atol=1e-9)
        numbers = random.random(members)
        drawn = arrays.sample(kind, before, after, starts, numbers)
        assert drawn.tolist() == [
            hc.coupling.sample(tree, before[:, b], after[:, b], int(starts[b]), float(numbers[b]))
            for b in range(members)
        ]
        q, starts = found, drawn


def test_more_members_than_fit_are_refused_before_anything_is_made():
    problem = hc.Problem(np.linspace(0.0, 1.0, 5))
    policy = hc.gp_md(problem, kernel=hc.Kernel(RBF(0.5), RBF(0.3)), context_bounds=(0.0, 1.0))
    with pytest.raises(TooLarge, match=r"at most 10,000,000 members, got 1,000,000,000; make several"):
        hc.fleet(policy, 10**9)
    with pytest.raises(TooLarge, match=r"weights each would take \d+ GB; make smaller fleets"):
        costs_together(policy.costs, 10**7)
