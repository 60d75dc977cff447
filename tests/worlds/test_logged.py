"""A world fitted to a record: how near it is to the truth, and what it refuses to answer."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.worlds.logged import LoggedWorld

SETTINGS = np.linspace(4.0, 12.0, 5)


def draws(setting, outdoor):
    return 60.0 + 1.5 * outdoor + 0.8 * (setting - 12.0 + 0.2 * outdoor) ** 2


@pytest.fixture(scope="module")
def problem():
    return hc.Problem(SETTINGS, scale=0.5)


@pytest.fixture(scope="module")
def record():
    random = np.random.default_rng(0)
    actions, outdoor = random.integers(5, size=200), random.uniform(5.0, 35.0, size=200)
    return hc.History(actions, outdoor, draws(SETTINGS[actions], outdoor) + random.normal(0.0, 1.0, size=200))


@pytest.fixture(scope="module")
def world(problem, record):
    return LoggedWorld.fit(problem, record)


def test_close_to_the_truth_where_the_record_is(world, record):
    for context in record.contexts[::20]:
        truth = draws(SETTINGS, context[0])
        assert np.abs(world.costs(0, context) - truth).max() < 2.0
        assert not world.unsure(context).any()


def test_held_out_error_is_that_of_noise(world):
    test = world.held_out
    assert test.rows == 40
    assert 0.7 < test.error < 1.5  # the noise has deviation 1
    assert test.error_of_mean > 5 * test.error
    assert test.useful
    assert 0.75 <= test.coverage <= 1.0


def test_measurements_have_the_models_noise(world, record):
    context = record.contexts[0]
    expected = world.costs(0, context)[2]
    assert world.measure(0, context, 2, 0.0) == expected
    assert world.measure(0, context, 2, 1.0) == pytest.approx(expected + world.noise_std)
    assert world.noise_std == pytest.approx(1.0, rel=0.3)


def test_rho_weighs_costs_and_noise(problem, record, world):
    heavy = LoggedWorld.fit(problem, record, rho=3.0)
    np.testing.assert_allclose(heavy.costs(0, record.contexts[5]), 3 * world.costs(0, record.contexts[5]))
    assert heavy.noise_std == pytest.approx(3 * world.noise_std)


def test_policies_can_be_run_in_it(world, problem):
    run = hc.simulate(hc.minc_known(problem), world, world.contexts, start=0)
    assert run.total > 0
    assert run.optima[0].total <= run.total


def test_settings_never_tried_are_guesses(problem):
    random = np.random.default_rng(1)
    actions = random.integers(2, size=120)  # the two lowest settings only
    outdoor = random.uniform(5.0, 35.0, size=120)
    world = LoggedWorld.fit(problem, hc.History(actions, outdoor, random.normal(size=120) + 5 * (actions == 1)))
    assert world.unsure(outdoor[3])[4]
    assert not world.unsure(outdoor[3])[0]


def test_noise_alone_is_not_useful(problem):
    random = np.random.default_rng(2)
    record = hc.History(random.integers(5, size=100), random.random(100), random.normal(size=100))
    test = LoggedWorld.fit(problem, record).held_out
    assert test.error == pytest.approx(test.error_of_mean, rel=0.2)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.full(50, 3), "only one setting, 10, was ever tried in the 50 rows, so these readings cannot tell"),
        (np.array([0, 1] * 5), "a model of the plant needs .* rows or more, got 10; give a longer period"),
        (np.zeros(0, dtype=int), "no setting was ever tried"),
        (np.array([0, 9] * 20), "belongs to action 9"),
    ],
)
def test_records_that_cannot_answer_are_refused(problem, actions, message):
    with pytest.raises(InvalidInput, match=message):
        LoggedWorld.fit(problem, hc.History(actions, np.arange(len(actions), dtype=float), np.ones(len(actions))))


def test_other_contexts_are_refused(world):
    with pytest.raises(InvalidInput, match=r"not in the readings"):
        world.costs(0, 1234.5)
    with pytest.raises(InvalidInput, match="rho must be positive"):
        LoggedWorld.fit(world.problem, world.readings, rho=0.0)
    assert "200 rows, held-out error" in repr(world)
