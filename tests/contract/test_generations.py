"""The next generation of an index on every engine: one name, and one row that puts it into force."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.index import drop_former_generations, drop_index
from rag_bm25.ingestion import reindex
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
TEXTS = {f"{number}": f"w{number % 7} common" for number in range(30)}


def test_an_index_is_replaced_under_its_name(opened: Callable[..., Store]) -> None:
    opened().drop()

    def fresh(**config: IndexConfig) -> BM25Index:
        return BM25Index.from_store(opened(), analyzer=None if config else split, **config)

    with fresh(config=CONFIG) as index, fresh() as other:
        index.add(list(TEXTS.values()), ids=list(TEXTS))
        names = opened().index_names()
        reindex(index, replace(CONFIG, chunk_size=9))
        other.refresh()
        other.add(["w3 later"], ids=["later"])
        index.refresh()
        expected = {**TEXTS, "later": "w3 later"}
        with fresh() as third:
            for one in (index, other, third):
                assert one.config.chunk_size == 9
                assert {chunk.id: chunk.text for chunk in one.chunks()} == expected
                assert one.search("w3 later")[0].id == "later"
                assert one.verify().differences == []
        assert opened().index_names() == names
        assert drop_former_generations(opened()) == len(TEXTS)
        reindex(other, replace(CONFIG, chunk_size=8))
        assert drop_former_generations(opened()) == len(expected)
        assert opened().index_names() == names
    with fresh() as last:
        assert (last.config.chunk_size, last.stats().num_chunks) == (8, len(expected))
    assert drop_index(opened()) == len(expected)
    assert not opened().has_collections()
    with closing(opened().successor()) as successor:
        assert not successor.has_collections()
