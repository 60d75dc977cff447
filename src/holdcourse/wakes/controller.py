"""A large farm at work: one controller for each cluster, asked together, and one offset for each turbine.

Nothing of one cluster enters the decisions of another, so there is no joint controller and no joint record: each
cluster has an ordinary controller with a record of its own, in a process or in the service, and each can be stopped,
overridden and verified alone. What belongs together is that all are asked with the same wind: that is what a
`FarmController` is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wakes.planning import PlannedEnergy


@dataclass(frozen=True)
class FarmDecision:
    """Decisions of the clusters of a farm for one interval.

    Attributes
    ----------
    offsets
        Offset of every turbine in degrees, by its name.
    decisions
        Decision of each cluster, in the order of the policies.
    """

    offsets: dict[str, float]
    decisions: tuple[hc.Decision, ...]


class FarmController:
    """The controllers of a farm's clusters, asked together.

    Parameters
    ----------
    policies
        The policies of all clusters, as `steering_policies` returns them or `hc.load_policy` reads them.
    folder
        Folder of the clusters' records, ``cluster-1.log`` and so on; if they exist, the farm continues where they end.
        None: there are no records.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table, rounds = hc.wakes.bundled_table(), hc.wakes.bundled_record().between(end="2014-01-20").rounds()
    >>> drift = hc.wakes.learn_drift(rounds, table.directions, table.speeds)
    >>> farm = hc.wakes.FarmController([hc.wakes.wake_planner(table, drift, "0.1 kWh per degree")])
    >>> decision = farm.ask([158.0, 8.0, 10])
    >>> sorted(decision.offsets)
    ['R80711', 'R80721', 'R80736', 'R80790']
    >>> farm.tell(decision)
    """

    def __init__(self, policies: Sequence[hc.Policy], folder: str | Path | None = None) -> None:
        self._turbines = [_turbines_of(policy) for policy in policies]
        names = [name for cluster in self._turbines for name in cluster]
        if not names:
            raise InvalidInput("a farm needs the policy of at least one cluster, got none")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidInput(f"turbine {twice[0]} is steered by two policies; give one policy for each cluster")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        logs = [None if folder is None else Path(folder) / f"cluster-{k + 1}.log" for k in range(len(policies))]
        self.controllers = [
            hc.Controller(policy, log=log, start_index=0) for policy, log in zip(policies, logs, strict=True)
        ]
        # A process that was stopped between two clusters left some that decided: nobody measured that interval.
        for controller in self.controllers:
            for decision in controller.pending:
                controller.tell(decision.id, None)

    def ask(self, context: Any) -> FarmDecision:
        """Decide for the next interval. The context is: direction and speed of the last wind, day of the year."""
        decisions = tuple(controller.ask(context) for controller in self.controllers)
        offsets = {
            name: float(value)
            for cluster, decision in zip(self._turbines, decisions, strict=True)
            for name, value in zip(cluster, np.ravel(decision.value), strict=True)  # of one turbine it is a number
        }
        return FarmDecision(offsets, decisions)

    def tell(self, decision: FarmDecision) -> None:
        """Say that the interval of a decision is over; wake planners learn nothing from what was measured in it."""
        for controller, each in zip(self.controllers, decision.decisions, strict=True):
            controller.tell(each.id, None)

    def close(self) -> None:
        """Close the records."""
        for controller in self.controllers:
            controller.close()

    def __enter__(self) -> FarmController:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _turbines_of(policy: hc.Policy) -> tuple[str, ...]:
    if not isinstance(policy.costs, PlannedEnergy):
        raise InvalidInput(f"{policy.name} does not steer wakes; give policies of `steering_policies`")
    return policy.costs.table.farm.turbines
