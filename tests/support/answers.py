"""Questions with answers, and models of the confidence that a hit answers."""

from __future__ import annotations

from random import Random

from rag_bm25 import BM25Index, Hit
from rag_bm25.query.query import QueryLike
from rag_bm25.weighting.confidence import AnswerModel, Signals

WORDS = [f"w{number}" for number in range(80)]


def make_set(size: int = 40, seed: int = 0) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Return chunks, and questions with the ids of their answers: words of the chunk, and others."""
    random = Random(seed)
    chunks = {f"d{at}": " ".join(random.choices(WORDS, k=random.randint(4, 9))) for at in range(size)}
    judged: dict[str, set[str]] = {}
    for id_, text in chunks.items():
        words = [*random.sample(text.split(), 2), *random.choices(WORDS, k=random.randint(0, 2))]
        judged.setdefault(" ".join(words), set()).add(id_)
    return chunks, judged


def give_model(index: BM25Index, intercept: float = -5.0, **slopes: float) -> AnswerModel:
    """Give an index a model."""
    signals = Signals(**{"share": 10.0, "margin": 0.0, "coverage": 0.0, "specificity": 0.0, **slopes})
    model = AnswerModel(intercept, signals, index.config.query_weighting())
    with index._live.writing():
        index._live.log.write_answers(model)
    return model


class Judged:
    """A function that knows the answers."""

    def __init__(self, judged: dict[str, set[str]]) -> None:
        self.judged = judged

    def __call__(self, query: QueryLike, hit: Hit) -> bool:
        return hit.id in self.judged[str(query)]
