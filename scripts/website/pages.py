"""A hook of mkdocs: pages from files at the root of the repository, with their links adapted.

The same files are read in a repository's browser, where links to code lead somewhere. The site has no code: there,
such a link is the name of the file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = {
    "README.md": "index.md",
    "README.zh-CN.md": "index.zh-CN.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not below ``docs``."""
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links from where the file is in the repository to where it is on the site."""
    origins = {made: name for name, made in ROOT_PAGES.items()}
    source = origins.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = CODE.split(markdown)  # text, code, text and so on
    parts[::2] = [LINK.sub(lambda link: linked(link, source, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def linked(link: re.Match[str], source: str, page: str) -> str:
    """Rewrite one link; `source` is the path of its file in the repository."""
    text, anchor = link[1], link[3] or ""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
    goal = ROOT_PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
    if goal:
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{anchor})"
    return f"`{target}`" if text.strip("`") == target else f"{text} (`{target}`)"
