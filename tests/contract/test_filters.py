"""Filters mean the same on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import engines
from support.filter_conditions import CONDITIONS, DOCUMENTS, WITH_BOOLS, A
from support.milvus_logic import is_out_of_reach
from support.rows import ONE, chunk, scanned

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import FilterError
from rag_bm25.filters import ID, And, Comparison, Filter, Not, Or
from rag_bm25.store.memory import matches
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import Scope, SearchArm


class TestFilters:
    @pytest.fixture
    def documents(self, store: Store) -> Store:
        rows = [chunk(at, id=name, metadata=data) for at, (name, data) in enumerate(DOCUMENTS.items())]
        store.insert_chunks(rows)
        return store

    def found(self, store: Store, where: Filter) -> set[str]:
        (searched,) = store.search([ONE], SearchArm(1000, Scope(where)))
        ids = {match.row.id for match in searched}
        assert {row.id for row in scanned(store, Scope(where)).values()} == ids
        return ids

    def differences(self, store: Store, engine: str, conditions: list[Filter]) -> list[tuple[Filter, set[str]]]:
        confused = {"true", "false"} if engines.dialect_of(engine) == "lite3" else set()
        differing = []
        for where in conditions:
            if is_refused(engine, where):
                with pytest.raises(FilterError, match="milvus-lite"):
                    self.found(store, where)
                continue
            expected = {name for name, data in DOCUMENTS.items() if matches(where, name, data)}
            found = self.found(store, where)
            lost = {name for name, data in DOCUMENTS.items() if is_out_of_reach(engine, where, data)}
            if (found ^ expected) - confused - lost:
                differing.append((where, found ^ expected))
        return differing

    def test_every_condition_means_the_same_everywhere(self, documents: Store, engine: str) -> None:
        assert self.differences(documents, engine, CONDITIONS) == []

    def test_every_opposite_means_the_same_everywhere(self, documents: Store, engine: str) -> None:
        assert self.differences(documents, engine, [Not(where) for where in CONDITIONS]) == []

    def test_bools_are_no_numbers(self, documents: Store, engine: str) -> None:
        if engines.dialect_of(engine) == "lite3":
            pytest.skip("milvus-lite 3 compares as Python does, where True equals 1")
        conditions = [*WITH_BOOLS, *map(Not, WITH_BOOLS)]
        assert self.differences(documents, engine, conditions) == []

    def test_long_chains_work(self, documents: Store) -> None:
        terms = tuple(Comparison(A, "==", f"no such {n}") for n in range(300))
        assert self.found(documents, Or((*terms, Comparison(A, "==", "abc")))) == {"abc"}
        others = And(tuple(Comparison(A, "!=", f"no such {n}") for n in range(300)))
        assert self.found(documents, And((others, Comparison(A, "==", "abc")))) == {"abc"}

    def test_long_lists_work(self, documents: Store) -> None:
        values = ("abc", *(f"no such {n}" for n in range(3000)))
        assert self.found(documents, Comparison(A, "in", values)) == {"abc"}
        assert self.found(documents, Comparison(ID, "in", values)) == {"abc"}
        assert self.found(documents, And((Comparison(ID, "not in", values), Comparison(A, "like", "abc%")))) == {"abcd"}


def test_ids_are_told_wherever_a_filter_is_taken(
    new_index: Callable[[IndexConfig], BM25Index],
) -> None:
    index, own = new_index(IndexConfig(chunk_size=50)), {"$id": {"$in": ["b", "d"]}}
    index.add(["fig pear", "fig", "pear", "fig plum"], ids=list("abcd"), metadatas=[{}, {"$id": "c"}, {}, {}])
    assert {hit.id for hit in index.search("fig pear", filter=own)} == {"b", "d"}
    assert [hit.id for hit in index.search("fig pear", filter={"$not": {"$id": {"$gte": "b"}}})] == ["a"]
    assert [hit.id for hit in index.search("fig pear", filter={("$id",): "c"})] == ["b"]
    assert {chunk.id for chunk in index.chunks(filter=own)} == {"b", "d"}
    assert [(one.num_chunks, one.df) for one in index.term_statistics("fig", filter=own)] == [(2, 2)]
    own_words = [hit.score for hit in index.search("fig pear", statistics=own)]
    assert own_words != [hit.score for hit in index.search("fig pear")]
    assert index.delete(filter=own) == 2
    assert {chunk.id for chunk in index.chunks()} == {"a", "c"}


def is_refused(engine: str, where: Filter) -> bool:
    """Whether the engine is known to be unable to evaluate a condition."""
    dialect = engines.dialect_of(engine)
    refused = REFUSED.get(dialect, ())
    return any(
        (comparison.op in refused or (negated and f"not {comparison.op}" in refused))
        and (comparison.path != ID or (dialect, comparison.op) == ("lite2", "like"))
        for comparison, negated in _leaves(where, negated=False)
    )


ORDERS = ("not >", "not >=", "not <", "not <=")
REFUSED = {"lite2": ("exists", "not like", "not contains", *ORDERS), "lite3": ORDERS}


def _leaves(where: Filter, *, negated: bool) -> list[tuple[Comparison, bool]]:
    if isinstance(where, Not):
        return _leaves(where.part, negated=not negated)
    if isinstance(where, And | Or):
        return [leaf for part in where.parts for leaf in _leaves(part, negated=negated)]
    assert isinstance(where, Comparison)
    return [(where, negated)]
