"""A fingerprint spares the probes, and hides nothing that they would show."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from rag_bm25.analysis import Analyzer, AnalyzerConfig, fingerprint
from rag_bm25.analysis.fingerprint import SOURCES, fingerprint_of
from rag_bm25.analysis.words import Stemming

DIGESTS = {"added": "0" * 12, "南京市长江大桥": "1" * 12}
PACKAGE = Path(fingerprint.__file__).parents[1]
WITHOUT_TOKENS = {"errors", "checks", "definitions", "_version", "_exports"}
"""Modules that the analyzer imports, and no token depends on."""


class Subclass(Analyzer):
    """It may do what it likes."""


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Look at the environment as a new process does."""
    fingerprint._environment.cache_clear()
    yield
    fingerprint._environment.cache_clear()


def made(config: AnalyzerConfig = AnalyzerConfig()) -> str | None:  # noqa: B008
    return fingerprint_of(Analyzer(config), DIGESTS)


def test_equal_analyzers_have_one() -> None:
    first = made()
    fingerprint._environment.cache_clear()
    assert first == made() is not None


@pytest.mark.parametrize(
    "other",
    [
        lambda: made(AnalyzerConfig(stem=False)),
        lambda: made(AnalyzerConfig(stop_words=["the"])),  # type: ignore[arg-type]
        lambda: fingerprint_of(Analyzer(segmenter="jieba"), DIGESTS),
        lambda: fingerprint_of(Analyzer(), {**DIGESTS, "added": "2" * 12}),
    ],
    ids=["settings", "words of a file", "segmenter", "tokens"],
)
def test_what_is_asked_for_changes_it(other: Callable[[], str | None]) -> None:
    assert other() not in (None, made())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rag_bm25.analysis.fingerprint.__version__", "9.0"),
        ("rag_bm25.analysis.fingerprint.stemmer_version", lambda: "9.0"),
        ("rag_bm25.analysis.fingerprint.version", lambda name: {"jieba": "9.0"}.get(name, "")),
        ("rag_bm25.analysis.fingerprint.version", lambda name: {"rjieba": "9.0"}.get(name, "")),
        ("rag_bm25.analysis.fingerprint.find_spec", lambda _: None),
        ("rag_bm25.analysis.fingerprint.dictionary_path", lambda: None),
        ("sys.version_info", (3, 99, 0, "final", 0)),
        ("unicodedata.unidata_version", "99.0.0"),
    ],
)
def test_what_is_installed_changes_it(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    before = made()
    monkeypatch.setattr(name, value)
    fingerprint._environment.cache_clear()
    assert made() not in (None, before)


def test_another_snowball_of_the_same_version_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made()
    monkeypatch.setattr(Stemming, "term", lambda _, word: word[:3])
    assert made() not in (None, before)


def test_another_dictionary_in_the_place_of_that_of_jieba_changes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before, path = made(), tmp_path / "dict.txt"
    shutil.copy(str(fingerprint.dictionary_path()), path)
    monkeypatch.setattr(fingerprint, "dictionary_path", lambda: path)
    fingerprint._environment.cache_clear()
    assert made() == before
    path.write_bytes(path.read_bytes().replace(b" 3 ", b" 4 ", 1))
    fingerprint._environment.cache_clear()
    assert made() != before


@pytest.mark.parametrize("changed", ["analysis/words.py", "analysis/data", "vectors/terms.py", "scripts.py"])
def test_sources_change_it_where_the_version_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    before, package = made(), tmp_path / "package"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "files", lambda _: package)
    fingerprint._environment.cache_clear()
    assert made() == before
    path = next((package / changed).iterdir()) if (package / changed).is_dir() else package / changed
    path.write_bytes(path.read_bytes() + b"#")
    fingerprint._environment.cache_clear()
    assert made() != before


def test_the_sources_are_all_that_the_analyzer_imports() -> None:
    code = "import sys, rag_bm25.analysis.contract; print(*(name for name in sys.modules if name[:9] == 'rag_bm25.'))"
    modules = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, check=True).stdout
    rooms = {name.split(".")[1] for name in modules.decode().split()} - WITHOUT_TOKENS
    assert rooms == {source.removesuffix(".py") for source in SOURCES if "/" not in source}


@pytest.mark.parametrize(
    "analyzer",
    [str.split, Subclass(), Analyzer().__call__, Analyzer(AnalyzerConfig(user_words=["云计算"]))],  # type: ignore[arg-type]
)
def test_callables_and_user_words_have_none(analyzer: Callable[[str], list[str]]) -> None:
    assert fingerprint_of(analyzer, DIGESTS) is None


@pytest.mark.parametrize(("name", "error"), [("version", PackageNotFoundError), ("files", FileNotFoundError)])
def test_what_is_packed_without_its_version_or_sources_has_none(
    monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception]
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(fingerprint, name, fail)
    assert made() is None
