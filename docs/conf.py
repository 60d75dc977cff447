"""Configuration of the documentation; built strictly, so that a broken link or a missing page fails."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import latex2mathml.converter
from docutils import nodes
from sphinx import addnodes
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.docutils import SphinxRole

import holdcourse

sys.path.insert(0, str(Path(__file__).parent))
import interfaces
import sections

# Before anything is documented: autodoc imports modules in a way that the service's models do not bear.
FROM_THE_CODE = {"commands": interfaces.commands(), "http": interfaces.http(), "evidence": interfaces.evidence()}

project = "holdcourse"
author = "The holdcourse developers"
copyright = "2026, the holdcourse developers"  # noqa: A001
version = release = installed("holdcourse")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
default_role = "public"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# The reference describes optional parts also where what they need is not installed.
OPTIONAL = ("botorch", "distributed", "fastapi", "gest_api", "gpytorch", "gymnasium", "matplotlib", "pandas", "torch")
autodoc_mock_imports = [name for name in (*OPTIONAL, "uvicorn", "xarray") if find_spec(name) is None]
# By their names: written out they fill half a page.
ALIASES = ("ArrayLike", "Array", "Indices", "Ints", "Mask", "Arrays", "Metric", "AnyKernel", "PriorMean", "IntervalMap")
autodoc_type_aliases = {name: name for name in ALIASES}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100  # longer ones have a line for each parameter
modindex_common_prefix = ["holdcourse."]
autosummary_generate = False  # the tables of reference/index link to the pages by topic
napoleon_attr_annotations = False  # types stand in the signature already
napoleon_use_param = False  # or what is said of several parameters together would be repeated for each of them
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "holdcourse"
html_favicon = "../src/holdcourse/service/page/icon.svg"
html_additional_pages = {"search": "search.html"}
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["holdcourse.css"]
nitpicky = False
smartquotes = False  # or `--option` in the help of commands would get a dash


def exported() -> list[ModuleType]:
    """The modules whose names are stable: the package, and those that it exports."""
    found = [getattr(holdcourse, name) for name in holdcourse.__all__]
    return [holdcourse, *(one for one in found if isinstance(one, ModuleType))]


def is_provisional(name: str, described: Any) -> bool:
    """Whether what the reference describes may move: docs/stability.md says what may not."""
    page = (Path(__file__).parent / "stability.md").read_text(encoding="utf-8")
    promised = re.search(r"^\*\*Provisional\*\*.*?(?=^\*\*Internal)", page, re.DOTALL | re.MULTILINE)
    assert promised is not None
    module, _, own = name.rpartition(".")
    if name.replace("holdcourse.", "hc.", 1) in re.findall(r"`(hc\.[\w.]+)`", promised[0]):
        return True
    if module in {one.__name__ for one in exported()}:
        return False
    return not any(own in getattr(one, "__all__", ()) and getattr(one, own) is described for one in exported())


def mark_provisional(app: Any, what: str, name: str, described: Any, options: Any, lines: list[str]) -> None:
    """Say it at the name itself, after the first paragraph, which tables show."""
    if what in ("class", "function", "exception") and is_provisional(name, described):
        first = lines.index("") if "" in lines else len(lines)
        lines[first:first] = ["", "*Provisional: this name may move or change.*"]


class Public(SphinxRole):
    """`name` in a docstring: a link if it is one of ours, which then must lead somewhere; else plain code.

    Names that look like other classes or modules of ours are links if the reference describes them.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make the nodes of one use."""
        words = nodes.literal(self.text, self.text)
        where: dict[str, Any] = {"refdomain": "py", "reftype": "obj", "refdoc": self.env.docname, "refexplicit": False}
        target = self.text.removeprefix("holdcourse.")
        first = target.partition(".")[0]
        if self.text in holdcourse._MODULES:  # then a parameter of that name is meant
            return [words], []
        if first not in holdcourse.__all__:
            if re.fullmatch(r"holdcourse(\.\w+)+|[A-Z]\w*[a-z]\w*(\.[a-z_]\w*)?", self.text):
                return [addnodes.pending_xref("", words, reftarget=self.text, refwarn=False, **where)], []
            return [words], []
        if first in holdcourse._MODULES:  # described where it is
            target = holdcourse._MODULES[first] + target.removeprefix(first)
        else:  # an attribute or method: the class says what it is
            target = first
        return [addnodes.pending_xref("", words, reftarget=f"holdcourse.{target}", refwarn=True, **where)], []


def formula(display: str) -> Any:
    """What writes a formula as MathML, which browsers show without a script, also offline."""

    def write(translator: Any, node: Any) -> None:
        text = re.sub(r"\\(log|ln) ", r"\\\1\\,", node.astext())  # the converter forgets the spaces around it
        text = re.sub(r"(?<=[\w)}]) *(?=\\(?:log|ln)\b)", r"\\,", text)
        text = text.replace("{aligned}", "{align*}")  # the name that the converter knows
        mathml = latex2mathml.converter.convert(text, display=display)
        translator.body.append(f'<div class="math">{mathml}</div>' if display == "block" else mathml)
        raise nodes.SkipNode

    return write


def short_signature(*about: Any) -> tuple[str | None, str | None]:
    """Names of types without the wrapping that a union puts around them, and without their modules if nothing links."""

    def short(part: str | None) -> str | None:
        text = re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", part or "")
        if re.search(r"<f\w+", text):  # such a default cannot be parsed, so all of it is shown as it is
            text = re.sub(r"~(?:\w+\.)+(\w+)", r"\1", text)
        return text or None

    return tuple(short(part) for part in about[-2:])  # type: ignore[return-value]


def fill(app: Any, docname: str, source: list[str]) -> None:
    """Write into a page what it shows of the code: commands, addresses."""
    source[0] = interfaces.fill(source[0], FROM_THE_CODE)


def made_from_the_code(*about: Any) -> list[str]:
    """The pages that are written from the code are always read again: their files do not change when it does."""
    return ["evidence", "reference/commands", "reference/http"]


def search_on_our_own(app: Any) -> None:
    """Leave the tool's own search out: it finds whole pages, and shows no excerpts on pages opened as files."""
    app.builder.search = False


