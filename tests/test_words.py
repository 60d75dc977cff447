"""Plain words: what users read has none of the words that docs/plain-words.md asks us not to use.

Looked at are pages, help, errors, explanations and reports (every text in the code that is no docstring), what the
reference shows, the service's page and the scripts of the gallery. Decisions are records of their day.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from helpers.pages import DOCS, WRITTEN

import holdcourse as hc

ROOT = DOCS.parent
SOURCE = Path(hc.__file__).parent
# "The way" is fine where it means how something is done, or where somebody walks.
MOVES = r"(?:there|back|costs|is|are|from|on|included|to where|through)\b"
UNUSED = re.compile(
    r"(?<!\")\b(?:dear|dearer|dearest)\b"  # in quotation marks it is a value that records hold
    rf"|\b(?:the|its|whose|one) way (?:{MOVES})|\bways? (?:there|back|included)\b|\bfor the way\b|\bits way:"
    r"|\bmade (?:this more|[+-]\d)"
    r"|\b(?:likewise|foretold|foretells?|so many|by turns|has to promise|obviously|of course)\b"
    r"|\bit is the hours\b"
    r"|\b(?:anew|for ever|mended|reckons?|reckoned|deal(?:s|t)? out|lived? through|no end can be seen)\b"
    r"|\bheld the (?:truth|gain)\b|(?<!there )\bis no (?:xml|yaml|knob|number|setting|file)\b",
    re.IGNORECASE,
)


def literals(path):
    """The texts of a module that are no docstrings and no single words, as one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    holders = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = {id(node.body[0].value) for node in holders if node.body and isinstance(node.body[0], ast.Expr)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    sentences = [node.value for node in found if id(node) not in docstrings and " " in node.value]
    return "\n".join(sentences)


def shown():
    """Yield the names that the reference describes, and what it shows of each."""
    module = "holdcourse"
    pages = [page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md"))]
    for kind, target in re.findall(r"^\.\. (auto\w+|currentmodule):: (\S+)$", "\n".join(pages), re.MULTILINE):
        if kind == "currentmodule":
            module = target
        elif kind != "autosummary":
            full = target if target.startswith("holdcourse") else f"{module}.{target}"
            one = pkgutil.resolve_name(full)
            own = one.__name__ if inspect.ismodule(one) else getattr(one, "__module__", None)
            parts = vars(one).items() if inspect.isclass(one) or inspect.ismodule(one) else ()
            public = [part for name, part in parts if not name.startswith("_")]
            members = [part for part in public if getattr(part, "__module__", None) == own]
            yield full, "\n".join(inspect.getdoc(each) or "" for each in (one, *members))


def texts():
    """Yield all that users read, by where it stands."""
    for page in [*WRITTEN, ROOT / "README.md"]:
        if page.name != "plain-words.md" and "decisions" not in page.parts:
            yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
    for module in sorted(SOURCE.rglob("*.py")):
        yield module.relative_to(SOURCE).as_posix(), literals(module)
    for script in sorted((SOURCE / "service" / "page").glob("*.js")):
        text = script.read_text(encoding="utf-8")
        yield script.name, " ".join(re.findall(r'"[A-Z][^"\n]*"|`[A-Z][^`]*`', text))
    for script in sorted((ROOT / "examples").glob("*.py")):
        yield script.name, script.read_text(encoding="utf-8")
    yield from shown()


def test_what_users_read_is_in_plain_words():
    read = list(texts())
    assert not {name: UNUSED.findall(text) for name, text in read if UNUSED.search(text)}
    names = [name for name, _ in read]
    assert {"README.md", "docs/plants.md", "running/reasons.py", "cli/serve.py", "holdcourse.recommended"} <= set(names)
    assert len(names) > 400


@pytest.mark.parametrize(
    "said",
    [
        "too dear for the promise",
        "the way there is gone in steps",
        "and the way costs 1",
        "its way back included",
        "it made +1.1 % of what staying makes",
        "by turns",
        "So many rounds.",
        "It is the hours: few",
        "in blocks that a coin deals out",
        "the rounds since then are lived through again",
        "At this gain and scatter no end can be seen",
        "a setting for ever",
        "all deadlines begin anew",
        "95.9 % held the truth",
        "site.yml is no YAML",
    ],
)
def test_these_are_found(said):
    assert UNUSED.search(said)


@pytest.mark.parametrize(
    "said",
    [
        "in the same way",
        "on the way to the server",
        "the way in which it learns",
        "made 3 moves",
        "it holds the truth",
        "there is no file",
    ],
)
def test_these_are_fine(said):
    assert not UNUSED.search(said)
