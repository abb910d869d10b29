"""The reason why a search found nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.cli.rendering import join_first
from rag_bm25.errors import MissingExtraError
from rag_bm25.index.arguments import name_namespace

if TYPE_CHECKING:
    from rag_bm25.index.index import BM25Index

CONDITIONS = ("min_should_match", "must", "must_not", "phrases", "slop")
"""Options that no vector can hold."""


def why_nothing(index: BM25Index, query: str, scope: dict[str, Any], options: dict[str, Any]) -> str:
    """Return one line: the first reason that applies."""
    reason = _reason_in_index(index, scope["namespace"]) or _reason_in_query(index, query)
    if reason:
        return f"nothing found: {reason}"
    with suppress(MissingExtraError):
        if suggestion := index.suggest(query, namespace=scope["namespace"]):
            return f"nothing found; did you mean {suggestion!r}?"
    return f"nothing found: {_reason_in_words(index, query, scope, options)}"


def _reason_in_index(index: BM25Index, namespace: str) -> str:
    if index.damage:
        return "the statistics of the index are damaged; run `rag-bm25 repair`"
    stats = index.stats()
    if not stats.num_chunks:
        return "the index has no chunks"
    if index.stats(namespace=namespace).num_chunks:
        return ""
    others = join_first(map(name_namespace, stats.namespaces))
    return f"{name_namespace(namespace)} has no chunks; there are some in {others}"


def _reason_in_query(index: BM25Index, query: str) -> str:
    if not query.strip():
        return "the query is empty"
    analyzer = index.config.build_analyzer()
    if AnalysedText.of_query(analyzer, query).terms:
        return ""
    stop_words = analyzer.stop_words_in(query) if isinstance(analyzer, Analyzer) else []
    if stop_words:
        return f"the query has stop words only, which the index leaves out: {join_first(stop_words)}"
    return "the query has no words, only punctuation"


def _reason_in_words(index: BM25Index, query: str, scope: dict[str, Any], options: dict[str, Any]) -> str:
    is_filtered = bool(scope["filter"])
    if is_filtered and next(index.chunks(**scope), None) is None:
        return "no chunk fits the filter"
    if not len(index.encode_queries([query], **scope, **{**options, **dict.fromkeys(CONDITIONS)})[0]):
        words = dict.fromkeys(AnalysedText.of_query(index.config.build_analyzer(), query).words)
        return f"no chunk has any of the words {join_first(words)}" if words else "no chunk has a word of the query"
    if options["min_should_match"] is not None:
        return "no chunk has as many words of the query as --min-should-match asks for"
    if any(options.get(name) for name in CONDITIONS):
        return "no chunk that has a word of the query has what --must, --must-not and --phrase ask for"
    return f"no chunk{' that fits the filter' if is_filtered else ''} has a word of the query"