def mark_cells(app: Any, doctree: Any, docname: str) -> None:
    """Mark two kinds of cells for the style sheet, and keep intervals together.

    Short cells with a number keep the number and its unit on one line; if a gain has an interval, there is a line for
    each. Sentences in a table of several columns keep lines that one can read.
    """
    for table in doctree.findall(nodes.tgroup):
        for cell in table.findall(nodes.entry):
            words = cell.astext()
            if re.fullmatch(r"\S+ % \(\S+ to \S+\)", words):
                for text in list(cell.findall(nodes.Text)):
                    kept = re.sub(r" (?!\()", "\N{NO-BREAK SPACE}", text.astext())
                    text.parent.replace(text, nodes.Text(kept))
            elif len(words) <= 14 and re.search(r"\d", words):
                cell["classes"].append("figure")
            elif len(words) >= 50 and table["cols"] >= 3:
                cell["classes"].append("words" if table["cols"] >= 4 else "phrase")


def wrap_sentences(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Sentences that a program prints wrap like text; lines whose columns stand under each other do not.

    The source breaks sentences into lines of its own width, so these are joined again.
    """
    columns, code = re.compile(r"[─━│┃]|\S {3,}\S|^ {9}"), re.compile(r" :?= |(?<!&)#")

    def line(found: re.Match[str]) -> str:
        return found[0] if columns.search(found[0]) else f'<span class="sentence">{found[0]}</span>'

    def printed(block: re.Match[str]) -> str:
        joined, goes_on = [""], False
        for text in block[2].split("\n"):
            if goes_on and not columns.search(text) and re.match(r" *(?!- |\.\.\.|\w+: )\S", text):
                joined[-1] += " " + text.strip()
            else:
                joined.append(text)
            ended = text.endswith((".", "!", "?")) or (text.endswith(":") and len(text) < 100)
            goes_on = len(text) >= 60 and not ended and not (columns.search(text) or code.search(text))
        return block[1] + re.sub(r".{50,}", line, "\n".join(joined[1:]))

    text = re.compile(r'(<div class="highlight-text [^>]*>.*?<pre>(?:<span></span>)?)(.*?)(?=</pre>)', re.DOTALL)
    context["body"] = text.sub(printed, context.get("body", ""))


def open_pictures(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A picture opens by itself when it is clicked: on a telephone its letters are too small within the page."""
    alone = re.compile(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>')
    context["body"] = alone.sub(r'<p><a class="picture" href="\2">\1</a></p>', context.get("body", ""))


def keep_options(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Commands wrap on narrow screens, but not after the hyphens of `--token-file`, where a browser would break too.

    In text, such a word stays whole where a narrow screen has room for it; a longer one breaks after its points.
    """

    def wrap(text: re.Match[str]) -> str:
        return re.sub(r"[^\s<>]*-[^\s<>]*", r'<span class="whole">\g<0></span>', text[0])

    def command(block: re.Match[str]) -> str:
        return re.sub(r"(?<=>)[^<]+", wrap, block[0])

    def joints(word: re.Match[str]) -> str:
        return re.sub(r"(?<=\w)([./:])(?=\w)", r"\1<wbr>", word[0])

    shell = re.compile(r'<div class="highlight-sh .*?</div>', re.DOTALL)
    body = shell.sub(command, context.get("body", ""))
    body = re.sub(r'(?<=<span class="pre">)[^<]{29,}', joints, body)
    context["body"] = re.sub(r'<span class="pre">(?=[^<]{1,28}</span>)(?=[^<]*-)', '<span class="pre whole">', body)


def break_addresses(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A heading that is an address breaks before its slashes, not within a word."""
    heading = re.compile(r"(?<=<h3>)[A-Z]+ /[^<]*")
    context["body"] = heading.sub(lambda found: re.sub(r"(?<=[\w}])/", "<wbr>/", found[0]), context.get("body", ""))


def introduce_parameters(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What is said of a parameter or an exception follows a colon, not two hyphens."""
    context["body"] = re.sub(r"(</strong>(?:</a>)?) -- ", r"\1: ", context.get("body", ""))


def of_property(self: Any) -> list[str]:
    """Return what is said of a property.

    What stands before a colon in its first line is not its type, and its examples are not a section of the page.
    """
    text = "\n".join(self._dedent(self._consume_to_end()))
    return re.sub(r"^(\w+)\n-+$", r".. rubric:: \1\n", text, flags=re.MULTILINE).split("\n")


def find_described(app: Any, env: Any, node: Any, words: Any) -> Any:
    """Find what a name that is not spelled in full leads to.

    A module that the package exports, such as `hc.rules`, leads to where its names are described. A class such as
    `Learning` leads to its description if there is only one class of that name.
    """
    if node.get("refdomain") != "py":
        return None
    domain, name = env.domains["py"], node.get("reftarget", "").removeprefix("holdcourse.")
    if name in holdcourse._MODULES:
        found = [f"holdcourse.{holdcourse._MODULES[name]}"]
    else:
        described = name.partition(".")[0]  # of an attribute: the class says what it is
        known = {full for full, about in domain.objects.items() if not about.aliased}
        found = [full for full in known if described[:1].isupper() and full.endswith(f".{described}")]
    if len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, words)


def break_contents(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """The narrow column of contents breaks addresses and names after their points, and options not at all."""

    def breaks(text: re.Match[str]) -> str:
        joined = re.sub(r"(?<=[\w}])([./])(?=[\w{])", r"\1<wbr>", text[0])
        return re.sub(r"--[\w-]+", r'<span class="whole">\g<0></span>', joined)

    context["toc"] = re.sub(r"(?<=>)[^<]+", breaks, context.get("toc", ""))


def setup(app: Any) -> None:
    """Make the role, the formulas and the pages written from the code known."""
    GoogleDocstring._parse_attribute_docstring = of_property
    app.add_role("public", Public())
    app.add_html_math_renderer("mathml", (formula("inline"), None), (formula("block"), None))
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-process-docstring", mark_provisional)
    app.connect("builder-inited", search_on_our_own)
    app.connect("build-finished", sections.write)
    app.connect("env-get-outdated", made_from_the_code)
    app.connect("source-read", fill)
    app.connect("doctree-resolved", mark_cells)
    app.connect("html-page-context", keep_options)
    app.connect("html-page-context", wrap_sentences)
    app.connect("html-page-context", open_pictures)
    app.connect("html-page-context", break_contents)
    app.connect("html-page-context", break_addresses)
    app.connect("html-page-context", introduce_parameters)
    app.connect("missing-reference", find_described)
