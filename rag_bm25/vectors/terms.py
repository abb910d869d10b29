"""Terms and their ids: a stable hash, rehashed for the few terms that collide."""

from __future__ import annotations

import hashlib
import re
import zlib
from contextlib import suppress
from itertools import compress, count, islice, repeat
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rag_bm25.errors import InputError, short_repr
from rag_bm25.scripts import CJK, script_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

ID_SPACE = 0xFFFFFFFF  # Milvus accepts dimensions below 2**32 - 1
MAX_ID = ID_SPACE - 1
HASHED_BYTES = 100
MAX_TERM_BYTES = 32_768
REHASHES_TRIED = 16
_MAX_BYTES = 4  # of a character in UTF-8

NO_TERMS_ID = 0
"""Reserved dimension of chunks without terms: Milvus refuses empty vectors."""

BIGRAM_MARK = "\0"
"""First character of a term in the vocabulary that is no word: chunks must not contain NUL characters."""

CHANNELS = WORDS, BIGRAMS, CHARACTERS = 0, 1, 2
"""The channels of terms, each with a mean IDF of its own: words, pairs of characters or words, single ideographs."""

CHANNEL_BITS = 2
"""Number of bits of the number of a channel, where it is kept beside other bits."""

QUESTION_MARK = "\0\0"
"""First characters of a question word among the tokens of a query; no term begins with them."""

ERASED_MARK = "\1"
"""First character of what stands for an erased term, after the mark if it has one; a digest follows."""

_ERASED = re.compile(f"{BIGRAM_MARK}?{ERASED_MARK}[0-9a-f]{{32}}")

_CJK = re.compile(CJK)
_NAMES = ("", "bigram ", "character ")  # of the terms of each channel


def is_word(term: str) -> bool:
    """Return whether a term is a word."""
    return term[:1] != BIGRAM_MARK


def channel_of(term: str) -> int:
    """Return the channel of a term."""
    if term[:1] != BIGRAM_MARK:
        return WORDS
    return CHARACTERS if len(term) == 2 else BIGRAMS


def channels_of(terms: Collection[str]) -> NDArray[np.uint8]:
    """Return the channel of each term, as `channel_of`, in a third of the time."""
    are_marked = np.fromiter(map(str.startswith, terms, repeat(BIGRAM_MARK)), np.bool_, len(terms))
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    return np.where(are_marked, np.where(lengths == 2, CHARACTERS, BIGRAMS), WORDS).astype(np.uint8)


def is_bigram(term: str) -> bool:
    """Return whether a term is a bigram."""
    return channel_of(term) == BIGRAMS


def is_character(term: str) -> bool:
    """Return whether a term is a single character of the channel of these."""
    return channel_of(term) == CHARACTERS


def is_word_bigram(term: str) -> bool:
    """Return whether a term is a bigram of words, with a blank between them, and not of characters."""
    return " " in term and not is_word(term)


def is_cjk(term: str) -> bool:
    """Return whether a term begins with a Chinese character, kana, hangul or Thai."""
    return not term.isascii() and _CJK.match(term_text(term)) is not None


def is_single(word: str) -> bool:
    """Return whether a word is one Chinese character or one syllable."""
    return len(word) == 1 and is_cjk(word)


def is_pair(term: str) -> bool:
    """Return whether a term is two neighbouring characters: a bigram of ideographs, or the word of two syllables."""
    return len(text := term_text(term)) == 2 and is_cjk(text) and is_word(term) == script_of(text[0]).syllabic


def erased_name(term: str) -> str:
    """Return the name under which the id of a displaced term stays taken when the term itself is erased."""
    mark = "" if is_word(term) else BIGRAM_MARK
    return f"{mark}{ERASED_MARK}{hashlib.sha256(term.encode()).hexdigest()[:32]}"


def is_erased(term: str) -> bool:
    """Return whether a term of the vocabulary is the name of an erased one."""
    return _ERASED.fullmatch(term) is not None


def term_text(term: str) -> str:
    """Return a term as people read it."""
    return term.removeprefix(BIGRAM_MARK)


def num_words(terms: Sequence[str]) -> int:
    """Count words; other terms repeat the same text, and do not count for the length of a chunk."""
    return sum(map(is_word, terms))


def term_name(term: str) -> str:
    """Format a term for messages."""
    return f"{_NAMES[channel_of(term)]}{term_text(term)!r}"


