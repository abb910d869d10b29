"""Several index objects of one process on one index: each write counts once, in all of them and in any later one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
TERMS = [f"t{number}" for number in range(12)]  # as many as there are ids

pytestmark = pytest.mark.usefixtures("tiny_id_space")


@pytest.fixture
def index_of(opened: Callable[..., Store], engine: str) -> Iterator[Callable[..., BM25Index]]:
    """Opens index objects on one index."""
    if engine not in {"memory", "embedded"}:
        pytest.skip("on a server, each object is a writer of its own: test_several_writers.py")
    yield lambda **options: BM25Index.from_store(opened(), config=CONFIG, **options)
    opened().drop()


def figures(index: BM25Index) -> Any:
    """What an index knows, and what it answers."""
    stats = index.stats(namespace=None)
    hits = [[(hit.id, hit.score) for hit in found] for found in index.search_batch(TERMS, namespace=None)]
    return stats.num_chunks, stats.num_terms, stats.total_length, hits


def assert_sound(fresh: BM25Index, *others: BM25Index) -> None:
    """All objects say the same, and the recount does."""
    wanted = figures(fresh)
    assert [figures(other) for other in others] == [wanted] * len(others)
    report = fresh.verify()
    assert report.ok, report.differences
    vocabulary = fresh._live.log.vocabulary()
    assert len(set(vocabulary.ids)) == len(list(vocabulary))


def test_writes_in_turns_count_once_everywhere(index_of: Callable[..., BM25Index]) -> None:
    one, other = index_of(), index_of()
    for step, term in enumerate(TERMS):
        writer = (one, other)[step % 2]
        writer.add([f"{term} {TERMS[0]}", f"all {term}"[4:]], ids=[f"own-{step}", "shared"])
        if step % 3 == 2:
            writer.delete([f"own-{step - 1}", f"own-{step - 2}"])
        assert_sound(index_of(), one, other)


def test_writes_at_once_count_once_everywhere(
    index_of: Callable[..., BM25Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.log.COMPACT_ABOVE", 3)
    indexes = [index_of() for _ in range(3)]
    acknowledged: list[str] = []
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for step in range(8):
                term = TERMS[(4 * number + step) % len(TERMS)]
                ids = [f"{number}-{step}", f"shared-{step % 2}"]
                indexes[number].add([f"{term} {TERMS[step]}", f"{term} {number}"[: len(term)]], ids=ids)
                indexes[number].search(term)
                acknowledged.extend(ids)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    fresh = index_of()
    assert {chunk.id for chunk in fresh.chunks()} == set(acknowledged)
    assert_sound(fresh, *indexes)


def test_opening_leaves_a_batch_under_way_to_its_writer(
    index_of: Callable[..., BM25Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = index_of()
    insert, opening = writer._store.insert_chunks, []

    def insert_while_another_opens(rows: Any) -> None:
        opening.append(threading.Thread(target=lambda: opening.append(index_of())))
        opening[0].start()
        opening[0].join(0.5)  # without a lock it is done by then, and has taken the intent for a dead writer's
        insert(rows)

    monkeypatch.setattr(writer._store, "insert_chunks", insert_while_another_opens)
    writer.add(["t1 t2"], ids=["a"])
    opening[0].join()
    assert_sound(index_of(), writer, opening[1])


def test_a_search_does_not_wait_for_the_batch_of_another_object(
    index_of: Callable[..., BM25Index],
) -> None:
    one, other = index_of(), index_of()
    one.add(["t1"], ids=["a"])
    found: list[str] = []
    with one._store.write_lock:  # as for a batch
        waiting = threading.Thread(target=other.add, args=(["t1 t1"],), kwargs={"ids": ["b"]})
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        searching = threading.Thread(target=lambda: found.extend(hit.id for hit in other.search("t1")))
        searching.start()
        searching.join()
    waiting.join()
    assert found == ["a"]
    assert_sound(index_of(), one, other)
