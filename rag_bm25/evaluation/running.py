"""Evaluate an index on a judged set: add the corpus, search, measure, write TREC runs."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.checks import check_callable, parameter_error
from rag_bm25.documents.lengths import chunk_length
from rag_bm25.errors import InputError
from rag_bm25.evaluation.measures import DEPTH, Measures, QueryMeasures, checked_grades, depth_of, measure_queries
from rag_bm25.events import report_progress
from rag_bm25.index.index import BM25Index
from rag_bm25.index.settings import shared_side, weighting_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from typing_extensions import Unpack

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.documents.chunks import Hit
    from rag_bm25.documents.lengths import LengthUnit
    from rag_bm25.evaluation.datasets import BeirDataset
    from rag_bm25.events import Progress
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.arguments import Namespaces
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.maintenance.answers import AnswerCalibration
    from rag_bm25.query.query import QueryLike

CHUNK_NUMBER = re.compile(r"#\d+$")
BATCH_CHUNKS = 1_000
BATCH_QUERIES = 50

Run: TypeAlias = dict[str, dict[str, float]]
"""Query id -> document id -> score, best first."""
Search: TypeAlias = "Callable[..., Sequence[Sequence[Hit]]]"
"""Search with an index, queries, k and options, such as :meth:`BM25Index.search_batch`: the hits of each query."""
Inspect: TypeAlias = "Callable[[BM25Index, Run, EvaluationResult], object]"
"""Look at an index that is open, with its run by chunks and the result."""


@dataclass(frozen=True)
class EvaluationResult:
    """Quality and speed.

    Parameters
    ----------
    per_query : QueryMeasures
        Quality, query by query.
    run : dict of str to dict of str to float
        Query id -> document id -> score, best first.
    chunks : int
        Number of documents, each one chunk; of an index that has them already, of its chunks.
    queries_per_second, chunks_per_second : float
        Speed of searching, including the encoding of queries, and of adding, including analysis; None if nothing was
        added.
    """

    per_query: QueryMeasures = field(repr=False)
    run: Run = field(repr=False)
    chunks: int
    queries_per_second: float
    chunks_per_second: float | None

    @property
    def measures(self) -> Measures:
        """Means over the queries."""
        return self.per_query.mean()

    @property
    def queries(self) -> int:
        """Number of judged queries."""
        return len(self.per_query.queries)

    def to_dict(self) -> dict[str, float]:
        """Return quality and speed as a flat dict.

        Returns
        -------
        dict
            The measures, ``queries``, ``chunks``, ``queries_per_second`` and, if chunks were added,
            ``chunks_per_second``.
        """
        speed = {} if self.chunks_per_second is None else {"chunks_per_second": self.chunks_per_second}
        return {
            **self.measures.to_dict(),
            "queries": self.queries,
            "chunks": self.chunks,
            "queries_per_second": self.queries_per_second,
            **speed,
        }


def mean_length(texts: Iterable[str], unit: LengthUnit, analyzer: TextAnalyzer) -> float:
    """Return the mean length of chunks, at least 1, as an index measures it."""
    lengths = [chunk_length(text, [] if unit == "characters" else analyzer(text), unit) for text in texts]
    return max(1.0, sum(lengths) / max(1, len(lengths)))


def add_corpus(
    index: BM25Index,
    corpus: Mapping[str, str],
    progress: Callable[[Progress], None] | None = None,
    fields: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    embeddings: Callable[[list[str]], Any] | None = None,
) -> float:
    """Add every document as one chunk, with its text in each field as metadata; return the duration in seconds."""
    start, ids = time.perf_counter(), list(corpus)
    for done in range(0, len(ids), BATCH_CHUNKS):
        batch = ids[done : done + BATCH_CHUNKS]
        metadatas = [{name: of[id_] for name, of in fields.items() if id_ in of} for id_ in batch]
        index.add([corpus[id_] for id_ in batch], ids=batch, metadatas=metadatas, embeddings=embeddings)
        report_progress(progress, "chunks", done + len(batch), len(ids))
    return time.perf_counter() - start


def search_queries(
    index: BM25Index,
    queries: Mapping[str, str],
    progress: Callable[[Progress], None] | None = None,
    *,
    k: int = DEPTH,
    search: Search = BM25Index.search_batch,
    **options: Unpack[SearchOptions],
) -> Run:
    """Return the top chunks of each query: query id -> ids of the hits with their scores, best first."""
    run: Run = {}
    ids = list(queries)
    for start in range(0, len(ids), BATCH_QUERIES):
        batch = ids[start : start + BATCH_QUERIES]
        answers = search(index, [queries[id_] for id_ in batch], k, **options)
        run |= {id_: {hit.id: hit.score for hit in hits} for id_, hits in zip(batch, answers, strict=True)}
        report_progress(progress, "queries", len(run), len(ids))
    return run


def evaluate(
    index: BM25Index,
    dataset: BeirDataset,
    progress: Callable[[Progress], None] | None = None,
    *,
    measures: Collection[str] = (),
    search: Search = BM25Index.search_batch,
    embeddings: Callable[[list[str]], Any] | None = None,
    inspect: Inspect | None = None,
) -> EvaluationResult:
    """Add a corpus to an index, search it, and measure.

    Parameters
    ----------
    index : BM25Index
        An empty index with the config to evaluate, or one that has the corpus.
    dataset : BeirDataset
        As read by :func:`load_beir`. Without documents, nothing is added, and a document has the place of its best
        chunk, unless the judgements are of chunks, ``id#n``.
    progress : callable of Progress to None, optional
        Called with ``"chunks"``, then with ``"queries"``.
    measures : collection of str
        Further measures, as for :func:`measure_queries`. The searches are as deep as they need.
    search : Search
        How to search, by words by default.
    embeddings : callable of list of str to array_like of float
        As for :meth:`BM25Index.add`, for an index with dense vectors.
    inspect : callable of (BM25Index, dict, EvaluationResult), optional
        Called with the index, while it is open, the run by chunks, and the result.

    Returns
    -------
    EvaluationResult
        Quality and speed.
    """
    how: dict[str, Any] = {"measures": measures, "search": search, "embeddings": embeddings, "inspect": inspect}
    return evaluate_each([index.config], dataset, lambda _config: nullcontext(index), progress, **how)[0]


def in_memory(config: IndexConfig) -> BM25Index:
    """Open an empty index in memory."""
    return BM25Index.open(":memory:", "evaluation", config=config)


def evaluate_each(
    configs: Sequence[IndexConfig],
    dataset: BeirDataset,
    open_index: Callable[[IndexConfig], AbstractContextManager[BM25Index]] = in_memory,
    progress: Callable[[Progress], None] | None = None,
    *,
    measures: Collection[str] = (),
    search: Search = BM25Index.search_batch,
    embeddings: Callable[[list[str]], Any] | None = None,
    inspect: Inspect | None = None,
) -> list[EvaluationResult]:
    """Evaluate several configs; those that differ only on the query's side, or in k1 and b, share an index.

    Parameters
    ----------
    configs : sequence of IndexConfig
        The configs.
    dataset
        As for :func:`evaluate`.
    open_index : callable of IndexConfig
        Returns an index as for :func:`evaluate`, as a context; by default an empty one in memory.
    progress, measures, search, embeddings
        As for :func:`evaluate`; the progress is over all configs.
    inspect
        As for :func:`evaluate`; called for the first config.

    Returns
    -------
    list of EvaluationResult
        In the order of `configs`.

    Raises
    ------
    ParameterError
        The dataset does not have a field of a config, a measure is not known, or `search` cannot be called.
    InputError
        A grade is not a whole number up to 1,000, or no query is judged.
    """
    depth = depth_of(measures)
    checked_grades(dataset.qrels)
    check_callable("progress", progress)
    if not callable(search):
        raise parameter_error("search", "a callable, such as BM25Index.search_batch", search)
    groups: dict[IndexConfig, list[int]] = {}  # the places of the configs that share an index
    for place, config in enumerate(configs):
        groups.setdefault(shared_side(config), []).append(place)
    results: dict[int, EvaluationResult] = {}
    chunks, queries = len(dataset.texts), len(dataset.queries)
    for added, places in enumerate(groups.values()):
        texts, fields = dataset.corpus, dataset.fields(configs[places[0]].fields)
        with open_index(configs[places[0]]) as index:
            before = _after(progress, added * chunks, len(groups) * chunks)
            seconds = add_corpus(index, texts, before, fields, embeddings)
            if texts and any(configs[place].query_weighting().needs_learning for place in places):
                index.learn_k1()
            for place in places:
                start, done = time.perf_counter(), _after(progress, len(results) * queries, len(configs) * queries)
                weighting = weighting_for(configs[place], index.config)
                run = search_queries(index, dataset.queries, done, k=depth, search=search, weighting=weighting)
                speed = len(run) / (time.perf_counter() - start)
                ranked = run if texts else _to_documents(run, dataset.qrels)
                measured = measure_queries(dataset.qrels, ranked, measures)
                stored, rate = (chunks, chunks / seconds) if texts else (index.stats().num_chunks, None)
                results[place] = EvaluationResult(measured, ranked, stored, speed, rate)
                if inspect is not None and place == 0:
                    inspect(index, run, results[place])
    return [results[place] for place in range(len(configs))]


def calibrate_answers(
    index: BM25Index,
    dataset: BeirDataset,
    progress: Callable[[Progress], None] | None = None,
    *,
    dry_run: bool = False,
    namespace: Namespaces = "",
    **options: Unpack[SearchOptions],
) -> AnswerCalibration:
    """Fit the confidence that a hit answers to a judged set, and keep it with the index.

    Parameters
    ----------
    index : BM25Index
        An index that has the corpus.
    dataset : BeirDataset
        As for :func:`evaluate`; the documents are not needed.
    progress, dry_run, namespace, **options
        As for :meth:`BM25Index.calibrate_answers`.

    Returns
    -------
    AnswerCalibration
        How well the confidence tells answers, and the model.
    """
    answers: dict[Any, set[str]] = {}
    for query, text in dataset.queries.items():
        answers.setdefault(text, set()).update(id_ for id_, grade in dataset.qrels[query].items() if grade > 0)
    of_chunks = are_of_chunks(dataset.qrels)

    def is_answer(query: QueryLike, hit: Hit) -> bool:
        return (hit.id if of_chunks else CHUNK_NUMBER.sub("", hit.id)) in answers[query]

    return index.calibrate_answers(
        list(answers), is_answer, namespace=namespace, dry_run=dry_run, progress=progress, **options
    )


def are_of_chunks(qrels: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether judgements are of chunks, ``id#n``, and not of their documents."""
    return any(map(CHUNK_NUMBER.search, chain.from_iterable(qrels.values())))


