"""A controller that starts from a plant's own table: looked at, confirmed, and refused with line, value and remedy."""

from __future__ import annotations

import base64
import json
import math

import pytest

import holdcourse as hc

SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
COLUMNS = {"action": "setting", "cost": "power", "context": "load", "time": "time"}


def table(rows=48, separator=",", point=".", header="time,load [%],setting [°C],power [kW]"):
    lines = [header.replace(",", separator)]
    for k in range(rows):
        load, setting = 50 + 20 * math.sin(k / 4), 6.5 + 0.5 * (k // 3 % 3)
        power = 100 + load + (setting - load / 10) ** 2
        cells = (f"2024-06-{1 + k // 24:02}T{k % 24:02}:00", f"{load:.2f}", f"{setting:.1f}", f"{power:.1f}")
        lines.append(separator.join(cell if "T" in cell else cell.replace(".", point) for cell in cells))
    return "\n".join(lines) + "\n"


def sent(client, address, content, status, kind="text/csv", **query):
    content = content.encode() if isinstance(content, str) else content
    answer = client.post(address, params=query, content=content, headers={"Content-Type": kind})
    return client.checked(client.followed(answer), status)


def test_a_table_is_looked_at(client):
    found = sent(client, "/readings", table(), 200, file_name="plant.csv")
    assert (found["label"], found["rows"], found["settings"], found["costs"]) == (
        *("plant.csv", 48),
        *(["setting [°C]"], ["power [kW]"]),
    )
    assert found["read"] is None
    read = sent(client, "/readings", table(), 200, **COLUMNS)["read"]
    assert (read["rows"], read["settings"], read["newest"]) == (48, [6.5, 7.0, 7.5], 6.5)
    assert read["units"] == {"action": "°C", "measurement": "kW", "contexts": ["%"]}


def test_it_starts_from_the_table_as_python_would(client, name, tmp_path):
    (tmp_path / "plant.csv").write_text(table(separator=";", point=","), encoding="cp1252")
    found = hc.read_readings(tmp_path / "plant.csv", **COLUMNS, timezone="Europe/Oslo")
    policy = {"policy": "gp-md", "scale": "20 Wh/K", "limits": json.dumps({"min_dwell": 2})}
    content, zone = (tmp_path / "plant.csv").read_bytes(), {"timezone": "Europe/Oslo"}
    state = sent(client, "/controllers", content, 201, id=name, **COLUMNS, **zone, **policy)
    assert (state["value"], state["units"]["measurement"], state["limits"]["min_dwell"]) == (6.5, "kW", 2)
    config = client.see(name, "config", history=True)
    history = found.history
    told = zip(history.actions.tolist(), history.contexts.tolist(), history.measurements.tolist(), strict=True)
    assert config["history"] == [[float(found.values[k]), context, y] for k, context, y in told]
    assert config["scale"] == [0.02]  # kWh, where kW are measured every hour
    here = hc.Controller(
        hc.gp_md(found.problem(scale=0.02), history=found.history), start=6.5, limits=hc.Limits(min_dwell=2)
    )
    for load in (40.0, 70.0, 55.0):
        decision, answer = here.ask(context=[load]), client.do(name, "ask", context=[load])
        assert (answer["value"], answer["probabilities"]) == (decision.value, decision.probabilities.tolist())
        here.tell(decision.id, 160.0)
        client.do(name, "tell", decision=answer["decision"], measurement=160.0)
    # The same again changes nothing; as JSON it is the same.
    assert sent(client, "/controllers", content, 200, id=name, **COLUMNS, **zone, **policy)["round"] == 3
    body = {"id": name, "policy": "gp-md", "scale": "20 Wh/K", "limits": {"min_dwell": 2}}
    body["readings"] = {**COLUMNS, **zone, "file": base64.b64encode(content).decode()}
    assert client.checked(client.followed(client.post("/controllers", json=body)), 200)["round"] == 3


def test_of_a_name_that_is_given_twice_nothing_is_lost(client, name):
    for address in ("/readings", "/controllers"):
        twice = "action=setting&cost=power&context=load&context=hour&id=" + name
        answer = client.post(f"{address}?{twice}", content=table().encode(), headers={"Content-Type": "text/csv"})
        assert client.checked(answer, 422)["message"] == (
            "context is given 2 times in the address; give it once, with commas between several values"
        )


def test_the_client_sends_a_table(url, name, tmp_path):
    (tmp_path / "plant.csv").write_text(table())
    with hc.connect(url) as service:
        columns = {part: COLUMNS[part] for part in ("action", "cost", "context")}
        made = service.create_from_readings(tmp_path / "plant.csv", name, **columns, policy="stationary")
        assert made.state()["context_names"] == ["load"]


def test_named_settings_and_settings_that_were_not_tried(client, name):
    rows = [f"{('eco', 'full')[k % 2]},{k % 7},{10 + k % 5}" for k in range(40)]
    text, columns = "\n".join(["mode,load,kWh", *rows]), {"action": "mode", "cost": "kWh", "context": "load"}
    refused = sent(client, "/controllers", text, 422, id=name, **columns, policy="gp-md")
    assert "contains names (eco, full); give the cost of a change as fixed_cost" in refused["message"]
    state = sent(client, "/controllers", text, 201, id=name, **columns, fixed_cost="500 Wh per change", policy="gp-md")
    assert state["value"] == "full"
    assert client.see(name, "config")["metric"] == [[0.0, 0.5], [0.5, 0.0]]
    more = {**COLUMNS, "policy": "stationary"}
    wider = sent(client, "/controllers", table(), 201, id=f"{name}-b", **more, actions="[6, 6.5, 7, 7.5]", start="7")
    assert wider["value"] == 7.0
    few = sent(client, "/controllers", table(), 422, id=f"{name}-c", **more, actions="[6.5, 7]")
    assert "7.5 is not a setting" in few["message"]


@pytest.mark.parametrize(
    ("content", "query", "words"),
    [
        (table(), {"context": "lod"}, "has no column 'lod'"),
        (table().replace("07:00,", "07:00,x"), {}, "line 9: 'x"),
        (table().replace("2024-06-01T03:00", "soon"), {}, "line 5: 'soon' is not a time"),
        ("", {}, "is empty"),
        (table(), {"timezone": "Oslo"}, "timezone 'Oslo' is not known"),
        (table(), {"magic": "1"}, "magic is not a field of this request"),
        (table(), {"history": "[]"}, "give readings or history, not both"),
        ("x," * 600_000 + "\n" + "1," * 600_000, {}, "has more than 500,000 cells"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_what_is_wrong_is_said_and_nothing_is_made(client, name, content, query, words):
    refused = sent(client, "/controllers", content, 422, id=name, **(COLUMNS | query))
    assert words in refused["message"]
    assert client.get(f"/controllers/{name}/state").status_code == 404


def test_bounds(client, name):
    assert sent(client, "/readings", b"a,b\n" * 2**21 + b"1", 413)["code"] == "too_large"
    assert sent(client, "/readings", table(), 415, kind="application/json")["code"] == "not_json"
    assert "text/csv" in sent(client, "/controllers", table(), 415, kind="image/png", id=name)["message"]


def test_a_sheet(client, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in table(6).splitlines():
        book.active.append([cell if k == 0 or "[" in cell else float(cell) for k, cell in enumerate(line.split(","))])
    book.save(tmp_path / "plant.xlsx")
    read = sent(client, "/readings", (tmp_path / "plant.xlsx").read_bytes(), 200, kind=SHEET, **COLUMNS)["read"]
    assert (read["rows"], read["settings"]) == (6, [6.5, 7.0])
