"""Start Python without the current folder on its path: that folder may be the one to ingest, and nothing of it may run.

This imports only what Python itself has imported when it starts: ``python -m rag_bm25`` has the current folder first.
"""

import os
import sys

SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
"""The option of Python for it; in 3.10, there is only the one that ignores the variables of its environment as well."""

_PARENT = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120  # of this package


def safe_path() -> list[str]:
    """Return the path of this process without the current folder, and with this package at its end."""
    try:
        current = os.path.realpath("")
    except OSError:  # it was removed
        current = ""
    return [*(folder for folder in sys.path if folder and os.path.realpath(folder) != current), _PARENT]
