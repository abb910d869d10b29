from __future__ import annotations

from dataclasses import replace

import pytest
from support.log_writing import read_config
from support.memory_store import MemoryStore

from rag_bm25.errors import REINDEX, FormatError
from rag_bm25.statistics.log.keys import keys_of
from rag_bm25.statistics.log.settings import read_settings, write_config


def test_long_config_is_cut_into_parts(store: MemoryStore) -> None:
    config = {"words": [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]}
    write_config(store, config)
    assert len(store.collections.log) > 1
    assert all(len(row.packed) <= 65_535 for row in store.collections.log.values())
    assert read_config(store) == config


def test_config_of_which_a_part_is_missing_is_none(store: MemoryStore) -> None:
    write_config(store, {"words": [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]})
    del store.collections.log[min(keys_of(store.log_keys(), "config"))]
    assert read_settings(store) is None


@pytest.mark.parametrize(("version", "way_out"), [(2, REINDEX), (6, "upgrade rag_bm25")])
def test_another_format_is_refused_with_both_versions_and_the_way_out(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, version: int, way_out: str
) -> None:
    with monkeypatch.context() as other:
        other.setattr("rag_bm25.statistics.log.settings.FORMAT", version)
        write_config(store, {})
    with pytest.raises(FormatError) as caught:
        read_settings(store)
    assert str(caught.value) == f"memory has format {version}, this version of rag_bm25 reads format 5: {way_out}"


def test_parameters_whose_kind_is_damaged_are_no_unfinished_copy(store: MemoryStore) -> None:
    write_config(store, {"k1": 1.5})
    key, row = "config:index:0:1", store.collections.log["config:index:0:1"]
    store.collections.log[key] = replace(row, kind="copy")
    assert read_config(store) == {"k1": 1.5}
