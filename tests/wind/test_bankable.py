"""Figures per year: against a normal distribution that is known, and against the books of a flight."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, weibull_min

from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled, machine
from holdcourse.wind.backtest.bankable import (  # private parts too: on data that no backtest has
    HOURS_PER_YEAR,
    Factors,
    Year,
    _by_month_and_hour,
    _Stretch,
    _worth_using,
    _years,
    bankable,
    exceeded,
    weibull_fit,
)
from holdcourse.wind.backtest.forecast_skill import Skill
from holdcourse.wind.backtest.result import OURS
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.policy.planner import Taught
from holdcourse.wind.report.page import page, write_report
from holdcourse.wind.report.tables import as_data

PLAN = Plan(low=50, high=500, count=4, policies=("fixed", "wind-planner"), what_if=(), movement="physical")


@pytest.fixture(scope="module")
def result():
    return run_backtest(
        bundled("test"), bundled("history"), replace(PLAN, machine=machine("skysails"), price=0.1, currency="EUR")
    )


def test_levels_hold_for_years_that_are_normal():
    """A further year exceeds P90 of five others in 90 % of cases, and P75 in 75 %: also for so few years."""
    random = np.random.default_rng(0)
    drawn = random.normal(100.0, 7.0, (4000, 6))
    for level in (0.5, 0.75, 0.9):
        held = np.mean([years[5] >= exceeded(years[:5], level) for years in drawn])
        assert held == pytest.approx(level, abs=0.025)


def test_levels_by_hand():
    years = np.array([90.0, 100.0, 110.0])
    assert exceeded(years, 0.5) == 100
    assert exceeded(years, 0.9) == pytest.approx(100 - 1.885618 * 10 * math.sqrt(4 / 3))
    assert exceeded(years, 0.9, span=10**9) == pytest.approx(100 - 1.885618 * 10 * math.sqrt(1 / 3), rel=1e-6)
    assert exceeded(np.full(3, 100.0), 0.9, 1, 0.05) == pytest.approx(100 - norm.ppf(0.9) * 5)
    assert math.isnan(exceeded(years[:1], 0.9))


def test_weibull_is_that_of_scipy():
    speed = weibull_min.rvs(2.2, scale=9.0, size=(3000, 2), random_state=1)
    for (scale, shape), column in zip(weibull_fit(speed), speed.T, strict=True):
        k, _, a = weibull_min.fit(column, floc=0)
        assert (scale, shape) == (pytest.approx(a, rel=1e-3), pytest.approx(k, rel=1e-3))


def test_years_are_counted_back_from_the_end():
    hours = np.arange(0.0, 2.6 * HOURS_PER_YEAR)
    found = _years(hours, 1.0)
    assert [end - begin for begin, end in found] == [8766, 8766]
    assert found[-1][1] == len(hours)
    holes = np.delete(hours, np.arange(len(hours) - 3000, len(hours) - 1000))  # a third of the last year
    assert len(_years(holes, 1.0)) == 1
    assert _years(hours[:5000], 1.0) == []


def test_month_and_hour():
    times = np.array([0.0, 24.0, 31 * 24.0 + 5])  # 1 and 2 January 1970, and 5 h on 1 February
    mean = _by_month_and_hour(times, np.array([1.0, 3.0, 7.0]))
    assert (mean[0, 0], mean[1, 5]) == (2.0, 7.0)
    assert np.isfinite(mean).sum() == 2


def test_the_bundled_years(result):
    found = result.bankable
    assert [year.end for year in found.years] == ["2008-12-31", "2009-12-31", "2010-12-31"]
    assert found.hours_at.sum() == pytest.approx(HOURS_PER_YEAR)
    for year in found.years:
        assert year.coverage > 0.99
        assert year.ours > year.fixed > 0
    p50, p75, p90 = (found.exceeded("ours", level) for level in (0.5, 0.75, 0.9))
    assert p50 > p75 > p90 > 0
    assert p90 < found.exceeded("ours", 0.9, 10) < p50
    # The mean gain over months and hours is the mean gain over years.
    weights = np.full(12, 1 / 12)
    gain = float(weights @ found.gain.mean(axis=1)) * HOURS_PER_YEAR
    assert gain == pytest.approx(found.exceeded("more", 0.5), rel=0.03)
    assert found.capacity_factor == pytest.approx(p50 / (121.44 * HOURS_PER_YEAR))
    assert [(each.what, each.tried) for each in found.calibration] == [("P50", 1), ("P75", 1), ("P90", 1), ("gain", 7)]
    assert any("P90 could be checked in only 1 case, which is too few to say" in words for words in found.words)
    assert found.weeks.sum(axis=0) == pytest.approx([3 * p50, 3 * found.exceeded("fixed", 0.5)], rel=0.01)


def test_no_year_is_flown_with_its_own_wind(result):
    """Other wind in the last year changes nothing of what the years before it made."""
    setting, caution = result.setting, float(result.policy(OURS).made_by[1]["caution"])
    calm = replace(setting, world=replace(setting.world, speed=setting.world.speed * 0.5))
    before, after = result.bankable.years, bankable(calm, caution).years
    assert after[1].ours == before[1].ours
    assert after[2].ours < 0.9 * before[2].ours


def test_factors(result):
    plain, stated = result.bankable, replace(result.bankable, factors=Factors(0.95, 0.03, 0.08))
    assert stated.exceeded("ours", 0.5) == pytest.approx(0.95 * 0.97 * plain.exceeded("ours", 0.5))
    assert stated.exceeded("ours", 0.9) < 0.95 * 0.97 * plain.exceeded("ours", 0.9)
    assert any("include your error of 8 %" in words for words in stated.words)
    for wrong in ({"availability": 0.0}, {"losses": 1.0}, {"uncertainty": -0.1}, {"availability": math.nan}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            Factors(**wrong)


def test_calibration_counts_years_that_reached_what_was_said(result):
    years = tuple(Year(str(k), 1.0, made, 90.0, 0.0, 1.0) for k, made in enumerate([100, 102, 98, 100.5, 60]))
    found = replace(result.bankable, years=years)
    # P75 of 100 and 102 is 99.3, P90 95.7: 98 reaches only the latter, 100.5 both, 60 none.
    assert [(each.what, each.held, each.tried) for each in found.calibration[:3]] == [
        ("P50", 1, 3),
        ("P75", 1, 3),
        ("P90", 2, 3),
    ]


def test_one_year_has_no_p90(result):
    found = replace(result.bankable, years=result.bankable.years[:1])
    assert math.isnan(found.exceeded("ours", 0.9))
    assert "P90 need two years" in found.words[0]
    assert json.dumps(found.as_values(), allow_nan=False)


def test_less_than_a_year_has_no_figures():
    short = run_backtest(bundled("test"), plan=replace(PLAN, end="2010-09-01"))
    assert short.bankable is None
    assert "per_year" not in as_data([short])["sites"][0]


def test_a_record_of_single_hours_has_no_figures(result):
    """Every other hour of history in steps of an hour: no stretch of a day can be flown."""
    world = result.setting.world
    few = slice(0, 200)
    short = replace(world, time=world.time[few], speed=world.speed[few])
    past = replace(
        result.setting.past, **{name: getattr(result.setting.past, name)[::2] for name in ("hours", "speed", "time")}
    )
    assert bankable(replace(result.setting, world=short, past=past), 1.0) is None


def test_the_report_and_its_files(result, tmp_path):
    paths = write_report([result], tmp_path, pictures=False)
    assert {"yearly.csv", "month_hour.csv", "altitude_hours.csv", "levels.csv"} <= {path.name for path in paths}
    shown = (tmp_path / "report.html").read_text()
    p90 = f"{result.bankable.exceeded('ours', 0.9):,.0f}"
    assert "Energy per year" in shown
    assert p90 in shown
    with (tmp_path / "month_hour.csv").open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == 13
    assert float(rows[3][4]) == pytest.approx(result.bankable.gain[2, 2], abs=1e-3)
    with (tmp_path / "levels.csv").open() as file:
        levels = {(row["what"], row["level"]): row for row in csv.DictReader(file)}
    assert float(levels["gain", "P90"]["kwh_per_year"]) == pytest.approx(
        result.bankable.exceeded("more", 0.9), abs=0.01
    )
    assert float(levels["wind-planner", "P50"]["eur_per_year"]) == pytest.approx(
        0.1 * result.bankable.exceeded("ours", 0.5), abs=0.01
    )
    assert (levels["calibration: gain", "95 %"]["held"], levels["calibration: gain", "95 %"]["tried"]) == ("7", "7")
    for head in ("P90, kWh a year", "worth at P90, EUR a year", "% of the plain policy", "worth, EUR"):
        assert head in shown
    values = as_data([result])["sites"][0]["per_year"]
    assert values["currency"] == "EUR"
    assert values["knowing_more_worth_per_year"]["lidar"] == pytest.approx(0.1 * result.bankable.worth_knowing["lidar"])
    assert values["worth_per_year"]["gain"]["p50"] == pytest.approx(0.1 * result.bankable.exceeded("more", 0.5))


# -- what knowing more is worth ---------------------------------------------------------------------------------------


def test_knowing_more_is_worth_something_and_less_than_everything(result):
    worth = result.bankable.worth_knowing
    assert 0 < worth["lidar"] < worth["hindsight"]
    assert 0 <= worth["forecast"] < worth["hindsight"]
    assert max(worth["lidar"], worth["forecast"]) * 0.98 < worth["both"] < worth["hindsight"]
    assert result.bankable.knowing_words.startswith("More information would add per year: lidar +")
    assert result.bankable.knowing_words.endswith(" EUR).")
    assert "from published figures" in page([result])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skysails", "awe-power-150", "v3"])
@pytest.mark.parametrize("movement", ["paper", "physical"])
def test_knowing_more_never_costs(name, movement):
    """In the mean over the years at hand, with every machine and at both prices."""
    plan = replace(PLAN, machine=machine(name), movement=movement)
    worth = run_backtest(bundled("test"), bundled("history"), plan).bankable.worth_knowing
    assert min(worth.values()) >= 0
    assert max(worth.values()) == worth["hindsight"]


@pytest.fixture(scope="module")
def stretch(result):
    world = result.setting.world
    taught = Taught.by(world, world.moments, world.speed, 1.0)
    return _Stretch(world, taught, world.moments[:1500], world.speed[:1500], 1.0)


def test_a_perfect_forecast_is_worth_more_than_a_poor_one(stretch):
    def net(first, day):
        return float(stretch.net(stretch.actions(1.0, Skill(first, day), "forecast")).sum())

    plain = float(stretch.net(stretch.actions(1.0, Skill())).sum())
    assert net(1000.0, 1000.0) == plain  # a forecast worse than the filter is not followed
    assert net(0.01, 0.01) > net(1.0, 1.5) > plain
    assert stretch.net(stretch.hindsight()).sum() > net(0.01, 0.01)


def test_what_did_not_pay_is_left_unread(stretch):
    used = _worth_using([stretch], 1.0, Skill(0.01, 0.01))
    assert (used["lidar"], used["forecast"]) == ("lidar", "forecast")
    assert used["both"] in ("forecast", "both")  # who knows what comes needs no lidar
    assert _worth_using([stretch], 1.0, Skill(1000.0, 1000.0))["forecast"] == ""
    assert _worth_using([], 1.0, Skill()) == {"lidar": "", "forecast": "", "both": ""}


class _Told:
    """A stretch of twenty weeks in which what is told brings so much a week, kWh, give or take one."""

    step = 1.0

    def __init__(self, **brings):
        self.brings = {"": 0.0, **brings}

    def actions(self, caution, skill, told=""):
        return told

    def net(self, told):
        apart = np.random.default_rng(len(told)).normal(0.0, 1.0, 20)
        return np.repeat(100.0 + self.brings[told] + apart * (told != ""), 168) / 168.0


@pytest.mark.parametrize(
    ("lidar", "forecast", "both", "used"),
    [
        (0.0, 0.0, 3.0, ""),  # by chance: neither had paid alone
        (5.0, 0.0, 5.1, "lidar"),  # hardly more than with the lidar
        (5.0, 0.0, 9.0, "both"),
        (3.0, 6.0, 2.0, "forecast"),  # never less than the better one
    ],
)
def test_both_are_used_where_the_second_adds_to_the_first(lidar, forecast, both, used):
    found = _worth_using([_Told(lidar=lidar, forecast=forecast, both=both)], 1.0, Skill())
    assert found == {"lidar": "lidar" * (lidar > 0), "forecast": "forecast" * (forecast > 0), "both": used}


def test_errors_of_forecasts_are_as_stated():
    skill = Skill(1.0, 3.3)
    assert skill.errors(24, 1.0)[[0, 10, 23]] ** 2 == pytest.approx([1.0, 1.0 + 9.89 * 10 / 23, 3.3**2])
    drawn = skill.wrong(np.array([100.0, 200.0, 750.0]), 20_000, 1.0, seed=0)
    assert drawn.std(axis=0) == pytest.approx(np.ones(3), abs=0.05)
    together = np.corrcoef(drawn.T)
    assert together[0, 1] == pytest.approx(0.61, abs=0.05)
    assert np.corrcoef(drawn[6:, 0], drawn[:-6, 0])[0, 1] == pytest.approx(np.exp(-1), abs=0.05)
    for wrong in ((0.0, 1.0), (2.0, 1.0), (1.0, math.inf)):
        with pytest.raises(InvalidInput, match="forecast_error="):
            Skill(*wrong)
