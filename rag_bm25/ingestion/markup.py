"""Read Markdown and reStructuredText: their headings, and their source without marks that no reader sees."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import replace
from html import unescape
from html.entities import html5
from itertools import accumulate
from typing import TYPE_CHECKING

from rag_bm25.ingestion.documents import COMMENTS, Document, Heading, bounded
from rag_bm25.ingestion.front_matter import read_front_matter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CJK = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]"
WRAPPED = re.compile(rf"(?<={_CJK}) ?\n[ \t]*(?={_CJK})")
"""A line break that is nothing within a paragraph, as no space is between the words of Chinese."""
BREAK_AFTER = re.compile(rf"(?<={_CJK}) ?\n[ \t]*\Z")
_REFERENCE = re.compile(r"(?<!\\)&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PUNCTUATION = r"[!-/:-@\[-_{}~]"  # without ` and |, which mark code and cells where they are no longer escaped
_INDENT = r"(?: {4}|\t)"
_CODE = (
    r"(?<![`\\])(?P<ticks>`{1,2})(?!`)[^`\n]{1,500}(?P=ticks)|(?<=\n\n)(?:(?: {4}|\t).*\n?)+"
    rf"|(?<=\n){_INDENT}[ \t]*(?P<inner>`{{3,8}}|~{{3,8}})[^`\n]*\n(?:(?:{_INDENT}.*)?\n)*?{_INDENT}[ \t]*(?P=inner)"
    r"|\$\$[^$]{1,5000}\$\$|(?<![\\$])\$(?=[^\s$])[^$\n]{1,500}(?<=\S)\$(?!\d)"  # formulas have marks of their own
)
_RENDERED = re.compile(rf"(?P<code>{_CODE})|{_REFERENCE.pattern}|{WRAPPED.pattern}|\\(?P<escaped>{_PUNCTUATION})")
_UNSEEN = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?s:.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    rf"|{_CODE}|(?P<comment><!--)"
    r"|(?<![*\\])(?P<stars>\*{1,3})(?=[^\s*])(?P<emphasised>[^*\n]{1,500})(?<=\S)(?P=stars)(?!\*)",
    re.MULTILINE,
)
_DATA_URI = re.compile(
    r"(?P<link>!\[(?P<alt>[^\[\]\n]{0,500})\]\([ \t]*<?|^ {0,3}\[[^\[\]\n]{1,500}\]:[ \t]*<?)?"
    r"data:[\w.+-]{1,50}/[\w.+-]{1,50}(?:;[\w=.-]{1,50}){0,3},[\w+/=%.~!*'-]{64,}"
    r"(?(link)>?(?:[ \t]+[\"'][^\"'\n]{0,500}[\"'])?[ \t]*\)?)",
    re.MULTILINE,
)
_PAYLOAD = re.compile(r"(?<=\]\()(<?[a-z]{2,8}://[^\s()#?]{1,300})[#?][\w+/=%.~&*!'-]{150,}(?=>?\))")
"""The code that a link carries, as that of a playground: it is no word of the page, and fills a chunk."""
_WORD = re.compile(r"\W?\w")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_CONTAINER = re.compile(r"\s*$| {0,3}(?:[-+*>|]|\d{1,9}[.)])(?:\s|$)|\t| {4}| {0,3}(?:>|<|\|)")
_INTERRUPTS = re.compile(_RULE.pattern + r"| {0,3}(?:[-+*][ \t]+\S|1[.)][ \t]+\S|>)")
_MARKS = re.compile(
    r"(?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>[^`\n]{1,500})(?P=ticks)|!?\[(?P<link>[^\[\]]*)\]\([^()\s]*\)"
    rf"|\\(?P<escaped>{_PUNCTUATION})|[`*]+|<[^<>]*>|\{{#[^{{}}]*\}}|(?P<reference>{_REFERENCE.pattern})"
)
_PART = re.compile(
    r"第[一二三四五六七八九十百千零〇\d]{1,9}(?P<zh>[卷编篇章节])"
    r"|(?P<en>Book|BOOK|Part|PART|Chapter|CHAPTER|Section|SECTION)\s(?:\d{1,4}|[IVXLC]{1,8})\b(?!\s[a-z])\.?"
)
_LEVELS = {"卷": 1, "book": 1, "编": 2, "篇": 2, "part": 2, "章": 3, "chapter": 3, "节": 4, "section": 4}
MAX_TITLE = 100  # characters of the first line of a plain text
MAX_PART = 60  # characters of the line that a part of one begins with
_ENDS = tuple(".。!！?？;；,，:：、")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*$")


class _Lines:
    """The lines of a text, and where they begin."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.starts = array("q", accumulate((len(line) + 1 for line in self.lines), initial=0))

    def heading(self, first: int, last: int, level: int, title: str) -> Heading:
        return Heading(self.starts[first], self.starts[last] + len(self.lines[last]), level, title)


