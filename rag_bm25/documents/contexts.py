"""The text of a chunk as models of dense vectors get it: after its context, if it has one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rag_bm25.weighting.fields import CONTEXT, field_items, field_text

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

CONTEXTUALIZED_BY = "contextualized_by"
"""Metadata key of the name of the function that gave a chunk its context, or of HEADINGS."""
HEADINGS = "headings"
"""The context is title and headings: they count as fields of their own, and need not be stored twice."""
_WORD = re.compile(r"\w+")


def embedded_text(text: str, metadata: Mapping[str, Any], fields: Container[str]) -> str:
    """Return the text of a chunk after its context, given the fields of the index."""
    headings = _headings(text, metadata) if metadata.get(CONTEXTUALIZED_BY) == HEADINGS else ""
    context = field_text(metadata, CONTEXT) if CONTEXT in fields else ""
    return "\n".join([*filter(None, (headings, context)), text])


def _headings(text: str, metadata: Mapping[str, Any]) -> str:
    """Join title and headings, each once, without those that the text begins with."""
    given = dict.fromkeys([*field_items(metadata, "title"), *field_items(metadata, HEADINGS)])
    words = {heading: _WORD.findall(heading) for heading in given}
    said: set[str] = set()
    for line in filter(_WORD.search, text.split("\n")):
        begun = {heading for heading, own in words.items() if own and _WORD.findall(line)[: len(own)] == own}
        if not begun:
            break
        said |= begun
    return " > ".join(heading for heading in given if heading not in said)
