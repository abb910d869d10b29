"""What every store promises, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import engines
from support.programs import run_python
from support.rows import HOSTILE, ONE, TOP, by_pk, chunk, pks, scanned

from rag_bm25.budget import limited
from rag_bm25.errors import StoreError
from rag_bm25.filters import parse_filter
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import ChunkRow, LogRow, Match, Scope, SearchArm
from rag_bm25.vectors.sparse import EMPTY, SparseVector


def test_a_spent_budget_ends_reads_of_chunks_but_not_of_the_log_which_others_need(store: Store, engine: str) -> None:
    if engine == "memory":
        pytest.skip("it reads no pages that would take long")
    store.insert_chunks([chunk(1)])
    store.insert_log([LogRow("k", "delta")])

    def spend() -> None:
        raise TimeoutError

    with limited(spend):
        for read in (lambda: store.get_chunks(["a"]), lambda: next(store.scan_chunks()), store.count_chunks):
            with pytest.raises(TimeoutError):
                read()
        assert [row.key for row in store.get_log(store.log_keys())] == ["k"]
    assert store.count_chunks() == 1


class TestCollections:
    def test_do_not_exist_before_they_are_created(self, opened: Callable[..., Store]) -> None:
        assert not opened().exists()

    def test_creating_again_keeps_the_rows(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        store.create()
        assert store.exists()
        assert store.count_chunks() == 1

    def test_dropping_removes_everything(self, store: Store) -> None:
        store.insert_chunks([chunk(1)])
        store.insert_log([LogRow("k", "delta")])
        store.drop()
        assert not store.exists()
        store.create()
        assert (store.count_chunks(), store.log_keys()) == (0, [])

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
        assert pks(store.search([ONE], SearchArm(3))[0]) == [chunk(1).pk]

    def test_closing_twice_is_allowed_and_using_a_closed_store_is_not(self, opened: Callable[..., Store]) -> None:
        store = opened()
        store.close()
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            store.count_chunks()


class TestIndexNames:
    def test_an_index_is_named_while_both_collections_are_there(
        self, opened: Callable[..., Store], store: Store
    ) -> None:
        absent = opened("other")
        before = absent.index_names()  # those of other tests as well, which may use the same database
        assert before == sorted(set(before))
        assert any(name.startswith("docs") for name in store.index_names())
        absent.create()
        (new,) = set(absent.index_names()) - set(before)
        assert new.startswith("other")
        absent.drop()
        assert absent.index_names() == before


class TestEmptyStore:
    def test_reads_find_nothing(self, store: Store) -> None:
        assert store.count_chunks() == 0
        assert store.get_chunks(["ab"], vectors=True) == []
        assert scanned(store, vectors=True) == {}
        assert store.search([ONE, ONE], SearchArm(3)) == [[], []]
        assert store.search([ONE, ONE], SearchArm(3, vectors=True)) == [[], []]
        assert store.log_keys() == []
        assert store.get_log(["k"]) == []

    def test_empty_arguments_do_nothing(self, store: Store) -> None:
        store.insert_chunks([])
        store.delete_chunks([])
        store.insert_log([])
        store.delete_log([])
        assert store.get_chunks([]) == []
        assert store.get_log([]) == []
        assert store.search([], SearchArm(1)) == []


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
            assert pks(store.search([ONE], SearchArm(2))[0]) == [chunk(number).pk]
            assert scanned(store).keys() == {chunk(number).pk}
            store.delete_chunks([chunk(number).pk])
            assert store.get_chunks([chunk(number).pk]) == []
            assert store.search([ONE], SearchArm(2)) == [[]]

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
        assert store.search([ONE], SearchArm(2)) == [[]]

    @pytest.mark.slow
    def test_messages_larger_than_engines_take_are_split(self, store: Store) -> None:
        large = {"text": "x" * 65535, "metadata": {"m": "y" * 30_000}}
        rows = [chunk(number, **large) for number in range(1000)]  # 95 MB
        store.insert_chunks(rows)
        expected = by_pk(chunk(number, **large, vector=EMPTY) for number in range(1000))
        assert by_pk(store.get_chunks([row.pk for row in rows])) == expected
        assert scanned(store, contents=True) == expected
        assert by_pk(match.row for match in store.search([ONE], SearchArm(1000))[0]) == expected


class TestManyRows:
    @pytest.mark.slow
    def test_none_are_lost_beyond_16384(self, store: Store) -> None:
        numbers = range(17_000)
        rows = [chunk(n, vector=SparseVector.from_dict({n % 7 + 1: 1.0 + n})) for n in numbers]
        for start in numbers[::5000]:
            store.insert_chunks(rows[start : start + 5000])
        assert store.count_chunks() == 17_000
        got = by_pk(store.get_chunks([row.pk for row in rows], vectors=True))
        assert got == by_pk(rows)
        assert scanned(store, contents=True, vectors=True) == got
        some = scanned(store, Scope(parse_filter({"$not": {"absent": 1}}), ("", "other")))
        assert some.keys() == got.keys()
        store.delete_chunks([row.pk for row in rows[:16_500]])
        assert scanned(store).keys() == {row.pk for row in rows[16_500:]}


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

    def test_rows_have_their_vectors_where_these_are_asked_for(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        rows = by_pk(corpus)
        plain, found = (store.search(queries, SearchArm(20, vectors=vectors)) for vectors in (False, True))
        assert [pks(matches) for matches in plain] == [pks(matches) for matches in found]
        assert [match.row for matches in found for match in matches] == [
            rows[match.row.pk] for matches in plain for match in matches
        ]
        assert not any(len(match.row.vector) for matches in plain for match in matches)

    def test_scores_and_order_equal_numpy(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        for query, found in zip(queries, store.search(queries, SearchArm(20)), strict=True):
            scores = sorted((query.dot(row.vector) for row in corpus), reverse=True)[:20]
            assert [match.score for match in found] == pytest.approx(scores, rel=1e-6)
            vectors = {row.pk: row.vector for row in corpus}
            own = [query.dot(vectors[match.row.pk]) for match in found]
            assert [match.score for match in found] == pytest.approx(own, rel=1e-6)

    def test_rows_come_with_contents_and_without_vectors(self, store: Store) -> None:
        store.insert_chunks([chunk(1, metadata={"a": [1]}, namespace="n")])
        assert store.search([ONE], SearchArm(1)) == [
            [Match(chunk(1, metadata={"a": [1]}, namespace="n", vector=EMPTY), 1.0)]
        ]

    def test_some_rows_are_scored_as_among_all(self, store: Store, corpus: list[ChunkRow]) -> None:
        (every,) = store.search([corpus[0].vector], SearchArm(200))
        some = tuple(sorted(match.row.pk for match in every[::3]))
        (found,) = store.search([corpus[0].vector], SearchArm(len(some), pks=(*some, "0" * 40 + "b")))
        assert [(match.row.pk, match.score) for match in found] == [(one.row.pk, one.score) for one in every[::3]]
        assert {match.row.text for match in found} == {""}
        arm = SearchArm(200, Scope(namespaces=("odd",)), pks=some)
        (found,) = store.search([corpus[0].vector], arm)
        assert [match.row.pk for match in found] == [one.row.pk for one in every[::3] if one.row.namespace == "odd"]

    def test_rows_without_a_shared_dimension_are_never_returned(self, store: Store) -> None:
        store.insert_chunks([chunk(n, vector=SparseVector.from_dict({n + 10: 1.0})) for n in range(50)])
        found = store.search([SparseVector.from_dict({12: 1.0, 9999: 1.0})], SearchArm(50))
        assert pks(found[0]) == [chunk(2).pk]

    def test_a_namespace_restricts_the_rows(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        found = store.search(queries[:5], SearchArm(500, Scope(namespaces=("odd",))))
        assert {match.row.namespace for matches_ in found for match in matches_} == {"odd"}
        for query, matches_ in zip(queries, found, strict=False):
            assert len(matches_) == sum(query.dot(row.vector) > 0 for row in corpus if row.namespace == "odd")

    def test_no_namespaces_mean_no_rows(self, store: Store, corpus: list[ChunkRow]) -> None:
        assert store.search([corpus[0].vector], SearchArm(5, Scope(namespaces=()))) == [[]]
        assert scanned(store, Scope(namespaces=())) == {}

    @pytest.mark.parametrize(
        "namespace", [text for text in HOSTILE.values() if text], ids=[k for k in HOSTILE if HOSTILE[k]]
    )
    def test_any_string_can_be_a_namespace(self, store: Store, namespace: str) -> None:
        store.insert_chunks([chunk(1, namespace=namespace), chunk(2, namespace="x"), chunk(3, namespace="")])
        assert pks(store.search([ONE], SearchArm(5, Scope(namespaces=(namespace,))))[0]) == [chunk(1).pk]
        assert scanned(store, Scope(namespaces=(namespace, "x"))).keys() == {chunk(1).pk, chunk(2).pk}

    @pytest.mark.parametrize("word", ["E404", "税法", "é", "Straße", "100", "e404"])
    def test_a_word_restricts_the_rows_to_texts_that_have_it_anywhere(self, store: Store, word: str) -> None:
        around = ["{}", "x{}", "{}x", "\n{}\n", "a\r\n{}%\n\n_b", "\"\\{}'", "𠮷{}𠮷", "\t{}\x01"]
        texts = [text.format(word) for text in around] + [f"{word[0]}\n{word[1:]}", f"{word[0]} {word[1:]}", "none"]
        rows = [chunk(at, text=text) for at, text in enumerate(texts)]
        store.insert_chunks(rows)
        having = {row.pk for row in rows if word in row.text}
        assert scanned(store, Scope(having=word), contents=True).keys() == having
        assert set(pks(store.search([ONE], SearchArm(99, Scope(having=word)))[0])) == having

    def test_a_scan_goes_on_behind_a_row(self, store: Store) -> None:
        store.insert_chunks([chunk(number, namespace="other" * (number % 2)) for number in range(20)])
        assert list(scanned(store, Scope(after=chunk(11).pk))) == [chunk(number).pk for number in range(12, 20)]
        rest = Scope(parse_filter({"$not": {"absent": 1}}), ("other",), after=chunk(11).pk)
        assert list(scanned(store, rest)) == [chunk(number).pk for number in range(13, 20, 2)]
        assert scanned(store, Scope(after=chunk(19).pk)) == {}

    def test_ties_are_ordered_by_id_whatever_the_limit(self, store: Store) -> None:
        rng = np.random.default_rng(3)
        rows = [chunk(int(n), id=f"{n:05}") for n in rng.permutation(3000)]
        rows[7:9] = [chunk(7777, id="00000"), chunk(7778, id="zzzz", vector=SparseVector.from_dict({1: 2.0}))]
        store.insert_chunks(rows)
        order = sorted(rows, key=lambda row: (-row.vector.get(1), row.id, row.pk))
        for limit in (1, 2, 10, 999, 2999, 3000, 5000, 16384):
            (found,) = store.search([ONE], SearchArm(limit))
            assert pks(found) == [row.pk for row in order[:limit]]

    def test_many_queries_at_once_equal_one_at_a_time(
        self, store: Store, corpus: list[ChunkRow], queries: list[SparseVector]
    ) -> None:
        together = store.search(queries, SearchArm(5))
        assert together[::30] == [store.search([query], SearchArm(5))[0] for query in queries[::30]]


class TestLog:
    def test_rows_come_back_as_they_went_in(self, store: Store) -> None:
        rows = [
            LogRow("config", "config", {"version": 1, "k1": 1.5, "text": HOSTILE["quotes"], "n": None}),
            LogRow("delta:1", "delta", {"n": 2**53 + 1}, "x" * 65535),
            LogRow("a-key with ~!@#$%^&*()[]{}<>?/:;,.|+= " + "k" * 80, "terms", packed="!~"),
        ]
        store.insert_log(rows)
        keys = [row.key for row in rows]
        assert sorted(store.log_keys()) == sorted(keys)
        found = {row.key: row for row in store.get_log([*keys, "missing", keys[0]])}
        assert found == {row.key: row for row in rows}

    def test_packed_data_can_be_left_out(self, store: Store) -> None:
        store.insert_log([LogRow("k", "terms", {"a": 1}, "packed")])
        assert store.get_log(["k"], packed=False) == [LogRow("k", "terms", {"a": 1}, "")]

    def test_keys_are_listed_by_range(self, store: Store) -> None:
        store.insert_log([LogRow(key, "delta") for key in ("a", "b", "c", "d")])
        assert store.log_keys([]) == []
        assert sorted(store.log_keys([("a", "c"), ("c", "e")])) == ["b", "d"]

    def test_deleting_is_repeatable(self, store: Store) -> None:
        store.insert_log([LogRow("k1", "delta"), LogRow("k2", "delta")])
        for _ in range(2):
            store.delete_log(["k1", "missing"])
            assert store.log_keys() == ["k2"]

    @pytest.mark.slow
    def test_thousands_of_rows_are_all_listed(self, store: Store) -> None:
        keys = {f"delta:{number:05}" for number in range(17_000)}
        rows = [LogRow(key, "delta") for key in sorted(keys)]
        for start in range(0, len(rows), 5000):
            store.insert_log(rows[start : start + 5000])
        assert sorted(store.log_keys()) == sorted(keys)
        assert {row.key for row in store.get_log(sorted(keys))} == keys

    def test_deferred_rows_are_there_at_once_for_every_store(self, store: Store, opened: Callable[..., Store]) -> None:
        first, second, third = (LogRow(f"delta:{number}", "delta", {"n": number}, "packed") for number in range(3))
        other = opened()
        store.insert_log([first], defer=True)
        store.insert_log([second], defer=True)
        for reader in (store, other):
            assert sorted(reader.log_keys()) == [first.key, second.key]
            assert reader.log_keys([("delta:0", "delta:9")]) == [second.key]
            assert reader.get_log([second.key, "missing"]) == [second]
            assert reader.get_log([first.key], packed=False) == [replace(first, packed="")]
        other.insert_log([third])
        other.delete_log([first.key])
        for reader in (store, other):
            assert sorted(reader.log_keys()) == [second.key, third.key]
            assert sorted(row.key for row in reader.get_log([first.key, second.key, third.key])) == [
                second.key,
                third.key,
            ]

    def test_deferred_rows_are_dropped_with_their_log(self, store: Store) -> None:
        store.insert_log([LogRow("delta:1", "delta")], defer=True)
        store.drop()
        store.create()
        assert store.log_keys() == []
        store.insert_log([LogRow("delta:2", "delta")])
        assert store.log_keys() == ["delta:2"]


SCRIPT = """
import sys
from pathlib import Path
from support import engines
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
    store.delete_chunks([chunk(1).pk])
    store.insert_log([LogRow("k", "delta")], defer=True)
    if engine == "embedded":
        store.close()
    uri = engines.server_uri() if engine == "server" else ""
    run = run_python(SCRIPT, tmp_path, f"{engine}|{uri}")
    assert run.stdout == f"{[(chunk(2).pk, 'text 2', {1: 1.0})]} ['k'] True\n", run.stderr
