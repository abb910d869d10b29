"""The tool for agents: a model that calls tools searches, and gets a bounded answer with sources."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.langchain_models import Letters
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, ParameterError, StoreError
from rag_bm25.langchain import MilvusBM25Retriever, MilvusHybridRetriever, create_search_tool
from rag_bm25.langchain.tools import _write, cite_source

LAW = "The notice period is thirty days ."
METADATA = [
    {"source": "law.pdf", "page": 3, "headings": ["Contracts", "Notice"], "kind": "law"},
    {"source": "memo.md", "kind": "memo"},
    {"title": "Untitled", "kind": "memo"},
]


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add([LAW, "a memo of notice and notice", "a poem"], ids=["a", "b", "c"], metadatas=METADATA)
    return index


@pytest.fixture
def tool(filled: BM25Index) -> BaseTool:
    return create_search_tool(MilvusBM25Retriever(index=filled))


def call(tool: BaseTool, **arguments: Any) -> ToolMessage:
    message = tool.invoke({"type": "tool_call", "name": tool.name, "args": arguments, "id": "7"})
    assert isinstance(message, ToolMessage)
    return message


class CallingModel(FakeMessagesListChatModel):
    """A model that calls the tools that it is told to, and notes which it was given."""

    tools: list[Any] = []  # noqa: RUF012 - a field of pydantic

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.model_copy(update={"tools": [convert_to_openai_tool(tool) for tool in tools]})


def test_an_agent_searches_reads_and_cites(tool: BaseTool) -> None:
    calls = [{"name": "search_documents", "args": {"query": "notice period"}, "id": "1"}]
    answer = AIMessage("Thirty days [1].")
    model = CallingModel(responses=[AIMessage("", tool_calls=calls), answer]).bind_tools([tool])
    (schema,) = model.tools
    assert schema["function"]["parameters"]["required"] == ["query"]
    assert set(schema["function"]["parameters"]["properties"]) == {"query"}  # no filter, no namespace, no callbacks
    messages: list[Any] = [HumanMessage("How long is the notice period?")]
    while (reply := model.invoke(messages)).tool_calls:
        messages += [reply, *map(tool.invoke, reply.tool_calls)]
    found = messages[-1]
    first, _ = found.text.split("\n\n")
    assert first == f"[1] law.pdf, page 3, Contracts > Notice\n{LAW}"
    assert reply.text == "Thirty days [1]."
    assert found.artifact[0].id == "a"  # what was cited


def test_the_answer_has_numbers_and_sources(tool: BaseTool) -> None:
    message = call(tool, query="memo poem")
    assert message.text == "[1] Untitled\na poem\n\n[2] memo.md\na memo of notice and notice"
    assert [document.id for document in message.artifact] == ["c", "b"]
    assert (message.name, message.status) == ("search_documents", "success")
    assert asyncio.run(tool.ainvoke({"query": "poem"})) == "[1] Untitled\na poem"


def test_a_source_may_be_written_by_the_caller(filled: BM25Index) -> None:
    tool = create_search_tool(MilvusBM25Retriever(index=filled), name="laws", cite=lambda found: f"#{found.id}\n[9]")
    assert call(tool, query="poem").text == "[1] #c [9]\na poem"  # in one line, so that it makes no other number
    assert tool.name == "laws"


def test_what_the_caller_writes_for_a_source_is_a_text(filled: BM25Index) -> None:
    tool = create_search_tool(MilvusBM25Retriever(index=filled), cite=lambda _found: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ParameterError, match="what cite returns must be a str, got None"):
        tool.invoke("poem")


@pytest.mark.parametrize(
    ("metadata", "source"),
    [
        ({}, "a"),
        ({"source": "s", "title": "t"}, "s"),
        ({"title": "t", "page": 0}, "t, page 0"),
        ({"source": "", "headings": "no list"}, "a"),
        ({"source": "s", "headings": ["x", "y"], "page": 2}, "s, page 2, x > y"),
    ],
)
def test_the_source_is_what_ingestion_stores(metadata: dict[str, Any], source: str) -> None:
    assert cite_source(Document("text", id="a", metadata=metadata)) == source


def test_the_retriever_decides_what_may_be_found(filled: BM25Index, tool: BaseTool) -> None:
    filled.add(["a secret poem"], namespace="other")
    only = create_search_tool(MilvusBM25Retriever(index=filled, k=1, filter={"kind": "memo"}))
    assert [document.id for document in call(only, query="notice period").artifact] == ["b"]
    assert "secret" not in call(tool, query="secret poem", namespace="other", filter={}).text


@pytest.mark.parametrize("query", ["unheard", "", "   "])
def test_nothing_found_is_said(tool: BaseTool, query: str) -> None:
    message = call(tool, query=query)
    assert message.text == f"No passage was found for {query!r}. Try other words."
    assert (message.artifact, message.status) == ([], "success")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "query: Field required"),
        ({"query": 7}, "query: Input should be a valid string"),
        ({"query": "x" * 2001}, "query: String should have at most 2000 characters"),
        ({"query": "poem^2000"}, "boost"),
    ],
)
def test_what_an_agent_does_wrong_it_is_told(filled: BM25Index, arguments: dict[str, Any], told: str) -> None:
    tool = create_search_tool(MilvusBM25Retriever(index=filled, syntax=True))
    message = call(tool, **arguments)
    assert message.status == "error"
    assert told in message.text
    assert len(message.text) < 500
    assert (
        message.text == asyncio.run(tool.ainvoke({"type": "tool_call", "name": "", "args": arguments, "id": "7"})).text
    )


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_store_that_fails_is_the_program_s_own(tool: BaseTool, store: MemoryStore, way: str) -> None:
    def fail(method: str) -> None:
        raise StoreError("cannot reach Milvus at http://10.0.0.7:19530")

    store.on_call = fail
    with pytest.raises(StoreError):
        asyncio.run(tool.ainvoke({"query": "poem"})) if way == "ainvoke" else tool.invoke({"query": "poem"})


def test_both_arms_are_searched_by_a_hybrid_retriever(dense_index: BM25Index) -> None:
    model = Letters()
    retriever = MilvusHybridRetriever.from_texts(["fade", "gag"], index=dense_index, embedding=model, k=2)
    assert call(create_search_tool(retriever), query="fade").text.startswith("[1] ")
    asyncio.run(create_search_tool(retriever).ainvoke({"query": "gag"}))
    assert [asked for asked in model.asked if "query" in asked[0]] == [("query", "fade"), ("aquery", "gag")]


def test_the_search_is_traced_below_the_tool(tool: BaseTool) -> None:
    parents: dict[str, Any] = {}

    class Tracer(BaseCallbackHandler):
        def on_tool_start(self, *_: Any, run_id: Any, **__: Any) -> None:
            parents["tool"] = run_id

        def on_retriever_start(self, *_: Any, parent_run_id: Any = None, **__: Any) -> None:
            parents["retriever"] = parent_run_id

    tool.invoke({"query": "poem"}, {"callbacks": [Tracer()]})
    assert parents["retriever"] == parents["tool"]


@given(
    lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=30),
    source=st.integers(1, 300),
    room=st.integers(200, 5000),
)
def test_an_answer_is_bounded_and_shows_each_passage(lengths: list[int], source: int, room: int) -> None:
    documents = [Document("w" * length) for length in lengths][: room // 200]
    text = _write("query", documents, lambda _: "s" * source, room)
    assert len(text) <= room
    passages = text.split("\n\n")
    assert [passage.split("]")[0] for passage in passages] == [f"[{n}" for n in range(1, len(documents) + 1)]
    fair = room // len(documents) - 2
    for passage, document in zip(passages, documents, strict=True):
        words = passage.partition("\n")[2]
        assert words == document.page_content or (words.endswith(" …") and len(passage) >= fair)


def test_passages_without_room_are_left_out(index: BM25Index) -> None:
    index.add([f"word {n}" for n in range(9)])
    message = call(create_search_tool(MilvusBM25Retriever(index=index, k=9), max_characters=450), query="word")
    assert len(message.artifact) == message.text.count("[") == 2


def test_wrong_arguments_are_refused(filled: BM25Index) -> None:
    wrong: Any
    for wrong, message in (
        ({"max_characters": 199}, "max_characters must be"),
        ({"cite": "source"}, "cite must be a callable or None"),
    ):
        with pytest.raises(ParameterError, match=message):
            create_search_tool(MilvusBM25Retriever(index=filled), **wrong)
    other: Any = filled
    with pytest.raises(ParameterError, match="retriever must be a retriever of rag_bm25"):
        create_search_tool(other)
