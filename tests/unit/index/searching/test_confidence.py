"""The confidence of hits, and searches that drop those with less."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import Judged, give_model, make_set
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore
from support.reference import saturated

from rag_bm25 import (
    BM25Index,
    Grouping,
    Hit,
    IndexConfig,
    IndexGroup,
    InputError,
    NearDuplicates,
    ParameterError,
    Query,
    QueryExpansion,
    QueryWeighting,
    ReadOnlyError,
    Synonyms,
    ValueBoost,
)
from rag_bm25.events import Event
from rag_bm25.index.scoped import narrow
from rag_bm25.store.rows import Scope
from rag_bm25.weighting.confidence import Signals

CHUNKS, JUDGED = make_set()
QUERIES = list(JUDGED)


@pytest.fixture(scope="module")
def index() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    metadatas = [{"page": int(id_[1:]) % 7} for id_ in CHUNKS]
    index.add(list(CHUNKS.values()), ids=list(CHUNKS), metadatas=metadatas)
    index.calibrate_answers(QUERIES, Judged(JUDGED))
    return index


def confidences(hits: list[Hit]) -> list[tuple[str, float | None]]:
    return [(hit.id, hit.confidence) for hit in hits]


@pytest.mark.parametrize("query", QUERIES[:10])
def test_confidence_is_that_of_the_signals_but_never_rises(index: BM25Index, query: str) -> None:
    hits = index.search(query, 40)
    model = index._live.view.answers
    assert model is not None
    (most,) = index.max_scores([query])
    rivals = sum(hit.score for hit in hits[1:10]) / 9
    expected, least = [], 1.0
    for hit in hits:
        terms = index.explain(query, hit.id).terms
        total = sum(term.query_weight for term in terms)
        shares = [(term.query_weight / total, term.df) for term in terms if term.query_weight]
        rarity = sum(share * math.log((len(CHUNKS) + 1) / df) for share, df in shares)
        coverage = sum(term.query_weight for term in terms if term.weight) / total
        specificity = math.log(rarity / sum(share**2 for share, _ in shares))
        signals = Signals(hit.score / most, math.log(max(0, hit.score - rivals) / most + 0.02), coverage, specificity)
        logit = model.intercept + sum(slope * signal for slope, signal in zip(model.slopes, signals, strict=True))
        least = min(least, 1 / (1 + math.exp(-logit)))
        expected.append((hit.id, pytest.approx(least, abs=1e-6)))
    assert confidences(hits) == expected
    assert [hit.score_share for hit in hits] == pytest.approx([hit.score / most for hit in hits])
    assert {"score_share", "confidence"} <= hits[0].to_dict().keys()


@pytest.mark.parametrize("unknown", ["spaceship", "spaceship spaceship", "spaceship elephants"])
def test_unknown_words_lower_the_confidence_as_words_of_one_chunk_and_nothing_else(
    index: BM25Index, unknown: str
) -> None:
    model, query = index._live.view.answers, QUERIES[0]
    assert model is not None
    (known,), (asked,) = index.search(query, 1), index.search(f"{query} {unknown}", 1)
    terms = index.explain(query, known.id).terms
    weights, held = (sum(t.query_weight for t in some) for some in (terms, [t for t in terms if t.weight]))
    rarest = math.log((len(CHUNKS) - 0.5) / 1.5)
    repeated = sum(saturated(count, 4) for count in Counter(unknown.split()).values())
    change = model.slopes.coverage * held * (1 / (weights + rarest * repeated) - 1 / weights)
    assert known.confidence is not None
    logit = math.log(known.confidence / (1 - known.confidence)) + change
    assert change < 0
    assert asked.confidence == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)
    assert replace(asked, confidence=known.confidence) == known


@given(query=st.sampled_from(QUERIES), more=st.lists(st.tuples(st.integers(0, 9), st.sampled_from("xyz"))))
def test_unknown_words_never_raise_the_confidence(index: BM25Index, query: str, more: list[tuple[int, str]]) -> None:
    words = query.split()
    least = index.search(query, 40)
    for place, unknown in more:
        words.insert(place, unknown)
        hits = index.search(" ".join(words), 40)
        assert [(hit.id, hit.score, hit.score_share) for hit in hits] == [
            (hit.id, hit.score, hit.score_share) for hit in least
        ]
        assert all((a.confidence or 0) <= (b.confidence or 0) for a, b in zip(hits, least, strict=True))
        assert (hits[0].confidence or 1) < (least[0].confidence or 0)
        least = hits


@pytest.mark.parametrize(("synonym", "unknown"), [("w1", []), ("rocket", ["spaceship"])])
def test_a_word_that_has_a_known_synonym_is_not_unknown(index: BM25Index, synonym: str, unknown: list[str]) -> None:
    expansion = QueryExpansion(synonyms=Synonyms.of({"spaceship": [synonym]}))
    prepared = index._current().searcher.prepare(["w2 spaceship"], Scope(), {"expansion": expansion})
    terms = prepared.queries[0].terms
    assert [term for term, is_unknown in zip(terms.terms, terms.are_unknown(), strict=True) if is_unknown] == unknown


@pytest.mark.parametrize("part", [{"namespace": ["own"]}, {"filter": {"own": True}}], ids=" ".join)
def test_a_word_of_other_chunks_alone_is_unknown_to_a_part(part: dict[str, Any]) -> None:
    index, alone = (BM25Index.from_store(MemoryStore(), config=CONFIG) for _ in range(2))
    for one in (index, alone):
        one.add(list(CHUNKS.values()), ids=list(CHUNKS), metadatas=[{"own": True}] * len(CHUNKS), namespace="own")
        give_model(one, -2.0, coverage=3.0)
    index.add(["spaceship"], ids=["s"])
    queries = [QUERIES[0], f"{QUERIES[0]} spaceship"]
    known, asked, expected = (
        confidences(one.search(query, 5, namespace=None))
        for one, query in zip(
            (narrow(index, **part), narrow(index, **part), alone), [*queries, queries[1]], strict=True
        )
    )
    assert asked == expected
    assert (asked[0][1] or 1) < (known[0][1] or 0)


def test_a_word_is_unknown_to_a_group_if_no_part_has_it() -> None:
    left, right = {"l": "left", **dict(list(CHUNKS.items())[:20])}, {"r": "right", **dict(list(CHUNKS.items())[20:])}
    group, one = IndexGroup([filled(left), filled(right)]), filled(left | right)

    def signals(index: BM25Index, word: str) -> np.ndarray:
        judged = Judged({f"{query} {word}": ids for query, ids in JUDGED.items()})
        return index.calibrate_answers(list(judged.judged), judged, dry_run=True).first_hits.signals

    for word in ("", "left", "right", "spaceship"):
        assert signals(group, word) == pytest.approx(signals(one, word))
    plain, asked = (Signals(*signals(group, word).T) for word in ("", "spaceship"))
    assert (np.array(asked.coverage) < plain.coverage).all()
    for name in ("share", "margin", "specificity"):
        assert getattr(asked, name) == pytest.approx(getattr(plain, name))


@pytest.mark.parametrize("k", [1, 2, 9, 11])
def test_confidence_depends_neither_on_k_nor_on_the_batch_nor_on_a_factor_of_all_weights(
    index: BM25Index, k: int
) -> None:
    for query, hits in zip(QUERIES, index.search_batch(QUERIES, k), strict=True):
        assert confidences(hits) == confidences(index.search(query, 40)[:k])
        boosted = index.search(Query.of({query: 3.0}), k)
        assert [hit.confidence for hit in boosted] == pytest.approx([hit.confidence for hit in hits], rel=1e-4)


def by_page(_: str, hits: Any) -> list[float]:
    return [-hit.metadata["page"] for hit in hits]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_should_match": 2},
        {"filter": {"page": {"$gt": 2}}},
        {"boosts": [ValueBoost("page", {3: 5.0, 4: 0.1})]},
        {"rerank": by_page},
        {"min_score": 0.5},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
@pytest.mark.parametrize("least", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_min_confidence_leaves_out_the_hits_with_less(index: BM25Index, least: float, options: dict[str, Any]) -> None:
    kept = 0
    for query in QUERIES[:15]:
        every = index.search(query, 40, **options)
        wanted = [hit for hit in every if (hit.confidence or 0) >= least]
        for k in (1, 3, 40):
            hits = index.search(query, k, min_confidence=least, **options)
            assert [(hit.id, hit.score, hit.confidence) for hit in hits] == [
                (hit.id, hit.score, hit.confidence) for hit in wanted[:k]
            ]
        kept += len(wanted)
    assert kept or least == 1


@pytest.mark.parametrize("score", ["max", "sum"])
def test_groups_are_of_the_hits_with_enough_confidence(index: BM25Index, score: Any) -> None:
    for query in QUERIES[:15]:
        enough = {hit.id for hit in index.search(query, 40, min_confidence=0.1)}
        groups: dict[Any, list[str]] = {}
        for hit in index.search(query, 40):
            if hit.id in enough:
                groups.setdefault(hit.metadata["page"], []).append(hit.id)
        hits = index.search(query, 2, group=Grouping("page", size=3, score=score), min_confidence=0.1)
        found: dict[Any, list[str]] = {}
        for hit in hits:
            found.setdefault(hit.metadata["page"], []).append(hit.id)
        assert {page: groups[page][:3] for page in found} == found
        assert len(found) == min(2, len(groups))


def test_a_search_for_nothing_certain_reads_no_more_rows(monkeypatch: pytest.MonkeyPatch, index: BM25Index) -> None:
    limits: list[int] = []
    search = index._store.search
    monkeypatch.setattr(index._store, "search", lambda queries, arm: limits.append(arm.limit) or search(queries, arm))
    assert index.search(QUERIES[0], 3, min_confidence=1.0) == []
    assert limits == [10]


def test_without_a_model_hits_have_their_share_alone() -> None:
    index = filled(CHUNKS)
    hits = index.search(QUERIES[0], 3)
    (most,) = index.max_scores([QUERIES[0]])
    assert [hit.confidence for hit in hits] == [None] * 3
    assert "confidence" not in hits[0].to_dict()
    assert [hit.score_share for hit in hits] == pytest.approx([hit.score / most for hit in hits])
    with pytest.raises(ParameterError, match=r"needs a confidence model, and memory.* has none: fit one with"):
        index.search(QUERIES[0], min_confidence=0.5)
    reranked = index.search(QUERIES[0], 3, rerank=lambda _, hits: [9.0] * len(hits), candidates=3)
    assert [hit.score_share for hit in reranked] == [hit.score_share for hit in hits]


def test_a_weighting_without_a_bound_has_neither() -> None:
    index = filled(CHUNKS, IndexConfig(4, length_unit="terms", weighting="tf"))
    assert index.search(QUERIES[0])[0].score_share is None
    with pytest.raises(ParameterError, match="need a weighting with an upper bound, got 'tf'"):
        index.calibrate_answers(QUERIES, Judged(JUDGED))


def test_a_model_is_for_the_weighting_that_it_was_fitted_with(index: BM25Index) -> None:
    other = QueryWeighting(idf="lucene")
    assert index.search(QUERIES[0], weighting=other)[0].confidence is None
    with pytest.raises(ParameterError, match=r"fitted with: idf: stored 'epsilon', given 'lucene'\. Search with"):
        index.search(QUERIES[0], weighting=other, min_confidence=0.5)
    assert index.search(QUERIES[0], weighting=QueryWeighting())[0].confidence is not None


def test_searches_of_other_kinds_have_no_confidence(index: BM25Index) -> None:
    assert {hit.confidence for hit in index.more_like_this("d0")} == {None}
    with pytest.raises(ParameterError, match="min_confidence is not supported here"):
        index.more_like_this("d0", min_confidence=0.5)
    dense = BM25Index.open(":memory:", "x", config=IndexConfig(4, dense_dim=2))
    dense.add(["apple"], ids=["a"], embeddings=[[1.0, 0.0]])
    give_model(dense)
    (hit,) = dense.search_hybrid("apple", [1.0, 0.0])
    assert (hit.confidence, hit.score_share) == (None, None)
    for search, asked in ((dense.search_dense, ([1.0, 0.0],)), (dense.search_hybrid, ("apple", [1.0, 0.0]))):
        with pytest.raises(ParameterError, match="min_confidence is not supported here: a confidence is of the BM25"):
            search(*asked, min_confidence=0.5)


def test_diagnosis_tells_the_confidence(index: BM25Index) -> None:
    best, *_, last = index.search(QUERIES[0], 3)
    diagnosis = index.diagnose(QUERIES[0], min_confidence=1.0)
    assert str(diagnosis) == f"nothing found: the best confidence is {best.confidence:.4g}, below the minimum of 1"
    (reason,) = index.diagnose(QUERIES[0], last.id, min_confidence=best.confidence).reasons
    assert (reason.code, reason.details["confidence"]) == ("min_confidence", last.confidence)


# Calibration


def test_calibration_judges_the_first_hit_and_the_first_without_answers(index: BM25Index) -> None:
    first = index.calibrate_answers(QUERIES, Judged(JUDGED), dry_run=True).first_hits
    expected = []
    for number, query in enumerate(QUERIES):
        hits = index.search(query, 40)
        others = [hit for hit in hits if hit.id not in JUDGED[query]]
        expected.append((number, hits[0].score, hits[0].id in JUDGED[query], False))
        expected += [(number, others[0].score, False, True)] if others else []
    rows = zip(*(getattr(first, name).tolist() for name in ("queries", "scores", "answers", "without")), strict=True)
    assert list(rows) == expected
    assert 0 < first.answers.mean() < 0.6


def test_calibration_has_the_figures_and_keeps_the_model() -> None:
    index = filled(CHUNKS)
    dry = index.calibrate_answers(QUERIES, Judged(JUDGED), dry_run=True)
    assert index._live.view.answers is None
    told: list[tuple[str, int, int | None]] = []
    made = index.calibrate_answers(
        QUERIES, Judged(JUDGED), progress=lambda step: told.append((step.what, step.done, step.total))
    )
    assert told == [("queries", len(QUERIES), len(QUERIES))]
    assert made.model == dry.model == index._live.view.answers
    assert made.to_dict() == dry.to_dict()
    assert made.to_dict().keys() == {"queries", "answered", "auc", "score_auc", "error", "model"}
    assert made.queries == len(QUERIES)
    assert 0.5 < made.score_auc < made.auc <= 1
    give_model(index, intercept=100.0)
    assert {hit.confidence for hit in index.search(QUERIES[0])} == {1.0}


@pytest.mark.parametrize(
    ("figures", "doubts"),
    [
        ({"queries": 30, "auc": 0.81, "score_auc": 0.8}, []),
        ({"queries": 29, "auc": 0.81, "score_auc": 0.8}, ["29 queries are too few"]),
        ({"queries": 10, "auc": 0.775, "score_auc": 0.825}, ["10 queries are too few", "AUC 0.775, and 0.825"]),
        ({"queries": 900, "auc": 0.8, "score_auc": 0.8}, ["no better than the score alone"]),
    ],
)
def test_calibration_tells_if_the_model_is_doubtful(figures: dict[str, Any], doubts: list[str]) -> None:
    made = filled(CHUNKS).calibrate_answers(QUERIES, Judged(JUDGED), dry_run=True)
    found = replace(made, **figures).doubts
    assert len(found) == len(doubts)
    assert all(doubt in text for doubt, text in zip(doubts, found, strict=True))


def test_calibration_refuses_what_tells_nothing() -> None:
    index = filled(CHUNKS)
    for is_answer in (lambda *_: False, lambda *_: True):
        with pytest.raises(InputError, match="first hits answer: at least 5 must, and 5 must not"):
            index.calibrate_answers(QUERIES, is_answer)
    with pytest.raises(InputError, match="0 of 0 first hits"):
        index.calibrate_answers([], Judged(JUDGED))


def test_a_reader_may_measure_and_not_store() -> None:
    store = MemoryStore()
    filled(CHUNKS, store=store)
    reader = BM25Index.from_store(store.reopen(), config=CONFIG, read_only=True)
    assert reader.calibrate_answers(QUERIES, Judged(JUDGED), dry_run=True).auc > 0.5
    with pytest.raises(ReadOnlyError):
        reader.calibrate_answers(QUERIES, Judged(JUDGED))


def test_calibration_goes_below_many_answers() -> None:
    index = filled({f"d{at}": "w1 w2" for at in range(60)} | CHUNKS)
    first = index.calibrate_answers(
        ["w1", *QUERIES], lambda query, hit: query == "w1" or hit.id in JUDGED[str(query)], dry_run=True
    ).first_hits
    assert np.flatnonzero(first.queries == 0).tolist() == [0]  # every hit answers


def test_calibration_asks_once_whether_a_hit_answers() -> None:
    index, asked = filled({f"d{at}": "w1 w2" for at in range(60)} | CHUNKS), []

    def is_answer(query: Any, hit: Hit) -> bool:
        asked.append((query, hit.id))
        return query == "w1" or hit.id in JUDGED[query]

    index.calibrate_answers(["w1", *QUERIES], is_answer, dry_run=True)
    assert len(asked) == len(set(asked)) > 60


def ask(index: BM25Index, queries: list[str], **options: Any) -> None:
    for query in queries:
        index.search(query, **options)


def test_questions_unlike_those_of_the_calibration_are_told_where_min_confidence_decides() -> None:
    told: list[Event] = []
    store = MemoryStore()
    filled(CHUNKS, store=store).calibrate_answers(QUERIES, Judged(JUDGED))
    index = BM25Index.from_store(store, config=CONFIG, on_event=told.append)
    asked, others = (QUERIES * 3)[:100], [query.split()[0] for query in QUERIES * 5]
    ask(index, others)
    ask(index, asked, min_confidence=0.5)
    assert index.stats().confidence_doubt is None
    ask(index, others[:99], min_confidence=0.5)
    assert "unlike" not in {event.name for event in told}
    ask(index, others[:101], min_confidence=0.5)
    assert [dict(event.counts) for event in told if event.name == "unlike"] == [{"questions": 200}] * 2
    doubt = index.stats().confidence_doubt
    assert doubt is not None
    assert doubt.startswith("the last 200 questions are unlike those that the confidence was calibrated with: ")
    assert "specificity is" in doubt


def test_few_questions_tell_nothing_and_a_diagnosis_counts_once() -> None:
    index = filled(CHUNKS)
    index.calibrate_answers(QUERIES, Judged(JUDGED))
    ask(index, ["w1"] * 98, min_confidence=0.5)
    index.diagnose("w1 w2 w3", min_confidence=0.99)
    assert index.stats().confidence_doubt is None
    index.search("w1", min_confidence=0.5)
    assert index.stats().confidence_doubt is not None


def test_the_stored_k1_and_b_are_the_weighting_of_the_model(index: BM25Index) -> None:
    same: Any = {"weighting": QueryWeighting(k1=CONFIG.k1, b=CONFIG.b)}
    assert confidences(index.search(QUERIES[0], 5, **same)) == confidences(index.search(QUERIES[0], 5))
    assert index.search(QUERIES[0], 5, min_confidence=0.0, **same)
    with pytest.raises(ParameterError, match="min_confidence needs the weighting"):
        index.search(QUERIES[0], 5, min_confidence=0.0, weighting=QueryWeighting(k1=0.9))


@pytest.mark.parametrize(
    "option",
    [
        {"min_confidence": 0.5},
        {"min_score": 99.0},
        {"group": Grouping("page")},
        {"rerank": lambda _, hits: [0.0] * len(hits)},
        {"diversity": NearDuplicates()},
        {"boosts": [ValueBoost("page", {1: 2})]},
        {"context": "neighbors"},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_a_model_ignores_are_refused(index: BM25Index, option: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(option))} is not supported here: the confidence is of BM25"):
        index.calibrate_answers(QUERIES, Judged(JUDGED), dry_run=True, **option)
