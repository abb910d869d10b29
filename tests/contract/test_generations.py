"""The next generation of an index on every engine: one name, and one row that puts it into force."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, StoreError
from rag_bm25.events import Progress
from rag_bm25.index import drop_former_generations, drop_index, dry_run
from rag_bm25.ingestion import reindex
from rag_bm25.statistics.log.generation import all_generations
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


class CutError(Exception):
    """The reindex is cut short."""


def cut(_: Progress) -> None:
    raise CutError


def texts_in(store: Store) -> set[str]:
    """Return all texts and words that the collections of an index hold, of all generations."""
    with all_generations(store) as generations:
        stores = [one for one in generations.all() if one.has_chunks()]
        return {row.text for one in stores for rows in one.scan_chunks(contents=True) for row in rows}


def test_all_of_an_index_is_counted_and_dropped_or_not_said_to_be_erased(opened: Callable[..., Store]) -> None:
    opened().drop()
    with BM25Index.from_store(opened(), config=CONFIG) as index:
        index.add(["secret", "tea"], ids=["1", "2"])
        reindex(index, replace(CONFIG, chunk_size=9))
        with pytest.raises(CutError):
            reindex(index, replace(CONFIG, chunk_size=8), progress=cut)
        index.delete(["1"])
        assert index.verify().ok
        assert index.verify().other_generations == {1: 2, 3: 2}
        with dry_run(index) as trial:
            assert trial.verify().other_generations == {1: 2, 3: 2}
        with pytest.raises(StoreError, match=r"generation 1 \(2 rows\), generation 3 \(2 rows\).* --drop-old"):
            index.repair(erase=True)
        assert texts_in(opened()) == {"secret", "tea"}
        assert drop_former_generations(opened()) == 4
        assert index.verify().other_generations == {}
        assert index.repair(erase=True).erased_terms == 1
        assert texts_in(opened()) == {"tea"}
        assert drop_former_generations(opened()) == 0
        with pytest.raises(CutError):
            reindex(index, replace(CONFIG, chunk_size=8), progress=cut)
        index.add(["more"], ids=["3"])
        reindex(index, replace(CONFIG, chunk_size=8))
        assert index.verify().ok
    assert drop_index(opened()) == 2
    with all_generations(opened()) as generations:
        assert not any(one.has_collections() for one in generations.all())


def test_what_a_living_reindex_has_begun_is_not_dropped(opened: Callable[..., Store]) -> None:
    opened().drop()
    with BM25Index.from_store(opened(), config=CONFIG) as index:
        index.add(["tea"], ids=["1"])

        def meanwhile(_: Progress) -> None:
            with pytest.raises(StoreError, match="is being reindexed by another"):
                drop_former_generations(opened())

        reindex(index, replace(CONFIG, chunk_size=9), progress=meanwhile)
        assert index.verify().ok
        assert index.config.chunk_size == 9
    drop_index(opened())
