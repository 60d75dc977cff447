"""Draws the pictures of the gallery again: runs every script of `examples/` and keeps its picture small."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
COLOURS = 256  # as many as a small PNG can hold


def main() -> None:
    """Write docs/gallery/plot_*.png."""
    pictures = ROOT / "docs" / "gallery"
    pictures.mkdir(exist_ok=True)
    for script in sorted((ROOT / "examples").glob("plot_*.py")):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"MPLBACKEND": "Agg"}
            subprocess.run([sys.executable, script, "--out", folder], check=True, env=environment)
            with Image.open(Path(folder) / f"{script.stem}.png") as picture:
                small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(pictures / f"{script.stem}.png", optimize=True)


if __name__ == "__main__":
    main()
