"""Check a built site: links within it lead somewhere, no anchor is on a page twice, no name of the API on two pages.

    python scripts/website/check.py site

``mkdocs build --strict`` checks the links of the Markdown; this checks what was built, docstrings and menus included.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

OURS = "rag_bm25."


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors += [value for value in (given.get("id"), given.get("name") if tag == "a" else None) if value]
        self.links += [value for value in (given.get("href"), given.get("src")) if value and tag != "base"]


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site, one line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    names = Counter(name for page in pages.values() for name in set(page.anchors) if name.startswith(OURS))
    yield from (f"{name}: on {count} pages" for name, count in names.items() if count > 1)
    for path, page in pages.items():
        where = path.relative_to(site)
        yield from (f"{where}: #{anchor} {count} times" for anchor, count in Counter(page.anchors).items() if count > 1)
        for link in dict.fromkeys(page.links):
            if not leads(link, path, site, pages):
                yield f"{where}: {link} leads nowhere"


def leads(link: str, path: Path, site: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link leads to a file of the site and to an anchor in it; other hosts are not asked."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    folder = site if parts.path.startswith("/") else path.parent
    goal = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    goal = goal / "index.html" if goal.is_dir() else goal
    page = pages.get(goal)
    if page is None or not parts.fragment or parts.fragment.startswith("__"):  # those are the theme's own switches
        return goal.exists()
    return unquote(parts.fragment) in page.anchors


def main(arguments: Sequence[str]) -> int:
    site = Path(arguments[0]).resolve()
    found = list(faults(site))
    print("\n".join(found) or f"{site.name}: every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
