"""A server in a process of its own: asked over HTTP and by the official MCP client, stopped and killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rag_bm25 import BM25Index, IndexConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

for name in ("starlette", "uvicorn", "mcp", "prometheus_client"):
    pytest.importorskip(name, reason='serving needs rag-bm25[serve]: pip install "rag-bm25[serve]"')
pytest.importorskip("typer", reason='the command line needs rag-bm25[cli]: pip install "rag-bm25[cli]"')
pytest.importorskip("milvus_lite", reason="serving is tested on the embedded engine")
httpx = pytest.importorskip("httpx", reason="the tests of the server ask it with httpx")

TOKEN = "a token of the tests"
API = "/api/v1"
CLIENTS = 32
ACKNOWLEDGED = 20  # writes, before a server is stopped
TEXTS = [f"Chunk {number} is about the notice period." for number in range(20)]


def run_server(uri: Path, *options: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "rag_bm25", "serve", "--uri", str(uri), *options]
    environment = {**os.environ, "RAG_BM25_ACCESS_TOKEN": TOKEN}
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, **more)


class Running:
    """A server over HTTP, on a free port."""

    def __init__(self, uri: Path, *options: str) -> None:
        self.uri = uri
        self.process = run_server(uri, "--http", "127.0.0.1:0", *options, stdout=subprocess.PIPE)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        match = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)\n", line)
        assert match, line + self.process.stderr.read()
        self.url = match[1]

    def client(self, **headers: str) -> Any:
        given = {"authorization": f"Bearer {TOKEN}", **headers}
        return httpx.Client(base_url=self.url, headers=given, trust_env=False, timeout=60)

    def end(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a server that may write; when it is stopped, it has printed nothing but its address."""
    uri = tmp_path_factory.mktemp("serving") / "docs.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        metadatas = [{"source": "notes.txt", "chunk": number} for number in range(len(TEXTS))]
        index.add(TEXTS, ids=[f"notes.txt#{number}" for number in range(len(TEXTS))], metadatas=metadatas)
    running = Running(uri, "--allow-writes")
    yield running
    assert running.end(signal.SIGTERM) == (0, "", "")


def write_until(running: Running, stop: Callable[[], None]) -> tuple[list[str], list[tuple[int, str]]]:
    """Add chunks from four threads; stop the server in the middle. Return what was acknowledged, and refused."""
    acknowledged: list[str] = []
    refused: list[tuple[int, str]] = []
    enough = threading.Event()

    def write(writer: int) -> None:
        with running.client() as client:
            for number in range(100_000):
                id_ = f"{writer}-{number}"
                try:
                    answer = client.post(f"{API}/documents", json={"documents": [{"id": id_, "text": f"new {id_}"}]})
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    refused.append((answer.status_code, answer.json()["error"]["code"]))
                    return
                acknowledged.extend(answer.json()["ids"])
                if len(acknowledged) >= ACKNOWLEDGED:
                    enough.set()

    with ThreadPoolExecutor(4) as writers:
        for writer in range(4):
            writers.submit(write, writer)
        assert enough.wait(60)
        stop()
    return acknowledged, refused


# HTTP


def test_thirty_two_clients_at_once_get_the_same_hits(server: Running) -> None:
    with server.client() as client:
        expected = client.get(f"{API}/search", params={"text": "notice 7"}).json()

    def ask(_: int) -> list[Any]:
        with server.client() as client:
            return [client.post(f"{API}/search", json={"text": "notice 7"}).json() for _ in range(5)]

    with ThreadPoolExecutor(CLIENTS) as clients:
        for answers in clients.map(ask, range(CLIENTS)):
            assert answers == [expected] * 5
    assert expected["hits"][0]["id"] == "notes.txt#7"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"authorization": ""}, 401, "wrong_token"),
        ({"authorization": "Bearer wrong"}, 401, "wrong_token"),
        ({"authorization": f"Basic {TOKEN}"}, 401, "wrong_token"),
        ({"host": "evil.example"}, 421, "wrong_host"),
        ({"host": "127.0.0.1.evil.example"}, 421, "wrong_host"),
        ({"origin": "http://evil.example"}, 403, "wrong_origin"),
        ({"origin": "null"}, 403, "wrong_origin"),
        ({"origin": "http://127.0.0.1:1"}, 403, "wrong_origin"),  # another program's page on this machine
        ({"sec-fetch-site": "cross-site"}, 403, "wrong_origin"),
    ],
)
@pytest.mark.parametrize("path", [f"{API}/search?text=notice", "/mcp", "/metrics"])
def test_strangers_are_refused(server: Running, headers: dict[str, str], status: int, code: str, path: str) -> None:
    with server.client(**headers) as client:
        answer = client.post(path, json={}) if path == "/mcp" else client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert TOKEN not in answer.text


