"""Settings of the analyzer, as they are stored with an index."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rag_bm25.analysis.camel_case import CamelCase  # noqa: TC001 - read from the annotations
from rag_bm25.analysis.stop_words import LUCENE_33, QUESTION_WORDS
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH, Compounds, check_stem
from rag_bm25.checks import as_str, is_iterable, parameter_error
from rag_bm25.definitions import check_fields
from rag_bm25.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

Segmentation = Literal["search", "exact"]

MAX_FREQUENCY = 2**31 - 1
MAX_WORDS = 1_000_000  # jieba's larger dictionary has 584,000


def _sorted_stop_words(name: str, words: object) -> tuple[str, ...]:
    return tuple(sorted({check_word(name, word) for word in _members(name, words)}))


def _sorted_user_words(name: str, words: object) -> tuple[tuple[str, int | None], ...]:
    pairs = {check_user_word(entry) for entry in _members(name, words)}
    counts = Counter(word for word, _ in pairs)
    repeated = sorted(word for word, count in counts.items() if count > 1)
    _require(not repeated, name, "words with one frequency each", repeated)
    return tuple(sorted(pairs))


@dataclass(frozen=True)
class AnalyzerConfig:
    """Settings of the analyzer. Equal settings give equal tokens, with either segmenter.

    Parameters
    ----------
    segmentation, query_segmentation : {"search", "exact"}
        How the Chinese of chunks and queries is cut: into words and the shorter words within them, or words only.
    simplify : bool
        Whether to convert traditional Chinese to simplified.
    stem : bool or str
        Whether to stem English words (Snowball), so that ``running`` finds ``run``; or the name of another language,
        such as ``"german"``, any that PyStemmer knows. The stop words are those of `stop_words`.
    stop_words : iterable of str
        Words to drop, at most 1,000,000. English words in capitals are kept. Stored sorted.
    user_words : iterable of str or of (str, int or None)
        Words to keep whole, at most 1,000,000. A word of Chinese characters may have a frequency in [1, 2**31 - 1],
        out of the 60 million occurrences in jieba's dictionary; by default, it is the least that keeps the word whole.
        Stored sorted.
    split_camel_case : {"words"} or bool
        Whether ``getUserName`` also gives ``get``, ``user`` and ``name``: where each part may be a word, which leaves
        ``PhD`` and ``mRNA`` whole; wherever a capital follows small letters; or nowhere.
    bigrams : bool
        Whether each two neighbouring Chinese characters are a term, too, in a channel of their own. They match where
        the dictionary cuts a query and a chunk differently. A search weighs them by its ``bigram_weight``.
    characters : bool
        Whether each Chinese character is a term, too, in a channel of its own, but for the commonest ones: 税 finds
        增值税. A search weighs them by its ``character_weight``.
    word_bigrams : bool
        Whether each two neighbouring words of other scripts are a term of the channel of bigrams, too, unless one is a
        number, a stop word or a question word, or a sign stands between them. A search weighs them by its
        ``word_bigram_weight``.
    compounds : {"identifiers", "all"}
        Which compounds are a term as a whole, beside their parts: those with a digit, an underscore, a dot or camel
        case, such as ``GPT-4o`` and ``user_id``, and as one word those with a short prefix, so that ``on-line`` finds
        ``online``; or all, such as ``state-of-the-art``, too.
    question_words : iterable of str
        Words, likewise, that a search weighs by its ``question_word_weight``, unless nothing else is in the query; by
        default question words and pronouns, English and Chinese. A Chinese one may be several words of the dictionary,
        as 能不能 is. Chunks have them as any other words.
    query_stop_structures : bool
        Whether to drop what a question says before it names its topic, such as *I am interested in papers on* and
        我想了解一下, from queries.
    distinct_bigrams : bool
        Whether a sentence has each bigram of characters once, however often it occurs in it; a word counts each time.

    Raises
    ------
    ParameterError
        A setting breaks its rule.
    MissingExtraError
        The language of `stem` needs PyStemmer, which is not installed.

    Examples
    --------
    >>> AnalyzerConfig(user_words=["云计算", ("5G网络", None)]).user_words
    (('5G网络', None), ('云计算', None))
    """

    segmentation: Segmentation = "search"
    query_segmentation: Segmentation = "exact"
    simplify: bool = True
    stem: Annotated[bool | str, check_stem] = True
    stop_words: Annotated[tuple[str, ...], _sorted_stop_words] = LUCENE_33
    user_words: Annotated[tuple[tuple[str, int | None], ...], _sorted_user_words] = ()
    split_camel_case: CamelCase = "words"
    bigrams: bool = True
    characters: bool = True
    word_bigrams: bool = True
    compounds: Compounds = "identifiers"
    question_words: Annotated[tuple[str, ...], _sorted_stop_words] = QUESTION_WORDS
    query_stop_structures: bool = True
    distinct_bigrams: bool = True

    def __post_init__(self) -> None:
        check_fields(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values.

        Returns
        -------
        dict
            Every setting by its name.
        """
        return {name: _to_plain(setting) for name, setting in vars(self).items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> AnalyzerConfig:
        """Read the settings that :meth:`to_dict` returns.

        Parameters
        ----------
        settings : dict
            Settings by name; missing ones have their defaults.

        Returns
        -------
        AnalyzerConfig
            The same settings.

        Raises
        ------
        FormatError
            A setting is unknown to this version.
        ParameterError
            A setting breaks its rule.
        """
        unknown = settings.keys() - {field.name for field in fields(cls)}
        if unknown:
            msg = f"analyzer settings {', '.join(sorted(unknown))} are not known to this version of rag_bm25"
            raise FormatError(msg)
        return cls(**settings)


def _to_plain(setting: Any) -> Any:
    return [*map(_to_plain, setting)] if isinstance(setting, tuple) else setting


def _require(holds: bool, name: str, rule: str, value: object) -> None:
    if not holds:
        raise parameter_error(name, rule, value)


def _members(name: str, words: object) -> Iterable[object]:
    """Return the members of a collection; refuse a single string."""
    if isinstance(words, str) or not is_iterable(words):
        raise parameter_error(name, "a collection of words", words)
    members = list(islice(words, MAX_WORDS + 1))
    if len(members) > MAX_WORDS:
        raise ParameterError(f"{name} must be a collection of at most {MAX_WORDS:,} words, got more")
    return members


def check_word(name: str, word: object) -> str:
    """Return a word that can be a token."""
    shape = unicodedata.normalize("NFKC", word).casefold() if isinstance(word, str) else ""
    fits = 1 <= len(shape) <= MAX_TOKEN_LENGTH and shape.isprintable() and " " not in shape
    _require(fits, name, f"words of 1 to {MAX_TOKEN_LENGTH} visible characters without white space", word)
    assert isinstance(word, str)  # nothing else fits
    return as_str(word)


def check_user_word(entry: object) -> tuple[str, int | None]:
    pair = (entry, None) if isinstance(entry, str) else tuple(_members("user_words", entry))
    _require(len(pair) == 2, "user_words", "words, or pairs of word and frequency", entry)
    word = check_word("user_words", pair[0])
    _require(any(map(str.isalnum, word)), "user_words", "words with a letter or digit", word)
    frequency = pair[1]
    if frequency is None or (type(frequency) is int and 1 <= frequency <= MAX_FREQUENCY):
        return word, frequency
    raise parameter_error("frequency of a user word", f"None or in [1, {MAX_FREQUENCY}]", frequency)
