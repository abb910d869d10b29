"""Scores from counts are the scores of an index."""

from __future__ import annotations

import dataclasses
import math
from itertools import islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import engines
from support.data import shared_data
from support.memory_store import MemoryStore
from support.reference import BM25, Corpus, split, words_and_bigrams
from support.strategies import corpora, document_weightings, field_weights, query_weightings, texts

from rag_bm25 import RM3, AnalyzerConfig, BM25Index, FieldWeight, IndexConfig, ParameterError, Progress, Rocchio
from rag_bm25.evaluation import BeirDataset, CorpusCounts, CountsCache, OfflineScorer, add_corpus, load_beir
from rag_bm25.index.settings import query_options
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rag_bm25.documents.encoder import LengthUnit
    from rag_bm25.query.feedback import Feedback
    from rag_bm25.weighting.document import DocumentWeighting
    from rag_bm25.weighting.formulas import WeightingName
    from rag_bm25.weighting.query import QueryWeighting

BILINGUAL = {
    "law": "用人单位解除劳动合同，应当出具证明。",
    "contract": "The contract of employment ends; 劳动合同终止。",
    "milvus": "Milvus stores sparse vectors, 稀疏向量。",
    "empty": "",
}


def scored(chunks: Mapping[str, str], config: IndexConfig, query: str, k: int = 100) -> dict[str, float]:
    return CountsCache(chunks).scorer(config).search(query, k)


def indexed(
    chunks: Mapping[str, str],
    config: IndexConfig,
    query: str,
    k: int = 100,
    fields: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    feedback: Feedback | None = None,
) -> dict[str, float]:
    index = BM25Index.from_store(MemoryStore(), config=config)
    add_corpus(index, chunks, fields=fields)
    if WEIGHTINGS[config.weighting].k1_per_term:
        index.reencode()
    return {hit.id: hit.score for hit in index.search(query, k, feedback=feedback)}


def assert_same(found: dict[str, float], expected: dict[str, float]) -> None:
    """Expect the same hits, scores and order; where two scores differ by rounding alone, either order will do."""
    assert found == pytest.approx(expected, rel=1e-5)
    in_order = [found[id_] for id_ in expected]
    assert all(before >= after * (1 - 1e-6) for before, after in pairwise(in_order))


@given(corpora(), texts(), document_weightings, query_weightings, st.sampled_from(["characters", "terms"]))
def test_scores_are_those_of_an_index_and_of_the_loops(
    chunks: dict[str, str], query: str, document: DocumentWeighting, weighting: QueryWeighting, unit: LengthUnit
) -> None:
    of_query = {name: value for name, value in dataclasses.asdict(weighting).items() if name != "word_bigram_weight"}
    both = {"k1": document.k1, "b": document.b, **of_query}
    config = IndexConfig(document.chunk_size, unit, analyzer=words_and_bigrams, **both)
    found = scored(chunks, config, query)
    assert_same(found, indexed(chunks, config, query))
    lengths = {id_: len(text) if unit == "characters" else len(text.split()) for id_, text in chunks.items()}
    corpus = Corpus({id_: words_and_bigrams(text) for id_, text in chunks.items()})
    loops = BM25(document.chunk_size, **both).scores(words_and_bigrams(query), corpus, lengths)
    assert found == pytest.approx({id_: score for id_, score in loops.items() if score}, rel=1e-5)


@given(corpora(), texts(), st.sampled_from([RM3, Rocchio]))
def test_scores_with_feedback_are_those_of_an_index(
    chunks: dict[str, str], query: str, method: type[RM3 | Rocchio]
) -> None:
    config = IndexConfig(4, "terms", analyzer=words_and_bigrams)
    feedback = method(fb_docs=2, fb_terms=99, min_df=1, max_df=1.0)
    found = CountsCache(chunks).scorer(config).search(query, feedback=feedback)
    assert_same(found, indexed(chunks, config, query, feedback=feedback))


@pytest.mark.parametrize("query", ["劳动合同 contract", "vectors 向量 稀疏", "的", "", "unknown"])
@pytest.mark.parametrize(
    "config",
    [
        IndexConfig(20),
        IndexConfig(20, idf="lucene", bigram_weight=1.0),
        IndexConfig(8, "terms", k1=0.9, b=0.4, k3=1.0, analyzer=AnalyzerConfig(stem=False, query_segmentation="exact")),
        IndexConfig(20, analyzer=AnalyzerConfig(bigrams=False, segmentation="exact")),
    ],
)
def test_scores_of_the_built_in_analyzer(config: IndexConfig, query: str) -> None:
    assert_same(scored(BILINGUAL, config, query), indexed(BILINGUAL, config, query))


