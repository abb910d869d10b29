"""A query on the command line: its words, its conditions, and where it is searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rag_bm25.cli import options as opt
from rag_bm25.query.query import MAX_SLOP, Query


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
        list[str] | None, opt.option("Words that no hit may have together; may be repeated.", metavar="TEXT")
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
