"""Indexes in memory, and what their statistics and explanations hold."""

from __future__ import annotations

import math
import re

import pytest

from rag_bm25 import BM25Index, Explanation, IndexConfig, QueryWeighting
from rag_bm25.documents.encoder import LengthUnit
from rag_bm25.weighting.document import DocumentWeighting
from support.memory_store import MemoryStore
from support.reference import Count, split

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


def filled(chunks: dict[str, str], config: IndexConfig = CONFIG, store: MemoryStore | None = None) -> BM25Index:
    """Return an index of ``{id: text}``."""
    index = BM25Index.from_store(store or MemoryStore(), config=config)
    index.add(list(chunks.values()), ids=list(chunks))
    return index


def config_of(document: DocumentWeighting, weighting: QueryWeighting, unit: LengthUnit = "terms") -> IndexConfig:
    """Return the config of an index that weighs so."""
    return IndexConfig(
        document.chunk_size,
        length_unit=unit,
        k1=document.k1,
        b=document.b,
        epsilon=weighting.epsilon,
        idf=weighting.idf,
        k3=weighting.k3,
        analyzer=split,
        weighting=document.form,
        delta=document.delta,
        fields=document.fields,
    )


def counts(index: BM25Index) -> dict[str, Count]:
    """Return the statistics of each namespace that has chunks."""
    found = {}
    for name in index.stats().namespaces:
        total = index._live.log.statistics.of_one(name).contribution()
        df = dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))
        found[name] = Count(total.num_chunks, total.total_length, df)
    return {name: count for name, count in found.items() if count != Count()}


def nodes(explanation: Explanation) -> list[Explanation]:
    return [explanation, *(node for detail in explanation.details for node in nodes(detail))]


def check(node: Explanation) -> None:
    """Work a node out anew from its details."""
    values = [detail.value for detail in node.details]
    if node.description.endswith("sum of:"):
        assert values
        assert node.value == pytest.approx(math.fsum(values), rel=1e-9)
    elif node.description.endswith("product of:"):
        assert len(values) >= 2
        assert node.value == pytest.approx(math.prod(values), rel=1e-6)
    elif node.description.startswith(("stored weight", "in the ")):
        assert node.value == pytest.approx(evaluated(node), rel=1e-6)
    elif node.details:
        assert node.description.endswith("from:") or "not found" in node.description


def evaluated(node: Explanation) -> float:
    """Put the numbers of the children into the formula of their parent, and work it out; each must be needed."""
    formula = node.description.removesuffix(" from:").split(", ", 1)[1]
    numbers = {re.split("\\W", detail.description)[0]: detail.value for detail in node.details}
    assert numbers.keys() == set(re.findall("[a-z_]\\w*", formula)) - {"ln", "max", "min", "sqrt"}
    return float(eval(formula, {"ln": math.log, "sqrt": math.sqrt}, numbers))
