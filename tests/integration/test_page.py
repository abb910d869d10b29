"""The page of the server in a real browser: what people see, and that nothing else is asked or run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clocks import PATIENCE

from rag_bm25 import BM25Index, IndexConfig

for name in ("starlette", "uvicorn", "mcp", "prometheus_client", "typer"):
    pytest.importorskip(name, reason='the page needs rag-bm25[cli,serve]: pip install ".[cli,serve]"')
pytest.importorskip("milvus_lite", reason="the page is tested on the embedded engine")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="the browser is driven by playwright: pip install playwright"
)
CHROMIUM = os.environ.get("RAG_BM25_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("there is no Chromium here, nor is one named by RAG_BM25_CHROMIUM", allow_module_level=True)

PICTURES = os.environ.get("RAG_BM25_PICTURES")  # a folder to write screenshots to, as docs/images
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
QUIET += ("--disable-component-update", "--disable-sync")
EVIL = "<img src=x onerror=\"document.title='broken'\"> 😀 notice of <b>evil</b>"
LAW = "docs/law.txt"
GUIDE = """## Setup

Use **bold**face words, `pip install` and _care_: see [the site](https://site.example).

| Tool | Version |
|------|---------|
| pip  | 24      |

- one

```sh
# quiet: snake_case * 2 ** 3
```
2 * 3 * 4 and __init__.py"""
TEXTS = {
    f"{LAW}#0": "The notice period is three months. Notice is given in writing.",
    f"{LAW}#1": "Shorter terms may be agreed for the trial time, and notice of them.",
    "docs/合同.txt#0": "解除劳动合同的通知期为三十日。通知应当采用书面形式。",
    "docs/evil.txt#0": EVIL,
    "docs/guide.md#0": GUIDE,
}


@contextmanager
def served(uri: Path) -> Iterator[str]:
    """Serve an index in a process of its own, which ends well."""
    command = [sys.executable, "-m", "rag_bm25", "serve", "--uri", str(uri), "--collection", "handbook"]
    command += ["--http", "127.0.0.1:0"]
    server = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert server.stderr is not None
    try:
        match = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)\n", server.stderr.readline())
        assert match
        yield match[1]
    finally:
        server.terminate()
        assert server.wait(PATIENCE) == 0
        server.stderr.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    uri = tmp_path_factory.mktemp("page") / "page.db"
    with BM25Index.open(uri, "handbook", config=IndexConfig(chunk_size=50)) as index:
        places = [id_.rsplit("#", 1) for id_ in TEXTS]
        metadatas = [{"source": source, "chunk": int(number)} for source, number in places]
        index.add(list(TEXTS.values()), ids=list(TEXTS), metadatas=metadatas)
    with served(uri) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET), timeout=1000 * PATIENCE)
        yield browser
        browser.close()


class Visit:
    """A visitor, who notes whatever the page should not do."""

    def __init__(self, browser: Any, url: str, *, width: int = 1200, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **{"locale": "en-US", **options})
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page = self.context.new_page()
        self.notes: list[str] = []
        self.forgiven: tuple[str, ...] = ()
        self.page.on("console", lambda message: self.notes.append(message.text))
        self.page.on("pageerror", lambda error: self.notes.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url, url))
        self.page.goto(url)

    def _check(self, asked: str, url: str) -> None:
        if not asked.startswith(url):
            self.notes.append(f"asked {asked}")

    @property
    def faults(self) -> list[str]:
        return [note for note in self.notes if not note.startswith(self.forgiven)]

    def close(self) -> None:
        """End the visit, also while an answer is under way, and see that the page did nothing that it should not."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.context.close()
        assert self.faults == []

    def answer(self, route: str, status: int = 200, **answer: Any) -> None:
        """Let the server answer a route like this."""
        self.page.route(f"**/api/v1/{route}", lambda asked: asked.fulfill(status=status, json=answer))

    def forgive_refusals(self) -> None:
        """Let answers be errors, which the browser itself notes a little later."""
        self.forgiven = ("Failed to load resource",)

    def open(self, place: str) -> Any:
        self.page.evaluate("place => { location.hash = place }", place)
        return self.page

    def stop_clock(self) -> Any:
        """Let no time pass on the page but what its clock is told to run for."""
        self.page.clock.install(time=0)
        self.page.clock.pause_at(3_600_000)  # it has run on until here, and cannot go back
        return self.page.clock

    def search(self, text: str) -> Any:
        self.page.fill("#query", text)
        self.page.wait_for_function("text => document.querySelector('#results')?.dataset.query === text", arg=text)
        return self.page


@pytest.fixture
def visit(browser: Any, url: str) -> Iterator[Any]:
    visits: list[Visit] = []

    def start(**options: Any) -> Visit:
        visits.append(Visit(browser, url, **options))
        return visits[-1]

    yield start
    for one in visits:
        one.close()


def test_a_word_that_is_being_typed_is_completed_if_nothing_has_it(visit: Any) -> None:
    page = visit().search("Shor")
    assert page.locator(".hit mark").all_inner_texts() == ["Shorter"]
    assert page.inner_text(".told").endswith("completed to: Shorter")
    assert page.input_value("#query") == "Shor"
    page.click("text=Why this score")
    assert page.locator(".explanation th[scope=row]").first.inner_text() == "shorter"


def test_hits_come_while_one_types_grouped_by_document_and_marked(visit: Any) -> None:
    page = visit().page
    page.wait_for_selector("#query")
    page.type("#query", "notice period", delay=15)
    page.wait_for_function("() => document.querySelector('#results').dataset.query === 'notice period'")
    law = page.locator(".document", has_text=LAW)
    assert law.locator(".hit").count() == 2, "two hits of one document stand together"
    assert law.locator("mark").all_inner_texts()[0] == "notice period"
    assert "q=notice+period" in page.url
    page.reload()
    page.wait_for_selector(".hit")
    assert page.input_value("#query") == "notice period", "the address can be shared"
    assert "completed" not in page.inner_text(".told")
    page.uncheck("#group")
    page.wait_for_function("() => location.hash.includes('group=0')")


def test_a_score_is_explained_by_bars_and_shown_in_its_context(visit: Any) -> None:
    one = visit()
    page = one.search("notice period")
    first = page.locator(".hit").first
    first.get_by_role("button", name="Why this score").click()
    first.locator("tbody tr").first.wait_for()
    assert {"notic", "period"} <= set(first.locator("tbody th").all_inner_texts())
    assert "× 0.15 word_bigram_weight" in first.locator("tbody td").all_inner_texts()
    widths = first.locator("tbody .fill").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1] > 0
    first.get_by_role("button", name="In context").click()
    first.locator(".context b").wait_for()
    assert first.locator(".context b").inner_text() == TEXTS[f"{LAW}#0"]
    assert "Shorter terms" in first.locator(".context").inner_text()


