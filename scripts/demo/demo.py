"""Ingest the demo corpus, answer three questions, explain one score, and measure.

::

    python scripts/demo/demo.py                # leaves nothing behind
    python scripts/demo/demo.py --keep demo.db # leaves an index to play with
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from rag_bm25 import Analyzer, BM25Index, IndexConfig
from rag_bm25.evaluation import load_beir, measure
from rag_bm25.evaluation.running import search_queries

CORPUS = Path(__file__).resolve().parent / "corpus"
QUESTIONS = {
    "Chinese": "固件升级提示校验错误 0x17",
    "Traditional Chinese, answered in simplified": "公寓裡可以養寵物嗎，例如貓",
    "English": "flying with the battery in checked baggage",
}
SENTENCE = re.compile(r".+?(?:[。！？；]|[.!?]\s|$)")
ANALYZER = Analyzer()
LANGUAGES = {"zh": "simplified", "hant": "traditional", "en": "English"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo in a temporary folder, or in a file to keep."""
    parser = argparse.ArgumentParser(description="Ingest the demo corpus, answer three questions, and measure.")
    parser.add_argument("--keep", metavar="FILE", type=Path, help="leave the index in this file, such as demo.db")
    kept = parser.parse_args(arguments).keep
    with tempfile.TemporaryDirectory(prefix="rag-bm25-demo-") as folder:
        run(kept or Path(folder, "demo.db"))
    say_what_next(kept)


def run(file: Path) -> None:
    with BM25Index.open(file, "demo", config=IndexConfig(chunk_size=300)) as index:
        ingest(index)
        for language, question in QUESTIONS.items():
            answer(index, language, question)
        explain(index, QUESTIONS["English"])
        evaluate(index)


def ingest(index: BM25Index) -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in (CORPUS / "corpus.jsonl").open(encoding="utf-8")]
    start = time.perf_counter()
    index.add(
        [f"{row['title']} {row['text']}" for row in rows],
        ids=[row["_id"] for row in rows],
        metadatas=[row["metadata"] for row in rows],
    )
    seconds = time.perf_counter() - start
    stats = index.stats()
    heading("Ingested")
    print(f"{stats.num_chunks:,} chunks in {seconds:.1f} s, {stats.num_terms:,} terms, into {stats.name}")


def answer(index: BM25Index, language: str, question: str) -> None:
    heading(f"{question}   {dim(f'({language})')}")
    for hit in index.search(question, k=2):
        print(f"{hit.score:7.4f}  {hit.id}")
        print(f"         {dim(shortened(best_sentence(hit.text, question), 100))}")


def explain(index: BM25Index, question: str) -> None:
    """Show what each term contributes to the top hit, and the formulas of the first one."""
    (best,) = index.search(question, k=1)
    explained = index.explain(question, best.id)
    heading(f"Why {best.score:.4f} for {best.id}?")
    print(explained)
    print(dim(explained.details[0].tree))


def evaluate(index: BM25Index) -> None:
    """Measure all questions, and those of each language."""
    dataset = load_beir(CORPUS)
    ranking = search_queries(index, dataset.queries)
    heading(f"Measured on {len(dataset.queries)} judged questions")
    print(f"nDCG@10  {measure(dataset.qrels, ranking).ndcg_10:.3f}")
    for prefix, language in LANGUAGES.items():
        some = {query: grades for query, grades in dataset.qrels.items() if query.startswith(f"{prefix}-")}
        print(f"         {measure(some, ranking).ndcg_10:.3f}  {language}, {len(some)} questions")


def say_what_next(kept: Path | None) -> None:
    heading("Try next, after . .venv/bin/activate")
    if kept:
        print(f"rag-bm25 search '充电器 召回' --uri {kept} --collection demo --explain")
    print("rag-bm25 ingest scripts/demo/documents        # or a folder of your own")
    print("rag-bm25 search 'E-42 torque sensor' -k 3")
    print("rag-bm25 stats")
    print("rag-bm25 evaluate scripts/demo/corpus --compare idf=lucene")


def heading(text: str) -> None:
    print(f"\n{styled('1', text)}")


def best_sentence(text: str, question: str) -> str:
    """Return the sentence with most terms of the question."""
    terms = set(ANALYZER(question))
    return max(SENTENCE.findall(text), key=lambda sentence: len(terms.intersection(ANALYZER(sentence)))).strip()


def shortened(text: str, columns: int) -> str:
    """Cut a text to what fits; Chinese characters take two columns each."""
    taken = accumulate(2 if east_asian_width(character) in "WF" else 1 for character in text)
    fitting = sum(end < columns for end in taken)
    return text if fitting == len(text) else f"{text[:fitting]}…"


def dim(text: str) -> str:
    return styled("2", text)


def styled(code: str, text: str) -> str:
    """Style a text, on terminals only."""
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


if __name__ == "__main__":
    main()
