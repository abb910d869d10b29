"""Index statistics, and the effective BM25 parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rag_bm25.vectors.terms import is_cjk, is_word_bigram, term_text
from rag_bm25.weighting.calibration import MIN_CHUNKS, effective_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.store.storage import StorageInfo
    from rag_bm25.vectors.terms import Vocabulary
    from rag_bm25.weighting.term_k1 import TermK1

MIN_NAME = 3  # ideographs
MIN_WORDS = 3


@dataclass(frozen=True)
class IndexStats:
    """Figures of an index, or of some of its namespaces.

    Parameters
    ----------
    name : str
        Engine, URI and collection.
    num_chunks, num_terms : int
        N, and the number of terms with df > 0.
    total_length, mean_length : int, float
        Sum and mean of the chunk lengths, in `length_unit`; the mean is the measured avgdl.
    average_idf : float
        Mean IDF over all words, of which a share is the IDF ``epsilon`` of words in half of the chunks or more.
    average_bigram_idf, average_character_idf : float
        The same for bigrams, and for single characters; 0.0 where there are none.
    namespaces : list of str
        All namespaces of the index.
    chunk_size, length_unit, weighting, idf, k1, b
        The parameters in use, see :class:`~rag_bm25.IndexConfig`.
    chunk_size_ratio : float
        chunk_size / mean_length; 1.0 for an empty index.
    effective_k1, effective_b : float
        Parameters with which exact BM25, by the measured mean length, gives the same weights, see
        :func:`rag_bm25.weighting.calibration.effective_parameters`; `effective_b` holds for every weighting with a b.
    storage : StorageInfo
        How the engine stores the chunks: its version, and what it has built.
    k1_learned : str or None
        When :meth:`rag_bm25.BM25Index.learn_k1` has learned the k1 of each term, in UTC; None if it has not.
    k1_growth : float or None
        N of the whole index over that of this moment: the further from 1, the more there is to learn anew.
    confidence_doubt : str or None
        How the last questions of this process with a `min_confidence` are unlike those that the confidence was
        calibrated with; None if they are like them, or fewer than 100.
    """

    name: str
    num_chunks: int
    num_terms: int
    total_length: int
    mean_length: float
    average_idf: float
    average_bigram_idf: float
    average_character_idf: float
    namespaces: list[str]
    chunk_size: float
    length_unit: str
    weighting: str
    idf: str
    k1: float
    b: float
    chunk_size_ratio: float
    effective_k1: float
    effective_b: float
    storage: StorageInfo
    k1_learned: str | None = None
    k1_growth: float | None = None
    confidence_doubt: str | None = None


def with_learned(stats: IndexStats, learned: TermK1 | None, num_chunks: int) -> IndexStats:
    """Add when the k1 of terms was learned, given N of now."""
    if learned is None:
        return stats
    moment = datetime.fromtimestamp(learned.time, timezone.utc).isoformat(timespec="seconds")
    return replace(stats, k1_learned=moment, k1_growth=num_chunks / max(learned.num_chunks, 1))


def compute_stats(
    name: str,
    config: IndexConfig,
    statistics: CorpusCounts,
    namespaces: Sequence[str],
    storage: StorageInfo,
) -> IndexStats:
    """Return the figures of some statistics; `namespaces` are all that exist."""
    ratio = config.chunk_size / statistics.mean_length if statistics.mean_length else 1.0
    effective_k1, effective_b = effective_parameters(config.k1, config.b, ratio)
    return IndexStats(
        name=name,
        num_chunks=statistics.num_chunks,
        num_terms=statistics.num_terms,
        total_length=statistics.total_length,
        mean_length=statistics.mean_length,
        average_idf=statistics.idf_inputs.average_idf,
        average_bigram_idf=statistics.idf_inputs.average_bigram_idf,
        average_character_idf=statistics.idf_inputs.average_character_idf,
        namespaces=list(namespaces),
        chunk_size=config.chunk_size,
        length_unit=config.length_unit,
        weighting=config.weighting,
        idf=config.idf,
        k1=config.k1,
        b=config.b,
        chunk_size_ratio=ratio,
        effective_k1=effective_k1,
        effective_b=effective_b,
        storage=storage,
    )


def find_frequent_names(
    statistics: CorpusCounts, vocabulary: Callable[[], Vocabulary], written: Callable[[str], str]
) -> list[str]:
    """Return the :func:`frequent_names` of some statistics; `vocabulary` reads the terms, if some may be names."""
    ids, df = statistics.more_frequent_than(statistics.num_chunks / 2)
    terms = map(vocabulary().term, ids.tolist()) if len(ids) else ()
    known = ((term, each) for term, each in zip(terms, df.tolist(), strict=True) if term is not None)
    return frequent_names(known, statistics.num_chunks, written)


def frequent_names(dfs: Iterable[tuple[str, int]], chunks: int, written: Callable[[str], str] = term_text) -> list[str]:
    r"""Return the terms of more than half of the chunks that most questions may have.

    These are names, two words or three ideographs, and other words if there are three or more of them, as where *dans*,
    *la* and *que* are no stop words. The most frequent come first, as `written` says that texts write them; fewer than
    100 chunks predict little.

    >>> frequent_names([("招生", 900), ("\0acme robotics", 600), ("中国人民大学", 700)], 1_000)
    ['中国人民大学', 'acme robotics']
    >>> frequent_names([("dan", 900), ("la", 800), ("que", 700)], 1_000)
    ['dan', 'la', 'que']
    """
    frequent = sorted((-df, term) for term, df in dfs if 2 * df > chunks >= MIN_CHUNKS)
    names = [term for _, term in frequent if _is_name(term)]
    of_names = " ".join(map(term_text, names))
    words = [term for _, term in frequent if _is_plain_word(term) and term not in of_names]
    found = {*names, *(words if len(words) >= MIN_WORDS else ())}
    return [written(term) for _, term in frequent if term in found]


def _is_name(term: str) -> bool:
    return is_word_bigram(term) or (_is_plain_word(term) and is_cjk(term) and len(term) >= MIN_NAME)


def _is_plain_word(term: str) -> bool:
    return term.isalpha() and len(term) > 1
