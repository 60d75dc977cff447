"""A trial as the record of a controller holds it: from decisions and tells to the table of blocks.

Nothing is asked of a model: what counts was measured, and whose turn it was stands in the record, where
``holdcourse verify`` checks it against the coin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdcourse.deciding import recipe
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.trial import BASELINE, TrialMaker
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import maximises, price_of
from holdcourse.movement.problem import Problem
from holdcourse.running.events import Ask, Body, Change, Episode, Event, Learn, Redirect, Retract, Tell
from holdcourse.running.log import Log
from holdcourse.running.storage import Location, located
from holdcourse.trials.blocks import Blocks

# Options of a policy that a new epoch chooses from all that was told, or takes from the limits: the arm stays the same.
EPOCH_CHOOSES = ("fixed_setting_index", "max_step", "max_step_cost")


@dataclass(frozen=True, eq=False)
class RecordedTrial:
    """A trial that was read from a record.

    Attributes
    ----------
    blocks
        Table of the trial.
    began
        Time of each decision, ISO 8601; one for each row of the table.
    policy, against
        Names of the policy and of the baseline.
    unit
        Unit of the cost.
    round_hours
        Length of a round in hours; None if the limits do not say it.
    heard
        Share of the other arm's rounds from which an arm learns.
    untold
        Whether people were the baseline and never told the setting of the machine.
    over
        Whether the trial has ended, by its number of blocks or because the next epoch does not continue it.
    """

    blocks: Blocks
    began: tuple[str, ...]
    policy: str
    against: str
    unit: str = ""
    round_hours: float | None = None
    heard: float = 1.0
    untold: bool = False
    over: bool = False

    @property
    def day(self) -> int | None:
        """Number of rounds in a day; None if it is unknown or less than two."""
        rounds = 0.0 if self.round_hours is None else 24.0 / self.round_hours
        return round(rounds) if rounds >= 2 and abs(rounds - round(rounds)) < 1e-9 else None

    def rows(self) -> list[dict[str, Any]]:
        """Return every round as a flat dict, in the order of time."""
        table = self.blocks
        columns: dict[str, Sequence[Any]] = {
            "at": self.began,
            "block": table.block.tolist(),
            "pair": (table.block // 2).tolist(),
            "arm": [("baseline", "policy")[arm] for arm in table.arm],
            "cost": _known(table.cost),
            "movement": table.movement.tolist(),
            "switching": table.switching.tolist(),
            "reference": _known(table.reference[:, 0]),
            "overridden": table.overridden.tolist(),
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_trial(*paths: str | Location, trust: str | Iterable[str] = (), checked: bool = True) -> RecordedTrial:
    """Read the newest trial of a controller; the records may be in use.

    Parameters
    ----------
    paths
        Record of the controller, or records of its epochs, oldest first. A trial continues if the next epoch has a
        trial with the same arms and blocks, for example after a change of limits; otherwise it is over.
    trust
        Import paths whose code may be run, as in `holdcourse.load_policy`.
    checked
        Whether to check first that each event is as it was written.
    """
    if not paths:
        raise InvalidInput("no record is given; give the path of the trial's record")
    rounds: dict[str, _Round] = {}  # by the id of the decision, which no two epochs share
    terms: dict[str, Any] = {}
    policy: Policy | None = None
    over = False
    for path in map(located, paths):
        log = Log.read(path, checked=checked)
        try:
            made = _recipe(log)
            if made["policy"] != "trial":
                over = True
                if policy is not None:
                    same = _same_settings(policy.problem, Problem.from_data(made["problem"]))
                    _late(log.events(), rounds, same_settings=same)
                continue
            found = recipe.make(made, (trust,) if isinstance(trust, str) else tuple(trust))
            described = _terms(made, found.problem.n)
            if over or described != terms:
                rounds, terms = {}, described
            policy = found
            start, limits = log.about.identity.start, log.about.identity.limits
            over = _take_in(log.events(), found, start, rounds)
        finally:
            log.close()
    table = list(rounds.values())
    while table and not table[-1].told:  # still running: neither measured nor lost yet
        table.pop()
    if policy is None:
        raise InvalidInput(
            f"{paths[-1]} contains no trial; begin one on the service's page, or with "
            "hc.trial(policy, baseline, block=...)"
        )
    maker = policy.rule
    assert isinstance(maker, TrialMaker)
    problem = policy.problem
    seconds = limits.round_length
    return RecordedTrial(
        _table(table, policy, maker.block),
        tuple(each.at for each in table),
        maker.policy.name,
        "the operators" if maker.baseline is None else maker.baseline.name,
        problem.cost_unit,
        None if seconds is None else float(seconds) / 3600.0,
        maker.heard,
        any(each.people for each in table) and not any(each.people and each.applied for each in table),
        over,
    )


def _terms(made: Mapping[str, Any], actions: int) -> dict[str, Any]:
    """What makes two epochs parts of one trial: arms, blocks and settings, whatever was learned, allowed or paid."""
    options, problem = made["options"], made["problem"]

    def arm(given: Any) -> Any:
        if isinstance(given, str):  # people
            return given
        return given["policy"], {name: value for name, value in given["options"].items() if name not in EPOCH_CHOOSES}

    arms = {name: arm(options[name]) for name in ("policy", "baseline")}
    return {**options, **arms, "settings": (actions, problem.get("actions"), problem.get("axes"))}


def _same_settings(one: Problem, other: Problem) -> bool:
    """Whether the actions of two problems have the same numbers."""
    renamed = one.labels is not None and other.labels is not None and one.labels != other.labels
    return one.has_settings_of(other) and not renamed


def _recipe(log: Log) -> dict[str, Any]:
    """What made the policy that wrote the record."""
    if log.about.recipe is None:
        raise InvalidInput(
            f"{log.path} does not contain its policy ({log.about.recipe_missing}), so the costs of its measurements "
            "are not known; make the policy by its import path, hc.registry.make('mine.py:mine', problem, ...)"
        )
    return log.about.recipe


@dataclass
class _Round:
    """A round of a trial, as far as the events told so far know it."""

    at: str
    block: int
    arm: int
    place: int
    before: int
    wanted: int
    action: int
    taken: int
    problem: Problem
    people: bool
    predicted: tuple[float, float] | None
    measurement: float | None = None
    reference: float | None = None
    told: bool = False
    applied: bool = False
    astray: bool = False  # it was sent to a setting that a later epoch has, and perhaps not the trial

    @property
    def arrived(self) -> int:
        """Where the arm is after the round: somewhere else than it wanted only where somebody moved the machine."""
        return self.wanted if self.taken == self.action else self.taken


def _take_in(events: Iterable[Event[Body]], policy: Policy, start: int, rounds: dict[str, _Round]) -> bool:
    """Add the rounds of a record to those of the records before it; returns whether all blocks are over.

    What is told or taken back here may be of a round of an earlier record.
    """
    over = False
    before = next(reversed(rounds.values()), None)
    where, problem, newest = start, policy.problem, -1
    offset = _next_pair(None if before is None else before.block)
    maker = policy.rule
    people = isinstance(maker, TrialMaker) and maker.baseline is None
    last: _Round | None = None  # of this record
    for event in events:
        body = event.body
        match body:
            case Ask(turn=turn):
                over = turn is None
                if turn is not None:
                    newest = turn.block
                    last = rounds[body.id] = _Round(
                        event.at,
                        offset + turn.block,
                        turn.arm,
                        turn.place,
                        where,
                        body.wanted,
                        body.action,
                        body.meant,
                        problem,
                        people and turn.arm == BASELINE,
                        turn.predicted,
                    )
                where = body.meant
            case Redirect():
                where = body.order.action
                if f"r{body.round}" in rounds:
                    rounds[f"r{body.round}"].taken = where
            case Tell():
                told = rounds.get(body.id)
                if told is not None:
                    told.measurement, told.reference, told.told = body.measurement, body.reference, True
                    told.applied = body.applied is not None
                    told.taken = told.taken if body.applied is None else body.applied
                    where = told.taken if told is last else where
            case Learn():
                where = where if body.place is None else body.place
                _learn(body, rounds)
            case Retract(id=name) if name in rounds:
                rounds[name].measurement = None
            case Episode():
                where = body.start
            case Change(problem=data) if data is not None:
                problem = Problem.from_data(data)
                if newest >= 0:  # the rule begins again, with a new pair of blocks
                    offset, newest = _next_pair(offset + newest), -1
    return over


def _late(events: Iterable[Event[Body]], rounds: Mapping[str, _Round], *, same_settings: bool) -> None:
    """Take in what a record after the trial says of its rounds; its numbers of actions may be those of others."""
    for event in events:
        body = event.body
        match body:
            case Redirect() if f"r{body.round}" in rounds:
                sent = rounds[f"r{body.round}"]
                sent.astray = not same_settings
                sent.taken = body.order.action if same_settings else sent.taken
            case Learn():
                _learn(body, rounds, same_settings=same_settings)
            case Retract(id=name) if name in rounds:
                rounds[name].measurement = None


def _learn(body: Learn, rounds: Mapping[str, _Round], *, same_settings: bool = True) -> None:
    """Take in what was told of a round of an earlier record."""
    told = rounds.get(body.id)
    if told is None:
        return
    told.measurement, told.reference, told.told = body.measurement, body.reference, True
    told.applied = body.extra is not None and body.extra.assumed is None
    if same_settings:
        told.taken = body.action
    elif told.applied or told.astray:  # where it ran cannot be said in the settings of the trial: the round is lost
        told.measurement = None


def _next_pair(block: int | None) -> int:
    """The first number of the pair after the one that a block belongs to."""
    return 0 if block is None else 2 * (block // 2 + 1)


def _table(rounds: Sequence[_Round], policy: Policy, length: int) -> Blocks:
    price, gains = price_of(policy.costs), maximises(policy.costs)

    def cost(each: _Round) -> float:
        if each.measurement is None:
            return np.nan
        return each.measurement if price is None else price(each.measurement)

    def way(each: _Round, start: int, end: int) -> float:
        return each.problem.distance(start, end)

    numbers = [each.block for each in rounds]
    movement = np.array([way(each, each.place, each.arrived) for each in rounds])
    of_pair: dict[int, tuple[float, float]] = {e.block // 2: e.predicted for e in rounds if e.predicted is not None}
    unknown = (np.nan, np.nan)
    return Blocks(
        block=np.array(numbers, dtype=np.int64),
        arm=np.array([each.arm for each in rounds], dtype=np.int64),
        cost=np.array([cost(each) for each in rounds]),
        movement=movement,
        predicted=np.array([of_pair.get(number // 2, unknown)[number % 2] for number in numbers]),
        reference=np.array([np.nan if each.reference is None else each.reference for each in rounds]),
        # What was really paid beyond that: the machine begins a block where the other arm had it.
        switching=np.array([way(each, each.before, each.taken) for each in rounds]) - movement,
        overridden=np.array([not each.people and each.taken != each.wanted for each in rounds], dtype=bool),
        length=length,
        maximise=price is None and gains,
    )


def _known(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
