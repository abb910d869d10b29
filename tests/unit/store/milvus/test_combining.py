"""Searches that arrive while the engine is busy go to it together."""

from __future__ import annotations

import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rag_bm25.store.milvus.combining import CombinedCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

LONG = 60.0  # seconds that no test waits for


class RefusedError(Exception):
    """A query that the engine refuses."""


class BlockingEngine:
    """An engine whose calls wait until they are let go, and which answers a query by its double."""

    def __init__(self, at_once: int = 1, patience: float = LONG) -> None:
        self.combined: CombinedCalls[int, int] = CombinedCalls(at_once, patience)
        self.calls: list[list[int]] = []  # as they arrive
        self.refused: set[int] = set()
        self.is_open = threading.Event()
        self._threads = ThreadPoolExecutor(32)

    def search(self, *queries: int, kind: str = "kind", most: int = 100) -> list[int]:
        return self.combined.call(kind, queries, most, self.answer)

    def answer(self, queries: Sequence[int]) -> list[int]:
        self.calls.append(list(queries))
        assert self.is_open.wait(LONG)
        if bad := self.refused.intersection(queries):
            raise RefusedError(*sorted(bad))
        return [2 * query for query in queries]

    def begin(self, *queries: int, **options: Any) -> Future[list[int]]:
        """Search in a thread, and return once it waits or its call has arrived."""
        before = len(self.calls) + self.waiting
        future = self._threads.submit(self.search, *queries, **options)
        until(lambda: len(self.calls) + self.waiting > before)
        return future

    @property
    def waiting(self) -> int:
        return sum(len(lane.waiting) for lane in list(self.combined._lanes.values()))

    def close(self) -> None:
        self.is_open.set()
        self._threads.shutdown()


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def engine() -> Iterator[BlockingEngine]:
    engine = BlockingEngine()
    yield engine
    engine.close()
    assert not engine.combined._lanes, "a kind of request is kept for ever"


def test_a_lone_search_goes_as_it_is(engine: BlockingEngine) -> None:
    engine.is_open.set()
    assert engine.search(1, 2) == [2, 4]
    assert engine.search(3) == [6]
    assert engine.calls == [[1, 2], [3]]


def test_those_that_come_during_a_call_go_together_after_it(engine: BlockingEngine) -> None:
    begun = [engine.begin(1), engine.begin(2), engine.begin(3, 4), engine.begin(5)]
    assert engine.calls == [[1]]
    engine.is_open.set()
    assert [each.result(LONG) for each in begun] == [[2], [4], [6, 8], [10]]
    assert engine.calls == [[1], [2, 3, 4, 5]]


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_so_many_queries_go_at_once(at_once: int) -> None:
    engine = BlockingEngine(at_once)
    begun = [engine.begin(number) for number in range(6)]
    assert engine.calls == [[number] for number in range(at_once)]
    engine.close()
    assert [each.result(LONG) for each in begun] == [[2 * number] for number in range(6)]


def test_a_call_of_several_queries_counts_as_these() -> None:
    engine = BlockingEngine(at_once=3)
    begun = [engine.begin(1, 2, 3), engine.begin(4)]
    assert engine.calls == [[1, 2, 3]]
    engine.close()
    assert [each.result(LONG) for each in begun] == [[2, 4, 6], [8]]


def test_a_call_has_as_many_queries_as_the_engine_takes(engine: BlockingEngine) -> None:
    begun = [engine.begin(*queries, most=3) for queries in ((0,), (1, 2), (3, 4), (5,), (6,))]
    engine.is_open.set()
    assert [each.result(LONG) for each in begun] == [[0], [2, 4], [6, 8], [10], [12]]
    assert sorted(engine.calls) == [[0], [1, 2], [3, 4, 5], [6]]


