r"""The formulas, each written once, with its source.

.. math::

    score(q, d) = \sum_t
        \underbrace{qtf_t \cdot IDF(N, df_t)}_{\text{query: the corpus now}} \cdot
        \underbrace{\frac{tf}{tf + k_1 (1 - b + b \cdot len(d) / chunk\_size)}}_{\text{chunk: itself, for ever}}

The chunk's factor is one of several, see :mod:`rag_bm25.weightings`.

References
----------
.. [1] S. E. Robertson, S. Walker, S. Jones, M. M. Hancock-Beaulieu, M. Gatford, "Okapi at TREC-3", TREC 1994.
.. [2] A. Singhal, C. Buckley, M. Mitra, "Pivoted Document Length Normalization", SIGIR 1996.
.. [3] S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
.. [4] X. Du, "BM25 for RAG with Milvus", 2024: the chunk size in place of the mean length, the epsilon floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from rag_bm25.errors import ParameterError, shown
from rag_bm25.fields import FieldWeight
from rag_bm25.parameters import as_str, check_choice, check_parameter, comparable
from rag_bm25.weightings import SMALLEST_NORM, WEIGHTINGS, document_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from rag_bm25.weightings import WeightingName

__all__ = [
    "IDF_NAMES",
    "CorpusFigures",
    "DocumentWeighting",
    "IdfBranch",
    "IdfName",
    "QueryWeighting",
    "average_idf",
    "effective_parameters",
    "equivalent_df",
    "idf",
    "idf_branches",
    "relevance_weight",
    "robertson_idf",
]

IdfName = Literal["epsilon", "lucene", "zero", "plus", "tfidf", "plain"]
"""An IDF that can be asked for."""
IDF_NAMES: tuple[str, ...] = get_args(IdfName)
"""All of them."""

POSITIVE_FLOOR = 1e-6
"""Weight of a term whose IDF is zero or less: Milvus refuses negative weights and cannot rank on zero."""

ROUNDING = 1e-12
"""A mean IDF this close to zero is zero: terms on both sides of N / 2 may cancel."""


MAX_FACTOR = 1_000
MAX_K3 = 1_000_000


@dataclass(frozen=True)
class DocumentWeighting:
    r"""The chunk's side of the score: it depends on the chunk alone.

    Parameters
    ----------
    chunk_size : float
        Constant in place of the mean length, in the same unit as the lengths; > 0.
    k1 : float
        How slowly further occurrences saturate; >= 0.
    b : float
        Share of the length normalisation, in [0, 1].
    form : str
        One of :data:`rag_bm25.weightings.WEIGHTING_NAMES`.
    delta : float or None
        The delta of those forms that have one; None for the form's default, which then stands here.
    fields : mapping of str to FieldWeight
        Fields that count beside the text (BM25F [1]_), by name.

    Raises
    ------
    ParameterError
        A parameter is out of its range, or does not suit the form.

    References
    ----------
    .. [1] S. Robertson, H. Zaragoza, M. Taylor, "Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004; with a
       b for each field: H. Zaragoza et al., "Microsoft Cambridge at TREC 13", TREC 2004.

    Examples
    --------
    A chunk of exactly the chunk size is not normalised:

    >>> DocumentWeighting(chunk_size=500).weights([1, 2, 20], 500).round(3)
    array([0.4  , 0.571, 0.93 ])

    BM25+ lifts each of these by its delta, after multiplying by k1 + 1:

    >>> DocumentWeighting(chunk_size=500, form="bm25+").weights([1, 2, 20], 500).round(3)
    array([2.   , 2.429, 3.326])
    """

    chunk_size: float
    k1: float = 1.5
    b: float = 0.75
    form: WeightingName = "bm25"
    delta: float | None = None
    fields: Mapping[str, FieldWeight] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_parameter("chunk_size", self.chunk_size, "a finite number > 0", comparable(self.chunk_size) > 0)
        check_parameter("k1", self.k1, "finite and >= 0", comparable(self.k1) >= 0)
        check_parameter("b", self.b, "in [0, 1]", 0 <= comparable(self.b) <= 1)
        form, delta = document_form(self.form, self.k1, self.delta)
        object.__setattr__(self, "form", as_str(self.form))
        object.__setattr__(self, "delta", delta)
        _check_fields(self.fields)
        if self.fields and not form.combines_fields:
            msg = f"fields must be empty for {self.form!r}, whose length norm cannot be applied field by field"
            raise ParameterError(msg)

    @property
    def bounds(self) -> tuple[float, float]:
        """What no weight is below, and what none is above (``inf`` where nothing bounds it)."""
        return WEIGHTINGS[self.form].bounds(self.k1, self.delta or 0.0)

    def norm(self, length: ArrayLike) -> NDArray[np.float64]:
        r"""Length norm :math:`1 - b + b \cdot len(d) / chunk\_size`.

        Parameters
        ----------
        length : array_like of float
            Chunk lengths, in the unit of `chunk_size`.

        Returns
        -------
        ndarray of float64
            Same shape as `length`; 1 for a length of `chunk_size`. `b` is the form's own where it has one.
        """
        return _norm(length, self.chunk_size, self._share(self.b))

    def weights(self, tf: ArrayLike, length: ArrayLike, k1: ArrayLike | None = None) -> NDArray[np.float64]:
        """Weight of each term, where the chunk is its text alone.

        Parameters
        ----------
        tf : array_like of float
            Occurrences in the chunk, > 0.
        length : array_like of float
            Length of the chunk of each term, broadcast against `tf`.
        k1 : array_like of float, optional
            The k1 of each term, for those forms where terms have one of their own.

        Returns
        -------
        ndarray of float64
            Within `bounds` and > 0, rising in `tf`, falling in `length`.
        """
        return self._values(np.asarray(tf, np.float64), self.norm(length), k1)

    def frequencies(self, tf: ArrayLike, length: ArrayLike, field: str | None = None) -> NDArray[np.float64]:
        r"""Weighted and normalised frequencies within one field: :math:`w \cdot tf / norm`.

        Parameters
        ----------
        tf : array_like of float
            Occurrences in the field, > 0.
        length : array_like of float
            Length of the field of each term, broadcast against `tf`.
        field : str or None
            Which; None for the text, whose weight is 1.

        Returns
        -------
        ndarray of float64
            To be added up over the fields of a chunk, and then weighed by :meth:`combined_weights`.
        """
        of = FieldWeight(chunk_size=self.chunk_size, b=self.b) if field is None else self.fields[field]
        norm = np.maximum(_norm(length, of.chunk_size, self._share(of.b)), SMALLEST_NORM)
        return of.weight * np.asarray(tf, np.float64) / norm

    def combined_weights(self, frequency: ArrayLike, k1: ArrayLike | None = None) -> NDArray[np.float64]:
        """Weight of each term, where the chunk has fields: saturated once, after they were added up.

        Parameters
        ----------
        frequency : array_like of float
            Sums of :meth:`frequencies`.
        k1 : array_like of float, optional
            As for :meth:`weights`.

        Returns
        -------
        ndarray of float64
            Within `bounds` and > 0, rising in `frequency`. Without any field this is :meth:`weights`.
        """
        return self._values(np.asarray(frequency, np.float64), 1.0, k1)

    def _values(
        self, tf: NDArray[np.float64], norm: NDArray[np.float64] | float, k1: ArrayLike | None
    ) -> NDArray[np.float64]:
        used = self.k1 if k1 is None else np.asarray(k1, np.float64)
        return WEIGHTINGS[self.form].values(tf, norm, used, self.delta or 0.0)

    def _share(self, b: float) -> float:
        """Return the form's own share of the length where it has one."""
        own = WEIGHTINGS[self.form].b
        return b if own is None else own


