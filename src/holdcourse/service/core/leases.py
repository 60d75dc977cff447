"""Which process holds which controller, where several share one database.

A process is a member: it says where it answers, and until when others shall wait for it, by the database's clock. A
controller is held by one member. Once the others need not wait for it any more, one of them takes the controller over,
under the next higher fence; whoever held it before can write nothing from then on (see `running.table_storage`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import uuid4

from holdcourse.errors import DatabaseUnreachable
from holdcourse.running.postgres import UNFINISHED, Database
from holdcourse.running.table_storage import lost

FORGOTTEN = "1 hour"  # after its lease a member that never came back is forgotten
RENEW = """
INSERT INTO holdcourse.members VALUES (%(id)s, %(address)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (id) DO UPDATE SET expires = excluded.expires
"""
ALIVE = "SELECT FROM holdcourse.members m WHERE m.id = c.holder AND m.expires > clock_timestamp()"
TAKE = f"""
UPDATE holdcourse.controllers c SET holder = %(id)s, fence = fence + 1
WHERE c.id = %(controller)s AND (c.holder IS NULL OR c.holder = %(id)s OR NOT EXISTS ({ALIVE})) RETURNING fence
"""
HOLDERS = f"""
SELECT c.id, c.fence, c.holder, m.address, EXISTS ({ALIVE})
FROM holdcourse.controllers c LEFT JOIN holdcourse.members m ON m.id = c.holder
WHERE EXISTS (SELECT FROM holdcourse.records r WHERE r.controller = c.id AND r.name NOT LIKE '{UNFINISHED}%%')
"""
MEMBERS = "SELECT id, address FROM holdcourse.members WHERE expires > clock_timestamp()"


@dataclass(frozen=True)
class Held:
    """Who holds a controller.

    Attributes
    ----------
    member, address
        The process, and where it answers; None: nobody holds it.
    is_waited_for
        Whether it has said lately that it is there.
    """

    fence: int
    member: str | None
    address: str | None
    is_waited_for: bool


class Leases:
    """What this process holds, and what it knows of the others.

    Parameters
    ----------
    address
        Where this process answers the others.
    seconds
        For how long others wait for a process that says nothing.

    Attributes
    ----------
    fences
        By controller, the number under which this process holds it.
    holders, members
        Who holds each controller, and where the processes that are there answer, as of the last look.
    """

    def __init__(self, database: Database, address: str, seconds: float) -> None:
        self.database, self.address, self.seconds = database, address, seconds
        self.id = uuid4().hex
        self.fences: dict[str, int] = {}
        self.holders: dict[str, Held] = {}
        self.members: dict[str, str] = {}
        self._renewed = float("-inf")
        self._lock = Lock()  # what is looked at must not change meanwhile

    def check_held(self, controller: str) -> None:
        """Raise unless this process is sure that no other one has taken the controller over."""
        if controller not in self.fences:
            raise lost(controller)
        if _now() - self._renewed >= self.seconds:
            raise DatabaseUnreachable(
                f"this process was stopped, or could not reach {self.database}, for {self.seconds:g} s; another one "
                f"may have taken over {controller}. This one answers again when it has made sure"
            )

    def join(self) -> None:
        """Be a member from now on; whoever answered at the same address before is not there any more."""
        self.database.do(
            lambda connection: connection.execute("DELETE FROM holdcourse.members WHERE address = %s", (self.address,))
        )
        self.renew()

    def renew(self) -> list[str]:
        """Say that this process is there, and look who else is; returns the controllers that it has lost."""
        began = _now()

        def renew(connection: Any) -> tuple[list[Any], list[Any]]:
            connection.execute(RENEW, {"id": self.id, "address": self.address, "seconds": self.seconds})
            connection.execute(
                "DELETE FROM holdcourse.members WHERE expires < clock_timestamp() - %s::interval", (FORGOTTEN,)
            )
            return connection.execute(HOLDERS).fetchall(), connection.execute(MEMBERS).fetchall()

        with self._lock:
            holders, members = self.database.do(renew)
            self._renewed = began
            self.members = dict(members)
            self.holders = _held(holders)
            gone = [name for name in self.fences if name in self.holders and not self._is_ours(name)]
            for name in gone:
                del self.fences[name]
            return gone

    def look(self, controller: str) -> Held | None:
        """See who holds a controller now; None: there is no such controller."""
        rows = self.database.rows(f"{HOLDERS} AND c.id = %s", controller)
        with self._lock:
            self.holders = {name: held for name, held in self.holders.items() if name != controller} | _held(rows)
            return self.holders.get(controller)

    def look_at_all(self) -> list[str]:
        """See who holds which controller; returns their names."""
        rows = self.database.rows(HOLDERS)
        with self._lock:
            self.holders = _held(rows)
            return list(self.holders)

    def others(self) -> list[str]:
        """Where all other processes answer that are there now."""
        return [address for member, address in self.database.rows(MEMBERS) if member != self.id]

    def take(self, controller: str) -> bool:
        """Hold a controller from now on, if nobody does or need be waited for; says whether this process holds it."""
        with self._lock:
            if controller not in self.fences:
                found = self.database.do(
                    lambda connection: connection.execute(TAKE, {"id": self.id, "controller": controller}).fetchone()
                )
                if found is None:
                    return False
                self.fences[controller] = int(found[0])
            return True

    def claim(self, controller: str) -> bool:
        """The same for a controller that may not be there yet."""
        self.database.do(
            lambda connection: connection.execute(
                "INSERT INTO holdcourse.controllers (id) VALUES (%s) ON CONFLICT DO NOTHING", (controller,)
            )
        )
        return self.take(controller)

    def release(self, controller: str) -> None:
        """Let another process hold a controller at once."""
        with self._lock:
            fence = self.fences.pop(controller, None)
            if fence is not None:
                self.database.do(
                    lambda connection: connection.execute(
                        "UPDATE holdcourse.controllers SET holder = NULL WHERE id = %s AND fence = %s",
                        (controller, fence),
                    )
                )

    def forget(self, controller: str, fence: int) -> None:
        """Take note that another process has taken a controller over."""
        with self._lock:
            if self.fences.get(controller) == fence:
                del self.fences[controller]

    def leave(self) -> None:
        """Say that this process is not there any more: others need not wait."""
        self._renewed = float("-inf")
        self.database.do(
            lambda connection: connection.execute("DELETE FROM holdcourse.members WHERE id = %s", (self.id,))
        )

    def address_of(self, controller: str) -> str | None:
        """Where a controller is held now, even one that is still in the making; None: nowhere."""
        found = self.database.rows(
            "SELECT m.address FROM holdcourse.controllers c JOIN holdcourse.members m ON m.id = c.holder "
            "WHERE c.id = %s AND c.holder <> %s",
            controller,
            self.id,
        )
        return found[0][0] if found else None

    def holder_of(self, controller: str) -> Held | None:
        """Who held a controller when that was last looked at; None: there is no such controller."""
        return self.holders.get(controller)

    def _is_ours(self, name: str) -> bool:
        found = self.holders[name]
        return found.member == self.id and found.fence == self.fences.get(name)


def _held(rows: list[Any]) -> dict[str, Held]:
    return {name: Held(fence, member, address, alive) for name, fence, member, address, alive in rows}


def _now() -> float:
    """Seconds that go on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
