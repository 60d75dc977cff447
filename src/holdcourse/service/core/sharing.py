"""One process among several: it says that it is there, takes over what nobody holds, and hands over what is too much.

Every third of a lease it renews its own and looks at the others'. Each process takes its share of the controllers. One
that a request asks for is taken at once, whosever share it is, if nobody need be waited for.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from holdcourse.errors import HoldcourseError
from holdcourse.service.core.leases import Held, Leases

if TYPE_CHECKING:
    from holdcourse.service.core.fleet import Fleet

logger = logging.getLogger("holdcourse.service")

AFTER_TROUBLE_S = 0.5
LEAVING, LEAVING_S = 100, 0.01  # how often, and how long, to wait for a controller that is being handed over


class Sharing:
    """Keeps the leases of this process, and finds out who answers for a controller."""

    def __init__(self, leases: Leases, fleet: Fleet) -> None:
        self.leases, self._fleet = leases, fleet
        self._threads, self._lookers = CapacityLimiter(2), CapacityLimiter(4)

    async def keep(self) -> None:
        """Go on until cancelled."""
        is_cut_off = False
        while True:
            try:
                for name in await run_sync(self.leases.renew, limiter=self._threads):
                    logger.warning("%s was taken over by another process", name)
                    self._fleet.let_go(name)
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
        return name in self._fleet.slots and not self._fleet.is_leaving(name)

    async def address_of(self, name: str) -> str | None:
        """Where a controller is answered for; None: here, or nowhere. One that nobody holds is taken over."""
        for _ in range(LEAVING):
            if not self._fleet.is_leaving(name):
                break
            await asyncio.sleep(LEAVING_S)
        if name in self._fleet.slots:
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
        self._fleet.open_here(name)
        return True

    async def _spread(self) -> None:
        """Take what nobody holds, up to the share of this process, or hand over one that is beyond it."""
        share = math.ceil(len(self.leases.holders) / max(len(self.leases.members), 1))
        mine = [name for name in self.leases.fences if name in self.leases.holders]  # the others are in the making
        for name, held in sorted(self.leases.holders.items()):
            if name in self.leases.fences:
                self._fleet.open_here(name)  # one that could not be opened when it was due
            elif len(mine) < share and not self._is_elsewhere(held) and await self.take(name):
                mine.append(name)
        if len(mine) > share:
            idle = [name for name in sorted(mine) if not self._fleet.is_busy(name)]
            for name in idle[:1]:  # one at a time: each is closed for a moment
                self._fleet.let_go(name)

    def _is_elsewhere(self, held: Held) -> bool:
        return held.is_waited_for and held.member != self.leases.id
