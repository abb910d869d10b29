"""Recount the stored vectors, to verify the statistics or to repair them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis.contract import require_analyzer
from rag_bm25.checks import check_switch
from rag_bm25.errors import ConfigMismatchError, StoreError, short_repr
from rag_bm25.events import report_progress
from rag_bm25.index.maintenance.rewriting import RewriteBatches, WrongChunk, is_own, wrong_chunks
from rag_bm25.index.writing.chunk_writer import delete_leftovers, free_slot
from rag_bm25.statistics.corpus import Contribution, CountsByNamespace, CountsReader
from rag_bm25.statistics.damage import missing_rows, num_unnamed
from rag_bm25.statistics.log.birth import stray_batches
from rag_bm25.statistics.log.meanwhile import Written
from rag_bm25.statistics.log.repair import (
    count_logged,
    overwrite,
    refuse_other_writers,
    require_unwritten,
    salvage,
)
from rag_bm25.vectors.terms import NO_TERMS_ID, assign_known_ids, term_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.events import Progress
    from rag_bm25.index.writing.pipeline import Target
    from rag_bm25.statistics.log.writes import Intent
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.vectors.terms import Vocabulary

MAX_NAMED = 1_000  # wrong chunks in a report
SAMPLE = 100  # chunks whose vectors are compared with those that a given config makes


@dataclass(frozen=True)
class Difference:
    """Difference between the statistics and a recount.

    Parameters
    ----------
    namespace : str
        Namespace of the count.
    what : str
        ``chunks``, ``length``, ``df of 'term'``, or the name of another fault.
    stored, counted : int
        Count in the statistics, and in the stored vectors.
    """

    namespace: str
    what: str
    stored: int
    counted: int

    def __str__(self) -> str:
        """Format the difference as one line."""
        where = f"namespace {self.namespace!r}: " if self.namespace else ""
        return f"{where}{self.what}: stored {self.stored:,}, counted {self.counted:,}"


@dataclass(frozen=True)
class VerifyReport:
    """Result of a recount.

    Parameters
    ----------
    num_chunks, num_terms : int
        Rows and distinct terms counted.
    differences : list of Difference
        All differences, but of at most 1,000 wrong chunks; empty if everything is right.
    wrong_chunks : int or None
        Chunks whose vector or length is not that of their text and metadata; None if that was left out.
    other_generations : dict of int to int
        Number -> rows, of the generations beside the one in force: former ones, and one that a reindex has begun. Empty
        where the server does not tell the user.
    inconclusive : str
        Why counts could not be compared, "" if they were: others wrote so much meanwhile that the log no longer tells
        what, or a server gave fewer rows than it has.
    """

    num_chunks: int
    num_terms: int
    differences: list[Difference]
    wrong_chunks: int | None = 0
    other_generations: dict[int, int] = field(default_factory=dict)
    inconclusive: str = ""

    @property
    def ok(self) -> bool:
        """Whether all was compared, and there are no differences."""
        return not (self.differences or self.inconclusive)


@dataclass(frozen=True)
class RepairReport:
    """Result of a repair.

    Parameters
    ----------
    num_chunks, num_terms : int
        Chunks in the index, and their distinct terms.
    unfinished : int
        Interrupted writes.
    superseded : int
        Rows deleted because the same chunk has a newer row, or the same row again.
    foreign : int
        Rows with keys that this package does not make. They are kept, searched and counted, but cannot be updated or
        deleted by their id.
    recovered_terms : int
        Terms missing from the vocabulary that were recovered from the rest of the log or by analysing texts.
    nameless_terms : int
        Ids in stored vectors for which no term was found.
    rewritten : int
        Chunks whose vector or length was not that of their text and metadata, and was replaced.
    erased_terms : int
        Terms without chunks that were erased from the vocabulary.
    compacted : bool
        Whether the database was rewritten without what deleted rows had left in it.
    """

    num_chunks: int
    num_terms: int
    unfinished: int
    superseded: int
    foreign: int
    recovered_terms: int
    nameless_terms: int
    rewritten: int = 0
    erased_terms: int = 0
    compacted: bool = False


def verify(now: Target, *, vectors: bool, progress: Callable[[Progress], None] | None = None) -> VerifyReport:
    """Compare the stored statistics with a recount and, where that is asked for, vectors with their texts."""
    live = now.live
    with live.at_rest() as (stored, vocabulary, moment), live.events.measure("verify") as counts:
        found, wrong = _Recount(now.store), _WrongChunks(vocabulary, now.encoder) if vectors else None
        found.run(progress, wrong.note if wrong else None)
        superseded, num_rows = found.superseded_pks(), now.store.count_chunks()
        written = live.written_since(moment)  # last: what was seen until now is in it
        reason = _why_inconclusive(found, num_rows, written)
        differences = [] if reason else _of_counts(stored, found.statistics, written or Written(), live.vocabulary())
        superseded = [pk for pk in superseded if written and pk[:-1] not in written.digests]
        differences += _of_rows(found, superseded, stray_batches(now.store))
        whole = found.statistics.whole
        if wrong is not None:
            differences += wrong.differences
        report = VerifyReport(
            whole.num_chunks, whole.num_terms, differences, wrong.number if wrong else None, inconclusive=reason
        )
        if report.ok:
            live.accept_count()
        counts.update(chunks=report.num_chunks, terms=report.num_terms, differences=len(report.differences))
    return report


def _why_inconclusive(found: _Recount, num_rows: int, written: Written | None) -> str:
    """Say why counts cannot be compared, "" where they can."""
    if written is None:
        return "others wrote meanwhile, and compacted the log: run it again, at a quieter time or with --fast"
    if found.num_missing(num_rows - written.num_inserted):
        return missing_rows(found.num_rows, num_rows)
    return ""


def _of_counts(
    stored: CountsReader, counted: CountsByNamespace, written: Written, vocabulary: Vocabulary
) -> list[Difference]:
    """Compare counts and vocabulary with a recount."""
    differences: list[Difference] = []
    totals, recount = stored.contributions(), counted.contributions()
    for name in sorted({*totals, *recount}):
        both = totals.get(name, Contribution()), recount.get(name, Contribution()).marked(vocabulary)
        span = -written.before.get(name, Contribution()), written.after.get(name, Contribution())
        differences += _differences(name, *both, span, vocabulary)
    nameless = [id_ for id_ in counted.whole.contribution().ids.tolist() if vocabulary.term(id_) is None]
    differences += [Difference("", f"vocabulary has the term of id {id_}", 0, 1) for id_ in nameless]
    collisions = sorted(vocabulary.collisions)
    return differences + [Difference("", f"terms with the id of {term_name(term)}", 1, 2) for term in collisions]


def _of_rows(found: _Recount, superseded: Sequence[str], strays: Collection[str]) -> list[Difference]:
    """Name the kinds of rows that a sound index does not have."""
    numbers = {
        "chunks with two rows": len(superseded),
        "chunks stored twice under one key": len(found.doubled),
        "batches of an index that was dropped": len(strays),
        "rows under keys of other tools": found.foreign,
    }
    return [Difference("", what, 0, number) for what, number in numbers.items() if number]


@dataclass(frozen=True)
class RepairOptions:
    """Options of a repair."""

    erase: bool = False  # leave only terms that chunks have in the vocabulary
    accept_loss: bool = False  # count what can be read, though rows are missing

    def __post_init__(self) -> None:
        check_switch("erase", self.erase)
        check_switch("accept_loss", self.accept_loss)


def repair(
    now: Target, options: RepairOptions, progress: Callable[[Progress], None] | None = None
) -> tuple[RepairReport, RewriteBatches]:
    """Finish interrupted writes, recount all rows, and overwrite the statistics; refuse while others write.

    Also returns the chunks that do not have the vectors of their texts.
    """
    store, encoder = now.store, now.encoder
    require_analyzer(encoder.analyzer)
    remains = salvage(store)
    refuse_other_writers(store, remains, now.live.writer_name)
    intents, vocabulary = remains.intents, remains.vocabulary
    num_expected = _num_expected(now, intents)
    for intent in intents:
        delete_leftovers(store, intent)
    superseded = _delete_superseded(store)
    found, wrong = _Recount(store), RewriteBatches()

    def inspect(rows: Sequence[ChunkRow]) -> None:
        _name_terms(rows, vocabulary, encoder)
        wrong.note([chunk.row for chunk in wrong_chunks(rows, encoder, vocabulary)])

    found.run(progress, inspect)
    require_unwritten(store, remains)
    num_expected = max(num_expected - superseded, store.count_chunks())
    if found.num_missing(num_expected) and not options.accept_loss:
        raise _missing_error(store, found.num_rows, num_expected)
    superseded += _replace_doubled(store, found.doubled)
    statistics = found.statistics
    whole = statistics.whole.contribution()
    num_terms = len(vocabulary)
    if options.erase:
        vocabulary = vocabulary.without_unused(whole.ids.tolist())
    nameless = num_unnamed([whole], vocabulary.ids)
    check = partial(require_unwritten, store, remains)
    overwrite(
        store,
        statistics.contributions(),
        vocabulary,
        keys=remains.keys,
        check=check,
        nameless=nameless,
        erase=options.erase,
    )
    report = RepairReport(
        num_chunks=whole.num_chunks,
        num_terms=len(whole.ids),
        unfinished=len(intents),
        superseded=superseded,
        foreign=found.foreign,
        recovered_terms=num_terms - remains.num_known,
        nameless_terms=nameless,
        erased_terms=num_terms - len(vocabulary),
    )
    return report, wrong


def _num_expected(now: Target, intents: Sequence[Intent]) -> int:
    """Return how many rows there must be by the statistics, which what is unfinished may have deleted.

    An embedded engine counts what it has; a server that is loading may not.
    """
    if now.store.exclusive:
        return 0
    return count_logged(now.store, now.live.events) - sum(intent.before.num_chunks for intent in intents)


def _missing_error(store: Store, given: int, expected: int) -> StoreError:
    return StoreError(
        f"{store.name}: {missing_rows(given, expected)} The statistics were left as they are. If the others are lost, "
        "--accept-loss (in Python accept_loss=True) counts those that are there"
    )


def require_same_vectors(store: Store, encoder: DocumentEncoder) -> None:
    """Refuse a config that does not reproduce the stored vectors, for an index that has lost its own."""
    pks = [row.pk for row in next(iter(store.scan_chunks()), [])[:SAMPLE]]
    rows = store.get_chunks(pks, contents=True, vectors=True)
    encoded = encoder.encode([row.text for row in rows], metadatas=[row.metadata for row in rows])
    pairs = zip(rows, encoded.vectors, encoded.lengths.tolist(), strict=True)
    differing = sum(row.length != length or not _has_same_weights(row.vector, vector) for row, vector, length in pairs)
    if differing > len(rows) / 2:
        raise ConfigMismatchError(
            f"the config does not reproduce the vectors of {store.name}: {differing:,} of {len(rows):,} chunks differ. "
            "Give the config that the index was created with."
        )


def _has_same_weights(vector: SparseVector, other: SparseVector) -> bool:
    """Compare weights alone: the ids of displaced terms are lost with the log."""
    weights, others = np.sort(vector.values), np.sort(other.values)
    return weights.shape == others.shape and np.allclose(weights, others, rtol=1e-5)


def count_rows(statistics: CountsByNamespace, rows: Iterable[ChunkRow]) -> None:
    """Add the contributions of rows to statistics."""
    by_namespace: dict[str, list[ChunkRow]] = defaultdict(list)
    for row in rows:
        by_namespace[row.namespace].append(row)
    for namespace, some in by_namespace.items():
        statistics.add(namespace, Contribution.of_rows(some))


class _Recount:
    """Counts of all rows; eight bytes of each row are kept, and the sums of its vector."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chunks: list[NDArray[np.uint64]] = []
        self.statistics = CountsByNamespace()
        self.foreign = 0
        self.doubled: Sequence[str] = ()

    def run(
        self,
        progress: Callable[[Progress], None] | None = None,
        inspect: Callable[[Sequence[ChunkRow]], None] | None = None,
    ) -> None:
        """Count all rows, and pass each batch to `inspect`, with contents."""
        total, done = self._store.count_chunks(), 0
        for rows in self._store.scan_chunks(contents=inspect is not None, vectors=True):
            count_rows(self.statistics, rows)
            self.note_chunks(rows)
            if inspect is not None:
                inspect(rows)
            done += len(rows)
            report_progress(progress, "rows counted", done, total)

    @property
    def num_rows(self) -> int:
        """Number of rows that were read."""
        return sum(map(len, self._chunks)) + self.foreign

    def num_missing(self, expected: int) -> int:
        """Return how many of so many rows were not read, 0 where keys of several rows explain that, which are noted."""
        missing = max(0, expected - self.num_rows)
        if missing:
            self.doubled = self._store.doubled_pks()
        return 0 if self.doubled else missing

    def superseded_pks(self) -> list[str]:
        """Return the keys of rows whose chunk has a newer row; reads all rows again only if there are any."""
        chunks, rows = np.unique(np.concatenate([*self._chunks, _NO_CHUNKS]), return_counts=True)
        suspects = set(chunks[rows > 1].tolist())
        if not suspects:
            return []
        newest: dict[str, ChunkRow] = {}
        superseded = []
        for row in (row for rows in self._store.scan_chunks() for row in rows if _short(row) in suspects):
            other = newest.setdefault(row.pk[:-1], row)
            if other is not row:
                older, newer = sorted((other, row), key=lambda row: row.batch)
                newest[row.pk[:-1]] = newer
                superseded.append(older.pk)
        return superseded

    def note_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Note the chunks of rows; rows of other tools are counted as foreign."""
        ours = list(filter(is_own, rows))
        self.foreign += len(rows) - len(ours)
        self._chunks.append(np.fromiter(map(_short, ours), np.uint64, len(ours)))


class _WrongChunks:
    """Differences of chunks from what their texts give; the first ones are named."""

    def __init__(self, vocabulary: Vocabulary, encoder: DocumentEncoder) -> None:
        self._vocabulary = vocabulary
        self._encoder = encoder
        self.number = 0
        self.differences: list[Difference] = []

    def note(self, rows: Sequence[ChunkRow]) -> None:
        """Compare chunks."""
        for chunk in wrong_chunks(rows, self._encoder, self._vocabulary):
            self.number += 1
            if self.number <= MAX_NAMED:
                self.differences += _differences_of(chunk)


def _differences_of(chunk: WrongChunk) -> list[Difference]:
    """Name what is wrong with a chunk."""
    row, name = chunk.row, short_repr(chunk.row.id)
    length = Difference(row.namespace, f"length of chunk {name}", row.length, chunk.length)
    weights = Difference(row.namespace, f"wrong weights of chunk {name}", chunk.num_wrong, 0)
    return [difference for difference in (length, weights) if difference.stored != difference.counted]


_NO_CHUNKS = np.empty(0, np.uint64)


def _short(row: ChunkRow) -> int:
    """Return 64 bits of a chunk's digest, 0 for a row of another tool."""
    try:
        return int(row.pk[:16], 16)
    except ValueError:
        return 0


