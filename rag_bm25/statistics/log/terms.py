"""The vocabulary in the log: each batch appends the terms that it saw first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rag_bm25.statistics.damage import num_unnamed
from rag_bm25.statistics.log.keys import LogKey, make_rows
from rag_bm25.statistics.log.packing import (
    check_dict,
    check_texts,
    get_count,
    json_bytes,
    pack_in_pieces,
    unpack_json,
)
from rag_bm25.vectors.known_terms import KnownTerms
from rag_bm25.vectors.terms import MAX_ID, Vocabulary, displaced_terms, term_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.statistics.log.batches import BatchClock
    from rag_bm25.statistics.log.table import Listing, LogTable
    from rag_bm25.store.rows import LogRow

PACKED_AT_ONCE = 64  # rows
TERMS_PER_ROW = 8_192  # twice as many do not fit, and would be packed in vain
FEW_TERMS = 5_000  # entries with fewer are merged
REMAINDER_SECONDS = 3600.0
"""Age at which a part of an incomplete entry has no writer any more: writing one takes seconds."""


class TermsRow:
    """Codec of terms and their ids; an id is stored only where it is not the hash of its term."""

    @staticmethod
    def encode(batch: str, terms: Mapping[str, int], *, replaced: Sequence[str] = ()) -> list[LogRow]:
        """Encode terms as rows that can each be decoded alone, with the names of entries that they replace."""
        displaced = displaced_terms(terms)
        every = list(terms)
        cut = [every[at : at + TERMS_PER_ROW] for at in range(0, len(every), TERMS_PER_ROW)]
        pieces: list[tuple[dict[str, Any], str]] = [
            ({"count": len(piece), "displaced": {term: displaced[term] for term in piece if term in displaced}}, packed)
            for some in cut
            for piece, packed in pack_in_pieces(some, json_bytes)
        ]
        if pieces:
            pieces[0][0]["replaced"] = list(replaced)
        return make_rows("terms", batch, pieces)

    @staticmethod
    def decode(row: LogRow) -> dict[str, int]:
        displaced = TermsRow.decode_displaced(row)
        texts = check_texts(unpack_json(row.packed), "terms")
        terms = dict(zip(texts, term_ids(texts).tolist(), strict=True)) | displaced
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
    def decode_replaced(row: LogRow) -> list[str]:
        """Decode the names of the entries that this one replaces, without the packed field."""
        return check_texts(row.meta.get("replaced", []), "replaced")

    @staticmethod
    def decode_count(row: LogRow) -> int:
        """Decode the number of terms, without the packed field."""
        return get_count(row.meta, "count")


def _check_ids(terms: Mapping[str, int]) -> None:
    """Refuse strings that are no terms, and ids that no term may have."""
    "".join(terms).encode()
    if not all(0 < id_ <= MAX_ID for id_ in terms.values()):
        raise ValueError(f"the id of a term must be in 1..{MAX_ID}")


class LogTerms:
    """The terms of a log: the displaced ones, and all of them once they are loaded, as strings or as fingerprints."""

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self._forget("")

    def _forget(self, epoch: str) -> None:
        self._epoch = epoch
        self._sizes: dict[str, int] = {}  # how many terms each entry has that was read
        self.num_unnamed = 0  # terms in use that the vocabulary lacks, as counted last
        self.displaced: Mapping[str, int] = {}
        self.vocabulary: Vocabulary | None = None  # for readers
        self.known: KnownTerms | None = None  # for writers

    def begin_epoch(self, epoch: str) -> None:
        """Forget all terms that were read, if they have been replaced since: some may be erased, and come again."""
        if epoch != self._epoch:
            self._forget(epoch)

    @property
    def _loaded(self) -> list[Vocabulary | KnownTerms]:
        return [terms for terms in (self.vocabulary, self.known) if terms is not None]

    @property
    def size(self) -> int:
        """Number of terms; a term that two writers have added at once counts twice."""
        return sum(self._sizes.values())

    def load_vocabulary(self) -> Vocabulary:
        """Load the strings of all terms."""
        vocabulary = Vocabulary()
        self._table.read_whole(partial(self._read_all, vocabulary))
        self.vocabulary = vocabulary  # only now: half of the terms are not all
        return vocabulary

    def load_known(self) -> KnownTerms:
        """Load the fingerprints of all terms."""
        known = KnownTerms()
        self._table.read_whole(partial(self._read_all, known))
        self.known = known  # only now: new terms would get the ids of those that are not there yet
        return known

    def _read_all(self, terms: Vocabulary | KnownTerms) -> None:
        entries = self._table.list_all("terms").entries("terms")
        sizes = self._read(entries, [terms])
        if self._loaded:  # before: what has come since the last refresh is new to them
            self._read({name: keys for name, keys in entries.items() if name not in self._sizes}, self._loaded)
        self._sizes = sizes

    def read(self, listing: Listing) -> None:
        """Read the entries that are new; without their packed fields as long as no terms are loaded."""
        new = {name: keys for name, keys in listing.entries("terms").items() if name not in self._sizes}
        self._sizes.update(self._read(new, self._loaded))

    def _read(self, entries: Mapping[str, list[str]], loaded: Sequence[Vocabulary | KnownTerms]) -> dict[str, int]:
        """Read entries; return how many terms each has, without those that another replaces."""
        sizes, replaced = dict.fromkeys(entries, 0), set[str]()
        keys = [key for parts in entries.values() for key in parts]
        size = PACKED_AT_ONCE if loaded else len(keys)  # without their terms, rows are small
        for start in range(0, len(keys), size or 1):
            for row in self._table.read(keys[start : start + size], packed=bool(loaded)):
                sizes[LogKey.parse(row.key).name] += self._table.decode(TermsRow.decode_count, row)
                replaced.update(self._table.decode(TermsRow.decode_replaced, row))
                self._add_displaced(self._table.decode(TermsRow.decode_displaced, row))
                for terms in loaded:
                    terms.add(self._table.decode(TermsRow.decode, row))
        self._sizes.update(dict.fromkeys(self._sizes.keys() & replaced, 0))
        return sizes | dict.fromkeys(sizes.keys() & replaced, 0)

    def add(self, batch: str, terms: Mapping[str, int]) -> None:
        """Add the terms that a batch of this process has stored."""
        for loaded in self._loaded:
            loaded.add(terms)
        self._add_displaced(displaced_terms(terms) if self.known is None else self.known.displaced)
        self._sizes[batch] = len(terms)

    def _add_displaced(self, terms: Mapping[str, int]) -> None:
        """Add displaced terms; readers keep the dict that they have."""
        if not terms.keys() <= self.displaced.keys():
            self.displaced = {**self.displaced, **terms}

    def count_unnamed(self, whole: CorpusCounts) -> None:
        """Count the terms in use that the vocabulary lacks, if terms are loaded."""
        for loaded in self._loaded[:1]:
            self.num_unnamed = num_unnamed([whole.contribution()], loaded.ids)

    def merge_few(self, above: int, clock: BatchClock) -> None:
        """Write the terms of small entries, where there are many, as one; deleting comes last."""
        entries = self._table.list_all("terms").entries("terms")  # complete ones: a part of an entry does not count
        small = {name: keys for name, keys in entries.items() if self._sizes.get(name, FEW_TERMS) < FEW_TERMS}
        if len(small) <= above:
            return
        few = [key for keys in small.values() for key in keys]
        terms = {
            term: id_
            for row in self._table.read(few, packed=True)
            for term, id_ in self._table.decode(TermsRow.decode, row).items()
        }
        name = clock.new_batch()
        self._table.insert(TermsRow.encode(name, terms, replaced=list(small)))
        self._sizes.update(dict.fromkeys(small, 0), **{name: len(terms)})
        self._table.delete(few)

    def drop_known_remainders(self, remainders: Iterable[str], clock: BatchClock) -> None:
        """Delete old parts of incomplete entries, given their keys, of which complete entries have all terms."""
        dead = [key for key in remainders if clock.age(LogKey.parse(key).name) > REMAINDER_SECONDS]
        rows = self._table.store.get_log(dead) if dead else []
        self._table.delete([row.key for row in rows if self._knows(self._table.decode(TermsRow.decode, row))])

    def _knows(self, terms: Mapping[str, int]) -> bool:
        return self.known is not None and self.known.lookup(list(terms), term_ids(terms).tolist()) == terms