def test_what_a_chunk_holds_is_text(visit: Any) -> None:
    page = visit().search("evil notice")
    assert "onerror" in page.locator(".hit .text").first.inner_text()
    assert page.locator(".hit img, .hit .text b").count() == 0
    assert page.title() != "broken"
    assert page.locator(".hit").first.locator("mark").all_inner_texts() == ["notice", "evil"], (
        "beyond an emoji, which counts once"
    )


def test_headings_may_be_one_text_and_a_title_several(visit: Any) -> None:
    one = visit()

    def entitle(asked: Any) -> None:
        found = asked.fetch().json()
        own = {"headings": "Notice", "title": ["Law", "Handbook"]}
        asked.fulfill(json={**found, "hits": [{**hit, "metadata": hit["metadata"] | own} for hit in found["hits"]]})

    one.page.route("**/api/v1/search", entitle)
    page = one.search("notice period")
    assert page.locator(".hit .head").first.inner_text().endswith("Notice")
    assert page.locator("h2").first.inner_text().startswith("Law Handbook")


def test_nothing_found_has_reasons_and_another_spelling(visit: Any) -> None:
    page = visit().search("notise")
    assert "no chunk has a word of the query" in page.locator(".empty").inner_text()
    page.get_by_role("button", name="Did you mean").click()
    page.wait_for_selector(".hit")
    assert page.input_value("#query") == "notice"


def test_a_chunk_that_is_missing_has_a_reason(visit: Any) -> None:
    page = visit().search("writing")
    page.locator(".missing summary").click()
    page.get_by_label("Id of a chunk").fill("docs/合同.txt#0")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.missing [role=status]').textContent")
    assert "docs/合同.txt#0" in page.locator(".missing [role=status]").inner_text()


def numbers(texts: list[str]) -> list[float]:
    return [float(text.strip("× ")) for text in texts]


def test_contributions_add_up_to_the_score(visit: Any) -> None:
    page = visit().search("notice period")
    first = page.locator(".hit").first
    first.get_by_role("button", name="Why this score").click()
    first.locator("tfoot").wait_for()
    cells = [numbers(row.locator("td").all_inner_texts()[:3]) for row in first.locator("tbody tr").all()]
    for contribution, of_query, of_chunk in cells:
        assert contribution == pytest.approx(of_query * of_chunk, abs=1e-3)
    (score,) = numbers(first.locator("tfoot .wide").all_inner_texts())
    assert score == pytest.approx(sum(row[0] for row in cells), abs=1e-3)
    assert score == pytest.approx(float(first.locator(".score").inner_text()), abs=0.005)


