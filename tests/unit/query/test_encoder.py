from __future__ import annotations

import numpy as np
import pytest

from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.query.encoder import QueryEncoder
from rag_bm25.query.expansion import Expander
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.terms import QueryTerm, TermOrigin
from rag_bm25.statistics.corpus import Contribution, CorpusCounts
from rag_bm25.vectors.sparse import EMPTY
from rag_bm25.vectors.terms import BIGRAM_MARK, TermIds, term_id
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.query import DEFAULT_WEIGHTING, QueryWeighting


def counted(chunks: dict[str, str]) -> CorpusCounts:
    encoded = DocumentEncoder(str.split, DocumentWeighting(4), "terms").encode(list(chunks.values()))
    statistics = CorpusCounts()
    statistics.add(Contribution.of(encoded.vectors, encoded.lengths.tolist()))
    return statistics


CORPUS = counted({"1": "apple banana", "2": "apple cherry", "3": "apple", "4": "fig"})


def encoder(weighting: QueryWeighting | None = None) -> QueryEncoder:
    return QueryEncoder(str.split, weighting or QueryWeighting(idf="lucene").over(DEFAULT_WEIGHTING), TermIds())


def test_ids_of_a_query_rise() -> None:
    ids = encoder().encode("fig cherry banana apple", CORPUS).ids.astype(np.int64)
    assert (np.diff(ids) > 0).all()


def test_terms_keep_the_order_of_the_query() -> None:
    terms = encoder().terms("fig unknown apple fig", CORPUS)
    assert terms.terms == ["fig", "unknown", "apple"]
    assert (terms.qtf.tolist(), terms.df.tolist()) == ([2, 1, 1], [1, 0, 3])
    assert (terms.weights > 0).tolist() == [True, False, True]
    assert terms.ids.tolist() == [term_id("fig"), term_id("unknown"), term_id("apple")]


def test_query_method_of_the_analyzer_is_used() -> None:
    class Analyzer:
        def __call__(self, text: str) -> list[str]:
            raise AssertionError

        def query(self, text: str) -> list[str]:
            return ["fig"]

    made = QueryEncoder(Analyzer(), DEFAULT_WEIGHTING, TermIds())
    assert made.terms("whatever", CORPUS).terms == ["fig"]


def test_bigrams_are_boosted_by_the_weight_of_their_channel() -> None:
    tokens = ["合同", "\0合同", "\0同法", "\0合同"]
    made = QueryEncoder(
        lambda _: tokens, QueryWeighting(idf="lucene", k3=None, bigram_weight=0.25).over(DEFAULT_WEIGHTING), TermIds()
    )
    corpus = CorpusCounts()
    ids = sorted(map(term_id, tokens[:2]))
    corpus.add(Contribution(4, 9, np.array(ids, np.uint32), np.array([1, 1])))
    terms = made.terms("合同法", corpus)
    assert (terms.terms, terms.qtf.tolist()) == (tokens[:3], [1, 2, 1])
    assert terms.weights.tolist() == pytest.approx([terms.weights[0], 2 * 0.25 * terms.weights[0], 0])
    assert [origin.boost for origin in terms.sources] == [1, 0.25, 0.25]
    assert (terms.words, len(terms.groups)) == ({"合同"}, 1)


def test_bigrams_of_words_have_a_weight_of_their_own() -> None:
    weighting = QueryWeighting(bigram_weight=0.25, word_bigram_weight=0.125).over(DEFAULT_WEIGHTING)
    made = QueryEncoder(lambda _: ["合同", "\0合同", "\0fig tree"], weighting, TermIds())
    assert [source.boost for source in made.terms("合同 fig tree", CORPUS).sources] == [1, 0.25, 2 * 0.125]
    alone = QueryEncoder(made.analyzer, QueryWeighting(word_bigram_weight=0).over(DEFAULT_WEIGHTING), TermIds())
    assert alone.terms("合同 fig tree", CORPUS).terms == ["合同", "\0合同"]


def test_question_words_have_a_weight_beside_a_word_that_is_known() -> None:
    weighting = QueryWeighting(question_word_weight=0.25).over(DEFAULT_WEIGHTING)
    made = QueryEncoder(lambda text: text.split(","), weighting, TermIds())
    terms = made.terms({"fig,\0\0apple,\0\0apple": 3.0, "banana,\0\0fig": 1.0}, CORPUS)
    assert (terms.terms, terms.qtf.tolist()) == (["fig", "banana", "apple"], [1, 1, 2])
    assert [source.boost for source in terms.sources] == [3, 1, 3 * 0.25]
    assert (terms.question_terms, terms.words) == ({"apple"}, {"fig", "banana"})
    assert made.encode("pear,\0\0apple", CORPUS) == EMPTY  # so that a search says that no word is known
    without = QueryEncoder(made.analyzer, QueryWeighting(question_word_weight=0).over(weighting), TermIds())
    assert without.terms("fig,\0\0apple", CORPUS).terms == ["fig"]


