"""The parts of pages that are written when the documentation is built: commands, addresses of the service, evidence.

A page holds a line `% from the code: commands` (or `http`, `evidence`), which is replaced in the build. So what
`holdcourse COMMAND --help` and `/openapi.json` say is what stands there.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from holdcourse.cli import plant_backtest, root

KEY = "Idempotency-Key"  # explained once, at the head of the page
METHODS = {"get": "GET", "post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}


def options(text: str) -> str:
    """Return a text with its options as code: `--out` stays on one line."""
    parts = text.split("`")
    command = rf"holdcourse (?:{'|'.join(root.COMMANDS)})(?: --[a-z-]+)+|(?<![\w-])--[a-z][a-z-]*\b"
    parts[::2] = [re.sub(command, r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table without the columns in which nothing is written."""
    kept = [k for k in range(len(head)) if any(row[k] for row in rows)]
    lines = [[line[k] for k in kept] for line in (head, tuple("---" for _ in head), *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    """Return help without the marks that colour it in a terminal, fit for a cell of a table."""
    return options(re.sub(r"\[/?[a-z ]*\]", "", text).replace("\n", " ").replace("|", "\\|").strip())


def help_text(text: str) -> Iterator[str]:
    """Yield the paragraphs of a command's help; its examples are code."""
    shown = re.sub(r"Example:\s*\n\s*", "Example: ", re.sub(r"\[/?[a-z ]*\]", "", text))
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^\s*Example: .*$", "", shown, flags=re.MULTILINE).strip()):
        if paragraph:
            yield options(" ".join(paragraph.split()))
    examples = re.findall(r"^\s*Example: (.*)$", shown, flags=re.MULTILINE)
    if examples:
        yield "```sh\n" + "\n".join(examples) + "\n```"


def parameters(command: Any) -> str:
    """Return a table of what the command takes, in the order of its help."""
    rows = []
    for param in command.params:
        if getattr(param, "hidden", False):
            continue
        names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
        default = "needed" if param.required else ""
        if param.default not in (None, False, "", (), []) and not callable(param.default):
            default = f"`{getattr(param.default, 'value', param.default)}`"
        rows.append((names, plain(param.help or ""), default))
    return table(("option", "meaning", "default"), rows) if rows else ""


def command_section(name: str, command: Any, depth: int) -> Iterator[str]:
    """Yield the section of a command, and those of the commands that it groups."""
    yield f"{'#' * depth} holdcourse {name}"
    yield from help_text(command.help or "")
    taken = parameters(command)
    if taken:
        yield taken
    for inner, found in getattr(command, "commands", {}).items():
        yield from command_section(f"{name} {inner}", found, depth + 1)


def commands() -> str:
    """Return the reference of the command line, by the panels of `holdcourse --help`."""
    group: Any = typer.main.get_command(root.app)
    parts: list[str] = ["## Options of `holdcourse` itself", parameters(group)]
    for panel in (root.SITE, root.RUNNING, root.RESEARCH):
        parts.append(f"## {panel}")
        for name, listed in root.COMMANDS.items():
            if listed.panel == panel:
                parts += command_section(name, group.commands[name].loaded, 3)
            if (name, panel) == ("backtest", root.SITE):
                parts += command_section("backtest --log", plant_backtest.COMMAND, 3)
    return "\n\n".join(parts)


def type_of(schema: dict[str, Any], plural: str = "") -> str:
    """Return what a value may be, in a few words; `plural` is an s for the values of a list."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{anchor(name)})"
    if "anyOf" in schema:
        kinds = list(dict.fromkeys(type_of(one, plural) for one in schema["anyOf"]))
        return f"({' or '.join(kinds)})" if plural and len(kinds) > 1 else " or ".join(kinds)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list{plural} of {type_of(schema.get('items', {}), 's')}"
    name = {None: "any value", "null": "null"}.get(schema.get("type"), str(schema.get("type")))
    return name if schema.get("type") in (None, "null") else f"{name}{plural}"


def anchor(name: str) -> str:
    """Return the name of a section, as a link within the page has it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def contents(content: dict[str, Any]) -> str:
    """Return what a body or an answer is, each type once with the media types that it may have."""
    media: dict[str, list[str]] = {}
    for kind, body in content.items():
        media.setdefault(type_of(body.get("schema", {})), []).append(f"`{kind}`")
    return ", or ".join(f"{what} ({', '.join(kinds)})" for what, kinds in media.items())


def address(path: str, method: str, about: dict[str, Any]) -> Iterator[str]:
    """Yield the section of one method at one address."""
    yield f"### {METHODS[method]} {path}"
    yield about.get("description") or about["summary"] + "."
    given = [one for one in about.get("parameters", []) if one["in"] != "path" and one["name"] != KEY]
    if given:
        yield table(
            ("parameter", "meaning"),
            [
                (f"`{one['name']}` ({one['in']})", typed(one["schema"], one.get("description", ""), can_be_null=False))
                for one in given
            ],
        )
    if "requestBody" in about:
        yield f"The body: {contents(about['requestBody']['content'])}."
    for status, answer in about["responses"].items():
        if status.startswith("2"):
            yield f"The answer, {status}: {contents(answer.get('content', {})) or 'nothing'}."
    refused = [status for status in about["responses"] if not status.startswith("2")]
    if refused:
        yield f"May be refused with {', '.join(refused)}."


def meaning(schema: dict[str, Any]) -> str:
    """Return what is said of a field, or else of one of the kinds of value that it may have."""
    said = (one.get("description", "") for one in (schema, *schema.get("anyOf", [])))
    return next(filter(None, said), "")


def typed(schema: dict[str, Any], said: str, *, can_be_null: bool = True) -> str:
    """Return a cell with what a value may be and what it means: side by side, they would not fit on a phone."""
    kind = type_of(schema) if can_be_null else type_of(schema).removesuffix(" or null")
    return f'<span class="type">{kind}</span><br>{plain(said)}'


def within(schemas: dict[str, Any], part: Any) -> set[str]:
    """Return the names of the schemas that a part of the description refers to, and of those that they refer to."""
    found, new = set[str](), set(re.findall(r"#/components/schemas/(\w+)", json.dumps(part)))
    while new:
        found |= new
        new = (
            set().union(*(re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name])) for name in new)) - found
        )
    return found


