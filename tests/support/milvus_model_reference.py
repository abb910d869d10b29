"""What milvus-model 0.3.4 and the script BM25Milvus save, without their dependencies."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def saved_json(texts: Sequence[str], *, epsilon: float = 0.25, chunk_size: float | None = None) -> dict[str, Any]:
    """Fit on whitespace tokens, and return the JSON; with `chunk_size`, that of BM25Milvus."""
    documents = [text.split() for text in texts]
    df = Counter(word for document in documents for word in dict.fromkeys(document))
    raw = {word: math.log(len(texts) - count + 0.5) - math.log(count + 0.5) for word, count in df.items()}
    floor = epsilon * sum(raw.values()) / len(raw)
    saved: dict[str, Any] = {
        "version": "v1",
        "corpus_size": len(texts),
        "idf_word": list(raw),
        "idf_value": [floor if idf < 0 else idf for idf in raw.values()],
        "k1": 1.2,
        "b": 0.5,
        "epsilon": epsilon,
    }
    if chunk_size is None:
        return {**saved, "avgdl": sum(map(len, documents)) / len(documents)}
    return {**saved, "chunk_size": chunk_size, "term_document_frequencies": dict(df)}
