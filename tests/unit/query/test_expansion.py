from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import Corpus, split
from support.reference import idf as printed_idf

from rag_bm25 import Analyzer, Fuzzy, Query, QueryExpansion, Synonyms
from rag_bm25.analysis import TextAnalyzer
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.expansion import MAX_COMPLETIONS, Expander
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.synonyms import SynonymTable
from rag_bm25.query.terms import QueryTerms
from rag_bm25.statistics.corpus import Contribution, CorpusCounts
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import TermIds, is_bigram, is_word
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.query import DEFAULT_WEIGHTING, QueryWeighting

CHUNKS = ["car engine", "car wheel", "car", "automobile", "motor car club", "label labor lab", "labor", "fig contract"]
CHUNKS += ["contract", "contact", "york new", "ny"]
CORPUS = Corpus({str(at): text.split() for at, text in enumerate(CHUNKS)})


def idf(term: str) -> float:
    return printed_idf("lucene", CORPUS.df(term) or 1, CORPUS.n, 0.25, 0)


def weigh(
    query: Any,
    synonyms: str = "",
    chunks: list[str] = CHUNKS,
    analyzer: TextAnalyzer = split,
    k3: float | None = None,
    **expansion: Any,
) -> QueryTerms:
    encoded = DocumentEncoder(analyzer, DocumentWeighting(4), "terms").encode(chunks)
    statistics = CorpusCounts()
    statistics.add(Contribution.of(encoded.vectors, encoded.lengths.tolist()))
    lookup = TermLookup().plus(list(dict.fromkeys(token for chunk in chunks for token in analyzer(chunk))))
    rules = Synonyms.parse(synonyms)
    weighting = QueryWeighting(idf="lucene", k3=k3).over(DEFAULT_WEIGHTING)
    expander = Expander(analyzer, QueryExpansion(rules, **expansion), SynonymTable(rules, analyzer), lambda: lookup)
    return QueryEncoder(analyzer, weighting, TermIds(), expander).terms(query, statistics)


def weights(terms: QueryTerms) -> dict[str, float]:
    return dict(zip(terms.terms, terms.weights.tolist(), strict=True))


def reasons(terms: QueryTerms) -> dict[str, str]:
    return {term: origin.reason for term, origin in zip(terms.terms, terms.sources, strict=True)}


def test_boosts_multiply_and_occurrences_add_up() -> None:
    terms = weigh(Query.parse("car^2 engine"))
    assert weights(terms) == pytest.approx({"car": 2 * idf("car"), "engine": idf("engine")})
    terms = weigh({"car": 2.0, "car engine": 0.5})
    assert weights(terms) == pytest.approx({"car": 2.5 * idf("car"), "engine": 0.5 * idf("engine")})
    assert terms.sources[0].factors == (("boost, mean of its occurrences in the query", 1.25),)
    assert terms.sources[1].factors == (("boost, in the query", 0.5),)


def test_rare_synonym_weighs_no_more_than_the_word_itself() -> None:
    assert idf("automobile") > idf("car")
    terms = weigh("car", "car, automobile^0.5")
    assert weights(terms) == pytest.approx({"car": idf("car"), "automobile": 0.5 * idf("car")})
    assert reasons(terms) == {"car": "", "automobile": "synonym of 'car'"}
    assert terms.sources[1].factors == (
        ("synonym_weight", 0.5),
        (
            f"share, so that 'automobile' weighs as 'car': {idf('car'):.6g} / {idf('automobile'):.6g}",
            pytest.approx(idf("car") / idf("automobile")),
        ),
    )


def test_frequent_synonym_weighs_by_its_own_idf() -> None:
    terms = weigh("automobile", "car, automobile")
    assert weights(terms) == pytest.approx({"automobile": idf("automobile"), "car": 0.8 * idf("car")})


def test_phrase_weighs_as_a_whole_what_it_stands_for() -> None:
    terms = weigh("car", "car, york new^1")
    whole = weights(terms)["york"] + weights(terms)["new"]
    assert whole == pytest.approx(idf("car"))
    terms = weigh("york new", "york new, ny^1")  # one word for two: it weighs what it weighs
    assert weights(terms)["ny"] == pytest.approx(idf("ny"))


def test_synonym_of_an_unknown_word_is_found() -> None:
    terms = weigh("auto", "auto, car^1")
    assert weights(terms) == pytest.approx({"auto": 0, "car": idf("car")})


def test_unknown_synonym_weighs_nothing() -> None:
    assert weights(weigh("car", "car, auto")) == pytest.approx({"car": idf("car"), "auto": 0})


