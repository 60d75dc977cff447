"""From a backtest to what steers: the policy that was judged, with its evidence; for a large farm, one per cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.backtest.handover import file_digest, finite
from holdcourse.errors import InvalidInput
from holdcourse.wakes.learning import learning
from holdcourse.wakes.planning import planned, steering_problem
from holdcourse.wakes.result import LEARNER, OURS, Backtest
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]

CONTEXT = "wind direction (°), wind speed (m/s), day of the year: means over the interval before the decision"
SURPLUS = "farm power above the model without steering, as a share of the power without wakes: power_surplus"


def steering_policy(
    found: Backtest, name: str | None = None, *, cluster: int | None = None, files: Sequence[Path] = ()
) -> hc.Policy:
    """Return a policy of a backtest, to be saved or run, with the evidence of the backtest.

    It uses the table that the backtest was given, and the drift of the history or, without one, of the whole record.
    The learner begins with the model as it was given, because it learned from simulated power in the backtest.

    Parameters
    ----------
    name
        "wake-planner" or "wake-learner"; default: the policy that the answer is about.
    cluster
        Number of the cluster, from 0, if the farm is decided in clusters; `steering_policies` returns the policies of
        all.
    files
        Files from which the backtest was made, for the evidence.
    """
    if name is None:
        if found.judged is None:
            raise InvalidInput("no planner was run, so there is none to save; include wake-planner in the policies")
        name = found.judged.policy
    if name not in (OURS, LEARNER) or name not in found.runs:
        raise InvalidInput(f"{name} cannot be saved; choose {OURS} or {LEARNER}, and let the backtest run it")
    believed, prices, place = _part(found, cluster)
    problem = steering_problem(believed, prices)
    longest = found.longest
    table, drift = believed.to_data(), found.drift.to_data()
    if name == OURS:
        policy = planned(problem, table=table, drift=drift, longest=longest)
    else:
        policy = learning(problem, table=table, drift=drift, longest=longest, at_most=found.study.at_most)
    line, record = found.line(name), found.rounds.record
    data = hashlib.sha256(json.dumps([table, drift], sort_keys=True).encode())
    evidence = hc.Evidence(
        source=f"{found.table.farm.name}{place}: {record.name}",
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
    limits = None if longest is None else hc.Limits(max_step=tuple(np.full(len(believed.farm), longest).tolist()))
    kept = None if limits is None else limits.on(problem).describe()
    return replace(policy, evidence=evidence, units=units, limits=kept)


def steering_policies(found: Backtest, name: str | None = None, *, files: Sequence[Path] = ()) -> list[hc.Policy]:
    """Return the policies of a backtest: one, or one for each cluster of a large farm."""
    if isinstance(found.believed, EnergyTable):
        return [steering_policy(found, name, files=files)]
    return [steering_policy(found, name, cluster=k, files=files) for k in range(len(found.believed.members))]


def _part(found: Backtest, cluster: int | None) -> tuple[EnergyTable, Array, str]:
    """Return the table and the prices that a policy is made of, and which part of the farm that is."""
    believed = found.believed
    if isinstance(believed, EnergyTable):
        if cluster not in (None, 0):
            raise InvalidInput(
                f"cluster={cluster} does not apply, because this farm is decided as a whole; leave it out"
            )
        return believed, found.prices, ""
    count = len(believed.members)
    if cluster is None or not 0 <= cluster < count:
        raise InvalidInput(
            f"the farm is decided in {count} clusters, each with a policy of its own; give cluster=0 to {count - 1}, "
            f"got {cluster}, or use steering_policies"
        )
    place = f", cluster {cluster + 1} of {count}"
    return believed.tables[cluster], found.prices[believed.members[cluster]], place


def _name_of(path: Path, files: Sequence[Path]) -> str:
    """Return the name of a file, with its folder where another file has the same name."""
    alike = sum(other.name == path.name for other in files) > 1
    return str(path) if alike else path.name
