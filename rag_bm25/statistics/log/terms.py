"""The vocabulary in the log: each batch appends the terms that it saw first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rag_bm25.statistics.damage import num_unnamed
from rag_bm25.statistics.log.keys import LogKey, make_rows
from rag_bm25.statistics.log.packing import (
    MAX_PACKED,
    MAX_PLAIN,
    check_dict,
    check_texts,
    get_count,
    json_bytes,
    pack,
    unpack_json,
)
from rag_bm25.vectors.terms import MAX_ID, Vocabulary, term_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rag_bm25.statistics.corpus import CorpusStatistics
    from rag_bm25.statistics.log.batches import BatchClock
    from rag_bm25.statistics.log.table import LogTable
    from rag_bm25.store.rows import LogRow

TERMS_PER_ROW = 16_384
FEW_TERMS = 5_000  # entries with fewer are merged
REMAINDER_SECONDS = 3600.0
"""Age at which a part of an incomplete entry has no writer any more: writing one takes seconds."""


class TermsRow:
    """Codec of terms and their ids; an id is stored only where it is not the hash of its term."""

    @staticmethod
    def encode(batch: str, terms: Mapping[str, int]) -> list[LogRow]:
        """Encode terms as rows that can each be decoded alone; none for no terms."""
        displaced = {term: id_ for term, id_ in terms.items() if id_ != term_id(term)}
        every = list(terms)
        cut = [every[at : at + TERMS_PER_ROW] for at in range(0, len(every), TERMS_PER_ROW)]
        pieces = [
            ({"count": len(piece), "displaced": {term: displaced[term] for term in piece if term in displaced}}, packed)
            for some in cut
            for piece, packed in _pack_pieces(some)
        ]
        return make_rows("terms", batch, pieces)

    @staticmethod
    def decode(row: LogRow) -> dict[str, int]:
        displaced = TermsRow.decode_displaced(row)
        terms = {term: displaced.get(term) or term_id(term) for term in check_texts(unpack_json(row.packed), "terms")}
        _check_ids(terms)
        return terms

    @staticmethod
    def decode_displaced(row: LogRow) -> dict[str, int]:
        """Decode the terms whose id is not their hash, without the packed field."""
        displaced = check_dict(row.meta["displaced"], "displaced")
        ids = {term: get_count(displaced, term) for term in displaced}
        _check_ids(ids)
        return ids

    @staticmethod
    def decode_count(row: LogRow) -> int:
        """Decode the number of terms, without the packed field."""
        return get_count(row.meta, "count")


def _check_ids(terms: Mapping[str, int]) -> None:
    """Refuse strings that are no terms, and ids that no term may have."""
    "".join(terms).encode()
    if not all(0 < id_ <= MAX_ID for id_ in terms.values()):
        raise ValueError(f"the id of a term must be in 1..{MAX_ID}")


def _pack_pieces(terms: list[str]) -> list[tuple[list[str], str]]:
    """Halve a list of terms until each piece fits into a row, packed and unpacked."""
    plain = json_bytes(terms)
    packed = pack(plain)
    if len(packed) <= MAX_PACKED and len(plain) <= MAX_PLAIN:
        return [(terms, packed)]
    half = len(terms) // 2
    return _pack_pieces(terms[:half]) + _pack_pieces(terms[half:])


class LogTerms:
    """The terms of a log: the displaced ones, and all of them once the vocabulary is loaded."""

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self._sizes: dict[str, int] = {}  # how many terms each entry has that was read
        self.num_unnamed = 0  # terms in use that the vocabulary lacks, as counted last
        self.displaced: Mapping[str, int] = {}
        self.vocabulary: Vocabulary | None = None

    def load(self, read: Callable[[], None]) -> Vocabulary:
        """Load the vocabulary by a call that reads the whole log."""
        vocabulary, sizes = Vocabulary(), self._sizes
        self.vocabulary, self._sizes = vocabulary, {}
        try:
            read()
        except BaseException:
            # Half of the terms would be taken for all: new ones would get their ids.
            self.vocabulary, self._sizes = None, sizes
            raise
        return vocabulary

    def read(self) -> None:
        """Read the entries that are new; without their packed fields while the vocabulary is not loaded."""
        new = {name: keys for name, keys in self._table.entries("terms").items() if name not in self._sizes}
        sizes = Counter(dict.fromkeys(new, 0))
        wanted = [key for keys in new.values() for key in keys]
        for row in self._table.read(wanted, packed=self.vocabulary is not None):
            sizes[LogKey.parse(row.key).name] += self._table.decode(TermsRow.decode_count, row)
            self._add_displaced(self._table.decode(TermsRow.decode_displaced, row))
            if self.vocabulary is not None:
                self.vocabulary.add(self._table.decode(TermsRow.decode, row))
        self._sizes.update(sizes)

    def forget_all_but(self, names: set[str]) -> None:
        """Forget the other entries."""
        self._sizes = {name: size for name, size in self._sizes.items() if name in names}

    def add(self, batch: str, terms: Mapping[str, int], vocabulary: Vocabulary) -> None:
        """Add the terms that a batch of this process has stored."""
        vocabulary.add(terms)
        self._add_displaced({term: id_ for term, id_ in terms.items() if term in vocabulary.displaced})
        self._sizes[batch] = len(terms)

    def _add_displaced(self, terms: Mapping[str, int]) -> None:
        """Add displaced terms; readers keep the dict that they have."""
        if not terms.keys() <= self.displaced.keys():
            self.displaced = {**self.displaced, **terms}

    def count_unnamed(self, whole: CorpusStatistics) -> None:
        """Count the terms in use that the vocabulary lacks, if that is loaded."""
        if self.vocabulary is not None:
            self.num_unnamed = num_unnamed([whole.contribution()], self.vocabulary)

    def num_lost(self, num_in_use: int) -> int:
        """Return how many terms in use have no name, or a lower bound while the vocabulary is not loaded."""
        return max(num_in_use - sum(self._sizes.values()), self.num_unnamed)

    def remainders(self) -> list[str]:
        """Return the keys of incomplete entries."""
        whole = {key for keys in self._table.entries("terms").values() for key in keys}
        return [key for key in self._table.keys_of("terms") if key not in whole]

    def merge_few(self, above: int, clock: BatchClock) -> None:
        """Write the terms of small entries, where there are many, as one; deleting comes last."""
        entries = self._table.entries("terms")  # complete ones: without its other parts, an entry does not count
        small = [keys for name, keys in entries.items() if self._sizes[name] < FEW_TERMS]
        if len(small) <= above:
            return
        few = [key for keys in small for key in keys]
        terms = {
            term: id_
            for row in self._table.read(few, packed=True)
            for term, id_ in self._table.decode(TermsRow.decode, row).items()
        }
        name = clock.new_batch()
        self._table.insert(TermsRow.encode(name, terms))
        self._sizes[name] = len(terms)
        self._table.store.delete_log(few)

    def drop_known_remainders(self, vocabulary: Vocabulary, clock: BatchClock) -> None:
        """Delete old parts of incomplete entries of which complete entries have all terms."""
        dead = [key for key in self.remainders() if clock.age(LogKey.parse(key).name) > REMAINDER_SECONDS]
        known = [
            row.key
            for row in (self._table.store.get_log(dead) if dead else [])
            if all(vocabulary.id(term) == id_ for term, id_ in self._table.decode(TermsRow.decode, row).items())
        ]
        if known:
            self._table.store.delete_log(known)
