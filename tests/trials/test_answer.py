"""The answer of a trial: unbiased, as sure as it says, at every look, and in words."""

import json
import math
import re

import numpy as np
import pytest
from helpers.trial_tables import sample

from holdcourse.deciding.trial import POLICY
from holdcourse.trials.adjustment import Known, guesses
from holdcourse.trials.answer import adjusted_pairs, answer, looks_of
from holdcourse.trials.blocks import Blocks
from holdcourse.trials.intervals import FIRST_ANSWER, bounds_of_mean, critical_values, pairs_needed, running_means


def trials(seed, trials=1500, pairs=150, gain=0.0, heavy=False):
    """Pairs of many trials at once: correlated blocks, arms that differ by `gain`; (gains, bills)."""
    rng = np.random.default_rng(seed)
    shock = rng.standard_t(3, (trials, 2 * pairs)) if heavy else rng.normal(size=(trials, 2 * pairs))
    slow = np.repeat(rng.normal(size=(trials, pairs)).cumsum(axis=1) / 5, 2, axis=1)
    net = (20 + slow + shock).reshape(trials, pairs, 2)
    coins = rng.choice([-1.0, 1.0], (trials, pairs))
    net[..., 0] -= gain * (coins > 0)
    net[..., 1] -= gain * (coins < 0)
    return adjusted_pairs(net, coins, Known.of(net, {}))


@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_hold_the_gain_as_often_as_they_say(heavy):
    gains, bills = trials(11, gain=1.0, heavy=heavy)
    looks, percent = looks_of(gains, bills)
    last = slice(None), -1
    held = (looks.low[last] <= 1) & (looks.high[last] >= 1)
    assert 0.93 <= held.mean() <= 0.97
    with np.errstate(invalid="ignore"):
        assert ((looks.always_low > 1) | (looks.always_high < 1)).any(axis=1).mean() <= 0.05
    bias = looks.value[last].mean() - 1
    assert abs(bias) < 0.1 * (looks.high - looks.low)[last].mean()
    assert (percent.low[last] <= percent.value[last]).all()
    assert (percent.value[last] <= percent.high[last]).all()


def test_no_effect_is_seldom_called_one_however_often_one_looks():
    looks, _ = looks_of(*trials(12, gain=0.0))
    assert (looks.always_low > 0).any(axis=1).mean() <= 0.05  # NaN compares false: too early to say


def test_the_percentage_is_as_sure_as_the_bill():
    rng = np.random.default_rng(3)
    bills = 10 + 4 * rng.normal(size=(3000, 40))
    gains = 0.3 * bills + rng.normal(size=(3000, 40))
    _, percent = looks_of(gains, bills)
    held = (percent.low[:, -1] <= 30) & (percent.high[:, -1] >= 30)
    assert 0.935 <= held.mean() <= 0.965
    _, nothing = looks_of(gains[0], bills[0] - 10)
    assert math.isnan(nothing[-1].low)  # a percentage of a bill that may be zero
    _, turned = looks_of(gains[0], -bills[0])
    assert turned[-1].value == pytest.approx(percent.value[0, -1])
    assert turned[-1].low == pytest.approx(percent.low[0, -1])


def test_every_look_is_that_of_the_shorter_trial():
    table = sample(5, pairs=30, reference=np.random.default_rng(5).normal(size=240))
    found = answer(Blocks(**table), cycle=24)
    cut = {name: column[:160] if isinstance(column, np.ndarray) else column for name, column in table.items()}
    shorter = answer(Blocks(**cut), cycle=24)
    np.testing.assert_allclose(found.looks[19], shorter.gain, rtol=1e-9)
    np.testing.assert_allclose(found.looks_in_percent[19], shorter.percent, rtol=1e-9)


def test_a_guess_knows_only_earlier_pairs():
    """The slow twin: ridge regression refitted before every pair. And what a pair brings changes no earlier guess."""
    rng = np.random.default_rng(6)
    features, coins = rng.normal(size=(25, 2)), rng.choice([-1.0, 1.0], 25)
    differences = features @ [2.0, -1.0] + 0.1 * rng.normal(size=25)
    found = guesses(differences, features, coins)
    saved, rests = 0.0, []
    for j in range(25):
        effect = (coins[:j] * differences[:j]).mean() if j else 0.0
        size = np.diag((features[: j + 1] ** 2).sum(axis=0) / (max(j, 1) + 1))
        past = features[:j]
        guess = float(features[j] @ np.linalg.solve(past.T @ past + 4 * size, past.T @ np.array(rests)) if j else 0.0)
        assert found[j] == pytest.approx(guess if saved > 0 else 0.0)
        rest = differences[j] - coins[j] * effect
        rests.append(rest)
        saved += rest**2 - (rest - guess) ** 2
    other = differences.copy()
    other[10:] += 100
    np.testing.assert_array_equal(guesses(other, features, coins)[:10], found[:10])


