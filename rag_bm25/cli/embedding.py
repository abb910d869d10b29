"""Models of dense vectors, named on the command line: ``--embedding MODULE:FACTORY``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note
from rag_bm25.cli.importing import ModelError, ModelOption, one_line_errors
from rag_bm25.cli.rendering import highlighting_for
from rag_bm25.cli.reranking import use_index
from rag_bm25.cli.settings import as_usage
from rag_bm25.documents.chunks import Hit
from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.hits.options import Effect, SearchOptions, check_dense_options, options_that
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.ingestion import CollectionRows
from rag_bm25.query.explanation import Explanation
from rag_bm25.query.query import Query

FORM = "MODULE:FACTORY"

Embedding: TypeAlias = Annotated[
    str | None,
    opt.option(
        "Model of dense vectors, a LangChain `Embeddings`: its class, or a function without arguments that returns it, "
        "such as langchain_openai:OpenAIEmbeddings. Modules are also looked for in the current folder.",
        envvar="RAG_BM25_EMBEDDING",
        metavar=FORM,
    ),
]


def _as_model(made: Any) -> Any:
    """Return a model; None for anything else, a class of models included."""
    has_methods = hasattr(made, "embed_documents") and hasattr(made, "embed_query")
    return made if has_methods and not isinstance(made, type) else None


EMBEDDING: ModelOption[Any] = ModelOption(
    "--embedding",
    FORM,
    "langchain_openai:OpenAIEmbeddings",
    "a model with embed_documents and embed_query, or a function without arguments that returns it",
    _as_model,
)


class Model:
    """A LangChain model by its name; whatever it raises becomes one line without secrets."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._model = EMBEDDING.load(name)

    def embed_documents(self, texts: list[str]) -> Any:
        return self._call("embed_documents", texts)

    def embed_query(self, text: str) -> Any:
        return self._call("embed_query", text)

    def with_dense_field(self, config: IndexConfig) -> IndexConfig:
        """Return the config of a new index for vectors of this model."""
        return replace(config, dense_dim=self._dimension())

    def require_fit(self, config: IndexConfig) -> None:
        """Refuse an index whose dense vectors are of another dimension, or that has none."""
        if config.dense_dim is None:
            raise ConfigMismatchError(
                "the index has no dense vectors, since it was made without --embedding: leave it out, or ingest into "
                "another --collection"
            )
        if (dim := self._dimension()) != config.dense_dim:
            raise ConfigMismatchError(
                f"the index has vectors of dimension {config.dense_dim}, and those of {self._name} have {dim}: give "
                "the model that it was made with"
            )

    def _dimension(self) -> int:
        vector = self.embed_query("dimension")
        try:
            return len(vector)
        except TypeError:
            msg = f"--embedding {self._name}: embed_query must return a vector, got {type(vector).__name__}"
            raise ModelError(msg) from None

    def _call(self, method: str, given: Any) -> Any:
        with one_line_errors(f"--embedding {self._name} has failed in {method}"):
            return getattr(self._model, method)(given)


def load_model(name: str | None) -> Model | None:
    """Return the model of this name; None without one."""
    return None if name is None else Model(name)


@dataclass(frozen=True)
class DenseSearch:
    """The options of a search with dense vectors."""

    embedding: Embedding = None
    mode: Annotated[
        Literal["sparse", "dense", "hybrid"] | None,
        opt.option("Search by words, by dense vectors, or by both: hybrid, the default with --embedding."),
    ] = None

    def load(self, query: Query, options: SearchOptions, fusion: FusionOptions) -> Model | None:
        """Return the model, unless the search is by words alone; refuse options that such a search would ignore."""
        if self.embedding is None and self.mode in ("dense", "hybrid"):
            msg = f"{self.mode} needs a model: --embedding {FORM}"
            raise typer.BadParameter(msg, param_hint="--mode")
        if fusion and (self.embedding is None or self.mode in ("sparse", "dense")):
            msg = "only a hybrid search has it: one by words, and by dense vectors with --embedding"
            raise typer.BadParameter(msg, param_hint=f"--{next(iter(fusion))}".replace("_", "-"))
        if self.mode == "dense":
            _refuse_words(query, options)
        return None if self.mode == "sparse" else load_model(self.embedding)

    def embed(self, index: BM25Index, model: Model | None, text: str) -> Any:
        """Return the vector of a query; None without a model."""
        if model is None:
            return None
        dim = index.config.dense_dim
        if dim is None:
            model.require_fit(index.config)
        vector = model.embed_query(text)
        if isinstance(vector, Sequence) and len(vector) != dim:
            model.require_fit(index.config)
        return vector

    def search(self, index: BM25Index, vector: Any, query: Query, asked: dict[str, Any]) -> Sequence[Hit]:
        """Search by words, and with a vector by dense vectors, too."""
        if vector is None:
            return index.search_batch([query], **asked)[0]  # `search` logs why nothing is found, which is printed
        if self.mode == "dense":
            return index.search_dense(vector, **asked)
        return index.search_hybrid(query, vector, **asked)

    def explain(self, index: BM25Index, vector: Any, query: Query, hit: Hit, asked: dict[str, Any]) -> Explanation:
        """Explain the score of a hit; of a dense search, that of its words."""
        place: dict[str, Any] = {"chunk_namespace": hit.namespace, "part": hit.part}
        if vector is None:
            return index.explain(query, hit.id, **place, **asked)
        if self.mode == "dense":  # which chose the hits
            of_words = {name: value for name, value in asked.items() if name not in options_that(Effect.PLACES)}
            return index.explain(query, hit.id, **place, **of_words)
        return index.explain_hybrid(query, vector, hit.id, **place, **asked)

    def highlighting(self, width: int) -> Highlighting | bool:
        """Return the highlighting for hits on a terminal; a dense search has no words to mark."""
        return False if self.mode == "dense" else highlighting_for(width)

    def note_missing(self, index: BM25Index) -> None:
        """Say that only words were searched for, where the index has dense vectors as well."""
        if index.config.dense_dim is not None and self.embedding is None and self.mode is None:
            print_note(
                "searching by words alone: the index has dense vectors, too, and --embedding with their model searches "
                "both (--mode sparse leaves this out)"
            )


def search_judged(
    dense: DenseSearch,
    model: Model | None,
    given: Mapping[str, Any],
    index: BM25Index,
    texts: Sequence[str],
    k: int,
    **weighting: Any,
) -> Sequence[Sequence[Hit]]:
    """Return the hits of each query; a search by dense vectors alone has no weighting of words."""
    use_index(given, index)
    asked = {**given, **({} if dense.mode == "dense" and model else weighting)}
    if model is None:
        return index.search_batch(texts, k, **asked)
    return [dense.search(index, dense.embed(index, model, text), Query(text), {"k": k, **asked}) for text in texts]


def _refuse_words(query: Query, options: SearchOptions) -> None:
    """Refuse what a search by dense vectors alone would ignore."""
    if query != Query(str(query)):
        msg = "a dense search has no words: --syntax, --must, --must-not, --phrase and --slop would be ignored"
        raise typer.BadParameter(msg, param_hint="--mode")
    with as_usage("--mode"):
        check_dense_options(options)


def require_model(model: Model | CollectionRows | None, config: IndexConfig) -> None:
    """Refuse to write into an index without the model of its vectors, or with another one."""
    if model is not None:
        model.require_fit(config)
    elif config.dense_dim is not None:
        raise InputError(
            f"the index has dense vectors of dimension {config.dense_dim}: give the model that makes them, as "
            f"--embedding {FORM} or RAG_BM25_EMBEDDING"
        )