def term_id(term: str) -> int:
    """Hash a term to its dimension, the same on every machine."""
    # As Milvus's own BM25 function does it: CRC-32 of the first 100 bytes of UTF-8. Only a term that would get the
    # reserved dimension 0 differs: it gets 1. A custom analyzer may return a lone surrogate for a query.
    return zlib.crc32(term.encode(errors="surrogatepass")[:HASHED_BYTES]) % ID_SPACE or 1


def term_ids(terms: Iterable[str]) -> NDArray[np.uint32]:
    """Hash storable terms as `term_id`, in half the time."""
    encoded = list(map(str.encode, terms))
    if max(map(len, encoded), default=0) > HASHED_BYTES:
        encoded = [each[:HASHED_BYTES] for each in encoded]
    ids: NDArray[np.uint32] = np.fromiter(map(zlib.crc32, encoded), np.uint32, len(encoded)) % np.uint32(ID_SPACE)
    return np.maximum(ids, 1, out=ids)


def displaced_terms(terms: Mapping[str, int]) -> dict[str, int]:
    """Return the terms whose id is not their hash."""
    ids = np.fromiter(terms.values(), np.int64, len(terms))
    are_displaced = ids != term_ids(terms)
    return dict(compress(terms.items(), are_displaced.tolist())) if are_displaced.any() else {}


MAX_REMEMBERED = 65_536