def test_requests_of_other_kinds_wait_for_nobody(engine: BlockingEngine) -> None:
    begun = [engine.begin(1), engine.begin(2, kind="other"), engine.begin(3, kind="third")]
    assert engine.calls == [[1], [2], [3]]
    begun += [engine.begin(4), engine.begin(5, kind="other")]
    engine.is_open.set()
    assert [each.result(LONG) for each in begun] == [[2], [4], [6], [8], [10]]
    assert sorted(engine.calls) == [[1], [2], [3], [4], [5]]


def test_a_refused_query_is_an_error_where_it_was_asked_alone(engine: BlockingEngine) -> None:
    engine.refused = {1, 3}
    begun = [engine.begin(1), engine.begin(2), engine.begin(3), engine.begin(4)]
    engine.is_open.set()
    with pytest.raises(RefusedError, match="1"):
        begun[0].result(LONG)
    with pytest.raises(RefusedError, match="3"):
        begun[2].result(LONG)
    assert [begun[1].result(LONG), begun[3].result(LONG)] == [[4], [8]]
    assert engine.calls[:2] == [[1], [2, 3, 4]]
    assert sorted(engine.calls[2:]) == [[2], [3], [4]]


def test_the_others_go_on_where_the_calling_thread_is_interrupted(
    engine: BlockingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = engine.answer

    def interrupted(queries: Sequence[int]) -> list[int]:
        answers = answer(queries)
        if len(queries) > 1:
            raise KeyboardInterrupt
        return answers

    monkeypatch.setattr(engine, "answer", interrupted)
    begun = [engine.begin(1), engine.begin(2), engine.begin(3), engine.begin(4)]
    engine.is_open.set()
    with pytest.raises(KeyboardInterrupt):
        begun[1].result(LONG)
    assert [begun[at].result(LONG) for at in (0, 2, 3)] == [[2], [6], [8]]


def test_a_thread_may_be_interrupted_while_it_waits(engine: BlockingEngine) -> None:
    first = engine.begin(1)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until(lambda: engine.waiting == 1)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        engine.search(2)
    interrupter.join()
    last = engine.begin(3)
    engine.is_open.set()
    assert [first.result(LONG), last.result(LONG)] == [[2], [6]]
    assert engine.calls == [[1], [3]]


def test_a_signal_handler_may_search_during_a_search(engine: BlockingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.combined = CombinedCalls(1, patience=0.01)
    found: list[list[int]] = []
    answer = engine.answer

    def handled(queries: Sequence[int]) -> list[int]:
        if queries == (1,):  # where the handler of a signal would be called
            found.append(engine.search(2))
        return answer(queries)

    monkeypatch.setattr(engine, "answer", handled)
    engine.is_open.set()
    assert engine.search(1) == [2]
    assert found == [[4]]


def test_a_call_that_does_not_return_holds_nobody_up_for_long(engine: BlockingEngine) -> None:
    engine.combined = CombinedCalls(1, patience=0.01)
    stuck = engine.begin(1)
    for number in (2, 3):
        begun = len(engine.calls)
        engine.begin(number)
        until(lambda begun=begun: len(engine.calls) > begun)  # type: ignore[misc]
    assert engine.calls == [[1], [2], [3]]
    engine.is_open.set()
    assert stuck.result(LONG) == [2]


@pytest.mark.parametrize("patience", [LONG, 0.0])
@pytest.mark.parametrize("at_once", [1, 3])
def test_each_thread_gets_its_own_answers_and_errors(at_once: int, patience: float) -> None:
    engine = BlockingEngine(at_once, patience)
    engine.refused = set(range(0, 5000, 97))
    engine.is_open.set()

    def search(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(100):
            queries = rng.sample(range(5000), rng.randint(1, 4))
            bad = sorted(engine.refused.intersection(queries))
            try:
                found = engine.search(*queries, kind=rng.choice("abc"), most=rng.choice([1, 4, 100]))
            except RefusedError as error:
                assert list(error.args) == bad  # noqa: PT017  # of its own queries, not of others
            else:
                assert (found, bad) == ([2 * query for query in queries], [])

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(search, range(16)))
    engine.close()
    assert not engine.combined._lanes
