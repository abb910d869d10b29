"""``rag-bm25 evaluate``."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rag_bm25 import evaluation
from rag_bm25._version import __version__
from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, print_note, progress_bars, show
from rag_bm25.cli.embedding import DenseSearch, Model, search_judged
from rag_bm25.cli.gating import GateOptions
from rag_bm25.cli.judgements import describe_missing, list_failing
from rag_bm25.cli.rendering import render_comparison, render_evaluation, render_failing
from rag_bm25.cli.settings import (
    AUTO,
    COUNT_TITLES,
    DEFAULT_CHUNK_SIZE,
    IndexOptions,
    parse_grid,
    with_language,
)
from rag_bm25.errors import InputError
from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.baseline import Baseline, RunRecorder
from rag_bm25.evaluation.comparison import PairedTest
from rag_bm25.evaluation.running import EvaluationResult, Run, in_memory, mean_length, write_run
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.config import IndexConfig, in_config
from rag_bm25.index.index import BM25Index
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.index.settings import shared_side
from rag_bm25.index.stored_config import parameters_of
from rag_bm25.ingestion.language import MIN_CHUNKS
from rag_bm25.query.query import Query
from rag_bm25.weighting.calibration import drift_warning
from rag_bm25.weighting.query import QueryWeighting

OpenIndex: TypeAlias = Callable[[IndexConfig], AbstractContextManager[BM25Index]]


@dataclass(frozen=True)
class EvaluatedIndex:
    """The options that name the index to evaluate."""

    uri: opt.TemporaryUri = None
    collection: Annotated[
        str | None,
        opt.option(
            f"Evaluate this index at --uri, {opt.DEFAULT_URI} by default: its chunks, or the documents or rows that "
            "they are of, have the ids of the judgements. Nothing is added, and the set needs no corpus."
        ),
    ] = None
    namespace: opt.Namespaces = None
    token: opt.Token = None
    analyzer: opt.AnalyzerName = None

    def __post_init__(self) -> None:
        if self.namespace and self.collection is None:
            raise typer.BadParameter("only an index of --collection has namespaces", param_hint="--namespace")

    @contextmanager
    def open(self, model: Model | None) -> Iterator[tuple[IndexConfig, OpenIndex]]:
        """Yield the config that is varied, and a function that opens an index with a varied one."""
        if self.collection is not None:
            address = opt.IndexAddress(self.uri or opt.DEFAULT_URI, self.collection, self.token, self.analyzer)
            with address.open_existing(read_only=True) as index:
                yield index.config, partial(_reuse, index)
            return
        plain = opt.with_analyzer(IndexConfig(1), opt.load_analyzer(self.analyzer))
        yield model.with_dense_field(plain) if model else plain, self._open_new

    def _open_new(self, config: IndexConfig) -> AbstractContextManager[BM25Index]:
        return in_memory(config) if self.uri is None else _open_temporary_index(self.uri, self.token, config)


def evaluate(
    folder: opt.JudgedSet,
    settings: IndexOptions,
    options: SearchOptions,
    dense: DenseSearch,
    fusion: FusionOptions,
    place: EvaluatedIndex,
    gate: GateOptions,
    split: Annotated[str, typer.Option(help="The judgements: qrels/SPLIT.tsv, .qrels or .txt.")] = "test",
    measure: Annotated[
        list[str] | None,
        opt.option(
            "Further measure, by its name in ir-measures, such as nDCG@20, AP@100 or R@1000; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
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
    default, the mean length of the documents; a note says that `rag-bm25 ingest` takes another. Documents that no index
    can store are left out, but remain judged.

    The text of a document begins with its title, which is also a field, as `ingest` makes it, unless --field says
    otherwise: --field none, or fields=none in --compare. There is no other field in BEIR form.

    With --embedding, the search is hybrid, or as --mode says. With --collection, an existing index is searched, which
    may have chunks of the judged documents.

    With --compare, each configuration stands beside the one of the options. p is that of a paired randomisation test
    over the queries; with several, adjusted by Holm's method. Those that differ on the query's side alone, as by
    idf, k3 or length=mean, or in k1 and b, share an index.

    With --baseline and --min, the exit code is 1 if a measure is significantly worse than in a file of --save, which
    may have been made by another version or with other settings, or if it is too low.
    """
    compared = [("as given", {}), *(one for text in compare or () for one in parse_grid(text, "--compare"))]
    labels = [label for label, _ in compared]
    for file in filter(None, (run, gate.save)):
        _require_place(file)
    model = dense.load(Query(""), options, fusion)
    default = COUNT_TITLES if place.collection is None else {}
    base = {**default, **settings.given(auto=True), **_take_weighting(options)}
    search = partial(search_judged, dense, model, {**options, **fusion, "namespace": place.namespace or ""})
    dataset = evaluation.load_beir(folder, split, corpus=place.collection is None)
    earlier = gate.read(dataset)
    measures = gate.measures(measure or (), earlier)
    with place.open(model) as (plain, open_index), progress_bars(progress) as update:
        suited = with_language(plain, base, partial(_sample, dataset))
        configs = [_make_config(suited, {**base, **change}, dataset) for _, change in compared]
        embed = model.embed_documents if model else None
        asked: SearchOptions = {**options, "weighting": configs[0].query_weighting()}
        known, by_words = earlier.queries if earlier else {}, dense.mode != "dense"
        recorder = RunRecorder(dataset, place.namespace or "", asked, by_words=by_words, earlier=known)
        inspector = _Inspector(recorder, bool(gate.save or earlier))
        results = evaluation.evaluate_each(
            configs,
            dataset,
            open_index,
            update,
            measures=measures,
            search=search,
            embeddings=embed,
            inspect=inspector.inspect,
        )
    size_note = _note_size(base, configs[0], dataset)
    for note in inspector.notes:
        print_note(note)
    if run is not None:
        _write_runs(run, labels, results)
    tests = {name: _compare(results, name) for name in results[0].per_query.values}
    searched = {"split": split, "mode": dense.mode, **options, **fusion}
    record = Baseline.of(dataset, {"version": __version__, **parameters_of(configs[0]), **searched}, recorder.queries)
    outcome = gate.judge(record, earlier, results[0].measures.to_dict())
    failing = list_failing(dataset, results[0].run)
    if as_json:
        more = {
            "skipped": len(dataset.skipped),
            "chunk_size_note": size_note,
            "no_relevant_hit": failing,
            **outcome.to_dict(),
        }
        print_json({**_to_plain(labels, results, configs, tests), **more})
    else:
        show(render_evaluation(folder.resolve().name, results[0], configs[0]))
        if earlier is None:  # else the changes show the queries
            show(*render_failing(dataset, failing))
        _show_rest(labels, results, tests["ndcg@10"], size_note)
    if not outcome.tell(as_json=as_json):
        raise typer.Exit(1)


