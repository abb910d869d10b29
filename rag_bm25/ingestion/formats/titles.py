"""Tell titles from what programs leave in their place."""

from __future__ import annotations

import re

_NO_TITLE = re.compile(
    r"(?:slide|page|sheet|document|folie|diapositive|слайд|幻灯片|文档) ?\d*|untitled\b.*|无标题.*|未命名.*"
    r"|powerpoint(?: presentation| 演示文稿|-präsentation)|word document|\(?microsoft (?:word|powerpoint|excel)\b.*"
    r"|.*\.(?:docx?|pptx?|xlsx?|od[tsp]|tex|dvi|indd|qxd|html?|pdf|wps)\)?|\(anonymous\)|(?:doi:|https?:).*"
    r"|<?(?:[0-9a-f]{2}){6,}>?|[\W\d_]*|.|\d+ \d+\.\.\d+",
    re.IGNORECASE | re.DOTALL,
)


def is_title(text: str) -> bool:
    """Whether a title says what a document is: no name of a file, default of a program, or number."""
    return _NO_TITLE.fullmatch(text.strip()) is None
