from __future__ import annotations

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import Analyzer, AnalyzerConfig, BM25Index, IndexConfig, Query
from rag_bm25.analysis.normalization import settle_case
from rag_bm25.analysis.text import AnalysedText

WORDS = Analyzer(AnalyzerConfig(bigrams=False, characters=False, word_bigrams=False))


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        # The article begins a sentence, or stands between capitals of a title.
        ("A cat. A dog: a fox\nA hen", "a cat. a dog: a fox\na hen"),
        ('A "cat" (A dog)', 'a "cat" (a dog)'),
        ("Sorting Lists A method", "Sorting Lists a method"),
        # The letter is beside Han characters, digits or a hyphen, ends what it is in, or follows a word.
        ("A座 维生素A 和 A 类", "A座 维生素A 和 A 类"),
        ("A-level, A4, A/B, Plan A.", "A-level, A4, A/B, Plan A."),
        ("hepatitis A virus, in A or B", "hepatitis A virus, in A or B"),
        ("Influenza A spreads. Vitamin A helps", "Influenza A spreads. Vitamin A helps"),
        # I is the pronoun but after what is numbered.
        ("What I do if I can, am I?", "What i do if i can, am i?"),
        ("a phase I trial, Type I, I-95, I/O", "a phase I trial, Type I, I-95, I/O"),
        ("I'm sure I'd go", "I'm sure I'd go"),
        # Names of months and people.
        ("in May, since mid-May", "in MAY, since mid-MAY"),
        ("Ask the singer Will Young. Will Young sings", "Ask the singer WILL Young. WILL Young sings"),
        ("May it rain? Will it? How Can You", "May it rain? Will it? How Can You"),
    ],
)
def test_capitals_are_left_to_names(text: str, settled: str) -> None:
    assert settle_case(text) == settled
    assert settle_case(settled) == settled


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("A grade A steak", ["grade", "a", "steak"]),
        ("Ａ座大厅 is a hall", ["a", "座", "大厅", "hall"]),
        ("Will Young will sing in May", ["will", "young", "sing", "may"]),
    ],
)
def test_names_are_words_where_the_stop_word_is_dropped(text: str, terms: list[str]) -> None:
    assert WORDS(text) == terms
    assert [token.text for token in WORDS.locate(text)] == terms


def test_names_are_kept_in_queries_and_their_namesakes_are_told() -> None:
    query = "Is a type I error what I may get in May?"
    analysed = AnalysedText.of_query(WORDS, query)
    assert analysed.words == ("type", "i", "error", "get", "may")
    assert analysed.question_terms == ("what", "i", "may")
    assert WORDS.stop_words_in(query) == ["is", "a", "in"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("WHO IS THE LANDLORD?", ["landlord"]),
        ("HOW DO I PAY MY RENT", ["pay", "rent"]),
        ("WHAT IS COVID-19", ["covid-19", "covid", "19"]),
        ("US IT", ["us", "it"]),  # names beside a name
        ("WHO guidelines FOR IT", ["who", "guidelin", "for", "it"]),
        ("IT部门 用 US 的 WHO", ["it", "部门", "用", "us", "who"]),
    ],
)
def test_a_query_in_capitals_has_no_names(query: str, words: list[str]) -> None:
    assert list(AnalysedText.of_query(WORDS, query).words) == words


@pytest.mark.parametrize(
    ("query", "meant", "similar"),
    [
        ("vitamin A", "Vitamin A is good for the eyes, the skin and the bones.", "Vitamin E is a fat."),
        ("type I diabetes", "Type I diabetes begins in childhood, most often at school.", "Type II diabetes"),
        ("hepatitis A virus", "The hepatitis A virus lives in water for several months.", "The hepatitis B virus"),
        ("Appendix A", "Appendix A has the list of all fees and the forms.", "Appendix B has a map."),
        ("events in May", "The events in May are a fair, a market and a concert.", "Events in June"),
        ("algorithm 359", "Remark on Algorithms 332,344,351,359 of this journal", "Algorithm 35"),
    ],
)
def test_the_chunk_that_is_meant_is_above_a_shorter_one(query: str, meant: str, similar: str) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20))
    index.add([similar, meant], ids=["similar", "meant"])
    assert [hit.id for hit in index.search(query)] == ["meant", "similar"]


def test_a_letter_is_searched_explained_and_marked_like_any_word() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(10))
    index.add(["B座在东边", "会议在A座三层举行，请准时到场", "a seat in the hall"], ids=["b", "a", "hall"])
    assert index.search("A座")[0].id == "a"
    assert "a" in {term.term for term in index.explain("A座", "a").terms if term.contribution}
    assert [hit.id for hit in index.search(Query("会议 座", must=["A"]))] == ["a"]
    (marked,) = index.search("A", highlight=True)
    assert marked.highlights is not None
    (fragment,) = marked.highlights
    assert fragment.marks == ((3, 4),)
