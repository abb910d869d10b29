"""``rag-bm25 adopt``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25.adapters import AdoptedEncoder, adopt
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, recount_bar, show
from rag_bm25.cli.rendering import counted, stats_table
from rag_bm25.config import IndexConfig
from rag_bm25.errors import IndexNotFoundError


def adopt_(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", show_default=False, help="A collection that other software fills.")
    ],
    uri: opt.Uri = opt.DEFAULT_URI,
    token: opt.Token = None,
    text_field: Annotated[
        str | None,
        typer.Option(show_default=False, help="The VARCHAR field with the texts; the first time `text` by default."),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(show_default=False, help="A Milvus expression over the collection's fields: which rows to count."),
    ] = None,
    vector_field: Annotated[
        str | None,
        typer.Option(show_default=False, help="Check first that the sparse vectors there fit the parameters."),
    ] = None,
    chunk_size: Annotated[
        float | None,
        typer.Option(show_default=False, help="That of the vectors; needed the first time."),
    ] = None,
    length_unit: opt.Unit = None,
    k1: Annotated[float | None, typer.Option(show_default=False, help="That of the vectors, the first time.")] = None,
    b: Annotated[float | None, typer.Option(show_default=False, help="That of the vectors, the first time.")] = None,
    idf: opt.Idf = None,
    epsilon: opt.Epsilon = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Write the counts to a portable file, and nothing to Milvus."
        ),
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Count the texts of a collection that others fill, for weighing queries.

    The collection is only read; the counts go to a collection of their own beside it, COLLECTION_bm25. Run it again
    when texts were added, changed or deleted: all are counted again, and readers keep the old counts until the new
    ones are there. Parameters, text field and filter are remembered.
    """
    given = {"chunk_size": chunk_size, "length_unit": length_unit, "k1": k1, "b": b, "idf": idf, "epsilon": epsilon}
    config = _config(uri, collection, token, {name: value for name, value in given.items() if value is not None})
    start = time.perf_counter()
    with recount_bar(progress) as move:
        encoder = _adopt(
            uri,
            collection,
            config=config,
            text_field=text_field,
            filter=filter,
            vector_field=vector_field,
            store=output is None,
            token=token,
            tls=opt.tls_for(uri),
            progress=move,
        )
    if output is not None:
        encoder.save(output)
    seconds = time.perf_counter() - start
    figures, place = encoder.stats(), str(output or f"{collection}_bm25")
    if as_json:
        adopted = {"text_field": encoder.text_field, "filter": encoder.filter, "counts": place, "seconds": seconds}
        print_json({**asdict(figures), **adopted})
    else:
        show(stats_table(figures), f"{counted(figures.num_chunks, 'text')} counted in {seconds:.1f} s, kept in {place}")


def _config(uri: str, collection: str, token: str | None, given: dict[str, Any]) -> IndexConfig | None:
    """Return the parameters of the last adoption with what is given, those of a new one, or None where they lack."""
    try:
        stored = AdoptedEncoder.open(uri, collection, token=token, tls=opt.tls_for(uri)).config if given else None
    except IndexNotFoundError:
        return IndexConfig(**given) if "chunk_size" in given else None
    return replace(stored, **given) if stored else None


def _adopt(uri: str, collection: str, **options: Any) -> AdoptedEncoder:
    """Adopt, with the advice of an error in terms of the command line."""
    try:
        return adopt(uri, collection, **options)
    except IndexNotFoundError as error:
        reason, advice, _ = str(error).partition("; to adopt it")
        if advice:
            msg = f"{reason}; to adopt it, give --chunk-size, and what else its vectors were made with"
            raise IndexNotFoundError(msg) from None
        raise
