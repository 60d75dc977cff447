"""Keeps every measured number once, in docs/evidence.json, and the pages in step with it.

    python tools/evidence.py            writes the numbers of the file into the pages
    python tools/evidence.py --check    writes nothing, and fails where a page and the file differ
    python tools/evidence.py adopt      takes into the file what was measured anew and typed into a page; name pages
                                        (docs/plants.md) to look at these only
    python tools/evidence.py set "plants: all" "-6.8 %"     keeps one value, and writes it wherever it is stated

A page marks what comes from the file, a whole table or a few words:

    <!-- wakes: year -->                                     on a line of its own, then the table, then
    <!-- end of wakes: year -->

    ... needs <!-- wakes: share -->8 %<!-- end of wakes: share --> of the travel ...

`wakes` is a group of the file: measured on one day (`date`) by one command (`command`), of one state of the code
(`commit`); a value may have a date, a command and a commit of its own. A value is a `text` or a `table` (a list of
rows, the first being the head). `tools/measure.py` runs the commands again and keeps what they say.

`adopt` is for whoever has measured something again and has written it into one page. It takes changed values into the
file, with today's date (`--date`), and writes them wherever else they are stated. In a report, a page that a group
names among its `reports`, it also marks tables of numbers that bear no marks yet, and lists the figures of the prose:
nobody can change a figure in a report without the file noticing.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "evidence.json"
MEASURED = ("src", "benchmarks", "examples", "pyproject.toml")  # what results depend on

Evidence = dict[str, dict[str, Any]]

MARKED = re.compile(r"<!-- ([a-z-]+): ([a-z0-9-]+) -->(.*?)<!-- end of \1: \2 -->", re.DOTALL)
FENCED = re.compile(r"^( *)(`{3,}|:{3,}).*?^\1\2$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
# What a reader takes for a result: a sign, a decimal, a percentage, a multiple, a deviation, thousands.
FIGURE = re.compile(
    r"(?<![\w./-])[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?: (?:±|\+-) \d+(?:\.\d+)?)?(?: %| times)?(?![\w/]|[.-]\d)"
)
SAYS_LITTLE = re.compile(r"\d+|95 %|100 %")


def pages() -> list[Path]:
    """Return the README and every page of the documentation, except decisions: their figures are those of their day."""
    written = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in written if not {"_build", "decisions"} & set(page.parts))]


def load() -> Evidence:
    """Read the file."""
    found: Evidence = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def save(evidence: Evidence) -> None:
    """Write the file: one row of a table on each line, so that a change is easy to read."""
    text = json.dumps(evidence, indent=1, ensure_ascii=False)
    rows = re.compile(r'(?<!"text": )\[\n\s+(".*?")\n\s+\]', re.DOTALL)
    text = rows.sub(lambda row: "[" + re.sub(r'",\n *"', '", "', row[1]) + "]", text)
    FILE.write_text(text + "\n", encoding="utf-8")


def table_of(text: str) -> list[list[str]]:
    """Return the rows of a table, the head first."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in text.strip().splitlines()]
    return [rows[0], *rows[2:]]


def value_of(text: str) -> dict[str, Any]:
    """Return what the file keeps of the words between two marks."""
    block = text.startswith("\n")
    shown = text.strip("\n") if block else text
    if block and TABLE.fullmatch(shown + "\n"):
        return {"table": table_of(shown)}
    return {"text": shown.splitlines() if block else shown}


def line_of(row: list[str]) -> str:
    """Return a row of a table as a page has it."""
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in row)


def words_of(value: dict[str, Any], block: bool) -> str:
    """Return what a page says of a value; a block has its marks on lines of their own."""
    if "table" in value:
        head, *rows = value["table"]
        rule = "|" + "---|" * len(head)
        shown = "\n".join([line_of(head), rule, *map(line_of, rows)])
    else:
        shown = value["text"] if isinstance(value["text"], str) else "\n".join(value["text"])
    return f"\n{shown}\n" if block else shown


