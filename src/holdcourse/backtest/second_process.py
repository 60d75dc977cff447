"""Work done beside other work, in a process of its own, where the system can copy this one and has a second core."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class PendingCall(Generic[Result]):
    """A call that may be under way elsewhere; `result` waits for it, or makes it here."""

    def __init__(self, call: Callable[[], Result], receiver: Connection | None) -> None:
        self._call, self._receiver = call, receiver

    def result(self) -> Result:
        """Return what the call gives; where the other process gave nothing, it is made here, errors included."""
        if self._receiver is not None:
            try:
                done, given = self._receiver.recv()
            except (EOFError, OSError):
                done, given = False, None
            if done:
                found: Result = given
                return found
        return self._call()


@contextmanager
def second_process(call: Callable[[], Result], *, worthwhile: bool = True) -> Iterator[PendingCall[Result]]:
    """Begin a call in a copy of this process, to be ended with the block; at once where there is no second core."""
    if not worthwhile or sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        yield PendingCall(call, None)
        return
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(call, sender), daemon=True)
    process.start()
    sender.close()
    try:
        yield PendingCall(call, receiver)
    finally:
        receiver.close()
        process.terminate()
        process.join()


def _work(call: Callable[[], Any], sender: Connection) -> None:
    try:
        sender.send((True, call()))
    except Exception:  # made again in the first process, where it is told
        sender.send((False, None))
    sender.close()
