"""Long work on the page, in a real browser: a year of history, and a long record that is checked."""

from __future__ import annotations

import math
import re
import shutil

import numpy as np
import pytest
from service.browsing import Machine, Server, page_of

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

expect = playwright.expect
YEAR = 8760  # hours
LONG_MS = 60_000  # a busy machine fits, and compiles, for a while


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("page"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def year(length=YEAR):
    """The first hours of a chiller's year: load, outdoor temperature, the set-point that ran and its power."""
    rng, hours = np.random.default_rng(0), np.arange(YEAR)
    load = 60 + 25 * np.sin(2 * math.pi * hours / 24) + 6 * rng.normal(size=YEAR)
    outdoor = 12 + 10 * np.sin(2 * math.pi * hours / YEAR) + 2 * rng.normal(size=YEAR)
    setting = 6.0 + rng.integers(5, size=YEAR)
    power = 40 + 0.8 * load + outdoor + (setting - 6 - load / 30) ** 2 + rng.normal(size=YEAR)
    times = np.datetime64("2025-01-01T00", "h") + hours
    lines = ["time,load kW,outdoor C,setting C,power kW"]
    for time, *numbers in zip(times, load, outdoor, setting, power, strict=True):
        lines.append(",".join([f"{time}:00Z", *(f"{number:.2f}" for number in numbers)]))
    return "\n".join(lines[: 1 + length]) + "\n"


@pytest.mark.parametrize("hours", [YEAR // 4, pytest.param(YEAR, marks=pytest.mark.slow)])
def test_a_long_history_is_created_through_the_page(server, browser, tmp_path, hours):
    (tmp_path / "year.csv").write_text(year(hours))
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        page.get_by_role("button", name="New controller").click()
        dialog = page.get_by_role("dialog", name="New controller")
        dialog.get_by_label("From readings").check()
        dialog.get_by_label("File of readings").set_input_files(tmp_path / "year.csv")
        dialog.get_by_label("Column of the setting").select_option("setting C", timeout=LONG_MS)
        dialog.get_by_label("Column of what was measured").select_option("power kW")
        known = dialog.get_by_label("Known before each decision")
        known.fill("load kW, outdoor C")
        known.press("Tab")
        expect(dialog.get_by_text(f"{hours:,} readings")).to_be_visible(timeout=LONG_MS)
        dialog.get_by_label("Id").fill("chiller")
        dialog.get_by_label("What a move costs").fill("0.5")
        dialog.get_by_role("button", name="Create").click()
        bar = dialog.get_by_role("progressbar")
        expect(bar).to_be_visible()
        expect(dialog.get_by_text(re.compile(rf"fitting a model to {hours:,} measurements"))).to_be_visible(
            timeout=LONG_MS
        )
        page.screenshot(path=tmp_path / "creating.png")
        page.keyboard.press("Escape")
        expect(dialog).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text("chiller", timeout=LONG_MS)
        assert server.client.see("chiller", "config")["history_count"] == hours
        decision = server.client.do("chiller", "ask", context=[60.0, 12.0])
        server.client.do("chiller", "tell", decision=decision["decision"], measurement=100.0)
        expect(page.get_by_role("button", name="Explain round 0")).to_be_visible()


def test_a_creation_is_cancelled_on_the_page(server, browser, tmp_path):
    (tmp_path / "year.csv").write_text(year())
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        page.get_by_role("button", name="New controller").click()
        dialog = page.get_by_role("dialog", name="New controller")
        dialog.get_by_label("From readings").check()
        dialog.get_by_label("File of readings").set_input_files(tmp_path / "year.csv")
        dialog.get_by_label("Id").fill("nothing", timeout=LONG_MS)
        expect(dialog.get_by_text(f"{YEAR:,} readings")).to_be_visible(timeout=LONG_MS)
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("progressbar")).to_be_visible(timeout=LONG_MS)
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog.get_by_text("was cancelled; nothing was changed")).to_be_visible(timeout=LONG_MS)
        assert server.client.see("nothing", "state", status=404)
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()


def test_a_long_record_is_checked_on_the_page(server, browser, tmp_path):
    Machine(server, "kite").run(60)
    with page_of(browser, server.token) as page:
        page.goto(f"{server.url}#/c/kite")
        page.get_by_role("button", name="Check the record").click()
        expect(page.get_by_role("progressbar")).to_be_visible()
        page.screenshot(path=tmp_path / "checking.png")
        expect(page.get_by_text("The record is whole")).to_be_visible(timeout=LONG_MS)
        expect(page.get_by_text("all 60 decisions come out the same again")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_be_hidden()
