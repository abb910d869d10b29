"""The documentation lists what there is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path
from typing import Any

import engines
import pytest
from mutants import MUTANTS

import rag_bm25
from rag_bm25 import events
from rag_bm25.similarity import IDF_NAMES
from rag_bm25.weightings import WEIGHTING_NAMES, WEIGHTINGS

embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(rag_bm25.__file__).parent
FENCE = r"^```(\w*)\n(.*?)^```$"


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
    first, *others = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), names)
    assert capsys.readouterr().out == blocks(ROOT / "README.md", "text")[0]
    exec(GIVEN, names)
    for code in others:
        exec(compile(code.replace("index.delete(ids)", "index.delete([])"), "README.md", "exec"), names)
    names["index"].close()


@embedded
@pytest.mark.parametrize("page", ["tutorial.md", "tutorial.zh-CN.md"])
def test_a_tutorial_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("langchain_text_splitters")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = 0
    for language, block in re.findall(FENCE, (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, page, "exec"), names)
        elif language == "text":
            assert capsys.readouterr().out == block
            printed += 1
    assert printed
    assert capsys.readouterr().out == ""


def test_links_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for link, anchor in re.findall(r"\]\(([^)#:]+)(#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(page.parent / link), f"{page.name}: {link}{anchor}"


def test_files_that_are_named_are_there() -> None:
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for word in " ".join(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))).split():
            if re.fullmatch(r"(docker|docs|scripts|tests)/[\w./-]+", word):
                assert (ROOT / word).exists(), f"{page.name}: {word}"


def anchors(page: Path) -> list[str]:
    """Name the headings of a page as links do."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return ["#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def facts(section: str) -> dict[str, Any]:
    """What a text and its translation have in common: code but for its comments, names, figures, links, tables."""
    prose = re.sub(FENCE, "", section, flags=re.MULTILINE | re.DOTALL)
    code = [
        [line.split("#")[0].rstrip() for line in block.splitlines()[: 1 if language == "text" else None]]
        for language, block in re.findall(FENCE, section, re.MULTILINE | re.DOTALL)
    ]
    links = [link.replace(".zh-CN", "") for link in re.findall(r"\]\(([^)]+)\)", prose)]
    figures = re.findall(r"\d+(?:[.,]\d+)*|\.\d+", re.sub(r"`[^`]+`|\]\([^)]+\)", "", prose))
    return {
        "code": code,
        "names": Counter(re.findall(r"`([^`]+)`", prose)),
        "links": Counter(links),
        "figures": Counter(figures),
        "rows and items": Counter(re.findall(r"^[|-]", prose, re.MULTILINE)),
    }


def test_the_chinese_readme_says_the_same() -> None:
    english, chinese = (
        (ROOT / name).read_text(encoding="utf-8").split("\n## ") for name in ("README.md", "README.zh-CN.md")
    )
    assert len(english) == len(chinese)
    for section, translation in zip(english, chinese, strict=True):
        assert facts(translation) == facts(section), section.split("\n")[0]


def test_the_nav_of_the_site_names_every_page() -> None:
    named = set(re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    made = set(re.findall(r'"([\w.-]+\.md)",?$', (ROOT / "scripts/website/pages.py").read_text("utf-8"), re.MULTILINE))
    assert named - made == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert made <= named


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)}
    described = {id(member) for name in shown for member in members(name)}
    packages = ["", ".adapters", ".analysis", ".evaluation", ".langchain", ".milvus_store"]
    for package in (importlib.import_module(f"rag_bm25{name}") for name in packages):
        public = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
        assert [name for name, member in public.items() if id(member) not in described] == [], package.__name__


def members(name: str) -> list[Any]:
    """What ``::: name`` shows: a class, or all that a module exports."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, member = name.rpartition(".")
        return [getattr(importlib.import_module(parent), member)]
    return [getattr(module, exported) for exported in module.__all__]


def test_every_module_is_in_a_layer_of_the_architecture() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n| layer |")[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    modules = {info.name for info in pkgutil.iter_modules(rag_bm25.__path__) if not info.name.startswith("_")}
    assert sorted(named) == sorted(modules)


def test_every_mutant_is_of_code_that_is_there() -> None:
    for mutant in MUTANTS:
        code = (PACKAGE / f"{mutant.module}.py").read_text(encoding="utf-8")
        assert code.count(mutant.old) == 1, mutant


def test_every_event_is_in_the_table_with_its_level() -> None:
    pattern = r"^``(\w+)`` +(INFO|DEBUG) "
    told = dict(re.findall(pattern, events.__doc__ or "", re.MULTILINE))
    page = (DOCS / "operating.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \| (INFO|DEBUG) ", page, re.MULTILINE)) == told
    assert {name for name, level in told.items() if level == "DEBUG"} == events.DEBUG_EVENTS
    source = "".join(path.read_text(encoding="utf-8") for path in Path(events.__file__).parent.glob("*.py"))
    assert set(re.findall(r'events\.timed\("(\w+)"\)', source)) == set(told)
