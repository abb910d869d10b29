"""Peers in Python: libraries that hold the whole index in this process.

All get the same tokens as our index, and are not timed for analysing chunks, only queries, as ours is. Each is built
for the chunks of the index and 1,000 more, which is what adding these costs where nothing can be added; then it is
searched.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from bench import environment
from bench.report import OURS, Row
from bench.timing import Spread, latencies, seconds_of, timed
from bench.workbench import CONFIG, Bench, K, Opened, batches
from rag_bm25.analysis.text import query_tokens
from rag_bm25.vectors.terms import BIGRAM_MARK

TOPIC = "peers"
TANTIVY_HEAP = 256 * 2**20
Tokens = list[str]


class Peer(NamedTuple):
    """A library: how it is built from tokens and searched."""

    package: str
    module: str
    build: Callable[[Sequence[Tokens]], Any]
    search: Callable[[Any, Tokens], object]
    add: Callable[[Any, Sequence[Tokens]], object] | None = None  # where it need not be rebuilt
    at_least: float | None = None  # times our median search
    queries: int | None = None  # where one takes long


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        yield from _compared(bench, size)


def _compared(bench: Bench, size: int) -> Iterator[Row]:
    effort = bench.effort
    with Opened(bench.index(size)) as opened:
        adding = ours_added(bench, opened)
        yield Row(TOPIC, f"adding {effort.added:,} chunks", size, value=adding)
        tokens = token_lists([*bench.texts(size), *bench.more_texts(effort.added)])
        for peer in PEERS:
            if reason := environment.missing(peer.module, peer.package):
                yield Row(TOPIC, "search and adding", size, system=peer.package, skipped=reason)
            else:
                yield from _measured(bench, size, peer, tokens, adding, opened)


def _measured(
    bench: Bench, size: int, peer: Peer, tokens: Sequence[Tokens], adding: Spread, opened: Opened
) -> Iterator[Row]:
    built, measure, value = _added(bench, size, peer, tokens)
    against = f"{OURS}, with analysis"
    yield Row(TOPIC, measure, size, peer.package, value, against, adding, "ratio")
    gc.freeze()  # millions of objects of a peer must not slow ours down whenever Python looks for garbage
    yield _searched(bench, size, peer, built, opened)
    gc.unfreeze()


def token_lists(texts: Sequence[str]) -> list[Tokens]:
    """Analyse chunks; equal tokens share one string."""
    analyzer = CONFIG.build_analyzer()
    kept: dict[str, str] = {}
    return [[kept.setdefault(token, token) for token in analyzer(text)] for text in texts]


def joined(tokens: Sequence[Tokens]) -> list[str]:
    """Join tokens; the mark of a bigram becomes a letter, which tokenizers keep."""
    return [" ".join(row).replace(BIGRAM_MARK, "_") for row in tokens]


def ours_added(bench: Bench, opened: Opened) -> Spread:
    """Add batches of new chunks, including analysis."""
    effort = bench.effort
    fresh = bench.more_texts(effort.adds * effort.added, part=2)
    return Spread.of_clocks([seconds_of(partial(opened.index.add, texts)) for texts in batches(fresh, effort.added)])


def _added(bench: Bench, size: int, peer: Peer, tokens: Sequence[Tokens]) -> tuple[Any, str, Spread]:
    """Build a peer with all chunks; return it with the seconds for the last ones."""
    number = len(tokens) - size
    if peer.add is not None:
        built = peer.build(tokens[:size])
        clock = seconds_of(partial(peer.add, built, tokens[size:]))
        return built, f"adding {number:,} chunks", Spread.of_clocks([clock])
    built, clocks = None, []
    for _ in range(bench.repeats(size)):
        built = None  # two would take twice the memory
        with timed() as clock:
            built = peer.build(tokens)
        clocks.append(clock)
    return built, f"rebuilt for {number:,} more chunks", Spread.of_clocks(clocks)


def _searched(bench: Bench, size: int, peer: Peer, built: Any, opened: Opened) -> Row:
    """Search a peer and our index in turns."""
    analyzer = CONFIG.build_analyzer()
    queries = bench.queries(size, peer.queries or bench.effort.queries)
    ways = {
        "ours": lambda at: opened.index.search(queries[at], k=K),
        "peer": lambda at: peer.search(built, query_tokens(analyzer, queries[at])),
    }
    taken = latencies(ways, len(queries), bench.effort.rounds)
    return Row(
        TOPIC,
        f"search, k = {K}, p50",
        size,
        system=peer.package,
        value=taken["peer"].p50,
        against=OURS,
        reference=taken["ours"].p50,
        comparison="ratio",
        at_least=peer.at_least,
    )


# The libraries


def _build_bm25s(tokens: Sequence[Tokens]) -> Any:
    import bm25s

    index = bm25s.BM25()
    index.index(list(tokens), show_progress=False)
    return index


def _search_bm25s(index: Any, query: Tokens) -> object:
    return index.retrieve([query], k=K, show_progress=False)


def _build_rank_bm25(tokens: Sequence[Tokens]) -> Any:
    from rank_bm25 import BM25Okapi

    return BM25Okapi(tokens)


def _search_rank_bm25(index: Any, query: Tokens) -> object:
    return index.get_top_n(query, range(index.corpus_size), K)


def _build_tantivy(tokens: Sequence[Tokens]) -> Any:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=True, tokenizer_name="whitespace")
    index = tantivy.Index(schema.build())
    _add_to_tantivy(index, tokens)
    return index


def _add_to_tantivy(index: Any, tokens: Sequence[Tokens]) -> None:
    import tantivy

    writer = index.writer(TANTIVY_HEAP)
    for row in tokens:
        writer.add_document(tantivy.Document(text=" ".join(row)))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def _search_tantivy(index: Any, query: Tokens) -> object:
    import tantivy

    terms = [(tantivy.Occur.Should, tantivy.Query.term_query(index.schema, "text", term)) for term in query]
    searcher = index.searcher()
    hits = searcher.search(tantivy.Query.boolean_query(terms), K).hits
    return [(score, searcher.doc(address)["text"]) for score, address in hits]


def _build_fts5(tokens: Sequence[Tokens]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize=\"unicode61 tokenchars '_'\")")
    _add_to_fts5(database, tokens)
    return database


def _add_to_fts5(database: sqlite3.Connection, tokens: Sequence[Tokens]) -> None:
    with database:
        database.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in joined(tokens)))


def _search_fts5(database: sqlite3.Connection, query: Tokens) -> object:
    either = " OR ".join(f'"{term}"' for term in joined([query])[0].split())
    return database.execute(f"SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT {K}", [either]).fetchall()


def _build_lancedb(tokens: Sequence[Tokens]) -> Any:
    import lancedb
    from lancedb.index import FTS

    table = lancedb.connect("memory://").create_table("texts", _rows(tokens))
    plain = FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False, ascii_folding=False)
    table.create_index("text", config=plain)
    return table


def _add_to_lancedb(table: Any, tokens: Sequence[Tokens]) -> None:
    table.add(_rows(tokens))
    table.optimize()


def _rows(tokens: Sequence[Tokens]) -> list[dict[str, str]]:
    return [{"text": text} for text in joined(tokens)]


def _search_lancedb(table: Any, query: Tokens) -> object:
    return table.search(joined([query])[0], query_type="fts").limit(K).to_list()


PEERS = (
    Peer("rank-bm25", "rank_bm25", _build_rank_bm25, _search_rank_bm25, at_least=50, queries=12),
    Peer("bm25s", "bm25s", _build_bm25s, _search_bm25s),
    Peer("tantivy", "tantivy", _build_tantivy, _search_tantivy, _add_to_tantivy),
    Peer("SQLite FTS5", "sqlite3", _build_fts5, _search_fts5, _add_to_fts5, queries=110),
    Peer("lancedb", "lancedb", _build_lancedb, _search_lancedb, _add_to_lancedb),
)
