"""What was asked, what was decided, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import CONVERT, are_numbers, too_large, with_gaps
from holdcourse.deciding.rules import Prospect, Restraint, Turn
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.history import check_context, check_contexts
from holdcourse.mistakes import difference
from holdcourse.movement.knobs import Knobs
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import several

MOST_NAMED = 6  # settings in a message


@dataclass(frozen=True)
class Request:
    """A question in plain JSON values, so that a repeated one can be compared and a recorded one asked again."""

    context: Any
    allowed: tuple[int, ...] | None = None
    forecast: Any = None
    costs: tuple[float, ...] | None = None

    @classmethod
    def of(cls, problem: Problem, context: Any, allowed: Any, forecast: Any, costs: Any) -> Request:
        """Check and simplify what a caller passed."""
        return cls(
            context=_context(context),
            allowed=_allowed_indices(allowed, problem),
            forecast=_forecast(forecast),
            costs=None if costs is None else _costs(costs, problem.entries),
        )

    def mask(self, n: int) -> NDArray[np.bool_]:
        """Which actions may be chosen."""
        mask = np.full(n, self.allowed is None)
        if self.allowed is not None:
            mask[list(self.allowed)] = True
        return mask

    def describe(self) -> dict[str, Any]:
        """The request as JSON values; what was not given is left out."""
        fields = {"context": self.context, "allowed": self.allowed, "forecast": self.forecast, "costs": self.costs}
        given = {name: value for name, value in fields.items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Request:
        """Read what `describe` gave."""
        tuples = {name: tuple(data[name]) for name in ("allowed", "costs") if name in data}
        return cls(context=data.get("context"), forecast=data.get("forecast"), **tuples)


def other_question(
    problem: Problem, round_number: int, recorded: Mapping[str, Any], given: Mapping[str, Any], *, is_pending: bool
) -> str:
    """Say how a question differs from the one that a round was asked with, and what to do.

    `recorded` and `given` are as `Request.describe` gives them; `is_pending`: nobody has told the round yet.
    """
    then, now = difference(_with_settings(problem, recorded), _with_settings(problem, given))
    remedy = "tell or skip it before asking something else"
    if not is_pending:
        remedy = "it is over, so ask for the next round, under a new key if you use keys"
    return f"round {round_number} was asked with {then}, and now with {now}; {remedy}"


def _with_settings(problem: Problem, question: Mapping[str, Any]) -> dict[str, Any]:
    """A question with its allowed settings as people call them, not by their indices."""
    if isinstance(problem, Knobs):  # there they are entries of groups
        return dict(question)
    if question.get("allowed") is None:
        return {**question, "allowed": "all settings"}
    names = [problem.text(action) for action in question["allowed"]]
    if len(names) > MOST_NAMED:
        return {**question, "allowed": f"{len(names)} settings from {names[0]} to {names[-1]}"}
    return {**question, "allowed": ", ".join(names) or "no setting"}


def told_once(decision: str, then: str, now: str, *, is_measured: bool) -> str:
    """Say how a tell differs from the one before, and what to do; `is_measured`: the one before had a measurement."""
    remedy = "so take the measurement back if it was wrong" if is_measured else "and this one was skipped"
    return f"{decision} was told with {then}, and now with {now}; a decision can be told only once, {remedy}"


def _plain(value: Any, what: str) -> Any:
    """Numbers and nested lists of them, as JSON would hold them; None stays None."""
    if value is None:
        return None
    if not are_numbers(value):
        raise InvalidInput(f"{what} must be a number or a list of numbers, got {shown(value)}; {CONVERT}")
    try:
        array = np.asarray(with_gaps(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be a number or a list of numbers, got {shown(value)}") from None
    except OverflowError:
        raise too_large(value, what) from None
    if np.isnan(array).any():
        raise InvalidInput(f"{what} must not contain NaN, got {array.tolist()}; fill the gap before asking")
    return array.tolist()


def _context(context: Any) -> Any:
    simple = _plain(context, "context")
    check_context(simple, None)  # also for those who do not look at it: it must be possible to tell
    return simple


def _forecast(forecast: Any) -> Any:
    simple = _plain(forecast, "forecast")
    if simple is not None:
        check_contexts(np.asarray(simple), None, "forecast")
    return simple


def _costs(costs: Any, n: int) -> tuple[float, ...]:
    simple = _plain(costs, "costs")
    if np.shape(simple) != (n,):
        raise InvalidInput(f"costs must be {n} numbers, one per action, got {simple}")
    return tuple(simple)


def _allowed_indices(allowed: Any, problem: Problem) -> tuple[int, ...] | None:
    """Which actions may be chosen, of n booleans or a list of settings."""
    if allowed is None:
        return None
    if isinstance(problem, Knobs):
        by_entry = problem.entries_allowed(allowed)
        if not problem.any_permitted(by_entry):
            raise InvalidInput("allowed forbids every setting of a group of knobs; allow at least one in each group")
        return tuple(np.flatnonzero(by_entry).tolist())
    given = list(allowed) if isinstance(allowed, set | frozenset) else allowed
    if isinstance(given, list | tuple) and not all(isinstance(each, bool | np.bool_) for each in given):
        found = sorted(several(problem, given, "allowed"))
    else:
        mask = np.asarray(given)
        if mask.ndim == 1 and mask.size and mask.dtype != np.bool_:
            found = sorted(several(problem, mask, "allowed"))
        elif mask.shape == (problem.n,) and mask.dtype == np.bool_:
            found = np.flatnonzero(mask).tolist()
        elif mask.size == 0:
            found = []
        else:
            is_list = mask.ndim == 1 and mask.dtype == np.bool_
            got = f"{mask.size} boolean{'s' * (mask.size != 1)}" if is_list else f"{mask.dtype} of shape {mask.shape}"
            raise InvalidInput(f"allowed must be a list of settings or {problem.n} booleans, got {got}")
    if not found:
        raise InvalidInput("allowed forbids every setting; allow at least one")
    return tuple(found)


Array: TypeAlias = NDArray[np.float64]
Also: TypeAlias = tuple[tuple[int, float], ...]  # action, measurement


@dataclass(frozen=True, eq=False)
class Decision:
    """The decision of a round.

    Attributes
    ----------
    id
        Name of the decision, under which the measurement is told.
    round, episode
        Numbers of the round and the episode, counted from 0.
    action, value
        The action's index, and its coordinate or label.
    probabilities
        Probability that the rule gave each action, shape (n,); after limits, `action` may be another one.
    expected_cost
        Service cost that the model expects at `action`.
    movement
        Cost of the move to `action`.
    wanted, wanted_value
        Action that the rule chose, by its index and as its setting; differs from `action` if a limit acted.
    limited_by
        The limit that acted: "allowed", "max_step", "min_dwell", "max_moves" or "cool_down"; None if none did.
    turn
        Turn in a trial; None if there is no trial.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.minc_known(hc.Problem([0.0, 0.5, 1.0])), start=0.0)
    >>> decision = controller.ask(costs=[3.0, 1.0, 2.0])
    >>> decision.id, decision.action, decision.value, decision.movement
    ('r0', 1, 0.5, 0.5)
    """

    id: str
    round: int
    episode: int
    action: int
    value: Any
    probabilities: Array
    expected_cost: float
    movement: float
    wanted: int
    wanted_value: Any
    limited_by: str | None
    turn: Turn | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", _kept(self.probabilities))


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a decision was taken. The arrays have one entry per action.

    Attributes
    ----------
    bounds
        The cost vector that the rule saw: lower bounds, +inf where not allowed.
    expected
        Expected service cost.
    mean, std
        Mean and standard deviation of the measured quantity, if the policy learns.
    probabilities
        Probabilities that the rule gave.
    movement
        Cost of moving there from where the machine was.
    settings
        Settings of the actions, as people call them.
    words
        The reasons in a few sentences.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.minc_known(hc.Problem([0.0, 0.5, 1.0])), start=0.0)
    >>> why = controller.explain(controller.ask(costs=[3.0, 1.0, 2.0]).id)
    >>> why.words
    'Round 0: go from 0 to 0.5, a move that costs 0.5. The expected service cost is 1 there and 3 at 0.'
    >>> why.rows()[2]
    {'setting': 1.0, 'action': 2, 'bound': 2.0, 'expected': 2.0, 'probability': 0.0, 'movement': 1.0}
    """

    decision: Decision
    bounds: Array
    expected: Array
    mean: Array | None
    std: Array | None
    probabilities: Array
    movement: Array
    settings: tuple[Any, ...]
    words: str

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per action."""
        columns: dict[str, Any] = {
            "setting": self.settings,
            "action": range(len(self.bounds)),
            "bound": self.bounds.tolist(),
            "expected": self.expected.tolist(),
            "probability": self.probabilities.tolist(),
            "movement": self.movement.tolist(),
        }
        if self.mean is not None and self.std is not None:
            columns |= {"mean": self.mean.tolist(), "std": self.std.tolist()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@dataclass(frozen=True)
class Order:
    """Action of the machine in a round in which somebody else decides.

    Attributes
    ----------
    wanted
        Action that somebody wants; None if nobody moves the machine, so that it stays where it is.
    action
        Action that the machine takes.
    limited_by
        Limit that prevented the wish, as in `Decision`; None if none did.
    force
        Reason given for ignoring the limits; None if they apply.
    """

    wanted: int | None
    action: int
    limited_by: str | None = None
    force: str | None = None


@dataclass(frozen=True, eq=False)
class Entry:
    """A decision with all that explains it, as kept by a controller for its newest decisions.

    `told` is None while the decision is pending, else ``(measurement or None, applied or None)``; `weight` is what the
    model makes of that measurement: 1, less where it was far off, 0 where it is set aside, then `instead` is what the
    model expects in its place; `also` is what was measured at other actions, `reference` a signal that no decision
    touches; `retracted` is the reason where that measurement was taken back; `said` is what the rule itself had to say;
    `order` is what the machine was told to do where it was not to follow the decision, and `redirected` where it was
    sent later in the round; `prospect` is what a plan weighed, `restraint` why a promise did not follow a wish; `tried`
    are the actions that had been measured by then, None if nobody can say.
    """

    request: Request
    decision: Decision
    before: int
    bounds: Array
    expected: Array
    mean: Array | None
    std: Array | None
    told: tuple[float | None, int | None] | None = None
    said: str = ""
    order: Order | None = None
    redirected: Order | None = None
    retracted: str | None = None
    weight: float | None = None
    instead: float | None = None
    also: Also = ()
    reference: float | None = None
    prospect: Prospect | None = None
    restraint: Restraint | None = None
    tried: frozenset[int] | None = None

    def __post_init__(self) -> None:
        for name in ("bounds", "expected", "mean", "std"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, _kept(array))

    @property
    def in_question(self) -> frozenset[int]:
        """The actions that an explanation may speak of, besides those that only have a probability."""
        known = np.isfinite(self.bounds) & np.isfinite(self.expected)
        others = np.flatnonzero(known & (np.arange(len(known)) != self.before))
        cheapest = np.flatnonzero(self.expected == self.expected[others].min()).tolist() if len(others) else []
        weighed = () if self.prospect is None or self.prospect.to is None else (self.prospect.to,)
        chosen = (self.decision.action, self.decision.wanted, self.before, int(np.argmin(self.bounds)))
        return frozenset((*chosen, *cheapest, *weighed))

    @property
    def meant(self) -> int:
        """The action that runs unless somebody says otherwise."""
        order = self.redirected or self.order
        return self.decision.action if order is None else order.action

    @property
    def began(self) -> int:
        """The action at which the round began, as far as anybody said; `taken` is the last one."""
        if self.told is not None and self.told[1] not in (None, self.meant):
            return self.taken
        return self.decision.action if self.order is None else self.order.action

    @property
    def taken(self) -> int:
        """The action that ran, as far as anybody said."""
        applied = None if self.told is None else self.told[1]
        return self.meant if applied is None else applied

    def explain(self, problem: Problem, *, maximise: bool = False) -> Explanation:
        """Put it as data and in words; `maximise`: what is measured are gains, and the words speak of them."""
        from holdcourse.running.reasons import in_words

        movement = np.array(problem.costs_from(self.before))
        decision = self.decision
        return Explanation(
            decision,
            self.bounds,
            self.expected,
            self.mean,
            self.std,
            decision.probabilities,
            movement,
            tuple(problem.entry_value(k) for k in range(problem.entries)),
            in_words(self, problem, movement, maximise=maximise),
        )

    def to_data(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the entry as JSON values and arrays."""
        decision = self.decision
        data = {
            "request": self.request.describe(),
            "before": self.before,
            "told": self.told,
            "retracted": self.retracted,
            "weight": self.weight,
            "instead": self.instead,
            "also": self.also,
            "reference": self.reference,
            "said": self.said,
            "order": None if self.order is None else asdict(self.order),
            "redirected": None if self.redirected is None else asdict(self.redirected),
            "decision": {
                name: getattr(decision, name)
                for name in ("id", "round", "episode", "action", "expected_cost", "movement", "wanted", "limited_by")
            },
            "turn": None if decision.turn is None else asdict(decision.turn),
            "prospect": None if self.prospect is None else asdict(self.prospect),
            "restraint": None if self.restraint is None else asdict(self.restraint),
            "tried": None if self.tried is None else sorted(self.tried.intersection(self.in_question)),
        }
        arrays = {"probabilities": decision.probabilities, "bounds": self.bounds, "expected": self.expected}
        if self.mean is not None and self.std is not None:
            arrays |= {"mean": self.mean, "std": self.std}
        return data, arrays

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, Array], problem: Problem) -> Entry:
        """Read what `to_data` gave."""
        fields = data["decision"]
        return cls(
            request=Request.from_data(data["request"]),
            decision=Decision(
                **fields,
                value=problem.value(fields["action"]),
                wanted_value=problem.value(fields["wanted"]),
                probabilities=np.array(arrays["probabilities"]),
                turn=turn_in(data["turn"]),
            ),
            before=data["before"],
            bounds=np.array(arrays["bounds"]),
            expected=np.array(arrays["expected"]),
            mean=arrays.get("mean"),
            std=arrays.get("std"),
            told=None if data["told"] is None else tuple(data["told"]),
            retracted=data["retracted"],
            weight=data["weight"],
            instead=data["instead"],
            also=tuple((action, y) for action, y in data.get("also", ())),
            reference=data["reference"],
            said=data["said"],
            order=None if data["order"] is None else Order(**data["order"]),
            redirected=None if data["redirected"] is None else Order(**data["redirected"]),
            prospect=None if data.get("prospect") is None else Prospect(**data["prospect"]),
            restraint=None if data.get("restraint") is None else Restraint(**data["restraint"]),
            tried=None if data.get("tried") is None else frozenset(data["tried"]),
        )

    def with_tell(
        self,
        measurement: float | None,
        applied: int | None,
        retracted: str | None = None,
        also: Also = (),
        reference: float | None = None,
    ) -> Entry:
        """Return the entry as it is after the decision was told, and the measurement taken back for a reason."""
        return self._with(told=(measurement, applied), also=also, reference=reference, retracted=retracted)

    def with_weight(self, weight: float | None, instead: float | None = None) -> Entry:
        """Return the entry with what the model makes of the measurement."""
        return self._with(weight=weight, instead=instead)

    def with_facts_of(self, other: Entry) -> Entry:
        """Return the entry with what was told of the decision, and where the machine was sent, as another one says."""
        if (self.told, self.redirected) == (other.told, other.redirected):
            return self
        names = ("told", "redirected", "retracted", "weight", "instead", "also", "reference")
        return self._with(**{name: getattr(other, name) for name in names})

    def _with(self, **changed: Any) -> Entry:
        other = object.__new__(Entry)  # quicker than `replace`, which would look at all arrays again
        vars(other).update(vars(self), **changed)
        return other


def turn_in(data: Mapping[str, Any] | None) -> Turn | None:
    """Whose turn it was, as JSON holds it."""
    if data is None:
        return None
    predicted = data["predicted"]
    foreseen = None if predicted is None else tuple(predicted)
    return Turn(data["block"], data["arm"], data["place"], foreseen, data["heard"])


def _kept(array: Array) -> Array:
    """Read-only, as callers get it too; a copy where it could still be written to: a model may go on using its own."""
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array