def test_replaced_words_are_not_searched_for() -> None:
    terms = weigh("my motor car", "motor car => automobile")
    assert weights(terms) == pytest.approx({"my": 0, "automobile": 0.8 * idf("automobile")})
    assert reasons(terms)["automobile"] == "synonym in place of 'motor car'"
    terms = weigh("car engine car", "engine car => automobile")  # the first car stays
    assert (terms.terms, terms.qtf.tolist()) == (["car", "automobile"], [1, 1])


def test_synonym_that_the_query_has_itself_counts_once() -> None:
    assert weights(weigh("car automobile", "car, automobile")) == pytest.approx(weights(weigh("car automobile")))


@pytest.mark.parametrize("query", ["car ny", "ny car"])
def test_term_with_several_reasons_has_the_heaviest(query: str) -> None:
    terms = weigh(query, "car => car, fig^0.9\nny => ny, fig^0.5")
    assert weights(terms)["fig"] == pytest.approx(max(0.9 * idf("car"), 0.5 * idf("ny")))
    assert terms.terms.count("fig") == 1


def test_boost_and_repetition_of_a_word_go_over_to_its_synonym() -> None:
    assert weigh("car^3", "car, ny").terms == ["car^3"], "without syntax a caret has no meaning"
    terms = weigh(Query.parse("car^3"), "car, automobile^0.5")
    assert weights(terms)["automobile"] == pytest.approx(1.5 * idf("car"))
    terms = weigh("car car", "car, automobile^0.5", k3=1.0)
    assert weights(terms)["automobile"] == pytest.approx(4 / 3 * 0.5 * idf("car"))


def test_parts_of_a_query_are_not_joined_to_a_phrase() -> None:
    assert "ny" not in weigh({"new": 1.0, "york": 2.0}, "new york, ny").terms
    assert "ny" in weigh("new york", "new york, ny").terms


def test_near_spellings_weigh_by_similarity_and_the_idf_of_the_most_frequent() -> None:
    pytest.importorskip("rapidfuzz")
    assert idf("contact") > idf("contract")
    terms = weigh("contarct", fuzzy=Fuzzy())
    similarity = 1 - 1 / 8
    assert weights(terms) == pytest.approx(
        {"contarct": 0, "contract": similarity * idf("contract"), "contact": similarity * idf("contract")}
    )
    assert reasons(terms)["contact"] == "near spelling of 'contarct'"


def test_near_spellings_of_a_known_word_weigh_no_more_than_the_word() -> None:
    pytest.importorskip("rapidfuzz")
    terms = weigh("contract", fuzzy=Fuzzy(terms="all"))
    assert weights(terms) == pytest.approx({"contract": idf("contract"), "contact": (1 - 1 / 8) * idf("contract")})


def test_completions_weigh_as_the_most_frequent_one() -> None:
    terms = weigh(Query.parse("lab*^2 car"))
    expected = {"car": idf("car")} | dict.fromkeys(["lab", "label", "labor"], 2 * idf("labor"))
    assert weights(terms) == pytest.approx(expected)
    assert reasons(terms)["label"] == "completes 'lab*'"


def test_the_most_frequent_completions_are_added() -> None:
    chunks = ["labor", *(f"lab{number}" for number in range(60)), "labor"]
    terms = weigh(Query.parse("lab*"), chunks=chunks).terms
    assert (len(terms), terms[0]) == (MAX_COMPLETIONS, "labor")