def test_boosts_and_fields_of_a_score_are_shown(visit: Any) -> None:
    one = visit()

    def boost(asked: Any) -> None:
        explained = asked.fetch().json()["explanation"]
        terms = [{**term, "fields": {"text": 1, "title": 2}} for term in explained["terms"]]
        factors = [{"value": 2, "description": "kind is law"}]
        boosted = {**explained, "terms": terms, "factors": factors, "value": 2 * explained["bm25_score"]}
        asked.fulfill(json={"explanation": boosted})

    one.page.route("**/api/v1/explain", boost)
    page = one.search("notice period")
    page.get_by_role("button", name="Why this score").first.click()
    page.wait_for_selector("tfoot")
    assert page.locator("tfoot th").all_inner_texts() == ["Sum", "kind is law", "Score"]
    total, factor, score = numbers(page.locator("tfoot .wide").all_inner_texts())
    assert (factor, score) == (2, pytest.approx(2 * total, abs=1e-3))
    assert page.locator("tbody tr").first.locator("td").last.inner_text() == "text 1, title 2"


def test_the_empty_page_lists_the_documents(visit: Any) -> None:
    one = visit()
    page = one.page
    documents = page.locator(".documents > .column > li")
    documents.nth(3).wait_for()
    assert page.locator(".documents > summary").inner_text() == "4 documents"
    law = page.locator(".documents li", has_text=LAW)
    assert law.locator("summary").inner_text() == f"{LAW} 2 chunks"
    law.locator("summary").click()
    law.locator(".text").nth(1).wait_for()
    assert law.locator(".text").all_inner_texts() == [TEXTS[f"{LAW}#0"], TEXTS[f"{LAW}#1"]]
    one.answer("sources", sources=[{"source": f"{at}.txt", "chunks": 1} for at in range(50)], total=51)
    page.reload()
    page.get_by_role("button", name="More: 50 of 51 shown").wait_for()


@pytest.mark.parametrize(("names", "num_chunks"), [([""], 20_001), (["", "kitchen"], 5)])
def test_the_documents_of_a_large_index_are_read_when_one_asks(visit: Any, names: list[str], num_chunks: int) -> None:
    one = visit()
    page = one.page
    page.locator(".documents li").first.wait_for()
    one.answer("statistics", index={"name": "large", "namespaces": names, "num_chunks": num_chunks}, problems=[])
    page.route("**/api/v1/sources", lambda asked: one.notes.append("asked for all sources"))
    page.reload()
    page.get_by_text(f"{num_chunks:,} chunks").wait_for()
    assert page.locator(".documents:not([open])").count() == len(names)
    page.unroute("**/api/v1/sources")
    page.locator(".documents > summary").first.click()
    page.get_by_text("4 documents").wait_for()


def test_one_document_is_searched_from_a_list_or_a_hit(visit: Any) -> None:
    one = visit()
    page = one.page
    page.locator(".documents li", has_text="docs/evil.txt").get_by_role("button", name="Search only here").click()
    page.get_by_role("button", name="Only docs/evil.txt").wait_for()
    one.search("notice")
    assert page.locator(".hit").count() == 1
    page.reload()
    page.wait_for_selector(".hit")
    assert page.locator(".hit").count() == 1, "the address can be shared"
    page.get_by_role("button", name="search everywhere again").click()
    page.locator(".hit").nth(2).wait_for()
    page.locator(".document", has_text=LAW).get_by_role("button", name="Search only here").click()
    page.get_by_role("button", name=f"Only {LAW}").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.document').length === 1")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.document').length === 2")


@pytest.mark.parametrize(
    ("locale", "found", "labels"),
    [
        ("en-US", "3 hits in 2 documents", ["Documents", "Hits"]),
        ("zh-CN", "3 个命中，来自 2 个文档", ["文档", "命中数"]),
    ],
)
def test_documents_are_counted_as_such(visit: Any, locale: str, found: str, labels: list[str]) -> None:
    page = visit(locale=locale).search("notice")
    assert page.inner_text(".told").startswith(f"{found} · ")
    label = page.locator("label", has=page.locator("#k")).locator("span")
    assert label.inner_text() == labels[0]
    page.uncheck("#group")
    assert label.inner_text() == labels[1]


