from __future__ import annotations

import ast
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.milvus_logic import parse

from rag_bm25.errors import FilterError
from rag_bm25.filters import ID, And, Comparison, Filter, Not, Or
from rag_bm25.store.milvus.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause
from rag_bm25.store.rows import Scope

A = ("a",)
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
        (Comparison(ID, "==", 'a"b'), r'id == "a\"b"', None, None),
        (Comparison(ID, "in", ("a", "b")), 'id in ["a", "b"]', None, None),
        (Comparison(ID, "not in", ("a",)), 'id not in ["a"]', None, None),
        (Comparison(ID, "not in", ()), 'pk != ""', None, None),
        (Not(Comparison(ID, ">=", "a")), 'id < "a"', None, None),
        (Not(Or((Comparison(ID, "!=", "a"), Comparison(ID, "<", "b")))), '(id == "a") and (id >= "b")', None, None),
        (Comparison(ID, "like", "%"), 'id like "%"', 'id >= ""', 'id like "%"'),
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
        (LITE2, Not(Comparison(ID, "like", "a%")), r"milvus-lite 2.5 cannot evaluate 'not like' at '\$id' exactly"),
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
    clause = where_clause(SERVER, Scope(Or((Comparison(A, "==", 1), Comparison(A, "==", 2))), ("x", 'y"')))
    assert clause == r'((metadata["a"] == 1) or (metadata["a"] == 2)) and (namespace in ["x", "y\""])'
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
    assert where_clause(SERVER, Scope(Comparison(ID, "in", ("or", "--") * 3000)))


@pytest.mark.parametrize("dialect", [SERVER, LITE2, LITE3], ids=lambda dialect: dialect.engine)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text("\\\"'\n\r\t𠮷法a"))
def test_an_engine_reads_back_the_string_that_is_written(dialect: Dialect, text: str) -> None:
    assume(dialect is not LITE2 or not re.search(r"\r(?!\n)", text))
    match parse(f"id == {dialect.quote(text)}", dialect):
        case ast.Compare(ast.Name("id"), [ast.Eq()], [ast.Constant(read)]):
            assert read == text
        case other:
            pytest.fail(f"no comparison with one string: {other}")
