"""Guess the language of texts that are not English: words such as French *dans* and *la* are no stop words by default.

Under the IDF ``epsilon`` these words of most chunks decide over the words that a question is about. Where all texts are
of one language, its stems and ``idf="lucene"`` find more.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.words import stemmed_languages
from rag_bm25.ingestion.reading import DEFAULT_OPTIONS, read_leniently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.documents.chunks import NewChunk
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.reading import ReadOptions
    from rag_bm25.ingestion.splitting import Splitter

MIN_CHUNKS = 200
"""Minimum number of chunks for a guess, and the number that is looked at."""
_SHARE = 0.9  # of the chunks, that must be of the language
_OF_FILE = 10  # chunks of a file, before more of it are looked at
_MIN_LETTERS = 20  # of a chunk, beside its names
# Names may be of another language than the text, and code is of none.
_NAMES = re.compile(r"\b[A-Z\u00c0-\u00de]\w*|\w*[\d_]\w*")
_LETTER = re.compile(r"[^\W\d_]")

_STEMS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch",
    "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
    "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "no": "norwegian", "nn": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip


def guess_language(texts: Sequence[str]) -> str | None:
    """Return the language of nine in ten of at least 200 texts, by the name of its stemmer; None without py3langid.

    English is none: it is the default.
    """
    if len(texts) < MIN_CHUNKS or (classify := _classifier()) is None:
        return None
    guesses = [_STEMS.get(classify(text)) for text in map(_without_names, texts) if text]
    language = max(set(guesses), key=guesses.count, default=None)
    is_known = language in stemmed_languages() and guesses.count(language) >= _SHARE * len(texts)
    return language if is_known else None


def settings_for(texts: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an index of texts in another language, beside those that are given; none for English."""
    language = None if "stem" in given else guess_language(texts)
    return {name: value for name, value in (("stem", language), ("idf", "lucene")) if language and name not in given}


def describe(settings: Mapping[str, Any]) -> str:
    """Return the language of such settings, and these as they are given, as the beginning of a clause."""
    given = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"nine in ten texts are {settings['stem'].title()}: {given}"


def sample_texts(files: Sequence[SourceFile], split: Splitter, options: ReadOptions = DEFAULT_OPTIONS) -> list[str]:
    """Return texts of chunks of as many files as it takes for a guess; few if there are few."""
    shuffled = list(files)
    Random(0).shuffle(shuffled)  # noqa: S311
    texts: list[str] = []
    more: list[str] = []
    for file in shuffled:
        pieces = [piece.text for piece in islice(read_leniently(file, split, options), MIN_CHUNKS)]
        texts += pieces[:_OF_FILE]
        more += pieces[_OF_FILE:]
        if len(texts) >= MIN_CHUNKS:
            break
    return (texts + more)[:MIN_CHUNKS]


def keep_sample(chunks: Iterable[NewChunk], texts: list[str]) -> Iterator[NewChunk]:
    """Pass chunks on, and keep texts of as many as a guess looks at, each as likely as any other."""
    random = Random(0)  # noqa: S311
    for number, chunk in enumerate(chunks):
        at = number if number < MIN_CHUNKS else random.randrange(number + 1)
        if at < MIN_CHUNKS:
            texts[at : at + 1] = [chunk.text]
        yield chunk


def language_notes(config: IndexConfig, texts: Sequence[str]) -> list[str]:
    """Say what another index of texts in another language had better have."""
    given = {} if isinstance(config.analyzer, AnalyzerConfig) and config.analyzer.stem is True else {"stem": None}
    settings = settings_for(texts, given)
    return [f"{describe(settings)} find more in a new index"] if settings else []


def _without_names(text: str) -> str:
    """Return a text without its names, numbers and identifiers, "" if few letters are left."""
    rest = _NAMES.sub(" ", text)
    return rest if len(_LETTER.findall(rest)) >= _MIN_LETTERS else ""


@cache
def _classifier() -> Callable[[str], str] | None:
    try:
        from py3langid import classify
    except ImportError:
        return None
    return lambda text: str(classify(text)[0])
