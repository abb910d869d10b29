"""The model of the confidence that a hit answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import is_number
from rag_bm25.definitions import UNSET
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
        """Encode a model; later models have greater names."""
        weighting = {name: value for name, value in vars(model.weighting).items() if value is not UNSET}
        return make_rows("answers", name, [({"weights": [model.intercept, *model.slopes], "weighting": weighting}, "")])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> AnswerModel:
        """Decode the only row."""
        (row,) = rows
        intercept, *slopes = _check_numbers(row.meta["weights"])
        return AnswerModel(intercept, Signals(*slopes), QueryWeighting(**row.meta["weighting"]))


def _check_numbers(values: Any) -> list[float]:
    if not all(is_number(value) and math.isfinite(value) for value in values):
        raise ValueError("a weight of the model is not a finite number")
    return list(map(float, values))
