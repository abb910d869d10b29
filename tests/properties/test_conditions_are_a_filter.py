"""Property: conditions are a filter over an unlimited search, and statistics of a part are those of an index of it."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.clocks import PATIENCE
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import RRF, BM25Index, IndexConfig, Query
from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.phrases import PhraseText, terms_of_phrase
from rag_bm25.definitions import options_of
from rag_bm25.events import Event
from rag_bm25.index.searching import hybrid, ranking, searcher

WORDS = ["apple", "fig", "plum", "pear"]
CONFIG = IndexConfig(chunk_size=4, analyzer=split, idf="lucene", dense_dim=2)

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
chunks = st.lists(st.tuples(texts, st.sampled_from(["law", "draft", 1, True])), min_size=1, max_size=30)
some = st.lists(st.lists(st.sampled_from([*WORDS, "never"]), min_size=1, max_size=2).map(" ".join), max_size=2)
phrases = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=2)
slops = st.integers(0, 3)
sizes = st.integers(1, 4)


def stored(given: list[tuple[str, Any]]) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    ids = [f"{at:02}" for at in range(len(given))]
    index.add(
        [text for text, _ in given],
        ids=ids,
        metadatas=[{"kind": kind} for _, kind in given],
        embeddings=[[1.0, at % 3 - 1.0] for at in range(len(given))],
    )
    return index


def has_phrase(text: list[str], phrase: list[str], slop: int) -> bool:
    """Try every choice of places, one for each word."""
    for places in product(*([at for at, word in enumerate(text) if word == wanted] for wanted in phrase)):
        gaps = [after - before - 1 for before, after in pairwise(places)]
        if all(gap >= 0 for gap in gaps) and sum(gaps) <= slop:
            return True
    return False


def passes(text: str, query: Query) -> bool:
    words = text.split()
    return (
        all(word in words for wanted in query.must for word in wanted.split())
        and not any(all(word in words for word in unwanted.split()) for unwanted in query.must_not)
        and all(has_phrase(words, phrase.split(), query.slop) for phrase in query.phrases)
    )


@given(chunks, st.sampled_from(["apple", "fig plum", "pear pear apple"]), some, some, phrases, slops, sizes)
def test_hits_are_those_of_an_unlimited_search_that_pass(
    given: Any, text: str, must: Any, must_not: Any, phrases: Any, slop: int, k: int
) -> None:
    index, query = stored(given), Query(text, must, must_not, phrases, slop)
    every = index.search(text, 1000)
    expected = [hit for hit in every if passes(hit.text, query)]
    assert index.search(query, k) == expected[:k]
    assert index.search(Query(text, must=must, must_not=must_not, phrases=phrases, slop=slop), k) == expected[:k]
    for hit in every:
        score = index.explain(query, hit.id).value
        assert score == (pytest.approx(hit.score, rel=1e-5) if hit in expected else 0)


@given(chunks, some, some, phrases, slops, sizes)
def test_hybrid_hits_pass(given: Any, must: Any, must_not: Any, phrases: Any, slop: int, k: int) -> None:
    index, query = stored(given), Query("fig", must, must_not, phrases, slop)
    found = index.search_hybrid(query, [1.0, 0.5], k, sparse_k=k, dense_k=k, fusion=RRF())
    dense = [hit.id for hit in index.search_dense([1.0, 0.5], 1000) if passes(hit.text, query)][:k]
    sparse = [hit.id for hit in index.search("fig", 1000) if passes(hit.text, query)][:k]
    points: dict[str, float] = defaultdict(float)
    for arm in (sparse, dense):
        for rank, id_ in enumerate(arm, 1):
            points[id_] += 1 / (60 + rank)
    best = sorted(points.items(), key=lambda item: (-item[1], item[0]))[:k]
    assert [hit.id for hit in found] == [id_ for id_, _ in best]
    assert [hit.score for hit in found] == pytest.approx([score for _, score in best])


@given(chunks, st.sampled_from(["law", "draft", 1, True]), st.sampled_from(["fig", "apple pear plum"]))
def test_scores_are_those_of_an_index_of_the_part(given: Any, kind: Any, text: str) -> None:
    index, where = stored(given), {"kind": kind}
    part = [(text, each) for text, each in given if each == kind and type(each) is type(kind)]
    alone = stored(part) if part else BM25Index.from_store(MemoryStore(), config=CONFIG)
    for _ in range(2):  # counted, then kept
        found = index.search(text, 1000, filter=where, statistics=where)
        assert [(hit.text, hit.score) for hit in found] == [(hit.text, hit.score) for hit in alone.search(text, 1000)]
    for hit in found:
        explained = index.explain(text, hit.id, filter=where, statistics=where)
        assert explained.value == pytest.approx(hit.score, rel=1e-5)
    for term in index.term_statistics([*WORDS, "never"], filter=where):
        df = sum(term.term in text.split() for text, _ in part)
        idf = math.log(1 + (len(part) - df + 0.5) / (df + 0.5)) if df else 0
        assert (term.df, term.num_chunks, term.idf) == (df, len(part), pytest.approx(idf))
    listed = [(term.term, term.df) for term in index.terms(filter=where)]
    counts = Counter(word for text, _ in part for word in set(text.split()))
    assert listed == sorted(counts.items(), key=lambda item: (-item[1], item[0]))


analyzers = [Analyzer()]
words = [
    "will",
    "willing",
    "U.S.A",
    "usa",
    "the",
    "IT",
    "it",
    "department",
    "Systems",
    "system-wide",
    "non-JavaScript",
    "non-javascript",
    "劳动",
    "合同",
    "的",
    "解除",
    "v2.5",
    "C++",
    "カナ",
]
pieces = st.lists(st.sampled_from([*words, " ", "\n", ", ", "，", "-"]), min_size=1, max_size=12).map("".join)


@given(pieces, pieces, pieces)
@example("", "non-JavaScript Systems", "")
def test_what_is_written_is_found_and_has_the_terms_of_the_phrase(before: str, phrase: str, after: str) -> None:
    (analyzer,) = analyzers
    text = f"{before} {phrase} {after}"
    wanted, held = PhraseText.of(analyzer, phrase), PhraseText.of(analyzer, text)
    assert held.holds(wanted, 0)
    assert set(terms_of_phrase(analyzer, phrase)) <= set(analyzer(text))


@given(pieces, pieces)
@example("合同的解除", "合同，解除")
@example("合同，解除", "合同，解除")
def test_a_phrase_is_found_where_its_words_follow_one_another_with_no_more_signs(text: str, phrase: str) -> None:
    (analyzer,) = analyzers
    held, wanted = PhraseText.of(analyzer, text), PhraseText.of(analyzer, phrase)
    size = len(wanted.words)
    gaps = [later - one for one, later in pairwise(wanted.positions)]
    found = any(
        held.words[at : at + size] == wanted.words
        and all(
            later - one <= gap for (one, later), gap in zip(pairwise(held.positions[at : at + size]), gaps, strict=True)
        )
        for at in range(len(held.words) - size + 1)
    )
    assert held.holds(wanted, 0) == (found or not size)


@pytest.mark.parametrize(
    ("text", "phrase", "slops"),
    [
        ("双方签订《劳动合同》", "签订《劳动合同》", [0, 1]),
        ("双方签订劳动合同", "签订《劳动合同》", [0, 1]),
        ("双方签订，劳动合同", "签订《劳动合同》", [0, 1]),
        ("双方签订新劳动合同", "签订《劳动合同》", [1]),
        ("it ends right here", "ends, here", [1]),
        ("revenue 3.5 million dollars", "3.5, dollars", [1]),
    ],
)
def test_no_word_stands_in_the_place_of_a_sign(text: str, phrase: str, slops: list[int]) -> None:
    (analyzer,) = analyzers
    held, wanted = PhraseText.of(analyzer, text), PhraseText.of(analyzer, phrase)
    assert [slop for slop in (0, 1) if held.holds(wanted, slop)] == slops


def test_an_ellipsis_is_as_wide_in_every_text() -> None:
    (analyzer,) = analyzers
    phrase = PhraseText.of(analyzer, "他说……好")
    for rest in ("", "後來", "Ａ"):  # a text is only normalised if it must be
        assert PhraseText.of(analyzer, f"他说……好的{rest}").holds(phrase, 0)
        assert PhraseText.of(analyzer, f"他说......好的{rest}").holds(phrase, 0)
        assert not PhraseText.of(analyzer, f"他说…好的{rest}").holds(PhraseText.of(analyzer, "他说好"), 2)


@pytest.mark.parametrize("text", ["milvus v2.4", "milvus 2.4", "milvus-v2.4", "milvus-2.4"])
@pytest.mark.parametrize("phrase", ["v2.4", "2.4", "milvus v2.4", "milvus-v2.4"])
def test_a_version_is_the_same_within_a_compound(text: str, phrase: str) -> None:
    (analyzer,) = analyzers
    assert PhraseText.of(analyzer, text).holds(PhraseText.of(analyzer, phrase), 0)
    assert set(terms_of_phrase(analyzer, phrase)) <= set(analyzer(text))


@given(pieces, pieces)
def test_preselection_leaves_out_no_text_with_the_phrase(text: str, phrase: str) -> None:
    (analyzer,) = analyzers
    if (
        PhraseText.of(analyzer, text).holds(PhraseText.of(analyzer, phrase), 0)
        and PhraseText.of(analyzer, phrase).words
    ):
        assert set(terms_of_phrase(analyzer, phrase)) <= set(analyzer(text))


spaced = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5)), min_size=1, max_size=7)


def placed(given: list[tuple[str, int]]) -> PhraseText:
    """Return words with so many positions from one to the next."""
    return PhraseText(tuple(word for word, _ in given), tuple(accumulate(step for _, step in given)))


@given(spaced, spaced.map(lambda given: given[:3]), st.integers(0, 6))
@example([("a", 1), ("b", 4)], [("a", 1), ("b", 3)], 0)
def test_phrases_with_gaps_are_those_of_every_choice_of_places(text: Any, phrase: Any, slop: int) -> None:
    held, wanted = placed(text), placed(phrase)
    allowed = [own - before - 1 for before, own in pairwise(wanted.positions)]  # signs

    def costs(places: tuple[int, ...]) -> float:
        total = 0
        for (before, after), signs in zip(pairwise(places), allowed, strict=True):
            if after <= before:
                return math.inf
            words = after - before - 1
            total += words + max(0, held.positions[after] - held.positions[before] - 1 - words - signs)
        return total

    at = [[at for at, word in enumerate(held.words) if word == one] for one in wanted.words]
    assert held.holds(wanted, slop) == any(costs(places) <= slop for places in product(*at))


def test_a_long_phrase_with_much_slop_is_soon_decided() -> None:
    """Strangers may ask a server for it: each choice of places by itself takes minutes."""
    words = "劳动合同" * 5000
    held, phrase = PhraseText(tuple(words), tuple(range(len(words)))), "劳动合同" * 100
    assert held.holds(PhraseText(tuple(phrase), tuple(range(0, 7 * len(phrase), 7))), 1000)
    assert not held.holds(PhraseText(("同", "动") * 200, tuple(range(400))), 398)
    assert held.holds(PhraseText(("同", "动") * 200, tuple(range(400))), 399)


def test_a_change_of_metadata_alone_changes_the_statistics_of_a_part() -> None:
    index = stored([("apple fig", "law"), ("apple", "draft")])
    assert [term.df for term in index.term_statistics("apple", filter={"kind": "law"})] == [1]
    index.add(["apple"], ids=["01"], metadatas=[{"kind": "law"}], embeddings=[[1.0, 0.0]])
    assert [term.df for term in index.term_statistics("apple", filter={"kind": "law"})] == [2]


class CountingStore(MemoryStore):
    """A store that counts the rows it returns."""

    rows_read = 0

    def search(self, queries: Any, arm: Any) -> Any:
        found = super().search(queries, arm)
        self.rows_read += sum(map(len, found))
        return found


def test_a_rare_term_of_a_condition_is_searched_for_alone() -> None:
    store = CountingStore()
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=4, analyzer=split))
    index.add(["fig plum"] * 500 + ["fig rare"] * 2, ids=list(map(str, range(502))))
    assert len(index.search(Query("fig", must=["rare"]), 10)) == 2
    assert store.rows_read == 2
    assert index.search(Query("fig", phrases=["rare fig"]), 10) == []
    assert store.rows_read == 4


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> int:
    options_of(hybrid.FusionOptions)  # read once: the bounds of the options stay
    for module in (ranking, searcher, hybrid):
        monkeypatch.setattr(module, "MAX_K", 32)
    return 32


def test_an_event_says_that_the_best_candidates_do_not_decide(few_candidates: int) -> None:
    events: list[Event] = []
    index = BM25Index.from_store(MemoryStore(), config=CONFIG, on_event=events.append)
    texts = ["fig plum fig"] * 2 * few_candidates + ["plum fig " + "pear " * 9]
    index.add(texts, ids=[f"{at:02}" for at in range(len(texts))], embeddings=[[1.0, 0.0]] * len(texts))
    query = Query("fig", must_not=["fig plum"], must=["fig"])
    assert len(index.search(query, 1, filter={"none": 1})) == 0
    assert [event.name for event in events if event.name == "incomplete"] == []
    assert len(index.search(Query("fig", must=["pear"]), 1)) == 1, "its rarest word decides"
    assert [event.name for event in events if event.name == "incomplete"] == []
    assert index.search(Query("fig", phrases=["fig pear"], slop=3), 1)[0].text.startswith("plum")
    assert index.search(query, 1) == []
    assert [event.counts["candidates"] for event in events if event.name == "incomplete"] == [few_candidates]
    index.search_hybrid(Query("fig", must_not=["fig plum"]), [1.0, 0.0], 1, sparse_k=1, dense_k=1)
    assert len([event for event in events if event.name == "incomplete"]) == 2


def test_others_search_while_a_part_is_counted() -> None:
    store = PausingStore()
    index = BM25Index.from_store(store, config=CONFIG)
    index.add(["fig", "fig plum"], ids=["a", "b"], metadatas=[{"kind": 1}] * 2, embeddings=[[1.0, 0.0]] * 2)
    before = index.search("fig", 2)
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(index.search, "fig", 2, statistics={"kind": 1})
        assert store.scanning.wait(PATIENCE)
        assert index.search("fig", 2) == before
        store.go_on.set()
        assert counting.result(PATIENCE) == before


class PausingStore(MemoryStore):
    """A store whose scans of vectors wait."""

    def __init__(self) -> None:
        super().__init__()
        self.scanning, self.go_on = threading.Event(), threading.Event()

    def scan_chunks(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("vectors"):
            self.scanning.set()
            assert self.go_on.wait(PATIENCE)
        return super().scan_chunks(*args, **kwargs)
