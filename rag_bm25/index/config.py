"""The parameters of an index: a document side that is fixed at creation, and a query side."""

from __future__ import annotations

from collections.abc import Callable, Mapping  # noqa: TC003 - the definitions of options
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from rag_bm25.analysis import Analyzer, AnalyzerConfig, TextAnalyzer
from rag_bm25.definitions import check_fields, given_fields, options_of
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.documents.lengths import LengthUnit  # noqa: TC001 - the definitions of options
from rag_bm25.errors import InputError
from rag_bm25.hits.fusion import DEFAULT_FUSION, Fusion
from rag_bm25.query.expansion import DEFAULT_EXPANSION, QueryExpansion
from rag_bm25.store.rows import DenseField, DenseMetric, Dim
from rag_bm25.weighting.document import K1, Delta, DocumentWeighting
from rag_bm25.weighting.fields import DEFAULT_FIELDS, B, ChunkSize, Fields, FieldWeight
from rag_bm25.weighting.formulas import WEIGHTINGS, WeightingName
from rag_bm25.weighting.idf import IdfName  # noqa: TC001 - the definitions of options
from rag_bm25.weighting.query import (
    DEFAULT_WEIGHTING,
    K3,
    Epsilon,
    LatinWeight,
    MiddleLength,
    QueryK1,
    QueryWeighting,
    Weight,
)

OF_QUERIES = {name: f"query_{name}" if name in ("k1", "b") else name for name in options_of(QueryWeighting)}
"""Parameter of a QueryWeighting -> that of a config, whose k1 and b are those of the stored vectors."""


QUERY_SIDE = (*OF_QUERIES.values(), "expansion", "fusion")
"""Parameters of a config that no stored vector depends on: a search, too, may give them, and an index can be set."""


def in_config(weighting: QueryWeighting) -> dict[str, Any]:
    """Return the values that are given as parameters of a config."""
    return {OF_QUERIES[name]: value for name, value in given_fields(weighting).items()}


def query_side(config: IndexConfig) -> dict[str, Any]:
    """Return the parameters of the query side by their names."""
    return {name: getattr(config, name) for name in QUERY_SIDE}


def with_query_side(config: IndexConfig, values: Mapping[str, Any]) -> IndexConfig:
    """Return a config with some parameters of the query side; the same one where none differs."""
    changes = {name: value for name, value in values.items() if value != getattr(config, name)}
    return replace(config, **changes) if changes else config


