"""Load broken copies of wind files, in a fixed order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from helpers.wind_files import csv_text, mutated, new_cds, old_cds

from holdcourse.errors import HoldcourseError
from holdcourse.wind import load

LONGEST = 5.0  # seconds; a good file takes a hundredth of one


def originals(folder: Path) -> list[tuple[bytes, bool]]:
    """Four good files, and whether they are text."""
    header = (
        "#NORA3_wind_sub;LONGITUDE:1.32;LATITUDE:53.324\n#Variable_name;standard_name;long_name;units\n"
        "#wind_speed_10m;wind_speed;Wind speed;m/s\n"
    )
    nora = header + csv_text().replace("ws_", "wind_speed_").replace("T", " ").replace("Z", "")
    return [
        (csv_text().encode(), True),
        (new_cds(folder / "new.nc").read_bytes(), False),
        (nora.encode(), True),
        (old_cds(folder / "old.nc").read_bytes(), False),
    ]


def fuzz(folder: Path, numbers: Iterable[int]) -> Counter[str]:
    """How many broken files were read, and how many refused; anything else fails."""
    files = originals(folder)
    counts: Counter[str] = Counter()
    path = folder / "broken"
    for number in numbers:
        data, text = files[number % len(files)]
        path.write_bytes(mutated(data, np.random.default_rng([5, number]), text))
        begun = time.monotonic()
        outcome = _outcome(path)
        assert outcome in ("read", "refused"), f"file {number}: {outcome}"
        counts[outcome] += 1
        assert time.monotonic() - begun < LONGEST, f"file {number} took {time.monotonic() - begun:.1f} s"
    return counts


def _outcome(path: Path) -> str:
    """Either "read" or "refused", or what went wrong."""
    try:
        found = load(path)
    except HoldcourseError as error:
        good = path.name in str(error) and "\n" not in str(error)
        return "refused" if good else f"not one line that names the file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read" if np.isfinite(found.speed).any() else "no speed at all"
