"""Load a large corpus with Dask: every partition of a bag is a part, encoded wherever Dask runs it.

    python scripts/examples/bulk_dask.py corpus.jsonl --block 64 --folder /shared/parts --uri http://milvus:19530

Each line of the corpus is a JSON object with "text", and maybe "id" and "metadata". On a cluster the folder is one that
all machines share. Needs rag-bm25[lite,bulk] and dask[bag].
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import dask
    import dask.bag
except ImportError as error:
    raise SystemExit(f'this example needs Dask: pip install "dask[bag]" ({error})') from None

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.bulk import encode_part, load, merge
from rag_bm25.store.milvus import MilvusStore

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = IndexConfig(chunk_size=500)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load a corpus in bulk, by Dask.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("parts"), help="for the files; shared by all machines")
    parser.add_argument("--uri", default="./rag.db", help="a file, or the address of a Milvus server")
    parser.add_argument("--collection", default="docs")
    parser.add_argument("--block", type=float, default=64, help="of the corpus, in MiB, that is a partition")
    parser.add_argument("--scheduler", default="processes", help="or threads; distributed, after Client(address)")
    given = parser.parse_args(arguments)
    rows = dask.bag.read_text(str(given.corpus), blocksize=int(given.block * 2**20)).map(json.loads)
    jobs = [
        dask.delayed(encode_part)(partition, CONFIG, given.folder, part)
        for part, partition in enumerate(rows.to_delayed())
    ]
    for report in dask.compute(*jobs, scheduler=given.scheduler):
        print(f"part {report.part}: {report.num_chunks} chunks, {report.num_terms} terms")
    merge(given.folder, num_parts=len(jobs))
    with closing(MilvusStore(given.uri, given.collection)) as target:
        load(given.folder, target)
    with BM25Index.open(given.uri, given.collection) as index:
        print(f"{index.stats().num_chunks} chunks in the index; verified: {index.verify().ok}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
