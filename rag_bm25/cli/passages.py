"""Chunks as people read them, outside of searches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rag_bm25.cli.rendering import INDENT
from rag_bm25.documents.lengths import unit_name
from rag_bm25.index.arguments import name_namespace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.index.config import IndexConfig

SHOWN_APART = ("source", "title", "headings", "chunk", "start_index", "end_index")
"""The metadata that ingestion stores, which have lines of their own."""

SNIPPET = 60  # columns of a text in a list that is not for a terminal


def render_chunk_line(chunk: Chunk, width: int | None) -> Text:
    """Return a chunk in one line of at most `width` columns, unless its id needs more."""
    head = Text.assemble((chunk.id, "bold"), "  ")
    if chunk.namespace:
        head.append(f"{name_namespace(chunk.namespace)}  ", "dim")
    text = Text(" ".join(chunk.text[:1_000].split()))
    room = SNIPPET if width is None else width - cell_len(head.plain)
    if room < 1:
        return head
    text.truncate(room, overflow="ellipsis")
    return head.append_text(text)


def render_chunk(found: dict[str, Any], config: IndexConfig, width: int | None) -> RenderableType:
    """Return a chunk as :func:`rag_bm25.cli.listing.describe_chunk` describes it."""
    chunk: Chunk = found["chunk"]
    rows = _describe_place(chunk, config)
    rows |= {"before": found["before"], "after": found["after"]}
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value not in (None, ""):
            table.add_row(name, str(value))
    own = {name: value for name, value in chunk.metadata.items() if name not in SHOWN_APART}
    for name, value in own.items():
        table.add_row(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    text = Text(chunk.text) if width is None else Padding(Text(chunk.text), (0, 0, 0, INDENT), expand=False)
    return Group(Text(chunk.id, style="bold"), table, "", text, "", _render_terms(found["terms"]))


def _describe_place(chunk: Chunk, config: IndexConfig) -> dict[str, Any]:
    """Return where a chunk stands in its document, as far as that is stored."""
    stored, start, end = chunk.metadata, chunk.metadata.get("start_index"), chunk.metadata.get("end_index")
    headings = stored.get("headings")
    path = " > ".join(map(str, headings)) if isinstance(headings, list) else headings
    return {
        "namespace": chunk.namespace,
        "source": stored.get("source"),
        "title": stored.get("title"),
        "headings": path,
        "chunk": stored.get("chunk"),
        "characters": None if start is None else f"{start:,} to {end:,}" if isinstance(end, int) else f"from {start:,}",
        "length": f"{chunk.length:,} {unit_name(config.length_unit)}",
    }


def _render_terms(terms: list[dict[str, Any]]) -> RenderableType:
    if not terms:
        return Text("no term: nothing can find it", style="dim")
    table = Table(box=None, pad_edge=False)
    for heading in ("term", "weight", "stored", "df", "IDF"):
        table.add_column(heading, justify="left" if heading == "term" else "right", overflow="fold")
    for term in terms:
        numbers = (f"{term['weight']:.4f}", f"{term['stored']:.4f}", f"{term['df']:,}", f"{term['idf']:.4f}")
        table.add_row(term["term"], *numbers)
    return table
