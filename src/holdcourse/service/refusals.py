"""What is refused, and how that is said over HTTP: always ``{"error": {"code": ..., "message": ...}}``."""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from holdcourse.errors import Conflict, DamagedFile, HoldcourseError, InvalidInput, NoActionLeft, TooLarge
from holdcourse.log import LogError

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
logger = logging.getLogger("holdcourse.service")


class Refusal(HoldcourseError):  # noqa: N818 - as the others
    """A request that is not done: HTTP status, code, message, and what else the answer holds."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


def conflict(message: str, recorded: Any, given: Any) -> Refusal:
    """Said before and said now do not agree."""
    return Refusal(409, "conflict", message, recorded=recorded, given=given)


def unknown(what: str, name: str, remedy: str) -> Refusal:
    """There is no such thing."""
    return Refusal(404, f"unknown_{what}", f"there is no {what} {name!r}; {remedy}")


def as_refusal(error: HoldcourseError) -> Refusal:
    """What an error of the library means over HTTP."""
    message = str(error)
    match error:
        case Refusal():
            return error
        case Conflict():
            return conflict(message, error.recorded, error.given)
        case NoActionLeft():
            return Refusal(422, "no_action_left", message)
        case InvalidInput() | TooLarge():
            return Refusal(422, "invalid", message)
        case LogError() if is_full(error) or "make room" in message:
            remedy = "" if "make room" in message else "; make room, and send the request again"
            return Refusal(507, "disk_full", message + remedy)
        case DamagedFile():
            return Refusal(503, "broken", message)
        case _:
            logger.error("%s", message)
            return Refusal(503, "unavailable", message)


@contextmanager
def computing() -> Iterator[None]:
    """Numbers that nobody can compute with are the client's mistake, not ours."""
    try:
        yield
    except HoldcourseError:
        raise
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError, np.linalg.LinAlgError) as error:
        logger.warning("refused as not computable", exc_info=error)  # in case it is our mistake after all
        raise Refusal(422, "cannot_compute", f"these numbers cannot be computed with: {error}") from error


def is_full(error: BaseException) -> bool:
    """Whether the disk (or its quota, or a limit on file size) is at the root of an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL:
            return True
        if isinstance(cause, sqlite3.Error) and ("full" in str(cause) or "I/O" in str(cause)):
            return True
        cause = cause.__cause__
    return False
