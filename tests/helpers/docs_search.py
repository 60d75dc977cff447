"""The search of the documentation, in a browser that has the pages as files only."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from urllib.parse import quote

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ALONE = ("--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")


@contextmanager
def searching(page):
    """Yield a function that searches on the page of results, a file, and returns (address, excerpt, other links)."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(ALONE))
        tab = browser.new_page()
        complaints = []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)

        def search(query):
            tab.goto(f"{page.as_uri()}?q={quote(query)}")
            assert not complaints
            return tab.eval_on_selector_all(
                "ol.found > li",
                """all => all.map(one => [one.querySelector("a").getAttribute("href"),
                   one.querySelector(".excerpt").textContent,
                   [...one.querySelectorAll(".also a")].map(link => link.getAttribute("href"))])""",
            )

        search.tab = tab
        yield search
        browser.close()
