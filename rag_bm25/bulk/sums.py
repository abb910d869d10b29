"""Write and read the merged vocabulary and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.bulk.files import DataFile, arrow, describe_file, parquet, read_columns, write_atomically
from rag_bm25.errors import FormatError
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.vectors.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

VOCABULARY, COUNTS = "vocabulary.parquet", "statistics.parquet"


@dataclass(frozen=True)
class SumFiles:
    """Files of the sums over all parts."""

    vocabulary: DataFile  # terms and ids, in order of first occurrence
    counts: DataFile  # id and df of each term, namespace after namespace
    namespaces: list[dict[str, Any]]  # name, chunks, length, terms (rows in `counts`)


def write_sums(folder: Path, totals: Mapping[str, Contribution], vocabulary: Vocabulary) -> SumFiles:
    terms = arrow().array(list(vocabulary), arrow().string())
    term_ids = np.fromiter(vocabulary.ids, np.uint32, len(vocabulary))
    ids = np.concatenate([np.empty(0, np.uint32), *(total.ids for total in totals.values())])
    df = np.concatenate([np.empty(0, np.int64), *(total.df for total in totals.values())])
    return SumFiles(
        _write(folder / VOCABULARY, {"term": terms, "id": term_ids}),
        _write(folder / COUNTS, {"id": ids, "df": df}),
        [
            {"name": name, "chunks": total.num_chunks, "length": total.total_length, "terms": len(total.ids)}
            for name, total in totals.items()
        ],
    )


def read_sums(folder: Path, files: SumFiles) -> tuple[dict[str, Contribution], Vocabulary]:
    known, counts = read_columns(folder / files.vocabulary.name), read_columns(folder / files.counts.name)
    vocabulary = Vocabulary()
    vocabulary.add(dict(zip(known["term"].to_pylist(), known["id"].to_pylist(), strict=True)))
    ids, df = counts["id"].to_numpy(), counts["df"].to_numpy()
    ends = np.cumsum([namespace["terms"] for namespace in files.namespaces], dtype=np.int64)
    if int(ends[-1] if len(ends) else 0) != len(ids):
        raise FormatError(f"{folder / files.counts.name} does not fit the list of namespaces: merge the parts again")
    spans = [slice(end - namespace["terms"], end) for namespace, end in zip(files.namespaces, ends, strict=True)]
    totals = {
        namespace["name"]: Contribution(namespace["chunks"], namespace["length"], ids[span], df[span])
        for namespace, span in zip(files.namespaces, spans, strict=True)
    }
    return totals, vocabulary


def _write(path: Path, columns: Mapping[str, Any]) -> DataFile:
    with write_atomically(path) as begun:
        table = arrow().table(dict(columns))
        parquet().write_table(table, begun, use_dictionary=False, compression="zstd")
        return describe_file(begun, len(table), path.name)
