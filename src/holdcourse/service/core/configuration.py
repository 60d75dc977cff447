"""What a controller is set up with: settings as a request gives them, as a record holds them and as people read them.

A problem, limits and a policy are made of them. What a controller would take is worked out, and refused where it is too
much, before anything is built.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from pydantic import ValidationError

from holdcourse.deciding import recipe, registry
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import PolicyFile
from holdcourse.deciding.trial import OPERATORS, trial
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, TooLarge, computing, counted
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.mistakes import all_in_words
from holdcourse.movement.grid import Grid, grid, said
from holdcourse.movement.prices import Prices
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import chosen, index_of
from holdcourse.running.events import PolicyOrigin, Settings, from_plain, plain
from holdcourse.running.limits import Guard, Limits
from holdcourse.running.session import first_few
from holdcourse.service.core import requests
from holdcourse.service.core.ledger import plain_value
from holdcourse.units import known, rounds

Measured: TypeAlias = tuple[int, Any, float]  # action, context, measurement

MAX_BYTES = 2**30
MATRICES = 9  # (n, n) matrices that making a policy that learns holds at once at most, beside one for each kernel part

NO_PROMISE = "none"

PROBLEM_SETTINGS = ("actions", "labels", "metric", "scale", "fixed_cost", "directed", "rho")


def settings_of(config: requests.Config) -> Settings:
    """Return the settings as the record holds them: actions by their index, and of the history a fingerprint."""
    if config.policy_file is not None:
        return _settings_of_file(config)
    plainly = requests.plain(config, exclude={"history", "history_index", "policy_file", "readings"})

    @cache
    def problem() -> Problem:
        with computing():
            return problem_given(plainly)

    history = history_of(config, problem)
    if history:
        check_count(config.policy, config.context_names, history[0][1], "a context in the history")
    digest = None if not history else hashlib.sha256(json.dumps(history).encode()).hexdigest()
    given = with_indices(with_numbers(plainly, plainly, problem), problem)
    given |= {"history_count": len(history or ()), "history_sha256": digest}
    given["start"] = 0 if given["start"] is None else given["start"]
    return from_plain(Settings, given, "the settings")


def policy_file_of(config: requests.Config) -> PolicyFile | None:
    """Return the file that a controller's policy comes from, read and checked; None where it comes from none."""
    if config.policy_file is None:
        return None
    try:
        content = base64.b64decode(config.policy_file, validate=True)
    except ValueError as error:
        raise InvalidInput(f"policy_file must contain the file as base64: {error}") from None
    try:
        found = PolicyFile.read(content, "the policy's file")
    except DamagedFile as error:  # what was sent is wrong, not what the service keeps
        raise InvalidInput(str(error)) from None
    if found.code:
        raise InvalidInput(
            f"the policy's file needs {found.code[0]!r}, code that is not part of holdcourse; a service runs no code "
            "that a file names. Install it here as a package with an entry point in the group holdcourse.policies and "
            "save the policy by that name, or run it in a process of your own: hc.Controller(hc.load_policy(...), "
            "log=...)"
        )
    return found


def _settings_of_file(config: requests.Config) -> Settings:
    """Return the settings of a controller whose policy comes from a file; what the file says is as if it was given."""
    file = policy_file_of(config)
    assert file is not None
    problem, options = file.recipe["problem"], file.recipe["options"]
    try:
        said = {name: problem[name] for name in ("metric", "scale", "fixed_cost", "directed")}
        said |= {
            "actions": dict(problem["axes"]) if problem["axes"] else problem["actions"],
            "labels": None if problem["labels"] is None else [str(label) for label in problem["labels"]],
            "limits": config.limits if "limits" in config.model_fields_set else (file.limits or {}),
            "units": config.units if "units" in config.model_fields_set else _units_of(file),
            "context_names": problem["context_names"],
        }
        checked = requests.SettingsGiven.model_validate(said)
    except (KeyError, TypeError, ValueError) as error:
        words = all_in_words(error.errors(include_url=False)) if isinstance(error, ValidationError) else repr(error)
        raise InvalidInput(f"the service cannot take the policy's file: {words}") from None
    plainly = requests.plain(config, exclude={"history", "history_index", "policy_file", "readings", "options"})
    plainly |= requests.plain(checked, include=set(said))
    with computing():
        given = with_indices(with_numbers(plainly, plainly, lambda: file.problem), lambda: file.problem)
    given["start"] = 0 if given["start"] is None else given["start"]
    kept = ("maximise", "setting_index", "baseline_index")
    known = {name: options[name] for name in kept if options.get(name) is not None}
    origin = PolicyOrigin(
        file.name,
        file.fingerprint,
        hashlib.sha256(file.to_bytes()).hexdigest(),
        None if file.evidence is None else file.evidence.to_data(),
    )
    given |= {"policy": file.recipe["policy"], "options": known, "history_count": 0, "history_sha256": None}
    return from_plain(Settings, given | {"file": plain(origin)}, "the settings")