def _show_rest(
    labels: Sequence[str], results: Sequence[EvaluationResult], tests: Sequence[PairedTest], size_note: str | None
) -> None:
    """Compare the results if there are several, and end with the note about the chunk size."""
    if len(results) > 1:
        show("", render_comparison(labels, results, tests))
    if size_note:
        print_note(size_note)


def _require_place(file: Path) -> None:
    """Refuse a file that could not be written."""
    if not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent} to put {file.name} in")
    if file.is_dir():
        raise InputError(f"{file} is a folder: give the name of a file")


def _take_weighting(options: SearchOptions) -> dict[str, Any]:
    """Take the weighting out of the options of a search, as settings of a config, which can be compared."""
    return in_config(options.pop("weighting", None) or QueryWeighting())


@dataclass(frozen=True)
class _Inspector:
    """Describe what the set has and the index does not, and record a run that is kept or compared."""

    recorder: RunRecorder
    is_recorded: bool
    notes: list[str] = field(default_factory=list)

    def inspect(self, index: BM25Index, found: Run, result: EvaluationResult) -> None:
        """Look at an index that is open."""
        dataset = self.recorder.dataset
        if dataset.skipped:
            self.notes.append(
                f"{len(dataset.skipped):,} documents are left out, since no index can store them, such as "
                f"{dataset.skipped[0]}"
            )
        self.notes.extend(describe_missing(index, dataset, self.recorder.namespace))
        if self.is_recorded:
            self.recorder.record(index, found, result)


def _make_config(plain: IndexConfig, settings: Mapping[str, Any], dataset: BeirDataset) -> IndexConfig:
    """Return a config with these settings; the chunk size may be ``auto``, the mean length of the corpus, if any."""
    given = {name: value for name, value in settings.items() if (name, value) != ("chunk_size", AUTO)}
    config = evaluation.with_settings(plain, given)
    dataset.fields(config.fields)  # refuses others, before an index is made
    if "chunk_size" in given or not dataset.corpus:
        return config
    mean = mean_length(dataset.corpus.values(), config.length_unit, config.build_analyzer())
    return replace(config, chunk_size=mean)


def _sample(dataset: BeirDataset) -> list[str]:
    """Return texts all over the corpus."""
    texts = list(dataset.corpus.values())
    return texts[:: max(1, len(texts) // MIN_CHUNKS)][:MIN_CHUNKS]


def _note_size(settings: Mapping[str, Any], config: IndexConfig, dataset: BeirDataset) -> str | None:
    """Say how to measure with the chunk size of `ingest` in place of the mean length, and what that does here."""
    if settings.get("chunk_size", AUTO) != AUTO or not dataset.corpus:
        return None
    told = f"to measure as `rag-bm25 ingest` would: --chunk-size {DEFAULT_CHUNK_SIZE}"
    drift = drift_warning(DEFAULT_CHUNK_SIZE / config.chunk_size, len(dataset.corpus), config.k1, config.b)
    return f"{told} ({drift})" if drift else told


def _reuse(index: BM25Index, config: IndexConfig) -> AbstractContextManager[BM25Index]:
    """Return an index for a config that needs no other vectors."""
    if shared_side(config) != shared_side(index.config):
        raise InputError(
            "an index that exists can be evaluated with other settings of the query's side alone, such as idf, k3 and "
            "bigram_weight, and with another k1 and b: for others, leave --collection out"
        )
    return nullcontext(index)


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


def _compare(results: Sequence[EvaluationResult], measure: str) -> list[PairedTest]:
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
    tests: Mapping[str, Sequence[PairedTest]],
) -> dict[str, Any]:
    """Return the first configuration in JSON values, with those that it is compared with."""
    first, *others = (
        {**result.to_dict(), "chunk_size": config.chunk_size, "config": _config_to_plain(config)}
        for result, config in zip(results, configs, strict=True)
    )
    compared = [
        {"compare": label, **other, "tests": {name: asdict(of_measure[at]) for name, of_measure in tests.items()}}
        for at, (label, other) in enumerate(zip(labels[1:], others, strict=True))
    ]
    return {**first, **({"compared": compared} if compared else {})}
