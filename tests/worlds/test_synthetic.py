from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern

from holdcourse.deciding import policy as policies
from holdcourse.errors import InvalidInput
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.movement.problem import Problem
from holdcourse.worlds.simulation import measurement_noise, simulate
from holdcourse.worlds.synthetic import CONTEXT_PROCESSES, SyntheticWorld, context_sequence, draw_function

RHOS = (0.25, 0.5, 1.0, 2.0, 4.0)


def test_the_papers_landscape():
    world = SyntheticWorld.sample(seed=7)
    assert world.problem.n == 400
    assert_array_equal(world.problem.actions[[0, 1, 20, 399]], [[0, 0], [0, 1 / 19], [1 / 19, 0], [1, 1]])
    assert world.contexts.shape == (40, 1)
    assert 0 < world.contexts.min() < world.contexts.max() < 1
    assert world.landscape.shape == (40, 400)
    assert world.landscape.min() == 0
    assert_allclose(world.landscape.mean(), world.problem.distances.mean())
    assert_allclose(world.noise_std, 0.01 * np.ptp(world.landscape))


def test_one_seed_gives_the_same_function_for_every_rho():
    worlds = [SyntheticWorld.sample(seed=3, grid=6, contexts=5, rho=rho) for rho in RHOS]
    unit = worlds[RHOS.index(1.0)]
    for rho, world in zip(RHOS, worlds, strict=True):
        assert_array_equal(world.contexts, unit.contexts)
        assert_allclose(world.landscape, rho * unit.landscape)
        assert_allclose(world.prior_mean, rho * unit.prior_mean)
        assert_allclose(world.kernel.variance, rho**2 * unit.kernel.variance)
        assert_allclose(world.noise_std, rho * unit.noise_std)  # 1 % of the range, the weight included
    assert not np.allclose(SyntheticWorld.sample(seed=4, grid=6, contexts=5).landscape, unit.landscape)


def test_greedy_learning_does_the_same_at_every_rho():
    """Cost, prior and noise scale together, so the total is linear in rho, as in the reference figures."""
    runs = []
    for rho in (0.25, 1.0, 4.0):  # powers of two scale without rounding
        world = SyntheticWorld.sample(seed=3, grid=6, contexts=5, rho=rho)
        known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
        policy = policies.cgp_lcb(world.problem, contexts=world.contexts, **known)
        runs.append(simulate(policy, world, world.context_sequence("iid", 60)))
        assert_array_equal(runs[-1].actions, runs[0].actions)
        assert_allclose(runs[-1].total, runs[0].movement + rho / 0.25 * runs[0].service)


@pytest.mark.parametrize("draws", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_draws_have_the_covariance_of_the_kernel(draws):
    problem, contexts = Problem([[0.0, 0.0], [0.3, 0.1], [0.9, 0.4]]), np.array([[0.1], [0.25], [0.8]])
    kernel = Kernel(RBF(0.2), RBF(0.2), 2.0) + Kernel(Matern(0.5), None, 0.5)
    random = np.random.default_rng(0)
    drawn = np.array([draw_function(problem, contexts, kernel, random).ravel() for _ in range(draws)])
    which, actions = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)
    expected = kernel.covariance(problem, actions, contexts[which])
    assert_allclose(drawn.mean(axis=0), 0.0, atol=5 * np.sqrt(2.5 / draws))
    assert_allclose(drawn.T @ drawn / draws, expected, atol=5 * 2.5 * np.sqrt(2 / draws))


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_kernel_prior_mean_and_noise_describe_the_landscape(rho):
    """The landscape minus its prior mean is the draw times a factor; the variance of the kernel is its square."""
    base = Kernel(RBF(0.2), RBF(0.3), 4.0)
    world = SyntheticWorld.sample(seed=11, grid=5, contexts=6, rho=rho, kernel=base)
    random = np.random.default_rng(11)
    contexts = np.sort(random.random(6))[:, None]
    drawn = draw_function(world.problem, contexts, base, random)
    factor = np.sqrt(world.kernel.variance / base.variance)
    assert_array_equal(world.contexts, contexts)
    assert_allclose(world.landscape - world.prior_mean, factor * drawn, atol=1e-12)


