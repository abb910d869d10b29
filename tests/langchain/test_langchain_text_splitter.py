"""The splitter of `ingest` as one of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.documents import Document

from rag_bm25 import IndexConfig, ParameterError
from rag_bm25.ingestion.files import SourceFile
from rag_bm25.ingestion.reading import read_file
from rag_bm25.ingestion.splitting import splitter

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("langchain_text_splitters")

from rag_bm25.langchain.text_splitter import BM25TextSplitter

CONFIG = IndexConfig(chunk_size=60)
TEXT = "# A\n\nSome words of the first part.\n\n## B\n\n" + "Words of the second part. " * 6


def test_it_makes_the_chunks_of_ingest(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT)
    pieces = list(read_file(SourceFile(tmp_path / "a.md", "a.md", len(TEXT)), splitter(CONFIG)))
    split = BM25TextSplitter(CONFIG)
    found = split.split_documents([Document(page_content=TEXT, metadata={"source": "a.md", "title": "A"})])
    assert [document.page_content for document in found] == [piece.text for piece in pieces] == split.split_text(TEXT)
    assert [document.metadata for document in found] == [piece.metadata for piece in pieces]


def test_a_text_without_marks_has_no_headings() -> None:
    found = BM25TextSplitter(CONFIG, format="text").create_documents(["# A\n\nbody"])
    assert [document.metadata for document in found] == [{"chunk": 0, "start_index": 0, "end_index": 9}]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ParameterError, match="format must be one of text, markdown, rst, got 'pdf'"):
        BM25TextSplitter(CONFIG, format="pdf")
