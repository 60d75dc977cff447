"""A plant's table that was sent: what it holds, and the controller that starts from it.

It is read as the command line and Python read it, under bounds of its own: it is read beside running machines.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from holdcourse.backtest.preview import preview
from holdcourse.backtest.readings import Readings, read_readings
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.mistakes import all_in_words, keys_of
from holdcourse.movement.prices import MovePrices, Prices
from holdcourse.movement.problem import Problem
from holdcourse.service.core.requests import MAX_TABLE, Config, ReadingsGiven, ReadingsOptions
from holdcourse.tables.text import FileContent

MOST_CELLS = 500_000  # a year of quarter hours in fourteen columns; some seconds
FIELDS = frozenset(ReadingsGiven.model_fields) - {"file"}
COLUMNS = ("action", "cost", "context")  # which make readings of a table


def look(content: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table holds and, where its columns are named, what was read of it."""
    whole = all(given.get(name) for name in COLUMNS)
    kind: type[ReadingsOptions] = ReadingsGiven if whole else ReadingsOptions
    named = {name: value for name, value in given.items() if whole or name not in (*COLUMNS, *_ONLY_READ)}
    name = str(named.pop("file_name", "readings"))
    try:
        checked = kind.model_validate({**named, **({"file": ""} if whole else {})})
    except ValidationError as error:
        words = all_in_words(error.errors(include_url=False, include_context=False), keys_of(kind))
        raise InvalidInput(words) from None
    options = checked.model_dump(include=set(ReadingsOptions.model_fields))
    file = _content(content, name)
    try:
        seen = preview(file, **options).as_values()
        return seen | {"read": _said(_read(file, checked)) if isinstance(checked, ReadingsGiven) else None}
    except DamagedFile as error:  # what was sent is wrong, not what the service keeps
        raise InvalidInput(str(error)) from None


_ONLY_READ = tuple(FIELDS - set(ReadingsOptions.model_fields) - {*COLUMNS, "file_name"})


def _content(content: bytes, name: str) -> FileContent:
    if len(content) > MAX_TABLE:
        raise InvalidInput(
            f"{name} has {len(content):,} bytes, but at most {MAX_TABLE:,} are accepted; split it by years"
        )
    return FileContent(name, content, MOST_CELLS)


def _read(file: FileContent, given: ReadingsGiven) -> Readings:
    return read_readings(file, **given.model_dump(exclude={"file", "file_name"}))


def _said(found: Readings) -> dict[str, Any]:
    """Return what was read, for people to confirm."""
    values = _values(found)
    units = _units(found)
    return {
        "rows": len(found),
        "settings": values,
        "newest": values[int(found.history.actions[-1])],
        "context": list(found.context),
        "units": units,
        "notes": list(found.notes),
    }


def _values(found: Readings) -> list[Any]:
    return list(found.values) if isinstance(found.values, list) else found.values.tolist()


def _units(found: Readings) -> dict[str, Any]:
    known = found.units
    return {
        "action": known.get(found.action, ""),
        "measurement": known.get(found.cost, ""),
        "contexts": list(found.context_units),
    }


def with_readings(config: Config) -> Config:
    """Return the settings of a controller with what its table of readings says; as they are where it has none."""
    given = config.readings
    if given is None:
        return config
    asked = config.model_fields_set
    for name in ("history", "history_index"):
        if getattr(config, name) is not None:
            raise InvalidInput(f"give readings or {name}, not both")
    try:
        file = _content(base64.b64decode(given.file, validate=True), given.file_name)
        found = _read(file, given)
    except DamagedFile as error:
        raise InvalidInput(str(error)) from None
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"readings.file must contain the file as base64: {error}") from None
    said: dict[str, Any] = config.model_dump(exclude_unset=True, exclude={"readings"})
    units = _units(found)
    said["units"] = {name: said.get("units", {}).get(name) or unit for name, unit in units.items()} | {
        "cost": said.get("units", {}).get("cost", "")
    }
    said.setdefault("context_names", list(found.context))
    prices = MovePrices(said["units"]["measurement"], found.step)
    for name in ("scale", "fixed_cost"):
        if name in said:
            said[name] = prices.of(said[name], name)
    values = _values(found)
    if asked & {"actions", "labels"}:
        actions = found.about(_problem(said)).actions.tolist()
    else:
        actions = found.history.actions.tolist()
        said |= _settings(values, said, found, units["measurement"])
    if not asked & {"start", "start_index"}:
        said["start_index"] = actions[-1]
    contexts, measured = found.history.contexts.tolist(), found.history.measurements.tolist()
    said["history_index"] = list(zip(actions, contexts, measured, strict=True))
    try:
        return Config.model_validate(said)
    except ValidationError as error:
        words = all_in_words(error.errors(include_url=False, include_context=False))
        raise InvalidInput(f"the readings of {given.file_name} cannot be used: {words}") from None


def _problem(said: Mapping[str, Any]) -> Problem:
    """Return the settings that were given; what moving between them costs does not matter here."""
    labels, actions = said.get("labels"), said.get("actions")
    count = len(labels or actions or ())
    if isinstance(actions, Mapping) or (actions and isinstance(actions[0], list | tuple)):
        raise InvalidInput("a row of readings has one setting; give actions that are single numbers, or labels")
    coordinates = list(range(count)) if actions is None else actions
    return Problem(coordinates, labels=labels)


def _settings(values: list[Any], said: Mapping[str, Any], found: Readings, unit: str) -> dict[str, Any]:
    """Return the settings of a table; between named ones every change costs the same unless a matrix is given."""
    if not isinstance(found.values, list):
        return {"actions": values}
    if not isinstance(said.get("metric", "euclidean"), str):
        return {"actions": None, "labels": values}
    each = Prices.of(1.0, said.get("fixed_cost", 0.0), ("",), unit).fixed_cost
    if not each > 0:
        raise InvalidInput(
            f"column {found.action!r} contains names ({', '.join(values[:4])}); give the cost of a change as "
            "fixed_cost, or the matrix of all switching costs as metric"
        )
    matrix = [[0.0 if one == other else float(each) for one in values] for other in values]
    return {"actions": None, "labels": values, "metric": matrix, "fixed_cost": 0.0}
