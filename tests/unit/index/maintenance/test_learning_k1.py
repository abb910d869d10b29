"""What a k1 of each term needs, and what it is refused for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore

from rag_bm25 import RSJ, BM25Index, IndexConfig, QueryWeighting
from rag_bm25.adapters import BM25Encoder
from rag_bm25.errors import FormatError, ParameterError, ReadOnlyError
from rag_bm25.index.scoped import narrow
from rag_bm25.ingestion import reindex
from rag_bm25.statistics.log.keys import keys_of
from rag_bm25.store.rows import LogRow

CHUNKS = {"1": "fig fig fig plum", "2": "fig fig", "3": "plum pad pad pad", "4": "fig pad", "5": "lone", "6": "pad fig"}
BM25T, ADPT, OF_GAIN = QueryWeighting(k1="bm25t"), QueryWeighting(k1="adpt"), QueryWeighting(idf="adpt")


@pytest.fixture
def index() -> BM25Index:
    made = filled(CHUNKS)
    made.learn_k1()
    return made


def ranking(index: BM25Index, query: str = "fig plum", **options: object) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.search(query, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("weighting", [BM25T, ADPT, OF_GAIN], ids=repr)
def test_what_was_not_learned_is_refused_with_the_command(weighting: QueryWeighting) -> None:
    (asked,) = [name for name in ("k1='bm25t'", "k1='adpt'", "idf='adpt'") if name in repr(weighting)]
    for call in (BM25Index.search, BM25Index.explain):
        with pytest.raises(ParameterError, match=f"{asked} needs .* run `rag-bm25 calibrate --k1-of-terms`"):
            call(filled(CHUNKS), "fig", "1" if call is BM25Index.explain else 3, weighting=weighting)  # type: ignore[operator]


@pytest.mark.parametrize("form", ["elasticsearch", "bm25l", "tf"])
def test_other_weightings_of_the_chunks_have_no_k1_of_terms(form: str) -> None:
    config = replace(CONFIG, weighting=form)  # type: ignore[arg-type]
    for call in (lambda: filled({}, config).learn_k1(), lambda: replace(config, query_k1="bm25t")):
        with pytest.raises(ParameterError, match=form):
            call()


def test_only_a_whole_index_learns(index: BM25Index) -> None:
    part = narrow(index, namespace="")
    with pytest.raises(ReadOnlyError):
        part.learn_k1()
    with pytest.raises(ParameterError, match="outside of a part"):
        part.search("fig", weighting=ADPT)


def test_a_vector_cannot_express_it(index: BM25Index) -> None:
    with pytest.raises(ParameterError, match="k1, b and length are not supported here"):
        index.encode_queries(["fig"], weighting=BM25T)
    (vector,) = index.encode_queries(["fig"], weighting=OF_GAIN)
    explained = index.explain("fig", "1", weighting=OF_GAIN)
    assert vector.values.tolist() == [pytest.approx(explained.terms[0].query_weight)]
    with pytest.raises(ParameterError, match="idf='adpt' is not supported here"):
        BM25Encoder(replace(CONFIG, idf="adpt")).encode_queries(["fig"])


def test_an_index_may_ask_for_it_in_all_searches(index: BM25Index) -> None:
    asking = BM25Index.from_store(index._store.reopen(), config=replace(CONFIG, query_k1="bm25t"))  # type: ignore[attr-defined]
    assert ranking(asking) == ranking(index, weighting=BM25T) != ranking(index)


def test_one_chunk_and_none_can_be_learned_from() -> None:
    for chunks in ({}, {"1": ""}, {"1": "fig fig"}):
        index = filled(chunks)
        assert index.learn_k1().num_terms == 0
        assert ranking(index, "fig", weighting=ADPT) == ranking(index, "fig", weighting=QueryWeighting(k1="bm25t"))


def test_where_a_weight_does_not_tell_the_frequency_texts_are_analysed() -> None:
    index = filled({**CHUNKS, "7": ""}, replace(CONFIG, k1=0))
    other = filled({**CHUNKS, "7": ""})
    assert index.learn_k1() == other.learn_k1()
    tables = [each._live.view.term_k1 for each in (index, other)]
    assert tables[0].values.tobytes() == tables[1].values.tobytes()  # type: ignore[union-attr]


def test_relevant_chunks_stand_in_place_of_what_was_learned(index: BM25Index) -> None:
    explained = index.explain("plum", "1", weighting=OF_GAIN, feedback=RSJ(["1"]))
    assert "df that stands for w" in explained.tree
    assert explained.value > index.explain("plum", "1", weighting=OF_GAIN, feedback=RSJ(["2", "4", "6"])).value


def test_it_is_another_weighting_for_the_confidence(index: BM25Index) -> None:
    assert index.search("fig", weighting=BM25T)[0].confidence is None
    with pytest.raises(ParameterError, match="min_confidence needs a confidence model"):
        index.search("fig", weighting=BM25T, min_confidence=0.5)


def test_no_score_is_above_the_upper_bound(index: BM25Index) -> None:
    (bound,) = index.max_scores(["fig plum"], weighting=BM25T)
    assert 0 < index.search("fig plum", weighting=BM25T)[0].score <= bound
    assert bound > index.max_scores(["fig plum"])[0]


def test_reindexing_into_another_index_carries_it_for_bm25_alone(index: BM25Index) -> None:
    target, other = (
        BM25Index.open(":memory:", "other", config=replace(CONFIG, **change))  # type: ignore[arg-type]
        for change in ({"chunk_size": 9}, {"weighting": "bm25l"})
    )
    for each in (target, target, other):
        reindex(index, each)
    assert ranking(target, weighting=BM25T) == [
        (id_, pytest.approx(one)) for id_, one in ranking(index, weighting=BM25T)
    ]
    assert other.stats().k1_learned is None


def test_a_damaged_table_is_told_and_repair_drops_it(index: BM25Index) -> None:
    store: MemoryStore = index._store  # type: ignore[assignment]
    (key,) = keys_of(store.log_keys(), "k1")
    row = store.collections.log[key]
    for damaged in (LogRow(key, "k1", row.meta, row.packed[:-8]), LogRow(key, "k1", {}, row.packed)):
        store.collections.log[key] = damaged
        with pytest.raises(FormatError, match="Run repair"):
            BM25Index.from_store(store.reopen(), config=CONFIG)
    index.repair()
    assert BM25Index.from_store(store.reopen(), config=CONFIG).stats().k1_learned is None


def test_a_table_of_many_rows_is_read_as_it_was_written(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.term_k1.TERMS_PER_ROW", 2)
    index.learn_k1()
    assert len(keys_of(index._store.log_keys(), "k1")) == 2
    other = BM25Index.from_store(index._store.reopen(), config=CONFIG)  # type: ignore[attr-defined]
    assert ranking(other, weighting=ADPT) == ranking(index, weighting=ADPT)


def test_its_k1_of_the_index_is_that_of_words_that_are_new(index: BM25Index) -> None:
    index.add(["newcomer fig", "newcomer newcomer pad"], ids=["8", "9"])
    tree = index.explain("newcomer fig", "8", weighting=BM25T).tree
    assert "1.5 = k1, saturation of the index: this term has none of its own" in tree
    assert "k1, saturation of this term by 'bm25t'" in tree
    assert index.stats().k1_growth == pytest.approx(8 / 6)


def test_a_config_says_which_are_allowed() -> None:
    with pytest.raises(ParameterError, match="query_k1 must be"):
        IndexConfig(5, query_k1="bm25x")  # type: ignore[arg-type]
