"""Conditions are checked for the text of a chunk, and for each text of its fields by itself."""

from __future__ import annotations

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, Query

TAGS = {"one": ["trial", "notice period"], "two": ["trial notice", "period"], "text": "trial notice period"}


@pytest.fixture(scope="module")
def index() -> BM25Index:
    config = IndexConfig(chunk_size=12, analyzer=split, fields={"tags": FieldWeight(chunk_size=4)})
    made = BM25Index.from_store(MemoryStore(), config=config)
    made.add(["leave"] * 3, ids=list(TAGS), metadatas=[{"tags": tags} for tags in TAGS.values()])
    return made


@pytest.mark.parametrize(
    ("phrase", "slop", "found"),
    [
        ("notice period", 0, {"one", "text"}),
        ("trial notice", 0, {"two", "text"}),
        ("trial notice period", 9, {"text"}),
        ("leave trial", 9, set()),
    ],
)
def test_a_phrase_is_in_one_item_of_a_list(index: BM25Index, phrase: str, slop: int, found: set[str]) -> None:
    assert {hit.id for hit in index.search(Query("leave", phrases=[phrase], slop=slop))} == found


def test_words_that_must_be_there_may_be_in_several_items(index: BM25Index) -> None:
    assert {hit.id for hit in index.search(Query("leave", must=["period trial"]))} == set(TAGS)