def test_a_learner_with_the_worlds_prior_is_calibrated():
    scores = []
    for seed in range(6):
        world = SyntheticWorld.sample(seed=seed, grid=8, contexts=10, rho=3.0)
        post = posterior(world.problem, world.kernel, world.noise_std, world.prior_mean, contexts=world.contexts)
        random = np.random.default_rng(seed)
        for t in range(60):
            action, context = int(random.integers(world.problem.n)), world.contexts[random.integers(10)]
            post.condition(action, context, world.measure(t, context, action, random.standard_normal()))
        for row, context in enumerate(world.contexts):
            mean, std = post.predict(context)
            scores.append((world.landscape[row] - mean) / std)
    assert 0.85 < np.sqrt(np.mean(np.square(scores))) < 1.15
    assert 0.92 < np.mean(np.abs(scores) < 2.0) < 0.98


def test_measurements_are_the_cost_plus_noise():
    world = SyntheticWorld.sample(seed=1, grid=4, contexts=3, rho=5.0)
    context = world.contexts[1]
    measured = [world.measure(t, context, 6, measurement_noise(0, t)) for t in range(4000)]
    noise = (np.array(measured) - world.costs(0, context)[6]) / world.noise_std
    assert_allclose(noise.mean(), 0.0, atol=5 / np.sqrt(4000))
    assert_allclose(noise.std(), 1.0, atol=5 / np.sqrt(8000))


def test_contexts_are_found_by_value():
    world = SyntheticWorld.sample(seed=1, grid=3, contexts=[0.0, 0.5])
    for same in (0.5, [0.5], np.array([0.5])):
        assert_array_equal(world.costs(3, same), world.landscape[1])
    assert_array_equal(world.costs(0, -0.0), world.landscape[0])
    with pytest.raises(InvalidInput, match="not one of the 2 contexts"):
        world.costs(0, 0.25)
    with pytest.raises(ValueError, match="read-only"):
        world.costs(0, 0.5)[0] = 1.0


