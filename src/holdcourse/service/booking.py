"""What the record holds of a decision and a tell beside what the policy needs: modes, costs, alarms."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdcourse.costs import CostModel
from holdcourse.decision import Record
from holdcourse.problem import Problem
from holdcourse.service.alarms import cleared, notes_of
from holdcourse.service.epochs import maximises
from holdcourse.service.ledger import FOLLOWED, Ledger
from holdcourse.service.rows import finite, plain_value


def instructed(ledger: Ledger) -> int | None:
    """What the machine shall do, whatever is decided; None where it shall do what is decided."""
    if ledger.override is not None:
        return int(ledger.override["action"])
    return None if ledger.mode in FOLLOWED else ledger.place


def asked(ledger: Ledger, problem: Problem, record: Record, key: str | None) -> dict[str, Any]:
    """What the machine shall do with a decision, and what is needed to book its tell."""
    proposed, action = record.decision.action, record.meant
    reason = "observe" if ledger.mode == "observe" else None
    if ledger.override is not None:
        reason = "override"
    knows = record.mean is not None
    extra = {
        "mode": ledger.mode,
        "act": ledger.override is not None or ledger.mode == "act",
        "action": action,
        "value": plain_value(problem.value(action)),
        "proposed_value": plain_value(problem.value(proposed)),
        "reason": reason,
        "expected": finite(record.expected[action]),
        "staying": finite(record.expected[ledger.home]) if knows else None,
        "fixed": finite(record.expected[ledger.fixed]) if knows and ledger.fixed is not None else None,
        "before": ledger.place,
        "episode": record.decision.episode,
    }
    return extra if key is None else extra | {"key": key}


def told(
    ledger: Ledger, problem: Problem, decision: str, measurement: float | None, taken: int, off: float | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The costs of a round, and the notes that follow from its tell; `off` is what `deviations` gave."""
    question = ledger.pending[decision]
    movement = problem.distance(question["before"], taken)
    service = None
    if measurement is not None:
        service = -measurement if maximises(ledger.config) else measurement
    notes = [] if measurement is None else notes_of(ledger.watched.after(measurement, off), list(ledger.alarms))
    if decision in ledger.stale:
        notes.append({"note": "recovered", "decision": decision})
        if len(ledger.stale) == 1:
            notes.append(cleared("stale"))
    ran: dict[int | None, float] = {} if service is None else {taken: service}  # an alternative that needs no estimate
    extra = {
        "taken": taken,
        "applied_value": plain_value(problem.value(taken)),
        "default": question["action"],
        "service": service,
        "movement": movement,
        "staying": ran.get(ledger.home, question["staying"]),
        "fixed": ran.get(ledger.fixed, question["fixed"]),
        "cumulative_service": ledger.sums.service + (service or 0.0),
        "cumulative_movement": ledger.sums.movement + movement,
        "deviations": off,
        "raised": [{"kind": note["kind"], "message": note["message"]} for note in notes if note["note"] == "alarm"],
    }
    return extra, notes


def deviations(record: Record | None, model: CostModel, taken: int, measurement: float | None) -> float | None:
    """How many deviations a measurement is from what was expected; None where nothing was."""
    learner = getattr(model, "models", [model])[0]  # of a hedge, the first
    if record is None or measurement is None or record.mean is None or record.std is None:
        return None
    if not hasattr(learner, "posterior"):
        return None
    spread = float(np.sqrt(record.std[taken] ** 2 + learner.posterior.prior.noise_variance))
    return finite((measurement - float(record.mean[taken])) / spread) if spread > 0 else None
