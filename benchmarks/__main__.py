"""Run all benchmarks, or those named: `python -m benchmarks [name ...]`. A report: slowness is no failure."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.timing import Row

NOT_MEASURED = {"__main__", "dense_fit", "fleet_gpu", "timing"}


def main(names: list[str]) -> int:
    known = sorted(
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in NOT_MEASURED
    )
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in names or known:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"benchmarks.{name}").measure()
    # Plain files get every column in full; a terminal gets what fits.
    Console(width=None if sys.stdout.isatty() else 160).print(table_of(rows))
    return 0


def table_of(rows: list[Row]) -> Table:
    table = Table(title="one thread, best of several turns")
    table.add_column("what")
    table.add_column("ours", justify="right")
    table.add_column("peer")
    table.add_column("peer's", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("met")
    for row in rows:
        bar = "" if row.bar is None else f"{row.bar:g}x"
        met = {None: "", True: "yes", False: "no"}[row.met]
        ours, theirs = readable(row.ours_seconds), readable(row.peer_seconds)
        table.add_row(row.name, ours, row.peer_name, theirs, f"{row.ratio:.1f}x", bar, met)
    return table


def readable(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