def test_a_guess_that_does_not_help_is_not_used():
    rng = np.random.default_rng(7)
    differences, coins = rng.normal(size=(200, 100)), rng.choice([-1.0, 1.0], (200, 100))
    features = rng.normal(size=(200, 100, 3))
    features[:, :30] *= 1e-9  # a feature that was next to nothing and is not any more
    rest = differences - guesses(differences, features, coins)
    assert rest.var() < 1.05 * differences.var()


def test_a_reference_shortens_the_interval():
    rng = np.random.default_rng(8)
    weather = np.repeat(rng.normal(size=120), 4)
    table = sample(8, pairs=60)
    table["cost"] = table["cost"] + 5 * weather
    without = answer(Blocks(**table))
    found = answer(Blocks(**table, reference=weather + 0.1 * rng.normal(size=480)))
    assert "the reference" in found.adjusted_by
    assert found.gain.high - found.gain.low < 0.5 * (without.gain.high - without.gain.low)
    raw = answer(Blocks(**table), adjust=False)
    assert raw.adjusted_by == ()
    policy = table["arm"] == 1
    net = table["cost"] + table["movement"]
    assert raw.gain.value == pytest.approx(net[~policy].mean() - net[policy].mean())


def test_large_numbers_have_no_exponents():
    table = sample(8, pairs=60)
    large = answer(Blocks(**(table | {"cost": 5000 * table["cost"], "movement": 5000 * table["movement"]})))
    said = " ".join(large.words(unit="kWh"))
    assert "e+0" not in said
    assert re.search(r"It pays: \+\d,\d{3} kWh a round", said)


def test_carry_over_is_found_where_it_is():
    table = sample(9, pairs=60)
    calm = answer(Blocks(**table))
    assert not calm.carry_over.found
    assert any("there is no sign of carry-over from block to block" in words for words in calm.words())
    assert any(words.startswith("Without the first 3 rounds") for words in answer(Blocks(**table), drop=3).words())
    late = np.arange(480) % 4 == 0
    other_arm = np.where(late, 1 - table["arm"], table["arm"])  # the first round still feels the other arm
    table["cost"] = table["cost"] + 3 * (table["arm"] - other_arm)
    found = answer(Blocks(**table))
    assert found.carry_over.found
    assert found.carry_over.rounds == 1
    assert any("Use longer blocks" in words for words in found.words())


def test_what_would_be_needed():
    table = Blocks(**sample(10, pairs=60, gain=0.6))  # most of it goes to movement
    found = answer(table)
    assert found.verdict == "undecided"
    assert found.further_pairs > 1
    assert re.search(r"it takes about \d+ more days to decide", found.words(hours=1.0)[1])
    assert re.search(r"it takes about \d+ more weeks to decide", found.words(hours=24.0)[1])
    assert pairs_needed(1 / 3) == 88
    before, then = critical_values(88, "sequence")[-2:] * 3 / np.sqrt([87, 88])
    assert then < 1 < before


def test_the_sequence_is_what_the_mixture_says():
    """Solved by hand: at the bound the mixture of likelihood ratios, integrated numerically, is 20."""
    from scipy import integrate, stats

    from holdcourse.trials.intervals import PRIOR_PAIRS

    for t in (20, 150):
        bound = critical_values(t, "sequence")[-1]

        def ratio(effect, t=t, bound=bound):
            likelihood = stats.nct.pdf(bound, t - 1, effect * math.sqrt(t)) / stats.t.pdf(bound, t - 1)
            return likelihood * stats.norm.pdf(effect, scale=PRIOR_PAIRS**-0.5)

        value, _ = integrate.quad(ratio, -3, 3, limit=200, points=[0.0, bound / math.sqrt(t)])
        assert value == pytest.approx(20, rel=1e-3)


def test_words_and_data():
    early = answer(Blocks(**sample(1, pairs=3)))
    assert early.verdict == "too early"
    said = "Too early to say anything: 3 pairs of blocks so far. The first answer comes after 11 pairs (88 rounds)."
    assert early.words() == [said]
    assert np.isfinite(critical_values(FIRST_ANSWER, "sequence")).tolist() == [*[False] * 10, True]
    assert answer(Blocks(block=[], arm=[], cost=[])).verdict == "too early"
    overridden = np.zeros(480, dtype=bool)
    overridden[:5] = True
    table = sample(2, pairs=60, gain=2.0, overridden=overridden, switching=np.full(480, 0.25))
    found = answer(Blocks(**table))
    assert found.words(unit="kWh")[0].startswith("It pays: +")
    assert any("a limit or a person decided" in words for words in found.words())
    assert found.switching == 0.25
    json.dumps(found.to_data(), allow_nan=False)
    json.dumps(early.to_data(), allow_nan=False)
    assert answer(Blocks(**{**table, "arm": 1 - table["arm"]})).verdict == "it does not pay"


def test_bounds_do_not_lose_digits_to_a_large_level():
    values = np.random.default_rng(4).normal(size=50)
    near, far = bounds_of_mean(values, "sequence"), bounds_of_mean(values + 1e9, "sequence")
    np.testing.assert_allclose(far.high - running_means(values + 1e9), near.high - running_means(values), rtol=1e-4)


