"""Compare our configurations with bm25s and rank_bm25 on judged sets: one run, one table.

::

    pip install 'rag-bm25[fast,eval]' bm25s rank-bm25
    python scripts/compare_peers.py path/to/scifact path/to/cmrc2018 --json peers.json

Every system has its own defaults: k1 1.5 and b 0.75 in all three. Ours are computed on counts, which gives the scores
of an index; their chunk size is the corpus mean. The peers are fed twice: as their manuals show it (bm25s: its own
tokenizer with English stop words and PyStemmer; rank_bm25: lower case, split at spaces), and as those feed them who
search Chinese: jieba's search mode, lower case, English stop words dropped and English words stemmed.

nDCG@10. The last rows compare the recommended configuration with whichever peer is best on the set, chosen after the
fact, by a paired randomisation test over the queries. rank_bm25 looks at every document for every query term: with
--rank-bm25-queries N it gets N random queries (seed 0) only, and takes no part in the choice of the best peer.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import bm25s
import jieba
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN
from rank_bm25 import BM25Okapi

from rag_bm25 import IndexConfig
from rag_bm25.evaluation import BeirDataset, CountsCache, load_beir, measure_queries, paired_test, with_settings
from rag_bm25.similarity import IDF_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rag_bm25.evaluation import Run
    from rag_bm25.evaluation.settings import Value

Tokens: TypeAlias = list[list[str]]
Tokenizer: TypeAlias = Callable[[list[str]], Tokens]
Values: TypeAlias = "NDArray[np.float64]"

K = 100
RECOMMENDED = "ours: words and bigrams (default)"
OURS: dict[str, dict[str, Value]] = {
    "ours: words": {"bigrams": False},
    RECOMMENDED: {},
    **{f"ours: words and bigrams, idf {name}": {"idf": name} for name in IDF_NAMES if name != IndexConfig(1).idf},
    **{f"ours: words and bigrams, {name}": {"weighting": name} for name in ("bm25l", "bm25+")},
}
METHODS = ("lucene", "bm25l", "bm25+")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare our configurations with bm25s and rank_bm25.")
    parser.add_argument("datasets", type=Path, nargs="+", help="folders in BEIR form")
    parser.add_argument(
        "--rank-bm25-queries", type=int, metavar="N", help="how many queries rank_bm25 gets; default all"
    )
    parser.add_argument("--json", type=Path, help="write the values of every query here, too")
    given = parser.parse_args()
    columns = {folder.resolve().name: compared(folder, given.rank_bm25_queries) for folder in given.datasets}
    if given.json:
        plain = {name: {row: list(values) for row, values in column.items()} for name, column in columns.items()}
        given.json.write_text(json.dumps(plain))
    print("\n".join(table(columns)))


def compared(folder: Path, rank_bm25_queries: int | None) -> dict[str, Values]:
    """Return nDCG@10 of each query for each system."""
    dataset = load_beir(folder)
    column: dict[str, Values] = {}
    for name, judged, run in systems(dataset, rank_bm25_queries):
        column[name] = measure_queries(judged.qrels, run).values["ndcg@10"]
        print(f"{folder.name}: {name}: {column[name].mean():.4f}", file=sys.stderr, flush=True)
    return column


def systems(dataset: BeirDataset, rank_bm25_queries: int | None) -> Iterator[tuple[str, BeirDataset, Run]]:
    """Yield each system with the queries that it got, and its rankings."""
    cache = CountsCache(dataset.corpus)
    for name, settings in OURS.items():
        config = with_settings(IndexConfig(1), settings)
        size = cache.counts(config).mean_length(config.length_unit)
        yield name, dataset, cache.scorer(replace(config, chunk_size=size)).search_queries(dataset.queries)
    for kind, tokenize in {"own tokenizer": bm25s_tokens, "jieba": jieba_tokens}.items():
        corpus, queries = tokenize(list(dataset.corpus.values())), tokenize(list(dataset.queries.values()))
        for method in METHODS:
            yield f"bm25s {method}, {kind}", dataset, bm25s_run(dataset, corpus, queries, method)
    some = dataset if rank_bm25_queries is None else sample(dataset, rank_bm25_queries)
    note = "" if some is dataset else f" ({len(some.queries)} queries)"
    for kind, tokenize in {"split at spaces": split_tokens, "jieba": jieba_tokens}.items():
        yield f"rank_bm25 Okapi, {kind}{note}", some, rank_bm25_run(some, tokenize)


def sample(dataset: BeirDataset, size: int) -> BeirDataset:
    chosen = set(Random(0).sample(sorted(dataset.queries), min(size, len(dataset.queries))))
    queries = {query: text for query, text in dataset.queries.items() if query in chosen}
    return BeirDataset(dataset.corpus, queries, {query: dataset.qrels[query] for query in queries})


# What the peers are fed


def bm25s_tokens(texts: list[str]) -> Tokens:
    tokens: Tokens = bm25s.tokenize(
        texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
    )
    return tokens


def split_tokens(texts: list[str]) -> Tokens:
    return [text.lower().split() for text in texts]


def jieba_tokens(texts: list[str]) -> Tokens:
    stemmer, stop_words = Stemmer.Stemmer("english"), frozenset(STOPWORDS_EN)
    cut = ([word.lower() for word in jieba.lcut_for_search(text) if re.search(r"\w", word)] for text in texts)
    return [stemmer.stemWords([word for word in words if word not in stop_words]) for words in cut]


# How the peers rank


def bm25s_run(dataset: BeirDataset, corpus: Tokens, queries: Tokens, method: str) -> Run:
    index = bm25s.BM25(method=method)
    index.index(corpus, show_progress=False)
    k = min(K, len(corpus))
    places, scores = index.retrieve(queries, k=k, show_progress=False)
    documents = list(dataset.corpus)
    return {
        query: {documents[place]: float(score) for place, score in zip(*hits, strict=True)}
        for query, hits in zip(dataset.queries, zip(places, scores, strict=True), strict=True)
    }


def rank_bm25_run(dataset: BeirDataset, tokenize: Tokenizer) -> Run:
    index = BM25Okapi(tokenize(list(dataset.corpus.values())))
    documents = list(dataset.corpus)
    run: Run = {}
    for query, tokens in zip(dataset.queries, tokenize(list(dataset.queries.values())), strict=True):
        scores = index.get_scores(tokens)
        run[query] = {documents[place]: float(scores[place]) for place in np.argsort(scores)[::-1][:K]}
    return run


# The table


def table(columns: dict[str, dict[str, Values]]) -> Iterator[str]:
    yield f"| nDCG@10 | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    best = {name: max(values.mean() for values in column.values()) for name, column in columns.items()}
    for row in next(iter(columns.values())):
        means = {name: column[row].mean() for name, column in columns.items()}
        cells = (f"**{mean:.4f}**" if mean == best[name] else f"{mean:.4f}" for name, mean in means.items())
        yield f"| {row} | {' | '.join(cells)} |"
    against = {name: against_best_peer(column) for name, column in columns.items()}
    for place, row in enumerate(("best peer", "recommended minus best peer", "p", "queries better / worse")):
        yield f"| {row} | {' | '.join(cells[place] for cells in against.values())} |"


def against_best_peer(column: dict[str, Values]) -> tuple[str, str, str, str]:
    ours = column[RECOMMENDED]
    peers = {
        name: values for name, values in column.items() if not name.startswith("ours") and len(values) == len(ours)
    }
    best = max(peers, key=lambda name: float(peers[name].mean()))
    test = paired_test(peers[best], ours)
    p_value = f"{test.p_value:.4f}" if test.p_value >= 0.001 else "< 0.001"
    return best, f"{test.difference:+.4f}", p_value, f"{test.better} / {test.worse}"


if __name__ == "__main__":
    main()
