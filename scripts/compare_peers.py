"""Compare our configurations with bm25s and rank_bm25 on judged sets: one run, one table.

::

    pip install 'rag-bm25[fast,eval]' bm25s rank-bm25
    python scripts/compare_peers.py path/to/scifact path/to/cmrc2018 --peers peers.json

Every system has its own defaults: k1 1.5 and b 0.75 in all three. Ours are computed on counts, which gives the scores
of an index; their chunk size is the corpus mean. The peers are fed twice: as their manuals show it (bm25s: its own
tokenizer with English stop words and PyStemmer; rank_bm25: lower case, split at spaces), and as those feed them who
search Chinese: jieba's search mode, lower case, English stop words dropped and English words stemmed.

nDCG@10. The last rows compare the recommended configuration with whichever peer is best on the set, chosen after the
fact, by a paired randomisation test over the queries. rank_bm25 looks at every document for every query term: with
--rank-bm25-queries N it gets N random queries (seed 0) only, and takes no part in the choice of the best peer. What
peers measured is kept in the file --peers, and read from it the next time; ours is always computed anew.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from rag_bm25.weighting.idf import IDF_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rag_bm25.evaluation import Run
    from rag_bm25.index.settings import Value

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
    parser.add_argument("datasets", type=Path, nargs="+", help="folders in BEIR format")
    parser.add_argument(
        "--rank-bm25-queries", type=int, metavar="N", help="how many queries rank_bm25 gets; default all"
    )
    parser.add_argument("--peers", type=Path, help="a JSON file to keep what the peers measured in")
    given = parser.parse_args()
    kept = json.loads(given.peers.read_text()) if given.peers and given.peers.exists() else {}
    columns = {}
    for folder in given.datasets:
        name = folder.resolve().name
        columns[name] = compared(name, load_beir(folder), kept.setdefault(name, {}), given.rank_bm25_queries)
        if given.peers:
            given.peers.write_text(json.dumps(kept))
    print("\n".join(table(columns)))


def compared(
    name: str, dataset: BeirDataset, kept: dict[str, list[float]], rank_bm25_queries: int | None
) -> dict[str, Values]:
    """Return nDCG@10 of each query by system; values of peers are cached in `kept`."""
    column: dict[str, Values] = {}
    for row, values in our_values(dataset):
        column[row] = values
        note(name, row, values)
    for row, measured in peers(dataset, rank_bm25_queries).items():
        if row not in kept:
            kept[row] = measured().tolist()
        column[row] = np.array(kept[row])
        note(name, row, column[row])
    return column


def note(name: str, row: str, values: Values) -> None:
    print(f"{name}: {row}: {values.mean():.4f}", file=sys.stderr, flush=True)


def ndcg(dataset: BeirDataset, run: Run) -> Values:
    return measure_queries(dataset.qrels, run).values["ndcg@10"]


def our_values(dataset: BeirDataset) -> Iterator[tuple[str, Values]]:
    cache = CountsCache(dataset.corpus)
    for row, settings in OURS.items():
        config = with_settings(IndexConfig(1), settings)
        size = cache.counts(config).mean_length(config.length_unit)
        yield row, ndcg(dataset, cache.scorer(replace(config, chunk_size=size)).search_queries(dataset.queries))


def peers(dataset: BeirDataset, rank_bm25_queries: int | None) -> dict[str, Callable[[], Values]]:
    """Return a function for each peer that measures it."""
    measured: dict[str, Callable[[], Values]] = {}
    for kind, tokenize in {"own tokenizer": bm25s_tokens, "jieba": jieba_tokens}.items():
        for method in METHODS:
            measured[f"bm25s {method}, {kind}"] = partial(bm25s_values, dataset, tokenize, method)
    some = dataset if rank_bm25_queries is None else sample(dataset, rank_bm25_queries)
    limit = "" if some is dataset else f" ({len(some.queries)} queries)"
    for kind, tokenize in {"split at spaces": split_tokens, "jieba": jieba_tokens}.items():
        measured[f"rank_bm25 Okapi, {kind}{limit}"] = partial(rank_bm25_values, some, tokenize)
    return measured


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


def bm25s_values(dataset: BeirDataset, tokenize: Tokenizer, method: str) -> Values:
    index = bm25s.BM25(method=method)
    index.index(tokenize(list(dataset.corpus.values())), show_progress=False)
    queries = tokenize(list(dataset.queries.values()))
    places, scores = index.retrieve(queries, k=min(K, len(dataset.corpus)), show_progress=False)
    documents = list(dataset.corpus)
    hits = zip(dataset.queries, zip(places, scores, strict=True), strict=True)
    return ndcg(
        dataset,
        {query: {documents[place]: float(score) for place, score in zip(*found, strict=True)} for query, found in hits},
    )


def rank_bm25_values(dataset: BeirDataset, tokenize: Tokenizer) -> Values:
    index = BM25Okapi(tokenize(list(dataset.corpus.values())))
    documents = list(dataset.corpus)
    run: Run = {}
    for query, tokens in zip(dataset.queries, tokenize(list(dataset.queries.values())), strict=True):
        scores = index.get_scores(tokens)
        run[query] = {documents[place]: float(scores[place]) for place in np.argsort(scores)[::-1][:K]}
    return ndcg(dataset, run)


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
