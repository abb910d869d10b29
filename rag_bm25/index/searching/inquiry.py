"""Find out why a search finds nothing, or not a given chunk: leave out one cause after the other, and search again."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH
from rag_bm25.errors import FilterError, MissingExtraError, short_repr
from rag_bm25.filters import Comparison, Expression, Not
from rag_bm25.hits.boosts import factor_of
from rag_bm25.index.arguments import MAX_LISTED, list_first, list_namespaces, name_namespace
from rag_bm25.query.diagnosis import Diagnosis, Reason
from rag_bm25.query.min_should_match import required_words
from rag_bm25.query.options import query_of
from rag_bm25.query.query import Query
from rag_bm25.store.rows import Match, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.filters import Filter
    from rag_bm25.hits.options import HitPlan
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.searcher import Searcher
    from rag_bm25.index.searching.weigher import WeightedQuery
    from rag_bm25.query.conditions import Conditions
    from rag_bm25.query.options import QueryOptions
    from rag_bm25.query.query import QueryLike
    from rag_bm25.store.protocol import Store

MAX_CHECKED = 1_000  # chunks that conditions are tried on
MAX_SAMPLED = 10_000  # chunks whose metadata are looked at
MAX_VALUES = 5
MAX_FIELDS = 20

# What a search for the words alone does not have.
CONDITIONS = ("must", "must_not", "phrases", "slop", "min_should_match")
NARROWING = (*CONDITIONS, "syntax", "feedback", "relevant", "irrelevant", "search_params", "rescore")

_MISSING = object()
_METADATA_KEY = re.compile(r"metadata\[(?:\"((?:[^\"\\]|\\.)+)\"|'((?:[^'\\]|\\.)+)')\]")
_PIECE = re.compile(r"\w[\w.'’_+#-]*")


@dataclass(frozen=True, eq=False)
class Search:
    """A search that is asked about."""

    query: QueryLike
    k: int
    scope: Scope
    options: QueryOptions
    plan: HitPlan
    given: dict[str, Any]  # all options, those for hits as well
    min_score: float | None = None
    elsewhere: bool = True  # whether reasons may name namespaces that are not searched


class Inquiry:
    """Find the reasons for the hits that a search does not have."""

    def __init__(
        self,
        store: Store,
        live: LiveStatistics,
        searcher: Searcher,
        search: Search,
        find: Callable[..., list[Hit]],  # BM25Index.search
    ) -> None:
        self._store = store
        self._live = live
        self._searcher = searcher
        self._analyzer = searcher.analyzer
        self._asked = search
        self._scope = search.scope
        self._find = find
        self._parsed = query_of(search.query, search.options)
        self._text = str(self._parsed)
        self._base: Any = {name: value for name, value in search.options.items() if name not in NARROWING}

    def why_nothing(self) -> Diagnosis:
        """Return why there are no hits, or none with a minimum score."""
        hits = self._hits(self._asked.k, self._asked.given)
        best, least = hits[0].score if hits else None, self._asked.min_score
        reasons = [] if hits else self._reasons()
        if best is not None and least is not None and best < least:
            message = f"the best score is {best:.4g}, below the minimum of {least:g}"
            reasons = [Reason("min_score", message, {"best_score": best, "min_score": least})]
        return Diagnosis(self._text, tuple(reasons), len(hits), score=best, last_score=hits[-1].score if hits else None)

    def _reasons(self) -> list[Reason]:
        if of_query := [*self._in_query(), *self._in_index()]:
            return of_query
        if of_words := [*self._in_words(), *self._in_filter()]:
            return [*self._in_damage(), *of_words]
        found = [*self._in_conditions(), *self._in_boosts(), *self._in_rest()]
        return found or [*self._in_damage(), Reason("unclear", "the chunks that match have just been deleted")][:1]

    def _hits(self, k: int, options: dict[str, Any]) -> list[Hit]:
        """Search with other options."""
        where, namespaces = self._scope.where, self._scope.namespaces
        return self._find(self._asked.query, k, filter=where, namespace=namespaces, **options)

    # The query

    def _in_query(self) -> Iterator[Reason]:
        if self._plain.terms.terms or any(self._words_of(part.text) for part in self._parsed.parts):
            return
        if not self._text.strip():
            excludes = "the query only says what hits must not have; it needs a word to search for"
            yield Reason("empty_query", excludes if self._parsed.must_not else "the query is empty")
        elif dropped := self._stop_words:
            listed = list_first(dropped)
            message = f"the query has stop words only, which the index leaves out: {listed}"
            yield Reason("stop_words", message, {"words": dropped})
        elif self._has_long_words:
            message = (
                f"the query has no words but some of more than {MAX_TOKEN_LENGTH} characters, which are not indexed"
            )
            yield Reason("no_words", message)
        else:
            yield Reason("no_words", "the query has no words, only punctuation")

    @property
    def _has_long_words(self) -> bool:
        longest = max(map(len, _PIECE.findall(self._text)), default=0)
        return isinstance(self._analyzer, Analyzer) and longest > MAX_TOKEN_LENGTH

    @cached_property
    def _stop_words(self) -> list[str]:
        return self._searcher.stop_words_in(self._parsed)

    @cached_property
    def _plain(self) -> WeightedQuery:
        """The words of the query, weighed without conditions."""
        return self._weigh(Query(self._parsed.parts), self._scope)

    def _weigh(self, query: Query, scope: Scope) -> WeightedQuery:
        return self._searcher.weigh([query], scope, self._base).queries[0]

    # The index

    def _in_damage(self) -> list[Reason]:
        if not self._live.damage:
            return []
        message = "the statistics of the index are damaged; run `rag-bm25 repair`"
        return [Reason("damage", message, {"findings": list(self._live.damage)})]

    def _in_index(self) -> Iterator[Reason]:
        statistics = self._live.current(self._scope.namespaces).statistics
        if statistics.of(self._scope.namespaces).num_chunks:
            return
        if not statistics.num_chunks:
            yield from self._in_damage() or [Reason("empty_index", "the index has no chunks")]
            return
        asked = sorted(set(self._scope.namespaces or ()))
        message = f"{list_namespaces(asked)} {'has' if len(asked) == 1 else 'have'} no chunks"
        names = statistics.filled if self._asked.elsewhere else []
        listed = {name: statistics.of_one(name).num_chunks for name in names[:MAX_LISTED]}
        others = list_first([*map(_in_namespace, listed.items()), *names[MAX_LISTED:]])
        message += f"; there are some in {others}" if others else ""
        yield Reason("empty_namespace", message, {"namespaces": listed, "num_namespaces": len(names)})

    # The words

    def _in_words(self) -> Iterator[Reason]:
        anywhere = replace(self._scope, where=None)
        if self._matches(self._plain, anywhere, 1):
            return
        terms = self._plain.terms
        df = self._live.view.statistics.of(self._scope.namespaces).df(terms.ids)
        if df.any() and not terms.df[df > 0].any():
            message = "no chunk that fits the filter of `statistics` has a word of the query"
            yield Reason("statistics", message, {"num_chunks": 0})
            return
        yield self._unknown_words()
        if self._asked.elsewhere and self._scope.namespaces is not None:
            yield from self._in_other_namespaces()

    def _unknown_words(self) -> Reason:
        prefixes = [f"{part.text}*" for part in self._parsed.parts if part.prefix]
        words = list(dict.fromkeys([*self._written_words(), *prefixes]))
        named = f"the word {words[0]}" if len(words) == 1 else f"any of the words {list_first(words)}"
        names = self._scope.namespaces
        there_are_others = self._asked.elsewhere and len(self._live.view.statistics.filled) > 1
        whose = f" of {list_namespaces(names)}" if names is not None and there_are_others else ""
        message = f"no chunk{whose} has {named}"
        if self._are_question_words(words):
            message = f"the query has question words only, and no chunk{whose} has them: {list_first(words)}"
        suggestion = self._suggest(self._text)
        message += f"; did you mean {suggestion!r}?" if suggestion else ""
        return Reason("unknown_words", message, {"words": words, "suggestion": suggestion})

    def _are_question_words(self, words: Iterable[str]) -> bool:
        question_words = getattr(getattr(self._analyzer, "config", None), "query_stop_words", ())
        return {word.casefold() for word in words} <= set(map(str.casefold, question_words))

    def _written_words(self) -> list[str]:
        """Return the words of the query as they are written; a prefix is no word."""
        texts = [part.text for part in self._parsed.parts if not part.prefix]
        return list(chain.from_iterable(self._as_written(self._words_of(text), text) for text in texts))

    def _words_of(self, text: str) -> list[str]:
        return list(dict.fromkeys(AnalysedText.of_query(self._analyzer, text).words))

    def _as_written(self, words: Iterable[str], text: str) -> list[str]:
        """Return words as a text has them: stemming and case folding have changed them."""
        pieces = {self._words_of(piece)[0]: piece for piece in _PIECE.findall(text) if len(self._words_of(piece)) == 1}
        return [pieces.get(word, word) for word in words]

    def _suggest(self, text: str) -> str | None:
        with suppress(MissingExtraError):
            return self._searcher.weigher.correct(text, None, self._scope, self._base)
        return None

    def _in_other_namespaces(self) -> Iterator[Reason]:
        everywhere = Scope()
        matches = self._matches(self._weigh(Query(self._parsed.parts), everywhere), everywhere, MAX_CHECKED)
        found = Counter(match.row.namespace for match in matches)
        if found:
            listed = list_first(map(_in_namespace, found.most_common()))
            least = "at least " if len(matches) >= MAX_CHECKED else ""
            yield Reason(
                "other_namespaces",
                f"other namespaces have chunks with words of the query: {least}{listed}",
                {"namespaces": dict(found.most_common())},
            )

    def _matches(self, query: WeightedQuery, scope: Scope, limit: int) -> list[Match]:
        """Search for the words of a query alone, with vectors."""
        candidates = self._searcher.candidates([query], limit, lambda *_: True, scope, self._base, vectors=True)
        return candidates[0].matches[:limit]

    # The filter

    def _in_filter(self) -> Iterator[Reason]:
        where = self._scope.where
        if where is None or self._matching:
            return
        if self._passes(where):
            if found := self._matches(self._plain, replace(self._scope, where=None), 1):
                best, keys = found[0].row, top_keys(where)
                values = {key: best.metadata.get(key) for key in keys}
                has = f" has {list_values(values)}" if values else ""
                message = (
                    f"the filter excludes all chunks with a word of the query; the best of them, {best.id!r},{has}"
                )
                yield Reason("filter", message.removesuffix(","), {"best": best.id, "metadata": values})
            return
        missing = [path for path in _comparisons(where) if not self._has_field(path)]
        yield self._missing_fields(missing) if missing else self._excluded_by_filter(where)

    def _missing_fields(self, missing: Sequence[tuple[str, ...]]) -> Reason:
        counts = Counter(chain.from_iterable(self._sample))
        there = [key for key, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
        names = [".".join(path) for path in missing]
        none = "no chunk has" if len(self._sample) < MAX_SAMPLED else f"none of {MAX_SAMPLED:,} chunks has"
        message = f"the filter names {quoted(names)}, which {none}"
        message += f"; the fields are {quoted(there, MAX_FIELDS)}" if there else "; the chunks have no metadata"
        similar = get_close_matches(names[0], there, 1)
        message += f"; did you mean {similar[0]!r}?" if similar else ""
        return Reason("filter_field", message, {"missing": names, "fields": there})

    def _excluded_by_filter(self, where: Filter) -> Reason:
        """List values of the fields in a filter that no chunk passes: those that resemble the filter's, if any do."""
        clauses, listed = [], {}
        for path, operands in _comparisons(where).items():
            values = self._values_at(path)
            name, some = ".".join(path), _similar(operands, values)
            listed[name] = (some or values)[:MAX_VALUES]
            wanted, held = _types_of(operands), _types_of(values)
            if wanted and held and not wanted & held:
                clauses.append(
                    f"; it has {_joined(wanted)} for {name!r}, the chunks have {_joined(held)}: {quoted(values)}"
                )
            elif some:
                clauses.append(f"; similar values of {name!r} are {quoted(some)}")
            else:
                clauses.append(f"; {name!r} has {quoted(values)}")
        return Reason("filter", f"no chunk passes the filter{''.join(clauses)}", {"values": listed})

    def _values_at(self, path: tuple[str, ...]) -> list[Any]:
        """Return the distinct texts, numbers and bools of the sample under a path, also those within lists."""
        found: dict[tuple[type, Any], None] = {}
        for metadata in self._sample:
            value = _value_at(metadata, path)
            scalars = value if isinstance(value, list) else [value]
            found |= {(type(each), each): None for each in scalars if isinstance(each, str | int | float)}
        return [value for _, value in found]

    @cached_property
    def _matching(self) -> list[Match]:
        """The best chunks with words of the query that pass the filter, whatever else the search asks for."""
        return self._matches(self._plain, self._scope, MAX_CHECKED)

    def _passes(self, where: Filter, of: Scope | None = None) -> bool:
        """Return whether a chunk of the searched namespaces passes a filter."""
        return any(self._store.scan_chunks(replace(of or self._scope, where=where)))

    @cached_property
    def _sample(self) -> list[dict[str, Any]]:
        """The metadata of the searched chunks, of the first ones if there are many."""
        rows = chain.from_iterable(self._store.scan_chunks(replace(self._scope, where=None), contents=True))
        return [row.metadata for row in islice(rows, MAX_SAMPLED)]

    def _has_field(self, path: tuple[str, ...]) -> bool:
        """Return whether a chunk has a metadata value, as far as the engine can tell of those that were not read."""
        if any(_value_at(metadata, path) is not _MISSING for metadata in self._sample):
            return True
        with suppress(FilterError):
            return len(self._sample) >= MAX_SAMPLED and self._passes(Comparison(path, "exists", value=True))
        return False

    # Conditions

    def _in_conditions(self) -> Iterator[Reason]:
        """Try each condition by itself on the chunks that have a word of the query."""
        every = len(self._matching)
        left = {clause: self._left(changes) for clause, changes in self._each_condition()}
        alone = [clause for clause, matches in left.items() if not matches]
        for name, text in alone:
            yield self._excluded_by(name, text)
        if len(left) > 1 and not alone and not self._left(self._all_conditions()):
            listed = list_first(f"{_clause(*clause)} leaves {len(some):,}" for clause, some in left.items())
            message = f"no chunk meets all conditions together: of {self._counted()}, {listed}"
            yield Reason(
                "conditions",
                message,
                {"num_chunks": every, "left": {_clause(*clause): len(some) for clause, some in left.items()}},
            )

    def _each_condition(self) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
        parsed = self._parsed
        for name in ("must", "must_not", "phrases"):
            for text in getattr(parsed, name):
                yield (name, text), {name: [text], "slop": parsed.slop}
        if (wanted := self._asked.options.get("min_should_match")) is not None:
            yield ("min_should_match", str(wanted)), {"min_should_match": wanted}

    def _all_conditions(self) -> dict[str, Any]:
        parsed = self._parsed
        given = {name: getattr(parsed, name) for name in ("must", "must_not", "phrases", "slop")}
        return {**given, "min_should_match": self._asked.options.get("min_should_match")}

    def _left(self, changes: dict[str, Any], matches: list[Match] | None = None) -> list[Match]:
        """Return which of the matching chunks meet some conditions."""
        given = self._matching if matches is None else matches
        left = self._searcher.keep_met(self._conditions(changes), None, given)
        if (wanted := changes.get("min_should_match")) is None:
            return left
        terms = self._plain.terms
        least = required_words(wanted, len(terms.words))
        return [match for match in left if len(terms.words_had_by(match.row.vector)) >= least]

    def _conditions(self, changes: dict[str, Any]) -> Conditions | None:
        given = {name: value for name, value in changes.items() if name != "min_should_match"}
        return self._weigh(Query(self._parsed.parts, **given), self._scope).conditions

    def _excluded_by(self, name: str, text: str) -> Reason:
        details: dict[str, Any] = {"text": text, "num_chunks": len(self._matching)}
        counted = self._counted()
        if name == "must_not":
            return Reason(name, f"all {counted} have the words of must_not {text!r}", details)
        if name == "min_should_match":
            return self._too_few_words(text, details)
        if name == "must":
            message = f"none of {counted} has all words of must {text!r}"
        else:
            message = f"none of {counted} has the phrase {text!r}"
            apart = len(self._left({"phrases": [text], "slop": 1000}))
            message += f" with slop {self._parsed.slop}" if self._parsed.slop else ""
            message += f"; {apart:,} {'has' if apart == 1 else 'have'} its words further apart" if apart else ""
            details["further_apart"] = apart
        unknown = self._unknown_in(text)
        message += f"; no chunk has {list_first(unknown)}" if unknown else ""
        suggestion = self._suggest(text) if unknown else None
        message += f"; did you mean {suggestion!r}?" if suggestion else ""
        return Reason(name, message, {**details, "unknown": unknown, "suggestion": suggestion})

    def _unknown_in(self, text: str) -> list[str]:
        words, ids = self._words_of(text), self._live.view.ids
        df = self._live.view.statistics.of(self._scope.namespaces).df(
            np.array([ids[word] for word in words], np.uint32)
        )
        return self._as_written((word for word, count in zip(words, df.tolist(), strict=True) if not count), text)

    def _too_few_words(self, wanted: str, details: dict[str, Any]) -> Reason:
        terms = self._plain.terms
        had = max((terms.words_had_by(match.row.vector) for match in self._matching), key=len)
        least = required_words(wanted, len(terms.words))
        missing = sorted(self._as_written(terms.words - had, self._text))
        message = (
            f"min_should_match {wanted!r} asks for {least} of the {len(terms.words)} words of the query; no chunk has "
            f"more than {len(had)}, and the one with most lacks {list_first(missing)}"
        )
        suggestion = self._suggest(self._text)
        message += f"; did you mean {suggestion!r}?" if suggestion else ""
        details |= {"required": least, "most": len(had), "missing": missing, "suggestion": suggestion}
        return Reason("min_should_match", message, details)

    def _counted(self) -> str:
        every = len(self._matching)
        if every >= MAX_CHECKED:
            return f"the {every:,} best chunks with a word of the query"
        return f"{every:,} chunk{'' if every == 1 else 's'} with a word of the query"

    # Boosts, and the rest

    def _in_boosts(self) -> Iterator[Reason]:
        boosts = self._asked.plan.boosts
        left = self._left(self._all_conditions())
        if boosts and left and not any(factor_of(boosts, match.row.metadata) for match in left):
            keys = list(dict.fromkeys(boost.name for boost in boosts))
            message = f"the boosts multiply the scores of all chunks that match by 0: those of {quoted(keys)}"
            yield Reason("boosts", message, {"keys": keys, "num_chunks": len(left)})

    def _in_rest(self) -> Iterator[Reason]:
        """Leave out one option after the other that changes what the engine is asked for."""
        for names in (("search_params",), ("feedback", "relevant", "irrelevant")):
            given = {name: value for name, value in self._asked.given.items() if name not in names}
            if len(given) < len(self._asked.given) and self._hits(1, given):
                yield Reason(names[0], f"without {names[0]}, the search has hits")