def model(name: str, about: dict[str, Any], *, is_sent: bool) -> Iterator[str]:
    """Yield the section of what a body or an answer holds; `is_sent`: a client sends it, and may leave fields out."""
    yield f"### {name}"
    if about.get("description"):
        yield about["description"]
    needed = set(about.get("required", [])) if is_sent else ()
    rows = [
        (f"`{field}`{' (needed)' if field in needed else ''}", typed(one, meaning(one)))
        for field, one in about.get("properties", {}).items()
    ]
    if rows:
        yield table(("field", "meaning"), rows)


def http() -> str:
    """Return the reference of the service, from what it serves as `/openapi.json`."""
    from holdcourse.service.core.data_folder import DataFolder
    from holdcourse.service.http.app import create_app
    from holdcourse.service.http.openapi import MEANINGS

    with tempfile.TemporaryDirectory() as folder, closing(DataFolder(Path(folder))) as data:
        found = create_app(data).openapi()
    parts = ["## Addresses"]
    for path, methods in found["paths"].items():
        for method, about in methods.items():
            parts += address(path, method, about)
    parts.append("## Refusals")
    parts.append("A refusal is JSON with `error` and, where one exists, the remedy in its text. Nothing was changed.")
    parts.append("\n".join(["| status | meaning |\n|---|---|", *(f"| {s} | {m} |" for s, m in MEANINGS.items())]))
    parts.append("## Bodies and answers")
    schemas = found["components"]["schemas"]
    bodies = [about.get("requestBody") for methods in found["paths"].values() for about in methods.values()]
    sent = within(schemas, bodies)
    for name in sorted(schemas):
        parts += model(name, schemas[name], is_sent=name in sent)
    return "\n\n".join(parts)


def evidence() -> str:
    """Return the groups of the file of measured numbers: what, when, how, and where it is stated."""
    docs = Path(__file__).parent
    rows = ["| what | measured | how | stated in |\n|---|---|---|---|"]
    found = [page for page in sorted(docs.rglob("*.md")) if not {"_build", "decisions"} & set(page.parts)]
    pages = {page.relative_to(docs).as_posix(): page.read_text(encoding="utf-8") for page in found}
    titles = {name: text.removeprefix("# ").partition("\n")[0] for name, text in pages.items()}
    for group, about in json.loads((docs / "evidence.json").read_text(encoding="utf-8")).items():
        stated = [name for name, text in pages.items() if f"<!-- {group}: " in text]
        reports = [name.removeprefix("docs/") for name in about.get("reports", ())]
        links = ", ".join(f"[{titles[name]}]({name})" for name in sorted({*stated, *reports}))
        stamps: dict[str, set[str]] = {}
        for kept in about["values"].values():
            stamps.setdefault(kept.get("date", about["date"]), set()).add(kept.get("commit", about.get("commit", "")))
        day = ", ".join(
            f"{when} ({', '.join(named)})" if (named := sorted(filter(None, commits))) else when
            for when, commits in sorted(stamps.items() or {about["date"]: set()}.items())
        )
        day = day.replace("-", "\N{NON-BREAKING HYPHEN}")
        rows.append(f"| {about['about']} | {day} | `{about['command']}` | {links} |")
    return "\n".join(rows)


def fill(text: str, written: dict[str, str]) -> str:
    """Return a page with what is written from the code in place of the lines that ask for it."""
    return re.sub(r"^% from the code: (\w+)$", lambda found: written[found[1]], text, flags=re.MULTILINE)
