"""Requests: one model for each operation, from which HTTP and MCP both take their checks and their schemas.

Pydantic reads annotations at run time: no ``from __future__ import annotations`` here.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from rag_bm25.hits.boosts import Boost, Decay, Shape, ValueBoost
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.hits.options import HIT_OPTIONS
from rag_bm25.index.settings import parse_value
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.feedback import METHODS_BY_NAME, FeedbackName
from rag_bm25.query.options import QUERY_OPTIONS
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.weighting.idf import IdfName

MAX_HITS = 1_000
MAX_QUERY = 10_000
MAX_LISTED = 1_000
MAX_WORDS = 100
MAX_PHRASES = 20
MAX_PASSAGE = 65_535
MAX_DOCUMENTS = 1_000

Text: TypeAlias = Annotated[str, Field(max_length=MAX_QUERY)]
Texts: TypeAlias = Annotated[list[Text], Field(max_length=MAX_WORDS)]
Namespaces: TypeAlias = str | Annotated[list[str], Field(max_length=MAX_LISTED)]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=512)]
Filter: TypeAlias = dict[str, Any]  # no expressions: what strangers send must not reach the engine's parser

PLAIN = (QUERY_OPTIONS | HIT_OPTIONS) - {"feedback", "boosts", "highlight"}  # options that are taken as they are


class Request(BaseModel):
    """A request without arguments, and the base of all others: unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Place(Request):
    """Which chunks are asked about."""

    namespace: Annotated[
        Namespaces, Field(description='Tenant or sub-corpus, or several of them; "" is the default one.')
    ] = ""
    all_namespaces: Annotated[bool, Field(description="Ask about all namespaces.")] = False

    def namespaces(self) -> str | list[str] | None:
        """Return the namespaces as an index takes them."""
        return None if self.all_namespaces else self.namespace


class Scope(Place):
    """Which chunks are asked about, with conditions on their metadata."""

    filter: Annotated[
        Filter | None,
        Field(description='Conditions on the metadata: an object such as {"source": "law.txt", "page": {"$gte": 3}}.'),
    ] = None

    def scope(self) -> dict[str, Any]:
        """Return the scope as an index takes it."""
        return {"filter": self.filter, "namespace": self.namespaces()}


MetadataKey: TypeAlias = Annotated[str, Field(description="Metadata key.")]


class ValueFactors(Request):
    """Factors for values of the metadata."""

    type: Literal["value"]
    key: MetadataKey
    factors: Annotated[
        dict[str, float],
        Field(
            max_length=MAX_LISTED,
            description='Factors by value; "2024" and "true" stand for number and bool, too.',
        ),
    ]
    default: Annotated[float, Field(description="Factor of all other chunks.")] = 1.0

    def build(self) -> Boost:
        """Return the boost; a key of JSON is a text, and stands for the number or bool that it spells, too."""
        factors: dict[str | float | bool, float] = {}
        for text, factor in self.factors.items():
            value = parse_value(text)
            factors |= {text: factor, value: factor} if isinstance(value, int | float) else {text: factor}
        return ValueBoost(self.key, factors, self.default)


class DecayFactor(Request):
    """A factor that falls with the distance of a date or a number from its origin."""

    type: Literal["decay"]
    key: MetadataKey
    scale: Annotated[
        float, Field(description="Distance at which the factor is `decay`: in days for dates, else in units.")
    ]
    origin: Annotated[
        str | float | None, Field(description="A date in ISO 8601 or a number; null is the time of the search.")
    ] = None
    shape: Annotated[Shape, Field(description="Formula of the factor.")] = "exp"
    offset: Annotated[float, Field(description="Distance up to which the factor is 1.")] = 0.0
    decay: Annotated[float, Field(description="Factor at the distance `scale`.")] = 0.5
    floor: Annotated[float, Field(description="Smallest factor.")] = 0.0
    missing: Annotated[float, Field(description="Factor of chunks without the key, or with another kind of value.")] = (
        1.0
    )

    def build(self) -> Boost:
        """Return the boost."""
        return Decay(**self.model_dump(exclude={"type"}))


