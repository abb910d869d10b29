"""Extract the text of PDF: its pages, and the headings of its outline."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.documents import Heading
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.markup import WRAPPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document


EDGE = 2  # lines at the top and at the bottom of a page, where running lines are
MIN_PAGES = 3  # that have a running line
_NUMBER = re.compile(r"\d{1,6}")
_DOTS = re.compile(r" ?(?:(?:[.\u00b7\u2024\uff0e] ?){5,}|(?:[\u2025\u2026] ?){3,})")  # two are an ellipsis
_LEADERS = re.compile(rf"(?:{_DOTS.pattern})\s*(?:(\d{{1,6}})(?!\.?\d)|[ivxlc]+\b)")

MAX_PAGES = 20_000
MAX_OUTLINE = 10_000
FULL_LINE = 0.8  # of the longest of a page: a line of this length goes on in the next
_HYPHEN = re.compile("([^\\s\ufffe\x02\xad]{0,99})(?:[\ufffe\x02]\n?|\xad\n)(?=([^\\s\ufffe\x02\xad]{0,99}))")
_WORD = re.compile(r"[^\W_]+(?=(-[^\W_]+)?)")
_LAST = re.compile(r"[^\W_]+\Z")
_FILE_NAME = re.compile(
    r"\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|html?)$|^(?:untitled|microsoft word)\b", re.IGNORECASE
)


def extract(file: BinaryIO, **_options: object) -> Document:
    """Extract the text of a file."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        reason = (
            "it needs a password" if "password" in str(error).lower() else f"damaged, or of another format: {error}"
        )
        raise InputError(reason) from None
    with pdf:
        if len(pdf) > MAX_PAGES:
            raise InputError(f"it has {len(pdf):,} pages; at most {MAX_PAGES:,} are read")
        builder = TextBuilder()
        texts = [_page_text(pdf, number) for number in range(len(pdf))]
        words = _words(texts)
        for lines in drop_repeated([_lines(text, words) for text in texts]):
            builder.page()
            builder.write(_join_wrapped(lines).strip())
        title = str(pdf.get_metadata_dict().get("Title", ""))
        found = builder.build("" if _FILE_NAME.search(title) else title)
        if not found.text.strip() and len(pdf):
            raise InputError("it has no text; scanned pages need OCR first")
        return replace(found, headings=tuple(_outline(pdf, found)))


def _page_text(pdf: Any, number: int) -> str:
    page = _with_annotations(pdf, number)
    textpage = page.get_textpage()
    # Text is bounded by the page as it was before it was turned: on a turned one, lines would be cut and glued.
    text = str(textpage.get_text_range() if page.get_rotation() else textpage.get_text_bounded())
    textpage.close()
    page.close()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _with_annotations(pdf: Any, number: int) -> Any:
    """Load a page, with what was typed into its forms and notes as part of its text."""
    from pypdfium2 import raw

    page = pdf[number]
    if raw.FPDFPage_GetAnnotCount(page) and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        page.close()
        page = pdf[number]
    return page


def _words(texts: list[str]) -> set[str]:
    """Return the words of the pages, and pairs of them that a hyphen joins; none if no line cuts a word."""
    if not any(map(_HYPHEN.search, texts)):
        return set()
    found = chain.from_iterable(map(_WORD.finditer, map(str.casefold, texts)))
    return {form for match in found for form in (match[0], match[0] + (match[1] or ""))}


def _lines(text: str, words: set[str]) -> list[str]:
    joined = _HYPHEN.sub(lambda match: _join_hyphenated(match[1], match[2], words), text)
    return [line.strip() for line in joined.split("\n")]


def _join_hyphenated(before: str, after: str, words: set[str]) -> str:
    """Keep a hyphen that belongs to the word: before a digit, and where the text has the word with it elsewhere.

    If the text has it in both forms or in neither, a hyphen stays before a capital, and where the word has another.
    """
    last, first = (found[0] if found else "" for found in (_LAST.search(before), _WORD.match(after.casefold())))
    is_word, is_pair = (form in words for form in (last.casefold() + first, f"{last.casefold()}-{first}"))
    belongs = is_pair if is_word != is_pair else after[:1].isupper() or "-" in before or "-" in after
    return f"{before}-" if before and (after[:1].isdigit() or belongs) else before


