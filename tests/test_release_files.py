"""What a release says about itself: one version everywhere, the Pythons that it runs on, a licence for all its data."""

from __future__ import annotations

import datetime
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md")


def tool():
    spec = importlib.util.spec_from_file_location("set_version", ROOT / "tools" / "set_version.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(PROJECT['version'])}$", citation, re.MULTILINE)
    number, _, unreleased = PROJECT["version"].partition(".dev")
    newest = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest[1] == number
    assert (newest[2] == "unreleased") == bool(unreleased)


def test_a_release_is_one_step_and_the_next_begins_after_it(tmp_path):
    for name in FILES:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    number, day = "8.0.0", datetime.date(2026, 12, 1)
    tool().set_version(tmp_path, f"{number}.dev0", day)  # whether or not this checkout is a release itself
    tool().set_version(tmp_path, number, day)
    project, citation, log = ((tmp_path / name).read_text(encoding="utf-8") for name in FILES)
    assert tomllib.loads(project)["project"]["version"] == number
    assert f"\nversion: {number}\ndate-released: 2026-12-01\n" in citation
    assert f"\n## {number} - 2026-12-01\n" in log
    tool().set_version(tmp_path, "9.0.0.dev0", day)
    project, citation, log = ((tmp_path / name).read_text(encoding="utf-8") for name in FILES)
    assert tomllib.loads(project)["project"]["version"] == "9.0.0.dev0"
    assert "date-released" not in citation
    assert log.index("## 9.0.0 - unreleased") < log.index(f"## {number} - 2026-12-01")
    before = [(tmp_path / name).read_bytes() for name in FILES]
    for wrong, complaint in (("next", "is no version"), ("9.9.9", "has 0 lines like")):
        with pytest.raises(SystemExit, match=complaint):
            tool().set_version(tmp_path, wrong, day)
    assert [(tmp_path / name).read_bytes() for name in FILES] == before


def test_classifiers_are_the_pythons_allowed_and_tried():
    versions = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    named = [found[1] for found in versions if found]
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert named == [f"3.{minor}" for minor in range(11, 11 + len(named))]
    page = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    tried = re.findall(r"^\| (3\.\d+)\.\d+ \|", page, re.MULTILINE)
    assert tried == named, "docs/release.md says what was run on each of them"


@pytest.mark.parametrize("room", ["wind", "wakes"])
def test_every_file_of_data_has_its_source_and_licence(room):
    folder = ROOT / "src" / "holdcourse" / room / "data"
    credit = (folder / "CREDIT.md").read_text(encoding="utf-8")
    files = {path.name for path in folder.iterdir() if path.is_file()} - {"CREDIT.md"}
    licence = dict(re.findall(r"^\| `(\S+)` \|.*\| (\S[^|]*) \|$", credit, re.MULTILINE))
    assert set(licence) == files
    assert set(" AND ".join(licence.values()).split(" AND ")) <= set(PROJECT["license"].split(" AND "))
    assert f"src/holdcourse/{room}/data/CREDIT.md" in PROJECT["license-files"]


def test_data_lie_only_in_the_folders_whose_licences_are_known():
    source = ROOT / "src" / "holdcourse"
    ours = {".py", ".pyc", ".nbi", ".nbc", ".js", ".css", ".html", ".svg", ".typed"}  # .nbi, .nbc: compiled kernels
    other = {path.parent for path in source.rglob("*") if path.is_file() and path.suffix not in ours}
    assert other == {source / "wind" / "data", source / "wakes" / "data"}
