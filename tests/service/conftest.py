"""A server that the tests of a module share, and clients of it."""

from __future__ import annotations

import itertools

import pytest
from service.browsing import CHROMIUM, Server
from service.running import Client, served

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service") / "data") as url:
        yield url


@pytest.fixture
def client(url):
    with Client(url) as client:
        yield client


@pytest.fixture
def name():
    """An id that no other test uses."""
    return f"c{next(NUMBERS)}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with tokens, in a process of its own, for a browser."""
    made = Server(tmp_path_factory.mktemp("page"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()
