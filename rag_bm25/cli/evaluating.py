"""``rag-bm25 evaluate``, and the configurations that it and ``tune`` measure."""

import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from rag_bm25.cli.settings import AUTO, IndexOptions, parse_settings
from rag_bm25.errors import InputError
from rag_bm25.evaluation import BeirDataset, EvaluationResult, PairedTest
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index
from rag_bm25.index.settings import Value


def evaluate(
    folder: opt.JudgedSet,
    settings: IndexOptions,
    split: Annotated[str, typer.Option(help="The judgements: qrels/SPLIT.tsv.")] = "test",
    uri: opt.TemporaryUri = None,
    token: opt.Token = None,
    compare: Annotated[
        list[str] | None,
        opt.option(
            "Compare with a configuration that differs by these settings, as in k1=0.9,b=0.4; may be repeated.",
            metavar="NAME=VALUE,...",
        ),
    ] = None,
    run: Annotated[
        Path | None, opt.option("Write the rankings as a TREC run; of several, as FILE-1, FILE-2, ...")
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure retrieval on a judged set, and compare settings.

    Prints nDCG@10, Recall@100, MRR@10 and the speed. The documents, each as one chunk, go to a temporary index, which
    is dropped at the end. MILVUS_URI is not used here: a server is only written to if --uri names it. The chunk size is
    `auto` by default, the mean length of the documents.

    The text of a document begins with its title, unless that is a field: --field title:30, or field=title:30 and
    field=none in --compare. There is no other field in BEIR form.

    With --compare, each configuration stands beside the one of the options. p is that of a paired randomisation test
    over the queries; with several, adjusted by Holm's method. Those that differ on the query's side alone, as by
    idf, k3 or bigram_weight, share an index.
    """
    base = {"chunk_size": AUTO, **settings.given(auto=True)}
    labels = ["as given", *(compare or ())]
    changes = [{}, *(parse_settings([text], "--compare") for text in compare or ())]
    if run is not None and not run.parent.is_dir():
        raise InputError(f"there is no folder {run.parent} to put {run.name} in")
    dataset = evaluation.load_beir(folder, split)
    configs = [make_config({**base, **change}, dataset) for change in changes]
    results = evaluate_configs(configs, dataset, uri, token, progress)
    if run is not None:
        _write_runs(run, labels, results)
    tests = [_compare(results, measure) for measure in evaluation.MEASURES]
    if as_json:
        print_json(_to_plain(labels, results, configs, tests))
        return
    show(render_evaluation(folder.resolve().name, results[0], configs[0]))
    if len(results) > 1:
        show("", render_comparison(labels, results, tests[0]))


def make_config(settings: Mapping[str, Value], dataset: BeirDataset) -> IndexConfig:
    """Return the config with these settings; the chunk size may be ``auto``, the mean length of the corpus."""
    given = {name: value for name, value in settings.items() if (name, value) != ("chunk_size", AUTO)}
    config = evaluation.with_settings(IndexConfig(1), given)
    texts, _ = dataset.documents(config.fields)
    if "chunk_size" in given:
        return config
    mean = evaluation.mean_length(texts.values(), config.length_unit, config.build_analyzer())
    return replace(config, chunk_size=mean)


def evaluate_configs(
    configs: Sequence[IndexConfig], dataset: BeirDataset, uri: str | None, token: str | None, progress: bool | None
) -> list[EvaluationResult]:
    """Evaluate configs in temporary indexes, with progress bars."""
    with progress_bars(progress) as update:
        return evaluation.evaluate_each(configs, dataset, partial(_open_temporary_index, uri, token), update)


@contextmanager
def _open_temporary_index(uri: str | None, token: str | None, config: IndexConfig) -> Iterator[BM25Index]:
    with tempfile.TemporaryDirectory(prefix="rag-bm25-") as folder:
        name = f"evaluate_{secrets.token_hex(6)}"
        store = opt.Place(uri or str(Path(folder, "evaluate.db")), name, token).store()
        with BM25Index.from_store(store, config=config) as index:
            try:
                yield index
            finally:
                store.drop()


def config_to_plain(config: IndexConfig) -> dict[str, Any]:
    """Return a config in JSON values."""
    analyzer = config.analyzer
    return {**asdict(config), "analyzer": analyzer.to_dict() if isinstance(analyzer, AnalyzerConfig) else None}


def _compare(results: Sequence[EvaluationResult], measure: evaluation.MeasureName) -> list[PairedTest]:
    """Compare each result with the first one, the p-values adjusted for their number."""
    first, *others = (result.per_query.values[measure] for result in results)
    tests = [evaluation.paired_test(first, other) for other in others]
    adjusted = evaluation.holm([test.p_value for test in tests])
    return [replace(test, p_value=p_value) for test, p_value in zip(tests, adjusted, strict=True)]


def _write_runs(path: Path, labels: Sequence[str], results: Sequence[EvaluationResult]) -> None:
    for place, (label, result) in enumerate(zip(labels, results, strict=True), 1):
        file = path if len(results) == 1 else path.with_name(f"{path.stem}-{place}{path.suffix}")
        evaluation.write_run(file, result.run, "rag_bm25" if place == 1 else "".join(label.split()))


def _to_plain(
    labels: Sequence[str],
    results: Sequence[EvaluationResult],
    configs: Sequence[IndexConfig],
    tests: Sequence[Sequence[PairedTest]],
) -> dict[str, Any]:
    """Return the first configuration in JSON values, with those that it is compared with."""
    first, *others = (
        {**result.to_dict(), "chunk_size": config.chunk_size, "config": config_to_plain(config)}
        for result, config in zip(results, configs, strict=True)
    )
    compared = [
        {"compare": label, **other, "tests": dict(zip(evaluation.MEASURES, map(asdict, row), strict=True))}
        for label, other, row in zip(labels[1:], others, zip(*tests, strict=True), strict=True)
    ]
    return {**first, **({"compared": compared} if compared else {})}
