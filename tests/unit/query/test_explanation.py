from __future__ import annotations

import json

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, Query, QueryWeighting
from rag_bm25.errors import ChunkNotFoundError, InputError
from rag_bm25.query.explanation import Explanation

TREE = Explanation(
    0.5, "score, sum of:", (Explanation(0.5, "'<b>'", (Explanation(1234567, "N"),)), Explanation(0.0, "none"))
)


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(
        ["apple banana apple", "apple cherry", "apple", "fig grape"],
        ids=["1", "2", "3", "4"],
    )
    return index


def test_text_has_a_line_for_each_number() -> None:
    assert str(TREE) == "0.5 = score, sum of:\n  0.5 = '<b>'\n    1,234,567 = N\n  0 = none"


def test_json_comes_back_as_the_dict() -> None:
    assert json.loads(json.dumps(TREE.to_dict())) == TREE.to_dict()
    assert TREE.to_dict()["details"][0] == {
        "value": 0.5,
        "description": "'<b>'",
        "details": [{"value": 1234567, "description": "N", "details": []}],
    }


def test_html_is_the_tree_with_escaped_texts() -> None:
    expected = "<pre>0.5 = score, sum of:\n  0.5 = &#x27;&lt;b&gt;&#x27;\n    1,234,567 = N\n  0 = none</pre>"
    assert TREE._repr_html_() == expected


def test_explanation_shows_every_number_of_a_score(filled: BM25Index) -> None:
    # ln(1 + 3.5 / 1.5) = 1.203973; 1.5 * (1 - 0.75 + 0.75 * 3 / 4) = 1.21875; 1 / 2.21875 = 0.450704
    assert filled.explain("banana", "1", weighting=QueryWeighting(idf="lucene")).tree == (
        "0.542636 = score of chunk '1' for the query 'banana', sum of:\n"
        "  0.542636 = 'banana', product of:\n"
        "    1.20397 = query weight, product of:\n"
        "      1 = qtf, occurrences in the query\n"
        "      1.20397 = idf 'lucene', ln(1 + (N - df + 0.5) / (df + 0.5)) from:\n"
        "        1 = df, chunks with the term\n"
        "        4 = N, chunks\n"
        "    0.450704 = stored weight, tf / (tf + k1 * (1 - b + b * length / chunk_size)) from:\n"
        "      1 = tf, occurrences in the chunk\n"
        "      1.5 = k1, saturation\n"
        "      0.75 = b, share of the length\n"
        "      3 = length of the chunk in terms\n"
        "      4 = chunk_size in terms, in place of the mean length"
    )


def test_bigrams_show_their_channel_and_its_weight() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=4))
    index.add(["劳动合同", "法律", "诉讼", "合同法"], ids=["1", "2", "3", "4"])
    tree = index.explain("动合同约", "1", weighting=QueryWeighting(idf="lucene", bigram_weight=0.25))
    names = [detail.description.partition(",")[0] for detail in tree.details]
    assert {"'合同'", "'动' is unknown: no chunk has it", "bigram '同约' is unknown: no chunk has it"} <= set(names)
    weight, *factors = str(tree.details[names.index("bigram '动合'")].details[0]).splitlines()
    assert weight == f"{0.25 * 1.2039728:.6g} = query weight, product of:"
    assert factors[0] == "  0.25 = bigram_weight, of bigrams of characters"
    elsewhere = index.explain("动合同约", "4").tree
    assert "0 = bigram '动合' is not in the chunk; df = 1 of N = 4 chunks have it" in elsewhere
    assert "bigram" not in index.explain("动合同约", "1", weighting=QueryWeighting(bigram_weight=0)).tree


def test_saturation_shows_k3(filled: BM25Index) -> None:
    text = filled.explain("banana banana", "1", weighting=QueryWeighting(k3=1)).tree
    assert "1.33333 = qtf, saturated: qtf * (k3 + 1) / (qtf + k3) from:" in text
    assert "1 = k3" in text


def test_each_branch_of_the_epsilon_idf_is_named(index: BM25Index) -> None:
    raw = "ln((N - df + 0.5) / (df + 0.5))"
    index.add(["apple"], ids=["1"])
    alone = index.explain("apple", "1").tree
    assert f"idf 'epsilon', epsilon * ln(1 + (N - df + 0.5) / (df + 0.5)), since {raw} <= 0 and avgIDF <= 0" in alone
    index.add(["fig", "grape", "apple banana cherry", "apple"], ids=["2", "3", "4", "5"])
    assert f"idf 'epsilon', epsilon * avgIDF, since {raw} <= 0 from:" in index.explain("apple", "1").tree
    assert "0.25 = epsilon" in index.explain("apple", "1").tree
    assert "avgIDF, mean over all words" in index.explain("apple", "1").tree
    assert f"idf 'epsilon', {raw} from:" in index.explain("fig", "2").tree
    assert "= epsilon\n" not in index.explain("fig", "2").tree