def _delete_superseded(store: Store) -> int:
    """Delete the older of two rows of one chunk."""
    recount = _Recount(store)
    for rows in store.scan_chunks():
        recount.note_chunks(rows)
    superseded = recount.superseded_pks()
    if superseded:
        store.delete_chunks(superseded)
    return len(superseded)


def _replace_doubled(store: Store, doubled: Sequence[str]) -> int:
    """Store a chunk of which a server has a row several times once, under its other key."""
    rows = store.get_chunks(doubled, contents=True, vectors=True, dense=True)
    own = list(filter(is_own, rows))
    if own:  # inserted first: a crash in between leaves chunks with two rows, which a repair deletes
        store.insert_chunks([replace(row, pk=row.pk[:-1] + free_slot(row.pk[-1])) for row in own])
        store.delete_chunks([row.pk for row in own])
    return len(own)


def _name_terms(rows: Sequence[ChunkRow], vocabulary: Vocabulary, encoder: DocumentEncoder) -> None:
    """Recover terms missing from the vocabulary by analysing the texts of their chunks."""
    for row in rows:
        lacking = {id_ for id_ in row.vector.ids.tolist() if id_ != NO_TERMS_ID and vocabulary.term(id_) is None}
        if lacking:
            terms = [term for term in encoder.terms(row.text, row.metadata) if term not in vocabulary]
            vocabulary.add(assign_known_ids(terms, lacking))


