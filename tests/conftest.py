"""Profiles of hypothesis, and the fixtures that most tests of the core share."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from support import engines
from support.memory_store import MemoryStore
from support.reference import split

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rag_bm25 import BM25Index, IndexConfig

SLOW = bool(os.environ.get("RAG_BM25_SLOW"))  # longer repetitions of what is tested anyway

# No test depends on how fast the machine is.
settings.register_profile(
    "dev", deadline=None, max_examples=200 if SLOW else 10, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci",
    settings.get_profile("dev"),
    max_examples=200 if SLOW else 30,
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile("night", settings.get_profile("dev"), max_examples=20_000)
settings.register_profile(  # to see that a test fails; mutmut runs the tests several times in one process
    "mutants",
    settings.get_profile("ci"),
    print_blob=False,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

LONG = ("tests/integration/", "tests/properties/", "tests/contract/", "tests/examples/", "tests/test_bench.py")
REPETITIONS = (
    *("tests/properties/", "tests/integration/", "tests/golden/", "tests/test_bench.py"),
    *("tests/contract/test_filters.py", "tests/contract/test_dense.py", "tests/cli/test_engine.py"),
    "tests/unit/statistics/log/test_growth.py",
    *("tests/unit/index/test_nobody_waits.py", "tests/langchain/test_langchain_indexing.py"),
)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is in a background job of a shell, and programs that the tests start and interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Leave the programs that tests start unmeasured, but not those of xdist."""
    is_worker = hasattr(config, "workerinput")  # whose options are those of the process that started it
    if is_worker or not config.getoption("numprocesses", None):
        leave_programs_unmeasured()


def leave_programs_unmeasured() -> None:
    """Ask coverage not to measure the processes that this one starts from now on.

    Coverage holds a lock while it notes a line: Ctrl-C there would leave it taken, and the process would never end.
    """
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that all processes end at once; skip what is slow."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    for item in items:
        if engines.PACKAGED in item.name and (reason := engines.reason_not_shown(item.name)):
            item.add_marker(pytest.mark.skip(reason=f"Milvus 2.3.5: {reason}"))
    if not (SLOW or os.environ.get("CI")):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: CI=1 runs it, as .ci/run does"))


def measuring() -> Any:
    """Return what measures the coverage of this process, None where nothing does."""
    coverage = getattr(sys.modules.get("coverage"), "Coverage", None)
    return coverage and coverage.current()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure no coverage of tests that repeat what others cover: it would double their time."""
    current = measuring() if item.nodeid.startswith(REPETITIONS) else None
    if current is not None:
        current.stop()
    try:
        return (yield)
    finally:
        if current is not None:
            current.start()
            leave_programs_unmeasured()  # each start of coverage asks for them again


def pytest_sessionfinish() -> None:
    """End the engines, and save what was measured: xdist kills a process that takes longer than 10 s to exit."""
    engines.closing.close()
    if os.environ.get("PYTEST_XDIST_WORKER") and (current := measuring()) is not None:
        current.stop()
        current.save()


@pytest.fixture
def nothing_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test loses a call for good, or the server dies with it, no write needs to wait for it."""
    from rag_bm25.store.milvus.server import Server

    monkeypatch.setattr(Server, "late_seconds", 0.0)


@pytest.fixture
def config() -> IndexConfig:
    """Whitespace tokens, and lengths counted in them: figures that can be checked by hand."""
    from rag_bm25 import IndexConfig

    return IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store, to look at behind the index's back."""
    return MemoryStore()


@pytest.fixture
def index(store: MemoryStore, config: IndexConfig) -> BM25Index:
    """A new, empty index in `store`."""
    from rag_bm25 import BM25Index

    return BM25Index.from_store(store, config=config)


@pytest.fixture
def reopened(store: MemoryStore, config: IndexConfig) -> Callable[..., BM25Index]:
    """Open the rows of `store` again, as another process would; takes the options of ``from_store``."""
    from rag_bm25 import BM25Index

    return lambda **options: BM25Index.from_store(store.reopen(), **{"config": config, **options})


@pytest.fixture
def tiny_id_space(monkeypatch: pytest.MonkeyPatch) -> int:
    """Leave 12 ids for all terms, so that most of them collide."""
    monkeypatch.setattr("rag_bm25.vectors.terms.ID_SPACE", 13)
    return 13
