"""The documentation lists what there is."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import pytest
from mutants import MUTANTS
from numpydoc.validate import validate
from support import engines
from support.programs import environment, matches

import rag_bm25
from rag_bm25 import MissingExtraError, events
from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WEIGHTINGS
from rag_bm25.weighting.idf import IDF_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

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
@pytest.mark.parametrize(
    "page",
    [
        "bm25retriever.md",
        "querying.md",
        "conditions.md",
        "database.md",
        "groups.md",
        "hits.md",
        "ingesting.md",
        "langchain.md",
        "milvus.md",
        "monitoring.md",
        "programs.md",
        "weightings.md",
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rapidfuzz")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    code = blocks(DOCS / page, "python")
    assert code
    if "langchain_core.cross_encoders" in "".join(code):
        pytest.importorskip("langchain_core.cross_encoders")  # younger than langchain-core 1.0
    exec(compile("\n".join(code), page, "exec"), {})


@embedded
@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_code_of_a_readme_runs_as_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    first, *others = blocks(ROOT / page, "python")
    exec(compile(first, page, "exec"), names)
    assert capsys.readouterr().out == blocks(ROOT / page, "text")[0]
    assert len(others) == 2
    for code in others:
        exec(compile(code, page, "exec"), names)
    assert "closed" in repr(names["index"])


@embedded
@pytest.mark.parametrize("page", ["tutorial.md", "tutorial.zh-CN.md", "reasons.md", "hybrid.md"])
def test_a_page_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rapidfuzz")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = 0
    for language, block in re.findall(FENCE, (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, page, "exec"), names)
        elif language == "text":
            out = capsys.readouterr().out
            assert matches(block.splitlines(), out), out
            printed += 1
    assert printed
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@embedded
@pytest.mark.parametrize("page", ["from-collection.md", "from-milvus-bm25.md", "gate.md"])
def test_the_programs_and_commands_of_a_page_run_as_printed(page: str, tmp_path: Path) -> None:
    """Each in a process of its own, since a database file is open in one."""
    options: Any = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True, "check": False}
    shown = 0
    for language, block in re.findall(FENCE, (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for step in [block] if language == "python" else re.split(r"^\$ rag-bm25 ", block, flags=re.MULTILINE)[1:]:
            command, *lines = step.splitlines()
            arguments = ["-c", step] if language == "python" else ["-m", "rag_bm25", *shlex.split(command)]
            ended = subprocess.run([sys.executable, *arguments], **options)
            assert ended.returncode == 0, f"{step}: {ended.stderr}"
            if language == "console":
                shown += 1
                assert matches(lines, ended.stdout), f"{command}:\n{ended.stdout}"
    assert shown >= 2


def test_links_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for link, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", page.read_text(encoding="utf-8")):
            goal = page.parent / link if link else page
            assert goal.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(goal), f"{page.name}: {link}{anchor}"


def test_links_of_chinese_pages_go_to_chinese_pages() -> None:
    for page in (*ROOT.glob("*.zh-CN.md"), *DOCS.glob("*.zh-CN.md")):
        for label, name in re.findall(r"\[([^]]*)\]\(([^):#]*\.md)", page.read_text(encoding="utf-8")):
            twin = page.parent / name.replace(".md", ".zh-CN.md")
            assert label == "English" or ".zh-CN" in name or not twin.exists(), f"{page.name}: {name}"


def test_the_gate_has_one_name_in_chinese() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (*ROOT.glob("*.zh-CN.md"), *DOCS.glob("*.zh-CN.md"))]
    labels = re.findall(r"\[([^]]*)\]\((?:docs/)?gate\.md", "".join(pages))
    assert len(labels) > 1
    assert set(labels) == {"CI 的质量门禁"}
    assert re.findall("关卡|门槛|闸门", "".join(pages)) == []


def test_files_that_are_named_are_there() -> None:
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for word in " ".join(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))).split():
            if re.fullmatch(r"(docker|docs|scripts|tests)/[\w./-]+", word):
                assert (ROOT / word).exists(), f"{page.name}: {word}"


def test_the_page_that_the_wrong_engine_names_shows_how_an_index_moves() -> None:
    sources = [(PACKAGE / f"store/milvus/lite{version}.py").read_text(encoding="utf-8") for version in (2, 3)]
    named = re.findall(r"copy it through a server \((\S+\.md)\)", "".join(sources))
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in named]
    assert ["milvus-lite server" in page for page in pages] == [True, True]


def anchors(page: Path) -> list[str]:
    """Name the headings of a page as links do."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)"></a>', page.read_text(encoding="utf-8"))
    return ["#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings] + [
        "#" + name for name in named
    ]


