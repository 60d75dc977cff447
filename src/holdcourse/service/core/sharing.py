"""One process among several: it says that it is there, takes over what nobody holds, and hands over what is too much.

Every third of a lease it renews its own and looks at the others'. Each process takes its share of the controllers. One
that a request asks for is taken at once, whosever share it is, if nobody need be waited for.
"""

from __future__ import annotations

import asyncio
import logging
import math
from time import monotonic
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from holdcourse.errors import HoldcourseError
from holdcourse.service.core.leases import Held, Leases

if TYPE_CHECKING:
    from holdcourse.service.core.fleet import Fleet

logger = logging.getLogger("holdcourse.service")

AFTER_TROUBLE_S = 0.5
LOOK_EVERY_S = 0.1  # at most, for requests that do not find whom they look for


class Sharing:
    """Keeps the leases of this process, and finds out who answers for a controller."""

    def __init__(self, leases: Leases, fleet: Fleet) -> None:
        self.leases, self._fleet = leases, fleet
        self._threads = CapacityLimiter(2)
        self._looked, self._looking = -math.inf, asyncio.Lock()

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

    async def address_of(self, name: str) -> str | None:
        """Where a controller is answered for; None: here, or nowhere. One that nobody holds is taken over."""
        if name in self._fleet.slots:
            return None
        held = self.leases.holder_of(name)
        if held is None or not self._is_elsewhere(held):
            await self.look()
            held = self.leases.holder_of(name)
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
        await self.look()
        held = self.leases.holder_of(name)
        return held is not None and not self._is_elsewhere(held) and await self.take(name)

    async def look(self) -> None:
        """See who holds which controller, unless somebody has just looked."""
        async with self._looking:
            if monotonic() - self._looked > LOOK_EVERY_S:
                await run_sync(self.leases.look, limiter=self._threads)
                self._looked = monotonic()

    async def take(self, name: str) -> bool:
        """Hold a controller and open it; says whether this process holds it."""
        if not await run_sync(self.leases.take, name, limiter=self._threads):
            return False
        self._fleet.take_in(name)
        return True

    async def _spread(self) -> None:
        """Take what nobody holds, up to the share of this process, or hand over one that is beyond it."""
        share = math.ceil(len(self.leases.holders) / max(len(self.leases.members), 1))
        for name, held in sorted(self.leases.holders.items()):
            if name in self.leases.fences:
                self._fleet.take_in(name)  # one that could not be opened when it was due
            elif len(self.leases.fences) < share and not self._is_elsewhere(held):
                await self.take(name)
        if len(self.leases.fences) > share:
            idle = [name for name in sorted(self.leases.fences) if not self._fleet.is_busy(name)]
            for name in idle[:1]:  # one at a time: each is closed for a moment
                self._fleet.let_go(name)

    def _is_elsewhere(self, held: Held) -> bool:
        return held.is_waited_for and held.member != self.leases.id
