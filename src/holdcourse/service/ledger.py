"""What follows from the events of a record: mode, override, what is pending, the sums, the alarms.

The ledger is a fold over events and nothing else, so a controller that was killed and opened again knows what it knew
before. It holds no more after a year than after a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from holdcourse.log import Event
from holdcourse.service.alarms import Watched

OURS = ("note", "snapshot", "redirect")  # events that no client of the machine causes
HELD = ("action", "reason", "force")  # what an override says
FOLLOWED = ("act", "advise")  # modes in which the machine does what is decided
# What goes on in the next epoch as it is; actions in it get their new numbers there.
CARRIED = (
    *("mode", "override", "is_obeyed", "newest", "pending", "stale", "fallback", "alarms"),
    *("fresh_episode", "forced_start", "last_at"),
)


@dataclass
class Sums:
    """Costs so far, in units of what is measured.

    `against_staying` and `against_fixed` are what was saved, in the rounds where it is known what the alternative would
    have cost; None before the first of them.
    """

    service: float = 0.0
    movement: float = 0.0
    against_staying: float | None = None
    against_fixed: float | None = None
    told: int = 0  # with a measurement
    asks: int = 0
    tells: int = 0
    alarms: int = 0

    def compare(self, told: Mapping[str, Any]) -> None:
        """Count what a round saved; of one without a measurement, only its movement is known."""
        for name in ("staying", "fixed"):
            if told[name] is not None:
                saved = (0.0 if told["service"] is None else told[name] - told["service"]) - told["movement"]
                setattr(self, f"against_{name}", (getattr(self, f"against_{name}") or 0.0) + saved)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Sums:
        """Read what `asdict` gave; older records hold the costs of the alternatives, not what was saved."""
        fields = dict(data)
        for name in ("staying", "fixed"):
            if name in fields:
                cost = fields.pop(name)
                unknown = cost is None or not data["told"]
                fields[f"against_{name}"] = None if unknown else cost - data["service"] - data["movement"]
        return cls(**fields)


@dataclass
class Ledger:
    """See the module's docstring.

    Attributes
    ----------
    config
        The settings in force, without history.
    home, fixed
        The action before the first round, and the best one in the history if there is one: what gains are counted from.
    place
        Where the machine is, as far as anybody said.
    is_obeyed
        Whether the newest question was answered under the override in force.
    fallback
        Where the machine was sent because the newest decision is late: `wanted`, `action`, `limited_by`; None: nowhere.
    forced_start
        Why the present episode, without a round yet, began beyond the limits; None: it did not.
    pending
        Decisions not yet told, by id, oldest first: what was answered, and what is needed to book the tell.
    alarms
        Open ones by kind.
    explanation
        What the policy said of itself when it was made, with what was known then; empty if nothing, or in an older
        record.
    """

    config: dict[str, Any] = field(default_factory=dict)
    mode: str = "act"
    override: dict[str, Any] | None = None
    is_obeyed: bool = False
    home: int = 0
    fixed: int | None = None
    place: int = 0
    newest: str | None = None  # the newest decision
    pending: dict[str, dict[str, Any]] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)  # of the pending ones, those that the watchdog has reported
    fallback: dict[str, Any] | None = None
    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)
    sums: Sums = field(default_factory=Sums)
    explanation: str = ""
    fresh_episode: int | None = None  # start of an episode without a round yet
    forced_start: str | None = None
    last_at: str | None = None
    seen: int = 0  # number of the last event

    def saw(self, event: Event) -> None:
        """Take in the next event."""
        getattr(self, f"_{event.kind}")(event)
        self.seen = event.number
        if event.kind not in OURS:
            self.last_at = event.at

    def _ask(self, event: Event) -> None:
        body, extra = event.body, event.body["extra"]
        name = f"r{body['round']}"
        self.pending[name] = {**extra, "round": body["round"], "proposed": body["action"], "at": event.at} | {
            "context": body["request"].get("context")
        }
        self.place, self.newest, self.fresh_episode = extra["action"], name, None
        self.fallback = self.forced_start = None
        self.is_obeyed = self.override is not None
        self.sums.asks += 1

    def _tell(self, event: Event) -> None:
        extra, name = event.body["extra"], event.body["id"]
        self.pending.pop(name)
        self.stale = [other for other in self.stale if other != name]
        if name == self.newest:
            self.place, self.fallback = extra["taken"], None
        sums, y = self.sums, event.body["measurement"]
        sums.tells += 1
        sums.movement = extra["cumulative_movement"]
        sums.service = extra["cumulative_service"]
        sums.compare(extra)
        if y is not None:
            sums.told += 1
            self.watched = self.watched.after(y, extra["deviations"])

    _learn = _tell

    def _episode(self, event: Event) -> None:
        self.place = self.fresh_episode = event.body["start"]
        self.forced_start = event.body["force"]

    def _redirect(self, event: Event) -> None:
        self.fallback = event.body["order"]
        self.place = event.body["order"]["action"]

    def _snapshot(self, event: Event) -> None:
        """It only says that the state was kept."""

    def _note(self, event: Event) -> None:
        body = event.body
        match body["note"]:
            case "created" | "epoch":
                self._begin(body)
            case "config":
                self.config |= body["changes"]
            case "mode":
                self.mode = body["mode"]
            case "override":
                self._hold(body, event.at)
            case "stale":
                self.stale.append(body["decision"])
            case "alarm":
                self.alarms[body["kind"]] = {"at": event.at, "kind": body["kind"], "message": body["message"]}
                self.sums.alarms += 1
            case "cleared":
                self.alarms.pop(body["kind"], None)

    def _hold(self, body: Mapping[str, Any], at: str) -> None:
        asked = None if body["action"] is None else {name: body[name] for name in HELD}
        if asked != self.held:
            said = {"since": at, "by": body.get("extra", {}).get("by")}
            self.override, self.is_obeyed = None if asked is None else asked | said, False

    @property
    def held(self) -> dict[str, Any] | None:
        """The override in force, as it was asked for."""
        held = self.override
        return None if held is None else {name: held[name] for name in HELD}

    def meant(self, decision: str) -> int:
        """The action that a tell of a pending decision means, unless it says which one ran."""
        return int((self.fallback_of(decision) or self.pending[decision])["action"])

    def fallback_of(self, decision: str) -> dict[str, Any] | None:
        """Where the machine was sent in the round of a pending decision because that is late; None: nowhere."""
        return self.fallback if decision == self.newest else None

    def _begin(self, body: Mapping[str, Any]) -> None:
        self.config, self.home, self.fixed = body["config"], body["home"], body["fixed"]
        self.mode, self.place = body["config"]["mode"], body["start"]
        self.explanation = body.get("explanation", "")
        carried = body.get("carried")
        if carried is not None:
            for name in CARRIED:
                setattr(self, name, carried[name])
            self.watched, self.sums = Watched.from_data(carried["watched"]), Sums.from_data(carried["sums"])

    def carried(self) -> dict[str, Any]:
        """What the next epoch goes on with."""
        return {name: getattr(self, name) for name in CARRIED} | {
            "watched": self.watched.to_data(),
            "sums": asdict(self.sums),
        }