def _clause(name: str, text: str) -> str:
    return f"{name} {text!r}"


def quoted(names: Iterable[object], most: int = MAX_LISTED) -> str:
    """List names or values."""
    return list_first(map(short_repr, names), most)


def list_values(values: dict[str, Any]) -> str:
    return list_first(
        f"{key} = {short_repr(value)}" if value is not None else f"no {key!r}" for key, value in values.items()
    )


def _in_namespace(counted: tuple[str, int]) -> str:
    name, number = counted
    return f"{name_namespace(name)} ({number:,})"


def _value_at(metadata: Any, path: tuple[str, ...]) -> Any:
    """Return the value under a path, or a mark that there is none."""
    for key in path:
        if not isinstance(metadata, dict) or key not in metadata:
            return _MISSING
        metadata = metadata[key]
    return metadata


def _types_of(values: Iterable[object]) -> set[str]:
    """Name the types of values; in a filter, no value equals one of another type."""
    names = {str: "text", bool: "bools"}
    return {names.get(type(value), "numbers") for value in values if value is not None}


def _joined(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def _similar(operands: Sequence[object], values: Sequence[object]) -> list[str]:
    """Return the texts that hold one of the operands, or else are spelt alike."""
    texts = [value for value in values if isinstance(value, str)]
    wanted = [operand for operand in operands if isinstance(operand, str) and operand]
    holding = [text for text in texts if any(operand.casefold() in text.casefold() for operand in wanted)]
    return holding or [text for operand in wanted for text in get_close_matches(operand, texts, MAX_VALUES)]


def _comparisons(where: Filter) -> dict[tuple[str, ...], list[object]]:
    """Return the paths that a filter reads, and the values that it compares each with for equality."""
    if isinstance(where, Comparison):
        operands = where.value if isinstance(where.value, tuple) else (where.value,)
        return {where.path: list(operands) if where.op in ("==", "in", "contains") else []}
    if isinstance(where, Expression):
        return {(double or single,): [] for double, single in _METADATA_KEY.findall(where.text)}
    found: dict[tuple[str, ...], list[object]] = {}
    for part in (where.part,) if isinstance(where, Not) else where.parts:
        for path, compared in _comparisons(part).items():
            found[path] = [*found.get(path, []), *compared]
    return found


def top_keys(where: Filter) -> list[str]:
    """Return the metadata keys that a filter reads."""
    return list(dict.fromkeys(path[0] for path in _comparisons(where)))
