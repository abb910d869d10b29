"""Requests: one class for each operation, from which HTTP and MCP both take their checks and their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from rag_bm25.definitions import Between
from rag_bm25.filters import FilterMapping  # noqa: TC001 - the definitions of options
from rag_bm25.hits.options import Context, SearchOptions
from rag_bm25.query.lookup import LAST
from rag_bm25.query.query import MAX_SLOP, Query
from rag_bm25.serving.fields import Request, takes

NOT_FOR_AGENTS = ("weighting", "boosts", "search_params")
"""Options that MCP leaves out: agents read every word of a schema."""

MAX_HITS = 1_000
MAX_QUERY = 10_000
MAX_LISTED = 1_000

Word: TypeAlias = Annotated[str, Between(0, MAX_QUERY)]
Texts: TypeAlias = Annotated[Sequence[Word], Between(0, 100)]
Phrases: TypeAlias = Annotated[Sequence[Word], Between(0, 20)]
Id: TypeAlias = Annotated[str, Between(1, 512)]
Ids: TypeAlias = Annotated[Sequence[Id], Between(1, MAX_LISTED)]
Source: TypeAlias = Annotated[str, Between(1, MAX_QUERY)]
Prefix: TypeAlias = Annotated[str, Between(0, 100)]
Offset: TypeAlias = Annotated[int, Between(0, 1_000_000_000)]
Namespaces: TypeAlias = str | Annotated[Sequence[str], Between(0, MAX_LISTED)]


@dataclass(frozen=True, kw_only=True)
class NamespaceFields(Request):
    """Namespaces to ask about.

    Parameters
    ----------
    namespace : str or sequence of str
        Tenant or sub-corpus, or several of them; "" is the default one.
    all_namespaces : bool
        Ask about all namespaces.
    """

    namespace: Namespaces = ""
    all_namespaces: bool = False

    @property
    def namespaces(self) -> Namespaces | None:
        """The namespaces as an index takes them."""
        return None if self.all_namespaces else self.namespace


@dataclass(frozen=True, kw_only=True)
class ScopeFields(NamespaceFields):
    """Namespaces to ask about, with conditions on the metadata.

    Parameters
    ----------
    filter : mapping
        Conditions on the metadata: an object such as {"source": "law.txt", "page": {"$gte": 3}}.
    """

    filter: FilterMapping | None = None

    def scope(self) -> dict[str, Any]:
        """Return the scope as an index takes it."""
        return {"filter": self.filter, "namespace": self.namespaces}


@dataclass(frozen=True, kw_only=True)
class QueryFields(Request):
    """A query with its conditions.

    Parameters
    ----------
    query : str
        Words or a question.
    syntax : bool
        Read word^2, lab*, +word, -word and "a phrase" in the query; else they are words.
    must : sequence of str
        Texts whose words every hit must have.
    must_not : sequence of str
        Texts whose words no hit may have together.
    phrases : sequence of str
        Phrases that every hit must have.
    slop : int
        Maximum number of words between those of a phrase.
    """

    query: Word
    syntax: bool = False
    must: Texts = ()
    must_not: Texts = ()
    phrases: Phrases = ()
    slop: Annotated[int, Between(0, MAX_SLOP)] = 0

    def to_query(self) -> Query:
        """Return the query as an index takes it."""
        query = Query.of(self.query, syntax=self.syntax)
        return query.with_conditions(self.must, self.must_not, self.phrases, self.slop)


@takes(SearchOptions)
@dataclass(frozen=True, kw_only=True)
class SearchFields(ScopeFields, QueryFields):
    """A search, with all of its options.

    Parameters
    ----------
    k : int
        Maximum number of hits.
    """

    k: Annotated[int, Between(1, MAX_HITS)] = 10


@dataclass(frozen=True, kw_only=True)
class Search(SearchFields):
    """Search for chunks.

    Parameters
    ----------
    max_text : int
        Cut the text of each hit to so many characters; such a hit says how many there are.
    """

    max_text: Annotated[int, Between(1, 1_000_000_000)] | None = None


@dataclass(frozen=True, kw_only=True)
class ChunkFields(Request):
    """A chunk, and how its score is explained.

    Parameters
    ----------
    id : str
        Id of the chunk.
    chunk_namespace : str
        Namespace of the chunk, if several that are searched have its id.
    part : int
        Place of its index, as the hit has it, if several indexes are searched as one.
    tree : bool
        Add every formula with its numbers.
    """

    id: Id
    chunk_namespace: str | None = None
    part: Annotated[int, Between(0, MAX_HITS)] | None = None
    tree: bool = False


@dataclass(frozen=True, kw_only=True)
class Explain(SearchFields, ChunkFields):
    """Explain the score of a chunk."""


@dataclass(frozen=True, kw_only=True)
class Why(SearchFields):
    """Tell why a search finds nothing, or does not find a chunk.

    Parameters
    ----------
    id : str
        Id of the chunk; without, why nothing is found.
    chunk_namespace : str
        Namespace of the chunk, if several that are searched have its id.
    part : int
        Place of its index, as the hit has it, if several indexes are searched as one.
    """

    id: Id | None = None
    chunk_namespace: str | None = None
    part: Annotated[int, Between(0, MAX_HITS)] | None = None


@dataclass(frozen=True, kw_only=True)
class Suggest(NamespaceFields):
    """Correct the spelling of a query.

    Parameters
    ----------
    query : str
        Words or a question.
    """

    query: Word


@takes(SearchOptions)
@dataclass(frozen=True, kw_only=True)
class Highlight(NamespaceFields, QueryFields):
    """Find the words of a query in a text.

    Parameters
    ----------
    text : str
        The text to mark; it need not be stored.
    """

    text: Annotated[str, Between(0, 65_535)]


@dataclass(frozen=True, kw_only=True)
class Statistics(Request):
    """Figures of the index.

    Parameters
    ----------
    namespace : str or sequence of str
        Tenant or sub-corpus, or several of them; by default all.
    """

    namespace: Namespaces | None = None


@dataclass(frozen=True, kw_only=True)
class TermStatisticsRequest(ScopeFields):
    """N, df and IDF of words.

    Parameters
    ----------
    terms : str or sequence of str
        Any texts; their words are analysed as those of a query.
    """

    terms: Word | Texts


@dataclass(frozen=True, kw_only=True)
class TopTerms(ScopeFields):
    """The terms that most chunks have.

    Parameters
    ----------
    prefix : str
        Only terms that begin with it, and the one that it has as a word: battery lists batteri.
    k : int
        Maximum number of terms.
    """

    prefix: Prefix = ""
    k: Annotated[int, Between(1, MAX_LISTED)] = 20


@dataclass(frozen=True, kw_only=True)
class OneNamespace(Request):
    """One namespace.

    Parameters
    ----------
    namespace : str
        Namespace of the chunks.
    """

    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class ListSources(ScopeFields):
    """List the sources, with the number of their chunks in a scope.

    Parameters
    ----------
    contains : str
        Only sources whose names have it, whatever their case.
    offset : int
        Number of sources to leave out.
    limit : int
        Maximum number of sources.
    """

    contains: Prefix = ""
    offset: Offset = 0
    limit: Annotated[int, Between(1, MAX_LISTED)] = 100


@dataclass(frozen=True, kw_only=True)
class ReadChunk(OneNamespace):
    """Read a chunk by its id.

    Parameters
    ----------
    id : str
        Id of the chunk.
    context : {"neighbors", "document"}
        Add the chunks before and after it, or its whole document.
    """

    id: Id
    context: Context | None = None


@dataclass(frozen=True, kw_only=True)
class ReadChunks(OneNamespace):
    """List the chunks of a source in the order of the document.

    Parameters
    ----------
    source : str
        Source, such as docs/law.txt.
    offset : int
        Number of chunks to leave out.
    around : str
        Id of a chunk of the source, to begin with the page that it is on.
    limit : int
        Maximum number of chunks.
    """

    source: Source
    offset: Offset = 0
    around: Id | None = None
    limit: Annotated[int, Between(1, MAX_LISTED)] = 100


@dataclass(frozen=True)
class ChunkToAdd:
    """A chunk to store.

    Parameters
    ----------
    text : str
        Its text.
    id : str
        By default a hash of text and metadata.
    metadata : mapping
        Any JSON values by their names.
    embedding : sequence of float
        Needed if the index has dense vectors.
    """

    text: str
    id: Id | None = None
    metadata: Mapping[str, Any] | None = None
    embedding: Annotated[Sequence[float], Between(0, 65_535)] | None = None


@dataclass(frozen=True, kw_only=True)
class Add(OneNamespace):
    """Store chunks; one whose id exists is replaced.

    Parameters
    ----------
    chunks : sequence of ChunkToAdd
        The chunks.
    """

    chunks: Annotated[Sequence[ChunkToAdd], Between(1, MAX_LISTED)]


@dataclass(frozen=True, kw_only=True)
class Delete(OneNamespace):
    """Delete chunks by their ids, by a source or by a filter: exactly one of them.

    Parameters
    ----------
    ids : sequence of str
        Ids of chunks.
    source : str
        All chunks of a source.
    filter : mapping
        All chunks that fit a filter.
    """

    ids: Ids | None = None
    source: Source | None = None
    filter: FilterMapping | None = None


@dataclass(frozen=True, kw_only=True)
class FindText(ScopeFields):
    """Find chunks by what their texts have, character by character.

    Parameters
    ----------
    pattern : str
        Text to find, such as E-404 or 第四十七条.
    ignore_case : bool
        Let small and capital letters match each other.
    source : str
        Only chunks of this source, or with * at its end, of all whose names begin so: docs/*.
    limit : int
        Maximum number of chunks.
    around : int
        Maximum number of characters on either side of a match.
    after : str
        Value of next in an answer, to go on.
    """

    pattern: Annotated[str, Between(1, 500)]
    ignore_case: bool = False
    source: Source | None = None
    limit: Annotated[int, Between(1, 50)] = 10
    around: Annotated[int, Between(0, 200)] = 60
    after: Annotated[str, Between(0, 50)] = ""

    def of_source(self) -> dict[str, Any] | None:
        """Return the filter of the source."""
        if self.source is None:
            return None
        if not self.source.endswith("*"):
            return {"source": self.source}
        begin = self.source[:-1]
        return {"source": {"$gte": begin, "$lt": begin + LAST}}


@takes(SearchOptions, without=NOT_FOR_AGENTS)
@dataclass(frozen=True, kw_only=True)
class AgentSearch(Search):
    """Search for chunks, with bounds for those who read every word.

    Parameters
    ----------
    max_text : int
        Maximum characters of each text; longer ones are cut.
    """

    k: Annotated[int, Between(1, 50)] = 5
    max_text: Annotated[int, Between(1, 20_000)] = 2_000


@takes(SearchOptions, without=NOT_FOR_AGENTS)
@dataclass(frozen=True, kw_only=True)
class AgentExplain(Explain):
    """Explain the score of a chunk."""


@dataclass(frozen=True, kw_only=True)
class AgentStatistics(ScopeFields):
    """Figures of the index, of words, and of the terms that most chunks have.

    Parameters
    ----------
    terms : str or sequence of str
        Words to count the chunks of, such as those of a query.
    prefix : str
        With k: only terms that begin with it.
    k : int
        List so many of the terms that most chunks have.
    """

    terms: Word | Texts | None = None
    prefix: Prefix = ""
    k: Annotated[int, Between(0, 200)] = 0

    def of_terms(self) -> TermStatisticsRequest:
        """Return the request for the statistics of the words."""
        return TermStatisticsRequest(**self._place(), terms=self.terms or "")

    def of_top(self) -> TopTerms:
        """Return the request for the terms that most chunks have."""
        return TopTerms(**self._place(), prefix=self.prefix, k=self.k)

    def _place(self) -> dict[str, Any]:
        return {"filter": self.filter, "namespace": self.namespace, "all_namespaces": self.all_namespaces}


@dataclass(frozen=True, kw_only=True)
class AgentChunks(OneNamespace):
    """Read a chunk by its id, or the chunks of a source: exactly one of them.

    Parameters
    ----------
    id : str
        Id of a chunk, as search returns it.
    source : str
        Source, such as docs/law.txt: its chunks in order.
    context : {"neighbors", "document"}
        With id: add the chunks before and after it, or its whole document.
    offset : int
        With source: number of chunks to leave out.
    limit : int
        With source: maximum number of chunks.
    """

    id: Id | None = None
    source: Source | None = None
    context: Context | None = None
    offset: Offset = 0
    limit: Annotated[int, Between(1, 50)] = 10
