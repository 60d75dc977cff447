"""A server that the tests of a module share, and clients of it."""

from __future__ import annotations

import itertools

import pytest
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
