"""Answer questions from documents: split, index, retrieve, prompt, answer.

::

    python scripts/examples/rag_pipeline.py

The chat model is one of LangChain's fakes, so that this runs offline; put your own in its place.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough

from rag_bm25 import BM25Index, IndexConfig, RagBM25Error
from rag_bm25.ingestion import splitter
from rag_bm25.langchain import MilvusBM25Retriever

CONFIG = IndexConfig(chunk_size=120)
HANDBOOK = {
    "leave.md": "Every employee has 28 days of leave a year. Leave not taken by 31 March of the next year is lost. "
    "Requests go to the team lead, two weeks ahead; one of more than ten days goes to the head of the department.",
    "travel.md": "Trains are booked in second class, flights in economy. Receipts are handed in within 30 days of the "
    "journey with form R-12. A night in a hotel may cost up to 140 euros, in Zurich and London up to 220.",
    "年假.md": "员工每年享有28天年假。未休完的年假须在次年3月31日前使用，逾期作废。请假须提前两周向组长申请。",
}
PROMPT = ChatPromptTemplate.from_template(
    "Answer from the context alone, and name the sources.\n\nContext:\n{context}\n\nQuestion: {question}"
)


def split_documents() -> list[Document]:
    """Cut the handbook into chunks, at most as long as the chunk size."""
    split = splitter(CONFIG, chunk_overlap=0).split
    return [
        Document(text[part.start : part.end], metadata={"source": source})
        for source, text in HANDBOOK.items()
        for part in split(text)
    ]


def context_of(documents: list[Document]) -> str:
    """Write documents into the prompt, each with its source and its score."""
    return "\n".join(
        f"[{document.metadata['source']}, {document.metadata['score']:.2f}] {document.page_content}"
        for document in documents
    )


def pipeline(retriever: MilvusBM25Retriever, model: BaseChatModel) -> Runnable[str, str]:
    """Join the parts: a question in, an answer out."""
    context = {"context": retriever | context_of, "question": RunnablePassthrough()}
    return context | PROMPT | show | model | StrOutputParser()


def show(prompt: object) -> object:
    """Print what the model is told."""
    print(prompt.to_string(), end="\n\n")  # type: ignore[attr-defined]
    return prompt


def main() -> None:
    model = FakeListChatModel(responses=["Up to 220 euros (travel.md).", "次年3月31日前（年假.md）。"])
    with (
        tempfile.TemporaryDirectory() as folder,
        BM25Index.open(Path(folder, "rag.db"), "handbook", config=CONFIG) as index,
    ):
        retriever = MilvusBM25Retriever.from_documents(split_documents(), index=index, k=2, score_key="score")
        answer = pipeline(retriever, model)
        for question in ("How much may a hotel in London cost?", "年假什么时候作废？"):
            print("Answer:", answer.invoke(question), end="\n\n")


if __name__ == "__main__":
    try:
        main()
    except RagBM25Error as error:
        sys.exit(str(error))
