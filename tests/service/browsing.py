"""A server that can be lost and regained, a machine that drives a controller, and a page that must not complain."""

from __future__ import annotations

import math
import re
import shutil
from contextlib import contextmanager
from urllib.parse import urlsplit

from service.running import Client, Process
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.service.core import tokens

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEIGHTS = [50.0 + 25.0 * i for i in range(11)]
KITE = {  # nothing is fitted, so a round is quick
    "actions": HEIGHTS,
    "scale": 0.004,
    "start_index": 2,
    "units": {"action": "m", "measurement": "kWh"},
    "options": {
        "kernel": hc.Kernel(RBF(75.0), RBF(2.0)).to_json(),
        "noise_std": 0.1,
        "prior_mean": 1.5,
        "context_bounds": [[0.0, 12.0]],
    },
}


class Server:
    """A server with tokens, in a process of its own, that starts again on the same files and port."""

    def __init__(self, folder):
        self.data, self.token_file = folder / "data", folder / "tokens.json"
        self.token = tokens.make(self.token_file, "tests", ["admin"], [tokens.EVERYTHING])[1]
        self.port = 0
        self.start()
        self.client = Client(self.url, self.token)

    def start(self):
        self.process = Process(self.data, "--token-file", str(self.token_file), port=self.port)
        self.url = self.process.url + "/"
        self.port = urlsplit(self.url).port

    def kill(self):
        with self.process as process:
            process.kill()

    def close(self):
        self.client.close()
        self.kill()


class Machine:
    """What a turbine's own program does: ask, fly, measure, tell."""

    def __init__(self, server, controller, /, made=False, **config):
        self.client, self.name, self.round = server.client, controller, 0
        if not made:
            self.client.create(**(KITE | {"id": controller} | config))

    def ask(self):
        wind = 6 + 3 * math.sin(self.round / 4)
        self.round += 1
        answer = self.client.do(self.name, "ask", context=wind)
        return {"decision": answer["decision"], "measurement": 1 + ((answer["value"] - 20 * wind) / 150) ** 2}

    def tell(self, told):
        self.client.do(self.name, "tell", **told)

    def run(self, rounds):
        for _ in range(rounds):
            self.tell(self.ask())

    def state(self):
        return self.client.see(self.name, "state")


@contextmanager
def page_of(browser, token, expected="$^", **options):
    """A fresh page; whatever it complains about, except what is expected, fails the test."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
    context.set_default_timeout(10_000)
    if token is not None:
        context.add_init_script(f"sessionStorage.setItem('holdcourse-token', '{token}')")
    page, complaints = context.new_page(), []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    unexpected = [text for text in complaints if not re.search(expected, text)]
    assert not unexpected, unexpected


def controller_page(page, server, name):
    """Open the page of a controller, and wait until it is live."""
    page.goto(f"{server.url}#/c/{name}")
    page.get_by_text("live", exact=True).wait_for()


# Texts whose contrast to what is behind them is less than 4.5 : 1 (WCAG 2.2, 1.4.3).
FAINT_TEXT = """() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const behind = (node) => {
    for (let e = node; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const contrast = (e) => {
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const written = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("body *")]
    .filter((e) => written(e) && e.checkVisibility() && !e.closest(".unseen") && contrast(e) < 4.5)
    .map((e) => e.textContent.trim().slice(0, 40));
}"""

# How many colours the field shows: axes and lines alone would be few.
COLOURS = """() => {
  const canvas = document.querySelector(".plot.field canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(data.slice(i, i + 3).join());
  return seen.size;
}"""
