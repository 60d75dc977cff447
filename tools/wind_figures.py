"""Measures again what the README and the documentation say about wind, and writes it there.

    python tools/wind_figures.py            flies everything (some minutes), and writes the texts and the picture
    python tools/wind_figures.py --check    writes nothing, and fails where a text would change

The texts are kept in docs/evidence.json; `tools/evidence.py` writes them into the pages, where these are marked.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import evidence
from PIL import Image

from holdcourse.wind import bundled, machine
from holdcourse.wind.backtest.run import Plan, SiteResult, run_backtest

ROOT = Path(__file__).parents[1]
MACHINES = "docs/how-to/wind-machines.md"
TWO_YEARS, HALF_YEAR = "2009-01-01", "2010-07-01"


@cache
def flown(name: str, movement: str, begin: str = TWO_YEARS, cut_out: float | None = None) -> SiteResult:
    """Fly the bundled wind from some day on with everything before it as history."""
    found = machine(name)
    found = replace(found, curve=found.curve.within(None, cut_out))
    plan = Plan(machine=found, movement=movement, begin=begin, policies=("fixed", "wind-planner"), what_if=())
    return run_backtest(bundled("all"), plan=plan)


def gain(result: SiteResult) -> str:
    """Say what `wind-planner` gained over the fixed altitude."""
    line = result.backtest.line("wind-planner")
    return f"{line.gain:+.1f} % (95 % interval {line.gain_low:+.1f} to {line.gain_high:+.1f})"


ANSWERS = {
    "yes": "it pays",
    "no": "it does not pay",
    "undecided": "this record cannot tell whether it pays",
    "stayed": "the policy finds nothing worth a move and stays",
}


def paragraph(text: str, **options: str) -> str:
    """Break a text into lines as the documentation has them."""
    return textwrap.fill(text, 140, break_long_words=False, break_on_hyphens=False, **options)


def prices(machines: str) -> str:
    """Say what the SkySails kite gains in two years at both prices of moving; `machines` is the page about machines."""
    cheap, costly = flown("skysails", "physical"), flown("skysails", "paper")
    low, high = cheap.backtest.world.climb, costly.backtest.world.climb
    return (
        f"At {1000 * low:.1f} Wh a metre, the physical price, {ANSWERS[cheap.backtest.verdict]}: {gain(cheap)} more "
        f"net energy than at the best altitude of the year before. At sixty times that, {high:.2f} kWh, as the paper "
        f"prints it, {ANSWERS[costly.backtest.verdict]}: {gain(costly)}. The kite was measured up to 15.4 m/s; that it "
        f"holds its power up to 20 m/s and then makes none is assumed, and [it matters]({machines}#which-wind)."
    )


def caption() -> str:
    """Write the words below the picture of the README."""
    cheap, costly = flown("skysails", "physical"), flown("skysails", "paper")
    return paragraph(
        "*Two years of real wind (NORA3, MET Norway), and a SkySails kite that measures it only where it flies. "
        "Whether changing altitude pays depends on what a metre of climb costs. At "
        f"{1000 * cheap.backtest.world.climb:.1f} Wh, the physical price, {ANSWERS[cheap.backtest.verdict]}: "
        f"{gain(cheap)} more net energy than the best altitude of the year before. At sixty times that, "
        f"{ANSWERS[costly.backtest.verdict]}: {gain(costly)}. [How it was measured, and what was "
        "assumed](docs/how-to/wind-backtest.md); drawn by [examples/plot_wind_site.py](examples/plot_wind_site.py).*"
    )


def gallery() -> str:
    """Write the same for the gallery."""
    return paragraph(
        "Two years of real wind, measured only where a SkySails kite flies, flown by the wind policy of `holdcourse "
        f"demo`. {prices(MACHINES.removeprefix('docs/'))} "
        "[Script](../examples/plot_wind_site.py); [how the policy works](theory/wind-in-time.md)."
    )


def scope() -> str:
    """Write what is not promised."""
    paper = flown("textbook", "paper", HALF_YEAR)
    return paragraph(
        "- **That it pays.** At the bundled wind site, with the paper's machine and its price of moving, half a year "
        f"[leaves it open](how-to/wind-backtest.md): {gain(paper)}. The tools say so.",
        subsequent_indent="  ",
    )


def demo() -> str:
    """Run the demo as a user does, and keep its table and answers."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from holdcourse.cli import main; main()", "demo", "--out", "demo"]
        wide = os.environ | {"COLUMNS": "110"}
        done = subprocess.run(command, cwd=folder, env=wide, capture_output=True, text=True, check=True)
    kept = []
    telling = True
    for line in done.stdout.splitlines():
        telling = (telling or not line.strip() or line.startswith("report:")) and not re.match(
            r"data( \(.*\))?: ", line
        )
        if telling:
            kept.append(line.rstrip())
    return "```text\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n```"


