"""Other k1, b and the mean length on every engine: hits, scores and order are those of another index."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.reference import BM25, Corpus, split

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.index.searching import rescoring

CONFIG = IndexConfig(6, length_unit="terms", analyzer=split)
CHUNKS = {f"c{at:03}": f"fig {'plum ' * (at % 8)}{'pad ' * (at * 11 % 47)}" for at in range(120)}


@pytest.mark.parametrize("weighting", [QueryWeighting(k1=0.9, b=0.0), QueryWeighting(length="mean")], ids=repr)
def test_the_first_k_are_those_of_loops_over_all_chunks(
    new_index: Callable[[IndexConfig], BM25Index], monkeypatch: pytest.MonkeyPatch, weighting: QueryWeighting
) -> None:
    monkeypatch.setattr(rescoring, "OVERFETCH", 0)  # so that the bound decides how many rows are read
    index = new_index(CONFIG)
    index.add(list(CHUNKS.values()), ids=list(CHUNKS), metadatas=[{"half": at % 2} for at in range(len(CHUNKS))])
    corpus = Corpus({id_: text.split() for id_, text in CHUNKS.items()})
    mean = sum(map(len, corpus.chunks.values())) / len(CHUNKS)
    wanted = weighting.of_documents(CONFIG.document_weighting(), mean)
    scores = BM25(wanted.chunk_size, wanted.k1, wanted.b).scores(["fig", "plum"], corpus)
    ranked = sorted(scores, key=lambda id_: (-round(scores[id_], 6), id_))
    for k in (1, 5, 30):
        hits = index.search("fig plum", k, weighting=weighting)
        assert [hit.id for hit in hits] == ranked[:k]
        assert [hit.score for hit in hits] == pytest.approx([scores[id_] for id_ in ranked[:k]], rel=1e-5)
    (half,) = index.search("plum", 1, weighting=weighting, filter={"half": 0})
    assert int(half.id[1:]) % 2 == 0
