"""The state of a controller as everybody may look at it, and the watchdog that says what is late.

A `View` is replaced as a whole after every change and never changed.

The watchdog looks for a measurement that does not come, and for a machine that does not ask any more. A pending
decision is *stale* when its measurement is late. If it is the newest one, the machine is in a round that nobody
measures any more: it is sent to its fallback, as far as mask and limits permit. When none is pending, the machine's
program is *silent* if it has not asked again within the same deadline. Silence moves nothing: the last round is over,
and the machine is where it was left. It is not counted before the first question of an episode, so a new episode is
also how to pause.

Deadlines are counted on a clock that nobody can set. Only what was asked before this process ran is as old as its
record says; where the record ends in the future the clock cannot be right, and all deadlines begin anew. A clock that
was set is an alarm of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from holdcourse.deciding import registry
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Evidence
from holdcourse.deciding.promise import Promised
from holdcourse.deciding.rules import Stay
from holdcourse.errors import counted
from holdcourse.learning.costs import Profiled, calibration_of, has, price_of
from holdcourse.movement.problem import Problem
from holdcourse.running import estimates
from holdcourse.running.events import (
    Acknowledgement,
    AlarmCleared,
    AlarmRaised,
    Ask,
    AskDetails,
    Body,
    CausedNote,
    Comparison,
    DecisionLate,
    Event,
    Override,
    PendingDecision,
    PolicyOrigin,
    Settings,
    plain,
)
from holdcourse.running.limits import Limits
from holdcourse.running.operation import Operation
from holdcourse.running.session import first_few
from holdcourse.service.core.ledger import FOLLOWED, Ledger, finite, is_by_machine, plain_value, shown_problem
from holdcourse.units import lasting

ENDS = {"": "gain", "_low": "low", "_high": "high"}  # of an estimate, in the names of the metrics
STEP_S = 5.0  # by so much the wall clock goes another way than the monotonic one only if somebody sets it
STEADY_S = 60.0  # after so long without a step, all is well again


class Clock:
    """The clocks of this machine; tests give others.

    Parameters
    ----------
    wall
        Seconds since 1970, as far as this machine knows.
    monotonic
        Seconds that nobody can set.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.wall, self.monotonic = wall, monotonic
        self._lock = Lock()
        self._apart = wall() - monotonic()
        self._step: tuple[float, float] | None = None  # when the wall clock was set (monotonic), and by how much

    def now(self) -> datetime:
        """Return the time as records tell it."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def step(self) -> float | None:
        """Say by how much the wall clock was set lately; None while it is steady. To be asked every few seconds."""
        with self._lock:
            now = self.monotonic()
            apart = self.wall() - now
            if abs(apart - self._apart) > STEP_S:
                before = 0.0 if self._step is None else self._step[1]
                self._step = (now, before + apart - self._apart)
            self._apart = apart  # a clock that is only too fast or too slow is followed
            if self._step is not None and now - self._step[0] > STEADY_S:
                self._step = None
            return None if self._step is None else self._step[1]


class Timing:
    """When things happened, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._asked: dict[str, float] = {}  # pending decisions
        self._last: float | None = None  # newest event that is no note
        self._opened, self._ahead = clock.monotonic(), 0.0

    def opened(self, newest_at: str, ledger: Ledger) -> None:
        """Take note of an opened record: what it holds, and this process does not know, is as old as it says."""
        self._opened, self._ahead = self.clock.monotonic(), _seconds(newest_at) - self.clock.wall()
        trusted = self._ahead <= STEP_S and self.clock.step() is None

        def since(at: str) -> float:
            age = max(self.clock.wall() - _seconds(at), 0.0) if trusted else 0.0
            return self._opened - age

        self._asked = {name: self._asked.get(name, since(asked.at)) for name, asked in ledger.pending.items()}
        if self._last is None and ledger.last_at is not None:
            self._last = since(max(ledger.last_at, ledger.restored_at or ""))

    def begin_anew(self) -> None:
        """Count every deadline from now on."""
        now = self.clock.monotonic()
        self._asked = dict.fromkeys(self._asked, now)
        self._last = None if self._last is None else now

    def added(self, events: Sequence[Event[Body]], ledger: Ledger) -> None:
        """Take note of events that were added to the record just now."""
        now = self.clock.monotonic()
        self._asked = {name: self._asked.get(name, now) for name in ledger.pending}
        if any(map(is_by_machine, events)):
            self._last = now

    def due(self, ledger: Ledger) -> float | None:
        """Return when the oldest measurement, or else the next question, should be here (monotonic); None: never."""
        oldest = min(self._asked.values(), default=None)
        if oldest is None and ledger.newest is not None and ledger.fresh_episode is None:
            oldest = self._last
        seconds = ledger.settings.deadline_s
        return None if oldest is None or seconds is None else oldest + float(seconds)

    def newest_due(self, ledger: Ledger) -> float | None:
        """Return when the measurement of the newest decision should be here (monotonic); None: never, or it is."""
        asked, seconds = self._asked.get(ledger.newest or ""), ledger.settings.deadline_s
        return None if asked is None or seconds is None else asked + float(seconds)

    def falls_back(self, ledger: Ledger) -> bool:
        """Return whether the machine is to be sent to its fallback now."""
        at = self.newest_due(ledger)
        return owes_fallback(ledger) and at is not None and self.clock.monotonic() > at

    def overdue(self, ledger: Ledger) -> list[str]:
        """Return the pending decisions that should have been told by now."""
        now, seconds = self.clock.monotonic(), ledger.settings.deadline_s
        return [] if seconds is None else [name for name, at in self._asked.items() if now > at + float(seconds)]

    def seconds_since(self) -> float | None:
        """Say how many seconds ago the last decision or tell was."""
        return None if self._last is None else self.clock.monotonic() - self._last

    def trouble(self) -> str | None:
        """Return what is wrong with the wall clock, in words; None while it is steady."""
        step = self.clock.step()
        what = "deadlines do not depend on the clock, but the times in the record do"
        if step is not None:
            return f"this machine's clock was set {'forward' if step > 0 else 'back'} by {abs(step):.0f} s; {what}"
        if self._ahead > STEP_S and self.clock.monotonic() - self._opened <= STEADY_S:
            return (
                f"the record ended {self._ahead:.0f} s in the future when it was opened: this machine's clock is or "
                f"was wrong. All deadlines were restarted; {what}"
            )
        return None


