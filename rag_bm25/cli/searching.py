"""``rag-bm25 search``, ``why``, ``explain`` and ``terms``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, TypeAlias

import typer
from rich.text import Text

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import open_console, print_json, print_note, print_result
from rag_bm25.cli.embedding import DenseSearch
from rag_bm25.cli.hits import Boosts, Selection
from rag_bm25.cli.rendering import INDENT, render_hit
from rag_bm25.cli.settings import QUERY_NAMES, as_usage, parse_query_settings
from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.highlights import MAX_FRAGMENTS, Highlighting
from rag_bm25.hits.options import MAX_K
from rag_bm25.index.arguments import list_first
from rag_bm25.index.index import MAX_LISTED_TERMS, BM25Index
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.feedback import METHODS_BY_NAME, FeedbackName
from rag_bm25.query.min_should_match import check_min_should_match
from rag_bm25.query.options import QUERY_OPTIONS
from rag_bm25.query.scores import ScoreExplanation
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.weighting.idf import IdfName

HitCount: TypeAlias = Annotated[int, typer.Option("-k", min=1, max=MAX_K, help="Maximum number of hits.")]


@dataclass(frozen=True)
class Question:
    """The options of a search that its explanation must have, too."""

    namespace: opt.Namespace = ""
    filter: opt.Filter = None
    idf: Annotated[IdfName | None, opt.option("IDF formula; by default the index's own.")] = None
    setting: Annotated[
        list[str] | None,
        opt.option(
            f"Other settings of the query's side, such as k3=8; by default the index's own: {', '.join(QUERY_NAMES)}.",
            "--set",
            metavar="NAME=VALUE,...",
        ),
    ] = None
    feedback: Annotated[
        FeedbackName | None,
        opt.option("Search again with terms from the best hits, or from the chunks marked as relevant."),
    ] = None
    relevant: Annotated[
        list[str] | None, opt.option("Id of a chunk that answers the query; may be repeated.", metavar="ID")
    ] = None
    irrelevant: Annotated[
        list[str] | None, opt.option("Id of a chunk that does not; may be repeated.", metavar="ID")
    ] = None
    synonyms: Annotated[
        Path | None,
        opt.option("File of synonyms: lines such as `car, automobile` or `NBA => National Basketball Association`."),
    ] = None
    fuzzy: Annotated[bool, opt.option("Search for near spellings of unknown words.", "--fuzzy")] = False
    syntax: Annotated[bool, opt.option('Read word^2, lab*, +word, -word and "a phrase" in the query.', "--syntax")] = (
        False
    )
    must: Annotated[
        list[str] | None, opt.option("Words that every hit must have; may be repeated.", metavar="TEXT")
    ] = None
    must_not: Annotated[
        list[str] | None, opt.option("Words that no hit may have together; may be repeated.", metavar="TEXT")
    ] = None
    phrase: Annotated[
        list[str] | None, opt.option("Phrase that every hit must have; may be repeated.", metavar="TEXT")
    ] = None
    slop: Annotated[
        int | None, opt.option("Maximum number of words between those of a phrase, 0 by default.", min=0, max=1000)
    ] = None
    statistics: Annotated[
        str, opt.option("N and df of: namespace, all, or the chunks that fit a filter as JSON.", metavar="PART")
    ] = "namespace"
    min_should_match: Annotated[
        str | None, opt.option("How many words of the query a hit must have: 3, -1, 75%, 3<90%.", metavar="COUNT")
    ] = None
    rescore: Annotated[
        bool,
        opt.option(
            "Compute the scores again from the stored vectors: exact where a server stores its index in fp16.",
            "--rescore",
        ),
    ] = False

    def options(self) -> dict[str, Any]:
        """Return the options of the query, as a search takes them."""
        if self.min_should_match is not None:
            with as_usage("--min-should-match"):
                check_min_should_match(self.min_should_match)
        expansion = None
        if self.synonyms is not None or self.fuzzy:
            rules = None if self.synonyms is None else Synonyms.read(self.synonyms)
            expansion = QueryExpansion(synonyms=rules, fuzzy=Fuzzy() if self.fuzzy else None)
        return {
            **parse_query_settings(self.idf, self.setting),
            "feedback": METHODS_BY_NAME[self.feedback]() if self.feedback else None,
            "relevant": self.relevant or None,
            "irrelevant": self.irrelevant or None,
            "expansion": expansion,
            "syntax": self.syntax,
            "must": self.must or None,
            "must_not": self.must_not or None,
            "phrases": self.phrase or None,
            "slop": self.slop,
            "statistics": self._statistics(),
            "min_should_match": self.min_should_match,
            "rescore": self.rescore,
        }

    def _statistics(self) -> Any:
        part = self.statistics
        return opt.parse_filter_option(part) if part.lstrip().startswith("{") else part

    def scope(self) -> dict[str, Any]:
        """Return which chunks are searched."""
        return {"filter": opt.parse_filter_option(self.filter), "namespace": self.namespace}


def search(
    words: Annotated[list[str], opt.argument("QUERY...", "Words or a question.")],
    place: opt.Place,
    question: Question,
    boosts: Boosts,
    selection: Selection,
    dense: DenseSearch,
    k: HitCount = 10,
    explain: Annotated[bool, opt.option("Explain the score of every hit.", "--explain")] = False,
    highlight: Annotated[bool, opt.option("Add the best sentences of each hit to the JSON.", "--highlight")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show the chunks with the highest BM25 scores.

    With --embedding, an index that was made with the same model is searched by words and by dense vectors, and both
    rankings become one. --explain explains the BM25 score.
    """
    query, scope, options = " ".join(words), question.scope(), question.options()
    scored = {**scope, **options, **boosts.options()}
    asked, model = {**scored, **selection.options()}, dense.load()
    with place.open_existing(read_only=True) as index:
        fragments = highlight if as_json else dense.highlighting(open_console().width)
        hits = dense.search(index, model, query, k, {**asked, "highlight": fragments})
        shown = asked if model is None else scored  # the place of a hit is not that of the search by words
        trees = [index.explain(query, hit.id, chunk_namespace=hit.namespace, k=k, **shown) for hit in hits if explain]
        diagnosis = None if hits or as_json else index.why_nothing(query, k, **asked)
        if as_json:
            extra = [{"explanation": tree.to_dict()} for tree in trees] or [{} for _ in hits]
            print_json([{**_to_json(hit), **more} for hit, more in zip(hits, extra, strict=True)])
            return
        print_hits(hits, trees, mark_contexts(index, query, hits, {"namespace": question.namespace, **options}))
        note_missing_keys(hits, boosts, selection)
        dense.note_missing(index)
    if diagnosis:
        print_note(str(diagnosis))


