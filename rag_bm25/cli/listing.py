"""``rag-bm25 list`` and ``show``."""

import json
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import open_console, print_json, print_note, print_result
from rag_bm25.cli.rendering import INDENT, count, join_first, natural_key
from rag_bm25.documents.chunks import Chunk
from rag_bm25.documents.lengths import unit_name
from rag_bm25.errors import ChunkNotFoundError, IndexNotFoundError, RagBM25Error
from rag_bm25.filters import conjoin, parse_filter
from rag_bm25.hits.neighbors import order_in_source, source_of
from rag_bm25.index.arguments import name_namespace
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index
from rag_bm25.index.maintenance.generations import describe_generations
from rag_bm25.ingestion.source_names import nfc
from rag_bm25.ingestion.source_options import as_flags
from rag_bm25.ingestion.source_roots import read_source_roots

SHOWN_APART = ("source", "title", "headings", "chunk", "start_index", "end_index")
"""The metadata that ingestion stores, which have lines of their own."""

SNIPPET = 60  # columns of a text in a list that is not for a terminal
MAX_LINES = 1_000


def list_(
    place: opt.IndexAddress,
    what: Annotated[
        Literal["indexes", "sources", "chunks"],
        typer.Argument(metavar="[indexes|sources|chunks]", help="What to list.", show_default=False),
    ] = "indexes",
    source: Annotated[
        str | None, opt.argument("[SOURCE]", "Source of the chunks; by default all, in no particular order.")
    ] = None,
    namespace: opt.StatsNamespaces = None,
    filter: opt.Filter = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of chunks.")] = MAX_LINES,
    as_json: opt.AsJson = False,
) -> None:
    """List indexes, sources or chunks.

    Without a word, the indexes of the database; else the sources of the index with the number of their chunks, or the
    chunks of a source.
    """
    if source and what != "chunks":
        raise typer.BadParameter(f"a source is for `list chunks`, not `list {what}`", param_hint="SOURCE")
    if what == "indexes":
        _list_indexes(place, as_json)
        return
    conditions = opt.parse_filter_option(filter)
    with place.open_existing(read_only=True) as index:
        if what == "sources":
            _list_sources(index, conditions, namespace or None, as_json)
        else:
            _list_chunks(index, conditions, source and nfc(source), namespace or None, limit, as_json)


def _list_indexes(place: opt.IndexAddress, as_json: bool) -> None:
    from rag_bm25.store.milvus.address import is_missing_file

    if is_missing_file(place.uri):
        raise IndexNotFoundError(f"database {place.uri} not found; `rag-bm25 ingest` creates one")
    with closing(place.store(read_only=True)) as store:
        names = store.index_names()
        rows = [_describe_index(place, name) for name in names]
    table = Table(box=None, pad_edge=False, show_header=bool(rows))
    for heading in ("index", "chunks", "namespaces"):
        table.add_column(heading, justify="right" if heading == "chunks" else "left", overflow="fold")
    for row in rows:
        figures = (f"{row['chunks']:,}", row["namespaces"]) if "error" not in row else ("?", [row["error"]])
        namespaces = join_first(each or "default" for each in figures[1]) or "none"
        table.add_row(_name_generations(row), figures[0], namespaces)
    print_result(as_json, rows, *([table] if rows else []))
    if not (rows or as_json):
        print_note(f"there is no index at {place.uri}; `rag-bm25 ingest` creates one")


def _describe_index(place: opt.IndexAddress, name: str) -> dict[str, Any]:
    """Return the figures of an index, or why it cannot be opened."""
    try:
        address = opt.IndexAddress(place.uri, name, place.token)
        with address.open(read_only=True) as index, closing(address.store(read_only=True)) as store:
            stats, generations = index.stats(), describe_generations(store)
    except RagBM25Error as error:
        return {"name": name, "error": str(error)}
    return {"name": name, "chunks": stats.num_chunks, "namespaces": list(stats.namespaces), **generations}


