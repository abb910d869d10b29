"""LangChain's BM25Retriever beside ours: what a program gains and loses that changes its import.

    python scripts/quality/coming_over.py SET...

Each set is a folder in BEIR format. It needs langchain-community and rank-bm25, which nothing else here does. The times
of one set are of one process, one after the other: only their ratios say anything.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from langchain_community.retrievers import BM25Retriever

from rag_bm25.evaluation import load_beir, measure
from rag_bm25.langchain import MilvusBM25Retriever

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.evaluation import BeirDataset

K = 10
ROW = "{:<28} {:>8} {:>9} {:>8}"


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        dataset = load_beir(folder)
        print(f"{folder.name}: {len(dataset.corpus):,} texts, {len(dataset.queries):,} queries")
        print(ROW.format("", "build", "a query", "nDCG@10"))
        with TemporaryDirectory() as place:
            compare(dataset, Path(place) / "rag.db")


def compare(dataset: BeirDataset, path: Path) -> None:
    """Print a row for each retriever, and how many queries have the ranking of BM25Retriever."""
    runs = {name: use(name, make, dataset) for name, make in retrievers(path).items()}
    theirs, same = runs["BM25Retriever"], runs["ours, str.split"]
    # BM25Retriever also returns texts that share no word with the query, up to k.
    equal = sum(found[: len(same[query])] == same[query] for query, found in theirs.items())
    print(f"the same ranking: {equal:,} of {len(theirs):,} queries\n")


def retrievers(path: Path) -> dict[str, Callable[..., Any]]:
    ours = MilvusBM25Retriever.from_texts
    return {
        "BM25Retriever": BM25Retriever.from_texts,
        "ours, str.split": partial(ours, preprocess_func=str.split),
        "ours": ours,
        "ours, in a file": partial(ours, uri=path),
    }


def use(name: str, make: Callable[..., Any], dataset: BeirDataset) -> dict[str, list[str]]:
    """Build a retriever and search for all queries; print the times, and the quality."""
    start = perf_counter()
    retriever = make(list(dataset.corpus.values()), ids=list(dataset.corpus), k=K)
    retriever.invoke("the first search")
    built = perf_counter()
    found = {query: [one.id for one in retriever.invoke(text)] for query, text in dataset.queries.items()}
    took = (perf_counter() - built) / len(found)
    quality = measure(dataset.qrels, found).ndcg_10
    print(ROW.format(name, f"{built - start:.2f} s", f"{1000 * took:.2f} ms", f"{quality:.3f}"))
    if isinstance(retriever, MilvusBM25Retriever):
        retriever.close()
    return found


if __name__ == "__main__":
    main()
