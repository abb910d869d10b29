from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.errors import FilterError
from rag_bm25.filters import And, Comparison, Expression, Filter, Not, Or
from rag_bm25.store.milvus.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause
from rag_bm25.store.milvus.syntax import check_brackets, check_lite2
from rag_bm25.store.rows import Scope

A = ("a",)
DIVISORS = [
    "0",
    "00",
    "0x1",
    "0.5",
    "-1",
    "1e-9",
    "1a",
    "length",
    "(1)",
    "(2877 / -4571)",
    "2 ** 3",
    "1" * 19,
    "{d}",
    "'x'",
]
SERVER, LITE2, LITE3 = Dialect(), Lite2Dialect(), Lite3Dialect()


@pytest.mark.parametrize(
    ("where", "server", "lite2", "lite3"),
    [
        (Comparison(A, "==", "x"), 'metadata["a"] == "x"', None, None),
        (Comparison(("a", "b"), ">=", 1.5), 'metadata["a"]["b"] >= 1.5', None, None),
        (Comparison(A, "==", True), 'metadata["a"] == true', None, None),
        (
            Comparison(A, "!=", 3),
            (
                '((not (exists metadata["a"])) or (not (metadata["a"] == 3))) or ((metadata["a"] >= "")'
                ' or ((not (not (metadata["a"] in [true, false]))) or (array_length(metadata["a"]) != 0)))'
            ),
            'metadata["a"] != 3',
            'metadata["a"] is null or not (metadata["a"] == 3)',
        ),
        (
            Comparison(A, "in", (1, "x", 2)),
            'not (not ((not (not (metadata["a"] in [1, 2]))) or (not (not (metadata["a"] in ["x"])))))',
            '(metadata["a"] in [1, 2]) or (metadata["a"] in ["x"])',
            '(metadata["a"] == 1) or ((metadata["a"] == "x") or (metadata["a"] == 2))',
        ),
        (Comparison(A, "in", ()), 'pk == ""', None, None),
        (Comparison(A, "like", "%"), 'metadata["a"] like "%"', 'metadata["a"] >= ""', 'metadata["a"] like "%"'),
        (Comparison(A, "like", ""), 'metadata["a"] == ""', None, None),
        (
            And((Comparison(A, ">=", 1), Comparison(A, "<", 2.5))),
            '(not (not (metadata["a"] >= 1))) and (not (not (metadata["a"] < 2.5)))',
            '(metadata["a"] >= 1) and (metadata["a"] < 2.5)',
            '(metadata["a"] >= 1) and (metadata["a"] < 2.5)',
        ),
        (
            Comparison(A, "contains", 2),
            'json_contains(metadata["a"], 2.0)',
            None,
            'json_contains(metadata["a"], 2.0) and not (metadata["a"] like "%")',
        ),
        (
            Comparison(A, "==", "a\nb"),
            r'metadata["a"] == "a\nb"',
            'metadata["a"] == "a\\\nb"',
            r'metadata["a"] == "a\nb"',
        ),
        (
            Not(And((Comparison(A, "==", 1), Not(Comparison(A, "==", 2))))),
            (
                '(((not (exists metadata["a"])) or (not (metadata["a"] == 1))) or ((metadata["a"] >= "")'
                ' or ((not (not (metadata["a"] in [true, false]))) or (array_length(metadata["a"]) != 0))))'
                ' or (metadata["a"] == 2)'
            ),
            '(metadata["a"] != 1) or (metadata["a"] == 2)',
            '(metadata["a"] is null or not (metadata["a"] == 1)) or (metadata["a"] == 2)',
        ),
    ],
)
def test_each_dialect_writes_its_own(where: Filter, server: str, lite2: str | None, lite3: str | None) -> None:
    assert where_clause(SERVER, Scope(where)) == server
    assert where_clause(LITE2, Scope(where)) == (lite2 or server)
    assert where_clause(LITE3, Scope(where)) == (lite3 or server)


