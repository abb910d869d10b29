from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, IndexGroup, InputError, StoreError
from rag_bm25.langchain import MilvusBM25Retriever

DOCUMENTS = [
    Document("apple banana", metadata={"page": 1, "id": "not the id"}, id="a"),
    Document("apple apple apple", metadata={"page": 2}, id="b"),
    Document("cherry", metadata={"page": 3, "nested": {"tags": ["x"]}}, id="c"),
    Document("apple cherry fig", metadata={"page": 4}, id="d"),
]


class Recorder(BaseCallbackHandler):
    """Notes what tracers are told."""

    raise_error = True

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.told: list[dict[str, Any]] = []

    def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
        self.events.append(("start", query))
        self.told.append(kwargs)

    def on_retriever_end(self, documents: list[Document], *, run_id: UUID, **kwargs: Any) -> None:
        self.events.append(("end", ids(documents)))

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self.events.append(("error", type(error)))


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


@pytest.fixture
def retriever(index: BM25Index) -> MilvusBM25Retriever:
    return MilvusBM25Retriever.from_documents(DOCUMENTS, index=index)


class TestDocuments:
    def test_come_back_with_their_id_and_their_metadata_as_they_were(self, retriever: MilvusBM25Retriever) -> None:
        assert retriever.invoke("banana") == [DOCUMENTS[0]]

    def test_have_their_id_in_the_metadata_where_it_is_asked_for(self, retriever: MilvusBM25Retriever) -> None:
        assert retriever.invoke("banana", id_key="id")[0].metadata["id"] == "a"

    def test_are_not_changed_by_being_ingested(self, index: BM25Index) -> None:
        document = Document("apple", metadata={"page": 1})
        MilvusBM25Retriever.from_documents([document], index=index, score_key="score").invoke("apple")
        assert (document.id, document.metadata) == (None, {"page": 1})

    def test_without_an_id_among_others_get_that_of_their_contents(self, index: BM25Index) -> None:
        alone = index.add(["apple"], metadatas=[{"page": 1}])
        MilvusBM25Retriever.from_documents(
            [Document("apple", metadata={"page": 1}), Document("fig", id="f")], index=index
        )
        assert sorted(chunk.id for chunk in index.chunks()) == sorted([*alone, "f"])

    def test_may_be_given_as_texts(self, index: BM25Index) -> None:
        found = MilvusBM25Retriever.from_texts(["apple"], [{"page": 7}], ids=["x"], index=index).invoke("apple")
        assert found == [Document("apple", metadata={"page": 7}, id="x")]

    def test_given_with_too_few_ids_are_refused(self, index: BM25Index) -> None:
        with pytest.raises(InputError, match="ids and texts must have the same length, got 2 and 3"):
            MilvusBM25Retriever.from_texts(["a", "b", "c"], ids=["1", None], index=index)
        assert index.stats().num_chunks == 0


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "found"),
        [
            ({"k": 1}, ["b"]),
            ({"filter": {"page": {"$gt": 2}}}, ["d"]),
            ({"filter": {"page": 1}, "k": 2}, ["a"]),
            ({"namespace": "other"}, ["z"]),
            ({"namespace": None, "k": 9}, ["b", "a", "z", "d"]),
            ({"namespace": ["", "other"], "k": 9}, ["b", "a", "z", "d"]),
            ({"score_threshold": 0.03}, ["b"]),
            ({"score_threshold": 99}, []),
        ],
        ids=str,
    )
    def test_may_be_given_to_the_constructor_and_to_every_call(
        self, retriever: MilvusBM25Retriever, index: BM25Index, options: dict[str, Any], found: list[str]
    ) -> None:
        index.add(["apple fig fig"], ids=["z"], namespace="other")
        made = MilvusBM25Retriever(index=index, **options)
        assert set(ids(made.invoke("apple"))) == set(found)
        assert ids(retriever.invoke("apple", **options)) == ids(made.invoke("apple"))
        assert ids(asyncio.run(retriever.ainvoke("apple", **options))) == ids(made.invoke("apple"))
        assert [ids(documents) for documents in retriever.batch(["apple"] * 2, **options)] == [
            ids(made.invoke("apple"))
        ] * 2

    def test_of_a_call_hold_for_that_call(self, retriever: MilvusBM25Retriever) -> None:
        retriever.invoke("apple", k=1)
        assert len(retriever.invoke("apple")) == 3

    def test_that_are_wrong_write_nothing(self, index: BM25Index) -> None:
        with pytest.raises(TypeError, match="argument 'top_k'; k is the number of hits; the options are"):
            MilvusBM25Retriever.from_documents(DOCUMENTS, index=index, top_k=3)
        assert index.stats().num_chunks == 0

    def test_for_searching_several_namespaces_do_not_say_where_to_write(self, index: BM25Index) -> None:
        with pytest.raises(InputError, match="namespace must be a str, got list"):
            MilvusBM25Retriever.from_documents(DOCUMENTS, index=index, namespace=["a", "b"])


QUERIES = ["apple", "nothing", "cherry fig", ""]


