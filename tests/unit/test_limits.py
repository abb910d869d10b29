"""The limits of SECURITY.md: each at its place, one beyond it refused with a message that has the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig, Query, QueryExpansion, QueryPart, Synonyms
from rag_bm25.adapters import BM25Encoder, encoder
from rag_bm25.adapters.encoder import read_statistics
from rag_bm25.analysis import config as analyzer_settings
from rag_bm25.checks import check_parameter
from rag_bm25.errors import FilterError, FormatError, InputError, ParameterError, short_repr
from rag_bm25.filters import parse_filter
from rag_bm25.ingestion import jsonl
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.formats.extraction import answer
from rag_bm25.ingestion.reading import read_document, read_file
from rag_bm25.ingestion.splitting import Splitter
from rag_bm25.query.min_should_match import check_min_should_match
from rag_bm25.query.synonyms import SynonymRule
from rag_bm25.vectors.terms import MAX_TERM_BYTES, Vocabulary, term_id

HUGE = 10**5000  # Python does not write it in decimals
BEYOND_FLOAT = 10**400


class TestMessages:
    def test_show_a_value_of_any_size(self) -> None:
        assert short_repr("a" * 1000) == f"'{'a' * 199}..."
        assert short_repr(HUGE) == "<int that cannot be shown>"
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        assert short_repr(nested) == "<list that cannot be shown>"

    @pytest.mark.parametrize(
        "given", [{"a": HUGE}, {"a": {"$in": [HUGE]}}, {"a": {"$exists": HUGE}}, {HUGE: 1}, {"$and": HUGE}]
    )
    def test_of_filters(self, given: Any) -> None:
        with pytest.raises(FilterError, match="<int that cannot be shown>"):
            parse_filter(given)

    def test_of_metadata_and_k(self, index: BM25Index) -> None:
        with pytest.raises(InputError, match="which does not fit into 64 bits"):
            index.add(["text"], metadatas=[{"a": HUGE}])
        with pytest.raises(ParameterError, match=r"k must be an int in 1\.\.16384"):
            index.search("text", HUGE)

    def test_of_parameters(self) -> None:
        for value in (HUGE, BEYOND_FLOAT, -HUGE):
            with pytest.raises(ParameterError, match="chunk_size must be a finite number > 0"):
                IndexConfig(chunk_size=value)
            with pytest.raises(ParameterError, match="x must be"):
                check_parameter("x", value, "any finite number", holds=True)
            with pytest.raises(ParameterError, match="min_should_match must be"):
                check_min_should_match("min_should_match", value)
            with pytest.raises(InputError, match="boost of 'a' must be"):
                QueryPart("a", value)


class TestQueries:
    def test_characters(self, index: BM25Index) -> None:
        index.search("a" * 65_535)
        for query in ("a" * 65_536, {"a" * 40_000: 1.0, "b" * 40_000: 2.0}):
            with pytest.raises(InputError, match="a query must have at most 65,535 characters"):
                index.search(query)
        with pytest.raises(InputError, match="at most 65,535 characters, got 80,000"):
            Query.parse("a^2 " * 20_000)

    def test_parts(self) -> None:
        with pytest.raises(InputError, match="a query must have at most 16,384 parts, got 16,385"):
            Query((QueryPart("a"),) * 16_385)

    def test_a_lone_surrogate_finds_nothing(self, index: BM25Index) -> None:
        index.add(["apple"])
        assert index.search("\ud800") == []
        assert len(index.search("apple \ud800")) == 1


class TestTerms:
    def test_of_the_users_own_analyzer(self, index: BM25Index, store: MemoryStore) -> None:
        index.add(["a" * MAX_TERM_BYTES])
        before = dict(store.collections.log)
        with pytest.raises(
            InputError, match="a term must have at most 32,768 bytes of UTF-8, the analyzer returned one of 32,769"
        ):
            index.add(["a" * (MAX_TERM_BYTES + 1)])
        assert store.collections.log == before

    def test_of_surrogates(self) -> None:
        with pytest.raises(InputError, match="a term with a lone surrogate at character 1"):
            Vocabulary().stage()["a\ud800"]
        assert term_id("\ud800") > 0


class TestWords:
    def test_synonyms(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="synonyms line 1 must have at most 256 words on a side, got 257"):
            Synonyms.parse(",".join(f"w{n}" for n in range(257)))
        with pytest.raises(InputError, match="synonyms must have at most 100,000 rules, got 100,001"):
            Synonyms((SynonymRule(("a",), (("b", 1.0),), ""),) * 100_001)
        QueryExpansion(synonyms=Synonyms.parse(",".join(f"w{n}" for n in range(256))))

    def test_bytes_of_synonyms(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.query.synonyms.MAX_FILE_BYTES", 4)
        file = tmp_path / "synonyms.txt"
        file.write_text("a, b")
        assert len(Synonyms.read(file).rules) == 1
        file.write_text("a, bc")
        with pytest.raises(InputError, match=r"synonyms\.txt must have at most 4 bytes"):
            Synonyms.read(file)

    @pytest.mark.parametrize("name", ["stop_words", "question_words", "user_words"])
    def test_of_the_analyzer(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(analyzer_settings, "MAX_WORDS", 2)
        without: dict[str, Any] = {"stop_words": (), "question_words": ()}
        AnalyzerConfig(**{**without, name: ["a", "b"]})
        with pytest.raises(ParameterError, match=f"{name} must be a collection of at most 2 words, got more"):
            AnalyzerConfig(**{**without, name: iter(["a", "b", "c"])})


class TestFiles:
    @pytest.mark.parametrize(("name", "what"), [("a.txt", "a document"), ("a.jsonl", "line 1: a line")])
    def test_bytes_of_a_document(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str) -> None:
        monkeypatch.setattr("rag_bm25.ingestion.reading.MAX_DOCUMENT_BYTES", 27)
        monkeypatch.setattr("rag_bm25.ingestion.lines.MAX_DOCUMENT_BYTES", 27)
        file = tmp_path / name
        for text, fits in (('{"id": "1", "text": "abcd"}', True), ('{"id": "1", "text": "abcde"}', False)):
            file.write_text(text)
            [found] = find_files([file]).files
            if fits:
                assert len(list(read_file(found, Splitter(1_000, 0, 0)))) == 1
                continue
            with pytest.raises(InputError, match=f"{what} must have at most 27 bytes"):
                list(read_file(found, Splitter(1_000, 0, 0)))

    @pytest.mark.parametrize(("name", "unit"), [("a.md", "# a\n"), ("a.rst", "a\n===\n\n")])
    def test_headings_of_a_document(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, unit: str
    ) -> None:
        monkeypatch.setattr("rag_bm25.ingestion.documents.MAX_HEADINGS", 3)
        file = tmp_path / name
        file.write_text(unit * 3)
        assert len(read_document(file).headings) == 3
        file.write_text(unit * 4)
        with pytest.raises(InputError, match=f"{name}: it has more than 3 headings"):
            read_document(file)

    def test_headings_that_a_parser_finds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.ingestion.documents.MAX_HEADINGS", 3)
        file = tmp_path / "a.html"
        file.write_text("<h1>a</h1>" * 3)
        assert len(answer(str(file), str(file), encoding=None, hidden=False, repeated=False)["headings"]) == 3
        file.write_text("<h1>a</h1>" * 4)
        assert answer(str(file), str(file), encoding=None, hidden=False, repeated=False) == {
            "error": "it has more than 3 headings"
        }

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_the_end_of_a_line_does_not_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
        monkeypatch.setattr("rag_bm25.ingestion.lines.MAX_DOCUMENT_BYTES", 27)
        file = tmp_path / "a.jsonl"
        file.write_bytes(f'{{"id": "1", "text": "abcd"}}{end}{{"id": "2", "text": "abcd"}}{end}'.encode())
        with file.open("rb") as stream:
            assert [line.row["id"] for line in jsonl.read_json_lines(stream)] == ["1", "2"]
        file.write_bytes(f'{{"id": "1", "text": "abcde"}}{end}'.encode())
        with file.open("rb") as stream, pytest.raises(InputError, match="a line must have at most 27 bytes"):
            list(jsonl.read_json_lines(stream))

    def test_a_line_of_statistics(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "statistics.json.gz"
        BM25Encoder(IndexConfig(4, analyzer=split)).fit(["apple"]).save(file)
        read_statistics(file)
        monkeypatch.setattr(encoder, "MAX_LINE", 40)
        with pytest.raises(FormatError, match="or is damaged: a line has more than 40 characters"):
            read_statistics(file)
