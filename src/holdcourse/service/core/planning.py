"""Planning a trial of a controller, in a world fitted to its history and to all that it was told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, computing
from holdcourse.learning.history import History
from holdcourse.movement.settings import chosen
from holdcourse.running.events import Settings
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.store import Store
from holdcourse.trials.plan import plan_trial
from holdcourse.worlds.logged import LoggedWorld

SECONDS_PER_HOUR = 3600.0
PARTS = {"running": (0.1, 0.5), "trials": (0.5, 0.6), "rehearsing": (0.6, 1.0)}  # of the work, by its first word


def planned(
    store: Store, settings: Settings, wanted: Mapping[str, Any], tell: Callable[[float, str], None]
) -> dict[str, Any]:
    """Return how long blocks should be, and how long a trial would take; `wanted` is as `PlanGiven` has it."""
    hours = _hours(settings, wanted["hours"])
    if settings.file is not None:
        raise InvalidInput(
            f"the policy of {settings.id} came from a file, whose readings the service does not have; plan its trial "
            "with: holdcourse trial plan FILE"
        )
    tell(0.0, "reading the record")
    with computing():
        problem = configuration.problem_of(settings)
        past = _as_costs(epochs.told_so_far(store, settings.id, problem), maximise=settings.maximise)
        LoggedWorld.check(problem, past)
        held = chosen(problem, wanted["baseline"], wanted["baseline_index"], "baseline")
        if held is None:
            held = int(np.bincount(past.actions, minlength=problem.n).argmax())
        tell(0.01, f"fitting a world to {len(past):,} measurements")
        world = LoggedWorld.fit(problem, past)
        tell(0.05, f"fitting the policy to {len(past):,} measurements")
        costs = replace(settings, options={**settings.options, "maximise": None})  # in this world costs are measured
        found = plan_trial(
            configuration.policy_of(costs, problem, past),
            registry.make("fixed-at", problem, setting_index=held),
            world,
            start=held,
            gain=wanted["gain"],
            hours=hours,
            blocks=wanted["blocks"],
            rehearsals=wanted["rehearsals"],
            progress=lambda what, done, total: tell(_share(what, done, total), what),
        ).to_data()
    sign = -1.0 if settings.maximise else 1.0
    return found | {"bill": sign * found["bill"], "baseline": problem.value(held)}


def _hours(settings: Settings, given: float | None) -> float:
    if given is not None:
        return given
    if settings.limits.round_length is None:
        raise InvalidInput("say how long a round lasts: hours, or round_length among the controller's limits")
    return float(settings.limits.round_length) / SECONDS_PER_HOUR


def _as_costs(measured: list[configuration.Measured], *, maximise: bool) -> History:
    if not measured:
        raise InvalidInput(
            "there is neither a history nor a measurement yet, and a trial is planned from these; plan it later"
        )
    past = History.from_triples(measured)
    return History(past.actions, past.contexts, -past.measurements) if maximise else past


def _share(what: str, done: int, total: int) -> float:
    low, high = next((part for word, part in PARTS.items() if what.startswith(word)), (0.1, 1.0))
    return low + (high - low) * done / max(total, 1)
