"""Other packages, each fed as its manual shows and as users feed it who search Chinese."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

import bm25s
import jieba
import numpy as np
import Stemmer
from bm25s.tokenization import _infer_stopwords
from rank_bm25 import BM25Okapi

from rag_bm25.evaluation import BeirDataset
from rag_bm25.evaluation.running import Run

Tokens: TypeAlias = list[list[str]]

K = 100
ENGLISH = ("English", "Chinese", "mixed")  # what is not Chinese in these sets
METHODS = ("lucene", "bm25l", "bm25+")
RANK_BM25_QUERIES = 200  # it looks at every document for every term of a query
TANTIVY_HEAP = 256 << 20


def searches(dataset: BeirDataset, language: str, milvus_python: Path | None) -> dict[str, Callable[[], Run]]:
    """Return a function for each peer that searches for the queries."""
    found: dict[str, Callable[[], Run]] = {}
    latin = "english" if language in ENGLISH else language.lower()
    for kind, cut in {"its tokenizer": bm25s_tokens, "jieba": jieba_tokens, "bigrams": bigram_tokens}.items():
        tokenize = _remembering(partial(cut, latin))
        for method in METHODS:
            found[f"bm25s {method}, {kind}"] = partial(search_bm25s, dataset, tokenize, method)
        if kind == "jieba":
            found["rank_bm25, jieba"] = partial(search_rank_bm25, sample(dataset, RANK_BM25_QUERIES), tokenize)
            found["tantivy, jieba"] = partial(search_tantivy, dataset, tokenize)
    if milvus_python is not None:
        found["milvus-lite 3's BM25"] = partial(search_milvus, dataset, milvus_python)
    return found


def sample(dataset: BeirDataset, size: int) -> BeirDataset:
    """Take some queries at random, always the same."""
    chosen = set(Random(0).sample(sorted(dataset.queries), min(size, len(dataset.queries))))
    queries = {query: text for query, text in dataset.queries.items() if query in chosen}
    return BeirDataset(dataset.corpus, queries, {query: dataset.qrels[query] for query in queries})


# What they are fed


def _remembering(cut: Callable[[list[str]], Tokens]) -> Callable[[list[str]], Tokens]:
    """Return a tokenizer that keeps the tokens of the last two lists of texts: the corpus and the queries."""
    kept = lru_cache(maxsize=2)(lambda texts: cut(list(texts)))
    return lambda texts: kept(tuple(texts))


def bm25s_tokens(language: str, texts: list[str]) -> Tokens:
    """Cut texts as bm25s does, with its stop words and Snowball stems."""
    tokens: Tokens = bm25s.tokenize(
        texts, stopwords=language, stemmer=Stemmer.Stemmer(language), return_ids=False, show_progress=False
    )
    return tokens


def jieba_tokens(language: str, texts: list[str]) -> Tokens:
    """Cut texts by jieba's search mode; other words are stemmed, stop words dropped."""
    stemmer, stop_words = Stemmer.Stemmer(language), frozenset(_infer_stopwords(language))
    cut = ([word.lower() for word in jieba.lcut_for_search(text) if re.search(r"\w", word)] for text in texts)
    return [stemmer.stemWords([word for word in words if word not in stop_words]) for words in cut]


def bigram_tokens(language: str, texts: list[str]) -> Tokens:
    """Cut Chinese into bigrams of characters, and other text as bm25s does."""
    chinese = [re.findall(r"[\u4e00-\u9fff]+", text) for text in texts]
    others = bm25s_tokens(language, [re.sub(r"[\u4e00-\u9fff]+", " ", text) for text in texts])
    return [
        [one + other for run in runs for one, other in pairwise(run)] + words
        for runs, words in zip(chinese, others, strict=True)
    ]


# How they rank


def search_bm25s(dataset: BeirDataset, tokenize: Callable[[list[str]], Tokens], method: str) -> Run:
    index = bm25s.BM25(method=method)
    index.index(tokenize(list(dataset.corpus.values())), show_progress=False)
    queries = tokenize(list(dataset.queries.values()))
    places, scores = index.retrieve(queries, k=min(K, len(dataset.corpus)), show_progress=False)
    documents = list(dataset.corpus)
    return {
        query: {documents[at]: float(score) for at, score in zip(*found, strict=True)}
        for query, found in zip(dataset.queries, zip(places, scores, strict=True), strict=True)
    }


def search_rank_bm25(dataset: BeirDataset, tokenize: Callable[[list[str]], Tokens]) -> Run:
    index = BM25Okapi(tokenize(list(dataset.corpus.values())))
    documents = list(dataset.corpus)
    run: Run = {}
    for query, tokens in zip(dataset.queries, tokenize(list(dataset.queries.values())), strict=True):
        scores = index.get_scores(tokens)
        run[query] = {documents[at]: float(scores[at]) for at in np.argsort(scores)[::-1][:K]}
    return run


def search_tantivy(dataset: BeirDataset, tokenize: Callable[[list[str]], Tokens]) -> Run:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    schema.add_text_field("text", tokenizer_name="whitespace")
    index = tantivy.Index(schema.build())
    writer = index.writer(TANTIVY_HEAP)
    for document, tokens in zip(dataset.corpus, tokenize(list(dataset.corpus.values())), strict=True):
        writer.add_document(tantivy.Document(id=document, text=" ".join(tokens)))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(tokens: Sequence[str]) -> dict[str, float]:
        terms = [(tantivy.Occur.Should, tantivy.Query.term_query(index.schema, "text", term)) for term in tokens]
        hits = searcher.search(tantivy.Query.boolean_query(terms), K).hits
        return {searcher.doc(address)["id"][0]: score for score, address in hits}

    return dict(zip(dataset.queries, map(search, tokenize(list(dataset.queries.values()))), strict=True))


def search_milvus(dataset: BeirDataset, python: Path) -> Run:
    """Search in another environment, which has milvus-lite 3: it cannot share one with 2.5."""
    with tempfile.TemporaryDirectory() as folder:
        given, told = Path(folder) / "given.json", Path(folder) / "told.json"
        given.write_text(json.dumps({"corpus": dict(dataset.corpus), "queries": dict(dataset.queries)}))
        subprocess.run([python, Path(__file__).with_name("milvus_search.py"), given, told], check=True)
        run: Run = json.loads(told.read_text())
        return run
