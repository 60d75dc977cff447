"""A line that can be cut: a TCP proxy that stops forwarding, or hangs up, when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading


class Line:
    """Forwards connections to a port; `hole` keeps them open and forwards nothing, as a dead switch does."""

    def __init__(self, target):
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._pairs = []
        self._lock, self._is_closed = threading.Lock(), False
        threading.Thread(target=self._accept, daemon=True).start()

    def hole(self):
        self._open.clear()

    def heal(self, *, late=False):
        """Forward again: what was held back comes late, or its connections are gone."""
        if not late:
            self.cut()
        self._open.set()

    def cut(self):
        """Hang up on everybody."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self):
        with self._lock:
            self._is_closed = True
        self._open.set()
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self.target), 5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._pairs.append((near, far))
        if is_closed:  # while this connection was being made
            near.close()
            far.close()
            return
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        try:
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        self._open.wait()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
