"""The context of a chunk counts for words, is embedded, and is not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.files import write, write_rows

from rag_bm25 import BM25Index, Chunk, IndexConfig, InputError, ParameterError, QueryWeighting
from rag_bm25.ingestion import find_files, ingest, read_source_roots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rag_bm25.ingestion.ingesting import IngestReport

CONFIG = IndexConfig(60, fields="default", dense_dim=2)
TEXT = "# Apples\n\nThey grow on trees.\n\n## Storing\n\nKeep them cool. " + "A cellar is good. " * 5


class Situate:
    """Name the document of each chunk, and note which were asked for."""

    def __init__(self, word: str = "zebra") -> None:
        self.word = word
        self.asked: list[str] = []

    def __call__(self, document: str, chunks: Sequence[Chunk]) -> list[str]:
        assert all(chunk.text in document for chunk in chunks)
        self.asked.append(chunks[0].metadata["source"])
        return [f"{self.word} {chunk.metadata['title']}" for chunk in chunks]


class Model:
    """Embed how often the word zebra is in a text, and note the texts."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return [[1.0, float(text.count("zebra"))] for text in texts]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs" / "a.md", TEXT)
    write(tmp_path / "docs" / "b.txt", "Plums\n\nThey are blue.")
    return tmp_path / "docs"


@pytest.fixture
def index() -> Iterator[BM25Index]:
    with BM25Index.open(":memory:", "docs", config=CONFIG) as index:
        yield index


def run(
    index: BM25Index, docs: Path, contextualize: Any = None, model: Model | None = None, **more: Any
) -> IngestReport:
    return ingest(index, find_files([docs]), contextualize=contextualize, embeddings=model or Model(), **more)


def test_a_context_counts_for_words_and_is_embedded_and_is_not_shown(index: BM25Index, docs: Path) -> None:
    run(index, docs)
    assert index.search("zebra") == []
    run(index, docs, Situate())
    for hits in (index.search("zebra", highlight=True, context="neighbors"), index.search_dense([0, 1])):
        assert len(hits) == index.stats().num_chunks
        assert not any("zebra" in hit.text for hit in hits)
    for hit in index.search("zebra", highlight=True, context="neighbors"):
        assert (hit.highlights, hit.field_highlights) == ((), {})
        assert hit.context
        assert "zebra" not in hit.context.text
        assert index.explain("zebra", hit.id).terms[0].fields == {"chunk_context": 1}
    assert index.search_dense([0, 1], k=1)[0].score > 0.7


def test_headings_are_embedded_and_count_no_more_than_they_do_anyway(index: BM25Index, docs: Path) -> None:
    write_rows(docs / "rows.jsonl", {"id": "r", "title": "Figs", "text": "They are green. " * 8})
    model = Model()
    run(index, docs)
    before = [(hit.id, hit.score) for hit in index.search("apples storing figs")]
    run(index, docs, "headings", model)
    assert [(hit.id, hit.score) for hit in index.search("apples storing figs")] == before
    of_figs = [text for text in model.given if "green" in text]
    assert len(of_figs) > 1
    assert all(text.startswith(("Figs They", "Figs\nThey")) for text in of_figs)  # once each
    assert any(text.startswith("Apples\n## Storing") for text in model.given)
    assert any(text.startswith("Apples > Storing\n") for text in model.given)
    assert "Plums\n\nThey are blue." not in model.given  # as it was embedded before


def test_weighing_anew_is_exact_and_a_recount_finds_no_difference(index: BM25Index, docs: Path) -> None:
    another = IndexConfig(60, fields="default", dense_dim=2, k1=0.6, b=0.3)
    with BM25Index.open(":memory:", "docs", config=another) as other:
        for each in (other, index):
            run(each, docs, Situate())
        want = other.search("zebra apples trees cellar")
        got = index.search("zebra apples trees cellar", weighting=QueryWeighting(k1=0.6, b=0.3))
        assert {hit.id: hit.score for hit in got} == pytest.approx({hit.id: hit.score for hit in want}, rel=1e-6)
    write(docs / "a.md", "# Pears\n\nShort.")
    run(index, docs, Situate("yak"))
    run(index, docs, "")
    report = index.verify()
    assert (report.differences, report.wrong_chunks, index.search("zebra yak")) == ([], 0, [])


def test_only_documents_that_are_new_or_have_changed_are_asked_for(index: BM25Index, docs: Path) -> None:
    write_rows(docs / "rows.jsonl", {"id": "r", "title": "Figs", "text": "green"})
    situate = Situate()
    run(index, docs, situate)
    assert sorted(situate.asked) == ["docs/a.md", "docs/b.txt", "docs/rows.jsonl"]
    situate.asked.clear()
    index.repair()  # its files are all read again
    assert run(index, docs, situate).updated == 0
    write(docs / "b.txt", "Plums\n\nThey are pink.")  # as long as before: only the text differs
    assert run(index, docs, situate).updated == 1
    assert situate.asked == ["docs/b.txt"]


