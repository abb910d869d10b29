from __future__ import annotations

import zlib
from collections.abc import Iterator, Reversible

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import any_terms

from rag_bm25.vectors import terms
from rag_bm25.vectors.terms import (
    BIGRAM_MARK,
    NO_TERMS_ID,
    TermIds,
    Vocabulary,
    assign_known_ids,
    channel_of,
    channels_of,
    displaced_terms,
    is_bigram,
    num_words,
    term_id,
    term_ids,
    term_name,
)


@pytest.mark.parametrize(
    ("term", "id_"),
    [("milvus", 725768567), ("检索", 3218957596), ("a", 3904355907), ("x" * 100, 1577999759)],
)
def test_id_is_the_crc32_of_utf8(term: str, id_: int) -> None:
    assert term_id(term) == id_ == zlib.crc32(term.encode())


def test_only_the_first_100_bytes_are_hashed() -> None:
    assert term_id("x" * 100) == term_id("x" * 100 + "y")
    assert term_id("x" * 99 + "y") != term_id("x" * 99 + "z")


def test_bytes_are_cut_not_characters() -> None:
    assert term_id("中" * 40) == zlib.crc32(("中" * 40).encode()[:100])


@given(any_terms)
def test_id_is_a_dimension_that_milvus_takes(term: str) -> None:
    assert 1 <= term_id(term) <= 2**32 - 2


def test_no_term_gets_the_reserved_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "ID_SPACE", 3)
    ids = {term_id(str(number)) for number in range(50)}
    assert ids == {1, 2}
    assert NO_TERMS_ID == 0


@given(st.lists(any_terms | st.text("中x", min_size=30, max_size=110)), st.sampled_from([3, terms.ID_SPACE]))
def test_many_terms_have_the_ids_that_each_has(some: list[str], space: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "ID_SPACE", space)
        assert term_ids(some).tolist() == [term_id(term) for term in some]


@given(st.dictionaries(any_terms, st.booleans()))
def test_displaced_terms_are_those_whose_id_is_not_their_hash(moved: dict[str, bool]) -> None:
    ids = {term: term_id(term) + is_moved for term, is_moved in moved.items()}
    assert displaced_terms(ids) == {term: ids[term] for term, is_moved in moved.items() if is_moved}


def test_term_ids_hash_what_is_not_displaced() -> None:
    ids = TermIds({"moved": 7})
    assert (ids["moved"], ids["other"]) == (7, term_id("other"))


@given(st.lists(any_terms | st.just("a\ud800"), unique=True))
def test_term_ids_of_many_are_those_of_each(some: list[str]) -> None:
    displaced = dict.fromkeys(some[::3], 7)
    found = TermIds(displaced).of(some)
    assert [found[term] for term in some] == [TermIds(displaced)[term] for term in some]


@given(st.lists(any_terms | any_terms.map(lambda text: f"{BIGRAM_MARK}{text}")))
def test_channels_of_many_are_those_of_each(some: list[str]) -> None:
    assert channels_of(some).tolist() == list(map(channel_of, some))


@given(st.lists(st.lists(any_terms, max_size=12, unique=True), max_size=4), st.sampled_from([200, terms.ID_SPACE]))
def test_terms_that_are_looked_up_at_once_get_the_ids_of_one_after_the_other(
    batches: list[list[str]], space: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "ID_SPACE", space)
        at_once, each = Vocabulary().stage(), Vocabulary().stage()
        for batch in batches:
            at_once.look_up(batch)
            assert dict(at_once) == {term: each[term] for term in dict(at_once)}
        assert at_once.new == each.new


def test_the_channels_have_spaces_of_their_own() -> None:
    assert term_id(f"{BIGRAM_MARK}检索") != term_id("检索")
    vocabulary = _grown(["检索", f"{BIGRAM_MARK}检索"])
    assert [is_bigram(term) for term in vocabulary] == [False, True]


def test_words_are_counted_without_bigrams() -> None:
    assert [num_words(terms) for terms in ([], ["a", "a"], ["a", "\0ab", "\0bc"], ["\0ab"])] == [0, 2, 1, 0]


def test_terms_are_named_with_their_channel() -> None:
    assert [term_name(term) for term in ("检索", "it's", "\0检索")] == ["'检索'", '"it\'s"', "bigram '检索'"]


