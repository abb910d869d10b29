"""A budget ends long work between two steps, and changes nothing else; without a server there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from rag_bm25 import MMR, RSJ, BM25Index, Decay, IndexConfig, NearDuplicates, Query, QueryExpansion
from rag_bm25.budget import check_budget, limited
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.query.synonyms import Synonyms

NUM_CHUNKS = 20
WORDS = [f"word{number}" for number in range(30)]
QUERY = " ".join(WORDS)


class SpentError(Exception):
    """The budget is spent."""


class Steps:
    """A budget of so many steps."""

    def __init__(self, most: float = float("inf")) -> None:
        self.most = most
        self.taken = 0

    def __call__(self) -> None:
        self.taken += 1
        if self.taken >= self.most:
            raise SpentError


@contextmanager
def filled() -> Iterator[BM25Index]:
    """Open an index that remembers no query."""
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=50)) as index:
        texts = [f"{QUERY} chunk {number}" for number in range(NUM_CHUNKS)]
        metadatas = [{"source": "a.txt", "chunk": number} for number in range(NUM_CHUNKS)]
        index.add(texts, ids=[f"a.txt#{number}" for number in range(NUM_CHUNKS)], metadatas=metadatas)
        yield index


def search(index: BM25Index, query: Query | str = QUERY, **options: Any) -> Any:
    return index.search(query, NUM_CHUNKS, **options)


def highlight(index: BM25Index) -> Any:
    return index.highlight("word1", "word1 beside, " * 1_000, Highlighting(50, 20))


SYNONYMS = QueryExpansion(synonyms=Synonyms.of({word: [f"{word}x", f"{word}y"] for word in WORDS}))
CASES: dict[str, tuple[Callable[[BM25Index], Any], int]] = {
    "highlights of hits": (partial(search, highlight=True), NUM_CHUNKS),
    "windows of a long sentence": (highlight, 50),
    "phrases": (partial(search, query=Query(QUERY, phrases=["word1 word2", "word3 word4"])), 2 * NUM_CHUNKS),
    "excluded words": (partial(search, query=Query(QUERY, must_not=["nowhere"])), NUM_CHUNKS),
    "feedback": (partial(search, feedback=RSJ(["a.txt#1"])), 1),
    "synonyms": (partial(search, expansion=SYNONYMS), 3 * len(WORDS)),
    "boosts": (partial(search, boosts=[Decay("chunk", 3, 0)]), NUM_CHUNKS),
    "near duplicates": (partial(search, diversity=NearDuplicates(0.999)), NUM_CHUNKS),
    "diversity": (partial(search, diversity=MMR(0.5)), NUM_CHUNKS),
    "contexts": (partial(search, context="neighbors"), NUM_CHUNKS),
    "explanation": (lambda index: index.explain(QUERY, "a.txt#1"), 2 * len(WORDS)),
    "diagnosis of nothing": (lambda index: index.diagnose(Query(QUERY, must=["zzz"], phrases=["a b"])), 4),
    "diagnosis of a chunk": (lambda index: index.diagnose(Query(QUERY, must_not=["chunk"]), "a.txt#1", k=1), 4),
}


@pytest.mark.parametrize(("call", "steps"), CASES.values(), ids=CASES)
def test_long_work_asks_at_every_step_whether_to_go_on(call: Callable[[BM25Index], Any], steps: int) -> None:
    counted = Steps()
    with filled() as index:
        expected = call(index)
    with filled() as index, limited(counted):
        assert call(index) == expected
    assert counted.taken >= steps
    for most in (1, counted.taken):
        with filled() as index:
            with limited(Steps(most)), pytest.raises(SpentError):
                call(index)
            assert call(index) == expected  # nothing that was cut short is kept


def test_near_spellings_ask_at_every_step() -> None:
    pytest.importorskip("rapidfuzz")
    counted = Steps()
    with filled() as index, limited(counted):
        assert index.suggest("worrd1 worrd2 worrd3") is not None
    assert counted.taken >= 3


def test_a_budget_ends_with_its_call() -> None:
    with pytest.raises(SpentError), limited(Steps(1)):
        check_budget()
    check_budget()
