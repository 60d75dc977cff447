"""Floods of every kind: the operator takes over at once, during them and after.

Here other tests use the same processors, so the bound is a longer one; tests/slow/test_service_floods.py has the second
that is promised. Before there were lanes, the same floods kept an operator out for half a minute.
"""

from __future__ import annotations

import pytest
from service.flooding import flood, folder_of, request, slowest_override
from service.running import QUICK, Client, Process

WITHIN_S = 1.0
BESIDE_OTHER_TESTS_S = 3.0
OLD = 240  # rounds; one in the middle takes a while to rebuild


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A server with an old controller: its address and the secrets."""
    folder = tmp_path_factory.mktemp("flooded")
    secrets = folder_of(folder, QUICK | {"deadline_s": 3600.0}, OLD)
    with Process(folder / "data", "--token-file", str(folder / "tokens.json")) as server:
        with Client(server.url, secrets["operator"]) as client:  # what is compiled at first use is compiled now
            client.see("quick", "verify")
            client.see("quick", f"explain/r{OLD // 2}")
        yield server.url, secrets


def old_rounds(secrets):
    return [
        request("POST", "/controllers/quick/ask", secrets["asks"], {"round": t, "context": [(t % 7) / 7]})
        for t in range(OLD // 2, OLD - 80)
    ]


FLOODS = {
    "old rounds": old_rounds,
    "verifies": lambda secrets: [request("GET", "/controllers/quick/verify", secrets["looks"])],
    "explanations": lambda secrets: [
        request("GET", f"/controllers/quick/explain/r{t}", secrets["looks"]) for t in range(100, OLD - 80)
    ],
    "rows": lambda secrets: [request("GET", "/controllers/quick/decisions?limit=1000", secrets["looks"])],
    "states": lambda secrets: [request("GET", "/controllers/quick/state", secrets["looks"])],
    "bulky bodies": lambda secrets: [
        request("POST", "/controllers/quick/ask", secrets["asks"], {"context": [0.5], "forecast": [[0.5]] * 120_000})
    ],
    "streams": lambda secrets: [request("GET", "/events", secrets["looks"])],
    "strangers": lambda secrets: [request("GET", "/readyz"), request("GET", "/controllers", "hc_wrong"), b"GET / HT"],
}


OFTEN = "bulky bodies", "strangers"


@pytest.mark.parametrize(
    "kind", [*OFTEN, *(pytest.param(kind, marks=pytest.mark.slow) for kind in FLOODS if kind not in OFTEN)]
)
def test_the_operator_takes_over_at_once(plant, kind):
    url, secrets = plant
    with flood(url, FLOODS[kind](secrets), connections=60):
        during = slowest_override(url, secrets["operator"], "quick", 1.0)
    after = slowest_override(url, secrets["operator"], "quick", 0.2)
    assert max(during, after) < BESIDE_OTHER_TESTS_S