def test_markdown_is_text_whose_signs_step_back(visit: Any) -> None:
    page = visit().page
    guide = page.locator(".documents li", has_text="docs/guide.md")
    guide.locator("summary").click()
    text = guide.locator(".text")
    text.wait_for()
    assert text.text_content() == GUIDE, "nothing is lost"
    for name, marked in {"heading": "Setup", "strong": "bold", "em": "care", "link": "the site"}.items():
        assert text.locator(f".{name}:not(.sign)").all_text_contents() == [marked]
    assert text.locator(".code:not(.sign)").all_text_contents() == ["pip install", "\n# quiet: snake_case * 2 ** 3\n"]
    signs = ["## ", "**", "**", "`", "`", "_", "_", "[", "](https://site.example)", "|", "|", "|", "|------|---------|"]
    assert text.locator(".sign").all_text_contents() == [*signs, "|", "|", "|", "- ", "```sh", "```"]
    page.fill("#query", "pip install bold")
    page.wait_for_selector(".hit mark")
    marks = page.locator(".hit mark")
    assert {"pip install", "bold"} <= set(marks.all_text_contents())
    assert marks.filter(has_text="pip install").locator(".code").count() == 1


def test_a_hostile_text_is_no_harder_to_read_as_markdown(visit: Any) -> None:
    pieces = ["*", "**a ", "`", "``a ", "[", "[a](", "_a ", "|", "#", "> ", "```\n", "~~~\n", " ", "\n", "- "]
    read = "async all => (m => all.map(one => m.classes(one.repeat(20_000)).length))(await import('./markdown.js'))"
    assert visit().page.evaluate(read, pieces) == [20_000 * len(piece) for piece in pieces]


def test_the_last_word_is_completed_by_keys(visit: Any) -> None:
    one = visit()
    page = one.page
    box, options = page.get_by_role("combobox", name="Query"), page.locator("#completions [role=option]")

    def offer(text: str) -> list[str]:
        one.search(text)
        options.first.wait_for()
        return options.all_inner_texts()

    assert offer("months Noti") == ["months Notice"]
    assert box.get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    assert options.first.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    assert box.get_attribute("aria-activedescendant") is None
    page.keyboard.press("Escape")
    assert (box.input_value(), options.count(), box.get_attribute("aria-expanded")) == ("months Noti", 0, "false")
    offer("noti")
    page.keyboard.press("Tab")
    assert (box.input_value(), page.evaluate("document.activeElement.id")) == ("noti", "k"), "nothing was chosen"
    box.focus()
    offer("not")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.querySelector('#results').dataset.query === 'notice'")
    assert page.evaluate("document.activeElement.id") == "k"
    box.focus()
    assert offer("采用书") == ["采用书面形式"]
    options.first.click()
    page.wait_for_function("() => document.querySelector('#results').dataset.query === '采用书面形式'")
    offer("noti")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "hit" in page.evaluate("document.activeElement.className"), "below the list are the hits"


def test_a_query_that_is_sent_is_not_completed(visit: Any) -> None:
    one = visit()
    page, clock, asked = one.page, one.stop_clock(), list[str]()
    page.on("request", lambda request: asked.append(str(request.post_data)))
    page.fill("#query", "months Noti")
    page.keyboard.press("Enter")
    clock.run_for(1000)
    page.wait_for_function("() => document.querySelector('#results').dataset.query === 'months Noti'")
    assert [body for body in asked if "Noti" in body]
    assert not [body for body in asked if '"Noti*"' in body]


@pytest.mark.parametrize(("locale", "words"), [("en-US", ", / to search"), ("zh-CN", "，/ 输入")])
def test_a_key_that_goes_to_the_field_is_named_outside_of_it(visit: Any, locale: str, words: str) -> None:
    page = visit(locale=locale).page
    page.wait_for_selector("#results .slash", state="attached")
    assert not page.locator(".slash").is_visible()
    page.evaluate("document.activeElement.blur()")
    assert page.locator(".slash").is_visible()
    assert page.locator(".slash").text_content() == words


def test_a_word_that_is_whole_is_not_completed(visit: Any) -> None:
    one = visit()
    with one.page.expect_response(lambda answer: '"notice*"' in str(answer.request.post_data)):
        one.search("notice")
    one.page.keyboard.press("ArrowDown")
    assert "hit" in one.page.evaluate("document.activeElement.className")


def test_nothing_happens_while_an_input_method_composes(visit: Any) -> None:
    one = visit()
    page, asked = one.page, list[str]()
    with page.expect_response(lambda answer: '"notice*"' in str(answer.request.post_data)):
        one.search("notice")
    clock = one.stop_clock()
    page.on("request", lambda request: asked.append(request.url))
    compose = """text => {
        const box = document.querySelector("#query");
        box.value = text;
        box.dispatchEvent(new InputEvent("input", { isComposing: true }));
        box.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", isComposing: true, bubbles: true }));
    }"""
    page.evaluate(compose, "tong'zhi")
    clock.run_for(1000)
    assert [url for url in asked if url.endswith("search")] == []
    assert page.evaluate("document.activeElement.id") == "query"
    page.evaluate(compose, "通知")
    page.evaluate("document.querySelector('#query').dispatchEvent(new CompositionEvent('compositionend'))")
    clock.run_for(1000)
    page.wait_for_function("() => document.querySelector('#results').dataset.query === '通知'")


