"""The documentation keeps its word: every Python block runs, every public name is described and shown at work."""

from __future__ import annotations

import ast
import doctest
import inspect
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
from helpers.pages import DOCS, PAGES, WRITTEN, code_of

import holdcourse as hc
from holdcourse import archive
from holdcourse.deciding import policyfile
from holdcourse.experiments import store as sweeps
from holdcourse.running import events, postgres
from holdcourse.service.core import store, tokens

SOURCE = Path(hc.__file__).parent
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
NAMES = [name for name in hc.__all__ if name != "__version__"]


SLOW = "chiller.md", "database.md", "wind-site.md"  # tests/slow/test_pages.py also compares what these print


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW)) for page in PAGES],
    ids=[page.relative_to(DOCS).as_posix() for page in PAGES],
)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    """From an empty namespace, in an empty folder; `tests/slow/test_pages.py` gives each page a process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hc.registry, "TABLE", dict(hc.registry.TABLE))  # a page may add to it
    names = {"__name__": "__main__"}
    exec(compile(code_of(page), page.name, "exec"), names)
    assert len(names) > 2, "the page has no code that does anything"  # its own name, and what Python builds in


def test_the_reference_of_commands_can_be_made():
    """The site itself is built by `make docs` only."""
    commands = runpy.run_path(str(DOCS / "interfaces.py"))["commands"]()
    for heading in ("backtest --log", "wakes", "trial plan", "serve"):
        assert re.search(rf"^#+ .*holdcourse {heading}", commands, re.MULTILINE), f"no section on {heading}"


def test_the_reference_of_the_service_says_what_every_field_is():
    reference = runpy.run_path(str(DOCS / "interfaces.py"))
    http = reference["http"]()
    rows = re.findall(r"^\| `(\w+)`( \(needed\))? \| <span class=\"type\">(.+?)</span><br>(.*) \|$", http, re.MULTILINE)
    assert len(rows) > 500
    assert not [name for name, _, _, meaning in rows if not meaning]
    assert ("decision", " (needed)") in {row[:2] for row in rows}  # of a tell
    answer = http.partition("### DecisionAnswer")[2].partition("###")[0]
    assert "`decision`" in answer
    assert "(needed)" not in answer  # it is always there
    numbers = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}
    assert reference["type_of"]({"type": "array", "items": numbers}) == "list of lists of (numbers or null)"


def test_there_are_pages():
    sections = {page.relative_to(DOCS).parts[0] for page in PAGES}
    assert {"start.md", "tutorials", "how-to", "theory", "scope.md", "troubleshooting.md"} <= sections


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs_as_printed(name):
    """In an empty namespace: what a reader copies must work."""
    docstring = inspect.getdoc(getattr(hc, name)) or ""
    example = doctest.DocTestParser().get_doctest(docstring, {}, name, None, 0)
    assert example.examples, f"holdcourse.{name} has no example in its docstring"
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert result.failed == 0, "".join(printed)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_reference(name):
    module = getattr(getattr(hc, name), "__name__", name)  # of a public module: where it is
    described = rf"^\.\. auto(?:class|function):: {name}$|^\.\. automodule:: {re.escape(module)}$"
    assert re.search(described, REFERENCE, re.MULTILINE), f"no page of docs/reference describes holdcourse.{name}"
    listed = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert re.search(rf"^   {name}$", listed, re.MULTILINE), f"docs/reference/index.md does not list {name}"


def test_what_stands_below_the_parameters_is_parameters():
    """The reference takes every line there for a parameter: sentences belong before them, examples under a heading."""
    section = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)", re.DOTALL | re.MULTILINE)
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for listed in section.findall((isinstance(node, described) and ast.get_docstring(node)) or ""):
                lines = [line for line in listed.splitlines() if line and not line.startswith(" ")]
                odd = [line for line in lines if not re.fullmatch(r"\*{0,2}\w+(, \*{0,2}\w+)*( : .*)?", line)]
                assert not odd, f"{path.relative_to(SOURCE)}: {odd[0]!r} would be shown as a parameter"


def test_every_module_is_in_the_architecture():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    missing = [name for name in sorted(modules - {"__init__", "__main__"}) if not re.search(rf"`{name}/?`", page)]
    assert not missing


def anchors_of(page):
    """The anchors of a page's headings, as code hosts and the documentation tool make them: down to the third level."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = []
    for heading in re.findall(r"^#{1,3} (.*)$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        found.append(re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-"))
    return found


