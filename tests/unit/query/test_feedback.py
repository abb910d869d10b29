from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import reference
from support.memory_store import MemoryStore
from support.strategies import corpora, idf_names, texts

from rag_bm25 import RM3, RSJ, BM25Index, IndexConfig, QueryExpansion, Rocchio, Synonyms
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.errors import ChunkNotFoundError, InputError
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.evidence import Evidence, FeedbackChunk
from rag_bm25.query.feedback import Feedback
from rag_bm25.query.learning import apply_feedback, expand
from rag_bm25.query.terms import QueryTerm, QueryTerms, TermSource
from rag_bm25.statistics.corpus import Contribution, CorpusCounts
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.terms import BIGRAM_MARK, TermIds
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.idf import IdfName
from rag_bm25.weighting.query import DEFAULT_WEIGHTING, QueryWeighting

EVERY_TERM = {"min_df": 1, "max_df": 1.0}


class World:
    """A corpus without an index: vectors, statistics and what weighs queries."""

    def __init__(self, chunks: dict[str, str], idf: IdfName = "lucene", k3: float | None = None) -> None:
        encoder = DocumentEncoder(reference.split, DocumentWeighting(4.0), "terms")
        encoded = encoder.encode(list(chunks.values()))
        self.tokens = {id_: text.split() for id_, text in chunks.items()}
        self.vectors = dict(zip(chunks, encoded.vectors, strict=True))
        self.statistics = CorpusCounts()
        self.statistics.add(Contribution.of(encoded.vectors, encoded.lengths.tolist()))
        self.encoder = QueryEncoder(reference.split, QueryWeighting(idf=idf, k3=k3).over(DEFAULT_WEIGHTING), TermIds())
        self.names = {TermIds()[token]: token for tokens in self.tokens.values() for token in tokens}

    def evidence(self, relevant: dict[str, float], irrelevant: tuple[str, ...] = ()) -> Evidence:
        return Evidence(
            [FeedbackChunk(id_, self.vectors[id_], score) for id_, score in relevant.items()],
            [FeedbackChunk(id_, self.vectors[id_]) for id_ in irrelevant],
            self.encoder,
            self.statistics,
            self.names.get,
        )

    def learn(
        self, method: Feedback, query: str, relevant: dict[str, float], irrelevant: tuple[str, ...] = ()
    ) -> QueryTerms:
        return apply_feedback(method, query, self.evidence(relevant, irrelevant))

    def stored(self, id_: str) -> dict[str, float]:
        return {self.names[at]: weight for at, weight in self.vectors[id_].to_dict().items() if at in self.names}

    def asked(self, query: str) -> dict[str, float]:
        k3 = self.encoder.weighting.k3
        return {term: reference.saturated(query.split().count(term), k3) for term in dict.fromkeys(query.split())}

    def idfs(self) -> dict[str, float]:
        corpus = reference.Corpus(self.tokens)
        return {term: reference.idf("lucene", df, corpus.n, 0.25, 0.0) for term, df in sorted(corpus.dfs().items())}


def weights(terms: QueryTerms) -> dict[str, float]:
    return {term: weight for term, weight in zip(terms.terms, terms.weights.tolist(), strict=True) if weight > 0}


def check_same(terms: QueryTerms, expected: dict[str, float]) -> None:
    got = weights(terms)
    for term in got.keys() | expected.keys():
        assert got.get(term, 0.0) == pytest.approx(expected.get(term, 0.0), rel=1e-5, abs=1e-9)


FRUIT = {"1": "apple banana banana", "2": "apple cherry", "3": "fig", "4": "grape grape banana", "5": "apple fig"}


# RM3


@given(corpora(min_size=2), texts(), st.data(), st.just(0) | st.floats(0.01, 1), st.none() | st.floats(0, 9))
def test_rm3_is_the_model_written_with_loops(
    chunks: dict[str, str], query: str, data: st.DataObject, weight: float, k3: float | None
) -> None:
    world = World(chunks, k3=k3)
    relevant = data.draw(st.dictionaries(st.sampled_from(sorted(chunks)), st.floats(0.1, 20), min_size=1))
    asked = world.asked(query)
    assume(asked)
    min_df, max_df = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([0.3, 0.6, 1.0]))
    method = RM3(fb_terms=99, original_query_weight=weight, min_df=min_df, max_df=max_df)
    terms = world.learn(method, query, relevant)
    stored = [world.stored(id_) for id_ in relevant]
    dfs = reference.Corpus(world.tokens).dfs()
    may_be_added = {term for term, df in dfs.items() if min_df <= df <= max_df * len(chunks)}
    expected = reference.rm3(asked, stored, list(relevant.values()), may_be_added, 99, weight)
    check_same(terms, {term: qtf * world.idfs().get(term, 0.0) for term, qtf in expected.items()})


