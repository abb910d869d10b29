"""Files and JSON from elsewhere: what is sound is read, everything else is an error of ours.

Texts and rows to ingest, exported statistics, synonyms, statistics of other programs, judged sets, stored parameters,
settings and filters of the command line, chunks, and addresses. A file is a sound one with some of it changed, or any
bytes.
"""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rag_bm25 import AnalyzerConfig, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.milvus_model import read_json
from rag_bm25.analysis import contract_of
from rag_bm25.chunks import check_ids, check_namespace, new_chunks
from rag_bm25.cli.options import parsed_filter
from rag_bm25.config import config_from_dict, config_to_dict, dense_field_of
from rag_bm25.errors import RagBM25Error
from rag_bm25.evaluation import load_beir, write_run
from rag_bm25.evaluation.settings import parse_field, parse_setting, parse_value, with_settings
from rag_bm25.filters import parse_filter
from rag_bm25.ingestion import find_files, read_file, splitter
from rag_bm25.milvus_store.address import database_path, is_address, without_secrets
from rag_bm25.synonyms import Synonyms, SynonymTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Draw

__all__ = ["check"]

WORDS = [
    *(
        "_id",
        "id",
        "text",
        "title",
        "metadata",
        "source",
        "",
        "a",
        "法律",
        "\ud800",
        "\0",
        "\n",
        "\u2028",
        "a b",
        "q1",
        "d1",
    ),
    *(
        "kind",
        "format",
        "config",
        "namespaces",
        "chunks",
        "length",
        "rag_bm25 statistics",
        "document",
        "query",
        "analyzer",
    ),
    *(
        "settings",
        "probes",
        "k1",
        "b",
        "epsilon",
        "fields",
        "weight",
        "chunk_size",
        "dense_dim",
        "delta",
        "COSINE",
        "v1",
    ),
    *(
        "corpus_size",
        "avgdl",
        "idf_word",
        "idf_value",
        "version",
        "term_document_frequencies",
        "stop_words",
        "user_words",
    ),
    *("segmentation", "search", "name", "callable", "rag_bm25", "bm25l", "terms", "characters", "__class__", "self"),
]
LINES = [
    *(
        "a, b",
        "a => b",
        "a, b^0.5",
        "^",
        "|",
        "=>",
        ",",
        "，",
        "\\,",
        "#",
        "\n",
        "\r",
        " ",
        "NBA",
        "合同",
        "0.5",
        "2",
        "nan",
    ),
    *("1e400", "-1", "\\", "\ufeff", "\x85", "\udfff"),
]
URI = [
    "http://",
    "https://",
    "tcp://",
    "unix:",
    "user:",
    "p%40ss@",
    "[::1]",
    "[",
    "]",
    ":19530",
    ":99999",
    "/",
    "..",
    ".",
]
URI += ["rag.db", ".db", "\0", "?", "#", "@", "x" * 300, "é", "\udc80", "\n", "\u2100"]
SETTINGS = [
    "k1",
    "b",
    "=",
    ",",
    "0.9",
    "none",
    "true",
    "field",
    "title",
    ":",
    "+",
    "chunk_size",
    "stem",
    "idf",
    "lucene",
]
SETTINGS += ["1e400", "nan", "9" * 400, "-", "weighting", "delta", "stop_words", "user_words", "stop-words", "_"]


def split(text: str) -> list[str]:
    """Cut at white space: an analyzer that costs nothing."""
    return text.split()


def check(draw: Draw) -> None:
    """Read one kind of file."""
    with suppress(RagBM25Error):
        draw.choice(READERS)(draw)


