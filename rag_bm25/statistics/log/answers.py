"""The model of the confidence that a hit answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.weighting.confidence import AnswerModel, Signals, Usual
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
        stored = dict(row.meta)
        meaning, weighting, usual = (stored.pop(name, None) for name in ("signals", "weighting", "usual"))
        intercept, weighting = _finite(stored.pop("intercept")), QueryWeighting(**weighting)
        model = AnswerModel(intercept, _signals(stored), weighting, None if usual is None else _usual(usual))
        return model if meaning == SIGNALS else None


def _usual(stored: dict[str, dict[str, Any]]) -> Usual:
    return Usual(**{name: _signals(values) for name, values in stored.items()})


def _signals(stored: dict[str, Any]) -> Signals:
    return Signals(**{name: _finite(value) for name, value in stored.items()})


def _finite(value: Any) -> Any:
    if not math.isfinite(value):
        raise ValueError("a number of the model is not finite")
    return value