def written(text: str, evidence: Evidence, where: str) -> str:
    """Return a page with the numbers of the file."""

    def put(found: re.Match[str]) -> str:
        group, key, shown = found.groups()
        if key not in evidence.get(group, {}).get("values", {}):
            raise SystemExit(f"{where}: docs/evidence.json has no '{group}: {key}'; run tools/evidence.py adopt")
        new = words_of(evidence[group]["values"][key], shown.startswith("\n"))
        return f"<!-- {group}: {key} -->{new}<!-- end of {group}: {key} -->"

    return MARKED.sub(put, text)


def unmarked_prose(text: str) -> str:
    """Return what a page says outside marks, code and the targets of links."""
    text = FENCED.sub("", MARKED.sub("", text))
    return re.sub(r"`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->", " ", text)


def figures(text: str) -> list[str]:
    """Return the figures of some prose, in order."""
    found = (one[0] for one in FIGURE.finditer(text))
    return [one for one in found if not SAYS_LITTLE.fullmatch(one)]


def by_heading(text: str) -> dict[str, list[str]]:
    """Return the figures of a page's prose, under the heading where each stands."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^#+ ", unmarked_prose(text), flags=re.MULTILINE):
        heading, _, prose = part.partition("\n")
        if figures(prose):
            found.setdefault(heading.strip(), []).extend(figures(prose))
    return found


def key_of(heading: str, taken: set[str]) -> str:
    """Return a key for a table that stands under a heading."""
    short = "-".join(re.findall(r"[a-z0-9]+", heading.lower())[:5]) or "table"
    return next(key for key in (short, *(f"{short}-{k}" for k in range(2, 99))) if key not in taken)


def of_numbers(text: str) -> bool:
    """Whether a table is a table of results: a third of its cells begin with a number."""
    cells = [cell for row in table_of(text)[1:] for cell in row]
    return sum(bool(re.match(r"\W*\d", cell)) for cell in cells) * 3 >= len(cells)


def mark_tables(text: str, group: str, taken: set[str]) -> str:
    """Return a report whose tables of numbers are marked."""
    hidden = [span.span() for pattern in (MARKED, FENCED) for span in pattern.finditer(text)]
    shift = 0
    for found in list(TABLE.finditer(text)):
        if any(begin <= found.start() < end for begin, end in hidden) or not of_numbers(found[0]):
            continue
        headings = re.findall(r"^#+ (.*)$", text[: found.start() + shift], re.MULTILINE)
        key = key_of(headings[-1] if headings else group, taken)
        taken.add(key)
        new = f"<!-- {group}: {key} -->\n{found[0]}<!-- end of {group}: {key} -->\n"
        text = text[: found.start() + shift] + new + text[found.end() + shift :]
        shift += len(new) - len(found[0])
    return text


def adopt(evidence: Evidence, texts: dict[Path, str], day: str) -> list[str]:
    """Take changed values from the pages, in place; return what was taken."""
    changed: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for path, text in texts.items():
        name = path.relative_to(ROOT).as_posix()
        for group, about in evidence.items():
            if name in about.get("reports", ()):
                text = texts[path] = mark_tables(text, group, set(about["values"]))
                listed, prose = about.setdefault("prose", {}), by_heading(text)
                if name in listed and listed[name] != prose:
                    about["date"] = day
                listed[name] = prose
        for group, key, shown in MARKED.findall(text):
            if group not in evidence:
                raise SystemExit(f"{name}: docs/evidence.json has no group '{group}' (date, command, values)")
            kept, new = evidence[group]["values"].get(key), value_of(shown)
            if kept is None or words_of(kept, shown.startswith("\n")) != words_of(new, shown.startswith("\n")):
                before = changed.setdefault((group, key), (name, new))
                if before[1] != new:
                    raise SystemExit(f"'{group}: {key}' is stated in two ways, in {before[0]} and in {name}")
    for (group, key), (_, new) in changed.items():
        kept = evidence[group]["values"].get(key, {})
        own = {name: kept[name] for name in ("date", "commit", "command") if name in kept}
        if not kept or figures(words_of(kept, block=True)) != figures(words_of(new, block=True)):  # not only its words
            own = {"date": day} if evidence[group]["date"] != day else {}
            own |= {"command": kept["command"]} if "command" in kept else {}
        evidence[group]["values"][key] = own | new
    return [f"{group}: {key}" for group, key in changed]


def differences(evidence: Evidence) -> Iterator[str]:
    """Yield where pages and file differ."""
    stated = set()
    for path in pages():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        stated |= {(group, key) for group, key, _ in MARKED.findall(text)}
        for group, key, shown in MARKED.findall(text):
            kept = evidence.get(group, {}).get("values", {}).get(key)
            if kept is None:
                yield f"{name} states '{group}: {key}', which the file does not hold"
            elif words_of(kept, shown.startswith("\n")) != shown:
                yield f"{name} states '{group}: {key}' in another way than the file"
        for group, about in evidence.items():
            listed = about.get("prose", {}).get(name)
            if listed is not None and by_heading(text) != listed:
                yield f"the prose of {name} has other figures than the file lists for '{group}'"
    for group, about in evidence.items():
        for key in about["values"]:
            if (group, key) not in stated:
                yield f"no page states '{group}: {key}'"


def commit() -> str:
    """Return the commit that last changed what is measured, and whether it was changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments, "--", *MEASURED], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{ROOT} is no git checkout, so what was measured cannot be named: {done.stderr.strip()}")
        return done.stdout.strip()

    return git("log", "-1", "--format=%h") + (" with changes" if git("status", "--porcelain") else "")