@functools.cache
def _folder() -> Path:
    folder = Path(_temporary().name)
    (folder / "set" / "qrels").mkdir(parents=True)
    return folder


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def _write(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


def _dumped(draw: Draw, value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=bool(draw.number(2)), default=str).encode(errors="surrogatepass")


def _rows(draw: Draw, row: dict[str, Any]) -> bytes:
    """Return JSON lines, most of them sound."""
    rows = [_dumped(draw, draw.mutated({**row, "_id": str(n)}, WORDS)) for n in range(1 + draw.number(4))]
    deep = [b'{"text":' + b"[" * 100_000] if draw.chance(50) else []
    return draw.damaged(b"\n".join([*rows, *deep])) if draw.chance(3) else b"\n".join(rows)


def _ingestion(draw: Draw) -> None:
    row = {"text": "apple 合同. " * 9, "title": "t", "metadata": {"source": "s", "n": 1}}
    path = _write("rows.jsonl", _rows(draw, row)) if draw.chance(2) else _write("text.md", draw.rest())
    found = find_files([path])
    cut = splitter(IndexConfig(chunk_size=30))
    for piece in read_file(found.files[0], cut, draw.choice([(), ("title",)])):
        new_chunks([piece.text], [piece.id], [piece.metadata])


def _statistics(draw: Draw) -> None:
    header, *terms = _sound_statistics()
    lines = [draw.mutated(json.loads(header), WORDS), *(draw.mutated(json.loads(term), WORDS) for term in terms)]
    plain = b"\n".join(_dumped(draw, line) for line in lines)
    packed = gzip.compress(draw.damaged(plain) if draw.chance(3) else plain, 1)
    path = _write("statistics.json.gz", draw.damaged(packed) if draw.chance(4) else packed)
    config = draw.choice([None, ENCODER_CONFIG])
    encoder = BM25Encoder.load(path, config=config)
    encoder.encode_queries(["apple fig"])
    encoder.learn(["apple melon"])
    encoder.save(_folder() / "again.json.gz")


ENCODER_CONFIG = IndexConfig(chunk_size=4, analyzer=split)


@functools.cache
def _sound_statistics() -> list[bytes]:
    encoder = BM25Encoder(ENCODER_CONFIG)
    encoder.learn(["apple banana", "cherry apple"])
    path = _folder() / "sound.json.gz"
    encoder.save(path)
    return gzip.decompress(path.read_bytes()).splitlines()


def _synonyms(draw: Draw) -> None:
    data = draw.rest() if draw.chance(3) else draw.text(LINES, 12).encode(errors="surrogatepass")
    table = SynonymTable(Synonyms.read(_write("synonyms.txt", data)), split)
    list(table.matches(["a", "b", "NBA"]))


def _other_statistics(draw: Draw) -> None:
    saved = {"version": "v1", "corpus_size": 3, "k1": 1.5, "b": 0.75, "epsilon": 0.25, "idf_word": ["a", "b"]}
    saved["idf_value"] = [0.5108256237659907, 0.5108256237659907]
    saved |= {"avgdl": 2.0} if draw.chance(2) else {"chunk_size": 5, "term_document_frequencies": {"a": 1, "b": 1}}
    data = _dumped(draw, draw.mutated(saved, WORDS))
    encoder = read_json(_write("v1.json", draw.damaged(data) if draw.chance(4) else data), split)
    encoder.encode_queries(["a b"])


def _judged_set(draw: Draw) -> None:
    _write("set/corpus.jsonl", _rows(draw, {"text": "apple", "title": "t"}))
    _write("set/queries.jsonl", _rows(draw, {"text": "apple"}))
    qrels = b"query-id\tcorpus-id\tscore\n0\t0\t1\n1\t0\t2\n"
    _write("set/qrels/test.tsv", draw.damaged(qrels) if draw.chance(2) else qrels)
    dataset = load_beir(_folder() / "set")
    run = {query: dict.fromkeys(dataset.texts, 1.0) for query in dataset.queries}
    write_run(_folder() / "run", run, "tag")


def _stored_config(draw: Draw) -> None:
    sound = draw.choice([IndexConfig(5, analyzer=split), IndexConfig(5, fields={"t": _field()}, dense_dim=8)])
    stored = draw.mutated(json.loads(json.dumps(config_to_dict(sound, contract_of(sound.build_analyzer())))), WORDS)
    if isinstance(stored, dict):
        with suppress(RagBM25Error):
            dense_field_of(stored)
        config_from_dict(stored, draw.choice([None, sound]))


def _field() -> Any:
    return parse_field("t:30:2.0")[1]


def _analyzer_settings(draw: Draw) -> None:
    settings = draw.mutated(AnalyzerConfig(user_words=["云计算", ("x1", 3)]).to_dict(), WORDS)
    if isinstance(settings, dict):
        AnalyzerConfig.from_dict(settings)


def _command_line(draw: Draw) -> None:
    with suppress(typer.BadParameter):
        text = draw.text(["{", "}", '"a"', ":", "1", "[", "]", ",", "$eq", '"', "null", "NaN", "9" * 5000], 12)
        parse_filter(parsed_filter(text if draw.chance(2) else "{" + draw.choice(["[", '{"a":']) * 100_000))


def _settings(draw: Draw) -> None:
    name, value = parse_setting(draw.text(SETTINGS, 4))
    config = with_settings(IndexConfig(500), {name: parse_value(value)})
    config_to_dict(config, contract_of(split))


def _chunks(draw: Draw) -> None:
    scalar = functools.partial(draw.scalar, WORDS)
    check_namespace(scalar())
    check_ids([scalar()])
    metadata = draw.json(WORDS)
    [chunk] = new_chunks([scalar()], draw.choice([None, [scalar()]]), [metadata])
    assert chunk.metadata == (metadata or {})
    IndexConfig(*(scalar() for _ in range(3)), dense_dim=scalar())  # type: ignore[arg-type]


def _address(draw: Draw) -> None:
    uri = draw.text(URI, 6)
    assert "hush" not in without_secrets(f"http://user:hush@{uri}")
    with suppress(OSError):  # a name that is too long for the system
        if not is_address(uri):
            database_path(uri)


READERS: list[Callable[[Draw], None]] = [
    *(_ingestion, _statistics, _synonyms, _other_statistics, _judged_set, _stored_config, _analyzer_settings),
    *(_command_line, _settings, _chunks, _address),
]
