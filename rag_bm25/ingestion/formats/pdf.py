"""Extract the text of PDF: its pages, and the headings of its outline."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.characters import is_readable, read_page
from rag_bm25.ingestion.formats.layout import PAGE, blocks, key, without_number
from rag_bm25.ingestion.formats.running import drop_contents, drop_running

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document
    from rag_bm25.ingestion.formats.layout import Block, Page


MAX_PAGES = 20_000
MAX_OUTLINE = 10_000
_HYPHEN = re.compile("([^\\s\ufffe\x02\xad]{0,99})[\ufffe\x02\xad](\f*)(?=([^\\s\ufffe\x02\xad]{0,99}))")
_WORD = re.compile(r"[^\W_]+(?=(-[^\W_]+)?)")
_LAST = re.compile(r"[^\W_]+\Z")


def extract(file: BinaryIO, *, repeated: bool = False, **_options: object) -> Document:
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
        pages = [_read_page(pdf, number) for number in range(len(pdf))]
        unreadable = tuple(number for number, page in enumerate(pages, 1) if not is_readable(page))
        left_out = {} if repeated else dict(drop_running(pages) + drop_contents(pages))
        document = _build(pages, list(_bookmarks(pdf)), str(pdf.get_metadata_dict().get("Title", "")))
        if not document.text.strip() and len(pdf):
            raise InputError("it has no text; scanned pages need OCR first")
        return replace(document, left_out=left_out, unreadable=unreadable)


def _read_page(pdf: Any, number: int) -> Page:
    page = _with_annotations(pdf, number)
    found = read_page(page)
    page.close()
    return found


def _build(pages: Sequence[Page], bookmarks: Sequence[tuple[int, int, str]], title: str) -> Document:
    """Write the blocks of pages; the titles of headings are those of the outline."""
    outline: list[dict[str, int]] = [{} for _ in pages]
    for page, level, name in bookmarks:
        outline[page].setdefault(key(name), level)
    names = {key(name): name for _, _, name in bookmarks}
    words = _words(span.text for page in pages for row in page.rows for span in row)
    builder = TextBuilder()
    for block in blocks(pages, outline):
        if block.kind == "row":
            builder.row(_whole(cell, words) for cell in block.parts)
        elif block.kind == "heading":
            text = _whole(block.text, words)
            plain = key(block.text)
            builder.heading(block.level, text, names.get(plain) or names.get(without_number(plain), text))
        else:
            _write(builder, block, words)
    return builder.build(title)


def _write(builder: TextBuilder, block: Block, words: set[str]) -> None:
    """Begin a line, a paragraph or a page, and write text within which pages may begin."""
    builder.new_line(1 if block.kind in {"line", "turn"} else 2)
    if block.kind in {"page", "turn"}:
        builder.page_begins()
    first, *others = _whole(block.text, words).split(PAGE)
    builder.write(first)
    for text in others:
        builder.page_begins()
        builder.write(text)


def _with_annotations(pdf: Any, number: int) -> Any:
    """Load a page, with what was typed into its forms and notes as part of its text."""
    from pypdfium2 import raw

    page = pdf[number]
    if raw.FPDFPage_GetAnnotCount(page) and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        page.close()
        page = pdf[number]
    return page


def _words(texts: Iterable[str]) -> set[str]:
    """Return the words of the pages, and pairs of them that a hyphen joins; none if no line cuts a word."""
    lines = list(texts)
    if not any(map(_HYPHEN.search, lines)):
        return set()
    found = chain.from_iterable(map(_WORD.finditer, map(str.casefold, lines)))
    return {form for match in found for form in (match[0], match[0] + (match[1] or ""))}


def _whole(text: str, words: set[str]) -> str:
    """Join the words that lines cut; a hyphen at the very end has been one."""
    return _HYPHEN.sub(lambda match: _join_hyphenated(match[1], match[3], words) + match[2], text)


def _join_hyphenated(before: str, after: str, words: set[str]) -> str:
    """Keep a hyphen that belongs to the word: before a digit, and where the text has the word with it elsewhere.

    If the text has it in both forms or in neither, a hyphen stays before a capital, and where the word has another.
    """
    last, first = (found[0] if found else "" for found in (_LAST.search(before), _WORD.match(after.casefold())))
    is_word, is_pair = (form in words for form in (last.casefold() + first, f"{last.casefold()}-{first}"))
    belongs = is_pair if is_word != is_pair else after[:1].isupper() or "-" in before or "-" in after
    return f"{before}-" if before and (after[:1].isdigit() or belongs) else before


def _bookmarks(pdf: Any) -> Iterator[tuple[int, int, str]]:
    """Yield page, level and title of the outline."""
    for bookmark in islice(pdf.get_toc(max_depth=6), MAX_OUTLINE):
        target = bookmark.get_dest()
        page = None if target is None else target.get_index()
        title = " ".join(bookmark.get_title().split())
        if title and page is not None and 0 <= page < len(pdf):
            yield page, bookmark.level + 1, title
