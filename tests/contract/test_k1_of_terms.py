"""A k1 for each term on every engine: hits, scores and order are those of loops over plain texts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.indexes import check, nodes
from support.reference import Corpus, Field, split
from support.reference_k1 import Learned, TermK1, learn

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, QueryWeighting
from rag_bm25.index.searching import rescoring
from rag_bm25.ingestion import reindex

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
            assert {hit.id: hit.score for hit in hits} == pytest.approx({hit.id: scores[hit.id] for hit in hits}, rel=1e-5)
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
