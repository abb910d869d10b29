"""How often a command starts the embedded engine, which takes longer than what most commands do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.command_line import run

from rag_bm25.cli import ingesting
from rag_bm25.errors import InputError
from rag_bm25.ingestion.watching import SETTLING, Pause

pytestmark = pytest.mark.skipif(not engines.lite_version().startswith("2."), reason="milvus-lite 2.5 is not installed")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The starts of engines, in a folder with files to ingest."""
    from rag_bm25.store.milvus import lite2

    starts: list[str] = []
    start = lite2.Engine._start

    def count(engine: lite2.Engine) -> Any:
        starts.append("start")
        return start(engine)

    monkeypatch.setattr(lite2.Engine, "_start", count)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILVUS_URI", raising=False)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nsome words\n")
    return starts


def test_ingest_starts_it_once(starts: list[str]) -> None:
    for options in ([], [], ["--dry-run"], ["--exclude", "b.md"]):
        starts.clear()
        assert run("ingest", "docs", *options).exit_code == 0
        assert len(starts) == 1


def test_a_watch_starts_it_once_for_each_change(
    starts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def one_change() -> Iterator[Pause]:
        def pause(seconds: float) -> bool:
            if seconds != SETTLING:
                (tmp_path / "docs" / "b.md").write_text("more words")
            return seconds == SETTLING or len(starts) == 1

        yield pause

    monkeypatch.setattr(ingesting, "stop_by_signals", one_change)
    assert "1 added" in run("ingest", "docs", "--watch").stdout.splitlines()[-1]
    assert len(starts) == 2


def test_a_server_that_ingests_starts_it_once(starts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install ".[serve]"')

    def served(index: Any, *_: object) -> None:
        index.close()
        raise InputError("enough")

    monkeypatch.setattr("rag_bm25.serving.served.Served", served)
    for _ in ("new", "again"):
        starts.clear()
        assert "enough" in run("serve", "--mcp", "--ingest", "docs").stderr
        assert len(starts) == 1