def why(
    query: Annotated[str, opt.argument("QUERY", "Words or a question.")],
    place: opt.Place,
    question: Question,
    boosts: Boosts,
    selection: Selection,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Id of a chunk that was expected.")] = None,
    k: HitCount = 10,
    min_score: Annotated[float | None, opt.option("Score below which hits are of no use.")] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Show why a search finds nothing or, with an id, why a chunk is not among its hits."""
    asked: dict[str, Any] = {**question.scope(), **question.options(), **boosts.options(), **selection.options()}
    with place.open_existing(read_only=True) as index:
        if id is None:
            diagnosis = index.why_nothing(query, k, min_score=min_score, **asked)
        else:
            diagnosis = index.why_not(query, id, k, min_score=min_score, **asked)
    print_result(as_json, diagnosis.to_dict(), Text(str(diagnosis)))
    if id is not None and not as_json and any(reason.code == "no_chunk" for reason in diagnosis.reasons):
        print_note(f"put a query of several words into quotes: the id is what follows the query, here {id!r}")


def _to_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as JSON values, without what was not asked for."""
    fields = asdict(hit)
    return {name: value for name, value in fields.items() if value is not None}


def mark_contexts(
    index: BM25Index, query: str, hits: Sequence[Hit], options: Mapping[str, Any]
) -> list[Sequence[tuple[int, int]]]:
    """Return the places of the query's terms in the context of each hit, none where there is no context."""
    every = Highlighting(max_fragments=MAX_FRAGMENTS)
    asked = {name: options[name] for name in options if name in QUERY_OPTIONS | {"namespace"}}
    contexts = [index.highlight(query, hit.context.text, every, **asked) if hit.context else [] for hit in hits]
    return [[mark for fragment in fragments for mark in fragment.marks] for fragments in contexts]


def note_missing_keys(hits: Sequence[Hit], boosts: Boosts, selection: Selection) -> None:
    """Note the metadata keys of options that no hit has: they may be misspelt."""
    held = sorted({key for hit in hits for key in hit.metadata})
    keys = [boost.key for boost in boosts.options().get("boosts", ())] + [selection.group_by]
    missing = [key for key in dict.fromkeys(keys) if key and key not in held]
    if hits and missing:
        keys_held = f"the keys are {list_first(held)}" if held else "no hit has any"
        print_note(f"no hit has {list_first(missing)} in its metadata; {keys_held}")


def print_hits(
    hits: Sequence[Hit],
    trees: Sequence[ScoreExplanation] = (),
    marks: Sequence[Sequence[tuple[int, int]]] = (),
) -> None:
    """Print hits with their explanations, and their contexts with marks."""
    console = open_console()
    for at, hit in enumerate(hits):
        console.print(render_hit(at + 1, hit, console.width, marks[at] if marks else ()))
        if trees:
            console.print(Text(indent(trees[at].table(console.width - INDENT), " " * INDENT)))


def explain(
    words: Annotated[list[str], opt.argument("QUERY... ID", "Words or a question, and then the id of a chunk.")],
    place: opt.Place,
    question: Question,
    boosts: Boosts,
    selection: Selection,
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
    query, options = " ".join(of_query), {**question.options(), **boosts.options(), **selection.options()}
    with place.open_existing(read_only=True) as index:
        explained = index.explain(query, chunk, k=k, **question.scope(), **options)
    shown = explained.tree if tree else explained.table(open_console().width)
    print_result(as_json, explained.to_dict(tree=tree), Text(shown))


def terms(
    place: opt.Place,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Beginning of the terms, as they are stemmed.")] = "",
    top: Annotated[int, typer.Option(min=1, max=MAX_LISTED_TERMS, help="Maximum number of terms.")] = 100,
    namespace: opt.Namespace = "",
    filter: opt.Filter = None,
    as_json: opt.AsJson = False,
) -> None:
    """List the terms that most chunks have, with their df and IDF."""
    with place.open_existing(read_only=True) as index:
        found = index.terms(prefix=prefix, top=top, namespace=namespace, filter=opt.parse_filter_option(filter))
    lines = [f"{term.term}  df {term.df:,} of {term.num_chunks:,}  IDF {term.idf:.3f}" for term in found]
    print_result(as_json, [asdict(term) for term in found], *map(Text, lines))