@pytest.mark.parametrize(("text", "asked"), [("lab* " * 100, 1), (" ".join(f"x{at}*" for at in range(100)), 64)])
def test_prefixes_of_a_query_are_completed_once_each_and_so_many_at_most(
    text: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    beginning_with = TermLookup.beginning_with

    def noted(lookup: TermLookup, prefix: str) -> list[str]:
        found.append(prefix)
        return beginning_with(lookup, prefix)

    monkeypatch.setattr(TermLookup, "beginning_with", noted)
    terms = weigh(Query.parse(text))
    assert len(dict.fromkeys(found)) == asked
    assert len(found) <= 2 * asked  # as written, and as analysed
    assert terms.terms == (["labor", "lab", "label"] if asked == 1 else [f"x{at}" for at in range(100)])
    assert terms.qtf.tolist() == ([100] * 3 if asked == 1 else [1] * 100)


def test_near_spellings_are_looked_for_in_all_parts_of_a_query_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidfuzz")
    asked: list[str] = []

    def noted(_lookup: TermLookup, word: str, *_options: int) -> dict[str, int]:
        asked.append(word)
        return {}

    monkeypatch.setattr(TermLookup, "within", noted)
    words = [f"qx{one}{other}" for one in "abcdefghij" for other in "abcdefghij"]
    weigh(dict.fromkeys(words, 2.0), fuzzy=Fuzzy())
    assert asked == words[:64]


def test_prefix_without_completions_is_a_word() -> None:
    assert weights(weigh(Query.parse("xyz*"))) == {"xyz": 0}


def test_prefix_is_looked_for_as_it_is_analysed_where_it_is_not_found_as_it_is_written() -> None:
    chunks = ["laboratory notes", "劳动合同"]
    assert "laboratori" in weigh(Query.parse("Laborat*"), chunks=chunks, analyzer=Analyzer()).terms
    assert "laboratori" in weigh(Query.parse("laboratory*"), chunks=chunks, analyzer=Analyzer()).terms
    assert "劳动合同" in weigh(Query.parse("勞動*"), chunks=chunks, analyzer=Analyzer()).terms


def test_bigrams_of_a_synonym_are_added_and_those_of_a_replaced_word_taken_away() -> None:
    chunks = ["解除劳动合同", "雇佣协议", "协议"]
    terms = weigh("劳动合同", "劳动合同 => 雇佣协议", chunks, Analyzer(), synonym_phrases=False)
    assert [term.strip("\0") for term in terms.terms if is_bigram(term)] == ["雇佣", "佣协", "协议"]
    assert [term for term in terms.terms if is_word(term)] == ["雇佣", "协议"]


def test_bigrams_of_a_synonym_share_as_its_words_do() -> None:
    terms = weigh("协议", "协议, 雇佣合同", ["解除劳动合同", "雇佣协议", "协议"], Analyzer(), synonym_phrases=False)
    shares = {
        term: origin.factors[1][1] for term, origin in zip(terms.terms, terms.sources, strict=True) if origin.reason
    }
    assert len(shares) > 3
    assert len(set(shares.values())) == 1
    words = {term: weight for term, weight in weights(terms).items() if is_word(term)}
    assert words["雇佣"] + words["合同"] == pytest.approx(0.8 * words["协议"])


def test_words_had_by_a_chunk_count_what_stands_for_them() -> None:
    terms = weigh("car engine unknown", "car, york new")
    vector = lambda text: weigh(text).vector()  # noqa: E731
    assert terms.words == {"car", "engine", "unknown"}
    assert terms.words_had_by(vector("engine wheel")) == {"engine"}
    assert terms.words_had_by(vector("york")) == set()
    assert terms.words_had_by(vector("new york")) == {"car"}
    assert weigh(Query.parse("lab* car")).words == {"lab*", "car"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("人", {"工人", "人民", "人合"}),
        ("人 税", {"工人", "人民", "人合"}),  # no chunk has the other one
        ("人 合同", set()),
        ("税", set()),  # has a term for itself
        ("책", {"책을"}),
        ("책 합동", {"책을"}),
        ("の", {"なの"}),
    ],
)
def test_a_character_without_a_term_of_its_own_is_looked_for_in_pairs(query: str, found: set[str]) -> None:
    chunks = ["工人合同", "人民", "책을 읽다", "합동", "なの"]
    terms = weigh(query, chunks=chunks, analyzer=Analyzer())
    reason = f"holds {query[0]!r}"
    added = {term.strip("\0"): weights(terms)[term] for term, why in reasons(terms).items() if why == reason}
    assert added.keys() == found
    assert len(set(added.values())) <= 1  # each weighs as the most frequent


def test_a_pair_weighs_no_more_than_the_character_as_a_word() -> None:
    terms = weigh("人", chunks=["人", "人", "工人"], analyzer=Analyzer())
    assert weights(terms)["\0工人"] == pytest.approx(weights(terms)["人"])


def test_empty_index_adds_nothing() -> None:
    pytest.importorskip("rapidfuzz")
    terms = weigh(Query.parse("car lab*"), "car, automobile", chunks=[], fuzzy=Fuzzy())
    assert not len(terms.vector())
    assert all(math.isfinite(weight) for weight in terms.weights)


TOWNS = ["ny", "new york", "york, new", "new car", "a new york state of mind", "ny new york", "york"]


def test_a_synonym_of_several_words_is_their_phrase() -> None:
    terms = weigh("ny", "ny, new york", TOWNS, Analyzer())
    assert terms.terms == ["ny", "\0new york"]
    of_word, of_phrase = terms.weights.tolist()
    assert of_word == pytest.approx(math.log(1 + (7 - 2 + 0.5) / (2 + 0.5)))
    assert of_phrase == pytest.approx(0.8 * math.log(1 + (7 - 3 + 0.5) / (3 + 0.5))), "that of a word, not of a bigram"
    assert terms.words_had_by(vector_of(terms, "\0new york")) == {"ny"}


