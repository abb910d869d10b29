"""Why a search has found nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis import Analyzer, query_tokens
from rag_bm25.errors import MissingExtraError
from rag_bm25.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.index import BM25Index
    from rag_bm25.query_options import QueryOptions

__all__ = ["why_nothing"]

MAX_SHOWN = 5
_Filter = dict[str, Any] | str | None


def why_nothing(index: BM25Index, query: str, conditions: _Filter, namespace: str, options: QueryOptions) -> str:
    """Return one line: the first reason that applies."""
    reason = _of_index(index, namespace) or _of_query(index, query)
    if reason:
        return f"nothing found: {reason}"
    if meant := _did_you_mean(index, query, namespace):
        return f"nothing found; did you mean {meant!r}?"
    return f"nothing found: {_of_words(index, query, conditions, namespace, options)}"


def _of_index(index: BM25Index, namespace: str) -> str:
    """Say that there is nothing to search."""
    if index.damage:
        return "the statistics of the index are damaged; run `rag-bm25 repair`"
    stats = index.stats()
    if not stats.num_chunks:
        return "the index has no chunks"
    if index.stats(namespace=namespace).num_chunks:
        return ""
    others = _listed(map(_shown, stats.namespaces))
    return f"{_shown(namespace)} has no chunks; there are some in {others}"


def _shown(namespace: str) -> str:
    return f"the namespace {namespace!r}" if namespace else "the default namespace"


def _of_query(index: BM25Index, query: str) -> str:
    """Say that there is nothing to search for."""
    if not query.strip():
        return "the query is empty"
    analyzer = index.config.build_analyzer()
    if query_tokens(analyzer, query):
        return ""
    stop_words = analyzer.stop_words_in(query) if isinstance(analyzer, Analyzer) else []
    if stop_words:
        return f"the query has stop words only, which the index leaves out: {_listed(stop_words)}"
    return "the query has no words, only punctuation"


def _of_words(index: BM25Index, query: str, conditions: _Filter, namespace: str, options: QueryOptions) -> str:
    """Say why no chunk has what the query asks for."""
    if conditions is not None and not _fits_any(index, conditions, namespace):
        return "no chunk fits the filter"
    wanted: QueryOptions = {**options, "min_should_match": None}
    if not len(index.encode_queries([query], filter=conditions, namespace=namespace, **wanted)[0]):
        tokens = query_tokens(index.config.build_analyzer(), query)
        words = dict.fromkeys(token for token in tokens if not token.startswith(BIGRAM_MARK))
        return f"no chunk has any of the words {_listed(words)}" if words else "no chunk has a word of the query"
    if options.get("min_should_match") is not None:
        return "no chunk has as many words of the query as --min-should-match asks for"
    return "no chunk that fits the filter has a word of the query" if conditions else "no chunk has a word of the query"


def _fits_any(index: BM25Index, conditions: _Filter, namespace: str) -> bool:
    return next(index.chunks(filter=conditions, namespace=namespace), None) is not None


def _did_you_mean(index: BM25Index, query: str, namespace: str) -> str | None:
    """Return the query as it may have been meant, where that can be found out."""
    with suppress(MissingExtraError):
        return index.suggest(query, namespace=namespace)
    return None


def _listed(words: Iterable[str]) -> str:
    every = list(words)
    return ", ".join(every[:MAX_SHOWN]) + (", ..." if len(every) > MAX_SHOWN else "")
