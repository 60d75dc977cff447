"""Write a version everywhere it stands: pyproject.toml, CITATION.cff and the head of the changelog.

python tools/set_version.py 0.1.0        # the release, dated today
python tools/set_version.py 0.2.0.dev0   # what comes after it: a new section, unreleased
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+(\.dev0)?")


def changed(text: str, pattern: str, replacement: str, where: str) -> str:
    """The text with the one place that matches replaced."""
    found, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"{where} has {count} lines like {pattern!r}, and should have one")
    return found


def set_version(root: Path, version: str, today: datetime.date) -> None:
    """Nothing is written unless every place is found."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"{version!r} is no version; write it as 0.1.0, or 0.2.0.dev0 for what is not released")
    number, _, unreleased = version.partition(".dev")
    project, citation, changelog = (root / name for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"))
    log = changelog.read_text(encoding="utf-8")
    if not unreleased:
        log = changed(log, rf"^## {re.escape(number)} - unreleased$", f"## {number} - {today}", "CHANGELOG.md")
    elif not re.search(rf"^## {re.escape(number)} ", log, re.MULTILINE):
        log = log.replace("\n## ", f"\n## {number} - unreleased\n\n## ", 1)
    texts = {
        project: changed(
            project.read_text(encoding="utf-8"), r'^version = ".*"$', f'version = "{version}"', project.name
        ),
        citation: changed(citation.read_text(encoding="utf-8"), r"^version: .*$", f"version: {version}", citation.name),
        changelog: log,
    }
    dated = "" if unreleased else f"date-released: {today}\n"
    texts[citation] = re.sub(r"^date-released: .*\n", "", texts[citation], flags=re.MULTILINE)
    texts[citation] = texts[citation].replace(f"version: {version}\n", f"version: {version}\n{dated}", 1)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    set_version(ROOT, sys.argv[1], datetime.date.today())