def test_a_phrase_weighs_no_more_than_the_word_that_it_stands_for() -> None:
    of_word, *of_phrase = weigh("ny", "ny, new york state", [*TOWNS[:1], "new york state"], Analyzer()).weights.tolist()
    assert len(of_phrase) == 2
    assert sum(of_phrase) == pytest.approx(0.8 * of_word)
    terms = weigh("ny", "ny, new york", ["ny"] * 5 + ["new york"], Analyzer())
    assert terms.weights[1] == pytest.approx(0.8 * terms.weights[0])


def test_a_chinese_phrase_is_its_bigrams_and_another_word_with_the_one_across_is_not_it() -> None:
    chunks = ["劳务协议", "服务协议", "劳务，协议", "雇佣"]
    terms = weigh("雇佣", "雇佣, 劳务协议", chunks, Analyzer())
    assert {term for term, reason in reasons(terms).items() if reason} == {"\0劳务", "\0务协", "\0协议"}
    assert reasons(terms)["\0务协"] == "synonym of '雇佣'"
    vectors = DocumentEncoder(Analyzer(), DocumentWeighting(4), "terms").encode(chunks[:3]).vectors
    scores = [terms.vector().dot(vector) for vector in vectors]
    assert scores[0] > max(scores[1:])
    assert [terms.words_had_by(vector) for vector in vectors] == [{"雇佣"}, frozenset(), frozenset()]


@pytest.mark.parametrize(
    ("synonym", "words"),
    [
        ("state of the art", ["state", "art"]),
        ("version 2", ["version", "2"]),
        ("Milvus 市", ["milvus", "市"]),
        ("雇佣 合同", ["雇佣", "合同"]),
    ],
)
def test_words_that_no_bigrams_hold_together_count_one_by_one(synonym: str, words: list[str]) -> None:
    added = [term for term, reason in reasons(weigh("ny", f"ny, {synonym}", TOWNS, Analyzer())).items() if reason]
    assert [term for term in added if is_word(term)] == words


def test_without_bigrams_the_words_of_a_synonym_count_one_by_one() -> None:
    assert weigh("ny", "ny, new york").terms == ["ny", "new", "york"]
    assert weigh("ny", "ny, new york", TOWNS, Analyzer(), synonym_phrases=False).terms == [
        "ny",
        "new",
        "york",
        "\0new york",
    ]


def vector_of(terms: QueryTerms, *held: str) -> SparseVector:
    return SparseVector.from_dict({int(terms.ids[terms.terms.index(term)]): 1.0 for term in held})


PHRASE = ("\0alpha beta", "\0beta gamma")


def phrase_weights(chunks: list[list[str]], weight: float) -> dict[str, float]:
    """Weigh the bigrams of the phrase `alpha beta gamma`, a synonym of `ny`, in loops over the words of the chunks."""
    pairs = [{f"\0{one} {other}" for one, other in pairwise(chunk)} for chunk in chunks]
    df = {bigram: sum(bigram in of_chunk for of_chunk in pairs) for bigram in PHRASE}
    idfs = {bigram: printed_idf("lucene", df[bigram] or 1, len(chunks), 0.25, 0) for bigram in PHRASE}
    most = printed_idf("lucene", sum("ny" in chunk for chunk in chunks) or 1, len(chunks), 0.25, 0)
    share = min(1.0, most / sum(idfs.values()))
    return {bigram: weight * share * idfs[bigram] if df[bigram] else 0.0 for bigram in PHRASE}


@given(
    st.lists(
        st.lists(st.sampled_from(["alpha", "beta", "gamma", "ny"]), min_size=1, max_size=5), min_size=1, max_size=8
    )
)
def test_phrase_is_counted_by_its_bigrams_and_never_by_loose_words(chunks: list[list[str]]) -> None:
    texts = [" ".join(chunk) for chunk in chunks]
    terms = weigh("ny", "ny => alpha beta gamma^0.9", texts, Analyzer())
    assert weights(terms) == pytest.approx(phrase_weights(chunks, 0.9))
    assert terms.words == {"ny"}
    encoded = DocumentEncoder(Analyzer(), DocumentWeighting(4), "terms").encode(texts).vectors
    for chunk, vector in zip(chunks, encoded, strict=True):
        joined = [pair for pair in pairwise(chunk) if pair in {("alpha", "beta"), ("beta", "gamma")}]
        assert (terms.vector().dot(vector) > 0) == bool(joined)
        assert (terms.words_had_by(vector) == {"ny"}) == (len(set(joined)) == 2)
