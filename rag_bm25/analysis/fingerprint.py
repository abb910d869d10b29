"""The fingerprint of an analyzer: who has that of the writer has its tokens, and need not run the probes to know.

It is a digest of all that tokens depend on, none of which is loaded for it: the settings, this package, Python and its
Unicode, the stemmer, the segmenters and their dictionary.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rag_bm25._version import __version__
from rag_bm25.analysis.analyzer import Analyzer
from rag_bm25.analysis.dictionary import dictionary_path
from rag_bm25.analysis.words import Stemming, stemmer_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.analysis.text import TextAnalyzer

SOURCES = ("analysis", "analysis/data", "vectors", "scripts.py")
"""What of this package shapes tokens: folders and files."""


def fingerprint_of(analyzer: TextAnalyzer, probes: Mapping[str, str]) -> str | None:
    """Return the fingerprint under which an analyzer gives the tokens of these probes; None where that is unknown.

    Callables, and what a subclass does, are known by their tokens alone. User words are, too: their frequencies come
    from a dictionary.
    """
    if type(analyzer) is not Analyzer or analyzer.config.user_words:
        return None
    try:
        parts = [analyzer.config.to_dict(), analyzer.segmenter, _environment(), _stems(analyzer, probes), {**probes}]
    except (OSError, PackageNotFoundError):  # the files of a package are elsewhere, or do not tell its version
        return None
    return _digest(json.dumps(parts, sort_keys=True).encode())


def _stems(analyzer: Analyzer, probes: Mapping[str, str]) -> list[str]:
    """Stem words anew: PyStemmer may be built with the Snowball of the system, whose version it does not tell."""
    stemming = Stemming(stem=analyzer.config.stem)
    return [stemming.term(probe) for probe in probes if probe.isalpha()]


@cache
def _environment() -> list[Any]:
    """Return versions, and digests of what may change without one: sources that are worked on, and a dictionary."""
    dictionary = dictionary_path()
    return [
        [__version__, _digest(b"".join(map(_read, SOURCES)))],
        [sys.implementation.name, *sys.version_info, unicodedata.unidata_version, stemmer_version()],
        [version(name) if find_spec(name) else None for name in ("jieba", "rjieba")],
        dictionary and _digest(dictionary.read_bytes()),
    ]


def _read(source: str) -> bytes:
    """Return a file of this package, or all files of a folder with their names."""
    place = files("rag_bm25").joinpath(*source.split("/"))
    if place.is_file():
        return place.read_bytes()
    inside = sorted((one for one in place.iterdir() if one.is_file()), key=lambda one: one.name)
    return b"".join(one.name.encode() + one.read_bytes() for one in inside)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
