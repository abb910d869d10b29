"""Keep what a run gave, query by query, for a later one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from math import inf
from sys import float_info
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rag_bm25.errors import InputError, short_repr
from rag_bm25.evaluation.measures import MEASURES, highest
from rag_bm25.evaluation.running import CHUNK_NUMBER
from rag_bm25.index.arguments import list_first, parse_scope
from rag_bm25.index.searching.rows import read_newest
from rag_bm25.replacing import replacing
from rag_bm25.vectors.terms import term_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rag_bm25.evaluation.datasets import BeirDataset
    from rag_bm25.evaluation.running import EvaluationResult, Run
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.arguments import Namespaces
    from rag_bm25.index.index import BM25Index
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.vectors.sparse import SparseVector

KIND = "rag_bm25 baseline"
FILE_FORMAT = 1
FIRST_HITS = 10

T = TypeVar("T")
Weights: TypeAlias = "dict[str, float]"  # by term


@dataclass(frozen=True)
class RecordedHit:
    """A document that a query finds, or found before."""

    rank: int | None  # None if it is not among the hits
    score: float
    grade: int  # by the judgements, 0 without one
    chunk: str  # the best one of the document
    weights: Weights | None  # of the query's terms in the chunk; None if it is not stored


@dataclass(frozen=True)
class RecordedQuery:
    """What a query gave: its measures, the weights of its terms, and its hits: the first ones and all relevant ones."""

    text: str
    measures: dict[str, float]
    num_chunks: int  # N
    df: dict[str, int]
    weights: Weights
    hits: dict[str, RecordedHit]  # best first

    @property
    def first_hits(self) -> list[str]:
        """The ids of the first hits, best first."""
        return [id_ for id_, hit in self.hits.items() if hit.rank is not None and hit.rank <= FIRST_HITS]


@dataclass(frozen=True)
class Baseline:
    """What a run gave, and the settings that it was made with."""

    judgements: str  # their digest
    settings: dict[str, Any]
    queries: dict[str, RecordedQuery]

    @classmethod
    def of(cls, dataset: BeirDataset, settings: Mapping[str, Any], queries: dict[str, RecordedQuery]) -> Baseline:
        """Return a baseline of what was recorded; settings that JSON does not have are named."""
        plain = json.loads(json.dumps(settings, default=lambda value: getattr(value, "__name__", repr(value))))
        return cls(_digest(dataset), plain, queries)

    @property
    def measures(self) -> list[str]:
        """Names of the measures."""
        return list(next(iter(self.queries.values())).measures)

    @property
    def finds_judged(self) -> bool:
        """Whether a hit of any query is judged relevant: else there is nothing to measure."""
        return any(hit.rank and hit.grade > 0 for query in self.queries.values() for hit in query.hits.values())

    def values(self, measure: str) -> list[float]:
        """Return a measure of each query."""
        return [query.measures[measure] for query in self.queries.values()]

    def require_same_set(self, path: Path, dataset: BeirDataset) -> None:
        """Refuse other queries or judgements, which nothing can be compared with."""
        own = {(id_, query.text) for id_, query in self.queries.items()}
        if others := sorted({id_ for id_, _ in own ^ set(dataset.queries.items())}):
            raise InputError(f"{path} is of other queries than this set, such as {list_first(others)}: save a new one")
        if self.judgements != _digest(dataset):
            raise InputError(f"{path} is of other judgements than this set has: save a new one")

    def write(self, path: Path) -> None:
        """Write all that a later run needs, replacing a file only when the new one is complete."""
        plain = {KIND: FILE_FORMAT, **asdict(self)}
        for query in plain["queries"].values():
            query["hits"] = {id_: hit for id_, hit in query["hits"].items() if hit["rank"]}  # not those of earlier runs
        text = json.dumps(plain, ensure_ascii=False, indent=1)
        with replacing(path) as part:
            part.write_text(f"{text}\n", encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a file that :meth:`write` has written; where something is wrong, name the place and the rule."""
        try:
            return _read_baseline(json.loads(path.read_text(encoding="utf-8")))
        except (RecursionError, ValueError) as error:
            msg = f"{path} is not a file of `rag-bm25 evaluate --save`, or is damaged: {error}"
            raise InputError(msg) from None