def _norm(length: ArrayLike, chunk_size: float, b: float) -> NDArray[np.float64]:
    relative = np.asarray(length, np.float64) / chunk_size
    return 1 - b + b * relative


def _check_fields(fields: Mapping[str, FieldWeight]) -> None:
    """Refuse fields without a name or a weight."""
    if not isinstance(fields, Mapping):
        msg = f"fields must be a mapping of names to FieldWeight, got {shown(fields)}"
        raise ParameterError(msg)
    for name, weight in fields.items():
        if not (isinstance(name, str) and name and isinstance(weight, FieldWeight)):
            msg = f"fields must map names that are not empty to FieldWeight, got {shown(name)}: {shown(weight)}"
            raise ParameterError(msg)


def effective_parameters(k1: float, b: float, ratio: float) -> tuple[float, float]:
    r"""Return the parameters of the exact BM25 that a `chunk_size` of ``ratio * avgdl`` amounts to.

    .. math:: k_1' = k_1 (1 - b + b/s), \qquad b' = \frac{b/s}{1 - b + b/s}

    Parameters
    ----------
    k1, b : float
        The parameters in use.
    ratio : float
        s, the chunk size divided by the measured mean length; > 0.

    Returns
    -------
    k1 : float
        k1', the saturation that results.
    b : float
        b', the length share that results.

    Examples
    --------
    >>> effective_parameters(1.5, 0.75, 1.0)
    (1.5, 0.75)
    >>> effective_parameters(1.5, 0.75, 2.0)
    (0.9375, 0.6)
    """
    share = b / ratio
    scale = 1 - b + share
    return k1 * scale, share / scale if scale else 0.0