def facts(section: str) -> dict[str, Any]:
    """What a text and its translation have in common: code but for its comments, names, figures, links, tables."""
    prose = re.sub(FENCE, "", section, flags=re.MULTILINE | re.DOTALL)
    code = [
        [line.split("#")[0].rstrip() for line in block.splitlines()[: 1 if language == "text" else None]]
        for language, block in re.findall(FENCE, section, re.MULTILINE | re.DOTALL)
    ]
    links = [link.replace(".zh-CN", "") for link in re.findall(r"\]\(([^)]+)\)", prose)]
    figures = re.findall(r"\d+(?:[.,]\d+)*|\.\d+", re.sub(r"`[^`]+`|\]\([^)]+\)|<a [^>]+>", "", prose))
    return {
        "code": code,
        "names": Counter(re.findall(r"`([^`]+)`", prose)),
        "links": Counter(links),
        "figures": Counter(figures),
        "rows and items": Counter(re.findall(r"^[|-]", prose, re.MULTILINE)),
    }


def test_the_readme_is_read_in_a_few_minutes() -> None:
    words = [word for word in (ROOT / "README.md").read_text(encoding="utf-8").split() if re.search(r"\w", word)]
    assert len(words) <= 800  # code and tables included; what has no letter or digit is no word


def test_the_readme_has_the_times_of_the_page_on_performance() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| search, p50 |")[1].split("\n\n")[0]
    measured = (DOCS / "performance.md").read_text(encoding="utf-8")
    times = re.findall(r"[\d.]+ m?s\b", table)
    assert len(times) == 8
    assert [time for time in times if f" {time}" not in measured] == []


def test_the_table_of_choices_has_the_means_of_what_was_measured() -> None:
    section = (DOCS / "tuning.md").read_text(encoding="utf-8").split("\n## The default")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (\.\d+) \| (\.\d+) \|$", section, re.MULTILINE)
    assert len(rows) > 10
    for system, *shown in rows:
        assert [float(mean) for mean in shown] == pytest.approx(means_of_quality(system), abs=0.0011), system


def means_of_quality(system: str) -> list[float]:
    """Return the mean nDCG@10 of English and of Chinese sets."""
    columns = json.loads((DOCS / "quality.json").read_text(encoding="utf-8"))
    return [
        fmean(column["values"][system]["ndcg@10"][0] for column in columns if column["language"] == language)
        for language in ("English", "Chinese")
    ]


def test_the_table_of_the_readme_has_what_was_measured() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Measured")[1].split("\n\n")[2]
    sets, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines()]
    columns = {column["name"]: column["values"] for column in json.loads((DOCS / "quality.json").read_text("utf-8"))}
    systems = ("**the default**", "bm25s")
    assert [row[0].startswith(system) for row, system in zip(rows, systems, strict=True)] == [True, True]
    for system, (_, *shown) in zip(systems, rows, strict=True):
        for name, figure in zip(sets, shown, strict=True):
            measured = [value["ndcg@10"][0] for each, value in columns[name].items() if each.startswith(system)]
            assert float(figure.strip("*")) == pytest.approx(max(measured), abs=0.00051), (system, name)


