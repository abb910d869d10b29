"""A judged set through an index: added, asked, measured, and written as a TREC run."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.errors import InputError
from rag_bm25.evaluation.measures import Measures, QueryMeasures, measure_queries, require_ir_measures
from rag_bm25.evaluation.settings import document_side, query_options
from rag_bm25.terms import num_words
from rag_bm25.weightings import WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from typing_extensions import Unpack

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.config import IndexConfig
    from rag_bm25.document_encoder import LengthUnit
    from rag_bm25.evaluation.datasets import BeirDataset
    from rag_bm25.index import BM25Index
    from rag_bm25.query_options import QueryOptions

__all__ = [
    "DEPTH",
    "EvaluationResult",
    "Run",
    "add_corpus",
    "evaluate",
    "evaluate_each",
    "mean_length",
    "num_indexes",
    "search_queries",
    "write_run",
]

DEPTH = 100
"""Hits asked for each query."""

BATCH_CHUNKS = 1_000
BATCH_QUERIES = 50

Run: TypeAlias = dict[str, dict[str, float]]
"""Query id -> document id -> score, best first."""


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
        Documents, each one chunk.
    queries_per_second : float
        Speed of searching, with the time of encoding the queries.
    chunks_per_second : float
        Speed of adding, with the time of analysing the chunks.
    """

    per_query: QueryMeasures = field(repr=False)
    run: Run = field(repr=False)
    chunks: int
    queries_per_second: float
    chunks_per_second: float

    @property
    def measures(self) -> Measures:
        """Quality, as means over the queries."""
        return self.per_query.mean()

    @property
    def queries(self) -> int:
        """Queries judged and asked."""
        return len(self.per_query.queries)

    def to_dict(self) -> dict[str, float]:
        """Return one flat object.

        Returns
        -------
        dict
            The measures, ``queries``, ``chunks``, ``queries_per_second`` and ``chunks_per_second``.
        """
        return {
            **self.measures.to_dict(),
            "queries": self.queries,
            "chunks": self.chunks,
            "queries_per_second": self.queries_per_second,
            "chunks_per_second": self.chunks_per_second,
        }


def mean_length(texts: Iterable[str], unit: LengthUnit, analyzer: TextAnalyzer) -> float:
    """Return the mean length of chunks, as an index measures it.

    Parameters
    ----------
    texts : iterable of str
        The chunks.
    unit : {"characters", "terms"}
        What to count.
    analyzer : callable of str to list of str
        Text -> tokens; used for terms only, of which bigrams do not count.

    Returns
    -------
    float
        At least 1.0.

    Examples
    --------
    >>> mean_length(["to be or", "not to be, that is"], "terms", str.split)
    4.0
    """
    lengths = [len(text) if unit == "characters" else num_words(analyzer(text)) for text in texts]
    return max(1.0, sum(lengths) / max(1, len(lengths)))


