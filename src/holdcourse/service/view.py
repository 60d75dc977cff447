"""What everybody may look at while a controller works: replaced as a whole after every change, never changed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from holdcourse import recipe
from holdcourse.controller import Controller
from holdcourse.policy import Policy
from holdcourse.service.epochs import maximises
from holdcourse.service.ledger import FOLLOWED, Ledger
from holdcourse.service.rows import plain_value
from holdcourse.service.watchdog import Timing


@dataclass(frozen=True)
class View:
    """See the module's docstring. Only what depends on the time is worked out when it is looked at.

    Attributes
    ----------
    fixed_part
        The state but for `status` and `instruction`.
    due
        When the oldest pending decision should be told or, if none is pending, the next one asked, on the clock that
        nobody can set; None: never.
    counts
        Decisions, tells and alarms so far, for metrics.
    reported
        How many pending decisions the record already calls stale.
    config
        The settings in force, without history.
    timing
        What tells how late it is.
    """

    fixed_part: dict[str, Any]
    due: float | None
    counts: dict[str, int]
    reported: int
    config: dict[str, Any]
    timing: Timing

    @classmethod
    def of(
        cls,
        unchanging: dict[str, Any],
        controller: Controller,
        ledger: Ledger,
        pending: list[dict[str, Any]],
        timing: Timing,
    ) -> View:
        """The view of a controller as it is; `unchanging` is what `of_epoch` gave."""
        config, sums, problem = ledger.config, ledger.sums, controller.policy.problem
        fixed_part = unchanging | {
            "explains_itself": _explained(ledger, unchanging["explains_itself"]),
            "name": config["name"] or unchanging["id"],
            "mode": ledger.mode,
            "round": controller.round,
            "episode": controller.episode,
            "action": ledger.place,
            "value": plain_value(problem.value(ledger.place)),
            "pending": list(pending),
            "override": ledger.override,
            "deadline_s": config["deadline_s"],
            "fallback": config["fallback"],
            "limits": config["limits"],
            "alarms": [{**alarm, "cleared_at": None} for alarm in ledger.alarms.values()],
            "last_at": ledger.last_at,
            "policy": config["policy"],
            "units": config["units"],
            "maximise": maximises(config),
            "measured": -sums.service + 0.0 if maximises(config) else sums.service,
            "service": sums.service,
            "movement": sums.movement,
            "against_staying": sums.against_staying,
            "against_fixed": sums.against_fixed,
            "rounds_told": sums.told,
        }
        counts = {"decisions": sums.asks, "tells": sums.tells, "alarms": sums.alarms}
        return cls(fixed_part, timing.due(ledger), counts, len(ledger.stale), dict(config), timing)

    @property
    def is_stale(self) -> bool:
        """Whether a decision should have been told by now."""
        return bool(self.fixed_part["pending"]) and self._is_late

    @property
    def is_silent(self) -> bool:
        """Whether nothing is pending, and somebody should have asked by now."""
        return not self.fixed_part["pending"] and self._is_late

    @property
    def has_unreported(self) -> bool:
        """Whether the watchdog should look more closely."""
        said = {alarm["kind"] for alarm in self.fixed_part["alarms"]}
        if self.is_silent != ("silent" in said) or (self.timing.trouble() is not None) != ("clock" in said):
            return True
        return self.is_stale and self.reported < len(self.fixed_part["pending"])

    @property
    def _is_late(self) -> bool:
        return self.due is not None and self.timing.clock.monotonic() > self.due

    def status(self) -> str:
        """In one word."""
        if self.fixed_part["override"] is not None:
            return "held"
        if self.is_stale:
            return "stale"
        if self.fixed_part["pending"]:
            return "waiting"
        if self.is_silent:
            return "silent"
        return "ok" if self.counts["decisions"] else "new"

    def state(self) -> dict[str, Any]:
        """The whole state, now."""
        return self.fixed_part | {"status": self.status(), "instruction": self._instruction()}

    def seconds_since(self) -> float | None:
        """How long ago the last decision or tell was."""
        return self.timing.seconds_since()

    def summary(self) -> dict[str, Any]:
        """One line of the overview."""
        figures = ("units", "maximise", "measured", "service", "movement", "against_staying", "against_fixed")
        names = ("id", "name", "mode", "round", "action", "value", "last_at", *figures)
        kept = {name: self.fixed_part[name] for name in names}
        return kept | {
            "status": self.status(),
            "message": None,
            "seconds_since": self.seconds_since(),
            "alarms": len(self.fixed_part["alarms"]),
        }

    def _instruction(self) -> dict[str, Any]:
        state = self.fixed_part
        if state["override"] is not None:
            action, reason = state["override"]["action"], "override"
        elif self.is_stale and state["mode"] in FOLLOWED:
            action, reason = state["fallback"], "fallback"
            action = state["action"] if action is None else action
        else:
            action, reason = state["action"], "decision" if self.counts["decisions"] else "place"
        return {"action": action, "value": state["actions"][action], "reason": reason}


def _explained(ledger: Ledger, policy: str) -> str:
    """How it decides: as said when what it knew from before was fitted, else as the policy says, and what it knew."""
    count = ledger.config["history_count"]
    if ledger.explanation or not count:
        return ledger.explanation or policy
    return f"{policy} It began with {count} past measurements, and what it was not given was fitted to them."


def of_epoch(name: str, epoch: int, archived: list[int], policy: Policy) -> dict[str, Any]:
    """The part of the state that stays the same within an epoch; there may be thousands of actions."""
    maker = "" if policy.made_by is None else policy.made_by[0]
    described = inspect.getdoc(recipe.MAKERS[maker]) or ""
    return {
        "id": name,
        "epoch": epoch,
        "archived_epochs": archived,
        "explains_itself": policy.explanation or described.partition("\n\n")[0].replace("\n", " "),
        "actions": [plain_value(policy.problem.value(action)) for action in range(policy.problem.n)],
    }
