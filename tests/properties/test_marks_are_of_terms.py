"""Property: a mark covers text that has a term of the query, and every term of the query that a hit has is marked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, Fuzzy, Highlighting, IndexConfig, Query, QueryExpansion, QueryWeighting, Synonyms
from rag_bm25.analysis import Analyzer
from rag_bm25.query.feedback import RSJ
from rag_bm25.vectors.terms import is_character
from rag_bm25.weighting.fields import FieldWeight

ANALYZER = Analyzer()
EVERY = Highlighting(max_fragments=1000)
WORDS = ["劳动合同", "勞動法", "解除", "ＢＭ２５", "on-line", "online", "U.S.", "Retrieval", "information", "user's"]
WORDS += ["劳动合\n同", "हिन्दी", "ที่ดี", "cafe\u0301", "العَرَبِيَّة"]
texts = st.lists(st.sampled_from([*WORDS, " ", "，", "。", ". ", "的"]), min_size=1, max_size=12).map("".join)
SYNONYMS = Synonyms.of({"解除": ["劳动合同"], "online": ["information retrieval"]})
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without bigrams": {"weighting": QueryWeighting(bigram_weight=0, word_bigram_weight=0)},
    "expanded": {"expansion": QueryExpansion(synonyms=SYNONYMS, fuzzy=Fuzzy())},
    "with feedback": {"feedback": RSJ(["0"], fb_terms=3)},
    "with conditions": {},
}


def stored(chunks: list[tuple[str, str]]) -> BM25Index:
    fields = {"title": FieldWeight(chunk_size=10)}
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=20, idf="lucene", fields=fields))
    titles = [{"title": title} for _, title in chunks]
    index.add([text for text, _ in chunks], ids=list(map(str, range(len(chunks)))), metadatas=titles)
    return index


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), texts)
@example([("劳动合同", "的")], "的")
@example([("解除", "的的")], "劳动合同的的")
@pytest.mark.parametrize("name", OPTIONS)
def test_marks_are_the_places_of_the_terms_of_the_query(name: str, chunks: list[tuple[str, str]], query: str) -> None:
    index = stored(chunks)
    options, asked = OPTIONS[name], Query(query, must=["解除"] if name == "with conditions" else ())
    for hit in index.search(asked, 20, highlight=EVERY, **options):
        assert hit.highlights is not None
        assert hit.field_highlights is not None
        fragments = {"text": hit.highlights, **hit.field_highlights}
        told = {term.term for term in index.explain(asked, hit.id, **options).terms if term.contribution}
        is_of_questions = told <= set(ANALYZER.config.question_words)  # which are not marked, nor is 的的, no word
        assert any(fragments.values()) or is_of_questions or "的的" in query
        originals = {"text": hit.text, "title": hit.metadata["title"]}
        for field, found in fragments.items():
            text = originals[field]
            every = ANALYZER.locate(text)
            assert list(found) == index.highlight(asked, text, EVERY, **options)
            for start, end in (mark for one in found for mark in one.marks):
                assert any(start <= token.start and token.end <= end for token in every)


@given(st.lists(texts, min_size=1, max_size=8), texts)
def test_every_word_of_the_query_that_a_chunk_has_is_marked(chunks: list[str], query: str) -> None:
    index = stored([(text, "") for text in chunks])
    wanted = set(ANALYZER.query(query))
    characters = {word for word in ANALYZER.config.question_words if len(word) == 1 and not word.isascii()}
    wanted = {term for term in wanted if not (term.startswith("\0") and characters & set(term))}
    for hit in index.search(query, 20, highlight=EVERY):
        found = [token for token in ANALYZER.locate(hit.text) if token.text in wanted]
        said = [token for token in found if not is_character(token.text) or token.text[1:] in wanted]
        places = [(token.start, token.end) for token in said or found]
        marks = [mark for one in hit.highlights or () for mark in one.marks]
        assert {at for mark in marks for at in range(*mark)} == {at for place in places for at in range(*place)}
        assert all(end <= start for (_, end), (start, _) in zip(sorted(marks), sorted(marks)[1:], strict=False))
        scores = [one.score for one in hit.highlights or ()]
        assert scores == sorted(scores, reverse=True)