def _differences(
    namespace: str,
    stored: Contribution,
    counted: Contribution,
    span: tuple[Contribution, Contribution],
    vocabulary: Vocabulary,
) -> list[Difference]:
    """Compare the counts of one namespace, which may have changed meanwhile by what lies in a span."""
    low, high = span
    totals = [
        Difference(namespace, what, was, now)
        for what, was, now, least, most in (
            ("chunks", stored.num_chunks, counted.num_chunks, low.num_chunks, high.num_chunks),
            ("length", stored.total_length, counted.total_length, low.total_length, high.total_length),
        )
        if not least <= now - was <= most
    ]
    ids = (counted - stored).ids
    was, now = _df_of(stored, ids), _df_of(counted, ids)
    wrong = (now - was < _df_of(low, ids)) | (now - was > _df_of(high, ids))
    dfs = zip(ids[wrong].tolist(), was[wrong].tolist(), now[wrong].tolist(), strict=True)
    terms = [Difference(namespace, f"df of {_name(vocabulary, id_)}", *both) for id_, *both in dfs]
    terms += _wrong_channels(namespace, stored, counted, vocabulary)
    terms.sort(key=lambda difference: difference.what)
    return totals + terms


def _wrong_channels(
    namespace: str, stored: Contribution, counted: Contribution, vocabulary: Vocabulary
) -> list[Difference]:
    """Compare the channels of terms, as far as the vocabulary has them: on these the mean IDFs depend."""
    if stored.channels is None or counted.channels is None:  # one of them has no terms
        return []
    ids, old, new = np.intersect1d(stored.ids, counted.ids, assume_unique=True, return_indices=True)
    channels = zip(ids.tolist(), stored.channels[old].tolist(), counted.channels[new].tolist(), strict=True)
    return [
        Difference(namespace, f"channel of {_name(vocabulary, id_)}", was, now)
        for id_, was, now in channels
        if was != now and vocabulary.term(id_) is not None
    ]


def _name(vocabulary: Vocabulary, id_: int) -> str:
    """Return the term of an id, or the id if the term is unknown."""
    term = vocabulary.term(id_)
    return str(id_) if term is None else term_name(term)


def _df_of(contribution: Contribution, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the df of each term, 0 if it does not occur."""
    known, df = np.append(contribution.ids, 0), np.append(contribution.df, 0)  # no term has id 0
    at = np.searchsorted(contribution.ids, ids)
    return np.where(known[at] == ids, df[at], 0)
