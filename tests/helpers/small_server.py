"""A web server of a few lines, for what talks to one: a client, a witness, a front before a service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Answering(BaseHTTPRequestHandler):
    """Answers, and keeps quiet about it; a subclass says what to, in `do_GET` and `do_POST`."""

    def answer(self, status: int, content: bytes = b"") -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        """Return what was sent."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(handler: type[Answering]) -> Iterator[str]:
    """A server whose requests a handler answers, in a thread of its own; gives its address."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
