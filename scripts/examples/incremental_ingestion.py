"""Bring an index up to date with a folder; to be run by a scheduler as often as you like.

::

    python scripts/examples/incremental_ingestion.py ./handbook --uri ./rag.db
    0 3 * * *  cd /srv/rag && python incremental_ingestion.py ./handbook --uri http://milvus:19530   # crontab

Unchanged chunks cost no write, changed ones are updated, and those whose text or file is gone are deleted. Nothing
else needs to be kept between two runs: not a list of what was ingested, and not the statistics, which are in Milvus. A
run that was cut short is finished by the next one. A folder that is empty or has lost many files, such as one that is
not mounted, is reported and deletes nothing; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.ingestion import ingest
from rag_bm25.ingestion.files import find_files

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bring an index up to date with a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--uri", default="./rag.db", help="a file, or the address of a Milvus server")
    parser.add_argument("--collection", default="docs")
    given = parser.parse_args(arguments)
    with BM25Index.open(given.uri, given.collection, config=IndexConfig(chunk_size=500)) as index:
        report = ingest(index, find_files([given.folder]), prune=True)
        chunks = index.stats().num_chunks
    print(f"{report.files} files: {report.added} chunks added, {report.deleted} deleted, {chunks} in the index")
    for reason in (*report.failed.values(), *report.reasons):
        print(reason, file=sys.stderr)
    return 1 if report.failed or report.rejected else 0


if __name__ == "__main__":
    sys.exit(main())
