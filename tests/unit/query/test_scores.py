"""The table of a score, and its numbers in fields."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import (
    RSJ,
    BM25Index,
    FieldWeight,
    Fuzzy,
    Grouping,
    Hit,
    IndexConfig,
    InputError,
    Query,
    QueryExpansion,
    QueryWeighting,
    ScoreExplanation,
    Synonyms,
    ValueBoost,
)
from rag_bm25.query.scores import TermScore, cell_width


def words_and_han_bigrams(text: str) -> list[str]:
    words = text.split()
    return [*words, *("\0" + word[at : at + 2] for word in words if word > "z" for at in range(len(word) - 1))]


CONFIG = IndexConfig(10, length_unit="terms", analyzer=words_and_han_bigrams, idf="lucene", bigram_weight=0.5)


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
    assert lines[5:] == ["N = 4 chunks; score = query * chunk; query = IDF * factors (x)"]


def test_columns_are_aligned_by_what_characters_take_on_a_terminal(index: BM25Index) -> None:
    lines = str(index.explain("fig 劳动合同 pear", "a")).splitlines()[1:-1]
    assert {cell_width(re.sub(r"  x\S+ \w+$", "", line)) for line in lines} == {cell_width(lines[0])}
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
    assert narrow.splitlines()[4] == "    x0.8 synonym_weight; synonym of 'fig'"
    assert narrow.splitlines()[3].startswith("pear ")


def test_terms_have_their_numbers_in_fields(index: BM25Index) -> None:
    explained = index.explain("pear fig fig", "a", weighting=QueryWeighting(k3=1.0))
    fig, pear = explained.terms
    assert (fig.term, fig.channel, fig.tf, fig.qtf, fig.df, fig.source) == ("fig", "word", 2, 2, 2, "")
    assert fig.idf == pytest.approx(0.693147, rel=1e-5)
    assert fig.contribution == explained.value > 0
    assert pear == TermScore("pear", "word", 0.0, 0, 1, 3, pear.idf, {"qtf": 1.0}, pear.query_weight, 0.0)
    bigrams = [term.channel for term in index.explain("劳动合同", "a").terms]
    assert bigrams.count("bigram") == 3


def test_terms_of_fields_say_where_they_are() -> None:
    config = IndexConfig(
        4, length_unit="terms", analyzer=split, fields={"title": FieldWeight(chunk_size=4, weight=2.0)}
    )
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
    unmet = index.explain(Query("fig", must=["pear"]), "a")
    assert (unmet.value, unmet.reason) == (0.0, "it lacks a word of must 'pear'")
    assert unmet.bm25_score > 0
    assert str(unmet).splitlines()[-1] == "not found: it lacks a word of must 'pear'"
    boosted = index.explain("fig", "a", boosts=[ValueBoost("kind", {"law": 2.0})])
    assert str(boosted).splitlines()[-2:] == [
        f"boosts: {boosted.value / 2:.4f}, times",
        "  2.0000  factor of 'kind' = 'law', by its value",
    ]
    grouped = index.explain("fig", "a", k=1, rerank=by_length, group=Grouping("kind"))
    assert str(grouped).splitlines()[-3:] == [
        "reranked: 12.0000 by by_length, in place of the score of the search",
        "grouped by 'kind': group 'law', of score 12.0000",
        "place: hit 1, with k = 1",
    ]
    assert grouped.tree.splitlines()[0] == "12 = score of by_length, in place of:"


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
    searched: dict[str, Any] = {"namespace": None, "group": Grouping("kind")}
    for rank, hit in enumerate(index.search("fig", **searched), 1):
        explained = index.explain("fig", hit.id, chunk_namespace=hit.namespace, **searched)
        assert explained.placement is not None
        assert explained.placement.rank == rank


def test_a_notebook_shows_the_table_and_the_formulas(index: BM25Index) -> None:
    shown = index.explain("<b>fig", "a")._repr_html_()
    assert shown.count("<tr>") == 2, "the names, and <b>fig"
    assert f"<pre>{html.escape(index.explain('<b>fig', 'a').tree)}</pre>" in shown
    assert "&lt;b&gt;fig" in shown
    assert "<b>fig" not in shown
    assert "<details><summary>formulas</summary>" in shown


# The numbers multiply out

TEXTS = [
    "用人单位解除劳动合同，应当出具解除劳动合同的证明。",
    "劳务协议由双方协商解除，解除协议不需要证明。",
    "The notice period of a trial contract is two weeks, as section 12 of the S5 battery agreement says.",
    "Notice of a contract is given in writing.",
    "S5 电池充满需要六小时；battery 充电器在 contract 之内。",
    "第四十七条 经济补偿按劳动者在本单位工作的年限支付。",
]
WHOLE: dict[str, Any] = {"min_df": 1, "max_df": 1.0}
RULES = Synonyms.parse("劳动合同, 劳务协议^0.7\ncontract => agreement^0.6")
CASES: dict[str, tuple[Any, dict[str, Any], set[str]]] = {  # query, options, names of factors that some term has
    "words": ("notice period of a contract", {}, {"word_bigram_weight"}),
    "Chinese": ("解除劳动合同的证明", {}, {"bigram_weight"}),
    "both": ("S5 电池 notice period", {}, {"latin_weight", "word_bigram_weight", "bigram_weight"}),
    "weights": (
        "S5 电池",
        {"weighting": QueryWeighting("lucene", latin_weight=3.0, bigram_weight=0.3)},
        {"latin_weight"},
    ),
    "syntax": (Query.parse("合同^3 解除 notice^0.5"), {}, {"boost"}),
    "mapping": ({"解除 合同": 2.5, "合同 contract": 0.7}, {}, {"boost", "qtf"}),
    "repetition": ("合同 合同 合同 notice notice", {}, {"qtf"}),
    "k3": ("合同 合同 合同 notice notice", {"weighting": QueryWeighting(k3=1.2)}, {"qtf"}),
    "RSJ": ("解除 notice", {"feedback": RSJ(["0", "2"], **WHOLE)}, {"bigram_weight"}),
    "synonyms": ("劳动合同 contract", {"expansion": QueryExpansion(RULES)}, {"synonym_weight", "share"}),
    "prefix": (Query.parse("contr* bat*^2"), {}, {"boost"}),
    "numerals": (Query.parse("第47条^2 补偿"), {}, {"boost"}),
    "fuzzy": ("contarct noticd", {"expansion": QueryExpansion(fuzzy=Fuzzy())}, {"similarity"}),
}


@pytest.fixture(params=[pytest.param((name, fields), id=f"{name}-{fields=}") for name in CASES for fields in (0, 1)])
def found(request: pytest.FixtureRequest) -> list[tuple[Hit, ScoreExplanation]]:
    name, fields = request.param
    query, options, names = CASES[name]
    if name == "fuzzy":
        pytest.importorskip("rapidfuzz")
    config = IndexConfig(60, fields={"title": FieldWeight(chunk_size=10, weight=2.0)} if fields else {})
    index = BM25Index.from_store(MemoryStore(), config=config)
    metadatas = [{"title": text[:8]} for text in TEXTS]
    index.add(TEXTS, ids=[str(number) for number in range(len(TEXTS))], metadatas=metadatas)
    hits = [(hit, index.explain(query, hit.id, **options)) for hit in index.search(query, **options)]
    assert names <= set(re.findall(" x[0-9.]+ ([a-z_]+)", "".join(str(explained) for _, explained in hits)))
    return hits


def test_the_numbers_of_a_table_multiply_out(found: list[tuple[Hit, ScoreExplanation]]) -> None:
    for hit, explained in found:
        score, *rows = printed(explained)
        assert score[0] <= hit.score <= score[1]
        for contribution, idf, query_weight, weight, factors in rows:
            assert overlap(idf * factors, query_weight)
            assert overlap(query_weight * weight, contribution)
        assert overlap(sum(row[0] for row in rows), score)


def test_the_numbers_of_json_multiply_out(found: list[tuple[Hit, ScoreExplanation]]) -> None:
    for hit, explained in found:
        terms = explained.to_dict()["terms"]
        for term in terms:
            factors = math.prod(term["factors"].values())
            assert term["query_weight"] == pytest.approx(term["idf"] * factors, rel=1e-6)
            assert term["contribution"] == term["query_weight"] * term["weight"]
        assert sum(term["contribution"] for term in terms) == pytest.approx(hit.score, rel=1e-6)


def printed(explained: ScoreExplanation) -> list[Any]:
    """Return the bounds of the printed score, and of the score, IDF, weights and product of the factors of each row."""
    title, _, *lines = str(explained).splitlines()
    rows: list[list[str]] = []
    for line in lines[: next(at for at, line in enumerate(lines) if line.startswith("N = "))]:
        if line.startswith("    "):
            rows[-1].append(line.strip())
        else:
            rows.append(re.split(" {2,}", line))
    return [rounded(title.split()[0]), *(_bounds(*row) for row in rows)]


def _bounds(_term: str, score: str, _tf: str, _df: str, idf: str, query: str, chunk: str, note: str = "") -> list[Any]:
    factors = [float(number.replace(",", "")) for number in re.findall(r"\bx([0-9.,e+-]+) ", note)]
    return [*map(rounded, (score, idf, query, chunk)), math.prod(factors) * (1 + np.array([-2e-5, 2e-5]))]


def rounded(number: str) -> NDArray[np.float64]:
    """Return the least and the greatest number that is printed so: with four digits after the point, or three."""
    value = float(number.replace(",", ""))
    half = 5e-5 if value >= 0.001 else 5e-3 * value
    return np.array([value - half, value + half]) * (1 + np.array([-1e-6, 1e-6]))


def overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool(one[0] <= other[1] and other[0] <= one[1])