@pytest.mark.parametrize("pairs", [1, 2, 5, 13, 20])
@pytest.mark.parametrize("kind", ["nothing", "equal", "mostly lost", "negative", "huge", "a reference with holes"])
def test_an_answer_whatever_was_measured(pairs, kind):
    table = sample(pairs, pairs=pairs, length=2)
    cost = table["cost"]
    rng = np.random.default_rng(pairs)
    changed = {
        "nothing": {"cost": 0 * cost, "movement": None},
        "equal": {"cost": 10.0 - table["arm"], "movement": None},
        "mostly lost": {"cost": np.where(rng.random(len(cost)) < 0.5, np.nan, cost)},
        "negative": {"cost": -cost},
        "huge": {"cost": 1e150 * cost},
        "a reference with holes": {"reference": np.where(rng.random(len(cost)) < 0.3, np.nan, cost)},
    }[kind]
    for maximise in (False, True):
        found = answer(Blocks(**{**table, **changed, "maximise": maximise}), cycle=24)
        assert found.words(unit="kWh", hours=1.0)
        json.dumps(found.to_data(), allow_nan=False)
        if kind == "equal" and pairs == 20:
            assert found.verdict == ("it does not pay" if maximise else "it pays")
            assert found.percent.value == pytest.approx(-10 if maximise else 10)
        if kind == "nothing":
            assert found.verdict in ("too early", "undecided")
            assert math.isnan(found.percent.value)


def test_arms_that_cost_the_same_are_not_told_apart():
    table = sample(3, pairs=20)
    found = answer(Blocks(**{**table, "cost": np.full(160, 10.0), "movement": None}))
    assert found.verdict == "undecided"
    assert found.words()[0].startswith("Undecided: in each of 20 pairs of blocks both arms cost the same")
    assert "more pairs" not in " ".join(found.words())


def test_a_small_percentage_keeps_its_digits():
    table = sample(3, pairs=30, movement=None)
    found = answer(Blocks(**{**table, "cost": 1e6 + table["cost"]}))
    assert found.verdict == "it pays"
    low, high = found.percent.always_low, found.percent.always_high
    assert 0 < low < high < 0.001
    shown = found.words()[0].split("interval ")[1].split(" %")[0].split(" to ")
    assert [float(end) for end in shown] == pytest.approx([low, high], rel=0.1)


def test_losses_that_go_with_an_arm_are_told():
    """What the coin alone would deal out is not; a machine that falls silent in the policy's blocks is."""
    table = sample(5, pairs=40)
    chance = np.random.default_rng(0).random(320) < 0.2
    by_arm = (table["arm"] == POLICY) & (np.random.default_rng(1).random(320) < 0.2)
    even, uneven = (
        answer(Blocks(**{**table, "cost": np.where(lost, np.nan, table["cost"])})) for lost in (chance, by_arm)
    )
    assert abs(even.uneven) < 3
    assert not any("chance explains" in words for words in even.words())
    assert uneven.uneven > 3
    assert any(words.startswith("The policy's rounds were lost more often") for words in uneven.words())
    silent = answer(Blocks(**{**table, "cost": np.where(table["arm"] == POLICY, np.nan, table["cost"])}))
    assert (silent.verdict, silent.pairs, silent.left_out) == ("too early", 0, (0, 40))
    assert any(words.startswith("40 pairs of blocks could not be counted") for words in silent.words())


def test_chance_seldom_looks_like_losses_that_go_with_an_arm():
    """Losses come in runs, and the coin deals out runs: over many trials three deviations are seldom."""
    found = []
    for seed in range(400):
        table = sample(seed, pairs=40)
        failing = np.repeat(np.random.default_rng(seed).random(40) < 0.3, 8)
        found.append(
            Blocks(**{**table, "cost": np.where(failing & (np.arange(320) % 8 < 3), np.nan, table["cost"])}).uneven
        )
    assert np.mean(np.abs(found) > 3) < 0.01
    assert np.std(found) == pytest.approx(1.0, abs=0.15)


def test_an_arm_that_was_not_followed_is_told():
    table = sample(6, pairs=30)
    overridden = (table["arm"] == POLICY) & (np.arange(240) % 2 == 0)
    said = answer(Blocks(**table, overridden=overridden)).words()
    assert any(words.startswith("In 50 % of the policy's rounds something else ran") for words in said)
    assert not any("of the baseline's rounds something else ran" in words for words in said)


def test_one_pair_that_makes_the_scatter_is_named():
    table = sample(7, pairs=30)
    assert answer(Blocks(**table)).outlying is None
    wrong = table["cost"].copy()
    wrong[100] = 1e6
    assert answer(Blocks(**{**table, "cost": wrong})).outlying == 100 // 8


def test_a_reference_that_never_changes_is_no_help():
    table = sample(8, pairs=20)
    assert answer(Blocks(**table, reference=np.full(160, 5.0))).adjusted_by == ("the level before",)
    assert answer(Blocks(**table, reference=table["cost"])).adjusted_by == ("the level before", "the reference")
