"""Queries from a user's hands, with every option: an error of ours, or hits whose scores are explained."""

from __future__ import annotations

import functools
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memory_store import MemoryStore

from rag_bm25 import BM25Index, Fuzzy, IndexConfig, Query, QueryExpansion, QueryPart, Synonyms
from rag_bm25.errors import RagBM25Error
from rag_bm25.min_should_match import check_min_should_match, required_words

if TYPE_CHECKING:
    from fuzz.drawing import Draw

__all__ = ["check"]

TEXTS = [
    "Apple pie, apples",
    "banana split",
    "劳动合同 的 解除",
    "劳动争议 v2.5.1",
    "iPhone15 state-of-the-art",
    "the 合同法",
]
PIECES = [
    *(
        "apple",
        "aple",
        "appel",
        "pie",
        "合同",
        "劳动",
        "劳动和同",
        "解除",
        "v2.5.1",
        "iPhone",
        "the",
        "state-of-the-art",
    ),
    *(
        "banan",
        "^",
        "^2",
        "^0.5",
        "^.5",
        "^1e9",
        "^99999",
        "^٣",
        '"',
        "“",
        "”",
        "*",
        " ",
        "\u3000",
        "(",
        ")",
        "\\",
        "\ud800",
    ),
    *("\0", "\n", "app*", '"合同 解除"^2', "a", "x" * 70, "１５", "ß", "👍", "-", "+", "AND", "~2", ":", "=>"),
]
COUNTS = ["3", "-1", "75%", "-25%", "3<90%", "2<-25% 9<-3", "0", "-0", "999999999%", "9" * 10, "<", "1<", "%", ""]
COUNTS += [" ", "３", 2, -1]
SYNONYMS = Synonyms.parse("apple, fruit^0.5, 苹果\n合同 => 协议, 合同^0.9\npie, tart tatin")


def check(draw: Draw) -> None:
    """Search, explain, and ask what was meant."""
    options = _options(draw)
    query, namespace = _query(draw), draw.choice(["", "n", None])
    with suppress(RagBM25Error):
        index = _index()
        hits = index.search(query, draw.choice([1, 5, 16_384]), namespace=namespace, **options)
        for hit in hits:
            assert math.isfinite(hit.score)
            assert hit.score > 0
            if namespace is not None:  # else it is weighed by the statistics of all that were searched
                value = index.explain(query, hit.id, namespace=namespace, **options).value
                assert math.isclose(value, hit.score, rel_tol=1e-5), f"{value}, not {hit.score}"
        if isinstance(query, str):
            index.suggest(query)
            assert str(Query.of(query)) == query


def _query(draw: Draw) -> Any:
    text = draw.text(PIECES, 10)
    kind = draw.number(4)
    if kind == 0:
        return {text: draw.scalar(PIECES), draw.text(PIECES, 2): 2.0}
    if kind == 1:
        with suppress(RagBM25Error):
            return Query((QueryPart(text, 0.5, prefix=True), QueryPart(draw.text(PIECES, 2))))
    return text


def _options(draw: Draw) -> dict[str, Any]:
    count = draw.choice(COUNTS) if draw.chance(3) else draw.scalar(PIECES) if draw.chance(4) else None
    with suppress(RagBM25Error):
        check_min_should_match(count)
        assert all(0 <= required_words(count, words) <= words for words in range(5))
    return {
        "syntax": bool(draw.number(2)),
        "min_should_match": count,
        "expansion": _expansion(draw) if draw.chance(2) else None,
        "bigram_weight": draw.choice([None, 0, 0.4, 1e300, 5e-324]),
        "idf": draw.choice([None, "lucene", "zero", "plus", "tfidf", "plain", "x"]),
        "k3": draw.choice([None, 0, 8.0, 1e308]),
        "statistics": draw.choice(["namespace", "all"]),
    }


def _expansion(draw: Draw) -> QueryExpansion:
    edits = draw.choice(["auto", 0, 1, 2])
    fuzzy = Fuzzy(max_edits=edits, prefix_length=draw.number(3), terms=draw.choice(["unknown", "all"]))
    return QueryExpansion(synonyms=SYNONYMS if draw.chance(2) else None, fuzzy=fuzzy if draw.chance(2) else None)


@functools.cache
def _index() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=20))
    index.add(TEXTS, ids=[str(place) for place in range(len(TEXTS))])
    index.add(TEXTS[:3], ids=["x", "y", "z"], namespace="n")
    return index
