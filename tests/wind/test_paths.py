"""From flights to the plan of a trial: both arms' paths are the flights', and a saved policy's are its own."""

from dataclasses import replace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.handover import site_policy
from holdcourse.wind.backtest.paths import left_out_paths, policy_paths, rehearsal, trial_paths
from holdcourse.wind.backtest.run import Plan, run_backtest


@pytest.fixture(scope="module")
def site():
    plan = Plan(low=50, high=500, count=5, end="2010-07-15", policies=("fixed", "cgp-lcb"), what_if=())
    return run_backtest(hc.wind.bundled("test"), hc.wind.bundled("history"), plan)


def test_the_paths_are_those_of_the_flights(site):
    flown = site.backtest
    paths = trial_paths(flown, "cgp-lcb")
    ours, theirs = flown.flights["cgp-lcb"], flown.flights["fixed"]
    np.testing.assert_allclose(-paths.nets[0], theirs.net)
    np.testing.assert_allclose(-paths.nets[1], ours.net)
    assert paths.gain == pytest.approx(flown.line("cgp-lcb").gain)
    apart = flown.world.problem.distances[theirs.before, ours.actions]
    np.testing.assert_allclose(paths.to_policy, apart - ours.moving)


def test_a_saved_policy_flies_as_it_did(site, tmp_path):
    flown = site.backtest
    site_policy(site, "cgp-lcb", as_judged=True).save(tmp_path / "site.policy")
    policy = hc.load_policy(tmp_path / "site.policy")
    wind = hc.wind.bundled("test").between(None, "2010-07-15")
    held = int(flown.flights["fixed"].actions[-1])
    paths, rehearse, hours = policy_paths(policy, wind, altitude=flown.world.altitudes[held])
    assert hours == 1.0
    np.testing.assert_allclose(paths.baseline, flown.world.energy[:, held])
    np.testing.assert_allclose(paths.policy[1:], flown.flights["cgp-lcb"].gross[1:])  # it begins somewhere else
    table = rehearse(3, 1.0, 1, lambda done, total: None)
    mine = table.arm == 0
    np.testing.assert_allclose(table.cost[mine], flown.world.energy[mine, held])
    alike = rehearsal(policy, held, flown.world, held)(3, 1.0, 1, lambda done, total: None)
    np.testing.assert_array_equal(table.cost, alike.cost)


def test_a_policy_that_is_told_no_wind_cannot_fly(site):
    with pytest.raises(InvalidInput, match="does not measure wind speeds"):
        policy_paths(hc.gp_md(hc.Problem([50.0, 100.0])), hc.wind.bundled("test"))


def test_each_part_of_a_record_is_flown_by_a_policy_that_did_not_see_it(tmp_path):
    wind = hc.wind.bundled("test").between("2010-07-01", "2010-08-26")
    told = []
    plan = Plan(low=50, high=500, count=4, movement="physical")
    paths, rehearse, hours = left_out_paths(wind, plan, progress=lambda what, done, total: told.append((done, total)))
    assert (hours, paths.rounds, told) == (1.0, len(wind), [(k, 4) for k in range(4)])
    second = slice(336, 672)  # the second of four parts, flown with the other three as they are
    rest = np.r_[0:336, 672:1344]
    others = replace(wind, time=wind.time[rest], speed=wind.speed[rest])
    chosen = replace(
        plan,
        begin="2010-07-15",
        end="2010-07-29",
        policies=("fixed", "wind-planner"),
        what_if=(),
        allow_later_history=True,
    )
    flown = run_backtest(wind, others, replace(chosen, allow_later_history=True)).backtest
    np.testing.assert_array_equal(paths.policy[second], flown.flights["wind-planner"].gross)
    np.testing.assert_array_equal(paths.policy_movement[second], flown.flights["wind-planner"].moving)

    done = []
    table = rehearse(2, 0.5, 3, lambda rounds, total: done.append((rounds, total)))
    assert (table.pairs, table.maximise, len(table.block)) == (336, True, 1344)
    assert done == sorted(done)
    assert {total for _, total in done} == {1344}
    theirs = table.arm == 0
    np.testing.assert_allclose(table.cost[theirs], paths.baseline[theirs])

    site = run_backtest(wind, None, replace(chosen, begin="2010-07-29", end=None))
    site_policy(site, "wind-planner").save(tmp_path / "site.policy")  # learned from all of this wind
    again, _, _ = policy_paths(hc.load_policy(tmp_path / "site.policy"), wind)
    np.testing.assert_allclose(again.policy, paths.policy)