@pytest.mark.parametrize(
    ("tokens", "boosts"),
    [
        (["手机", "\0手机", "iphone", "2024", "\0fig tree", "タワ"], [1, 0.5, 3, 3, 3 * 0.15, 1]),
        (["手", "iphone"], [1, 1]),  # no word counts twice
        (["iphone", "2024", "\0fig tree"], [1, 1, 0.15]),
    ],
)
def test_letters_and_numbers_beside_chinese_have_a_factor(tokens: list[str], boosts: list[float]) -> None:
    found = QueryEncoder(lambda _: tokens, QueryWeighting(latin_weight=3).over(DEFAULT_WEIGHTING), TermIds()).terms(
        "any", CORPUS
    )
    of_terms = dict(zip(found.terms, found.boost.tolist(), strict=True))
    assert [of_terms[token] for token in tokens] == pytest.approx(boosts)


def test_letters_have_no_factor_where_bigrams_are_left_out() -> None:
    made = QueryEncoder(
        lambda _: ["手机", "\0手机", "iphone"], QueryWeighting(bigram_weight=0).over(DEFAULT_WEIGHTING), TermIds()
    )
    assert [source.boost for source in made.terms("any", CORPUS).sources] == [1, 1]


def test_kept_facts_change_no_weight() -> None:
    kept = QueryEncoder(str.split, DEFAULT_WEIGHTING, TermIds(), kept={})
    for query in ("apple fig", "fig unknown fig", "unknown apple", ""):
        fresh = encoder(DEFAULT_WEIGHTING).terms(query, CORPUS)
        again = kept.terms(query, CORPUS)
        assert (again.terms, again.ids.tolist(), again.df.tolist()) == (
            fresh.terms,
            fresh.ids.tolist(),
            fresh.df.tolist(),
        )
        assert again.weights.tolist() == fresh.weights.tolist()


def test_all_terms_of_a_query_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    df = CorpusCounts.df
    monkeypatch.setattr(CorpusCounts, "df", lambda self, ids: (asked.append(len(ids)), df(self, ids))[1])
    made = QueryEncoder(str.split, DEFAULT_WEIGHTING, TermIds(), Expander(str.split, look_up=TermLookup), kept={})
    assert made.terms("unknown 无 apple \0\0fig", CORPUS).terms == ["unknown", "无", "apple", "fig"]
    assert asked == [4]


def test_few_facts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.query.encoder.MAX_KEPT", 2)
    made = QueryEncoder(str.split, DEFAULT_WEIGHTING, TermIds(), kept={})
    for query in ("a b", "c d", "e"):
        assert made.terms(query, CORPUS).terms == query.split()
    assert made.kept is not None
    assert sorted(made.kept) == ["e"]


def test_the_weight_of_the_channel_multiplies_every_other_boost() -> None:
    made = encoder(QueryWeighting(bigram_weight=0.25).over(DEFAULT_WEIGHTING))
    asked = QueryTerm(BIGRAM_MARK + "合同", 1, TermOrigin("synonym", (("synonym_weight", 2.0),)))
    terms = made.weigh([asked], CORPUS)
    assert terms.boost.tolist() == [0.5]
    assert terms.sources[0].reason == "synonym"


def test_bigrams_without_weight_are_left_out() -> None:
    made = QueryEncoder(
        lambda _: ["合同", "\0合同"], QueryWeighting(bigram_weight=0).over(DEFAULT_WEIGHTING), TermIds()
    )
    assert made.terms("合同", CORPUS).terms == ["合同"]


def test_terms_that_share_an_id_add_up() -> None:
    made = QueryEncoder(
        str.split, QueryWeighting(idf="lucene").over(DEFAULT_WEIGHTING), {"fig": term_id("fig"), "figs": term_id("fig")}
    )
    both, alone = made.encode("fig figs", CORPUS), made.encode("fig", CORPUS)
    assert both.to_dict() == pytest.approx({term_id("fig"): 2 * alone.get(term_id("fig"))})


def test_boost_multiplies_the_weight_of_its_term_alone() -> None:
    origin = TermOrigin("synonym of 'fruit'", (("synonym_weight", 0.5), ("boost, in the query", 3.0)))
    plain = encoder().weigh([QueryTerm("fig", 2), QueryTerm("apple")], CORPUS)
    boosted = encoder().weigh([QueryTerm("fig", 2, origin), QueryTerm("apple")], CORPUS)
    assert boosted.boost.tolist() == [1.5, 1.0]
    assert boosted.weights.tolist() == pytest.approx([1.5 * plain.weights[0], plain.weights[1]])
    assert boosted.sources == [origin, TermOrigin()]
