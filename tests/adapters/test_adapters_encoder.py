from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.reference import Corpus, in_all_channels, split
from support.strategies import texts

from rag_bm25 import BM25Index, ConfigMismatchError, FieldWeight, IndexConfig, InputError, ParameterError
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.encoder import document_encoding
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.query import Query
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.weighting.query import QueryWeighting

TEXTS = ["apple banana", "apple apple cherry", "", "fig"]
QUERIES = ["apple fig", "apple apple", "unknown", ""]


@pytest.fixture
def encoder(config: IndexConfig) -> BM25Encoder:
    return BM25Encoder(config).fit(TEXTS)


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(TEXTS)
    return index


def test_scores_as_the_index_does(encoder: BM25Encoder, filled: BM25Index) -> None:
    chunks = dict(zip(TEXTS, encoder.encode_documents(TEXTS), strict=True))
    for query, vector in zip(QUERIES, encoder.encode_queries(QUERIES), strict=True):
        for hit in filled.search(query):
            assert vector.dot(chunks[hit.text]) == pytest.approx(hit.score, rel=1e-6)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"weighting": QueryWeighting("lucene", k3=2.0)},
    {"expansion": QueryExpansion(synonyms=Synonyms.parse("fig, apple"))},
    {"expansion": QueryExpansion(fuzzy=Fuzzy(max_edits=1))},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["none", "weighting", "synonyms", "near spellings"])
@pytest.mark.parametrize("query", ["apple fig apple", "appl cherry", Query.parse("app* fig^2"), {"fig": 3.0}])
def test_options_weigh_as_in_the_index(
    encoder: BM25Encoder, filled: BM25Index, query: Any, options: dict[str, Any]
) -> None:
    if "fuzzy" in str(options):
        pytest.importorskip("rapidfuzz", reason='needs rag-bm25[fuzzy]: pip install ".[fuzzy]"')
    assert encoder.encode_queries([query], **options) == filled.encode_queries([query], **options)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=["none", "weighting", "synonyms"])
def test_explains_the_score_as_the_index_does(encoder: BM25Encoder, filled: BM25Index, options: dict[str, Any]) -> None:
    for chunk in filled.chunks():
        explained = encoder.explain("apple fig", chunk.text, **options)
        expected = filled.explain("apple fig", chunk.id, **options)
        assert (explained.value, explained.terms) == (expected.value, expected.terms)
        assert (explained.reason, explained.length) == (expected.reason, expected.length)
        (query,), (vector,) = encoder.encode_queries(["apple fig"], **options), encoder.encode_documents([chunk.text])
        assert explained.value == pytest.approx(query.dot(vector), rel=1e-6)


def test_explains_fields_and_stop_words() -> None:
    config = IndexConfig(20, fields={"title": FieldWeight(chunk_size=5)})
    encoder = BM25Encoder(config).fit(["apple pie", "fig"], [{"title": "fruit"}, None])
    explained = encoder.explain("what is fruit", "apple pie", {"title": "fruit"})
    assert [(term.term, term.fields) for term in explained.terms] == [("fruit", {"title": 1}), ("what", {})]
    assert explained.stop_words == ("is",)


def test_a_saved_one_may_be_given_its_callable(encoder: BM25Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "file")
    loaded = BM25Encoder.load(tmp_path / "file", analyzer=split)
    assert (loaded.config, loaded.encode_queries(QUERIES)) == (encoder.config, encoder.encode_queries(QUERIES))
    with pytest.raises(ConfigMismatchError, match="pass that callable as analyzer"):
        BM25Encoder.load(tmp_path / "file").learn(["fig"])


def test_conditions_are_no_vector(encoder: BM25Encoder) -> None:
    query = Query.parse("+apple fig")
    for call in (lambda: encoder.encode_queries([query]), lambda: encoder.explain(query, "apple")):
        with pytest.raises(ParameterError, match="must, must_not and phrases are not supported here"):
            call()


def test_fitting_again_keeps_the_old_counts_until_all_is_learned() -> None:
    counts: list[int] = []

    def analyze(text: str) -> list[str]:
        counts.append(encoder.num_chunks)
        if text == "bad":
            raise ValueError(text)
        return split(text)

    encoder = BM25Encoder(IndexConfig(chunk_size=4, length_unit="terms", analyzer=analyze))
    encoder.fit(["apple"])
    with pytest.raises(ValueError, match="bad"):
        encoder.fit(["banana", "bad"])
    assert [len(vector.ids) for vector in encoder.encode_queries(["apple", "banana"])] == [1, 0]
    encoder.fit(["banana", "cherry"])
    assert (encoder.num_chunks, len(encoder.encode_queries(["banana"])[0].ids)) == (2, 1)
    assert counts[:3] == [0, 1, 1]


def test_encoding_counts_nothing(encoder: BM25Encoder) -> None:
    before = encoder.encode_queries(QUERIES)
    encoder.encode_documents(["apple new"])
    assert (encoder.num_chunks, encoder.encode_queries(QUERIES)) == (4, before)