def _grown(*batches: list[str]) -> Vocabulary:
    vocabulary = Vocabulary()
    for batch in batches:
        staged = vocabulary.stage()
        for term in batch:
            assert staged[term]
        vocabulary.add(staged.new)
    return vocabulary


def test_vocabulary_finds_terms_and_ids_both_ways() -> None:
    vocabulary = _grown(["milvus", "检索"])
    assert vocabulary.id("检索") == term_id("检索")
    assert vocabulary.term(term_id("检索")) == "检索"
    assert "检索" in vocabulary
    assert 7 not in vocabulary


def test_vocabulary_lists_terms_in_the_order_first_seen() -> None:
    vocabulary = _grown(["b", "a"], ["c", "a"])
    assert list(vocabulary) == ["b", "a", "c"]
    assert list(vocabulary.ids) == [term_id(term) for term in "bac"]


def test_terms_are_listed_while_another_thread_adds_some(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = _grown(["apple", "banana"])

    def reverse_slowly(terms: Reversible[str]) -> Iterator[str]:
        found = reversed(terms)
        vocabulary.add({"cherry": term_id("cherry")})
        return found

    monkeypatch.setattr(terms, "reversed", reverse_slowly, raising=False)
    assert vocabulary.after(1) == ["banana", "cherry"]


def test_known_terms_are_not_new() -> None:
    staged = _grown(["milvus"]).stage()
    assert staged["milvus"] == term_id("milvus")
    assert staged.new == {}


def test_hash_of_another_term_is_not_an_id(tiny_id_space: int) -> None:
    first, second = _colliding_pair()
    vocabulary = _grown([first])
    assert vocabulary.id(second) is None
    assert second not in vocabulary


def test_colliding_term_is_displaced_within_a_batch(tiny_id_space: int) -> None:
    first, second = _colliding_pair()
    vocabulary = _grown([first, second])
    assert vocabulary.id(first) == term_id(first)
    assert vocabulary.id(second) != term_id(second)
    assert vocabulary.displaced == {second: vocabulary.id(second)}


def test_colliding_term_is_displaced_in_a_later_batch(tiny_id_space: int) -> None:
    first, second = _colliding_pair()
    vocabulary = _grown([first], [second])
    assert list(vocabulary.displaced) == [second]
    assert vocabulary.term(vocabulary.displaced[second]) == second


def test_all_ids_but_the_reserved_one_can_be_taken(tiny_id_space: int) -> None:
    words = [f"w{number}" for number in range(tiny_id_space - 1)]
    vocabulary = _grown(words[:5], words[5:])
    assert {vocabulary.id(word) for word in words} == set(range(1, tiny_id_space))


def test_adding_known_terms_again_changes_nothing(tiny_id_space: int) -> None:
    first, second = _colliding_pair()
    vocabulary = _grown([first, second])
    displaced = dict(vocabulary.displaced)
    vocabulary.add({first: term_id(first), second: displaced[second]})
    assert (list(vocabulary), vocabulary.displaced) == ([first, second], displaced)


def test_taken_id_keeps_its_first_term() -> None:
    vocabulary = Vocabulary()
    vocabulary.add({"first": 5})
    vocabulary.add({"second": 5})
    assert vocabulary.term(5) == "first"
    assert "second" not in vocabulary.displaced


def test_lost_terms_are_found_again_by_their_ids(tiny_id_space: int) -> None:
    first, second = _colliding_pair()
    vocabulary = _grown([first, second])
    ids = {first: term_id(first), second: vocabulary.displaced[second]}
    assert assign_known_ids([first, second, "elsewhere"], ids.values()) == ids
    assert assign_known_ids([second], [ids[second]]) == {second: ids[second]}


def test_terms_with_other_ids_are_not_found_again() -> None:
    assert assign_known_ids(["a", "b"], [7]) == {}
    assert assign_known_ids(["a", "a"], [term_id("a"), 7]) == {"a": term_id("a")}


def _colliding_pair() -> tuple[str, str]:
    """Find two words with one hash in the present id space."""
    seen: dict[int, str] = {}
    for number in range(100):
        word = f"w{number}"
        other = seen.setdefault(term_id(word), word)
        if other != word:
            return other, word
    raise AssertionError
