"""Faults of a connection in words: what is wrong, at which address, and what to do about it."""

from __future__ import annotations

import errno
import os
import socket

_NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
_HUNG_UP = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


def network_fault(error: OSError, address: str, server: str) -> str:
    """Return why a server, such as "an OPC UA server", cannot be reached at an address.

    >>> network_fault(ConnectionRefusedError(111, "Connection refused"), "10.0.0.5:1883", "a broker")
    'nobody listens at 10.0.0.5:1883; check the address and the port, and whether a broker runs there'
    """
    if isinstance(error, socket.gaierror):
        return f"the host of {address} is not known; check its spelling and the name server, or write its IP address"
    if isinstance(error, ConnectionRefusedError) or error.errno == errno.ECONNREFUSED:
        return f"nobody listens at {address}; check the address and the port, and whether {server} runs there"
    if error.errno in _NO_ROUTE:
        return f"there is no route to {address}; check the address, the cable and the network"
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return no_answer(address, server)
    if isinstance(error, ConnectionError) or error.errno in _HUNG_UP:
        return f"{address} closed the connection; check that {server} runs there"
    why = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return f"{address} cannot be reached: {why}; check the address and whether {server} runs there"


def no_answer(address: str, server: str, seconds: float | None = None) -> str:
    """Return the words for an address that takes a connection, or drops it, without an answer."""
    within = "" if seconds is None else f" within {seconds:g} s"
    return f"{address} did not answer{within}; check the port, whether {server} runs there, and the firewalls between"