Factor: TypeAlias = Annotated[ValueFactors | DecayFactor, Field(discriminator="type")]


class Conditions(Request):
    """What hits must have, and what else a query searches for."""

    syntax: Annotated[
        bool, Field(description='Read word^2, lab*, +word, -word and "a phrase" in the text; else they are words.')
    ] = False
    must: Annotated[Texts | None, Field(description="Texts whose words every hit must have.")] = None
    must_not: Annotated[Texts | None, Field(description="Texts whose words no hit may have together.")] = None
    phrases: Annotated[
        list[Text] | None, Field(max_length=MAX_PHRASES, description="Phrases that every hit must have.")
    ] = None
    slop: Annotated[int | None, Field(description="Maximum number of words between those of a phrase.")] = None
    fuzzy: Annotated[bool, Field(description="Search for near spellings of unknown words, too.")] = False
    synonyms: Annotated[
        dict[str, Texts] | None,
        Field(max_length=MAX_WORDS, description="Synonyms by the words that they stand for."),
    ] = None
    min_should_match: Annotated[
        int | str | None,
        Field(description='Minimum number of words of the query that a hit must have: 3, -1, "75%", "3<90%".'),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the given options, as a search takes them."""
        given = {name: getattr(self, name) for name in PLAIN & set(type(self).model_fields)}
        given = {name: value for name, value in given.items() if value is not None}
        if self.fuzzy or self.synonyms:
            rules = Synonyms.of(self.synonyms) if self.synonyms else None
            given["expansion"] = QueryExpansion(synonyms=rules, fuzzy=Fuzzy() if self.fuzzy else None)
        return given


class QuerySettings(Conditions):
    """Options of a query. Those that are not given are the index's own."""

    idf: Annotated[IdfName | None, Field(description="IDF formula.")] = None
    epsilon: Annotated[float | None, Field(description="IDF of words in half of the chunks or more.")] = None
    k3: Annotated[float | None, Field(description="Saturation of words that the query repeats.")] = None
    bigram_weight: Annotated[float | None, Field(description="Weight of Chinese bigrams.")] = None
    word_bigram_weight: Annotated[float | None, Field(description="Weight of pairs of words.")] = None
    latin_weight: Annotated[float | None, Field(description="Factor of letters and numbers beside Chinese.")] = None
    statistics: Annotated[
        Literal["namespace", "all"] | dict[str, Any] | None,
        Field(description='N and df of the searched namespaces, of "all", or of the chunks that fit a filter.'),
    ] = None
    feedback: Annotated[
        FeedbackName | None,
        Field(description="Search again with terms of the best hits."),
    ] = None
    relevant: Annotated[
        list[Id] | None, Field(max_length=MAX_WORDS, description="Ids of chunks that answer the query.")
    ] = None
    irrelevant: Annotated[list[Id] | None, Field(max_length=MAX_WORDS, description="Ids of chunks that do not.")] = None
    rescore: Annotated[bool, Field(description="Compute the scores again from the stored vectors.")] = False
    boosts: Annotated[
        list[Factor] | None,
        Field(
            max_length=MAX_WORDS,
            description='Factors of the score, such as {"type": "value", "key": "kind", "factors": {"law": 2}}.',
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the given options, as a search takes them."""
        given = super().options()
        if self.feedback:
            given["feedback"] = METHODS_BY_NAME[self.feedback]()
        if self.boosts:
            given["boosts"] = [factor.build() for factor in self.boosts]
        return given


class Fragments(Request):
    """How much is shown of a text."""

    max_fragments: Annotated[int, Field(ge=1, le=100, description="Maximum number of highlights of a text.")] = 3
    fragment_size: Annotated[int, Field(ge=20, le=65_535, description="Maximum characters of a highlight.")] = 200

    def highlighting(self) -> Highlighting:
        """Return the number and the size of highlights."""
        return Highlighting(self.max_fragments, self.fragment_size)


GroupBy: TypeAlias = Annotated[
    str | None, Field(description="Metadata key, such as source: k counts groups of hits with the same value.")
]
Expand: TypeAlias = Annotated[
    Literal["neighbors", "document"] | None,
    Field(description="Give each hit the chunks before and after it, or its whole document, as its context."),
]
ChunkNamespace: TypeAlias = Annotated[
    str | None, Field(description="Namespace of the chunk, if several that are searched have its id.")
]


class SearchSettings(QuerySettings, Fragments):
    """Options of a search: those of the query, and those for its hits."""

    near_duplicates: Annotated[
        float | None, Field(description="Leave out hits that resemble a better one at least so much, such as 0.9.")
    ] = None
    group_by: GroupBy = None
    group_size: Annotated[int | None, Field(description="Maximum number of hits of a group.")] = None
    group_score: Annotated[
        Literal["max", "sum"] | None, Field(description="Rank groups by their best hit, or by the sum.")
    ] = None
    mmr: Annotated[float | None, Field(description="Choose hits that differ: lambda in 0..1.")] = None
    candidates: Annotated[
        int | None, Field(ge=1, le=MAX_HITS, description="Number of hits to choose from or add up.")
    ] = None
    expand: Expand = None

    highlight: Annotated[
        bool, Field(description="Give each hit its highlights: its best sentences, and the words of the query in them.")
    ] = False

    def options(self) -> dict[str, Any]:
        """Return the given options, as a search takes them."""
        given = super().options()
        return {**given, "highlight": self.highlighting()} if self.highlight else given


TextOfQuery: TypeAlias = Annotated[Text, Field(description="Words or a question.")]
HitCount: TypeAlias = Annotated[int, Field(ge=1, le=MAX_HITS, description="Maximum number of hits.")]
MaxText: TypeAlias = Annotated[
    int | None,
    Field(ge=1, description="Cut the text of each hit to so many characters; such a hit says how many there are."),
]


class Search(Scope, SearchSettings):
    """Search for chunks."""

    text: TextOfQuery
    k: HitCount = 10
    max_text: MaxText = None


class OfChunk(Scope, SearchSettings):
    """A question about a chunk and a search, with the options of the search."""

    text: TextOfQuery
    k: HitCount = 10
    chunk_namespace: ChunkNamespace = None


class Explain(OfChunk):
    """Explain the score of a chunk."""

    id: Annotated[Id, Field(description="Id of the chunk.")]
    tree: Annotated[bool, Field(description="Add every formula with its numbers.")] = False


class Why(OfChunk):
    """Tell why a search finds nothing, or does not find a chunk."""

    id: Annotated[Id | None, Field(description="Id of the chunk; without, why nothing is found.")] = None
    min_score: Annotated[float | None, Field(description="Score below which hits are of no use.")] = None


class Suggest(Place):
    """Correct the spelling of a query."""

    text: TextOfQuery


class Highlight(Place, QuerySettings, Fragments):
    """Find the words of a query in a text."""

    text: TextOfQuery
    passage: Annotated[str, Field(max_length=MAX_PASSAGE, description="The text to mark; it need not be stored.")]


class Statistics(Request):
    """Figures of the index."""

    namespace: Annotated[
        Namespaces | None, Field(description="Tenant or sub-corpus, or several of them; by default all.")
    ] = None


class TermStatistics(Scope):
    """N, df and IDF of the words of a text."""

    text: Annotated[Text, Field(description="Any text; its words are analysed as those of a query.")]


class TopTerms(Scope):
    """The terms that most chunks have."""

    prefix: Annotated[str, Field(max_length=100, description="Only terms that begin with it, as they are stemmed.")] = (
        ""
    )
    top: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Maximum number of terms.")] = 20


class Lengths(Statistics):
    """The distribution of the chunks' lengths, and how far the mean has moved from the chunk size."""

    bins: Annotated[int, Field(ge=1, le=200, description="Number of bins of the histogram.")] = 20


class Document(Request):
    """Read a chunk by its id."""

    id: Annotated[Id, Field(description="Id of the chunk.")]
    namespace: Annotated[str, Field(description="Namespace of the chunk.")] = ""
    context: Annotated[
        Literal["neighbors", "document"] | None,
        Field(description="Add the chunks before and after it, or its whole document."),
    ] = None


class Documents(Request):
    """List the chunks of a source in the order of the document."""

    source: Annotated[str, Field(min_length=1, max_length=MAX_QUERY, description="Source, such as docs/law.txt.")]
    namespace: Annotated[str, Field(description="Namespace of the chunks.")] = ""
    offset: Annotated[int, Field(ge=0, description="Number of chunks to leave out.")] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Maximum number of chunks.")] = 100


class NewDocument(Request):
    """A chunk to store."""

    text: str
    id: Annotated[Id | None, Field(description="By default a hash of text and metadata.")] = None
    metadata: dict[str, Any] | None = None
    embedding: Annotated[list[float] | None, Field(description="Needed if the index has dense vectors.")] = None


class Add(Request):
    """Store chunks; one whose id exists is replaced."""

    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=MAX_DOCUMENTS)]
    namespace: Annotated[str, Field(description="Namespace of the chunks.")] = ""


class Delete(Request):
    """Delete chunks by their ids, by a source or by a filter: exactly one of them."""

    ids: Annotated[list[Id] | None, Field(min_length=1, max_length=MAX_DOCUMENTS)] = None
    source: Annotated[str | None, Field(min_length=1, description="All chunks of a source.")] = None
    filter: Annotated[Filter | None, Field(description="All chunks that fit a filter.")] = None
    namespace: Annotated[str, Field(description="Namespace of the chunks.")] = ""


class AgentSearch(Scope, Conditions):
    """Search for chunks: the options that agents have a use for, with bounds for those who read every word."""

    text: TextOfQuery
    k: Annotated[int, Field(ge=1, le=50, description="Maximum number of hits.")] = 5
    group_by: GroupBy = None
    expand: Expand = None
    max_text: Annotated[
        int | None, Field(ge=1, le=20_000, description="Maximum characters of each text; longer ones are cut.")
    ] = 2_000


class AgentExplain(Scope, Conditions):
    """Explain the score of a chunk."""

    text: TextOfQuery
    id: Annotated[Id, Field(description="Id of the chunk.")]
    k: HitCount = 10
    group_by: GroupBy = None
    chunk_namespace: ChunkNamespace = None
    tree: Annotated[bool, Field(description="Show every formula with its numbers.")] = False


class AgentStatistics(Scope):
    """Figures of the index, of the words of a text, and of the terms that most chunks have."""

    text: Annotated[Text | None, Field(description="Words to count the chunks of, such as those of a query.")] = None
    prefix: Annotated[str, Field(max_length=100, description="With top: only terms that begin with it.")] = ""
    top: Annotated[int, Field(ge=0, le=200, description="List so many of the terms that most chunks have.")] = 0


class AgentDocument(Request):
    """Read a chunk by its id, or the chunks of a source: exactly one of them."""

    id: Annotated[Id | None, Field(description="Id of a chunk, as search returns it.")] = None
    source: Annotated[
        str | None, Field(min_length=1, description="Source, such as docs/law.txt: its chunks in order.")
    ] = None
    namespace: Annotated[str, Field(description="Namespace of the chunks.")] = ""
    context: Annotated[
        Literal["neighbors", "document"] | None,
        Field(description="With id: add the chunks before and after it, or its whole document."),
    ] = None
    offset: Annotated[int, Field(ge=0, description="With source: number of chunks to leave out.")] = 0
    limit: Annotated[int, Field(ge=1, le=50, description="With source: maximum number of chunks.")] = 10
