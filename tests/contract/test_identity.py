"""An open index is the one that was opened: not another of its name, not an alias, not half of a pair."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, IndexGroup, InputError, StoreError
from rag_bm25.index import copy_index, drop_index
from rag_bm25.store.memory import MemoryStore
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
CALLS: dict[str, Callable[[BM25Index], object]] = {
    "refresh": BM25Index.refresh,
    "search": lambda index: index.search("old"),
    "add": lambda index: index.add(["old"], ids=["old2"]),
    "delete": lambda index: index.delete(["new"]),
    "stats": BM25Index.stats,
    "verify": BM25Index.verify,
    "repair": BM25Index.repair,
}

WRITING = {"add", "delete", "repair"}


@pytest.fixture
def made(opened: Callable[..., Store]) -> Iterator[Callable[..., BM25Index]]:
    """Opens or makes the index of the test, which looks at each call whether others have written."""
    indexes: list[BM25Index] = []

    def make(name: str = "docs", *, config: IndexConfig = CONFIG, read_only: bool = False) -> BM25Index:
        store = opened(name, read_only=read_only) if read_only else opened(name)
        given = {"analyzer": split} if read_only else {"config": config}
        indexes.append(BM25Index.from_store(store, read_only=read_only, refresh_interval=0, **given))
        return indexes[-1]

    opened().drop()
    yield make
    for index in indexes:
        index.close()
    with suppress(StoreError):
        opened().drop()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("read_only", [False, True])
def test_an_index_that_was_made_again_is_not_taken_for_the_one_that_is_open(
    made: Callable[..., BM25Index], opened: Callable[..., Store], engine: str, call: str, *, read_only: bool
) -> None:
    if read_only and (engine == "memory" or call in WRITING):
        pytest.skip("a store in memory is not opened for reading, and one that is refuses writes in any case")
    made().add(["old rule"] * 3, ids=["a", "b", "c"])
    index = made(read_only=read_only)
    assert len(index.search("old")) == 3
    drop_index(opened())
    again = made(config=replace(CONFIG, k1=3.0))
    again.add(["new contract"] * 2, ids=["new", "new2"])
    with pytest.raises(StoreError, match=r"docs.* was dropped while it was open, and was made again: open it anew"):
        CALLS[call](index)
    assert again.verify().differences == []
    assert again.stats().num_chunks == 2
    assert made(config=again.config).problems == []


@pytest.mark.parametrize("call", CALLS)
def test_an_index_that_was_dropped_is_named(
    made: Callable[..., BM25Index], opened: Callable[..., Store], call: str
) -> None:
    index = made()
    index.add(["old rule"], ids=["a"])
    drop_index(opened())
    with pytest.raises(StoreError, match=r"docs\w*' (was dropped|is not there: it was dropped)") as caught:
        CALLS[call](index)
    assert not re.search(r"collection=\d|\b\d{10}", str(caught.value))


def test_a_copy_is_another_index(made: Callable[..., BM25Index], opened: Callable[..., Store], engine: str) -> None:
    index = made()
    index.add(["old rule"], ids=["a"])
    target = opened("copy")
    if isinstance(target, MemoryStore):
        target.drop()
    copy_index(opened(), target)
    with BM25Index.from_store(opened("copy"), analyzer=split) as copied:
        assert copied.verify().differences == []
        assert len(IndexGroup([index, copied]).search("old")) == 2
        assert index._live.log.birth != copied._live.log.birth
        copied.add(["old later"], ids=["b"])
        assert copied.verify().differences == []
    drop_index(opened("copy"))


def test_a_group_has_each_index_once(made: Callable[..., BM25Index]) -> None:
    index = made()
    index.add(["old rule"], ids=["a"])
    with pytest.raises(InputError, match="got one of them twice"):
        IndexGroup([index, made()])


@pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")
def test_a_second_path_is_the_same_index(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "rag.db")
    with BM25Index.open(tmp_path / "rag.db", "docs", config=CONFIG) as one:
        one.add(["old"])
        with (
            BM25Index.open(tmp_path / "link.db", "docs", config=CONFIG) as other,
            BM25Index.open(tmp_path / "rag.db", "others", config=CONFIG) as beside,
        ):
            assert len(IndexGroup([one, beside]).search("old")) == 1
            with pytest.raises(InputError, match="got one of them twice"):
                IndexGroup([one, other])


# A server has names that are not those of collections.


@pytest.fixture
def client(engine: str, milvus: Callable[..., MilvusStore], made: Callable[..., BM25Index]) -> Iterator[Any]:
    """A client of the server, which has the index of the test."""
    if engine == "embedded":
        pytest.skip("milvus-lite knows neither aliases nor other names as an embedded engine")
    made().add(["old rule"], ids=["a"])
    with closing(engines.raw_client(engines.uri_of(engine))) as connected:
        yield connected


USES: dict[str, Callable[[Callable[..., Store]], object]] = {
    "open": lambda opened: BM25Index.from_store(opened("other"), config=CONFIG),
    "read": lambda opened: BM25Index.from_store(opened("other", read_only=True), analyzer=split, read_only=True),
    "repair": lambda opened: BM25Index.from_store(opened("other"), config=CONFIG, repair=True),
    "drop": lambda opened: drop_index(opened("other")),
    "copy from": lambda opened: copy_index(opened("other"), MemoryStore()),
    "copy to": lambda opened: copy_index(_some_index(), opened("other")),
}


def _some_index() -> MemoryStore:
    BM25Index.from_store(store := MemoryStore(), config=CONFIG).close()
    return store.reopen()


def test_an_alias_is_refused_with_the_name_of_its_index(client: Any, opened: Callable[..., Store]) -> None:
    name, alias = (opened(each)._collection for each in ("docs", "other"))  # type: ignore[attr-defined]
    client.create_alias(name, alias)
    try:
        for use in USES.values():
            with pytest.raises(StoreError, match=f"{alias} at .* is an alias of {name}: open {name}"):
                use(opened)
    finally:
        client.drop_alias(alias)
    with BM25Index.from_store(opened(), analyzer=split) as index:
        assert index.verify().differences == []
    assert f"{alias}_bm25" not in client.list_collections()


@pytest.mark.parametrize("suffix", ["", "_bm25"])
def test_half_of_a_pair_is_refused_with_both_names(client: Any, opened: Callable[..., Store], suffix: str) -> None:
    name, other = (opened(each)._collection for each in ("docs", "other"))  # type: ignore[attr-defined]
    client.rename_collection(f"{name}{suffix}", f"{other}{suffix}")
    chunks, log = (other, f"{name}_bm25") if suffix == "" else (name, f"{other}_bm25")
    try:
        for use in USES.values():
            with pytest.raises(StoreError, match=f"{chunks} and {log} at .* are the two collections of an index"):
                use(opened)
    finally:
        client.rename_collection(f"{other}{suffix}", f"{name}{suffix}")
    with BM25Index.from_store(opened(), analyzer=split) as index:
        assert index.verify().differences == []
