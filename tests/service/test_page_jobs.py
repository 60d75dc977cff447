"""Long work on the page, in a real browser: a year of history, and a long record that is checked."""

from __future__ import annotations

import math
import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from service.browsing import CHROMIUM, Machine, page_of
from service.running import wait_for

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

expect = playwright.expect
YEAR = 8760  # hours
LONG_MS = 60_000  # a busy machine fits, and compiles, for a while
expect.set_options(timeout=LONG_MS)


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


def begun_from_readings(page, server, folder, readings):
    """The dialog of a new controller, given a file of readings."""
    (folder / "year.csv").write_text(readings)
    page.goto(server.url)
    page.get_by_role("button", name="New controller").click()
    dialog = page.get_by_role("dialog", name="New controller")
    dialog.get_by_label("From readings").check()
    dialog.get_by_label("File of readings").set_input_files(folder / "year.csv")
    return dialog


def workers(server):
    """The processes in which a server does its jobs."""
    process = server.process.started.pid
    children = (path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(worker) for found in children for worker in found]


@contextmanager
def held_at(server, words):
    """A job held still from when it says so: a quick machine is done with it before a page has looked."""
    wait_for(lambda: any(words in job["words"] for job in server.client.get("/jobs").json()["jobs"]), words)
    held = workers(server)
    for worker in held:
        os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        for worker in held:
            os.kill(worker, signal.SIGCONT)


@pytest.mark.slow  # over HTTP it is tested in make test
@pytest.mark.parametrize("hours", [YEAR // 4, YEAR])
def test_a_long_history_is_created_through_the_page(server, browser, tmp_path, hours):
    with page_of(browser, server.token) as page:
        dialog = begun_from_readings(page, server, tmp_path, year(hours))
        dialog.get_by_label("Column of the setting").select_option("setting C", timeout=LONG_MS)
        dialog.get_by_label("Column of what was measured").select_option("power kW")
        known = dialog.get_by_label("Known before each decision")
        known.fill("load kW, outdoor C")
        known.press("Tab")
        expect(dialog.get_by_text(f"{hours:,} readings")).to_be_visible()
        dialog.get_by_label("Id").fill("chiller")
        dialog.get_by_label("What a move costs").fill("0.5")
        dialog.get_by_role("button", name="Create").click()
        bar = dialog.get_by_role("progressbar")
        fitting = f"fitting a model to {hours:,} measurements"
        with held_at(server, fitting):
            expect(bar).to_be_visible()
            expect(dialog.get_by_text(re.compile(fitting))).to_be_visible()
            page.screenshot(path=tmp_path / "creating.png")
            page.keyboard.press("Escape")
            expect(dialog).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text("chiller")
        assert server.client.see("chiller", "config")["history_count"] == hours
        decision = server.client.do("chiller", "ask", context=[60.0, 12.0])
        server.client.do("chiller", "tell", decision=decision["decision"], measurement=100.0)
        expect(page.get_by_role("button", name="Explain round 0")).to_be_visible()


def test_a_creation_is_cancelled_on_the_page(server, browser, tmp_path):
    with page_of(browser, server.token) as page:
        dialog = begun_from_readings(page, server, tmp_path, year())
        dialog.get_by_label("Id").fill("nothing", timeout=LONG_MS)
        expect(dialog.get_by_text(f"{YEAR:,} readings")).to_be_visible()
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("progressbar")).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog.get_by_text("was cancelled; nothing was changed")).to_be_visible()
        assert server.client.see("nothing", "state", status=404)
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_long_record_is_checked_on_the_page(server, browser, tmp_path):
    Machine(server, "kite").run(60)
    with page_of(browser, server.token) as page:
        page.goto(f"{server.url}#/c/kite")
        page.get_by_role("button", name="Check the record").click()
        expect(page.get_by_role("progressbar")).to_be_visible()
        page.screenshot(path=tmp_path / "checking.png")
        expect(page.get_by_text("The record is complete")).to_be_visible()
        expect(page.get_by_text("all 60 decisions come out the same when repeated")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_be_hidden()
