"""Queries of users, with every option: an error of ours, or hits whose scores are explained."""

from __future__ import annotations

import functools
import math
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore

from fuzz.strategies import FEW, mostly, scalars, texts
from rag_bm25 import BM25Index, Fuzzy, IndexConfig, Query, QueryExpansion, QueryPart, Synonyms
from rag_bm25.errors import RagBM25Error
from rag_bm25.query.min_should_match import check_min_should_match, required_words

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
        "banan",
        "合同",
        "劳动",
        "劳动和同",
        "解除",
        "v2.5.1",
        "iPhone",
        "the",
        "a",
        "ß",
        "👍",
    ),
    *("^", "^2", "^0.5", "^.5", "^1e9", "^99999", "^٣", '"', "“", "”", "*", " ", "\u3000", "(", ")", "\\", "\ud800"),
    *("\0", "\n", "app*", '"合同 解除"^2', "state-of-the-art", "x" * 70, "１５", "-", "+", "AND", "~2", ":", "=>"),
]
COUNTS = ["3", "-1", "75%", "-25%", "3<90%", "2<-25% 9<-3", "0", "-0", "999999999%", "9" * 10, "<", "1<", "%", "", " "]
SYNONYMS = Synonyms.parse("apple, fruit^0.5, 苹果\n合同 => 协议, 合同^0.9\npie, tart tatin")

QUERIES = texts(PIECES, 10)
WEIGHTED = st.dictionaries(texts(PIECES, 2), mostly(st.just(2.0), scalars(PIECES), 2), min_size=1, max_size=2)
FUZZY = st.builds(
    Fuzzy,
    max_edits=st.sampled_from(["auto", 0, 1, 2]),
    prefix_length=st.integers(0, 2),
    terms=st.sampled_from(["unknown", "all"]),
)
OPTIONS = st.fixed_dictionaries(
    {
        "syntax": st.booleans(),
        "min_should_match": mostly(st.none(), st.sampled_from([*COUNTS, "３", 2, -1]) | scalars(PIECES), 3),
        "expansion": st.none()
        | st.builds(QueryExpansion, synonyms=st.sampled_from([SYNONYMS, None]), fuzzy=st.none() | FUZZY),
        "bigram_weight": st.sampled_from([None, 0, 0.4, 1e300, 5e-324]),
        "idf": mostly(st.sampled_from([None, "lucene", "zero", "plus", "tfidf", "plain"]), st.just("x"), 16),
        "k3": st.sampled_from([None, 0, 8.0, 1e308]),
        "statistics": st.sampled_from(["namespace", "all"]),
    }
)


@st.composite
def _in_parts(draw: Any) -> Any:
    text, other = draw(QUERIES), draw(texts(PIECES, 2))
    try:
        return Query((QueryPart(text, 0.5, prefix=True), QueryPart(other)))
    except RagBM25Error:
        return text


@FEW
@given(
    QUERIES | QUERIES | WEIGHTED | _in_parts(),
    st.sampled_from(["", "n", None]),
    st.sampled_from([1, 5, 16_384]),
    OPTIONS,
)
def check(query: Any, namespace: str | None, k: int, options: dict[str, Any]) -> None:
    """Search, explain and suggest."""
    with suppress(RagBM25Error):
        check_min_should_match(options["min_should_match"])
        assert all(0 <= required_words(options["min_should_match"], words) <= words for words in range(5))
    with suppress(RagBM25Error):
        index = _index()
        for hit in index.search(query, k, namespace=namespace, **options):
            assert math.isfinite(hit.score)
            assert hit.score > 0
            if namespace is not None:  # else it is weighed by the statistics of all that were searched
                value = index.explain(query, hit.id, namespace=namespace, **options).value
                assert math.isclose(value, hit.score, rel_tol=1e-5), f"{value}, not {hit.score}"
        if isinstance(query, str):
            index.suggest(query)
            assert str(Query.of(query)) == query


@functools.cache
def _index() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=20))
    index.add(TEXTS, ids=[str(place) for place in range(len(TEXTS))])
    index.add(TEXTS[:3], ids=["x", "y", "z"], namespace="n")
    return index
