"""How many modules one ask passes through: whoever reads the way of a decision has to know them all."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

import holdcourse as hc

PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 8))
# How many modules, and how often its context is checked: by the request and the posterior, which are both public, and
# once more for each context to come that a plan looks at; of `recommended` by the baseline and the promise too.
WALKS = {"gp-md": (hc.gp_md, 19, 2), "planner": (hc.planner, 20, 8), "recommended": (hc.recommended, 23, 10)}


def walked(action):
    """The modules of ours whose functions run, each with its calls by function."""
    seen: dict[str, Counter[str]] = {}

    def look(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("holdcourse."):
            seen.setdefault(name, Counter())[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize(("make", "most", "checks"), WALKS.values(), ids=WALKS)
def test_an_ask_passes_few_modules(make, most, checks, tmp_path):
    """In a round like any other, with a record."""
    with hc.Controller(make(PROBLEM), log=tmp_path / "record") as controller:
        for t in range(5):
            controller.tell(controller.ask(context=[0.1 * t, 0.3]).id, 1.0)
        found = walked(lambda: controller.ask(context=[0.7, 0.3]))
    assert len(found) <= most, "\n".join(f"{name}: {dict(calls)}" for name, calls in sorted(found.items()))
    assert sum(calls["check_context"] for calls in found.values()) <= checks
