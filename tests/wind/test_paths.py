"""From flights to the plan of a trial: both arms' paths are the flights', and a saved policy's are its own."""

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.handover import site_policy
from holdcourse.wind.backtest.paths import policy_paths, rehearsal, trial_paths
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
    with pytest.raises(InvalidInput, match="is told no wind speeds"):
        policy_paths(hc.gp_md(hc.Problem([50.0, 100.0])), hc.wind.bundled("test"))
