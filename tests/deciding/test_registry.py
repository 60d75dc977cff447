"""The table of policies: one name each, everywhere the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import holdcourse as hc
from holdcourse.deciding import registry
from holdcourse.deciding.named_policies import make_policy, policy_names
from holdcourse.deciding.policy import Learning
from holdcourse.errors import InvalidInput
from holdcourse.service.core.requests import POLICIES

ROOT = Path(__file__).parents[2]
LINE = hc.Problem([0.0, 0.5, 1.0])


def test_the_page_of_the_documentation_is_the_table():
    rows = re.findall(
        r"^\| `(.*)` \| (.*) \| (.*) \| (.*) \| (.*) \|$", (ROOT / "docs/policies.md").read_text(), re.MULTILINE
    )
    assert rows == [
        (entry.name, entry.label, entry.sentence, entry.shown, ", ".join(entry.makers) or "-")
        for entry in registry.TABLE.values()
        if entry.source is None and entry.colour
    ]


@pytest.mark.parametrize("name", registry.names())
def test_every_entry_is_whole(name):
    entry = registry.entry_of(name)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert entry.sentence.endswith(".")
    assert entry.name == name
    assert (entry.shown == "hindsight") == (not entry.makers)
    assert all(callable(entry.maker(kind)) for kind in entry.makers)


def test_loading_the_table_loads_no_numbers():
    code = "import sys, json; from holdcourse import registry; registry.names(); print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert [name for name in loaded if name.startswith("holdcourse")] == [
        "holdcourse",
        "holdcourse.deciding",
        "holdcourse.deciding.registry",
        "holdcourse.errors",
    ]
    assert "numpy" not in loaded


@pytest.mark.parametrize("name", registry.names("problem", ready=True))
def test_a_policy_is_recorded_under_its_name(name):
    assert registry.entry_of(name).maker()(LINE).made_by[0] == name
    assert hasattr(hc, name.replace("-", "_"))


@pytest.mark.parametrize("name", registry.names("problem", ready=True))
def test_a_policy_is_called_as_the_table_says(name, monkeypatch):
    entry = registry.entry_of(name)
    assert entry.maker()(LINE).name == entry.label
    monkeypatch.setitem(registry.TABLE, name, replace(entry, label="Another"))
    assert entry.maker()(LINE).name == "Another"


def test_the_options_of_a_policy():
    learning = set(Learning.__annotations__)
    assert registry.entry_of("gp-md").options() == (learning | {"tau", "kappa", "tree", "tree_seed"}, (), True)
    assert registry.entry_of("fixed").options() == ({"history", "maximise"}, ("history",), False)
    assert registry.entry_of("fixed-at").options() == (
        {"setting", "setting_index", "maximise"},
        ("setting",),
        False,
    )
    for name in registry.names("problem"):
        entry = registry.entry_of(name)
        assert {*entry.required} <= {*entry.options().required}
        assert entry.options().learns == (entry.shown == "measurements" and name != "hedged")


def test_what_must_be_shown_is_what_the_model_needs():
    for name in registry.names("problem", ready=True):
        entry = registry.entry_of(name)
        assert entry.maker()(LINE).costs.needs_costs == (entry.shown == "costs")


def test_other_spellings_are_answered_with_the_right_one():
    for name in registry.names():
        if "-" in name:
            with pytest.raises(InvalidInput, match=rf"is not known \(did you mean {name}"):
                registry.entry_of(name.replace("-", "_"))
    with pytest.raises(
        InvalidInput, match="policy 'magic' is not known; choose one of fixed, wind-planner, recommended"
    ):
        registry.entry_of("magic")
    with pytest.raises(InvalidInput, match=r"policy 'wind-planner' is not known.*; choose one of fixed, recommended"):
        registry.entry_of("wind-planner", "problem")
    with pytest.raises(InvalidInput, match="policy 'wind-planner' cannot be made here"):
        registry.TABLE["wind-planner"].maker("problem")


def test_a_users_own_policy_becomes_an_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "TABLE", dict(registry.TABLE))
    file = tmp_path / "mine.py"
    file.write_text(
        "import holdcourse as hc\n\n\ndef mine(problem):\n    return hc.fixed_at(problem, setting_index=1)\n"
    )
    source = f"{file}:mine"
    assert make_policy("a name", LINE, {}, {}, source).name == "fixed at 0.5"
    assert registry.entry_of(source).source == source
    added = registry.add(registry.Entry("mine", "Mine", "My own.", makers={"problem": hc.minc_known}))
    assert registry.entry_of("mine") is added
    assert registry.colour_of("mine") in registry.OTHER_COLOURS
    assert registry.label_of("mine") == "Mine"
    with pytest.raises(InvalidInput, match="is not an import path"):
        registry.load("mine")


def test_a_file_that_was_edited_is_read_again(tmp_path):
    """As in a notebook: what runs is what the file says now, and an unchanged file gives the same classes."""
    file = tmp_path / "mine.py"
    file.write_text("def mine():\n    return 1\n")
    before = registry.load(f"{file}:mine")
    assert registry.load(f"{file}:mine") is before
    file.write_text("def mine():\n    return 2\n")
    assert registry.load(f"{file}:mine")() == 2
    assert before() == 1


def test_the_service_offers_what_a_request_can_make():
    assert set(POLICIES) == {*registry.names("problem", shown=("measurements", "nothing"), ready=True), "fixed-at"}


def test_the_page_of_the_service_says_what_the_table_says():
    text = (Path(hc.__file__).parent / "service/page/create.js").read_text()
    listed = dict(re.findall(r'^  \["(.*?)", "(.*?)"\],$', text, re.MULTILINE))
    assert list(listed) == [name for name in POLICIES if not registry.entry_of(name).required]
    assert listed == {name: registry.entry_of(name).sentence for name in listed}


def test_sweeps_make_what_needs_no_option():
    assert policy_names() == [
        "recommended",
        "planner",
        "gp-md",
        "cgp-lcb",
        "proximal-lcb",
        "planner-known",
        "md-known",
        "minc-known",
        "stationary",
    ]