def test_a_document_that_is_missing_has_a_reason(visit: Any) -> None:
    one = visit()
    page = one.search("writing")
    page.locator(".missing summary").click()
    page.locator("#sources option").nth(3).wait_for(state="attached")
    field, answer = page.get_by_label("Source, or id of a chunk"), page.locator(".missing .answer")

    def why(expected: str, said: str) -> None:
        field.fill(expected)
        page.keyboard.press("Enter")
        answer.filter(has_text=said).wait_for()

    why("docs/合同.txt", "'docs/合同.txt#0' is not found: it has no word of the query")
    why(LAW, "rank 1")
    why("docs/laws.txt", f"no chunk has the source 'docs/laws.txt'; did you mean '{LAW}'")
    one.forgive_refusals()
    page.locator(".whole summary").click()
    chunk = page.locator(".whole li", has_text="Shorter terms")
    chunk.get_by_role("button", name="Why not found").click()
    chunk.get_by_text(f"'{LAW}#1' is not found: it has no word of the query").wait_for()
    assert page.locator(".whole li[aria-current] button").count() == 0, "a hit is found"


def test_keys_move_among_the_hits(visit: Any) -> None:
    page = visit().search("notice period")
    hits = [hit.get_attribute("data-id") for hit in page.locator(".hit").all()]
    focused = "document.activeElement.dataset.id"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == hits[1]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == hits[0]
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit table")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "query"
    page.locator(".hit").first.focus()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"


def test_terms_have_their_df_and_idf(visit: Any) -> None:
    page = visit().open("view=terms&q=notice")
    page.wait_for_selector("#query-terms td")
    assert page.locator("#query-terms tbody tr").inner_text().split()[:2] == ["notic", "3"]
    page.fill("#prefix", "通")
    page.wait_for_function("() => document.querySelector('#top-terms th[scope=row]')?.textContent.startsWith('通')")


def test_the_index_shows_its_figures_and_whether_its_chunk_size_suits_them(visit: Any) -> None:
    page = visit(locale="zh-CN", color_scheme="dark").open("view=index")
    page.wait_for_selector("text=/chunk_size .+ 倍/")
    assert "分块数" in page.locator(".figures").inner_text()


def test_language_and_theme_are_switched_and_kept(visit: Any) -> None:
    one = visit(locale="zh-CN")
    page = one.search("通知期")
    assert page.get_attribute("html", "lang") == "zh-CN"
    assert page.get_by_role("link", name="检索").count() == 1
    page.click("#language")
    page.get_by_role("link", name="Search").wait_for()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    page.get_by_role("link", name="Search").wait_for()
    assert page.get_attribute("html", "data-theme") == "dark"


def test_a_document_has_all_its_chunks(visit: Any) -> None:
    page = visit().search("months")
    whole = page.locator(".document", has_text=LAW).locator(".whole")
    whole.locator("summary").click()
    whole.locator("li").nth(1).wait_for()
    assert whole.locator(".text").all_inner_texts() == [TEXTS[f"{LAW}#0"], TEXTS[f"{LAW}#1"]]
    assert whole.locator("[aria-current]").get_attribute("data-id") == f"{LAW}#0", "the hit among them"


def test_a_late_answer_is_dropped(visit: Any) -> None:
    one = visit()
    page, held = one.page, []
    page.route("**/api/v1/search", lambda asked: held.append(asked), times=1)
    with page.expect_event("requestfailed", lambda asked: "*" not in asked.post_data_json["query"]) as dropped:
        with page.expect_request(lambda asked: asked.url.endswith("/search")):
            page.fill("#query", "writing")
        one.search("trial time")
    assert len(held) == 1
    assert dropped.value.post_data_json["query"] == "writing"
    held[0].abort()
    assert "trial time" in page.locator(".hit").inner_text()


def test_an_answer_that_is_dropped_halfway_is_no_error(visit: Any) -> None:
    page = visit().search("notice period")
    page.evaluate("""() => {
        window.held = 0;
        window.fetch = async (url, { signal, body: asked }) => {
            const start = (body) => signal.addEventListener("abort", () => body.error(signal.reason));
            window.held += asked.includes("+"); // not completions of the question before
            return new Response(new ReadableStream({ start }));
        };
    }""")
    for number, query in enumerate(["+writing", "+trial"], start=1):  # no word, or it would be completed
        page.fill("#query", f"{query} ")
        page.wait_for_function("number => window.held === number", arg=number)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.locator(".error").count() == 0