@pytest.mark.parametrize("page", ["chinese.md", "chinese.zh-CN.md"])
def test_the_words_in_the_tables_of_a_page_are_those_of_the_analyzer(page: str) -> None:
    rows = re.findall(r"^\| `(.+?)` \| (`.+`) \|$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    analyzer = Analyzer(AnalyzerConfig(bigrams=False, characters=False, word_bigrams=False))
    assert {text: analyzer(text) for text, _ in rows} == {text: words[1:-1].split("` `") for text, words in rows}
    assert len(rows) == 10


@pytest.mark.parametrize("page", ["README", "docs/chinese", "docs/cli", "docs/ingesting", "docs/querying"])
def test_the_chinese_page_says_the_same(page: str) -> None:
    english, chinese = (
        (ROOT / f"{page}{language}.md").read_text(encoding="utf-8").split("\n## ") for language in ("", ".zh-CN")
    )
    assert len(english) == len(chinese)
    for section, translation in zip(english, chinese, strict=True):
        assert facts(translation) == facts(section), section.split("\n")[0]


def test_the_nav_of_the_site_names_every_page() -> None:
    named = set(re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    made = set(re.findall(r'"([\w.-]+\.md)",?$', (ROOT / "scripts/website/pages.py").read_text("utf-8"), re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    pages |= {f"notebooks/{notebook.stem}.md" for notebook in DOCS.glob("notebooks/*.ipynb")}
    assert named - made == pages
    assert made <= named


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    described = {id(member) for member in api().values()}
    packages = ["", ".adapters", ".analysis", ".evaluation", ".index", ".ingestion", ".langchain", ".store"]
    for package in (importlib.import_module(f"rag_bm25{name}") for name in packages):
        public = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
        assert [name for name, member in public.items() if id(member) not in described] == [], package.__name__


def test_no_public_name_is_on_the_pages_of_the_api_twice() -> None:
    shown = [name for page in (DOCS / "api").glob("*.md") for name, _ in directives(page)]
    assert [name for name, count in Counter(shown).items() if count > 1] == []
    objects = Counter(id(member) for member in api().values())
    assert [name for name, member in api().items() if objects[id(member)] > 1] == []


def directives(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what a page shows, each with the patterns of names that it leaves out."""
    parts = re.split(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for name, options in zip(parts[::2], parts[1::2], strict=True):
        yield name, re.findall(r'"!([^"]+)"', options)


def api() -> dict[str, Any]:
    """Return what the pages of the API show, by its full name."""
    return {
        full: member
        for page in (DOCS / "api").glob("*.md")
        for name, left_out in directives(page)
        for full, member in members(name).items()
        if not any(re.search(pattern, full.rpartition(".")[2]) for pattern in left_out)
    }


def members(name: str) -> dict[str, Any]:
    """Return what ``::: name`` shows: a class, or all that a module exports, or else defines."""
    try:
        module = importlib.import_module(name)
    except MissingExtraError:  # it is in an environment of its own: make test-adapters
        return {}
    except ModuleNotFoundError:
        parent, _, member = name.rpartition(".")
        return {name: getattr(importlib.import_module(parent), member)}
    defined = [each for each, value in vars(module).items() if getattr(value, "__module__", None) == name]
    exports = getattr(module, "__all__", [each for each in defined if not each.startswith("_")])
    return {f"{name}.{exported}": getattr(module, exported) for exported in exports}


# numpydoc's checks that are not made: an extended summary (ES01), examples and see-also everywhere (EX01, SA01), a
# description of results beside the summary (RT02), summaries on the second line and of one line (GL01, GL02, GL03,
# SS06), directives (YD01), a type where parameters are "as for" another function (PR04), capitals where a description
# is a fragment (PR08, RT04).
UNCHECKED = {"ES01", "EX01", "GL01", "GL02", "GL03", "PR04", "PR08", "RT02", "RT04", "SA01", "SS06", "YD01"}

# LangChain describes the parameters that its own classes bring.
WITH_INHERITED_PARAMETERS = {f"rag_bm25.langchain.{name}" for name in ("MilvusBM25Retriever", "MilvusHybridRetriever")}


def is_protocol(member: Any) -> bool:
    return getattr(member, "_is_protocol", False)


def documented_names() -> Iterator[tuple[str, set[str]]]:
    """Yield each public function, class, method and property, with the checks that its docstring is spared."""
    public = api()
    protocols = [member for member in public.values() if is_protocol(member)]
    for name, member in public.items():
        is_alias = isinstance(member, GenericAlias)  # which inspect takes for a class on Python 3.10
        if inspect.isfunction(member) or (inspect.isclass(member) and not is_alias):
            spared = {"PR01"} if is_protocol(member) or name in WITH_INHERITED_PARAMETERS else set()
            yield name, spared
            for method in methods(member, protocols):
                yield f"{name}.{method}", {"PR01"} if is_protocol(member) else set()


def methods(member: Any, protocols: list[type]) -> Iterator[str]:
    """Yield the public methods and properties that a class defines; its bases and protocols describe theirs."""
    bases = [*(protocol for protocol in protocols if implements(member, protocol)), *getattr(member, "__mro__", ())[1:]]
    described = {name for base in bases for name, value in vars(base).items() if value.__doc__}
    for name, value in vars(member).items() if inspect.isclass(member) else ():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        ours = inspect.isfunction(function) and function.__module__.startswith("rag_bm25")
        if ours and not name.startswith("_") and (function.__doc__ or name not in described):
            yield name


def implements(member: Any, protocol: type) -> bool:
    names = [name for name in vars(protocol) if not name.startswith("_")]
    return not is_protocol(member) and all(hasattr(member, name) for name in names)


def docstring_faults() -> list[str]:
    return [
        f"{name}: {code} {text}"
        for name, spared in documented_names()
        for code, text in validate(name)["errors"]
        if code not in UNCHECKED | spared
    ]


def test_the_docstrings_of_public_names_are_valid() -> None:
    assert docstring_faults() == []


def test_a_public_name_without_a_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"rag_bm25.{name}" for name in ("RRF", "BM25Index.search", "ingestion.ingest", "store.MemoryStore.reopen")]
    for name in names:
        monkeypatch.setattr(f"{name}.__doc__", None)
    assert sorted(docstring_faults()) == sorted(f"{name}: GL08 The object does not have a docstring" for name in names)


def test_every_room_is_in_the_table_of_the_architecture() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n| room |")[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    modules = {info.name for info in pkgutil.iter_modules(rag_bm25.__path__) if not info.name.startswith("_")}
    assert sorted(named) == sorted(modules)


def test_every_mutant_is_of_code_that_is_there_and_compiles() -> None:
    for mutant in MUTANTS:
        code = (PACKAGE / f"{mutant.module}.py").read_text(encoding="utf-8")
        assert code.count(mutant.old) == 1, mutant
        compile(code.replace(mutant.old, mutant.new), mutant.module, "exec")  # else any test would notice


def test_every_event_is_in_the_table_with_its_level() -> None:
    pattern = r"^``(\w+)`` +(INFO|DEBUG) "
    documented = dict(re.findall(pattern, events.__doc__ or "", re.MULTILINE))
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \| (INFO|DEBUG) ", page, re.MULTILINE)) == documented
    assert {name for name, level in documented.items() if level == "DEBUG"} == events.DEBUG_EVENTS
    source = "".join(path.read_text(encoding="utf-8") for path in Path(events.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'events\.measure\("(\w+)"\)', source)) == set(documented)


def test_the_first_change_of_a_contributor_can_still_be_made() -> None:
    """Its `sed` changes one place, and its test is of something that is not there yet."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    ((old, new, path),) = re.findall(r"sed -i 's/([^/]+)/([^/]+)/' (\S+)", page)
    source = (Path(rag_bm25.__file__).parents[1] / path).read_text(encoding="utf-8")
    assert source.count(old) == 1
    (test,) = re.findall(r"cat >> (\S+) <<", page)
    assert (ROOT / test).is_file()
    assert new.strip("|)").rpartition("|")[2] not in source
