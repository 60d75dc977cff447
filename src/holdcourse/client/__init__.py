"""A controller on the other side of HTTP, asked and told like one in the same process.

Beside numpy only the standard library is needed, so a small machine beside a plant can run it. Every request may be
sent again: each carries a key of its own, or means the same however often it comes, and the service answers a
repeated ask with the same decision. So a request that got no answer, because the network or the service was away, is
simply repeated until `patience` runs out.
"""

from holdcourse.client.fleet import RemoteFleet, RemoteFleetDecisions
from holdcourse.client.remote import RemoteController, RemoteDecision, Service, connect

__all__ = ["RemoteController", "RemoteDecision", "RemoteFleet", "RemoteFleetDecisions", "Service", "connect"]
