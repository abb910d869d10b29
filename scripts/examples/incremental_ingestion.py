"""Bring an index up to date with a folder; to be run by a scheduler as often as you like.

::

    python scripts/examples/incremental_ingestion.py ./handbook
    0 3 * * *  . /srv/rag/milvus.env && python /srv/rag/incremental_ingestion.py /srv/handbook   # crontab

The variables MILVUS_URI, MILVUS_TOKEN and MILVUS_TLS_CA name a server, its token and the authority of its certificate,
as for the command ``rag-bm25``; here, `milvus.env` exports them. Without them, the index is in ./rag.db.

Unchanged chunks cost no write, changed ones are updated, and those whose text or file is gone are deleted. Nothing
else needs to be kept between two runs: not a list of what was ingested, and not the statistics, which are in Milvus. A
run that was cut short is finished by the next one. A folder that is empty or has lost many files, such as one that is
not mounted, is reported and deletes nothing; the exit code is 1 then, and an error is a line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_bm25 import TLS, BM25Index, IndexConfig, RagBM25Error
from rag_bm25.ingestion import ingest
from rag_bm25.ingestion.files import find_files


def open_index(uri: str, collection: str, chunk_size: int) -> BM25Index:
    """Open the index, or create it; with certificates where the address asks for them."""
    authority = os.environ.get("MILVUS_TLS_CA")
    tls = TLS(ca_file=authority) if authority and uri.startswith("https://") else None
    config = IndexConfig(chunk_size=chunk_size)
    return BM25Index.open(uri, collection, config=config, token=os.environ.get("MILVUS_TOKEN"), tls=tls)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bring an index up to date with a folder.")
    parser.add_argument("folder", type=Path)
    uri = os.environ.get("MILVUS_URI", "./rag.db")
    parser.add_argument("--uri", default=uri, help="a file, or the address of a Milvus server")
    parser.add_argument("--collection", default="docs")
    parser.add_argument("--chunk-size", type=int, default=500)
    given = parser.parse_args(arguments)
    try:
        found = find_files([given.folder])
        with open_index(given.uri, given.collection, given.chunk_size) as index:
            report = ingest(index, found, prune=True)
            chunks = index.stats().num_chunks
    except (RagBM25Error, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{report.files} files: {report.added} chunks added, {report.deleted} deleted, {chunks} in the index")
    for reason in (*report.failed.values(), *report.reasons):
        print(reason, file=sys.stderr)
    return 1 if report.failed or report.rejected else 0


if __name__ == "__main__":
    sys.exit(main())