def add_corpus(
    index: BM25Index,
    corpus: Mapping[str, str],
    progress: Callable[[int], object] = lambda _: None,
    fields: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> float:
    """Add every document as one chunk.

    Parameters
    ----------
    index : BM25Index
        Where to.
    corpus : mapping of str to str
        Document id -> text.
    progress : callable of int
        Called after every batch with the number of chunks added so far.
    fields : mapping of str to mapping of str to str
        Name of each field -> document id -> its text, which becomes metadata.

    Returns
    -------
    float
        Seconds that it took.
    """
    start, done = time.perf_counter(), 0
    for batch in _batches(corpus.items(), BATCH_CHUNKS):
        metadatas = [{name: of[id_] for name, of in fields.items() if id_ in of} for id_, _ in batch]
        index.add([text for _, text in batch], ids=[id_ for id_, _ in batch], metadatas=metadatas)
        done += len(batch)
        progress(done)
    return time.perf_counter() - start


def search_queries(
    index: BM25Index,
    queries: Mapping[str, str],
    progress: Callable[[int], object] = lambda _: None,
    **options: Unpack[QueryOptions],
) -> Run:
    """Ask every query for its first 100 chunks.

    Parameters
    ----------
    index : BM25Index
        Where to search.
    queries : mapping of str to str
        Query id -> text.
    progress : callable of int
        Called after every batch with the number of queries answered so far.
    **options
        As for :meth:`BM25Index.search`.

    Returns
    -------
    dict of str to dict of str to float
        Query id -> ids of the hits with their scores, best first.
    """
    run: Run = {}
    for batch in _batches(queries.items(), BATCH_QUERIES):
        answers = index.search_batch([text for _, text in batch], DEPTH, **options)
        for (id_, _), hits in zip(batch, answers, strict=True):
            run[id_] = {hit.id: hit.score for hit in hits}
        progress(len(run))
    return run


def evaluate(
    index: BM25Index, dataset: BeirDataset, progress: Callable[[str, int], object] = lambda _what, _done: None
) -> EvaluationResult:
    """Add a corpus to an index, search it, and measure.

    Parameters
    ----------
    index : BM25Index
        An empty index, whose config is what is evaluated.
    dataset : BeirDataset
        As read by :func:`load_beir`.
    progress : callable of (str, int)
        Called with ``"chunks"`` or ``"queries"`` and how many of them are done.

    Returns
    -------
    EvaluationResult
        Quality and speed.

    Raises
    ------
    MissingExtraError
        ir-measures is not installed.
    """
    return evaluate_each([index.config], dataset, lambda _config: nullcontext(index), progress)[0]


def evaluate_each(
    configs: Sequence[IndexConfig],
    dataset: BeirDataset,
    open_index: Callable[[IndexConfig], AbstractContextManager[BM25Index]],
    progress: Callable[[str, int], object] = lambda _what, _done: None,
) -> list[EvaluationResult]:
    """Evaluate several configs; those that differ on the query's side alone share an index.

    Parameters
    ----------
    configs : sequence of IndexConfig
        The configs.
    dataset : BeirDataset
        As read by :func:`load_beir`.
    open_index : callable of IndexConfig
        Returns an empty index, as a context.
    progress : callable of (str, int)
        Called with ``"chunks"`` or ``"queries"`` and how many of them are done, over all configs.

    Returns
    -------
    list of EvaluationResult
        In the order of `configs`.

    Raises
    ------
    MissingExtraError
        ir-measures is not installed.
    ParameterError
        A config has a field that the dataset does not have.
    """
    require_ir_measures()
    results: dict[int, EvaluationResult] = {}
    for added, places in enumerate(_sharing(configs)):
        texts, fields = dataset.documents(configs[places[0]].fields)
        with open_index(configs[places[0]]) as index:
            adding = len(texts) / add_corpus(index, texts, _from(progress, "chunks", added * len(texts)), fields)
            if WEIGHTINGS[index.config.weighting].k1_per_term:
                index.reencode()
            for place in places:
                queries = _from(progress, "queries", len(results) * len(dataset.queries))
                results[place] = _asked(index, configs[place], dataset, queries, adding)
    return [results[place] for place in range(len(configs))]


def num_indexes(configs: Sequence[IndexConfig]) -> int:
    """Return how many indexes some configs need.

    Parameters
    ----------
    configs : sequence of IndexConfig
        As for :func:`evaluate_each`.

    Returns
    -------
    int
        At most one for each.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> num_indexes([IndexConfig(500), IndexConfig(500, idf="lucene"), IndexConfig(500, k1=0.9)])
    2
    """
    return len(_sharing(configs))


def _sharing(configs: Sequence[IndexConfig]) -> list[list[int]]:
    """Return the places of the configs that can share an index, for each index."""
    places: dict[IndexConfig, list[int]] = {}
    for place, config in enumerate(configs):
        places.setdefault(document_side(config), []).append(place)
    return list(places.values())


def _from(progress: Callable[[str, int], object], what: str, before: int) -> Callable[[int], object]:
    """Return what reports a number on top of what was done before."""
    return lambda done: progress(what, before + done)


def _asked(
    index: BM25Index,
    config: IndexConfig,
    dataset: BeirDataset,
    progress: Callable[[int], object],
    chunks_per_second: float,
) -> EvaluationResult:
    start = time.perf_counter()
    run = search_queries(index, dataset.queries, progress, **query_options(config))  # type: ignore[arg-type]
    speed = len(run) / (time.perf_counter() - start)
    return EvaluationResult(measure_queries(dataset.qrels, run), run, len(dataset.texts), speed, chunks_per_second)


def _check_encodable(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        msg = f"a TREC run is in UTF-8, which cannot hold {name!r}"
        raise InputError(msg) from None


def write_run(path: Path, run: Run, tag: str) -> None:
    """Write rankings as a TREC run file: query, ``Q0``, document, rank, score and tag in each line.

    Tools order a run by its scores alone and break ties in ways of their own. So that they see our ranking, a score
    that is not below the one before it is written as the next smaller float32.

    Parameters
    ----------
    path : Path
        Where to.
    run : dict of str to dict of str to float
        Query id -> document id -> score, best first.
    tag : str
        Name of the run.

    Raises
    ------
    InputError
        An id or the tag is empty or has white space in it, which the format cannot hold; nothing was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "bm25.run")
    ...     write_run(file, {"q1": {"d7": 1.5, "d8": 1.5}}, "bm25")
    ...     print(file.read_text(), end="")
    q1 Q0 d7 1 1.5 bm25
    q1 Q0 d8 2 1.4999999 bm25
    """
    for name in (tag, *run, *(document for hits in run.values() for document in hits)):
        if not name or len(name.split()) != 1 or name != name.strip():
            msg = f"a TREC run holds names without white space, got {name!r}"
            raise InputError(msg)
        _check_encodable(name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for query, hits in run.items():
            scores = _falling(np.fromiter(hits.values(), np.float32, len(hits)))
            for rank, (document, score) in enumerate(zip(hits, scores, strict=True), 1):
                file.write(f"{query} Q0 {document} {rank} {score!s} {tag}\n")


def _falling(scores: Iterable[np.float32]) -> list[np.float32]:
    """Return scores of which each is below the one before it."""
    falling: list[np.float32] = []
    for score in scores:
        least = np.nextafter(falling[-1], np.float32(-np.inf)) if falling else score
        falling.append(min(score, least))
    return falling


def _batches(items: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
