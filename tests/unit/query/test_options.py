"""One set of options for everything that searches."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, ParameterError, QueryWeighting
from rag_bm25.hits.options import check_options
from rag_bm25.weighting.query import DEFAULT_WEIGHTING


def test_what_a_weighting_does_not_give_is_as_the_index_says() -> None:
    own = QueryWeighting("zero", 0.1, 8.0, 0.5, 0.3, 0.15, 2.0, 0.2, 0.9, 0.4, "mean")
    assert QueryWeighting().over(own) == own
    assert QueryWeighting(k3=None).over(own).k3 is None
    given = QueryWeighting(idf="plus", epsilon=0.5, k3=2.0, bigram_weight=0)
    others = (0.3, 0.15, 2.0, 0.3, None, None, "chunk_size")
    assert given.over(DEFAULT_WEIGHTING) == QueryWeighting("plus", 0.5, 2.0, 0, *others)
    assert repr(given) == "QueryWeighting(idf='plus', epsilon=0.5, k3=2.0, bigram_weight=0)"


def test_what_others_call_k_is_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'; k is the number of hits; the options"):
        check_options({"top_k": 5})


def test_unknown_option_is_refused_like_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'idf'; the options are boosts, .*weighting"):
        check_options({"idf": "lucene"})


@pytest.mark.parametrize("method", ["search", "encode_queries", "explain", "diagnose", "more_like_this", "max_scores"])
def test_every_method_checks_its_options(method: str) -> None:
    with BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=5)) as index:
        index.add(["apple pie"], ids=["a"])
        arguments: dict[str, tuple[Any, ...]] = {
            "explain": ("apple", "a"),
            "more_like_this": ("a",),
            "encode_queries": (["apple"],),
            "max_scores": (["apple"],),
        }
        ask = getattr(index, method)
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            ask(*arguments.get(method, ("apple",)), foo=1)
        with pytest.raises(ParameterError, match="statistics must be one of namespace, all or a mapping"):
            ask(*arguments.get(method, ("apple",)), statistics="corpus")


def test_saturation_can_be_switched_off_per_search() -> None:
    config = IndexConfig(chunk_size=5, k3=0.0)
    with BM25Index.from_store(MemoryStore(), config=config) as index:
        index.add(["apple pie", "pear"])
        (once,), (twice,) = index.encode_queries(["apple"]), index.encode_queries(["apple apple"])
        (linear,) = index.encode_queries(["apple apple"], weighting=QueryWeighting(k3=None))
        assert twice.values[0] == pytest.approx(once.values[0])
        assert linear.values[0] == pytest.approx(2 * once.values[0])
