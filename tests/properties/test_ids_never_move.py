"""Terms whose hashes collide: with twelve ids for all terms nothing is mixed up, now or after reopening."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.reference import BM25, Corpus

from rag_bm25 import BM25Index

WORDS = [f"w{number}" for number in range(12)]
TEXTS = {
    "1": "w0 w1 w2 w3",
    "2": "w3 w4 w4 w5",
    "3": "w6 w7 w0",
    "4": "w8 w9 w10 w11 w11 w1",
    "5": "w2 w2",
}

pytestmark = pytest.mark.usefixtures("tiny_id_space")


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    for id_, text in TEXTS.items():
        index.add([text], ids=[id_])
    return index


def ids_of(index: BM25Index) -> dict[str, int | None]:
    vocabulary = index._live.log.vocabulary()
    return {word: vocabulary.id(word) for word in WORDS}


def assert_scores_are_exact(index: BM25Index) -> None:
    corpus = Corpus({id_: text.split() for id_, text in TEXTS.items()})
    for query in [*WORDS, " ".join(WORDS)]:
        found = {hit.id: hit.score for hit in index.search(query)}
        assert found == pytest.approx(BM25(4).scores(query.split(), corpus), rel=1e-5)


def test_most_words_do_collide(filled: BM25Index) -> None:
    assert len(filled._live.log.view.displaced) >= 4


def test_every_word_has_an_id_of_its_own(filled: BM25Index) -> None:
    assert sorted(filter(None, ids_of(filled).values())) == list(range(1, 13))


def test_ids_stay_in_whatever_order_words_come_back(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    before = ids_of(filled)
    index = reopened()
    index.delete(list(TEXTS))
    index.add([" ".join(reversed(WORDS))])
    assert ids_of(index) == before
    assert index.verify().ok


def test_ids_stay_after_compaction(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    before = ids_of(filled)
    filled._live.log.compact(above=1)
    assert ids_of(reopened()) == before
    assert_scores_are_exact(reopened())


def test_scores_are_exact(filled: BM25Index) -> None:
    assert_scores_are_exact(filled)
    assert filled.verify().ok


def test_reader_knows_displaced_words_without_the_vocabulary(
    filled: BM25Index, reopened: Callable[..., BM25Index]
) -> None:
    reader = reopened(read_only=True)
    assert_scores_are_exact(reader)
    assert not reader._live.view.vocabulary


def test_deleted_words_keep_their_ids(filled: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    before = ids_of(filled)
    filled.delete(list(TEXTS))
    index = reopened()
    index.add(["w11"], ids=["6"])
    assert ids_of(index) == before
    assert [hit.id for hit in index.search("w11")] == ["6"]
    assert index.search("w0") == []


def test_explanation_names_the_right_words(filled: BM25Index) -> None:
    for word in WORDS:
        for id_, text in TEXTS.items():
            explanation = filled.explain(word, id_)
            assert (explanation.value > 0) == (word in text.split())
