"""The documentation keeps its word: every Python block runs, every public name is described and shown at work."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest
from helpers.pages import DOCS, PAGES, WRITTEN, code_of

import holdcourse as hc

SOURCE = Path(hc.__file__).parent
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
NAMES = [name for name in hc.__all__ if name != "__version__"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_blocks_run(page, tmp_path, monkeypatch):
    """From an empty namespace, in an empty folder; `tests/slow/test_pages.py` gives each page a process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hc.registry, "TABLE", dict(hc.registry.TABLE))  # a page may add to it
    names = {"__name__": "__main__"}
    exec(compile(code_of(page), page.name, "exec"), names)
    assert len(names) > 2, "the page has no code that does anything"  # its own name, and what Python builds in


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


def test_every_module_is_in_the_architecture():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    missing = [name for name in sorted(modules - {"__init__", "__main__"}) if not re.search(rf"`{name}/?`", page)]
    assert not missing


def test_every_local_link_leads_somewhere():
    """Also in the parts that the documentation tool does not read, such as plain Markdown on a code host."""
    for page in [*WRITTEN, DOCS.parent / "README.md"]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS.parent)} links to {target}"
