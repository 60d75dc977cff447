"""The pages of the documentation, and the Python in them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [page for page in WRITTEN if BLOCK.search(page.read_text(encoding="utf-8"))]


def code_of(page: Path) -> str:
    """All Python blocks of a page, one after the other."""
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
