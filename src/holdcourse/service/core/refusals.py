"""What the service refuses, as types: a request that is not done, and why. How it is said over HTTP is decided there.

::

    Refusal
    ├── Unknown          there is no such controller, decision, round or file
    ├── RoundNeeded      several decisions may be pending, and the request does not say which is meant
    ├── EpochsArchived   a change would forget what was told in records that were moved away
    ├── ControllerPutAway  the controller is archived: it is only looked at
    ├── NotOpenYet       the controller is being opened
    ├── HeldElsewhere    another process holds the controller
    ├── Broken           the controller's record cannot be used
    ├── Interrupted      the service stopped before a job was finished
    ├── Cancelled        somebody cancelled a job
    ├── WorkerLost       the process that worked on a job ended
    ├── Busy             a client, or all of them together, have as much under way as they may
    └── ClientLeft       nobody waits for the answer any more

Where a request says something else than was said before, it is `holdcourse.errors.Conflict`.
"""

from __future__ import annotations

from holdcourse.errors import HoldcourseError


class Refusal(HoldcourseError):  # noqa: N818 - as the others
    """A request that is not done; nothing was changed."""


class Unknown(Refusal):
    """There is no such thing; `what` says of which kind."""

    def __init__(self, what: str, name: str, remedy: str) -> None:
        super().__init__(f"there is no {what} {name!r}; {remedy}")
        self.what = what


class RoundNeeded(Refusal):
    """Several decisions may be pending, and the request does not say which round it asks for."""


class EpochsArchived(Refusal):
    """A change would forget what was told in epochs whose records were moved away."""


class ControllerPutAway(Refusal):
    """The controller is archived: it can be looked at, and brought back."""


class NotOpenYet(Refusal):
    """The controller is being opened."""


class HeldElsewhere(Refusal):
    """Another process holds the controller; `address` is where it answers, if that is known."""

    def __init__(self, name: str, address: str | None) -> None:
        where = "another process" if address is None else address
        super().__init__(
            f"{name} is held by {where}, which cannot be reached from here now; another process takes over if it "
            "does not come back. Try again in a moment"
        )
        self.address = address


class Broken(Refusal):
    """The controller's record cannot be used."""


class Interrupted(Refusal):
    """The service stopped before a job was finished; nothing was changed."""


class Cancelled(Refusal):
    """Somebody cancelled a job; nothing was changed."""


class WorkerLost(Refusal):
    """The process that worked on a job ended, or something in it went wrong; nothing was changed."""


class Busy(Refusal):
    """A client, or all of them together, have as much under way as they may."""

    def __init__(self, words: str, whose: str) -> None:
        super().__init__(f"{words}, the most for {whose}; wait for an answer, or try again in a moment")


class ClientLeft(Refusal):
    """The client left before his request was done; nobody waits for the answer."""
