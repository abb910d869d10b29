"""Weight query terms: qtf, k3 and the choice of an IDF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.checks import check_choice, check_parameter, comparable
from rag_bm25.weighting.idf import IDF_NAMES, IdfInputs, IdfName, idf

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["QueryWeighting"]

MAX_FACTOR = 1_000
MAX_K3 = 1_000_000


@dataclass(frozen=True)
class QueryWeighting:
    """The query's side of the score; it may change without touching a stored vector.

    Parameters
    ----------
    idf, epsilon, k3, bigram_weight, word_bigram_weight, latin_weight
        As for :class:`rag_bm25.IndexConfig`.

    Raises
    ------
    ParameterError
        A parameter is out of its range.
    """

    idf: IdfName = "epsilon"
    epsilon: float = 0.25
    k3: float | None = None
    bigram_weight: float = 0.5
    word_bigram_weight: float = 0.15
    latin_weight: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "idf", check_choice("idf", self.idf, IDF_NAMES))
        check_parameter("epsilon", self.epsilon, "a finite number > 0", comparable(self.epsilon) > 0)
        if self.k3 is not None:
            check_parameter("k3", self.k3, "None, or finite and >= 0", comparable(self.k3) >= 0)
        for name in ("bigram_weight", "word_bigram_weight"):
            weight = getattr(self, name)
            check_parameter(name, weight, "finite and >= 0", comparable(weight) >= 0)
        check_parameter("latin_weight", self.latin_weight, "a finite number > 0", comparable(self.latin_weight) > 0)
        factors = ("epsilon", "bigram_weight", "word_bigram_weight", "latin_weight")
        limits = {**dict.fromkeys(factors, MAX_FACTOR), "k3": MAX_K3}
        for name, limit in limits.items():  # weights of queries must fit into float32
            value = getattr(self, name) or 0.0
            check_parameter(name, value, f"at most {limit:,}", value <= limit)

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
        self, qtf: ArrayLike, df: ArrayLike, corpus: IdfInputs, is_bigram: ArrayLike = False
    ) -> NDArray[np.float64]:
        """Weight of each query term: the query's factor of the score.

        Parameters
        ----------
        qtf, df, corpus, is_bigram
            As for :meth:`term_weights` and :func:`~rag_bm25.weighting.idf.idf`.

        Returns
        -------
        ndarray of float64
            All > 0.
        """
        return self.term_weights(qtf) * idf(self.idf, df, corpus, self.epsilon, is_bigram)
