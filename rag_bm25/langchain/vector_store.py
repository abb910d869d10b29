"""LangChain's vector store, over lexical vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore

from rag_bm25.chunks import Hit
from rag_bm25.errors import ParameterError
from rag_bm25.langchain.documents import add_texts, to_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray
    from typing_extensions import Self

    from rag_bm25.index import BM25Index
    from rag_bm25.sparse import SparseVector

__all__ = ["MilvusBM25VectorStore"]


class MilvusBM25VectorStore(VectorStore):
    """Documents found by their BM25 score, wherever LangChain asks for a vector store.

    Every search takes the keywords of :meth:`rag_bm25.BM25Index.search` besides its own: `filter`, `namespace`,
    `statistics`, `idf`, `epsilon`, `k3` and `bigram_weight`.

    *Scores* are those of BM25. *Relevance scores*, which LangChain wants in 0..1, are the score divided by the greatest
    one that any chunk could have for the query: the sum of the query's weights, since no term weighs more than 1 in a
    chunk. They rank as scores do, and compare across queries. A chunk of the mean length that has every known term
    of the query once is at 0.4 with the default k1.

    Parameters
    ----------
    index : BM25Index
        Where the documents are; opened and closed by the caller.
    namespace : str
        Where documents are written, and are looked for unless a search names another.
    pad_results : bool
        Fill up to k with documents that share no term with the query, at score 0, in no particular order. A store of
        dense vectors always returns k documents, and some programs rely on that.

    Examples
    --------
    ::

        store = MilvusBM25VectorStore(index)
        store.add_documents(documents)
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.3})
    """

    def __init__(
        self,
        index: BM25Index,
        *,
        namespace: str = "",
        pad_results: bool = False,
    ) -> None:
        self.index = index
        self.namespace = namespace
        self.pad_results = pad_results

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None = None,  # noqa: ARG003 - the signature is LangChain's
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Add texts to an index, and return a store over it.

        Parameters
        ----------
        texts : iterable of str
            The texts.
        embedding : Embeddings, optional
            Not used: LangChain passes one to every vector store.
        metadatas : sequence of mappings, optional
            One for each text.
        ids : sequence of str, optional
            One for each text.
        **kwargs
            Those of the constructor, `index` among them.

        Returns
        -------
        MilvusBM25VectorStore
            A store.
        """
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or update those whose id is there.

        Parameters
        ----------
        texts : iterable of str
            The texts.
        metadatas : sequence of mappings, optional
            One for each text.
        ids : sequence of str, optional
            One for each text; by default, and for None, a hash of the contents.
        **kwargs
            `namespace`, where it is to be another one; LangChain's `batch_size` has no effect.

        Returns
        -------
        list of str
            The ids, in the order of `texts`.
        """
        kwargs.pop("batch_size", None)
        options = {"namespace": self.namespace, **kwargs}
        return add_texts(self.index, texts, metadatas, ids, **options)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents, named by their ids or by a filter; without either, all of the namespace.

        Parameters
        ----------
        ids : list of str, optional
            Those that are not there are ignored.
        **kwargs
            `filter`, in place of `ids`; `namespace`, where it is to be another one.

        Returns
        -------
        bool
            True.
        """
        options = {"namespace": self.namespace, **kwargs}
        if ids is None and "filter" not in options:
            self.index.drop_namespace(**options)
        else:
            self.index.delete(ids, **options)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by their ids.

        Parameters
        ----------
        ids : sequence of str
            Any number.

        Returns
        -------
        list of Document
            Those that are there, in the order of `ids`.
        """
        return [to_document(chunk) for chunk in self.index.get(ids, namespace=self.namespace)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents with the greatest scores.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            How many at most.
        **kwargs
            As for :meth:`rag_bm25.BM25Index.search`.

        Returns
        -------
        list of Document
            By falling score.
        """
        return [to_document(hit) for hit in self._hits(query, k, kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the documents with the greatest scores, and the scores.

        Parameters
        ----------
        query, k, **kwargs
            As for :meth:`similarity_search`.

        Returns
        -------
        list of (Document, float)
            By falling score.
        """
        return [(to_document(hit), hit.score) for hit in self._hits(query, k, kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that match the query and differ from each other.

        One after the other, the document is taken whose ``lambda_mult * relevance - (1 - lambda_mult) * similarity`` is
        greatest: its relevance score, and the cosine of its lexical vector with that of the most similar document
        taken before.

        Parameters
        ----------
        query : str
            Any text.
        k : int
            How many at most.
        fetch_k : int
            Among how many of the greatest scores to choose.
        lambda_mult : float
            In [0, 1]; 1 ranks by the score alone.
        **kwargs
            As for :meth:`rag_bm25.BM25Index.search`.

        Returns
        -------
        list of Document
            In the order in which they were taken.
        """
        if not 0 <= lambda_mult <= 1:
            msg = f"lambda_mult must be in [0, 1], got {lambda_mult!r}"
            raise ParameterError(msg)
        hits = self._hits(query, max(k, fetch_k), kwargs)
        if not hits:
            return []
        relevance = self._relevance(query, hits, kwargs)
        similarity = cosines(self.index.encode_documents([hit.text for hit in hits]))
        return [to_document(hits[at]) for at in diverse(relevance, similarity, lambda_mult, k)]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Divide by the greatest possible score, which differs from query to query."""
        hits = self._hits(query, k, kwargs)
        return list(zip(map(to_document, hits), self._relevance(query, hits, kwargs).tolist(), strict=True))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do so in a thread."""
        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **kwargs)

    def _hits(self, query: str, k: int, options: Mapping[str, Any]) -> list[Hit]:
        options = {"namespace": self.namespace, **options}
        hits = self.index.search(query, k, **options)
        return [*hits, *self._others(hits, k - len(hits), options)] if self.pad_results else hits

    def _others(self, hits: Sequence[Hit], wanted: int, options: Mapping[str, Any]) -> Iterator[Hit]:
        """Yield chunks that were not found."""
        found = {(hit.namespace, hit.id) for hit in hits}
        chunks = self.index.chunks(filter=options.get("filter"), namespace=options["namespace"])
        others = (chunk for chunk in chunks if (chunk.namespace, chunk.id) not in found)
        for _, chunk in zip(range(wanted), others, strict=False):
            yield Hit(chunk.id, 0.0, chunk.text, chunk.metadata, chunk.namespace)

    def _relevance(self, query: str, hits: Sequence[Hit], options: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the scores as shares of the greatest possible one."""
        weighing = {name: value for name, value in options.items() if name != "filter"}
        weights = self.index.encode_queries([query], **{"namespace": self.namespace, **weighing})[0].values
        scores = np.array([hit.score for hit in hits])
        # At least the scores themselves: float32 rounds, and another writer may come in between.
        greatest = max(float(weights.sum(dtype=np.float64)), *scores.tolist(), 1e-9)
        return np.asarray(scores / greatest)


def cosines(vectors: Sequence[SparseVector]) -> NDArray[np.float64]:
    """Compare vectors with each other.

    Parameters
    ----------
    vectors : sequence of SparseVector
        At least one, and none of them empty.

    Returns
    -------
    ndarray of float64, shape (n_vectors, n_vectors)
        Their cosines.
    """
    ids, columns = np.unique(np.concatenate([vector.ids for vector in vectors]), return_inverse=True)
    rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
    matrix = np.zeros((len(vectors), len(ids)))
    matrix[rows, columns] = np.concatenate([vector.values for vector in vectors])
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix @ matrix.T)


def diverse(relevance: NDArray[np.float64], similarity: NDArray[np.float64], lambda_mult: float, k: int) -> list[int]:
    """Choose by maximal marginal relevance.

    Parameters
    ----------
    relevance : ndarray of float64, shape (n,)
        Of each candidate, in 0..1.
    similarity : ndarray of float64, shape (n, n)
        Of each candidate with each other, in 0..1.
    lambda_mult : float
        Share of the relevance, in [0, 1].
    k : int
        How many to choose at most.

    Returns
    -------
    list of int
        The chosen ones, in the order of choice; of equals, the first.

    Examples
    --------
    >>> similarity = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    >>> diverse(np.array([0.8, 0.7, 0.5]), similarity, 0.5, 2)
    [0, 2]
    """
    chosen: list[int] = []
    left = list(range(len(relevance)))
    redundancy = np.zeros(len(relevance))
    for _ in range(min(k, len(left))):
        gains = lambda_mult * relevance[left] - (1 - lambda_mult) * redundancy[left]
        chosen.append(left.pop(int(np.argmax(gains))))
        redundancy = np.maximum(redundancy, similarity[chosen[-1]])
    return chosen