def knowing() -> str:
    """Write what knowing more is worth, for every machine and price."""
    rows = [
        "| machine, price of moving | plain, kWh a year | + lidar | + forecast | + both | hindsight |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("skysails", "awe-power-150", "v3", "textbook"):
        for movement in ("physical", "paper"):
            found = flown(name, movement, HALF_YEAR).bankable
            assert found is not None
            base = float(found.energies("ours").mean())
            cells = [f"{more:+,.0f} ({100 * more / base:+.1f} %)" for more in found.worth_knowing.values()]
            rows.append(f"| `{name}`, {movement} | {base:,.0f} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def periods() -> str:
    """Write the gain by machine, price and length of the record."""
    rows = ["| machine | price of moving | half a year | a year | two years |", "|---|---|---|---|---|"]
    for name in ("skysails", "textbook"):
        for movement in ("physical", "paper"):
            cells = []
            for begin in (HALF_YEAR, "2010-01-01", TWO_YEARS):
                line = flown(name, movement, begin).backtest.line("wind-planner")
                cells.append(f"{line.gain:+.1f} % ({line.gain_low:+.1f} to {line.gain_high:+.1f})")
            rows.append(f"| `{name}` | {movement} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def storms() -> str:
    """Write what the gain of SkySails depends on above the winds in which it was measured."""
    rows = ["| above 15.4 m/s the kite makes | physical price | paper's price |", "|---|---|---|"]
    for words, cut_out in (
        ("nothing", 15.4),
        ("its last power up to 20 m/s (as bundled)", None),
        ("its last power up to 25 m/s", 25.0),
        ("its last power in any storm", 80.0),
    ):
        cells = [gain(flown("skysails", movement, TWO_YEARS, cut_out)) for movement in ("physical", "paper")]
        rows.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


BLOCKS = {
    "caption": caption,
    "gallery": gallery,
    "scope": scope,
    "demo": demo,
    "periods": periods,
    "knowing": knowing,
    "storms": storms,
}
# Single numbers, for pages that state only the headline.
NUMBERS = {
    "skysails-physical": lambda: gain(flown("skysails", "physical")),
    "textbook-paper": lambda: gain(flown("textbook", "paper", HALF_YEAR)),
}


def draw() -> None:
    """Draw the picture of the README again."""
    script = ROOT / "examples" / "plot_wind_site.py"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, script, "--out", folder], check=True, env=os.environ | {"MPLBACKEND": "Agg"})
        with Image.open(Path(folder) / f"{script.stem}.png") as picture:
            small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            small.save(ROOT / "docs" / "gallery" / f"{script.stem}.png", optimize=True)


def main() -> None:
    """Measure and write, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a text would change")
    parser.add_argument("--only", metavar="NAME", action="append", help="only these blocks, or 'picture'")
    given = parser.parse_args()
    kept, changed, measured = evidence.load()["wind"]["values"], [], {}
    for name, measure in (BLOCKS | NUMBERS).items():
        if given.only and name not in given.only:
            continue
        block = name in BLOCKS
        measured[name] = f"\n{measure()}\n" if block else measure()
        same = name in kept and evidence.words_of(kept[name], block) == measured[name]
        changed += [] if same else [name]
        print(f"{'the same' if same else 'differs'}: {name}", flush=True)
    if not given.check:
        today = date.today()
        evidence.put("wind", measured | {"measured": f"{today.day} {today:%B %Y}"})
        evidence.write(evidence.load())
    if not given.check and (not given.only or "picture" in given.only):
        draw()
    if given.check and changed:
        raise SystemExit("these would change: " + "; ".join(changed))


if __name__ == "__main__":
    main()
