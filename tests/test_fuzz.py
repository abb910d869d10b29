"""The fuzzers of scripts/fuzz: some dozen inputs of each, and that they notice what they are for."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fuzz.__main__ import TARGETS
from support import engines

from rag_bm25.analysis import bigrams
from rag_bm25.store.milvus.expressions import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]

without_rjieba = pytest.mark.skipif(find_spec("rjieba") is None, reason="rjieba is not installed, to compare with")
without_engine = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")
without_rapidfuzz = pytest.mark.skipif(find_spec("rapidfuzz") is None, reason="rapidfuzz is not installed")
NEEDS = {"analyzer": without_rjieba, "engine": without_engine, "queries": without_rapidfuzz}


def check(target: str) -> Callable[[], None]:
    return importlib.import_module(f"fuzz.{target}").check


def try_random_inputs(target: str, inputs: int = 200) -> None:
    source = random.Random(target)
    for _ in range(inputs):
        check(target).hypothesis.fuzz_one_input(source.randbytes(source.randrange(400)))


@pytest.mark.parametrize("target", [pytest.param(name, marks=NEEDS.get(name, ())) for name in TARGETS])
def test_no_input_breaks_a_rule(target: str) -> None:
    check(target)()


@without_rjieba
def test_the_analyzer_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bigrams, "find_ideographs", lambda text: [])
    with pytest.raises(AssertionError):
        try_random_inputs("analyzer")


def test_injection_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dialect, "quote", lambda self, text: f'"{text}"')
    with pytest.raises((AssertionError, KeyError)):
        try_random_inputs("filters", 2_000)


def test_a_wrong_order_of_ids_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.store.milvus.client.np.frombuffer", lambda data, kind: bytes_reversed(data, kind))
    with pytest.raises(AssertionError):
        try_random_inputs("vectors")


def bytes_reversed(data: bytes, kind: object) -> object:
    import numpy as np

    return np.ndarray(len(data) // 8, kind, data)[::-1][1:]


def test_a_target_runs_for_its_time_and_for_one_input(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"12345678")
    for options in (["--minutes", "0.001"], ["--input", str(tmp_path / "input")]):
        command = [sys.executable, str(ROOT / "scripts" / "fuzz"), "vectors", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
