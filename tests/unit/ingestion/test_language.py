"""Guess the language of texts, and the settings that suit it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig
from rag_bm25.documents.chunks import NewChunk
from rag_bm25.ingestion import find_files, ingest, language, splitter
from rag_bm25.ingestion.language import guess_language, keep_sample, sample_texts, settings_for

pytest.importorskip("py3langid", reason="guessing needs rag-bm25[documents]")

SENTENCES = {
    "french": "La mairie de la ville a été construite dans les années de la guerre, et le pont {} date de 1893.",
    "german": "Der Bahnhof der Stadt wurde nach dem Krieg neu gebaut, und die Brücke {} ist aus dem Jahr 1893.",
    "spanish": "El ayuntamiento de la ciudad fue construido en los años de la guerra, y el puente {} es de 1893.",
    "russian": "Городской вокзал был построен заново после войны, а мост {} через реку относится к 1893 году.",
    "finnish": "Kaupungin rautatieasema rakennettiin sodan jälkeen, ja silta {} joen yli on vuodelta 1893.",
    "turkish": "Şehrin tren istasyonu savaştan sonra yeniden inşa edildi ve nehir üzerindeki köprü {} eskidir.",
    "english": "The station of the town was built anew after the war, and the bridge {} across the river is of 1893.",
    "chinese": "战后重建了城市的火车站，河上的桥 {} 建于1893年。Milvus 和 BM25 的检索结果 top-k 见下表。",
    "code": "def get_bridge_{}(self, year: int = 1893):\n    return [name for name in self._bridges if name]",
    "log": "2023-08-15T12:30:45Z INFO nginx[{}]: 10.0.0.1 GET /api/v1/items/7f3a9c 200 18ms upstream=10.0.3.7:8080",
    "numbers": "{} | 12.5 | 37 | 0x7f3a | 2023-08-15 | 99.9%",
    "names": "In {} the board of Société Générale met in Besançon with François Lefèvre and Geneviève Béranger.",
}  # fmt: skip


def texts_of(name: str, number: int = 200) -> list[str]:
    return [SENTENCES[name].format(at) for at in range(number)]


@pytest.mark.parametrize("name", ["french", "german", "spanish", "russian", "finnish", "turkish"])
def test_other_languages_are_guessed_with_what_suits_them(name: str) -> None:
    texts = texts_of(name)
    assert guess_language(texts) == name
    assert settings_for(texts, {}) == {"stem": name, "idf": "lucene"}
    assert settings_for(texts, {"idf": "plus"}) == {"stem": name}
    assert settings_for(texts, {"stem": True}) == {}


@pytest.mark.parametrize("name", ["english", "chinese", "code", "log", "numbers", "names"])
def test_other_texts_are_not_guessed(name: str) -> None:
    assert settings_for(texts_of(name), {}) == {}


@pytest.mark.parametrize(("others", "guess"), [(20, "french"), (21, None)])
def test_nine_in_ten_are_needed(others: int, guess: str | None) -> None:
    assert guess_language([*texts_of("french", 200 - others), *texts_of("english", others)]) == guess


def test_few_texts_and_several_languages_are_not_guessed() -> None:
    assert guess_language(texts_of("french", 199)) is None
    assert guess_language([*texts_of("french", 100), *texts_of("german", 100)]) is None


def test_nothing_is_guessed_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    language._classifier.cache_clear()
    assert guess_language(texts_of("french")) is None
    language._classifier.cache_clear()


def test_a_sample_is_of_many_files(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("\n\n".join(texts_of("french", 2_000)))
    for number in range(19):
        (tmp_path / f"{number}.txt").write_text("\n\n".join(texts_of("english", 60)))
    split = splitter(IndexConfig(150))
    files = find_files([tmp_path]).files
    texts = sample_texts(files, split)
    assert len(texts) == 200
    assert sum("mairie" in text for text in texts) <= 10
    assert len(sample_texts([file for file in files if file.path.name == "long.txt"], split)) == 200


def test_a_kept_sample_is_of_all_chunks() -> None:
    chunks = [NewChunk(str(number), str(number), {}, 0) for number in range(1_000)]
    kept: list[str] = []
    assert list(keep_sample(chunks, kept)) == chunks
    assert len(set(kept)) == 200
    assert sum(int(text) >= 500 for text in kept) > 50


@pytest.mark.parametrize(
    ("name", "stem", "told"), [("french", True, True), ("french", "french", False), ("english", True, False)]
)
def test_python_changes_nothing_and_tells(tmp_path: Path, name: str, stem: bool | str, told: bool) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(texts_of(name, 400)))
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(150, analyzer=AnalyzerConfig(stem=stem)))
    notes = ingest(index, find_files([tmp_path])).notes
    assert notes == ["nine in ten texts are French: stem=french,idf=lucene find more in a new index"] * told
    assert (index.config.idf, index.config.analyzer.stem) == ("epsilon", stem)