def test_learning_and_encoding_does_both(config: IndexConfig, encoder: BM25Encoder) -> None:
    learning = BM25Encoder(config)
    assert learning.learn(TEXTS) == encoder.encode_documents(TEXTS)
    assert learning.encode_queries(QUERIES) == encoder.encode_queries(QUERIES)


@given(st.lists(texts(), max_size=5), st.lists(texts(), max_size=5))
def test_forgetting_undoes_learning(kept: list[str], gone: list[str]) -> None:
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
    encoder = BM25Encoder(config)
    encoder.learn(gone)
    encoder.learn(kept)
    encoder.forget(gone)
    assert encoder.encode_queries([*kept, *gone]) == BM25Encoder(config).fit(kept).encode_queries([*kept, *gone])


@pytest.mark.parametrize("never", [["grape"], ["fig", "fig"], [""] * 5])
def test_forgetting_what_was_never_learned_is_refused(encoder: BM25Encoder, never: list[str]) -> None:
    before = encoder.encode_queries(QUERIES)
    with pytest.raises(InputError, match=r"forget\(\) was given texts that were not learned"):
        encoder.forget(never)
    assert (encoder.num_chunks, encoder.encode_queries(QUERIES)) == (4, before)


def test_a_saved_one_is_the_same_when_loaded(encoder: BM25Encoder, config: IndexConfig, tmp_path: Path) -> None:
    encoder.save(tmp_path / "statistics")
    loaded = BM25Encoder.load(tmp_path / "statistics", config=config)
    assert loaded.encode_queries(QUERIES) == encoder.encode_queries(QUERIES)
    loaded.forget(TEXTS)
    assert loaded.num_chunks == 0


def test_a_saved_one_needs_no_config_for_the_analyzer_of_the_package(tmp_path: Path) -> None:
    encoder = BM25Encoder(IndexConfig(chunk_size=50, k1=1.2)).fit(["检索 Milvus"])
    encoder.save(tmp_path / "statistics")
    assert BM25Encoder.load(tmp_path / "statistics").config == encoder.config


def test_loading_with_another_config_is_refused(encoder: BM25Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "statistics")
    with pytest.raises(ConfigMismatchError, match="chunk_size: stored 4, given 5"):
        BM25Encoder.load(tmp_path / "statistics", config=IndexConfig(chunk_size=5, length_unit="terms", analyzer=split))


few_texts = st.lists(st.sampled_from(["合同", "合同法", "法", "a"]), max_size=3).map(" ".join)


@given(st.lists(few_texts, max_size=5), st.lists(few_texts, max_size=5))
def test_each_channel_has_its_mean(tmp_path_factory: pytest.TempPathFactory, kept: list[str], gone: list[str]) -> None:
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=in_all_channels)
    corpus = Corpus({str(at): in_all_channels(text) for at, text in enumerate(kept)})
    encoder = BM25Encoder(config).fit([*gone, *kept])
    encoder.forget(gone)
    encoder.save(path := tmp_path_factory.mktemp("saved") / "file")
    for one in (encoder, BM25Encoder.load(path, config=config)):
        stats = one._statistics.whole.idf_inputs
        means = stats.average_idf, stats.average_bigram_idf, stats.average_character_idf
        assert means == pytest.approx(corpus.average_idfs(), abs=1e-12)


@pytest.mark.usefixtures("tiny_id_space")
def test_terms_that_collide_keep_apart(config: IndexConfig) -> None:
    words = ["apple", "banana", "cherry", "fig", "grape", "中文"]
    encoder = BM25Encoder(config)
    for word in words:
        encoder.learn([word])
    vectors = encoder.encode_documents(words)
    assert len({tuple(vector.ids.tolist()) for vector in vectors}) == len(words)


def test_an_index_cannot_be_taught_by_an_adapter(config: IndexConfig) -> None:
    index = BM25Index.from_store(MemoryStore(), config=config)
    with pytest.raises(
        ParameterError, match="learn=True needs a BM25Encoder, got BM25Index, which counts the chunks in Milvus"
    ):
        document_encoding(index, learn=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apple",), "texts must be a sequence of str, got str"),
        ((["apple", 5],), r"texts\[1\] must be a str, got int"),
        ((["apple"], [{}, {}]), "metadatas and texts must have the same length"),
        ((["apple"], [5]), r"metadatas\[0\] must be a mapping, got int"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "learn", "forget", "encode_documents"])
def test_bad_texts_are_refused_and_nothing_changes(
    encoder: BM25Encoder, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    before = encoder.encode_queries(QUERIES)
    with pytest.raises(InputError, match=message):
        getattr(encoder, method)(*arguments)
    assert encoder.encode_queries(QUERIES) == before


def test_one_query_is_no_sequence_of_them(encoder: BM25Encoder) -> None:
    with pytest.raises(InputError, match="queries must be a sequence of str, got str"):
        encoder.encode_queries("apple")
