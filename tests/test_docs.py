"""The documentation lists what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import engines
import pytest
from mutants import MUTANTS

from rag_bm25 import events
from rag_bm25.similarity import IDF_NAMES
from rag_bm25.weightings import WEIGHTING_NAMES, WEIGHTINGS

embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")

DOCS = Path(__file__).resolve().parents[1] / "docs"


def rows(heading: str) -> dict[str, str]:
    """Return the rows of the first table below a heading, by the name in their first cell."""
    section = (DOCS / "weightings.md").read_text(encoding="utf-8").split(f"\n## {heading}")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*)\|$", section, re.MULTILINE))


def test_every_weighting_is_in_the_table_with_its_parameters() -> None:
    table = rows("Document side")
    assert set(table) == set(WEIGHTING_NAMES)
    for name, row in table.items():
        form = WEIGHTINGS[name]
        parameters = row.split(" | ")[1]
        assert ("k1" in form.formula) == ("k1" in parameters), name
        assert (form.delta is not None) == ("delta" in parameters), name
        assert ("norm" in form.formula and form.b is None) == bool(re.search(r"\bb\b", parameters)), name


def test_every_idf_is_in_the_table() -> None:
    assert set(rows("Query side")) == set(IDF_NAMES)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@embedded
@pytest.mark.parametrize("page", ["querying.md", "langchain.md", "operating.md", "bulk.md"])
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rapidfuzz")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    code = blocks(DOCS / page, "python")
    assert code
    exec(compile("\n".join(code), page, "exec"), {})


GIVEN = """
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

index = BM25Index.open("./rag.db", "docs")
texts, ids, metadatas = ["劳务协议由双方协商解除。", "lab"], ["law-17", "lab"], [{"page": 3}, {"page": 4}]
documents, model = [Document(text) for text in texts], DeterministicFakeEmbedding(size=384)
"""


@embedded
def test_the_code_of_the_readme_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rapidfuzz")
    monkeypatch.chdir(tmp_path)
    Path("synonyms.txt").write_text("劳动合同, 劳务协议\n", encoding="utf-8")
    first, *others = blocks(DOCS.parent / "README.md", "python")
    names: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), names)
    assert capsys.readouterr().out == blocks(DOCS.parent / "README.md", "text")[0]
    exec(GIVEN, names)
    for code in others:
        exec(compile(code.replace("index.delete(ids)", "index.delete([])"), "README.md", "exec"), names)
    names["index"].close()


def test_links_lead_somewhere() -> None:
    for page in (DOCS.parent / "README.md", *DOCS.glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_mutant_is_of_code_that_is_there() -> None:
    for mutant in MUTANTS:
        code = (DOCS.parent / "rag_bm25" / f"{mutant.module}.py").read_text(encoding="utf-8")
        assert code.count(mutant.old) == 1, mutant


def test_every_event_is_in_the_table_with_its_level() -> None:
    pattern = r"^``(\w+)`` +(INFO|DEBUG) "
    told = dict(re.findall(pattern, events.__doc__ or "", re.MULTILINE))
    page = (DOCS / "operating.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \| (INFO|DEBUG) ", page, re.MULTILINE)) == told
    assert {name for name, level in told.items() if level == "DEBUG"} == events.DEBUG_EVENTS
    source = "".join(path.read_text(encoding="utf-8") for path in Path(events.__file__).parent.glob("*.py"))
    assert set(re.findall(r'events\.timed\("(\w+)"\)', source)) == set(told)
