"""Why a search has no hits, and why a chunk is not among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import (
    MMR,
    BM25Index,
    Diagnosis,
    Grouping,
    Hit,
    IndexConfig,
    InputError,
    NearDuplicates,
    ParameterError,
    Query,
    QueryWeighting,
    ValueBoost,
)
from rag_bm25.budget import limited
from rag_bm25.index.searching import diagnosing
from rag_bm25.store.rows import MAX_K

TEXTS = {
    "law": "用人单位解除劳动合同，应当出具证明。",
    "agreement": "劳务协议由双方协商解除。",
    "lab": "The laboratory signs a contract with its staff.",
    "end": "A contract ends, both sides agree.",
}
METADATA: dict[str, dict[str, Any]] = {
    "law": {"kind": "law", "source": "docs/law.txt"},
    "agreement": {"kind": "law", "number": 3},
    "lab": {"kind": "memo", "by": {"name": "Li"}},
    "end": {"kind": "memo"},
}


@pytest.fixture(scope="module")
def index() -> BM25Index:
    made = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    made.add(list(TEXTS.values()), ids=list(TEXTS), metadatas=[METADATA[id_] for id_ in TEXTS])
    made.add(["A quagmire."], ids=["mire"], namespace="swamp")
    return made


def codes(diagnosis: Diagnosis) -> list[str]:
    return [reason.code for reason in diagnosis.reasons]


def nothing(_: object) -> float:
    return 0


def by_length(_: str, hits: Sequence[Hit]) -> list[float]:
    return [len(hit.text) for hit in hits]


NO_WORDS = "the query has no words: punctuation, and words of more than 64 characters, are not indexed"
UNKNOWN = "no chunk of the default namespace has a word of the query"
ZERO, LAW = ValueBoost("kind", {"memo": 0}), {"kind": "law"}


@pytest.mark.parametrize(
    ("query", "options", "code", "message"),
    [
        ("", {}, "empty_query", "the query is empty"),
        (" \n", {}, "empty_query", "the query is empty"),
        ("？！ …", {}, "no_words", NO_WORDS),
        ("y" * 64, {}, "unknown_words", UNKNOWN),
        ("y" * 65, {}, "no_words", NO_WORDS),
        (Query("", must_not=["contract"]), {}, "empty_query", "the query only says what hits must not have"),
        (Query.parse("-contract"), {}, "empty_query", "the query only says what hits must not have"),
        ("the", {}, "stop_words", "the query has stop words only, which the index leaves out: the"),
        ("Unheard 飞机", {}, "unknown_words", UNKNOWN),
        (Query.parse("the*"), {}, "unknown_words", UNKNOWN),
        ("unheard", {"filter": {"year": 3}}, "unknown_words", UNKNOWN),
        ("unheard", {"namespace": ["", "swamp"]}, "unknown_words", "no chunk has a word of the query"),
        ("unheard", {"namespace": None}, "unknown_words", "no chunk has a word of the query"),
        ("contract", {"statistics": LAW}, "statistics", "without statistics, the search has hits"),
        ("contract", {"namespace": "team"}, "empty_namespace", "no chunk is in the namespace 'team'; other namespaces"),
        ("contract", {"filter": {"kinds": 3}}, "filter_field", "the filter names 'kinds', which none of 4 chunks has"),
        ("contract", {"filter": {"by.age": 3}}, "filter_field", "the filter names 'by.age', which none of 4 chunks"),
        (
            "contract",
            {"filter": LAW},
            "filter",
            "without the filter, the search has hits; 2 chunks meet the filter, but have no word of the query",
        ),
        (
            "contract",
            {"filter": {"kind": "lab"}},
            "filter",
            "without the filter, the search has hits; 'kind' has 'law', 'memo'",
        ),
        ("contract", {"filter": {"number": "3"}}, "filter", "without the filter, the search has hits; 'number' has 3"),
        (
            "contract",
            {"filter": {"$or": [{"number": {"$in": [4]}}, {"$not": {"kind": {"$exists": True}}}, {"by.name": "Lis"}]}},
            "filter",
            "without the filter, the search has hits; 'number' has 3; 'by.name' has 'Li'",
        ),
        (Query("contract", must=["labratory"]), {}, "must", "without must ['labratory'], the search has hits"),
        (Query("contract", must=["证明"]), {}, "must", "without must ['证明'], the search has hits"),
        (Query("contract", must=["😀"]), {}, "must", "without must ['😀'], the search has hits"),
        (Query.parse("+contract +证明"), {}, "must", "without must ['contract', '证明'], the search has hits"),
        (
            Query("contract", must_not=["contracts"]),
            {},
            "must_not",
            "without must_not ['contracts'], the search has hits",
        ),
        (Query("contract", phrases=["a lab"], slop=1), {}, "phrases", "without phrases ['a lab'], the search has hits"),
        ("contract staff sides", {"min_should_match": 3}, "min_should_match", "without min_should_match 3, the search"),
        ("contract", {"boosts": [ZERO]}, "boosts", "without boosts [ValueBoost("),
        ("contract", {"min_score": 9}, "min_score", "the best score is 0."),
        (
            Query("contract", must=["unheard"], phrases=["staff sides"]),
            {"group": Grouping("kind"), "boosts": [ValueBoost("kind", {"x": 2})]},
            "options",
            "without must ['unheard'] and phrases ['staff sides'] together, the search has hits",
        ),
    ],
)
def test_a_search_without_hits_has_a_reason(
    index: BM25Index, query: Query | str, options: dict[str, Any], code: str, message: str
) -> None:
    assert index.search(query, **options) == []
    diagnosis = index.diagnose(query, **options)
    assert codes(diagnosis) == [code]
    assert str(diagnosis).startswith(f"nothing found: {message}")
    assert json.loads(json.dumps(diagnosis.to_dict())) == diagnosis.to_dict()


def test_each_option_whose_absence_suffices_is_named(index: BM25Index) -> None:
    found = index.diagnose(Query("contract", must=["laboratory"], must_not=["quagmire"], phrases=["both sides"]))
    assert codes(found) == ["must", "phrases"]
    assert str(found).splitlines()[1] == "  also: without phrases ['both sides'], the search has hits"


def test_a_search_with_hits_has_none(index: BM25Index) -> None:
    hits = index.search("contract")
    diagnosis = index.diagnose("contract", min_score=0.0)
    assert (diagnosis.reasons, diagnosis.num_hits, diagnosis.score) == ((), 2, hits[0].score)
    assert str(diagnosis) == "the search has 2 hits"
    assert str(index.diagnose("staff")) == "the search has 1 hit"


def test_misspelt_words_come_with_a_suggestion(index: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    diagnosis = index.diagnose("contarct unheard")
    assert diagnosis.suggestion == diagnosis.to_dict()["suggestion"] == "contract unheard"
    assert str(diagnosis).endswith("; did you mean 'contract unheard'?")
    assert index.diagnose("unheard").suggestion is None


def test_misspelt_fields_come_with_a_suggestion(index: BM25Index) -> None:
    (reason,) = index.diagnose("contract", filter={"kinds": 3}).reasons
    assert str(reason).endswith("; the fields are 'by', 'kind', 'number', 'source'; did you mean 'kind'?")
    assert reason.details == {"missing": ["kinds"], "fields": ["by", "kind", "number", "source"]}


@pytest.mark.parametrize("where", [{"number": "3"}, {"number": {"$gte": "3"}}, {"number": {"$in": ["3", "4"]}}])
def test_operands_of_another_type_are_told(index: BM25Index, where: dict[str, Any]) -> None:
    told = "; these are numbers, and the filter has strings there"
    assert str(index.diagnose("contract", filter=where)).endswith(told)
    assert told not in str(index.diagnose("contract", filter={"number": 77}))


def test_how_many_chunks_meet_a_filter_is_told_with_what_they_lack(index: BM25Index) -> None:
    filter_, must = index.diagnose(Query("contract", must=["staff"]), filter={"$id": "end"}).reasons
    assert str(filter_).endswith("the search has hits; 1 chunk meets the filter, but not the other conditions")
    assert (filter_.code, filter_.details["met"], must.code) == ("filter", 1, "must")


def test_a_count_that_stopped_is_the_least_that_meets(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosing, "MAX_SAMPLED", 2)
    diagnosis = index.diagnose("unheard contract", filter=LAW)
    assert str(diagnosis).endswith("; at least 2 chunks meet the filter, but have no word of the query")
    (reason, *_) = (one for one in diagnosis.reasons if one.code == "filter")
    assert (reason.details["met"], reason.details["or_more"]) == (2, True)  # of which the page in Chinese is made


def test_a_filter_on_lists_is_told_of_contains() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    index.add(["A contract."], metadatas=[{"headings": ["Law", "Terms"]}])
    told = "these are lists, and the filter has strings there: $contains finds what is in a list"
    assert str(index.diagnose("contract", filter={"headings": "Law"})).endswith(told)
    assert told not in str(index.diagnose("contract", filter={"headings": {"$contains": "La"}}))


def test_a_key_with_a_dot_is_told_from_a_path() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    index.add(["A contract."], metadatas=[{"pdf.title": "A"}])
    (reason,) = index.diagnose("contract", filter={"pdf.title": "A"}).reasons
    assert str(reason).endswith("it is one key: write it as a tuple, ('pdf.title',)")
    assert reason.details == {"missing": ["pdf.title"], "fields": ["pdf.title"]}
    assert [hit.text for hit in index.search("contract", filter={("pdf.title",): "A"})] == ["A contract."]


def test_an_index_without_chunks_or_metadata_says_so() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    assert codes(index.diagnose("contract")) == ["empty_index"]
    index.add(["A contract."])
    assert str(index.diagnose("contract", filter={"kind": 3})).endswith("; the chunks have no metadata")


def test_the_fields_of_many_chunks_are_those_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosing, "MAX_SAMPLED", 2)
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig"] * 6, ids=list("abcdef"), metadatas=[{f"n{at}": at} for at in range(6)])
    (missing,) = index.diagnose("fig", filter={"none": 9}).reasons
    assert missing.message.startswith("the filter names 'none', which none of 2 chunks has; the fields are 'n")


@pytest.mark.parametrize(
    ("query", "id_", "options", "code", "message"),
    [
        ("contract", "nothing", {}, "no_chunk", "no chunk of the default namespace has this id"),
        ("contract", "mire", {}, "no_chunk", "no chunk of the default namespace has this id"),
        ("contract", "nothing", {"namespace": None}, "no_chunk", "no chunk has this id"),
        ("the", "end", {}, "stop_words", "the query has stop words only"),
        ("Contracts unheard", "law", {"filter": LAW}, "no_term", "it has no word of the query"),
        ("contract", "lab", {"filter": LAW}, "filter", "without the filter, it matches; 'kind' has 'memo'"),
        ("contract", "lab", {"filter": {"year": 3}}, "filter", "without the filter, it matches; 'year' has no value"),
        (Query("contract", must=["sides"]), "lab", {}, "must", "without must ['sides'], it matches"),
        (Query("contract", must_not=["staff"]), "lab", {}, "must_not", "without must_not ['staff'], it matches"),
        (Query("contract", phrases=["both sides"]), "lab", {}, "phrases", "without phrases ['both sides'], it matches"),
        (
            "contract sides",
            "lab",
            {"min_should_match": 2},
            "min_should_match",
            "without min_should_match 2, it matches",
        ),
        ("contract", "lab", {"statistics": LAW}, "statistics", "without statistics, it matches"),
        ("contract", "lab", {"boosts": [ZERO]}, "boosts", "without boosts [ValueBoost("),
        (
            Query("contract", ["staff", "sides"], ["laboratory"], ["signs a contract"]),
            "lab",
            {"filter": LAW},
            "options",
            "without the filter and must ['staff', 'sides'] and must_not ['laboratory'] together, it matches",
        ),
        ("contract", "lab", {"min_score": 5}, "min_score", "its score is 0."),
        ("contract", "lab", {"k": 1}, "k", "it is hit 2 by score, beyond k = 1: its score is 0."),
        (
            "contract",
            "lab",
            {"k": 2, "group": Grouping("kind", score="sum")},
            "group",
            "without group, it is a hit",
        ),
        ("contract", "end", {"k": 1, "rerank": by_length}, "rerank", "without rerank, it is a hit"),
        ("contract", "lab", {"k": 1, "rerank": by_length, "candidates": 1}, "k", "it is hit 2 by score, beyond k = 1"),
        (
            "contract",
            "lab",
            {"k": 1, "rerank": by_length, "candidates": 1, "min_score": 9},
            "k",
            "it is hit 2 by score, beyond k = 1",
        ),
        ("contract", "end", {"rerank": by_length, "min_score": 40}, "min_score", "without min_score 40, it is a hit"),
    ],
)
def test_a_chunk_that_is_no_hit_has_a_reason(
    index: BM25Index, query: Query | str, id_: str, options: dict[str, Any], code: str, message: str
) -> None:
    assert id_ not in [hit.id for hit in index.search(query, **options)]
    diagnosis = index.diagnose(query, id_, **options)
    assert codes(diagnosis) == [code]
    assert str(diagnosis).startswith(f"{id_!r} is not found: {message}")
    assert json.loads(json.dumps(diagnosis.to_dict())) == diagnosis.to_dict()


def test_a_chunk_that_is_a_hit_has_its_rank_and_score(index: BM25Index) -> None:
    hits = index.search("contract")
    for rank, hit in enumerate(hits, 1):
        diagnosis = index.diagnose("contract", hit.id)
        assert (diagnosis.reasons, diagnosis.rank, diagnosis.score) == ((), rank, hit.score)
        assert diagnosis.last_score == hits[-1].score
        assert str(diagnosis) == f"{hit.id!r} is found: rank {rank}, score {hit.score:.4f}"


def test_a_near_duplicate_is_left_out_for_a_better_hit() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig plum", "fig plum", "fig pear"], ids=list("abc"))
    assert codes(index.diagnose("fig", "b", k=2, diversity=NearDuplicates(0.9))) == ["diversity"]
    assert codes(index.diagnose("fig", "b", k=2, diversity=MMR(0.1))) == ["diversity"]


def test_the_rank_is_looked_for_far_down(monkeypatch: pytest.MonkeyPatch) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(400, length_unit="terms", analyzer=split))
    index.add(["fig " + "plum " * at for at in range(150)], ids=[f"{at:03}" for at in range(150)])
    last = index.diagnose("fig", "149", k=3)
    assert (last.rank, codes(last), last.num_hits) == (150, ["k"], 3)
    recent = index.diagnose("fig", "149", k=3, boosts=[ValueBoost("none", {1: 2.0}, default=0.5)])
    assert recent.rank == 150
    assert recent.score == pytest.approx(last.score / 2)  # type: ignore[operator]
    monkeypatch.setattr(diagnosing, "RANKED", (100, 120))
    beyond = index.diagnose("fig", "149", k=3)
    assert beyond.rank is None
    assert beyond.reasons[0].message.startswith("it is not among the best 120 chunks, beyond k = 3")


def test_of_several_chunks_with_an_id_one_is_named(index: BM25Index) -> None:
    made = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    made.add(["fig"], ids=["a"], namespace="x")
    made.add(["plum"], ids=["a"], namespace="y")
    with pytest.raises(InputError, match="give chunk_namespace"):
        made.diagnose("fig", "a", namespace=["x", "y"])
    found = made.diagnose("fig", "a", namespace=["x", "y"], chunk_namespace="y")
    assert (found.namespace, codes(found)) == ("y", ["no_term"])
    assert made.diagnose("fig", "a", namespace=None, chunk_namespace="x").reasons == ()
    with pytest.raises(InputError, match="chunk_namespace must be one of"):
        made.diagnose("fig", "a", namespace="x", chunk_namespace="y")
    for without_place in (made.more_like_this, made.chunk_terms):
        with pytest.raises(InputError, match=r"2 namespaces have a chunk 'a', .*: search one of them$"):
            without_place("a", namespace=["x", "y"])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Contracts", None),
        ("what is the contract", None),  # stop words, and words of the question
        ("a Labratory contract, the 飞机", ["Labratory", "飞机"]),
        ("unheard Unheard contract", ["unheard", "Unheard"]),
        ("quagmire contract", ["quagmire"]),  # of another namespace
        (Query.parse("unheard* contract"), None),  # a prefix is no word
        (Query("contract", must_not=["unheard"]), None),
    ],
)
def test_a_search_with_hits_names_the_words_that_no_chunk_has(
    index: BM25Index, query: Query | str, words: list[str] | None
) -> None:
    diagnosis = index.diagnose(query)
    assert (codes(diagnosis), diagnosis.num_hits) == ([], 2)
    assert [(note.code, note.details["words"]) for note in diagnosis.notes] == (
        [("unknown_words", words)] if words else []
    )
    assert str(diagnosis).count("\n") == len(diagnosis.notes)
    assert json.loads(json.dumps(diagnosis.to_dict())) == diagnosis.to_dict()


def test_a_character_within_other_words_is_told_from_one_that_no_chunk_has() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    index.add(["祝大家吉祥如意。"])
    unknown, within = index.diagnose("丁薛祥").notes
    assert (str(unknown), unknown.details["words"]) == ("no chunk has the words '丁', '薛'", ["丁", "薛"])
    assert (within.code, within.details) == ("within_words", {"words": ["祥"]})
    assert str(within) == "no chunk has '祥' as a word, only within other words"
    nothing = index.diagnose("祥", weighting=QueryWeighting(character_weight=0.0))
    assert codes(nothing) == ["unknown_words", "within_words"]


def test_the_suggestion_is_for_words_that_no_chunk_has_beside_others(index: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    diagnosis = index.diagnose("labratory contract")
    assert diagnosis.suggestion == "laboratory contract"
    assert str(diagnosis).endswith("the word 'labratory'; did you mean 'laboratory contract'?")


def test_a_diagnosis_takes_the_options_of_a_search(index: BM25Index) -> None:
    with pytest.raises(ParameterError, match="k must be"):
        index.diagnose("contract", k=0)
    assert index.diagnose("contract", k=1, group=Grouping("kind"), context="document", highlight=True).num_hits == 1


def test_a_word_that_the_statistics_do_not_count_is_in_the_chunk_all_the_same() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=9))
    index.add(["合同 解除", "code"], ids=["law", "code"], metadatas=[{"set": "law"}, {"set": "code"}])
    part = {"set": "code"}
    explained = index.explain("合同 never", "law", statistics=part)
    assert explained.value == 0
    uncounted = "no chunk that the statistics count has a word that it shares with the query"
    assert explained.reason == uncounted
    assert "'合同' has no weight: no chunk that the statistics count has it" in explained.tree
    assert "'never' is unknown: no chunk has it" in explained.tree
    (reason,) = index.diagnose("合同", "law", statistics=part).reasons
    assert reason.code == "statistics"
    assert index.explain("never", "law", statistics=part).reason == "no term of the query is in the chunk"


def test_a_search_without_hits_tells_once_of_a_field_that_no_chunk_has(
    index: BM25Index, caplog: pytest.LogCaptureFixture
) -> None:
    for wrong in ({"knd": "memo"}, {"knd": "law"}, {"kind": "none"}):
        assert index.search("contract", filter=wrong) == []
    (message,) = caplog.messages
    assert "its filter names a field that no chunk has: `diagnose` tells which" in message


def test_under_a_budget_nothing_is_looked_for_that_was_not_asked(
    index: BM25Index, caplog: pytest.LogCaptureFixture
) -> None:
    with limited(lambda: None):
        assert index.search("contract", filter={"kin": "memo"}) == []
    assert caplog.messages == []


def test_a_chunk_that_no_group_has_is_compared_with_the_best_of_the_last_group() -> None:
    texts = {
        "a1": "plum plum plum",
        "a2": "plum " + "pad " * 30,
        "b1": "plum plum",
        "b2": "plum " + "pad " * 40,
        "c": "plum pad",
    }
    made = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    made.add(list(texts.values()), ids=list(texts), metadatas=[{"page": id_[0]} for id_ in texts])
    found = made.diagnose("plum", "c", 2, group=Grouping("page", 2))
    assert (found.last_score, codes(found)) == (made.search("plum")[1].score, ["k"])
    assert "the last of 2 groups has" in str(found)
    assert "the last of" not in str(made.diagnose("plum", "c", 2, group=Grouping("page", 2, score="sum")))
    found = made.diagnose("plum", "a2", 1, group=Grouping("page"))
    assert (codes(found), found.reasons[0].message) == (
        ["group"],
        "its group, page 'a', has 1 other hit, the size of a group",
    )


def test_a_chunk_on_an_earlier_page_is_a_hit(index: BM25Index) -> None:
    first, second = index.search("contract", 2)
    assert index.search("contract", 1, offset=1) == [second]
    for hit in (first, second):
        assert index.diagnose("contract", hit.id, 1, offset=1).reasons == ()
        assert index.diagnose("contract", hit.id, MAX_K, offset=1).reasons == ()
        placed = index.explain("contract", hit.id, MAX_K, offset=1, diversity=MMR()).placement
        assert placed is not None
        assert placed.rank
