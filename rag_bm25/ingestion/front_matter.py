"""Read the front matter of Markdown, which generators of sites and notes keep above the text, as metadata."""

from __future__ import annotations

import re
from typing import Any

MAX_SIZE = 10_000  # characters: each chunk has the metadata, and more is a text
RESERVED = frozenset({"source", "chunk", "start_index", "end_index", "headings", "page", "chunk_context"})
CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}

_BLOCK = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?\n)??(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"""["']?(\w[\w .-]{0,99}?)["']?(?::(?=[ \t]|$)|[ \t]*=)[ \t]*(.*)""")  # of YAML or TOML
_FURTHER = re.compile(r"[ \t]|-(?:[ \t]|$)|[\]}]")  # the beginning of a line that goes on with an entry
_ITEM = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,\[\]]+)""")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})")
_DECIMAL = re.compile(r"[+-]?\d{1,15}\.\d{1,15}")
_DATE = re.compile(r"(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[T ]+(\d\d?:\d\d(?::\d\d)?)(?:\.\d+)? *(Z|[+-]\d\d)?:?(\d\d)?)?")


def read_front_matter(text: str) -> tuple[dict[str, Any], int]:
    """Return the entries above a text, and where that begins; lines that are no entries are a text."""
    block = _BLOCK.match(text[:MAX_SIZE])
    lines = _entries(block[2] or "") if block else None
    if block is None or lines is None:
        return {}, 0
    values = {name: _value(*given) for name, given in lines.items() if name not in RESERVED}
    return {name: value for name, value in values.items() if value is not None}, block.end()


def _entries(block: str) -> dict[str, list[str]] | None:
    """Return the lines of each entry, None if there are others; sections of TOML are left out."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in block.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            break
        entry = _ENTRY.match(line)
        if entry:
            lines = found.setdefault(entry[1], [])
            lines.append(entry[2].strip())
        elif lines is not None and _FURTHER.match(line):
            lines.append(line.strip())
        else:
            return None
    return found


def _value(first: str, *others: str) -> Any:
    """Return the value of an entry, None for one that is nested."""
    if first[:1] in ("|", ">"):
        return ("\n" if first[0] == "|" else " ").join(others)
    if first.startswith("["):
        return _list(_ITEM.findall(" ".join([first, *others])))
    if first:
        return _scalar(" ".join([first, *others]))
    if all(line.startswith("-") for line in others):
        return _list([line[1:] for line in others]) or None
    return None


def _list(items: list[str]) -> list[Any]:
    return [value for item in items if (value := _scalar(item)) is not None]


def _scalar(text: str) -> str | float | bool | None:
    """Return a text, number or constant; dates in the form of ISO 8601."""
    plain = text.strip()
    if plain[:1] in ('"', "'") and (end := plain.rfind(plain[0])) > 0:
        return plain[1:end].replace(f"\\{plain[0]}", plain[0])
    plain = re.split(r"[ \t]#", plain)[0].rstrip()
    if plain.lower() in CONSTANTS:
        return CONSTANTS[plain.lower()]
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if _DECIMAL.fullmatch(plain):
        return float(plain)
    date = _DATE.fullmatch(plain)
    return _iso(date) if date else plain


def _iso(date: re.Match[str]) -> str:
    year, month, day, time, zone, minutes = date.groups(default="")
    offset = f"{zone}:{minutes or '00'}" if zone not in ("", "Z") else zone
    padded = f"T0{time}" if time[1:2] == ":" else f"T{time}"
    return f"{year}-{month:0>2}-{day:0>2}{padded + offset if time else ''}"
