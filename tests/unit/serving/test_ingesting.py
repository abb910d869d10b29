"""Files that are ingested, and followed, while the index is served."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from rag_bm25.errors import StoreError
from rag_bm25.ingestion import find_files, watching

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rag_bm25 import BM25Index
    from rag_bm25.serving.served import Served

Act = tuple["Callable[[], object]", "Callable[[Served], object]"]
"""What is done, and what is true some time after it."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watching, "INTERVAL", 0.01)
    monkeypatch.setattr(watching, "SETTLING", 0.01)
    folder = tmp_path / "kb"
    folder.mkdir()
    for name in ("pears", "plums"):
        (folder / f"{name}.txt").write_text(f"All about {name}.")
    return folder


def serve(index: BM25Index, folder: Path, *acts: Act, watched: bool = True, **options: Any) -> Served:
    """Serve an index with the files of a folder, act, and stop the server."""
    from rag_bm25.serving.ingesting import Ingestion
    from rag_bm25.serving.observing import Observer
    from rag_bm25.serving.served import Served
    from rag_bm25.serving.settings import Limits

    plan = Ingestion(lambda roots: find_files([folder], roots=roots), watched, options)
    served = Served(index, Observer(), Limits(), "docs", plan)

    async def main() -> None:
        served.start()
        try:
            for act, is_seen in acts:
                act()
                await asyncio.to_thread(wait_until, is_seen, served)
        finally:
            served.stop()
            await served.gate.close()
            assert served._ingestion is not None
            await served._ingestion

    asyncio.run(main())
    return served


def wait_until(is_seen: Callable[[Served], object], served: Served) -> None:
    for _ in range(10_000):
        if is_seen(served):
            return
        time.sleep(0.01)
    pytest.fail("it is not seen")


def has(word: str) -> Callable[[Served], bool]:
    return lambda served: bool(served._index.search(word)) and not is_writing(served)


def is_done(served: Served) -> bool:
    return [job["state"] for job in jobs(served)] == ["done"]


def is_writing(served: Served) -> bool:
    return any(job["state"] == "running" for job in jobs(served))


def has_not(word: str) -> Callable[[Served], bool]:
    return lambda served: not served._index.search(word)


def jobs(served: Served) -> list[dict[str, Any]]:
    return served.operations.jobs.to_json()


def nothing() -> None:
    """Only wait."""


def test_changed_new_and_deleted_files_are_followed(index: BM25Index, folder: Path) -> None:
    served = serve(
        index,
        folder,
        (nothing, is_done),
        ((folder / "plums.txt").unlink, has_not("plums")),
        (lambda: (folder / "figs.txt").write_text("All about figs."), has("figs")),
        (lambda: (folder / "pears.txt").write_text("All about quinces."), has("quinces")),
        prune=True,
    )
    assert not index.search("pears")
    assert index.search("notice")  # what else is stored stays
    assert {(job["kind"], job["state"]) for job in jobs(served)} == {("ingest", "done")}


def test_without_a_watch_files_are_ingested_once(index: BM25Index, folder: Path) -> None:
    served = serve(index, folder, (nothing, lambda one: one._ingestion.done()), watched=False)  # type: ignore[union-attr]
    (job,) = jobs(served)
    assert (job["state"], job["result"]["added"]) == ("done", 2)


def test_too_many_deleted_files_are_kept_and_told(
    index: BM25Index, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"note {number}")

    def delete() -> None:
        for number in range(20):
            (folder / f"{number}.txt").unlink()

    def is_refused(served: Served) -> bool:
        return jobs(served)[0].get("result", {}).get("failed") == 1

    served = serve(index, folder, (nothing, is_done), (delete, is_refused), prune=True, max_delete=0.2)
    assert index.search("19")
    assert "--max-delete" in jobs(served)[0]["reason"]
    assert "--max-delete" in caplog.text


def test_a_folder_that_disappears_is_told_once_and_followed_when_it_is_back(
    index: BM25Index, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away, looks = folder.with_name("away"), iter(range(5))

    def has_failed(served: Served) -> bool:
        return jobs(served)[0]["state"] == "failed" and next(looks, None) is None  # several looks later

    def come_back() -> None:
        (away / "figs.txt").write_text("All about figs.")
        away.rename(folder)

    served = serve(
        index, folder, (nothing, is_done), (lambda: folder.rename(away), has_failed), (come_back, has("figs"))
    )
    assert [job["reason"] for job in jobs(served) if job["state"] == "failed"] == ["kb: No such file or directory"]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        f"an ingestion failed: {folder}: No such file or directory"
    ]


@pytest.mark.parametrize("error", [StoreError("the store failed"), KeyError("secret")])
def test_an_ingestion_that_fails_is_repeated_and_the_server_goes_on(
    index: BM25Index, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from rag_bm25.serving import operations

    ingest, failures = operations.ingest, iter(range(3))

    def fail_at_first(*arguments: Any, **options: Any) -> Any:
        if next(failures, None) is not None:
            raise error
        return ingest(*arguments, **options)

    monkeypatch.setattr(operations, "ingest", fail_at_first)
    served = serve(index, folder, (nothing, has("plums")))
    assert [job["state"] for job in jobs(served)] == ["done", "failed"]
    assert "an ingestion failed" in caplog.text
    assert "secret" not in caplog.text
