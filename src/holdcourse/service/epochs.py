"""Records that continue each other: the first one of a controller, and a new one whenever its problem changes.

A record is written under another name and gets its own when it is whole, so a crash leaves the old state or the new.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from holdcourse import recipe, registry
from holdcourse.controller import Controller
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.history import History
from holdcourse.limits import Guard, Limits
from holdcourse.log import Log
from holdcourse.offline import best_measured
from holdcourse.policy import Learning, Policy
from holdcourse.problem import Problem, grid
from holdcourse.service import sizes
from holdcourse.service.ledger import Ledger
from holdcourse.service.store import DataFolder
from holdcourse.service.tokens import Author
from holdcourse.session import Origin
from holdcourse.witness import Witness

Measured: TypeAlias = tuple[int, Any, float]  # action, context, measurement

EPOCH_SETTINGS = (  # a change of these begins a new epoch
    "actions",
    "labels",
    "metric",
    "scale",
    "fixed_cost",
    "directed",
    "rho",
    "policy",
    "options",
    "limits",
    "guard",
    "max_pending",
)


def begin(
    store: DataFolder, config: Mapping[str, Any], history: list[Measured] | None, author: Author | None = None
) -> None:
    """Write the first record of a controller; `author` is who wants it."""
    problem = problem_of(config)
    for name in ("start", "fallback"):
        if config[name] is not None:
            problem.check_action(config[name])
    past = _past(history or [])
    policy = policy_of(config, problem, past)
    note = {
        "note": "created",
        "config": dict(config),
        "history": history,
        "start": config["start"],
        "home": config["start"],
        "fixed": None if past is None else best_measured(past, problem, maximise=maximises(config)),
        "explanation": policy.explanation,
        **_signature(author),
    }
    _write(store, config, policy, [note], Origin(), config["start"])


def begin_next(
    store: DataFolder,
    ledger: Ledger,
    controller: Controller,
    changes: Mapping[str, Any],
    notes: Sequence[Mapping[str, Any]],
    author: Author | None = None,
) -> None:
    """Write the record of a new epoch, which knows all that was told before; `notes` stand at its beginning."""
    config = merged(ledger.config, changes)
    old, new = controller.policy.problem, problem_of(config)
    places = nearest_actions(old, new)
    config = _renamed(config, changes, places)
    _check_step(config, old, new, ledger.place, places[ledger.place])
    if config["fallback"] is not None:
        new.check_action(config["fallback"])
    past = _past(told_so_far(store, config["id"], new))
    carried = ledger.carried()
    if carried["override"] is not None:
        carried["override"] = carried["override"] | {"action": places[carried["override"]["action"]]}
    if carried["fallback"] is not None:
        sent = {name: places[carried["fallback"][name]] for name in ("wanted", "action")}
        carried["fallback"] = carried["fallback"] | sent
    carried["pending"] = {name: _moved(asked, places, new) for name, asked in carried["pending"].items()}
    if carried["fresh_episode"] is not None:
        carried["fresh_episode"] = places[carried["fresh_episode"]]
    start = places[ledger.place]
    policy = policy_of(config, new, past)
    note = {
        "note": "epoch",
        "config": config,
        "start": start,
        "home": places[ledger.home],
        "fixed": None if ledger.fixed is None else places[ledger.fixed],
        "carried": carried,
        "explanation": policy.explanation,
        **_signature(author),
    }
    previous = {"file": controller.log.path.name, "events": controller.log.last, "chain": controller.log.chain}
    forebears = None if controller.allowed.all() else nearest_actions(new, old)
    origin = controller.origin_of_next(places, forebears, start, {"previous": previous})
    _write(store, config, policy, [note, *notes], origin, start)


def _write(
    store: DataFolder,
    config: Mapping[str, Any],
    policy: Policy,
    notes: Sequence[Mapping[str, Any]],
    origin: Origin,
    start: int,
) -> None:
    recipe.describe(policy)  # raises where the record could not be opened again
    unfinished, final = store.next_epoch(config["id"])
    controller = Controller(
        policy,
        start,
        config["seed"],
        unfinished,
        limits=limits_of(config),
        guard=None if config["guard"] is None else Guard(**config["guard"]),
        max_pending=config["max_pending"],
        origin=origin,
    )
    try:
        controller.log.index()
        controller.note(*notes)
    finally:
        controller.close()
    store.publish(unfinished, final)


def _signature(author: Author | None) -> dict[str, Any]:
    return {} if author is None else {"extra": {"by": author}}


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings after a change; of groups of settings, what is not named stays."""
    result = {**config, **changes}
    if result["policy"] != config["policy"]:  # another policy takes other options; what is measured stays the same
        kept = {"maximise": config["options"]["maximise"]}
        config = {**config, "options": dict.fromkeys(config["options"]) | kept}
        result["options"] = config["options"]
    for name in ("limits", "options", "units", "guard"):
        if isinstance(changes.get(name), Mapping):
            result[name] = {**(config[name] or {"cool_down": 10}), **changes[name]}
    return result


