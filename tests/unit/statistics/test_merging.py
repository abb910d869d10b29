"""Renumbering: the ids of one index as those of another, and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.statistics.merging import Renumbering
from rag_bm25.vectors.sparse import SparseVector

ids = st.integers(1, 30)
vectors = st.dictionaries(ids, st.integers(1, 9).map(float), max_size=12)


def test_a_term_whose_id_another_has_here_is_left_out() -> None:
    moved = Renumbering({3: 7, 9: 3})  # the term 3 of here is 7 there, and the 9 of here is 3 there
    there = SparseVector.from_dict({3: 1.0, 7: 2.0, 9: 4.0, 5: 8.0})
    assert moved.undo(there).to_dict() == {3: 2.0, 5: 8.0, 9: 1.0}


@given(st.permutations(range(1, 31)), vectors)
def test_there_and_back_is_the_same(order: list[int], weights: dict[int, float]) -> None:
    numbering = Renumbering({here: there for here, there in enumerate(order, 1) if here != there})
    vector = SparseVector.from_dict(weights)
    there = numbering.vector(vector)
    assert (np.diff(there.ids.astype(np.int64)) > 0).all()
    assert there.to_dict() == {order[id_ - 1]: weight for id_, weight in weights.items()}
    assert numbering.undo(there) == vector
