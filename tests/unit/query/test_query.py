from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import InputError, Query, QueryPart


def parts(text: str) -> list[tuple[str, float, bool]]:
    return [(part.text, part.boost, part.prefix) for part in Query.parse(text).parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("合同^2 解除", [("合同", 2, False), ("解除", 1, False)]),
        ('"合同"^0.5', [("合同", 0.5, False)]),
        ('解除"劳动 合同"^2吗', [("解除", 1, False), ("劳动 合同", 2, False), ("吗", 1, False)]),
        ("“劳动合同”^2", [("劳动合同", 2, False)]),
        ("合同^2解除^.5", [("合同", 2, False), ("解除", 0.5, False)]),
        ("合同^2。", [("合同", 2, False), ("。", 1, False)]),
        ("state-of-the-art^3 model", [("state-of-the-art", 3, False), ("model", 1, False)]),
        ("lab* notes", [("lab", 1, True), ("notes", 1, False)]),
        ("new lab*^2.5", [("new", 1, False), ("lab", 2.5, True)]),
        ("2^10", [("2", 10, False)]),
        ("lab＊ 合同＾２ 「解除」^.5", [("lab", 1, True), ("合同", 2, False), ("解除", 0.5, False)]),
    ],
)
def test_operators(text: str, expected: list[tuple[str, float, bool]]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("x^", "^2", "a^-1", "x^2y", "x^2_", "a^2^3", "a ^2 b", "C*D", "a*b*", "*", "* *^2"),
        *('"open^', "--all", "a -> b :-) -( +?", "a-b +", "- a", "x+y", 'C"a"', "1.5^2.5.1", "合同", "a\nb"),
    ],
)
def test_signs_without_a_meaning_are_text(text: str) -> None:
    assert parts(text) == [(text, 1, False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+合同 -word a-b", Query("a", ["合同"], ["word"])),
        ('new "a phrase" x', Query("a", phrases=["a phrase"])),
        ("解除“劳动合同”", Query("a", phrases=["劳动合同"])),
        ('-"a b" +"c d" +lab^3', Query("a", ["lab"], ["a b"], ["c d"])),
        ('"a b"^2 x^2-y "c"-d', Query("a", phrases=["c"])),
        ('\\-5 \\+a \\"quoted words"', Query("a")),
        ('" " x "\u200b" -\u200b', Query("a")),
        ('+A -not -😀 "???"', Query("a", ["A"], ["not", "😀"], ["???"])),
        ("劳动　＋合同 －解除 －－all", Query("a", ["合同"], ["解除"])),
        ('"a b” ＂e f＂ “g h＂ -„i j“', Query("a", must_not=["i j"], phrases=["a b", "e f", "g h"])),
        ('“c d"', Query("a", phrases=["c d"])),
        (
            "«a b» »c d« 「合同」『解除』 ”e f” «g h»",
            Query("a", phrases=["a b", "c d", "合同", "解除", "e f", "g h"]),
        ),
        ('"a “b” c" "d”e" “f"', Query("a", phrases=["a “b” c", "d”e", "f"])),
        ("\\－5 \\「a」 a－b ＋", Query("a")),
    ],
)
def test_signs_at_the_beginning_of_a_word_are_conditions(text: str, expected: Query) -> None:
    query = Query.parse(text)
    assert replace_text(query) == replace_text(expected)
    assert not any(part.text in query.must_not for part in query.parts)


def replace_text(query: Query) -> Query:
    return Query("text", query.must, query.must_not, query.phrases, query.slop)


def test_an_escaped_sign_is_text() -> None:
    assert parts("\\-5 \\+a b\\-c") == [("-5 +a b\\-c", 1, False)]


def test_a_query_without_text_is_ranked_by_what_it_must_have() -> None:
    assert Query(" ", ["a"], ["b"], ["c d"]).parts == (QueryPart("a"), QueryPart("c d"))
    assert Query("x", ["a"]).parts == (QueryPart("x"),)


def test_a_single_condition_needs_a_list() -> None:
    with pytest.raises(InputError) as caught:
        Query("contract", must="side's")
    hint = '; for a single one, pass a list: ["side\'s"]'
    assert str(caught.value) == f'must must be a sequence of str, got "side\'s"{hint}'
    with pytest.raises(InputError, match=r"sequence of str, got 5$"):
        Query("contract", phrases=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_text_has_no_parts(text: str) -> None:
    assert Query.parse(text).parts == ()


@pytest.mark.parametrize("text", ["2^10", "x^2", "lab*", '"合同"^2', "", " a "])
def test_plain_text_is_never_read_as_syntax(text: str) -> None:
    assert Query.of(text).parts == (QueryPart(text),)


def test_every_form_of_a_query() -> None:
    assert Query.of({"合同": 2, "解除": 1.0}) == Query((QueryPart("合同", 2), QueryPart("解除", 1.0)))
    assert Query.of("合同^2", syntax=True) == Query((QueryPart("合同", 2.0),))
    query = Query.parse("lab* notes")
    assert Query.of(query, syntax=True) is query
    assert (str(query), query.has_prefix, Query.of("lab*").has_prefix) == ("lab notes", True, False)


def test_input_of_a_chain_is_told_from_boosts() -> None:
    with pytest.raises(InputError, match=r"a mapping is text -> boost\. Of a chain's input, pass the question"):
        Query.of({"question": "why"})  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["a^0", "a^1001", f"a^{'9' * 400}"])
def test_written_boosts_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="boost of 'a' must be a number in"):
        Query.parse(text)


pieces = st.sampled_from(
    ["a", "合同", "^", "2", "*", '"', "“", "”", "＂", "«", "„", "－", "＾", " ", ".5", "^3", "\\", "😀", "\n"]
)


@given(st.lists(pieces, max_size=12).map("".join) | st.text(max_size=30))
def test_parsing_loses_no_letter_and_raises_nothing_but_our_errors(text: str) -> None:
    try:
        query = Query.parse(text)
    except InputError:
        return
    if not set('"“') & set(text):
        assert [part.text for part in query.parts] == [part.text.strip() or part.text for part in query.parts]
    read = "".join(part.text for part in query.parts)
    left = iter(text)
    assert all(char in left for char in read), "parts are pieces of the text, in its order"
    if not set('^*"“+-\\') & set(text):
        assert read.split() == text.split()


@given(st.text(max_size=30), st.sampled_from([0.5, 2, 7.25]))
def test_a_quoted_text_gets_its_boost_whatever_is_in_it(text: str, boost: float) -> None:
    text = text.replace('"', "") or "x"
    assert parts(f'"{text}"^{boost}') == [(text, boost, False)]
