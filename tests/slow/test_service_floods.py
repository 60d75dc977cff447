"""Long floods, each kind alone and all at once: the operator takes over within a second, during them and after."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from service.flooding import flood, folder_of, slowest_override
from service.running import QUICK, Client, Process
from service.test_floods import FLOODS, WITHIN_S

pytestmark = pytest.mark.slow

ROUNDS = 2000  # rebuilding one takes seconds
SECONDS = 10.0
CONNECTIONS = 160  # at once; whoever is answered, or has waited too long, comes again on a new one


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flooded")
    contexts = [[k / 7] for k in range(7)]
    options = QUICK["options"] | {"contexts": contexts, "context_bounds": None}
    secrets = folder_of(folder, QUICK | {"options": options}, ROUNDS)
    with Process(folder / "data", "--token-file", str(folder / "tokens.json")) as server:
        with Client(server.url, secrets["operator"]) as client:
            client.see("quick", "explain/r100")
        yield server.url, secrets


@pytest.mark.parametrize("kind", [*FLOODS, "all at once"])
def test_the_operator_takes_over_within_a_second(plant, kind, record_property):
    url, secrets = plant
    kinds = [kind] if kind in FLOODS else list(FLOODS)
    with ExitStack() as stack:
        for one in kinds:
            stack.enter_context(flood(url, FLOODS[one](secrets), connections=CONNECTIONS // len(kinds)))
        during = slowest_override(url, secrets["operator"], "quick", SECONDS)
    after = slowest_override(url, secrets["operator"], "quick", 2.0)
    record_property(f"override under {kind}", f"{during:.2f} s during, {after:.2f} s after")
    assert max(during, after) < WITHIN_S
