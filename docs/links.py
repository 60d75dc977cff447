"""Find links of the built documentation that lead nowhere: to a page, a file or a part of a page that is not there.

python docs/links.py docs/_build/html   # prints each of them, and fails if there is one

Without a network: what stands on other hosts is not looked at. The documentation tool itself finds broken links between
the pages as they are written; this finds those that appear when pages are made, such as those of the HTTP reference.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page of HTML points to, and the places in it that can be pointed to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        given = dict(attrs)
        self.places.update(found for key in ("id", "name") if (found := given.get(key)))
        self.targets += [found for key in ("href", "src") if (found := given.get(key))]


def broken(folder: Path) -> list[str]:
    """Return a line for every link of the pages in a folder that leads nowhere within it."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    complaints = []
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            leads_to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            missing = not leads_to.is_file() or folder.resolve() not in leads_to.parents
            if missing or (place and leads_to in pages and place not in pages[leads_to].places):
                complaints.append(f"{path.relative_to(folder.resolve())} links to {target}, which is not there")
    return complaints


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        raise SystemExit(__doc__)
    found = broken(Path(sys.argv[1]))
    print("\n".join(found) or "every link within the pages leads somewhere")
    sys.exit(bool(found))