def owes_fallback(ledger: Ledger) -> bool:
    """Return whether the machine is to be sent to its fallback once the newest decision is late."""
    return _may_fall_back(ledger) and ledger.fallback is None


def _may_fall_back(ledger: Ledger) -> bool:
    """Return whether there is a fallback, and nobody else moves the machine."""
    return ledger.override is None and ledger.mode in FOLLOWED and ledger.settings.fallback is not None


def watchdog_notes(ledger: Ledger, timing: Timing) -> list[CausedNote]:
    """List what the record shall say by now: late decisions, when silence begins and ends, a clock that was set."""
    within = lasting(ledger.settings.deadline_s or 0.0)
    late = [name for name in timing.overdue(ledger) if name not in ledger.stale]
    notes: list[CausedNote] = [DecisionLate(name) for name in late]
    if late and "stale" not in ledger.alarms:
        falls_back = ledger.newest in late and _may_fall_back(ledger)
        until = ". Until then the machine is sent to its fallback, as far as the limits allow" if falls_back else ""
        do = "report it, or skip the round" if len(late) == 1 else "report them, or skip the rounds"
        notes.append(AlarmRaised("stale", f"no measurement came for {first_few(late)} within {within}; {do}{until}"))
    at = timing.due(ledger)
    silent = not ledger.pending and at is not None and timing.clock.monotonic() > at
    trouble = timing.trouble()
    said = f"nobody asked within {within} after the last round; does the machine's program still run?"
    for kind, message in (("silent", said if silent else None), ("clock", trouble)):
        if message is not None and kind not in ledger.alarms:
            notes.append(AlarmRaised(kind, message))
        if message is None and kind in ledger.alarms:
            notes.append(AlarmCleared(kind))
    return notes


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def decision_answer(epoch: int, asked: Event[Ask], probabilities: list[float] | None) -> dict[str, Any]:
    """Return what the client was answered, from the event of its decision."""
    body = asked.body
    assert body.extra is not None  # the service writes it with every decision
    answer = _answer(epoch, body.round, body.action, body.extra, asked.at, probabilities)
    turn = body.turn
    return answer if turn is None else answer | {"turn": {"block": turn.block, "arm": turn.arm, "whose": turn.whose}}


def carried_answer(epoch: int, asked: PendingDecision) -> dict[str, Any]:
    """Return a decision of an earlier epoch that is still pending, in the numbers of `epoch`."""
    return _answer(epoch, asked.round, asked.proposed, asked, asked.at, None)


