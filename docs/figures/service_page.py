"""Photograph the page of the service: a week of an air handler, as an operator sees it. Needs Chromium, Playwright."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import holdcourse as hc

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HANDLER = {
    "id": "air-handler",
    "name": "Air handler, north wing",
    "actions": [18.0, 20.0, 22.0, 24.0, 26.0],
    "scale": 0.5,
    "start": 22.0,
    "units": {"action": "°C", "measurement": "kWh", "contexts": ["°C"]},
    "context_names": ["outdoor"],
    "limits": {"max_step": 4},
    "mode": "act",
}


def run_a_week(url: str) -> None:
    """Ask and tell for 168 rounds. The true cost is that of the example on the first page, with a noisy meter."""
    handler = hc.connect(url).create(HANDLER)
    rng = np.random.default_rng(0)
    for hour in range(7 * 24):
        outdoor = round(15.0 + 8.0 * math.sin(hour * math.pi / 12) + rng.normal(0.0, 1.0), 1)
        decision = handler.ask(context=outdoor)
        cost = 10.0 + 0.1 * (decision.value - 30.0 + 0.5 * outdoor) ** 2 + rng.normal(0.0, 0.2)
        handler.tell(decision.id, round(cost, 2))


def photograph(url: str, path: Path) -> None:
    """Save what the page shows of the controller, round by round."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1104})
        page.goto(f"{url}/#/c/{HANDLER['id']}")
        page.get_by_text("live", exact=True).wait_for()
        page.locator("select", has_text="rounds").filter(has_text="time").select_option(label="rounds")
        page.get_by_role("heading", name=re.compile("^Why ")).wait_for()
        page.wait_for_timeout(2000)  # the colours behind the settings are computed
        page.screenshot(path=path)
        browser.close()
    with Image.open(path) as picture:  # a third of the bytes
        picture.convert("RGB").quantize(128).save(path, optimize=True)


def main(folder: Path) -> None:
    """Run the service on records of its own for as long as it takes."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "holdcourse", "serve", "--data", data, "--port", "0"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://\S+", service.stdout.readline())[0]
            run_a_week(url)
            photograph(url, folder / "service-page.png")
        finally:
            service.terminate()
            service.wait(30)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent)
