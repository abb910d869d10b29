"""Terms and their ids: a stable hash, and the few terms that had to move out of each other's way."""

from __future__ import annotations

import zlib
from itertools import count, islice
from typing import TYPE_CHECKING

from rag_bm25.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "BIGRAM_MARK",
    "MAX_ID",
    "NO_TERMS_ID",
    "StagedTerms",
    "TermIds",
    "Vocabulary",
    "assign_known_ids",
    "is_bigram",
    "num_words",
    "term_id",
    "term_name",
    "words_in",
]

ID_SPACE = 0xFFFFFFFF  # Milvus takes dimensions below 2**32 - 1
MAX_ID = ID_SPACE - 1
HASHED_BYTES = 100
MAX_TERM_BYTES = 32_768
REHASHES_TRIED = 16

NO_TERMS_ID = 0
"""Dimension of chunks without terms: Milvus refuses empty vectors. No term ever has it."""

BIGRAM_MARK = "\0"
"""What begins the terms of the second channel, and no others: no chunk may hold a NUL, so that none can be cut out."""


def is_bigram(term: str) -> bool:
    """Tell the two channels of terms apart.

    Parameters
    ----------
    term : str
        Any term.

    Returns
    -------
    bool
        True for a character bigram, False for a word.
    """
    return term.startswith(BIGRAM_MARK)


def words_in(terms: Iterable[str]) -> list[str]:
    r"""Return the terms that are not bigrams.

    Parameters
    ----------
    terms : iterable of str
        Terms of both channels.

    Returns
    -------
    list of str
        In the same order, with repeats.

    Examples
    --------
    >>> words_in(["劳动", "合同", "\0劳动", "\0动合", "\0合同"])
    ['劳动', '合同']
    """
    return [term for term in terms if not is_bigram(term)]


def num_words(terms: Sequence[str]) -> int:
    r"""Count words, which is the length of a chunk in terms: bigrams tell the same text a second time.

    Parameters
    ----------
    terms : sequence of str
        Terms of a chunk, with repeats.

    Returns
    -------
    int
        How many of them are not bigrams.

    Examples
    --------
    >>> num_words(["劳动", "合同", "\0劳动", "\0动合", "\0合同"])
    2
    """
    return len(terms) - sum(map(is_bigram, terms))


def term_name(term: str) -> str:
    r"""Return a term as people read it.

    Parameters
    ----------
    term : str
        Any term.

    Returns
    -------
    str
        The term in quotes, after its channel where it is a bigram.

    Examples
    --------
    >>> print(term_name("合同"), term_name("\0合同"))
    '合同' bigram '合同'
    """
    return f"bigram {term.removeprefix(BIGRAM_MARK)!r}" if is_bigram(term) else repr(term)


def term_id(term: str) -> int:
    """Hash a term to its dimension, the same in every process and on every machine.

    Milvus's own BM25 function uses the same hash, CRC-32 of the first 100 bytes of UTF-8, so ids can be compared
    with it. Only a term that would get the reserved dimension 0 differs: it gets 1.

    Parameters
    ----------
    term : str
        Any term.

    Returns
    -------
    int
        Dimension in [1, 2**32 - 2].

    Examples
    --------
    >>> term_id("milvus"), term_id("检索")
    (725768567, 3218957596)
    """
    # Of a query, a lone surrogate may come from an analyzer of the user's; no chunk has it.
    return zlib.crc32(term.encode(errors="surrogatepass")[:HASHED_BYTES]) % ID_SPACE or 1


class TermIds(dict[str, int]):
    """Memo of term -> id by hash alone, for those who only read.

    Parameters
    ----------
    displaced : mapping of str to int
        Terms whose id is not their hash.

    Examples
    --------
    >>> TermIds({"moved": 7})["moved"]
    7
    """

    def __init__(self, displaced: Mapping[str, int] | None = None) -> None:
        super().__init__(displaced or {})

    def __missing__(self, term: str) -> int:
        """Hash a term that was not asked for before."""
        self[term] = id_ = term_id(term)
        return id_


