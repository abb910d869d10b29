"""Systems that need another environment: milvus-lite 3's BM25 function, and langchain-milvus.

They are measured in a process of the interpreter that ``--peers-python`` names, and an index of ours on milvus-lite 3
beside them. All get the same tokens, joined by spaces.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from bench import environment
from bench.peers import joined, token_lists
from bench.report import OURS, Results, Row
from bench.timing import Clock, Spread, in_turns, latencies, seconds_of
from bench.workbench import CONFIG, NAME, Bench, K, Opened, batches
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.analysis.text import query_tokens
from rag_bm25.store.milvus.engine import NO_PINGS

TOPIC = "engines"
SEARCH = f"search, k = {K}, p50"
OURS_ON_LITE3 = f"{OURS} on milvus-lite 3"
BUILT_IN, LANGCHAIN = "milvus-lite 3's BM25 function", "langchain-milvus"
NEEDED = {BUILT_IN: "milvus_lite", LANGCHAIN: "langchain_milvus"}
PACKAGES = ("pymilvus", "milvus-lite", "langchain-milvus")
SPLIT = IndexConfig(CONFIG.chunk_size, analyzer=str.split)
TEXT_BYTES = 65_535


@dataclass(frozen=True)
class Task:
    """Input of the other process: texts, batches and queries as tokens joined by spaces."""

    folder: str
    texts: list[str]
    more: list[list[str]]
    queries: list[str]
    rounds: int


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        reason = "" if bench.peers_python else "--peers-python names no interpreter"
        if size > bench.effort.other_engines_up_to:
            reason = f"measured up to {bench.effort.other_engines_up_to:,} chunks"
        if reason:
            yield from (Row(TOPIC, "search and adding", size, name, skipped=reason) for name in NEEDED)
        else:
            yield from _compared(bench, size)


def _compared(bench: Bench, size: int) -> Iterator[Row]:
    measured = _in_other_process(bench, _task(bench, size))
    yield from measured
    queries = bench.queries(size, bench.effort.other_queries)
    with Opened(bench.index(size)) as opened:
        ways = {OURS: lambda at: opened.index.search(queries[at], k=K)}
        here = latencies(ways, len(queries), bench.effort.rounds)[OURS].p50
    against = f"{OURS} on {opened.engine}"
    for row in measured:
        if row.measure == SEARCH and row.system == BUILT_IN:
            yield replace(row, against=against, reference=here, at_least=20)


def _task(bench: Bench, size: int) -> Task:
    effort, analyzer = bench.effort, CONFIG.build_analyzer()
    return Task(
        str(bench.folder),
        joined(token_lists(bench.texts(size))),
        [joined(token_lists(bench.more_texts(effort.added, 3 + turn))) for turn in range(effort.repeats)],
        joined([query_tokens(analyzer, query) for query in bench.queries(size, effort.other_queries)]),
        effort.rounds,
    )


def _in_other_process(bench: Bench, task: Task) -> list[Row]:
    given, told = bench.folder / "task.json", bench.folder / "told.json"
    given.write_text(json.dumps(asdict(task)), encoding="utf-8")
    command = [bench.peers_python, "-m", "bench.other_engines", str(given), str(told)]
    subprocess.run(command, env=bench.child_environment(), check=True, stdout=sys.stderr)
    results = Results.read(told)
    bench.peers_versions = results.environment
    return results.rows


# In the other process


class Searched(Protocol):
    """A system that can be filled and searched."""

    def add(self, texts: Sequence[str]) -> None:
        """Add texts and make them searchable."""

    def search(self, query: str) -> object:
        """Return the top ten."""


def main(given: str, told: str) -> None:
    task = Task(**json.loads(Path(given).read_text(encoding="utf-8")))
    versions = environment.versions(PACKAGES)
    Results(versions, list(_measured(task))).write(Path(told))


def _measured(task: Task) -> Iterator[Row]:
    """Fill all installed systems, then search and extend them in turns."""
    missing = {name: environment.missing(module, name) for name, module in NEEDED.items()}
    size, number = len(task.texts), len(task.more[0])
    yield from (
        Row(TOPIC, "search and adding", size, name, skipped=reason) for name, reason in missing.items() if reason
    )
    made = {name: engine(Path(task.folder)) for name, engine in ENGINES.items() if not missing.get(name)}
    for engine in made.values():
        engine.add(task.texts)
    asked = {name: _asking(engine, task.queries) for name, engine in made.items()}
    searching = {name: each.p50 for name, each in latencies(asked, len(task.queries), task.rounds).items()}
    ways = {name: _adding(engine, task.more) for name, engine in made.items()}
    adding = in_turns(ways, len(task.more))
    for name, value in searching.items():
        yield _row(SEARCH, size, name, value, searching)
    for name, value in adding.items():
        yield _row(f"adding {number:,} chunks, and the next search", size, name, value, adding)


def _row(measure: str, size: int, name: str, value: Spread, all_: dict[str, Spread]) -> Row:
    if name == OURS_ON_LITE3:
        return Row(TOPIC, measure, size, name, value)
    at_least = 1 if (measure, name) == (SEARCH, LANGCHAIN) else None
    return Row(TOPIC, measure, size, name, value, OURS_ON_LITE3, all_[OURS_ON_LITE3], "ratio", at_least=at_least)


def _asking(engine: Searched, queries: Sequence[str]) -> Callable[[int], object]:
    return lambda at: engine.search(queries[at])


def _adding(engine: Searched, more: Sequence[Sequence[str]]) -> Callable[[], Clock]:
    """Return a function that adds the next batch."""
    waiting = iter(more)
    return lambda: seconds_of(lambda: engine.add(next(waiting)))


class Ours:
    """An index on milvus-lite 3, of tokens between spaces."""

    def __init__(self, folder: Path) -> None:
        self._index = BM25Index.open(folder / "ours3.db", NAME, config=SPLIT)

    def add(self, texts: Sequence[str]) -> None:
        self._index.add(texts)
        self._index.search(texts[0])

    def search(self, query: str) -> object:
        return self._index.search(query, k=K)


class BuiltIn:
    """A collection whose sparse vectors milvus-lite makes."""

    def __init__(self, folder: Path) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self._client = MilvusClient(str(folder / "builtin.db"), grpc_options=NO_PINGS)
        schema = self._client.create_schema(auto_id=True)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("text", DataType.VARCHAR, max_length=TEXT_BYTES, enable_analyzer=True)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["sparse"]))
        index = self._client.prepare_index_params()
        index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        self._client.create_collection(NAME, schema=schema, index_params=index)

    def add(self, texts: Sequence[str]) -> None:
        for batch in batches(texts):
            self._client.insert(NAME, [{"text": text} for text in batch])
        self._client.flush(NAME)
        self.search(texts[0])

    def search(self, query: str) -> object:
        return self._client.search(NAME, [query], anns_field="sparse", limit=K, output_fields=["text"])


class LangChain:
    """A vector store of langchain-milvus, with milvus-lite's BM25 function."""

    def __init__(self, folder: Path) -> None:
        from langchain_milvus import BM25BuiltInFunction, Milvus

        self._store: Any = Milvus(
            None,
            builtin_function=BM25BuiltInFunction(),
            vector_field="sparse",
            connection_args={"uri": str(folder / "langchain.db"), "grpc_options": NO_PINGS},
            collection_name=NAME,
            index_params={"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25"},
            search_params={"metric_type": "BM25"},
            auto_id=True,
        )

    def add(self, texts: Sequence[str]) -> None:
        self._store.add_texts(texts)
        self._store.client.flush(NAME)
        self.search(texts[0])

    def search(self, query: str) -> object:
        return self._store.similarity_search_with_score(query, k=K)


ENGINES: dict[str, Callable[[Path], Searched]] = {OURS_ON_LITE3: Ours, BUILT_IN: BuiltIn, LANGCHAIN: LangChain}

if __name__ == "__main__":
    main(*sys.argv[1:])
