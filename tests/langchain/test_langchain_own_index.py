"""A retriever of texts alone, as langchain_community's BM25Retriever is."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import weakref
from inspect import signature
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError
from support import engines
from support.langchain_models import DIM, Letters
from support.reference import split

from rag_bm25 import BM25Index, ConfigMismatchError, IndexConfig, InputError, ParameterError, StoreError
from rag_bm25.langchain import MilvusBM25Retriever, MilvusHybridRetriever

TEXTS = ["apple banana", "apple apple fig", "cherry", "The running, dogs!"]
embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


def texts_of(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


class TestTextsAlone:
    def test_are_found(self) -> None:
        retriever = MilvusBM25Retriever.from_texts(TEXTS, [{"n": n} for n in range(4)], ids=list("abcd"), k=1)
        assert retriever.invoke("fig") == [Document("apple apple fig", metadata={"n": 1}, id="b")]

    def test_are_analysed_as_those_of_an_index(self) -> None:
        assert texts_of(MilvusBM25Retriever.from_texts(TEXTS).invoke("dog runs")) == TEXTS[3:]

    def test_may_come_from_a_generator(self) -> None:
        retriever = MilvusBM25Retriever.from_texts(text for text in TEXTS)
        assert texts_of(retriever.invoke("cherry")) == ["cherry"]

    def test_may_be_documents_that_come_from_a_generator(self) -> None:
        given = [Document(text, id=text[-3:], metadata={"length": len(text)}) for text in TEXTS]
        retriever = MilvusBM25Retriever.from_documents((document for document in given), k=1)
        assert retriever.invoke("cherry") == given[2:3]

    def test_take_the_keywords_of_the_retriever_of_langchain_community(self) -> None:
        theirs = {"texts", "metadatas", "ids", "bm25_params", "preprocess_func"}
        assert theirs <= signature(MilvusBM25Retriever.from_texts).parameters.keys()
        assert "documents" in signature(MilvusBM25Retriever.from_documents).parameters

    def test_of_two_retrievers_are_apart(self) -> None:
        MilvusBM25Retriever.from_texts(TEXTS)
        assert MilvusBM25Retriever.from_texts(["kiwi"]).invoke("apple") == []

    def test_may_have_dense_vectors(self) -> None:
        config = IndexConfig(chunk_size=20, dense_dim=DIM)
        retriever = MilvusHybridRetriever.from_texts(["fade", "bead"], config=config, embedding=Letters(), k=1)
        assert texts_of(retriever.invoke("fade")) == ["fade"]

    @pytest.mark.parametrize("way", ["copy", "option", "binding", "field", "configurable"])
    def test_are_found_with_another_k(self, way: str) -> None:
        retriever = MilvusBM25Retriever.from_texts(TEXTS)
        assert len(retriever.invoke("apple")) == 2
        if way == "field":
            retriever.k = 1
        asked: Any = {
            "copy": lambda: retriever.model_copy(update={"k": 1}),
            "binding": lambda: retriever.bind(k=1).with_config(tags=["t"]),
            "configurable": lambda: retriever.configurable_fields(k=ConfigurableField("k")).with_config(
                configurable={"k": 1}
            ),
        }.get(way, lambda: retriever)()
        options = {"k": 1} if way == "option" else {}
        assert texts_of(asked.invoke("apple", **options)) == ["apple apple fig"]
        assert texts_of(asyncio.run(asked.ainvoke("apple", **options))) == ["apple apple fig"]
        assert [texts_of(found) for found in asked.batch(["apple", "cherry"], **options)] == [TEXTS[1:2], TEXTS[2:3]]

    def test_leave_nothing_behind_that_is_not_closed(self) -> None:
        threads = set(threading.enumerate())
        retriever = MilvusBM25Retriever.from_texts(TEXTS)
        assert retriever.invoke("apple") == asyncio.run(retriever.ainvoke("apple"))
        index = weakref.ref(retriever.index)
        del retriever
        gc.collect()
        assert (index(), set(threading.enumerate()) - threads) == (None, set())


class TestTheChunkSize:
    def test_is_the_mean_length_in_characters(self) -> None:
        config = MilvusBM25Retriever.from_texts(TEXTS).index.config
        assert config == IndexConfig(chunk_size=fmean(map(len, TEXTS)))

    def test_is_the_mean_number_of_the_tokens_of_a_function(self) -> None:
        config = MilvusBM25Retriever.from_texts(TEXTS, preprocess_func=split).index.config
        assert config == IndexConfig(chunk_size=9 / 4, k3=None, length_unit="terms", analyzer=split)

    def test_follows_the_unit(self) -> None:
        params = {"length_unit": "terms", "k1": 1.2}
        config = MilvusBM25Retriever.from_texts(TEXTS, bm25_params=params).index.config
        assert config == IndexConfig(chunk_size=2.0, **params)  # "the" is a stop word
        params = {"length_unit": "characters", "analyzer": split}
        assert MilvusBM25Retriever.from_texts(TEXTS, bm25_params=params).index.config.chunk_size == 12.75

    def test_may_be_given(self) -> None:
        config = IndexConfig(chunk_size=99, k1=2.0)
        assert MilvusBM25Retriever.from_texts(TEXTS, config=config).index.config is config
        changed = MilvusBM25Retriever.from_texts(TEXTS, config=config, preprocess_func=split, bm25_params={"b": 0.5})
        assert changed.index.config == IndexConfig(chunk_size=99, k1=2.0, b=0.5, analyzer=split)

    @pytest.mark.parametrize("params", ["x", {1: 2}], ids=str)
    def test_has_settings_by_their_names(self, params: Any) -> None:
        with pytest.raises(ParameterError, match="bm25_params must be a mapping of the names of settings"):
            MilvusBM25Retriever.from_texts(TEXTS, bm25_params=params)

    @pytest.mark.parametrize("texts", [[], [""]])
    @pytest.mark.parametrize("preprocess_func", [None, str.split])
    def test_needs_a_word(self, texts: list[str], preprocess_func: Any) -> None:
        with pytest.raises(InputError, match=r"^texts must have a word, .* pass config=IndexConfig\(chunk_size=...\)$"):
            MilvusBM25Retriever.from_texts(texts, preprocess_func=preprocess_func)

    def test_is_not_needed_from_texts_if_it_is_given(self) -> None:
        retriever = MilvusBM25Retriever.from_documents([], config=IndexConfig(chunk_size=9))
        assert retriever.invoke("apple") == []


@pytest.mark.parametrize("bm25_params", [None, {"k1": 1.2, "b": 0.4, "epsilon": 0.5}], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_a_function_gives_the_scores_of_rank_bm25(seed: int, bm25_params: dict[str, float] | None) -> None:
    """As BM25Retriever ranks; rank_bm25 multiplies by k1 + 1, and gives 0 to a term in exactly half of the texts."""
    rank_bm25 = pytest.importorskip("rank_bm25")
    chance = random.Random(seed)
    words = [f"w{n}," for n in range(40) for _ in range(1 + 60 // (n + 1))]
    texts = [" ".join(chance.choices(words, k=chance.randint(3, 30))) for _ in range(61)]  # odd: no half
    assert len(set(texts)) == len(texts)
    okapi = rank_bm25.BM25Okapi([text.split() for text in texts], **(bm25_params or {}))
    retriever = MilvusBM25Retriever.from_texts(
        texts, preprocess_func=str.split, bm25_params=bm25_params, k=61, score_key="score"
    )
    for query in ("w0, w5,", "w39, w39, w1,", "W0, w0", "w7, w8, w9, w30,"):
        found = {found.page_content: found.metadata["score"] for found in retriever.invoke(query)}
        theirs = dict(zip(texts, okapi.get_scores(query.split()) / (okapi.k1 + 1), strict=True))
        assert found == pytest.approx({text: score for text, score in theirs.items() if score}, rel=1e-5)
        assert list(found.values()) == sorted(found.values(), reverse=True)


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"k": 0}, ValidationError, "greater than or equal to 1"),
            ({"ids": ["a"]}, InputError, "ids and texts must have the same length, got 1 and 4"),
            ({"metadatas": [{}]}, InputError, "metadatas and texts must have the same length, got 1 and 4"),
            ({"bm25_variant": "plus"}, TypeError, "unexpected keyword argument 'bm25_variant'"),
            ({"bm25_params": {"k": 2}}, TypeError, "unexpected keyword argument 'k'"),
            ({"bm25_params": {"k1": -1}}, ParameterError, "k1 must be"),
            ({"preprocess_func": "split"}, ParameterError, "preprocess_func must be a callable or None"),
            ({"preprocess_func": iter}, ParameterError, "must return a list of str"),
            ({"config": 500}, ParameterError, "config must be an IndexConfig or None, got 500"),
        ],
        ids=str,
    )
    def test_are_named(self, options: dict[str, Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            MilvusBM25Retriever.from_texts(TEXTS, **options)

    @pytest.mark.parametrize(
        "options",
        [
            {"uri": "./rag.db"},
            {"collection": "other"},
            {"config": IndexConfig(chunk_size=9)},
            {"bm25_params": {"k1": 1.2}},
            {"preprocess_func": split},
        ],
        ids=list,
    )
    def test_in_parameters_beside_an_index_write_nothing(self, index: BM25Index, options: dict[str, Any]) -> None:
        with pytest.raises(ParameterError, match="must be left out beside an index"):
            MilvusBM25Retriever.from_texts(TEXTS, index=index, **options)
        assert index.stats().num_chunks == 0

    def test_in_a_text_create_nothing(self, tmp_path: Path) -> None:
        for wrong in (["a" * 65_536], ["\0"], [7], ["a", "b"]):
            with pytest.raises(InputError):
                MilvusBM25Retriever.from_texts(wrong, ids=["a"] * len(wrong), uri=tmp_path / "rag.db")  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []


@embedded
class TestAPath:
    @pytest.fixture
    def uri(self, tmp_path: Path) -> Path:
        return tmp_path / "rag.db"

    def test_keeps_the_index(self, uri: Path) -> None:
        with MilvusBM25Retriever.from_texts(TEXTS, uri=uri) as retriever:
            config = retriever.index.config
        with pytest.raises(StoreError, match="is closed"):
            retriever.invoke("apple")
        with MilvusBM25Retriever.from_uri(uri, "docs") as retriever:
            assert texts_of(retriever.invoke("cherry")) == ["cherry"]
        with MilvusBM25Retriever.from_texts(["kiwi " * 100], uri=uri) as retriever:  # the next day
            assert retriever.index.config == config
            assert len(retriever.invoke("kiwi")) == len(retriever.invoke("cherry")) == 1
        with MilvusBM25Retriever.from_texts([], uri=uri) as retriever:
            assert retriever.index.stats().num_chunks == 5
        with MilvusBM25Retriever.from_texts(["a date"], uri=uri, collection="other") as retriever:
            assert retriever.index.config.chunk_size == 6

    def test_keeps_no_function(self, uri: Path) -> None:
        with MilvusBM25Retriever.from_texts(TEXTS, uri=uri, preprocess_func=str.split) as retriever:
            config = retriever.index.config
        with pytest.raises(ConfigMismatchError, match=r"the analyzer builtins\.str\.split: pass .* preprocess_func;"):
            MilvusBM25Retriever.from_texts(["kiwi"], uri=uri)
        with pytest.raises(ConfigMismatchError, match=r"tokens of .* differ"):
            MilvusBM25Retriever.from_texts(["kiwi"], uri=uri, preprocess_func=list)
        with MilvusBM25Retriever.from_texts(["kiwi"], uri=uri, preprocess_func=str.split) as retriever:
            assert (retriever.index.config, retriever.index.stats().num_chunks) == (config, 5)
        with MilvusBM25Retriever.from_uri(uri, "docs", analyzer=str.split) as retriever:
            assert texts_of(retriever.invoke("running,")) == TEXTS[3:]

    def test_keeps_its_parameters(self, uri: Path) -> None:
        MilvusBM25Retriever.from_texts(TEXTS, uri=uri, bm25_params={"k1": 1.2}).close()
        with MilvusBM25Retriever.from_texts(["kiwi"], uri=uri, bm25_params={"k1": 1.2, "idf": "lucene"}) as retriever:
            assert (retriever.index.config.k1, retriever.index.config.idf) == (1.2, "lucene")
        with pytest.raises(ConfigMismatchError, match=r"k1: stored 1\.2, given 1\.5"):
            MilvusBM25Retriever.from_texts(["fig"], uri=uri, bm25_params={"k1": 1.5})
        with MilvusBM25Retriever.from_uri(uri, "docs") as retriever:
            assert retriever.index.stats().num_chunks == 5

    def test_is_free_again_after_a_failure(self, uri: Path) -> None:
        def fail_at_cherries(text: str) -> list[str]:
            if text == "cherry":
                raise RuntimeError("no cherries")
            return text.split()

        config = IndexConfig(chunk_size=9, analyzer=fail_at_cherries)
        with pytest.raises(RuntimeError, match="no cherries"):
            MilvusBM25Retriever.from_texts(TEXTS, uri=uri, config=config)
        with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):
            MilvusBM25Retriever.from_texts(["fig"], uri=uri, config=config, top_k=3)
        with MilvusBM25Retriever.from_texts(["fig"], uri=uri, preprocess_func=split) as retriever:
            assert texts_of(retriever.invoke("fig")) == ["fig"]

    def test_is_read_in_coroutines(self, uri: Path) -> None:
        async def ask() -> list[Document]:
            async with MilvusBM25Retriever.from_texts(TEXTS, uri=uri) as retriever:
                return await retriever.ainvoke("cherry")

        assert texts_of(asyncio.run(ask())) == ["cherry"]
