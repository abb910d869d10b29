"""Files and JSON from outside: sound ones are read, all others are an error of ours.

Texts and rows to ingest, saved encoders, synonyms, judged sets, stored parameters, settings and filters of the command
line, chunks, and addresses. A file is a sound one with some of it changed, or any bytes.
"""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from hypothesis import given
from hypothesis import strategies as st

from fuzz.strategies import FEW, damaged, json_values, mostly, mutated, scalars, texts
from rag_bm25 import AnalyzerConfig, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.analysis import contract_of
from rag_bm25.cli.options import parse_filter_option
from rag_bm25.documents.checks import check_chunks, check_ids, check_namespace
from rag_bm25.errors import RagBM25Error
from rag_bm25.evaluation import load_beir, write_run
from rag_bm25.filters import parse_filter
from rag_bm25.index.settings import parse_field, parse_setting, parse_value, with_settings
from rag_bm25.index.stored_config import config_from_dict, config_to_dict, dense_field_of
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.reading import read_file
from rag_bm25.ingestion.splitting import splitter
from rag_bm25.query.synonyms import Synonyms, SynonymTable
from rag_bm25.store.milvus.address import database_path, is_address, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw: TypeAlias = Callable[[st.SearchStrategy], Any]

__all__ = ["check"]

WORDS = [
    *("_id", "id", "text", "title", "metadata", "source", "", "a", "法律", "\ud800", "\0", "\n", "\u2028", "a b", "q1"),
    *("kind", "format", "config", "namespaces", "chunks", "length", "rag_bm25 statistics", "document", "query", "d1"),
    *("analyzer", "settings", "probes", "k1", "b", "epsilon", "fields", "weight", "chunk_size", "dense_dim", "delta"),
    *("corpus_size", "avgdl", "idf_word", "idf_value", "version", "term_document_frequencies", "stop_words", "COSINE"),
    *("user_words", "segmentation", "search", "name", "callable", "rag_bm25", "bm25l", "terms", "characters", "v1"),
    *("__class__", "self"),
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
    *("k1", "b", "=", ",", "0.9", "none", "true", "field", "title", ":", "+", "chunk_size", "stem", "idf", "lucene"),
    *("1e400", "nan", "9" * 400, "-", "weighting", "delta", "stop_words", "user_words", "stop-words", "_"),
]
FILTER = ["{", "}", '"a"', ":", "1", "[", "]", ",", "$eq", '"', "null", "NaN", "9" * 5000]


def split(text: str) -> list[str]:
    """Cut at white space: an analyzer that costs nothing."""
    return text.split()


ENCODER_CONFIG = IndexConfig(chunk_size=4, analyzer=split)