@pytest.mark.parametrize("weighting", WEIGHTING_NAMES)
@given(corpora(), texts())
@example({"a": "", "b": "apple"}, "apple")
def test_scores_of_every_weighting(weighting: str, chunks: dict[str, str], query: str) -> None:
    config = IndexConfig(4, "terms", analyzer=words_and_bigrams, weighting=weighting)  # type: ignore[arg-type]
    assert_same(scored(chunks, config, query), indexed(chunks, config, query))


titled = st.dictionaries(st.sampled_from("abcde"), st.tuples(texts(), texts()), min_size=1)
COMBINING = [name for name in WEIGHTING_NAMES if WEIGHTINGS[name].combines_fields]


@pytest.mark.parametrize("unit", ["characters", "terms"])
@given(titled, texts(), st.sampled_from(COMBINING), field_weights)
def test_scores_with_titles_as_a_field(
    unit: LengthUnit, rows: dict[str, tuple[str, str]], query: str, weighting: WeightingName, title: FieldWeight
) -> None:
    config = IndexConfig(4, unit, analyzer=words_and_bigrams, weighting=weighting, fields={"title": title})
    chunks = {id_: text for id_, (text, _) in rows.items()}
    dataset = BeirDataset(chunks, {}, {}, {id_: own for id_, (_, own) in rows.items() if own})
    found = CountsCache(dataset).scorer(config).search(query)
    assert_same(found, indexed(chunks, config, query, fields={"title": dataset.titles}))


def test_the_length_of_a_title_is_its_own() -> None:
    fields = {"title": FieldWeight(chunk_size=2)}
    config = IndexConfig(2, "terms", k1=1, idf="lucene", analyzer=str.split, fields=fields)
    dataset = BeirDataset({"a": "b c d e f g h i"}, {}, {}, {"a": "fig apple"})
    [score] = CountsCache(dataset).scorer(config).search("fig").values()
    assert score == pytest.approx(math.log(4 / 3) * 1 / (1 + 1))


def test_one_cache_keeps_titles_joined_and_titles_apart_apart() -> None:
    dataset = BeirDataset({"a": "apple", "b": "pear apple"}, {}, {}, {"b": "fig"})
    joined = IndexConfig(4, idf="lucene", analyzer=str.split)
    apart = [
        dataclasses.replace(joined, fields={"title": FieldWeight(chunk_size=4, weight=weight)}) for weight in (1, 2)
    ]
    cache = CountsCache(dataset)
    found = [cache.scorer(config).search("fig") for config in (joined, *apart, joined)]
    assert [list(hits) for hits in found] == [["b"]] * 4
    assert found[0] == found[3]
    assert found[0]["b"] < found[1]["b"] < found[2]["b"]  # in a text of 14 characters, or a title of 3
    assert cache.counts(apart[0]) is cache.counts(apart[1])
    assert cache.counts(apart[0]).mean_length("characters") == 7.5
    with pytest.raises(ParameterError, match="a field must be 'title'"):
        cache.scorer(dataclasses.replace(joined, fields={"tags": FieldWeight(chunk_size=4)}))


@given(corpora(min_size=2), texts(), st.integers(1, 4))
def test_hits_are_the_best_k_by_score_then_id(chunks: dict[str, str], query: str, k: int) -> None:
    config = IndexConfig(4, "terms", analyzer=split)
    every = scored(chunks, config, query)
    assert list(every.items()) == sorted(every.items(), key=lambda hit: (-hit[1], hit[0]))
    assert list(scored(chunks, config, query, k).items()) == list(every.items())[:k]


def test_ties_are_in_the_order_of_ids_also_where_the_limit_cuts_them() -> None:
    chunks = dict.fromkeys(("b", "d", "a", "c"), "same text") | {"best": "same same"}
    assert list(scored(chunks, IndexConfig(2, "terms", idf="lucene", analyzer=split), "same", 3)) == ["best", "a", "b"]


def test_many_ties_are_in_the_order_of_ids() -> None:
    chunks = {f"{n:03}": "same" if n % 3 else "same same" for n in range(300)}
    found = scored(chunks, IndexConfig(1, "terms", idf="lucene", analyzer=split), "same", 250)
    assert list(found) == sorted(chunks, key=lambda id_: (-len(chunks[id_]), id_))[:250]


