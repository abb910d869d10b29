"""What every store promises, on every engine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engines
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_store import matches

from rag_bm25.errors import FilterError, FormatError, StoreError
from rag_bm25.filters import And, Comparison, Expression, Not, Or, parse_filter
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.store import ChunkRow, DenseField, LogRow, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.store import DenseMetric, Store

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


DIM = 16
METRICS: list[DenseMetric] = ["COSINE", "IP"]


def dense_chunk(number: int, dense: Any, **changes: Any) -> ChunkRow:
    return chunk(number, dense=np.asarray(dense, np.float32), **changes)


def similarities(rows: list[ChunkRow], query: NDArray[np.float32], metric: DenseMetric) -> dict[str, float]:
    """Score of every row, in float64."""
    vectors = np.array([dense_of(row) for row in rows], np.float64).reshape(-1, len(query))
    wanted = query.astype(np.float64)
    if metric == "COSINE":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        wanted /= np.linalg.norm(wanted)
    return dict(zip((row.pk for row in rows), (vectors @ wanted).tolist(), strict=True))


def dense_of(row: ChunkRow) -> NDArray[np.float32]:
    assert row.dense is not None
    return row.dense


def best(scores: dict[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda pk: -scores[pk])[:limit]


class TestDenseCollections:
    def test_many_rows_are_read_and_written_in_several_messages(self, opened: Callable[..., Store]) -> None:
        store, width = opened("wide"), 8_192
        store.create(DenseField(width, "IP"))
        rows = [dense_chunk(n, np.full(width, n)) for n in range(2_240)]  # 73 MB: more than one reply can have
        store.insert_chunks(rows)
        found = by_pk(store.get_chunks([row.pk for row in rows], dense=True))
        assert {pk: (dense_of(row) == row.length).all() for pk, row in found.items()} == {row.pk: True for row in rows}
        store.drop()

    @pytest.mark.parametrize("metric", METRICS)
    def test_dense_vectors_are_remembered(self, opened: Callable[..., Store], metric: DenseMetric) -> None:
        store = opened()
        assert store.dense_dim() is None
        store.create(DenseField(DIM, metric))
        again = opened()
        assert (store.dense_dim(), again.dense_dim(), again.exists()) == (DIM, DIM, True)
        again.create(DenseField(DIM, metric))
        again.insert_chunks([dense_chunk(1, np.ones(DIM))])
        assert [pks(found) for found in again.search_dense(np.ones((1, DIM), np.float32), metric=metric, limit=1)] == [
            [chunk(1).pk]
        ]
        again.drop()
        assert again.dense_dim() is None

    def test_an_index_without_them_stays_one(self, store: Store) -> None:
        assert store.dense_dim() is None
        store.insert_chunks([chunk(1)])
        assert [row.dense for row in store.get_chunks([chunk(1).pk], dense=True)] == [None]
        with pytest.raises(StoreError, match="has no dense vectors"):
            store.search_dense(np.ones((1, DIM), np.float32), metric="IP", limit=1)
        assert pks(store.search([ONE], limit=1)[0]) == [chunk(1).pk]

    @pytest.mark.parametrize("other", [DenseField(DIM + 1, "IP"), DenseField(DIM, "COSINE"), None])
    def test_creating_again_with_others_is_a_format_error(
        self, opened: Callable[..., Store], other: DenseField | None
    ) -> None:
        store = opened()
        store.create(DenseField(DIM, "IP"))
        with pytest.raises(FormatError, match="dense"):
            opened().create(other)
        store.drop()

    def test_a_collection_without_them_is_not_given_any(self, store: Store) -> None:
        with pytest.raises(FormatError, match="dense"):
            store.create(DenseField(DIM, "IP"))

    def test_dropping_makes_room_for_others(self, opened: Callable[..., Store]) -> None:
        store = opened()
        for dense in (DenseField(2, "IP"), None, DenseField(3, "COSINE")):
            store.create(dense)
            store.insert_chunks([chunk(1, dense=np.ones(dense.dim, np.float32) if dense else None)])
            (row,) = store.get_chunks([chunk(1).pk], dense=True)
            assert (None if row.dense is None else row.dense.tolist()) == ([1.0] * dense.dim if dense else None)
            store.drop()

    def test_two_dimensions_and_32768_work(self, opened: Callable[..., Store]) -> None:
        for dim in (2, 32768):
            store = opened()
            store.create(DenseField(dim, "IP"))
            store.insert_chunks([dense_chunk(1, np.arange(dim))])
            assert store.search_dense(np.eye(1, dim, dim - 1, np.float32), metric="IP", limit=1)[0][0].score == dim - 1
            store.drop()


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> DenseMetric:
    return "COSINE" if request.param == "COSINE" else "IP"


@pytest.fixture
def dense(opened: Callable[..., Store], metric: DenseMetric) -> Iterator[Store]:
    """A store of dense vectors too, empty."""
    made = opened()
    made.create(DenseField(DIM, metric))
    yield made
    opened().drop()


@pytest.fixture
def dense_corpus(dense: Store) -> list[ChunkRow]:
    """Rows of which no two have the same score for a query."""
    rng = np.random.default_rng(17)
    rows = []
    for number in range(400):
        ids = np.unique(rng.integers(1, 40, 8)).astype(np.uint32)
        weights = SparseVector(ids, rng.random(len(ids)).astype(np.float32))
        names = {"namespace": "even" if number % 2 == 0 else "odd", "metadata": {"n": number % 5}}
        rows.append(dense_chunk(number, rng.normal(size=DIM), vector=weights, **names))
    dense.insert_chunks(rows)
    return rows


@pytest.fixture
def dense_queries() -> NDArray[np.float32]:
    return np.random.default_rng(18).normal(size=(120, DIM)).astype(np.float32)


class TestDense:
    def test_reads_of_an_empty_store_find_nothing(self, dense: Store, metric: DenseMetric) -> None:
        query = np.ones(DIM, np.float32)
        assert dense.get_chunks(["ab"], vectors=True, dense=True) == []
        assert dense.search_dense(query[None], metric=metric, limit=3) == [[]]
        assert dense.search_dense(query[None][:0], metric=metric, limit=3) == []
        assert dense.search([ONE], limit=3) == [[]]

    def test_vectors_come_back_bit_for_bit(self, dense: Store) -> None:
        rng = np.random.default_rng(2)
        bits = rng.integers(0, 2**32, size=(200, DIM), dtype=np.uint32).view(np.float32)
        vectors = np.where(np.isfinite(bits), bits, np.float32(-0.0))
        vectors[0, :4] = [0.0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal]
        dense.insert_chunks([dense_chunk(number, vector) for number, vector in enumerate(vectors)])
        found = by_pk(dense.get_chunks([chunk(n).pk for n in range(200)], dense=True))
        for number, vector in enumerate(vectors):
            read = dense_of(found[chunk(number).pk])
            assert (read.dtype, read.shape, read.tobytes()) == (np.float32, (DIM,), vector.tobytes())

    def test_they_come_only_where_they_are_asked_for(self, dense: Store, metric: DenseMetric) -> None:
        row = dense_chunk(1, np.ones(DIM), metadata={"a": 1})
        dense.insert_chunks([row])
        (bare,) = dense.get_chunks([row.pk])
        assert (bare.dense, bare.vector) == (None, EMPTY)
        (whole,) = dense.get_chunks([row.pk], contents=False, vectors=True, dense=True)
        assert (dense_of(whole).tolist(), whole.vector, whole.text) == ([1.0] * DIM, ONE, "")
        (found,) = dense.search_dense(dense_of(row)[None], metric=metric, limit=1)[0]
        assert (found.row, found.row.dense) == (chunk(1, metadata={"a": 1}, vector=EMPTY), None)
        assert [(row.pk, row.dense) for batch in dense.scan_chunks(vectors=True) for row in batch] == [(row.pk, None)]

    def test_scores_and_order_equal_numpy(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        for query, found in zip(dense_queries, dense.search_dense(dense_queries, metric=metric, limit=20), strict=True):
            scores = similarities(dense_corpus, query, metric)
            assert pks(found) == best(scores, 20)
            assert [match.score for match in found] == pytest.approx([scores[pk] for pk in pks(found)], rel=1e-5)

    def test_rows_of_negative_score_are_found(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        (found,) = dense.search_dense(dense_queries[:1], metric=metric, limit=1000)
        assert pks(found) == best(similarities(dense_corpus, dense_queries[0], metric), 1000)
        assert found[-1].score < 0

    def test_filters_and_namespaces_restrict_the_rows(
        self, dense: Store, dense_corpus: list[ChunkRow], dense_queries: NDArray[np.float32], metric: DenseMetric
    ) -> None:
        where = parse_filter({"n": {"$gte": 3}})
        found = dense.search_dense(dense_queries[:3], metric=metric, limit=30, where=where, namespaces=["odd"])
        fitting = [row for row in dense_corpus if row.namespace == "odd" and row.metadata["n"] >= 3]
        expected = [best(similarities(fitting, query, metric), 30) for query in dense_queries[:3]]
        assert [pks(matches_) for matches_ in found] == expected
        assert dense.search_dense(dense_queries[:1], metric=metric, limit=5, namespaces=[]) == [[]]

    def test_a_vector_of_zeros_is_like_nothing(self, dense: Store, metric: DenseMetric) -> None:
        rows = [dense_chunk(number, np.full(DIM, number)) for number in (-1, 0, 1)]
        dense.insert_chunks(rows)
        (found,) = dense.search_dense(np.eye(1, DIM, dtype=np.float32), metric=metric, limit=5)
        assert pks(found) == [rows[2].pk, rows[1].pk, rows[0].pk]
        assert found[1].score == 0.0

    def test_ties_are_ordered_by_id_whatever_the_limit(self, dense: Store, metric: DenseMetric) -> None:
        near, far = np.eye(2, DIM, dtype=np.float32)
        rows = [dense_chunk(int(n), near, id=f"{n:05}") for n in np.random.default_rng(3).permutation(3000)]
        rows[7] = dense_chunk(7777, near + far, id="00000")
        dense.insert_chunks(rows)
        order = sorted(rows, key=lambda row: (row.pk == rows[7].pk, row.id, row.pk))
        for limit in (1, 10, 2999, 3000, 16384):
            (found,) = dense.search_dense(near[None] - far / 2, metric=metric, limit=limit)
            assert pks(found) == [row.pk for row in order[:limit]]

    def test_replacing_and_deleting_move_both_vectors(self, dense: Store, metric: DenseMetric) -> None:
        first, second = np.eye(2, DIM, dtype=np.float32)
        dense.insert_chunks([dense_chunk(1, first)])
        dense.delete_chunks([chunk(1).pk])
        assert dense.search_dense(first[None], metric=metric, limit=2) == [[]]
        dense.insert_chunks([dense_chunk(1, second, vector=SparseVector.from_dict({7: 2.0}))])
        (found,) = dense.search_dense(second[None], metric=metric, limit=2)
        assert [match.score for match in found] == [1.0]
        assert dense.search([ONE], limit=2) == [[]]
        (row,) = dense.get_chunks([chunk(1).pk], vectors=True, dense=True)
        assert (dense_of(row).tolist(), row.vector.to_dict()) == (second.tolist(), {7: 2.0})

    def test_a_bad_filter_is_a_filter_error(self, dense: Store, engine: str, metric: DenseMetric) -> None:
        if engine == "memory":
            pytest.skip("not a Milvus engine")
        dense.insert_chunks([dense_chunk(1, np.ones(DIM))])
        query, bad = np.ones(DIM, np.float32), Expression("nosuchfield == 1")
        with pytest.raises(FilterError):
            dense.search_dense(query[None], metric=metric, limit=1, where=bad)

    def test_another_metric_is_refused(self, dense: Store, engine: str, metric: DenseMetric) -> None:
        if engine == "memory":
            pytest.skip("the memory store asserts it")
        other: DenseMetric = "IP" if metric == "COSINE" else "COSINE"
        message = f"compares dense vectors by {metric}, not by {other}"
        query = np.ones(DIM, np.float32)
        with pytest.raises(StoreError, match=message):
            dense.search_dense(query[None], metric=other, limit=1)

    def test_a_row_without_its_dense_vector_is_refused(self, dense: Store, engine: str) -> None:
        if engine == "memory":
            pytest.skip("the memory store asserts it")
        with pytest.raises(StoreError, match="dense"):
            dense.insert_chunks([chunk(1)])
        assert dense.count_chunks() == 0

    def test_every_write_is_visible_at_once(self, dense: Store, metric: DenseMetric) -> None:
        query = np.ones((1, DIM), np.float32)
        for number in range(5):
            dense.insert_chunks([dense_chunk(number, np.ones(DIM))])
            assert pks(dense.search_dense(query, metric=metric, limit=3)[0]) == [chunk(number).pk]
            dense.delete_chunks([chunk(number).pk])
            assert dense.search_dense(query, metric=metric, limit=3) == [[]]

    def test_any_string_can_be_in_a_filter(self, dense: Store, metric: DenseMetric) -> None:
        texts, query = list(HOSTILE.values()), np.ones((1, DIM), np.float32)
        dense.insert_chunks([dense_chunk(n, np.ones(DIM), metadata={"a": text}) for n, text in enumerate(texts)])
        for number, text in enumerate(texts):
            (found,) = dense.search_dense(query, metric=metric, limit=3, where=Comparison(A, "==", text))
            assert pks(found) == [chunk(number).pk]

    def test_replies_larger_than_engines_send_are_split(self, dense: Store, metric: DenseMetric) -> None:
        large = {"text": "x" * 65535, "metadata": {"m": "y" * 30_000}}
        rows = [dense_chunk(number, np.ones(DIM), **large) for number in range(1000)]  # 95 MB
        dense.insert_chunks(rows)
        bare = by_pk([replace(row, vector=EMPTY, dense=None) for row in rows])
        (found,) = dense.search_dense(np.ones((1, DIM), np.float32), metric=metric, limit=1000)
        assert by_pk(match.row for match in found) == bare
        (found,) = dense.search([ONE], limit=1000)
        assert by_pk(match.row for match in found) == bare


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


@pytest.mark.own_engine
def test_another_process_sees_everything(
    opened: Callable[..., Store], store: Store, engine: str, tmp_path: Path
) -> None:
    if engines.dialect_of(engine) in ("memory", "milvus"):
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
