"""Rounds as tables for other programs: CSV and Parquet, over all epochs, a page of rounds at a time.

Settings are values and not indices, times carry the plant's offset, heads carry units. However many rounds there are,
only a page of them is in memory.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from holdcourse.errors import MissingExtra
from holdcourse.running.events import Settings
from holdcourse.service.core import configuration, inspection
from holdcourse.service.core.hosted import Hosted
from holdcourse.tables.spreadsheet import write_rows

Kind: TypeAlias = Literal["text", "number", "whole", "time"]
Row: TypeAlias = Mapping[str, Any]

BEFORE = 6  # columns stand before those of contexts
PAGE = 500  # rounds read at once
GROUP = 10  # pages of a row group of Parquet
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALENDAR = 24 * 365 * 1900  # hours before and after that in which every zone has a date


class Column(NamedTuple):
    """A column: its head, what it holds, and its value in a round."""

    name: str
    kind: Kind
    of: Callable[[Row], Any]


class Export:
    """The rounds of a controller up to now, as a table.

    Parameters
    ----------
    hosted
        The controller. Rounds that are decided from now on are left out.
    """

    def __init__(self, hosted: Hosted) -> None:
        self._hosted, self._end = hosted, hosted.view.fixed_part["round"]
        settings = hosted.view.settings
        self.zone = settings.zone or "UTC"
        self._zone: tzinfo = ZoneInfo(settings.zone) if settings.zone else UTC
        self.columns = _columns(hosted, settings)

    def pages(self) -> Iterator[list[Row]]:
        """Yield the rounds, oldest first, a page at a time."""
        after = -1
        while after < self._end - 1:
            found = inspection.rows(self._hosted, after, PAGE)["decisions"]
            kept = [row for row in found if row["round"] < self._end]
            if not kept:
                return
            yield kept
            after = kept[-1]["round"]

    def csv(self) -> Iterator[bytes]:
        """Yield the table as CSV, UTF-8 with commas: first the heads, then a page at a time."""
        yield _lines([[column.name for column in self.columns]])
        for page in self.pages():
            yield _lines([[self._cell(column, row) for column in self.columns] for row in page])

    def _cell(self, column: Column, row: Row) -> Any:
        value = column.of(row)
        if value is None:
            return ""
        if column.kind == "time":
            at = _moment(value)
            return "" if at is None else at.astimezone(self._zone).isoformat(timespec="milliseconds")
        if column.kind == "text":
            return _text(value)
        return value

    def parquet(self) -> Iterator[bytes]:
        """Yield the table as Parquet, a group of rows at a time."""
        arrow, parquet = _pyarrow()
        kinds = {
            "text": arrow.string(),
            "number": arrow.float64(),
            "whole": arrow.int64(),
            "time": arrow.timestamp("ms", tz=self.zone),
        }
        schema = arrow.schema([(column.name, kinds[column.kind]) for column in self.columns])
        sink = _Drain()
        group: list[Row] = []

        def written(rows: Sequence[Row]) -> bytes:
            values = [[_typed(column, row) for row in rows] for column in self.columns]
            arrays = [arrow.array(each, kinds[column.kind]) for each, column in zip(values, self.columns, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            return sink.taken()

        with parquet.ParquetWriter(arrow.PythonFile(sink, mode="w"), schema) as writer:
            for page in self.pages():
                group += page
                if len(group) >= GROUP * PAGE:
                    yield written(group)
                    group = []
            yield written(group)
        yield sink.taken()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtra(
            'Parquet needs pyarrow where the service runs: pip install "holdcourse[tables]"; CSV needs nothing'
        ) from None
    return pyarrow, pyarrow.parquet


class _Drain(io.RawIOBase):
    """A file that only grows; what was written to it is taken away piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self._length += len(part)
        return len(part)

    def tell(self) -> int:
        return self._length

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _columns(hosted: Hosted, settings: Settings) -> list[Column]:
    units, values = settings.units, [value for epoch in hosted.records.paths for value in _values(hosted, epoch)]
    cost = units.cost or units.measurement
    columns = [
        Column("round", "whole", lambda row: row["round"]),
        Column("decision", "text", lambda row: row["decision"]),
        Column("epoch", "whole", lambda row: row["epoch"]),
        Column("episode", "whole", lambda row: row["episode"]),
        Column("asked_at", "time", lambda row: row["at"]),
        Column("told_at", "time", lambda row: row["told_at"]),
        Column("mode", "text", lambda row: row["mode"]),
        Column("in_charge", "text", lambda row: row["in_charge"]),
        *_setting_columns("setting", values, units.action, _ran),
        *_setting_columns("proposed", values, units.action, lambda row: row["proposed_value"]),
        Column("limited_by", "text", lambda row: row["limited_by"]),
        Column("forced", "text", lambda row: row["forced"]),
        Column("turn", "text", lambda row: None if row["turn"] is None else row["turn"]["whose"]),
        Column(_head("expected_measurement", units.measurement), "number", lambda row: row["expected_measurement"]),
        Column(_head("measurement", units.measurement), "number", lambda row: row["measurement"]),
        Column("weight", "number", lambda row: row["weight"]),
        Column(_head("expected_cost", cost), "number", lambda row: row["expected_cost"]),
        Column(_head("service_cost", cost), "number", lambda row: row["service"]),
        Column(_head("movement_cost", cost), "number", lambda row: row["movement"]),
        Column(_head("retracted_measurement", units.measurement), "number", lambda row: _of(row, "measurement")),
        Column("retracted_at", "time", lambda row: _of(row, "at")),
        Column("retracted_by", "text", lambda row: _name(_of(row, "by"))),
        Column("retracted_reason", "text", lambda row: _of(row, "reason")),
        Column("asked_by", "text", lambda row: _name(row["asked_by"])),
        Column("told_by", "text", lambda row: _name(row["told_by"])),
        Column("key", "text", lambda row: row["key"]),
    ]
    return [*columns[:BEFORE], *_told_apart(_context_columns(hosted, settings), columns), *columns[BEFORE:]]


