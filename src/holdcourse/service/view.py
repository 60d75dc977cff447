"""What everybody may look at while a controller works: replaced as a whole after every change, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from holdcourse import registry
from holdcourse.controller import Controller
from holdcourse.policy import Policy
from holdcourse.service import watchdog
from holdcourse.service.epochs import maximises
from holdcourse.service.ledger import FOLLOWED, Ledger
from holdcourse.service.rows import plain_value
from holdcourse.service.watchdog import Timing


class Instruction(NamedTuple):
    """What the machine should do, which limit kept it from more, and why it need not heed them."""

    action: int
    limited_by: str | None = None
    forced: str | None = None


@dataclass(frozen=True)
class View:
    """See the module's docstring. Only what depends on the time is worked out when it is looked at.

    Attributes
    ----------
    fixed_part
        The state but for `status` and `instruction`.
    held, fallen
        What the machine should do because of an override, and once the newest decision is late.
    forced_start
        Why the machine was brought beyond its limits to where the episode begins; None: it was not.
    newest_due
        When the newest decision should be told; None: never, or it has been.
    owes_fallback
        Whether the watchdog has to send the machine to its fallback then.
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
    held: Instruction | None
    fallen: Instruction
    forced_start: str | None
    newest_due: float | None
    owes_fallback: bool
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
        return cls(
            fixed_part,
            _held(controller, ledger),
            _fallen(controller, ledger),
            ledger.forced_start,
            timing.newest_due(ledger),
            watchdog.owes_fallback(ledger),
            timing.due(ledger),
            counts,
            len(ledger.stale),
            dict(config),
            timing,
        )

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
        unsaid = self.is_stale and self.reported < len(self.fixed_part["pending"])
        return unsaid or (self.owes_fallback and self._is_past(self.newest_due))

    @property
    def _is_late(self) -> bool:
        return self._is_past(self.due)

    def _is_past(self, due: float | None) -> bool:
        return due is not None and self.timing.clock.monotonic() > due

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
        if self.held is not None:
            now, reason = self.held, "override"
        elif self._is_past(self.newest_due) and state["mode"] in FOLLOWED:
            now, reason = self.fallen, "fallback"
        else:
            now = Instruction(state["action"], forced=self.forced_start)
            reason = "decision" if self.counts["decisions"] else "place"
        return now._asdict() | {"value": state["actions"][now.action], "reason": reason}


def _held(controller: Controller, ledger: Ledger) -> Instruction | None:
    """Under an override: what was answered in this round or, if it came later, what the next question will be."""
    held = ledger.override
    if held is None:
        return None
    asked = ledger.pending.get(ledger.newest or "")
    if asked is not None and ledger.is_obeyed:
        return Instruction(ledger.place, asked["limited_by"], asked["forced"])
    if held["force"]:
        return Instruction(held["action"], None, held["reason"])
    order = controller.permitted(held["action"])
    return Instruction(order.action, order.limited_by)


def _fallen(controller: Controller, ledger: Ledger) -> Instruction:
    """Where the machine was sent or, if that is still to be recorded, will be."""
    sent, wanted = ledger.fallback, ledger.config["fallback"]
    if sent is not None:
        return Instruction(sent["action"], sent["limited_by"])
    if wanted is None or ledger.newest not in ledger.pending:
        return Instruction(ledger.place)
    order = controller.permitted(wanted)
    return Instruction(order.action, order.limited_by)


def _explained(ledger: Ledger, policy: str) -> str:
    """How it decides: as said when what it knew from before was fitted, else as the policy says, and what it knew."""
    count = ledger.config["history_count"]
    if ledger.explanation or not count:
        return ledger.explanation or policy
    return f"{policy} It began with {count} past measurements, and what it was not given was fitted to them."


def of_epoch(name: str, epoch: int, archived: list[int], policy: Policy) -> dict[str, Any]:
    """The part of the state that stays the same within an epoch; there may be thousands of actions."""
    sentence = "" if policy.made_by is None else registry.entry_of(policy.made_by[0]).sentence
    return {
        "id": name,
        "epoch": epoch,
        "archived_epochs": archived,
        "explains_itself": policy.explanation or sentence,
        "actions": [plain_value(policy.problem.value(action)) for action in range(policy.problem.n)],
    }
