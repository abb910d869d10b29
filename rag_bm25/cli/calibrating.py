"""``rag-bm25 calibrate``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rag_bm25 import ingestion
from rag_bm25.calibration import PROPOSED_RATIO, Calibration
from rag_bm25.calibration import calibrate as propose
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, show
from rag_bm25.cli.ingesting import DEFAULT_CHUNK_SIZE
from rag_bm25.cli.rendering import calibration_table
from rag_bm25.config import IndexConfig
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.errors import InputError
from rag_bm25.evaluation import mean_length


def calibrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH...", show_default=False, help="Files and folders; by default the index."),
    ] = None,
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: Annotated[
        str | None,
        typer.Option(show_default=False, help="Tenant or sub-corpus of the index; by default the whole."),
    ] = None,
    token: opt.Token = None,
    split_size: Annotated[
        int, typer.Option(min=1, help="Greatest length of a chunk, as `rag-bm25 ingest` will be given it.")
    ] = DEFAULT_CHUNK_SIZE,
    chunk_overlap: Annotated[
        int | None, typer.Option(min=0, show_default=False, help="As `rag-bm25 ingest` will be given it.")
    ] = None,
    length_unit: Annotated[LengthUnit, typer.Option(help="What lengths are counted in, of files.")] = "characters",
    k1: Annotated[float, typer.Option(help="Saturation of repeated terms, for files.")] = 1.5,
    b: Annotated[float, typer.Option(help="Share of the length, for files.")] = 0.75,
    ratio: Annotated[
        float, typer.Option(help="Chunk size in mean lengths; 1 is exact BM25 while the mean stays what it is.")
    ] = PROPOSED_RATIO,
    sample: Annotated[int, typer.Option(min=1, help="How many chunks of the files to measure, at most.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the order in which files are sampled.")] = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Propose a chunk size, the constant in place of the mean length.

    Of files and folders, some chunks are cut as `rag-bm25 ingest` cuts them; of an index, all lengths are known. s, k1'
    and b' tell what the proposal amounts to: the exact BM25, with the measured mean length, that scores the same.
    """
    if paths:
        config = IndexConfig(split_size, length_unit, k1, b)
        proposal = _of_files(paths, config, chunk_overlap, sample, seed, ratio)
    else:
        proposal = _of_index(uri, collection, token, namespace, ratio)
    if as_json:
        print_json(asdict(proposal))
    else:
        show(calibration_table(proposal, split_size if paths else None))


def _of_files(
    paths: list[Path], config: IndexConfig, chunk_overlap: int | None, sample: int, seed: int, ratio: float
) -> Calibration:
    split = ingestion.splitter(config, chunk_overlap)
    texts = [piece.text for piece in ingestion.sample(ingestion.find_files(paths).files, split, sample, seed=seed)]
    if not texts:
        msg = f"there is no text to measure in {', '.join(map(str, paths))}"
        raise InputError(msg)
    mean = mean_length(texts, config.length_unit, config.build_analyzer())
    return propose(mean, len(texts), length_unit=config.length_unit, k1=config.k1, b=config.b, ratio=ratio)


def _of_index(uri: str, collection: str, token: str | None, namespace: str | None, ratio: float) -> Calibration:
    with opt.open_index(uri, collection, token, read_only=True) as index:
        stats = index.stats(namespace=namespace)
    if not stats.total_length:
        msg = f"{stats.name} has no text to measure"
        raise InputError(msg)
    unit = stats.length_unit
    return propose(stats.mean_length, stats.num_chunks, length_unit=unit, k1=stats.k1, b=stats.b, ratio=ratio)
