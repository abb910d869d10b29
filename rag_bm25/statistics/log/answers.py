"""The model of the confidence that a hit answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.weighting.confidence import AnswerModel, Signals
from rag_bm25.weighting.query import QueryWeighting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.store.rows import LogRow


class AnswersRow:
    """Codec of a model, which is one row."""

    @staticmethod
    def encode(name: str, model: AnswerModel) -> list[LogRow]:
        """Encode a model; later ones have greater names."""
        return make_rows("answers", name, [(model.to_dict(), "")])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> AnswerModel:
        """Decode the only row."""
        (row,) = rows
        numbers = {name: value for name, value in row.meta.items() if name != "weighting"}
        if not all(map(math.isfinite, numbers.values())):
            raise ValueError("a number of the model is not finite")
        return AnswerModel(numbers.pop("intercept"), Signals(**numbers), QueryWeighting(**row.meta["weighting"]))
