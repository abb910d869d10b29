"""Compare langchain-milvus's own store, with the adapter as its sparse embedding, to ``BM25Index``.

::

    pip install langchain-milvus 'rag-bm25[eval]'  # in an environment of its own: it brings milvus-lite 3
    python scripts/compare_langchain_milvus.py path/to/cmrc2018 --queries 200

Both get the same chunks, on the same engine; prints for how many queries the ten first hits are the same, and the
greatest difference between two scores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.documents import Document
from langchain_milvus import Milvus

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.langchain_milvus import sparse_embedding
from rag_bm25.evaluation import load_beir

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG = IndexConfig(chunk_size=500)
SPARSE = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
K = 10

Ranking = list[tuple[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare langchain-milvus with the adapter to BM25Index.")
    parser.add_argument("dataset", type=Path, help="a folder in BEIR format")
    parser.add_argument("--queries", type=int, default=200)
    given = parser.parse_args()
    dataset = load_beir(given.dataset)
    queries = dict(islice(dataset.queries.items(), given.queries))
    with tempfile.TemporaryDirectory() as folder:
        ours = index_rankings(Path(folder, "index.db"), dataset.corpus, queries)
        theirs = langchain_milvus_rankings(Path(folder, "langchain.db"), dataset.corpus, queries)
    same = sum(is_same(ours[query], theirs[query]) for query in queries)
    pairs = [pair for query in queries for pair in zip(ours[query], theirs[query], strict=True)]
    apart = max(abs(one / other - 1) for (_, one), (_, other) in pairs)
    print(f"{same} of {len(queries)} queries have the same ranking; scores differ by at most {apart:.1e} relative")
    return 0 if same == len(queries) else 1


def index_rankings(path: Path, corpus: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, Ranking]:
    with BM25Index.open(path, "docs", config=CONFIG) as index:
        index.add(list(corpus.values()), ids=list(corpus))
        found = index.search_batch(list(queries.values()), K)
    return {query: [(hit.id, hit.score) for hit in hits] for query, hits in zip(queries, found, strict=True)}


def langchain_milvus_rankings(path: Path, corpus: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, Ranking]:
    encoder = BM25Encoder(CONFIG)
    store = Milvus(
        embedding_function=sparse_embedding(encoder, learn=True),
        connection_args={"uri": str(path)},
        collection_name="docs",
        index_params=SPARSE,
        search_params={"metric_type": "IP"},
    )
    store.add_documents([Document(text) for text in corpus.values()], ids=list(corpus))
    store.client.flush("docs")  # milvus-lite 3 indexes rows in memory anew for every search
    rankings = {}
    for query, text in queries.items():
        found = store.similarity_search_with_score(text, k=K)
        rankings[query] = [(document.metadata["pk"], score) for document, score in found]
    return rankings


def is_same(one: Ranking, other: Ranking) -> bool:
    """Compare two rankings; hits of equal score may differ in order, and in the last places in identity."""
    if [score for _, score in one] != [score for _, score in other]:
        return False
    last = one[-1][1] if len(one) == K else None
    return {hit for hit in one if hit[1] != last} == {hit for hit in other if hit[1] != last}


if __name__ == "__main__":
    sys.exit(main())
