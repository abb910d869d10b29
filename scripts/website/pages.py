"""A hook of mkdocs: pages from notebooks and from files at the root of the repository, with their links adapted.

The same files are read in a repository's browser, where links to code lead somewhere. The site has no code: there,
such a link is the name of the file.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
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
    """Add the pages that are not below ``docs``, and those of notebooks, which can be downloaded, too."""
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        content = notebook_page(path.name, json.loads(path.read_text(encoding="utf-8"))["cells"])
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def notebook_page(name: str, cells: list[dict[str, Any]]) -> str:
    """Write a notebook as Markdown: its texts, its code, and what that shows."""
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [shown(output) for output in cell.get("outputs", ())]
    return "\n\n".join([*parts[:1], f'<a href="../{name}" download>{name}</a>', *parts[1:]])


def shown(output: dict[str, Any]) -> str:
    """Write an output: HTML as it is, on one line, and text as code."""
    html = "".join(output.get("data", {}).get("text/html", ""))
    return f'<div class="shown">{html}</div>' if html else f"```text\n{''.join(output['text'])}```"


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
    goal = re.sub(r"^(notebooks/.+)\.ipynb$", r"\1.md", goal)
    if goal:
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{anchor})"
    return f"`{target}`" if text.strip("`") == target else f"{text} (`{target}`)"
