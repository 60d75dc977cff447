"""The bridge at work: one look at plant and service after the other, and the safe state whenever one of them is lost.

Each tick the plant is read, then whatever is due is done: a heartbeat, a question, a measurement that is told. The
service is called in another thread and looked after by the ticks, so that a service that hangs does not stop the
heartbeat, and nothing else hangs at all.

**The service's record is the only truth.** The bridge keeps nothing on disk. Its questions name their round, so one
that is repeated is the same decision; a bridge that starts asks first what is pending, and goes on with it.

**Control** is taken in this order: the set-point is written and read back, then the control flag is set, then the
heartbeat begins. It is given up in the opposite order, and the safe set-point, if there is one, is written last. The
heartbeat goes on only while the bridge is in control: a plant that follows the set-point only while it changes is safe
also when the bridge is killed, or the line is cut.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdcourse.bridge.bridgefile import BridgeFile, Setting
from holdcourse.bridge.plant import Plant, PlantLost, Reading, same_setting, started
from holdcourse.bridge.rounds import Round, Told, key_of, slot_end
from holdcourse.client.remote import RemoteController
from holdcourse.client.sender import TRY_AGAIN
from holdcourse.errors import Conflict, HoldcourseError, InvalidInput, ServiceError

logger = logging.getLogger("holdcourse.bridge")

RETRY_S = 0.2  # between two tries of a service or a plant that does not answer, doubled up to ...
LONGEST_RETRY_S = 5.0
SAY_AGAIN_S = 60.0  # the same loss is logged once in a minute
REFUSED_S = 10.0  # after a refusal, which nothing but a change of settings can mend
BEATS = 64  # newest heartbeats that are known to be our own
MODULO = 128  # the smallest counter that a plant may keep
PARTING_TRIES = 3
PARTING_S = 1.0  # for the last answer of the service
NAP_S = 0.2  # nobody who stops it waits for longer
GLANCE_S = 0.02  # between two looks at an answer that is on its way


@dataclass
class Call:
    """A request to the service that is under way."""

    what: str
    future: Future[Any]
    began: float


class Bridge:
    """One controller of a service, one plant.

    Parameters
    ----------
    file
        What is read and written.
    plant
        Where.
    remote
        The controller; it must try each request once only (`patience=0`).
    dry_run
        Nothing is asked, told or written; what would be is logged.
    wall, monotonic
        Clocks; tests give others.
    """

    def __init__(
        self,
        file: BridgeFile,
        plant: Plant,
        remote: RemoteController,
        *,
        dry_run: bool = False,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.file, self.plant, self.remote, self.dry_run = file, plant, remote, dry_run
        self._wall, self._now = wall, monotonic
        self.in_control = False
        self.loss = "waiting for the plant"
        self.round: Round | None = None
        self._well_since: float | None = None
        self._readings: dict[str, Reading] = {}
        self._bad_since: dict[str, float] = {}
        self._is_connected = False
        self._connect_at, self._connect_pause = 0.0, RETRY_S
        self._has_lost = False
        self._owes_safe = False  # whether the safe state is still to be written and read back
        self._state: dict[str, Any] | None = None
        self._state_is_old = True
        self._wanted: tuple[Setting, bool] | None = None  # the setting, and whether the bridge is to bring it about
        self._number: int | None = None  # of the round to be asked next
        self._call: Call | None = None
        self._call_at, self._call_pause = 0.0, RETRY_S
        self._looked = float("-inf")
        self._heard = monotonic()
        self._refused, self._refused_until = "", 0.0  # why, and until when it is not tried again
        self._outbox: Told | None = None
        self._written: tuple[Setting, float] | None = None  # the set-point, and when it was written or last read back
        self._is_confirmed = False
        self._asked: int | None = None  # the newest round that this process asked for
        self._yielded: str | None = None  # the decision in whose round somebody else took the machine
        self._advised: Setting | None = None
        self._beat = itertools.count(random.randrange(1, 2**14))
        self._beats: list[int] = []
        self._said: dict[str, float] = {}

    # -- one tick ------------------------------------------------------------------------------------------------------

    def run(self, stopped: Callable[[], bool]) -> None:
        """Tick until it is to stop; whatever ends it, control is handed back.

        A plain function, since a signal's handler that sets an event can wait for ever for the one whom it interrupts.
        """
        try:
            while not stopped():
                due = self._now() + self.file.heartbeat.every
                self.tick()
                wanted = self._wanted
                while not stopped() and self._wanted is wanted and self._now() < due:
                    busy = self._call is not None or (self.round is None and not self.loss)
                    time.sleep(min(GLANCE_S if busy else NAP_S, max(due - self._now(), 0.0)))
                    if busy:
                        self._look_at_service()  # a round begins as soon as the service has answered
        finally:
            self.part()

    def tick(self) -> None:
        """Look at the plant and the service once, and do what is due."""
        self._look_at_plant()
        self._look_at_service()
        loss = self._trouble()
        now = self._now()
        if loss:
            self._lose(loss)
        elif self.loss:
            if self._well_since is None:
                self._well_since = now
            # Where nothing has been lost yet there is nothing to wait for.
            if now - self._well_since >= self.file.hold_off or not self._has_lost:
                self._say(logging.INFO, "all is well")
                self.loss = ""
        if self._is_connected:
            try:
                self._act()
            except PlantLost as error:
                self._drop_plant(str(error))
            except InvalidInput as error:  # a setting that may not be written
                self._lose(str(error))
        self._sample()

    def part(self) -> None:
        """Hand control back, as far as the plant can be reached, and let go of everything."""
        for _ in range(PARTING_TRIES):
            if not (self._is_connected and (self.in_control or self._owes_safe)):
                break
            self.in_control, self._owes_safe = False, True
            try:
                self._make_safe()
                time.sleep(min(self.file.heartbeat.every, 0.2))
                self._readings = self.plant.read()
                self._confirm_safe()
            except HoldcourseError as error:
                logger.warning(
                    "control could not be handed back: %s; the plant will notice the missing heartbeat", error
                )
                break
        self.plant.close()
        if self._call is not None:  # its connection can be closed once it is answered
            wait([self._call.future], min(self.file.service.timeout, PARTING_S))
        self.remote.service.close()

    # -- losses --------------------------------------------------------------------------------------------------------

    def _trouble(self) -> str:
        """Return what keeps the bridge from being in control, if anything."""
        if not self._is_connected:
            return self.loss if self.loss.startswith("the plant") else "the plant is not connected"
        now = self._now()
        if now - self._heard > self.file.service.lost_after:
            return f"the service has not answered for {self.file.service.lost_after:g} s"
        if self._refused and now < self._refused_until:
            return self._refused
        if self._state is None:
            return "waiting for the service"
        for name, since in self._bad_since.items():
            if now - since >= self.file.grace or self.loss:
                return f"{name} cannot be trusted: {self._readings[name].trouble}"
        return self._trouble_with_setpoint(now)

    def _trouble_with_setpoint(self, now: float) -> str:
        if self._written is None or self._owes_safe or self.dry_run:
            return ""
        (value, since), back = self._written, self._readings["setpoint"]
        if now - since > self.file.setpoint.within and not same_setting(
            back.value, value, self.file.setpoint.tolerance
        ):
            found = back.trouble or repr(back.value)
            if self._is_confirmed and self.round is not None:
                self._yielded = self.round.decision
            return f"the set-point {value!r} was not confirmed when read back: {found}; does somebody else write to it?"
        beat = self._readings.get("heartbeat", Reading(None)).value
        is_counter = beat is not None and not isinstance(beat, bool | str) and beat != 0
        if self.in_control and self._beats and is_counter and int(float(beat or 0)) % MODULO not in self._beats:
            return f"the heartbeat is {beat!r}, which this bridge did not write; is a second bridge running?"
        return ""

    def _lose(self, why: str) -> None:
        """Give up control, if it was ours, and say why; the safe state is written once the plant can be reached."""
        if self.in_control or (self._written is not None and not self.dry_run):
            self._owes_safe = self._has_lost = True
        if self.round is not None and self.round.act:
            self.round.spoil(f"control was lost: {why}")
        if self.in_control:
            logger.warning("%s; going to the safe state", why)
        else:
            self._say(logging.INFO if why.startswith("waiting") else logging.WARNING, why)
        self.in_control, self.loss, self._well_since, self._written = False, why, None, None
        self._beats.clear()

    def _say(self, level: int, text: str) -> None:
        """Log something that may come up again and again, once in a minute."""
        now = self._now()
        self._said = {said: at for said, at in self._said.items() if now - at < SAY_AGAIN_S}
        if text not in self._said:
            self._said[text] = now
            logger.log(level, "%s", text)

    def _drop_plant(self, why: str) -> None:
        self.plant.close()
        self._is_connected, self._advised = False, None
        self._connect_at = self._now() + self._connect_pause
        self._lose(f"the plant is lost: {why}")

    # -- the plant -----------------------------------------------------------------------------------------------------

    def _look_at_plant(self) -> None:
        now = self._now()
        if not self._is_connected:
            if now < self._connect_at:
                return
            try:
                self.plant.connect()
                self._readings = self.plant.read()
            except (PlantLost, InvalidInput) as error:
                self.plant.close()
                self._connect_pause = min(2 * self._connect_pause, LONGEST_RETRY_S)
                self._connect_at = self._now() + self._connect_pause
                self._lose(f"the plant is lost: {error}")
                return
            self._is_connected, self._connect_pause = True, RETRY_S
            self._bad_since.clear()
            self._release_what_was_left()
        else:
            try:
                self._readings = self.plant.read()
            except PlantLost as error:
                self._drop_plant(str(error))
                return
        for name, reading in self._readings.items():
            if name == "measurement" or name.startswith("context "):
                if reading.trouble:
                    self._bad_since.setdefault(name, self._now())
                else:
                    self._bad_since.pop(name, None)

    def _release_what_was_left(self) -> None:
        """Whoever was in control before this connection, a bridge that was killed perhaps, is not any more."""
        self._owes_safe |= self._readings.get("control", Reading(None)).value is True
        if not self.dry_run:
            try:
                self.plant.write("control", False)
            except PlantLost as error:
                self._drop_plant(str(error))

    def _make_safe(self) -> None:
        """Write the safe state; it is owed until it is read back."""
        if self.dry_run:
            logger.info("would hand back control")
            self._owes_safe = False
            return
        self.plant.write("control", False)
        if self.file.safe.setpoint is not None:
            self.plant.write("setpoint", self.file.safe.setpoint, {"decision": None})

    def _confirm_safe(self) -> None:
        safe, control = self.file.safe.setpoint, self._readings.get("control", Reading(False)).value
        there = safe is None or same_setting(self._readings["setpoint"].value, safe, self.file.setpoint.tolerance)
        if self._owes_safe and there and not control:
            self._owes_safe = False
            logger.info("the safe state is reached")

    def _act(self) -> None:
        """Write what is due: the safe state, the set-point, the flag, the heartbeat."""
        if self._owes_safe:
            self._make_safe()
            self._readings = self.plant.read()
            self._confirm_safe()
        permitted = self.file.permit is None or self._readings["permit"].value in (True, 1.0, "ON", "on")
        value, act = self._wanted if self._wanted is not None else (None, False)
        is_over = self.round is None or self._now() >= self.round.ends
        if self.loss or self._owes_safe or (is_over and not self.in_control):  # an old setting is not taken up again
            self._show()
            return
        taken = self.round is not None and self.round.decision == self._yielded
        if value is not None and act and permitted and not taken:
            self._steer(value)
        else:
            if self.in_control:
                self._release("not permitted" if act else f"mode {self._mode()}")
            if value is not None and self.file.advice is not None and self._mode() in ("advise", "act"):
                self._advise(value)
        self._show()

    def _release(self, why: str) -> None:
        """Hand back although nothing is lost: the set-point is the operators' from now on."""
        logger.info("control is handed back: %s", why)
        self.in_control, self._written = False, None
        self._beats.clear()
        self.plant.write("control", False)
        if self.round is not None and self.round.act:
            self.round.spoil("control was handed back")

    def _steer(self, value: Setting) -> None:
        back = self._readings["setpoint"]
        if self._written is None or self._written[0] != value:
            if self.dry_run:
                logger.info("would write the set-point %r", value)
            else:
                self.plant.write("setpoint", value, {"decision": self.round.decision if self.round else None})
                logger.info("set-point %r written", value)
            self._written, self._is_confirmed = (value, self._now()), False
            if self.dry_run:
                return
            self._readings = self.plant.read()
            back = self._readings["setpoint"]
        if self.dry_run:
            return
        is_there = same_setting(back.value, value, self.file.setpoint.tolerance)
        if is_there:
            self._written, self._is_confirmed = (value, self._now()), True
        elif self._is_confirmed or not self.in_control:
            return  # somebody else wrote it, or it is not ours yet: no heartbeat
        if not self.in_control:
            self.plant.write("control", True)
            self.in_control = True
            logger.info("in control, at %r", value)
        elif self._readings.get("control", Reading(True)).value is False:
            if self.file.mqtt is None:  # an operator did that, who may have the machine until the next round
                self._yielded = None if self.round is None else self.round.decision
                self._release("somebody cleared the flag")
                return
            self.plant.write("control", True)  # an old last will that came late
        beat = next(self._beat) % 2**15
        self._beats = [*self._beats[-BEATS:], beat % MODULO]
        self.plant.write("heartbeat", beat)

    def _advise(self, value: Setting) -> None:
        if value != self._advised:
            if self.dry_run:
                logger.info("would advise %r", value)
            else:
                self.plant.write("advice", value)
            self._advised = value

    def _show(self) -> None:
        if self.dry_run:
            return
        state = self._state or {}
        gain = (state.get("estimate") or {}).get("against_staying") or {}
        units = state.get("units") or {}
        self.plant.show(
            {
                "setting": None if self._wanted is None else self._wanted[0],
                "mode": self._mode(),
                "in_control": self.in_control,
                "loss": self.loss,
                "estimated_gain": gain.get("gain"),
                "estimated_gain_low": gain.get("low"),
                "estimated_gain_high": gain.get("high"),
                "alarms": [alarm.get("kind") for alarm in state.get("alarms", ())],
                "unit": units.get("action") or "",
                "gain_unit": units.get("measurement") or "",
            }
        )

    def _mode(self) -> str:
        return str((self._state or {}).get("mode", ""))

    # -- the service ---------------------------------------------------------------------------------------------------

    def _look_at_service(self) -> None:
        """Take in what was answered, and send what is due; never waits."""
        now = self._now()
        if self._call is not None:
            if self._call.future.done():
                call, self._call = self._call, None
                self._answered(call)
            elif now - self._call.began > self.file.service.timeout:
                self._failed(f"{self._call.what} took longer than {self.file.service.timeout:g} s")
                self._call = None  # left alone; a late answer is asked for again by its round
            else:
                return
        if now < self._call_at:
            return
        if self._state is None or self._state_is_old:
            self._send("state", self.remote.state)
        elif self._outbox is not None:
            told = self._outbox
            self._send("tell", lambda: self.remote.tell(told.decision, told.measurement, told.applied))
        elif self.round is not None and now >= self.round.ends:
            self._close_round(now)
        elif self.round is None and self._number is not None and self._is_ready():
            try:
                self._ask(self._number)
            except InvalidInput as error:
                self._rejected("question", error)
        elif now - self._looked >= self.file.service.look_every:
            self._send("state", self.remote.state)

    def _is_ready(self) -> bool:
        """Whether a round may begin: the plant is there, all is well, and every context can be believed."""
        contexts = (self._readings.get(f"context {each.name}", Reading(None)) for each in self.file.contexts)
        known = all(reading.value is not None for reading in contexts)
        return self._is_connected and not self.loss and known

    def _ask(self, number: int) -> None:
        at = self._wall()
        context: Any = datetime.fromtimestamp(at, UTC) if self.file.time else self._context()
        if self.dry_run:
            logger.info("would ask round %d with %s", number, context)
            assert self._state is not None
            acts, ends = self._state["mode"] == "act", self._now() + slot_end(at, self.file.period) - at
            self.round = Round(f"r{number}", self._state["value"], acts, self._now(), ends)
            self._follow(self._state)
            return
        key, self._asked = key_of(number, at, self.file.period), number
        self._send("ask", lambda: self.remote.ask(context, round=number, key=key))

    def _context(self) -> list[Any]:
        """Return the contexts in the controller's order, where it has names for them."""
        found = {each.name: self._readings[f"context {each.name}"].value for each in self.file.contexts}
        names = (self._state or {}).get("context_names") or list(found)
        if set(names) != set(found):
            raise InvalidInput(
                f"the controller's contexts are {', '.join(names)}, but the file has {', '.join(found)}; give them the "
                "same names in the same order"
            )
        return [found[name] for name in names]

    def _send(self, what: str, action: Callable[[], Any]) -> None:
        self._call = Call(what, started(action, what), self._now())

    def _failed(self, why: str) -> None:
        self._call_pause = min(2 * self._call_pause, LONGEST_RETRY_S)
        self._call_at = self._now() + self._call_pause
        self._state_is_old = True  # what happened meanwhile, nobody knows
        self._say(logging.WARNING, f"the service does not answer: {why}")

    def _answered(self, call: Call) -> None:
        error = call.future.exception()
        if isinstance(error, ServiceError) and error.status in (None, *TRY_AGAIN):
            self._failed(str(error))
            return
        if error is not None and not isinstance(error, HoldcourseError):
            self._failed(f"{type(error).__name__}: {error}")
            return
        self._heard, self._call_pause = self._now(), RETRY_S
        if error is not None:
            self._rejected(call.what, error)
            return
        if call.what == "state":
            self._looked = self._now()
            self._learn_state(call.future.result())
        elif call.what == "tell":
            told = self._outbox
            assert told is not None
            said = "nothing measured" if told.measurement is None else f"{told.measurement:.6g}"
            logger.info("told %s: %s%s", told.decision, said, f" ({told.why})" if told.why else "")
            self._outbox = self.round = self._number = None
            self._state_is_old = True
        else:
            self._begin_round(call.future.result())

    def _rejected(self, what: str, error: BaseException) -> None:
        """Take in that the service does not want what was sent."""
        self._say(logging.WARNING, f"the service did not accept the {what}: {error}")
        self._state_is_old, self._call_at = True, self._now() + self._call_pause
        if what == "tell" and isinstance(error, Conflict | InvalidInput):
            self._outbox = self.round = self._number = None  # somebody else told it, or it is not known any more
        elif not isinstance(error, Conflict):  # a conflict: another is pending, which the state will say
            self._refused = f"the service refuses: {error}"
            self._refused_until = self._now() + REFUSED_S
            self._call_at = self._now() + self.file.service.look_every

    def _learn_state(self, state: Mapping[str, Any]) -> None:
        """Take in how the controller stands, and what the machine shall do now."""
        self._state, self._state_is_old = dict(state), False
        pending = {asked["decision"]: asked for asked in state["pending"]}
        if self.round is None and self._outbox is None:
            if pending and not self.dry_run:
                self._adopt(list(pending.values())[-1], *list(pending)[:-1])
            else:
                self._number = state["round"]
        elif self.round is not None and self._outbox is None and self.round.decision not in pending:
            self.round.is_over_there = not self.dry_run
        if self.round is not None:
            self._follow(state)

    def _follow(self, state: Mapping[str, Any]) -> None:
        """Do what the service says between questions: an override holds in every mode, another mode hands back."""
        assert self.round is not None
        held = state["override"] is not None
        act = held or (state["mode"] == "act" and self.round.act)
        value = state["instruction"]["value"] if held or state["mode"] in ("act", "advise") else state["value"]
        if self.round.act and not same_setting(value, self.round.value, self.file.setpoint.tolerance):
            self.round.spoil(f"{state['instruction']['reason']} moved the machine")
        self._wanted = (value, act)

    def _adopt(self, asked: Mapping[str, Any], *older: str) -> None:
        """Go on with a decision that an earlier life of this bridge asked for, or skip it if its time is over."""
        if older:
            self._outbox = Told(older[0], None, None, "a later decision is pending")
            return
        now, wall = self._now(), self._wall()
        left = slot_end(datetime.fromisoformat(asked["at"]).timestamp(), self.file.period) - wall
        ends = now + min(left, 1.5 * self.file.period)
        found = Round(asked["decision"], asked["value"], asked["act"], now, ends)
        if asked["round"] != self._asked:
            found.spoil("the bridge was restarted in this round")
        if left <= 0:  # its setting is not for now
            found.spoil("it had already ended when the bridge came back")
            self._outbox = self._told(found, now)
            return
        self.round = found
        logger.info("continuing with %s, at %r", found.decision, found.value)

    def _begin_round(self, decision: Any) -> None:
        now, wall = self._now(), self._wall()
        ends = now + slot_end(wall, self.file.period) - wall
        self.round = Round(decision.id, decision.value, decision.act, now, ends)
        self._wanted = (decision.value, decision.act)
        held_back = "" if decision.act else "; the set-point is not written"
        logger.info("%s: %r, mode %s%s", decision.id, decision.value, decision.mode, held_back)

    def _close_round(self, now: float) -> None:
        assert self.round is not None
        if self.dry_run or self.round.is_over_there:
            self.round, self._number, self._state_is_old = None, None, True
        else:
            self._outbox = self._told(self.round, now)

    def _told(self, over: Round, now: float) -> Told:
        """Return what is told of a round that is over."""
        ran = self._readings.get("setpoint", Reading(None)).value if self._is_connected else None
        if not self.in_control and over.act and (ran is None or self.file.setpoint.read_back is None):
            # Out of control the set-point says nothing: another point would have to say what the plant does.
            ran = self.file.safe.setpoint
        return over.told(now, self.file, (self._state or {}).get("actions", ()), ran)

    def _sample(self) -> None:
        if self.round is not None and self._is_connected and self._outbox is None:
            confirmed = self._written is not None and self.in_control
            ran = self._readings["setpoint"].value
            at_it = confirmed and same_setting(ran, self.round.value, self.file.setpoint.tolerance)
            runs = at_it if self.round.act else True
            if self.round.act and self.in_control and not at_it and self.round.has_run:
                self.round.spoil("the set-point left its value")
            self.round.sample(self._now(), self.file, self._readings["measurement"], ran, runs)
