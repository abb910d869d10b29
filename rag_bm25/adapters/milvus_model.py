"""The methods and the files of milvus-model's ``BM25EmbeddingFunction``.

Its "v1" JSON has the number of chunks and the IDF of each term, but no df and no analyzer. The df is computed from the
IDF, which is possible for terms in at most half of the chunks, and for one more. The JSON of ``BM25Milvus``, by the
author of *BM25 for RAG with Milvus*, has the df, too.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.adapters.encoder import BM25Encoder
from rag_bm25.checks import require_extra
from rag_bm25.errors import FormatError
from rag_bm25.index.config import IndexConfig
from rag_bm25.statistics.corpus import MAX_COUNT
from rag_bm25.weighting.idf import equivalent_df, robertson_idf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array  # type: ignore[import-untyped, unused-ignore]

    from rag_bm25.adapters.encoder import TextEncoder
    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.vectors.sparse import SparseVector

__all__ = ["DIMENSION", "BM25EmbeddingFunction", "read_json"]

DIMENSION = 2**32 - 1
"""Width of the matrices: ids are hashes, not positions in a vocabulary."""

MAX_IDF = 64.0  # that of more chunks than any collection has
IDF_ERROR = 1e-9
DF_ERROR = 1e-11  # as a share of the number of chunks; rounding an IDF to float64 amounts to 1e-14
SUM_ERROR = 1e-2


class BM25EmbeddingFunction:
    """``encode_documents`` and ``encode_queries`` as milvus-model has them.

    They encode as :class:`~rag_bm25.adapters.TextEncoder` says, but return a CSR matrix of float32, shape
    (n_texts, dim), whose row is empty for a query without known terms.

    Parameters
    ----------
    encoder
        As for :func:`~rag_bm25.adapters.langchain_milvus.sparse_embedding`.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        with require_extra("CSR matrices need scipy, which is not installed: pip install scipy"):
            import scipy.sparse  # type: ignore[import-untyped, unused-ignore]
        self._csr_array = scipy.sparse.csr_array
        self._encoder = encoder

    @property
    def dim(self) -> int:
        """Width of the matrices."""
        return DIMENSION

    def encode_documents(self, documents: Sequence[str]) -> csr_array:
        return self._matrix(self._encoder.encode_documents(documents))

    def encode_queries(self, queries: Sequence[str]) -> csr_array:
        return self._matrix(self._encoder.encode_queries(queries))

    def _matrix(self, vectors: Sequence[SparseVector]) -> csr_array:
        indptr = np.cumsum([0, *map(len, vectors)])
        indices = np.concatenate([np.empty(0, np.int64), *(vector.ids for vector in vectors)])
        values = np.concatenate([np.empty(0, np.float32), *(vector.values for vector in vectors)])
        return self._csr_array((values, indices, indptr), shape=(len(vectors), DIMENSION))


def read_json(path: str | Path, analyzer: TextAnalyzer) -> BM25Encoder:
    """Read the statistics that milvus-model or the script ``BM25Milvus`` saved.

    Vectors that were made there cannot be kept, because their terms have other ids. Encode the chunks again with the
    encoder that this returns.

    Parameters
    ----------
    path : str or Path
        The JSON file.
    analyzer : callable of str to list of str
        The analyzer of the file, such as ``build_default_analyzer(language="zh")``; the file does not name it.

    Returns
    -------
    BM25Encoder
        With the k1, b, epsilon, N and df of the file. `chunk_size` is the file's, or its mean length.

    Raises
    ------
    FormatError
        The file is something else, or does not determine every df.
    """
    saved = _read(path)
    num_chunks = saved["corpus_size"]
    idf = np.array(saved["idf_value"], np.float64)
    if "chunk_size" in saved:
        df, chunk_size, length = _stored_df(path, saved, idf), saved["chunk_size"], 0
    else:
        df, chunk_size = _recovered_df(path, saved, idf), saved["avgdl"]
        length = round(chunk_size * num_chunks)
    parameters = {name: saved[name] for name in ("k1", "b", "epsilon")}
    config = IndexConfig(chunk_size, length_unit="terms", **parameters, analyzer=analyzer)
    counts = dict(zip(saved["idf_word"], df.tolist(), strict=True))
    return BM25Encoder.from_counts(config, num_chunks, counts, total_length=length)


