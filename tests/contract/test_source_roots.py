"""The names of folders, on every engine."""

from __future__ import annotations

from itertools import count

from rag_bm25.statistics.log.source_roots import FOLD_ABOVE, SourceRoot, read_roots, remember_roots
from rag_bm25.store.protocol import Store

PATHS = ["/data/docs", '/数据/it\'s "quoted"', "C:\\docs\\n", "/a/\udcff", "/劳动合同/" + "长" * 2_000]


def test_roots_come_back_as_they_were_stored(store: Store) -> None:
    store.create()
    numbers = count(1)
    for number in range(FOLD_ABOVE + 2):
        roots = [SourceRoot(f"文{number}-{at}", path, is_folder=bool(at)) for at, path in enumerate(PATHS)]
        remember_roots(store, "团队", roots, lambda: f"{next(numbers):024x}")
    found = {root.name: (root.path, root.is_folder) for root in read_roots(store, "团队")}
    assert found == {
        f"文{number}-{at}": (path, bool(at)) for number in range(FOLD_ABOVE + 2) for at, path in enumerate(PATHS)
    }
    assert read_roots(store, "") == []
