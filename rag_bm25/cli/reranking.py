"""Rerankers, named on the command line: ``--rerank MODULE:NAME``."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag_bm25.cli.importing import ModelOption, as_function, one_line_errors
from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.options import Rerank
from rag_bm25.hits.reranking import check_scores, cross_encoder_reranker, is_cross_encoder

FORM = "MODULE:NAME"
EXAMPLE = "langchain_community.cross_encoders:HuggingFaceCrossEncoder"

NOTE = (
    "A function of the query and hits that returns scores, a LangChain cross-encoder, or its class or a function "
    f"without arguments that returns it, such as {EXAMPLE}. Modules are also looked for in the current folder."
)


def _as_reranker(made: Any) -> Rerank | None:
    """Return a reranker, also of a cross-encoder; None for anything else."""
    return cross_encoder_reranker(made) if is_cross_encoder(made) else as_function(made, 2)


RERANK: ModelOption[Rerank] = ModelOption(
    "--rerank",
    FORM,
    EXAMPLE,
    "a function of the query and hits, a cross-encoder with score(text_pairs), or a function without arguments that "
    "returns one of these",
    _as_reranker,
)


class Reranker:
    """A reranker by its name; whatever it raises becomes one line without secrets."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rerank = RERANK.load(name)
        self.__name__ = name.partition(":")[2]  # by which `explain` calls it

    def __call__(self, query: str, hits: Sequence[Hit]) -> Sequence[float]:
        wanted = len(hits)
        with one_line_errors(f"--rerank {self._name} has failed"):
            scores = self._rerank(query, hits)
            scores = list(scores) if isinstance(scores, Iterator) else scores  # a generator fails here
        return check_scores(scores, wanted, f"--rerank {self._name}")