def put(group: str, values: dict[str, str], day: str | None = None, of: str | None = None) -> None:
    """Keep values that a program has measured, as a page shows them; a block begins with a line break.

    The day (default today) and the commit (`of`, default the present one) are those of the group if all its values are
    new, and else those of each value.
    """
    evidence = load()
    if group not in evidence:
        raise SystemExit(f"docs/evidence.json has no group '{group}'; it has {', '.join(evidence)}")
    about, stamp = evidence[group], {"date": day or date.today().isoformat(), "commit": of or commit()}
    whole = set(values) >= set(about["values"])
    own = {} if whole or stamp.items() <= about.items() else stamp
    for key, text in values.items():
        command = {name: kept for name, kept in about["values"].get(key, {}).items() if name == "command"}
        about["values"][key] = own | command | value_of(text)
    if whole:
        head = {name: about[name] for name in ("about",) if name in about}
        evidence[group] = head | stamp | {name: kept for name, kept in about.items() if name not in {*head, *stamp}}
    save(evidence)


def write(evidence: Evidence) -> list[str]:
    """Write the numbers of the file into the pages; return which pages changed."""
    changed = []
    for path in pages():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        new = written(text, evidence, name)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(name)
    return changed


def main() -> None:
    """Write, check or adopt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", nargs="?", choices=["write", "adopt", "set"], default="write")
    parser.add_argument("value", nargs="*", help="of set: 'GROUP: KEY' and the words; of adopt: only these pages")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page and the file differ")
    parser.add_argument("--date", default=date.today().isoformat(), help="when the adopted numbers were measured")
    given = parser.parse_args()
    if given.do == "set":
        group, _, key = given.value[0].partition(": ")
        put(group, {key: " ".join(given.value[1:])}, given.date)
    evidence = load()
    if given.do == "adopt" and not given.check:
        wanted = [ROOT / name for name in given.value] or pages()
        texts = {path: path.read_text(encoding="utf-8") for path in wanted}
        for taken in adopt(evidence, texts, given.date):
            print(f"taken: {taken}")
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        save(evidence)
    if not given.check:
        for name in write(evidence):
            print(f"written: {name}")
    if found := list(differences(evidence)):
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
