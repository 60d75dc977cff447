"""What the record holds of a decision and a tell beside what the policy needs: modes, costs, alarms."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from holdcourse.costs import CostModel
from holdcourse.decision import Record
from holdcourse.problem import Problem
from holdcourse.service.alarms import cleared, notes_of
from holdcourse.service.epochs import maximises
from holdcourse.service.ledger import FOLLOWED, Ledger
from holdcourse.service.rows import finite, plain_value


class Orders(TypedDict, total=False):
    """Who decides what the machine does in a round, in the words of `Controller.ask`."""

    instructed: int
    force: str | None
    watching: bool


def orders(ledger: Ledger) -> Orders:
    """What the machine shall do in place of what is decided; nothing where it shall do that."""
    held = ledger.override
    if held is not None:
        return {"instructed": held["action"], "force": held["reason"] if held["force"] else None}
    return {} if ledger.mode in FOLLOWED else {"watching": True}


def asked(ledger: Ledger, problem: Problem, record: Record, key: str | None) -> dict[str, Any]:
    """What the machine shall do with a decision, and what is needed to book its tell."""
    proposed, action, order = record.decision.action, record.meant, record.order
    reason = "observe" if ledger.mode == "observe" else None
    if ledger.override is not None:
        reason = "override"
    extra = {
        "mode": ledger.mode,
        "act": ledger.override is not None or ledger.mode == "act",
        "action": action,
        "value": plain_value(problem.value(action)),
        "proposed_value": plain_value(problem.value(proposed)),
        "reason": reason,
        "limited_by": record.decision.limited_by if order is None else order.limited_by,
        "forced": None if order is None else order.force,
        "expected": finite(record.expected[action]),
        "expected_measurement": None if record.mean is None else finite(record.mean[action]),
        "before": ledger.place,
        "episode": record.decision.episode,
    }
    return extra if key is None else extra | {"key": key}


def told(
    ledger: Ledger,
    problem: Problem,
    decision: str,
    measurement: float | None,
    applied: int | None,
    record: Record | None,
    off: float | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The costs of a round, and the notes that follow from its tell.

    `record` is what the controller knows of the decision, None of one of an earlier epoch; `off` is what `deviations`
    gave.
    """
    question, meant = ledger.pending[decision], ledger.meant(decision)
    taken = meant if applied is None else applied
    movement = problem.distance(question["before"], taken)
    service = None
    if measurement is not None:
        service = -measurement if maximises(ledger.config) else measurement
    notes = [] if measurement is None else notes_of(ledger.watched.after(measurement, off), list(ledger.alarms))
    if decision in ledger.stale:
        notes.append({"note": "recovered", "decision": decision})
        if len(ledger.stale) == 1:
            notes.append(cleared("stale"))
    extra = {
        "taken": taken,
        "applied_value": plain_value(problem.value(taken)),
        "default": meant,
        "assumed": None if applied is not None else "fallback" if ledger.fallback_of(decision) else "answer",
        "service": service,
        "movement": movement,
        "staying": alternative(record, service, taken, ledger.home),
        "fixed": None if ledger.fixed is None else alternative(record, service, taken, ledger.fixed),
        "cumulative_service": ledger.sums.service + (service or 0.0),
        "cumulative_movement": ledger.sums.movement + movement,
        "deviations": off,
        "raised": [{"kind": note["kind"], "message": note["message"]} for note in notes if note["note"] == "alarm"],
    }
    return extra, notes


def alternative(record: Record | None, service: float | None, taken: int, other: int) -> float | None:
    """What a round would have cost at another action than the one taken; None where nobody can say.

    The model's expectation there and the round's surprise, measured less expected where the machine was: what made the
    round dearer or cheaper than expected is taken to have done so everywhere. Of a round without a measurement there is
    no surprise, and `Sums.compare` looks at its movement only.
    """
    if service is not None and other == taken:
        return service
    if record is None or record.mean is None:
        return None
    surprise = 0.0 if service is None else service - float(record.expected[taken])
    return finite(float(record.expected[other]) + surprise)


def deviations(record: Record | None, model: CostModel, taken: int, measurement: float | None) -> float | None:
    """How many deviations a measurement is from what was expected; None where nothing was."""
    learner = getattr(model, "models", [model])[0]  # of a hedge, the first
    if record is None or measurement is None or record.mean is None or record.std is None:
        return None
    if not hasattr(learner, "posterior"):
        return None
    spread = float(np.sqrt(record.std[taken] ** 2 + learner.posterior.prior.noise_variance))
    return finite((measurement - float(record.mean[taken])) / spread) if spread > 0 else None
