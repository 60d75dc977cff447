"""The application: the parts of the service that know HTTP, put together over a data folder."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import holdcourse as hc
from holdcourse.errors import HoldcourseError
from holdcourse.running.witness import Witness
from holdcourse.service.core.clients import Broadcast
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.fleets import HostedFleets
from holdcourse.service.core.notices import NotifyFile
from holdcourse.service.core.notifications import notifier_of
from holdcourse.service.core.status import Clock
from holdcourse.service.core.store import Store
from holdcourse.service.core.tokens import Keyring, Token
from holdcourse.service.http import errors, fleets, jobs, notifications, openapi, rounds, routes
from holdcourse.service.http.admission import Gateway
from holdcourse.service.http.forwarding import Forwarding, Peers

logger = logging.getLogger("holdcourse.service")


def create_app(
    data: Path | Store,
    token_file: Path | None = None,
    clock: Clock | None = None,
    witness: Witness | None = None,
    notify: NotifyFile | None = None,
) -> FastAPI:
    """Return the service over a data folder, or over records that several processes share.

    Without a token file everybody who reaches it may do everything.
    """
    keyring = None if token_file is None else Keyring(token_file, clock)
    store = DataFolder(data) if isinstance(data, Path) else data
    controllers = Controllers(store, Broadcast(), clock, witness)
    hosted_fleets = HostedFleets(controllers, witness)

    def noted(tokens: list[Token]) -> None:
        try:
            controllers.journal.note_tokens(tokens)
        except HoldcourseError as error:  # nobody is locked out because the disk is full
            logger.error("%s", error)

    if keyring is not None:
        keyring.changed = noted

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await controllers.start()
        await hosted_fleets.start()
        if keyring is not None:
            noted(keyring.tokens)
        if notify is not None:
            app.state.notifier = notifier_of(notify, controllers)
            app.state.notifier.warn_of_unknown(set(store.ids()))
            app.state.notifier.start()
        yield
        if app.state.notifier is not None:
            await to_thread.run_sync(app.state.notifier.stop)
        await hosted_fleets.stop()
        await controllers.stop()
        if store.leases is not None:
            await app.state.peers.close()
        app.state.refusal_log.close()

    app = FastAPI(
        title="holdcourse",
        version=hc.__version__,
        description=openapi.ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # served by a route of our own
        redirect_slashes=False,  # an address that is not there is not there
    )
    app.state.controllers, app.state.fleets = controllers, hosted_fleets
    app.state.keyring, app.state.notifier, app.state.refusal_log = keyring, None, errors.RefusalLog(controllers.clock)
    routers = (rounds.router, routes.router, jobs.router, notifications.router, fleets.router)
    app.state.routes = [route for router in routers for route in router.routes]
    # As they are: `include_router` would make every route once more, which takes a third of a second for each app.
    app.router.routes.extend(app.state.routes)
    app.add_middleware(rounds.Direct)
    if store.leases is not None:
        app.state.peers = Peers()
        app.add_middleware(Forwarding, controllers=controllers, peers=app.state.peers)
    app.add_middleware(Gateway, only_local=keyring is None)  # the outermost: added last
    app.add_exception_handler(HoldcourseError, errors.refused)
    app.add_exception_handler(RequestValidationError, errors.invalid)
    app.add_exception_handler(HTTPException, errors.not_routed)
    app.openapi = lambda: openapi.described(app, with_tokens=keyring is not None)  # type: ignore[method-assign]
    return app
