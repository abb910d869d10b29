"""Run a server until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.stdio import stdio_server
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_bm25.errors import ParameterError
from rag_bm25.serving.access import ACCESS, EVERYTHING
from rag_bm25.serving.agents import build_mcp_server
from rag_bm25.serving.app import build_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from mcp.server.lowlevel import Server

    from rag_bm25.serving.served import Served
    from rag_bm25.serving.settings import Settings

MAX_CONNECTIONS = 512
SECONDS_OF_HEADERS = 10.0
NOT_ASCII = "Characters beyond ASCII must be percent-encoded: curl -G URL --data-urlencode 'query=...' does it.\n"
SECONDS_OF_ANSWERS = 7  # under way, once a signal has come
SECONDS_TO_STOP = 9
SWITCH_INTERVAL = 0.001  # seconds until a thread that computes lets another one go on; 0.005 is the default


class _Protocol(H11Protocol):
    """A connection that is closed if the headers of a request do not come in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait_for_headers()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        super().connection_lost(exc)
        self._end_of_wait()

    def send_400_response(self, msg: str) -> None:
        """Name the usual reason: a query typed into the address as it is."""
        super().send_400_response(f"{msg} {NOT_ASCII}")

    def _wait_for_headers(self) -> None:
        self._end_of_wait()
        self._timer = self.loop.call_later(SECONDS_OF_HEADERS, self._close_if_idle)

    def _end_of_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that says when it can be asked, and when a signal has come."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = stop

    async def startup(self, sockets: Any = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._stop)


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens at the address of the settings."""
    # A socket that does not name TCP as its protocol would keep Nagle's algorithm in asyncio: 40 ms an answer.
    kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=kind, proto=protocol, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            if sys.platform != "win32":  # there, it would let two servers have one port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(MAX_CONNECTIONS)
            on_failure.pop_all()
        return listener
    except OSError as error:
        raise ParameterError(f"{settings.host}:{settings.port} cannot be listened at: {error.strerror}") from None


def serve_http(served: Served, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C: writes that run then are finished, all else is refused, and the index is closed.

    `ready` is called as soon as questions are answered.
    """
    config = uvicorn.Config(
        build_app(served, settings),
        http=_Protocol,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        log_config=None,
        log_level="warning",
        access_log=False,  # its lines would have queries
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_OF_ANSWERS,
        ws="none",
    )
    server = _Server(config, ready, partial(_begin_to_stop, served))

    async def run() -> None:
        try:
            _load(config, settings)
            served.start()
            await server.serve(sockets=[listener])
        finally:
            await served.close()

    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()  # what is loaded stays: collecting garbage looks at what requests leave
    # After its end, uvicorn raises the signal again that has ended it.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(run())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _load(config: uvicorn.Config, settings: Settings) -> None:
    """Load the certificate, whose errors do not say what could not be read."""
    try:
        config.load()
    except OSError as error:
        files = f"the certificate {settings.certificate} and its key {settings.key}"
        raise ParameterError(f"{files} cannot be loaded: {error.strerror}") from None


def _begin_to_stop(served: Served) -> None:
    """Refuse and end what may be, and bound the time of the rest.

    A write that goes on too long is cut off as by a kill: it was not acknowledged, and whoever opens the index next
    finishes it.
    """
    watch = threading.Timer(SECONDS_TO_STOP, os._exit, (0,))
    watch.daemon = True
    watch.start()
    served.stop()


def serve_stdio(served: Served, *, allow_writes: bool) -> None:
    """Serve MCP over stdin and stdout until stdin ends or a signal comes; stdout carries messages alone."""
    ACCESS.set(EVERYTHING)  # who starts the program has its rights
    asyncio.run(_serve_stdio(build_mcp_server(served, allow_writes=allow_writes), served))


async def _serve_stdio(server: Server[Any], served: Served) -> None:
    stopping: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):  # the handlers of a loop are not for Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(lambda: stopping.append(loop.create_task(stop()))))

    async def stop() -> None:
        if len(stopping) == 1:
            _begin_to_stop(served)
            await served.close()
            os._exit(0)  # a thread waits for a line of stdin, and nothing can wake it up

    try:
        served.start()
        async with stdio_server() as (given, answers):
            await server.run(given, answers, server.create_initialization_options())
    finally:
        await served.close()