def robertson_idf(df: ArrayLike, num_chunks: int) -> NDArray[np.float64]:
    r"""Weight of Robertson and Spärck Jones without relevance information, :math:`\ln\frac{N-df+0.5}{df+0.5}`.

    Parameters
    ----------
    df : array_like of int
        Chunks with the term, in [0, num_chunks].
    num_chunks : int
        N.

    Returns
    -------
    ndarray of float64
        Negative where more than half of the chunks have the term.
    """
    df = np.asarray(df, np.float64)
    return np.log((num_chunks - df + 0.5) / (df + 0.5))


def relevance_weight(df: ArrayLike, num_chunks: int, r: ArrayLike, num_relevant: int) -> NDArray[np.float64]:
    r"""Weight of Robertson and Spärck Jones with relevance information, that of the binary independence model [1]_.

    .. math:: \ln \frac{(r + 0.5) / (R - r + 0.5)}{(df - r + 0.5) / (N - df - R + r + 0.5)}

    It is :math:`\ln \frac{p (1 - s)}{s (1 - p)}`, with estimates of how probable the term is in a relevant chunk,
    :math:`p = (r + 0.5) / (R + 1)`, and in another one, :math:`s = (df - r + 0.5) / (N - R + 1)`.

    Parameters
    ----------
    df : array_like of int
        Chunks with the term, in [r, N - R + r].
    num_chunks : int
        N.
    r : array_like of int
        Relevant chunks with the term, in [0, R].
    num_relevant : int
        R, in [0, N].

    Returns
    -------
    ndarray of float64
        Rising in `r`; without relevance information, r = R = 0, exactly :func:`robertson_idf`.

    References
    ----------
    .. [1] S. E. Robertson, K. Spärck Jones, "Relevance weighting of search terms", JASIS 27, 1976.

    Examples
    --------
    Of ten chunks, four have the term; of the three relevant ones, two have it. ln((2.5 / 1.5) / (2.5 / 5.5)):

    >>> round(float(relevance_weight(4, 10, r=2, num_relevant=3)), 4)
    1.2993
    """
    df, r = np.asarray(df, np.float64), np.asarray(r, np.float64)
    # One fraction: with r = R = 0 both products are halved exactly, and the plain weight comes out bit for bit.
    speaking_for = (r + 0.5) * (num_chunks - df - num_relevant + r + 0.5)
    against = (num_relevant - r + 0.5) * (df - r + 0.5)
    return np.asarray(np.log(speaking_for / against))


