"""Draw how the data flow, for docs/architecture.md. Boxes carry their own ground: legible on light and dark pages."""

from __future__ import annotations

import sys
from pathlib import Path

WIDTH, HEIGHT = 980, 700
LINE = "#8a8f98"
GROUNDS = {"given": "#fdf1d6", "learn": "#dcebf7", "decide": "#e3f2e6", "run": "#f4e1ec", "show": "#ececec"}

# kind, x, y, width, title, modules
BOXES = [
    ("given", 20, 20, 220, "actions, movement costs", "movement/problem  metric"),
    ("given", 740, 20, 220, "measurements so far", "learning/history"),
    ("decide", 20, 140, 220, "tree for the metric", "movement/tree"),
    ("learn", 740, 140, 220, "belief about the cost", "learning/kernels|fitting  posteriors"),
    ("decide", 285, 140, 195, "action", "deciding/rules|planning  hedge"),
    ("learn", 500, 140, 195, "one cost per action", "learning/costs|confidence"),
    ("decide", 270, 340, 440, "each round: look, decide, accept, learn", "deciding/pilot"),
    ("run", 120, 460, 340, "the real world: ask, tell", "running/controller  session  limits|events  log  audit"),
    ("run", 520, 460, 340, "a world of ours: rows, bills", "worlds/simulation  regret|movement/offline"),
    ("show", 120, 600, 340, "over HTTP, for people and machines", "service  client|bridge"),
    ("show", 520, 600, 340, "backtests, trials, sweeps, reports", "backtest  trials  experiments|wind  wakes"),
]
ARROWS = [
    ("M130 86 V140", "", 0, 0),
    ("M850 86 V140", "", 0, 0),
    ("M240 173 H285", "", 0, 0),
    ("M740 173 H695", "", 0, 0),
    ("M500 173 H480", "", 0, 0),
    ("M382 226 V340", "", 0, 0),
    ("M597 340 V226", "context", 606, 328),
    ("M710 373 H850 V226", "measurement", 730, 364),
    ("M350 406 V460", "action", 358, 440),
    ("M430 460 V406", "", 0, 0),
    ("M600 406 V460", "", 0, 0),
    ("M680 460 V406", "context, measurement", 690, 440),
    ("M290 546 V600", "", 0, 0),
    ("M690 546 V600", "", 0, 0),
]
FRAME = (270, 100, 440, 168, "deciding/policy, registry: a rule on a cost model")


def box(kind: str, x: int, y: int, width: int, title: str, modules: str) -> str:
    """A box with its title and the modules that do it."""
    lines = modules.split("|")
    height = 46 + 20 * len(lines)
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{GROUNDS[kind]}" stroke="{LINE}"/>']
    centre = x + width / 2
    parts.append(f'<text x="{centre}" y="{y + 25}" class="title">{title}</text>')
    parts += [
        f'<text x="{centre}" y="{y + 48 + 19 * k}" class="modules" xml:space="preserve">{line}</text>'
        for k, line in enumerate(lines)
    ]
    return "\n".join(parts)


def arrow(path: str, label: str, x: int, y: int) -> str:
    """A line with a head, and what travels along it."""
    drawn = f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#head)"/>'
    return drawn + (f'\n<text x="{x}" y="{y}" class="label">{label}</text>' if label else "")


def frame(x: int, y: int, width: int, height: int, title: str) -> str:
    """A dashed frame around several boxes."""
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return (
        f'<rect {place} rx="10" fill="#f6fbf7" stroke="{LINE}" stroke-dasharray="5 4"/>\n'
        f'<text x="{x + width / 2}" y="{y + 24}" class="modules">{title}</text>'
    )


def draw() -> str:
    """The whole picture."""
    style = "\n".join(
        [
            "text { font-family: system-ui, sans-serif; text-anchor: middle; fill: #1d2129; }",
            ".title { font-size: 15px; font-weight: 600; }",
            ".modules { font-size: 13px; font-family: ui-monospace, monospace; }",
            f".label {{ font-size: 14px; text-anchor: start; fill: {LINE}; }}",
        ]
    )
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{LINE}"/></marker>'
    )
    shapes = [frame(*FRAME), *(box(*item) for item in BOXES), *(arrow(*item) for item in ARROWS)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n<style>{style}</style>\n'
        f"<defs>{head}</defs>\n" + "\n".join(shapes) + "\n</svg>\n"
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "architecture.svg").write_text(draw(), encoding="utf-8")
