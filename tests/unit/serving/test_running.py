"""Connections: those that send no request are closed, those that wait for an answer are not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from rag_bm25.serving import running

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer_late(_: Any, __: Any, send: Any) -> None:
    await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def connect(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> None:
    monkeypatch.setattr(running, "SECONDS_OF_HEADERS", 0.05)

    async def main() -> None:
        config = uvicorn.Config(answer_late, http=running._Protocol, ws="none", log_config=None)  # type: ignore[arg-type]
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: running._Protocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        try:
            await asyncio.wait_for(script(reader, writer), 60)
        finally:
            writer.close()
            server.close()

    asyncio.run(main())


@pytest.mark.parametrize("begun", [b"", b"GET / HT", REQUEST[:-2] + b"X-Slow: "])
def test_a_request_whose_headers_do_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        assert await reader.read() == b""

    connect(monkeypatch, script)


def test_a_query_that_is_not_percent_encoded_is_answered_with_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST.replace(b"/", "/?query=年假".encode(), 1))
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"must be percent-encoded: curl -G URL --data-urlencode" in answer

    connect(monkeypatch, script)


def test_an_answer_is_waited_for_and_the_next_request_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST)
        assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"
        writer.write(REQUEST[:10])
        assert (await reader.read()).endswith(b"\r\n\r\nok")

    connect(monkeypatch, script)
