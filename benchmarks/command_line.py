"""How long `holdcourse --version` and `holdcourse --help` take, against what people wait without noticing."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import Row, best_of_each

ALLOWED_S = 0.3
TURNS = 15


def measure() -> list[Row]:
    asked = ("--version", "--help")
    seconds = best_of_each([lambda option=option: run(option) for option in asked], TURNS)
    return [
        Row(f"holdcourse {option}", ours, "allowed", ALLOWED_S, 1.0)
        for option, ours in zip(asked, seconds, strict=True)
    ]


def run(option: str) -> None:
    command = [sys.executable, "-c", "from holdcourse.cli import main; main()", option]
    subprocess.run(command, capture_output=True, check=True)