class TestBatch:
    def test_is_one_call_to_the_store(self, retriever: MilvusBM25Retriever, store: MemoryStore) -> None:
        before = store.calls.count("search")
        retriever.batch(QUERIES)
        asyncio.run(retriever.abatch(QUERIES))
        assert store.calls.count("search") == before + 2

    def test_answers_as_invoke_does(self, retriever: MilvusBM25Retriever) -> None:
        one_by_one = [retriever.invoke(query) for query in QUERIES]
        assert retriever.batch(QUERIES) == one_by_one
        assert asyncio.run(retriever.abatch(QUERIES)) == one_by_one

    def test_of_nothing_is_nothing(self, retriever: MilvusBM25Retriever) -> None:
        assert retriever.batch([]) == []
        assert asyncio.run(retriever.abatch([])) == []

    def test_with_a_bad_query_answers_the_others(self, retriever: MilvusBM25Retriever) -> None:
        queries: list[Any] = ["banana", 7]
        found, error = retriever.batch(queries, return_exceptions=True)
        assert (ids(found), type(error)) == (["a"], InputError)
        found, error = asyncio.run(retriever.abatch(queries, return_exceptions=True))
        assert (ids(found), type(error)) == (["a"], InputError)

    def test_takes_a_config_for_each(self, retriever: MilvusBM25Retriever) -> None:
        recorders = [Recorder(), Recorder()]
        retriever.batch(["apple", "fig"], [{"callbacks": [recorder]} for recorder in recorders])
        assert [recorder.events[0] for recorder in recorders] == [("start", "apple"), ("start", "fig")]


class TestTracing:
    def test_tells_start_and_end(self, retriever: MilvusBM25Retriever) -> None:
        told = [("start", "banana"), ("end", ["a"])]
        for recorder, call in self.calls(retriever, "banana"):
            call()
            assert recorder.events == told

    def test_tells_errors(self, retriever: MilvusBM25Retriever, store: MemoryStore) -> None:
        def fail(method: str) -> None:
            raise StoreError("lost")

        store.on_call = fail
        for recorder, call in self.calls(retriever, "banana"):
            with pytest.raises(StoreError, match="lost"):
                call()
            assert recorder.events == [("start", "banana"), ("error", StoreError)]

    def test_names_the_retriever_and_the_store(self, retriever: MilvusBM25Retriever) -> None:
        recorder = Recorder()
        retriever.invoke("apple", {"callbacks": [recorder], "tags": ["t"], "metadata": {"user": "u"}})
        told = recorder.told[0]
        assert told["name"] == "MilvusBM25Retriever"
        assert told["tags"] == ["t"]
        assert (
            told["metadata"].items()
            >= {
                "user": "u",
                "ls_retriever_name": "milvusbm25",
                "ls_vector_store_provider": "Milvus",
            }.items()
        )

    @staticmethod
    def calls(retriever: MilvusBM25Retriever, query: str) -> Any:
        """Every way to ask, each with a recorder of its own."""
        for way in ("invoke", "ainvoke", "batch", "abatch"):
            recorder = Recorder()
            config = {"callbacks": [recorder]}
            asked = [query] if "batch" in way else query

            def call(way: str = way, asked: Any = asked, config: Any = config) -> None:
                answer = getattr(retriever, way)(asked, config)
                if way.startswith("a"):
                    asyncio.run(answer)

            yield recorder, call


def test_is_shown_without_its_index(retriever: MilvusBM25Retriever) -> None:
    assert "BM25Index" not in repr(retriever)


def test_read_only_follows_another_process(config: IndexConfig) -> None:
    store = MemoryStore(exclusive=False)
    writing = BM25Index.from_store(store, config=config)
    reading = BM25Index.from_store(store.reopen(), config=config, read_only=True, refresh_interval=0)
    retriever = MilvusBM25Retriever(index=reading)
    assert retriever.invoke("apple") == []
    writing.add(["apple pie"], ids=["a"])
    assert ids(retriever.invoke("apple")) == ["a"]
    writing.delete(["a"])
    assert retriever.invoke("apple") == []


async def _answer(retriever: MilvusBM25Retriever) -> list[Document]:
    return await retriever.ainvoke("apple fig")


def test_a_retriever_over_several_indexes_finds_what_one_over_one_finds(config: IndexConfig) -> None:
    one, left, right = (BM25Index.from_store(MemoryStore(), config=config) for _ in range(3))
    for index, documents in ((one, DOCUMENTS), (left, DOCUMENTS[:2]), (right, DOCUMENTS[2:])):
        MilvusBM25Retriever.from_documents(documents, index=index)
    of_one, of_two = (MilvusBM25Retriever(index=index, score_key="score") for index in (one, IndexGroup([left, right])))
    expected = of_one.invoke("apple fig")
    assert len(expected) == 3
    assert of_two.invoke("apple fig") == of_two.batch(["apple fig"])[0] == asyncio.run(_answer(of_two)) == expected
    assert of_two.invoke("apple fig", filter={"page": 4}, k=1) == of_one.invoke("apple fig", filter={"page": 4}, k=1)
