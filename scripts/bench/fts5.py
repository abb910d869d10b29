"""CPU time of ingestion and of its steps, beside SQLite FTS5 with its stemmer for English.

Each step is measured with those before it. That of the engine includes its process.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from bench.ingestion import OURS, WARM_UP, added, analysis, encoded_rows, insertion
from bench.report import Row, ratio
from bench.timing import Clock, Spread, in_turns, seconds_of, timed
from bench.workbench import CONFIG, Bench, batches
from rag_bm25 import IndexConfig
from rag_bm25.analysis import AnalyzerConfig

TOPIC = "fts5"
SQLITE = "SQLite FTS5"


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        yield from _compared(bench, size)


def _compared(bench: Bench, size: int) -> Iterator[Row]:
    texts = bench.texts(size)
    stored = encoded_rows(texts)
    plain = IndexConfig(CONFIG.chunk_size, analyzer=AnalyzerConfig(word_bigrams=False))
    ours: dict[str, Callable[[], Clock]] = {
        "analysis": lambda: analysis(texts),
        "analysis and counting": lambda: counting(texts),
        "analysis, counting and vectors": lambda: seconds_of(lambda: encoded_rows(texts)),
        OURS: lambda: insertion(stored),
        "add": lambda: added(texts),
        "add, word_bigrams=False": lambda: added(texts, plain),
    }
    taken = in_turns({SQLITE: lambda: filled(texts), **ours}, bench.repeats(size))
    for name in ours:
        yield ratio(TOPIC, f"CPU of {name}", size, _cpu(taken[name]), SQLITE, _cpu(taken[SQLITE]))


def _cpu(value: Spread) -> Spread:
    return Spread.of([value.cpu or 0.0])


def counting(texts: Sequence[str]) -> Clock:
    encoder = CONFIG.document_encoder()
    encoder.count(WARM_UP)
    with timed() as clock:
        for batch in batches(texts):
            encoder.count(batch)
    return clock


def filled(texts: Sequence[str]) -> Clock:
    """Fill a table in a file."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder, "fts5.db"))) as database:
        database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter')")
        with timed() as clock, database:
            database.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))
    return clock
