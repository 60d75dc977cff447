"""What another policy would have done in a recorded run, according to the record's own model and its random draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.offpolicy import DoublyRobust, doubly_robust, refused, too_little_overlap
from holdcourse.deciding import recipe, registry
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Trust
from holdcourse.deciding.promise import Promised
from holdcourse.deciding.rules import Choice, RuleState
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import CostModel, maximises
from holdcourse.movement.offline import PricedPath, optimal_path, price_path
from holdcourse.movement.problem import Problem
from holdcourse.running.audit import from_beginning, recorded_policy
from holdcourse.running.decision import Request
from holdcourse.running.events import Ask, Body, Change, Episode, Learn, Redirect, Tell
from holdcourse.running.log import Log
from holdcourse.running.session import Session
from holdcourse.running.storage import Location, located
from holdcourse.threads import one_thread
from holdcourse.worlds.simulation import Question, run_rounds

FOLDS, FAR_AWAY = 5, 50  # blocks of rounds predicted from the others, and rounds between the two
MOST_LIMITED = 0.2  # share of rounds in which something else than the draw may have run
REPLAYED = "only policies that a record can store can be replayed; hc.audit.verify(path, policy) checks this one"


@dataclass(frozen=True)
class Replay:
    """What another policy would have done in the recorded contexts, and what that would have cost.

    Attributes
    ----------
    rounds
        Number of rounds replayed: the recorded rounds up to the first new episode or change of prices, if there is one.
    recorded, other, optimum
        Bills according to the record's own model: of the actions that were really taken, of the other policy, and of
        perfect foresight. Their movement is exact for these paths; their service is an estimate.
    measured
        Sum and number of the measurements told, without those taken back.
    doubly_robust
        Estimate of the other policy's service cost per round from the draws of the recorded policy, which is right even
        if the model is wrong; or the reason why the record cannot tell. See `holdcourse.backtest.offpolicy`.
    ended_by
        What ended the replay before the end of the record: "a new episode" or "a change of prices"; None if nothing
        did.

    Examples
    --------
    >>> import tempfile
    >>> import holdcourse as hc
    >>> log = tempfile.mkdtemp() + "/valve.log"
    >>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0])), start=0.0, log=log) as controller:
    ...     controller.tell(controller.ask(context=0.2).id, 0.04)
    >>> found = hc.replay(log, "stationary")
    >>> found.rounds, round(found.other.movement, 1)  # staying moves nothing
    (1, 0.0)
    """

    rounds: int
    recorded: PricedPath
    other: PricedPath
    optimum: PricedPath
    measured: tuple[float, int]
    doubly_robust: DoublyRobust
    ended_by: str | None = None


@dataclass
class _Recorded:
    """What a record holds of one round, for judging another policy by it."""

    request: Request
    probabilities: NDArray[np.float64]
    drawn: int
    ran: int
    as_drawn: bool
    cost: float | None = None


@one_thread()
def replay(path: str | Location, maker: str, *, trust: Trust = ()) -> Replay:
    """Estimate what another policy would have done, from the recorded policy's final model and its random draws.

    `maker` is the name of the other policy, such as "cgp-lcb"; `trust` is as in `audit.verify`.

    The other policy gets the recorded contexts and masks, is told what the model expects at its own actions, and has
    the recorded policy's options as far as it takes them. Where the prices of movement were changed, the rounds before
    that are replayed, since a bill at two prices cannot be compared. The bills are an estimate by that model: the
    record knows only the costs of the actions that were taken. Where decisions were drawn at random (GP-MD, hedges),
    what was measured corrects the model: `Replay.doubly_robust`, with an interval, or with the reason why that is
    impossible.

    Examples
    --------
    >>> import tempfile
    >>> import holdcourse as hc
    >>> log = tempfile.mkdtemp() + "/valve.log"
    >>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0])), start=0.0, log=log) as controller:
    ...     for load in (0.2, 0.9, 0.4):
    ...         decision = controller.ask(context=load)
    ...         controller.tell(decision.id, (decision.value - load) ** 2)
    >>> hc.replay(log, "cgp-lcb").measured[1]  # measurements told
    3
    """
    log = Log.read(located(path))
    try:
        session = from_beginning(log, recorded_policy(log, trust, REPLAYED))
        unlearned = session.pilot.model.copy()
        first, rounds, measured, ended_by = _repeated(log, session)
        if not rounds:
            raise InvalidInput(f"{path} contains no decision yet, so there is nothing to replay")
        problem = session.policy.problem
        requests = [each.request for each in rounds]
        model = session.pilot.model
        try:
            expected = np.array([model.estimate(request.context, request.costs).expected for request in requests])
        except InvalidInput as error:  # one of a process in time
            raise InvalidInput(
                f"{path} cannot be replayed: the model of {session.policy.name} cannot estimate the costs of past "
                f"rounds ({error})"
            ) from None
        costs = np.where([request.mask(problem.n) for request in requests], expected, np.inf)
        other = Pilot(_other(log, maker, problem), first.action, first.seed)
        # Estimates are costs; who measures gains is told gains.
        told_costs = -expected if maximises(other.model) else expected
        questions = (Question(request.context, request.mask(problem.n), request.forecast) for request in requests)
        world = _Estimated(problem, expected, told_costs)
        choices = [one.choice for one in run_rounds(other, world, questions, first.seed)]
        return Replay(
            len(requests),
            price_path([each.ran for each in rounds], expected, problem, first.action),
            price_path([choice.action for choice in choices], expected, problem, first.action),
            optimal_path(costs, problem, first.action),
            (float(sum(measured)), len(measured)),
            _doubly_robust(rounds, choices, unlearned, isinstance(session.pilot.rule, Promised)),
            ended_by,
        )
    finally:
        log.close()


def _repeated(log: Log, session: Session) -> tuple[RuleState, list[_Recorded], list[float], str | None]:
    """Repeat a recorded run, up to a second episode or other prices of movement.

    Returns how its rule began, its rounds, what was told in them, and what ended them before the record does.
    """
    first = session.pilot.state
    rounds: dict[str, _Recorded] = {}  # by the id of the decision
    measured: list[float] = []
    retracted = {event.body.id: event.body.reason for event in log.retractions()}
    sign = -1.0 if maximises(session.pilot.model) else 1.0
    ended_by: str | None = None
    for event in log.events():
        body = event.body
        ended_by = _end(body) if rounds else None
        if ended_by is not None:
            break
        session.repeat(body, retracted)
        if not rounds and not isinstance(body, Ask):  # nothing was decided before it: the run begins after it
            first = session.pilot.state
        match body:
            case Ask():
                probabilities = session.entry(body.id).decision.probabilities
                as_drawn = body.limited_by is None and body.order is None
                rounds[body.id] = _Recorded(body.request, probabilities, body.action, body.meant, as_drawn)
            case Redirect() if f"r{body.round}" in rounds:  # else of a round of an earlier record
                rounds[f"r{body.round}"].ran = body.order.action
            case Tell():
                told = rounds[body.id]
                told.ran = told.ran if body.applied is None else body.applied
                believed = session.entry(body.id).weight != 0
                if body.measurement is not None and body.id not in retracted and believed:
                    told.cost = sign * body.measurement
        if isinstance(body, Tell | Learn) and body.measurement is not None and body.id not in retracted:
            measured.append(body.measurement)
    return first, list(rounds.values()), measured, ended_by


def _end(body: Body) -> str | None:
    """What an event that ends a replay is; None: it does not end one."""
    if isinstance(body, Episode):
        return "a new episode"
    return "a change of prices" if isinstance(body, Change) and body.problem is not None else None


def _doubly_robust(
    rounds: list[_Recorded], choices: list[Choice], unlearned: CostModel, promised: bool
) -> DoublyRobust:
    """What the other policy's choices would have cost, by the rounds in which the recorded policy's draw ran."""
    limited = sum(not each.as_drawn or each.ran != each.drawn for each in rounds)
    used = [t for t, each in enumerate(rounds) if each.as_drawn and each.ran == each.drawn and each.cost is not None]
    chosen = [rounds[t] for t in used]
    measured = np.array([each.cost for each in chosen], dtype=np.float64)
    if promised or limited > MOST_LIMITED * len(rounds):
        why = "a promise against a baseline decided which draws were followed"
        if not promised:
            why = (
                f"in {limited} of {len(rounds)} rounds another setting ran than the one drawn (limits, overrides, "
                "operators)"
            )
        return refused(measured, f"{why}, so the probabilities of what ran are not known. Run a trial of the two")
    taken = np.array([each.ran for each in chosen], dtype=np.int64)
    probable = np.array([each.probabilities for each in chosen])
    wanted = np.array([choices[t].probabilities for t in used])
    why_not = too_little_overlap(taken, probable, wanted) if used else "nothing was drawn and measured"
    if why_not is not None:
        return refused(measured, why_not)
    return doubly_robust(measured, taken, probable, wanted, _expected_from_afar(rounds, unlearned)[used])


def _expected_from_afar(rounds: list[_Recorded], unlearned: CostModel) -> NDArray[np.float64]:
    """What every action is expected to cost in each round by a model that has learned rounds far from it only, (T, n).

    What is drawn depends on what was measured shortly before; what the model says must not.
    """
    t, sign = len(rounds), -1.0 if maximises(unlearned) else 1.0
    gap, expected = min(FAR_AWAY, t // 20), []
    for block in np.array_split(np.arange(t), FOLDS):
        model = unlearned.copy()
        for each in (*rounds[: max(0, block[0] - gap)], *rounds[block[-1] + 1 + gap :]):
            if each.cost is not None:
                model.learn(each.ran, each.request.context, sign * each.cost)
        expected += [model.estimate(rounds[k].request.context, rounds[k].request.costs).expected for k in block]
    return np.array(expected)


@dataclass(frozen=True, eq=False)
class _Estimated:
    """The world as the record's own model believes it to be: its estimates, (T, n), are what costs and is measured."""

    problem: Problem
    expected: NDArray[np.float64]
    told: NDArray[np.float64]

    def costs(self, round: int, context: Any) -> NDArray[np.float64]:  # noqa: A002
        """Estimated cost of every action in a round."""
        costs: NDArray[np.float64] = self.expected[round]
        return costs

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The estimate itself, without noise: a cost, or a gain for who measures gains."""
        return float(self.told[round, action])


def _other(log: Log, maker: str, problem: Problem) -> Policy:
    """The other policy, at the prices of the rounds that are replayed."""
    found = log.recipe(REPLAYED)
    options = registry.entry_of(maker, "problem").options()
    taken = {name: value for name, value in found["options"].items() if name in options.names}
    missing = [name for name in options.required if name not in taken]
    if missing:
        needs = ", ".join(missing)
        raise InvalidInput(f"policy {maker!r} needs {needs}, which {log.path} does not contain; replay another policy")
    given = {**found, "policy": maker, "problem": problem.describe(), "options": taken}
    return recipe.make(given, (maker,))  # named by the caller
