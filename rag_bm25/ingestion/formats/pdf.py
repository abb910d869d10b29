"""Extract the text of PDF: its pages, and the headings of its outline."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.documents import Heading
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.pages import drop_repeated
from rag_bm25.ingestion.markup import WRAPPED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

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
