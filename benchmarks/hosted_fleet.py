"""A hosted fleet against single controllers that are asked in bulk: the server's processor time for a decision.

GP-MD on the bundled wind site, 25 altitudes. Both are driven over HTTP in the same run; a decision is an ask and a
tell, each on the disk before it is answered.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdcourse as hc
from benchmarks.fleet import site
from benchmarks.service import serving
from benchmarks.timing import Row
from holdcourse.wind.policy.policies import gp_md

MEMBERS, ROUNDS, WARM = 1000, 40, 5
CONTROLLERS, SINGLE_ROUNDS = 100, 10
BAR = 5.0


def measure() -> list[Row]:
    """Decide and learn a round over HTTP."""
    setting = site()
    begin = len(setting.world.time) // 2
    hours, speed = setting.world.hours[begin:], setting.world.speed[begin:]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        file = Path(folder) / "wind.policy"
        gp_md(setting).save(file)
        with serving(Path(folder) / "data") as (url, server), hc.connect(url) as service:
            fleet = service.create_fleet({"id": "fleet", "count": MEMBERS}, policy_file=file)
            names = [f"single-{k}" for k in range(CONTROLLERS)]
            for k, name in enumerate(names):
                service.create_from_file(file, name, seed=k)

            def fleet_round(t: int) -> None:
                decisions = fleet.ask(float(hours[t]))
                fleet.tell(speed[t, decisions.action], call=decisions.call)

            def single_round(t: int) -> None:
                asks = [{"controller": name, "context": float(hours[t])} for name in names]
                found: list[Any] = service.ask_many(asks)
                service.tell_many(
                    [
                        {"controller": name, "decision": each.id, "measurement": float(speed[t, each.action])}
                        for name, each in zip(names, found, strict=True)
                    ]
                )

            together = seconds_of(server, fleet_round, ROUNDS) / MEMBERS
            alone = seconds_of(server, single_round, SINGLE_ROUNDS) / CONTROLLERS
    name = f"a decision in a hosted fleet of {MEMBERS}: GP-MD, wind, 25 altitudes"
    return [Row(name, together, f"one of {CONTROLLERS} controllers in bulk", alone, BAR)]


def seconds_of(server: int, one_round: Callable[[int], None], rounds: int) -> float:
    """The server's processor time for a round, after some to warm up."""
    begun = 0.0
    for t in range(WARM + rounds):
        if t == WARM:
            begun = cpu_seconds(server)
        one_round(t)
    return (cpu_seconds(server) - begun) / rounds


def cpu_seconds(process: int) -> float:
    """Processor time that a process has taken; on Linux."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / float(os.sysconf("SC_CLK_TCK"))
