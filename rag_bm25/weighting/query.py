"""Weight query terms: qtf, k3 and the choice of an IDF."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np

from rag_bm25.checks import parameter_error
from rag_bm25.definitions import UNSET, Between, check_fields, fill, repr_of_given
from rag_bm25.weighting.document import K1, DocumentWeighting
from rag_bm25.weighting.fields import B  # noqa: TC001 - the definitions of options
from rag_bm25.weighting.formulas import WEIGHTINGS
from rag_bm25.weighting.idf import IdfInputs, IdfName, idf
from rag_bm25.weighting.term_k1 import K1_METHODS, K1Method, K1OfTerms, TermK1

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["QueryWeighting"]

MAX_FACTOR = 1_000
MAX_K3 = 1_000_000


Epsilon: TypeAlias = Annotated[float, Between(0, MAX_FACTOR, above=True)]
K3: TypeAlias = Annotated[float, Between(0, MAX_K3)]
Weight: TypeAlias = Annotated[float, Between(0, MAX_FACTOR)]
LatinWeight: TypeAlias = Annotated[float, Between(0, MAX_FACTOR, above=True)]
MiddleLength = Literal["chunk_size", "mean"]
QueryK1: TypeAlias = K1 | K1Method


@dataclass(frozen=True, repr=False)
class QueryWeighting:
    """Weights of the terms of a query, and of chunks by another k1 and b. They may change without touching a vector.

    With another `k1` or `b`, or the mean length, candidates are weighed again, as many as it takes to prove that the
    hits are those of an index that was made with these parameters. See docs/weightings.md.

    Parameters
    ----------
    idf : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain", "adpt"}
        Formula of the IDF, see :mod:`rag_bm25.weighting.idf`. ``"adpt"`` needs :meth:`rag_bm25.BM25Index.learn_k1`.
    epsilon : float
        IDF of a word in half of the chunks or more, as a share of the mean IDF, in (0, 1000]. For ``idf="epsilon"``.
    k3 : float or None
        Saturation of words that the query repeats, in 0..1000000, 4 by default; None counts them linearly.
    bigram_weight, character_weight : float
        Weights of bigrams of Chinese characters, and of single ones, in 0..1000.
    word_bigram_weight : float
        Weight of pairs of words, in 0..1000.
    latin_weight : float
        Factor of letters and numbers beside Chinese, in (0, 1000].
    question_word_weight : float
        Weight of question words beside others, in 0..1000.
    k1 : float, {"bm25t", "adpt"} or None
        Saturation of the term frequency in the chunks, >= 0; None for the stored one. ``"bm25t"`` and ``"adpt"`` are a
        k1 of each term, by the mean length, as :meth:`rag_bm25.BM25Index.learn_k1` has learned it.
    b : float or None
        Share of the length normalisation in the text of the chunks, in [0, 1]; None for the stored one.
    length : {"chunk_size", "mean"}
        The length that stands in the middle: the constant of the index, or the mean of the chunks that count for the
        statistics, as they are now.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    Examples
    --------
    What is not given is as in the index:

    >>> QueryWeighting(idf="lucene")
    QueryWeighting(idf='lucene')
    """

    idf: IdfName = UNSET
    epsilon: Epsilon = UNSET
    k3: K3 | None = UNSET
    bigram_weight: Weight = UNSET
    character_weight: Weight = UNSET
    word_bigram_weight: Weight = UNSET
    latin_weight: LatinWeight = UNSET
    question_word_weight: Weight = UNSET
    k1: QueryK1 | None = UNSET
    b: B | None = UNSET
    length: MiddleLength = UNSET

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return repr_of_given(self)

    def over(self, base: QueryWeighting) -> QueryWeighting:
        """Return this weighting, with the values of `base` where it has none.

        Parameters
        ----------
        base : QueryWeighting
            That of the index.

        Returns
        -------
        QueryWeighting
            All of its values are given if those of `base` are.
        """
        return fill(self, base)

    @property
    def reweighs(self) -> bool:
        """Whether it asks for other weights of the chunks than the stored ones."""
        return not ({self.k1, self.b} <= {None, UNSET} and self.length in ("chunk_size", UNSET))

    @property
    def has_k1_of_terms(self) -> bool:
        """Whether it asks for a k1 of each term."""
        return self.k1 in K1_METHODS

    @property
    def needs_learning(self) -> str:
        """What it asks for that must have been learned; "" for nothing."""
        return f"k1={self.k1!r}" if self.has_k1_of_terms else "idf='adpt'" if self.idf == "adpt" else ""

    def of_documents(
        self, stored: DocumentWeighting, mean_length: float, learned: TermK1 | None = None
    ) -> DocumentWeighting:
        """Return the weighting of the chunks that it asks for.

        Parameters
        ----------
        stored : DocumentWeighting
            The one that they are stored with.
        mean_length : float
            Mean length of the chunks, 0 if there are none.
        learned : TermK1 or None
            The k1 of each term.

        Returns
        -------
        DocumentWeighting
            `stored` with another k1, b and chunk size, as far as they are given.

        Raises
        ------
        ParameterError
            The stored form has no such parameter, or other bounds of it.

        Examples
        --------
        >>> QueryWeighting(k1=0.9, length="mean").of_documents(DocumentWeighting(500), 320.0)
        DocumentWeighting(chunk_size=320.0, k1=0.9, b=0.75, form='bm25', delta=None, fields={})
        """
        if self.has_k1_of_terms:
            if stored.form != "bm25":
                raise parameter_error("k1", f"a number for {stored.form!r}: terms have their own for 'bm25'", self.k1)
            of_terms = None if learned is None else K1OfTerms(learned, str(self.k1))
            full = replace(stored, form="elasticsearch", k1_of_terms=of_terms)  # whose factor k1 + 1 ranks here
            return replace(self, k1=None, length="mean").of_documents(full, mean_length)
        given = {"k1": self.k1, "b": self.b, "length": "mean" if self.length == "mean" else None}
        asked: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, UNSET)}
        if others := sorted(asked.keys() - WEIGHTINGS[stored.form].parameters):
            rule = f"left out for {stored.form!r}, whose formula has none"
            raise parameter_error(others[0], rule, asked[others[0]])
        if asked.pop("length", None) and mean_length:
            asked["chunk_size"] = mean_length
        return replace(stored, **asked) if asked else stored

    def without_stored(self, stored: DocumentWeighting) -> QueryWeighting:
        """Return the same weighting without a k1 or b that the chunks are stored with.

        Parameters
        ----------
        stored : DocumentWeighting
            The one that they are stored with.

        Returns
        -------
        QueryWeighting
            One that weighs no chunk again for what it has already.

        Examples
        --------
        >>> QueryWeighting(k1=1.5, b=0.4).without_stored(DocumentWeighting(500, k1=1.5, b=0.75))
        QueryWeighting(k1=None, b=0.4)
        """
        own = {"k1", "b"} & set(WEIGHTINGS[stored.form].parameters)
        same: dict[str, Any] = {name: None for name in own if getattr(self, name) == getattr(stored, name)}
        return replace(self, **same) if same else self

    def term_weights(self, qtf: ArrayLike) -> NDArray[np.float64]:
        """Weight of repeated query terms: `qtf`, or :math:`qtf (k_3 + 1) / (qtf + k_3)`.

        Parameters
        ----------
        qtf : array_like of int
            Term frequency in the query, > 0.

        Returns
        -------
        ndarray of float64
            1.0 for qtf = 1, increasing in `qtf` unless k3 is 0; at most k3 + 1, if there is a k3.

        Examples
        --------
        >>> QueryWeighting(k3=1.0).term_weights([1, 2, 3])
        array([1.        , 1.33333333, 1.5       ])
        """
        qtf = np.asarray(qtf, np.float64)
        return qtf if self.k3 is None else qtf * (self.k3 + 1) / (qtf + self.k3)

    def weights(
        self,
        qtf: ArrayLike,
        df: ArrayLike,
        corpus: IdfInputs,
        channel: ArrayLike = 0,
        gain: ArrayLike = math.nan,
    ) -> NDArray[np.float64]:
        """Weight of each query term: the query's factor of the score.

        Parameters
        ----------
        qtf, df, corpus, channel, gain
            As for :meth:`term_weights` and :func:`~rag_bm25.weighting.idf.idf`.

        Returns
        -------
        ndarray of float64
            All > 0.
        """
        return self.term_weights(qtf) * idf(self.idf, df, corpus, self.epsilon, channel, gain)


DEFAULT_WEIGHTING = QueryWeighting("epsilon", 0.25, 4.0, 0.5, 0.3, 0.15, 2.0, 0.3, None, None, "chunk_size")
"""The weighting of an index whose config names no other."""