class _Fields(dict[str, FieldWeight]):
    """A dict that cannot be changed; `asdict`, JSON and pickle accept no other mapping."""

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        raise TypeError("the fields of a config cannot be changed: make another config with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[_Fields], tuple[dict[str, FieldWeight]]]:
        # By way of the constructor: unpickling puts items into a dict one by one.
        return type(self), (dict(self),)


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """Parameters of an index.

    `idf`, `epsilon`, `k3` and the weights of kinds of terms, `bigram_weight`, `character_weight`, `word_bigram_weight`,
    `latin_weight` and `question_word_weight`, weigh the query, `expansion` adds to it, `query_k1`, `query_b` and
    `length` weigh the chunks of a search anew, and `fusion` is of hybrid searches:
    :meth:`BM25Index.set_query_defaults` changes them, and a search may give others. The stored vectors depend on
    everything else, which is fixed when the index is created.

    Where an index is there already, a value of the query side counts, for the process that gives it, if it is neither
    the default nor the one that the index was made with; for all others that of the index does.

    Parameters
    ----------
    chunk_size : float
        Constant in place of the mean chunk length, > 0: the number that was given to the text splitter.
    length_unit : {"estimated_characters", "characters", "terms"}
        Unit of `chunk_size` and of the lengths of the chunks. LangChain's splitters count characters.
        ``"estimated_characters"`` are those that the words of a chunk have on average, 8 each and 1.65 in Chinese, so
        that blanks, stop words and markup do not count, which finds more; ``"characters"`` counts all;
        ``"terms"`` counts tokens after analysis, bigrams aside, and needs a `chunk_size` in terms.
    k1 : float
        Saturation of the term frequency, >= 0: the larger, the more further occurrences count.
    b : float
        Share of the length normalisation, in [0, 1].
    epsilon : float
        Factor of the floor of the ``epsilon`` IDF, in (0, 1000].
    idf : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain", "adpt"}
        Formula of the IDF. See :func:`rag_bm25.weighting.idf.idf`.
    k3 : float or None
        Saturation of words that the query repeats, in [0, 1000000]: the second of two counts 0.67 with 4, and the most
        that any number of them counts is k3 + 1; None counts them linearly.
    analyzer : AnalyzerConfig, or callable of str to list of str
        Settings of the built-in analyzer, or a function of text to tokens. Several threads may call it at once.
    weighting : str
        Name of the document weighting: one of :data:`rag_bm25.weighting.formulas.WEIGHTING_NAMES`.
    delta : float or None
        Parameter of the weightings that have a delta; None for their default.
    fields : mapping of str to FieldWeight, or "default"
        Fields that count beside the text (BM25F), each named after the metadata key that has its text: a str or a list
        of str. The text itself has the weight 1, `b` and `chunk_size`; a chunk's length stays that of its text. The
        config keeps a copy that cannot be changed. ``"default"`` stands for the fields of ``rag-bm25 ingest``, title,
        headings and ``chunk_context``, or for none if the weighting cannot combine fields. The last one is not shown,
        and is embedded before the text.
    dense_dim : int or None
        Dimension of the dense vectors that chunks have beside the lexical ones, in 2..32768; None for none.
    dense_metric : {"COSINE", "IP"}
        Similarity of dense vectors, larger for better. ``"IP"`` is for models that were trained for inner
        products, such as DPR: the cosine drops the lengths of their vectors. Of normalised vectors, L2 ranks as both.
    bigram_weight, character_weight, word_bigram_weight : float
        Weights of the bigrams of Chinese characters, of single ones, and of the bigrams of words, in [0, 1000], beside
        that of words, which is 1; 0 leaves them out. They matter where the analyzer makes such terms, see
        :class:`rag_bm25.AnalyzerConfig`.
    latin_weight : float
        Factor of words of letters and numbers in a query that has bigrams of Chinese characters, in (0, 1000]: with its
        bigrams a Chinese word counts about twice, and these have none.
    question_word_weight : float
        Weight of the question words of a query, in [0, 1000], see :class:`rag_bm25.AnalyzerConfig`; 0 leaves them out.
    query_k1, query_b, length
        The `k1`, `b` and `length` of a :class:`QueryWeighting`, for all searches that give no other.
    expansion : QueryExpansion
        Synonyms and other additions to queries, for all searches that give no others.
    fusion : Weighted or RRF
        How hybrid searches make one score of two, where they do not say otherwise.

    Examples
    --------
    >>> config = IndexConfig(chunk_size=500, fields={"title": FieldWeight(chunk_size=30, weight=2.0)})
    >>> config.k1
    1.5
    >>> IndexConfig(chunk_size=0)
    Traceback (most recent call last):
        ...
    rag_bm25.errors.ParameterError: chunk_size must be a finite number > 0, got 0
    """

    chunk_size: ChunkSize = field(kw_only=False)
    length_unit: LengthUnit = "estimated_characters"
    k1: K1 = 1.5
    b: B = 0.75
    epsilon: Epsilon = DEFAULT_WEIGHTING.epsilon
    idf: IdfName = DEFAULT_WEIGHTING.idf
    k3: K3 | None = DEFAULT_WEIGHTING.k3
    analyzer: AnalyzerConfig | Callable[[str], list[str]] = field(default_factory=AnalyzerConfig)
    weighting: WeightingName = "bm25"
    delta: Delta | None = None
    fields: Fields = field(default_factory=dict, hash=False)
    dense_dim: Dim | None = None
    dense_metric: DenseMetric = "COSINE"
    bigram_weight: Weight = DEFAULT_WEIGHTING.bigram_weight
    character_weight: Weight = DEFAULT_WEIGHTING.character_weight
    word_bigram_weight: Weight = DEFAULT_WEIGHTING.word_bigram_weight
    latin_weight: LatinWeight = DEFAULT_WEIGHTING.latin_weight
    question_word_weight: Weight = DEFAULT_WEIGHTING.question_word_weight
    query_k1: QueryK1 | None = DEFAULT_WEIGHTING.k1
    query_b: B | None = DEFAULT_WEIGHTING.b
    length: MiddleLength = DEFAULT_WEIGHTING.length
    expansion: QueryExpansion = DEFAULT_EXPANSION
    fusion: Fusion = DEFAULT_FUSION

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "expansion", self.expansion.over(DEFAULT_EXPANSION))
        object.__setattr__(self, "fields", _Fields(self._own_fields()))  # the caller's may change
        self.query_weighting().of_documents(self.document_weighting(), 0.0)  # parameters may not suit each other

    def _own_fields(self) -> Mapping[str, FieldWeight]:
        if self.fields != "default":
            return self.fields
        return DEFAULT_FIELDS if WEIGHTINGS[self.weighting].combines_fields else {}

    def document_weighting(self) -> DocumentWeighting:
        """Return the parameters of the document side.

        Returns
        -------
        DocumentWeighting
            Weighting, k1, b, delta, chunk_size and fields.
        """
        return DocumentWeighting(self.chunk_size, self.k1, self.b, self.weighting, self.delta, self._own_fields())

    def query_weighting(self) -> QueryWeighting:
        """Return the parameters of the query side.

        Returns
        -------
        QueryWeighting
            idf, epsilon, k3 and the weights of the kinds of terms, and how chunks are weighed anew.
        """
        return QueryWeighting(**{name: getattr(self, of_config) for name, of_config in OF_QUERIES.items()})

    def dense_field(self) -> DenseField | None:
        """Return dimension and metric of the dense vectors.

        Returns
        -------
        DenseField or None
            None for an index without dense vectors.
        """
        return None if self.dense_dim is None else DenseField(self.dense_dim, self.dense_metric)

    def build_analyzer(self) -> TextAnalyzer:
        """Build the analyzer.

        Returns
        -------
        callable of str to list of str
            A new :class:`~rag_bm25.analysis.Analyzer`, or the given callable.
        """
        return Analyzer(self.analyzer) if isinstance(self.analyzer, AnalyzerConfig) else self.analyzer

    def document_encoder(self) -> DocumentEncoder:
        """Build an encoder of chunks.

        Returns
        -------
        DocumentEncoder
            A new one, with an analyzer of its own as :meth:`build_analyzer` returns it.
        """
        return DocumentEncoder(self.build_analyzer(), self.document_weighting(), self.length_unit)


def require_dense_field(config: IndexConfig, given: str, name: str) -> DenseField:
    """Return the dense field; refuse an index without one. `given` begins the message, `name` is the index's."""
    dense = config.dense_field()
    if dense is None:
        raise InputError(f"{given}, but {name} has no dense vectors: it was created without dense_dim")
    return dense
