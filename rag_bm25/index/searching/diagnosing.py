"""Find out why a search finds nothing, or not a given chunk: leave out its options, and search again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from rag_bm25.analysis.text import AnalysedText
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH
from rag_bm25.budget import has_budget
from rag_bm25.errors import ChunkNotFoundError, MissingExtraError, short_repr
from rag_bm25.filters import ID, Comparison, Not, path_name
from rag_bm25.hits.groups import group, key_of, value_of
from rag_bm25.hits.options import Effect, check_options, depth_of, options_that
from rag_bm25.index.arguments import MAX_LISTED, list_first, list_namespaces
from rag_bm25.index.searching.rows import drop_superseded, read_one
from rag_bm25.query.diagnosis import Diagnosis, Reason
from rag_bm25.query.query import Query
from rag_bm25.query.stop_words import stop_words_in
from rag_bm25.store.rows import MAX_K, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.filters import Filter
    from rag_bm25.hits.groups import Grouping, GroupKey
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.arguments import FilterLike, Namespaces
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow

MAX_SAMPLED = 10_000  # chunks whose metadata are read
MAX_FIELDS = 20
RANKED = (100, 2_000, MAX_K)  # hits among which a chunk is looked for, one number after the other

CONDITIONS = ("must", "must_not", "phrases")
MINIMUMS = {"min_score": "score", "min_confidence": "confidence"}
_TOLD: WeakKeyDictionary[Diagnosed, set[tuple[str, ...]]] = WeakKeyDictionary()
_TYPES: dict[type, str] = {str: "strings", int: "numbers", float: "numbers", bool: "booleans", list: "lists"}


@dataclass(frozen=True, eq=False)
class DiagnosedSearch:
    """A search that is asked about."""

    query: Query
    k: int
    namespaces: tuple[str, ...] | None
    options: dict[str, Any]  # its filter and its conditions among them

    @classmethod
    def of(cls, query: QueryLike, k: int, scope: Scope, options: SearchOptions) -> DiagnosedSearch:
        parsed = Query.of(query)
        conditions = {name: list(getattr(parsed, name)) or None for name in CONDITIONS}
        unshown = dict.fromkeys((*options_that(Effect.SHOWS), "offset"))  # hits are counted only, on all pages
        asked = {**options, **unshown, **conditions, "filter": scope.where}
        return cls(parsed, min(depth_of(options, k), MAX_K), scope.namespaces, asked)

    def has(self, name: str) -> bool:
        """Return whether an option is given."""
        return self.options.get(name) is not None

    def without(self, names: Iterable[str]) -> tuple[Query, dict[str, Any]]:
        """Return the query and the options of the search without some of them."""
        left_out = set(names)
        given = {name: value for name, value in self.options.items() if name not in left_out}
        must, must_not, phrases = (given.pop(name, None) or () for name in CONDITIONS)
        return Query(self.query.parts, must, must_not, phrases, self.query.slop), given

    def describe(self, name: str) -> str:
        """Name an option, with its value if that is plain."""
        value = self.options.get(name)
        if isinstance(value, str | int | float | list | tuple):
            return f"{name} {short_repr(list(value) if isinstance(value, tuple) else value)}"
        return "the filter" if name == "filter" else name


@dataclass(frozen=True, eq=False)
class Diagnoser:
    """Find the reasons for the hits that a search does not have."""

    store: Store
    live: LiveStatistics
    searcher: Searcher
    find: Callable[..., list[Hit]]  # BM25Index.search
    asked: DiagnosedSearch

    def diagnose_no_hits(self) -> Diagnosis:
        """Return why there are no hits."""
        text, hits = str(self.asked.query), self._hits()
        if not hits:
            return Diagnosis(text, tuple(self._reasons_for_nothing()))
        found = Diagnosis(text, (), len(hits), score=hits[0].score, last_score=hits[-1].score)
        unknown, parts = self.searcher.unknown_words(self.asked.query, self.asked.namespaces)
        notes = [self._unknown_words(unknown)] if unknown else []
        return replace(found, notes=(*notes, *self._within_words(parts)))

    def _reasons_for_nothing(self) -> list[Reason]:
        if of_index := self._in_query() or self._in_damage() or self._in_index():
            return of_index
        found = self._left_out_by(dropping(), lambda left_out: self._hits(left_out, 1), "the search has hits")
        return [self._detail(reason) for reason in found] or self._in_no_chunk()

    def diagnose_missing_chunk(self, id_: str, chunk_namespace: str | None, part: int | None) -> Diagnosis:
        """Return why a chunk is not among the hits."""
        hits, row = self._hits(), self._read(id_, chunk_namespace, part)
        last = self._least_best(hits) if hits else None
        diagnosis = Diagnosis(str(self.asked.query), (), len(hits), id_, last_score=last)
        if row is None:
            return replace(diagnosis, reasons=(Reason("no_chunk", f"no chunk{self._of_places} has this id"),))
        rank, ranked = self._rank(row)
        hit = next((hit for hit in hits if _is(hit, row)), ranked)
        diagnosis = replace(diagnosis, namespace=row.namespace, rank=rank, score=None if hit is None else hit.score)
        if hit is not None and hit in hits:
            return diagnosis
        reasons = self._reasons_for_no_match(row) if hit is None else self._chosen_by(row)
        return replace(diagnosis, reasons=tuple(reasons) or (self._outranked(diagnosis, hits, hit),))

    def _least_best(self, hits: Sequence[Hit]) -> float:
        """Return the score that another chunk would have needed: of the last hit, or the best of the last group."""
        how = self.asked.options.get("group")
        return hits[-1].score if how is None else group(hits, how)[-1][0].score

    def _hits(self, left_out: Iterable[str] = (), k: int | None = None) -> list[Hit]:
        """Search without some options."""
        query, options = self.asked.without(left_out)
        return self.find(query, k or self.asked.k, namespace=self.asked.namespaces, **options)

    # The query and the index

    def _in_query(self) -> list[Reason]:
        query, analyzer = self.asked.query, self.searcher.analyzer
        if any(part.prefix or AnalysedText.of_query(analyzer, part.text).words for part in query.parts):
            return []
        if not str(query).strip():
            excludes = "the query only says what hits must not have; it needs a word to search for"
            return [Reason("empty_query", excludes if self.asked.options["must_not"] else "the query is empty")]
        if dropped := stop_words_in(analyzer, query):
            message = f"the query has stop words only, which the index leaves out: {list_first(dropped)}"
            return [Reason("stop_words", message, {"words": dropped})]
        rule = f"punctuation, and words of more than {MAX_TOKEN_LENGTH} characters, are not indexed"
        return [Reason("no_words", f"the query has no words: {rule}")]

    def _in_damage(self) -> list[Reason]:
        message = "the statistics of the index are damaged; run `rag-bm25 repair`"
        return [Reason("damage", message, {"findings": list(self.live.problems)})] if self.live.problems else []

    def _in_index(self) -> list[Reason]:
        statistics = self.live.current(self.asked.namespaces).statistics
        if statistics.of(self.asked.namespaces).num_chunks:
            return []
        if not statistics.num_chunks:
            return [Reason("empty_index", "the index has no chunks")]
        names = list_namespaces(self.asked.namespaces or ())
        return [Reason("empty_namespace", f"no chunk is in {names}; other namespaces have some")]

    def _in_no_chunk(self) -> list[Reason]:
        _, parts = self.searcher.unknown_words(self.asked.query, self.asked.namespaces)
        return [self._unknown_words(), *self._within_words(parts)]

    def _within_words(self, characters: Sequence[str]) -> list[Reason]:
        """Return that chunks have some one-character words of the query within other words only."""
        if not characters:
            return []
        named = list_first(map(short_repr, characters))
        message = f"no chunk{self._of_places} has {named} as a word, only within other words"
        return [Reason("within_words", message, {"words": list(characters)})]

    def _unknown_words(self, words: Sequence[str] = ()) -> Reason:
        """Return that no chunk has any word of the query, or that none has some of them."""
        text, scope, suggestion = str(self.asked.query), Scope(None, self.asked.namespaces), None
        with suppress(MissingExtraError):
            suggestion = self.searcher.correct(text, None, scope, {})
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        plural = "s" if len(words) > 1 else ""
        named = f"the word{plural} {list_first(map(short_repr, words))}" if words else "a word of the query"
        message = f"no chunk{self._of_places} has {named}{hint}"
        details = {"words": list(words)} if words else {}
        return Reason("unknown_words", message, {**details, "suggestion": suggestion})

    @property
    def _of_places(self) -> str:
        """The searched namespaces, where there are others."""
        names = self.asked.namespaces
        others = names is not None and not set(self.live.view.statistics.filled) <= set(names)
        return f" of {list_namespaces(names or ())}" if others else ""

    # The options

    def _left_out_by(
        self, names: Sequence[str], is_back: Callable[[Sequence[str]], object], outcome: str
    ) -> list[Reason]:
        """Return the options without which something is found: each that suffices alone, or else some together."""
        together = [name for name in names if self.asked.has(name)]
        if not is_back(together):
            return []
        if alone := [name for name in together if is_back([name])]:
            return [Reason(name, f"without {self.asked.describe(name)}, {outcome}") for name in alone]
        for name in tuple(together):
            others = [other for other in together if other != name]
            together = others if is_back(others) else together
        listed = " and ".join(map(self.asked.describe, together))
        return [Reason("options", f"without {listed} together, {outcome}", {"options": together})]

    def _detail(self, reason: Reason, row: ChunkRow | None = None) -> Reason:
        """Add figures to the reason that names a minimum or the filter."""
        if reason.code in MINIMUMS:
            return self._detail_minimum(reason.code, MINIMUMS[reason.code], row)
        return self._detail_filter(reason, row) if reason.code == "filter" else reason

    def _detail_minimum(self, name: str, of: str, row: ChunkRow | None) -> Reason:
        """Name the best score or confidence of the search, or that of a chunk, and the minimum."""
        _, hit = self._rank(row, [name]) if row is not None else (1, self._hits([name], 1)[0])
        value, least = getattr(hit, of), self.asked.options[name]
        message = f"{'the best' if row is None else 'its'} {of} is {value:.4g}, below the minimum of {least:g}"
        return Reason(name, message, {of: value, name: least})

    def _detail_filter(self, reason: Reason, row: ChunkRow | None) -> Reason:
        """Add which values the fields of the filter have in the searched chunks, or in one."""
        rows = self._sample() if row is None else [row]
        paths = _paths_of(self.asked.options["filter"])
        values = {path_name(path): list(dict.fromkeys(map(short_repr, _values_at(path, rows)))) for path in paths}
        missing = [name for name, some in values.items() if not some]
        if missing and row is None:
            return _missing_fields(missing, [each.metadata for each in rows])
        details = {"values": {name: some[:MAX_LISTED] for name, some in values.items()}}
        if row is None and (met := self._count_met()):
            counted = {"met": met, **({"or_more": True} if met == MAX_SAMPLED else {})}
            return replace(reason, message=f"{reason.message}; {self._met(met)}", details={**details, **counted})
        listed = "".join(f"; {name!r} has {list_first(some) or 'no value'}" for name, some in values.items())
        listed += "".join(_other_types(self.asked.options["filter"], rows))
        return replace(reason, message=reason.message + listed, details=details)

    def _count_met(self) -> int:
        """Count the searched chunks that meet the filter, up to as many as are sampled."""
        scope = Scope(self.asked.options["filter"], self.asked.namespaces)
        rows = drop_superseded(chain.from_iterable(self.store.scan_chunks(scope)))
        return sum(1 for _ in islice(rows, MAX_SAMPLED))

    def _met(self, num_chunks: int) -> str:
        """Say that chunks meet the filter, and what they lack."""
        meet, have = ("chunk meets", "has") if num_chunks == 1 else ("chunks meet", "have")
        has_words = self._hits([name for name in dropping() if name != "filter"], 1)
        lack = "not the other conditions" if has_words else f"{have} no word of the query"
        at_least = "at least " if num_chunks == MAX_SAMPLED else ""
        return f"{at_least}{num_chunks:,} {meet} the filter, but {lack}"

    def _sample(self) -> list[ChunkRow]:
        """Return the searched chunks, the first ones if there are many."""
        rows = chain.from_iterable(self.store.scan_chunks(Scope(None, self.asked.namespaces), contents=True))
        return list(islice(rows, MAX_SAMPLED))

    # A chunk

    def _read(self, id_: str, chunk_namespace: str | None, part: int | None) -> ChunkRow | None:
        """Read a chunk; several with the id are an error, as for `explain`."""
        names = self.asked.namespaces if chunk_namespace is None else (chunk_namespace,)
        with suppress(ChunkNotFoundError):
            return read_one(self.store, self.live.current(names), id_, names, part)
        return None

    def _rank(self, row: ChunkRow, left_out: Iterable[str] = ()) -> tuple[int, Hit] | tuple[None, None]:
        """Return the rank of a chunk by score among all that match, and its hit."""
        for limit in (max(RANKED[0], self.asked.k), *RANKED[1:]):
            hits = self._hits([*self._choosing(), *left_out], limit)
            for rank, hit in enumerate(hits, 1):
                if _is(hit, row):
                    return rank, hit
            if len(hits) < limit:
                break
        return None, None

    def _reasons_for_no_match(self, row: ChunkRow) -> list[Reason]:
        if of_query := self._in_query():
            return of_query
        if not self._has_word(row):
            return self._in_damage() or [Reason("no_term", "it has no word of the query")]
        names = [name for name in dropping() if name not in self._choosing()]
        found = self._left_out_by(names, lambda left_out: any(self._rank(row, left_out)), "it matches")
        return [self._detail(reason, row) for reason in found]

    def _has_word(self, row: ChunkRow) -> bool:
        query, options = self.asked.without((*dropping(), *choosing()))
        scope = Scope(None, self.asked.namespaces)
        return self.searcher.explain(query, row.id, scope, row.namespace, check_options(options), row.part).value > 0

    def _chosen_by(self, row: ChunkRow) -> list[Reason]:
        def is_hit(left_out: Sequence[str]) -> bool:
            return any(_is(hit, row) for hit in self._hits(left_out))

        return self._left_out_by(self._choosing(), is_hit, "it is a hit")

    def _choosing(self) -> tuple[str, ...]:
        """Return the options that choose among the best chunks; after a reranker, the minimum score is one of them."""
        return (*choosing(), "min_score") if self.asked.has("rerank") else choosing()

    def _outranked(self, diagnosis: Diagnosis, hits: Sequence[Hit], hit: Hit | None) -> Reason:
        how = self.asked.options.get("group")
        if how is not None and hit is not None and _has_all(how, key_of(how, hit), hits):
            others = f"{how.size:,} other {'hit' if how.size == 1 else 'hits'}, the size of a group"
            message = f"its group, {how.key} {short_repr(value_of(how, hit))}, has {others}"
            return Reason("group", message, {"rank": diagnosis.rank, "size": how.size})
        rank, k, score, last = diagnosis.rank, self.asked.k, diagnosis.score, diagnosis.last_score
        place = f"not among the best {RANKED[-1]:,} chunks" if rank is None else f"hit {rank:,} by score"
        message = f"it is {place}, beyond k = {k:,}"
        if how is not None:
            message = f"it is {place}, and its group is not among the first {k:,} groups"
        of_another_kind = self.asked.has("rerank") or (how is not None and how.score == "sum")
        if None not in (score, last) and not of_another_kind:
            named = f"{diagnosis.num_hits:,} hits" if how is None else f"{k:,} groups"
            message += f": its score is {score:.4g}, and the last of {named} has {last:.4g}"
        return Reason("k", message, {"rank": rank, "score": score, "k": k, "last_score": last})


class Diagnosed(Protocol):
    """An index that says why it finds nothing."""

    def diagnose(self, query: QueryLike, *, filter: FilterLike = ..., namespace: Namespaces = ...) -> Diagnosis: ...


def find_missing_fields(
    index: Diagnosed, query: QueryLike, filter: FilterLike, namespace: Namespaces, *, to: str
) -> Iterator[str]:
    """Yield what to tell of a filter on fields that no chunk has, where a search finds nothing: once, but to each."""
    if not isinstance(filter, Mapping) or not filter or has_budget():  # whoever asks a server may ask it why
        return
    names, told = (to, *map(str, filter)), _TOLD.setdefault(index, set())
    if names not in told:
        told.add(names)
        for reason in index.diagnose(query, filter=filter, namespace=namespace).reasons:
            if reason.code == "filter_field":
                yield f"nothing found: {reason}"


def _has_all(how: Grouping, key: GroupKey, hits: Sequence[Hit]) -> bool:
    """Return whether a group has as many hits as it may have."""
    return sum(key_of(how, hit) == key for hit in hits) == how.size


def _is(hit: Hit, row: ChunkRow) -> bool:
    return hit.key == row.key


def _missing_fields(missing: list[str], metadatas: Sequence[dict[str, Any]]) -> Reason:
    """Return that a filter names fields that no chunk has."""
    fields = sorted(set(chain.from_iterable(metadatas)))
    names, listed = (list_first(map(short_repr, some), MAX_FIELDS) for some in (missing, fields))
    similar = get_close_matches(missing[0], fields, 1)
    if (name := missing[0]) in fields:
        message = (
            f"the filter takes {name!r} for a value within another, as a dot is read, and it is one key: write it "
        )
        return Reason("filter_field", f"{message}as a tuple, {(name,)}", {"missing": missing, "fields": fields})
    message = f"the filter names {names}, which none of {len(metadatas):,} chunks has"
    message += f"; the fields are {listed}" if fields else "; the chunks have no metadata"
    message += f"; did you mean {similar[0]!r}?" if similar else ""
    return Reason("filter_field", message, {"missing": missing, "fields": fields})


def _other_types(where: Filter, rows: Sequence[ChunkRow]) -> Iterator[str]:
    """Yield where a filter compares values with an operand of another type, which none of them can equal."""
    for one in _comparisons_of(where):
        operands = one.value if isinstance(one.value, tuple) else (one.value,)
        values = [] if one.op == "contains" else _values_at(one.path, rows)
        types, wanted = ({_TYPES[type(each)] for each in some if type(each) in _TYPES} for some in (values, operands))
        if types.isdisjoint(wanted) and types:
            told = f"; these are {' and '.join(sorted(types))}, and the filter has {' and '.join(sorted(wanted))} there"
            yield told + (": $contains finds what is in a list" if "lists" in types else "")


def _values_at(path: tuple[str, ...], rows: Sequence[ChunkRow]) -> list[Any]:
    """Return the values under a path."""
    values: list[Any] = [row.id if path == ID else row.metadata for row in rows]
    for key in path:
        values = [value[key] for value in values if isinstance(value, dict) and value.get(key) is not None]
    return values


def _paths_of(where: Filter) -> list[tuple[str, ...]]:
    """Return the paths whose values a filter compares."""
    return list(dict.fromkeys(one.path for one in _comparisons_of(where)))


def _comparisons_of(where: Filter) -> Iterator[Comparison]:
    """Yield the comparisons of a filter."""
    if isinstance(where, Comparison):
        yield from () if where.op == "exists" else (where,)
    else:
        parts = (where.part,) if isinstance(where, Not) else where.parts
        yield from chain.from_iterable(map(_comparisons_of, parts))


def dropping() -> tuple[str, ...]:
    """Return what may keep a chunk with words of the query from being found, however many hits are asked for."""
    return ("filter", *CONDITIONS, *options_that(Effect.DROPS))


def choosing() -> tuple[str, ...]:
    """Return the options that may keep one of the k best chunks from being a hit."""
    return (*options_that(Effect.PLACES), "search_params")