def equivalent_df(weight: ArrayLike, num_chunks: int) -> NDArray[np.float64]:
    r"""Return the df at which :func:`robertson_idf` is a given weight, :math:`(N + 1) / (1 + e^{weight}) - 0.5`.

    It brings relevance information into every IDF, with its floor: a term of this :func:`relevance_weight` is weighed
    as a term of this df would be without relevance information. ``epsilon`` and ``zero`` come out as the relevance
    weight itself, where it is > 0, and ``lucene`` as ``ln(1 + e^weight)``.

    Parameters
    ----------
    weight : array_like of float
        As :func:`relevance_weight` gives them.
    num_chunks : int
        N.

    Returns
    -------
    ndarray of float64
        In (-0.5, N + 0.5), falling in `weight`.

    Examples
    --------
    >>> equivalent_df(robertson_idf([1, 7], 10), 10).round(9)
    array([1., 7.])
    """
    return np.asarray((num_chunks + 1) / (1 + np.exp(np.asarray(weight, np.float64))) - 0.5)


def average_idf(histogram: Mapping[int, int], num_chunks: int) -> float:
    """Mean of :func:`robertson_idf` over all terms with df > 0.

    Terms of one df have one IDF, so this costs one logarithm per distinct df.

    Parameters
    ----------
    histogram : mapping of int to int
        Number of terms of each df; the df are > 0.
    num_chunks : int
        N.

    Returns
    -------
    float
        The mean, 0.0 where there are no terms.

    Examples
    --------
    Four terms: three in one chunk of four, one in two of them.

    >>> round(average_idf({1: 3, 2: 1}, 4), 4)
    0.6355
    """
    num_terms = sum(histogram.values())
    if not num_terms:
        return 0.0
    # No df exceeds N, unless the stored statistics were damaged; a search must survive that too.
    dfs = np.fromiter(histogram.keys(), np.int64, len(histogram)).clip(max=num_chunks)
    terms = np.fromiter(histogram.values(), np.int64, len(histogram))
    # An exact sum does not depend on the order of the histogram, and rounding must not decide the sign of a zero.
    mean = math.fsum((robertson_idf(dfs, num_chunks) * terms).tolist()) / num_terms
    return mean if abs(mean) > ROUNDING else 0.0


@dataclass(frozen=True)
class CorpusFigures:
    """What an IDF needs to know of the corpus, besides df.

    Parameters
    ----------
    num_chunks : int
        N.
    average_idf : float
        Mean IDF of all terms, see :func:`average_idf`.
    """

    num_chunks: int
    average_idf: float


@dataclass(frozen=True)
class IdfBranch:
    """One case of an IDF: its formula in words, where it applies, and its values.

    Parameters
    ----------
    formula : str
        The formula, as ``explain`` shows it.
    applies : ndarray of bool
        Which of the df this case is for, where no earlier case applies.
    values : ndarray of float64
        Its value for every df.
    """

    formula: str
    applies: NDArray[np.bool_]
    values: NDArray[np.float64]


_ROBERTSON = "ln((N - df + 0.5) / (df + 0.5))"
_LUCENE = "ln(1 + (N - df + 0.5) / (df + 0.5))"


def _lucene_values(df: NDArray[np.float64], num_chunks: int) -> NDArray[np.float64]:
    return np.log1p((num_chunks - df + 0.5) / (df + 0.5))


def _always(formula: str, values: NDArray[np.float64]) -> IdfBranch:
    return IdfBranch(formula, np.ones(values.shape, np.bool_), values)


def _positive(formula: str, values: NDArray[np.float64]) -> Iterator[IdfBranch]:
    """Cases of a formula that may fall to zero or below."""
    yield IdfBranch(formula, values > 0, values)
    yield _always(f"{POSITIVE_FLOOR:g}, since {formula} <= 0", np.full(values.shape, POSITIVE_FLOOR))


