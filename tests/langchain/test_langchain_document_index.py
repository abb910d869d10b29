from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.documents import Document
from support.langchain_models import Letters, vector_of

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


class TestWithDenseVectors:
    def test_searches_both_where_it_has_an_embedding(self, dense_index: BM25Index) -> None:
        documents = MilvusBM25DocumentIndex(index=dense_index, embedding=Letters())
        documents.upsert([Document("gag", id="g"), Document("fade", id="f")])
        assert [document.id for document in documents.invoke("gga")] == ["g", "f"]
        assert documents.invoke("gga", mode="sparse") == []
        lexical = MilvusBM25DocumentIndex(index=dense_index)
        assert lexical.invoke("gga") == []
        assert lexical.invoke("gag") == [Document("gag", id="g")]

    def test_embeds_what_is_new_or_all_where_that_is_asked_for(self, dense_index: BM25Index) -> None:
        model = Letters()
        documents = MilvusBM25DocumentIndex(index=dense_index, embedding=model, namespace="tenant")
        given = [Document("gag", id="g"), Document("fade", id="f")]
        documents.upsert(given[:1])
        documents.upsert(given)
        assert model.asked == [("documents", "gag"), ("documents", "fade")]
        documents.upsert(given, reembed=True)
        assert model.asked[2:] == model.asked[:2]
        documents.upsert(given[:1], embeddings=[vector_of("hhh")])
        assert dense_index.get_embeddings(["g"], namespace="tenant")["g"][-1] > 3
        documents.delete(["f"])
        assert dense_index.verify().differences == []

    def test_needs_an_embedding_to_write(self, dense_index: BM25Index) -> None:
        with pytest.raises(InputError, match="embeddings must be given"):
            MilvusBM25DocumentIndex(index=dense_index).upsert([Document("gag")])