class Vocabulary:
    """Every term ever seen, with its id; ids are never reused or renumbered.

    A term's id is its hash unless another term had that id first. Such a *displaced* term gets the next free id by
    rehashing, for ever.

    Attributes
    ----------
    displaced : dict of str to int
        Terms whose id is not their hash.
    collisions : set of str
        Terms that were given the id of another one: two writers first saw two terms of one hash at the same moment.

    Examples
    --------
    >>> vocabulary = Vocabulary()
    >>> staged = vocabulary.stage()
    >>> id_ = staged["milvus"]
    >>> vocabulary.add(staged.new)
    >>> vocabulary.term(id_), len(vocabulary)
    ('milvus', 1)
    """

    def __init__(self) -> None:
        # One dict is enough, and half the memory of two: a term's id is found by its hash.
        self._terms: dict[int, str] = {}
        self.displaced: dict[str, int] = {}
        self.collisions: set[str] = set()

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._terms)

    def __contains__(self, term: object) -> bool:
        """Tell whether a term was ever seen."""
        return isinstance(term, str) and self.id(term) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the terms, in the order in which they were first seen."""
        return iter(self._terms.values())

    @property
    def ids(self) -> Collection[int]:
        """The ids of the terms, in the same order."""
        return self._terms.keys()

    def id(self, term: str) -> int | None:
        """Return the id of a known term.

        Parameters
        ----------
        term : str
            Any term.

        Returns
        -------
        int or None
            Its id, or None where the term was never seen.
        """
        id_ = self.displaced.get(term) or term_id(term)
        return id_ if self._terms.get(id_) == term else None

    def term(self, id_: int) -> str | None:
        """Return the term of an id.

        Parameters
        ----------
        id_ : int
            A dimension.

        Returns
        -------
        str or None
            Its term, or None where no term has the id.
        """
        return self._terms.get(id_)

    def stage(self) -> StagedTerms:
        """Start looking up the terms of one batch, without changing the vocabulary.

        Returns
        -------
        StagedTerms
            Mapping of every term to an id, that collects the new ones.
        """
        return StagedTerms(self)

    def add(self, terms: Mapping[str, int]) -> None:
        """Add terms with the ids that were assigned to them; known ones stay as they are.

        Parameters
        ----------
        terms : mapping of str to int
            New terms, as collected by :class:`StagedTerms` or read from the log.
        """
        for term, id_ in terms.items():
            if self._terms.setdefault(id_, term) != term:
                self.collisions.add(term)
            elif id_ != term_id(term):
                self.displaced[term] = id_


def _check_storable(term: str) -> None:
    """Refuse what the log cannot hold; of the built-in analyzer, no term is that long."""
    try:
        size = len(term.encode())
    except UnicodeEncodeError as error:
        msg = f"the analyzer made a term with a lone surrogate at character {error.start}: {shown(term)}"
        raise InputError(msg) from None
    if size > MAX_TERM_BYTES:
        msg = f"a term must have at most {MAX_TERM_BYTES:,} bytes of UTF-8, the analyzer made one of {size:,}"
        raise InputError(msg)


class StagedTerms(dict[str, int]):
    """Memo of term -> id for one batch; terms new to the vocabulary are collected, not added.

    Parameters
    ----------
    vocabulary : Vocabulary
        What is known; it is not changed.

    Attributes
    ----------
    new : dict of str to int
        The terms that the vocabulary does not have, with the ids assigned to them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.new: dict[str, int] = {}
        self._vocabulary = vocabulary
        self._taken: set[int] = set()

    def __missing__(self, term: str) -> int:
        """Look a term up, and assign an id where it is new."""
        hashed = term_id(term)  # once: a batch asks for tens of thousands of terms
        id_ = self._vocabulary.displaced.get(term, hashed)
        if self._vocabulary.term(id_) != term:
            _check_storable(term)
            id_ = self.new[term] = hashed if self._is_free(hashed) else self._free_id(term)
            self._taken.add(id_)
        self[term] = id_
        return id_

    def _free_id(self, term: str) -> int:
        """Rehash until an id is found that no other term has."""
        return next(id_ for id_ in _candidates(term) if self._is_free(id_))

    def _is_free(self, id_: int) -> bool:
        return id_ not in self._taken and self._vocabulary.term(id_) is None


def assign_known_ids(terms: Sequence[str], ids: Collection[int]) -> dict[str, int]:
    """Find out which of some terms have which of some ids, after the vocabulary was lost.

    Parameters
    ----------
    terms : sequence of str
        Terms of a chunk.
    ids : collection of int
        Ids in its vector that no known term has.

    Returns
    -------
    dict of str to int
        The terms for which one of the ids was found, first among their hashes, then by rehashing.
    """
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
    """Yield the ids that a term may have, in the order in which they are tried."""
    yield term_id(term)
    for attempt in count(1):
        yield term_id(f"{attempt}\0{term}")
