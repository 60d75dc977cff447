"""What the scripts of the gallery share: how their pictures look, and where these go."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

plt.style.use(Path(__file__).with_name("gallery.mplstyle"))


def save(figure: Figure) -> None:
    """Write the picture of the script that runs into the folder that its option --out names."""
    script = Path(sys.argv[0])
    parser = argparse.ArgumentParser(description=f"Draws {script.stem}.png.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture (default: demo)")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{script.stem}.png")
    print(f"picture: {folder / script.stem}.png")
