"""``rag-bm25 adopt``."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25.adapters import AdoptedEncoder, adopt
from rag_bm25.analysis import TextAnalyzer
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_result, progress_bars
from rag_bm25.cli.rendering import count, render_stats
from rag_bm25.cli.settings import IndexOptions
from rag_bm25.errors import IndexNotFoundError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.settings import with_settings


def adopt_(
    collection: Annotated[str, opt.argument("COLLECTION", "A collection that other software fills.")],
    settings: IndexOptions,
    uri: opt.Uri = opt.DEFAULT_URI,
    token: opt.Token = None,
    analyzer: opt.AnalyzerName = None,
    text_field: Annotated[
        str | None, opt.option("The VARCHAR field with the texts; the first time `text` by default.")
    ] = None,
    filter: Annotated[
        str | None, opt.option("Count only the rows that fit this Milvus expression over the collection's fields.")
    ] = None,
    vector_field: Annotated[
        str | None, opt.option("Check first that the sparse vectors in this field fit the settings.")
    ] = None,
    output: Annotated[
        Path | None, opt.option("Write the counts to a portable file, and nothing to Milvus.", metavar="FILE")
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Count the texts of a collection that others fill.

    Queries are weighed by these counts. The collection is only read; the counts go to a collection of their own beside
    it, COLLECTION_bm25. Run it again when texts were added, changed or deleted: all are counted again, and readers keep
    the old counts until the new ones are there. Settings, text field and filter are remembered. The settings are those
    that the vectors were made with; the first time, --chunk-size is needed.
    """
    given = settings.given()
    if "fields" in given:
        msg = "only the texts are counted: an adopted collection has no fields"
        raise typer.BadParameter(msg, param_hint="--field")
    theirs = {"uri": uri, "collection": collection, "token": token, "tls": opt.get_tls(uri)}
    text_analyzer = opt.load_analyzer(analyzer)
    config = _choose_config(theirs, given, text_analyzer)
    start = time.perf_counter()
    texts = {"text_field": text_field, "filter": filter, "vector_field": vector_field}
    made_with = {"config": config} if config else {"analyzer": text_analyzer}
    with progress_bars(progress) as update:
        encoder = _adopt(**theirs, **texts, **made_with, store=output is None, progress=update)
    if output is not None:
        encoder.save(output)
    seconds = time.perf_counter() - start
    figures, place = encoder.stats(), str(output or f"{collection}_bm25")
    adopted = {"text_field": encoder.text_field, "filter": encoder.filter, "counts": place, "seconds": seconds}
    last = f"{count(figures.num_chunks, 'text')} counted in {seconds:.1f} s, kept in {place}"
    print_result(as_json, {**asdict(figures), **adopted}, render_stats(figures), last)


def _choose_config(theirs: dict[str, Any], given: dict[str, Any], analyzer: TextAnalyzer | None) -> IndexConfig | None:
    """Return the settings of the last adoption with what is given, those of a new one, or None if they are missing."""
    try:
        stored = AdoptedEncoder.open(**theirs, analyzer=analyzer).config if given else None
    except IndexNotFoundError:
        plain = opt.with_analyzer(IndexConfig(1), analyzer)
        return with_settings(plain, given) if "chunk_size" in given else None
    return with_settings(stored, given) if stored else None


def _adopt(**options: Any) -> AdoptedEncoder:
    """Adopt, with the advice of an error in terms of the command line."""
    try:
        return adopt(**options)
    except IndexNotFoundError as error:
        reason, advice, _ = str(error).partition("; to adopt it")
        if advice:
            msg = f"{reason}; to adopt it, give --chunk-size and the other settings that its vectors were made with"
            raise IndexNotFoundError(msg) from None
        raise