def _units_of(file: PolicyFile) -> dict[str, Any]:
    """Return what the numbers of a policy are: as the file says, or as its problem does."""
    problem = file.problem
    return {
        "action": file.units.get("action") or next(iter(problem.units), ""),
        "measurement": file.units.get("measurement") or problem.cost_unit,
        "cost": file.units.get("cost", ""),
        "contexts": None if problem.context_units is None else list(problem.context_units),
    }


def history_of(config: requests.Config, problem: Callable[[], Problem]) -> list[Measured] | None:
    """Return the measurements that a controller shall start from, as the record holds them; see `with_indices`."""
    given = requests.plain(config, include={"history", "history_index"})
    by_index: list[Measured] | None = given["history_index"]
    if given["history"] is None:
        return by_index
    if by_index is not None:
        raise InvalidInput("give history or history_index, not both")
    known: dict[str, int] = {}  # a history names the same few settings again and again
    found: list[Measured] = []
    for setting, context, measurement in given["history"]:
        name = repr(setting)
        if name not in known:
            known[name] = index_of(problem(), setting, "history")
        found.append((known[name], context, measurement))
    return found


def check_count(policy: str, names: Sequence[str] | None, context: Any, what: str) -> None:
    """Raise if a context has more or fewer numbers than names; only a policy that learns nothing can do without any."""
    count = 0 if context is None else len(context) if isinstance(context, list | tuple) else 1
    if not names or count == len(names):
        return
    if count or registry.entry_of(policy).shown != "nothing":
        raise InvalidInput(
            f"{what} has {counted(count, 'number')}, but context_names has {counted(len(names), 'name')} "
            f"({first_few(names)}); give one number for each name"
        )


def with_numbers(given: Mapping[str, Any], before: Mapping[str, Any], problem: Callable[[], Problem]) -> dict[str, Any]:
    """Return settings, or changes of them, with prices and limits as numbers in the settings' units.

    `before` are all settings that are in force, or the same as `given`.
    """
    result = dict(given)
    if isinstance(given.get("actions"), Mapping):  # a list keeps the order of the axes, by which actions are numbered
        result["actions"] = [[name, axis] for name, axis in given["actions"].items()]
    units = {**before["units"], **(given.get("units") or {})}
    for name in ("action", "measurement"):
        units[name] = known(units[name])
    names, contexts = ({**before, **given}).get("context_names"), units.get("contexts")
    if names is not None and contexts is not None and len(names) != len(contexts):
        raise InvalidInput(
            f"units.contexts must be {counted(len(names), 'unit')}, one for each name in context_names, got "
            f"{len(contexts)}"
        )
    if isinstance(given.get("units"), Mapping):
        result["units"] = {name: units[name] for name in given["units"]}
    if any(_holds_text(given.get(name)) for name in ("scale", "fixed_cost")):
        merged = {**before, **given}
        axis_units = _axis_units(_as_grid(merged["actions"]), units)
        try:
            prices = Prices.of(merged["scale"], merged["fixed_cost"], axis_units, units["measurement"])
        except InvalidInput as error:  # in the words of a request
            words = str(error).replace("cost_unit=", "units.measurement ").replace("unit=", "units.action ")
            raise InvalidInput(words.replace("= is", " is")) from None
        result |= {"scale": prices.scale, "fixed_cost": prices.fixed_cost}
    length = before["limits"]["round_length"]
    if isinstance(given.get("limits"), Mapping):
        limits = Limits(**{**before["limits"], **given["limits"]})
        length = limits.round_length
        if _holds_text(limits.max_step) or isinstance(limits.max_step, Mapping):
            limits = limits.on(problem())
        result["limits"] = {name: plain(getattr(limits, name)) for name in given["limits"]}
    if isinstance(given.get("trial"), Mapping):
        result["trial"] = {**given["trial"], "block": rounds(given["trial"]["block"], length, "block")}
    if isinstance(given.get("guard"), Mapping) and isinstance(given["guard"].get("cool_down"), str):
        result["guard"] = {**given["guard"], "cool_down": rounds(given["guard"]["cool_down"], length, "cool_down")}
    return result


def _holds_text(given: Any) -> bool:
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else (given,)
    return any(isinstance(part, str) for part in parts)


