"""Run all benchmarks, or those named: `python -m benchmarks [NAME ...]`. A report: slowness is no failure.

``--json FILE`` writes the rows for programs as well; `tools/measure.py` makes the tables of docs/benchmarks.md of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.timing import HEADINGS, Row

NOT_MEASURED = {"__main__", "dense_fit", "fleet_gpu", "timing"}
ALIGNED = {"ours", "peer's", "ratio", "bar"}  # to the right


def main(arguments: list[str]) -> int:
    known = sorted(
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in NOT_MEASURED
    )
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(known)}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in given.names or known:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"benchmarks.{name}").measure()
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    # Plain files get every column in full; a terminal gets what fits.
    Console(width=None if sys.stdout.isatty() else 160).print(table_of(rows))
    return 0


def table_of(rows: list[Row]) -> Table:
    table = Table(title="one thread, best of several turns")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ALIGNED else "left")
    for row in rows:
        table.add_row(*row.cells)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
