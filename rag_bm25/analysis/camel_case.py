"""Names in camel case, such as ``getUserName``, and the humps that they are cut into."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

CamelCase = bool | Literal["words"]

_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OF_WORDS = re.compile(  # getUserById, isEmpty, ArrayList, innerHTML and IOException; not mRNA, miRNA, nCoV and PhD
    r"""(?!(?:\D*\d+){2}) (?!.*\d[a-z])  # nor a hash
        (?: [a-z]{3}[a-z0-9]* | (?:as|is|to)(?=[A-Z]) | [a-z]{2}(?=[A-Z][a-z])
          | [A-Z][a-z]{2}[a-z0-9]* | [A-Z]{2,}(?=[A-Z][a-z]{3}) )
        (?: [A-Z]+(?![a-z]) | [A-Z]+(?=[A-Z][a-z]) | [A-Z][a-z0-9]+ )+""",
    re.VERBOSE,
)


def is_small(word: str) -> bool:
    """Return whether a word has letters, and no capital after its first character, as most have."""
    return word[1:].islower()


def has_humps(word: str) -> bool:
    """Return whether a capital stands within a word after small letters, or before them."""
    return not (is_small(word) or word.isupper()) and _BORDER.search(word) is not None


def humps(word: str, rule: CamelCase) -> list[tuple[int, int]]:
    """Return where the humps of a name are that is cut by a rule; none if it is not.

    A name is cut into words only where each hump may be one: of names such as ``nCoV`` and ``PhD``, all humps were
    measured to lose hits.
    """
    if not rule or not has_humps(word) or (rule == "words" and _OF_WORDS.fullmatch(word) is None):
        return []
    borders = [0, *(border.start() for border in _BORDER.finditer(word)), len(word)]
    return list(pairwise(borders))
