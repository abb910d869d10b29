from __future__ import annotations

import gzip
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.reference import split

from rag_bm25 import BM25Index, ConfigMismatchError, FormatError, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.statistics import portable
from rag_bm25.statistics.portable import read_statistics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.memory_store import MemoryStore


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    index.add(["apple pie", "banana split"], ids=["1", "2"])
    index.add(["apple fig"], ids=["1"], namespace="x")
    index.delete(["2"])
    return index


def write(path: Path, header: Any, *lines: Any) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (header, *lines))
    return path


def test_chunks_may_be_added_while_statistics_are_exported(
    filled: BM25Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped = json.dumps
    before = len(filled._live.vocabulary())

    def dump_slowly(value: Any, **options: Any) -> str:
        if isinstance(value, list):
            monkeypatch.undo()
            filled.add(["kiwi"])
        return dumped(value, **options)

    monkeypatch.setattr(portable, "json", SimpleNamespace(dumps=dump_slowly))
    filled.export_statistics(tmp_path / "statistics.json.gz")
    assert len(read_statistics(tmp_path / "statistics.json.gz")[2]) == before


def test_statistics_come_back_as_they_went(
    filled: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index], tmp_path: Path
) -> None:
    filled.export_statistics(tmp_path / "statistics.json.gz")
    store.delete_log([key for key in store.log_keys() if not key.startswith("config")])
    index = reopened()
    assert not index.verify().ok
    index.import_statistics(tmp_path / "statistics.json.gz")
    for one in (index, reopened()):
        assert one.verify().differences == []
        assert one.stats() == filled.stats()


def test_file_is_lines_of_json(filled: BM25Index, tmp_path: Path) -> None:
    filled.export_statistics(tmp_path / "s")
    with gzip.open(tmp_path / "s", "rt", encoding="utf-8") as file:
        header, *lines = map(json.loads, file)
    assert header["namespaces"] == {"": {"chunks": 1, "length": 2}, "x": {"chunks": 1, "length": 2}}
    assert {term: df for term, _, df in lines} == {
        "apple": {"": 1, "x": 1},
        "pie": {"": 1},
        "banana": {},
        "split": {},
        "fig": {"x": 1},
    }


HEADER = {"kind": "rag_bm25 statistics", "format": 1, "config": {}, "namespaces": {"": {"chunks": 1, "length": 1}}}


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ({"config": []}, ["a", 7, {"": 1}]),
        ({"format": "1"}, ["a", 7, {"": 1}]),
        ({"namespaces": []}, ["a", 7, {}]),
        ({"namespaces": {"": {"chunks": 1.5, "length": 1}}}, ["a", 7, {}]),
        ({"namespaces": {"": {"chunks": 2**53 + 1, "length": 1}}}, ["a", 7, {}]),
        ({}, ["a", 0, {"": 1}]),
        ({}, ["a", 2**32 - 1, {"": 1}]),
        ({}, ["a", "7", {"": 1}]),
        ({}, ["a", 7, [1]]),
        ({}, ["a", 7, {"": True}]),
        ({}, ["a", 7, {"": 2**63}]),
        ({}, ["a", 7, {"other": 1}]),
        ({}, [1, 7, {"": 1}]),
        ({}, ["\ud800", 7, {"": 1}]),
        ({}, ["a", 7]),
        ({}, 1),
    ],
)
def test_damaged_lines_are_refused(tmp_path: Path, header: dict[str, Any], line: Any) -> None:
    read_statistics(write(tmp_path / "sound", HEADER, ["a", 7, {"": 1}]))
    with pytest.raises(FormatError, match="is not a statistics file, or is damaged"):
        read_statistics(write(tmp_path / "s", {**HEADER, **header}, line))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-12], lambda data: data[:30] + b"??" + data[32:], lambda _: b"[["]
)
def test_damaged_bytes_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = write(tmp_path / "s", HEADER, ["a", 7, {"": 1}])
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FormatError, match="is not a statistics file, or is damaged"):
        read_statistics(file)


def test_a_deep_header_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "s", "wb") as file:
        file.write(b"[" * 100_000)
    with pytest.raises(FormatError, match="is not a statistics file, or is damaged"):
        read_statistics(tmp_path / "s")


def test_parameters_that_are_none_are_refused(filled: BM25Index, tmp_path: Path) -> None:
    file = write(tmp_path / "s", HEADER, ["a", 7, {"": 1}])
    with pytest.raises(FormatError, match="the stored parameters are damaged"):
        filled.import_statistics(file)
    with pytest.raises(FormatError, match="the stored parameters are damaged"):
        BM25Encoder.load(file)


def test_displaced_ids_travel_along(
    tiny_id_space: int, filled: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index], tmp_path: Path
) -> None:
    filled.export_statistics(tmp_path / "s")
    store.delete_log([key for key in store.log_keys() if not key.startswith("config")])
    index = reopened()
    index.import_statistics(tmp_path / "s")
    assert index.search("apple pie") == filled.search("apple pie")


def test_statistics_of_another_config_are_refused(filled: BM25Index, store: MemoryStore, tmp_path: Path) -> None:
    filled.export_statistics(tmp_path / "s")
    other = BM25Index.from_store(type(store)(), config=IndexConfig(chunk_size=5, length_unit="terms", analyzer=split))
    with pytest.raises(ConfigMismatchError, match="chunk_size: stored 4, given 5"):
        other.import_statistics(tmp_path / "s")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"kind": "something"}, "is not a statistics file"),
        ([1], "is not a statistics file"),
        ({"kind": "rag_bm25 statistics", "format": 99}, "has format 99, this version of rag_bm25 reads up to 1"),
        ({"kind": "rag_bm25 statistics", "format": 1}, "is not a statistics file, or is damaged"),
    ],
)
def test_other_files_are_refused(filled: BM25Index, tmp_path: Path, header: Any, message: str) -> None:
    before = filled.stats()
    with pytest.raises(FormatError, match=message):
        filled.import_statistics(write(tmp_path / "s", header))
    assert filled.stats() == before


def test_cut_off_file_is_refused_and_changes_nothing(filled: BM25Index, tmp_path: Path) -> None:
    filled.export_statistics(tmp_path / "s")
    data = (tmp_path / "s").read_bytes()
    (tmp_path / "s").write_bytes(data[: len(data) // 2])
    before = filled.stats()
    with pytest.raises(FormatError, match="damaged"):
        filled.import_statistics(tmp_path / "s")
    assert filled.stats() == before


def test_plain_text_is_refused(filled: BM25Index, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("hello")
    with pytest.raises(FormatError, match="damaged"):
        filled.import_statistics(tmp_path / "s")