def test_an_error_is_said_until_there_is_an_answer(visit: Any) -> None:
    one = visit()
    page = one.search("notice period")
    one.answer("search", 429, error={"code": "busy", "message": "too many"})
    page.fill("#query", "notice")
    page.get_by_text("The server is busy").wait_for()
    assert page.locator(".told").inner_text() == "", "no count of another query"
    page.unroute("**/api/v1/search")
    one.search("writing")
    assert page.locator("[role=alert]").count() == 0
    one.forgive_refusals()


def test_a_token_is_asked_for_and_kept_for_the_tab(visit: Any) -> None:
    one = visit()
    page = one.page
    page.wait_for_selector("#query")

    def guard(asked: Any) -> None:
        if asked.request.headers.get("authorization") == "Bearer right":
            asked.continue_()
        else:
            asked.fulfill(status=401, json={"error": {"code": "wrong_token", "message": "no"}})

    page.route("**/api/v1/**", guard)
    page.reload()
    field, wrong = page.get_by_label("Access token"), page.get_by_text("not the token of the server")
    field.wait_for()
    assert wrong.count() == 0
    assert page.locator("header button").all_inner_texts() == ["中文", "Theme: auto"]
    for bad in ("wrong", "令牌"):
        page.wait_for_function("() => document.activeElement.type === 'password'")
        field.fill(bad)
        page.keyboard.press("Enter")
        wrong.wait_for()
    field.fill("right")
    page.keyboard.press("Enter")
    page.wait_for_selector("#query")
    one.search("notice")
    assert page.evaluate("[Object.values(sessionStorage), Object.values(localStorage)]") == [["right"], []]
    assert "right" not in page.url
    one.forgive_refusals()


def test_ingestion_under_way_is_shown(visit: Any) -> None:
    one = visit()
    job = {"kind": "ingest", "state": "running", "progress": [{"what": "chunks", "done": 30, "total": 120}]}
    one.answer("progress", writing=True, jobs=[{**job, "seconds": 2.5, "result": None, "reason": None}])
    page = one.open("view=index")
    page.wait_for_selector(".job")
    assert "30 / 120 chunks" in page.locator(".job").inner_text()
    assert page.locator(".job [role=img]").get_attribute("aria-label") == "25 %"


@pytest.mark.parametrize("place", ["view=constructor", "k=7&q=notice"])
def test_an_address_written_by_hand_shows_a_view(visit: Any, place: str) -> None:
    page = visit().open(place)
    page.wait_for_selector("#query")
    assert page.locator("#tabs [aria-current]").count() == 1
    assert page.locator("#k").count() == 0 or page.input_value("#k") == ("7" if "k=7" in place else "10")


def test_a_link_to_a_view_takes_the_query_along(visit: Any) -> None:
    one = visit()
    page = one.search("notice")
    with one.context.expect_page() as opened:
        page.get_by_role("link", name="Terms").click(modifiers=["Control"])
    assert opened.value.url.endswith("#view=terms&q=notice")
    assert "view=" not in page.url
    page.get_by_role("link", name="Terms").click()
    page.wait_for_selector("#query-terms td")
    page.go_back()
    page.wait_for_selector(".hit")
    assert page.input_value("#query") == "notice"


def test_the_list_of_documents_is_no_wider_than_a_narrow_screen(visit: Any) -> None:
    page = visit(width=360).page
    page.locator(".documents li summary").last.click()
    page.wait_for_selector(".documents .text")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("view", ["search", "terms", "index"])
def test_nothing_is_wider_than_a_narrow_screen(visit: Any, view: str) -> None:
    one = visit(width=360)
    page = one.open(f"view={view}&q=notice+period")
    page.wait_for_selector({"search": ".hit", "terms": "td", "index": ".figures dd"}[view])
    if view == "search":
        page.locator(".hit button").first.click()
        page.wait_for_selector(".hit table")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_long_name_of_a_namespace_fits_a_narrow_screen(visit: Any) -> None:
    one = visit(width=360)
    one.answer("statistics", index={"name": "a", "namespaces": ["", "n" * 200], "num_chunks": 5}, problems=[])
    one.page.reload()
    one.page.wait_for_selector("#namespace")
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("way", ["a shared address", "a reload", "another language", "a suggestion"])
def test_typing_goes_on_where_the_words_end(visit: Any, way: str) -> None:
    one = visit()
    page = one.search("notise" if way == "a suggestion" else "notice")
    ways = {
        "a shared address": lambda: one.open("q=notice&k=20"),
        "a reload": page.reload,
        "another language": lambda: page.click("#language"),
        "a suggestion": lambda: page.get_by_role("button", name="Did you mean").click(),
    }
    ways[way]()
    page.wait_for_function("() => document.querySelector('#results')?.dataset.query === 'notice'")
    page.keyboard.type(" period")
    assert page.input_value("#query") == "notice period"


