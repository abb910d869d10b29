"""What an index tells of itself: its figures, and what its chunk_size amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.similarity import effective_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.config import IndexConfig
    from rag_bm25.statistics import CorpusStatistics

__all__ = ["IndexStats"]


@dataclass(frozen=True)
class IndexStats:
    """Figures of an index, or of some of its namespaces.

    Parameters
    ----------
    name : str
        Engine, URI and collection.
    num_chunks : int
        N.
    num_terms : int
        Terms with df > 0.
    total_length : int
        Sum of the chunk lengths, in `length_unit`.
    mean_length : float
        avgdl, measured, in `length_unit`.
    average_idf : float
        Mean IDF over all terms.
    namespaces : list of str
        All namespaces of the index.
    chunk_size : float
        The constant in place of the mean length.
    length_unit : str
        Unit of all lengths.
    weighting : str
        The document side in use.
    k1, b : float
        The parameters in use.
    chunk_size_ratio : float
        s = chunk_size / mean_length; 1.0 for an empty index.
    effective_k1, effective_b : float
        Parameters of the exact BM25 that this chunk_size amounts to, see
        :func:`rag_bm25.similarity.effective_parameters`; `effective_b` is right for every weighting with a b.
    """

    name: str
    num_chunks: int
    num_terms: int
    total_length: int
    mean_length: float
    average_idf: float
    namespaces: list[str]
    chunk_size: float
    length_unit: str
    weighting: str
    k1: float
    b: float
    chunk_size_ratio: float
    effective_k1: float
    effective_b: float

    @classmethod
    def of(cls, name: str, config: IndexConfig, statistics: CorpusStatistics, namespaces: Sequence[str]) -> IndexStats:
        """Work the figures out.

        Parameters
        ----------
        name : str
            Of what.
        config : IndexConfig
            Its parameters.
        statistics : CorpusStatistics
            Its N, df and lengths.
        namespaces : sequence of str
            All namespaces that there are.

        Returns
        -------
        IndexStats
            As of now.
        """
        ratio = config.chunk_size / statistics.mean_length if statistics.mean_length else 1.0
        effective_k1, effective_b = effective_parameters(config.k1, config.b, ratio)
        return cls(
            name=name,
            num_chunks=statistics.num_chunks,
            num_terms=statistics.num_terms,
            total_length=statistics.total_length,
            mean_length=statistics.mean_length,
            average_idf=statistics.figures.average_idf,
            namespaces=list(namespaces),
            chunk_size=config.chunk_size,
            length_unit=config.length_unit,
            weighting=config.weighting,
            k1=config.k1,
            b=config.b,
            chunk_size_ratio=ratio,
            effective_k1=effective_k1,
            effective_b=effective_b,
        )
