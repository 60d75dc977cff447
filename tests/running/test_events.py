"""Events of a record: written as they always were, read back the same, and nothing unknown accepted."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import InvalidInput, LogError
from holdcourse.running import events
from holdcourse.running.decision import Request
from holdcourse.running.events import (
    EVENTS,
    FORMAT,
    NOTES,
    SOUGHT,
    About,
    ModeSet,
    Tell,
    from_plain,
    plain,
    read,
    written,
)
from holdcourse.running.limits import Guard, Limits
from holdcourse.running.log import Log

KINDS = [*EVENTS.values(), *NOTES.values()]
RECORDED = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "events.jsonl").read_text().splitlines()]
PAGE = Path(__file__).parents[2] / "docs" / "record-format.md"


def named(kind):
    return getattr(kind, "NOTE", kind.KIND)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_what_was_recorded_is_written_again_to_the_byte(kind):
    """The recorded texts were written before events had types."""
    found = [event for event in RECORDED if type(read(**renamed(event))) is kind]
    assert found
    for event in found:
        assert written(read(**renamed(event))) == event["body"]


def renamed(event):
    return {"kind": event["kind"], "text": event["body"]}


# -- there and back ----------------------------------------------------------------------------------------------------

NUMBERS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLAIN = {
    int: st.integers(),
    float: NUMBERS,
    str: st.text(max_size=8),
    bool: st.booleans(),
    Any: JSON,
    NoneType: st.none(),
}
WHOLE = st.integers(0, 100)
LIMITS = st.builds(Limits, st.integers(1, 9), st.none() | st.floats(0, 9)) | st.builds(
    Limits, max_moves=WHOLE, window=st.just(3)
)
GUARDS = st.builds(Guard, NUMBERS, cool_down=st.integers(1, 9), revert_to_index=WHOLE)
CONTEXTS = st.none() | NUMBERS | st.lists(NUMBERS, max_size=3)
REQUESTS = st.builds(
    Request,
    CONTEXTS,
    st.none() | st.lists(WHOLE, max_size=3).map(tuple),
    st.none() | st.lists(NUMBERS, max_size=3),
    st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
)
SPECIAL = {Limits: LIMITS, Guard: GUARDS, Request: REQUESTS}


def values(hint):
    """A strategy for the values of a field."""
    parts = get_args(hint)
    if hint in SPECIAL:
        return SPECIAL[hint]
    if hint in PLAIN:
        return PLAIN[hint]
    if dataclasses.is_dataclass(hint):
        return objects(hint)
    match get_origin(hint):
        case origin if origin is tuple:
            return st.lists(values(parts[0]), max_size=3).map(tuple)
        case origin if origin is list:
            return st.lists(values(parts[0]), max_size=3)
        case origin if origin is dict:
            return st.dictionaries(st.text(max_size=5), values(parts[1]), max_size=2)
    return st.one_of(*map(values, parts))


def objects(kind):
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values(hints[each.name]) for each in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_event_comes_back_as_it_was_written(kind):
    @given(objects(kind))
    def there_and_back(event):
        text = written(event)
        assert read(kind.KIND, text) == event
        assert written(read(kind.KIND, text)) == text
        assert json.dumps(json.loads(text), sort_keys=True) == text

    there_and_back()


def test_numbers_that_json_does_not_know_come_back():
    text = written(Tell("r0", math.inf, None))
    assert read("tell", text).measurement == math.inf


# -- nothing unknown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", RECORDED, ids=lambda event: event["kind"])
def test_an_unknown_field_is_an_error_that_names_it(event):
    body = json.loads(event["body"])
    with pytest.raises(LogError, match=r"has the field 'colour', which is not known"):
        read(event["kind"], json.dumps(body | {"colour": 1}))
    for name, part in body.items():
        if isinstance(part, dict) and name not in ("changes", "problem"):
            with pytest.raises(LogError, match=r"has the field 'colour', which is not known"):
                read(event["kind"], json.dumps(body | {name: part | {"colour": 1}}))


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_missing_field_is_an_error_that_names_it(kind):
    body = next(json.loads(e["body"]) for e in RECORDED if type(read(**renamed(e))) is kind)
    for each in dataclasses.fields(kind):
        if not each.metadata.get("left_out"):
            less = {name: value for name, value in body.items() if name != each.name}
            with pytest.raises(LogError, match=f"lacks the field '{each.name}'"):
                read(kind.KIND, json.dumps(less))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("dance", "{}", "dance is not a kind of event"),
        ("note", '{"note": "dance"}', "note 'dance' is not a kind of event"),
        ("note", "{}", "note None is not a kind of event"),
        ("note", '{"note": []}', "is not a kind of event"),
        ("tell", "[1]", "an object of fields"),
        ("redirect", '{"order": 3, "round": 0}', "redirect has 3 in the field 'order' of Redirect, which should"),
        ("ask", '{"request": null}', "lacks the field"),
        ("tell", '{"id": ', "tell is not JSON"),
        ("tell", "[" * 100_000, "tell is not JSON"),
    ],
)
def test_what_is_no_event_is_refused(kind, text, words):
    with pytest.raises(LogError, match=re.escape(words)):
        read(kind, text)


ASK = {
    "round": 0,
    "request": {"context": 0.5},
    "wanted": 1,
    "action": 1,
    "limited_by": None,
    "expected_cost": 0.5,
    "probabilities": "ab",
}
TELL = {"id": "r0", "measurement": 1.0, "applied": None}


@pytest.mark.parametrize(
    ("kind", "body", "name", "value", "words"),
    [
        ("tell", TELL, "id", 5, "text"),
        ("tell", TELL, "measurement", "abc", "a number or null"),
        ("tell", TELL, "measurement", True, "a number or null"),
        ("tell", TELL, "applied", 1.5, "a whole number or null"),
        ("tell", TELL, "applied", False, "a whole number or null"),
        ("tell", TELL, "extra", 3, "an object of fields or null"),
        ("ask", ASK, "round", None, "a whole number"),
        ("ask", ASK, "request", [], "an object of fields"),
        ("ask", ASK, "request", {"allowed": 3}, "a list, each part of it a whole number or null"),
        ("ask", ASK, "request", {"allowed": [0, "x"]}, "a list, each part of it a whole number or null"),
        ("ask", ASK, "request", {"costs": ["x"]}, "a list, each part of it a number or null"),
        ("note", {"note": "mode", "mode": "act", "reason": ""}, "reason", {}, "text"),
        ("note", {"note": "config", "changes": {}}, "changes", [], "an object, each part of it any JSON value"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_field_and_value(kind, body, name, value, words):
    read(kind, json.dumps(body))
    with pytest.raises(LogError) as caught:
        read(kind, json.dumps(body | {name: value}))
    if isinstance(value, dict) and value:
        ((name, value),) = value.items()
    assert f"has {value!r} in the field {name!r} of" in str(caught.value)
    assert str(caught.value).endswith(f"which should be {words}")


@pytest.mark.parametrize("wrong", [3, "x", [], {}, [3], {"x": 3}, True, None, 1.5])
@pytest.mark.parametrize("event", RECORDED, ids=lambda event: event["kind"])
def test_whatever_stands_in_a_field_it_is_refused_by_us_or_read_and_written_as_it_is(event, wrong):
    body = json.loads(event["body"])
    for name, part in body.items():
        for changed in [wrong, *({**part, inner: wrong} for inner in part)] if isinstance(part, dict) else [wrong]:
            try:
                found = read(event["kind"], json.dumps(body | {name: changed}))
            except (LogError, InvalidInput):
                continue
            assert read(event["kind"], written(found)) == found


def test_a_long_value_is_shortened_in_the_error():
    with pytest.raises(LogError) as caught:
        read("tell", json.dumps(TELL | {"applied": "x" * 10_000}))
    assert len(str(caught.value)) < 250


def test_a_whole_number_is_a_number_and_stays_one():
    assert type(read("tell", json.dumps(TELL | {"measurement": 3})).measurement) is int


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id":5,"measurement":"abc","applied":null}', "has 5 in the field 'id' of Tell, which should be text"),
        ("{", "tell is not JSON"),
        ('{"id":"r0","measurement":[],"applied":null}', "has [] in the field 'measurement'"),
    ],
)
def test_an_event_that_is_not_one_is_named_with_its_record(tmp_path, text, words):
    """The chain would not notice it if the record was written like this."""
    with hc.Controller(hc.minc_known(hc.Problem([0.0, 1.0])), log=tmp_path / "record") as controller:
        controller.tell(controller.ask(costs=[1.0, 2.0]).id, 1.0)
    change(tmp_path / "record", text)
    log = Log.read(tmp_path / "record", checked=False)
    with pytest.raises(LogError, match=re.escape(words)) as caught:
        list(log.events())
    assert f"{tmp_path / 'record'}, event 2: " in str(caught.value)
    log.close()


def test_limits_that_contradict_themselves_are_named_with_the_record(tmp_path):
    hc.Controller(hc.minc_known(hc.Problem([0.0, 1.0])), log=tmp_path / "record").close()
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        connection.execute("UPDATE about SET value = json_set(value, '$.limits.max_moves', 3) WHERE key = 'identity'")
    connection.close()
    with pytest.raises(LogError, match=r"what .*record says about itself is contradictory: max_moves and window"):
        Log.read(tmp_path / "record")


def change(path, text):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET body = ? WHERE number = 2", (text,))
    connection.close()


# -- what events are found by ------------------------------------------------------------------------------------------


def classes_in(hint):
    return [part for part in (hint, *get_args(hint)) if dataclasses.is_dataclass(part)]


def holding(path, kinds):
    """The kinds of event in which a path names a field."""
    first, _, rest = path.partition(".")
    for kind in kinds:
        hint = get_type_hints(kind).get(first) if first in kind.__dataclass_fields__ else None
        if hint is not None and (not rest or list(holding(rest, classes_in(hint)))):
            yield kind


def test_events_are_found_by_fields_that_they_have():
    paths = {name: re.fullmatch(r"json_extract\(body, '\$\.(.*)'\)", place)[1] for name, (place, _) in SOUGHT.items()}
    kinds = {name: re.findall(r"'(\w+)'", which) for name, (_, which) in SOUGHT.items() if "kind" in which}
    assert kinds == {
        "round": ["ask"],
        "decision": ["tell", "learn"],
        "retracted": ["retract"],
        "episode": ["episode"],
        "note": ["note"],
    }
    for name in ("round", "decision", "retracted", "episode"):
        of_kind = [EVENTS[kind] for kind in kinds[name]]
        assert list(holding(paths[name], of_kind)) == of_kind
    assert {kind for kind in KINDS if kind not in list(holding(paths["key"], KINDS))} == {
        events.Redirect,
        events.Change,
        events.Snapshot,
        events.RecordAccepted,
    }
    assert all(json.loads(event["body"])[paths["note"]] in NOTES for event in RECORDED if event["kind"] == "note")


def test_a_field_that_is_not_there_cannot_be_sought():
    with pytest.raises(AttributeError, match="Tell has no field 'name', by which events are found"):
        events._place((Tell, "name"))  # the fields that are sought are constants, so no public call can be wrong


# -- errors ------------------------------------------------------------------------------------------------------------


def test_the_error_says_in_which_record_and_where(tmp_path, monkeypatch):
    with hc.Controller(hc.minc_known(hc.Problem([0.0, 1.0])), log=tmp_path / "record") as controller:
        controller.tell(controller.ask(costs=[1.0, 2.0]).id, 1.0)
        monkeypatch.setattr(events, "EVENTS", {"ask": EVENTS["ask"]})  # as a version would read it that knows no tells
        with pytest.raises(LogError, match=r"record, event 2: tell is not a kind of event"):
            list(controller.log.events())


def test_what_json_cannot_hold_is_not_written():
    with pytest.raises(TypeError, match="not JSON serializable"):
        written(ModeSet("act", object()))


def test_parts_of_events_are_made_of_plain_values_too():
    limits = Limits(min_dwell=2, max_step=0.5)
    assert from_plain(Limits, plain(limits), "limits") == limits


# -- the page ----------------------------------------------------------------------------------------------------------


def described():
    """What the page says: by heading, the fields of its table, and which of them may be left out."""
    found, heading = {}, None
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            heading = found.setdefault(line[4:].strip("` "), {})
        elif heading is not None and (row := re.match(r"\| `(\w+)`( \(may be left out\))? \|", line)):
            heading[row[1]] = row[2] is not None
    return found


def parts_of(kind, known):
    """The classes that fields of a class hold, besides those that are known."""
    for hint in get_type_hints(kind).values():
        for part in (hint, *get_args(hint)):
            if dataclasses.is_dataclass(part) and part not in known:
                known.append(part)
                parts_of(part, known)
    return known


def test_the_page_lists_every_kind_and_every_field():
    expected = {
        (kind.KIND if kind in EVENTS.values() else f"note: {kind.NOTE}" if hasattr(kind, "NOTE") else kind.__name__): {
            each.name: kind is Request or bool(each.metadata.get("left_out")) for each in dataclasses.fields(kind)
        }
        for kind in (*KINDS, About, *(part for kind in (*KINDS, About) for part in parts_of(kind, [])))
    }
    assert described() == expected
    assert f"format {FORMAT}" in PAGE.read_text()


def test_a_record_says_its_format(tmp_path):
    hc.Controller(hc.minc_known(hc.Problem([0.0, 1.0])), log=tmp_path / "record").close()
    log = Log.read(tmp_path / "record")
    log.close()
    assert log.about.format == FORMAT