def test_every_local_link_leads_somewhere():
    """Also in what the documentation tool does not read, such as the README; without a network."""
    for page in [*WRITTEN, *sorted(DOCS.parent.glob("*.md"))]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            where = f"{page.relative_to(DOCS.parent)} links to {target}#{anchor}"
            leads_to = page.parent / target if target else page
            assert leads_to.exists(), where
            if anchor and "% from the code" not in leads_to.read_text(encoding="utf-8"):
                assert anchor in anchors_of(leads_to), where


def test_a_built_page_that_links_to_nothing_is_found(tmp_path):
    """What `make docs` runs on the pages that it has made."""
    links = runpy.run_path(str(DOCS / "links.py"))
    (tmp_path / "part").mkdir()
    (tmp_path / "outside.css").write_text("")
    site = tmp_path / "part"
    (site / "index.html").write_text(
        '<h1 id="top">Top</h1> <a href="#top">up</a> <a href="other%20one.html#there">on</a> <img src="none.png">'
        '<a href="https://example.org/x#y">away</a> <a href="other%20one.html#nowhere">wrong</a>'
    )
    (site / "other one.html").write_text('<a id="there"></a> <a href="#gone">gone</a> <link href="../outside.css">')
    assert links["broken"](site) == [
        "index.html links to none.png, which is not there",
        "index.html links to other%20one.html#nowhere, which is not there",
        "other one.html links to #gone, which is not there",
        "other one.html links to ../outside.css, which is not there",
    ]


EXPORTED = [name for name in NAMES if inspect.ismodule(getattr(hc, name)) and hasattr(getattr(hc, name), "__all__")]


@pytest.mark.parametrize("module", EXPORTED)
def test_every_name_of_an_exported_module_is_in_the_reference(module):
    for name in getattr(hc, module).__all__:
        if getattr(getattr(hc, module), name) is not getattr(hc, name, None):  # else it is described as hc.NAME
            assert re.search(rf"(?<!\w){name}(?!\w)", REFERENCE), f"no page of docs/reference names hc.{module}.{name}"


def test_the_reference_describes_nothing_that_is_not_there_or_not_public():
    module = "holdcourse"
    for kind, target in re.findall(r"^\.\. (auto\w+|currentmodule):: (\S+)$", REFERENCE, re.MULTILINE):
        full = target if target.startswith("holdcourse") else f"{module}.{target}"
        assert not re.search(r"\._", full), f"{full} is internal"
        if kind == "currentmodule":
            module = target
        elif kind == "autosummary":
            continue
        assert pkgutil.resolve_name(full) is not None


def test_formats_are_those_of_the_stability_page():
    page = (DOCS / "stability.md").read_text(encoding="utf-8")
    formats = {
        r"\[record\]\(record-format.md\) of a controller": events.FORMAT,
        "tables of records in PostgreSQL": postgres.FORMAT,
        "data folder of the service": store.FORMAT,
        r"\[policy file\]\(how-to/policy-file.md\)": policyfile.FORMAT,
        "saved state": archive.FORMAT,
        "file of tokens": tokens.FORMAT,
        "results of a sweep": sweeps.FORMAT,
    }
    for what, number in formats.items():
        assert re.search(rf"^\| {what}[^|]*\| {number} \|", page, re.MULTILINE), f"{what} has format {number}"
    named = re.search(r"modules that it exports \((.*?)\)", page)[1]
    assert set(re.findall(r"hc\.(\w+)", named)) == {name for name in NAMES if inspect.ismodule(getattr(hc, name))}


def test_the_stability_page_takes_back_only_names_that_it_has_promised():
    page = (DOCS / "stability.md").read_text(encoding="utf-8")
    taken_back = re.search(r"these are provisional too:(.*?)^Provisional names", page, re.DOTALL | re.MULTILINE)[1]
    named = re.findall(r"`hc\.([\w.]+)`", taken_back)
    assert named
    for name in named:
        module, _, own = f"holdcourse.{name}".rpartition(".")
        assert own in pkgutil.resolve_name(module).__all__, f"hc.{name} is not public"
