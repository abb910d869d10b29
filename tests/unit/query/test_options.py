"""One set of options for everything that weighs queries."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, ParameterError
from rag_bm25.query.options import QUERY_OPTIONS, check_options, weighting_of
from rag_bm25.weighting.query import QueryWeighting


def test_what_is_left_out_is_as_the_index_says() -> None:
    own = QueryWeighting(idf="zero", epsilon=0.1, k3=8.0)
    assert weighting_of(own, {}) == own
    assert weighting_of(own, {"idf": None, "epsilon": None}) == own
    assert weighting_of(own, {"statistics": "all"}) == own


def test_none_switches_off_the_saturation_of_the_index() -> None:
    assert weighting_of(QueryWeighting(k3=8.0), {"k3": None}).k3 is None


def test_given_options_win() -> None:
    asked = weighting_of(QueryWeighting(), {"idf": "plus", "epsilon": 0.5, "k3": 2.0, "bigram_weight": 0})
    assert asked == QueryWeighting("plus", 0.5, 2.0, 0)


def test_unknown_option_is_refused_like_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'idff'.*epsilon, .*filter, .*idf, .*namespace"):
        check_options({"idff": "lucene"})


@pytest.mark.parametrize("method", ["search", "encode_queries", "explain"])
def test_every_method_checks_its_options(method: str) -> None:
    with BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=5)) as index:
        index.add(["apple pie"], ids=["a"])
        arguments = {"search": ("apple",), "encode_queries": (["apple"],), "explain": ("apple", "a")}[method]
        ask = getattr(index, method)
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            ask(*arguments, foo=1)
        with pytest.raises(ParameterError, match="k3 must be"):
            ask(*arguments, k3=-1.0)
        with pytest.raises(ParameterError, match="statistics must be 'namespace', 'all' or a filter"):
            ask(*arguments, statistics="corpus")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"syntax": "yes"}, "syntax must be True or False, got 'yes'"),
        ({"expansion": {"a": ["b"]}}, "expansion must be a QueryExpansion or None, got {'a': ['b']}"),
        ({"min_should_match": "most"}, "min_should_match must be an int or a str such as '75%', '-1' or '3<90%'"),
    ],
)
def test_options_of_other_types_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_options(option)
    assert str(caught.value).startswith(message)


def test_saturation_can_be_switched_off_per_search() -> None:
    config = IndexConfig(chunk_size=5, k3=0.0)
    with BM25Index.from_store(MemoryStore(), config=config) as index:
        index.add(["apple pie", "pear"])
        once = index.encode_queries(["apple"])[0].values[0]
        assert index.encode_queries(["apple apple"])[0].values[0] == pytest.approx(once)
        assert index.encode_queries(["apple apple"], k3=None)[0].values[0] == pytest.approx(2 * once)


def test_names_are_those_of_the_type() -> None:
    assert {"statistics", "idf", "epsilon", "k3", "bigram_weight"} <= QUERY_OPTIONS
