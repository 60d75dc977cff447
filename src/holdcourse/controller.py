"""The controller: a policy beside a running system, asked and told round by round.

The one mutable shell. Each `ask` computes a decision without changing anything, commits it to the record if there is
one, and only then goes on; so a failure at any point leaves the state as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive, recipe
from holdcourse.decision import Decision, Explanation, Record, Request
from holdcourse.errors import Conflict, DamagedFile, HoldcourseError, InvalidInput
from holdcourse.history import check_measurement
from holdcourse.limits import Limits, Whereabouts, nearest_permitted, whole_number
from holdcourse.log import Log
from holdcourse.policy import Pilot, Policy, check_seed
from holdcourse.rules import Choice

Arrays: TypeAlias = dict[str, NDArray[Any]]

logger = logging.getLogger("holdcourse.controller")

KEPT_RECORDS = 64  # newest decisions that can be explained and compared without the log
SNAPSHOT_EVERY = 256  # events between two snapshots in the log


@dataclass(frozen=True)
class Guard:
    """Go to a safe action for a while when a measured cost is too high.

    Parameters
    ----------
    threshold
        A measured cost above this triggers it (a gain below it, for a policy that maximises).
    revert_to
        The safe action.
    cool_down
        Rounds to stay there.
    """

    threshold: float
    revert_to: int
    cool_down: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.threshold, str) or np.isnan(self.threshold):
            raise InvalidInput(f"threshold must be a number, got {self.threshold!r}")
        object.__setattr__(self, "threshold", float(self.threshold))  # what JSON can hold
        object.__setattr__(self, "revert_to", whole_number(self.revert_to, "revert_to", 0))
        object.__setattr__(self, "cool_down", whole_number(self.cool_down, "cool_down", 1))


class Controller:
    """Asks a policy and tells it what was measured, with limits that are never broken.

    Parameters
    ----------
    policy
        What decides.
    start
        The action before the first round.
    seed
        Of all randomness.
    log
        File of the append-only record. If it exists, the controller goes on where the record ends.
    limits
        What the machine may do; see `Limits`.
    guard
        When to go to a safe action; see `Guard`.
    max_pending
        How many decisions may wait for their measurement; with more than one, `ask` needs `round`.

    Examples
    --------
    >>> from holdcourse import Problem, minc_known
    >>> controller = Controller(minc_known(Problem([100.0, 200.0, 300.0])), start=0)
    >>> decision = controller.ask(context=None, costs=[3.0, 1.0, 2.0])
    >>> decision.value
    200.0
    >>> controller.tell(decision.id, measurement=1.1)
    """

    def __init__(
        self,
        policy: Policy,
        start: int = 0,
        seed: int = 0,
        log: str | Path | None = None,
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
    ) -> None:
        policy.problem.check_action(start)
        check_seed(seed)
        if guard is not None:
            policy.problem.check_action(guard.revert_to)
        self.policy = policy
        self.limits = limits or Limits()
        self.guard = guard
        self.max_pending = whole_number(max_pending, "max_pending", 1)
        self._seed, self._start = int(seed), int(start)
        self._begin()
        self._log: Log | None = None
        self._stale = False  # whether the state must be read back from the log first
        if log is not None:
            self._log = Log.open(Path(log), self._identity(), self._beginning)
            try:
                self._reload()
            except BaseException:
                self._log.close()
                raise

    def _begin(self) -> None:
        self._pilot = Pilot(self.policy, self._start, self._seed)
        self._round = 0
        self._episode = 0
        self._where = Whereabouts(((-1, self._start),))
        self._cool_until = 0  # rounds before this one are spent at the guard's action
        self._records: dict[int, Record] = {}  # by round: all pending ones and the newest others

    @property
    def action(self) -> int:
        """Where the machine is."""
        return self._where.action

    @property
    def round(self) -> int:
        """The next round to be decided."""
        return self._round

    @property
    def episode(self) -> int:
        """The present episode."""
        return self._episode

    @property
    def pending(self) -> list[Decision]:
        """Decisions not yet told, oldest first."""
        return [record.decision for record in self._records.values() if record.told is None]

    def ask(
        self,
        context: Any = None,
        allowed: ArrayLike | None = None,
        forecast: Any = None,
        *,
        costs: ArrayLike | None = None,
        round: int | None = None,  # noqa: A002
    ) -> Decision:
        """Decide the next round; asking again the same gives the same decision.

        Parameters
        ----------
        context
            What is known now: a number, a list of numbers, or None.
        allowed
            Which actions may be chosen, n booleans; default all.
        forecast
            Contexts expected in the next rounds, for policies that plan.
        costs
            The true costs, for policies that know them.
        round
            Which round is meant; needed only where several decisions may be pending.
        """
        self._catch_up()
        request = Request.of(self.policy.problem, context, allowed, forecast, costs)
        pending = [record for record in self._records.values() if record.told is None]
        if round is None:
            if self.max_pending > 1:
                raise InvalidInput(
                    f"several decisions may be pending: say which round is asked, e.g. round={self._round}"
                )
            round = pending[0].decision.round if pending else self._round  # noqa: A001
        if whole_number(round, "round", 0) < self._round:
            return self._repeated(round, request)
        if round > self._round:
            raise InvalidInput(f"round {round} cannot be decided yet; the next one is {self._round}")
        if len(pending) >= self.max_pending:
            waiting = [record.decision.id for record in pending]
            raise InvalidInput(
                f"{waiting} still wait for their measurement; tell them first, or skip with tell(id, None)"
            )
        choice, record = self._decide(request)
        with self._all_or_nothing():
            if self._log is not None:
                self._log.append("ask", _asked(record))
            self._accept(choice, record)
        self._after_event()
        return record.decision

    def tell(self, decision_id: str, measurement: float | None, applied: int | None = None) -> None:
        """Say what was measured; telling the same again is fine.

        Parameters
        ----------
        decision_id
            `Decision.id`.
        measurement
            What was measured, or None if nothing was.
        applied
            The action that was really taken, if the operator chose another; it is learned there. If no later decision
            has been taken, that is where the machine is, and the rule starts again from there.
        """
        self._catch_up()
        record = self._record(decision_id)
        y = None if measurement is None else check_measurement(measurement)
        if applied is not None:
            self.policy.problem.check_action(applied)
            applied = int(applied)
        if record.told is not None:
            if record.told != (y, applied):
                raise Conflict(
                    f"{decision_id} was told measurement={record.told[0]}, applied={record.told[1]}; "
                    f"now measurement={y}, applied={applied}. A measurement is told once"
                )
            return
        with self._all_or_nothing():
            self._learn(record, y, applied)
            if self._log is not None:
                self._log.append("tell", {"id": decision_id, "measurement": y, "applied": applied})
        self._after_event()

    def new_episode(self, start: int) -> None:
        """End the episode; the next one begins at `start`, with limits and guard afresh."""
        self._catch_up()
        self.policy.problem.check_action(start)
        waiting = [decision.id for decision in self.pending]
        if waiting:
            raise InvalidInput(f"{waiting} still wait for their measurement; tell or skip them before a new episode")
        with self._all_or_nothing():
            self._start_episode(int(start))
            if self._log is not None:
                self._log.append("episode", {"start": int(start)})
        self._after_event()

    def explain(self, decision_id: str) -> Explanation:
        """Why a decision was taken: bounds, probabilities, movement prices, limits; as data and in words."""
        return self._record(decision_id).explain(self.policy.problem)

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file, atomically. With a `log` there is no need to."""
        self._catch_up()
        archive.write_file(Path(path), archive.pack(*self._snapshot()))

    @classmethod
    def load(cls, path: str | Path, policy: Policy) -> Controller:
        """Go on from a saved state; `policy` must be equal to the one that was saved."""
        path = Path(path)
        state, arrays = archive.unpack(archive.read_file(path), str(path))
        identity = state.get("identity")
        if identity is None:
            raise DamagedFile(f"{path} does not hold a controller")
        if identity["policy"] != policy.fingerprint:
            raise InvalidInput(
                f"{path} was saved by another policy ({identity['policy_name']}, fingerprint {identity['policy']}); "
                f"this one is {policy.name}, {policy.fingerprint}. Make it with the same problem and options"
            )
        controller = cls(
            policy,
            identity["start"],
            identity["seed"],
            limits=Limits(**identity["limits"]),
            guard=None if identity["guard"] is None else Guard(**identity["guard"]),
            max_pending=identity["max_pending"],
        )
        controller._restore(state, arrays)
        return controller

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = self.policy.problem.value(self.action)
        return f"Controller({self.policy.name}, round {self._round}, at {place}, {len(self.pending)} pending)"

    # -- one round ----------------------------------------------------------------------------------------------------

    def _decide(self, request: Request) -> tuple[Choice, Record]:
        """What the next round's decision is; changes nothing."""
        problem, round_number = self.policy.problem, self._round
        mask = request.mask(problem.n)
        estimate, view = self._pilot.look(request.context, mask, request.forecast, request.costs)
        choice = self._pilot.decide(view)
        wanted, cooling = choice.action, self.guard is not None and round_number < self._cool_until
        if cooling and self.guard is not None:
            wanted = self.guard.revert_to
        action, limit = nearest_permitted(problem, self.limits, self._where, wanted, view.allowed, round_number)
        if cooling and limit is None and action != choice.action:
            limit = "cool_down"
        decision = Decision(
            id=f"r{round_number}",
            round=round_number,
            episode=self._episode,
            action=action,
            value=problem.value(action),
            probabilities=choice.probabilities,
            expected_cost=float(estimate.expected[action]),
            movement=problem.distance(self._where.action, action),
            wanted=choice.action,
            limited_by=limit,
        )
        record = Record(
            request, decision, self._where.action, view.costs, estimate.expected, estimate.mean, estimate.std
        )
        return choice, record

    def _accept(self, choice: Choice, record: Record) -> None:
        self._pilot.accept(choice)
        self._where = self._where.after(record.decision.action, self._round, self.limits)
        self._records[self._round] = record
        self._round += 1
        if len(self._records) > KEPT_RECORDS + self.max_pending:  # then at least one of them was told
            del self._records[next(number for number, kept in self._records.items() if kept.told is not None)]

    def _learn(self, record: Record, measurement: float | None, applied: int | None) -> None:
        decision = record.decision
        taken = decision.action if applied is None else applied
        if measurement is not None:
            self._pilot.learn(taken, record.request.context, measurement)
            if self.guard is not None and self._too_high(measurement):
                self._cool_until = self._round + self.guard.cool_down
        if applied is not None and applied != decision.action:
            newest = self._round - 1
            self._where = self._where.corrected(applied, decision.round, newest)
            if decision.round == newest:  # only then is the machine still there
                self._pilot.move_to(applied)
        self._records[decision.round] = record.with_tell(measurement, applied)

    def _too_high(self, measurement: float) -> bool:
        assert self.guard is not None
        maximise = getattr(self._pilot.model, "maximise", False)
        return measurement < self.guard.threshold if maximise else measurement > self.guard.threshold

    def _start_episode(self, start: int) -> None:
        self._pilot.new_episode(start)
        self._episode += 1
        self._where = Whereabouts(((self._round - 1, start),))
        self._cool_until = 0

    def _repeated(self, round_number: int, request: Request) -> Decision:
        record = self._record(f"r{round_number}")
        if record.request != request:
            raise Conflict(
                f"round {round_number} was asked with {record.request.describe()}, now with {request.describe()}; "
                "tell or skip it before asking something else"
            )
        return record.decision

    def _record(self, decision_id: str) -> Record:
        if not isinstance(decision_id, str):
            raise InvalidInput(f"a decision is named by its id, e.g. 'r0', not by a {type(decision_id).__name__}")
        digits = decision_id[1:] if decision_id.startswith("r") and len(decision_id) < 20 else ""
        number = int(digits) if digits.isdecimal() else -1
        record = self._records.get(number)
        if record is not None and record.decision.id == decision_id:
            return record
        if 0 <= number < self._round and decision_id == f"r{number}":
            raise InvalidInput(
                f"{decision_id} was told long ago; the newest {KEPT_RECORDS} decisions are kept in memory"
            )
        waiting = [decision.id for decision in self.pending]
        raise InvalidInput(f"there is no decision {decision_id!r}; pending: {waiting or 'none'}")

    # -- state --------------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What does not change while the controller lives."""
        return {
            "policy": self.policy.fingerprint,
            "policy_name": self.policy.name,
            "start": self._start,
            "seed": self._seed,
            "limits": self.limits.describe(),
            "guard": None if self.guard is None else vars(self.guard).copy(),
            "max_pending": self.max_pending,
        }

    def _snapshot(self) -> tuple[dict[str, Any], Arrays]:
        state: dict[str, Any] = {
            "identity": self._identity(),
            "round": self._round,
            "episode": self._episode,
            "where": self._where.arrivals,
            "cool_until": self._cool_until,
            "records": [],
        }
        arrays: Arrays = {f"pilot.{name}": array for name, array in self._pilot.arrays().items()}
        for number, record in self._records.items():
            data, own = record.to_data()
            state["records"].append(data)
            arrays |= {f"record{number}.{name}": array for name, array in own.items()}
        return state, arrays

    def _restore(self, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        def under(prefix: str) -> Arrays:
            return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

        self._begin()
        self._pilot.restore(under("pilot."))
        self._round, self._episode = state["round"], state["episode"]
        self._where = Whereabouts(tuple((past, action) for past, action in state["where"]))
        self._cool_until = state["cool_until"]
        for data in state["records"]:
            number = data["decision"]["round"]
            self._records[number] = Record.from_data(data, under(f"record{number}."), self.policy.problem)

    # -- the log ------------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """State from the log: the newest snapshot and what came after it."""
        assert self._log is not None
        position, content = self._log.newest_snapshot()
        self._restore(*archive.unpack(content, f"the snapshot in {self._log.path}"))
        differences: list[str] = []
        for event in self._log.events(after=position):
            differences += self.repeat(event.kind, event.body)
        if differences:
            logger.warning("%s: the record stands, but now %s", self._log.path, "; ".join(differences[:5]))

    def _catch_up(self) -> None:
        """Read the state back from the log where that could not be done when it was due."""
        if self._stale:
            self._reload()
            self._stale = False

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """What is done within is done and recorded, or has not happened: then the state is that of the record."""
        try:
            yield
        except BaseException:
            if self._log is not None:
                self._stale = True
                with suppress(HoldcourseError):
                    self._catch_up()
            raise

    def repeat(self, kind: str, body: Mapping[str, Any]) -> list[str]:
        """Live through a recorded event again; returns what came out differently this time.

        A recorded decision is a fact: where another version would have decided otherwise, the recorded action stands.
        """
        if kind == "tell":
            self._learn(self._record(body["id"]), body["measurement"], body["applied"])
            return []
        if kind == "episode":
            self._start_episode(body["start"])
            return []
        choice, record = self._decide(Request.from_data(body["request"]))
        again = _asked(record)
        differences = [
            f"round {body['round']}: {name} was {body[name]!r}, comes out as {again[name]!r}"
            for name in body
            if again[name] != body[name]
        ]
        if again["action"] != body["action"] or again["wanted"] != body["wanted"]:
            decision = replace(
                record.decision,
                action=body["action"],
                value=self.policy.problem.value(body["action"]),
                expected_cost=body["expected_cost"],
                movement=self.policy.problem.distance(record.before, body["action"]),
                wanted=body["wanted"],
                limited_by=body["limited_by"],
            )
            record = replace(record, decision=decision)
            choice = replace(choice, state=replace(choice.state, action=body["wanted"]))
        self._accept(choice, record)
        return differences

    def _beginning(self) -> tuple[dict[str, Any], bytes]:
        """What a new record holds before the first event."""
        try:
            about: dict[str, Any] = {"recipe": recipe.describe(self.policy)}
        except InvalidInput as error:  # only Python can make this policy again
            about = {"recipe": None, "recipe_missing": str(error)}
        return about, archive.pack(*self._snapshot())

    def _after_event(self) -> None:
        if self._log is not None and self._log.last % SNAPSHOT_EVERY == 0:
            self._log.snapshot(archive.pack(*self._snapshot()))


def _asked(record: Record) -> dict[str, Any]:
    """A decision as an event of the log: the question, and enough of the answer to recognise it to the last bit."""
    decision = record.decision
    return {
        "round": decision.round,
        "request": record.request.describe(),
        "wanted": decision.wanted,
        "action": decision.action,
        "limited_by": decision.limited_by,
        "expected_cost": decision.expected_cost,
        "probabilities": archive.digest(decision.probabilities),
    }
