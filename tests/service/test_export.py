"""Rounds as CSV and Parquet: settings by value, times with the plant's offset, units in the heads, over all epochs."""

from __future__ import annotations

import csv
import io
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from service.running import QUICK

from holdcourse.service.core import export, inspection


def table(client, name):
    response = client.get(f"/controllers/{name}/rounds.csv")
    assert response.status_code == 200, response.text
    assert response.headers["content-disposition"] == f'attachment; filename="{name}.csv"'
    return list(csv.DictReader(io.StringIO(response.text)))


def lived(client, name):
    client.create(
        id=name,
        units={"action": "m", "measurement": "kWh", "contexts": ["kW"]},
        context_names=["load"],
        zone="Europe/Berlin",
        limits={"max_step": 1.0},
    )
    client.round(name, 0.5, 1.0)
    client.do(name, "override", setting=3.0, reason="storm")
    client.round(name, 0.25, 7.5)
    client.do(name, "override", setting=None)
    client.do(name, "retract", decision="r1", reason='=HYPERLINK(1), "no"')
    client.do(name, "mode", mode="shadow")
    client.round(name, 0.5, 2.0, applied=1.0)
    client.change(name, actions=[0.0, 0.5, 1.0, 2.0, 3.0])
    client.do(name, "mode", mode="act")
    client.do(name, "ask", context=0.5)


def test_rounds_as_csv(client, name):
    lived(client, name)
    rows = table(client, name)
    assert [row["round"] for row in rows] == ["0", "1", "2", "3"]
    assert [row["epoch"] for row in rows] == ["1", "1", "1", "2"]
    assert [row["load [kW]"] for row in rows] == ["0.5", "0.25", "0.5", "0.5"]
    listed = client.see(name, "decisions")["decisions"]
    assert [float(row["setting [m]"]) for row in rows] == [row["applied"] or row["value"] for row in listed]
    assert [row["measurement [kWh]"] for row in rows] == ["1.0", "", "2.0", ""]
    assert [row["retracted_measurement [kWh]"] for row in rows] == ["", "7.5", "", ""]
    assert rows[1]["retracted_reason"] == '\'=HYPERLINK(1), "no"'  # no formula for a spreadsheet
    assert [row["in_charge"] for row in rows[1:3]] == ["override", "operator"]
    assert [row["mode"] for row in rows] == ["act", "act", "shadow", "act"]
    assert (rows[1]["limited_by"], rows[1]["setting [m]"]) == ("max_step", str(listed[1]["value"]))
    at = datetime.fromisoformat(rows[0]["asked_at"])
    assert at.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
    assert at == datetime.fromisoformat(listed[0]["at"])
    assert rows[3]["told_at"] == ""
    assert {row["asked_by"] for row in rows} == {"anybody on this machine"}


def test_rounds_as_parquet_are_the_same(client, name):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    lived(client, name)
    response = client.get(f"/controllers/{name}/rounds.parquet")
    assert response.status_code == 200, response.text
    found = parquet.read_table(io.BytesIO(response.content))
    rows = table(client, name)
    assert found.column_names == list(rows[0])
    assert str(found.schema.field("asked_at").type) == "timestamp[ms, tz=Europe/Berlin]"
    for head in found.column_names:
        for value, text in zip(found[head].to_pylist(), (row[head] for row in rows), strict=True):
            if value is None:
                assert text == ""
            elif isinstance(value, datetime):
                assert value == datetime.fromisoformat(text)
            elif isinstance(value, str):
                assert text.removeprefix("'") == value.removeprefix("'")
            else:
                assert float(text) == value


def test_grids_labels_and_contexts_of_another_length_lose_nothing(client, name):
    client.create(
        id=name, actions={"workers": [1.0, 2.0], "buffer": [5.0, 6.0]}, policy="fixed-at", options={"setting_index": 1}
    )
    for context in (None, 0.5, [0.5, 1.0], [2.0, 3.0]):
        client.round(name, context, 1.0)
    rows = table(client, name)
    assert [(row["setting.workers"], row["setting.buffer"]) for row in rows][-1] == ("1.0", "6.0")
    assert [(row["context.1"], row["context.2"], row["other_context"]) for row in rows] == [
        ("", "", ""),
        ("", "", "0.5"),
        ("0.5", "1.0", ""),
        ("2.0", "3.0", ""),
    ]


def test_without_pyarrow_the_command_that_installs_it_is_said(client, name, monkeypatch):
    client.create(id=name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    response = client.get(f"/controllers/{name}/rounds.parquet")
    assert response.status_code == 501
    assert 'pip install "holdcourse[tables]"' in response.json()["error"]["message"]
    assert table(client, name) == []


def test_however_many_rounds_only_a_page_is_in_memory(monkeypatch):
    """A record of 20,000 rounds: one page is read at a time, and no part of the table is as long as two."""

    class Paged:
        view = type("View", (), {"fixed_part": {"round": 20_000}, "settings": type("S", (), {"zone": ""})()})()

    def rows(hosted, after, limit):
        end = min(after + 1 + limit, 20_000)
        return {"decisions": [{"round": number, "text": "x" * 200} for number in range(after + 1, end)]}

    columns = [
        export.Column("round", "whole", lambda row: row["round"]),
        export.Column("text", "text", lambda row: row["text"]),
    ]
    monkeypatch.setattr(inspection, "rows", rows)
    # Private: the columns follow from a controller, and this one is none.
    monkeypatch.setattr(export, "_columns", lambda hosted, settings: columns)
    tracemalloc.start()
    lengths = [len(part) for part in export.Export(Paged()).csv()]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(lengths) > 4_000_000
    assert max(lengths) < 120_000
    assert peak < 2_000_000


def test_heads_of_a_table_are_no_formulas(client, name):
    client.create(id=name, context_names=["=1+1"])
    client.round(name, 0.5, 1.0)
    assert "'=1+1" in client.get(f"/controllers/{name}/rounds.csv").text.splitlines()[0].split(",")


def test_contexts_that_are_called_like_other_columns_are_told_apart(client, name):
    options = QUICK["options"] | {"context_bounds": [[0.0, 1.0]] * 3}
    client.create(id=name, context_names=["round", "load", "load"], options=options)
    client.round(name, [0.1, 0.2, 0.3], 1.0)
    (row,) = table(client, name)
    assert (row["round"], row["context.round"], row["load"], row["context.load"]) == ("0", "0.1", "0.2", "0.3")


@pytest.mark.parametrize("hours", [1e9, -1e9, 1e30])
def test_a_time_beyond_the_calendar_does_not_cut_the_table_off(hours):
    assert export._moment(hours) is None  # private: no clock can be set to such a time
    # As above.
    assert export._moment(493_000.5) == datetime(2026, 3, 29, 16, 30, tzinfo=UTC)