def test_rm3_adds_the_best_terms_only() -> None:
    world = World(FRUIT)
    relevant = {"1": 3.0, "4": 1.0}
    terms = world.learn(RM3(fb_terms=1, **EVERY_TERM), "apple", relevant)
    stored = [world.stored("1"), world.stored("4")]
    expected = reference.rm3({"apple": 1}, stored, [3, 1], set(world.names.values()), 1, 0.8)
    assert terms.terms == ["apple", "banana"]
    assert terms.boost.tolist() == pytest.approx([expected["apple"], expected["banana"]])


def test_rm3_leaves_irrelevant_chunks_aside() -> None:
    world = World(FRUIT)
    plain = world.learn(RM3(**EVERY_TERM), "apple", {"1": 1.0})
    assert weights(world.learn(RM3(**EVERY_TERM), "apple", {"1": 1.0}, ("4",))) == weights(plain)


# Rocchio


@given(corpora(min_size=2), texts(), st.data(), st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
def test_rocchio_is_the_formula_written_with_loops(
    chunks: dict[str, str], query: str, data: st.DataObject, alpha: float, beta: float, gamma: float
) -> None:
    world = World(chunks)
    ids = data.draw(st.permutations(sorted(chunks)))
    cut, end = sorted((data.draw(st.integers(0, len(ids))), data.draw(st.integers(0, len(ids)))))
    relevant, irrelevant = ids[:cut], tuple(ids[cut:end])
    assume(relevant or irrelevant)
    assume(any(term in world.idfs() for term in query.split()))
    method = Rocchio(None, None, alpha, beta, gamma, fb_terms=99, **EVERY_TERM)
    terms = world.learn(method, query, dict.fromkeys(relevant, 1.0), irrelevant)
    sides = [[world.stored(id_) for id_ in side] for side in (relevant, irrelevant)]
    expected = reference.rocchio(world.asked(query), *sides, world.idfs(), alpha, beta, gamma)
    check_same(terms, expected)


def test_rocchio_adds_the_terms_of_greatest_tf_idf() -> None:
    world = World({"1": "apple common common rare", **{str(at): "common" for at in range(2, 9)}, "9": "fig"})
    terms = world.learn(Rocchio(fb_terms=1, **EVERY_TERM), "apple", {"1": 1.0})
    assert terms.terms == ["apple", "rare"]


def test_rocchio_drops_what_irrelevant_chunks_have() -> None:
    terms = World(FRUIT).learn(Rocchio(gamma=9, **EVERY_TERM), "apple fig", {}, ("3",))
    assert weights(terms).keys() == {"apple"}
    assert terms.weights.tolist()[1] == 0


# The binary independence model


@given(corpora(min_size=2), texts(), st.data(), idf_names)
def test_rsj_weighs_by_the_counts(chunks: dict[str, str], query: str, data: st.DataObject, name: IdfName) -> None:
    world = World(chunks, name)
    relevant = data.draw(st.lists(st.sampled_from(sorted(chunks)), min_size=1, unique=True))
    terms = world.learn(RSJ([], fb_terms=0), query, dict.fromkeys(relevant, 1.0))
    corpus = reference.Corpus(world.tokens)
    for term, weight, qtf in zip(terms.terms, terms.weights.tolist(), terms.qtf.tolist(), strict=True):
        df, r = corpus.df(term), sum(term in world.tokens[id_] for id_ in relevant)
        if not df:
            assert weight == 0
            continue
        informed = reference.relevance_weight(df, corpus.n, r, len(relevant))
        if name == "lucene":
            assert weight == pytest.approx(qtf * math.log1p(math.exp(informed)), rel=1e-9)
        elif name in ("epsilon", "zero") and informed > 1e-9:
            assert weight == pytest.approx(qtf * informed, rel=1e-6)
        else:
            assert weight > 0


def test_rsj_adds_terms_by_their_offer_weight() -> None:
    relevant = {"1": "apple often once", "2": "apple often", "3": "apple"}
    others = {str(at): "often" for at in range(4, 8)} | {str(at): f"filler{at}" for at in range(8, 21)}
    once, often = (reference.relevance_weight(df, 20, r, 3) for df, r in ((1, 1), (6, 2)))
    assert often < once < 2 * often
    terms = World(relevant | others).learn(RSJ([], **EVERY_TERM), "apple", dict.fromkeys(relevant, 1.0))
    assert terms.terms == ["apple", "often", "once"]
    reasons = ["", "in 2 of 3 relevant chunks", "in 1 of 3 relevant chunks"]
    assert [origin.reason for origin in terms.sources] == reasons


def test_rsj_adds_no_term_that_speaks_against_relevance() -> None:
    chunks = {str(at): "common" for at in range(9)} | {"a": "apple common", "b": "apple"}
    terms = World(chunks).learn(RSJ([], **EVERY_TERM), "apple", {"a": 1.0, "b": 1.0})
    assert terms.terms == ["apple"]


def test_rsj_with_more_marks_than_the_statistics_allow_stays_finite() -> None:
    world = World({"1": "apple", "2": "fig"})
    outside = DocumentEncoder(reference.split, DocumentWeighting(4.0)).encode(["apple"] * 5).vectors
    terms = world.encoder.weigh([QueryTerm("apple"), QueryTerm("fig")], world.statistics, list(outside))
    assert np.isfinite(terms.weights).all()
    assert (terms.weights > 0).all()


def test_rsj_adds_terms_where_the_statistics_are_older_than_the_chunks(recwarn: pytest.WarningsRecorder) -> None:
    world = World({"1": "apple new", **{str(at): "fig" for at in range(2, 7)}})
    now = DocumentEncoder(reference.split, DocumentWeighting(4.0), "terms").encode(["apple new"] * 2).vectors
    relevant = [FeedbackChunk(str(at), vector) for at, vector in enumerate(now)]
    evidence = Evidence(relevant, [], world.encoder, world.statistics, world.names.get)
    terms = apply_feedback(RSJ([], **EVERY_TERM), "apple", evidence)
    assert terms.terms == ["apple", "new"]
    counted = reference.relevance_weight(1, 6, 1, 2)  # r = 2 cannot be where df = 1
    assert terms.weights.tolist() == pytest.approx([math.log1p(math.exp(counted))] * 2)
    assert not recwarn.list


# All of them


METHODS: list[Feedback] = [RM3(**EVERY_TERM), Rocchio(**EVERY_TERM), RSJ([], **EVERY_TERM)]


@pytest.mark.parametrize("method", [RM3(), Rocchio(), RSJ([])], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize(
    ("limits", "added"),
    [
        ({"min_df": 2, "max_df": 1.0}, {"banana", "fig"}),
        ({"min_df": 1, "max_df": 0.05}, {"cherry"}),
        ({"min_df": 1, "max_df": 0.1}, {"banana", "cherry", "fig"}),
        ({"min_df": 2, "max_df": 0.09}, set()),
    ],
)
def test_rare_and_common_terms_are_not_added(method: Feedback, limits: dict[str, Any], added: set[str]) -> None:
    limited = replace(method, **limits)
    world = World(FRUIT | {str(at): f"filler{at}" for at in range(6, 21)})
    terms = world.learn(limited, "apple", {"1": 1.0, "2": 1.0, "5": 1.0})
    assert set(terms.terms) - {"apple"} == added


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_terms_without_a_name_and_bigrams_are_not_added(method: Feedback) -> None:
    world = World({"1": f"apple banana {BIGRAM_MARK}xy", "2": "apple fig", "3": "grape"})
    world.names = {id_: name for id_, name in world.names.items() if name != "banana"}
    assert world.learn(method, "apple", {"1": 1.0}).terms == ["apple"]


def test_bigrams_of_the_query_keep_their_part_and_learn_nothing() -> None:
    bigram = f"{BIGRAM_MARK}xy"
    world = World({"1": f"apple {bigram}", "2": "fig"})
    plain = weights(world.encoder.terms(f"apple {bigram}", world.statistics))
    learnt = weights(world.learn(RM3(original_query_weight=0.5, **EVERY_TERM), f"apple {bigram}", {"1": 1.0}))
    assert learnt[bigram] == pytest.approx(0.5 * plain[bigram])
    assert learnt["apple"] == pytest.approx(plain["apple"])
    rocchio = Rocchio(alpha=0.7, beta=9, **EVERY_TERM)
    assert weights(world.learn(rocchio, f"apple {bigram}", {"1": 1.0}))[bigram] == pytest.approx(0.7 * plain[bigram])


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_rm3_keeps_the_scale_of_words_whatever_bigrams_there_are(weight: float) -> None:
    bigram = f"{BIGRAM_MARK}xy"
    world = World(FRUIT | {"6": f"apple {bigram}", "7": f"fig {bigram}"})
    method = RM3(original_query_weight=weight, **EVERY_TERM)
    terms = world.learn(method, f"apple fig fig {bigram}", {"1": 1.0, "6": 2.0})
    own = dict(zip(terms.terms, (terms.boost * terms.qtf).tolist(), strict=True))
    assert own.pop(bigram) == pytest.approx(weight * DEFAULT_WEIGHTING.bigram_weight)
    assert sum(own.values()) == pytest.approx(3 * DEFAULT_WEIGHTING.latin_weight)


def test_boosts_and_reasons_of_the_query_are_kept() -> None:
    world = World(FRUIT)
    origin = TermSource("synonym of 'fruit'", (("synonym_weight", 0.5),))
    asked = [QueryTerm("apple", 2, origin)]
    (term,) = expand(RM3(original_query_weight=1), asked, world.evidence({"1": 1.0}))
    assert (term.qtf, term.source.boost) == (2, 0.5)
    assert (term.source.reason, term.source.factors) == (origin.reason, origin.factors)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_chunk_without_terms_teaches_nothing(method: Feedback) -> None:
    world = World({**FRUIT, "6": ""})
    terms = world.learn(method, "apple", {"6": 1.0})
    assert weights(terms).keys() == {"apple"}
    assert np.isfinite(terms.weights).all()


@pytest.mark.parametrize(
    "method",
    [
        RM3(None, 1, 0, 0.0),
        RM3(None, 1000, 9999, 1),
        Rocchio(None, None, 0, 0, 0),
        Rocchio(None, None, 1000, 1000, 1000),
        RSJ([], max_df=1),
    ],
    ids=str,
)
def test_parameters_at_their_limits_are_taken(method: Feedback) -> None:
    terms = World(FRUIT).learn(method, "apple", {"1": 1.0})
    assert np.isfinite(terms.weights.astype(np.float32)).all()


def test_weight_that_float32_cannot_tell_from_zero_is_left_out() -> None:
    terms = World(FRUIT).learn(RM3(original_query_weight=1e-300, fb_terms=0), "apple fig", {"2": 1.0})
    assert weights(terms).keys() == {"apple", "fig"}
    assert len(terms.vector()) == 1


# Through an index


@pytest.fixture
def filled(index: BM25Index, store: MemoryStore) -> BM25Index:
    index.add(
        ["apple banana", "apple cherry", "banana date", "date elder", "fig"],
        ids=["1", "2", "3", "4", "5"],
        metadatas=[{"page": page} for page in range(1, 6)],
    )
    index.add(["apple quince", "quince"], ids=["1", "9"], namespace="other")
    store.calls.clear()
    return index


def found(index: BM25Index, query: str, **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


def test_pseudo_feedback_finds_what_shares_no_term_with_the_query(filled: BM25Index) -> None:
    assert set(found(filled, "apple")) == {"1", "2"}
    assert set(found(filled, "apple", feedback=RM3(**EVERY_TERM))) == {"1", "2", "3"}


def test_pseudo_feedback_takes_as_many_chunks_as_it_is_told(filled: BM25Index) -> None:
    best = found(filled, "apple banana", k=1)
    assert best == ["1"]
    one = filled.explain("apple banana", "1", feedback=RM3(fb_docs=1, **EVERY_TERM))
    assert "chunk '1'" in one.tree
    assert "chunk '2'" not in one.tree
    assert "chunk '2'" in filled.explain("apple banana", "1", feedback=RM3(fb_docs=2, **EVERY_TERM)).tree


def test_pseudo_feedback_learns_within_filter_and_namespace(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": RM3(**EVERY_TERM), "filter": {"page": {"$gt": 1}}}
    assert found(filled, "apple", **options) == ["2"]  # not from chunk 1, so not 'banana' of chunk 3
    assert set(found(filled, "apple", namespace="other", feedback=RM3(**EVERY_TERM))) == {"1", "9"}


def test_each_query_of_a_batch_learns_from_its_own_chunks(filled: BM25Index) -> None:
    queries = ["apple", "nothing", "date", ""]
    method = Rocchio(beta=0.5, **EVERY_TERM)
    batch = filled.search_batch(queries, feedback=method)
    assert batch == [filled.search(query, feedback=method) for query in queries]
    assert batch[1] == batch[3] == []


@pytest.mark.parametrize("method", [RM3(), Rocchio(), Rocchio(relevant=["1"])])
def test_an_empty_batch_has_nothing_to_learn(filled: BM25Index, method: Feedback) -> None:
    assert filled.search_batch([], feedback=method) == []


@pytest.mark.parametrize(("k1", "contents"), [(None, False), (0.5, True)])
def test_pseudo_feedback_reads_contents_only_to_weigh_chunks_anew(
    filled: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, k1: float | None, contents: bool
) -> None:
    asked: list[bool] = []
    read = store.get_chunks

    def get_chunks(pks: Sequence[str], **wanted: bool) -> list[ChunkRow]:
        asked.append(wanted["contents"])
        return read(pks, **wanted)

    monkeypatch.setattr(store, "get_chunks", get_chunks)
    filled.search("apple", feedback=RM3(), weighting=QueryWeighting(k1=k1))
    assert asked == [contents]


def test_query_without_known_terms_makes_no_call(filled: BM25Index, store: MemoryStore) -> None:
    filled.search("apple", feedback=RM3())  # reads the vocabulary
    store.calls.clear()
    assert filled.search("nothing", feedback=RM3()) == []
    assert "search" not in store.calls


def test_marked_chunks_are_found_again_and_better(filled: BM25Index) -> None:
    assert set(found(filled, "apple", feedback=Rocchio(**EVERY_TERM, relevant=["4"]))) == {"1", "2", "3", "4"}
    plain = filled.search("apple")
    marked = filled.search("apple", feedback=Rocchio(**EVERY_TERM, relevant=["2"]))
    assert marked[0].id == "2"
    assert marked[0].score > max(hit.score for hit in plain)


def test_marked_chunks_alone_are_a_query(filled: BM25Index) -> None:
    assert found(filled, "", feedback=Rocchio(**EVERY_TERM, relevant=["3"]))[0] == "3"


def test_mark_is_an_id_in_any_of_the_namespaces(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": Rocchio(["1"], **EVERY_TERM)}
    assert set(found(filled, "fig", **options)) == {"5", "1", "2", "3"}
    assert set(found(filled, "fig", namespace=None, **options)) == {"5", "1", "2", "3", "9"}
    assert set(found(filled, "fig", namespace=["other"], **options)) == {"1", "9"}


def test_added_terms_are_no_words_that_a_chunk_should_have(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": RM3(**EVERY_TERM), "min_should_match": "100%"}
    assert set(found(filled, "apple", **options)) == {"1", "2"}
    assert found(filled, "apple banana", **options) == ["1"]
    assert filled.explain("apple", "3", **options).value == 0
    scores = {hit.id: hit.score for hit in filled.search("apple", **options)}
    assert filled.explain("apple", "1", **options).value == pytest.approx(scores["1"], rel=1e-6)


def test_synonyms_of_the_query_learn_like_its_own_words(filled: BM25Index) -> None:
    options: dict[str, Any] = {"expansion": QueryExpansion(synonyms=Synonyms.of({"pome": ["apple"]}))}
    learnt = filled.encode_queries(["pome"], feedback=RM3(**EVERY_TERM), **options)[0]
    plain = filled.encode_queries(["pome"], **options)[0]
    apple = TermIds()["apple"]
    assert len(plain) == 1
    assert learnt.get(TermIds()["banana"]) > 0
    assert 0 < plain.get(apple) < learnt.get(apple)


def test_boosted_queries_learn(filled: BM25Index) -> None:
    scores = [filled.search({"apple": boost}, feedback=RM3(**EVERY_TERM))[0].score for boost in (1.0, 2.0)]
    assert scores[1] == pytest.approx(2 * scores[0])


def test_marks_of_nothing_leave_the_query_as_it_is(filled: BM25Index) -> None:
    assert filled.search("apple", feedback=Rocchio(relevant=[])) == filled.search("apple")
    assert filled.search("apple", feedback=Rocchio([], [])) == filled.search("apple")


def test_statistics_may_be_those_of_the_whole_index(filled: BM25Index) -> None:
    method = Rocchio(**EVERY_TERM)
    by_namespace = filled.search("apple", feedback=method)
    by_all = filled.search("apple", feedback=method, statistics="all")
    assert [hit.score for hit in by_namespace] != [hit.score for hit in by_all]


def test_deleted_feedback_chunk_is_left_out(filled: BM25Index, store: MemoryStore) -> None:
    def delete_between(call: str) -> None:
        if call == "get_chunks":
            store.on_call = None
            filled.delete(["1"])

    filled.search("apple", feedback=RM3())
    store.on_call = delete_between
    assert set(found(filled, "apple", feedback=RM3(**EVERY_TERM))) == {"2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relevant": ["1", "2"], "irrelevant": ["2"]}, "the chunk '2' is given as relevant and as irrelevant"),
        ({"relevant": ["1", ""]}, "relevant[1] must not be empty"),
    ],
)
def test_feedback_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Rocchio(**options)
    assert message in str(caught.value)


def test_marked_chunk_that_is_not_there_is_an_error(filled: BM25Index) -> None:
    with pytest.raises(ChunkNotFoundError) as caught:
        filled.search("apple", feedback=Rocchio(relevant=["1", "9"]))
    assert "no chunk '9', which is given as relevant" in str(caught.value)


# Explained


def test_explanation_shows_where_an_added_term_comes_from(filled: BM25Index) -> None:
    text = filled.explain("apple", "3", feedback=RM3(**EVERY_TERM)).tree
    assert "'apple' is not in the chunk" in text
    assert "'banana' (added by RM3), product of:" in text
    assert "feedback_weight, sum of:" in text
    assert "chunk '1', product of:" in text
    assert "(1 - original_query_weight) * |q| * P(d) / (length * covered) from:" in text


def test_explanation_shows_what_feedback_makes_of_the_querys_own_terms(filled: BM25Index) -> None:
    lines = filled.explain("apple fig", "5", feedback=Rocchio(**EVERY_TERM, relevant=["1"])).tree.splitlines()
    assert "      1 = feedback, alpha + addition / own, at least 0, from:" in lines
    assert "        0 = addition: none, from no chunk of the feedback" in lines
    text = filled.explain("apple", "1", feedback=Rocchio(**EVERY_TERM, relevant=["1"], irrelevant=["4"])).tree
    assert "share of the chunk, beta * |q| / (|R| * |d|) from:" in text
    assert "0.75 = beta" in text


def test_explanation_shows_the_counts_of_the_binary_independence_model(filled: BM25Index) -> None:
    text = filled.explain("apple", "1", feedback=RSJ(**EVERY_TERM, relevant=["1", "3"])).tree
    expected = reference.relevance_weight(2, 5, 1, 2)
    assert f"{expected:.6g} = w, relevance weight, ln(((r + 0.5) / (R - r + 0.5))" in text
    assert "1 = r, relevant chunks with the term" in text
    assert "2 = R, relevant chunks" in text
    assert "'banana' (in 2 of 2 relevant chunks), product of:" in text


def test_explanation_needs_the_filter_of_the_first_search(filled: BM25Index) -> None:
    options: dict[str, Any] = {"feedback": RM3(**EVERY_TERM), "filter": {"page": {"$lt": 2}}}
    (hit,) = filled.search("apple", **options)
    assert filled.explain("apple", "1", **options).value == pytest.approx(hit.score, rel=1e-6)


def test_hybrid_search_learns_within_the_filter_of_its_lexical_side(store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=IndexConfig(4, analyzer=reference.split, dense_dim=2))
    index.add(["apple banana", "banana", "fig"], ids=["1", "2", "3"], embeddings=[[1, 0], [0, 1], [1, 1]])
    options: dict[str, Any] = {"dense_k": 1}
    lexical = {hit.id for hit in index.search_hybrid("apple", [1, 1], **options) if hit.sparse_score}
    assert lexical == {"1"}
    learnt = index.search_hybrid("apple", [1, 1], feedback=Rocchio(**EVERY_TERM), **options)
    assert {hit.id for hit in learnt if hit.sparse_score} == {"1", "2"}