def _read(path: str | Path) -> dict[str, Any]:
    """Read the file, and check that it has the keys that both programs write, with values of their types."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise _refusal(path, f"it is not JSON: {error}") from error
    if not isinstance(saved, dict) or saved.get("version") != "v1":
        raise _refusal(path, 'it is not a JSON object with version "v1"')
    missing = {"corpus_size", "idf_word", "idf_value", "k1", "b", "epsilon"} - saved.keys()
    if missing or not saved.keys() & {"avgdl", "chunk_size"}:
        raise _refusal(path, f"it lacks {', '.join(sorted(missing)) or 'avgdl or chunk_size'}")
    words, df = saved["idf_word"], saved.get("term_document_frequencies", {})
    numbers = [saved[name] for name in ("k1", "b", "epsilon", "avgdl", "chunk_size") if name in saved]
    sound = {
        "corpus_size": _all_of(int, [saved["corpus_size"]]),
        "idf_word": isinstance(words, list) and _all_of(str, words) and len(set(words)) == len(words),
        "idf_value": isinstance(saved["idf_value"], list) and _all_of((int, float), saved["idf_value"]),
        "term_document_frequencies": isinstance(df, dict) and _all_of(int, df.values()),
        "k1, b, epsilon, avgdl or chunk_size": _all_of((int, float), numbers),
    }
    if damaged := [name for name, is_sound in sound.items() if not is_sound]:
        raise _refusal(path, f"{damaged[0]} is damaged")
    if len(words) != len(saved["idf_value"]):
        raise _refusal(path, "idf_word and idf_value have different lengths")
    return saved


def _all_of(kind: type | tuple[type, ...], values: Iterable[object]) -> bool:
    """Whether all are of a type, and all numbers finite, which JSON's need not be."""
    return all(
        isinstance(value, kind) and not isinstance(value, bool) and (isinstance(value, str) or abs(value) <= MAX_COUNT)  # type: ignore[arg-type]
        for value in values
    )


def _stored_df(path: str | Path, saved: Mapping[str, Any], idf: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the df of ``BM25Milvus``, checked against the IDFs."""
    stored: dict[str, int] = saved.get("term_document_frequencies", {})
    missing = [word for word in saved["idf_word"] if word not in stored]
    if missing:
        raise _refusal(
            path,
            f"term_document_frequencies lacks {len(missing)} of {len(idf)} terms, such as {missing[0]!r}; the script "
            "loses them when it is given a corpus in the constructor: call fit, then save",
        )
    df = np.array([stored[word] for word in saved["idf_word"]], np.int64)
    raw = robertson_idf(df.clip(0, saved["corpus_size"]), saved["corpus_size"])
    differs = (raw >= 0) & (np.abs(raw - idf) > IDF_ERROR)
    if differs.any():
        raise _refusal(path, f"idf_value does not belong to the df of {saved['idf_word'][int(differs.argmax())]!r}")
    return df


def _recovered_df(path: str | Path, saved: Mapping[str, Any], idf: NDArray[np.float64]) -> NDArray[np.int64]:
    """Compute the df from ``ln((N - df + 0.5) / (df + 0.5))``, which milvus-model keeps unless it is negative."""
    # Negative ones are replaced by a floor, epsilon times the mean of all original IDFs: if a single term has it, its
    # own IDF is what the others lack of their sum.
    num_chunks, words = saved["corpus_size"], saved["idf_word"]
    exact = _df_of(idf, num_chunks)
    floored = (np.abs(exact - exact.round()) > DF_ERROR * num_chunks) | (idf < 0)
    if floored.sum() > 1 or (floored.any() and not saved["epsilon"]):
        raise _refusal(
            path,
            f"{floored.sum()} of its terms, such as {words[int(floored.argmax())]!r}, are in more than half of the "
            "chunks: milvus-model gives them all the same IDF, so that their df is lost; count the chunks again with "
            "BM25Encoder.fit",
        )
    if floored.any():
        exact[floored] = _df_of(_original_idf(idf, saved["epsilon"])[floored], num_chunks)
    elif saved["epsilon"] and (ambiguous := _may_be_floored(idf, saved["epsilon"], num_chunks)).any():
        raise _refusal(path, f"the df of {words[int(ambiguous.argmax())]!r} is ambiguous: its IDF may be the floor")
    df: NDArray[np.float64] = exact.round()
    if (np.abs(exact - df) > SUM_ERROR).any() or not ((df >= 1) & (df <= num_chunks)).all():
        raise _refusal(path, "an idf_value does not belong to any df")
    return df.astype(np.int64)


def _original_idf(idf: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return, for each term, the sum of the original IDFs of all terms with its IDF, if that were the floor."""
    _, like, counts = np.unique(idf, return_inverse=True, return_counts=True)
    return np.asarray(idf / epsilon * len(idf) - (math.fsum(idf.tolist()) - idf * counts[like]))


def _may_be_floored(idf: NDArray[np.float64], epsilon: float, num_chunks: int) -> NDArray[np.bool_]:
    """Whether each term may have had a negative IDF, although a df fits the one that it has."""
    _, like, counts = np.unique(idf, return_inverse=True, return_counts=True)
    original = _original_idf(idf, epsilon)
    possible = (original < 0) & (original >= -math.log(2 * num_chunks + 1) * counts[like])
    whole = np.abs((df := _df_of(original, num_chunks)) - df.round()) < SUM_ERROR
    return np.asarray(possible & (whole | (counts[like] > 1)))


def _df_of(idf: NDArray[np.float64] | float, num_chunks: int) -> NDArray[np.float64]:
    """Invert the IDF."""
    return equivalent_df(np.clip(idf, -MAX_IDF, MAX_IDF), num_chunks)


def _refusal(path: str | Path, reason: str) -> FormatError:
    msg = f"cannot import the statistics in {path}: {reason}"
    return FormatError(msg)
