"""Who may import whom: the table of the design, read from the syntax trees, so that lazy imports count as well."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rag_bm25

ROOT = Path(__file__).resolve().parents[1]

# `document_encoder` without `statistics`: that ban is the idea of the package.
ALLOWED = {
    **dict.fromkeys(("errors", "events", "_version"), ""),
    **dict.fromkeys(("sparse", "terms", "parameters", "jsonl"), "errors"),
    **dict.fromkeys(("filters", "search_params", "query", "min_should_match"), "errors parameters"),
    **dict.fromkeys(("fields", "weightings"), "errors parameters"),
    "analysis": "errors parameters terms",
    "tls": "errors",
    "term_k1": "sparse weightings",
    "similarity": "errors fields parameters weightings",
    "token_numbers": "errors sparse",
    "document_encoder": "analysis fields similarity sparse terms token_numbers weightings",
    "statistics": "similarity sparse terms",
    "synonyms": "analysis errors parameters terms",
    "lookup": "errors terms",
    "spelling": "analysis lookup parameters terms",
    "expansion": "analysis errors lookup parameters query spelling synonyms terms",
    "query_encoder": "analysis expansion query similarity sparse statistics terms",
    "explanation": "document_encoder fields min_should_match query_encoder similarity sparse terms weightings",
    "feedback": "parameters query query_encoder similarity sparse statistics terms",
    "query_memo": "",
    "query_options": "chunks errors expansion feedback min_should_match parameters search_params similarity",
    "calibration": "errors similarity",
    "config": "analysis document_encoder errors fields parameters similarity store weightings",
    "store": "filters parameters search_params sparse",
    "chunks": "errors parameters store",
    "embeddings": "errors store",
    "fusion": "errors parameters",
    "ranking": "store",
    "hybrid": "chunks filters fusion ranking search_params sparse store",
    "portable": "errors statistics terms",
    "log_rows": "errors sparse statistics store terms",
    "damage": "statistics terms",
    "statistics_log": "damage errors events log_rows sparse statistics store terms",
    "source_roots": "errors log_rows store",
    "source_names": "errors source_roots",
    "chunk_writer": "chunks document_encoder errors log_rows statistics statistics_log store",
    "workers": "chunks config document_encoder errors parameters",
    "reencoding": "chunks document_encoder sparse statistics_log store term_k1 terms",
    "verification": "chunk_writer chunks damage document_encoder errors sparse statistics statistics_log store terms",
    "filling": "config errors sparse statistics statistics_log store terms",
    "copying": "damage errors filling source_roots statistics statistics_log store verification",
    "bulk": "analysis chunks config document_encoder embeddings errors fields filling parameters sparse statistics "
    "store terms workers",
    "milvus_store": "errors filters search_params sparse store tls",
    "index_stats": "config similarity statistics",
    "searcher": "analysis chunks config errors expansion feedback filters lookup min_should_match query query_encoder "
    "query_memo query_options ranking similarity sparse spelling statistics statistics_log store synonyms terms",
    "index": "analysis chunk_writer chunks config damage document_encoder embeddings errors events explanation fields "
    "filters fusion hybrid index_stats milvus_store parameters portable query query_options ranking reencoding "
    "search_params searcher source_roots sparse spelling statistics_log store terms tls verification weightings "
    "workers",
    "reindexing": "chunks errors index",
    "": "_version analysis chunks config errors events expansion explanation feedback fields fusion index index_stats "
    "query reencoding spelling synonyms tls verification",
}
CORE = set(ALLOWED)
EDGES = dict.fromkeys(("adapters", "langchain", "ingestion", "evaluation"), "")
EDGES |= {"cli": "adapters evaluation ingestion", "__main__": "cli"}
HOMES = {
    "milvus_store": "pymilvus milvus_lite grpc filelock tenacity",
    "analysis": "jieba rjieba Stemmer",
    "bulk": "pyarrow",
    "lookup": "rapidfuzz",
    "cli": "typer rich",
    "evaluation": "ir_measures matplotlib",
    "ingestion": "langchain_text_splitters",
    "langchain": "langchain_core pydantic",
    "adapters": "langchain_milvus llama_index scipy",
}
EVERYWHERE = {"rag_bm25", "numpy", "typing_extensions", *sys.stdlib_module_names}
PACKAGE = Path(rag_bm25.__file__).parent  # not the folder beside: the tests run on an installed package, too
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(name: str) -> str:
    return [*name.split("."), ""][1]


def imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE.parent)))
def test_module_imports_only_what_the_design_allows(path: Path) -> None:
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    part = part_of(module)
    assert part in CORE | EDGES.keys(), f"{module} is not in the table"
    ours = {part_of(name) for name in imports(path) if name.split(".")[0] == "rag_bm25"} - {part}
    assert ours <= (set(ALLOWED[part].split()) if part in CORE else CORE | set(EDGES[part].split()))
    others = (
        {name.split(".")[0] for name in imports(path)}
        - {"rag_bm25", "numpy", "typing_extensions"}
        - sys.stdlib_module_names
    )
    assert others <= set(HOMES.get(part, "").split())


def test_importing_the_package_loads_no_engine_no_dictionary_and_no_framework() -> None:
    heavy = sorted({name for names in HOMES.values() for name in names.split()})
    script = f"import sys, rag_bm25; print(*[name for name in {heavy} if name in sys.modules])"
    run = [sys.executable, "-W", "error", "-c", script]
    loaded = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    assert (loaded.stdout, loaded.stderr) == (b"\n", b"")
