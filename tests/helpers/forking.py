"""Another process without the time that a program needs to start."""

from __future__ import annotations

import os
import traceback
import warnings
from typing import ClassVar


class Forked:
    """Work in another process, forked from this one: it has nothing to import, which is most of a program's time.

    The work hears and says lines through two files. Nothing that a program does at its end is done there; where that
    is the point, start a program.
    """

    _others: ClassVar[set[Forked]] = set()

    def __init__(self, work):
        (hear, tell), (listen, say) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(tell, "w", buffering=1), os.fdopen(listen)
        self.returncode = None
        with warnings.catch_warnings():  # of threads, which take no part in the work
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if self._process == 0:
            try:
                for other in (self, *self._others):  # or those would never hear that nobody says more
                    other.stdin.close()
                    other.stdout.close()
                with open(hear) as heard, open(say, "w", buffering=1) as said:
                    work(heard, said)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(hear)
        os.close(say)
        self._others.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        """Say no more, and wait until it has ended."""
        self._others.discard(self)
        self.stdin.close()
        self.stdout.close()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
