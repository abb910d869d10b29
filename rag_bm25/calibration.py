"""Which chunk size to take, and when one has drifted too far from the chunks.

A `chunk_size` of s times the mean length is BM25 with other k1 and b, see
:func:`~rag_bm25.similarity.effective_parameters`. What that costs was measured on four judged sets with the defaults
(k1 1.5, b 0.75, IDF ``epsilon``, words and bigrams): nDCG@10 minus that of s = 1; a star is a loss with p < .05 in a
paired randomisation test, each by itself.

=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======
s          0.125   0.25    0.5     0.6     0.7     0.85    1.4     2       3       4       5.6     8
=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======
STARD      -.066*  -.037*  -.012*  -.008*  -.005*  -.001   -.001   -.001   -.003   -.004   -.007   -.011*
SciFact    -.027*  -.008   +.002   +.003   +.004   +.001   -.000   -.004   -.006   -.007   -.005   -.008
CMRC 2018  -.022*  -.011*  -.004*  -.003*  -.002*  -.000   +.000   +.001   +.001   +.001   -.000   -.000
XQuAD      -.036*  -.019*  -.005*  -.004*  -.002*  -.001   +.001   +.002   +.002   +.001   +.000   -.001
=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======

Too small a constant costs much and soon, too great a one little and late. With the IDF ``lucene`` the figures differ by
at most .005; on words alone the loss on STARD at s = 4 is .008 with p = .02.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_bm25.errors import ParameterError
from rag_bm25.similarity import effective_parameters

__all__ = ["HEALTHY_RATIOS", "PROPOSED_RATIO", "Calibration", "calibrate", "drift_warning"]

HEALTHY_RATIOS = (0.8, 4.0)
"""Between these s, no measured loss is significant; at 0.7 three are, and from 4 on they grow."""

PROPOSED_RATIO = 1.4
"""The s that is proposed: as good as 1 on every set, and in the middle of the ratios that do no harm."""

MIN_CHUNKS = 100
"""The mean length of fewer chunks says little about those to come."""


@dataclass(frozen=True)
class Calibration:
    """A proposal, and what it amounts to.

    Parameters
    ----------
    chunks : int
        How many were measured.
    mean_length : float
        Their mean length, in `length_unit`.
    length_unit : str
        Unit of all lengths.
    chunk_size : int
        The proposal, at least 1.
    ratio : float
        s = chunk_size / mean_length.
    effective_k1, effective_b : float
        Parameters of the exact BM25 that this chunk size amounts to.
    """

    chunks: int
    mean_length: float
    length_unit: str
    chunk_size: int
    ratio: float
    effective_k1: float
    effective_b: float


def calibrate(
    mean_length: float,
    chunks: int,
    *,
    length_unit: str = "characters",
    k1: float = 1.5,
    b: float = 0.75,
    ratio: float = PROPOSED_RATIO,
) -> Calibration:
    """Propose a chunk size for chunks of a mean length.

    Parameters
    ----------
    mean_length : float
        avgdl, > 0.
    chunks : int
        Chunks that it was measured on.
    length_unit : str
        Unit of the lengths.
    k1, b : float
        The parameters that will be used.
    ratio : float
        s, > 0: the chunk size in mean lengths. 1 is exact BM25 as long as the mean stays what it is.

    Returns
    -------
    Calibration
        With the chunk size as a whole number.

    Raises
    ------
    ParameterError
        The mean length or the ratio is not above 0.

    Examples
    --------
    >>> proposal = calibrate(310.5, chunks=1_000)
    >>> proposal.chunk_size, round(proposal.effective_k1, 2), round(proposal.effective_b, 2)
    (435, 1.18, 0.68)
    """
    for name, value in (("mean_length", mean_length), ("ratio", ratio)):
        if not value > 0:
            msg = f"{name} must be > 0, got {value!r}"
            raise ParameterError(msg)
    chunk_size = max(1, round(ratio * mean_length))
    found = chunk_size / mean_length
    return Calibration(chunks, mean_length, length_unit, chunk_size, found, *effective_parameters(k1, b, found))


def drift_warning(ratio: float, chunks: int, k1: float, b: float) -> str | None:
    """Tell whether a chunk size has become harmful.

    Parameters
    ----------
    ratio : float
        s, the chunk size divided by the measured mean length.
    chunks : int
        Chunks that the mean length is of.
    k1, b : float
        The parameters in use; where one of them is 0, lengths do not count.

    Returns
    -------
    str or None
        What is wrong; None where s is between the :data:`HEALTHY_RATIOS`, or the chunks are fewer than 100.

    Examples
    --------
    >>> drift_warning(1.4, 1_000, k1=1.5, b=0.75) is None
    True
    >>> print(drift_warning(0.4, 1_000, k1=1.5, b=0.75))
    the chunk size is 0.4 times the mean length: long chunks are put too low
    """
    least, greatest = HEALTHY_RATIOS
    if least <= ratio <= greatest or chunks < MIN_CHUNKS or not k1 * b:
        return None
    effect = "long chunks are put too low" if ratio < least else "the length of chunks hardly counts"
    return f"the chunk size is {ratio:.2g} times the mean length: {effect}"
