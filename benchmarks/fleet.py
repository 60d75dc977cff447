"""Fleets in lockstep against single controllers, and a map against the time that is allowed: processor time."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row
from holdcourse.wind.physics import wind_world
from holdcourse.wind.policy.policies import Past, Setting, gp_md, wind_planner

MEMBERS, ROUNDS, WARM = 1000, 20, 5
SINGLE_ROUNDS = 200
BAR = 5.0
ALLOWED_S = 0.6  # of one core for a point of a map and a year: 1,000 points on two cores within 5 minutes


def measure() -> list[Row]:
    """Decide and learn a round: a member of a fleet, and a controller alone."""
    setting = site()
    world = setting.world
    found = []
    for name, policy, contexts in (
        ("GP-MD, wind, 25 altitudes", gp_md(setting), world.hours),
        ("wind planner, 25 altitudes", wind_planner(setting), world.moments),
    ):
        begin = len(world.time) // 2
        together = fleet_seconds(policy, contexts[begin:], world.speed[begin:])
        alone = single_seconds(policy, contexts[begin:], world.speed[begin:])
        found.append(Row(f"a decision in a fleet of {MEMBERS}: {name}", together, "a Controller", alone, BAR))
    return [*found, map_row()]


def site() -> Setting:
    """The bundled site, with its history."""
    altitudes = np.linspace(10.0, 750.0, 25)
    past, test = hc.wind.bundled("history"), hc.wind.bundled("test")
    world = wind_world(test.time, altitudes, test.at(altitudes), movement="physical")
    before = wind_world(past.time, altitudes, past.at(altitudes))
    return Setting(world, Past(before.hours, before.speed, before.moments))


def fleet_seconds(policy: hc.Policy, contexts: Any, speed: Any) -> float:
    """Processor time of a member's round."""
    members = hc.fleet(policy, MEMBERS)
    begun = 0.0
    for t in range(WARM + ROUNDS):
        if t == WARM:
            begun = time.process_time()
        decisions = members.ask(contexts[t])
        members.tell(speed[t, decisions.action])
    return (time.process_time() - begun) / (ROUNDS * MEMBERS)


def single_seconds(policy: hc.Policy, contexts: Any, speed: Any) -> float:
    """Processor time of a controller's round."""
    controller = hc.Controller(policy)
    begun = 0.0
    for t in range(WARM + SINGLE_ROUNDS):
        if t == WARM:
            begun = time.process_time()
        decision = controller.ask(float(contexts[t]))
        controller.tell(decision.id, float(speed[t, decision.action]))
    return (time.process_time() - begun) / SINGLE_ROUNDS


def map_row() -> Row:
    """Six points of a made-up continent and a year, reading included."""
    from tests.helpers.continent import write_continent

    from holdcourse.wind.maps.run import MapPlan, wind_map

    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for path in write_continent(Path(folder), 2, 3, 8760)]
        wind_map(files, MapPlan("skysails"), Path(folder) / "warm", side=3)
        begun = time.process_time()
        wind_map(files, MapPlan("skysails"), Path(folder) / "map", side=3)
        seconds = (time.process_time() - begun) / 6
    return Row("a point of a wind map, one year, 12 altitudes", seconds, "allowed", ALLOWED_S, 1.0)
