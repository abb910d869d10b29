"""The retriever for LlamaIndex: it runs where llama-index-core is installed, see ``make test-adapters``."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.langchain_models import DIM, vector_of
from support.reference import split

from rag_bm25 import (
    BM25Index,
    FilterError,
    Grouping,
    IndexConfig,
    InputError,
    MissingExtraError,
    ParameterError,
    Query,
    QueryWeighting,
    StoreError,
)
from rag_bm25.definitions import options_of
from rag_bm25.errors import install_extra
from rag_bm25.hits.fusion import Weighted
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.searching.hybrid import HybridOptions

needs_llama_index = pytest.mark.usefixtures("llama")


@pytest.fixture
def llama() -> Any:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    return importlib.import_module("rag_bm25.llama_index")


TEXTS = ["fade bead", "gag", "bade gag", "fade fade"]
IDS = ["a", "b", "c", "d"]
METADATA = [
    {"page": 1, "tags": ["x", "y"], "a.b": "law-1", "start_index": 3, "end_index": 12},
    {"page": 2, "tags": ["x"], "a.b": "law-2"},
    {"page": 3, "tags": ["y"], "a": {"b": "law-1"}},
    {"tags": []},
]


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(TEXTS, ids=IDS, metadatas=METADATA)
    return index


@pytest.fixture
def dense() -> BM25Index:
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=DIM)
    index = BM25Index.open(":memory:", "docs", config=config)
    index.add(TEXTS, ids=IDS, embeddings=[vector_of(text) for text in TEXTS])
    return index


@pytest.fixture
def model(llama: Any) -> Any:
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class Letters(BaseEmbedding):  # type: ignore[misc, unused-ignore]
        asked: list[str] = []  # noqa: RUF012 - a field of pydantic

        def _get_query_embedding(self, query: str) -> list[float]:
            self.asked.append(f"query {query}")
            return vector_of(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            self.asked.append(f"aquery {query}")
            return vector_of(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            self.asked.append(f"text {text}")
            return vector_of(text)

    return Letters()


def found(nodes: Any) -> list[tuple[str, float]]:
    return [(node.node_id, node.score) for node in nodes]


def scores(hits: Any) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


@needs_llama_index
class TestRetriever:
    def test_gives_the_hits_of_a_search(self, llama: Any, filled: BM25Index) -> None:
        retriever = llama.MilvusBM25Retriever(filled, similarity_top_k=2)
        assert found(retriever.retrieve("fade gag")) == scores(filled.search("fade gag", 2))
        assert found(asyncio.run(retriever.aretrieve("fade gag"))) == scores(filled.search("fade gag", 2))
        assert retriever.retrieve("nothing known") == []

    def test_the_fusion_that_the_index_was_set_to_is_the_default(
        self, llama: Any, dense: BM25Index, model: Any
    ) -> None:
        dense.set_query_defaults(fusion=Weighted(1, 0))
        retriever = llama.MilvusBM25Retriever(dense, similarity_top_k=1, embed_model=model)
        for nodes in (retriever.retrieve("bade"), asyncio.run(retriever.aretrieve("bade"))):
            assert found(nodes) == scores(dense.search_hybrid("bade", vector_of("bade"), 1, fusion=Weighted(1, 0)))

    def test_a_model_that_fails_leaves_the_query_to_the_words_and_warns(self, llama: Any, dense: BM25Index) -> None:
        class Failing:
            def get_agg_embedding_from_queries(self, texts: list[str]) -> list[float]:
                raise ConnectionError("the key sk-123 is wrong")

            async def aget_agg_embedding_from_queries(self, texts: list[str]) -> list[float]:
                raise ConnectionError("the key sk-123 is wrong")

        retriever = llama.MilvusBM25Retriever(dense, embed_model=Failing())
        expected = scores(dense.search_hybrid("fade gag", None, 2))
        with pytest.warns(UserWarning, match=r"failed with ConnectionError: the hits are those of the words alone$"):
            assert found(retriever.retrieve("fade gag")) == expected
        with pytest.warns(UserWarning, match="failed with ConnectionError"):
            assert found(asyncio.run(retriever.aretrieve("fade gag"))) == expected

    def test_two_nodes_are_the_default_as_elsewhere(self, llama: Any, filled: BM25Index) -> None:
        assert len(llama.MilvusBM25Retriever(filled).retrieve("fade gag bade")) == 2

    def test_a_node_has_the_text_the_metadata_and_the_place_of_its_chunk(self, llama: Any, filled: BM25Index) -> None:
        (node,) = llama.MilvusBM25Retriever(filled, filters={"page": 1}).retrieve("fade")
        assert (node.text, node.metadata) == (TEXTS[0], METADATA[0])
        assert node.node.get_node_info() == {"start": 3, "end": 12}
        node.metadata["page"] = 7
        assert filled.get(["a"])[0].metadata["page"] == 1

    def test_options_are_those_of_the_definitions(self, llama: Any, dense: BM25Index, model: Any) -> None:
        for options, cls in ({}, SearchOptions), ({"embed_model": model}, HybridOptions):
            known = options_of(cls).keys()
            llama.MilvusBM25Retriever(dense, **dict.fromkeys(known), **options)
            for name in options_of(HybridOptions).keys() - known:
                with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
                    llama.MilvusBM25Retriever(dense, **{name: None}, **options)

    @pytest.mark.parametrize("group", [Grouping("page", 2), {"key": "page", "size": 2}])
    def test_options_reach_the_search_and_may_come_from_json(self, llama: Any, filled: BM25Index, group: Any) -> None:
        options: dict[str, Any] = {"weighting": QueryWeighting(idf="plain"), "min_should_match": 1}
        retriever = llama.MilvusBM25Retriever(filled, similarity_top_k=1, group=group, **options)
        hits = filled.search("fade gag", 1, group=Grouping("page", 2), **options)
        assert found(retriever.retrieve("fade gag")) == scores(hits) != []

    @pytest.mark.parametrize("way", ["retrieve", "aretrieve"])
    def test_a_text_may_have_operators(self, llama: Any, dense: BM25Index, model: Any, way: str) -> None:
        text, query = "fade -bead", Query("fade", must_not=["bead"])
        for options, hits in (
            ({}, dense.search(query, 4)),
            ({"embed_model": model}, dense.search_hybrid(query, vector_of("fade"), 4)),
        ):
            made = llama.MilvusBM25Retriever(dense, similarity_top_k=4, syntax=True, **options)
            answer = getattr(made, way)(text)
            assert found(asyncio.run(answer) if way == "aretrieve" else answer) == scores(hits)

    def test_a_context_is_the_text_of_its_node(self, llama: Any, index: BM25Index) -> None:
        places = [{"source": "s", "chunk": n, "start_index": 5 * n, "end_index": 5 * n + 4} for n in range(3)]
        index.add(["fade", "bead", "gagg"], metadatas=places)
        (node,) = llama.MilvusBM25Retriever(index, context="document").retrieve("bead")
        assert node.text.split() == ["fade", "bead", "gagg"]
        assert node.node.start_char_idx is None

    @pytest.mark.parametrize("context", [None, "document"])
    def test_highlights_are_in_the_metadata_and_no_model_is_shown_them(
        self, llama: Any, index: BM25Index, context: str | None
    ) -> None:
        from llama_index.core.schema import MetadataMode

        index.add(["gagg", "fade bead"], metadatas=[{"source": "s", "chunk": n} for n in range(2)])
        (node,) = llama.MilvusBM25Retriever(index, context=context, highlight=True).retrieve("bead")
        (fragment,) = node.metadata["highlights"]
        assert [node.text[start:end] for start, end in fragment["marks"]] == ["bead"]
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "source" in node.node.get_content(mode)
            assert "marks" not in node.node.get_content(mode)
        (plain,) = llama.MilvusBM25Retriever(index).retrieve("bead")
        assert "highlights" not in plain.metadata

    def test_namespaces(self, llama: Any, index: BM25Index) -> None:
        for namespace, texts in {"one": ["fade"], "two": ["fade fade"]}.items():
            index.add(texts, namespace=namespace, ids=[namespace])
        for namespace, expected in (("one", {"one"}), (["one", "two"], {"one", "two"}), (None, {"one", "two"})):
            retriever = llama.MilvusBM25Retriever(index, namespace=namespace)
            assert {node.node_id for node in retriever.retrieve("fade")} == expected

    @pytest.mark.parametrize("way", ["retrieve", "aretrieve"])
    def test_with_a_model_both_arms_are_searched(self, llama: Any, dense: BM25Index, model: Any, way: str) -> None:
        from llama_index.core.schema import QueryBundle

        options: dict[str, Any] = {"fusion": Weighted(sparse=0.3, dense=0.7), "dense_k": 3}
        retriever = llama.MilvusBM25Retriever(dense, similarity_top_k=3, embed_model=model, **options)

        def ask(query: Any) -> Any:
            answer = getattr(retriever, way)(query)
            return asyncio.run(answer) if way == "aretrieve" else answer

        expected = dense.search_hybrid("fade", vector_of("fade"), 3, **options)
        assert found(ask("fade")) == scores(expected)
        assert model.asked == ["query fade" if way == "retrieve" else "aquery fade"]
        known = QueryBundle("fade", embedding=vector_of("gag"))
        assert found(ask(known)) == scores(dense.search_hybrid("fade", vector_of("gag"), 3, **options))
        assert len(model.asked) == 1

    def test_nodes_are_added_under_their_ids(self, llama: Any, index: BM25Index) -> None:
        from llama_index.core.schema import TextNode

        nodes = [TextNode(id_="n", text="fade", metadata={"page": 1}), TextNode(id_="m", text="gag")]
        for _ in range(2):
            retriever = llama.MilvusBM25Retriever.from_nodes(iter(nodes), index=index, namespace="ns")
        assert [(node.node_id, node.metadata) for node in retriever.retrieve("fade")] == [("n", {"page": 1})]
        assert (index.stats().num_chunks, index.stats().namespaces) == (2, ["ns"])

    def test_nodes_are_embedded_once(self, llama: Any, dense: BM25Index, model: Any) -> None:
        from llama_index.core.schema import TextNode

        nodes = [TextNode(id_="n", text="heed"), TextNode(id_="a", text="fade bead")]
        for _ in range(2):
            llama.MilvusBM25Retriever.from_nodes(nodes, index=dense, embed_model=model)
        assert model.asked == ["text heed"]
        assert dense.get_embeddings(["n"])["n"].tolist() == pytest.approx(vector_of("heed"))

    def test_is_a_part_of_a_query_engine(self, llama: Any, filled: BM25Index) -> None:
        from llama_index.core.llms import MockLLM
        from llama_index.core.query_engine import RetrieverQueryEngine

        retriever = llama.MilvusBM25Retriever(filled)
        engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(max_tokens=9))
        answer = engine.query("fade")
        assert [node.node_id for node in answer.source_nodes] == [hit.id for hit in filled.search("fade", 2)]

    def test_opens_and_closes_an_index(self, llama: Any, tmp_path: Path) -> None:
        if not engines.lite_version():
            pytest.skip("milvus-lite is not installed")
        config = IndexConfig(chunk_size=4, analyzer=split)
        with llama.MilvusBM25Retriever.from_uri(tmp_path / "rag.db", "docs", config=config) as retriever:
            retriever.index.add(["fade"])
            assert len(retriever.retrieve("fade")) == 1
        with pytest.raises(StoreError, match="is closed"):
            retriever.retrieve("fade")

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"similarity_top_k": 0}, ParameterError, "similarity_top_k must be"),
            ({"namespace": []}, InputError, "namespace must be"),
            ({"filters": {"page": {"$above": 1}}}, FilterError, "unknown operator"),
            ({"top_k": 3}, TypeError, "unexpected keyword argument 'top_k'"),
            ({"fusion": None}, TypeError, "unexpected keyword argument 'fusion'"),
            ({"group": {"key": ""}}, ParameterError, "group.key must be a str that is not empty"),
            ({"embed_model": object()}, InputError, "the index has no dense vectors"),
        ],
    )
    def test_refuses(self, llama: Any, index: BM25Index, options: Any, error: Any, message: str) -> None:
        with pytest.raises(error, match=message):
            llama.MilvusBM25Retriever(index, **options)


def conditions() -> Iterator[tuple[Any, set[str]]]:
    """Yield conditions of LlamaIndex, and the chunks that meet them."""
    yield ("page", "==", 2), {"b"}
    yield ("page", "!=", 2), {"a", "c", "d"}
    yield ("page", ">", 1), {"b", "c"}
    yield ("page", ">=", 2), {"b", "c"}
    yield ("page", "<", 2), {"a"}
    yield ("page", "<=", 2), {"a", "b"}
    yield ("page", "in", [1, 3]), {"a", "c"}
    yield ("page", "nin", [1, 3]), {"b", "d"}
    yield ("tags", "contains", "x"), {"a", "b"}
    yield ("tags", "any", ["x", "y"]), {"a", "b", "c"}
    yield ("tags", "all", ["x", "y"]), {"a"}
    yield ("a.b", "==", "law-1"), {"a"}  # the key has a dot
    yield ("a.b", "text_match", "aw-"), {"a", "b"}


@needs_llama_index
class TestFilters:
    @staticmethod
    def make(*parts: Any, condition: str = "and") -> Any:
        from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

        made = [
            MetadataFilter(key=part[0], operator=FilterOperator(part[1]), value=part[2])
            if isinstance(part, tuple)
            else part
            for part in parts
        ]
        return MetadataFilters(filters=made, condition=condition)

    def ids(self, llama: Any, index: BM25Index, filters: Any) -> set[str]:
        retriever = llama.MilvusBM25Retriever(index, similarity_top_k=9, filters=filters)
        return {node.node_id for node in retriever.retrieve("fade gag bade bead")}

    @pytest.mark.parametrize(("condition", "expected"), list(conditions()))
    def test_each_operator(self, llama: Any, filled: BM25Index, condition: Any, expected: set[str]) -> None:
        assert self.ids(llama, filled, self.make(condition)) == expected
        assert self.ids(llama, filled, self.make(condition, condition="not")) == set(IDS) - expected

    def test_conditions_together(self, llama: Any, filled: BM25Index) -> None:
        first, second = ("page", ">", 1), ("tags", "contains", "x")
        assert self.ids(llama, filled, self.make(first, second)) == {"b"}
        assert self.ids(llama, filled, self.make(first, second, condition="or")) == {"a", "b", "c"}
        inner = self.make(first, second, condition="or")
        assert self.ids(llama, filled, self.make(inner, ("page", "!=", 2))) == {"a", "c"}
        assert self.ids(llama, filled, self.make(inner, condition="not")) == {"d"}

    def test_none_is_no_filter(self, llama: Any, filled: BM25Index) -> None:
        for none in (None, {}, self.make(), self.make(self.make())):
            assert self.ids(llama, filled, none) == set(IDS)

    @pytest.mark.parametrize(
        ("condition", "message"),
        [
            (("tags", "is_empty", None), r"'is_empty' is not supported: .* {'tags': {'\$exists': False}}"),
            (("a.b", "text_match_insensitive", "LAW"), "Milvus compares strings with their case"),
            (("a.b", "text_match", "50%"), "'text_match' at 'a.b' needs a string without %, got '50%'"),
            (("page", "==", None), r"for a missing value use \$exists"),
            (("tags", "any", []), "'any' at 'tags' needs a non-empty list of values"),
            (("tags", "all", "x"), "'all' at 'tags' needs a non-empty list of values"),
        ],
    )
    def test_what_milvus_cannot_evaluate_is_refused(
        self, llama: Any, index: BM25Index, condition: Any, message: str
    ) -> None:
        with pytest.raises(FilterError, match=message):
            llama.MilvusBM25Retriever(index, filters=self.make(condition))

    def test_several_filters_cannot_be_negated_together(self, llama: Any, index: BM25Index) -> None:
        with pytest.raises(FilterError, match="the condition 'not' needs one filter, got 2"):
            llama.MilvusBM25Retriever(index, filters=self.make(("page", "==", 1), ("page", "==", 2), condition="not"))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rag_bm25.llama_index", "rag_bm25.llama_index.filters", "rag_bm25.llama_index.retriever"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "llama_index", None)
    monkeypatch.setitem(sys.modules, "llama_index.core.vector_stores.types", None)
    with pytest.raises(MissingExtraError, match=re.escape(f"llama-index-core: {install_extra('llama-index')}")):
        importlib.import_module("rag_bm25.llama_index")
