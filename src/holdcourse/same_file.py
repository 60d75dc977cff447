"""Whether a name still means the same file, without asking when it was changed.

Linux from 6.13 on gives a file finer times once somebody has asked for them, so that every later write has to note the
time on the disk: an ordinary `os.stat` between two commits makes the second one slower by a fifth. `statx` asks for the
identity alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

AT_FDCWD, STATX_INO = -100, 0x100
SIZE = 256  # bytes of struct statx; in its words of eight bytes stand
INODE, DEVICE = 4, 17


class SameFile:
    """A name, and the file that it meant when this was made."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._encoded, self._statx = os.fsencode(path), _statx()
        self._buffer = ctypes.create_string_buffer(SIZE)
        self._words = memoryview(self._buffer).cast("B").cast("Q")
        try:
            self._identity = self._found()
        except PermissionError:  # a sandbox that does not know the call
            self._statx = None
            self._identity = self._found()

    def is_there(self) -> bool:
        """Whether the name means that file; not for several threads at once."""
        try:
            return self._found() == self._identity
        except OSError:
            return False

    def _found(self) -> tuple[int, int]:
        if self._statx is None:
            found = os.stat(self.name)
            return found.st_dev, found.st_ino
        if self._statx(AT_FDCWD, self._encoded, 0, STATX_INO, self._buffer) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), self.name)
        return self._words[INODE], self._words[DEVICE]


@cache
def _statx() -> Callable[..., int] | None:
    """The call of the C library; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:  # quicker with than without
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    return function  # type: ignore[no-any-return]