def _epsilon(df: NDArray[np.float64], corpus: CorpusFigures, epsilon: float) -> Iterator[IdfBranch]:
    raw = robertson_idf(df, corpus.num_chunks)
    yield IdfBranch(_ROBERTSON, raw > 0, raw)
    average = np.full(df.shape, epsilon * corpus.average_idf)
    yield IdfBranch(f"epsilon * avgIDF, since {_ROBERTSON} <= 0", average > 0, average)
    smooth = epsilon * _lucene_values(df, corpus.num_chunks)
    yield _always(f"epsilon * {_LUCENE}, since {_ROBERTSON} <= 0 and avgIDF <= 0", smooth)


def _lucene(df: NDArray[np.float64], corpus: CorpusFigures, _epsilon: float) -> Iterator[IdfBranch]:
    yield _always(_LUCENE, _lucene_values(df, corpus.num_chunks))


def _zero(df: NDArray[np.float64], corpus: CorpusFigures, _epsilon: float) -> Iterator[IdfBranch]:
    return _positive(_ROBERTSON, robertson_idf(df, corpus.num_chunks))


def _plus(df: NDArray[np.float64], corpus: CorpusFigures, _epsilon: float) -> Iterator[IdfBranch]:
    yield _always("ln((N + 1) / df)", np.log((corpus.num_chunks + 1) / np.maximum(df, 1)))


def _tfidf(df: NDArray[np.float64], corpus: CorpusFigures, _epsilon: float) -> Iterator[IdfBranch]:
    return _positive("ln((N + 1) / (df + 1))", np.log((corpus.num_chunks + 1) / (df + 1)))


def _plain(df: NDArray[np.float64], corpus: CorpusFigures, _epsilon: float) -> Iterator[IdfBranch]:
    return _positive("ln(N / df)", np.log(np.maximum(corpus.num_chunks, 1) / np.maximum(df, 1)))


# Lazy, since of most queries the first case weighs every term.
_IDFS: dict[str, Callable[[NDArray[np.float64], CorpusFigures, float], Iterator[IdfBranch]]] = {
    "epsilon": _epsilon,
    "lucene": _lucene,
    "zero": _zero,
    "plus": _plus,
    "tfidf": _tfidf,
    "plain": _plain,
}


def idf_branches(name: IdfName, df: ArrayLike, corpus: CorpusFigures, epsilon: float = 0.25) -> Iterator[IdfBranch]:
    """Return the cases of an IDF, in the order in which they are tried.

    Parameters
    ----------
    name : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain"}
        Which IDF.
    df : array_like of int
        Chunks with the term, in [1, N].
    corpus : CorpusFigures
        N and the mean IDF.
    epsilon : float
        Factor of the floor of ``epsilon``; > 0.

    Returns
    -------
    iterator of IdfBranch
        The last one applies everywhere.
    """
    return _IDFS[name](np.asarray(df, np.float64), corpus, epsilon)


def idf(name: IdfName, df: ArrayLike, corpus: CorpusFigures, epsilon: float = 0.25) -> NDArray[np.float64]:
    """Inverse document frequency of each term, always > 0.

    ``epsilon`` is that of [1]_, with a floor that stays positive where the mean IDF is not: ``ln((N - df + 0.5) /
    (df + 0.5))`` where that is > 0, else ``epsilon * avgIDF`` where that is > 0, else ``epsilon * ln(1 + (N - df + 0.5)
    / (df + 0.5))``. ``lucene`` is ``ln(1 + (N - df + 0.5) / (df + 0.5))``, ``zero`` is ``ln((N - df + 0.5) / (df +
    0.5))`` cut off at a tiny positive value, ``plus`` is ``ln((N + 1) / df)``, ``tfidf`` ``ln((N + 1) / (df + 1))`` and
    ``plain`` ``ln(N / df)`` [2]_. The ``ln((N + 1) / (df + 0.5))`` of BM25L is ``lucene``, written otherwise.

    Parameters
    ----------
    name : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain"}
        Which IDF.
    df : array_like of int
        Chunks with the term, in [1, N].
    corpus : CorpusFigures
        N and the mean IDF.
    epsilon : float
        Factor of the floor of ``epsilon``; > 0.

    Returns
    -------
    ndarray of float64
        Same shape as `df`.

    References
    ----------
    .. [1] X. Du, "BM25 for RAG with Milvus", 2024, section 2.2.
    .. [2] K. Spärck Jones, "A Statistical Interpretation of Term Specificity and its Application in Retrieval",
       Journal of Documentation 28 (1), 1972.

    Examples
    --------
    >>> idf("lucene", [1, 5], CorpusFigures(num_chunks=10, average_idf=1.0)).round(4)
    array([1.9924, 0.6931])
    """
    cases: list[IdfBranch] = []
    for case in idf_branches(name, df, corpus, epsilon):
        cases.append(case)
        if case.applies.all():
            break
    values = cases.pop().values
    for case in reversed(cases):
        values = np.where(case.applies, case.values, values)
    return values


