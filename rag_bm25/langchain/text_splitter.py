"""The splitter of ``ingest`` as a text splitter of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from rag_bm25.checks import check_choice, require_extra
from rag_bm25.ingestion.documents import Document as Text
from rag_bm25.ingestion.markup import MARKUP
from rag_bm25.ingestion.splitting import splitter

with require_extra('the splitter for LangChain needs langchain-text-splitters: pip install "rag-bm25[documents]"'):
    from langchain_text_splitters import TextSplitter

if TYPE_CHECKING:
    from rag_bm25.index.config import IndexConfig

FORMATS = {"text": Text, "markdown": MARKUP[".md"], "rst": MARKUP[".rst"]}


class BM25TextSplitter(TextSplitter):
    r"""Split documents into the chunks that ``rag-bm25 ingest`` makes of them.

    Texts are split at headings, paragraphs, lines, sentences, clauses and words, and no chunk is a bare heading. The
    metadata of a chunk has ``chunk``, its number, ``start_index``, ``end_index``, and ``headings`` if there are any.

    Parameters
    ----------
    config : IndexConfig
        Config of the index; lengths are in its `length_unit`.
    chunk_overlap, split_size : int, optional
        As for :func:`rag_bm25.ingestion.splitter`.
    format : {"text", "markdown", "rst"}
        What marks the headings.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> split = BM25TextSplitter(IndexConfig(chunk_size=30), format="markdown")
    >>> split.split_text("# Setup\n\nInstall it first.\n\n# Use\n\nThen search with it.")
    ['# Setup\n\nInstall it first.', '# Use\n\nThen search with it.']
    """

    def __init__(
        self,
        config: IndexConfig,
        chunk_overlap: int | None = None,
        split_size: int | None = None,
        *,
        format: str = "markdown",
    ) -> None:
        self._read = FORMATS[check_choice("format", format, tuple(FORMATS))]
        self._split = splitter(config, chunk_overlap, split_size)
        super().__init__(
            chunk_size=self._split.longest,
            chunk_overlap=self._split.overlap,
            length_function=self._split.length,
            add_start_index=True,
        )

    def split_text(self, text: str) -> list[str]:
        """Split a text.

        Parameters
        ----------
        text : str
            The text, with its marks of headings.

        Returns
        -------
        list of str
            The chunks, in their order.
        """
        return [text[part.start : part.end] for part in self._split.split(text, self._read(text).headings)]

    def create_documents(self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None) -> list[Document]:
        """Split texts, and add the place of each chunk to its metadata.

        Parameters
        ----------
        texts : list of str
            The texts.
        metadatas : list of dict, optional
            One for each text, for all of its chunks.

        Returns
        -------
        list of Document
            The chunks of all texts, in their order.
        """
        found: list[Document] = []
        for text, metadata in zip(texts, metadatas or [{}] * len(texts), strict=True):
            for n, part in enumerate(self._split.split(text, self._read(text).headings)):
                place: dict[str, Any] = {"chunk": n, "start_index": part.start, "end_index": part.end}
                if part.headings:
                    place["headings"] = list(part.headings)
                found.append(Document(page_content=text[part.start : part.end], metadata={**metadata, **place}))
        return found
