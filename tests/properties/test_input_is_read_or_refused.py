"""Property: files and JSON from outside are read if they are sound, and refused by an error of ours if not.

A file is a sound one with some of it changed, or any bytes.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import damaged, json_values, mostly, mutated, scalars, texts
from support.reference import split

from rag_bm25 import AnalyzerConfig, IndexConfig
from rag_bm25.analysis.contract import contract_of
from rag_bm25.documents.checks import check_chunks, check_ids, check_namespace
from rag_bm25.errors import RagBM25Error
from rag_bm25.evaluation import load_beir
from rag_bm25.filters import parse_filter
from rag_bm25.index.settings import read_setting, with_settings
from rag_bm25.index.stored_config import config_from_dict, config_to_dict, dense_field_of
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.reading import read_file
from rag_bm25.ingestion.splitting import splitter
from rag_bm25.query.synonyms import Synonyms, SynonymTable
from rag_bm25.store.milvus.address import database_path, is_address, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw: TypeAlias = Callable[[st.SearchStrategy], Any]

WORDS = [
    *("_id", "id", "text", "title", "metadata", "source", "", "a", "法律", "\ud800", "\0", "\n", "\u2028", "a b", "q1"),
    *("analyzer", "settings", "probes", "k1", "b", "epsilon", "fields", "weight", "chunk_size", "dense_dim", "delta"),
    *("stop_words", "user_words", "segmentation", "search", "name", "callable", "rag_bm25", "bm25l", "__class__"),
]
LINES = [
    *("a, b", "a => b", "a, b^0.5", "^", "|", "=>", ",", "，", "\\,", "#", "\n", "\r", " ", "NBA", "合同", "0.5", "2"),
    *("nan", "1e400", "-1", "\\", "\ufeff", "\x85", "\udfff"),
]
URI = [
    *("http://", "https://", "tcp://", "unix:", "user:", "p%40ss@", "[::1]", ":19530", ":99999", "..", "rag.db", ".db"),
    *("[", "]", "/", ".", "\0", "?", "#", "@", "x" * 300, "é", "\udc80", "\n", "\u2100"),
]
SETTINGS = [
    *("k1", "b", "=", ",", "0.9", "none", "true", "fields", "title", ":", "+", "chunk_size", "stem", "idf", "lucene"),
    *("1e400", "nan", "9" * 400, "-", "weighting", "delta", "stop_words", "user_words", "stop-words", "_"),
]
SCALARS = scalars(WORDS)


def _write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _lines(draw: Draw, row: dict[str, Any]) -> bytes:
    """Draw JSON lines, most of them sound."""
    rows = [draw(mutated({**row, "_id": str(number)}, WORDS)) for number in range(draw(st.integers(1, 4)))]
    lines = [json.dumps(row, ensure_ascii=False, default=str).encode(errors="surrogatepass") for row in rows]
    deep = draw(mostly(st.just([]), st.just([b'{"text":' + b"[" * 100_000]), 50))
    return _sometimes_damaged(draw, b"\n".join([*lines, *deep]))


def _sometimes_damaged(draw: Draw, data: bytes) -> bytes:
    return draw(mostly(st.just(data), damaged(data), 3))


def ingestion(draw: Draw, folder: Path) -> None:
    if draw(st.booleans()):
        row = {"text": "apple 合同. " * 9, "title": "t", "metadata": {"source": "s", "n": 1}}
        path = _write(folder, "rows.jsonl", _lines(draw, row))
    else:
        path = _write(folder, "text.md", draw(st.binary(max_size=400)))
    cut = splitter(IndexConfig(chunk_size=30))
    for piece in read_file(find_files([path]).files[0], cut):
        check_chunks([piece.text], [piece.id], [piece.metadata])


def synonyms(draw: Draw, folder: Path) -> None:
    lines = texts(LINES, 12).map(lambda text: text.encode(errors="surrogatepass"))
    path = _write(folder, "synonyms.txt", draw(lines | st.binary(max_size=200)))
    list(SynonymTable(Synonyms.read(path), split).matches(["a", "b", "NBA"]))


def judged_set(draw: Draw, folder: Path) -> None:
    _write(folder, "set/corpus.jsonl", _lines(draw, {"text": "apple", "title": "t"}))
    _write(folder, "set/queries.jsonl", _lines(draw, {"text": "apple"}))
    judgements = b"query-id\tcorpus-id\tscore\n0\t0\t1\n1\t0\t2\n"
    _write(folder, "set/qrels/test.tsv", _sometimes_damaged(draw, judgements))
    load_beir(folder / "set")


def stored_config(draw: Draw, folder: Path) -> None:
    fields = read_setting("fields", "t:30:2.0")
    sound = draw(st.sampled_from([IndexConfig(5, analyzer=split), IndexConfig(5, fields=fields, dense_dim=8)]))
    stored = json.loads(json.dumps(config_to_dict(sound, contract_of(sound.build_analyzer()))))
    stored = draw(mutated(stored, WORDS))
    if isinstance(stored, dict):
        with suppress(RagBM25Error):
            dense_field_of(stored)
        config_from_dict(stored, draw(st.sampled_from([None, sound])))


def analyzer_settings(draw: Draw, folder: Path) -> None:
    settings = draw(mutated(AnalyzerConfig(user_words=["云计算", ("x1", 3)]).to_dict(), WORDS))
    if isinstance(settings, dict):
        AnalyzerConfig.from_dict(settings)


def filters(draw: Draw, folder: Path) -> None:
    parse_filter(draw(json_values(WORDS)))


def settings(draw: Draw, folder: Path) -> None:
    name, _, value = draw(texts(SETTINGS, 4)).partition("=")
    config = with_settings(IndexConfig(500), {name: read_setting(name, value)})
    config_to_dict(config, contract_of(split))


def chunks(draw: Draw, folder: Path) -> None:
    check_namespace(draw(SCALARS))
    check_ids([draw(SCALARS)])
    metadata = draw(json_values(WORDS))
    [chunk] = check_chunks([draw(SCALARS)], draw(st.none() | st.lists(SCALARS, min_size=1, max_size=1)), [metadata])
    assert chunk.metadata == (metadata or {})


def address(draw: Draw, folder: Path) -> None:
    uri = draw(texts(URI, 6))
    assert "hush" not in without_secrets(f"http://user:hush@{uri}")
    with suppress(OSError):  # a name that is too long for the system
        if not is_address(uri):
            database_path(uri)


READERS: list[Callable[[Draw, Path], None]] = [
    *(ingestion, synonyms, judged_set, stored_config, analyzer_settings, filters, settings, chunks, address),
]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(data=st.data())
def test_input_is_read_or_refused(read: Callable[[Draw, Path], None], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(RagBM25Error):
        read(data.draw, Path(folder))
