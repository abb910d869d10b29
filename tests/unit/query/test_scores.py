"""The table of a score, and its numbers in fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, InputError, QueryExpansion, Synonyms, ValueBoost
from rag_bm25.query.scores import TermScore, cell_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25 import Hit


def words_and_han_bigrams(text: str) -> list[str]:
    words = text.split()
    return [*words, *("\0" + word[at : at + 2] for word in words if word > "z" for at in range(len(word) - 1))]


CONFIG = IndexConfig(10, "terms", analyzer=words_and_han_bigrams, idf="lucene", bigram_weight=0.5)


@pytest.fixture
def index() -> BM25Index:
    made = BM25Index.from_store(MemoryStore(), config=CONFIG)
    texts = ["劳动合同 fig fig", "fig pear", "pear", "pear 劳动争议"]
    made.add(texts, ids=["a", "b", "c", "d"], metadatas=[{"kind": "law"}, {"kind": "law"}, {}, {"kind": "memo"}])
    return made


def by_length(_: str, hits: Sequence[Hit]) -> list[float]:
    return [len(hit.text) for hit in hits]


def test_a_table_has_a_line_a_term(index: BM25Index) -> None:
    lines = str(index.explain("fig pear plum", "a")).splitlines()
    score = index.search("fig", k=1)[0].score
    assert lines[0] == f"{score:.4f}  'a' for 'fig pear plum'"
    assert lines[1].split() == ["term", "score", "tf", "df", "IDF", "query", "chunk"]
    assert lines[2].split() == ["fig", f"{score:.4f}", "2", "2", "0.6931", "0.6931", f"{score / 0.693147:.4f}"]
    assert lines[3].split() == ["pear", "0", "0", "3", "0.3567", "0.3567", "0"]
    assert lines[4].split() == ["plum", "0", "0", "0", "0", "0", "0", "unknown"]
    assert lines[5:] == ["N = 4 chunks; score = query weight * chunk weight"]


def test_columns_are_aligned_by_what_characters_take_on_a_terminal(index: BM25Index) -> None:
    lines = str(index.explain("fig 劳动合同 pear", "a")).splitlines()[1:-1]
    ends = {cell_width(line[: line.index("  " + line.split("  ")[-1])]) for line in lines if "bigram" in line}
    assert len(ends) == 1
    assert {cell_width(line.removesuffix("  bigram")) for line in lines} == {cell_width(lines[0])}
    assert max(map(cell_width, lines)) <= 80


def test_the_width_of_characters() -> None:
    assert [cell_width(text) for text in ("ab", "劳动", "ｱ", "Ａ", "e\u0301", "")] == [2, 4, 1, 2, 1, 0]


def test_long_terms_and_queries_are_cut_and_notes_get_a_line(index: BM25Index) -> None:
    index.add(["劳动" * 40], ids=["long"])
    synonyms = QueryExpansion(synonyms=Synonyms.of({"fig": ["pear"]}))
    text = str(index.explain("x" * 70 + " 劳" * 30 + " fig", "b", expansion=synonyms))
    assert max(map(cell_width, text.splitlines())) <= 80
    assert f"'{'x' * 58}…\n" in text
    assert f"\n{'x' * 23}…  " in text
    assert "\nfig " in text
    narrow = index.explain("fig", "b", expansion=synonyms).table(width=50)
    assert narrow.splitlines()[4] == "    synonym of 'fig'"
    assert narrow.splitlines()[3].startswith("pear ")


def test_terms_have_their_numbers_in_fields(index: BM25Index) -> None:
    explained = index.explain("pear fig fig", "a", k3=1.0)
    fig, pear = explained.terms
    assert (fig.term, fig.channel, fig.tf, fig.qtf, fig.df, fig.source) == ("fig", "word", 2, 2, 2, "")
    assert fig.idf == pytest.approx(0.693147, rel=1e-5)
    assert fig.query_weight == pytest.approx(fig.idf * 4 / 3, rel=1e-6)
    assert fig.contribution == fig.query_weight * fig.weight == explained.value > 0
    assert pear == TermScore("pear", "word", 0.0, 0, 1, 3, pear.idf, pear.query_weight, 0.0)
    assert pear.query_weight == pytest.approx(pear.idf, rel=1e-6)
    bigrams = [term.channel for term in index.explain("劳动合同", "a").terms]
    assert bigrams.count("bigram") == 3


def test_terms_of_fields_say_where_they_are() -> None:
    config = IndexConfig(4, "terms", analyzer=split, fields={"title": FieldWeight(chunk_size=4, weight=2.0)})
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(["fig pear fig", "plum"], ids=["a", "b"], metadatas=[{"title": "fig"}, {"title": ""}])
    fig, pear = sorted(index.explain("fig pear", "a").terms, key=lambda term: term.term)
    assert (fig.tf, fig.fields) == (3, {"text": 2, "title": 1})
    assert (pear.tf, pear.fields) == (1, {"text": 1})
    assert "text 2, title 1" in str(index.explain("fig", "a"))
    assert index.explain("fig", "b").terms[0].fields == {}


def test_json_has_the_numbers_and_the_tree_on_demand(index: BM25Index) -> None:
    explained = index.explain("fig", "a", boosts=[ValueBoost("kind", {"law": 2.0})])
    plain = explained.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["value"], plain["bm25_score"]) == (explained.value, explained.value / 2)
    assert plain["terms"][0]["idf"] == explained.terms[0].idf
    assert plain["factors"] == [{"value": 2.0, "description": "factor of 'kind' = 'law', by its value"}]
    assert (plain["num_chunks"], plain["reason"], plain["placement"]) == (4, "", None)
    assert "details" not in plain
    assert explained.to_dict(tree=True)["details"][0]["value"] == plain["bm25_score"]


def test_conditions_boosts_and_choices_have_lines(index: BM25Index) -> None:
    unmet = index.explain("fig", "a", must=["pear"])
    assert (unmet.value, unmet.reason) == (0.0, "it lacks a word of must 'pear'")
    assert unmet.bm25_score > 0
    assert str(unmet).splitlines()[-1] == "not found: it lacks a word of must 'pear'"
    boosted = index.explain("fig", "a", boosts=[ValueBoost("kind", {"law": 2.0})])
    assert str(boosted).splitlines()[-2:] == [
        f"boosts: {boosted.value / 2:.4f}, times",
        "  2.0000  factor of 'kind' = 'law', by its value",
    ]
    grouped = index.explain("fig", "a", k=1, rerank=by_length, group_by="kind")
    assert str(grouped).splitlines()[-3:] == [
        "reranked: 12.0000 by by_length, in place of the score of the search",
        "grouped by 'kind': group 'law', of score 12.0000",
        "place: hit 1, with k = 1",
    ]
    assert grouped.tree().splitlines()[0] == "12 = score of by_length, in place of:"


@pytest.mark.parametrize("scores", [None, [1.0], ["high", "low"]])
def test_wrong_scores_of_a_reranker_are_refused_as_a_search_does(index: BM25Index, scores: Any) -> None:
    with pytest.raises(InputError, match="rerank must return a finite score for each of 2 hits"):
        index.explain("fig", "a", rerank=lambda _, __: scores)


def test_a_chunk_that_a_reranker_does_not_get_is_not_found(index: BM25Index) -> None:
    missed = index.explain("pear", "d", k=1, candidates=1, rerank=by_length)
    assert (missed.value, missed.placement.rank, missed.placement.num_reranked) == (0.0, None, 1)
    assert missed.reason == "it is not among the 1 best hits, which by_length scores"
    assert str(missed).splitlines()[-1] == "place: not among the hits, with k = 1"
    without = index.explain("plum", "a", rerank=by_length)
    assert (without.value, without.reason) == (0.0, "no term of the query is in the chunk")


def test_the_place_is_that_of_the_chunk_in_its_namespace(index: BM25Index) -> None:
    index.add(["fig fig fig", "fig plum plum plum"], ids=["a", "b"], namespace="other")
    searched: dict[str, Any] = {"namespace": None, "group_by": "kind"}
    for rank, hit in enumerate(index.search("fig", **searched), 1):
        explained = index.explain("fig", hit.id, chunk_namespace=hit.namespace, **searched)
        assert explained.placement is not None
        assert explained.placement.rank == rank


def test_a_notebook_shows_the_table_and_the_formulas(index: BM25Index) -> None:
    shown = index.explain("<b>fig", "a")._repr_html_()
    assert shown.count("<tr>") == 2, "the names, and <b>fig"
    assert "&lt;b&gt;fig" in shown
    assert "<b>fig" not in shown
    assert "<details><summary>formulas</summary>" in shown
