"""What is made of a collection is what adding its rows makes, and making it again changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.foreign_rows import ForeignRows, collection_rows
from support.memory_store import MemoryStore
from support.reference import split
from support.strategies import texts

from rag_bm25 import BM25Index, IndexConfig

CONFIG = IndexConfig(chunk_size=4, analyzer=split, dense_dim=2)

numbers = st.integers(-9, 9).map(lambda number: number / 4)
vectors = st.tuples(numbers, numbers).filter(any).map(list)
small = st.integers(-9, 9)
values = st.none() | st.booleans() | small | st.text("ab中", max_size=3) | st.lists(small, max_size=2)
names = st.sampled_from(["page", "tags", "source", "x y", "chunk"])
row = st.fixed_dictionaries({"body": texts(), "emb": vectors, "$": st.dictionaries(names, values)})
collections = st.dictionaries(st.integers() | st.text("ab#", min_size=1, max_size=3), row, max_size=12)


def rows_of(given: dict[Any, dict[str, Any]]) -> list[dict[str, Any]]:
    """Make rows with keys that differ as texts, as those of one type do."""
    keys = {str(key): key for key in given}
    return [
        {"pk": key, "body": given[key]["body"], "emb": given[key]["emb"], **given[key]["$"]} for key in keys.values()
    ]


def metadata_of(row: dict[str, Any]) -> dict[str, Any]:
    """Write down what the metadata are, without the code that makes them."""
    own = {name: value for name, value in row.items() if name not in ("pk", "body", "emb") and value is not None}
    if "source" in own:
        own["original_source"] = own["source"]
    return {**own, "source": "milvus://mine"}


def contents(index: BM25Index) -> list[Any]:
    chunks = sorted(index.chunks(), key=lambda chunk: chunk.id)
    dense = index.get_embeddings([chunk.id for chunk in chunks])
    return [(chunk, dense[chunk.id].tolist()) for chunk in chunks]


@pytest.fixture(scope="module")
def theirs() -> Iterator[ForeignRows]:
    with pytest.MonkeyPatch.context() as patch:
        yield ForeignRows(patch)


@given(given_rows=collections, others=collections)
def test_import_is_an_add(theirs: ForeignRows, given_rows: dict[Any, Any], others: dict[Any, Any]) -> None:
    imported, added = (BM25Index.from_store(MemoryStore(), config=CONFIG) for _ in range(2))
    for rows in (rows_of(given_rows), rows_of({**given_rows, **others})):
        theirs.stored = rows
        with collection_rows(vector_field="emb") as reader:
            report = reader.ingest_into(imported)
            again = reader.ingest_into(imported, prune=True)
        assert (report.chunks, report.rejected) == (len(rows), {})
        assert (again.added, again.updated, again.unchanged, again.deleted) == (0, 0, len(rows), 0)
        if rows:
            added.add(
                [row["body"] for row in rows],
                ids=[str(row["pk"]) for row in rows],
                metadatas=list(map(metadata_of, rows)),
                embeddings=[row["emb"] for row in rows],
            )
        assert contents(imported) == contents(added)
        assert imported.stats() == added.stats()
        assert imported.search("apple b", 5) == added.search("apple b", 5)
