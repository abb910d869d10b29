from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.documents import Document

from rag_bm25 import InputError
from rag_bm25.langchain import MilvusBM25DocumentIndex

if TYPE_CHECKING:
    from rag_bm25 import BM25Index

DOCUMENTS = [Document("apple", metadata={"page": 1}, id="a"), Document("apple fig", metadata={"page": 2}, id="b")]


@pytest.fixture
def documents(index: BM25Index) -> MilvusBM25DocumentIndex:
    documents = MilvusBM25DocumentIndex(index=index, namespace="tenant")
    documents.upsert(DOCUMENTS)
    return documents


def test_is_a_retriever(documents: MilvusBM25DocumentIndex) -> None:
    assert documents.invoke("fig", k=1) == [DOCUMENTS[1]]


def test_writes_into_its_namespace(documents: MilvusBM25DocumentIndex, index: BM25Index) -> None:
    assert [chunk.namespace for chunk in index.chunks(namespace=None)] == ["tenant"] * 2


def test_writes_into_another_namespace_where_asked(documents: MilvusBM25DocumentIndex, index: BM25Index) -> None:
    documents.upsert([Document("fig", id="c")], namespace="other")
    assert documents.get(["c"]) == []
    assert documents.get(["c"], namespace="other") == [Document("fig", id="c")]
    assert documents.delete(["c"], namespace="other")["num_deleted"] == 1


def test_deletes_by_filter(documents: MilvusBM25DocumentIndex) -> None:
    assert documents.delete(filter={"page": 1})["num_deleted"] == 1
    assert documents.get(["a", "b"]) == [DOCUMENTS[1]]


def test_tells_which_of_the_ids_were_there(documents: MilvusBM25DocumentIndex) -> None:
    assert documents.delete(["b", "x", "b"]) == {
        "num_deleted": 1,
        "succeeded": ["b"],
        "num_failed": 0,
        "failed": [],
    }


def test_raises_what_it_cannot_write_and_writes_nothing(documents: MilvusBM25DocumentIndex, index: BM25Index) -> None:
    with pytest.raises(InputError, match=r"metadatas\[1\]\['x'\] must be a JSON value"):
        documents.upsert([Document("new"), Document("bad", metadata={"x": {1, 2}})])
    assert index.stats().num_chunks == 2


def test_keeps_the_statistics_exact(documents: MilvusBM25DocumentIndex, index: BM25Index) -> None:
    documents.upsert([Document("cherry", id="a"), Document("apple fig", metadata={"page": 2}, id="b")])
    documents.delete(["b"])
    assert index.verify().ok
    assert index.stats().num_terms == 1
