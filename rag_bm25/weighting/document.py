r"""Document weights: the chunk's side of the score.

.. math::

    score(q, d) = \sum_t
        \underbrace{qtf_t \cdot IDF(N, df_t)}_{\text{query: current corpus}} \cdot
        \underbrace{\frac{tf}{tf + k_1 (1 - b + b \cdot len(d) / chunk\_size)}}_{\text{chunk: stored vector}}

The chunk's factor is one of the formulas of :mod:`rag_bm25.weighting.formulas`, which has their sources.

References
----------
.. [1] A. Singhal, C. Buckley, M. Mitra, "Pivoted Document Length Normalization", SIGIR 1996.
.. [2] S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
.. [3] X. Du, "BM25 for RAG with Milvus", 2024: the chunk size instead of the mean length, the epsilon floor.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the definitions of options
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np

from rag_bm25.definitions import FINITE, Between, check_fields
from rag_bm25.errors import ParameterError
from rag_bm25.weighting.fields import B, ChunkSize, FieldWeight  # noqa: TC001 - the definitions of options
from rag_bm25.weighting.formulas import SMALLEST_NORM, WEIGHTINGS, WeightingName, tf_function
from rag_bm25.weighting.term_k1 import K1OfTerms  # noqa: TC001 - the definitions of options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    _Cells: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]  # from, to

__all__: list[str] = []  # public is the formula

K1: TypeAlias = Annotated[float, Between(0, FINITE.high)]
Delta: TypeAlias = Annotated[float, Between(0, FINITE.high)]

TF_BITS = 20  # of the largest tf: a text has 65,535 bytes
LARGEST_LENGTH = 2**40
LARGEST_TF = 2**TF_BITS
SMALLEST_TF = 1e-9  # in fields alone
STEP = 1.05
"""Factor from one cell of the grid to the next, by about which a bound may be too high."""


@dataclass(frozen=True)
class DocumentWeighting:
    """The chunk's side of the score; it depends on the chunk alone.

    Parameters
    ----------
    chunk_size, k1, b
        As for :class:`rag_bm25.IndexConfig`. Some forms need a larger k1 than 0.
    form : str
        One of :data:`rag_bm25.weighting.formulas.WEIGHTING_NAMES`.
    delta : float or None
        Delta of the forms that have one; None is replaced by the form's default.
    fields : mapping of str to FieldWeight
        Weighted fields beside the text (BM25F [1]_), by name.
    k1_of_terms : K1OfTerms or None
        The k1 of each term, where that is not `k1`.

    Raises
    ------
    ParameterError
        A parameter is out of its range, or not allowed for the form.

    References
    ----------
    .. [1] S. Robertson, H. Zaragoza, M. Taylor, "Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004; with a
       b for each field: H. Zaragoza et al., "Microsoft Cambridge at TREC 13", TREC 2004.

    Examples
    --------
    A chunk with a length of exactly the chunk size is not normalised; BM25+ multiplies by k1 + 1 and adds delta:

    >>> DocumentWeighting(chunk_size=500).weights([1, 2, 20], 500).round(3)
    array([0.4  , 0.571, 0.93 ])
    >>> DocumentWeighting(chunk_size=500, form="bm25+").weights([1, 2, 20], 500).round(3)
    array([2.   , 2.429, 3.326])
    """

    chunk_size: ChunkSize
    k1: K1 = 1.5
    b: B = 0.75
    form: WeightingName = "bm25"
    delta: Delta | None = None
    fields: Mapping[str, FieldWeight] = field(default_factory=dict, hash=False)
    k1_of_terms: K1OfTerms | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        form, delta = tf_function(self.form, self.k1, self.delta)
        object.__setattr__(self, "delta", delta)
        if self.fields and not form.combines_fields:
            msg = f"fields must be empty for {self.form!r}, whose length norm cannot be applied field by field"
            raise ParameterError(msg)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the weights; ``inf`` if they are unbounded."""
        return WEIGHTINGS[self.form].bounds(self.k1, self.delta or 0.0)

    def norm(self, length: ArrayLike, field: str | None = None) -> NDArray[np.float64]:
        r"""Return the length norm :math:`1 - b + b \cdot len(d) / chunk\_size`, of the text or a field.

        A form with a fixed b ignores `b`.
        """
        of = self if field is None else self.fields[field]
        fixed = WEIGHTINGS[self.form].b
        b = of.b if fixed is None else fixed
        return 1 - b + b * (np.asarray(length, np.float64) / of.chunk_size)

    def upper_bounds(self, ids: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the upper bound of the weights of each of some terms."""
        form, delta = WEIGHTINGS[self.form], self.delta or 0.0
        return np.array([form.bounds(k1, delta)[1] for k1 in np.broadcast_to(self.k1_of(ids), ids.shape).tolist()])

    def k1_of(self, ids: NDArray[np.uint32] | None) -> NDArray[np.float64] | float:
        """Return the k1 of terms; one for all, unless each has its own."""
        if self.k1_of_terms is None or ids is None:
            return self.k1
        return self.k1_of_terms.table.get(self.k1_of_terms.method, ids, self.k1)

    def weights(
        self,
        tf: ArrayLike,
        length: ArrayLike,
        of_fields: ArrayLike = 0.0,
        ids: NDArray[np.uint32] | None = None,
    ) -> NDArray[np.float64]:
        """Weigh each term by its tf in the text, and the sum `of_fields` of its :meth:`frequencies` in fields.

        Lengths are those of the texts; `ids` are needed where each term has a k1 of its own. The weights increase
        in `tf` and decrease in `length`; with 0 of fields, they have the bits of a chunk without fields.
        """
        norm, added = self.norm(length), np.asarray(of_fields, np.float64)
        norm = np.where(added > 0, np.maximum(norm, SMALLEST_NORM), norm)
        return self._values(np.asarray(tf, np.float64) + norm * added, norm, self.k1_of(ids))

    def term_frequencies(
        self, weights: ArrayLike, length: ArrayLike, of_fields: ArrayLike = 0.0
    ) -> NDArray[np.float64]:
        """Invert :meth:`weights`: return the whole tf in the text that has a stored weight.

        It is -1 where no tf has exactly this weight, or several have it, as with k1 = 0.
        """
        stored = np.asarray(weights, np.float32)

        def weigh(tf: NDArray[np.float64]) -> NDArray[np.float32]:
            return self.weights(tf, length, of_fields).astype(np.float32)

        tf = np.zeros(stored.shape)  # the largest one with at most this weight, bit by bit
        for bit in reversed(range(TF_BITS)):
            tf = np.where(weigh(tf + 2.0**bit) <= stored, tf + 2.0**bit, tf)
        with np.errstate(invalid="ignore"):  # 0 / 0, for tf = 0 without a field that has the term
            is_only = (weigh(tf) == stored) & ((tf == 0) | (weigh(np.maximum(tf - 1, 0)) < stored))
        return np.where(is_only, tf, -1.0)

    def frequencies(self, tf: ArrayLike, length: ArrayLike, field: str | None = None) -> NDArray[np.float64]:
        r"""Return weighted, normalised frequencies in a field: :math:`w \cdot tf / norm`, with w = 1 for the text."""
        weight = 1.0 if field is None else self.fields[field].weight
        return weight * np.asarray(tf, np.float64) / np.maximum(self.norm(length, field), SMALLEST_NORM)

    def combined_weights(self, frequency: ArrayLike) -> NDArray[np.float64]:
        """Weigh each term by its frequency in text and fields: their sum is saturated once."""
        return self._values(frequency, 1.0, self.k1)

    def _values(
        self, tf: ArrayLike, norm: NDArray[np.float64] | float, k1: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        return WEIGHTINGS[self.form].values(np.asarray(tf, np.float64), norm, k1, self.delta or 0.0)


def ratios_of_terms(
    stored: DocumentWeighting, wanted: DocumentWeighting, ids: NDArray[np.uint32], longest: int = LARGEST_LENGTH
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound a weight by `wanted`, with a k1 of each term, over that by `stored` ("bm25"), in chunks up to a length.

    The ratio is (k1 + 1) (tf + k n) / (tf + k1 m), with the norms n and m. It is monotone in tf, and for tf = 1 in the
    length, so that its ends are at the ends of these. With fields, tf may be any number, and one norm stands for both.
    """
    k1 = np.broadcast_to(wanted.k1_of(ids), ids.shape)
    ends = np.array([0, longest])[:, np.newaxis]
    n, m = _norm(stored, ends), _norm(wanted, ends)
    if stored.fields:
        gain = np.array([[min(1, (n / m).min())], [max(1, (n / m).max())]])
        at_first = (SMALLEST_TF + stored.k1) / (SMALLEST_TF + k1 / gain)
    else:
        at_first = (1 + stored.k1 * n) / (1 + k1 * m)
    return (k1 + 1) * np.minimum(1, at_first.min(axis=0)), (k1 + 1) * np.maximum(1, at_first.max(axis=0))


@lru_cache(maxsize=64)
def largest_ratio(stored: DocumentWeighting, wanted: DocumentWeighting, longest: int = LARGEST_LENGTH) -> float:
    """Return an upper bound of a weight by `wanted` over that by `stored`, in chunks up to a length.

    Weights increase in tf and decrease in length, so that the corners of a cell of the grid bound them within it.
    """
    lengths, tf = _whole(0, longest), _whole(1, LARGEST_TF)
    if not stored.fields:
        return _ratio(stored, wanted, tf, lengths, np.ones(1))
    # A tf that stands for the fields, too, is any number. By another norm, it gains at most as if all were in the text,
    # and loses at most as if all were in fields, whose norms stay. Of a term in fields alone, the norm is 1.
    gain = np.maximum(1, np.maximum(*(_norm(wanted, at) / _norm(stored, at) for at in lengths)))
    in_text = _ratio(stored, wanted, _cells(_steps(1, LARGEST_TF)), lengths, gain)
    frequencies = _steps(SMALLEST_TF, 1e9)
    in_fields = wanted.combined_weights(frequencies[1:]) / stored.combined_weights(frequencies[:-1])
    return max(in_text, float(in_fields.max()))


def _ratio(
    stored: DocumentWeighting, wanted: DocumentWeighting, tf: _Cells, lengths: _Cells, gain: NDArray[np.float64]
) -> float:
    """Return the largest ratio over all cells of tf and length."""
    least, most = (edges[:, np.newaxis] for edges in tf)
    largest = wanted.weights(most * gain, lengths[0]) / stored.weights(least, lengths[1])
    return float(largest.max())


def _steps(first: float, last: float) -> NDArray[np.float64]:
    return np.geomspace(first, last, int(np.log(last / first) / np.log(STEP)) + 2)


def _cells(edges: NDArray[np.float64]) -> _Cells:
    return edges[:-1], edges[1:]


def _whole(first: int, last: int) -> _Cells:
    """Return the first and the last whole number of each cell; the small ones have cells of their own."""
    edges = np.unique(np.concatenate(([first], _steps(1, last + 1).round())))
    return edges[:-1], edges[1:] - 1


def _norm(weighting: DocumentWeighting, length: ArrayLike) -> NDArray[np.float64]:
    return np.maximum(weighting.norm(length), SMALLEST_NORM)
