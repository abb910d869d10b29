"""A proxy whose connections can be lost."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit


class Proxy:
    """Passes TCP on to a server, each piece after `delay` seconds, until it is cut."""

    def __init__(self, uri: str, *, delay: float = 0) -> None:
        self._delay = delay
        self._server = _place(uri)
        self._sockets: list[socket.socket] = []
        self._cut = False
        self._connecting = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """Lose every connection, and refuse new ones."""
        with self._connecting:
            self._cut = True
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self, uri: str = "") -> None:
        """Accept connections again, to a server that may have moved."""
        self._server = _place(uri) if uri else self._server
        self._cut = False

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        for one in [self._listener, *self._sockets]:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    client = self._accepted(client)
                except OSError:  # of a handshake
                    client.close()
                    continue
                with self._connecting:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        if self._cut:
            client.close()
            return
        self._sockets.append(client)
        server = socket.create_connection(self._server)
        self._sockets.append(server)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pass_on, args=[source, target], daemon=True).start()

    def _accepted(self, client: socket.socket) -> socket.socket:
        return client

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self._delay)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


def _place(uri: str) -> tuple[str, int]:
    server = urlsplit(uri)
    return str(server.hostname), server.port or 0
