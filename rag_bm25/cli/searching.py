"""``rag-bm25 search`` and ``rag-bm25 explain``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import out, print_json, print_note, show
from rag_bm25.cli.reasons import why_nothing
from rag_bm25.cli.rendering import explanation_tree, highlighter, hit_lines

if TYPE_CHECKING:
    from rag_bm25.query_options import QueryOptions

Query = Annotated[str, typer.Argument(metavar="QUERY", show_default=False, help="Words or a question.")]


def search(
    words: Annotated[list[str], typer.Argument(metavar="QUERY...", show_default=False, help="Words or a question.")],
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: opt.Namespace = "",
    token: opt.Token = None,
    k: opt.K = 10,
    filter: opt.Filter = None,
    idf: opt.Idf = None,
    epsilon: opt.Epsilon = None,
    k3: opt.K3 = None,
    bigram_weight: opt.BigramWeight = None,
    feedback: opt.Feedback = None,
    relevant: opt.Relevant = None,
    irrelevant: opt.Irrelevant = None,
    synonyms: opt.SynonymFile = None,
    fuzzy: opt.NearSpellings = False,
    syntax: opt.Syntax = False,
    min_should_match: opt.MinShouldMatch = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the score of every hit.")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show the chunks with the greatest BM25 scores."""
    query = " ".join(words)
    conditions = opt.parsed_filter(filter)
    learnt = opt.feedback_options(feedback, relevant, irrelevant)
    options: QueryOptions = {"min_should_match": min_should_match, "syntax": syntax, **learnt}
    options |= opt.weighting_options(idf, epsilon, k3, bigram_weight)
    options |= {"expansion": opt.query_expansion(synonyms, fuzzy)}
    with opt.open_index(uri, collection, token, read_only=True) as index:
        hits = index.search(query, k, filter=conditions, namespace=namespace, **options)
        trees = [
            index.explain(query, hit.id, filter=conditions, namespace=namespace, **options) for hit in hits if explain
        ]
        reason = None if hits or as_json else why_nothing(index, query, conditions, namespace, options)
        if as_json:
            extra = [{"explanation": tree.to_dict()} for tree in trees] or [{} for _ in hits]
            print_json([{**asdict(hit), **more} for hit, more in zip(hits, extra, strict=True)])
            return
        console = out()
        mark = highlighter(query, index.config) if console.is_terminal else None
        for rank, hit in enumerate(hits, 1):
            console.print(hit_lines(rank, hit, console.width, mark))
            if explain:
                console.print(explanation_tree(trees[rank - 1]))
    if reason:
        print_note(reason)


def explain(
    query: Query,
    id: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Id of a chunk.")],
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: opt.Namespace = "",
    token: opt.Token = None,
    idf: opt.Idf = None,
    epsilon: opt.Epsilon = None,
    k3: opt.K3 = None,
    bigram_weight: opt.BigramWeight = None,
    filter: opt.Filter = None,
    feedback: opt.Feedback = None,
    relevant: opt.Relevant = None,
    irrelevant: opt.Irrelevant = None,
    synonyms: opt.SynonymFile = None,
    fuzzy: opt.NearSpellings = False,
    syntax: opt.Syntax = False,
    min_should_match: opt.MinShouldMatch = None,
    as_json: opt.AsJson = False,
) -> None:
    """Show where the score of a chunk comes from.

    Of a chunk that the query does not find, show why: its terms are unknown, stop words, or not in the chunk.
    """
    conditions = opt.parsed_filter(filter)
    learnt = opt.feedback_options(feedback, relevant, irrelevant)
    options: QueryOptions = {"min_should_match": min_should_match, "syntax": syntax, **learnt}
    options |= opt.weighting_options(idf, epsilon, k3, bigram_weight)
    options |= {"expansion": opt.query_expansion(synonyms, fuzzy)}
    with opt.open_index(uri, collection, token, read_only=True) as index:
        tree = index.explain(query, id, filter=conditions, namespace=namespace, **options)
    if as_json:
        print_json(tree.to_dict())
    else:
        show(explanation_tree(tree))
