from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_bm25 import FormatError, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.encoder import read_statistics


@pytest.fixture
def encoder(config: IndexConfig) -> BM25Encoder:
    encoder = BM25Encoder(config).fit(["apple pie", "banana split", "apple fig"])
    encoder.forget(["banana split"])
    return encoder


def write(path: Path, header: Any, *lines: Any) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (header, *lines))
    return path


def test_file_is_lines_of_json(encoder: BM25Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "s")
    with gzip.open(tmp_path / "s", "rt", encoding="utf-8") as file:
        header, *lines = map(json.loads, file)
    assert (header["chunks"], header["length"]) == (2, 4)
    assert {term: df for term, _, df in lines} == {"apple": 2, "pie": 1, "banana": 0, "split": 0, "fig": 1}


HEADER = {"kind": "rag_bm25 statistics", "format": 1, "config": {}, "chunks": 1, "length": 1}


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ({"config": []}, ["a", 7, 1]),
        ({"format": "1"}, ["a", 7, 1]),
        ({"chunks": 1.5}, ["a", 7, 1]),
        ({"chunks": 2**53 + 1}, ["a", 7, 1]),
        ({"length": None}, ["a", 7, 1]),
        ({}, ["a", 0, 1]),
        ({}, ["a", 2**32 - 1, 1]),
        ({}, ["a", "7", 1]),
        ({}, ["a", 7, [1]]),
        ({}, ["a", 7, True]),
        ({}, ["a", 7, 2**63]),
        ({}, [1, 7, 1]),
        ({}, ["\ud800", 7, 1]),
        ({}, ["a", 7]),
        ({}, 1),
    ],
)
def test_damaged_lines_are_refused(tmp_path: Path, header: dict[str, Any], line: Any) -> None:
    read_statistics(write(tmp_path / "sound", HEADER, ["a", 7, 1]))
    with pytest.raises(FormatError, match="is not a statistics file, or is damaged"):
        read_statistics(write(tmp_path / "s", {**HEADER, **header}, line))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-12],
        lambda data: data[:30] + b"??" + data[32:],
        lambda _: b"[[",
        lambda _: gzip.compress(b"[" * 100_000),
    ],
)
def test_damaged_bytes_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = write(tmp_path / "s", HEADER, ["a", 7, 1])
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FormatError, match="is not a statistics file, or is damaged"):
        read_statistics(file)


def test_parameters_that_are_none_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "s", HEADER, ["a", 7, 1])
    with pytest.raises(FormatError, match="the stored parameters are damaged"):
        BM25Encoder.load(file)


@pytest.mark.usefixtures("tiny_id_space")
def test_displaced_ids_travel_along(config: IndexConfig, tmp_path: Path) -> None:
    words = ["apple", "banana", "cherry", "fig", "grape", "中文"]
    encoder = BM25Encoder(config).fit(words)
    encoder.save(tmp_path / "s")
    loaded = BM25Encoder.load(tmp_path / "s", config=config)
    assert loaded.encode_queries(words) == encoder.encode_queries(words)
    assert loaded.encode_documents(words) == encoder.encode_documents(words)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"kind": "something"}, "is not a statistics file"),
        ([1], "is not a statistics file"),
        ({"kind": "rag_bm25 statistics", "format": 99}, "has format 99, this version of rag_bm25 reads up to 1"),
        ({"kind": "rag_bm25 statistics", "format": 1}, "is not a statistics file, or is damaged"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, header: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        BM25Encoder.load(write(tmp_path / "s", header))