def _read_baseline(plain: Any) -> Baseline:
    form = plain.pop(KIND, None) if isinstance(plain, dict) else None
    _require(form == FILE_FORMAT, f"its format is {form!r}, and this version reads {FILE_FORMAT}")
    baseline = _read_object("the file", Baseline, plain)
    _require(isinstance(baseline.judgements, str), "judgements must be a text")
    _require(isinstance(baseline.settings, dict), "settings must be an object")
    _require(isinstance(baseline.queries, dict) and bool(baseline.queries), "queries must be an object with a query")
    queries = {id_: _read_query(f"query {id_!r}", query) for id_, query in baseline.queries.items()}
    first = next(iter(queries.values())).measures
    for id_, query in queries.items():
        same = query.measures.keys() == first.keys() >= set(MEASURES)
        _require(same, f"query {id_!r} must have the same measures as every query, {', '.join(MEASURES)} among them")
    return replace(baseline, queries=queries)


def _read_query(name: str, plain: Any) -> RecordedQuery:
    query = _read_object(name, RecordedQuery, plain)
    _require(isinstance(query.text, str), f"{name}: text must be a text")
    _require_numbers(f"{name}: measures", query.measures, highest)
    _require_number(f"{name}: num_chunks", query.num_chunks)
    _require_numbers(f"{name}: df", query.df)
    _require_numbers(f"{name}: weights", query.weights)
    _require(query.df.keys() == query.weights.keys(), f"{name}: df and weights must be of the same terms")
    _require(isinstance(query.hits, dict), f"{name}: hits must be an object")
    return replace(query, hits={id_: _read_hit(f"{name}: hit {id_!r}", hit) for id_, hit in query.hits.items()})


def _read_hit(name: str, plain: Any) -> RecordedHit:
    hit = _read_object(name, RecordedHit, plain)
    _require(hit.rank is None or (type(hit.rank) is int and hit.rank > 0), f"{name}: rank must be > 0 or null")
    _require_number(f"{name}: score", hit.score)
    _require_number(f"{name}: grade", hit.grade)
    _require(isinstance(hit.chunk, str), f"{name}: chunk must be a text")
    if hit.weights is not None:
        _require_numbers(f"{name}: weights", hit.weights)
    return hit


def _read_object(name: str, kind: type[T], plain: Any) -> T:
    """Return the object that has the keys of a dataclass, and no others."""
    keys = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    _require(isinstance(plain, dict) and plain.keys() == set(keys), f"{name} must have the keys {', '.join(keys)}")
    return kind(**plain)


def _require_numbers(name: str, values: Any, bound: Callable[[str], float] = lambda _: inf) -> None:
    _require(isinstance(values, dict), f"{name} must be an object of numbers")
    for key, value in values.items():
        _require_number(f"{name}: {key}", value, bound(key))


def _require_number(name: str, value: Any, bound: float = inf) -> None:
    """Refuse what is not finite or, where there is a bound, not between 0 and that."""
    is_finite = type(value) in {int, float} and abs(value) <= float_info.max
    rule = "a finite number" if bound == inf else f"a number in 0..{bound:g}"
    _require(is_finite and (bound == inf or 0 <= value <= bound), f"{name} must be {rule}, got {short_repr(value)}")


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise ValueError(rule)


