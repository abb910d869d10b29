"""A search as a tool of LangChain's agents: bounded answers, with numbers and sources to cite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.callbacks import Callbacks  # noqa: TC002 - LangChain reads the annotations
from langchain_core.documents import Document  # noqa: TC002
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from rag_bm25.checks import check_callable, check_int, parameter_error
from rag_bm25.errors import InputError
from rag_bm25.langchain.retriever import MilvusBM25Retriever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from pydantic import ValidationError
    from pydantic.v1 import ValidationError as ValidationErrorV1

MIN_PASSAGE = 200  # characters; of more passages than have room, the first ones are shown
MAX_SOURCE = 120
MAX_CHARACTERS = 1_000_000
ELLIPSIS = " …"

DESCRIPTION = (
    "Search the documents by their words. Ask with the words that a relevant passage would have, such as names, "
    "numbers and terms; ask again with other words if nothing fits. Returns passages, each below its number and "
    'source, as in "[1] guide.md, page 3". Cite the numbers of the passages that you use.'
)


class SearchInput(BaseModel):
    """What an agent may choose."""

    query: str = Field(description="Words to search for.", max_length=2000)


def create_search_tool(
    retriever: MilvusBM25Retriever,
    *,
    name: str = "search_documents",
    description: str = DESCRIPTION,
    max_characters: int = 6000,
    cite: Callable[[Document], str] | None = None,
) -> BaseTool:
    """Return a tool that searches, for an agent or a model that calls tools.

    The agent chooses the query alone. What it may find is up to the retriever: its namespace, filter and number of
    passages. A query that cannot be answered is told to the agent; a store that fails raises its error.

    Parameters
    ----------
    retriever : MilvusBM25Retriever
        Lexical or hybrid; without a `score_threshold` it returns `k` passages.
    name, description : str
        What the model is told of the tool.
    max_characters : int
        Maximum length of an answer, in 200..1000000. Passages share it: longer ones are cut, and with less than 200 for
        each, the last ones are left out.
    cite : callable of Document to str, optional
        Makes the source that is shown above a passage, one line of at most 120 characters. By default the ``source``
        or the ``title`` in the metadata, the ``page`` and the ``headings``, as ingestion stores them; else the id.

    Returns
    -------
    BaseTool
        Its messages have the passages as text, and the documents, whole and in the order of their numbers, as
        `artifact`. The coroutine does not block the event loop.

    Raises
    ------
    ParameterError
        An argument breaks a rule.

    Examples
    --------
    ::

        tool = create_search_tool(MilvusBM25Retriever(index=index, k=5, namespace="handbook"))
        agent = create_agent(model, tools=[tool])
    """
    if not isinstance(retriever, MilvusBM25Retriever):
        raise parameter_error("retriever", "a retriever of rag_bm25.langchain", retriever)
    check_int("max_characters", max_characters, MIN_PASSAGE, MAX_CHARACTERS)
    check_callable("cite", cite)

    def present(query: str, documents: Sequence[Document]) -> tuple[str, list[Document]]:
        shown = list(documents[: max_characters // MIN_PASSAGE])
        return _write(query, shown, cite or cite_source, max_characters), shown

    def search(query: str, callbacks: Callbacks = None) -> tuple[str, list[Document]]:
        try:
            found = retriever.invoke(query, _config(callbacks))
        except InputError as error:
            raise ToolException(str(error)) from error
        return present(query, found)

    async def asearch(query: str, callbacks: Callbacks = None) -> tuple[str, list[Document]]:
        try:
            found = await retriever.ainvoke(query, _config(callbacks))
        except InputError as error:
            raise ToolException(str(error)) from error
        return present(query, found)

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=SearchInput,
        infer_schema=False,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_explain,
    )


def _explain(error: ValidationError | ValidationErrorV1) -> str:
    """Tell the agent which argument breaks which rule."""
    rules = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return f"The input is not valid: {'; '.join(rules)}"


def cite_source(document: Document) -> str:
    """Name the source of a document, as ingestion stores it, or its id."""
    known = document.metadata
    parts = [str(known.get("source") or known.get("title") or document.id)]
    if (page := known.get("page")) is not None:
        parts.append(f"page {page}")
    if isinstance(headings := known.get("headings"), list):
        parts.append(" > ".join(map(str, headings)))
    return ", ".join(parts)


def _write(query: str, documents: Sequence[Document], cite: Callable[[Document], str], room: int) -> str:
    """Write the passages into so many characters; room that short ones leave goes to those after them."""
    if not documents:
        return _cut(f"No passage was found for {query!r}. Try other words.", room)
    return "\n\n".join(_write_passages(documents, cite, room))


def _write_passages(documents: Sequence[Document], cite: Callable[[Document], str], room: int) -> Iterator[str]:
    for number, document in enumerate(documents, start=1):
        share = room // (len(documents) - number + 1) - 2  # two line breaks between passages
        source = cite(document)
        if not isinstance(source, str):
            raise parameter_error("what cite returns", "a str", source)
        source = _cut(" ".join(source.split()), MAX_SOURCE)
        passage = _cut(f"[{number}] {source}\n{document.page_content.strip()}", share)
        room -= len(passage) + 2
        yield passage


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - len(ELLIPSIS)] + ELLIPSIS


def _config(callbacks: Callbacks) -> RunnableConfig:
    return {"callbacks": callbacks}
