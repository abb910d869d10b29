"""``rag-bm25 search``, ``why``, ``explain`` and ``terms``."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from textwrap import indent
from typing import Annotated, Any, TypeAlias

import typer
from rich.text import Text

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import open_console, print_json, print_note, print_result
from rag_bm25.cli.embedding import DenseSearch
from rag_bm25.cli.rendering import INDENT, render_hit
from rag_bm25.cli.reranking import use_index
from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.highlights import MAX_FRAGMENTS, Highlighting
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.arguments import list_first
from rag_bm25.index.index import MAX_LISTED_TERMS, BM25Index
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.query.explanation import Explanation
from rag_bm25.query.query import MAX_SLOP, Query
from rag_bm25.query.scores import ScoreExplanation
from rag_bm25.store.rows import MAX_K


@dataclass(frozen=True)
class Question:
    """The options that say what is searched for, and where."""

    namespace: opt.Namespaces = None
    filter: opt.Filter = None
    syntax: Annotated[bool, opt.option('Read word^2, lab*, +word, -word and "a phrase" in the query.', "--syntax")] = (
        False
    )
    must: Annotated[
        list[str] | None, opt.option("Words that every hit must have; may be repeated.", metavar="TEXT")
    ] = None
    must_not: Annotated[
        list[str] | None, opt.option("Exclude hits that have all of these words; may be repeated.", metavar="TEXT")
    ] = None
    phrase: Annotated[
        list[str] | None, opt.option("Phrase that every hit must have; may be repeated.", metavar="TEXT")
    ] = None
    slop: Annotated[
        int | None, opt.option("Maximum number of words between those of a phrase, 0 by default.", min=0, max=MAX_SLOP)
    ] = None

    def query(self, text: str) -> Query:
        """Return the query with its conditions."""
        query = Query.of(text, syntax=self.syntax)
        return query.with_conditions(self.must or (), self.must_not or (), self.phrase or (), self.slop)

    def scope(self) -> dict[str, Any]:
        """Return which chunks are searched."""
        return {"filter": opt.parse_filter_option(self.filter), "namespace": self.namespace or ""}


HitCount: TypeAlias = Annotated[int, typer.Option("-k", "--top-k", min=1, max=MAX_K, help="Maximum number of hits.")]


def search(
    words: Annotated[list[str], opt.argument("QUERY...", "Words or a question.")],
    place: opt.SearchedIndexes,
    question: Question,
    options: SearchOptions,
    dense: DenseSearch,
    fusion: FusionOptions,
    k: HitCount = 10,
    explain: Annotated[bool, opt.option("Explain the score of every hit.", "--explain")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show the chunks with the highest BM25 scores.

    With --embedding, an index that was made with the same model is searched by words and by dense vectors, and both
    rankings become one. --explain explains the BM25 score, and that of both rankings with what each gives.
    """
    text = " ".join(words)
    query, asked = question.query(text), {"k": k, **question.scope(), **options}
    model = dense.load(query, options, fusion)
    with place.open_existing() as index:
        use_index(options, index)
        shown = {} if as_json else {"highlight": dense.highlighting(open_console().width)}
        vector = dense.embed(index, model, text)
        hits = dense.search(index, vector, query, {**asked, **fusion, **shown})
        trees = [dense.explain(index, vector, query, hit, {**asked, **fusion}) for hit in hits if explain]
        diagnosis = None if hits or as_json else index.diagnose(query, **asked)
        if as_json:
            extra = [{"explanation": tree.to_dict()} for tree in trees] or [{} for _ in hits]
            print_json([{**hit.to_dict(), **more} for hit, more in zip(hits, extra, strict=True)])
            return
        marks = mark_contexts(index, query, hits, asked["namespace"], options)
        print_hits(hits, trees, marks, place.names, first=1 + (options.get("offset") or 0))
        note_missing_keys(hits, options)
        dense.note_missing(index)
    if diagnosis:
        print_note(str(diagnosis))