def test_a_corpus_of_several_batches_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    config = IndexConfig(20)
    expected = scored(BILINGUAL, config, "劳动合同 vectors")
    monkeypatch.setattr("rag_bm25.evaluation.counts.BATCH", 3)
    steps: list[Progress] = []
    cache = CountsCache(BILINGUAL, steps.append)
    assert cache.scorer(config).search("劳动合同 vectors") == expected
    assert steps == [Progress("documents", done, 4) for done in (3, 4)]


def test_an_empty_corpus_finds_nothing() -> None:
    config = IndexConfig(20, analyzer=split)
    counts = CorpusCounts.of({}, split)
    assert OfflineScorer(counts, config).search_queries({"q": "anything"}) == {"q": {}}
    assert counts.mean_length("characters") == 1.0


def test_statistics_are_those_of_an_index() -> None:
    config = IndexConfig(20)
    counts = CountsCache(BILINGUAL).counts(config)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(list(BILINGUAL.values()), ids=list(BILINGUAL))
    stats = index.stats()
    assert counts.statistics.num_terms == stats.num_terms
    figures = counts.statistics.collection_stats
    assert (figures.average_idf, figures.average_bigram_idf) == (stats.average_idf, stats.average_bigram_idf)
    analyzed = {id_: config.build_analyzer()(text) for id_, text in BILINGUAL.items()}
    assert (stats.average_idf, stats.average_bigram_idf) == pytest.approx(Corpus(analyzed).average_idfs())
    assert stats.average_idf != stats.average_bigram_idf
    assert counts.mean_length("estimated_characters") == stats.mean_length


class Counting:
    """An analyzer that knows how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> list[str]:
        self.asked += 1
        return text.split()


def test_a_corpus_is_analysed_once_and_a_query_once_for_each_query_side() -> None:
    analyzer = Counting()
    config = IndexConfig(4, analyzer=analyzer)
    cache = CountsCache({"a": "apple", "b": "banana"})
    for k1 in (0.9, 1.2, 1.5):
        cache.scorer(dataclasses.replace(config, k1=k1)).search("apple")
    assert analyzer.asked == 3
    cache.scorer(dataclasses.replace(config, idf="lucene")).search("apple")
    assert analyzer.asked == 4


def test_another_analyzer_has_counts_of_its_own() -> None:
    cache = CountsCache({"a": "running", "b": "run"})
    for stem in (True, False):
        config = IndexConfig(5, analyzer=AnalyzerConfig(stem=stem))
        assert set(cache.scorer(config).search("running")) == ({"a", "b"} if stem else {"a"})


def test_another_query_side_does_not_see_the_vectors_of_the_first() -> None:
    cache = CountsCache(BILINGUAL)
    for weight in (0.0, 1.0):
        config = IndexConfig(20, bigram_weight=weight)
        assert_same(cache.scorer(config).search("劳动合同"), indexed(BILINGUAL, config, "劳动合同"))


@pytest.mark.data
@pytest.mark.parametrize("name", ["xquad-mixed", "scifact"])
def test_scores_are_those_of_the_embedded_engine(name: str, tmp_path: Path) -> None:
    if not engines.lite_version():
        pytest.skip("milvus-lite is not installed")
    dataset = load_beir(shared_data(name))
    corpus, queries = dict(islice(dataset.corpus.items(), 400)), list(islice(dataset.queries.values(), 150))
    config = IndexConfig(500, k1=1.2)
    cache = CountsCache(corpus)
    with BM25Index.open(tmp_path / "x.db", "docs", config=config) as index:
        index.add(list(corpus.values()), ids=list(corpus))
        for weighting in (config, dataclasses.replace(config, idf="lucene", k3=2.0, bigram_weight=1.0)):
            answers = index.search_batch(queries, 100, **query_options(weighting))  # type: ignore[arg-type]
            scorer = cache.scorer(weighting)
            for query, hits in zip(queries, answers, strict=True):
                found = scorer.search(query)
                # At the limit, another document of the same score may be the last one.
                assert list(found.values()) == pytest.approx([hit.score for hit in hits], rel=1e-5)
                assert [hit.id for hit in hits[:10] if hit.score > 1.0001 * hits[-1].score] == [
                    id_ for id_ in islice(found, 10) if found[id_] > 1.0001 * hits[-1].score
                ]