def _name_generations(row: dict[str, Any]) -> str:
    """Return the name of an index, with its generation and the rows of the others."""
    if "generation" not in row:
        return str(row["name"])
    others = (f"generation {number}: {count(rows, 'row')}" for number, rows in row["other_generations"].items())
    in_force = f"generation {row['generation']}"
    return f"{row['name']} ({', '.join([in_force, *others])})"


def _list_sources(index: BM25Index, conditions: Any, namespace: list[str] | None, as_json: bool) -> None:
    chunks = index.chunks(filter=conditions, namespace=namespace)
    counts = Counter((chunk.namespace, source_of(chunk)) for chunk in chunks)
    found = sorted(counts, key=lambda key: (key[0], natural_key(key[1] or "")))
    rows = [{"source": source, "namespace": space, "chunks": counts[space, source]} for space, source in found]
    width = max((len(f"{number:,}") for number in counts.values()), default=0)
    lines = []
    for space, source in found:
        line = Text.assemble((f"{counts[space, source]:>{width},}", "cyan"), "  ", source or ("(no source)", "dim"))
        lines.append(line.append(f"  {name_namespace(space)}", "dim") if space else line)
    print_result(as_json, rows, *lines)
    if as_json:
        return
    print_note(f"{count(len(rows), 'source')}, {count(counts.total(), 'chunk')}")
    for space in index.stats().namespaces if namespace is None else namespace:
        for root in read_source_roots(index, namespace=space):
            if root.options:
                print_note(f"{root.name} is ingested with {as_flags(root.options)}")


def _list_chunks(
    index: BM25Index, conditions: Any, source: str | None, namespace: list[str] | None, limit: int, as_json: bool
) -> None:
    of_source = None if source is None else {"source": source}
    both: Any = conjoin(parse_filter(of_source), parse_filter(conditions))
    found = index.chunks(filter=both, namespace=namespace)
    if source is None:
        chunks = list(islice(found, limit + 1))
    else:
        chunks = sorted(found, key=lambda one: (order_in_source(one), natural_key(one.id)))
    if source is not None and not chunks:
        msg = f"no chunk has the source {source!r}; `rag-bm25 list sources` lists the sources"
        raise ChunkNotFoundError(msg)
    console, shown = open_console(), chunks[:limit]
    if as_json:
        print_json([chunk.to_dict() for chunk in shown])
        return
    for chunk in shown:
        console.print(render_chunk_line(chunk, console.width if console.is_terminal else None))
    if len(chunks) > limit:
        print_note(f"there are more: --limit shows more than {limit:,}")


def show(
    id: Annotated[str, opt.argument("ID", "Id of a chunk.")],
    place: opt.IndexAddress,
    namespace: opt.Namespace = None,
    k: Annotated[int, typer.Option("-k", "--top-k", min=1, max=1_000, help="Maximum number of its terms.")] = 10,
    as_json: opt.AsJson = False,
) -> None:
    """Show a chunk with its place, metadata and terms.

    Its terms are those that count most. The weight of a term is what it adds to the chunk's score if a query has it
    once: the stored weight times the IDF.
    """
    with place.open_existing(read_only=True) as index:
        found = describe_chunk(index, id, namespace or "", k)
    console = open_console()
    if as_json:
        chunk = found["chunk"].to_dict()
        print_json({**chunk, **{name: value for name, value in found.items() if name != "chunk"}})
    else:
        console.print(render_chunk(found, index.config, console.width if console.is_terminal else None))


def describe_chunk(index: BM25Index, id: str, namespace: str, k: int) -> dict[str, Any]:
    """Read a chunk, the ids of its neighbours, and its terms."""
    found = index.get([id], namespace=namespace)
    if not found:
        msg = f"no chunk {id!r} in {name_namespace(namespace)}; `rag-bm25 list chunks SOURCE` lists those of a source"
        raise ChunkNotFoundError(msg)
    (chunk,) = found
    passage = index.neighbors(chunk).chunks
    at = [one.id for one in passage].index(id)
    return {
        "chunk": chunk,
        "before": passage[at - 1].id if at else None,
        "after": passage[at + 1].id if at + 1 < len(passage) else None,
        "terms": [asdict(term) for term in index.chunk_terms(id, k=k, namespace=namespace)],
    }


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
