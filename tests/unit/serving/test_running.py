"""Connections: those that send no request are closed, those that wait for an answer are not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from rag_bm25.errors import ParameterError
from rag_bm25.serving import running
from rag_bm25.serving.settings import Settings

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Loop(asyncio.SelectorEventLoop):
    """Its time is ahead of the clock by what a test lets pass."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def let_pass() -> None:
    """Let the time for headers pass, and all timers that are due then act."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop.ahead += running.SECONDS_OF_HEADERS
    for _ in range(5):
        await asyncio.sleep(0)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server closes the connection, which it does when time has passed."""
    reading = asyncio.ensure_future(reader.read())
    for _ in range(1000):
        if reading.done():
            break
        await let_pass()
    return reading.result()


async def answer_late(_: Any, __: Any, send: Any) -> None:
    await let_pass()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def connect(script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    async def main() -> None:
        config = uvicorn.Config(
            answer_late, http=running._Protocol, ws="none", log_config=None, timeout_keep_alive=10**6
        )
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: running._Protocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        try:
            await script(reader, writer)
        finally:
            writer.close()
            server.close()

    with closing(Loop()) as loop:
        loop.run_until_complete(main())


@pytest.mark.parametrize("begun", [b"", b"GET / HT", REQUEST[:-2] + b"X-Slow: "])
def test_a_request_whose_headers_do_not_come_is_not_waited_for(begun: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        assert await rest(reader) == b""

    connect(script)


def test_a_query_that_is_not_percent_encoded_is_answered_with_the_way() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST.replace(b"/", "/?query=年假".encode(), 1))
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"must be percent-encoded: curl -G URL --data-urlencode" in answer

    connect(script)


def test_an_answer_is_waited_for_and_the_next_request_is_not() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST)
        assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"
        writer.write(REQUEST[:10])
        assert (await rest(reader)).endswith(b"\r\n\r\nok")

    connect(script)


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("no certificate", "PEM")])
def test_a_certificate_that_cannot_be_loaded_is_named(tmp_path: Path, text: str | None, reason: str) -> None:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    for file in files if text else ():
        file.write_text(text)
    config = uvicorn.Config(answer_late, ssl_certfile=files[0], ssl_keyfile=files[1], log_config=None)
    with pytest.raises(ParameterError, match=rf"certificate .*cert\.pem and its key .*key\.pem .*{reason}"):
        running._load(config, Settings(certificate=files[0], key=files[1]))
