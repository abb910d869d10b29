"""Why a search has no hits, and why a chunk is not among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, Decay, FunctionBoost, IndexConfig, InputError, ParameterError, Query, ValueBoost
from rag_bm25.index.searching import chunk_inquiry, inquiry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25 import Diagnosis, Hit

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


@pytest.mark.parametrize(
    ("query", "options", "code", "message"),
    [
        ("", {}, "empty_query", "the query is empty"),
        (" \n", {}, "empty_query", "the query is empty"),
        ("？！ …", {}, "no_words", "the query has no words, only punctuation"),
        ("…" * 70, {}, "no_words", "the query has no words, only punctuation"),
        ("y" * 64, {}, "unknown_words", f"no chunk of the default namespace has the word {'y' * 64}"),
        ("y" * 65, {}, "no_words", "the query has no words but some of more than 64 characters, which are not indexed"),
        (Query("", must_not=["contract"]), {}, "empty_query", "the query only says what hits must not have"),
        ("-contract", {"syntax": True}, "empty_query", "the query only says what hits must not have"),
        ("the", {}, "stop_words", "the query has stop words only, which the index leaves out: the"),
        (
            "什么",
            {},
            "unknown_words",
            "the query has question words only, and no chunk of the default namespace has them",
        ),
        ("unheard", {}, "unknown_words", "no chunk of the default namespace has the word unheard"),
        ("Unheard 飞机", {}, "unknown_words", "no chunk of the default namespace has any of the words Unheard, 飞机"),
        ("zeb* unheard", {"syntax": True}, "unknown_words", "no chunk of the default namespace has any of the words "),
        (
            "contract",
            {"statistics": {"kind": "law"}},
            "statistics",
            "no chunk that fits the filter of `statistics` has",
        ),
        (
            "contract",
            {"namespace": "team"},
            "empty_namespace",
            "the namespace 'team' has no chunks; there are some in the default namespace (4), ",
        ),
        (
            "contract",
            {"filter": {"kinds": 3}},
            "filter_field",
            "the filter names 'kinds', which no chunk has; the fields are 'kind', 'by', 'number', 'source'",
        ),
        ("contract", {"filter": {"by.age": 3}}, "filter_field", "the filter names 'by.age', which no chunk has"),
        ("contract", {"filter": {"kind": "x"}}, "filter", "no chunk passes the filter; 'kind' has "),
        (
            "contract",
            {"filter": {"kind": "lav"}},
            "filter",
            "no chunk passes the filter; similar values of 'kind' are 'law'",
        ),
        (
            "contract",
            {"filter": {"$or": [{"source": {"$in": ["LAW.txt"]}}, {"by.name": "Lis"}]}},
            "filter",
            "no chunk passes the filter; similar values of 'source' are 'docs/law.txt'; similar values of",
        ),
        ("contract", {"filter": {"number": {"$gt": 3}}}, "filter", "no chunk passes the filter; 'number' has 3"),
        (
            "contract",
            {"filter": {"number": "3"}},
            "filter",
            "no chunk passes the filter; it has text for 'number', the chunks have numbers: 3",
        ),
        (
            "contract",
            {"filter": {"kind": {"$in": [3, True]}}},
            "filter",
            "no chunk passes the filter; it has bools and numbers for 'kind', the chunks have text: ",
        ),
        (
            "contract",
            {"filter": {"kind": "law"}},
            "filter",
            "the filter excludes all chunks with a word of the query; the best of them, 'end', has kind = 'memo'",
        ),
        (
            "contract",
            {"must": ["labratory"]},
            "must",
            (
                "none of 2 chunks with a word of the query has all words of must 'labratory'; no chunk has labratory; "
                "did you mean 'laboratory'?"
            ),
        ),
        (
            "contract",
            {"must": ["证明"]},
            "must",
            "none of 2 chunks with a word of the query has all words of must '证明'",
        ),
        (
            "contract",
            {"must_not": ["contracts"]},
            "must_not",
            "all 2 chunks with a word of the query have the words of must_not 'contracts'",
        ),
        (
            "contract",
            {"phrases": ["laboratory contract"]},
            "phrases",
            "none of 2 chunks with a word of the query has the phrase 'laboratory contract'; 1 has ",
        ),
        (
            "contract",
            {"must": ["laboratory"], "phrases": ["both sides"]},
            "conditions",
            (
                "no chunk meets all conditions together: of 2 chunks with a word of the query, must 'laboratory' "
                "leaves 1, phrases 'both sides' leaves 1"
            ),
        ),
        (
            "contract staff unheard sides",
            {"min_should_match": 3},
            "min_should_match",
            "min_should_match '3' asks for 3 of the 4 words of the query; no chunk has more than 2",
        ),
        (
            "contract",
            {"boosts": [ValueBoost("kind", {"memo": 0})]},
            "boosts",
            "the boosts multiply the scores of all chunks that match by 0: those of 'kind'",
        ),
        (
            "contract",
            {"boosts": [FunctionBoost(nothing, 1)]},
            "boosts",
            "the boosts multiply the scores of all chunks that match by 0: those of 'nothing'",
        ),
        ("contract", {"min_score": 9}, "min_score", "the best score is 0."),
    ],
)
def test_a_search_without_hits_has_a_reason(
    index: BM25Index, query: str, options: dict[str, Any], code: str, message: str
) -> None:
    asked = {name: value for name, value in options.items() if name != "min_score"}
    assert "min_score" in options or index.search(query, **asked) == []
    diagnosis = index.why_nothing(query, **options)
    assert diagnosis.reasons[0].code == code
    assert diagnosis.reasons[0].message.startswith(message)
    assert str(diagnosis).startswith(f"nothing found: {message}")
    assert json.loads(diagnosis.to_json()) == diagnosis.to_dict()


def test_a_search_with_hits_has_none(index: BM25Index) -> None:
    hits = index.search("contract")
    diagnosis = index.why_nothing("contract", min_score=0.0)
    assert (diagnosis.reasons, diagnosis.num_hits, diagnosis.score) == ((), 2, hits[0].score)
    assert str(diagnosis) == "the search has 2 hits"
    assert str(index.why_nothing("staff")) == "the search has 1 hit"


def test_misspelt_words_come_with_a_suggestion(index: BM25Index) -> None:
    pytest.importorskip("rapidfuzz")
    diagnosis = index.why_nothing("contarct unheard")
    assert diagnosis.suggestion == diagnosis.to_dict()["suggestion"] == "contract unheard"
    assert str(diagnosis).endswith("; did you mean 'contract unheard'?")
    assert index.why_nothing("unheard").suggestion is None


def test_words_of_other_namespaces_are_found_there(index: BM25Index) -> None:
    diagnosis = index.why_nothing("quagmire")
    assert codes(diagnosis) == ["unknown_words", "other_namespaces"]
    assert diagnosis.reasons[1].details == {"namespaces": {"swamp": 1}}
    assert str(diagnosis).splitlines()[1] == (
        "  also: other namespaces have chunks with words of the query: the namespace 'swamp' (1)"
    )


def test_other_namespaces_are_not_named_where_they_must_not_be_known(index: BM25Index) -> None:
    options: Any = {"other_namespaces": False}
    assert codes(index.why_nothing("quagmire", **options)) == ["unknown_words"]
    assert "swamp" not in index.why_nothing("quagmire", **options).to_json()
    assert "swamp" not in index.why_nothing("quagmire", namespace="team", **options).to_json()
    assert codes(index.why_not("quagmire", "mire", **options)) == ["no_chunk"]
    with pytest.raises(ParameterError, match="other_namespaces must be True or False"):
        index.why_nothing("quagmire", other_namespaces="no")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="min_score must be a finite number"):
        index.why_nothing("quagmire", min_score=float("nan"))


def test_an_index_without_chunks_says_so() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=60))
    assert codes(index.why_nothing("contract")) == ["empty_index"]
    assert codes(index.why_nothing("")) == ["empty_query", "empty_index"]
    index.add(["A contract."])
    assert codes(index.why_nothing("contract", filter={"kind": 3})) == ["filter_field"]
    assert str(index.why_nothing("contract", filter={"kind": 3})).endswith("; the chunks have no metadata")


def test_words_and_filter_may_both_be_wrong(index: BM25Index) -> None:
    assert codes(index.why_nothing("unheard", filter={"year": 3})) == ["unknown_words", "filter_field"]
    assert codes(index.why_nothing("unheard", filter={"kind": "law"})) == ["unknown_words"]


def test_each_condition_that_excludes_all_is_named(index: BM25Index) -> None:
    query = Query("contract", must=["unheard", "laboratory"], phrases=["staff sides"])
    found = index.why_nothing(query, min_should_match="100%")
    assert [(one.code, one.details["text"]) for one in found.reasons] == [
        ("must", "unheard"),
        ("phrases", "staff sides"),
    ]


def test_the_best_chunks_alone_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "MAX_CHECKED", 2)
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig"] * 5, ids=list("abcde"))
    index.add(["fig"] * 5, ids=list("abcde"), namespace="other")
    (reason,) = index.why_nothing("fig", must=["plum"]).reasons
    assert reason.message.startswith("none of the 2 best chunks with a word of the query has")
    elsewhere = index.why_nothing("fig", namespace="none").reasons[0]
    assert elsewhere.code == "empty_namespace"


def test_the_fields_of_many_chunks_are_those_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "MAX_SAMPLED", 2)
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig"] * 6, ids=list("abcdef"), metadatas=[{f"n{at}": at} for at in range(6)])
    for at in range(6):
        assert codes(index.why_nothing("fig", filter={f"n{at}": 9})) == ["filter"], "the engine says which there are"
    (missing,) = index.why_nothing("fig", filter={"none": 9}).reasons
    assert missing.message.startswith("the filter names 'none', which none of 2 chunks has; the fields are 'n")


def test_feedback_may_take_the_words_away() -> None:
    from rag_bm25 import Rocchio

    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig", "plum"], ids=["a", "b"])
    options: Any = {"irrelevant": ["a"], "feedback": Rocchio(gamma=100.0, min_df=1, max_df=1.0)}
    assert index.search("fig", **options) == []
    assert codes(index.why_nothing("fig", **options)) == ["feedback"]


@pytest.mark.parametrize(
    ("query", "id_", "options", "code", "message"),
    [
        ("contract", "nothing", {}, "no_chunk", "the default namespace has no chunk with this id"),
        (
            "contract",
            "docs/law.txt",
            {},
            "no_chunk",
            "the default namespace has no chunk with this id; it is the source",
        ),
        ("contract", "nothing", {"namespace": None}, "no_chunk", "the index has no chunk with this id"),
        ("contract", "mire", {}, "other_namespaces", "it is in the namespace 'swamp', which the search leaves out"),
        ("the", "end", {}, "stop_words", "the query has stop words only"),
        ("contract", "law", {}, "no_term", "it has no word of the query: contract"),
        ("Contracts unheard", "law", {}, "no_term", "it has no word of the query: Contracts, unheard"),
        ("contract", "lab", {"filter": {"kind": "law"}}, "filter", "it does not pass the filter: it has kind = 'memo'"),
        ("contract", "lab", {"filter": {"year": 3}}, "filter", "it does not pass the filter: it has no 'year'"),
        ("contract", "end", {"filter": {"by.name": "Li"}}, "filter", "it does not pass the filter: it has no 'by'"),
        ("contract", "lab", {"must": ["sides"]}, "must", "it lacks a word of must 'sides'"),
        ("contract", "lab", {"must_not": ["staff"]}, "must_not", "it has the words of must_not 'staff'"),
        ("contract", "lab", {"phrases": ["both sides"]}, "phrases", "it lacks the phrase 'both sides'"),
        ("contract sides", "lab", {"min_should_match": 2}, "min_should_match", "it has 1 of the 2 words of the query"),
        (
            "contract",
            "lab",
            {"boosts": [ValueBoost("kind", {"memo": 0})]},
            "boosts",
            "the boosts multiply its score by",
        ),
        ("contract", "lab", {"k": 1}, "k", "it is hit 2 by score, beyond k = 1: its score is 0.0"),
        ("contract", "lab", {"min_score": 5}, "min_score", "its score is 0.0"),
        (
            "contract",
            "lab",
            {"k": 2, "group_by": "kind"},
            "group_by",
            "better hits of its group, kind = 'memo', are 'end'; without group_by, it is a hit",
        ),
        ("contract", "end", {"k": 1, "rerank": by_length}, "k", "it is hit 1 by score, beyond k = 1: its score by by_"),
        (
            "contract",
            "lab",
            {"k": 1, "rerank": by_length, "candidates": 1},
            "rerank",
            "it is hit 2 by score, and by_length scores the first 1",
        ),
    ],
)
def test_a_chunk_that_is_no_hit_has_a_reason(
    index: BM25Index, query: str, id_: str, options: dict[str, Any], code: str, message: str
) -> None:
    asked = {name: value for name, value in options.items() if name != "min_score"}
    assert "min_score" in options or id_ not in [hit.id for hit in index.search(query, **asked)]
    diagnosis = index.why_not(query, id_, **options)
    assert diagnosis.reasons[0].code == code
    assert diagnosis.reasons[0].message.startswith(message)
    assert str(diagnosis).startswith(f"{id_!r} is not found: {message}")
    assert json.loads(diagnosis.to_json()) == diagnosis.to_dict()


def test_a_chunk_that_is_a_hit_has_its_rank_and_score(index: BM25Index) -> None:
    hits = index.search("contract")
    for rank, hit in enumerate(hits, 1):
        diagnosis = index.why_not("contract", hit.id)
        assert (diagnosis.reasons, diagnosis.rank, diagnosis.score) == ((), rank, hit.score)
        assert diagnosis.last_score == hits[-1].score
        assert str(diagnosis) == f"{hit.id!r} is found: rank {rank}, score {hit.score:.4f}"


def test_all_conditions_that_a_chunk_does_not_meet_are_named(index: BM25Index) -> None:
    query = Query("contract", must=["staff", "sides"], must_not=["laboratory"], phrases=["both sides"])
    found = index.why_not(query, "lab", filter={"kind": "law"}, min_should_match=1)
    assert codes(found) == ["filter", "must", "must_not", "phrases"]


def test_a_near_duplicate_is_left_out_for_a_better_hit() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    index.add(["fig plum", "fig plum", "fig pear"], ids=list("abc"))
    assert codes(index.why_not("fig", "b", k=2, near_duplicates=0.9)) == ["near_duplicates"]
    assert codes(index.why_not("fig", "b", k=2, mmr=0.1)) == ["mmr"]
    found = index.why_not("fig", "b", k=2, mmr=0.1)
    assert found.reasons[0].message == "the hits that were chosen differ more from each other; without mmr, it is a hit"


def test_the_rank_is_looked_for_far_down(monkeypatch: pytest.MonkeyPatch) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(400, "terms", analyzer=split))
    index.add(["fig " + "plum " * at for at in range(150)], ids=[f"{at:03}" for at in range(150)])
    last = index.why_not("fig", "149", k=3)
    assert (last.rank, codes(last), last.num_hits) == (150, ["k"], 3)
    recent = index.why_not("fig", "149", k=3, boosts=[ValueBoost("none", {1: 2.0}, default=0.5)])
    assert recent.rank == 150
    assert recent.score == pytest.approx(last.score / 2)  # type: ignore[operator]
    monkeypatch.setattr(chunk_inquiry, "MAX_K", 120)
    beyond = index.why_not("fig", "149", k=3)
    assert beyond.rank is None
    assert beyond.reasons[0].message.startswith("it is not among the best 120 chunks, beyond k = 3")


def test_of_several_chunks_with_an_id_one_is_named(index: BM25Index) -> None:
    made = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split))
    made.add(["fig"], ids=["a"], namespace="x")
    made.add(["plum"], ids=["a"], namespace="y")
    with pytest.raises(InputError, match="give chunk_namespace"):
        made.why_not("fig", "a", namespace=["x", "y"])
    found = made.why_not("fig", "a", namespace=["x", "y"], chunk_namespace="y")
    assert (found.namespace, codes(found)) == ("y", ["no_term"])
    assert made.why_not("fig", "a", namespace=None, chunk_namespace="x").reasons == ()
    with pytest.raises(InputError, match="chunk_namespace must be one of"):
        made.why_not("fig", "a", namespace="x", chunk_namespace="y")


def test_asking_writes_nothing_and_takes_the_options_of_a_search(index: BM25Index) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'fiter'"):
        index.why_nothing("contract", fiter={})  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="k must be"):
        index.why_nothing("contract", 0)
    boosts = [Decay("date", 30)]
    assert index.why_nothing("contract", 1, boosts=boosts, expand="document", group_by="kind").num_hits == 1


def test_a_word_that_the_statistics_do_not_count_is_in_the_chunk_all_the_same() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=9))
    index.add(["合同 解除", "code"], ids=["law", "code"], metadatas=[{"set": "law"}, {"set": "code"}])
    part = {"set": "code"}
    explained = index.explain("合同 never", "law", statistics=part)
    assert explained.value == 0
    uncounted = "no chunk that the statistics count has a word that it shares with the query"
    assert explained.reason == uncounted
    assert "'合同' has no weight: no chunk that the statistics count has it" in explained.tree()
    assert "'never' is unknown: no chunk has it" in explained.tree()
    (reason,) = index.why_not("合同", "law", statistics=part).reasons
    assert (reason.code, reason.message) == ("statistics", uncounted)
    assert index.explain("never", "law", statistics=part).reason == "no term of the query is in the chunk"
