"""A fleet seen from afar: the words of `Fleet`, and the same decisions."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from service.running import KERNEL, QUICK, served

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput
from holdcourse.wind.physics import wind_world
from holdcourse.wind.policy.candidates import Candidates
from holdcourse.wind.policy.climate import general_climate
from holdcourse.wind.policy.planner import planned

COUNT = 4
FLEET = {name: value for name, value in QUICK.items() if name != "id"} | {"count": COUNT}


def policy_of():
    problem = hc.Problem(QUICK["actions"], scale=QUICK["scale"])
    return hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("fleets") / "data") as url, hc.connect(url, patience=5.0) as service:
        yield service


def test_it_decides_as_the_fleet_in_this_process(service, tmp_path):
    policy = policy_of()
    policy.save(tmp_path / "pumps.policy")
    by_options = service.create_fleet(FLEET | {"id": "by-options"})
    config = {"id": "by-file", "count": COUNT, "seed": 3}
    by_file = service.create_fleet(config, policy_file=tmp_path / "pumps.policy")
    here, random = hc.fleet(policy, COUNT, seed=3), np.random.default_rng(0)
    for t in range(5):
        contexts = random.random(COUNT) if t % 2 else float(random.random())
        mask = None if t % 2 else random.random(COUNT) > 0.3
        allowed = None if t < 3 else [0.0, 2.0]
        expected = here.ask(contexts, None if allowed is None else np.array([True, False, True, False]), mask)
        measured = np.where(random.random(COUNT) < 0.2, np.nan, random.normal(size=COUNT))
        for pumps in (by_options, by_file):
            given = np.where(mask, contexts, np.nan) if mask is not None and t == 2 else contexts
            found = pumps.ask(given, allowed, mask, call=t, with_probabilities=True)
            assert found.action.tolist() == expected.action.tolist()
            assert found.setting == [QUICK["actions"][k] for k in found.action]
            assert np.array_equal(found.probabilities, expected.probabilities, equal_nan=True)
            assert np.array_equal(found.expected_cost, expected.expected_cost, equal_nan=True)
            pumps.tell(measured, call=found.call)
            pumps.tell(measured, mask, call=found.call)
        here.tell(measured)
    assert by_options.members()["action"] == here.action.tolist()
    said = []
    found = by_file.verify(full=True, progress=lambda share, words: said.append(share))
    assert (found["ok"], found["events"]) == (True, 11)
    assert by_options.ask([[0.5]] * COUNT).probabilities is None
    assert by_options.state()["next_call"] == 6
    assert [each["id"] for each in service.fleets()] == ["by-file", "by-options"]
    assert repr(by_file) == f"RemoteFleet('by-file' at {service.url})"
    assert by_file.delete("by-file", "it was a test")["deleted"] == "by-file"
    with pytest.raises(InvalidInput, match="there is no fleet 'by-file'"):
        by_file.state()


def test_errors_are_those_of_a_fleet(service):
    pumps = service.create_fleet(FLEET | {"id": "errors"})
    pumps.ask(0.5)
    with pytest.raises(InvalidInput, match="member 0 and 3 others of those asked still wait for their measurements"):
        pumps.ask(0.25)
    with pytest.raises(Conflict, match="call 0 asked member 0"):
        pumps.ask(0.25, call=0)
    with pytest.raises(Conflict, match=r"errors already exists with other settings \(seed\)"):
        service.create_fleet(FLEET | {"id": "errors", "seed": 8})
    for time in (datetime(2026, 3, 1, tzinfo=UTC), np.datetime64("2026-03-01T00"), "2026-03-01T00:00Z"):
        with pytest.raises(InvalidInput, match="contexts of GP-MD are not times"):
            pumps.ask(time)
    with pytest.raises(InvalidInput, match="one for each of 4 members, got 3"):
        pumps.ask(np.array([[0.1], [np.nan], [0.2]]))


def test_a_wind_planner_is_asked_by_the_time(service, tmp_path):
    altitudes = np.linspace(50.0, 500.0, 6)
    speed = np.full((48, 6), 4.0) + np.linspace(0.0, 2.0, 6)
    world = wind_world(np.datetime64("2026-03-01T00") + np.arange(48), altitudes, speed, movement="physical")
    policy = planned(
        world.problem,
        wind=Candidates((general_climate(altitudes),)).to_data(),
        curve=world.curve.to_data(),
        scale=1.0,
        interval=1.0,
        horizon=12,
        caution=1.5,
        worth=[np.linspace(1.0, 2.0, 6).tolist()],
        known=[500.0],
    )
    policy.save(tmp_path / "kite.policy")
    kites = service.create_fleet({"id": "kites", "count": 3}, policy_file=tmp_path / "kite.policy")
    here, random, places = hc.fleet(policy, 3), np.random.default_rng(0), set()
    for t in range(8):
        found, expected = kites.ask(world.time[t], with_probabilities=True), here.ask(world.moments[t])
        assert found.expected_cost.tolist() == expected.expected_cost.tolist()
        assert found.action.tolist() == expected.action.tolist()
        assert found.setting == altitudes[found.action].tolist()
        places.add(tuple(found.action.tolist()))
        measured = random.uniform(0.0, 15.0, 3)
        kites.tell(measured, call=found.call)
        here.tell(measured)
    assert any(len(set(place)) > 1 for place in places)  # each has learned its own wind
