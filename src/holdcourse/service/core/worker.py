"""The process that does long work for the service: it makes first records, verifies, and plans trials.

A process of its own and not a thread, so that the asks and tells of all controllers go on meanwhile. It takes one piece
of work at a time, as a line of JSON; says how far it is, and at the end what came of it, as lines of JSON. It gives no
record its name: what it wrote counts only once the server says so. When the server is gone, so is the process.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from holdcourse.errors import Conflict, HoldcourseError, computing, counted, log_error
from holdcourse.running.events import Author, Settings, from_plain, plain

Tell: TypeAlias = Callable[[float, str], None]  # share that is done, and what is being done

NICE = 10  # decisions go before long work
FITTED = 0.85  # of making a record, once its model is fitted
READ = 0.05  # ... and once a table is read


def create(given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Write the first record of a controller, without a name; where none is wanted, only read what was asked for."""
    from holdcourse.learning.fitting.search import followed
    from holdcourse.service.core import configuration, epochs
    from holdcourse.service.core.data_folder import DataFolder
    from holdcourse.service.core.readings import with_readings
    from holdcourse.service.core.requests import Config

    config = Config.model_validate_json(given["config"])
    if config.readings is not None:
        tell(0.0, "reading the table")
        config = with_readings(config)
    settings = configuration.settings_of(config)
    if given["unfinished"] is None:
        return {"settings": plain(settings)}
    unfinished, fits = Path(given["unfinished"]), 0
    count = counted(settings.history_count, "measurement")

    def fitting(share: float) -> None:
        nonlocal fits
        # Nobody knows beforehand how often a model is fitted: each time it is half of the way that is left.
        tell(READ + (FITTED - READ) * (1 - 0.5**fits * (1 - share / 2)), f"fitting a model to {count}")
        fits += share == 1

    try:
        with computing():
            tell(READ, f"looking through {count}")
            history = configuration.history_of(config, lambda: configuration.problem_of(settings))
            store = DataFolder.of_running_server(Path(given["folder"]))
            author = None if given["author"] is None else from_plain(Author, given["author"], "the author")
            with followed(fitting):
                epochs.begin(store, settings, history, author, configuration.policy_file_of(config), unfinished)
    except HoldcourseError:
        raise
    except OSError as error:
        raise log_error(f"cannot begin a record in {unfinished.parent}: {error}", error) from error
    tell(0.95, "opening the record")
    return {"settings": plain(settings)}


def verify(given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Check that records are whole, and decide again."""
    from holdcourse.service.core.inspection import verified

    return verified([Path(path) for path in given["paths"]], given["full"], tell)


def plan(given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Plan a trial of a controller's policy, in a world fitted to all that it was told."""
    from holdcourse.service.core.data_folder import DataFolder
    from holdcourse.service.core.planning import planned

    settings = from_plain(Settings, given["settings"], "the settings")
    return planned(DataFolder.of_running_server(Path(given["folder"])), settings, given["wanted"], tell)


WORK: Mapping[str, Callable[[Mapping[str, Any], Tell], dict[str, Any]]] = {
    "create": create,
    "verify": verify,
    "plan": plan,
}


def main() -> None:
    """Work until the server closes the line."""
    with suppress(AttributeError, OSError):  # not on every system
        os.nice(NICE)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to the server's log, not among the answers
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()

    def say(**said: Any) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    while True:
        asked = json.loads(lines.get())
        try:
            result = WORK[asked["work"]](asked["given"], lambda share, words: say(progress=share, words=words))
        except HoldcourseError as error:
            say(error=_error(error))
        except Exception as error:
            traceback.print_exc()
            say(error={"type": None, "message": f"{type(error).__name__}: {error}"})
        else:
            say(result=result)


def _listen(lines: queue.SimpleQueue[bytes]) -> None:
    """Hand on what comes; when nothing can come any more the server is gone, and what is done here is for nobody."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _error(error: HoldcourseError) -> dict[str, Any]:
    """Return what was refused, so that the server can raise the same."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__.startswith("holdcourse"))
    said: dict[str, Any] = {"type": kind.__name__, "message": str(error)}
    if isinstance(error, Conflict):
        said |= {"recorded": error.recorded, "given": error.given}
    return said