class TermIds(dict[str, int]):
    """Memo of term -> id for readers, who need no vocabulary: a hash, or the id of a displaced term.

    Threads may share it. It begins anew before it grows beyond the words of many queries.
    """

    def __init__(self, displaced: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._displaced = displaced or {}

    def __missing__(self, term: str) -> int:
        """Look up a displaced term, and hash any other."""
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        self[term] = id_ = self._displaced.get(term) or term_id(term)
        return id_

    def of(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the ids of many terms, which are not remembered."""
        try:
            ids = dict(zip(terms, term_ids(terms).tolist(), strict=True))
        except UnicodeEncodeError:  # a custom analyzer may return a lone surrogate
            return self
        return ids | {term: id_ for term, id_ in self._displaced.items() if term in ids}


class Vocabulary:
    """All terms ever seen, with their ids, which never change."""

    def __init__(self) -> None:
        # One dict is enough, and half the memory of two: the id of a term is found by its hash.
        self._terms: dict[int, str] = {}
        # Terms whose hash was taken: they got the next free id by rehashing. Those that are erased have another name.
        self.displaced: dict[str, int] = {}
        self.collisions: set[str] = set()  # terms that were added with the id of another

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._terms)

    def __contains__(self, term: object) -> bool:
        """Return whether a term is known."""
        return isinstance(term, str) and self.id(term) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the terms in the order of their first occurrence."""
        return iter(self._terms.values())

    @property
    def ids(self) -> Collection[int]:
        """Ids of the terms, in the same order."""
        return self._terms.keys()

    def after(self, number: int) -> list[str]:
        """Return the terms after the first ones, of a given number; a thread may add some meanwhile."""
        terms = self._terms.values()
        while True:
            with suppress(RuntimeError):  # it added one after `reversed` had begun
                return list(islice(reversed(terms), len(terms) - number))[::-1]

    def id(self, term: str) -> int | None:
        """Look up the id of a term."""
        id_ = self.displaced.get(term) or term_id(term)
        return id_ if self._terms.get(id_) == term else None

    def lookup(self, terms: Sequence[str], hashed: Sequence[int]) -> dict[str, int]:
        """Return the ids of those terms that are known, given the hash of each."""
        known, displaced = self._terms, self.displaced
        ids = ((term, displaced.get(term, id_)) for term, id_ in zip(terms, hashed, strict=True))
        return {term: id_ for term, id_ in ids if known.get(id_) == term}

    def taken(self, ids: Sequence[int]) -> list[bool]:
        """Return whether a term has each of these ids."""
        displaced = set(self.displaced.values())
        return [id_ in self._terms or id_ in displaced for id_ in ids]

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the channel of each id; that of one without a term is the words'."""
        return channels_of(list(map(self._terms.get, ids.tolist(), repeat(""))))

    def term(self, id_: int) -> str | None:
        """Look up the term of an id."""
        return self._terms.get(id_)

    def stage(self) -> StagedTerms:
        """Return a memo for one batch, which does not change the vocabulary."""
        return StagedTerms(self)

    def to_dict(self) -> dict[str, int]:
        """Return all terms with their ids, the names of erased ones included."""
        erased = {name: id_ for name, id_ in self.displaced.items() if is_erased(name)}
        return {term: id_ for id_, term in self._terms.items()} | erased

    def without_unused(self, used: Collection[int]) -> Vocabulary:
        """Return the terms of some ids, and names in place of the other displaced ones, whose ids stay theirs."""
        kept, left = set(used), Vocabulary()
        left.add({term: id_ for id_, term in self._terms.items() if id_ in kept})
        unused = {term: id_ for term, id_ in self.displaced.items() if id_ not in kept}
        left.add({term if is_erased(term) else erased_name(term): id_ for term, id_ in unused.items()})
        return left

    def add(self, terms: Mapping[str, int]) -> None:
        """Add terms with their assigned ids; known terms are ignored."""
        for (term, id_), hashed in zip(terms.items(), term_ids(terms).tolist(), strict=True):
            is_displaced = id_ != hashed
            if is_displaced and is_erased(term):
                self.displaced[term] = id_
            elif self._terms.setdefault(id_, term) != term:
                self.collisions.add(term)
            elif is_displaced:
                self.displaced[term] = id_


def _check_storable(terms: Sequence[str]) -> None:
    """Refuse terms that the log cannot store; only custom analyzers make such terms."""
    for term in terms if _may_be_refused(terms) else ():
        try:
            size = len(term.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"the analyzer returned a term with a lone surrogate at character {error.start}, "
                f"which cannot be stored: {short_repr(term)}"
            ) from None
        if size > MAX_TERM_BYTES:
            msg = f"a term must have at most {MAX_TERM_BYTES:,} bytes of UTF-8, the analyzer returned one of {size:,}"
            raise InputError(msg)


def _may_be_refused(terms: Sequence[str]) -> bool:
    """Return whether there is a term to refuse, judged by all of them together."""
    try:
        "".join(terms).encode()
    except UnicodeEncodeError:
        return True
    return max(map(len, terms), default=0) * _MAX_BYTES > MAX_TERM_BYTES


class KnownIds(Protocol):
    """Terms that have ids, for :class:`StagedTerms`."""

    displaced: dict[str, int]

    def lookup(self, terms: Sequence[str], hashed: Sequence[int]) -> dict[str, int]:
        """Return the ids of those terms that are known, given the hash of each."""
        ...

    def taken(self, ids: Sequence[int]) -> list[bool]:
        """Return whether a term has each of these ids."""
        ...


class StagedTerms(dict[str, int]):
    """Memo of term -> id for one batch; collects new terms."""

    def __init__(self, known: KnownIds) -> None:
        super().__init__()
        self.new: dict[str, int] = {}
        self._known = known
        self._taken: set[int] = set()
        self._erased = {name: id_ for name, id_ in known.displaced.items() if is_erased(name)}

    def __missing__(self, term: str) -> int:
        self.look_up([term])
        return self[term]

    def look_up(self, terms: Sequence[str]) -> None:
        """Look many terms up at once, and assign ids to new ones, in their order."""
        _check_storable(terms)
        hashed = term_ids(terms).tolist()
        known = self._known.lookup(terms, hashed)
        new = {term: id_ for term, id_ in zip(terms, hashed, strict=True) if term not in known and term not in self}
        are_taken = self._known.taken(list(new.values()))
        ids = set(new.values())
        if self._erased or any(are_taken) or len(ids) < len(new) or not ids.isdisjoint(self._taken):
            self._displace(new, are_taken)
        else:  # as nearly always
            self._taken |= ids
        self.update(known)
        self.update(new)
        self.new.update(new)

    def _displace(self, new: dict[str, int], are_taken: Iterable[bool]) -> None:
        """Give other ids to new terms whose hash is taken, one after the other."""
        for (term, id_), is_taken in zip(new.items(), are_taken, strict=True):
            if former := self._erased and self._erased.get(erased_name(term)):
                new[term] = former
            elif is_taken or id_ in self._taken:
                new[term] = next(filter(self._is_free, _candidates(term)))
            self._taken.add(new[term])

    def _is_free(self, id_: int) -> bool:
        return id_ not in self._taken and not self._known.taken([id_])[0]


def assign_known_ids(terms: Sequence[str], ids: Collection[int]) -> dict[str, int]:
    """Match terms with stored ids, to recover a lost vocabulary."""
    left = set(ids)
    found: dict[str, int] = {}
    for attempts in (1, REHASHES_TRIED):
        for term in terms:
            id_ = next((id_ for id_ in islice(_candidates(term), attempts) if id_ in left), None)
            if id_ is not None and term not in found:
                found[term] = id_
                left.discard(id_)
    return found


def _candidates(term: str) -> Iterator[int]:
    """Yield the possible ids of a term, by preference."""
    yield term_id(term)
    for attempt in count(1):
        yield term_id(f"{attempt}\0{term}")