def why(
    query: Annotated[str, opt.argument("QUERY", "Words or a question.")],
    place: opt.SearchedIndexes,
    question: Question,
    options: SearchOptions,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Id of a chunk that was expected.")] = None,
    chunk_namespace: opt.ChunkNamespace = None,
    part: opt.Part = None,
    k: HitCount = 10,
    as_json: opt.AsJson = False,
) -> None:
    """Show why a search finds nothing or, with an id, why a chunk is not among its hits."""
    asked, scope = question.query(query), question.scope()
    with place.open_existing() as index:
        use_index(options, index)
        diagnosis = index.diagnose(asked, id, k, chunk_namespace=chunk_namespace, part=part, **scope, **options)
    print_result(as_json, diagnosis.to_dict(), Text(str(diagnosis)))
    if id is not None and not as_json and any(reason.code == "no_chunk" for reason in diagnosis.reasons):
        print_note(f"put a query of several words into quotes: the id is what follows the query, here {id!r}")


def mark_contexts(
    index: BM25Index, query: Query, hits: Sequence[Hit], namespace: Any, options: SearchOptions
) -> list[Sequence[tuple[int, int]]]:
    """Return the places of the query's terms in the context of each hit, none where there is no context."""
    every = Highlighting(max_fragments=MAX_FRAGMENTS)
    highlight = partial(index.highlight, query, highlighting=every, namespace=namespace, **options)
    contexts = [highlight(hit.context.text) if hit.context else [] for hit in hits]
    return [[mark for fragment in fragments for mark in fragment.marks] for fragments in contexts]


def note_missing_keys(hits: Sequence[Hit], options: SearchOptions) -> None:
    """Note the metadata keys of options that no hit has: they may be misspelt."""
    held = sorted({key for hit in hits for key in hit.metadata})
    keyed = [*(options.get("boosts") or ()), options.get("group")]
    missing = [key for key in dict.fromkeys(getattr(one, "key", None) for one in keyed) if key and key not in held]
    if hits and missing:
        keys_held = f"the keys are {list_first(held)}" if held else "no hit has any"
        print_note(f"no hit has {list_first(missing)} in its metadata; {keys_held}")


def print_hits(
    hits: Sequence[Hit],
    trees: Sequence[Explanation] = (),
    marks: Sequence[Sequence[tuple[int, int]]] = (),
    collections: Sequence[str] = (),
    first: int = 1,
) -> None:
    """Print hits from a rank on with their explanations, and contexts with marks; those of a group with collections."""
    console = open_console()
    for at, hit in enumerate(hits):
        collection = "" if hit.part is None else collections[hit.part]
        console.print(render_hit(first + at, hit, console.width, marks[at] if marks else (), collection))
        if trees:
            tree, width = trees[at], console.width - INDENT
            shown = tree.table(width) if isinstance(tree, ScoreExplanation) else tree.tree
            console.print(Text(indent(shown, " " * INDENT)))


def explain(
    words: Annotated[list[str], opt.argument("QUERY... ID", "Words or a question, and then the id of a chunk.")],
    place: opt.SearchedIndexes,
    question: Question,
    options: SearchOptions,
    chunk_namespace: opt.ChunkNamespace = None,
    part: opt.Part = None,
    k: HitCount = 10,
    tree: Annotated[bool, opt.option("Show every formula with its numbers.", "--tree")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show how the score of a chunk comes about: a line for each term.

    If the query does not find the chunk, show why: its terms are unknown, stop words, or not in the chunk.
    """
    *of_query, chunk = words
    if not of_query:
        raise typer.BadParameter("must be a query, and then the id of a chunk", param_hint="'QUERY... ID'")
    query, scope = question.query(" ".join(of_query)), question.scope()
    with place.open_existing() as index:
        use_index(options, index)
        explained = index.explain(query, chunk, chunk_namespace=chunk_namespace, part=part, k=k, **scope, **options)
    shown = explained.tree if tree else explained.table(open_console().width)
    print_result(as_json, explained.to_dict(tree=tree), Text(shown))


def terms(
    place: opt.SearchedIndexes,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Beginning of the terms, or a word.")] = "",
    k: Annotated[
        int, typer.Option("-k", "--top-k", min=1, max=MAX_LISTED_TERMS, help="Maximum number of terms.")
    ] = 100,
    namespace: opt.Namespaces = None,
    filter: opt.Filter = None,
    as_json: opt.AsJson = False,
) -> None:
    """List the terms that most chunks have, with their df and IDF."""
    conditions = opt.parse_filter_option(filter)
    with place.open_existing() as index:
        found = index.terms(prefix=prefix, k=k, namespace=namespace or "", filter=conditions)
    lines = [f"{term.term}  df {term.df:,} of {term.num_chunks:,}  IDF {term.idf:.3f}" for term in found]
    print_result(as_json, [asdict(term) for term in found], *map(Text, lines))