def test_the_page_of_the_server_itself_may_ask(server: Running) -> None:
    with server.client(origin=server.url, **{"sec-fetch-site": "same-origin"}) as client:
        assert client.get(f"{API}/search", params={"text": "notice"}).status_code == 200
        assert client.get("/healthz", headers={"host": "10.0.0.7"}).json() == {"status": "ok"}
        assert "<html" in client.get("/", headers={"authorization": ""}).text


def test_a_body_that_is_too_large_is_refused(server: Running) -> None:
    with server.client() as client:
        answer = client.post(f"{API}/search", json={"text": "a" * (5 << 20)})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        answer = client.post("/mcp", content=b"a" * (5 << 20), headers={"content-type": "application/json"})
        assert answer.status_code == 413


def test_events_of_the_index_are_metrics(server: Running) -> None:
    with server.client() as client:
        client.get(f"{API}/search", params={"text": "notice"})
        metrics = client.get("/metrics").text
    assert re.search(r'rag_bm25_event_seconds_count\{event="search"\} [1-9]', metrics)


# MCP


@asynccontextmanager
async def over_http(server: Running, **options: Any) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client


async def use(client: Any, tool: str, **arguments: Any) -> str:
    """Call a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert not result.is_error, content.text
    return str(content.text)


async def use_every_tool(client: Any) -> None:
    """Call every tool that reads, and every resource."""
    found = await use(client, "search", text="notice 7", k=2)
    assert "1. id notes.txt#7, score" in found
    assert 'metadata {"source": "notes.txt"}\nChunk 7 is about the notice period.' in found
    assert "2. id" in found
    assert "3. id" not in found
    assert (await use(client, "search", text="nowhere")).startswith("Nothing found for 'nowhere'.")
    explained = await use(client, "explain", text="notice", id="notes.txt#7")
    assert "idf" in explained.lower()
    assert "nothing to correct" in await use(client, "suggest", text="notice")
    figures = await use(client, "statistics", text="notice", top=2)
    assert re.search(r"notic: in \d+ of \d+ chunks, IDF ", figures)
    assert "Terms that most chunks have:" in figures
    assert "Chunk 7 is" in await use(client, "document", id="notes.txt#7")
    assert "Chunk 6 is" in await use(client, "document", id="notes.txt#7", context="neighbors")
    page = await use(client, "document", source="notes.txt", offset=3, limit=2)
    assert page.startswith("Chunks 4 to 5 of 20 of 'notes.txt'. Ask for offset=5 next.")
    resources = await client.list_resources()
    for uri in (
        str(resources.resources[0].uri),
        "rag-bm25://documents/notes.txt%237",
        "rag-bm25://documents/notes.txt#7",
    ):
        (contents,) = (await client.read_resource(uri)).contents
        assert json.loads(contents.text)
    templates = await client.list_resource_templates()
    assert templates.resource_templates[0].uri_template == "rag-bm25://documents/{id}{?namespace}"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_uses_every_tool_over_http(server: Running, mode: str) -> None:
    async def run() -> None:
        async with over_http(server, mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["search", "explain", "suggest", "statistics", "document", "add", "delete"]
            assert tools["search"].annotations.read_only_hint is True
            assert tools["delete"].annotations.destructive_hint is True
            await use_every_tool(client)
            added = await use(client, "add", documents=[{"text": "By an agent.", "id": f"agent-{mode}"}])
            assert added == f'1 stored. ids: ["agent-{mode}"]'
            assert await use(client, "delete", ids=[f"agent-{mode}"]) == "1 deleted."

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {}, "error: text is missing"),
        ("search", {"text": "a", "k": 51}, "error: k must be less than or equal to 50, got 51"),
        ("search", {"text": "a", "colour": 1}, "error: colour is no argument"),
        ("search", {"text": "a", "filter": {"$foo": 1}}, "error: "),
        ("explain", {"text": "a", "id": "none"}, "error: no chunk 'none' in the default namespace"),
        ("suggest", {"text": 1}, "error: text must be"),
        ("statistics", {"top": 1000}, "error: top must be"),
        ("document", {}, "error: exactly one of id and source must be given"),
        ("document", {"id": "none"}, "error: no chunk 'none'"),
        ("add", {"documents": []}, "error: documents must be"),
        ("add", {"documents": [{"text": "\0"}]}, "error: "),
        ("delete", {}, "error: exactly one of ids, source and filter must be given"),
    ],
)
def test_agents_are_told_what_is_wrong(server: Running, tool: str, arguments: dict[str, Any], message: str) -> None:
    async def run() -> None:
        async with over_http(server) as client:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert result.content[0].text.startswith(message)
            assert str(server.uri) not in result.content[0].text

    asyncio.run(run())


def test_unknown_tools_and_resources_are_errors_of_the_protocol(server: Running) -> None:
    from mcp.shared.exceptions import MCPError

    async def run() -> None:
        async with over_http(server) as client:
            with pytest.raises(MCPError, match="there is no tool 'destroy'; there are search, "):
                await client.call_tool("destroy", {})
            for uri in ("rag-bm25://nothing", "rag-bm25://documents/none", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="no "):
                    await client.read_resource(uri)

    asyncio.run(run())


def test_agents_at_once(server: Running) -> None:
    async def ask(number: int) -> str:
        async with over_http(server) as client:
            return await use(client, "search", text=f"notice {number % 20}", k=1)

    async def run() -> list[str]:
        return await asyncio.gather(*map(ask, range(CLIENTS)))

    for number, text in enumerate(asyncio.run(run())):
        assert f"1. id notes.txt#{number % 20}, " in text


# Stopping


def test_a_kill_while_writing_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    uri = tmp_path / "killed.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        index.add(["A first chunk."], ids=["first"])
    running = Running(uri, "--allow-writes")
    acknowledged, _ = write_until(running, running.process.kill)
    running.process.communicate(timeout=60)
    assert running.process.returncode == -signal.SIGKILL

    async def read_over_stdio() -> None:
        """The next server is asked over stdio; agents may only read."""
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters

        arguments = ["-m", "rag_bm25", "serve", "--mcp", "--uri", str(uri)]
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search", "explain", "suggest", "statistics", "document"]
            for id_ in acknowledged:
                assert f"new {id_}" in await use(client, "document", id=id_)
            assert (await use(client, "search", text="first", k=1)).startswith("1 chunk for 'first', best first.")

    asyncio.run(read_over_stdio())
    with BM25Index.open(uri, "docs") as index:
        assert index.verify().ok


def test_a_stop_while_writing_finishes_or_refuses(tmp_path: Path) -> None:
    uri = tmp_path / "stopped.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        index.add(["A first chunk."], ids=["first"])
    running = Running(uri, "--allow-writes")
    acknowledged, refused = write_until(running, lambda: running.process.send_signal(signal.SIGTERM))
    assert running.process.communicate(timeout=60) == ("", "")
    assert running.process.returncode == 0
    assert set(refused) <= {(503, "stopping")}
    with BM25Index.open(uri, "docs", read_only=True) as index:
        assert {chunk.id for chunk in index.get(acknowledged)} == set(acknowledged)
        assert index.verify().ok


def test_a_signal_ends_the_server_of_one_agent(tmp_path: Path) -> None:
    uri = tmp_path / "agent.db"
    BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)).close()
    process = run_server(uri, "--mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "rag-bm25"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
