"""JSON that a person can compare line by line."""

from __future__ import annotations

import json
import re


def in_lines(value: object, level: int) -> str:
    """Return JSON with a line for each value at a level of nesting, whatever is in it."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return re.sub(rf"\n {{{level + 1},}}|\n {{{level}}}(?=[\]}}])", "", text) + "\n"
