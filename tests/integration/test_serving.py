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
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clocks import PATIENCE

from rag_bm25 import BM25Index, IndexConfig

for name in ("starlette", "uvicorn", "mcp", "prometheus_client"):
    pytest.importorskip(name, reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
pytest.importorskip("typer", reason='the command line needs rag-bm25[cli]: pip install ".[cli]"')
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
        return httpx.Client(base_url=self.url, headers=given, trust_env=False, timeout=PATIENCE)


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
                    answer = client.post(f"{API}/chunks", json={"chunks": [{"id": id_, "text": f"new {id_}"}]})
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
        assert enough.wait(PATIENCE)
        stop()
    return acknowledged, refused


# One server over HTTP


@pytest.mark.slow
def test_a_server_over_http(tmp_path: Path) -> None:
    """Ask one server in every way, since each takes seconds to start; stop it while it writes."""
    uri = tmp_path / "docs.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        metadatas = [{"source": "notes.txt", "chunk": number} for number in range(len(TEXTS))]
        index.add(TEXTS, ids=[f"notes.txt#{number}" for number in range(len(TEXTS))], metadatas=metadatas)
    server = Running(uri, "--allow-writes")
    check_clients_at_once(server)
    check_strangers(server)
    check_large_bodies(server)
    for mode in ("auto", "legacy"):
        asyncio.run(check_tools(server, mode))
    asyncio.run(check_agents_at_once(server))
    check_metrics(server)
    check_stop(server)


def check_clients_at_once(server: Running) -> None:
    with server.client() as client:
        expected = client.get(f"{API}/search", params={"query": "notice 7"}).json()

    def ask(_: int) -> list[Any]:
        with server.client() as client:
            return [client.post(f"{API}/search", json={"query": "notice 7"}).json() for _ in range(5)]

    with ThreadPoolExecutor(CLIENTS) as clients:
        for answers in clients.map(ask, range(CLIENTS)):
            assert answers == [expected] * 5
    assert expected["hits"][0]["id"] == "notes.txt#7"


def check_strangers(server: Running) -> None:
    for headers, status in (
        ({"authorization": "Bearer wrong"}, 401),
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
    ):
        with server.client(**headers) as client:
            for answer in (
                client.get(f"{API}/search?query=notice"),
                client.post("/mcp", json={}),
                client.get("/metrics"),
            ):
                assert answer.status_code == status
                assert TOKEN not in answer.text
    with server.client(origin=server.url) as client:
        assert client.get(f"{API}/search", params={"query": "notice"}).status_code == 200


def check_large_bodies(server: Running) -> None:
    with server.client() as client:
        answer = client.post(f"{API}/search", json={"query": "a" * (5 << 20)})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        answer = client.post("/mcp", content=b"a" * (5 << 20), headers={"content-type": "application/json"})
        assert answer.status_code == 413


def check_metrics(server: Running) -> None:
    with server.client() as client:
        metrics = client.get("/metrics").text
    for event in ("search", "request", "tool", "batch"):
        assert re.search(rf'rag_bm25_event_seconds_count\{{event="{event}"\}} [1-9]', metrics)


def check_stop(server: Running) -> None:
    """A signal in the middle of writes: each is finished or refused, and nothing is printed."""
    acknowledged, refused = write_until(server, lambda: server.process.send_signal(signal.SIGTERM))
    assert server.process.communicate(timeout=PATIENCE) == ("", "")
    assert server.process.returncode == 0
    assert set(refused) <= {(503, "stopping")}
    with BM25Index.open(server.uri, "docs", read_only=True) as index:
        assert {chunk.id for chunk in index.get(acknowledged)} == set(acknowledged)
        assert index.verify().ok


# MCP


@asynccontextmanager
async def over_http(server: Running, **options: Any) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client


async def use(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert not result.is_error, content.text
    answer: dict[str, Any] = result.structured_content
    return answer


async def use_every_tool(client: Any) -> None:
    """Call every tool that reads, and every resource."""
    hits = (await use(client, "search", query="notice 7", k=2))["hits"]
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert (hits[0]["id"], hits[0]["metadata"]) == ("notes.txt#7", {"source": "notes.txt", "chunk": 7})
    assert hits[0]["text"] == TEXTS[7]
    assert (await use(client, "search", query="nowhere"))["reasons"].startswith("nothing found: ")
    found = await use(client, "find", pattern="Chunk 13 ", source="notes*")
    assert [(hit["id"], hit["start"]) for hit in found["hits"]] == [("notes.txt#13", 0)]
    assert (await use(client, "find", pattern="chunk 13", ignore_case=True))["read"] == 1
    assert "idf" in (await use(client, "explain", query="notice", id="notes.txt#7"))["text"].lower()
    assert await use(client, "suggest", query="notice") == {"suggestion": None}
    figures = await use(client, "statistics", terms="notice", k=2)
    assert (figures["terms"][0]["term"], len(figures["top"])) == ("notic", 2)
    (chunk,) = (await use(client, "chunks", id="notes.txt#7"))["chunks"]
    assert chunk["text"] == TEXTS[7]
    (chunk,) = (await use(client, "chunks", id="notes.txt#7", context="neighbors"))["chunks"]
    assert TEXTS[6] in chunk["context"]["text"]
    page = await use(client, "chunks", source="notes.txt", offset=3, limit=2)
    assert ([chunk["text"] for chunk in page["chunks"]], page["next_offset"]) == (TEXTS[3:5], 5)
    resources = await client.list_resources()
    for uri in (
        str(resources.resources[0].uri),
        "rag-bm25://chunks/notes.txt%237",
        "rag-bm25://chunks/notes.txt#7",
    ):
        (contents,) = (await client.read_resource(uri)).contents
        assert json.loads(contents.text)
    templates = await client.list_resource_templates()
    assert templates.resource_templates[0].uri_template == "rag-bm25://chunks/{id}{?namespace}"


async def check_tools(server: Running, mode: str) -> None:
    async with over_http(server, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["search", "find", "explain", "suggest", "statistics", "sources", "chunks", "add", "delete"]
        await use_every_tool(client)
        added = await use(client, "add", chunks=[{"text": "By an agent.", "id": f"agent-{mode}"}])
        assert added == {"count": 1, "ids": [f"agent-{mode}"]}
        assert await use(client, "delete", ids=[f"agent-{mode}"]) == {"deleted": 1}


async def check_agents_at_once(server: Running) -> None:
    async def ask(number: int) -> dict[str, Any]:
        async with over_http(server) as client:
            return await use(client, "search", query=f"notice {number % 20}", k=1)

    for number, answer in enumerate(await asyncio.gather(*map(ask, range(CLIENTS)))):
        assert answer["hits"][0]["id"] == f"notes.txt#{number % 20}"


# Kills and signals


@pytest.mark.slow
def test_a_kill_while_writing_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    uri = tmp_path / "killed.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        index.add(["A first chunk."], ids=["first"])
    running = Running(uri, "--allow-writes")
    acknowledged, _ = write_until(running, running.process.kill)
    running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == -signal.SIGKILL

    async def read_over_stdio() -> None:
        """The next server is asked over stdio; agents may only read."""
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        arguments = ["-m", "rag_bm25", "serve", "--mcp", "--uri", str(uri)]
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
        async with Client(stdio_client(server)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search", "find", "explain", "suggest", "statistics", "sources", "chunks"]
            for id_ in acknowledged:
                assert (await use(client, "chunks", id=id_))["chunks"][0]["text"] == f"new {id_}"
            assert (await use(client, "search", query="first", k=1))["hits"][0]["id"] == "first"

    asyncio.run(read_over_stdio())
    with BM25Index.open(uri, "docs") as index:
        assert index.verify().ok


ENDLESS = """
import threading
from rag_bm25.cli import main
from rag_bm25.serving.operations import Operations

def add(*_):
    print("begun", flush=True)
    threading.Event().wait()

Operations.add = add
main()
"""


@pytest.mark.slow
def test_a_signal_ends_the_server_though_a_write_has_no_end(tmp_path: Path) -> None:
    uri = tmp_path / "endless.db"
    with BM25Index.open(uri, "docs", config=IndexConfig(chunk_size=50)) as index:
        index.add(["A first chunk."], ids=["first"])
    options = ["serve", "--uri", str(uri), "--http", "127.0.0.1:0", "--allow-writes"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, *options], text=True, **pipes)
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stderr.readline().split()[-1]
    answers: list[int] = []

    def write() -> None:
        chunks = {"chunks": [{"text": "never acknowledged"}]}
        answers.append(httpx.post(f"{url}{API}/chunks", json=chunks, timeout=PATIENCE).status_code)

    writer = threading.Thread(target=write)
    writer.start()
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    writer.join(PATIENCE)
    assert (process.returncode, answers) == (0, [503])
    with BM25Index.open(uri, "docs") as index:
        assert [chunk.id for chunk in index.chunks()] == ["first"]
        assert index.verify().ok


@pytest.mark.slow
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
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0