def with_indices(given: Mapping[str, Any], problem: Callable[[], Problem]) -> dict[str, Any]:
    """Return settings, or changes of them, with their actions by index, as the record holds them.

    `problem` is the one that they are about; it is made only where somebody named a setting.
    """
    result = dict(given)
    for name in ("start", "fallback"):
        _by_index(result, name, name, problem)
    if isinstance(result.get("guard"), Mapping):
        result["guard"] = dict(result["guard"])
        _by_index(result["guard"], "revert_to", "revert_to_index", problem)
    if isinstance(result.get("trial"), Mapping):
        absent = {"blocks": None, "heard": 1.0, "operators": False, "baseline": None, "baseline_policy": None}
        result["trial"] = absent | dict(result["trial"])
        _by_index(result["trial"], "baseline", "baseline_index", problem)
    if isinstance(result.get("options"), Mapping):
        options = result["options"] = dict(result["options"])
        _by_index(options, "setting", "setting_index", problem)
        if options.get("baseline") == "history":
            _check_history_meant(options, problem())
            options["baseline_index"] = None
        elif "baseline" in options or "baseline_index" in options:
            _by_index(options, "baseline", "baseline_index", problem)
            options["baseline"] = None  # as one was given, the history is not meant any more
    return result


def _check_history_meant(options: Mapping[str, Any], problem: Problem) -> None:
    """Raise where ``history`` as a baseline could also be a setting, or another one is given too."""
    if options.get("baseline_index") is not None:
        raise InvalidInput("give baseline or baseline_index, not both")
    if problem.labels is not None and "history" in problem.labels:
        where = problem.labels.index("history")
        raise InvalidInput(
            "baseline 'history' means the best fixed setting of the history, but a setting has that label too; for the "
            f"setting give baseline_index {where}"
        )


def _by_index(given: dict[str, Any], name: str, kept: str, problem: Callable[[], Problem]) -> None:
    """Put the action that is given by one of two names under the name that the record keeps it by."""
    if name not in given and f"{name}_index" not in given:
        return
    setting, index = given.pop(name, None), given.pop(f"{name}_index", None)
    given[kept] = None if setting is None and index is None else chosen(problem(), setting, index, name)


def in_words(settings: Settings, problem: Problem) -> dict[str, Any]:
    """Return settings in JSON values with the actions as people call them; what was read from them gives them back."""
    found: dict[str, Any] = plain(settings)

    def name(action: int | None) -> Any:
        return None if action is None else plain_value(problem.value(action))

    found |= {"start": name(settings.start), "fallback": name(settings.fallback)}
    found["actions"] = axes_of(settings.actions) or settings.actions
    if settings.guard is not None:
        found["guard"]["revert_to"] = name(found["guard"].pop("revert_to_index"))
    if settings.trial is not None:
        found["trial"]["baseline"] = name(found["trial"].pop("baseline_index"))
    options = found["options"]
    for option in ("setting", "baseline"):
        action = options.pop(f"{option}_index", None)
        if action is not None:
            options[option] = name(action)
    return found


