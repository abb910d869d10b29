"""Rerankers, named on the command line: ``--rerank MODULE:NAME``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_bm25.cli.importing import ModelError, ModelOption, as_function, one_line_errors
from rag_bm25.documents.chunks import Hit
from rag_bm25.hits.options import Rerank
from rag_bm25.hits.proximity import Proximity
from rag_bm25.hits.reranking import check_scores, cross_encoder_reranker, is_cross_encoder
from rag_bm25.index.index import BM25Index

FORM = "proximity|MODULE:NAME"
PROXIMITY = "proximity"
EXAMPLE = "langchain_community.cross_encoders:HuggingFaceCrossEncoder"

NOTE = (
    f"{PROXIMITY} prefers texts in which the words of the query are near to each other. MODULE:NAME is a function of "
    "the query and hits that returns scores, a LangChain cross-encoder, or its class or a function "
    f"without arguments that returns it, such as {EXAMPLE}. Modules are also looked for in the current folder."
)


def _as_reranker(made: Any) -> Rerank | None:
    """Return a reranker, also of a cross-encoder; None for anything else."""
    return cross_encoder_reranker(made) if is_cross_encoder(made) else as_function(made, 2)


RERANK: ModelOption[Rerank] = ModelOption(
    "--rerank",
    f"{PROXIMITY} or MODULE:NAME",
    EXAMPLE,
    "a function of the query and hits, a cross-encoder with score(text_pairs), or a function without arguments that "
    "returns one of these",
    _as_reranker,
)


def _load(name: str) -> Rerank:
    try:
        return RERANK.load(name)
    except ModelError as error:
        if not name.startswith(f"{PROXIMITY}:"):
            raise
        raise ModelError(f"{error}; {PROXIMITY} is given by its name alone") from None


class Reranker:
    """A reranker by its name; whatever it raises becomes one line without secrets."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rerank = None if name == PROXIMITY else _load(name)
        self.__name__ = name.rpartition(":")[2]  # by which `explain` calls it

    def use(self, index: BM25Index) -> None:
        """Rerank hits of an index, which has the weights of words."""
        if self._name == PROXIMITY:
            self._rerank = Proximity(index)

    def __call__(self, query: str, hits: Sequence[Hit]) -> Sequence[float]:
        wanted = len(hits)
        assert self._rerank is not None
        with one_line_errors(f"--rerank {self._name} has failed"):
            scores = self._rerank(query, hits)
            scores = list(scores) if isinstance(scores, Iterator) else scores  # a generator fails here
        return check_scores(scores, wanted, f"--rerank {self._name}")


def use_index(options: Mapping[str, Any], index: BM25Index) -> None:
    """Let the reranker of a search, if there is one, weigh words by an index."""
    if isinstance(rerank := options.get("rerank"), Reranker):
        rerank.use(index)
