"""Read what the drawings of Office files show: the data of charts, and the texts of diagrams (SmartArt)."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.formats.xlsx import show_number

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LEVEL = 9  # of the points of a diagram that are indented
EPOCH = dt.datetime(1899, 12, 30)  # noqa: DTZ001 - dates of sheets have no zone
MAX_DATE = 2_958_466  # days since then
_DATE = re.compile(r"[ymd]", re.IGNORECASE)
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|[_*].')  # in a format


class _Series(NamedTuple):
    """A series of a chart, by the numbers of its points."""

    name: str
    labels: dict[int, str]
    values: dict[int, str]


def chart_rows(xml: bytes) -> Iterator[list[str]]:
    """Yield the titles of a chart and its axes, and a row of values for each label."""
    chart = ET.fromstring(xml)  # noqa: S314 - expat bounds entities
    for title in chart.iterfind(".//{*}title"):
        yield [text_of(title)]
    series = [_Series(_name(each), _labels(each), _points(each, "val", "yVal")) for each in chart.iterfind(".//{*}ser")]
    for labels, alike in groupby(series, lambda each: each.labels):
        columns = list(alike)
        yield ["", *(each.name for each in columns)]
        numbers = sorted(set(labels).union(*(each.values for each in columns)))
        for number in numbers:
            yield [labels.get(number, ""), *(each.values.get(number, "") for each in columns)]


def diagram_lines(xml: bytes) -> Iterator[str]:
    """Yield the texts of a diagram, each below the one that it is a part of."""
    diagram = ET.fromstring(xml)  # noqa: S314 - expat bounds entities
    texts = {point.get("modelId"): text_of(point) for point in diagram.iterfind(".//{*}ptLst/{*}pt")}
    parts: defaultdict[str | None, list[str | None]] = defaultdict(list)
    lines = diagram.findall(".//{*}cxnLst/{*}cxn")
    for line in sorted(lines, key=lambda each: int(each.get("srcOrd", "0"))):
        if line.get("type", "parOf") == "parOf":
            parts[line.get("srcId")].append(line.get("destId"))
    below = {part for each in parts.values() for part in each}
    waiting = [(point, 0) for point in reversed(texts) if point not in below]
    while waiting:
        point, level = waiting.pop()
        if text := texts.pop(point, ""):
            yield "  " * min(level - 1, MAX_LEVEL) + "- " + text
        waiting += [(part, level + 1) for part in reversed(parts.pop(point, []))]
    yield from (f"- {text}" for text in texts.values() if text)  # which nothing leads to


def text_of(element: ET.Element) -> str:
    """Return the words of an element, whose paragraphs are parted by blanks."""
    paragraphs = (
        "".join(each.text or "" for each in paragraph.iter() if each.tag.endswith("}t"))
        for paragraph in element.iter()
        if paragraph.tag.endswith("}p")
    )
    return " ".join(" ".join(paragraphs).split())


def _name(series: ET.Element) -> str:
    return " ".join(each.text or "" for each in series.iterfind("{*}tx//{*}v"))


def _labels(series: ET.Element) -> dict[int, str]:
    """Return the labels of the points; one that several points share is before the label of each."""
    levels = series.findall("{*}cat//{*}lvl")
    if not levels:
        return _points(series, "cat", "xVal")
    labels, *above = (_shown_points(level, "") for level in levels)
    for shared in above:
        for number, label in labels.items():
            first = max((each for each in shared if each <= number), default=number)
            labels[number] = f"{shared.get(first, '')} {label}".strip()
    return labels


def _points(series: ET.Element, *names: str) -> dict[int, str]:
    caches = (cache for name in names for cache in series.iterfind(f"{{*}}{name}/*/*"))
    forms = ((cache, cache.findtext("{*}formatCode", "")) for cache in caches)
    return {at: text for cache, form in forms for at, text in _shown_points(cache, form).items()}


def _shown_points(cache: ET.Element, form: str) -> dict[int, str]:
    return {
        int(point.get("idx", "0")): _shown(point.findtext("{*}v", ""), point.get("formatCode", form))
        for point in cache.iterfind("{*}pt")
    }


def _shown(text: str, form: str) -> str:
    """Return a value as its format shows it."""
    try:
        number = float(text)
    except ValueError:
        return text
    if _DATE.search(_LITERAL.sub("", form)) and 0 <= number < MAX_DATE:
        return str(EPOCH + dt.timedelta(number)).removesuffix(" 00:00:00")
    return show_number(number, form)
