"""How many modules one ask passes through: whoever reads the way of a decision has to know them all."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

import holdcourse as hc

MOST_MODULES = 20
CONTEXT_CHECKS = 2  # by the request and by the posterior, which are both public


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


@pytest.fixture
def asked(tmp_path):
    """The walk of one ask, in a round like any other, with a record."""
    with hc.Controller(hc.gp_md(hc.Problem(np.linspace(0.0, 1.0, 8))), log=tmp_path / "record") as controller:
        for t in range(5):
            controller.tell(controller.ask(context=[0.1 * t, 0.3]).id, 1.0)
        return walked(lambda: controller.ask(context=[0.7, 0.3]))


def test_an_ask_passes_few_modules(asked):
    assert len(asked) <= MOST_MODULES, "\n".join(f"{name}: {dict(calls)}" for name, calls in sorted(asked.items()))


def test_an_ask_checks_its_context_once_in_each_public_function(asked):
    assert sum(calls["check_context"] for calls in asked.values()) == CONTEXT_CHECKS
