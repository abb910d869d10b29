"""LangChain's BM25Retriever beside ours: what a program gains and loses that changes its import.

    python scripts/quality/coming_over.py SET...

Each set is a folder in BEIR format. It needs langchain-community, which nothing else here does. All indexes are in
memory, and times are CPU times of this process, which another program on the machine disturbs least: compare them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from langchain_community.retrievers import BM25Retriever

from rag_bm25.evaluation import BeirDataset, load_beir, measure
from rag_bm25.langchain import MilvusBM25Retriever

K = 10
ROW = "{:<16} {:>8} {:>9} {:>8}"


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        dataset = load_beir(folder)
        print(f"{folder.name}: {len(dataset.corpus):,} texts, {len(dataset.queries):,} queries")
        print(ROW.format("", "build", "a query", "nDCG@10"))
        compare(dataset)


def compare(dataset: BeirDataset) -> None:
    """Print a row for each retriever, and how many queries have the ranking of BM25Retriever."""
    ours = MilvusBM25Retriever.from_texts
    theirs = use("BM25Retriever", BM25Retriever.from_texts, dataset)
    same = use("ours, str.split", partial(ours, preprocess_func=str.split), dataset)
    use("ours", ours, dataset)
    # BM25Retriever also returns texts that share no word with the query, up to k.
    equal = sum(found[: len(same[query])] == same[query] for query, found in theirs.items())
    print(f"the same ranking: {equal:,} of {len(theirs):,} queries\n")


def use(name: str, make: Callable[..., Any], dataset: BeirDataset) -> dict[str, list[str]]:
    """Build a retriever and search for all queries; print the times, and the quality."""
    start = process_time()
    retriever = make(list(dataset.corpus.values()), ids=list(dataset.corpus), k=K)
    retriever.invoke("the first search")
    built = process_time()
    found = {query: [one.id for one in retriever.invoke(text)] for query, text in dataset.queries.items()}
    took = (process_time() - built) / len(found)
    quality = measure(dataset.qrels, found).ndcg_10
    print(ROW.format(name, f"{built - start:.2f} s", f"{1000 * took:.2f} ms", f"{quality:.3f}"))
    return found


if __name__ == "__main__":
    main()