def read_markdown(text: str, *, hidden: bool = False) -> Document:
    """Read a Markdown text: its title, headings and front matter; its comments, if what is hidden is to be read."""
    metadata, start = read_front_matter(text)
    shown, num_hidden = _shown(text[start:], hidden=hidden)
    headings = bounded(_markdown_headings(shown))
    first = next((each.title for each in headings if each.level == 1), "")
    own = metadata.pop("title", None)
    title = str(own) if isinstance(own, str | int | float) and not isinstance(own, bool) else ""
    left_out = {COMMENTS: num_hidden} if num_hidden else {}
    return _rendered(Document(shown, title or first, headings, left_out=left_out, metadata=metadata))


def _shown(text: str, *, hidden: bool) -> tuple[str, int]:
    """Leave out comments, pictures that are data, the codes of links, and the marks of emphasis that part words.

    The number is that of the characters of comments, which are kept if what is hidden is to be read.
    """
    text = _PAYLOAD.sub(r"\1", _DATA_URI.sub(lambda match: match["alt"] or "", text))
    last = -1 if hidden else text.rfind("-->")
    parts, done, at, num_hidden = list[str](), 0, 0, 0
    while match := _UNSEEN.search(text, at):
        at, shown = match.end(), None
        if match["comment"] and match.start() < last:
            at, shown = text.index("-->", match.start() + 2) + 3, ""
            num_hidden += at - match.start()
        elif match["stars"] and _WORD.match(text[match.start() - 1 : match.start()] + text[at : at + 1]):
            shown = match["emphasised"]
        if shown is not None:
            parts += (text[done : match.start()], shown)
            done = at
    return "".join([*parts, text[done:]]), num_hidden


def _rendered(document: Document) -> Document:
    """Replace character references, escapes, and line breaks between ideographs, by what a page shows."""
    lines = _Lines(document.text)
    outside = set(_lines_outside_fences(lines))
    parts, ends, shifts, done = list[str](), [0], [0], 0
    for match in _RENDERED.finditer(document.text):
        if match["code"] or not _is_rendered(lines, outside, match):
            continue
        new = match["escaped"] or _character(match[0])
        parts += (document.text[done : match.start()], new)
        done = match.end()
        ends.append(done)
        shifts.append(shifts[-1] + len(new) - len(match[0]))

    def moved(place: int) -> int:
        return place + shifts[bisect_right(ends, place) - 1]

    headings = tuple(each._replace(start=moved(each.start), end=moved(each.end)) for each in document.headings)
    return replace(document, text="".join([*parts, document.text[done:]]), headings=headings)


def _is_rendered(lines: _Lines, outside: set[int], match: re.Match[str]) -> bool:
    """Return whether a match is in no fence, and is no line break that ends a heading or a row of a table."""
    first, last = (bisect_right(lines.starts, place) - 1 for place in match.span())
    line = lines.lines[first]
    return {first, last} <= outside and (first == last or not (_ATX.match(line) or "|" in line))


def _character(text: str) -> str:
    """Return the character of a reference, nothing for a line break."""
    if text[0] != "&":
        return ""
    return unescape(text) if text[1] == "#" else html5.get(text[1:], text)


def _markdown_headings(text: str) -> Iterator[Heading]:
    lines = _Lines(text)
    paragraph = -1  # the first line of the paragraph that a line may underline
    for at in _lines_outside_fences(lines):
        line = lines.lines[at]
        if atx := _ATX.match(line):
            yield lines.heading(at, at, len(atx[1]), _plain(_unclosed(atx[2] or "")))
            paragraph = -1
        elif paragraph >= 0 and (underline := _SETEXT.match(line)):
            title = _plain(WRAPPED.sub("", "\n".join(lines.lines[paragraph:at])))
            yield lines.heading(paragraph, at, 1 if underline[1][0] == "=" else 2, title)
            paragraph = -1
        elif not line.strip() or _FENCE.match(line) or _INTERRUPTS.match(line):
            paragraph = -1
        elif paragraph < 0 and _may_begin_paragraph(lines.lines, at):
            paragraph = at


