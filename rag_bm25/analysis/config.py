"""Settings of the analyzer, as they are stored with an index."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from rag_bm25.analysis.stop_words import LUCENE_33
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH
from rag_bm25.errors import FormatError, ParameterError, shown
from rag_bm25.parameters import as_str, check_choice, is_iterable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BEFORE_SETTINGS", "AnalyzerConfig", "Segmentation"]

Segmentation = Literal["search", "exact"]

SEGMENTATIONS = ("search", "exact")
MAX_FREQUENCY = 2**31 - 1
MAX_WORDS = 1_000_000  # jieba's larger dictionary has 584,000

BEFORE_SETTINGS: dict[str, Any] = {"bigrams": False}
"""What indexes were made with before there were these settings: they do not have them stored."""


@dataclass(frozen=True)
class AnalyzerConfig:
    """How text becomes tokens. Equal settings give equal tokens, whichever segmenter is installed.

    Parameters
    ----------
    segmentation : {"search", "exact"}
        How the Chinese of chunks is cut: into words and the shorter words that they hold, or into words only.
    query_segmentation : {"search", "exact"}
        The same for queries.
    simplify : bool
        Whether traditional Chinese is read as simplified.
    stem : bool
        Whether English words are stemmed (Snowball), so that ``running`` finds ``run``.
    stop_words : iterable of str
        Words that are dropped, at most 1,000,000; English ones not where they are written in capitals. Stored sorted.
    user_words : iterable of str or of (str, int or None)
        Words that are kept whole, at most 1,000,000. One of Chinese characters may have a frequency in [1, 2**31 - 1],
        in occurrences within jieba's dictionary of 60 million; without, it gets the least that keeps it whole. Stored
        sorted.
    split_camel_case : bool
        Whether ``getUserName`` also gives ``get``, ``user`` and ``name``; for corpora of source code.
    bigrams : bool
        Whether each two neighbouring Chinese characters are a term, too, in a channel of their own. It finds what the
        dictionary cuts differently in a query than in a chunk; text in other scripts has no such terms. A search
        weighs the channel by its ``bigram_weight``.

    Raises
    ------
    ParameterError
        A setting breaks its rule: the message has its name, the rule and the value.

    Examples
    --------
    >>> AnalyzerConfig(user_words=["云计算", ("5G网络", None)]).user_words
    (('5G网络', None), ('云计算', None))
    >>> AnalyzerConfig(segmentation="fine")
    Traceback (most recent call last):
        ...
    rag_bm25.errors.ParameterError: segmentation must be one of search, exact, got 'fine'
    """

    segmentation: Segmentation = "search"
    query_segmentation: Segmentation = "search"
    simplify: bool = True
    stem: bool = True
    stop_words: tuple[str, ...] = LUCENE_33
    user_words: tuple[tuple[str, int | None], ...] = ()
    split_camel_case: bool = False
    bigrams: bool = True

    def __post_init__(self) -> None:
        """Check every setting, and sort the words."""
        for name in ("segmentation", "query_segmentation"):
            object.__setattr__(self, name, check_choice(name, getattr(self, name), SEGMENTATIONS))
        for name in ("simplify", "stem", "split_camel_case", "bigrams"):
            _require(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))
        object.__setattr__(self, "stop_words", _sorted_stop_words(self.stop_words))
        object.__setattr__(self, "user_words", _sorted_user_words(self.user_words))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values.

        Returns
        -------
        dict
            Every setting by its name.
        """
        words = {"stop_words": list(self.stop_words), "user_words": [list(pair) for pair in self.user_words]}
        return {**asdict(self), **words}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> AnalyzerConfig:
        """Read what :meth:`to_dict` returned.

        Parameters
        ----------
        settings : dict
            Settings by name; those that are missing have their defaults, or the values in :data:`BEFORE_SETTINGS`.

        Returns
        -------
        AnalyzerConfig
            The same settings.

        Raises
        ------
        FormatError
            There is a setting that this version does not know.
        ParameterError
            A setting breaks its rule.
        """
        unknown = settings.keys() - {field.name for field in fields(cls)}
        if unknown:
            msg = f"analyzer settings {', '.join(sorted(unknown))} are not known to this version of rag_bm25"
            raise FormatError(msg)
        return cls(**{**BEFORE_SETTINGS, **settings})


def _require(holds: bool, name: str, rule: str, value: object) -> None:
    """Raise where a rule does not hold."""
    if not holds:
        msg = f"{name} must be {rule}, got {shown(value)}"
        raise ParameterError(msg)


def _sorted_stop_words(words: object) -> tuple[str, ...]:
    """Check stop words and sort them."""
    return tuple(sorted({_checked_word("stop_words", word) for word in _members("stop_words", words)}))


def _sorted_user_words(words: object) -> tuple[tuple[str, int | None], ...]:
    """Check user words, each with or without its frequency, and sort them."""
    pairs = {_checked_user_word(entry) for entry in _members("user_words", words)}
    counts = Counter(word for word, _ in pairs)
    repeated = sorted(word for word, count in counts.items() if count > 1)
    _require(not repeated, "user_words", "words with one frequency each", repeated)
    return tuple(sorted(pairs))


def _members(name: str, words: object) -> Iterable[object]:
    """Return the members of a collection, which a single string is not."""
    if isinstance(words, str) or not is_iterable(words):
        msg = f"{name} must be a collection of words, got {shown(words)}"
        raise ParameterError(msg)
    members = list(islice(words, MAX_WORDS + 1))
    if len(members) > MAX_WORDS:
        msg = f"{name} must be a collection of at most {MAX_WORDS:,} words, got more"
        raise ParameterError(msg)
    return members


def _checked_word(name: str, word: object) -> str:
    """Return a word that text can hold."""
    shape = unicodedata.normalize("NFKC", word).casefold() if isinstance(word, str) else ""
    fits = 1 <= len(shape) <= MAX_TOKEN_LENGTH and shape.isprintable() and " " not in shape
    _require(fits, name, f"words of 1 to {MAX_TOKEN_LENGTH} visible characters without white space", word)
    assert isinstance(word, str)  # nothing else fits
    return as_str(word)


def _checked_user_word(entry: object) -> tuple[str, int | None]:
    """Return a user word with its frequency."""
    pair = (entry, None) if isinstance(entry, str) else tuple(_members("user_words", entry))
    _require(len(pair) == 2, "user_words", "words, or pairs of word and frequency", entry)
    word = _checked_word("user_words", pair[0])
    _require(any(map(str.isalnum, word)), "user_words", "words with a letter or digit", word)
    return word, _checked_frequency(pair[1])


def _checked_frequency(frequency: object) -> int | None:
    """Return a frequency that both segmenters can count with."""
    if frequency is None or (type(frequency) is int and 1 <= frequency <= MAX_FREQUENCY):
        return frequency
    msg = f"frequency of a user word must be None or in [1, {MAX_FREQUENCY}], got {frequency!r}"
    raise ParameterError(msg)