def _told_apart(contexts: Sequence[Column], others: Sequence[Column]) -> list[Column]:
    """Return the columns of contexts under names that no other column has: nobody can read a table with two of them."""
    taken, found = {column.name for column in others}, []
    for column in contexts:
        name, k = column.name if column.name not in taken else f"context.{column.name}", 2
        while name in taken:
            name, k = f"context.{column.name}.{k}", k + 1
        taken.add(name)
        found.append(column._replace(name=name))
    return found


def _values(hosted: Hosted, epoch: int) -> list[Any]:
    """Return the settings of an epoch as people call them."""
    problem = configuration.problem_of(hosted.records.beginning(epoch))
    return [problem.value(action) for action in range(problem.n)]


def _ran(row: Row) -> Any:
    return row["value"] if row["applied"] is None else row["applied"]


def _of(row: Row, name: str) -> Any:
    return None if row["retracted"] is None else row["retracted"][name]


def _name(by: Mapping[str, Any] | None) -> str | None:
    return None if by is None else by["name"] or by["token"]


def _head(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _setting_columns(name: str, values: Sequence[Any], unit: str, of: Callable[[Row], Any]) -> list[Column]:
    """Return a column for a setting, or one for each of its coordinates; text where some are labels."""
    newest = values[-1]
    if isinstance(newest, Mapping):
        names = [str(axis) for axis in newest]
    elif isinstance(newest, tuple | list):
        names = [str(k + 1) for k in range(len(newest))]
    else:
        is_number = all(isinstance(value, int | float) for value in values)
        return [Column(_head(name, unit if is_number else ""), "number" if is_number else "text", of)]

    def part(row: Row, k: int) -> Any:
        value = of(row)
        if isinstance(value, Mapping):  # the record sorts what has names; those of an earlier epoch may be others
            return value.get(names[k])
        return value[k] if isinstance(value, list | tuple) and k < len(value) else None

    def kind(axis: str) -> Kind:
        parts = [value[axis] for value in values if isinstance(value, Mapping) and axis in value]
        return "text" if any(isinstance(each, str | bool) for each in parts) else "number"

    def column(k: int, axis: str) -> Column:
        head = _head(f"{name}.{axis}", unit if kind(axis) == "number" else "")
        return Column(head, kind(axis), lambda row: part(row, k))

    return [column(k, axis) for k, axis in enumerate(names)]


def _context_columns(hosted: Hosted, settings: Settings) -> list[Column]:
    """Return a column for each number of a context; one that has another number of them goes into a column as JSON."""
    asked = hosted.records.newest_asks(1)
    newest = asked[0].event.body.request.context if asked else None
    names, units = settings.context_names, settings.units.contexts or []
    count = len(names) if names else len(newest) if isinstance(newest, list | tuple) else int(newest is not None)
    if hosted.view.fixed_part["times"] and count == 1:
        return [Column(names[0] if names else "context", "time", lambda row: row["context"])]
    heads = [
        _head(
            names[k] if names else "context" if count == 1 else f"context.{k + 1}", units[k] if k < len(units) else ""
        )
        for k in range(count)
    ]

    def listed(row: Row) -> list[Any]:
        context = row["context"]
        return [] if context is None else list(context) if isinstance(context, list | tuple) else [context]

    def part(row: Row, k: int) -> Any:
        found = listed(row)
        return found[k] if len(found) == count else None

    def other(row: Row) -> Any:
        return None if len(listed(row)) in (0, count) else json.dumps(row["context"])

    columns = [
        Column(head, "number", lambda row, k=k: part(row, k))  # type: ignore[misc]
        for k, head in enumerate(heads)
    ]
    return [*columns, Column("other_context", "text", other)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _moment(value: Any) -> datetime | None:
    """Return a time: as the record has it, or in hours since 1970; None where that is beyond the calendar."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return EPOCH + timedelta(hours=value) if abs(value) < CALENDAR else None


def _typed(column: Column, row: Row) -> Any:
    value = column.of(row)
    if value is None:
        return None
    if column.kind == "time":
        return _moment(value)
    if column.kind == "text":
        return _text(value)
    return float(value) if column.kind == "number" else int(value)


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    write_rows(text, rows)
    return text.getvalue().encode()
