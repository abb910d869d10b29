"""What happens to those who promise that chunks are new, and break it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig


@pytest.mark.usefixtures("embedded")
def test_a_broken_promise_is_found_by_verify_and_mended(tmp_path: Path) -> None:
    store = engines.open_store("embedded", tmp_path)
    with BM25Index.from_store(store, config=IndexConfig(chunk_size=4, analyzer=split)) as index:
        index.add(["apple pie", "banana"], ids=["1", "2"], assume_new=True)
        assert index.verify().ok
        index.add(["apple fig"], ids=["1"], assume_new=True)
        assert not index.verify().ok
        index.delete(["1"])
        index.repair()
        assert index.verify().ok
        assert (index.search("apple"), index.stats().num_chunks) == ([], 1)
        index.add(["apple fig"], ids=["1"])
        assert index.verify().ok
        assert [hit.text for hit in index.search("apple")] == ["apple fig"]