def merged(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return the settings after a change; of groups of settings, what is not named stays."""
    before: dict[str, Any] = plain(settings)
    result = {**before, **changes}
    if result["policy"] != settings.policy:
        before["options"] = result["options"] = settings.options_for_another_policy()
    for name in ("limits", "options", "units", "guard"):
        if isinstance(changes.get(name), Mapping):
            result[name] = {**(before[name] or {"cool_down": Guard.cool_down}), **changes[name]}
    return from_plain(Settings, result, "the settings")


def problem_of(settings: Settings) -> Problem:
    """Return the actions and movement costs; the weight `rho` of the service cost divides the latter."""
    return problem_given(vars(settings) | {"units": vars(settings.units)})


def problem_given(settings: Mapping[str, Any]) -> Problem:
    """Return the same of settings by name."""
    metric, rho = settings["metric"], settings["rho"]
    action_count(settings["actions"], metric)
    actions = _as_grid(settings["actions"])
    named, units = isinstance(metric, str), settings["units"]
    cost_unit = units.get("cost") or units["measurement"]
    prices = Prices.of(settings["scale"], settings["fixed_cost"], _axis_units(actions, units), cost_unit)
    return Problem(
        actions,
        metric if named else np.array(metric, dtype=np.float64) / rho,
        scale=np.array(prices.scale) / rho if named else prices.scale,
        fixed_cost=prices.fixed_cost / rho,
        directed=settings["directed"],
        labels=settings["labels"],
        unit=prices.units,
        cost_unit=prices.cost_unit,
        context_names=settings.get("context_names"),
        context_units=units.get("contexts"),
    )


def _as_grid(actions: Any) -> Any:
    return grid(**axes_of(actions)) if axes_of(actions) else actions


def axes_of(actions: Any) -> dict[str, Any]:
    """Return the axes of a grid by name, as a request or a record gives them; none where it is no grid."""
    if isinstance(actions, Mapping):
        return dict(actions)
    is_grid = isinstance(actions, list) and actions and isinstance(actions[0], list) and isinstance(actions[0][0], str)
    return dict(actions) if is_grid else {}


def _axis_units(actions: Any, units: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the unit of each axis of the settings."""
    if isinstance(actions, Grid):
        axes = len(actions.names)
    else:
        axes = len(actions[0]) if actions and isinstance(actions[0], list) else 1
    return (units["action"],) * axes


def limits_of(settings: Settings) -> Limits:
    """Return the limits in the problem's units."""
    cost = settings.limits.max_step_cost
    return replace(settings.limits, max_step_cost=None if cost is None else cost / settings.rho)


def policy_of(settings: Settings, problem: Problem, past: History | None) -> Policy:
    """Return what decides; `past` is learned before the first round."""
    name = settings.policy
    own = registry.entry_of(name, "problem").options()
    taken = own.names - {"history"}  # the history is learned, not given as an option
    options = {key: value for key, value in settings.options.items() if value is not None}
    if "maximise" not in taken:  # it says what measurements mean, whoever decides
        options.pop("maximise", None)
    if options.get("at_most") == NO_PROMISE:  # null means that it is not given
        options["at_most"] = None
    wrong = sorted(set(options) - taken)
    if wrong:
        raise InvalidInput(f"policy {name!r} does not take the option {wrong[0]!r}; it takes {sorted(taken)}")
    given = {"policy": name, "problem": problem.describe(), "options": options}
    changes: dict[str, Any] = {"history": past} if own.learns and past is not None else {}
    longest = limits_of(settings).longest(problem)
    if not longest.is_any and "max_step" in taken:
        changes |= {"max_step": longest.size, "max_step_cost": longest.cost}
    try:
        require_room(settings)
        return recipe.make(given, **changes)
    except HoldcourseError:
        raise
    except (ArithmeticError, ValueError, TypeError, RecursionError, np.linalg.LinAlgError) as error:
        raise InvalidInput(f"policy {name!r} cannot be made from this: {error}") from error


def on_trial(policy: Policy, settings: Settings, past: History | None) -> Policy:
    """Return the policy taking turns with a baseline, where a trial is made; else the policy."""
    terms = settings.trial
    if terms is None:
        return policy
    baseline: Any = OPERATORS if terms.operators else None
    if terms.baseline_policy is not None:
        other = replace(settings, policy=terms.baseline_policy, options=settings.options_for_another_policy())
        baseline = policy_of(other, policy.problem, past)
    index = terms.baseline_index
    made = trial(policy, baseline, block=terms.block, blocks=terms.blocks, heard=terms.heard, baseline_index=index)
    return replace(made, explanation=policy.explanation)


def action_count(actions: Any, metric: Any) -> int:
    """Return how many actions are asked for; an error where they are more than the service takes."""
    axes = axes_of(actions)
    if axes:
        lengths = (len(axis["values"] if isinstance(axis, Mapping) else axis) for axis in axes.values())
        count = math.prod(lengths)  # exact, however many axes there are
    else:
        count = len(metric) if actions is None and not isinstance(metric, str) else len(actions or ())
    if count > requests.MAX_ACTIONS:
        raise InvalidInput(
            f"there are {said(count)} actions, but the service takes at most {requests.MAX_ACTIONS:,}; use fewer "
            "values per axis"
        )
    return count


def require_room(settings: Settings) -> None:
    """Raise where the matrices over all pairs of actions would take more than a request may."""
    n, kernel = action_count(settings.actions, settings.metric), settings.kernel
    if registry.entry_of(settings.policy).shown == "nothing":  # it makes no matrix
        return
    matrices = MATRICES + (1 if kernel is None else len(Kernel.from_json(kernel).parts))
    if 8 * n * n * matrices > MAX_BYTES:
        fits = math.isqrt(MAX_BYTES // (8 * matrices))
        parts = "" if kernel is None else f" under a kernel of {counted(matrices - MATRICES, 'part')}"
        raise TooLarge(
            f"policy {settings.policy!r} over {n} actions{parts} would take {8 * n * n * matrices / 1e9:.1f} GB; at "
            f"most {fits} actions fit into {MAX_BYTES / 1e9:.1f} GB. Use fewer actions, or a policy that does not learn"
        )
