"""Run a server until a signal stops it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import uvicorn

from rag_bm25.serving.app import build_app
from rag_bm25.serving.gate import Gate
from rag_bm25.serving.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.index.index import BM25Index
    from rag_bm25.serving.settings import Settings

MAX_CONNECTIONS = 512
SECONDS_TO_STOP = 10  # for answers under way


class _Server(uvicorn.Server):
    """A server that says when it can be asked."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if self.started:
            self._ready(self.servers[0].sockets[0].getsockname()[1])


def serve_http(index: BM25Index, settings: Settings, ready: Callable[[int], None]) -> None:
    """Serve until SIGTERM or Ctrl-C: what runs then is finished, what waits is refused, and the index is closed.

    `ready` is called with the port, as soon as the server listens.
    """
    gate = Gate(settings.limits)
    config = uvicorn.Config(
        build_app(Operations(index), gate, settings),
        host=settings.host,
        port=settings.port,
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
            await server.serve()
        finally:
            await gate.close()

    # After its end, uvicorn raises the signal again that has ended it.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(run())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        index.close()
