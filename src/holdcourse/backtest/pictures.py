"""How the pictures of a backtest look, for slides and papers; they need the extra [plot]."""

from __future__ import annotations

import importlib
from typing import Any

from holdcourse.errors import MissingExtra

INK, SOFT, GRID = "#14202b", "#55636f", "#d5dce2"
STYLE: dict[Any, Any] = {
    "font.size": 13,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


def check_pictures() -> None:
    """Raise `MissingExtra` unless pictures can be drawn."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise MissingExtra("pictures need matplotlib: pip install 'holdcourse[plot]'") from None


def can_draw() -> bool:
    """Return whether pictures can be drawn."""
    try:
        check_pictures()
    except MissingExtra:
        return False
    return True
