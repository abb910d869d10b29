"""Run a server until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.stdio import stdio_server

from rag_bm25.errors import ParameterError
from rag_bm25.serving.agents import build_mcp_server
from rag_bm25.serving.app import build_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.lowlevel import Server

    from rag_bm25.serving.served import Served
    from rag_bm25.serving.settings import Settings

MAX_CONNECTIONS = 512
SECONDS_TO_STOP = 10  # for answers under way


class _Server(uvicorn.Server):
    """A server that says when it can be asked."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._ready()


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens at the address of the settings."""
    # A socket that does not name TCP as its protocol would keep Nagle's algorithm in asyncio: 40 ms an answer.
    kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=kind, proto=protocol, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(MAX_CONNECTIONS)
            on_failure.pop_all()
        return listener
    except OSError as error:
        raise ParameterError(f"{settings.host}:{settings.port} cannot be listened at: {error.strerror}") from None


def serve_http(served: Served, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C: what runs then is finished, what waits is refused, and the index is closed.

    `ready` is called as soon as questions are answered.
    """
    config = uvicorn.Config(
        build_app(served, settings),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        log_config=None,
        log_level="warning",
        access_log=False,  # its lines would have queries
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_STOP,
        ws="none",
    )
    server = _Server(config, ready)

    async def run() -> None:
        try:
            served.start()
            await server.serve(sockets=[listener])
        finally:
            await served.close()

    # After its end, uvicorn raises the signal again that has ended it.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(run())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve_stdio(served: Served, *, allow_writes: bool) -> None:
    """Serve MCP over stdin and stdout until stdin ends or a signal comes; stdout carries messages alone."""
    asyncio.run(_serve_stdio(build_mcp_server(served, allow_writes=allow_writes), served))


async def _serve_stdio(server: Server[Any], served: Served) -> None:
    stopping: list[asyncio.Task[None]] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lambda: stopping.append(asyncio.create_task(stop())))

    async def stop() -> None:
        if len(stopping) == 1:
            await served.close()
            os._exit(0)  # a thread waits for a line of stdin, and nothing can wake it up

    try:
        served.start()
        async with stdio_server() as (given, answers):
            await server.run(given, answers, server.create_initialization_options())
    finally:
        await served.close()
