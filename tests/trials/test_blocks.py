"""The table of a trial: what counts, for whom, and what is refused."""

import numpy as np
import pytest
from helpers.trial_tables import sample
from hypothesis import given, settings
from hypothesis import strategies as st

from holdcourse.errors import InvalidInput
from holdcourse.trials.answer import answer
from holdcourse.trials.blocks import Blocks, joined


def test_a_table_against_the_obvious_loop():
    given_ = sample(1, pairs=7, length=3)
    given_["cost"][[4, 20]] = np.nan
    table = Blocks(**given_)
    for pair in range(7):
        for which in range(2):
            rows = [t for t in range(42) if given_["block"][t] == 2 * pair + which]
            costs = [given_["cost"][t] for t in rows if not np.isnan(given_["cost"][t])]
            expected = sum(costs) / len(costs) + sum(given_["movement"][t] for t in rows) / 3
            assert table.net[pair, which] == pytest.approx(expected)
        assert table.coins[pair] == (1 if given_["arm"][6 * pair] else -1)
    assert table.lost.sum() == 2


def test_only_whole_pairs_count():
    table = sample(2, pairs=5, length=4)
    short = {name: column[:-1] if isinstance(column, np.ndarray) else column for name, column in table.items()}
    assert Blocks(**short).pairs == 4
    table["cost"][8:12] = np.nan  # a block that nobody measured
    assert Blocks(**table).pairs == 4
    rows = np.arange(40) // 4 != 5  # one that was never begun
    assert Blocks(**{k: v[rows] if isinstance(v, np.ndarray) else v for k, v in table.items()}).pairs == 3
    assert Blocks(block=[], arm=[], cost=[]).pairs == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arm": [0, 0, 0, 0]}, "blocks 0 and 1 are a pair but have the same arm"),
        ({"arm": [0, 1, 1, 0]}, "block 0 has rounds of both arms"),
        ({"arm": [0, 0, 2, 2]}, "got 2 in round 2"),
        ({"block": [1, 1, 0, 0]}, "sort the rounds by time"),
        ({"block": [0.5, 1, 1, 1]}, "block must be whole numbers"),
        ({"cost": [1.0, np.inf, 1.0, 1.0]}, "cost is infinite in round 1"),
        ({"cost": [1.0, 2.0]}, "cost must have one entry per round, 4"),
        ({"movement": [0.0, -1.0, 0.0, 0.0]}, "movement must be 0 or more, got -1 in round 1"),
        ({"movement": [0.0, np.nan, 0.0, 0.0]}, "movement must be 0 or more, got nan in round 1"),
        ({"maximise": "yes"}, "maximise must be True or False"),
    ],
)
def test_what_is_no_trial_is_refused(change, words):
    table = {"block": [0, 0, 1, 1], "arm": [0, 0, 1, 1], "cost": [1.0, 2.0, 3.0, 4.0]}
    Blocks(**table)
    with pytest.raises(InvalidInput, match=words):
        Blocks(**{**table, **change})


SEEDS = st.integers(0, 2**32 - 1)


def numbers(found):
    return np.array([*found.gain, *found.percent])


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.floats(0.01, 100))
def test_units_scale_the_gain_and_leave_the_percentage(seed, factor):
    table = sample(seed)
    one = answer(Blocks(**table))
    table["cost"], table["movement"] = table["cost"] * factor, table["movement"] * factor
    other = answer(Blocks(**table))
    np.testing.assert_allclose(other.gain, np.array(one.gain) * factor, rtol=1e-7)
    np.testing.assert_allclose(other.percent, one.percent, rtol=1e-7)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_the_arms_exchanged_turn_the_gain_round(seed):
    table = sample(seed)
    one = answer(Blocks(**table))
    table["arm"] = 1 - table["arm"]
    other = answer(Blocks(**table))
    turned = [-one.gain.value, -one.gain.high, -one.gain.low, -one.gain.always_high, -one.gain.always_low]
    np.testing.assert_allclose(other.gain, turned, atol=1e-12)
    assert other.carry_over.change == pytest.approx(-one.carry_over.change)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.floats(-100, 100))
def test_a_constant_that_both_arms_pay_changes_no_gain(seed, constant):
    table = sample(seed)
    one = answer(Blocks(**table))
    table["cost"] = table["cost"] + constant
    np.testing.assert_allclose(answer(Blocks(**table)).gain, one.gain, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_rewards_are_costs_with_the_other_sign(seed):
    costs, rewards = answer(Blocks(**sample(seed))), answer(Blocks(**sample(seed, maximise=True)))
    np.testing.assert_allclose(rewards.gain, costs.gain)
    assert rewards.bill == pytest.approx(-costs.bill)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_the_order_of_rounds_within_a_block_changes_nothing_but_carry_over(seed):
    table = sample(seed)
    one = answer(Blocks(**table))
    within = np.random.default_rng(seed).permuted(np.arange(len(table["arm"])).reshape(-1, 4), axis=1).ravel()
    table["cost"], table["movement"] = table["cost"][within], table["movement"][within]
    np.testing.assert_allclose(numbers(answer(Blocks(**table))), numbers(one), rtol=1e-9)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_lost_round_that_cost_what_its_block_did_changes_nothing(seed):
    table = sample(seed)
    one = answer(Blocks(**table))
    costs = table["cost"].reshape(-1, 4)
    costs = np.concatenate([costs, np.full((len(costs), 1), np.nan)], axis=1).ravel()  # a fifth round, never measured
    wider = {name: np.repeat(table[name].reshape(-1, 4)[:, :1], 5, axis=1).ravel() for name in ("block", "arm")}
    movement = table["movement"].reshape(-1, 4)
    movement = np.concatenate([movement, movement.mean(axis=1, keepdims=True)], axis=1).ravel()
    other = answer(Blocks(**wider, cost=costs, movement=movement))
    np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-9)
    assert sum(other.lost) == 80


def test_tables_are_joined_pair_by_pair():
    first = Blocks([0, 0, 1, 1, 2], [1, 1, 0, 0, 0], [1.0, 2.0, 3.0, 4.0, 9.0], movement=[0.5] * 5)  # begins a pair
    second = Blocks([0, 0, 1, 1], [0, 0, 1, 1], [5.0, 6.0, 7.0, 8.0], maximise=False)
    table = joined([first, second])
    assert table.block.tolist() == [0, 0, 1, 1, 2, 4, 4, 5, 5]
    np.testing.assert_allclose(table.net, np.vstack([first.net, second.net]))
    assert table.coins.tolist() == [1.0, -1.0]
    assert table.reference.shape == (9, 1)
