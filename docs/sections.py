"""What the search looks through: every section of every page, as a script that a browser also loads from a file.

A page opened as a file may not fetch other pages, so their words come along. docs/_static/search.js finds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

SILENT = (
    nodes.Text,
    nodes.comment,
    nodes.raw,
    nodes.math_block,
    nodes.title,
    nodes.image,
    addnodes.toctree,
    addnodes.index,
)
Section = tuple[str, str, list[str], list[str]]


def words(node: nodes.Node) -> str:
    """Return what a reader sees of a paragraph, on one line; a formula without the marks of its source."""
    if isinstance(node, nodes.math):
        return re.sub(r"[\\{}]", "", node.astext())
    if isinstance(node, nodes.raw):  # marks of HTML in a line; what stands on each side of a break is read as two parts
        return ": " if node.astext() == "<br>" else ""
    if isinstance(node, addnodes.pending_xref_condition) and node["condition"] != "resolved":
        return ""  # the long form of a name that is shown in its short form
    parts = [words(child) for child in node.children] if node.children else [node.astext()]
    return re.sub(r"\s+", " ", "".join(parts))


def walk(node: nodes.Element, section: Section, found: list[Section]) -> None:
    """Sort what is below a node into its section, and into new ones where they begin."""
    for child in node.children:
        if isinstance(child, SILENT):
            continue
        if isinstance(child, nodes.section):
            begun: Section = (child["ids"][0], words(child[0]), [], [])
            found.append(begun)
            walk(child, begun, found)
        elif isinstance(child, addnodes.desc) and child[0].get("ids"):
            begun = (child[0]["ids"][0], child[0]["fullname"], [], [words(child[0])])
            found.append(begun)
            walk(child, begun, found)
        elif isinstance(child, addnodes.desc_signature):
            continue
        elif isinstance(child, nodes.literal_block | nodes.doctest_block):
            section[3].append(re.sub(r"\s+", " ", child.astext()))
        elif isinstance(child, nodes.TextElement):
            section[2].append(words(child))
        else:
            walk(child, section, found)


def sections(doctree: nodes.document) -> Iterator[tuple[str, str, str, str]]:
    """Yield the anchor, the heading, the text and the code of each section; the first is the page's own."""
    title = next(iter(doctree.findall(nodes.title)), None)
    page: Section = ("", words(title) if title is not None else "", [], [])
    found = [page]
    for child in doctree.findall(lambda node: isinstance(node, nodes.section) and node.parent is doctree):
        walk(child, page, found)
    for anchor, heading, text, code in found:
        said = "".join(
            part + (" " if part.endswith((".", "?", "!", ":", ";", ",")) else " · ") for part in text if part
        )
        yield anchor, heading, said.removesuffix(" · ").strip(), " ".join(code)


def write(app: Any, exception: Exception | None) -> None:
    """Write the script once the pages are."""
    if exception is None and app.builder.name == "html":
        pages = {name: list(sections(app.env.get_doctree(name))) for name in sorted(app.env.all_docs)}
        script = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
        (Path(app.outdir) / "_static" / "sections.js").write_text(f"const SECTIONS = {script};\n", encoding="utf-8")
