"""``rag-bm25 evaluate``."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, progress_bars, show
from rag_bm25.cli.rendering import render_comparison, render_evaluation
from rag_bm25.cli.settings import AUTO, IndexOptions, parse_grid
from rag_bm25.errors import InputError
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.comparison import PairedTest
from rag_bm25.evaluation.measures import MEASURES, MeasureName
from rag_bm25.evaluation.running import EvaluationResult, in_memory, mean_length, write_run
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index


def evaluate(
    folder: opt.JudgedSet,
    settings: IndexOptions,
    split: Annotated[str, typer.Option(help="The judgements: qrels/SPLIT.tsv.")] = "test",
    uri: opt.TemporaryUri = None,
    token: opt.Token = None,
    analyzer: opt.AnalyzerName = None,
    compare: Annotated[
        list[str] | None,
        opt.option(
            "Compare with configurations that differ by these settings: k1=0.9,b=0.4 is one, and k1=0.9,1.2,b=0.4,0.7 "
            "are four, each value of k1 with each of b; may be repeated.",
            metavar="NAME=VALUE[,VALUE...],...",
        ),
    ] = None,
    run: Annotated[
        Path | None, opt.option("Write the rankings as a TREC run; of several, as FILE-1, FILE-2, ...")
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure retrieval on a judged set, and compare settings.

    Prints nDCG@10, Recall@100, MRR@10 and the speed. The documents, each as one chunk, go to an index in memory, or to
    a temporary one at --uri, which is dropped at the end. MILVUS_URI is not used here. The chunk size is `auto` by
    default, the mean length of the documents.

    The text of a document begins with its title, unless that is a field: --field title:30, or fields=title:30 and
    fields=none in --compare. There is no other field in BEIR form.

    With --compare, each configuration stands beside the one of the options. p is that of a paired randomisation test
    over the queries; with several, adjusted by Holm's method. Those that differ on the query's side alone, as by
    idf, k3 or bigram_weight, share an index.
    """
    base = {"chunk_size": AUTO, **settings.given(auto=True)}
    compared = [("as given", {}), *(one for text in compare or () for one in parse_grid(text, "--compare"))]
    labels = [label for label, _ in compared]
    if run is not None and not run.parent.is_dir():
        raise InputError(f"there is no folder {run.parent} to put {run.name} in")
    dataset = evaluation.load_beir(folder, split)
    plain = opt.with_analyzer(IndexConfig(1), opt.load_analyzer(analyzer))
    configs = [_make_config(plain, {**base, **change}, dataset) for _, change in compared]
    with progress_bars(progress) as update:
        results = evaluation.evaluate_each(configs, dataset, partial(_open_index, uri, token), update)
    if run is not None:
        _write_runs(run, labels, results)
    tests = [_compare(results, measure) for measure in MEASURES]
    if as_json:
        print_json(_to_plain(labels, results, configs, tests))
        return
    show(render_evaluation(folder.resolve().name, results[0], configs[0]))
    if len(results) > 1:
        show("", render_comparison(labels, results, tests[0]))


def _make_config(plain: IndexConfig, settings: Mapping[str, Any], dataset: BeirDataset) -> IndexConfig:
    """Return a config with these settings; the chunk size may be ``auto``, the mean length of the corpus."""
    given = {name: value for name, value in settings.items() if (name, value) != ("chunk_size", AUTO)}
    config = evaluation.with_settings(plain, given)
    texts, _ = dataset.documents(config.fields)
    if "chunk_size" in given:
        return config
    mean = mean_length(texts.values(), config.length_unit, config.build_analyzer())
    return replace(config, chunk_size=mean)


def _open_index(uri: str | None, token: str | None, config: IndexConfig) -> AbstractContextManager[BM25Index]:
    return in_memory(config) if uri is None else _open_temporary_index(uri, token, config)


@contextmanager
def _open_temporary_index(uri: str, token: str | None, config: IndexConfig) -> Iterator[BM25Index]:
    store = opt.IndexAddress(uri, f"evaluate_{secrets.token_hex(6)}", token).store()
    with BM25Index.from_store(store, config=config) as index:
        try:
            yield index
        finally:
            store.drop()


def _config_to_plain(config: IndexConfig) -> dict[str, Any]:
    """Return a config in JSON values."""
    analyzer = config.analyzer
    return {**asdict(config), "analyzer": analyzer.to_dict() if isinstance(analyzer, AnalyzerConfig) else None}


def _compare(results: Sequence[EvaluationResult], measure: MeasureName) -> list[PairedTest]:
    """Compare each result with the first one, the p-values adjusted for their number."""
    first, *others = (result.per_query.values[measure] for result in results)
    tests = [evaluation.paired_test(first, other) for other in others]
    adjusted = evaluation.holm([test.p_value for test in tests])
    return [replace(test, p_value=p_value) for test, p_value in zip(tests, adjusted, strict=True)]


def _write_runs(path: Path, labels: Sequence[str], results: Sequence[EvaluationResult]) -> None:
    for place, (label, result) in enumerate(zip(labels, results, strict=True), 1):
        file = path if len(results) == 1 else path.with_name(f"{path.stem}-{place}{path.suffix}")
        write_run(file, result.run, "rag_bm25" if place == 1 else "".join(label.split()))


def _to_plain(
    labels: Sequence[str],
    results: Sequence[EvaluationResult],
    configs: Sequence[IndexConfig],
    tests: Sequence[Sequence[PairedTest]],
) -> dict[str, Any]:
    """Return the first configuration in JSON values, with those that it is compared with."""
    first, *others = (
        {**result.to_dict(), "chunk_size": config.chunk_size, "config": _config_to_plain(config)}
        for result, config in zip(results, configs, strict=True)
    )
    compared = [
        {"compare": label, **other, "tests": dict(zip(MEASURES, map(asdict, row), strict=True))}
        for label, other, row in zip(labels[1:], others, zip(*tests, strict=True), strict=True)
    ]
    return {**first, **({"compared": compared} if compared else {})}
