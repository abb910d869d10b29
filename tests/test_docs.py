"""The documentation lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

from rag_bm25.similarity import IDF_NAMES
from rag_bm25.weightings import WEIGHTING_NAMES, WEIGHTINGS

DOCS = Path(__file__).resolve().parents[1] / "docs"


def rows(heading: str) -> dict[str, str]:
    """Return the rows of the first table below a heading, by the name in their first cell."""
    section = (DOCS / "weightings.md").read_text(encoding="utf-8").split(f"\n## {heading}")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*)\|$", section, re.MULTILINE))


def test_every_weighting_is_in_the_table_with_its_parameters() -> None:
    table = rows("Document side")
    assert set(table) == set(WEIGHTING_NAMES)
    for name, row in table.items():
        form = WEIGHTINGS[name]
        parameters = row.split(" | ")[1]
        assert ("k1" in form.formula) == ("k1" in parameters), name
        assert (form.delta is not None) == ("delta" in parameters), name
        assert ("norm" in form.formula and form.b is None) == bool(re.search(r"\bb\b", parameters)), name


def test_every_idf_is_in_the_table() -> None:
    assert set(rows("Query side")) == set(IDF_NAMES)
