"""Query expansion through the index: what is read when, and in which namespace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import (
    BM25Index,
    Chunk,
    Fuzzy,
    IndexConfig,
    ParameterError,
    Query,
    QueryExpansion,
    QueryWeighting,
    Synonyms,
)

DEMO = Path(__file__).parents[3] / "scripts" / "demo" / "documents"
SYNONYMS = QueryExpansion(Synonyms.of({"fruit": {"apple": 1.0}}))
FUZZY = QueryExpansion(fuzzy=Fuzzy())


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(["apple banana", "apple cherry", "apple", "fig grape", "contract"], ids=list("12345"))
    return index


@pytest.fixture
def analyzed() -> BM25Index:
    """An index with the default analyzer."""
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=20))
    index.add(["Batteries: battle", "the battery of a runner", "runs", "full text", "税"])
    return index


def ids(index: BM25Index, query: str | Query, **options: object) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]  # type: ignore[arg-type]


def test_synonyms_find_what_the_words_do_not(filled: BM25Index) -> None:
    assert ids(filled, "fruit") == []
    assert ids(filled, "fruit", expansion=SYNONYMS) == ids(filled, "apple")
    assert filled.encode_queries(["fruit"], expansion=SYNONYMS) == filled.encode_queries(["apple"])


def test_vocabulary_is_read_only_where_spellings_and_prefixes_need_it(
    filled: BM25Index, reopened: Callable[..., BM25Index]
) -> None:
    pytest.importorskip("rapidfuzz")
    reader = reopened(read_only=True)
    ids(reader, "apple lab*", expansion=SYNONYMS)
    assert not reader._live.view.vocabulary
    assert ids(reader, "bananna", expansion=FUZZY) == ["1"]
    assert reader._live.view.vocabulary
    other = reopened(read_only=True)
    assert ids(other, Query.parse("ban*")) == ["1"]
    assert ids(other, "", expansion=FUZZY) == []


def test_figures_are_told_without_the_vocabulary_and_names_with_it() -> None:
    store = MemoryStore()
    writer = BM25Index.from_store(store, config=IndexConfig(chunk_size=20))
    writer.add([f"Acme Robotics {at}" for at in range(100)], ids=list(map(str, range(100))))
    for index in (writer, BM25Index.from_store(store.reopen(), read_only=True)):
        assert index.stats().num_chunks == 100
        assert index._live.view.vocabulary is None
        assert index.frequent_names() == ["Acme Robotics"]
        assert index.frequent_names(namespace="other") == []


def test_names_are_shown_as_most_chunks_write_them() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20))
    index.add([f"{at} ACME\nCorporation, 中國人民大學" for at in range(100)], ids=list(map(str, range(100))))
    assert index.frequent_names() == ["ACME Corporation", "中國人民大學"]


@pytest.mark.parametrize("words", ["dans la que", "und der dans la que", "应当 规定 大学"])
def test_three_words_of_most_chunks_are_told_whatever_they_are(words: str) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20))
    index.add([f"{at}. {'. '.join(words.split())}" for at in range(100)], ids=list(map(str, range(100))))
    assert sorted(index.frequent_names()) == sorted(words.split())


@pytest.mark.parametrize("text", ["dans. la", "dans. la. 7", "的, 是, 在, 和", "the, and, of"])
def test_fewer_words_and_stop_words_are_not_told(text: str) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20))
    index.add([f"{at}. {text}" for at in range(100)], ids=list(map(str, range(100))))
    assert index.frequent_names() == []


def test_names_are_shown_as_terms_without_the_analyzer() -> None:
    store = MemoryStore()
    words = BM25Index.from_store(store, config=IndexConfig(20, analyzer=str.split))
    words.add([f"中国人民大学 {at}" for at in range(100)], ids=list(map(str, range(100))))
    assert words.frequent_names() == ["中国人民大学"]
    assert BM25Index.from_store(store.reopen(), read_only=True).frequent_names() == ["中国人民大学"]


def test_terms_that_came_later_are_found(filled: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    assert ids(filled, "kumquatt", expansion=FUZZY) == []
    filled.add(["kumquat"], ids=["6"])
    assert ids(filled, "kumquatt", expansion=FUZZY) == ["6"]
    filled.delete(["6"])
    assert ids(filled, "kumquatt", expansion=FUZZY) == []


def test_only_terms_of_the_namespace_are_candidates(filled: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    filled.add(["kumquat contact"], ids=["1"], namespace="x")
    assert ids(filled, "kumquatt", expansion=FUZZY) == []
    assert ids(filled, "kumquatt", expansion=FUZZY, namespace="x") == ["1"]
    assert filled.suggest("kumquatt contarct") == "kumquatt contract"
    assert filled.suggest("kumquatt contarct", namespace="x") == "kumquat contact"
    assert filled.suggest("kumquatt", statistics="all") == "kumquat"


def test_repair_forgets_the_old_vocabulary(filled: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    assert filled.suggest("bananna") == "banana"
    filled.repair()
    filled.add(["kumquat"])
    assert filled.suggest("bananna kumquatt") == "banana kumquat"


def test_synonyms_are_analysed_once_for_many_searches(filled: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    from rag_bm25.query.synonyms import SynonymTable

    monkeypatch.setattr(
        "rag_bm25.query.expanders.SynonymTable", lambda *given: made.append(given) or SynonymTable(*given)
    )
    for _ in range(3):
        ids(filled, "fruit", expansion=SYNONYMS)
        ids(filled, "apple")
    assert len(made) == 1
    ids(filled, "fruit", expansion=QueryExpansion(Synonyms.of({"fruit": ["fig"]})))
    assert len(made) == 2


def test_every_form_of_a_query_in_one_batch(filled: BM25Index) -> None:
    found = filled.search_batch(["apple^2", {"fig": 2.0}, Query.parse("ban*"), ""])
    assert [[hit.id for hit in hits] for hits in found] == [[], ["4"], ["1"], []]
    (once,) = filled.search("fig")
    assert found[1][0].score == pytest.approx(2 * once.score)


def test_min_should_match_asks_for_more_until_k_are_found(index: BM25Index, store: MemoryStore) -> None:
    index.add([f"apple x{at}" for at in range(40)])
    index.add([f"apple fig {'pad ' * 40}{at}" for at in range(3)], ids=list("abc"))
    query = {"apple": 100.0, "fig": 0.001}
    assert not {hit.id for hit in index.search(query, 12)} & set("abc")
    store.calls.clear()
    assert sorted(hit.id for hit in index.search(query, 3, min_should_match="100%")) == ["a", "b", "c"]
    assert store.calls == ["search"] * 3, "12 rows, 24, and 48, which are all"


@pytest.mark.parametrize("name", ["min_should_match", "candidates"])
def test_what_concerns_hits_is_no_part_of_a_vector(filled: BM25Index, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        filled.encode_queries(["apple"], **{name: 1})  # type: ignore[arg-type]
    assert str(caught.value) == f"{name} is not supported here: a vector cannot express it. Use a search, or explain"


def test_explain_says_what_min_should_match_leaves_out(filled: BM25Index) -> None:
    left_out = filled.explain("apple cherry fig", "1", min_should_match=2)
    assert left_out.value == 0
    assert left_out.description == (
        "score of chunk '1' for the query 'apple cherry fig': left out, since it has 1 of the 3 words of the query, "
        "not 'cherry', 'fig', and min_should_match 2 asks for 2"
    )
    kept = filled.explain("apple cherry fig", "2", min_should_match=2)
    assert kept == filled.explain("apple cherry fig", "2")


def test_explain_names_synonyms_with_their_factors(filled: BM25Index) -> None:
    expansion = QueryExpansion(Synonyms.of({"apple": {"fig": 0.5}}))
    lines = filled.explain(
        {"apple": 2.0}, "4", expansion=expansion, weighting=QueryWeighting(idf="lucene")
    ).tree.splitlines()
    # ln(1 + 2.5 / 3.5) = 0.538997 for apple, ln(1 + 4.5 / 1.5) = 1.386294 for fig; 0.538997 * 0.516129.
    assert lines[:7] == [
        "0.278192 = score of chunk '4' for the query 'apple', sum of:",
        "  0.278192 = 'fig' (synonym of 'apple'), product of:",
        "    0.538997 = query weight, product of:",
        "      0.5 = synonym_weight",
        "      2 = boost, in the query",
        "      0.388804 = share, so that 'fig' weighs as 'apple': 0.538997 / 1.38629",
        "      1 = qtf, occurrences in the query",
    ]


@pytest.mark.parametrize(
    ("prefix", "listed"),
    [
        ("batt", {"batteri", "battl"}),
        ("Batter", {"batteri"}),
        ("battery", {"batteri"}),
        ("BATTERIES", {"batteri"}),
        ("runn", {"runner"}),
        ("running", {"run"}),
        ("full-text", set()),
        ("稅", {"税"}),
    ],
)
def test_terms_begin_with_a_prefix_or_are_that_of_the_word(analyzed: BM25Index, prefix: str, listed: set[str]) -> None:
    assert {term.term for term in analyzed.terms(prefix=prefix)} == listed


def test_suggestions_are_words_of_real_texts(analyzed: BM25Index) -> None:
    """One letter less in each tenth word of the demo's texts, English and Chinese."""
    pytest.importorskip("rapidfuzz")
    texts = [path.read_text(encoding="utf-8") for path in sorted(DEMO.iterdir())]
    analyzed.add_stream(Chunk(f"d{at}", text[:20_000]) for at, text in enumerate(texts))
    written = "\n".join(texts).casefold()
    words = sorted(set(re.findall(r"[a-z]{5,}|[\u4e00-\u9fff]{4}", written)))[::10]
    suggested = {word: analyzed.suggest(word[:2] + word[3:]) for word in words}
    found = [each for each in suggested.values() if each is not None]
    assert len(found) > 100
    assert [each for each in found if each.casefold() not in written] == []
