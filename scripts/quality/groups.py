"""Several indexes as one, beside what else merges their rankings.

    python scripts/quality/groups.py [--parts N ...] SET...

Each set is a folder in BEIR format, and is cut by chance and by subject: each chunk goes where the chunk is that is
most like it, of one in each part. Of each way to merge, it prints how many of the ten best of one index are among its
ten best, and in how many queries all are in the same order; then CPU times of this process as ratios to one index. All
indexes are in memory.
"""

from __future__ import annotations

import random
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

from rag_bm25 import BM25Index, Hit, IndexConfig, IndexGroup
from rag_bm25.evaluation import BeirDataset, load_beir

K = 10
RRF = 60
ROW = "  {:<34} {:>8} {:>8}"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--parts", nargs="+", type=int, default=[2, 10, 100])
    parser.add_argument("--queries", type=int, default=300)
    given = parser.parse_args()
    for folder in given.sets:
        dataset = load_beir(folder)
        one = stored(dataset, list(dataset.corpus))
        print(f"{folder.name}: {len(dataset.corpus):,} chunks, {one.stats().num_terms:,} terms")
        for number in given.parts:
            for how, cut in (("chance", cut_by_chance), ("subject", cut_by_subject)):
                print(f" {number} parts by {how}")
                parts = [stored(dataset, ids) for ids in cut(dataset, one, number)]
                compare(list(dataset.queries.values())[: given.queries], one, parts)


def stored(dataset: BeirDataset, ids: Sequence[str]) -> BM25Index:
    index = BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=1000))
    index.add([dataset.corpus[id_] for id_ in ids], ids=ids)
    return index


def cut_by_chance(dataset: BeirDataset, _: BM25Index, number: int) -> list[list[str]]:
    ids = random.Random(number).sample(list(dataset.corpus), len(dataset.corpus))
    return [ids[at::number] for at in range(number)]


def cut_by_subject(dataset: BeirDataset, one: BM25Index, number: int) -> list[list[str]]:
    centres = random.Random(number).sample(list(dataset.corpus.values()), number)
    queries = one.encode_queries(centres)
    parts: list[list[str]] = [[] for _ in queries]
    for id_, vector in zip(dataset.corpus, one.encode_documents(list(dataset.corpus.values())), strict=True):
        parts[max(range(number), key=lambda at: queries[at].dot(vector))].append(id_)
    return [ids for ids in parts if ids]


def compare(queries: Sequence[str], one: BM25Index, parts: Sequence[BM25Index]) -> None:
    group, created = timed(lambda: merged(parts))
    group.search(queries[0])
    expected, alone = timed(lambda: [one.search(query, K) for query in queries])
    found, together = timed(lambda: [group.search(query, K) for query in queries])
    per_part = list(zip(*(part.search_batch(queries, K) for part in parts), strict=True))
    print(ROW.format("", "kept", "equal"))
    show("group", expected, found)
    show("scores of the parts, merged", expected, [by_score(some) for some in per_part])
    show("reciprocal ranks of the parts (RRF)", expected, [by_rank(some) for some in per_part])
    scores = [(hit.id, hit.score) for hits in expected for hit in hits]
    exact = scores == [(hit.id, hit.score) for hits in found for hit in hits]
    parts[0].add(["one more word"], ids=["new"])
    _, again = timed(lambda: group.term_statistics("word"))
    search = alone / len(queries)
    print(f"  to the last bit: {'yes' if exact else 'no'}; a search: {together / alone:.1f} of one index's; the first")
    print(f"  merge: {created / search:,.0f} searches; after a write: {again / search:.2f} searches")
    sys.stdout.flush()


def merged(parts: Sequence[BM25Index]) -> IndexGroup:
    """Make a group, and merge its statistics."""
    group = IndexGroup(parts)
    group.term_statistics("word")
    return group


def timed(work: Callable[[], object]) -> tuple[object, float]:
    start = process_time()
    return work(), process_time() - start


def show(name: str, expected: Sequence[list[Hit]], found: Sequence[list[Hit]]) -> None:
    pairs = [([hit.id for hit in one], [hit.id for hit in other]) for one, other in zip(expected, found, strict=True)]
    kept = sum(len({*one} & {*other}) for one, other in pairs) / sum(len(one) for one, _ in pairs)
    equal = sum(one == other for one, other in pairs)
    print(ROW.format(name, f"{kept:.3f}", f"{equal}/{len(pairs)}"))


def by_score(rankings: Sequence[list[Hit]]) -> list[Hit]:
    return sorted((hit for hits in rankings for hit in hits), key=lambda hit: (-hit.score, hit.id))[:K]


def by_rank(rankings: Sequence[list[Hit]]) -> list[Hit]:
    sums: defaultdict[str, float] = defaultdict(float)
    hits = {hit.id: hit for some in rankings for hit in some}
    for some in rankings:
        for rank, hit in enumerate(some, 1):
            sums[hit.id] += 1 / (RRF + rank)
    return sorted(hits.values(), key=lambda hit: (-sums[hit.id], hit.id))[:K]


if __name__ == "__main__":
    main()
