"""Passages of chunks whose places are stored, half stored, or wrong."""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25 import BM25Index, Chunk, IndexConfig
from rag_bm25.hits import neighbors
from rag_bm25.hits.neighbors import join, run_around
from rag_bm25.index.searching.contexts import read_passages
from rag_bm25.ingestion import find_files, ingest
from rag_bm25.store.memory import MemoryStore


def chunk(id_: str, text: str, **metadata: object) -> Chunk:
    return Chunk(id_, text, metadata)


def joined(*chunks: Chunk) -> str:
    return join(chunks).text


def test_overlaps_are_found_where_no_place_is_stored() -> None:
    assert joined(chunk("a", "one two three four"), chunk("b", "three four five")) == "one two three four five"
    assert joined(chunk("a", "one cats"), chunk("b", "sand two")) == "one cats\nsand two"  # a common s is no overlap
    assert joined(chunk("a", "one "), chunk("b", "two")) == "one two"


def test_a_stored_place_that_does_not_fit_is_not_believed() -> None:
    first, second = chunk("a", "one two three four", start_index=0), chunk("b", "three four five", start_index=2)
    assert joined(first, second) == "one two three four five"
    assert joined(first, chunk("b", "five", start_index=9000)) == "one two three four\nfive"


@given(
    st.lists(st.tuples(st.text("ab \n", max_size=14), st.none() | st.integers(0, 30)), min_size=1, max_size=6),
    st.sampled_from([2, 10]),
)
@example([("abababababab", None), ("", 3), ("bababababa", None)], 10)
def test_chunks_are_joined_as_text_that_is_written_anew_for_each(pieces: Any, least: int) -> None:
    chunks = [chunk(f"c{at}", text, start_index=start) for at, (text, start) in enumerate(pieces)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "MIN_OVERLAP", least)
        found = join(chunks)
    text, at, starts = chunks[0].text, 0, [0]
    for before, own in pairwise(chunks):
        step = (own.metadata["start_index"] or 0) - (before.metadata["start_index"] or 0)
        has_places = before.metadata["start_index"] is not None and own.metadata["start_index"] is not None
        stored = at + step if has_places and 0 <= step <= len(before.text) + 64 else None
        if stored is not None and own.text.startswith(text[stored : stored + len(own.text)]):
            at = stored
        else:
            sizes = range(least, min(len(before.text), len(own.text)) + 1)
            shared = max((size for size in sizes if text.endswith(own.text[:size])), default=0)
            at = len(text) - shared if shared or text[-1:].isspace() else len(text) + 1
        text = text.ljust(at, "\n")[:at] + own.text + text[at + len(own.text) :]
        starts.append(at)
    assert found.text == text
    assert list(found.starts.values()) == starts
    assert [found.passage(own).start for own in chunks] == starts


def test_hits_of_one_document_share_its_text() -> None:
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=9)) as index:
        metadatas = [{"source": "s", "chunk": at} for at in range(20)]
        index.add(["fig plum"] * 20, ids=[f"s#{at}" for at in range(20)], metadatas=metadatas)
        contexts = [hit.context for hit in index.search("fig", 20, context="document")]
        assert {id(context.text) for context in contexts if context} == {id(contexts[0].text) if contexts[0] else 0}
        assert sorted(context.start for context in contexts if context) == list(range(0, 180, 9))
        assert {context.text[context.start : context.end] for context in contexts if context} == {"fig plum"}


def test_a_hit_that_was_deleted_since_is_shown_among_those_that_were_not() -> None:
    store = MemoryStore()
    with BM25Index.from_store(store, config=IndexConfig(chunk_size=9)) as index:
        metadatas = [{"source": "s", "start_index": at} for at in (0, 4, 8)]
        index.add(["fig plum", "plum fig", "fig plum"], ids=["a", "b", "c"], metadatas=metadatas)
        hits = sorted(index.search("fig"), key=attrgetter("id"))
        index.delete(["b"])
        passages = read_passages(store, hits, 9, 9)
        assert [[one.id for one in passage.chunks] for passage in passages] == [["a", "c"], ["a", "b", "c"], ["a", "c"]]
        assert [passage.text[passage.start : passage.end] for passage in passages] == [hit.text for hit in hits]


def test_white_space_that_a_splitter_left_out_becomes_line_breaks() -> None:
    assert joined(chunk("a", "one", start_index=10), chunk("b", "two", start_index=15)) == "one\n\ntwo"


def test_a_chunk_within_the_one_before_changes_nothing() -> None:
    assert joined(chunk("a", "one two three", start_index=0), chunk("b", "two", start_index=4)) == "one two three"


def test_rows_of_one_file_are_no_document() -> None:
    rows = [chunk(f"r{n}", "x", source="rows.jsonl", chunk=0) for n in range(3)]
    assert run_around(rows[0], rows[1:]) == [rows[0]]


def test_a_missing_chunk_ends_the_run() -> None:
    chunks = [chunk(f"c{n}", "x", source="s", chunk=n) for n in (0, 1, 3, 4, 5)]
    assert run_around(chunks[3], [*chunks[:3], chunks[4]]) == chunks[2:]
    by_start = [chunk(f"c{n}", "x" * 10, source="s", start_index=n) for n in (0, 10, 500, 511)]
    assert run_around(by_start[0], by_start[1:]) == by_start[:2]


@pytest.mark.parametrize("size", [12, 30, 200])
def test_an_ingested_file_comes_back_whole(tmp_path: Path, size: int) -> None:
    text = "# 标题\n\nOne sentence. Another one!\n\n第一句话。第二句话？  third  \n\n" + "abc abc abc " * 20 + "\n\nend"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(text, encoding="utf-8")
    (tmp_path / "docs" / "b.md").write_text(text[::-1], encoding="utf-8")
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=size)) as index:
        ingest(index, find_files([tmp_path / "docs"]), chunk_overlap=size // 3)
        for piece in index.chunks(filter={"source": "docs/a.md"}):
            whole = index.neighbors(piece, None, None)
            assert whole.text.split() == text.split()
            assert len(whole.text) == len(text)
            start = piece.metadata["start_index"]
            assert text[start : start + len(piece.text)] == piece.text


def test_the_header_of_a_table_is_there_once_and_above_the_chunk_that_was_asked_for(tmp_path: Path) -> None:
    text = "before\n\n| name | limit |\n|---|---|\n" + "".join(f"| part{n} | {n} |\n" for n in range(30)) + "\nafter"
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=90)) as index:
        ingest(index, find_files([tmp_path / "a.md"]))
        pieces = list(index.chunks())
        assert sum("name" in piece.text for piece in pieces) > 5
        for piece in pieces:
            whole = index.neighbors(piece, None, None)
            place = slice(piece.metadata["start_index"], piece.metadata["end_index"])
            header = piece.text.removesuffix(text[place])
            assert whole.text[whole.start : whole.end] == piece.text
            assert whole.text[: whole.start] + whole.text[whole.start + len(header) :] == text
