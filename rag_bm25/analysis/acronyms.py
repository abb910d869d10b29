"""Names in capitals, which a stemmer takes for words: AIDS is no aid, and LLMs are more than one LLM."""

from __future__ import annotations

MAX_ACRONYM_LENGTH = 5  # letters; longer words in capitals are mostly headings


def name_in_capitals(word: str) -> str:
    """Return the name that a word is, without the s of a plural: ``AIDS``, ``iOS``, ``LLM`` of ``LLMs``; else ""."""
    name = word[:-1] if word[-1:] == "s" else word
    if not name[-2:].isupper() or not name.isalpha() or len(name) < 2:
        return ""
    return name if len(name) <= MAX_ACRONYM_LENGTH or not name.isupper() else ""