def test_back_goes_to_the_question_before(visit: Any) -> None:
    one = visit()
    one.page.wait_for_selector("#query")
    steps = one.page.evaluate("history.length")
    one.search("notice")
    one.page.keyboard.press("Enter")
    page = one.search("writing")
    page.keyboard.press("Enter")
    assert page.evaluate("history.length") == steps + 1, "keystrokes are no steps"
    page.go_back()
    page.wait_for_function("() => document.querySelector('#results')?.dataset.query === 'notice'")
    assert page.input_value("#query") == "notice"


def test_an_answer_under_way_is_seen(visit: Any) -> None:
    one = visit()
    page, clock, held = one.search("notice"), one.stop_clock(), []

    def hold(asked: Any) -> None:
        if asked.request.post_data_json["query"] == "+writing ":
            held.append(asked)
        else:  # completions of the question before
            asked.continue_()

    page.route("**/api/v1/search", hold)
    page.fill("#query", "+writing ")
    clock.run_for(60)
    page.wait_for_selector("#results[aria-busy=true]")
    clock.run_for(400)
    assert page.inner_text(".told") == "searching …"
    held[0].continue_()
    page.wait_for_selector("#results:not([aria-busy])")
    assert page.inner_text(".told").startswith("1 hit ")


def test_a_server_that_is_gone_is_asked_again(visit: Any) -> None:
    one = visit()
    page = one.search("notice")
    page.route("**/api/v1/search", lambda asked: asked.abort())
    page.fill("#query", "writing")
    page.get_by_text("The server cannot be reached.").wait_for()
    assert page.locator(".hit").count() == 0, "those of the old question"
    page.unroute("**/api/v1/search")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".hit")
    assert page.locator(".error").count() == 0
    one.forgive_refusals()


def test_of_two_panels_the_last_one_that_was_asked_for_is_shown(visit: Any) -> None:
    one, held = visit(), list[Any]()
    page = one.search("notice period")
    page.route("**/api/v1/explain", lambda asked: held.append(asked))
    hit = page.locator(".hit").first
    with page.expect_request("**/api/v1/explain"):
        hit.get_by_role("button", name="Why this score").click()
    hit.get_by_role("button", name="In context").click()
    hit.locator(".context b").wait_for()
    with page.expect_response("**/api/v1/explain"):
        held[0].continue_()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert (hit.locator(".context").count(), hit.locator("table").count()) == (1, 0)


def test_a_hit_has_its_page_date_source_metadata_and_confidence(visit: Any) -> None:
    one = visit()
    own = {"page": 7, "date": "2026-01-31", "url": "https://site.example/law", "author": {"name": "Li"}}

    def describe(asked: Any) -> None:
        found = asked.fetch().json()
        hits = [{**hit, "metadata": hit["metadata"] | own, "confidence": 0.753} for hit in found["hits"]]
        asked.fulfill(json={**found, "hits": hits})

    one.page.route("**/api/v1/search", describe)
    page = one.search("notice period")
    hit = page.locator(".hit").first
    assert "page 7 · 2026-01-31 · 75 % likely to answer" in hit.locator(".head").inner_text()
    assert page.get_by_role("link", name="Open source").first.get_attribute("href") == own["url"]
    hit.get_by_role("button", name="Metadata").click()
    assert '{"name":"Li"}' in hit.locator(".metadata dd").all_inner_texts()


def test_a_hit_and_its_panel_have_an_address(visit: Any) -> None:
    one = visit()
    page = one.search("notice")
    last = page.locator(".hit").last
    last.get_by_role("button", name="Why this score").click()
    last.locator("table").wait_for()
    id_ = last.get_attribute("data-id")
    page.reload()
    page.wait_for_selector(".hit table")
    assert page.evaluate("document.activeElement.dataset.id") == id_
    page.fill("#query", "writing")
    page.wait_for_function("() => location.hash === '#q=writing'")


def test_the_text_of_a_hit_is_copied_whole(visit: Any) -> None:
    one = visit()
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    one.search("notice period").locator(".hit").first.get_by_role("button", name="Copy").click()
    one.page.get_by_role("button", name="Copied").wait_for()
    assert one.page.evaluate("navigator.clipboard.readText()") == TEXTS[f"{LAW}#0"]


def test_words_are_marked_in_the_context_and_in_the_document(visit: Any) -> None:
    page = visit().search("writing terms")
    hit = page.locator(".hit", has_text="writing")
    hit.get_by_role("button", name="In context").click()
    hit.locator(".context mark").nth(1).wait_for()
    assert hit.locator(".context mark").all_inner_texts() == ["writing", "terms"]
    page.locator(".whole summary").first.click()
    page.locator(".whole mark").nth(1).wait_for()
    assert page.locator(".whole mark").all_inner_texts() == ["writing", "terms"]


