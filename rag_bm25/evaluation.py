"""Retrieval quality and speed on a judged set in BEIR form."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from rag_bm25.chunks import MAX_TEXT_BYTES
from rag_bm25.errors import InputError, MissingExtraError
from rag_bm25.jsonl import read_json_lines, row_id, row_text
from rag_bm25.terms import num_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.document_encoder import LengthUnit
    from rag_bm25.index import BM25Index

__all__ = [
    "BeirDataset",
    "EvaluationResult",
    "Measures",
    "add_corpus",
    "evaluate",
    "load_beir",
    "mean_length",
    "measure",
    "search_queries",
]

DEPTH = 100
BATCH_CHUNKS = 1_000
BATCH_QUERIES = 50


@dataclass(frozen=True)
class BeirDataset:
    """A judged set.

    Parameters
    ----------
    corpus : dict of str to str
        Document id -> title and text.
    queries : dict of str to str
        Query id -> text, of the judged ones.
    qrels : dict of str to dict of str to int
        Query id -> document id -> grade.
    """

    corpus: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Measures:
    """Means over the judged queries; one without hits counts 0.

    Parameters
    ----------
    ndcg_10 : float
        nDCG@10 with linear gain.
    recall_100 : float
        Share of the relevant documents among the first 100.
    mrr_10 : float
        Mean of 1 / rank of the first relevant document, 0 where it is not among the first 10.
    """

    ndcg_10: float
    recall_100: float
    mrr_10: float

    def to_dict(self) -> dict[str, float]:
        """Return the measures under their usual names.

        Returns
        -------
        dict
            With the keys ``ndcg@10``, ``recall@100`` and ``mrr@10``.
        """
        return {"ndcg@10": self.ndcg_10, "recall@100": self.recall_100, "mrr@10": self.mrr_10}


@dataclass(frozen=True)
class EvaluationResult:
    """Quality and speed.

    Parameters
    ----------
    measures : Measures
        Quality.
    queries : int
        Queries judged and asked.
    chunks : int
        Documents, each one chunk.
    queries_per_second : float
        Speed of searching, with the time of encoding the queries.
    chunks_per_second : float
        Speed of adding, with the time of analysing the chunks.
    """

    measures: Measures
    queries: int
    chunks: int
    queries_per_second: float
    chunks_per_second: float

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


# Reading


def load_beir(folder: Path, split: str = "test") -> BeirDataset:
    """Read a set in BEIR form.

    Parameters
    ----------
    folder : Path
        With ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.
    split : str
        Which judgements.

    Returns
    -------
    BeirDataset
        With the judged queries only.

    Raises
    ------
    InputError
        A file is missing or malformed; the message names file and line.
    """
    qrels_file = folder / "qrels" / f"{split}.tsv"
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", qrels_file):
        if not file.is_file():
            msg = f"{folder} is not a set in BEIR form: there is no {file.relative_to(folder).as_posix()}"
            raise InputError(msg)
    qrels = _read_qrels(qrels_file)
    queries = _read_texts(folder / "queries.jsonl", None)
    for query in qrels:
        if query not in queries:
            msg = f"{qrels_file} judges the query {query!r}, which queries.jsonl does not have"
            raise InputError(msg)
    corpus = _read_texts(folder / "corpus.jsonl", MAX_TEXT_BYTES)
    if not corpus or not qrels:
        msg = f"{folder} has {len(corpus)} documents and {len(qrels)} judged queries: nothing to evaluate"
        raise InputError(msg)
    return BeirDataset(corpus, {query: queries[query] for query in qrels}, qrels)


def _read_texts(file: Path, limit: int | None) -> dict[str, str]:
    texts: dict[str, str] = {}
    for line in read_json_lines(file):
        id_, text = row_id(line), row_text(line)
        if id_ in texts:
            msg = f"{line.where}: the id {id_!r} was given before"
            raise InputError(msg)
        size = len(text.encode(errors="surrogatepass"))
        if limit is not None and size > limit:
            msg = f"{line.where}: the document {id_!r} has {size:,} bytes of UTF-8, at most {limit:,} are allowed"
            raise InputError(msg)
        texts[id_] = text
    return texts


def _read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        msg = f"{file}: not UTF-8 at byte {error.start} of the file"
        raise InputError(msg) from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not (number == 1 and _is_header(line)):
            query, document, grade = _judgement(line, f"{file} line {number}")
            qrels.setdefault(query, {})[document] = grade
    return qrels


def _is_header(line: str) -> bool:
    return line.count("\t") == 2 and not line.rpartition("\t")[2].strip().lstrip("-").isdigit()


def _judgement(line: str, where: str) -> tuple[str, str, int]:
    fields = [field.strip() for field in line.split("\t")]
    try:
        query, document, grade = fields
        return query, document, int(grade)
    except ValueError:
        msg = f"{where}: must be query id, document id and a whole number, with tabs between, got {line!r}"
        raise InputError(msg) from None


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


# Measuring


def add_corpus(
    index: BM25Index, corpus: Mapping[str, str], progress: Callable[[int], object] = lambda _: None
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

    Returns
    -------
    float
        Seconds that it took.
    """
    start, done = time.perf_counter(), 0
    for batch in _batches(corpus.items(), BATCH_CHUNKS):
        index.add([text for _, text in batch], ids=[id_ for id_, _ in batch])
        done += len(batch)
        progress(done)
    return time.perf_counter() - start


