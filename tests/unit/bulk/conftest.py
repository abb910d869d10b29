"""Small batches, and files that have been merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bulk_files import ROWS

from rag_bm25.bulk import encode_part, merge

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25 import (
        IndexConfig,
    )


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two chunks be a batch, so that there are several."""
    monkeypatch.setattr("rag_bm25.documents.chunks.MAX_BATCH_CHUNKS", 2)


@pytest.fixture
def merged(tmp_path: Path, config: IndexConfig) -> Path:
    """Three parts, merged; the second one is empty."""
    for part, rows in enumerate([ROWS[:3], [], ROWS[3:]]):
        encode_part(rows, config, tmp_path, part)
    merge(tmp_path)
    return tmp_path