def test_a_callable_that_counts_as_false_is_one(index: BM25Index, docs: Path) -> None:
    class Cache(dict[str, str]):
        def __call__(self, _document: str, chunks: Sequence[Chunk]) -> list[str]:
            return ["zebra"] * len(chunks)

    assert run(index, docs, Cache(), strict=True).failed == {}
    assert len(index.search("zebra", k=99)) == index.stats().num_chunks


def test_another_version_is_asked_again(index: BM25Index, docs: Path) -> None:
    run(index, docs, Situate())
    newer = Situate("yak")
    newer.version = "2"  # type: ignore[attr-defined]
    report = run(index, docs, newer)
    assert (report.updated, len(index.search("yak")), index.search("zebra")) == (report.chunks, report.chunks, [])
    change = "--contextualize 'Situate(2)', no longer --contextualize 'Situate()'; the files are cut anew"
    assert report.notes == [f"options of docs: {change}"]
    assert run(index, docs, newer).unchanged == report.chunks
    assert len(newer.asked) == 2


def test_a_run_without_the_function_keeps_the_contexts(index: BM25Index, docs: Path) -> None:
    run(index, docs, Situate())
    write(docs / "b.txt", "Plums\n\nThey are red.")
    report = run(index, docs)
    assert list(report.failed) == ["docs/b.txt"]
    assert "contextualize must be given, since the chunks have contexts of Situate()" in report.failed["docs/b.txt"]
    assert len(index.search("zebra", k=99)) == index.stats().num_chunks == report.unchanged + 1
    assert run(index, docs, "").failed == {}
    assert (index.search("zebra"), read_source_roots(index)[0].options) == ([], {})


async def wait(_document: str, _chunks: Sequence[Chunk]) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _document, _chunks: 1 / 0, "contextualize has failed: ZeroDivisionError: division by zero"),
        (lambda _document, _chunks: ["one", "two"], "must return a sequence of 1 str, one for each chunk, got 2"),
        (lambda _document, _chunks: "c", "must return a sequence of 1 str, one for each chunk, got str"),
        (lambda _document, _chunks: {"c"}, "must return a sequence of 1 str, one for each chunk, got set"),
        (lambda _document, _chunks: [None], "must return str of at most 2,000 characters, got NoneType"),
        (lambda _document, _chunks: ["c" * 2_001], "must return str of at most 2,000 characters, got 2,001 of them"),
        (lambda _document, _chunks: ["\0"], "metadata['chunk_context'] has a NUL at character 0"),
        (wait, "must not be async: it returned a coroutine"),
    ],
)
def test_a_function_that_fails_is_about_one_document_and_loses_nothing(
    index: BM25Index, docs: Path, make: Any, says: str
) -> None:
    write_rows(docs / "rows.jsonl", {"id": "r", "text": "green"}, {"id": "s", "text": "red"})
    run(index, docs)

    def fail_for_some(document: str, chunks: Sequence[Chunk]) -> Any:
        return make(document, chunks) if "blue" in document or "red" in document else ["zebra"] * len(chunks)

    report = run(index, docs, fail_for_some)
    assert list(report.failed) == ["docs/b.txt"]
    assert "b.txt: " in report.failed["docs/b.txt"]
    assert "rows.jsonl line 2: " in report.reasons[0]
    assert all(says in reason for reason in (report.failed["docs/b.txt"], report.reasons[0]))
    assert len(index.search("zebra", k=99)) == report.updated == index.stats().num_chunks - 2


@pytest.mark.parametrize(
    ("config", "contextualize", "says"),
    [
        (CONFIG, 3, 'contextualize must be a callable, "headings" or "", got 3'),
        (CONFIG, False, 'contextualize must be a callable, "headings" or "", got False'),
        (CONFIG, "Situate()", 'contextualize must be a callable, "headings" or "", got \'Situate()\''),
        (IndexConfig(60, dense_dim=2), Situate(), "the field 'chunk_context', which the index does not count"),
    ],
)
def test_others_are_refused_before_anything_is_stored(
    docs: Path, config: IndexConfig, contextualize: Any, says: str
) -> None:
    with BM25Index.open(":memory:", "docs", config=config) as index:
        with pytest.raises(ParameterError) as caught:
            run(index, docs, contextualize)
        assert says in str(caught.value)
        assert read_source_roots(index) == []


def test_strict_asks_once_and_writes_nothing_where_it_fails(index: BM25Index, docs: Path) -> None:
    situate = Situate()
    run(index, docs, situate, strict=True)
    assert sorted(situate.asked) == ["docs/a.md", "docs/b.txt"]
    write(docs / "c.txt", "new")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        run(index, docs, lambda _document, _chunks: 1 / 0, strict=True)  # type: ignore[arg-type, return-value]
    assert len(index.search("zebra", k=99)) == index.stats().num_chunks
    assert read_source_roots(index)[0].options == {"contextualize": "Situate()"}


def test_an_empty_context_is_none(index: BM25Index, docs: Path) -> None:
    run(index, docs, lambda _document, chunks: [" "] * len(chunks))
    assert not any("chunk_context" in chunk.metadata for chunk in index.chunks())
