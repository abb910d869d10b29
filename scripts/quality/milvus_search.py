"""Search by Milvus's own BM25: a program for an environment with milvus-lite 3, which imports nothing of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

K = 100
BATCH = 500
MAX_BYTES = 65_000
COLLECTION = "quality"
FILTERS = ["lowercase", {"type": "stop", "stop_words": ["_english_"]}, {"type": "stemmer", "language": "english"}]


def main(given: Path, told: Path) -> None:
    """Search by the BM25 function of the engine that this environment has."""
    dataset = json.loads(given.read_text())
    client = _fill_milvus(given.with_suffix(".db"), dataset["corpus"])
    run = {}
    for query, text in dataset["queries"].items():
        hits: list[Any] = client.search(COLLECTION, [text], anns_field="sparse", limit=K, output_fields=["name"])[0]
        run[query] = {hit["entity"]["name"]: hit["distance"] for hit in hits}
    told.write_text(json.dumps(run))


def _fill_milvus(file: Path, corpus: dict[str, str]) -> Any:
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    client = MilvusClient(str(file))
    schema = client.create_schema(auto_id=True)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("name", DataType.VARCHAR, max_length=512)
    chinese = any("\u4e00" <= char <= "\u9fff" for char in "".join(corpus.values()))
    analyzer = {"tokenizer": "jieba" if chinese else "standard", "filter": FILTERS}
    text = {"max_length": MAX_BYTES, "enable_analyzer": True, "analyzer_params": analyzer}
    schema.add_field("text", DataType.VARCHAR, **text)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["sparse"]))
    index = client.prepare_index_params()
    params = {"bm25_k1": 1.5, "bm25_b": 0.75}
    index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=params)
    client.create_collection(COLLECTION, schema=schema, index_params=index)
    rows = [{"name": name, "text": text} for name, text in corpus.items()]
    for start in range(0, len(rows), BATCH):
        client.insert(COLLECTION, rows[start : start + BATCH])
    client.flush(COLLECTION)
    return client


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
