"""What the sweep `database.toml` is about: knobs of a database, what changing them costs, and a policy of one's own."""

from __future__ import annotations

from typing import Any

import holdcourse as hc

RELOAD, RESTART = 0.5, 12.0  # milliseconds of latency, spread over one round


def change(before: dict[str, float], after: dict[str, float]) -> float:
    """What it costs to go from one setting to another."""
    if before["buffer_gb"] != after["buffer_gb"]:
        return RESTART
    return RELOAD if before["workers"] != after["workers"] else 0.0


def latency(knobs: dict[str, float], load: float) -> float:
    """Mean latency in milliseconds at a load between 0 and 1."""
    workers, buffer = knobs["workers"], knobs["buffer_gb"]
    waiting = 30.0 * max(0.0, load - workers / 20.0)  # too few workers: requests wait
    switching = 0.15 * workers * (1.0 - load)  # too many: they get in each other's way
    reading = 14.0 * load / buffer**0.7  # a small buffer reads from disk
    return 2.0 + waiting + switching + reading + 0.1 * buffer


def careful(problem: hc.Problem, patience: float, **learning: Any) -> hc.Policy:
    """Weighs a move more than it costs: a policy that a user might try."""
    return hc.proximal_lcb(problem, weight=patience, **learning)
