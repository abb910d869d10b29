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

SIGNALS = "with unknown words"
"""The meaning of the signals; a model of another meaning is not read, and one must be fitted anew."""


class AnswersRow:
    """Codec of a model, which is one row."""

    @staticmethod
    def encode(name: str, model: AnswerModel) -> list[LogRow]:
        """Encode a model; later ones have greater names."""
        return make_rows("answers", name, [({**model.to_dict(), "signals": SIGNALS}, "")])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> AnswerModel | None:
        """Decode the only row; None if its signals have another meaning."""
        (row,) = rows
        numbers = {name: value for name, value in row.meta.items() if name not in ("weighting", "signals")}
        if not all(map(math.isfinite, numbers.values())):
            raise ValueError("a number of the model is not finite")
        model = AnswerModel(numbers.pop("intercept"), Signals(**numbers), QueryWeighting(**row.meta["weighting"]))
        return model if row.meta.get("signals") == SIGNALS else None
