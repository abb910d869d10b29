"""A folder is ingested once, and then only what has changed, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.files import CONFIG, run, write

from rag_bm25 import BM25Index
from rag_bm25.ingestion import checking
from rag_bm25.ingestion.files import SourceFile
from rag_bm25.store.protocol import Store


def test_only_files_that_changed_or_whose_chunks_did_are_read(
    opened: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, plain = list[str](), checking.read_file

    def note(file: SourceFile, *args: Any, **options: Any) -> Any:
        read.append(file.path.name)
        return plain(file, *args, **options)

    monkeypatch.setattr(checking, "read_file", note)
    docs = tmp_path / "劳动 docs'%_"
    for number in range(20):
        write(docs / f"{number:02}.txt", f"word {number} " * 20)
    opened().drop()

    def again(change: Callable[[BM25Index], object] = lambda _index: None) -> list[str]:
        """Change something, and return the files that the next process reads; it leaves the chunks of all files."""
        with BM25Index.from_store(opened(), config=CONFIG) as index:
            change(index)
        read.clear()
        with BM25Index.from_store(opened(), config=CONFIG) as index:
            report = run(index, docs, prune=True)
            assert report.chunks == len(list(index.chunks(filter={"source": {"$like": "劳动%"}})))
            assert index.verify().ok
        return read

    assert len(again()) == 20
    assert again() == []
    assert again(lambda _index: write(docs / "07.txt", "short")) == ["07.txt"]
    assert again(lambda index: index.delete([f"{docs.name}/08.txt#0"])) == ["08.txt"]
    assert again(lambda index: index.add(["x"], ids=[f"{docs.name}/09.txt#0"])) == ["09.txt"]
    assert again(lambda index: run(index, write(tmp_path / "beside.txt"))) == []
    assert again(lambda _index: (docs / "10.txt").unlink()) == []
    opened().drop()
