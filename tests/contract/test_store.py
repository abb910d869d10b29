"""What every store promises, on every engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engines
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_store import matches

from rag_bm25.errors import FilterError, StoreError
from rag_bm25.filters import And, Comparison, Expression, Not, Or, parse_filter
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.store import ChunkRow, LogRow, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rag_bm25.filters import Filter
    from rag_bm25.store import Store

ONE = SparseVector.from_dict({1: 1.0})
TOP = 2**32 - 2

HOSTILE = {
    "quotes": "it's \"quoted\" and 'quoted'",
    "backslashes": "\\ \\\\ \\n \\' \\\" end\\",
    "lines": "a\nb\r\nc\td\n",
    "unicode": "劳动合同 解除 ﷽ 👩‍👩‍👧 é é \u2028 \u0085",
    "controls": "\x01\x1b\x7f",
    "injection": "x') OR ('1'='1",
    "braces": "{x} {{y}} %s %(a)s",
    "wildcards": "%_100%",
    "empty": "",
    "blank": "  ",
}


def chunk(number: int, **changes: Any) -> ChunkRow:
    facts = {"pk": f"{number:08x}a", "id": f"id-{number}", "namespace": "", "length": number, "batch": "b1"}
    return ChunkRow(**{**facts, "text": f"text {number}", "vector": ONE, **changes})


def by_pk(rows: Iterable[ChunkRow]) -> dict[str, ChunkRow]:
    found = list(rows)
    keyed = {row.pk: row for row in found}
    assert len(keyed) == len(found), "a row came twice"
    return keyed


def scanned(store: Store, **options: Any) -> dict[str, ChunkRow]:
    return by_pk(row for batch in store.scan_chunks(**options) for row in batch)


def pks(matches: list[Match]) -> list[str]:
    return [match.row.pk for match in matches]


class TestCollections:
    def test_do_not_exist_before_they_are_created(self, opened: Callable[..., Store]) -> None:
        assert not opened().exists()

    def test_exist_once_created(self, store: Store) -> None:
        assert store.exists()

    def test_creating_again_keeps_the_rows(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        store.create()
        assert store.count_chunks() == 1

    def test_dropping_removes_everything(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        store.insert_log([LogRow("k", "delta")])
        store.drop()
        assert not store.exists()
        store.create()
        assert (store.count_chunks(), store.log_keys()) == (0, [])

    def test_dropping_what_is_not_there_is_allowed(self, opened: Callable[..., Store]) -> None:
        opened().drop()

    def test_two_of_one_database_do_not_mix(self, opened: Callable[..., Store], store: Store) -> None:
        other = opened("other")
        other.create()
        store.insert_chunks([chunk(1)])
        other.insert_chunks([chunk(2), chunk(3)])
        assert (store.count_chunks(), other.count_chunks()) == (1, 2)
        other.drop()
        assert store.count_chunks() == 1

    def test_two_stores_on_one_collection_see_each_other_s_writes(
        self, opened: Callable[..., Store], store: Store
    ) -> None:
        other = opened()
        other.insert_chunks([chunk(1)])
        assert pks(store.search([ONE], limit=3)[0]) == [chunk(1).pk]

    def test_closing_twice_is_allowed_and_using_a_closed_store_is_not(self, opened: Callable[..., Store]) -> None:
        store = opened()
        store.close()
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            store.count_chunks()


class TestEmptyStore:
    def test_reads_find_nothing(self, store: Store) -> None:
        assert store.count_chunks() == 0
        assert store.get_chunks(["ab"], vectors=True) == []
        assert scanned(store, vectors=True) == {}
        assert store.search([ONE, ONE], limit=3) == [[], []]
        assert store.log_keys() == []
        assert store.get_log(["k"]) == []

    def test_empty_arguments_do_nothing(self, store: Store) -> None:
        store.insert_chunks([])
        store.delete_chunks([])
        store.insert_log([])
        store.delete_log([])
        assert store.get_chunks([]) == []
        assert store.get_log([]) == []
        assert store.search([], limit=1) == []


class TestChunks:
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_strings_come_back_as_they_went_in(self, store: Store, text: str) -> None:
        row = chunk(1, id=text or "-", namespace=text, text=text, metadata={"k": text, text: [text]})
        store.insert_chunks([row])
        assert store.get_chunks([row.pk], vectors=True) == [row]

    def test_a_text_of_65535_bytes_comes_back(self, store: Store) -> None:
        row = chunk(1, text="文" * 21845)
        store.insert_chunks([row])
        assert store.get_chunks([row.pk])[0].text == row.text

    @pytest.mark.parametrize(
        "metadata",
        [
            {},
            {"null": None, "list": [], "dict": {}, "true": True, "false": False},
            {"int": 3, "float": 3.0, "big": 2**53 + 1, "max": 2**63 - 1, "min": -(2**63)},
            {"tiny": 5e-324, "huge": 1.7976931348623157e308, "third": 1 / 3, "minus zero": -0.0, "e": 1e16},
            {"deep": [[[[{"a": {"b": {"c": [1, [2.5, None, "x"]]}}}]]]]},
            {"keys": {"a.b": 1, "": 2, "$meta": 3, "键": 4, "id": 5, "pk": 6}},
        ],
    )
    def test_metadata_come_back_exactly(self, store: Store, metadata: dict[str, Any]) -> None:
        store.insert_chunks([chunk(1, metadata=metadata)])
        found = store.get_chunks([chunk(1).pk])[0].metadata
        assert repr(found) == repr(metadata)  # repr tells 3 from 3.0 and 0.0 from -0.0

    def test_vectors_come_back_bit_for_bit(self, store: Store) -> None:
        rng = np.random.default_rng(1)
        ids = np.unique(np.concatenate([rng.integers(1, TOP, 5000), [1, 2**31, TOP - 1, TOP]])).astype(np.uint32)
        vector = SparseVector(ids, rng.random(len(ids)).astype(np.float32))
        store.insert_chunks([chunk(1, vector=vector)])
        assert store.get_chunks([chunk(1).pk], vectors=True)[0].vector == vector

    def test_what_was_not_asked_for_is_empty(self, store: Store) -> None:
        row = chunk(1, metadata={"a": 1})
        store.insert_chunks([row])
        (bare,) = store.get_chunks([row.pk], contents=False)
        assert (bare.text, bare.metadata, bare.vector) == ("", {}, EMPTY)
        assert (bare.id, bare.namespace, bare.length, bare.batch) == (row.id, "", 1, "b1")

    def test_a_pk_asked_for_twice_comes_once_and_a_missing_one_not_at_all(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        assert len(store.get_chunks([chunk(1).pk, chunk(1).pk, "ffff"])) == 1

    def test_every_write_is_visible_to_every_read_at_once(self, store: Store) -> None:
        for number in range(30):
            store.insert_chunks([chunk(number)])
            assert store.count_chunks() == 1
            assert pks(store.search([ONE], limit=2)[0]) == [chunk(number).pk]
            assert scanned(store).keys() == {chunk(number).pk}
            store.delete_chunks([chunk(number).pk])
            assert store.get_chunks([chunk(number).pk]) == []
            assert store.search([ONE], limit=2) == [[]]

    def test_deleting_is_repeatable_and_ignores_what_is_not_stored(self, store: Store) -> None:
        store.insert_chunks([chunk(1), chunk(2)])
        for _ in range(2):
            store.delete_chunks([chunk(1).pk, "ffff"])
            assert scanned(store).keys() == {chunk(2).pk}

    def test_a_deleted_row_can_be_stored_again_with_other_contents(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        store.delete_chunks([chunk(1).pk])
        again = chunk(1, text="again", vector=SparseVector.from_dict({7: 2.0}))
        store.insert_chunks([again])
        assert store.get_chunks([again.pk], vectors=True) == [again]
        assert store.search([ONE], limit=2) == [[]]

    def test_messages_larger_than_engines_take_are_split(self, store: Store) -> None:
        large = {"text": "x" * 65535, "metadata": {"m": "y" * 30_000}}
        rows = [chunk(number, **large) for number in range(1000)]  # 95 MB
        store.insert_chunks(rows)
        expected = by_pk(chunk(number, **large, vector=EMPTY) for number in range(1000))
        assert by_pk(store.get_chunks([row.pk for row in rows])) == expected
        assert scanned(store, contents=True) == expected
        assert by_pk(match.row for match in store.search([ONE], limit=1000)[0]) == expected


class TestManyRows:
    def test_none_are_lost_beyond_16384(self, store: Store) -> None:
        numbers = range(20_000)
        rows = [chunk(n, vector=SparseVector.from_dict({n % 7 + 1: 1.0 + n})) for n in numbers]
        for start in numbers[::5000]:
            store.insert_chunks(rows[start : start + 5000])
        assert store.count_chunks() == 20_000
        got = by_pk(store.get_chunks([row.pk for row in rows], vectors=True))
        assert got == by_pk(rows)
        assert scanned(store, contents=True, vectors=True) == got
        some = scanned(store, where=parse_filter({"$not": {"absent": 1}}), namespaces=["", "other"])
        assert some.keys() == got.keys()
        store.delete_chunks([row.pk for row in rows[:18_000]])
        assert scanned(store).keys() == {row.pk for row in rows[18_000:]}


class TestSearch:
    @pytest.fixture
    def corpus(self, store: Store) -> list[ChunkRow]:
        rng = np.random.default_rng(7)
        rows = []
        for number in range(500):
            ids = np.unique(rng.integers(1, 400, 30)).astype(np.uint32)
            weights = SparseVector(ids, rng.random(len(ids)).astype(np.float32))
            rows.append(chunk(number, vector=weights, namespace="even" if number % 2 == 0 else "odd"))
        store.insert_chunks(rows)
        return rows

    @pytest.fixture
    def queries(self) -> list[SparseVector]:
        rng = np.random.default_rng(8)
        drawn = (np.unique(rng.integers(1, 400, 8)).astype(np.uint32) for _ in range(150))
        return [SparseVector(ids, (rng.random(len(ids)) * 5).astype(np.float32)) for ids in drawn]

    def test_scores_and_order_equal_numpy(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        for query, found in zip(queries, store.search(queries, limit=20), strict=True):
            scores = sorted((query.dot(row.vector) for row in corpus), reverse=True)[:20]
            assert [match.score for match in found] == pytest.approx(scores, rel=1e-6)
            vectors = {row.pk: row.vector for row in corpus}
            own = [query.dot(vectors[match.row.pk]) for match in found]
            assert [match.score for match in found] == pytest.approx(own, rel=1e-6)

    def test_rows_come_with_contents_and_without_vectors(self, store: Store) -> None:
        store.insert_chunks([chunk(1, metadata={"a": [1]}, namespace="n")])
        assert store.search([ONE], limit=1) == [
            [Match(chunk(1, metadata={"a": [1]}, namespace="n", vector=EMPTY), 1.0)]
        ]

    def test_rows_without_a_shared_dimension_are_never_returned(self, store: Store) -> None:
        store.insert_chunks([chunk(n, vector=SparseVector.from_dict({n + 10: 1.0})) for n in range(50)])
        found = store.search([SparseVector.from_dict({12: 1.0, 9999: 1.0})], limit=50)
        assert pks(found[0]) == [chunk(2).pk]

    def test_a_namespace_restricts_the_rows(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        found = store.search(queries[:5], limit=500, namespaces=["odd"])
        assert {match.row.namespace for matches_ in found for match in matches_} == {"odd"}
        for query, matches_ in zip(queries, found, strict=False):
            assert len(matches_) == sum(query.dot(row.vector) > 0 for row in corpus if row.namespace == "odd")

    def test_no_namespaces_mean_no_rows(self, store: Store, corpus: list[ChunkRow]) -> None:
        assert store.search([corpus[0].vector], limit=5, namespaces=[]) == [[]]
        assert scanned(store, namespaces=[]) == {}

    @pytest.mark.parametrize(
        "namespace", [text for text in HOSTILE.values() if text], ids=[k for k in HOSTILE if HOSTILE[k]]
    )
    def test_any_string_can_be_a_namespace(self, store: Store, namespace: str) -> None:
        store.insert_chunks([chunk(1, namespace=namespace), chunk(2, namespace="x"), chunk(3, namespace="")])
        assert pks(store.search([ONE], limit=5, namespaces=[namespace])[0]) == [chunk(1).pk]
        assert scanned(store, namespaces=[namespace, "x"]).keys() == {chunk(1).pk, chunk(2).pk}

    def test_ties_are_ordered_by_id_whatever_the_limit(self, store: Store) -> None:
        rng = np.random.default_rng(3)
        rows = [chunk(int(n), id=f"{n:05}") for n in rng.permutation(3000)]
        rows[7:9] = [chunk(7777, id="00000"), chunk(7778, id="zzzz", vector=SparseVector.from_dict({1: 2.0}))]
        store.insert_chunks(rows)
        order = sorted(rows, key=lambda row: (-row.vector.get(1), row.id, row.pk))
        for limit in (1, 2, 10, 999, 2999, 3000, 5000, 16384):
            (found,) = store.search([ONE], limit=limit)
            assert pks(found) == [row.pk for row in order[:limit]]

    def test_many_queries_at_once_equal_one_at_a_time(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        together = store.search(queries, limit=5)
        assert together[::30] == [store.search([query], limit=5)[0] for query in queries[::30]]


DOCUMENTS: dict[str, dict[str, Any]] = {
    "three": {"a": 3},
    "three float": {"a": 3.0},
    "three and a half": {"a": 3.5},
    "string three": {"a": "3"},
    "true": {"a": True},
    "false": {"a": False},
    "null": {"a": None},
    "missing": {"b": 1},
    "none at all": {},
    "one": {"a": 1},
    "zero": {"a": 0},
    "minus three": {"a": -3},
    "big": {"a": 2**53 + 1},
    "largest": {"a": 2**63 - 1},
    "float large": {"a": 1e300},
    "list": {"a": [1, "x", 2.0, True]},
    "list of lists": {"a": [[1], ["x"]]},
    "empty list": {"a": []},
    "string that looks like a list": {"a": '["x", 1]'},
    "object": {"a": {"b": 1, "c": "y", "d": {"e": True}}},
    "empty object": {"a": {}},
    "abc": {"a": "abc"},
    "abcd": {"a": "abcd"},
    "ABC": {"a": "ABC"},
    "a.c": {"a": "a.c"},
    "regex": {"a": "a(b[c"},
    "chinese": {"a": "法律条文"},
    "emoji": {"a": "👩‍👧"},
    **{f"hostile {name}": {"a": text} for name, text in HOSTILE.items()},
    **{f"key {name}": {text: 1} for name, text in HOSTILE.items() if text},
    "dotted": {"a.b": 1},
    "slash": {"a/b": 1, "a~b": 2, "~1": 3, "a]b": 4},
    "digit": {"0": 1},
}
VALUES: list[Any] = [3, 3.0, 3.5, -3, 2**53 + 1, 2**63 - 1, 1e300, "3", "", "abc", "法律条文", *HOSTILE.values()]
BOOLS: list[Any] = [True, False, 0, 1]
PATTERNS = [
    "abc",
    "a%",
    "%c",
    "%b%",
    "a%c",
    "%",
    "%%",
    "",
    "法%",
    "%条%",
    "a.c",
    "a(b[c%",
    "%👧",
    "%\n%",
    "it's%",
    '%"%',
    "%b%c%",
]
A = ("a",)
CONDITIONS: list[Filter] = [
    *(Comparison(A, op, value) for op in ("==", "!=") for value in VALUES),
    *(Comparison(A, op, value) for op in (">", ">=", "<", "<=") for value in VALUES),
    *(
        Comparison(A, op, tuple(some))
        for op in ("in", "not in")
        for some in ([], [3], [3.5, -3], ["3", 3, "abc"], VALUES)
    ),
    *(Comparison(A, "like", pattern) for pattern in PATTERNS),
    *(Comparison(A, "contains", value) for value in (2, 2.0, 3, "x", "y", "", *HOSTILE.values())),
    Comparison(A, "exists", True),
    Comparison(("a", "b"), "==", 1),
    Comparison(("a", "b"), "!=", 1),
    Comparison(("a", "c"), "like", "y%"),
    Comparison(("a.b",), "==", 1),
    Comparison(("0",), "==", 1),
    *(Comparison((key,), "==", value) for key, value in DOCUMENTS["slash"].items()),
    *(Comparison((text,), "==", 1) for text in HOSTILE.values() if text),
]
WITH_BOOLS: list[Filter] = [
    *(Comparison(A, op, value) for op in ("==", "!=") for value in BOOLS),
    *(Comparison(A, op, (value, "x")) for op in ("in", "not in") for value in BOOLS),
    Comparison(A, "<", 1),
    Comparison(A, ">=", 0),
    Comparison(("a", "d", "e"), "==", True),
    Comparison(A, "contains", 1),
    Comparison(A, "contains", True),
]


class TestFilters:
    @pytest.fixture
    def documents(self, store: Store) -> Store:
        rows = [chunk(at, id=name, metadata=data) for at, (name, data) in enumerate(DOCUMENTS.items())]
        store.insert_chunks(rows)
        return store

    def found(self, store: Store, where: Filter) -> set[str]:
        (searched,) = store.search([ONE], limit=1000, where=where)
        ids = {match.row.id for match in searched}
        assert {row.id for row in scanned(store, where=where).values()} == ids
        return ids

    def differences(self, store: Store, engine: str, conditions: list[Filter]) -> list[tuple[Filter, set[str]]]:
        confused = {"true", "false"} if engines.dialect_of(engine) == "lite3" else set()
        differing = []
        for where in conditions:
            if is_refused(engine, where):
                with pytest.raises(FilterError, match="milvus-lite"):
                    self.found(store, where)
                continue
            expected = {name for name, data in DOCUMENTS.items() if matches(where, data)}
            found = self.found(store, where)
            if (found ^ expected) - confused:
                differing.append((where, found ^ expected))
        return differing

    def test_every_condition_means_the_same_everywhere(self, documents: Store, engine: str) -> None:
        assert self.differences(documents, engine, CONDITIONS) == []

    def test_every_opposite_means_the_same_everywhere(self, documents: Store, engine: str) -> None:
        assert self.differences(documents, engine, [Not(where) for where in CONDITIONS]) == []

    def test_bools_are_no_numbers(self, documents: Store, engine: str) -> None:
        if engines.dialect_of(engine) == "lite3":
            pytest.skip("milvus-lite 3 compares as Python does, where True equals 1")
        conditions = [*WITH_BOOLS, *map(Not, WITH_BOOLS)]
        assert self.differences(documents, engine, conditions) == []

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    @given(data=st.data())
    def test_trees_mean_the_same_everywhere(self, documents: Store, engine: str, data: st.DataObject) -> None:
        leaves = st.sampled_from(CONDITIONS[:48])
        trees = st.recursive(
            leaves,
            lambda inner: (
                st.lists(inner, min_size=1, max_size=4).map(tuple).map(And)
                | st.lists(inner, min_size=1, max_size=4).map(tuple).map(Or)
                | inner.map(Not)
            ),
            max_leaves=8,
        )
        assert self.differences(documents, engine, [data.draw(trees)]) == []

    def test_long_chains_work(self, documents: Store) -> None:
        terms = tuple(Comparison(A, "==", f"no such {n}") for n in range(300))
        assert self.found(documents, Or((*terms, Comparison(A, "==", "abc")))) == {"abc"}
        others = And(tuple(Comparison(A, "!=", f"no such {n}") for n in range(300)))
        assert self.found(documents, And((others, Comparison(A, "==", "abc")))) == {"abc"}

    def test_long_lists_work(self, documents: Store) -> None:
        values = ("abc", *(f"no such {n}" for n in range(3000)))
        assert self.found(documents, Comparison(A, "in", values)) == {"abc"}

    def test_a_milvus_expression_is_passed_on(self, documents: Store, engine: str) -> None:
        if engine == "memory":
            pytest.skip("not a Milvus engine")
        assert self.found(documents, Expression('metadata["a"] == "abc" or id == "one"')) == {"abc", "one"}

    @pytest.mark.parametrize(
        "text",
        [
            "length >= 0 andd length == 2",
            "(length >= 0 andd length == 2)",
            "length == 1 xyz",
            "length == 1) or (length == 2",
            "(length == 1",
            'id == "open',
            "nosuchfield == 1",
            "length ==",
            "length = 1",
            "length == {x}",
            'length == "text"',
        ],
    )
    def test_a_bad_expression_is_a_filter_error(self, documents: Store, engine: str, text: str) -> None:
        if engine == "memory":
            pytest.skip("not a Milvus engine")
        with pytest.raises(FilterError):
            documents.search([ONE], limit=3, where=Expression(text))
        assert documents.count_chunks() == len(DOCUMENTS)

    def test_an_expression_cannot_leave_its_namespace(self, store: Store, engine: str) -> None:
        if engine == "memory":
            pytest.skip("not a Milvus engine")
        store.insert_chunks([chunk(1, namespace="mine"), chunk(2, namespace="yours")])
        where = Expression("length == 1 or length == 2")
        assert pks(store.search([ONE], limit=5, where=where, namespaces=["mine"])[0]) == [chunk(1).pk]


def is_refused(engine: str, where: Filter) -> bool:
    """Whether the engine is known to be unable to evaluate a condition."""
    dialect = engines.dialect_of(engine)
    return any(
        (dialect == "lite2" and (comparison.op == "exists" or (negated and comparison.op not in EQUALITY)))
        or (dialect == "lite3" and negated and comparison.op in (">", ">=", "<", "<="))
        for comparison, negated in _leaves(where, negated=False)
    )


EQUALITY = ("==", "!=", "in", "not in")


def _leaves(where: Filter, *, negated: bool) -> list[tuple[Comparison, bool]]:
    if isinstance(where, Not):
        return _leaves(where.part, negated=not negated)
    if isinstance(where, And | Or):
        return [leaf for part in where.parts for leaf in _leaves(part, negated=negated)]
    assert isinstance(where, Comparison)
    return [(where, negated)]


class TestLog:
    def test_rows_come_back_as_they_went_in(self, store: Store) -> None:
        rng = np.random.default_rng(5)
        ids = np.unique(rng.integers(1, TOP, 20_000)).astype(np.uint32)
        counts = SparseVector(ids, rng.integers(1, 2**24 - 1, len(ids)).astype(np.float32))
        rows = [
            LogRow("config", "config", {"version": 1, "k1": 1.5, "text": HOSTILE["quotes"], "n": None}),
            LogRow("delta:1", "delta", {"n": 2**53 + 1}, "x" * 65535, counts, SparseVector.from_dict({1: 2**24 - 1})),
            LogRow("delta:2", "delta", {}, "", EMPTY, counts),
            LogRow("a-key with ~!@#$%^&*()[]{}<>?/:;,.|+= " + "k" * 80, "terms", packed="!~"),
        ]
        store.insert_log(rows)
        keys = [row.key for row in rows]
        assert sorted(store.log_keys()) == sorted(keys)
        found = {row.key: row for row in store.get_log([*keys, "missing", keys[0]])}
        assert found == {row.key: row for row in rows}

    def test_packed_data_can_be_left_out(self, store: Store) -> None:
        store.insert_log([LogRow("k", "terms", {"a": 1}, "packed", ONE)])
        assert store.get_log(["k"], packed=False) == [LogRow("k", "terms", {"a": 1}, "", ONE)]

    def test_deleting_is_repeatable(self, store: Store) -> None:
        store.insert_log([LogRow("k1", "delta"), LogRow("k2", "delta")])
        for _ in range(2):
            store.delete_log(["k1", "missing"])
            assert store.log_keys() == ["k2"]

    def test_thousands_of_rows_are_all_listed(self, store: Store) -> None:
        keys = {f"delta:{number:05}" for number in range(17_000)}
        rows = [LogRow(key, "delta") for key in sorted(keys)]
        for start in range(0, len(rows), 5000):
            store.insert_log(rows[start : start + 5000])
        assert sorted(store.log_keys()) == sorted(keys)
        assert {row.key for row in store.get_log(sorted(keys))} == keys


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import engines
engines.server_uri = lambda: sys.argv[2].partition("|")[2]
store = engines.open_store(sys.argv[2].partition("|")[0], Path(sys.argv[1]))
rows = [row for batch in store.scan_chunks(contents=True, vectors=True) for row in batch]
print(sorted((row.pk, row.text, row.vector.to_dict()) for row in rows), store.log_keys(), store.exists())
store.close()
"""


def test_another_process_sees_everything(
    opened: Callable[..., Store], store: Store, engine: str, tmp_path: Path
) -> None:
    if engine in ("memory", "docker"):
        pytest.skip("rows of the memory store end with their process" if engine == "memory" else "as with the server")
    store.insert_chunks([chunk(1), chunk(2)])
    store.insert_log([LogRow("k", "delta")])
    store.delete_chunks([chunk(1).pk])
    if engine == "embedded":
        store.close()
    uri = engines.server_uri() if engine == "server" else ""
    tests = Path(engines.__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), f"{engine}|{uri}", str(tests), str(tests.parent)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout == f"{[(chunk(2).pk, 'text 2', {1: 1.0})]} ['k'] True\n", run.stderr


def test_names_say_where_the_rows_are(store: Store) -> None:
    assert store.name
    assert isinstance(store.exclusive, bool)