def _check_step(config: Mapping[str, Any], old: Problem, new: Problem, place: int, there: int) -> None:
    """Whether the machine may be taken to be at the new action that stands for its present one: within `max_step`."""
    most = limits_of(config).max_step
    if most is None or not isinstance(config["metric"], str) or (old.actions[place] == new.actions[there]).all():
        return
    points = {"actions": [old.actions[place].tolist(), new.actions[there].tolist()], "labels": None, "directed": False}
    away = problem_of({**config, **points}).distance(0, 1)
    if away > most:
        raise InvalidInput(
            f"the machine is at {old.value(place)}, and the nearest of the new actions, {new.value(there)}, costs "
            f"{away:g} to reach, more than max_step={most:g}. Keep the action where it is among the new ones, bring it "
            "nearer first with an override, or raise max_step in the same change"
        )


def _renamed(config: Mapping[str, Any], changes: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    """The settings with the actions in them under their new numbers; those just given are new ones already."""
    guard, fallback, options = config["guard"], config["fallback"], config["options"]
    if guard is not None and "guard" not in changes:
        guard = guard | {"revert_to": places[guard["revert_to"]]}
    if fallback is not None and "fallback" not in changes:
        fallback = places[fallback]
    if options["action"] is not None and "action" not in changes.get("options", {}):
        options = options | {"action": places[options["action"]]}
    return {**config, "guard": guard, "fallback": fallback, "options": options}


def recorded_policy(log: Log) -> Policy:
    """The policy that wrote a record."""
    return recipe.make(log.about["recipe"])


def reopened(path: Path, witness: Witness | None = None) -> Controller:
    """A controller as its record describes it."""
    log = Log.read(path, checked=False)
    try:
        identity, policy = log.about["identity"], recorded_policy(log)
    finally:
        log.close()
    guard = identity["guard"]
    return Controller(
        policy,
        identity["start"],
        identity["seed"],
        path,
        limits=Limits(**identity["limits"]),
        guard=None if guard is None else Guard(**guard),
        max_pending=identity["max_pending"],
        witness=witness,
    )


def problem_of(config: Mapping[str, Any]) -> Problem:
    """Actions and movement costs; the weight `rho` of the service cost divides the latter."""
    actions, metric, rho = config["actions"], config["metric"], config["rho"]
    sizes.action_count(actions, metric)
    if isinstance(actions, dict):
        actions = grid(**actions)
    named = isinstance(metric, str)
    return Problem(
        actions,
        metric if named else np.array(metric, dtype=np.float64) / rho,
        scale=np.array(config["scale"]) / rho if named else config["scale"],
        fixed_cost=config["fixed_cost"] / rho,
        directed=config["directed"],
        labels=config["labels"],
    )


def limits_of(config: Mapping[str, Any]) -> Limits:
    """The limits, in the problem's units."""
    given = config["limits"]
    step = None if given["max_step"] is None else given["max_step"] / config["rho"]
    return Limits(**{**given, "max_step": step})


def policy_of(config: Mapping[str, Any], problem: Problem, past: History | None) -> Policy:
    """What decides; `past` is learned before the first round."""
    name = config["policy"]
    parameters = inspect.signature(registry.entry_of(name, "problem").maker()).parameters
    learns = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    taken = {*parameters, *(Learning.__annotations__ if learns else ())} - {"problem", "learning", "history"}
    options = {key: value for key, value in config["options"].items() if value is not None}
    if "maximise" not in taken:  # it says what measurements mean, whoever decides
        options.pop("maximise", None)
    wrong = sorted(set(options) - taken)
    if wrong:
        raise InvalidInput(f"policy {name!r} does not take the option {wrong[0]!r}; it takes {sorted(taken)}")
    given = {"policy": name, "problem": problem.describe(), "options": options}
    changes: dict[str, Any] = {"history": past} if learns and past is not None else {}
    step = limits_of(config).max_step
    if step is not None and "max_step" in taken:
        changes["max_step"] = step
    try:
        sizes.require_room(config)
        return recipe.make(given, **changes)
    except HoldcourseError:
        raise
    except (ArithmeticError, ValueError, TypeError, RecursionError, np.linalg.LinAlgError) as error:
        raise InvalidInput(f"policy {name!r} cannot be made of this: {error}") from error


def _past(records: list[Measured]) -> History | None:
    return History.from_triples(records) if records else None


def maximises(config: Mapping[str, Any]) -> bool:
    """Whether measurements are gains."""
    return bool(config["options"]["maximise"])


def nearest_actions(old: Problem, new: Problem) -> list[int]:
    """For each old action the new one of the same label, or else the nearest."""
    if old.actions.shape[1] != new.actions.shape[1]:
        raise InvalidInput(
            f"the actions had {old.actions.shape[1]} coordinates and now have {new.actions.shape[1]}; what was learned "
            "cannot be carried over. Create another controller"
        )
    labels = {label: k for k, label in enumerate(new.labels or ())}
    places = []
    for k in range(old.n):
        away = np.linalg.norm((new.actions - old.actions[k]) * new.scale, axis=1)
        label = None if old.labels is None else old.labels[k]
        places.append(labels.get(label, int(np.argmin(away))))
    return places


def recorded_problem(path: Path) -> Problem:
    """The problem of an epoch."""
    log = Log.read(path, checked=False)
    try:
        return problem_of(next(log.events()).body["config"])
    finally:
        log.close()


def told_so_far(store: DataFolder, controller: str, problem: Problem) -> list[Measured]:
    """History and tells of all epochs, oldest first, about the actions of `problem`."""
    records: list[Measured] = []
    for path in store.epochs(controller):
        log = Log.read(path, checked=False)
        try:
            first = next(log.events()).body
            places = nearest_actions(problem_of(first["config"]), problem)
            records += [(places[action], context, y) for action, context, y in first.get("history") or ()]
            records += [(places[action], context, y) for action, context, y in _told(log)]
        finally:
            log.close()
    return records


def _told(log: Log) -> Iterator[Measured]:
    asked: dict[str, Any] = {}
    for event in log.events(after=1):
        if event.kind == "ask":
            asked[f"r{event.body['round']}"] = event.body["request"].get("context")
        elif event.kind in ("tell", "learn") and event.body["measurement"] is not None:
            context = event.body["context"] if event.kind == "learn" else asked.pop(event.body["id"])
            yield event.body["extra"]["taken"], context, event.body["measurement"]


def _moved(asked: Mapping[str, Any], places: list[int], problem: Problem) -> dict[str, Any]:
    """A pending decision in the numbers of the new actions; it was asked in an earlier epoch."""
    here = {name: places[asked[name]] for name in ("action", "before", "proposed")}
    return {**asked, **here, "value": problem.value(here["action"]), "earlier": True}


def digest(history: list[Measured] | None) -> str | None:
    """A fingerprint of a history, to recognise the same one."""
    return None if not history else hashlib.sha256(json.dumps(history).encode()).hexdigest()