@pytest.mark.parametrize(
    ("dialect", "where", "message"),
    [
        (LITE2, Comparison(A, "exists", True), "milvus-lite 2.5 cannot evaluate 'exists' at 'a' exactly"),
        (LITE2, Not(Comparison(A, ">", 1)), "milvus-lite 2.5 cannot evaluate 'not >' at 'a' exactly"),
        (LITE2, Not(Comparison(A, "contains", 1)), "milvus-lite 2.5 cannot evaluate 'not contains' at 'a' exactly"),
        (LITE3, Not(Comparison(A, "<=", 1)), "milvus-lite 3 cannot evaluate 'not <=' at 'a' exactly"),
        (LITE2, Comparison(A, "==", "a\rb"), r"milvus-lite 2.5 cannot compare with a carriage return, got 'a\\rb'"),
        (SERVER, Comparison(("a][b",), "==", 1), r"Milvus cannot read a key with '\]\['; rename the key 'a\]\[b'"),
        (
            SERVER,
            Comparison(("𠮷",), "==", 1),
            "Milvus cannot read a key of nothing but rare ideographs; rename the key",
        ),
        (LITE2, Not(Expression("length == 1")), "milvus-lite 2.5 needs a field or a parenthesis here"),
        (
            SERVER,
            Comparison(("3d",), "==", 1),
            "Milvus cannot read a key that begins with a digit; rename the key '3d'",
        ),
        (
            SERVER,
            Comparison(("a", "0"), "==", 1),
            "Milvus reads a key of digits also as a place in a list; rename 0 in",
        ),
        (LITE2, Comparison(("a", "10"), "==", 1), "milvus-lite 2.5 reads a key of digits also as a place in a list"),
    ],
)
def test_what_an_engine_cannot_evaluate_names_it(dialect: Dialect, where: Filter, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        where_clause(dialect, Scope(where))


@pytest.mark.parametrize(
    ("key", "server", "lite3"),
    [
        ("法律", '"法律"', '"法律"'),
        ('a"b\\c\n', r'"a\u0022b\u005cc\u000a"', r'"a\"b\\c\n"'),
        ("𠮷野", '"𠮷\\u91ce"', '"𠮷野"'),
        ("😀", '"😀"', '"😀"'),
    ],
)
def test_a_server_decodes_keys_by_rules_of_their_own(key: str, server: str, lite3: str) -> None:
    assert SERVER.path([key]) == f"metadata[{server}]"
    assert LITE3.path([key]) == f"metadata[{lite3}]"


def test_milvus_would_cut_rare_ideographs_to_16_bits() -> None:
    assert SERVER.quote("𠮷野家") == r'"\U00020bb7野家"'
    assert LITE2.quote("𠮷野家") == LITE3.quote("𠮷野家") == '"𠮷野家"'


@pytest.mark.parametrize("path", [("0",), ("2024",), ("a", "01"), ("a", "-1"), ("v2",)])
def test_digits_are_read_where_they_can_be_no_place_in_a_list(path: tuple[str, ...]) -> None:
    assert SERVER.path(path).endswith(f'"{path[-1]}"]')
    assert LITE3.path([*path, "0"])


def test_namespaces_and_filters_both_hold() -> None:
    clause = where_clause(SERVER, Scope(Expression("a == 1 or b == 2"), ("x", 'y"')))
    assert clause == r'(a == 1 or b == 2) and (namespace in ["x", "y\""])'
    assert where_clause(SERVER, Scope()) == ""
    assert where_clause(SERVER, Scope(namespaces=())) == 'pk == ""'


def test_long_chains_become_trees() -> None:
    clause = where_clause(LITE2, Scope(Or(tuple(Comparison(A, "==", n) for n in range(1000)))))
    depth = deepest = 0
    for char in clause:
        depth += (char == "(") - (char == ")")
        deepest = max(deepest, depth)
    assert deepest == 10


def test_filters_of_a_megabyte_are_refused() -> None:
    with pytest.raises(FilterError, match="must not exceed 1000000 characters when written for Milvus, got 10"):
        where_clause(SERVER, Scope(Comparison(A, "==", "x" * 1_000_000)))


def test_a_mapping_makes_no_chain_that_ends_a_server() -> None:
    longest = Or((Comparison(A, "==", ") or ("),) * 2500)
    assert where_clause(LITE2, Scope(Or((longest, longest))))
    assert where_clause(SERVER, Scope(longest))
    with pytest.raises(FilterError, match="must not exceed 5,000 operators when written for Milvus, got 9,999"):
        where_clause(SERVER, Scope(Or((longest, longest))))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_string_stays_inside_its_literal(text: str) -> None:
    for dialect in (SERVER, LITE3):
        check_brackets(dialect.quote(text))
    written = SERVER.quote(text)
    assert "\n" not in written
    check_brackets(f"namespace == {written}")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))
