"""A k1 for each term on every engine: hits, scores and order are those of loops over plain texts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.indexes import check, nodes
from support.reference import Corpus, Field, split
from support.reference_k1 import Learned, TermK1, learn

from rag_bm25 import BM25Index, FieldWeight, Grouping, IndexConfig, IndexGroup, QueryWeighting
from rag_bm25.errors import ParameterError
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.index.scoped import narrow
from rag_bm25.index.searching import rescoring
from rag_bm25.ingestion import reindex
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(14, length_unit="terms", analyzer=split)
WITH_TITLE = replace(CONFIG, fields={"title": FieldWeight(chunk_size=3, weight=1.5)})
WORDS = ["the", "contract", "notice", "wage", "court", "appeal", "judge", "lawyer", "term", "breach", "fee", "tax"]
QUERIES = ("contract notice", "the court appeal judge", "wage wage breach once")
RNG = random.Random(3)
ASKED = (
    QueryWeighting(k1="bm25t"),
    QueryWeighting(k1="adpt"),
    QueryWeighting(k1="adpt", idf="adpt"),
    QueryWeighting(k1="bm25t", idf="lucene"),
)


def text() -> str:
    """Bursts of a few words, since repetition is what is learned."""
    words = RNG.choices(WORDS, [6 / (1 + at) for at in range(len(WORDS))], k=3)
    return " ".join(word for word in words for _ in range(RNG.choice((1, 1, 2, 5)))) + " pad" * RNG.choice((0, 3, 20))


CHUNKS = {f"c{at:03}": text() for at in range(150)} | {"rare": "once contract"}
TITLES = {id_: RNG.choice(WORDS) for id_ in CHUNKS}


def corpus_of(chunks: dict[str, str], config: IndexConfig = CONFIG) -> Corpus:
    titles = {id_: {"title": [TITLES.get(id_, "tax")]} for id_ in chunks} if config.fields else {}
    return Corpus({id_: each.split() for id_, each in chunks.items()}, titles)


def add(index: BM25Index, chunks: dict[str, str]) -> None:
    titles = [{"title": TITLES.get(id_, "tax"), "half": at % 2} for at, id_ in enumerate(chunks)]
    index.add(list(chunks.values()), ids=list(chunks), metadatas=titles)


def fields_of(config: IndexConfig) -> dict[str, Field]:
    return {name: Field(of.chunk_size, of.weight, of.b) for name, of in config.fields.items()}


def require_same(index: BM25Index, corpus: Corpus, learned: Learned, weighting: QueryWeighting) -> None:
    """Compare searches and explanations with the loops."""
    idf = {} if "idf=" not in repr(weighting) else {"idf": weighting.idf}
    reference = TermK1(learned, str(weighting.k1), fields=fields_of(index.config), **idf)
    for query in QUERIES:
        scores = reference.scores(query.split(), corpus)
        ranked = sorted(scores, key=lambda id_: (-round(scores[id_], 5), id_))
        for k in (3, 40):
            hits = index.search(query, k, weighting=weighting)
            assert [hit.score for hit in hits] == pytest.approx([scores[id_] for id_ in ranked[:k]], rel=1e-5)
            assert [hit.score for hit in hits] == pytest.approx([scores[hit.id] for hit in hits], rel=1e-5)
            assert len({hit.id for hit in hits}) == min(k, len(scores))
        explained = index.explain(query, ranked[1], weighting=weighting)
        assert explained.value == pytest.approx(scores[ranked[1]], rel=1e-5)
        for node in nodes(explained):
            check(node)


@pytest.fixture(autouse=True)
def asks_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound alone decides how many rows are read."""
    monkeypatch.setattr(rescoring, "OVERFETCH", 0)


@pytest.mark.parametrize("config", [CONFIG, WITH_TITLE], ids=["text", "title"])
def test_hits_and_explanations_are_those_of_loops_over_plain_texts(
    new_index: Callable[[IndexConfig], BM25Index], config: IndexConfig
) -> None:
    index, corpus = new_index(config), corpus_of(CHUNKS, config)
    add(index, CHUNKS)
    report = index.learn_k1()
    learned = learn(corpus, fields=fields_of(config))
    adapted = sum(k1 is not None for k1 in learned.k1["adpt"].values())
    assert (report.num_chunks, report.num_terms, report.adapted) == (len(CHUNKS), len(learned.gain), adapted)
    assert adapted > 3
    for weighting in ASKED:
        require_same(index, corpus, learned, weighting)


def test_what_was_learned_stays_while_chunks_come_and_go(new_index: Callable[[IndexConfig], BM25Index]) -> None:
    index, learned = new_index(CONFIG), learn(corpus_of(CHUNKS))
    add(index, CHUNKS)
    index.learn_k1()
    left = {id_: each for id_, each in CHUNKS.items() if id_ > "c040"}
    now = left | {f"n{at}": f"{text()} once" for at in range(30)}
    index.delete([id_ for id_ in CHUNKS if id_ not in left])
    add(index, now)
    stats = index.stats()
    assert stats.k1_learned is not None
    assert stats.k1_growth == pytest.approx(len(now) / len(CHUNKS))
    for weighting in ASKED:
        require_same(index, corpus_of(now), learned, weighting)
    reindex(index, replace(CONFIG, chunk_size=30))
    for weighting in ASKED:
        require_same(index, corpus_of(now), learned, weighting)
    index.learn_k1()
    require_same(index, corpus_of(now), learn(corpus_of(now)), ASKED[2])


