"""The contract of an analyzer is computed by its writer, and by readers with another fingerprint."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.log_writing import read_config
from support.memory_store import MemoryStore
from support.writes import writes

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig
from rag_bm25.adapters import BM25Encoder
from rag_bm25.analysis import Analyzer, fingerprint
from rag_bm25.analysis.contract import PROBES
from rag_bm25.analysis.words import Stemming
from rag_bm25.errors import ConfigMismatchError
from rag_bm25.index import copy_index
from rag_bm25.ingestion import reindex
from rag_bm25.statistics.log.settings import write_config

CONFIG = IndexConfig(chunk_size=500)


@pytest.fixture
def store() -> MemoryStore:
    """That of an index with the default analyzer, from which nothing has been read yet."""
    store = MemoryStore()
    BM25Index.from_store(store, config=CONFIG).add(["a contract", "劳动合同"], ids=["1", "2"])
    return store.reopen()


@pytest.fixture
def probed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that analyzers are given as chunks."""
    texts: list[str] = []
    analyse = Analyzer.__call__

    def record(analyzer: Analyzer, text: str) -> list[str]:
        texts.append(text)
        return analyse(analyzer, text)

    monkeypatch.setattr(Analyzer, "__call__", record)
    return texts


def change(store: MemoryStore, **parts: Any) -> None:
    """Change the stored parameters."""
    write_config(store, {**read_config(store), **parts})
    store.calls.clear()


@pytest.fixture
def upgraded(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the package, with the same tokens."""
    monkeypatch.setattr(fingerprint, "_environment", lambda: ["9.0"])


@pytest.mark.parametrize("options", [{}, {"config": CONFIG}, {"read_only": True}])
def test_who_has_the_fingerprint_of_the_writer_runs_no_probe(
    store: MemoryStore, probed: list[str], options: dict[str, Any]
) -> None:
    index = BM25Index.from_store(store, **options)
    assert probed == writes(store) == []
    assert [hit.id for hit in index.search("contract")] == ["1"]


@pytest.mark.usefixtures("upgraded")
def test_any_other_runs_them_all_and_writes_nothing(store: MemoryStore, probed: list[str]) -> None:
    BM25Index.from_store(store, read_only=True)
    assert (probed, writes(store)) == (list(PROBES), [])


@pytest.mark.parametrize("kept", [{"fingerprint": None}, {"fingerprint": 7}, {"fingerprint": ["x"]}])
def test_an_index_without_a_fingerprint_is_probed(store: MemoryStore, probed: list[str], kept: dict[str, Any]) -> None:
    change(store, **kept)
    BM25Index.from_store(store, read_only=True)
    assert (probed, writes(store)) == (list(PROBES), [])


def test_user_words_are_probed_each_time(probed: list[str]) -> None:
    store, words = MemoryStore(), AnalyzerConfig(user_words=["云计算"])  # type: ignore[arg-type]
    BM25Index.from_store(store, config=replace(CONFIG, analyzer=words))
    probed.clear()
    BM25Index.from_store(store.reopen())
    assert probed == list(PROBES)


def test_another_stemmer_is_not_hidden(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stem = Stemming.term
    monkeypatch.setattr(Stemming, "term", lambda self, word: word if word == "added" else stem(self, word))
    with pytest.raises(ConfigMismatchError, match="tokens of 'added' differ"):
        BM25Index.from_store(store)


@pytest.mark.parametrize(
    ("part", "changed", "difference"),
    [
        ("probes", {"added": "0" * 12}, "tokens of 'added' differ"),
        ("settings", {"stem": False}, "stem: stored False, given True"),
    ],
)
def test_a_stored_contract_that_was_changed_is_not_hidden(
    store: MemoryStore, part: str, changed: dict[str, Any], difference: str
) -> None:
    contract = read_config(store)["analyzer"]
    change(store, analyzer={**contract, part: {**contract[part], **changed}})
    with pytest.raises(ConfigMismatchError, match=difference):
        BM25Index.from_store(store, config=CONFIG)


def test_copies_and_generations_have_it(store: MemoryStore, probed: list[str]) -> None:
    copy, named = MemoryStore(), read_config(store)["fingerprint"]
    copy_index(store, copy)
    BM25Index.from_store(copy.reopen())
    assert (probed, read_config(copy)["fingerprint"]) == ([], named)
    with BM25Index.from_store(copy) as index:
        reindex(index, replace(CONFIG, analyzer=AnalyzerConfig(stem=False)))
    probed.clear()
    BM25Index.from_store(copy.reopen())
    assert probed == []


@pytest.mark.usefixtures("upgraded")
def test_another_fingerprint_is_no_reason_to_encode_anew(store: MemoryStore) -> None:
    with BM25Index.from_store(store) as index:
        before = read_config(store)
        reindex(index, CONFIG)
        assert index._current().store is store
        assert read_config(store) == before


def test_what_is_loaded_for_english_queries_has_no_chinese_dictionary(tmp_path: Path) -> None:
    encoder = BM25Encoder(CONFIG)
    encoder.fit(["a contract"])
    encoder.save(tmp_path / "encoder")
    code = """
import sys
from rag_bm25.adapters import BM25Encoder

(vector,) = BM25Encoder.load(sys.argv[1]).encode_queries(["contracts"])
print(len(vector), *({"jieba", "rjieba"} & sys.modules.keys()))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "encoder")]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "1\n"
