"""Property: each condition divides the hits into those that meet it and those that do not, whatever its text is."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, InputError, Query
from rag_bm25.analysis import Analyzer

CHARACTERS = ["税", "增", "值", "合", "カ", "ナ", "책", "을"]
SIGNS = ["😀", "???", "?", "★", "→", "#!", "§"]
STOP_WORDS = ["a", "not", "the", "And"]
WRITTEN = [
    "增值税",
    "税",
    "劳动合同",
    "カナダ",
    "책을",
    "😀",
    "?",
    "→",
    "notary",
    "not",
    "a",
    "the",
    "and",
    "#!",
    "C",
    "ä",
]
CONFIG = IndexConfig(chunk_size=9, analyzer=Analyzer(), fields={"title": FieldWeight(chunk_size=3)})

pieces = st.lists(st.sampled_from([*WRITTEN, *SIGNS]), max_size=6)
texts = pieces.map(" ".join) | pieces.map("".join)
chunks = st.lists(st.tuples(texts, texts), min_size=1, max_size=8)
conditions = st.lists(st.sampled_from([*CHARACTERS, *SIGNS, *STOP_WORDS]), min_size=1, max_size=3).map(" ".join)
any_condition = conditions | st.text(min_size=1, max_size=6).filter(lambda text: text.isprintable() and text.strip())


def stored(given: list[tuple[str, str]]) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    metadatas = [{"title": title} for _, title in given]
    index.add([f"vitamin {text}" for text, _ in given], ids=list(map(str, range(len(given)))), metadatas=metadatas)
    return index


def ids(index: BM25Index, query: Query) -> set[str]:
    return {hit.id for hit in index.search(query, 100)}


@given(chunks, any_condition)
@example([("税", "")], "税 😀")
def test_hits_are_divided(given: list[tuple[str, str]], condition: str) -> None:
    index, every = stored(given), set(map(str, range(len(given))))
    met, unmet = ids(index, Query("vitamin", must=[condition])), ids(index, Query("vitamin", must_not=[condition]))
    assert met | unmet == every
    assert not met & unmet
    for id_ in every:
        reasons = [reason.code for reason in index.diagnose(Query("vitamin", must=[condition]), id_).reasons]
        assert reasons == ([] if id_ in met else ["must"])
        assert bool(index.explain(Query("vitamin", must=[condition]), id_).value) == (id_ in met)


def has(text: str, wanted: str) -> bool:
    """Return whether a text has a character or sign, or a word that no letter touches."""
    if wanted not in STOP_WORDS:
        return wanted in text
    words = re.split(r"[^a-z]+", text.casefold().replace("ä", "a"))
    return wanted.casefold() in words


@given(chunks, st.sampled_from([*CHARACTERS, *SIGNS, *STOP_WORDS]))
def test_a_character_a_sign_and_a_stop_word_are_found_where_they_are_written(
    given: list[tuple[str, str]], wanted: str
) -> None:
    index = stored(given)
    expected = {
        str(at) for at, (text, title) in enumerate(given) if has(f"vitamin {text}", wanted) or has(title, wanted)
    }
    assert ids(index, Query("vitamin", must=[wanted])) == expected
    assert ids(index, Query("vitamin", phrases=[wanted])) == expected
    assert ids(index, Query("vitamin", must_not=[wanted])) == set(map(str, range(len(given)))) - expected


@given(chunks, st.lists(st.sampled_from(CHARACTERS), min_size=2, max_size=3, unique=True))
def test_characters_with_blanks_between_must_all_be_there(given: list[tuple[str, str]], wanted: list[str]) -> None:
    expected = {str(at) for at, (text, title) in enumerate(given) if all(each in f"{text}\n{title}" for each in wanted)}
    assert ids(stored(given), Query("vitamin", must=[" ".join(wanted)])) == expected


@pytest.mark.parametrize("blank", ["", " \n", "\u200b", "\ufeff \u00ad"])
@pytest.mark.parametrize("name", ["must", "must_not", "phrases"])
def test_a_condition_that_nobody_can_see_is_refused(name: str, blank: str) -> None:
    with pytest.raises(InputError, match=rf"^{name}\[0\] must be a str that is not blank"):
        Query("vitamin", **{name: [blank]})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "condition", "met"),
    [
        ("稅", "税", True),  # in traditional characters
        ("什麼？？？", "???", True),
        ("a　\n❤️", "❤", True),  # blanks and invisible characters do not count
        ("→ ★", "→  ★", True),
        ("→\n★", "→ ★", True),
        ("→★", "→ ★", False),
        ("A股", "a", True),
        ("Ä", "a", True),
        ("x" * 70, "x" * 70, True),
        ("x" * 70, "x" * 69, False),
    ],
)
def test_texts_are_compared_in_their_normal_form(text: str, condition: str, met: bool) -> None:
    index = stored([(text, "")])
    assert bool(index.search(Query("vitamin", must=[condition]))) == met


@pytest.mark.parametrize(("text", "met"), [("an apple", True), ("apple pie", False), ("can", False), ("a,an", True)])
def test_other_analyzers_drop_words_too(text: str, met: bool) -> None:
    def without_an(text: str) -> list[str]:
        return [word for word in text.split() if word in ("fig", "pie")]

    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=9, analyzer=without_an))
    index.add([f"fig {text}"])
    for query in (Query("fig", must=["An"]), Query("fig", phrases=["AN"])):
        assert bool(index.search(query)) == met


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ({"must": ["😀"]}, "it lacks a sign of must '😀'"),
        ({"must": ["法"]}, "it lacks a word of must '法'"),
        ({"must_not": ["!"]}, "it has the signs of must_not '!'"),
        ({"must_not": ["the"]}, "it has the words of must_not 'the'"),
        ({"phrases": ["???"]}, "it lacks the phrase '???'"),
    ],
)
def test_an_explanation_names_the_condition(condition: dict[str, list[str]], reason: str) -> None:
    explained = stored([("the tax 税!", "")]).explain(Query("vitamin", **condition), "0")  # type: ignore[arg-type]
    assert explained.reason == reason