@dataclass(frozen=True)
class QueryWeighting:
    """The query's side of BM25: everything that may change without touching a stored vector.

    Parameters
    ----------
    idf : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain"}
        Which IDF, see :func:`idf`.
    epsilon : float
        Factor of the floor of ``epsilon``; > 0, at most 1,000.
    k3 : float or None
        Saturation of repeated query terms, in 0..1,000,000; None counts them linearly.
    bigram_weight : float
        Weight of the channel of bigrams, in 0..1,000, beside that of words, which is 1.

    Raises
    ------
    ParameterError
        A parameter is out of its range.
    """

    idf: IdfName = "epsilon"
    epsilon: float = 0.25
    k3: float | None = None
    bigram_weight: float = 0.4

    def __post_init__(self) -> None:
        """Check the ranges."""
        object.__setattr__(self, "idf", check_choice("idf", self.idf, IDF_NAMES))
        check_parameter("epsilon", self.epsilon, "a finite number > 0", comparable(self.epsilon) > 0)
        if self.k3 is not None:
            check_parameter("k3", self.k3, "None, or finite and >= 0", comparable(self.k3) >= 0)
        check_parameter("bigram_weight", self.bigram_weight, "finite and >= 0", comparable(self.bigram_weight) >= 0)
        limits = {"epsilon": MAX_FACTOR, "bigram_weight": MAX_FACTOR, "k3": MAX_K3}
        for name, limit in limits.items():  # a weight of a query has to fit into float32
            value = getattr(self, name) or 0.0
            check_parameter(name, value, f"at most {limit:,}", value <= limit)

    def term_weights(self, qtf: ArrayLike) -> NDArray[np.float64]:
        r"""Weight of repetition in the query: `qtf`, or :math:`qtf (k_3 + 1) / (qtf + k_3)`.

        Parameters
        ----------
        qtf : array_like of int
            Occurrences in the query, > 0.

        Returns
        -------
        ndarray of float64
            1.0 for a term that occurs once, rising in `qtf`, below k3 + 1.

        Examples
        --------
        >>> QueryWeighting(k3=1.0).term_weights([1, 2, 3])
        array([1.        , 1.33333333, 1.5       ])
        """
        qtf = np.asarray(qtf, np.float64)
        return qtf if self.k3 is None else qtf * (self.k3 + 1) / (qtf + self.k3)

    def weights(self, qtf: ArrayLike, df: ArrayLike, corpus: CorpusFigures) -> NDArray[np.float64]:
        """Weight of each query term, the query's half of the score.

        Parameters
        ----------
        qtf : array_like of int
            Occurrences in the query, > 0.
        df : array_like of int
            Chunks with the term, in [1, N].
        corpus : CorpusFigures
            N and the mean IDF.

        Returns
        -------
        ndarray of float64
            All > 0.
        """
        return self.term_weights(qtf) * idf(self.idf, df, corpus, self.epsilon)
