"""Reasons for what a search does not find, and explanations: the same on every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.answers import give_model
from support.reference import split

from rag_bm25 import BM25Index, Diagnosis, IndexConfig

CONFIG = IndexConfig(chunk_size=12, analyzer=split, idf="lucene")
CHUNKS = {
    "a": (
        "fig plum",
        {"kind": "law", "year": 2024, "of": {"name": "Li"}, "source": "a.txt", "note": 'a "quoted" \\ one'},
    ),
    "b": ("fig 劳动 合同", {"kind": "law", "year": 2025, "source": "法律/合同.txt"}),
    "c": ("pear", {"kind": "memo"}),
    "d": ("pear plum fig", {}),
}


@pytest.fixture
def index(new_index: Callable[[IndexConfig], BM25Index]) -> BM25Index:
    index = new_index(CONFIG)
    texts, metadatas = zip(*CHUNKS.values(), strict=True)
    index.add(texts, ids=list(CHUNKS), metadatas=metadatas)
    index.add(["date fig", "date"], ids=["d", "e"], namespace="other")
    give_model(index)
    return index


def codes(diagnosis: Diagnosis) -> list[str]:
    return [reason.code for reason in diagnosis.reasons]


def test_the_details_are_those_of_the_chunks(index: BM25Index) -> None:
    (excluded,) = index.diagnose("fig", filter={"kind": "memo"}).reasons
    assert {name: set(values) for name, values in excluded.details["values"].items()} == {"kind": {"'law'", "'memo'"}}
    missing = index.diagnose("fig", filter={"years": 1}).reasons[0].details
    assert missing == {"missing": ["years"], "fields": ["kind", "note", "of", "source", "year"]}
    (other,) = index.diagnose("fig", "a", filter={"$id": {"$gt": "a"}}).reasons
    assert (other.code, other.details["values"]) == ("filter", {"$id": ["'a'"]})


@pytest.mark.parametrize("id_", list(CHUNKS))
@pytest.mark.parametrize(
    ("where", "passing"),
    [
        ({"year": {"$gte": 2025}}, "b"),
        ({"kind": {"$in": ["law"]}}, "ab"),
        ({"note": {"$like": "a %"}}, "a"),
        ({"$id": "b"}, "b"),
    ],
)
def test_a_filter_excludes_the_chunks_that_do_not_pass_it(
    index: BM25Index, id_: str, where: dict[str, Any], passing: str
) -> None:
    found = codes(index.diagnose("fig pear", id_, filter=where))
    assert found == ([] if id_ in passing else ["filter"])