def search_queries(
    index: BM25Index, queries: Mapping[str, str], progress: Callable[[int], object] = lambda _: None
) -> dict[str, list[str]]:
    """Ask every query for its first 100 chunks.

    Parameters
    ----------
    index : BM25Index
        Where to search.
    queries : mapping of str to str
        Query id -> text.
    progress : callable of int
        Called after every batch with the number of queries answered so far.

    Returns
    -------
    dict of str to list of str
        Query id -> ids of the hits, best first.
    """
    run: dict[str, list[str]] = {}
    for batch in _batches(queries.items(), BATCH_QUERIES):
        answers = index.search_batch([text for _, text in batch], DEPTH)
        for (id_, _), hits in zip(batch, answers, strict=True):
            run[id_] = [hit.id for hit in hits]
        progress(len(run))
    return run


def measure(qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, list[str]]) -> Measures:
    """Compare rankings with judgements.

    Parameters
    ----------
    qrels : mapping of str to mapping of str to int
        Query id -> document id -> grade; says which queries are counted.
    run : mapping of str to list of str
        Query id -> document ids, best first.

    Returns
    -------
    Measures
        Means over the queries of `qrels`.

    Raises
    ------
    MissingExtraError
        ir-measures is not installed.

    Examples
    --------
    >>> measure({"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": ["d3", "d1"]}).mrr_10
    0.25
    """
    measures = _ir_measures()
    wanted = measures.nDCG @ 10, measures.R @ 100, measures.RR @ 10
    # The place in the ranking goes for the score: the evaluator orders equal scores in a way of its own.
    scored = {query: {document: float(-place) for place, document in enumerate(run.get(query, []))} for query in qrels}
    means = measures.calc_aggregate(wanted, {query: dict(grades) for query, grades in qrels.items()}, scored)
    return Measures(*(float(means[one]) for one in wanted))


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
    _ir_measures()
    adding = add_corpus(index, dataset.corpus, lambda done: progress("chunks", done))
    start = time.perf_counter()
    run = search_queries(index, dataset.queries, lambda done: progress("queries", done))
    searching = time.perf_counter() - start
    return EvaluationResult(
        measure(dataset.qrels, run),
        len(run),
        len(dataset.corpus),
        len(run) / searching,
        len(dataset.corpus) / adding,
    )


def _batches(items: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        msg = f'measuring needs ir-measures: pip install "rag-bm25[eval]" ({error})'
        raise MissingExtraError(msg) from error
    return ir_measures
