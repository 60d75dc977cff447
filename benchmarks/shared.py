"""Durable rounds over HTTP with records in PostgreSQL, beside records in files: one server, and two that share them.

The database, the servers and the clients share the cores of one machine, so this shows what a round costs more, not
what more machines bring. The database syncs every commit to the disk, as the files do. Of the requests to two servers
half are sent on to the other one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import holdcourse as hc
from benchmarks.service import ROUNDS, config, served
from benchmarks.timing import Row, best_of_each

CLIENTS = (1, 8)


def measure() -> list[Row]:
    from tests.helpers.postgres import Postgres, binaries

    if binaries() is None:
        print("shared: PostgreSQL's server is not installed, its rows are left out", file=sys.stderr)
        return []
    database = Postgres(quick=False)
    try:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, ExitStack() as stack:
            address, both = database.database(), database.database()
            file, one = (stack.enter_context(served(place)) for place in (Path(folder) / "data", address))
            two = [stack.enter_context(served(both)) for _ in range(2)]
            kinds = {"files": [file], "PostgreSQL": [one], "PostgreSQL, two servers": two}
            functions = [clients(urls, count) for count in CLIENTS for urls in kinds.values()]
            best = best_of_each(functions, repeats=5)
    finally:
        database.close()
    rows = []
    for k, count in enumerate(CLIENTS):
        own, *others = best[k * len(kinds) : (k + 1) * len(kinds)]
        for name, seconds in zip(list(kinds)[1:], others, strict=True):
            who = f"{count} client{'s' if count > 1 else ''}"
            what = f"HTTP ask + tell over {name}, {who}: {ROUNDS / seconds:.0f}/s"
            rows.append(Row(what, seconds / ROUNDS, f"over files, {ROUNDS / own:.0f}/s", own / ROUNDS))
    return rows


def clients(urls: list[str], count: int) -> Callable[[], object]:
    """All rounds of a turn, shared among so many clients, each of which asks one of the servers."""
    controllers = []
    for number in range(count):
        service = hc.connect(urls[number % len(urls)])
        controllers.append(service.create(config(f"c{count}-{number}", 25)))
    if len(urls) > 1:  # as behind a load balancer: whom they ask is not always who holds their controller
        elsewhere = [hc.connect(url) for url in urls]
        controllers = [elsewhere[k // 2 % len(urls)].controller(each.id) for k, each in enumerate(controllers)]
    pool = ThreadPoolExecutor(count)

    def drive(controller: hc.RemoteController) -> None:
        for t in range(ROUNDS // count):
            decision = controller.ask(t % 10 / 10)
            controller.tell(decision.id, 1.0)

    return lambda: list(pool.map(drive, controllers))
