"""An application over an index in memory, asked within the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rag_bm25 import BM25Index, IndexConfig

for name in ("starlette", "uvicorn", "mcp", "prometheus_client"):
    pytest.importorskip(name, reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
httpx = pytest.importorskip("httpx", reason="the tests of the server ask it with httpx")

TEXTS = {
    "law.txt#0": "解除劳动合同应当提前三十日以书面形式通知。",
    "law.txt#1": "The notice period is thirty days for both sides.",
    "law.txt#2": "Probation lasts three months.",
    "memo.txt#0": "A notice was sent to all members of the staff.",
}


class Asker:
    """Ask an application, each request in an event loop of its own."""

    def __init__(self, index: BM25Index, **settings: Any) -> None:
        from rag_bm25.serving.app import build_app
        from rag_bm25.serving.observing import Observer
        from rag_bm25.serving.served import Served
        from rag_bm25.serving.settings import Limits, Settings

        chosen = Settings(**{"limits": Limits(), **settings})
        self.served = Served(index, Observer(), chosen.limits, "docs")
        self.app = build_app(self.served, chosen)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        return asyncio.run(self._ask(method, path, options))

    async def _ask(self, method: str, path: str, options: dict[str, Any]) -> Any:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    def get(self, path: str, **params: Any) -> Any:
        return self.ask("GET", path, params=params)

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", path, json=body)

    def delete(self, path: str, **body: Any) -> Any:
        return self.ask("DELETE", path, json=body) if body else self.ask("DELETE", path)


def fill(index: BM25Index) -> BM25Index:
    metadatas = [{"source": id_.partition("#")[0], "chunk": int(id_[-1])} for id_ in TEXTS]
    index.add(list(TEXTS.values()), ids=list(TEXTS), metadatas=metadatas)
    index.add(["A notice of another tenant."], ids=["x"], namespace="tenant")
    return index


@pytest.fixture
def index() -> Iterator[BM25Index]:
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=20)) as index:
        yield fill(index)


@pytest.fixture
def asker(index: BM25Index) -> Asker:
    return Asker(index)


@pytest.fixture
def make_asker(index: BM25Index) -> Callable[..., Asker]:
    def make(**settings: Any) -> Asker:
        from rag_bm25.serving.settings import Limits

        limits = {
            name: settings.pop(name)
            for name in ("body", "question", "answer", "held", "seconds", "running", "waiting")
            if name in settings
        }
        return Asker(index, limits=replace(Limits(), **limits), **settings)

    return make