def _digest(dataset: BeirDataset) -> str:
    judged = {query: sorted(grades.items()) for query, grades in sorted(dataset.qrels.items())}
    return hashlib.sha256(json.dumps(judged).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RunRecorder:
    """Record what an index gives, with the chunks that an earlier run has found."""

    dataset: BeirDataset
    namespace: Namespaces
    options: SearchOptions
    by_words: bool = True  # without, terms have no weights
    earlier: Mapping[str, RecordedQuery] = field(default_factory=dict)
    queries: dict[str, RecordedQuery] = field(default_factory=dict)

    def record(self, index: BM25Index, found: Run, result: EvaluationResult) -> None:
        """Record each query; `found` has the chunks of its hits."""
        # ruff: noqa: SLF001 - the weights of terms and chunks are those that the search has used
        scope = parse_scope(None, self.namespace)
        texts = [self.dataset.queries[id_] if self.by_words else "" for id_ in found]
        now = index._current()
        weighed = now.searcher.prepare(texts, scope, self.options)
        chunks = {id_: self._chunks(id_, list(hits), result.run[id_]) for id_, hits in found.items()}
        names = now.live.view.statistics.namespaces if scope.namespaces is None else scope.namespaces
        wanted = {(name, chunk) for of_query in chunks.values() for chunk in of_query.values() for name in names}
        keys = ((name, chunk, None) for name, chunk in sorted(wanted))
        rows = list(read_newest(now.store, keys, contents=weighed.weighting.reweighs, vectors=True).values())
        weighted = now.searcher.vectors_of(rows, weighed.queries[0].documents) if rows else []
        vectors = {row.id: vector for row, vector in zip(rows, weighted, strict=True)}
        measured = result.per_query
        for at, (id_, query) in enumerate(zip(found, weighed.queries, strict=True)):
            terms = _short(dict(zip(map(term_name, query.terms.terms), query.terms.weights.tolist(), strict=True)))
            self.queries[id_] = RecordedQuery(
                self.dataset.queries[id_],
                {name: round(float(values[at]), 12) for name, values in measured.values.items()},
                weighed.idf_inputs.num_chunks,
                dict(zip(terms, query.terms.df.tolist(), strict=True)),
                terms,
                dict(self._hits(id_, chunks[id_], result.run[id_], query.terms, vectors)),
            )

    def _chunks(self, id_: str, found: list[str], run: Mapping[str, float]) -> dict[str, str]:
        """Return the best chunk of each document to record: first ones, relevant ones, and those of earlier."""
        grades, best = self.dataset.qrels[id_], dict[str, str]()
        for chunk in found:
            best.setdefault(chunk if chunk in run else CHUNK_NUMBER.sub("", chunk), chunk)
        first = {
            doc: chunk for at, (doc, chunk) in enumerate(best.items()) if at < FIRST_HITS or grades.get(doc, 0) > 0
        }
        earlier = self.earlier[id_].hits if id_ in self.earlier else {}
        return first | {doc: hit.chunk for doc, hit in earlier.items() if doc not in best and hit.grade > 0}

    def _hits(
        self,
        id_: str,
        chunks: Mapping[str, str],
        run: Mapping[str, float],
        terms: QueryTerms,
        vectors: Mapping[str, SparseVector],
    ) -> Iterator[tuple[str, RecordedHit]]:
        ranks, grades = {doc: rank for rank, doc in enumerate(run, 1)}, self.dataset.qrels[id_]
        for doc, chunk in chunks.items():
            weights = _weights_in(vectors[chunk], terms) if chunk in vectors else None
            score = float(f"{run.get(doc, 0.0):.7g}")
            yield doc, RecordedHit(ranks.get(doc), score, grades.get(doc, 0), chunk, weights)


def _weights_in(vector: SparseVector, terms: QueryTerms) -> Weights:
    """Return the weights of those terms that a chunk has."""
    weights = zip(terms.terms, map(vector.get, terms.ids.tolist()), strict=True)
    return _short({term_name(term): weight for term, weight in weights if weight})


def _short(weights: Weights) -> Weights:
    """Leave out the digits that float32 does not have."""
    return {term: float(f"{weight:.7g}") for term, weight in weights.items()}
