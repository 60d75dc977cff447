"""Backtests: the reference figures, the books, hindsight against brute force, and the words of the answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.backtest.verdict import STRETCH, gain_interval, half_width
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled
from holdcourse.wind.backtest.result import Backtest, Flight
from holdcourse.wind.backtest.run import Plan, backtest, run_backtest
from holdcourse.wind.files.data import WindData
from holdcourse.wind.physics import paper_curve, wind_world
from holdcourse.wind.policy.policies import VARIANCE, Past, Setting, flown_by_default, policy_of

ALTITUDES = np.linspace(10, 750, 25)
# Mean net kWh over the starts 0, 4, ..., 24, by an independent prototype.
PROTOTYPE = {
    1.0: {"clairvoyant": 30354, "gp-md": 27120, "cgp-lcb": 26467, "md-known": 25957, "stationary": 24647},
    4.0: {"clairvoyant": 128759, "gp-md": 112964, "cgp-lcb": 111861, "md-known": 119338, "stationary": 98587},
}
FREE_BEST_FIXED = {1.0: 28472, 4.0: 113889}  # the prototype's best fixed altitude does not pay the way there
MINC_KNOWN = {1.0: -1270, 4.0: 104206}


def written(found):
    """The lines of a backtest in all digits; as dataclasses they would differ wherever an interval is NaN."""
    return [repr(line) for line in found.lines]


def small_world(hours=48, altitudes=(50.0, 200.0, 400.0), seed=0, **options):
    random = np.random.default_rng(seed)
    time = np.datetime64("2020-01-01T00", "s") + np.arange(hours) * np.timedelta64(3600, "s")
    return wind_world(time, altitudes, random.uniform(3, 14, (hours, len(altitudes))), **options)


def past_of(world, seed=1):
    random = np.random.default_rng(seed)
    return Past(np.arange(200.0) % 24, random.uniform(3, 14, (200, len(world.altitudes))))


@pytest.fixture(scope="module")
def north_sea():
    data = bundled("test")
    return data.time[:960], data.onto(ALTITUDES).speed[:960]


@pytest.mark.parametrize("rho", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
def test_reference_figures(north_sea, rho, record_property):
    world = wind_world(north_sea[0], ALTITUDES, north_sea[1], rho=rho)
    setting = Setting(world, prior_mean=8.5)
    papers = ("stationary", "gp-md", "cgp-lcb", "md-known", "minc-known")
    flown = [backtest(setting, papers, start=start) for start in range(0, 25, 4)]
    mean = {name: np.mean([found.line(name).net for found in flown]) for name in flown[0].flights}
    record_property(f"wind, rho {rho:g}: net kWh", ", ".join(f"{name} {net:.0f}" for name, net in mean.items()))
    for name, net in PROTOTYPE[rho].items():
        assert mean[name] == pytest.approx(net, rel=0.03), name
    # What nothing random enters agrees to the digit.
    for name in ("clairvoyant", "cgp-lcb", "stationary"):
        assert mean[name] == pytest.approx(PROTOTYPE[rho][name], abs=0.6), name
    assert mean["minc-known"] == pytest.approx(MINC_KNOWN[rho], abs=0.6)
    assert world.energy.sum(axis=0).max() == pytest.approx(FREE_BEST_FIXED[rho], abs=0.6)


def test_a_policy_that_maximises_is_shown_gains(monkeypatch):
    makers = {"wind": lambda setting: hc.minc_known(setting.world.problem, maximise=True)}
    monkeypatch.setitem(registry.TABLE, "gains", registry.Entry("gains", "gains", "", makers=makers))
    flights = backtest(Setting(small_world()), ["minc-known", "gains"]).flights
    np.testing.assert_array_equal(flights["gains"].actions, flights["minc-known"].actions)


def test_some_policies_wait_for_a_request():
    assert "planner" in registry.names("wind")
    assert "planner" not in flown_by_default()
    assert "planner" in backtest(Setting(small_world()), ["planner"]).flights


def test_the_books_add_up(north_sea):
    world = wind_world(north_sea[0][:300], ALTITUDES, north_sea[1][:300])
    found = backtest(Setting(world, past_of(world)), start=3)
    rounds = np.arange(300)
    for name, flight in found.flights.items():
        apart = np.abs(np.diff(ALTITUDES[np.append(3, flight.actions)]))
        assert flight.moving == pytest.approx(apart * 21.6 / 60), name
        assert flight.gross == pytest.approx(paper_curve().power(north_sea[1][rounds, flight.actions])), name
        line = found.line(name)
        assert line.net == pytest.approx(line.gross - line.moving)
        assert line.net <= found.line("clairvoyant").net + 1e-6
    assert world.service[rounds, found.flights["minc-known"].actions].tolist() == [0.0] * 300
    assert {line.policy for line in found.lines} == {*flown_by_default(), "best-fixed", "clairvoyant"}
    assert [line.net for line in found.lines] == sorted((line.net for line in found.lines), reverse=True)


@given(st.integers(0, 2**32 - 1), st.floats(0.2, 8.0))
def test_bounds_contain_the_true_cost(seed, rho):
    """Whatever speeds the intervals hold, the cost is at least its lower bound, and equals it for a point."""
    random = np.random.default_rng(seed)
    world = small_world(2, seed=seed, rho=rho)
    ends = np.sort(random.uniform(-1, 25, (2, 3)), axis=0)
    speed = np.maximum(ends[0] + random.uniform(0, 1, (20, 3)) * (ends[1] - ends[0]), 0)
    made = rho * world.curve.power(speed)
    true = made.max(axis=1, keepdims=True) - made
    assert (world.energy_costs(*ends) <= true + 1e-9).all()
    point = speed[:1]
    assert world.energy_costs(point[0], point[0]) == pytest.approx(true[0])


@pytest.mark.parametrize("movement", [0.05, (0.2, 0.01), (0.01, 0.2)])
def test_hindsight_against_every_path(movement):
    """Climbing and sinking may cost differently: the bill and the optimum follow."""
    world = small_world(6, seed=4, movement=movement)
    up, down = movement if isinstance(movement, tuple) else (movement, movement)

    def net(path, start=1):
        steps = np.diff(world.altitudes[[start, *path]])
        return world.energy[np.arange(6), list(path)].sum() - np.where(steps > 0, up, -down) @ steps

    found = backtest(Setting(world, past_of(world)), start=1)
    assert found.line("clairvoyant").net == pytest.approx(max(net(path) for path in product(range(3), repeat=6)))
    assert found.line("best-fixed").net == pytest.approx(max(net([x] * 6) for x in range(3)))
    for name in ("minc-known", "gp-md"):
        assert found.line(name).net == pytest.approx(net(found.flights[name].actions))


def test_segments_begin_again_at_the_start():
    world = small_world(60, movement=0.05)
    found = backtest(Setting(world, past_of(world)), start=2, lengths=[10, 30, 20])
    for flight in found.flights.values():
        assert flight.before[[0, 10, 40]].tolist() == [2, 2, 2]
        assert flight.before[1:10].tolist() == flight.actions[:9].tolist()
    assert len(set(found.flights["best-fixed"].actions.tolist())) == 1  # one altitude, not one for each segment
    per_altitude = world.energy.sum(axis=0) - 3 * 0.05 * np.abs(world.altitudes - world.altitudes[2])
    assert found.line("best-fixed").net == pytest.approx(per_altitude.max())
    assert any("3 pieces" in warning for warning in found.warnings)
    for lengths in ([10, 30], [10, 0, 50], []):
        with pytest.raises(InvalidInput, match="do not add up"):
            backtest(Setting(world), lengths=lengths)


def test_reasons_are_what_the_policy_believed(north_sea):
    world = wind_world(north_sea[0][:100], ALTITUDES, north_sea[1][:100])
    setting = Setting(world, prior_mean=8.5)
    found = backtest(setting, ["gp-md", "md-known"], start=12)
    plain = hc.simulate(policy_of("gp-md")(setting), world, world.hours, start=12)
    flight = found.flights["gp-md"]
    assert flight.actions.tolist() == plain.actions.tolist()  # noting changes nothing
    assert flight.probabilities.tolist() == plain.probabilities.tolist()
    reasons = flight.reasons
    assert reasons.wind[0] == pytest.approx(8.5)
    assert reasons.wind_std[0] == pytest.approx(VARIANCE**0.5)
    assert (reasons.bound <= reasons.shortfall + 1e-9).all()
    stayed = flight.actions == flight.before
    assert (reasons.bound == reasons.bound_before)[stayed].all()
    assert found.flights["md-known"].reasons is None  # it learns nothing


def test_the_registry_is_open(monkeypatch):
    makers = {"wind": lambda setting: hc.fixed_at(setting.world.problem, setting_index=0)}
    monkeypatch.setitem(registry.TABLE, "lowest", registry.Entry("lowest", "lowest", "", makers=makers))
    world = small_world()
    found = backtest(Setting(world, past_of(world)))
    assert set(found.flights["lowest"].actions.tolist()) == {0}
    assert "lowest" in [line.policy for line in found.flyable]
    with pytest.raises(InvalidInput, match="policy 'highest' is not known"):
        backtest(Setting(world), ["highest"])


# ---- the answer


def made(weekly_fixed, weekly_ours, step_hours=1):
    """A backtest in which one controller made so much per week, and the fixed altitude so much."""
    rounds = 168 // step_hours
    weeks = len(weekly_fixed)
    time = np.datetime64("2020-01-01", "s") + np.arange(weeks * rounds) * np.timedelta64(3600 * step_hours, "s")
    world = wind_world(time, [100.0, 300.0], np.full((weeks * rounds, 2), 8.0))
    still = np.zeros(weeks * rounds, dtype=np.int64)

    def flight(name, weekly):
        gross = np.repeat(np.asarray(weekly, float) / rounds, rounds)
        flown = still if name == "fixed" else np.arange(len(still)) % 2
        return Flight(name, flown, still, gross, np.zeros_like(gross), np.ones_like(gross))

    best = np.maximum(weekly_fixed, weekly_ours)
    flights = {"fixed": weekly_fixed, "gp-md": weekly_ours, "clairvoyant": best}
    return Backtest("here", world, 0, {k: flight(k, v) for k, v in flights.items()}, (len(time),))


def test_interval_of_a_steady_gain_is_a_point():
    line = made([100.0] * 20, [110.0] * 20).line("gp-md")
    assert (line.gain, line.gain_low, line.gain_high) == pytest.approx((10.0, 10.0, 10.0))


def test_interval_holds_the_gain_and_grows_with_the_noise():
    random = np.random.default_rng(0)
    noise = random.standard_normal(52)
    calm, wild = (made([100.0] * 52, 103 + scale * noise).line("gp-md") for scale in (1, 10))
    for line in (calm, wild):
        assert line.gain_low < line.gain < line.gain_high
    assert wild.gain_high - wild.gain_low == pytest.approx(10 * (calm.gain_high - calm.gain_low), rel=0.01)
    low, high = gain_interval(103 + noise, np.full(52, 100.0), stretch=1.0)  # what its own months say
    assert calm.gain_high - calm.gain_low == pytest.approx(STRETCH * (high - low))


def test_interval_covers_the_truth_as_often_as_it_says():
    """Two years of weeks, alike for months, around a true gain of 2 %; chance moves the share by half a percent."""
    random, still = np.random.default_rng(3), np.full(104, 100.0)
    hits = 0
    for _ in range(2000):
        months = np.repeat(random.standard_normal(26), 4)
        made_by_us = 102 + 5 * months + random.standard_normal(104)
        hits += abs(made_by_us.mean() - 102) <= half_width(made_by_us, still)
    assert 0.92 <= hits / 2000 <= 0.97


@pytest.mark.parametrize(
    ("ours", "verdict", "words"),
    [
        ([110.0] * 10, "yes", "would have paid off here"),
        ([90.0] * 10, "no", "would not have paid off here"),
        ([90.0, 111.0] * 5, "undecided", "cannot tell whether"),
        ([110.0] * 5, "too few", "5 weeks are too few to conclude anything"),
        ([110.0], "too few", "1 week is too few"),
    ],
)
def test_conclusions(ours, verdict, words):
    found = made([100.0] * len(ours), ours)
    assert found.verdict == verdict
    assert words in found.conclusion
    assert "gp-md would have made" in found.conclusion
    assert "than staying at 100 m, the best altitude in the history" in found.conclusion
    assert ("too few to conclude" in found.conclusion) == (verdict == "too few")
    assert ("In another" in found.conclusion) == (verdict != "too few")
    assert any(("nothing about a year" if verdict == "too few" else "seasons") in text for text in found.warnings)


def test_the_answer_is_about_the_wind_planner():
    found = made([100.0] * 10, [110.0] * 10)
    ours = replace(found.flights["gp-md"], policy="wind-planner", gross=np.full(1680, 105 / 168))
    both = replace(found, flights=found.flights | {"wind-planner": ours})
    assert both.judged.policy == "wind-planner"
    assert both.flyable[0].policy == "gp-md"
    assert ": wind-planner would have made 5.0 % more" in both.conclusion
    assert "; gp-md, the paper's algorithm: +10.0 %)" in both.conclusion


def test_a_controller_that_stays_has_an_answer_of_its_own():
    found = made([100.0] * 10, [110.0] * 10)
    home, rounds = found.flights["fixed"], len(found.world.time)
    stayed = replace(found, flights=found.flights | {"wind-planner": replace(home, policy="wind-planner")})
    assert stayed.stayed
    assert stayed.verdict == "stayed"
    assert stayed.conclusion == (
        "wind-planner found nothing worth a move and stayed at 100 m, the best altitude in the history (+0.00 % "
        "against it; gp-md, the paper's algorithm: +10.0 %); perfect hindsight would have made 10.0 % more."
    )
    for late, verdict in ((5, "stayed"), (200, "undecided")):  # hours on the way there, in the second piece
        actions = np.where((np.arange(rounds) >= 168) & (np.arange(rounds) < 168 + late), 1, home.actions)
        flight = replace(home, policy="wind-planner", actions=actions)
        pieces = replace(found, flights=found.flights | {"wind-planner": flight}, lengths=(168, rounds - 168))
        assert pieces.verdict == verdict
    few = made([100.0] * 3, [110.0] * 3)
    few = replace(few, flights=few.flights | {"wind-planner": replace(few.flights["fixed"], policy="wind-planner")})
    assert few.verdict == "too few"
    assert few.conclusion.startswith("wind-planner found nothing worth a move and stayed at 100 m")


def test_a_gain_over_a_poor_altitude_is_said_to_be_one():
    found = made([100.0] * 10, [110.0] * 10)
    for best, caveat in ((120.0, True), (105.0, False)):
        flight = replace(found.flights["fixed"], policy="best-fixed", gross=np.full(1680, best / 168))
        flight = replace(flight, actions=np.ones(1680, dtype=np.int64))
        both = replace(found, flights=found.flights | {"best-fixed": flight})
        assert both.verdict == "yes"
        assert ("staying at 300 m would have made even more" in both.conclusion) == caveat


def test_a_whole_year_needs_no_warning():
    assert made([100.0] * 52, [101.0] * 52).warnings == []


def test_conclusions_without_a_comparison():
    found = made([100.0] * 10, [110.0] * 10)
    alone = replace(found, flights={k: v for k, v in found.flights.items() if k != "fixed"})
    assert alone.verdict == "no comparison"
    assert "nothing to compare with" in alone.conclusion
    nobody = replace(found, flights={k: v for k, v in found.flights.items() if k != "gp-md"})
    assert nobody.verdict == "no comparison"
    assert "No controller" in nobody.conclusion
    calm = made([-1.0] * 10, [0.5] * 10)
    assert calm.verdict == "no comparison"
    assert "would have made no net energy at all" in calm.conclusion
    assert np.isnan(calm.line("gp-md").gain)
    short = made([-1.0] * 2, [0.5] * 2)
    assert short.verdict == "too few"
    assert short.conclusion.endswith("2 weeks are too few to conclude anything.")
    fickle = made([-30.0, 31.0] * 5, [1.0] * 10)  # hardly anything in sum, and often less than nothing
    assert fickle.verdict == "no comparison"
    assert "a percentage of it means nothing" in fickle.conclusion


# ---- from wind data to results


def wind_data(hours=24 * 60, begin="2020-01-01", heights=(20.0, 100.0, 300.0), seed=0):
    random = np.random.default_rng(seed)
    time = np.datetime64(begin, "s") + np.arange(hours) * np.timedelta64(3600, "s")
    return WindData(time, heights, random.uniform(3, 14, (hours, len(heights))))


QUICK = Plan(count=4, policies=("fixed", "cgp-lcb"), what_if=())


@pytest.mark.parametrize("start", [20.0, 300.0])
def test_in_wind_that_nothing_can_be_predicted_of_the_wind_planner_hardly_moves(start):
    plan = replace(QUICK, policies=("fixed", "wind-planner"), start_altitude=start)
    found = run_backtest(wind_data(hours=24 * 90), plan=plan)
    flown, fixed = (found.backtest.flights[name] for name in ("wind-planner", "fixed"))
    assert (flown.actions != flown.before).mean() < 0.02
    assert flown.net.sum() > 0.97 * fixed.net.sum()


def test_what_is_assumed_leaves_out_how_policies_work_but_not_a_history_that_is_not_used():
    found = run_backtest(wind_data(), plan=replace(QUICK, policies=("fixed", "wind-planner")))
    works = found.backtest.flights["wind-planner"].explanation
    assert works in found.notes
    assert works not in found.assumptions
    assert any(note.startswith("history: ") for note in found.assumptions)
    assert not any(note.startswith("moving: ") for note in found.assumptions)  # `flown_words` says it
    assert found.flown_words.endswith("A metre of altitude costs 0.36 kWh, as the paper prints it.")
    aside = "The history is set aside: its mean wind is that of hardly any site."
    flights = {"wind-planner": replace(found.backtest.flights["wind-planner"], explanation=aside)}
    wrong = replace(found, notes=(aside,), backtest=replace(found.backtest, flights=found.backtest.flights | flights))
    assert wrong.assumptions == (aside,)


def test_a_single_height_leaves_no_choice():
    with pytest.raises(InvalidInput, match=r"wind at one height only, 100 m; .* give data with more heights"):
        run_backtest(wind_data(heights=(100.0,)), plan=QUICK)
    with pytest.raises(InvalidInput, match="share no heights: 50 m is the highest, 100 m the lowest of both"):
        run_backtest(wind_data(heights=(100.0, 300.0)), wind_data(begin="2019-01-01", heights=(20.0, 50.0)), QUICK)


def test_altitudes_that_few_machines_reach_are_warned_of():
    high = wind_data(heights=(100.0, 2830.0))
    warned = [text for text in run_backtest(high, plan=QUICK).warnings if "high=1000" in text]
    assert len(warned) == 1
    assert "go up to 2830 m, as the data do" in warned[0]
    chosen = run_backtest(high, plan=replace(QUICK, high=2000.0))
    assert not any("--high" in text for text in chosen.warnings)  # who says it, means it
    assert not any("--high" in text for text in run_backtest(wind_data(), plan=QUICK).warnings)


def test_a_result_hands_out_the_policies_that_it_flew(tmp_path):
    """With the past that they were made from; a record of one is verified by itself, and by one made again."""
    found = run_backtest(wind_data(), plan=replace(QUICK, policies=("fixed", "wind-planner")))
    policy = found.policy("wind-planner")
    flown = found.backtest.flights["wind-planner"]
    assert policy.explanation == flown.explanation
    assert "There is no history" not in policy.explanation
    world, path = found.backtest.world, tmp_path / "turbine.log"
    with hc.Controller(policy, start_index=found.backtest.start, log=path) as controller:
        for t in range(24):
            decision = controller.ask(float(world.moments[t]), forecast=world.speed[t + 1 : t + 13])
            controller.tell(decision.id, float(world.speed[t, decision.action]))
    assert hc.audit.verify(path).verified  # the record holds what was learned from the past
    again = run_backtest(wind_data(), plan=QUICK).policy("wind-planner")  # as another program would
    verified = hc.audit.verify(path, again)
    assert (verified.decisions, verified.differences) == (24, ())
    with pytest.raises(InvalidInput, match="policy 'magic' is not known; choose one of fixed, wind-planner"):
        found.policy("magic")


def test_history_is_the_first_quarter_unless_given():
    found = run_backtest(wind_data(), plan=QUICK)
    assert str(found.backtest.world.time[0]) == "2020-01-16T00:00:00"
    assert any("first quarter" in note for note in found.notes)
    later = run_backtest(wind_data(), plan=replace(QUICK, begin="2020-01-21", end="2020-02-01"))
    assert found.site == "site not stated"
    assert later.period == "2020-01-21 to 2020-01-31"
    assert any("before the test period, 2020-01-01 to 2020-01-20" in note for note in later.notes)
    assert any("history covers 20.0 days" in warning for warning in later.warnings)
    given = run_backtest(wind_data(), wind_data(begin="2019-06-01"), QUICK)
    assert given.period == "2020-01-01 to 2020-02-29"


def test_no_policy_sees_the_wind_to_come():
    """A history that reaches into the test period is cut; the fixed altitude does not depend on the wind flown."""
    both = wind_data(24 * 90, begin="2019-12-02")
    test = both.between("2020-01-01", None)
    cut = run_backtest(test, both, QUICK)
    assert any("left out" in note for note in cut.notes)
    before = run_backtest(test, both.between(None, "2020-01-01"), QUICK)
    assert written(cut.backtest) == written(before.backtest)
    with pytest.raises(InvalidInput, match="lies within the test period"):
        run_backtest(test, test, QUICK)


def test_altitudes_are_those_that_all_records_cover():
    found = run_backtest(wind_data(), wind_data(begin="2019-01-01", heights=(50.0, 100.0, 250.0)), QUICK)
    assert found.backtest.world.altitudes == pytest.approx(np.linspace(50, 250, 4))
    chosen = run_backtest(wind_data(), plan=replace(QUICK, low=60, high=120, count=3, start_altitude=115))
    assert chosen.backtest.world.altitudes.tolist() == [60, 90, 120]
    assert chosen.backtest.start == 2
    for bad in (replace(QUICK, low=300), replace(QUICK, count=1), replace(QUICK, high=1000)):
        with pytest.raises(InvalidInput):
            run_backtest(wind_data(), plan=bad)


def test_gaps_make_pieces_and_scraps_are_left_out():
    whole = wind_data()
    hours = np.arange(len(whole))
    kept = ~(((hours > 700) & (hours < 800)) | ((hours > 810) & (hours < 900)) | (hours == 1000))
    holed = WindData(whole.time[kept], whole.heights, whole.speed[kept])
    found = run_backtest(holed, wind_data(begin="2019-06-01"), QUICK)
    assert found.backtest.lengths == (701, 540)  # the missing hour is filled, the eleven hours between gaps dropped
    assert any("1 stretch was left out, 11 times in all, because" in note for note in found.notes)


def test_what_if_moving_were_cheaper():
    found = run_backtest(wind_data(), plan=replace(QUICK, what_if=(4.0, 0.5), movement="physical"))
    assert list(found.what_if) == [0.5, 1.0, 4.0]
    assert found.what_if[1.0] == found.backtest.lines
    names = {line.policy for line in found.what_if[4.0]}
    assert names == {"fixed", "cgp-lcb", "best-fixed", "clairvoyant"}
    gains = [next(line.gain for line in lines if line.policy == "clairvoyant") for lines in found.what_if.values()]
    assert gains == sorted(gains)  # hindsight gains most where moving is cheap
    told = []
    run_backtest(wind_data(), plan=replace(QUICK, what_if=(4.0,)), progress=lambda *what: told.append(what))
    assert [done for _, done, _ in told] == list(range(8))
    assert {total for _, _, total in told} == {8}


def test_a_second_process_changes_nothing():
    plan = replace(QUICK, what_if=(4.0, 0.5, 2.0), movement="physical")
    alone, told = run_backtest(wind_data(), plan=plan), []
    beside = run_backtest(wind_data(), plan=plan, processes=2, progress=lambda *what: told.append(what))
    assert repr(beside.what_if) == repr(alone.what_if)  # NaN is not equal to itself
    assert told[-1] == ("other prices of moving", told[-1][2], told[-1][2])


def test_what_if_leaves_out_what_knows_too_much_also_if_added_later(monkeypatch):
    makers = {"wind": lambda setting: hc.fixed_at(setting.world.problem, setting_index=0)}
    monkeypatch.setitem(registry.TABLE, "seer", registry.Entry("seer", "Seer", "", "costs", makers=makers))
    found = run_backtest(wind_data(), plan=replace(QUICK, policies=("fixed", "seer"), what_if=(4.0,)))
    assert "seer" in found.backtest.flights
    assert "seer" not in {line.policy for line in found.what_if[4.0]}


def test_fitted_hyperparameters_and_periodic_hours():
    plan = replace(QUICK, hyperparameters="fitted", context="periodic", policies=("fixed", "gp-md"))
    found = run_backtest(wind_data(24 * 10), plan=plan)
    assert found.backtest.verdict == "too few"
    assert np.isfinite(found.backtest.line("gp-md").net)
    with pytest.raises(InvalidInput, match="needs a history"):
        backtest(Setting(small_world(), hyperparameters="fitted"), ["gp-md"])


def test_finer_steps_count_their_share_of_an_hour():
    whole = wind_data(24 * 40)
    fine_time = np.repeat(whole.time, 2) + np.tile([0, 1800], len(whole)).astype("timedelta64[s]")
    fine = WindData(fine_time, whole.heights, np.repeat(whole.speed, 2, axis=0))
    history = wind_data(begin="2019-06-01")
    coarse, halved = (run_backtest(wind, history, QUICK).backtest for wind in (whole, fine))
    assert halved.world.step_hours == 0.5
    assert halved.line("best-fixed").gross == pytest.approx(coarse.line("best-fixed").gross)
    assert halved.weeks == coarse.weeks == 5
    again = run_backtest(fine, history, replace(QUICK, hourly=True)).backtest
    assert written(again) == written(coarse)
