"""Settings over HTTP: what a person writes in a request is that setting, and what is answered may be sent back."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdcourse.errors import InvalidInput
from holdcourse.service.core import configuration
from holdcourse.service.core.requests import Config

NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 6))
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@st.composite
def settings(draw):
    """What a request says of its settings, and how each of them may be written."""
    kind = draw(st.sampled_from(["numbers", "points", "grid", "labels"]))
    values = draw(st.lists(NUMBERS, min_size=1, max_size=6, unique=True))
    if kind == "points":
        return {"actions": [[x, -x] for x in values]}, [[[x, -x]] for x in values]
    if kind == "grid":
        more = draw(st.lists(NUMBERS, min_size=1, max_size=3, unique=True))
        names = draw(st.permutations(["speed", "valve"]))
        places = [(x, y) for x in values for y in more]
        ways = [[{names[1]: y, names[0]: x}, [x, y]] for x, y in places]
        return {"actions": {names[0]: values, names[1]: more}}, ways
    if kind == "labels":
        labels = draw(st.lists(NAMES, min_size=len(values), max_size=len(values), unique=True))
        return {"actions": values, "labels": labels}, [[label] for label in labels]
    return {"actions": values}, [[x, *([int(x)] if x.is_integer() else [])] for x in values]


@given(found=settings(), data=st.data())
def test_a_setting_in_a_request(found, data):
    given_settings, written = found
    action = data.draw(st.integers(0, len(written) - 1))
    for way in written[action]:
        request = {
            "id": "a",
            "policy": "fixed-at",
            "options": {"setting": way},
            "start": way,
            "fallback": way,
            "guard": {"threshold": 1.0, "revert_to": way},
            "history": [[way, 0.5, 1.0]],
            **given_settings,
        }
        config = Config.model_validate_json(json.dumps(request))
        kept = configuration.settings_of(config)
        assert (kept.start, kept.fallback, kept.kept_action) == (action, action, action)
        assert kept.guard is not None
        assert kept.guard.safe_action == action
        assert configuration.history_of(config, partial(configuration.problem_of, kept)) == [(action, 0.5, 1.0)]
        said = configuration.in_words(kept, configuration.problem_of(kept))
        again = {name: value for name, value in said.items() if not name.startswith("history")}
        again["guard"] = {name: value for name, value in again["guard"].items() if value is not None}
        sent_back = configuration.settings_of(Config.model_validate_json(json.dumps(again)))
        assert (sent_back.start, sent_back.fallback, sent_back.kept_action) == (action, action, action)
        assert configuration.problem_of(sent_back).fingerprint == configuration.problem_of(kept).fingerprint


@given(number=st.floats(0.001, 0.999))
def test_what_is_between_two_settings_is_refused(number):
    request = {"id": "a", "actions": [0.0, 1.0], "start": number}
    with pytest.raises(InvalidInput, match="is not a setting; the nearest are"):
        configuration.settings_of(Config.model_validate_json(json.dumps(request)))


def test_a_setting_with_names_is_spelled_the_same_everywhere(client, name):
    """The page compares them as text: another order would read as a move."""
    client.create(id=name, actions={"water": [6.0, 8.0], "fan": [0.5, 1.0]}, policy="gp-md", options={"noise_std": 0.1})
    answer = client.round(name, 0.2, 1.0)
    row = client.see(name, "decisions")["decisions"][-1]
    spelled = [answer["value"], row["value"], row["applied"], client.see(name, "state")["value"]]
    assert len({str(each) for each in spelled}) == 1