def _to_documents(run: Run, qrels: Mapping[str, Mapping[str, int]]) -> Run:
    """Put documents in the place of their best chunks, unless the judgements are of chunks."""
    if are_of_chunks(qrels):
        return run
    ranked: Run = {query: {} for query in run}
    for query, hits in run.items():
        for id_, score in hits.items():
            ranked[query].setdefault(CHUNK_NUMBER.sub("", id_), score)
    return ranked


def _after(progress: Callable[[Progress], None] | None, before: int, total: int) -> Callable[[Progress], None]:
    """Return a callback that adds the items done before."""
    return lambda step: report_progress(progress, step.what, before + step.done, total)


def write_run(path: Path, run: Run, tag: str) -> None:
    """Write rankings as a TREC run file: query, ``Q0``, document, rank, score and tag in each line.

    Tools order a run by its scores alone and break ties in ways of their own. To preserve the ranking, a score that is
    not below the one before it is written as the next smaller float32. An id that a line cannot hold is refused before
    anything is written.
    """
    for name in (tag, *run, *(document for hits in run.values() for document in hits)):
        _check_name(name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for query, hits in run.items():
            last = np.float32(np.inf)
            for rank, (document, score) in enumerate(hits.items(), 1):
                last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
                file.write(f"{query} Q0 {document} {rank} {last!s} {tag}\n")


def _check_name(name: str) -> None:
    if not name or len(name.split()) != 1 or name != name.strip():
        raise InputError(f"names in a TREC run must not be empty or have white space, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"names in a TREC run must be encodable as UTF-8, got {name!r}") from None