def _answer(
    epoch: int, number: int, proposed: int, details: AskDetails, at: str, probabilities: list[float] | None
) -> dict[str, Any]:
    hidden = details.mode == "observe"
    return {
        "decision": f"r{number}",
        "round": number,
        "episode": details.episode,
        "epoch": epoch,
        "mode": details.mode,
        "act": details.act,
        "action": details.action,
        "value": details.value,
        "proposed": None if hidden else proposed,
        "proposed_value": None if hidden else details.proposed_value,
        "probabilities": None if hidden else probabilities,
        "expected_cost": details.expected,
        "expected_measurement": details.expected_measurement,
        "reason": details.reason,
        "limited_by": details.limited_by,
        "forced": details.forced,
        "turn": None,
        "at": at,
    }


class Instruction(NamedTuple):
    """What the machine should do, which limit kept it from more, and why it need not heed them."""

    action: int
    limited_by: str | None = None
    forced: str | None = None


@dataclass(frozen=True)
class View:
    """The state of a controller after a change, as everybody may look at it; it never changes itself.

    Only what depends on the time is worked out when it is looked at.

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
    settings
        Those in force.
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
    settings: Settings
    timing: Timing

    @classmethod
    def of(
        cls,
        unchanging: dict[str, Any],
        controller: Operation,
        ledger: Ledger,
        pending: list[dict[str, Any]],
        timing: Timing,
    ) -> View:
        """Return the view of a controller as it is; `unchanging` is what `of_epoch` gave."""
        settings, sums, problem = ledger.settings, ledger.sums, controller.session.policy.problem
        said = _said_by(settings, controller)
        priced = price_of(controller.session.pilot.model) is not None
        fixed_part = unchanging | {
            "explains_itself": _explained(ledger, unchanging["explains_itself"]),
            "name": settings.name or unchanging["id"],
            "mode": ledger.mode,
            "round": controller.session.round,
            "episode": controller.session.episode,
            "action": ledger.place,
            "value": plain_value(problem.value(ledger.place)),
            "pending": list(pending),
            "override": None if ledger.override is None else _override(ledger.override, problem),
            "deadline_s": settings.deadline_s,
            **said.part,
            "archived": None if ledger.archived is None else _archived(ledger.archived),
            "alarms": [{**plain(alarm), "cleared_at": None} for alarm in ledger.alarms.values()],
            "last_at": ledger.last_at,
            "measurements_sum": -sums.service + 0.0 if settings.maximise or priced else sums.service,
            "times": has(controller.session.pilot.model, Profiled),
            "made": -sums.service + 0.0 if priced else None,
            "service": sums.service,
            "movement": sums.movement,
            "estimate": _estimate(ledger, said.name),
            "rounds_told": sums.told,
            "promise": _promise(controller, ledger),
            "calibration": _calibration(controller),
        }
        counts = {"decisions": sums.asks, "tells": sums.tells, "alarms": sums.alarms}
        return cls(
            fixed_part,
            _held(controller, ledger),
            _fallen(controller, ledger),
            ledger.forced_start,
            timing.newest_due(ledger),
            owes_fallback(ledger),
            timing.due(ledger),
            counts,
            len(ledger.stale),
            settings,
            timing,
        )

    @property
    def is_archived(self) -> bool:
        """Whether it is put away, and only looked at."""
        return self.fixed_part["archived"] is not None

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
        if self.is_archived:  # nobody expects anything of it
            return False
        said = {alarm["kind"] for alarm in self.fixed_part["alarms"]}
        if self.is_silent != ("silent" in said) or (self.timing.trouble() is not None) != ("clock" in said):
            return True
        unsaid = self.is_stale and self.reported < len(self.fixed_part["pending"])
        return unsaid or (self.owes_fallback and self._is_past(self.newest_due))

    @property
    def _is_late(self) -> bool:
        return not self.is_archived and self._is_past(self.due)

    def _is_past(self, due: float | None) -> bool:
        return due is not None and self.timing.clock.monotonic() > due

    @property
    def config(self) -> dict[str, Any]:
        """The settings in force, without history, in JSON values."""
        found: dict[str, Any] = plain(self.settings)
        return found

    def status(self) -> str:
        """Say in one word how the controller is."""
        if self.is_archived:
            return "archived"
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
        """Return the whole state as it is now."""
        return self.fixed_part | {"status": self.status(), "instruction": self._instruction()}

    def seconds_since(self) -> float | None:
        """Say how many seconds ago the last decision or tell was."""
        return self.timing.seconds_since()

    def model_figures(self) -> dict[str, Any]:
        """Return how the promise and the model stand, by the names of the metrics; none where there are none."""
        promise, calibration = self.fixed_part["promise"] or {}, self.fixed_part["calibration"] or {}
        names = ("estimated_saved", "estimated_doubt", "allowed", "left")
        figures = {f"promise_{name}": promise.get(name) for name in names}
        figures["promise_used"] = max(promise["allowed"] - promise["left"], 0.0) if promise else None
        for name, found in self.fixed_part["estimate"].items():
            known = found or {}
            figures |= {f"estimated_gain_{name}{end}": known.get(key) for end, key in ENDS.items()}
        return figures | {"readings_set_aside": calibration.get("set_aside"), "widening": calibration.get("widening")}

    def summary(self) -> dict[str, Any]:
        """Return the controller's line of the overview."""
        figures = ("units", "maximise", "trial", "measurements_sum", "service", "movement", "estimate", "zone")
        names = ("id", "name", "mode", "round", "action", "value", "last_at", *figures)
        kept = {name: self.fixed_part[name] for name in names}
        return kept | {
            "status": self.status(),
            "message": None,
            "seconds_since": self.seconds_since(),
            "alarms": len(self.fixed_part["alarms"]),
            "unseen_alarms": sum(alarm.get("acknowledged") is None for alarm in self.fixed_part["alarms"]),
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


def _held(controller: Operation, ledger: Ledger) -> Instruction | None:
    """Say, under an override, what was answered in this round or, if it came later, what the next question will be."""
    held = ledger.override
    if held is None:
        return None
    asked = ledger.pending.get(ledger.newest or "")
    if asked is not None and ledger.is_obeyed:
        return Instruction(ledger.place, asked.limited_by, asked.forced)
    if held.force:
        return Instruction(held.action, None, held.reason)
    order = controller.permitted(held.action, next_round=True)
    return Instruction(order.action, order.limited_by)


def _fallen(controller: Operation, ledger: Ledger) -> Instruction:
    """Return where the machine was sent or, if that is still to be recorded, will be."""
    sent, wanted = ledger.fallback, ledger.settings.fallback
    if sent is not None:
        return Instruction(sent.action, sent.limited_by)
    if wanted is None or ledger.newest not in ledger.pending:
        return Instruction(ledger.place)
    order = controller.permitted(wanted)
    return Instruction(order.action, order.limited_by)


def price_in_words(settings: Settings) -> str:
    """Say what moving costs, in the user's units."""
    units = settings.units
    cost = f" {units.cost or units.measurement}" if units.cost or units.measurement else ""
    if not isinstance(settings.metric, str):
        words = "a matrix of costs, one for each move"
    else:
        scale = settings.scale if isinstance(settings.scale, list | tuple) else [settings.scale]
        words = ", ".join(f"{each:.12g}" for each in scale) + f"{cost} for each {units.action or 'unit of a setting'}"
    if settings.rho != 1:
        words += f", divided by {settings.rho:.12g}"
    return words + (f", and {settings.fixed_cost:.12g}{cost} for every move" if settings.fixed_cost else "")


def _trial(settings: Settings, problem: Problem) -> dict[str, Any] | None:
    """How the policy and a baseline take turns, where they do."""
    terms = settings.trial
    if terms is None:
        return None
    against = "the operators" if terms.operators else terms.baseline_policy or "staying"
    if terms.baseline_index is not None:
        against = shown_problem(problem, settings).named(terms.baseline_index)
    return {"block": terms.block, "blocks": terms.blocks, "heard": terms.heard, "against": against}


def _archived(since: Acknowledgement) -> dict[str, Any]:
    return {"at": since.at, "by": plain(since.by), "reason": since.remark}


def _override(held: Override, problem: Problem) -> dict[str, Any]:
    return {**plain(held), "setting": plain_value(problem.value(held.action))}


def _promise(controller: Operation, ledger: Ledger) -> dict[str, Any] | None:
    """How the promise against the baseline stands."""
    stands, rule = controller.promise, controller.session.pilot.rule
    if stands is None or not isinstance(rule, Promised):
        return None
    problem, baseline = controller.session.policy.problem, rule.baseline
    index = baseline.home if isinstance(baseline, Stay) else None
    against = "staying" if isinstance(baseline, Stay) else "the policy that is its baseline"
    if index is not None:
        against = f"always running {shown_problem(problem, ledger.settings).named(index)}"
    withheld = estimates.trouble(ledger.watched, ledger.alarms) is not None
    return {
        "at_most": rule.at_most,
        "budget": rule.budget,
        "against": against,
        "baseline": None if index is None else plain_value(problem.value(index)),
        "baseline_index": index,
        "estimated_saved": None if withheld else finite(stands.saved) or 0.0,
        "estimated_doubt": None if withheld else finite(stands.doubt) or 0.0,
        "allowed": finite(stands.allowed) or 0.0,
        # While estimates are withheld, what is believed to be saved is not told by the way either.
        "left": min(finite(stands.left) or 0.0, finite(stands.allowed) or 0.0)
        if withheld
        else finite(stands.left) or 0.0,
        "estimated_baseline_bill": None if withheld else finite(stands.baseline_bill) or 0.0,
    }


class _SettingsView(NamedTuple):
    """What settings alone say of the state, and what they call an action; made once for each of them."""

    settings: Settings
    limits: Limits
    part: dict[str, Any]
    name: Callable[[int], str]


_VIEWS: WeakKeyDictionary[Problem, _SettingsView] = WeakKeyDictionary()


def _said_by(settings: Settings, controller: Operation) -> _SettingsView:
    problem, limits = controller.session.policy.problem, controller.session.limits
    known = _VIEWS.get(problem)
    if known is None or known.settings is not settings or known.limits is not limits:
        shown = shown_problem(problem, settings)
        part = {
            "fallback": None if settings.fallback is None else plain_value(problem.value(settings.fallback)),
            "fallback_index": settings.fallback,
            "limits": dict(vars(settings.limits)),
            "limits_in_words": limits.in_words(shown),
            "price_in_words": price_in_words(settings),
            "zone": settings.zone or "UTC",
            "context_names": settings.context_names,
            "trial": _trial(settings, problem),
            "policy": settings.policy,
            "units": dict(vars(settings.units)),
            "maximise": settings.maximise,
            "file": None if settings.file is None else plain(settings.file) | {"words": _known(settings.file)},
        }
        known = _VIEWS[problem] = _SettingsView(settings, limits, part, cache(shown.named))
    return known


def _estimate(ledger: Ledger, name: Callable[[int], str]) -> dict[str, Any]:
    """What the model believes that was gained, as far as it can be shown."""
    sums, watched = ledger.sums, ledger.watched
    why_not = estimates.trouble(watched, ledger.alarms)

    def against(found: Comparison | None, action: int | None, before: int) -> dict[str, Any] | None:
        if action is None:
            return None
        known = estimates.shown(estimates.with_readings(found, before), watched, why_not, name(action))
        return None if known is None else dict(vars(known))

    home, fixed = ledger.history
    proposals = None
    if ledger.mode not in FOLLOWED:
        proposals = estimates.shown_proposals(sums.estimated_proposals, watched, why_not, ledger.settings.history_count)
    return {
        "against_staying": against(sums.estimated_staying, ledger.home, home),
        "against_fixed": against(sums.estimated_fixed, ledger.fixed, fixed),
        "had_it_acted": None if proposals is None else dict(vars(proposals)),
    }


def _known(file: PolicyOrigin) -> list[str]:
    """What is known about a policy that came from a file, in sentences."""
    if file.evidence is None:
        return ["The file does not say where the policy comes from, and contains no backtest."]
    return Evidence.from_data(file.evidence, "the record").words


def _calibration(controller: Operation) -> dict[str, Any] | None:
    found = calibration_of(controller.session.pilot.model)
    if found is None:
        return None
    return {"widening": finite(found.widening), "set_aside": found.set_aside, "changes": found.changes}


def _explained(ledger: Ledger, policy: str) -> str:
    """Say how it decides: as said when earlier measurements were fitted, else as the policy says; and what it knew."""
    count = ledger.settings.history_count
    if ledger.explanation or not count:
        return ledger.explanation or policy
    return f"{policy} It began with {counted(count, 'past measurement')}, and fitted to them what it was not given."


def of_epoch(name: str, epoch: int, archived: list[int], policy: Policy) -> dict[str, Any]:
    """Return the part of the state that stays the same within an epoch; there may be thousands of actions."""
    sentence = "" if policy.made_by is None else registry.entry_of(policy.made_by[0]).sentence
    return {
        "id": name,
        "epoch": epoch,
        "archived_epochs": archived,
        "explains_itself": policy.explanation or sentence,
        "actions": [plain_value(policy.problem.value(action)) for action in range(policy.problem.n)],
    }
