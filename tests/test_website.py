"""What is checked of the built site, tried on small ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from website import check

import rag_bm25

DOCS = Path(__file__).resolve().parents[1] / "docs"


def built(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        path = folder / name / "index.html" if name != "index" else folder / "index.html"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    return folder.resolve()


@pytest.mark.parametrize(
    "link",
    ["guide/", "guide/#设置", "guide/#%E8%AE%BE%E7%BD%AE", "/guide/", "#here", "guide/index.html", "https://x.org/y"],
)
def test_a_link_within_the_site_leads_somewhere(link: str, tmp_path: Path) -> None:
    site = built(
        tmp_path,
        index=f'<a id="here" href="{link}">x</a>',
        guide='<h2 id="设置">设置</h2><a href="..">back</a><a href="/guide/">top</a>',
    )
    assert list(check.faults(site)) == []
    assert check.main([str(site)]) == 0


@pytest.mark.parametrize("link", ["guides/", "guide/#there", "#there", "/guide/none.png"])
def test_a_link_that_leads_nowhere_is_found(link: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = built(tmp_path, index=f'<img src="{link}">', guide="<p>text</p>")
    assert list(check.faults(site)) == [f"index.html: {link} leads nowhere"]
    assert check.main([str(site)]) == 1
    assert link in capsys.readouterr().out


def test_a_name_of_the_api_is_on_one_page_once(tmp_path: Path) -> None:
    named = '<h2 id="rag_bm25.Hit">Hit</h2>'
    site = built(tmp_path, index="", hits=named * 2, results=named)
    assert list(check.faults(site)) == ["rag_bm25.Hit: on 2 pages", "hits/index.html: #rag_bm25.Hit 2 times"]


def test_the_page_of_the_index_shows_its_members_by_source_and_open_is_the_first() -> None:
    page = (DOCS / "api" / "bm25index.md").read_text(encoding="utf-8")
    assert "members_order: source" in page
    assert "group_by_category: false" in page
    assert next(name for name in vars(rag_bm25.BM25Index) if not name.startswith("_")) == "open"
