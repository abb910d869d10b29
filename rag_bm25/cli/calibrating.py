"""``rag-bm25 calibrate`` and ``calibrate-answers``."""

from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis.places import written_form
from rag_bm25.analysis.text import TextAnalyzer
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note, print_result, progress_bars
from rag_bm25.cli.embedding import FORM, Embedding, load_model
from rag_bm25.cli.judgements import note_missing
from rag_bm25.cli.rendering import count, render_answers, render_calibration, render_fusion, render_k1
from rag_bm25.cli.settings import DEFAULT_CHUNK_SIZE, K1, B, IndexOptions, Settings, make_splitter, new_config
from rag_bm25.cli.sources import ReadingFlags
from rag_bm25.documents.lengths import LengthUnit, chunk_length
from rag_bm25.errors import InputError
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.arguments import Namespaces
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.stats import frequent_names
from rag_bm25.ingestion.reading import sample
from rag_bm25.weighting.calibration import PROPOSED_RATIO, Calibration, idf_warning
from rag_bm25.weighting.calibration import calibrate as propose

SAMPLE = 10_000  # chunks of files to measure


def calibrate(
    paths: Annotated[list[Path] | None, opt.argument("PATH...", "Files and folders; by default the index.")] = None,
    *,
    place: opt.IndexAddress,
    sources: ReadingFlags,
    namespace: opt.StatsNamespaces = None,
    split_size: Annotated[
        int, typer.Option(min=1, help="Maximum length of a chunk, as `rag-bm25 ingest` will be given it.")
    ] = DEFAULT_CHUNK_SIZE,
    chunk_overlap: Annotated[int | None, opt.option("As `rag-bm25 ingest` will be given it.", min=0)] = None,
    k1: K1 = None,
    b: B = None,
    setting: Settings = None,
    ratio: Annotated[
        float, typer.Option(help="Chunk size in mean lengths; 1 is exact BM25 while the mean stays what it is.")
    ] = PROPOSED_RATIO,
    k1_of_terms: Annotated[
        bool, opt.option("Learn a k1 for each term of the index, and keep it there.", "--k1-of-terms")
    ] = False,
    judged: Annotated[
        Path | None,
        opt.option(
            "Choose how hybrid searches weigh words and embeddings, by the questions of a set in BEIR form, and keep "
            "it with the index.",
            metavar="DIR",
        ),
    ] = None,
    embedding: Embedding = None,
    split: Annotated[str, typer.Option(help="The judgements: qrels/SPLIT.tsv, .qrels or .txt.")] = "test",
    dry_run: Annotated[bool, opt.option("With --judged: measure, and store nothing.", "--dry-run")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Propose a chunk size, the constant in place of the mean length.

    Of files and folders, up to 10,000 chunks are cut as `rag-bm25 ingest` cuts them, with the settings given; of an
    index, all lengths are known. s, k1' and b' show the effect of the proposal: the exact BM25, with the measured
    mean length, that scores the same.

    With --k1-of-terms, all chunks of the index are read instead, and searches take --weighting k1=bm25t and k1=adpt.

    With --judged and --embedding, 60 questions or more choose the fusion of hybrid searches: words alone, embeddings
    alone, and weights between. The default stays unless another is better by more than 1.5 standard errors. `set` shows
    and changes what is kept.
    """
    if paths and (k1_of_terms or judged):
        what, flag = ("k1 is learned", "--k1-of-terms") if k1_of_terms else ("a fusion is chosen", "--judged")
        raise typer.BadParameter(f"{what} from an index, not from files", param_hint=flag)
    if k1_of_terms and (judged or dry_run):
        msg = "is for --judged alone: a k1 that is learned is kept" if dry_run else "cannot be given with --k1-of-terms"
        raise typer.BadParameter(msg, param_hint="--dry-run" if dry_run else "--judged")
    if k1_of_terms:
        _learn_k1(place, progress, as_json=as_json)
        return
    if judged:
        dataset = evaluation.load_beir(judged, split, corpus=False)
        _calibrate_fusion(place, dataset, embedding, namespace or "", progress, dry_run=dry_run, as_json=as_json)
        return
    settings = IndexOptions(k1=k1, b=b, setting=setting).given()
    if "chunk_size" in settings:
        msg = "chunk_size is proposed, not given; files are cut at --split-size"
        raise typer.BadParameter(msg, param_hint="--set")
    if paths:
        config = new_config(split_size, place.text_analyzer, settings)
        proposal, warning = _propose_for_files(paths, sources, config, chunk_overlap, ratio)
    else:
        proposal, warning = _propose_for_index(place, namespace, ratio)
    result = {**asdict(proposal), "idf_warning": warning}
    print_result(as_json, result, render_calibration(proposal, split_size if paths else None))
    if warning:
        print_note(warning)


def _learn_k1(place: opt.IndexAddress, progress: bool | None, *, as_json: bool) -> None:
    with place.open_existing() as index, progress_bars(progress) as update:
        learned = index.learn_k1(progress=update)
    print_result(as_json, asdict(learned), render_k1(place.collection, learned))


def _calibrate_fusion(
    place: opt.IndexAddress,
    dataset: evaluation.BeirDataset,
    embedding: str | None,
    namespace: Namespaces,
    progress: bool | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if (model := load_model(embedding)) is None:
        msg = f"needs the model of the embeddings: --embedding {FORM}"
        raise typer.BadParameter(msg, param_hint="--judged")
    with place.open_existing(read_only=dry_run) as index:
        model.require_fit(index.config)
        note_missing(index, dataset, namespace)
        with progress_bars(progress) as update:
            found = evaluation.calibrate_fusion(
                index, dataset, model.embed_query, update, dry_run=dry_run, namespace=namespace
            )
    print_result(as_json, found.to_dict(), render_fusion(place.collection, found))
    if not found.is_enough:
        print_note(f"{count(found.queries, 'question')} with a relevant document: 60 are needed, so nothing is changed")


def _propose_for_files(
    paths: list[Path], sources: ReadingFlags, config: IndexConfig, chunk_overlap: int | None, ratio: float
) -> tuple[Calibration, str | None]:
    split = make_splitter(config, chunk_overlap)
    files = sources.find(paths).files
    pieces = sample(files, split, SAMPLE, options=sources.reading())
    texts = [piece.text for piece in pieces]
    if not texts:
        raise InputError(f"there is no text to measure in {', '.join(map(str, paths))}")
    analyzer = config.build_analyzer()
    mean, dfs = _measure(texts, analyzer, config.length_unit)
    names = frequent_names(dfs.items(), len(texts), partial(written_form, analyzer, texts))
    warning = idf_warning(config.idf, names)
    return propose(mean, len(texts), length_unit=config.length_unit, k1=config.k1, b=config.b, ratio=ratio), warning


def _measure(texts: list[str], analyzer: TextAnalyzer, unit: LengthUnit) -> tuple[float, Counter[str]]:
    """Return the mean length of texts and the df of their terms; each text is analysed once."""
    dfs, lengths = Counter[str](), []
    for text in texts:
        tokens = analyzer(text)
        dfs.update(set(tokens))
        lengths.append(chunk_length(text, tokens, unit))
    return max(1.0, fmean(lengths)), dfs


def _propose_for_index(
    place: opt.IndexAddress, namespace: list[str] | None, ratio: float
) -> tuple[Calibration, str | None]:
    with place.open_existing(read_only=True) as index:
        stats = index.stats(namespace=namespace or None)
        names = index.frequent_names(namespace=namespace or None)
    if not stats.total_length:
        raise InputError(f"{stats.name} has no text to measure")
    unit, warning = stats.length_unit, idf_warning(stats.idf, names)
    return propose(stats.mean_length, stats.num_chunks, length_unit=unit, k1=stats.k1, b=stats.b, ratio=ratio), warning


def calibrate_answers(
    folder: opt.JudgedSet,
    place: opt.IndexAddress,
    options: SearchOptions,
    namespace: opt.Namespaces = None,
    split: Annotated[str, typer.Option(help="The judgements: qrels/SPLIT.tsv, .qrels or .txt.")] = "test",
    dry_run: Annotated[bool, opt.option("Fit and measure, and store nothing.", "--dry-run")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Fit the confidence that a hit answers, by judged questions, and keep it with the index.

    The set needs no corpus; chunks, or the documents or rows that they are of, have the ids of the judgements. Each
    question counts twice: as it is, and with its answers taken out. Afterwards, hits have a confidence, and searches
    take --min-confidence. The figures are of questions that the model has not seen.
    """
    dataset = evaluation.load_beir(folder, split, corpus=False)
    given: dict[str, Any] = {**options, "namespace": namespace or "", "dry_run": dry_run}
    with place.open_existing(read_only=dry_run) as index:
        note_missing(index, dataset, namespace or "")
        with progress_bars(progress) as update:
            calibration = evaluation.calibrate_answers(index, dataset, update, **given)
    print_result(as_json, calibration.to_dict(), render_answers(place.collection, calibration))
    for doubt in calibration.doubts:
        print_note(doubt)