def _lines_outside_fences(lines: _Lines) -> Iterator[int]:
    """Yield the lines that are in no fence, and those that open one."""
    fence = ""
    for at, line in enumerate(lines.lines):
        mark = _FENCE.match(line)
        if not fence:
            fence = mark[1] if mark else ""
            yield at
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""


def _may_begin_paragraph(lines: list[str], at: int) -> bool:
    """Return whether a line begins a paragraph of its own, and does not go on with a list item, a quote or a table."""
    if _RULE.match(lines[at]) or _CONTAINER.match(lines[at]):
        return False
    return at == 0 or not lines[at - 1].strip() or not _CONTAINER.match(lines[at - 1])


def _unclosed(title: str) -> str:
    """Leave out the marks at the end that close a heading."""
    title = title.rstrip(" \t")
    rest = title.rstrip("#")
    return title if rest and rest[-1] not in " \t" else rest


def _plain(title: str) -> str:
    """Leave out the marks of links, code and emphasis."""
    return " ".join(_MARKS.sub(_name, title).split())


def _name(mark: re.Match[str]) -> str:
    if mark["reference"]:
        return _character(mark[0])
    return mark["code"] or mark["escaped"] or _plain(mark["link"] or "")


def read_rst(text: str, **_options: object) -> Document:
    """Find title and headings of a reStructuredText."""
    headings = bounded(_rst_headings(text))
    return Document(text, headings[0].title if headings else "", headings)


def _rst_headings(text: str) -> Iterator[Heading]:
    lines, styles = _Lines(text), list[str]()
    texts = ["", *lines.lines, ""]  # with a line before and after
    at = 1
    while at < len(texts) - 1:
        title, under = texts[at].strip(), texts[at + 1]
        if not _is_title(texts, at):
            at += 1
            continue
        over = texts[at - 1].rstrip() == under.rstrip() and not texts[max(0, at - 2)].strip()
        style = under[0] * (2 if over else 1)
        if style not in styles:
            styles.append(style)
        yield lines.heading(at - 2 if over else at - 1, at, styles.index(style) + 1, _rst_plain(title))
        at += 2


def _is_title(texts: list[str], at: int) -> bool:
    """Return whether a line is underlined, at full length, and follows a blank line or an overline."""
    title, under, before = texts[at].rstrip(), texts[at + 1].rstrip(), texts[at - 1].rstrip()
    if not title or not _ADORNMENT.match(under) or len(under) < max(3, len(title.strip())):
        return False
    overlined = before == under
    return (not before or overlined) and (overlined or not title[0].isspace()) and not _ADORNMENT.match(title)


def _rst_plain(title: str) -> str:
    """Leave out roles and the marks of code."""
    return re.sub(r":[\w:+.-]{1,100}:(?=`)", "", title).replace("`", "").replace("*", "").strip()


def read_plain(text: str, **_options: object) -> Document:
    """Find the numbered chapters of a plain text; a first line that stands alone, and is no sentence, is the title."""
    first, _, rest = text.strip().partition("\n")
    is_alone = rest.partition("\n")[0].isspace() or rest.startswith("\n")
    is_title = is_alone and len(first) <= MAX_TITLE and not first.rstrip().endswith(_ENDS)
    return Document(text, first.strip() if is_title else "", bounded(_plain_headings(text)))


def _plain_headings(text: str) -> Iterator[Heading]:
    """Yield the lines that are a chapter with its number; in English, after a blank line."""
    lines, after_blank = _Lines(text), True
    for at, line in enumerate(lines.lines):
        title = line.strip()
        part = _PART.match(title) if len(title) <= MAX_PART else None
        if part and (part["zh"] or after_blank) and not title[part.end() :].endswith(_ENDS):
            yield lines.heading(at, at, _LEVELS[(part["zh"] or part["en"]).lower()], title)
        else:
            after_blank = not title


MARKUP: dict[str, Callable[..., Document]] = {".md": read_markdown, ".markdown": read_markdown, ".rst": read_rst}
"""The readers of texts with marks for their headings, by suffix."""
