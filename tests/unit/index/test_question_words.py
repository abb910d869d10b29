"""What a search makes of question words, which weigh less than others and find nothing alone."""

from __future__ import annotations

import pytest
from support.indexes import filled

from rag_bm25 import RSJ, IndexConfig, QueryWeighting
from rag_bm25.hits.highlights import Highlighting

CHUNKS = {"faq": "What is a tenancy agreement? What it says.", "law": "a tenancy of land", "poem": "what next"}
QUERY = "What is a tenancy?"
INDEX = filled(CHUNKS, IndexConfig(20))
WITHOUT = QueryWeighting(question_word_weight=0)


def test_they_decide_between_chunks_that_have_the_other_words() -> None:
    assert [hit.id for hit in INDEX.search(QUERY, weighting=WITHOUT)] == ["law", "faq"]
    assert INDEX.search(QUERY, weighting=QueryWeighting(question_word_weight=2))[0].id == "faq"
    assert [hit.id for hit in INDEX.search(QUERY, min_should_match=1)] == ["law", "faq"]
    assert [hit.id for hit in INDEX.search("What?")] == ["poem", "faq"]


def test_they_find_nothing_beside_unknown_words() -> None:
    assert INDEX.search("What is a zebra?") == []
    assert [reason.code for reason in INDEX.diagnose("What is a zebra?").reasons] == ["unknown_words"]


def test_an_explanation_has_them_as_terms_or_as_left_out() -> None:
    explained = INDEX.explain(QUERY, "faq")
    (what,) = (term for term in explained.terms if term.term == "what")
    assert (what.factors["question_word_weight"], what.tf) == (0.3, 2)
    assert explained.bm25_score == pytest.approx(INDEX.search(QUERY)[1].score)
    assert explained.stop_words == ("is", "a")
    assert INDEX.explain(QUERY, "faq", weighting=WITHOUT).stop_words == ("what", "is", "a")
    assert INDEX.explain("what zebra", "faq").stop_words == ("what",)


def test_they_are_not_marked() -> None:
    hit = next(hit for hit in INDEX.search(QUERY, highlight=Highlighting()) if hit.id == "faq")
    assert hit.highlights is not None
    marked = [one.text[start - one.start : end - one.start] for one in hit.highlights for start, end in one.marks]
    assert marked == ["tenancy"]


def test_feedback_does_not_learn_from_them() -> None:
    def weights(weighting: QueryWeighting | None) -> dict[str, float]:
        terms = INDEX.explain(QUERY, "faq", weighting=weighting, feedback=RSJ(["faq"])).terms
        return {term.term: term.query_weight for term in terms if term.term != "what"}

    assert weights(None) == weights(WITHOUT)
