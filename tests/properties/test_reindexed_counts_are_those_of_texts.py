"""An index that is made with other numbers from stored weights is the one that is made by analysing all texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.reference import split
from support.strategies import chunk_sizes, corpora, texts, weightings

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.index.maintenance import carrying, generations
from rag_bm25.ingestion import reindex
from rag_bm25.weighting.formulas import WEIGHTINGS

if TYPE_CHECKING:
    from rag_bm25.weighting.document import DocumentWeighting


class Named(MemoryStore):
    """Another place than the source."""

    name = "another"  # type: ignore[assignment]


def config_of(document: DocumentWeighting) -> IndexConfig:
    own = {"k1": document.k1, "b": document.b, "weighting": document.form, "delta": document.delta}
    return IndexConfig(document.chunk_size, length_unit="terms", analyzer=split, fields=document.fields, **own)  # type: ignore[arg-type]


def filled(config: IndexConfig, chunks: dict[str, str], title: str) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=config)
    for namespace in ("", "x"):
        metadatas = [dict.fromkeys(config.fields, f"{title} {text[:6]}") for text in chunks.values()]
        named = [f"{namespace} {text}" for text in chunks.values()]
        index.add(named, ids=list(chunks), metadatas=metadatas, namespace=namespace)
    return index


def state(index: BM25Index) -> Any:
    """All rows, but for the names of the writes, all terms and all counts."""
    rows = index._store.collections.chunks  # type: ignore[attr-defined]
    vocabulary, whole = index._live.vocabulary(), index._live.current().statistics.of(None)
    counts = {term: int(df) for term, df in zip(vocabulary, whole.df(list(vocabulary.ids)), strict=True)}  # type: ignore[arg-type]
    encoded = {pk: (row.text, row.metadata, row.length, row.vector.to_dict()) for pk, row in rows.items()}
    return encoded, vocabulary.to_dict(), vocabulary.displaced, counts, whole.num_chunks, whole.mean_length


@given(
    corpora(min_size=1),
    weightings(max_fields=2),
    weightings(),
    chunk_sizes,
    texts(3),
    st.sampled_from([13, 61, 0xFFFFFFFF]),
    st.booleans(),
)
def test_every_bit_is_that_of_encoding_anew(
    chunks: dict[str, str],
    stored: DocumentWeighting,
    wanted: DocumentWeighting,
    of_fields: float,
    title: str,
    id_space: int,
    in_place: bool,
) -> None:
    fields = {name: replace(weight, chunk_size=of_fields) for name, weight in stored.fields.items()}
    if WEIGHTINGS[wanted.form].combines_fields:
        wanted = replace(wanted, fields=fields)
    states = []
    for counts_again in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rag_bm25.vectors.terms.ID_SPACE", id_space)
            patch.setattr(generations, "PAGE", 5)
            if counts_again:
                patch.setattr(carrying, "_have_same_counts", lambda *_: False)
            source = filled(config_of(stored), chunks, title)
            target = source if in_place else BM25Index.from_store(Named(), config=config_of(wanted))
            reindex(source, config_of(wanted) if in_place else target)
            states.append(state(target))
            assert target.verify().differences == []
    assert states[0] == states[1]
