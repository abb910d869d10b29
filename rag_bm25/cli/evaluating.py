"""``rag-bm25 evaluate``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import count_bars, print_json, show
from rag_bm25.cli.rendering import evaluation_table
from rag_bm25.config import IndexConfig
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.index import BM25Index
from rag_bm25.similarity import IdfName
from rag_bm25.weightings import WeightingName

Segmentation = Literal["search", "exact"]


def _chunk_size(text: str) -> float | None:
    """Read a number, or ``auto`` as None."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        msg = f"must be a number or 'auto', got {text!r}"
        raise typer.BadParameter(msg) from None


def evaluate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="A set in BEIR form: corpus, queries, qrels.")
    ],
    split: Annotated[str, typer.Option(help="Which judgements: qrels/SPLIT.tsv.")] = "test",
    uri: Annotated[
        str | None,
        typer.Option(show_default=False, help="Where to put the temporary index; by default a temporary folder."),
    ] = None,
    token: opt.Token = None,
    chunk_size: Annotated[
        str,
        typer.Option(metavar="NUMBER|auto", help="Constant in place of the mean length; auto: the corpus mean."),
    ] = "auto",
    length_unit: Annotated[LengthUnit, typer.Option(help="What lengths are counted in.")] = "characters",
    k1: Annotated[float, typer.Option(help="Saturation of repeated terms.")] = 1.5,
    b: Annotated[float, typer.Option(help="Share of the length.")] = 0.75,
    weighting: Annotated[WeightingName, typer.Option(help="What occurrences in a chunk are worth.")] = "bm25",
    delta: opt.Delta = None,
    idf: Annotated[IdfName, typer.Option(help="IDF formula.")] = "epsilon",
    epsilon: Annotated[float, typer.Option(help="Factor of the floor of the epsilon IDF.")] = 0.25,
    k3: Annotated[
        float | None,
        typer.Option(show_default=False, help="Saturation of repeated query terms; by default linear."),
    ] = None,
    segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in chunks is cut.")] = "search",
    query_segmentation: Annotated[Segmentation, typer.Option(help="How Chinese in queries is cut.")] = "search",
    stem: Annotated[bool, typer.Option(help="Stem English words.")] = True,
    simplify: Annotated[bool, typer.Option(help="Traditional Chinese to simplified.")] = True,
    bigrams: Annotated[bool, typer.Option(help="Chinese bigrams beside words.")] = True,
    bigram_weight: Annotated[float, typer.Option(min=0, help="Weight of Chinese bigrams beside words.")] = 0.4,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure retrieval on a judged set in BEIR form.

    Prints nDCG@10, Recall@100, MRR@10 and the speed. The documents, each as one chunk, go to a temporary index, which
    is dropped at the end. MILVUS_URI is not used here: a server is only written to where --uri names it.
    """
    given_size = _chunk_size(chunk_size)
    analyzer = AnalyzerConfig(
        segmentation=segmentation,
        query_segmentation=query_segmentation,
        stem=stem,
        simplify=simplify,
        bigrams=bigrams,
    )
    dataset = evaluation.load_beir(folder, split)
    size = given_size or evaluation.mean_length(dataset.corpus.values(), length_unit, Analyzer(analyzer))
    config = IndexConfig(
        size,
        length_unit,
        k1,
        b,
        epsilon,
        idf,
        k3,
        analyzer,
        weighting=weighting,
        delta=delta,
        bigram_weight=bigram_weight,
    )
    totals = {"chunks": len(dataset.corpus), "queries": len(dataset.queries)}
    with _temporary_index(uri, token, config) as index, count_bars(progress, totals) as move:
        result = evaluation.evaluate(index, dataset, move)
    if as_json:
        print_json({**result.to_dict(), "chunk_size": size, "config": _plain(config, analyzer)})
    else:
        show(evaluation_table(folder.resolve().name, result, config))


@contextmanager
def _temporary_index(uri: str | None, token: str | None, config: IndexConfig) -> Iterator[BM25Index]:
    """Create an index, and leave nothing of it."""
    from rag_bm25.milvus_store import MilvusStore

    with tempfile.TemporaryDirectory(prefix="rag-bm25-") as folder:
        place = Path(folder, "evaluate.db") if uri is None else uri
        store = MilvusStore(place, f"evaluate_{secrets.token_hex(6)}", token=token)
        with BM25Index.from_store(store, config=config) as index:
            try:
                yield index
            finally:
                store.drop()


def _plain(config: IndexConfig, analyzer: AnalyzerConfig) -> dict[str, Any]:
    return {**asdict(config), "analyzer": analyzer.to_dict()}