def _join_wrapped(lines: list[str]) -> str:
    """Join lines that a page was too narrow for, where no space is between words: in Chinese."""
    full = FULL_LINE * max(map(len, lines), default=0)
    pairs = pairwise(["", *lines])
    return "".join(
        ("" if len(before) >= full and WRAPPED.search(f"{before[-1:]}\n{line[:1]}") else "\n") + line
        for before, line in pairs
    )


def _outline(pdf: Any, document: Document) -> Iterator[Heading]:
    """Yield the headings of the outline that are on their pages."""
    after = 0
    for count, bookmark in enumerate(pdf.get_toc(max_depth=6)):
        target = bookmark.get_dest()
        page = None if target is None else target.get_index()
        title = " ".join(bookmark.get_title().split())
        if count >= MAX_OUTLINE or not title or page is None or not 0 <= page < len(document.pages):
            continue
        end = document.pages[page + 1] if page + 1 < len(document.pages) else len(document.text)
        pattern = r"\s*".join(map(re.escape, title.replace(" ", "")))
        match = re.compile(rf"^(?:[\dA-Z.]+\s+)?{pattern}$", re.MULTILINE).search(
            document.text, max(after, document.pages[page]), end
        )
        if match:
            yield Heading(match.start(), match.end(), bookmark.level + 1, title)
            after = match.end()


def drop_repeated(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out the lines of pages that repeat what others say."""
    return _drop_contents(_drop_running_lines(pages))


def _drop_running_lines(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out what a third of the pages begin or end with, and what comes with the number of the page on a few."""
    keys = [_edge_keys(lines, page) for page, lines in enumerate(pages)]
    seen = Counter(key for found in keys for key in set(chain.from_iterable(found.values())))
    running = {key for key, count in seen.items() if count >= max(MIN_PAGES, len(pages) / 3 if len(key) == 2 else 0)}
    for at, found in keys[0].items() if keys else ():  # the title may run on top of the pages after the first
        keys[0][at] = [key for key in found if key != ("top", pages[0][at])]
    kept = [
        [line for at, line in enumerate(lines) if running.isdisjoint(found.get(at, ()))]
        for lines, found in zip(pages, keys, strict=True)
    ]
    return [new if any(new) else list(old) for new, old in zip(kept, pages, strict=True)]


def _edge_keys(lines: Sequence[str], page: int) -> dict[int, list[tuple[str | int, ...]]]:
    """Return what tells the lines at the top and at the bottom, by their places."""
    filled = [at for at, line in enumerate(lines) if line]
    keys: dict[int, list[tuple[str | int, ...]]] = {}
    for side, places in (("top", filled[:EDGE]), ("bottom", filled[-EDGE:])):
        for at in places:
            keys.setdefault(at, []).extend(_keys(side, lines[at], page))
    return keys


def _keys(side: str, line: str, page: int) -> Iterator[tuple[str | int, ...]]:
    """Yield a line, and the line with each of its numbers in turn as its distance from that of the page."""
    yield side, line
    for match in _NUMBER.finditer(line):
        yield side, line[: match.start()], int(match[0]) - page, line[match.end() :]


def _drop_contents(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out lines with dot leaders to a page, all of whose words are elsewhere; shorten the dots of others."""
    lines = list(chain.from_iterable(pages))
    dotted = {line for line in lines if _LEADERS.search(line)}
    words = set(_units("\n".join(line for line in lines if line not in dotted))) if dotted else set()
    shown = {line: _DOTS.sub(" … ", line).strip() for line in dotted if not _repeats(line, words, len(pages))}
    return [[shown.get(line, line) for line in lines if line in shown or line not in dotted] for lines in pages]


def _repeats(line: str, words: set[str], pages: int) -> bool:
    labels = [int(label or 0) for label in _LEADERS.findall(line)]
    return max(labels) <= pages and words.issuperset(_units(_LEADERS.sub(" ", line)))


def _units(text: str) -> Iterator[str]:
    """Yield numbers and words; of words that are not ASCII, pairs of characters."""
    for word in re.findall(r"\d+|[^\W\d_]+", text.casefold()):
        yield from [word] if word.isascii() else map("".join, pairwise(word))
