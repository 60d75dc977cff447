"""Progress: nothing for what is quick or where nobody looks, else what is being done and the time left."""

from __future__ import annotations

import io
import logging
import time

import pytest
from rich.console import Console

import holdcourse as hc
from holdcourse.cli.progress import Working


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A terminal that can draw over what it has drawn."""
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(terminal: bool, patience: float, seconds: float, lines: float | None = None) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with Working("reading", console=console, patience=patience, lines=lines) as working:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            working.tell("gp-md", 1.0, 4.0)
            time.sleep(0.02)
    return file.getvalue()


def test_progress_comes_after_a_while_on_a_terminal():
    told = shown(terminal=True, patience=0.05, seconds=0.6)
    assert "gp-md" in told
    assert "25 %" in told
    assert "left" in told


def test_models_do_not_log_into_a_result(caplog):
    models = logging.getLogger("holdcourse.learning.posteriors")
    with Working("reading"):
        models.warning("960 weights are not enough")
    assert not caplog.records
    models.warning("960 weights are not enough")
    assert len(caplog.records) == 1


def test_nothing_is_said_of_what_is_quick():
    assert "gp-md" not in shown(terminal=True, patience=5.0, seconds=0.1)


def test_nothing_is_said_where_nobody_looks():
    assert shown(terminal=False, patience=0.0, seconds=0.2) == ""


def test_long_work_says_how_far_it_is_where_there_is_no_terminal():
    told = shown(terminal=False, patience=0.0, seconds=0.2, lines=0.05).splitlines()
    assert 1 <= len(told) <= 4
    assert told[0] == "gp-md: 25 % after 0 s, about 0 s left"
    assert "after" not in shown(terminal=True, patience=5.0, seconds=0.1, lines=0.01)


def test_a_verification_says_how_far_it_is(tmp_path):
    path, told = tmp_path / "valve.log", []
    with hc.Controller(hc.stationary(hc.Problem([0.0, 0.5, 1.0])), log=path) as controller:
        for _ in range(20):
            controller.tell(controller.ask().id, 1.0)
    assert hc.audit.verify(path, progress=lambda done, total: told.append((done, total))).verified
    assert told == [(16, 40), (32, 40)]