@pytest.mark.parametrize(
    ("query", "id_", "lines"),
    [
        (
            "unknown",
            "1",
            [
                "0 = score of chunk '1' for the query 'unknown': not found, since no term of the query is in the chunk",
                "  0 = 'unknown' is unknown: no chunk has it",
            ],
        ),
        (
            "fig",
            "1",
            [
                "0 = score of chunk '1' for the query 'fig': not found, since no term of the query is in the chunk",
                "  0 = 'fig' is not in the chunk; df = 1 of N = 4 chunks have it",
            ],
        ),
        (" ", "1", ["0 = score of chunk '1' for the query ' ': not found, since the query has no terms"]),
    ],
)
def test_chunk_that_is_not_found_says_why(filled: BM25Index, query: str, id_: str, lines: list[str]) -> None:
    assert filled.explain(query, id_).tree.splitlines() == lines


def test_stop_words_are_named(store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=4))
    index.add(["the apple"], ids=["1"])
    assert index.explain("the", "1").tree.splitlines() == [
        "0 = score of chunk '1' for the query 'the': not found, since the query has no terms",
        "  0 = 'the' is a stop word: the analyzer leaves it out",
    ]


def test_stop_words_are_those_of_each_part_of_a_query(store: MemoryStore) -> None:
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=4))
    index.add(["papers on HNSW layers"], ids=["1"])
    searched = index.explain({"find papers": 2.0, "on HNSW": 1.0}, "1").tree
    assert "'on' is a stop word" in searched
    assert "'papers' is a stop word" not in searched
    assert "'know' is a stop word" in index.explain(Query.parse("HNSW^2 I want to know about layers"), "1").tree


def test_lengths_are_shown_in_their_unit(store: MemoryStore) -> None:
    from support.reference import split

    index = BM25Index.from_store(store, config=IndexConfig(500, length_unit="characters", analyzer=split))
    index.add(["apple pie"], ids=["1"])
    text = index.explain("apple", "1").tree
    assert "9 = length of the chunk in characters" in text
    assert "500 = chunk_size in characters, in place of the mean length" in text


def test_explaining_needs_one_call_for_the_chunk_and_no_search(filled: BM25Index, store: MemoryStore) -> None:
    store.calls.clear()
    filled.explain("apple", "1")
    assert store.calls == ["get_chunks"]


def test_a_chunk_is_found_in_the_namespaces_that_were_searched(filled: BM25Index) -> None:
    filled.add(["apple"], ids=["only here"], namespace="law")
    (hit,) = [hit for hit in filled.search("apple", namespace=["", "law"]) if hit.namespace == "law"]
    alone = filled.explain("apple", "only here", namespace="law")
    for searched in (["law", ""], ["", "law", "law", "none"], None):
        explained = filled.explain("apple", "only here", namespace=searched)
        assert explained.value == pytest.approx(hit.score, rel=1e-6)
        assert explained.value != pytest.approx(alone.value, rel=1e-6)


def test_one_id_in_several_namespaces_needs_the_namespace_of_the_chunk(filled: BM25Index) -> None:
    filled.add(["apple apple"], ids=["1"], namespace="law")
    for searched in (["", "law"], None):
        with pytest.raises(InputError, match=r"^2 namespaces have a chunk '1', the default namespace, the name"):
            filled.explain("apple", "1", namespace=searched)
    scores = {hit.namespace: hit.score for hit in filled.search("apple", namespace=None) if hit.id == "1"}
    for place in ("", "law"):
        explained = filled.explain("apple", "1", namespace=None, chunk_namespace=place)
        assert explained.value == pytest.approx(scores[place], rel=1e-6)


def test_a_chunk_must_be_where_was_searched(filled: BM25Index) -> None:
    with pytest.raises(InputError, match=r"one of the .*, the namespace 'a', the namespace 'b', got 'c'"):
        filled.explain("apple", "1", namespace=["b", "a"], chunk_namespace="c")
    with pytest.raises(ChunkNotFoundError, match=r"'9' in the namespace 'a', .*, the namespace 'e' and 1 more of"):
        filled.explain("apple", "9", namespace=list("abcdef"))
    with pytest.raises(ChunkNotFoundError, match="no chunk '9' in any namespace of memory"):
        filled.explain("apple", "9", namespace=None)
    with pytest.raises(ChunkNotFoundError, match=r"^no chunk '9' in the namespace 'x' of memory$"):
        filled.explain("apple", "9", namespace="x")
