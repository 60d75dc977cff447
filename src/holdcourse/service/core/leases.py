"""Which process holds which controller, where several share one database.

A process is a member: it says where it answers, and until when others shall wait for it, by the database's clock. A
controller is held by one member. Once the others need not wait for it any more, one of them takes the controller over,
under the next higher fence; whoever held it before can write nothing from then on (see `running.table_storage`).

`Leases` is what the database says of that. `Sharing` is what a process does about it: every third of a lease it renews
its own and looks at the others'. Each process takes its share of the controllers, and hands over what is too much. One
that a request asks for is taken at once, whosever share it is, if nobody need be waited for.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from holdcourse.errors import DatabaseUnreachable, HoldcourseError
from holdcourse.running.postgres import UNFINISHED, Database
from holdcourse.running.table_storage import lost

if TYPE_CHECKING:
    from holdcourse.service.core.controllers import Controllers

logger = logging.getLogger("holdcourse.service")

AFTER_TROUBLE_S = 0.5
LEAVING, LEAVING_S = 100, 0.01  # how often, and how long, to wait for a controller that is being handed over
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
class Holder:
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
        self.holders: dict[str, Holder] = {}
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
                f"may have taken over {controller}. This one answers again once it knows"
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

    def look(self, controller: str) -> Holder | None:
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
        """Take over a controller that may not be there yet; says whether this process holds it."""
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

    def holder_of(self, controller: str) -> Holder | None:
        """Who held a controller when that was last looked at; None: there is no such controller."""
        return self.holders.get(controller)

    def _is_ours(self, name: str) -> bool:
        found = self.holders[name]
        return found.member == self.id and found.fence == self.fences.get(name)


def _held(rows: list[Any]) -> dict[str, Holder]:
    return {name: Holder(fence, member, address, alive) for name, fence, member, address, alive in rows}


def _now() -> float:
    """Seconds that go on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Sharing:
    """Keeps the leases of this process, and finds out who answers for a controller."""

    def __init__(self, leases: Leases, controllers: Controllers) -> None:
        self.leases, self._controllers = leases, controllers
        self._threads, self._lookers = CapacityLimiter(2), CapacityLimiter(4)

    async def keep(self) -> None:
        """Go on until cancelled."""
        is_cut_off = False
        while True:
            try:
                for name in await run_sync(self.leases.renew, limiter=self._threads):
                    logger.warning("%s was taken over by another process", name)
                    self._controllers.let_go(name)
                await self._spread()
                if is_cut_off:
                    logger.warning("%s answers again", self.leases.database)
                is_cut_off = False
                await asyncio.sleep(self.leases.seconds / 3)
            except HoldcourseError as error:
                if not is_cut_off:
                    logger.error("the lease of this process cannot be renewed: %s", error)
                is_cut_off = True
                await asyncio.sleep(min(AFTER_TROUBLE_S, self.leases.seconds / 3))
            except Exception:  # whatever it was: without leases this process would answer nothing any more
                logger.exception("the leases of this process cannot be kept")
                await asyncio.sleep(AFTER_TROUBLE_S)

    def is_here(self, name: str) -> bool:
        """Whether this process answers for a controller, and goes on doing so."""
        return name in self._controllers.slots and not self._controllers.is_leaving(name)

    async def address_of(self, name: str) -> str | None:
        """Where a controller is answered for; None: here, or nowhere. One that nobody holds is taken over."""
        for _ in range(LEAVING):
            if not self._controllers.is_leaving(name):
                break
            await asyncio.sleep(LEAVING_S)
        if name in self._controllers.slots:
            return None
        held = self.leases.holder_of(name)
        if held is None or not self._is_elsewhere(held):
            held = await run_sync(self.leases.look, name, limiter=self._lookers)
        if held is None:
            return None
        if not self._is_elsewhere(held) and await self.take(name):
            return None
        return held.address

    def is_at(self, name: str, address: str) -> bool:
        """Whether a controller was held at an address, by a process that is waited for, at the last look."""
        held = self.leases.holder_of(name)
        return held is not None and held.address == address and held.is_waited_for

    async def is_gone(self, name: str) -> bool:
        """Whether a holder that does not answer need not be waited for any more; then this process takes over."""
        held = await run_sync(self.leases.look, name, limiter=self._lookers)
        return held is not None and not self._is_elsewhere(held) and await self.take(name)

    async def take(self, name: str) -> bool:
        """Hold a controller and open it; says whether this process holds it."""
        if not await run_sync(self.leases.take, name, limiter=self._threads):
            return False
        self._controllers.open_here(name)
        return True

    async def _spread(self) -> None:
        """Take what nobody holds, up to the share of this process, or hand over one that is beyond it."""
        share = math.ceil(len(self.leases.holders) / max(len(self.leases.members), 1))
        mine = [name for name in self.leases.fences if name in self.leases.holders]  # the others are in the making
        for name, held in sorted(self.leases.holders.items()):
            if name in self.leases.fences:
                self._controllers.open_here(name)  # one that could not be opened when it was due
            elif len(mine) < share and not self._is_elsewhere(held) and await self.take(name):
                mine.append(name)
        if len(mine) > share:
            idle = [name for name in sorted(mine) if not self._controllers.is_busy(name)]
            for name in idle[:1]:  # one at a time: each is closed for a moment
                self._controllers.let_go(name)

    def _is_elsewhere(self, held: Holder) -> bool:
        return held.is_waited_for and held.member != self.leases.id
