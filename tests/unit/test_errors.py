from __future__ import annotations

from pathlib import Path

import pytest

from rag_bm25 import errors

NAMES = [name for name in vars(errors) if name.endswith("Error")]


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ChunkNotFoundError", KeyError),
        ("ConfigMismatchError", ValueError),
        ("FilterError", ValueError),
        ("FormatError", ValueError),
        ("IndexNotFoundError", KeyError),
        ("InputError", ValueError),
        ("MissingExtraError", ImportError),
        ("ParameterError", ValueError),
        ("ReadOnlyError", PermissionError),
        ("StoreError", ConnectionError),
        ("StoreLockedError", ConnectionError),
        ("WorkerError", RuntimeError),
    ],
)
def test_error_is_caught_as_ours_and_as_the_builtin(name: str, builtin: type[Exception]) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.RagBM25Error)
    assert issubclass(error, builtin)


@pytest.mark.parametrize("name", NAMES)
def test_message_of_every_error_reads_as_written(name: str) -> None:
    assert str(getattr(errors, name)("no index 'docs'")) == "no index 'docs'"


@pytest.mark.parametrize("name", NAMES)
def test_error_without_message_has_an_empty_text(name: str) -> None:
    assert str(getattr(errors, name)()) == ""


def test_filter_error_is_an_input_error() -> None:
    assert issubclass(errors.FilterError, errors.InputError)


def test_locked_store_is_a_store_error() -> None:
    assert issubclass(errors.StoreLockedError, errors.StoreError)


def test_docstring_shows_every_error() -> None:
    tree = errors.__doc__ or ""
    assert [name for name in NAMES if name not in tree] == []


def test_in_the_image_nobody_is_sent_to_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BM25_IMAGE", "1")
    error = errors.MissingExtraError('measuring needs ir-measures: pip install ".[eval]"')
    assert str(error) == 'measuring needs ir-measures: build an image with ".[eval]"'


def test_how_an_extra_is_installed_is_said_in_one_place() -> None:
    package = Path(errors.__file__).parent
    said = [path.name for path in package.rglob("*.py") if "rag-bm25[" in path.read_text(encoding="utf-8")]
    assert said in ([], ["errors.py"])
    assert "[lite]" in errors.install_extra("lite")
