"""kernel="auto": a posterior that fits its own kernel, is not fooled by wrong readings, and resumes exactly."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import LowerBound
from holdcourse.learning.history import History
from holdcourse.learning.posteriors import fitted, posterior
from holdcourse.learning.posteriors.fitted import AT_ONCE, FIRST_FIT, LAG
from holdcourse.learning.posteriors.protocol import JudgingPosterior
from holdcourse.learning.posteriors.readings import CAPACITY, FEWEST_LEFT_OUT, Readings, absurd

PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 12))
PLACES = np.linspace(0.0, 1.0, 5)  # contexts at which predictions are compared


def measured(t, scale=1.0):
    """A smooth cost with a little noise, at an action and context that depend on the round."""
    random = np.random.default_rng(t)
    action, context = int(random.integers(12)), float(random.random())
    x = PROBLEM.actions[action, 0]
    return action, context, scale * (np.sin(6 * x) + np.cos(4 * context) + 3.0 + 0.05 * random.standard_normal())


def told(readings, post=None, *, each=lambda post: post):
    """A posterior that was told readings, with `each` applied after each of them."""
    post = post or posterior(PROBLEM, "auto")
    for reading in readings:
        post.condition(*reading)
        post = each(post)
    return post


class Grown:
    """Posteriors that were told the first so many readings of a kind; each grows from the longest one kept."""

    def __init__(self, reading):
        self._reading = reading
        self._kept = {0: posterior(PROBLEM, "auto")}

    def __call__(self, count):
        start = max(known for known in self._kept if known <= count)
        if start < count:
            self._kept[count] = told(map(self._reading, range(start, count)), self._kept[start].copy())
        return self._kept[count].copy()


first = Grown(measured)


@pytest.fixture(scope="module")
def trained():
    return first(80)


def test_it_predicts_what_it_never_saw(trained):
    errors = []
    for t in range(1000, 1040):
        action, context, y = measured(t)
        mean, std = trained.predict(context)
        errors.append((mean[action] - y) / np.hypot(std[action], trained.prior.noise_std))
    assert np.sqrt(np.mean(np.square(errors))) < 2.0  # calibrated: about 1
    assert trained.prior.noise_std < 0.2
    assert "kernel fitted to" in trained.reason


def test_before_any_measurement_it_is_finite_and_even():
    mean, std = posterior(PROBLEM, "auto").predict(0.3)
    assert (mean == 0).all()
    np.testing.assert_allclose(std, 1.0, rtol=1e-4)  # to what the flat basis leaves out


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale):
    post = posterior(PROBLEM, "auto")
    for t in range(20):
        post.condition(*measured(t, scale))
    mean, std = post.predict(0.5)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert abs(mean.mean() - 3 * scale) < 2 * scale


def test_history_first_gives_the_same_start_as_a_posterior_of_the_fitted_kernel():
    past = hc.History.from_triples([measured(t) for t in range(60)])
    post = posterior(PROBLEM, "auto", history=past)
    fit = post.fit
    by_hand = posterior(PROBLEM, fit.kernel, fit.noise_std, fit.prior_mean, history=past)
    np.testing.assert_allclose(post.predict(0.4), by_hand.predict(0.4), rtol=1e-10)


def test_given_noise_and_mean_are_kept():
    post = posterior(PROBLEM, "auto", noise_std=0.3, prior_mean=2.0)
    for t in range(20):
        post.condition(*measured(t))
    assert post.prior.noise_std == 0.3
    assert (post.prior.mean(np.array([0.1])) == 2.0).all()


def test_resuming_is_bit_identical(trained):
    twin = posterior(PROBLEM, "auto").restore(trained.state())
    ours = trained.copy()
    for t in range(80, 170):  # from within a fit, taken over at 81, over the next one
        ours.condition(*measured(t))
        twin.condition(*measured(t))
    np.testing.assert_array_equal(ours.predict(0.7), twin.predict(0.7))
    assert ours.fit.parameters == twin.fit.parameters
    assert ours.fit.points_used > trained.fit.points_used
    assert trained.observations == 80


def test_predict_at_follows_through_a_fit(trained):
    post = first(140)
    assert post.fit.points_used > trained.fit.points_used
    mean, std = post.predict_at([0.2, 0.8])
    np.testing.assert_array_equal([mean[1], std[1]], post.predict(0.8))


def test_bad_input_leaves_it_unchanged(trained):
    before = trained.predict(0.5)
    for action, context, y in [(99, 0.5, 1.0), (0, float("nan"), 1.0), (0, [0.5, 0.5], 1.0), (0, 0.5, float("inf"))]:
        with pytest.raises(InvalidInput):
            trained.condition(action, context, y)
    np.testing.assert_array_equal(trained.predict(0.5), before)
    assert trained.observations == 80


def test_what_no_fit_can_use_is_refused_and_forgotten():
    post = posterior(PROBLEM, "auto").condition(0, 0.5, 1.0)
    for action, context, y in [(1, 0.5, 1e200), (1, 1e200, 1.0)]:
        with pytest.raises(InvalidInput, match=r"contain 1e\+200, which is too large to be squared"):
            post.condition(action, context, y)
        with pytest.raises(InvalidInput, match=r"contain 1e\+200, which is too large to be squared"):
            post.condition_on(hc.History([action], [context], [y]))
    assert post.observations == 1
    assert post.condition(1, 0.5, 2.0).observations == 2
    with pytest.raises(InvalidInput, match=r"actions contain 1e\+200"):
        posterior(hc.Problem([0.0, 1e200]), "auto")


def test_prior_mean_per_action_and_as_a_function():
    for mean in (np.linspace(0, 1, 12), lambda actions, context: actions[:, 0]):
        post = posterior(PROBLEM, "auto", prior_mean=mean)
        np.testing.assert_allclose(post.predict(0.5)[0], PROBLEM.actions[:, 0])
        assert post.describe() == posterior(PROBLEM, "auto", prior_mean=mean).describe()


def test_what_auto_cannot_do():
    with pytest.raises(InvalidInput, match="kernel 'rbf' is not known"):
        posterior(PROBLEM, "rbf")
    with pytest.raises(InvalidInput, match="need a given kernel"):
        posterior(PROBLEM, "auto", method="temporal")


# -- fits beside the rounds --------------------------------------------------------------------------------------------


class Inline:
    """A fit made at once, in place of one in a thread."""

    def __init__(self, search):
        self._found = search()

    def result(self):
        return self._found


def restored(post):
    return posterior(PROBLEM, "auto").restore({name: array.copy() for name, array in post.state().items()})


def assert_same(one, other):
    states = one.state(), other.state()
    assert states[0].keys() == states[1].keys()
    for name in states[0]:
        np.testing.assert_array_equal(states[0][name], states[1][name], err_msg=name)
    np.testing.assert_array_equal(one.predict_at(PLACES), other.predict_at(PLACES))


def test_a_thread_changes_no_bit_and_neither_does_saving_after_every_reading(monkeypatch):
    """Over three fits in threads, begun at some reading and taken over LAG readings later."""
    readings = [measured(t) for t in range(3 * AT_ONCE)]
    readings[AT_ONCE + 20] = (*readings[AT_ONCE + 20][:2], 300.0)  # set aside, confirmed within a fit's time
    begun = AT_ONCE - LAG  # no thread so far
    straight = told(readings[begun:], first(begun))
    again = told(readings, each=restored)
    monkeypatch.setattr(fitted, "Job", Inline)
    at_once = told(readings[begun:], first(begun))
    assert straight.fit.points_used > AT_ONCE
    assert_same(straight, at_once)
    assert_same(straight, again)


def test_a_confirmation_within_the_time_of_a_fit_changes_no_bit(monkeypatch):
    """The fit was shown the first reading as set aside; whoever resumes begins it again as it was."""
    post = first(AT_ONCE)
    t = AT_ONCE
    while post.state()["counts"][4] < 0:  # until the next fit is about to begin
        last = post.copy()
        post.condition(*measured(t))
        t += 1
    readings = [(5, 0.5, 40.0), (5, 0.5, 40.1), *(measured(k) for k in range(t, t + 2 * LAG))]
    straight, again = told(readings, last.copy()), told(readings, last.copy(), each=restored)
    monkeypatch.setattr(fitted, "Job", Inline)
    assert_same(straight, told(readings, last.copy()))
    assert_same(straight, again)
    assert straight.predict(0.5)[0][5] > 10.0  # it was believed: no other cost is above 5


def test_a_copy_goes_its_own_way_from_within_a_fit():
    post = first(AT_ONCE + LAG + 4)
    before, twin = post.state(), post.copy()
    assert_same(post, twin)
    told([measured(t) for t in range(500, 540)], twin)
    for name, array in post.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_fits_are_made_when_readings_have_grown_by_half():
    post, fits, last = posterior(PROBLEM, "auto"), [], None
    for t in range(200):
        post.condition(*measured(t))
        if post.fit is not last:
            fits.append(t + 1)
            last = post.fit
    assert fits[0] == FIRST_FIT
    early = [count for count in fits if count <= AT_ONCE]
    assert all(after >= before + max(before // 2, 2) for before, after in pairwise(early))
    assert 4 <= len(fits) <= 12  # 3, 5, 7, 10, 15, 22, 33, 49, and in threads 73 and 121, where they change something
    assert post.fit.points_used <= 121 + 1


def test_at_most_so_many_readings_are_kept_and_the_newest_are_among_them():
    count = CAPACITY + 1
    numbers = np.arange(float(count))
    readings = Readings.none().with_more(
        History(np.zeros(count, dtype=int), numbers[:, None], numbers), numbers, np.zeros(count, dtype=bool)
    )
    thinned = readings.thinned()
    assert len(thinned) <= CAPACITY
    half = numbers[count // 2 :]
    np.testing.assert_array_equal(thinned.told[-len(half) :], half)
    np.testing.assert_array_equal(np.diff(thinned.told[: -len(half)]), 2.0)  # every second one of the older half
    assert thinned.thinned() is thinned
    np.testing.assert_array_equal(thinned.contexts[:, 0], thinned.told)


def test_memory_is_bounded_in_a_long_run(monkeypatch):
    monkeypatch.setattr("holdcourse.learning.posteriors.readings.CAPACITY", 96)
    monkeypatch.setattr(fitted, "LONGEST", 24)
    post = posterior(PROBLEM, "auto")
    for t in range(240):
        post.condition(*measured(t))
        assert len(post.state()["told"]) <= 96 + 24 + LAG + 1  # thinned when a fit begins
    assert post.observations == 240
    np.testing.assert_array_equal(post.state()["told"][-20:], [measured(t)[2] for t in range(220, 240)])


def test_what_a_state_lacks_is_named_and_nothing_is_taken_over():
    post = first(12)
    state = post.state()
    before = post.predict(0.4)
    for name in ("fit", "counts", "told"):
        with pytest.raises(InvalidInput, match=name):
            post.restore({key: array for key, array in state.items() if key != name})
    with pytest.raises(InvalidInput, match="another problem, or is damaged"):
        post.restore(state | {"learned": state["learned"][:-1]})
    np.testing.assert_array_equal(post.predict(0.4), before)


def test_a_prior_mean_that_was_given_comes_back():
    means = np.linspace(0, 1, 12)
    post = told([measured(t) for t in range(20)], posterior(PROBLEM, "auto", 0.1, means))
    twin = posterior(PROBLEM, "auto", 0.1, means).restore(post.state())
    assert twin.fit.prior_mean is means
    assert twin.prior.noise_std == 0.1
    assert not twin.log


# -- wrong readings ----------------------------------------------------------------------------------------------------

WRONG = {"1e4 times": 1e4, "a ten-thousandth": 1e-4, "negative": -1e4, "zero": 0.0}


def after(place):
    return [measured(t) for t in range(place + 1, place + 12)]


@cache
def without(place):
    """A posterior that was told all readings but the one at this place."""
    return told(after(place), first(place))


@pytest.mark.parametrize("factor", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("place", [0, 2, 200, *(pytest.param(place, marks=pytest.mark.slow) for place in (1, 5, 40))])
def test_one_wrong_reading_changes_next_to_nothing(place, factor):
    """Without it, fits come at other counts, so that predictions agree to about a deviation, not to the bit.

    A zero, or next to it, among the first dozen readings of costs from 1 to 5 may be a cost like any other: there only
    what it does is bounded.
    """
    action, context, right = measured(place)
    post = first(place)
    weight = post.weigh(action, context, factor * right)
    told(after(place), post)
    early = place < FEWEST_LEFT_OUT
    gross = abs(factor) > 1
    if place >= FIRST_FIT and (gross or not early):
        assert weight < (0.2 if gross else 0.5)  # before the first fit nothing can be said of a reading yet
    if gross:
        assert post.state()["aside"][place]
    mean, std = post.predict_at(PLACES)
    expected, spread = without(place).predict_at(PLACES)
    assert np.median(np.abs(mean - expected) / spread) < (3.0 if early and not gross else 1.0)
    assert np.abs(mean - expected).max() < (4.0 if early and not gross else 1.5)  # of costs from 1 to 5
    assert np.median(std / spread) < 3.0


def test_costs_that_are_mostly_nothing_are_not_wrong():
    y = np.where(np.arange(100) % 5 == 0, 10.0 + np.arange(100) % 7, 0.0)
    assert not absurd(y).any()
    y[5] *= 1e4
    assert np.flatnonzero(absurd(y)).tolist() == [5]
    assert not absurd(np.zeros(5)).any()


def test_only_the_wrong_reading_is_set_aside():
    later = [measured(t) for t in range(51, 90)]
    action, context, _ = measured(50)
    post = told([(action, context, 1e4), *later], first(50))
    assert np.flatnonzero(post.state()["aside"]).tolist() == [50]
    without = told(later, first(50))
    np.testing.assert_allclose(post.predict_at(PLACES)[0], without.predict_at(PLACES)[0], atol=0.1)


def test_a_model_reports_what_was_set_aside():
    model = LowerBound(first(40))
    assert isinstance(model.posterior, JudgingPosterior)
    assert model.learn(*measured(40)) == 1.0
    assert model.learn(3, 0.5, 1e6) == 0.0
    (outlier,) = model.outliers
    assert (outlier.action, outlier.measurement, outlier.weight) == (3, 1e6, 0.0)


def test_a_reading_clipped_early_counts_in_full_when_a_fit_explains_it():
    """What is odd after five readings may be quite right, as sixty show."""
    post = first(60)
    state = post.state()
    np.testing.assert_array_equal(state["learned"][~state["aside"]], state["told"][~state["aside"]])


@pytest.mark.parametrize(("other", "believed"), [(4.0, True), (40.0, False), (0.2, False)])
def test_the_only_reading_of_a_setting_is_believed_unless_it_is_off_by_a_factor(other, believed):
    """Exact readings of one setting make the bulk look faultless beside the first one of another."""
    post = posterior(hc.Problem([0.0, 1.0]), "auto")
    for _ in range(3):
        post.condition(1, 0.5, 2.0)
    post.condition(0, 0.5, other)
    for _ in range(60):
        post.condition(1, 0.5, 2.0)
    assert ((0, (0.5,), other) not in post.doubted()) == believed
    if believed:
        assert post.predict(0.5)[0][0] == pytest.approx(other, rel=0.05)


def test_a_cliff_is_learned_within_two_readings():
    """Actions from 8 on cost five times as much, and were never tried."""
    random = np.random.default_rng(3)
    post = posterior(PROBLEM, "auto")
    for _ in range(40):
        action, context = int(random.integers(8)), float(random.random())
        post.condition(action, context, 10.0 + context + 0.2 * random.standard_normal())
    for _ in range(2):
        post.condition(9, 0.5, 50.0 + 0.2 * random.standard_normal())
    mean = post.predict(0.5)[0]
    assert mean[9] > 20.0  # twice as dear as where we know: nobody goes there for a while
    assert mean[11] > 15.0
    # Actions made no difference so far, so neighbours are drawn along until the next fit sees the cliff.
    for k in range(12):
        action = (9, 5)[k % 2]
        post.condition(action, 0.5, (50.0 if action == 9 else 10.5) + 0.2 * random.standard_normal())
    mean = post.predict(0.5)[0]
    assert mean[9] > 40.0
    assert np.abs(mean[:6] - 10.5).max() < 2.0


def test_a_level_that_changes_for_good_is_learned():
    """The first reading at the new level is set aside, the next one at the action confirms it."""
    random = np.random.default_rng(4)
    post = posterior(PROBLEM, "auto")
    for _ in range(60):
        context = float(random.random())
        post.condition(4, context, 10.0 + context + 0.1 * random.standard_normal())
    assert post.weigh(4, 0.5, 30.0) == 0.0
    assert post.predict(0.5)[0][4] < 12.0
    assert post.weigh(4, 0.5, 30.2) == 1.0
    after_two = post.predict(0.5)[0][4]
    assert after_two > 11.5  # of 62 readings, two
    for _ in range(60):
        post.condition(4, float(random.random()), 30.0 + 0.1 * random.standard_normal())
    assert post.predict(0.5)[0][4] > 18.0  # half of them


def replaced(random, rounds, change, wrong=0.0):
    """Yield readings of a plant whose best setting is another one from a round on, some of them wrong."""
    for t in range(rounds):
        action, context = int(random.integers(PROBLEM.n)), float(random.random())
        best = 2.0 if t < change else PROBLEM.n - 3.0
        y = 10.0 + 0.3 * (action - best) ** 2 + 2.0 * context + 0.1 * random.standard_normal()
        yield action, context, y * (10.0 if random.random() < wrong else 1.0)


def test_a_plant_that_is_replaced_is_learned_anew_and_that_is_said():
    post = posterior(PROBLEM, "auto")
    told = list(replaced(np.random.default_rng(5), rounds=200, change=120))
    for reading in told[:120]:
        post.condition(*reading)
    assert post.changes == 0
    for reading in told[120:]:
        post.condition(*reading)
    assert post.changes == 1
    truth = 11.0 + 0.3 * (np.arange(PROBLEM.n) - (PROBLEM.n - 3.0)) ** 2
    np.testing.assert_allclose(post.predict(0.5)[0], truth, atol=0.5)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_wrong_readings_are_no_change(seed):
    post = posterior(PROBLEM, "auto")
    for reading in replaced(np.random.default_rng(seed), rounds=200, change=1000, wrong=0.1):
        post.condition(*reading)
    assert post.changes == 0


def test_a_run_that_is_stopped_around_a_change_goes_on_to_the_last_bit():
    told = list(replaced(np.random.default_rng(5), rounds=180, change=120))
    through = posterior(PROBLEM, "auto")
    for reading in told:
        through.condition(*reading)
    stopped = posterior(PROBLEM, "auto")
    for t, reading in enumerate(told):
        stopped.condition(*reading)
        if t >= 115 and t % 5 == 0:
            stopped = posterior(PROBLEM, "auto").restore(stopped.state())
    assert stopped.changes == through.changes == 1
    np.testing.assert_array_equal(stopped.predict(0.3), through.predict(0.3))


@pytest.mark.parametrize("period", [8, 10])
def test_a_rare_context_that_always_surprises_is_believed(period):
    """Now and then one setting costs four times as much; a kernel fitted to the rest is sure that it does not."""
    costs = [[1.0, 2.0], [4.0, 2.0]]  # by context and setting
    post = posterior(hc.Problem([0.0, 1.0]), "auto")
    for t in range(150):
        rare = t % period == period - 1
        action = int(t < 3 or (rare and t // period % 2 == 1))
        post.condition(action, float(rare), costs[rare][action])
    for context in (0, 1):
        np.testing.assert_allclose(post.predict(float(context))[0], costs[context], atol=0.05)


def test_wrong_readings_among_good_ones_are_never_taken_for_the_cost_of_a_place():
    """One in ten is ten times too high, always at the same setting and in the same context."""
    random = np.random.default_rng(8)
    post = posterior(PROBLEM, "auto")
    for t in range(120):
        action = t % 3
        context = float(random.random()) if action else 0.5
        wrong = t % 30 == 27 and action == 0
        post.condition(action, context, (100.0 if wrong else 10.0 + action) + 0.1 * random.standard_normal())
    assert {told > 50.0 for _, _, told in post.doubted()} == {True}
    assert len(post.doubted()) == 4
    assert abs(post.predict(0.5)[0][0] - 10.0) < 0.3


def test_two_wrong_readings_of_different_size_confirm_nothing():
    post = first(60)
    before = post.predict(0.5)[0]
    for y in (1e6, -1e6, 1e4, -3.0e3):
        assert post.weigh(6, 0.5, y) == 0.0
    np.testing.assert_allclose(post.predict(0.5)[0], before, atol=0.5)


# -- units, widths, and odd data ---------------------------------------------------------------------------------------


def cost(action, context):
    return 20.0 + 80.0 * (PROBLEM.actions[action, 0] - context) ** 2


def of_noise(multiplicative, count=80, seed=0):
    random = np.random.default_rng(seed)
    readings = []
    for _ in range(count):
        action, context = int(random.integers(12)), float(random.random())
        true = cost(action, context)
        noise = random.standard_normal()
        readings.append((action, context, true * np.exp(0.3 * noise) if multiplicative else true + 6.0 * noise))
    return readings


@cache
def with_noise(multiplicative, seed=0):
    """Posteriors of the first of such readings."""
    return Grown(of_noise(multiplicative, 150, seed).__getitem__)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_logarithms_are_chosen_where_noise_is_in_proportion(seed):
    assert with_noise(True, seed)(120).log
    assert not with_noise(False, seed)(120).log


def test_predictions_are_in_the_unit_of_the_readings():
    post = with_noise(True)(150)
    assert post.log
    for context in (0.1, 0.5, 0.9):
        mean, std = post.predict(context)
        true = cost(np.arange(12), context)
        np.testing.assert_allclose(mean, true * np.exp(0.045), rtol=0.3)  # noise in proportion raises the mean
        assert (std > 0).all()
        assert (mean - 1.25 * std > 0).all()  # a cost that is positive has a bound that is
    assert np.sqrt(post.noise_variance) == pytest.approx(0.3 * np.median([y for *_, y in of_noise(True, 150)]), rel=0.5)


@pytest.mark.parametrize("bad", [0.0, -5.0])
def test_what_has_no_logarithm_is_set_aside_where_logarithms_are_learned(bad):
    post = with_noise(True)(60)
    assert post.log
    before = post.predict(0.5)
    assert post.weigh(2, 0.5, 1e7) == 0.0  # and that is not confirmed by the next
    assert post.weigh(2, 0.5, bad) == 0.0
    np.testing.assert_allclose(post.predict(0.5)[0], before[0], rtol=0.02)  # bands have widened, and with them the mean
    assert np.isfinite(told(of_noise(True, 40, seed=5), post).predict(0.5)).all()


def test_a_low_reading_does_not_confirm_one_that_has_no_logarithm():
    post = with_noise(True)(60)
    assert post.weigh(2, 0.5, -0.5) == 0.0
    assert 0.0 <= post.weigh(2, 0.5, 2.0) <= 1.0
    assert np.isfinite(post.predict(0.5)).all()


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))])
def test_no_sequence_of_readings_stops_it(seed):
    """Few actions and contexts, so that readings meet; of all signs and sizes, in runs, as sensors fail."""
    random = np.random.default_rng(100 + seed)
    post = with_noise(seed % 2 == 0, seed)(24)
    wrong = [0.0, -0.5, -40.0, 1e-9, 1e7, -1e7]
    for _ in range(60):
        action, context = int(random.choice([2, 9])), float(random.choice([0.25, 0.5]))
        y = cost(action, context) * np.exp(random.choice([0.1, 1.5]) * random.standard_normal())
        y = random.choice(wrong) if random.random() < 0.35 else y
        assert 0.0 <= post.weigh(action, context, y) <= 1.0
        assert np.isfinite(post.predict(0.5)).all()


def test_costs_that_turn_out_to_have_both_signs_are_learned_after_all():
    random = np.random.default_rng(6)
    post = with_noise(True)(60)
    for _ in range(80):
        action, context = int(random.integers(12)), float(random.random())
        post.condition(action, context, -20.0 + random.standard_normal())
    assert not post.log
    assert post.predict_at(PLACES)[0].mean() < 20.0  # of 60 readings of about 35 and 80 of about -20


def test_bands_widen_when_the_noise_grows_and_hold_again():
    random = np.random.default_rng(7)

    def reading(noise):
        action, context = int(random.integers(12)), float(random.random())
        return (
            action,
            context,
            10.0 + np.sin(6 * PROBLEM.actions[action, 0]) + context + noise * random.standard_normal(),
        )

    post = told(reading(0.1) for _ in range(100))
    narrow = post.widening
    assert 1.0 <= narrow < 1.3
    held, widest = [], 1.0
    for t in range(200):
        action, context, y = reading(0.4)
        mean, std = post.predict(context)
        spread = np.hypot(std[action], post.widening * np.sqrt(post.noise_variance))
        if t >= 100:
            held.append(abs(y - mean[action]) < 1.96 * spread)
        post.condition(action, context, y)
        widest = max(widest, post.widening)
    assert widest > 1.2 * narrow
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize(
    ("metric_only", "dimensions"),
    [
        *((False, dimensions) for dimensions in range(6)),
        *((True, dimensions) for dimensions in (0, 2, 5)),
        *(pytest.param(True, dimensions, marks=pytest.mark.slow) for dimensions in (1, 3, 4)),
    ],
)
def test_contexts_of_any_dimension_and_actions_without_coordinates(dimensions, metric_only):
    problem = hc.Problem(metric=PROBLEM.distances) if metric_only else PROBLEM
    random = np.random.default_rng(8)
    post = posterior(problem, "auto")
    for _ in range(60):
        action, context = int(random.integers(12)), random.random(dimensions)
        post.condition(action, context, 5.0 + 3.0 * PROBLEM.actions[action, 0] + context.sum() + 0.1 * random.normal())
    context = np.full(dimensions, 0.5)
    mean, std = post.predict(context)
    np.testing.assert_allclose(mean, 5.0 + 3.0 * PROBLEM.actions[:, 0] + context.sum(), atol=0.6)
    assert (std > 0).all()
    twin = posterior(problem, "auto").restore(post.state())
    np.testing.assert_array_equal(twin.predict(context), (mean, std))


def by_the_hour(t, hours):
    """Readings whose cost depends on the hour of day, in the hours named."""
    random = np.random.default_rng(t)
    action, hour = int(random.integers(12)), float(random.choice(hours)) + 0.5 * float(random.random())
    x = PROBLEM.actions[action, 0]
    return action, hour, 5.0 + np.sin(6 * x) + 2.0 * np.cos(2 * np.pi * hour / 24) + 0.05 * random.standard_normal()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another number"])
def test_what_was_read_before_midnight_tells_of_the_hour_after(beside):
    """Told that the hour is a circle; without that, the hour after midnight is the farthest from the hour before."""
    errors = {}
    for period in (None, [24.0]):
        options = {} if period is None else {"period": [None, *period] if beside else period}
        post = posterior(PROBLEM, "auto", **options)
        for t in range(60):
            action, hour, y = by_the_hour(t, np.arange(4, 24))
            post.condition(action, [0.3, hour] if beside else hour, y)
        mean, _ = post.predict([0.3, 0.5] if beside else 0.5)
        truth = 5.0 + np.sin(6 * PROBLEM.actions[:, 0]) + 2.0 * np.cos(2 * np.pi * 0.5 / 24)
        errors[period is None] = float(np.abs(mean - truth).mean())
    assert errors[False] < 0.25
    assert errors[False] < 0.5 * errors[True]


def test_circles_are_kept_by_copies_and_restarts_and_tell_policies_apart():
    post = posterior(PROBLEM, "auto", period=24)
    for t in range(30):
        post.condition(*by_the_hour(t, np.arange(24)))
    assert post.prior.kernel.context_period == (24.0,)
    again = posterior(PROBLEM, "auto", period=24).restore(post.state())
    for twin in (again, post.copy()):
        np.testing.assert_array_equal(twin.predict(1.0)[0], post.predict(1.0)[0])
        twin.condition(3, 2.0, 4.0)
        assert twin.prior.kernel.context_period == (24.0,)
    assert post.describe() != posterior(PROBLEM, "auto").describe()
    assert "period" not in posterior(PROBLEM, "auto", period=[None]).describe()


def test_a_kernel_that_is_given_says_itself_what_is_a_circle():
    with pytest.raises(InvalidInput, match=r"period=24 is for kernel='auto'.*context_period=24"):
        posterior(PROBLEM, hc.Kernel(RBF(0.2), RBF(2.0)), period=24)
    with pytest.raises(InvalidInput, match="period must be positive and finite, got -24"):
        posterior(PROBLEM, "auto", period=-24)


def test_costs_of_both_signs():
    random = np.random.default_rng(9)
    post = posterior(PROBLEM, "auto")
    for _ in range(80):
        action, context = int(random.integers(12)), float(random.random())
        post.condition(action, context, np.sin(6 * PROBLEM.actions[action, 0]) + context - 0.5 + 0.05 * random.normal())
    assert not post.log
    assert not post.state()["aside"].any()
    np.testing.assert_allclose(post.predict(0.5)[0], np.sin(6 * PROBLEM.actions[:, 0]), atol=0.3)


@pytest.mark.parametrize("value", [0.0, 3.0, -2e6])
def test_readings_that_are_all_equal(value):
    random = np.random.default_rng(10)
    post = told((int(random.integers(12)), float(random.random()), value) for _ in range(80))
    mean, std = post.predict(0.5)
    np.testing.assert_allclose(mean, value, atol=1e-6 + 0.01 * abs(value))
    assert np.isfinite(std).all()
    assert post.weigh(3, 0.5, value) == 1.0


def test_errors_change_nothing_in_any_phase():
    post = posterior(PROBLEM, "auto")
    for t in range(AT_ONCE + 2 * LAG):
        before = post.state()
        for bad in [(99, 0.5, 1.0), (0, float("nan"), 1.0), (0, 0.5, float("inf")), (0, 0.5, 1e200)]:
            with pytest.raises(InvalidInput):
                post.weigh(*bad)
        after = post.state()
        assert all(np.array_equal(array, after[name]) for name, array in before.items())
        post.condition(*measured(t))


def test_costs_are_expected_to_vary_by_what_moves_cost_but_by_no_more_than_their_size():
    """Three readings of one setting say nothing of the others; what a move costs says what may be worth one."""

    def doubt(price):
        post = posterior(hc.Problem(np.linspace(0.0, price, 12)), "auto")
        told([(0, 0.1, 1.0), (0, 0.2, 1.02), (0, 0.3, 0.98)], post)
        return float(post.predict(0.2)[1][11])

    cheap, usual, dear, dearest = (doubt(price) for price in (0.01, 0.1, 10.0, 500.0))
    assert cheap == pytest.approx(usual, rel=1e-6)  # a quarter of their size is more than half of such a way
    assert usual < 0.7 * dear
    assert dear == pytest.approx(dearest, rel=1e-6)


def test_length_scales_are_expected_to_be_shorter_than_those_of_a_fit_by_hand():
    readings = History([0] * 6 + [1], np.linspace(0.0, 1.0, 7)[:, None], [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0])
    post = posterior(PROBLEM, "auto", history=readings)
    name = "action RBF length scale"
    alone = hc.fit_kernel(PROBLEM, readings.actions, readings.contexts, readings.measurements, restarts=0)
    assert post.fit.parameters[name] < 0.6 * alone.parameters["action length scale"]
