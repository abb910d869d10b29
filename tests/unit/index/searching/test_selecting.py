"""What a search does to select its hits."""

from __future__ import annotations

from typing import Any

import pytest
from support.indexes import CONFIG, filled

from rag_bm25.hits import selection
from rag_bm25.hits.groups import Grouping

CHUNKS = {str(number): "apple fig" for number in range(9)}


@pytest.mark.parametrize("options", [{"k": 3}, {"k": 20}, {"k": 3, "group": Grouping("none")}], ids=str)
def test_units_are_formed_once(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    formed: list[Any] = []
    form_units = selection.form_units
    monkeypatch.setattr(selection, "form_units", lambda *given: formed.append(given) or form_units(*given))
    assert len(filled(CHUNKS, CONFIG).search("apple", **options)) == min(options["k"], len(CHUNKS))
    assert len(formed) == 1
