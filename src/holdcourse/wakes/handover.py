"""From a backtest to what steers: the policy that was judged, with its evidence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import holdcourse as hc
from holdcourse.backtest.handover import file_digest, finite
from holdcourse.errors import InvalidInput
from holdcourse.wakes.learning import learning
from holdcourse.wakes.planning import planned, steering_problem
from holdcourse.wakes.result import LEARNER, OURS, Backtest

CONTEXT = "wind direction (°), wind speed (m/s), day of the year: means over the interval before the decision"
SURPLUS = "farm power above the model without steering, as a share of the power without wakes: power_surplus"


def steering_policy(found: Backtest, name: str | None = None, *, files: Sequence[Path] = ()) -> hc.Policy:
    """Return a policy of a backtest, to be saved or run, with what the backtest said of it.

    It believes in the table that the backtest was given, and knows the drift of the history or, without one, of all of
    the record. The learner begins with the model as it was given: what it learned in the backtest came from a simulated
    power.

    Parameters
    ----------
    name
        "wake-planner" or "wake-learner"; default the one that the answer is about.
    files
        That the backtest was made from, for its evidence.
    """
    if name is None:
        if found.judged is None:
            raise InvalidInput("no planner was run, so there is none to save; leave wake-planner among the policies")
        name = found.judged.policy
    if name not in (OURS, LEARNER) or name not in found.runs:
        raise InvalidInput(f"{name} cannot be saved; choose {OURS} or {LEARNER}, and let the backtest run it")
    problem = steering_problem(found.believed, found.prices)
    longest = found.longest
    table, drift = found.believed.to_data(), found.drift.to_data()
    if name == OURS:
        policy = planned(problem, table=table, drift=drift, longest=longest)
    else:
        policy = learning(problem, table=table, drift=drift, longest=longest, at_most=found.study.at_most)
    line, record = found.line(name), found.rounds.record
    data = hashlib.sha256(json.dumps([table, drift], sort_keys=True).encode())
    evidence = hc.Evidence(
        source=f"{found.table.farm.name}: {record.name}",
        files={_name_of(path, files): file_digest(path) for path in files},
        data=data.hexdigest(),
        learned=f"the wind of {found.drift_source}",
        judged=f"{found.period}, {len(found.rounds):,} rounds",
        as_judged=False,
        verdict=found.verdict if found.judged is not None and found.judged.policy == name else "",
        conclusion=found.conclusion if found.judged is not None and found.judged.policy == name else "",
        figures={
            "gain_percent": finite(line.gain),
            "net_percent": finite(line.net),
            "net_low": finite(line.net_low),
            "net_high": finite(line.net_high),
            "degrees_per_year": finite(line.travel),
            "step_hours": found.rounds.hours,
        },
    )
    measured = SURPLUS if name == LEARNER else "nothing: the wake model is taken as known"
    units = {"action": "°", "measurement": measured, "cost": "kWh", "context": CONTEXT}
    limits = None if longest is None else hc.Limits(max_step=tuple(np.full(len(found.table.farm), longest).tolist()))
    kept = None if limits is None else limits.on(problem).describe()
    return replace(policy, evidence=evidence, units=units, limits=kept)


def _name_of(path: Path, files: Sequence[Path]) -> str:
    """Return the name of a file, with its folder where another file has the same name."""
    alike = sum(other.name == path.name for other in files) > 1
    return str(path) if alike else path.name