@pytest.fixture(scope="module")
def long_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an index of one word in 120 chunks, of which 70 are a document."""
    uri = tmp_path_factory.mktemp("page") / "long.db"
    places = [("long.txt", number) for number in range(70)] + [(f"{number}.txt", 0) for number in range(50)]
    with BM25Index.open(uri, "handbook", config=IndexConfig(chunk_size=50)) as index:
        index.add(
            [f"battery number n{at}" for at in range(120)],
            ids=[f"{source}#{number}" for source, number in places],
            metadatas=[{"source": source, "chunk": number} for source, number in places],
        )
    with served(uri) as address:
        yield address


def test_the_first_hits_are_called_so_and_more_are_read(browser: Any, long_url: str) -> None:
    one = Visit(browser, long_url)
    page = one.open("group=0&k=50")
    page = one.search("battery")
    assert page.inner_text(".told").startswith("first 50 hits")
    page.wait_for_selector(".word")
    assert page.inner_text(".words") == "Chunks with battery 120 of 120"
    for shown in (100, 120):
        page.get_by_role("button", name="More", exact=True).click()
        page.wait_for_function("shown => document.querySelectorAll('.hit').length === shown", arg=shown)
    assert page.locator(".rank").last.inner_text() == "120"
    assert not page.get_by_role("button", name="More", exact=True).is_visible()
    assert len({hit.get_attribute("data-id") for hit in page.locator(".hit").all()}) == 120
    one.close()


def test_each_word_of_a_chinese_question_has_its_own_df(visit: Any) -> None:
    page = visit().search("劳动合同的notices")
    page.wait_for_selector(".word")
    assert page.locator(".word").all_inner_texts() == ["劳动合同 1", "notices 3"]


def test_a_long_document_opens_at_the_hit(browser: Any, long_url: str) -> None:
    one = Visit(browser, long_url)
    page = one.search("n66")
    page.locator(".whole summary").first.click()
    page.wait_for_selector(".whole li[aria-current]")
    assert page.locator(".whole li").count() == 20
    assert page.locator(".whole li[aria-current] mark").inner_text() == "n66"
    page.get_by_role("button", name="Earlier chunks").click()
    page.locator(".whole li").nth(69).wait_for()
    assert page.locator(".whole li .id").all_inner_texts() == [f"long.txt#{number}" for number in range(70)]
    one.close()


def test_how_many_chunks_meet_the_conditions_is_counted(visit: Any) -> None:
    one = visit()
    one.open("syntax=1")
    one.search("notice +writing")
    one.page.get_by_text("1 meet the conditions").wait_for()


def test_an_address_that_changes_before_the_first_answer_is_asked_once(visit: Any) -> None:
    one = visit()
    page, held, asked = one.page, [], []
    page.route("**/api/v1/statistics", lambda route: held.append(route))
    page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[1]))
    page.reload()
    one.open("q=notice")
    while not held:
        page.wait_for_timeout(10)
    held.pop().continue_()
    page.wait_for_selector(".hit")
    assert asked.count("search") == 1


def test_a_namespace_that_does_not_exist_is_said(visit: Any) -> None:
    page = visit(locale="zh-CN").open("q=notice&ns=nope")
    page.get_by_text("此命名空间里没有分块").wait_for()
    assert page.locator("#namespace option[selected]").inner_text() == "nope：没有此命名空间"


def test_reasons_and_errors_are_chinese_on_the_chinese_page(visit: Any) -> None:
    one = visit(locale="zh-CN")
    page = one.search("notise")
    page.get_by_text("没有分块含有查询中的词。").wait_for()
    one.answer("search", 503, error={"code": "stopping", "message": "the server is stopping"})
    page.fill("#query", "writing")
    page.get_by_text("服务正在停止").wait_for()
    one.forgive_refusals()


@pytest.mark.skipif(PICTURES is None, reason="RAG_BM25_PICTURES names no folder for pictures")
def test_pictures_for_the_documentation(browser: Any, tmp_path: Path) -> None:
    uri, command = tmp_path / "demo.db", [sys.executable, "-m", "rag_bm25", "ingest", "scripts/demo/documents"]
    subprocess.run([*command, "--uri", uri, "--collection", "handbook"], check=True, capture_output=True)
    with served(uri) as address:
        for name, query, locale in (
            ("search", "notice+period", "en-US"),
            ("search.zh-CN", "劳动合同的试用期", "zh-CN"),
        ):
            one = Visit(browser, address, locale=locale)
            page = one.open(f"q={query}")
            page.wait_for_selector(".hit")
            page.locator(".hit button").first.click()
            page.wait_for_selector(".hit table")
            page.evaluate("() => document.activeElement.blur()")
            page.screenshot(path=Path(str(PICTURES)) / f"page-{name}.png")
            one.close()