@FEW
@given(st.data())
def check(data: st.DataObject) -> None:
    """Read one kind of file."""
    with suppress(RagBM25Error):
        data.draw(st.sampled_from(READERS))(data.draw)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def _write(name: str, data: bytes) -> Path:
    path = Path(_temporary().name, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode(errors="surrogatepass")


def _changed(value: Any) -> st.SearchStrategy:
    """Draw JSON with some of a sound value changed."""
    return mutated(value, WORDS).map(_dump)


def _sometimes_damaged(data: bytes) -> st.SearchStrategy:
    return mostly(st.just(data), damaged(data), 3)


def _lines(draw: Draw, row: dict[str, Any]) -> bytes:
    """Draw JSON lines, most of them sound."""
    lines = [draw(_changed({**row, "_id": str(number)})) for number in range(draw(st.integers(1, 4)))]
    deep = draw(mostly(st.just([]), st.just([b'{"text":' + b"[" * 100_000]), 50))
    return draw(_sometimes_damaged(b"\n".join([*lines, *deep])))


def _ingestion(draw: Draw) -> None:
    if draw(st.booleans()):
        row = {"text": "apple 合同. " * 9, "title": "t", "metadata": {"source": "s", "n": 1}}
        path = _write("rows.jsonl", _lines(draw, row))
    else:
        path = _write("text.md", draw(st.binary(max_size=400)))
    cut = splitter(IndexConfig(chunk_size=30))
    for piece in read_file(find_files([path]).files[0], cut, draw(st.sampled_from([(), ("title",)]))):
        check_chunks([piece.text], [piece.id], [piece.metadata])


def _statistics(draw: Draw) -> None:
    plain = b"\n".join(draw(_changed(json.loads(line))) for line in _sound_statistics())
    packed = gzip.compress(draw(_sometimes_damaged(plain)), 1)
    path = _write("statistics.json.gz", draw(_sometimes_damaged(packed)))
    encoder = BM25Encoder.load(path, config=draw(st.sampled_from([None, ENCODER_CONFIG])))
    encoder.encode_queries(["apple fig"])
    encoder.learn(["apple melon"])
    encoder.save(path.with_name("again.json.gz"))


@functools.cache
def _sound_statistics() -> list[bytes]:
    encoder = BM25Encoder(ENCODER_CONFIG)
    encoder.learn(["apple banana", "cherry apple"])
    path = _write("sound.json.gz", b"")
    encoder.save(path)
    return gzip.decompress(path.read_bytes()).splitlines()


def _synonyms(draw: Draw) -> None:
    lines = texts(LINES, 12).map(lambda text: text.encode(errors="surrogatepass"))
    table = SynonymTable(Synonyms.read(_write("synonyms.txt", draw(lines | st.binary(max_size=200)))), split)
    list(table.matches(["a", "b", "NBA"]))


def _judged_set(draw: Draw) -> None:
    _write("set/corpus.jsonl", _lines(draw, {"text": "apple", "title": "t"}))
    _write("set/queries.jsonl", _lines(draw, {"text": "apple"}))
    _write("set/qrels/test.tsv", draw(_sometimes_damaged(b"query-id\tcorpus-id\tscore\n0\t0\t1\n1\t0\t2\n")))
    folder = Path(_temporary().name)
    dataset = load_beir(folder / "set")
    run = {query: dict.fromkeys(dataset.texts, 1.0) for query in dataset.queries}
    write_run(folder / "run", run, "tag")


def _stored_config(draw: Draw) -> None:
    fields = {"t": parse_field("t:30:2.0")[1]}
    sound = draw(st.sampled_from([IndexConfig(5, analyzer=split), IndexConfig(5, fields=fields, dense_dim=8)]))
    stored = json.loads(json.dumps(config_to_dict(sound, contract_of(sound.build_analyzer()))))
    stored = draw(mutated(stored, WORDS))
    if isinstance(stored, dict):
        with suppress(RagBM25Error):
            dense_field_of(stored)
        config_from_dict(stored, draw(st.sampled_from([None, sound])))


def _analyzer_settings(draw: Draw) -> None:
    settings = draw(mutated(AnalyzerConfig(user_words=["云计算", ("x1", 3)]).to_dict(), WORDS))
    if isinstance(settings, dict):
        AnalyzerConfig.from_dict(settings)


def _command_line(draw: Draw) -> None:
    deep = st.sampled_from(["[", '{"a":']).map(lambda bracket: "{" + bracket * 100_000)
    with suppress(typer.BadParameter):
        parse_filter(parse_filter_option(draw(texts(FILTER, 12) | deep)))


def _settings(draw: Draw) -> None:
    name, value = parse_setting(draw(texts(SETTINGS, 4)))
    config = with_settings(IndexConfig(500), {name: parse_value(value)})
    config_to_dict(config, contract_of(split))


def _chunks(draw: Draw) -> None:
    scalar = scalars(WORDS)
    check_namespace(draw(scalar))
    check_ids([draw(scalar)])
    metadata = draw(json_values(WORDS))
    [chunk] = check_chunks([draw(scalar)], draw(st.none() | st.lists(scalar, min_size=1, max_size=1)), [metadata])
    assert chunk.metadata == (metadata or {})
    IndexConfig(*(draw(scalar) for _ in range(3)), dense_dim=draw(scalar))


def _address(draw: Draw) -> None:
    uri = draw(texts(URI, 6))
    assert "hush" not in without_secrets(f"http://user:hush@{uri}")
    with suppress(OSError):  # a name that is too long for the system
        if not is_address(uri):
            database_path(uri)


READERS: list[Callable[[Draw], None]] = [
    *(_ingestion, _statistics, _synonyms, _judged_set, _stored_config, _analyzer_settings),
    *(_command_line, _settings, _chunks, _address),
]