def test_other_grids_problems_and_contexts():
    line = SyntheticWorld.sample(grid=(9,), contexts=2)
    assert line.problem.actions.shape == (9, 1)
    box = SyntheticWorld.sample(grid=(2, 3, 4), contexts=[[0.1, 0.2], [0.3, 0.9]], metric="cityblock")
    assert box.problem.n == 24
    assert box.problem.metric_name == "cityblock"
    assert box.context_sequence("iid", 5).shape == (5, 2)
    own = Problem([0.0, 1.0, 5.0])
    covariance = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    world = SyntheticWorld.sample(problem=own, contexts=4, kernel=Kernel(covariance, RBF(0.2)))
    assert world.problem is own
    assert_allclose(world.landscape.mean(), own.distances.mean())
    assert "4 contexts" in repr(world)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rho": 0.0}, "rho must be positive"),
        ({"noise": -0.1}, "noise must be 0 or more"),
        ({"grid": 0}, "grid must be the number of points"),
        ({"grid": (3, 2.5)}, "grid must be the number of points"),
        ({"contexts": 0}, "contexts must be their number"),
        ({"contexts": 2.5}, "contexts must be their number"),
        ({"lengthscale": -1.0}, "lengthscale must be positive"),
        ({"grid": 1, "contexts": 1}, "constant"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    with pytest.raises(InvalidInput, match=message):
        SyntheticWorld.sample(**changed)


# -- context processes -------------------------------------------------------------------------------------------------

LIST = np.linspace(0.1, 0.9, 40)


def places(kind, rounds=2000, seed=0):
    return np.searchsorted(LIST, context_sequence(LIST, kind, rounds, seed).ravel())


@pytest.mark.parametrize("kind", CONTEXT_PROCESSES)
def test_every_process_draws_from_the_list_by_its_seed(kind):
    sequence = context_sequence(LIST, kind, 300, seed=4)
    assert sequence.shape == (300, 1)
    assert set(sequence.ravel()) <= set(LIST)
    assert_array_equal(sequence, context_sequence(LIST, kind, 300, seed=4))
    assert len({context_sequence(LIST, kind, 300, seed=s).tobytes() for s in range(5)}) > 1
    shuffled = np.random.default_rng(0).permutation(LIST)
    assert_array_equal(sequence, context_sequence(shuffled, kind, 300, seed=4))  # the order of the list is no matter
    assert context_sequence(LIST, kind, 0).shape == (0, 1)
    assert set(context_sequence([0.3], kind, 9).ravel()) == {0.3}


def test_iid_visits_all_alike():
    counts = np.bincount(places("iid", 40_000), minlength=40)
    assert ((counts - 1000) ** 2 / 1000).sum() < 39 + 5 * np.sqrt(2 * 39)  # chi squared


def test_walk_takes_small_steps_and_gets_everywhere():
    walk = places("walk", 20_000)
    assert np.abs(np.diff(walk)).max() <= 12  # of 40; 5 deviations are 10
    counts = np.bincount(walk, minlength=40)
    assert counts.min() > 100  # reflected, not absorbed


def test_daily_repeats_after_24_rounds():
    daily = places("daily", 2400).astype(float)
    centred = daily - daily.mean()
    correlation = [np.corrcoef(centred[:-lag], centred[lag:])[0, 1] for lag in (12, 24)]
    assert correlation[0] < -0.9
    assert correlation[1] > 0.9
    assert daily.min() == 0
    assert daily.max() == 39


def test_blocks_hold_a_context_for_25_rounds_in_the_mean():
    blocks = places("blocks", 50_000)
    changes = np.count_nonzero(np.diff(blocks))
    assert_allclose(changes / 50_000, 1 / 25, atol=5 * np.sqrt(1 / 25 / 50_000))
    assert len(set(blocks)) == 40


def test_alternating_is_two_contexts_in_turn():
    alternating = places("alternating", 10)
    assert len(set(alternating)) == 2
    assert_array_equal(alternating[:-2], alternating[2:])


def test_a_sequence_of_ones_own():
    world = SyntheticWorld.sample(seed=1, grid=3, contexts=[0.1, 0.5, 0.7])
    assert world.context_sequence([0.5, 0.5, 0.1]).tolist() == [[0.5], [0.5], [0.1]]
    assert world.context_sequence([0.5, 0.5, 0.1], rounds=2).tolist() == [[0.5], [0.5]]
    with pytest.raises(InvalidInput, match="not one of the 3 contexts"):
        world.context_sequence([0.5, 0.6])
    with pytest.raises(InvalidInput, match="rounds is 4, but the sequence given has 3"):
        world.context_sequence([0.5, 0.5, 0.1], rounds=4)


def test_bad_processes_are_named():
    with pytest.raises(InvalidInput, match="kind 'weekly' is not known; use one of"):
        context_sequence(LIST, "weekly", 5)
    with pytest.raises(InvalidInput, match="rounds must be a whole number, 0 or more, got None"):
        context_sequence(LIST, "iid")
    with pytest.raises(InvalidInput, match="contexts is empty"):
        context_sequence([], "iid", 5)


# -- the paper's comparison, in small; the full counts are in tests/slow ----------------------------------------------


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
def test_order_of_the_papers_policies(rho):
    totals = np.zeros(3)
    for seed in range(2):
        world = SyntheticWorld.sample(seed=seed, rho=rho)
        known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
        contexts = world.context_sequence("iid", 150, seed=seed)
        start = int(np.random.default_rng([seed, 1]).integers(world.problem.n))
        totals += [
            simulate(policy, world, contexts, start, seed).total
            for policy in (
                policies.md_known(world.problem),
                policies.gp_md(world.problem, contexts=world.contexts, **known),
                policies.cgp_lcb(world.problem, contexts=world.contexts, **known),
            )
        ]
    md_known, gp_md, cgp_lcb = totals
    assert md_known < gp_md < cgp_lcb
