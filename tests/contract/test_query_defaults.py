"""Parameters of queries that are set once live with the index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import (
    BM25Index,
    ConfigMismatchError,
    IndexConfig,
    IndexGroup,
    InputError,
    ParameterError,
    QueryExpansion,
    QueryWeighting,
    ReadOnlyError,
    Synonyms,
)
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.index.maintenance.generations import make_next_generation
from rag_bm25.index.scoped import narrow
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(20)
CARS = QueryExpansion(synonyms=Synonyms.parse("car, automobile\nny => new york"))
NONE = QueryExpansion(synonyms=None)


_INDEXES: list[BM25Index] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the indexes, and with them the stores of their next generations."""
    yield
    while _INDEXES:
        _INDEXES.pop().close()


def open_one(opened: Callable[..., Store], config: IndexConfig | None = None) -> BM25Index:
    _INDEXES.append(BM25Index.from_store(opened(), config=config))
    return _INDEXES[-1]


def ids(index: BM25Index, query: str = "car", **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


def fill(index: BM25Index) -> BM25Index:
    index.add(["car car tree", "automobile", "new york", "tree"], ids=["car", "auto", "town", "tree"])
    return index


def test_every_handle_has_them_at_its_next_refresh_and_a_search_may_drop_them(
    opened: Callable[..., Store],
) -> None:
    writer = fill(open_one(opened, CONFIG))
    reader = open_one(opened, CONFIG)
    part = narrow(reader, namespace="")
    assert ids(reader) == ids(part) == ["car"]
    writer.set_query_defaults(expansion=CARS)
    reader.refresh()
    for index in (writer, reader, part):
        assert ids(index) == ids(index, expansion=QueryExpansion(fuzzy=False)) == ["car", "auto"]
        assert ids(index, expansion=NONE) == ["car"]
        assert ids(index, expansion=QueryExpansion(synonyms={"car": ["tree"]})) == ["car", "tree"]
    assert "synonym of 'car', from the index" in reader.explain("car", "auto").tree
    assert "from the index" not in reader.explain("car", "auto", expansion=CARS).tree
    assert open_one(opened).config.expansion == CARS.over(CONFIG.expansion)


def test_what_is_not_given_stays(opened: Callable[..., Store]) -> None:
    index = fill(open_one(opened, CONFIG))
    index.set_query_defaults(expansion=CARS)
    index.set_query_defaults(weighting=QueryWeighting(idf="lucene"), expansion=QueryExpansion(numerals=False))
    index.set_query_defaults(weighting=QueryWeighting(k3=None))
    config = open_one(opened).config
    assert (config.idf, config.k3, config.expansion.synonyms) == ("lucene", None, CARS.synonyms)
    assert not config.expansion.numerals
    assert index.stats().idf == "lucene"
    index.set_query_defaults(expansion=NONE)
    assert ids(index, "ny") == []


def test_a_value_that_is_given_on_purpose_stands_before_those_of_the_index(
    opened: Callable[..., Store],
) -> None:
    index = fill(open_one(opened, replace(CONFIG, idf="lucene", k3=None)))
    assert open_one(opened, CONFIG).config.k3 is None
    own = open_one(opened, replace(CONFIG, idf="plus"))
    index.set_query_defaults(weighting=QueryWeighting(idf="tfidf", k3=2))
    own.refresh()
    assert (own.config.idf, own.config.k3) == ("plus", 2)
    assert open_one(opened, replace(CONFIG, idf="lucene")).config.idf == "tfidf"  # as the index was made
    own.set_query_defaults(weighting=QueryWeighting(idf="zero"))
    assert own.config.idf == "zero"


def test_copies_generations_and_repairs_keep_them(opened: Callable[..., Store]) -> None:
    index = fill(open_one(opened, CONFIG))
    index.set_query_defaults(expansion=CARS)
    target = MemoryStore()
    copy_index(index._store, target)
    assert ids(open_one(lambda: target)) == ["car", "auto"]
    index.repair()
    assert ids(index) == ["car", "auto"]
    make_next_generation(index, replace(index.config, k1=1.2))
    assert (index.config.k1, ids(index)) == (1.2, ["car", "auto"])
    index.set_query_defaults(expansion=NONE)
    assert ids(open_one(opened)) == ["car"]


def test_what_is_set_while_an_index_is_reindexed_is_kept(opened: Callable[..., Store]) -> None:
    index = fill(open_one(opened, CONFIG))
    other = open_one(opened)

    def change(_progress: object) -> None:
        other.set_query_defaults(expansion=CARS)

    make_next_generation(index, replace(index.config, k1=1.2), change)
    assert (index.config.k1, ids(index)) == (1.2, ["car", "auto"])


def test_a_reader_may_not_set_them_and_wrong_ones_are_refused(opened: Callable[..., Store]) -> None:
    index = fill(open_one(opened, CONFIG))
    with pytest.raises(ParameterError, match="needs weighting, expansion or fusion, got none"):
        index.set_query_defaults()
    with pytest.raises(InputError, match="synonyms of 'car': the analyzer drops all of 'the'"):
        index.set_query_defaults(expansion=QueryExpansion(synonyms={"car": ["the"]}))
    many = {f"word{number}": ["synonym " * 20] for number in range(10_000)}
    with pytest.raises(ParameterError, match=r"at most 1,048,576 bytes of JSON, got [\d,]+: give fewer synonyms"):
        index.set_query_defaults(expansion=QueryExpansion(synonyms=many))
    with pytest.raises(ReadOnlyError):
        narrow(index, namespace="").set_query_defaults(expansion=CARS)
    assert index._live.view.query_defaults is None


def test_members_of_a_group_that_differ_are_refused_with_the_difference() -> None:
    first, second = (fill(BM25Index.open(":memory:", name, config=CONFIG)) for name in "ab")
    group = IndexGroup([first, second])
    assert ids(group) == ["car", "car"]
    first.set_query_defaults(weighting=QueryWeighting(idf="lucene"), expansion=CARS)
    expected = r"index 1 .* than index 0: idf: 'lucene' and 'epsilon'; synonyms: Synonyms\(2 rules\) and None\. Set"
    for refused in (lambda: IndexGroup([first, second]), lambda: ids(group)):
        with pytest.raises(ConfigMismatchError, match=expected):
            refused()
    second.set_query_defaults(weighting=QueryWeighting(idf="lucene"), expansion=CARS)
    assert ids(group) == ["car", "car", "auto", "auto"]


def test_synonyms_come_back_from_json_as_they_were() -> None:
    kept = Synonyms.parse("a, b c^0.5\nx => y, x\nny => new york")
    assert Synonyms.from_lists(json.loads(json.dumps(kept.to_lists()))) == kept