def test_lite2_reads_back_what_its_dialect_writes(text: str) -> None:
    check_lite2(f"id == {LITE2.quote(text)} and length == 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a == 1) or (b == 2", r"'\)' that closes nothing at position 6"),
        ("(a == 1", r"the end, with '\(' still open at position 7"),
        ("a in [1)", r"'\)' that closes nothing at position 7"),
        ("a == 'b", "a string that does not end at position 5"),
        ('a == "b\\"', "a string that does not end at position 5"),
    ],
)
def test_brackets_must_match(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        check_brackets(text)


@pytest.mark.parametrize("text", ["a == ')'", 'a == "(" and b == "\\")"', "(a == 1) and [b]", "{a} == '{'"])
def test_brackets_in_strings_do_not_count(text: str) -> None:
    check_brackets(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"length / {divisor} == 1", "a divisor must be a number from 1 on") for divisor in DIVISORS),
        ("length % 0 == 1", r"'%' at position 7; a divisor must be a number from 1 on"),
        ('metadata["a"]%metadata["b"] == 1', "'%' at position 13; a divisor"),
        ("length in [1 / length]", "'/' at position 13; a divisor"),
        ("(true + false) == metadata['a']", "'true \\+' at position 1; true and false are no numbers"),
        ("length - (FALSE) == 1", "true and false are no numbers"),
        ("array_contains_all(metadata['a'], [ ])", r"'\[ \]' at position 34; a list must not be empty"),
        ("length == 1 and RANDOM_SAMPLE(0.1)", "'RANDOM_SAMPLE' at position 16; a server may hang"),
        (f"{'(' * 33}length == 1{')' * 33}", r"'\(' at position 32; at most 32 brackets may be nested"),
        (" or ".join(["length == 1"] * 2501), "must not exceed 5,000 operators when written for Milvus, got 5,001"),
        (f"{'not ' * 5000}length == 1", "got 5,001: use \\$in"),
        (f"length == {'-' * 5000}1", "got 5,001"),
    ],
)
def test_no_expression_ends_a_server(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        where_clause(SERVER, Scope(Expression(text)))


@pytest.mark.parametrize(
    "text",
    [
        "length / 2 == 1",
        "length%2.5 == 1",
        "(length / 1000) * 3 == 1 and length / 999999999999999999==0",
        "id == 'a / 0' or metadata['true % 0'] == \"[] random_sample \\\" / 0\"",
        "metadata['a'] == true and -1 < length",
        "metadata['a'] in [true, -1] or trueish - 1 == 2",
        f"length in [{', '.join(['-1'] * 6000)}]",
        " or ".join(["length == 1"] * 2500),
        f"{'(' * 32}length == 1{')' * 32}",
    ],
)
def test_what_ends_no_server_is_sent_as_it_is(text: str) -> None:
    assert where_clause(SERVER, Scope(Expression(text))) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length >= 0 andd length == 2", r"'andd' at position 12; milvus-lite 2.5 needs and, or, or the end here"),
        ("(length >= 0 xyz)", r"'xyz' at position 13; milvus-lite 2.5 needs '\)' here"),
        ("length == ", "the end at position 10; milvus-lite 2.5 needs a literal"),
        ("length == 9223372036854775808", "needs a literal: a string, a decimal number below"),
        ("length == 1e", "'1' at position 10"),
        ("not length == 1", "'not' at position 0"),
        ('metadata["a"', r"'\[' at position 8"),
        ("metadata['a\"b'] == 1", r"'\[' at position 8"),
        ("a == 1 # b", "'#' at position 7; in strings, milvus-lite 2.5 reads no escapes but"),
        ("a == 1; b == 2", "';' at position 6"),
        ("json_contains(a, )", r"'\)' at position 17"),
        ("array_length(a)", "needs a comparison, in, not in or like here"),
        ("", "the end at position 0"),
        ("法 == 1", "'法' at position 0"),
    ],
)
def test_lite2_takes_only_what_it_reads_as_written(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        check_lite2(text)


@given(st.text("abc()[]\"'\\ <>=!andornotinlike0123456789.,%-+{}#", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        check_lite2(text)
    except FilterError:
        return
    check_brackets(text)  # what is read has matching brackets
