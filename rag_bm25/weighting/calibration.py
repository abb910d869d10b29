"""Choose a chunk size, and detect when it has drifted too far from the chunks.

A `chunk_size` of s times the mean length is BM25 with other k1 and b, see
:func:`~rag_bm25.weighting.calibration.effective_parameters`. The loss was measured on four judged sets with the
defaults (k1 1.5, b 0.75, IDF ``epsilon``, words and bigrams). The table has nDCG@10 minus nDCG@10 at s = 1; a star
marks a loss with p < .05 in a paired randomisation test, not adjusted for the number of tests.

=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======
s          0.125   0.25    0.5     0.6     0.7     0.85    1.4     2       3       4       5.6     8
=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======
STARD      -.066*  -.037*  -.012*  -.008*  -.005*  -.001   -.001   -.001   -.003   -.004   -.007   -.011*
SciFact    -.027*  -.008   +.002   +.003   +.004   +.001   -.000   -.004   -.006   -.007   -.005   -.008
CMRC 2018  -.022*  -.011*  -.004*  -.003*  -.002*  -.000   +.000   +.001   +.001   +.001   -.000   -.000
XQuAD      -.036*  -.019*  -.005*  -.004*  -.002*  -.001   +.001   +.002   +.002   +.001   +.000   -.001
=========  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======  ======

A chunk size that is too small costs much, and soon; one that is too large costs little, and late. With the IDF
``lucene`` the figures differ by at most .005; with words alone the loss on STARD at s = 4 is .008 with p = .02.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.checks import parameter_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["calibrate", "effective_parameters"]

HEALTHY_RATIOS = (0.8, 4.0)
"""Range of s in which no loss is significant with the default analyzer. At 0.7 three are; above 4 the losses grow."""

PROPOSED_RATIO = 1.4
"""The proposed s: as good as 1 on every set, and well inside the healthy range."""

MIN_CHUNKS = 100
"""Minimum number of chunks for a warning: the mean length of fewer predicts little."""

MAX_NAMES = 3  # in a warning


@dataclass(frozen=True)
class Calibration:
    """A proposed chunk size, and the BM25 parameters that are equivalent to it.

    Parameters
    ----------
    chunks, mean_length, length_unit
        As for :func:`calibrate`.
    chunk_size : int
        The proposed chunk size, at least 1.
    ratio : float
        s = chunk_size / mean_length.
    effective_k1, effective_b : float
        Parameters of the equivalent exact BM25.
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
    """Propose a chunk size for chunks with a given mean length.

    Parameters
    ----------
    mean_length : float
        avgdl, in `length_unit`; > 0.
    chunks : int
        Number of chunks that it was measured on.
    length_unit : str
        Unit of all lengths.
    k1, b : float
        Parameters of the index.
    ratio : float
        s, > 0; 1 is exact BM25, as long as the mean does not change.

    Returns
    -------
    Calibration
        The proposal, a chunk size rounded to an integer.

    Raises
    ------
    ParameterError
        The mean length or the ratio is not > 0.

    Examples
    --------
    >>> proposal = calibrate(310.5, chunks=1_000)
    >>> proposal.chunk_size, round(proposal.effective_k1, 2), round(proposal.effective_b, 2)
    (435, 1.18, 0.68)
    """
    for name, value in (("mean_length", mean_length), ("ratio", ratio)):
        if not value > 0:
            raise parameter_error(name, "> 0", value)
    chunk_size = max(1, round(ratio * mean_length))
    found = chunk_size / mean_length
    return Calibration(chunks, mean_length, length_unit, chunk_size, found, *effective_parameters(k1, b, found))


def drift_warning(ratio: float, chunks: int, k1: float, b: float) -> str | None:
    """Warn of a chunk size that has become harmful, where enough chunks are known, and lengths count."""
    minimum, maximum = HEALTHY_RATIOS
    if minimum <= ratio <= maximum or chunks < MIN_CHUNKS or not k1 * b:
        return None
    effect = "long chunks rank too low" if ratio < minimum else "the length of chunks hardly counts"
    return f"the chunk size is {ratio:.2g} times the mean length: {effect}"


def idf_warning(idf: str, names: Sequence[str]) -> str | None:
    """Warn of the IDF ``epsilon`` where queries may have a name that most chunks have: others weigh it less.

    >>> print(idf_warning("epsilon", ["中国人民大学"]))
    more than half of the chunks have 中国人民大学: if most queries do, too, idf=lucene weighs their rarer words more
    """
    if idf != "epsilon" or not names:
        return None
    listed = ", ".join(names[:MAX_NAMES])
    return (
        f"more than half of the chunks have {listed}: if most queries do, too, idf=lucene weighs their rarer words more"
    )


def effective_parameters(k1: float, b: float, ratio: float) -> tuple[float, float]:
    r"""Return the parameters of the exact BM25 that is equivalent to a `chunk_size` of ``ratio * avgdl``.

    .. math:: k_1' = k_1 (1 - b + b/s), \qquad b' = \frac{b/s}{1 - b + b/s}

    Parameters
    ----------
    k1, b, ratio
        As for :func:`calibrate`; the ratio s is > 0.

    Returns
    -------
    k1, b : float
        The effective saturation k1' and length normalisation b'.

    Examples
    --------
    >>> effective_parameters(1.5, 0.75, 2.0)
    (0.9375, 0.6)
    """
    share = b / ratio
    scale = 1 - b + share
    return k1 * scale, share / scale if scale else 0.0
