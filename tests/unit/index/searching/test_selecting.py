"""What a search does to select its hits."""

from __future__ import annotations

from typing import Any

import pytest
from support.indexes import CONFIG, filled

from rag_bm25 import Grouping, NearDuplicates, Query
from rag_bm25.hits import selection
from rag_bm25.index.searching import selecting

CHUNKS = {str(number): "apple fig" for number in range(9)}


@pytest.mark.parametrize("options", [{"k": 3}, {"k": 20}, {"k": 3, "group": Grouping("none")}], ids=str)
def test_units_are_formed_once(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    formed: list[Any] = []
    form_units = selection.form_units
    monkeypatch.setattr(selection, "form_units", lambda *given: formed.append(given) or form_units(*given))
    assert len(filled(CHUNKS, CONFIG).search("apple", **options)) == min(options["k"], len(CHUNKS))
    assert len(formed) == 1


@pytest.mark.parametrize("way", [{"group": Grouping("page")}, {"diversity": NearDuplicates(1.0)}], ids=str)
def test_conditions_leave_as_many_groups_as_are_asked_for(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_AT_FIRST", 1)  # for k, as for one of 400 or more
    index = filled({}, CONFIG)
    numbers = range(30)
    texts = ["apple" + " fig" * (1 + at // 5) for at in numbers]
    index.add(texts, ids=[f"{at:02}" for at in numbers], metadatas=[{"page": at // 5} for at in numbers])
    plain, unmet = index.search_batch(["apple", Query("apple", must=["plum"])], 6, **way)
    assert (len({hit.metadata["page"] for hit in plain}), unmet) == (6, [])
    assert index.search(Query("apple", must=["fig"]), 6, **way) == plain
    assert index.search("apple", 6, min_should_match=1, **way) == plain