def test_other_objects_copies_and_repair_keep_what_was_learned_and_erasing_drops_it(
    opened: Callable[..., Store],
) -> None:
    index, corpus = BM25Index.from_store(opened(), config=CONFIG), corpus_of(CHUNKS)
    add(index, CHUNKS)
    other = BM25Index.from_store(opened(), config=CONFIG)
    index.learn_k1()
    index.learn_k1()
    assert sum(key.startswith("k1:") for key in index._store.log_keys()) == 1
    other.refresh()
    copy_index(index._store, opened("copied"))
    index.repair()
    for each in (
        other,
        BM25Index.from_store(opened("copied"), config=CONFIG),
        BM25Index.from_store(opened(), config=CONFIG),
    ):
        require_same(each, corpus, learn(corpus), ASKED[2])
    index.repair(erase=True)
    assert index.stats().k1_learned is None
    with pytest.raises(ParameterError, match=r"k1='bm25t' needs a k1 of each term, and .* has none: run `rag-bm25 cal"):
        BM25Index.from_store(opened(), config=CONFIG).search("notice", weighting=ASKED[0])


def test_filters_groups_hybrid_searches_and_least_scores_go_by_it(
    new_index: Callable[[IndexConfig], BM25Index],
) -> None:
    index, corpus = new_index(replace(CONFIG, dense_dim=2)), corpus_of(CHUNKS)
    halves = [{"half": at % 2} for at in range(len(CHUNKS))]
    index.add(list(CHUNKS.values()), ids=list(CHUNKS), metadatas=halves, embeddings=[[1, 0]] * len(CHUNKS))
    index.learn_k1()
    scores = TermK1(learn(corpus), "adpt").scores(["court", "appeal"], corpus)
    best = sorted(scores.values(), reverse=True)
    found = {
        "min_score": index.search("court appeal", 100, min_score=best[9] * (1 - 1e-6), weighting=ASKED[1]),
        "filter": index.search("court appeal", 5, filter={"half": 1}, weighting=ASKED[1]),
        "groups": index.search("court appeal", 2, group=Grouping("half"), weighting=ASKED[1]),
    }
    hybrid = index.search_hybrid("court appeal", [1.0, 0.0], 20, weighting=ASKED[1])
    least = sum(score >= best[9] * (1 - 1e-6) for score in best)
    assert {name: len(hits) for name, hits in found.items()} == {"min_score": least, "filter": 5, "groups": 2}
    for hit in [hit for hits in found.values() for hit in hits]:
        assert hit.score == pytest.approx(scores[hit.id], rel=1e-5)
    for hit in hybrid:
        assert (hit.sparse_score or 0.0) == pytest.approx(scores.get(hit.id, 0.0), rel=1e-5)


def test_a_group_of_indexes_has_no_k1_of_terms_unless_it_is_one(new_index: Callable[[IndexConfig], BM25Index]) -> None:
    index, corpus, other = new_index(CONFIG), corpus_of(CHUNKS), BM25Index.open(":memory:", "other", config=CONFIG)
    add(index, CHUNKS)
    index.learn_k1()
    require_same(IndexGroup([index]), corpus, learn(corpus), ASKED[1])
    with pytest.raises(ParameterError, match="has none: its indexes learn apart"):
        IndexGroup([index, other]).search("notice", weighting=ASKED[1])


def test_a_k1_of_terms_can_be_set_for_all_searches_once_it_was_learned(
    new_index: Callable[[IndexConfig], BM25Index], opened: Callable[..., Store]
) -> None:
    index, best = new_index(CONFIG), TermK1(learn(corpus_of(CHUNKS)), "adpt", "adpt")
    add(index, CHUNKS)
    with pytest.raises(ParameterError, match=r"k1='adpt' needs a k1 of each term"):
        index.set_query_defaults(weighting=ASKED[2])
    index.learn_k1()
    index.set_query_defaults(weighting=ASKED[2])
    copy_index(index._store, opened("copied"))
    index.repair()
    reindex(index, replace(index.config, chunk_size=30))
    scores = sorted(best.scores(["court", "appeal"], corpus_of(CHUNKS)).values(), reverse=True)
    with BM25Index.from_store(opened("copied"), config=CONFIG) as copied:
        for each in (index, copied):
            assert [hit.score for hit in each.search("court appeal", 5)] == pytest.approx(scores[:5], rel=1e-5)


def test_searches_go_without_a_default_k1_of_terms_where_none_is_learned(
    new_index: Callable[[IndexConfig], BM25Index],
) -> None:
    index = new_index(CONFIG)
    add(index, CHUNKS)
    plain, of_part = index.search("court appeal", 5), narrow(index, namespace="").search("court appeal", 5)
    index.learn_k1()
    index.set_query_defaults(weighting=ASKED[2])
    assert index.search("court appeal", 5) != plain
    with BM25Index.open(":memory:", "other", config=CONFIG) as other:
        add(other, {"rare": "once contract"})
        other.learn_k1()
        other.set_query_defaults(weighting=ASKED[2])
        assert IndexGroup([index, other]).search("court appeal", 5)
    part = narrow(index, namespace="")
    assert part.search("court appeal", 5) == of_part
    assert not part.search("never said", filter={"half": 3})
    with pytest.raises(ParameterError, match="Search the whole index"):
        part.search("court", weighting=ASKED[0])
    index.repair(erase=True)
    assert index.search("court appeal", 5) == plain
    index.set_query_defaults(weighting=QueryWeighting(b=0.5))
