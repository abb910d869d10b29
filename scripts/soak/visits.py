"""One visit: open an index, compare it with the model, write, close it."""

from __future__ import annotations

import importlib
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rag_bm25 import BM25Index, Chunk, Progress, Query, QueryWeighting
from rag_bm25.analysis.text import AnalysedText
from soak.model import NAMESPACES, PARTS, Model, Write, chunk_id, namespace_of
from soak.places import CONFIG, Place
from soak.processes import memory
from soak.texts import Texts, rare_word
from soak.told import Told

Depth = Literal["none", "quick", "whole"]
SAMPLE = 50  # of chunks, and of texts
QUESTIONS = 4
HITS = 10
MOST_POSTINGS = 20_000  # of a word that is searched for: the recount keeps them
SHOWN = 5
PROGRESS_EVERY = 50_000
COMPLETIONS = 50


def preload() -> None:
    """Load modules and dictionaries once, before forking: 0.1 s a visit instead of 2 s."""
    for module in ("milvus_lite.server_manager", "pymilvus", "rag_bm25.store.milvus.engine"):
        importlib.import_module(module)
    CONFIG.build_analyzer()("预热")
    logging.getLogger("pymilvus").setLevel(logging.ERROR)  # an iterator's warning about its clock


@dataclass(frozen=True)
class Question:
    """A search and its hits."""

    query: str
    namespace: str
    terms: dict[str, int]  # with their frequency in the query
    question_words: dict[str, int]  # likewise, of those that are not among its terms
    hits: list[tuple[str, float]]  # ids and scores


@dataclass
class Seen:
    """Figures and faults of a visit."""

    figures: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)  # for a recount

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.figures[f"{name} s"] = round(time.monotonic() - began, 2)


@dataclass(frozen=True)
class Visitor:
    """Opens an index, checks it and writes; each visit runs in a process of its own."""

    place: Place
    texts: Texts
    workdir: Path  # keeps what the last visit was told
    keeps_words: bool = True  # of deleted chunks, which a reindex forgets

    def visit(self, model: Model, writes: list[Write], seed: str, check: Depth = "quick") -> Seen:
        """Open the index, compare it with the model, then write."""
        seen = Seen()
        with seen.timed("open"):
            index = self.place.open()
        with index:
            if check != "none":
                _Checks(index, self, model, random.Random(seed), seen).all(whole=check == "whole")
            if not seen.faults:
                with seen.timed("write"):
                    self.write_all(index, writes, seen)
            seen.figures.update(memory())
        return seen

    @property
    def file(self) -> Path:
        """The file of what the last visit was told."""
        return self.workdir / "told.pickle"

    def write_all(self, index: BM25Index, writes: list[Write], seen: Seen) -> None:  # noqa: ARG002 - for others
        for write in writes:
            self.write(index, write)

    def write(self, index: BM25Index, write: Write) -> None:
        ids = list(map(chunk_id, write.numbers.tolist()))
        if write.kind == "delete":
            index.delete(ids, namespace=write.namespace)
        elif write.kind == "delete part":
            index.delete(filter={"part": write.part}, namespace=write.namespace)
        elif write.kind == "stream":
            index.add_stream(
                self._chunks(write), namespace=write.namespace, assume_new=True, progress=_told_from_time_to_time()
            )
        else:
            chunks = list(self._chunks(write))
            metadatas = [chunk.metadata for chunk in chunks]
            index.add([chunk.text for chunk in chunks], ids=ids, metadatas=metadatas, namespace=write.namespace)

    def _chunks(self, write: Write) -> Iterator[Chunk]:
        for number, version in zip(write.numbers.tolist(), write.versions.tolist(), strict=True):
            yield Chunk(chunk_id(number), self.texts.text(number, version), {"part": number % PARTS})


def _told_from_time_to_time() -> Any:
    began, last = time.monotonic(), 0

    def tell(progress: Progress) -> None:
        nonlocal last
        if progress.done - last >= PROGRESS_EVERY:
            last = progress.done
            rate = last / (time.monotonic() - began)
            print(f"  {last:,} chunks added, {rate:,.0f} a second, {memory()}", flush=True)

    return tell


@dataclass
class _Checks:
    """Compare an index with the model through its public methods."""

    index: BM25Index
    visitor: Visitor
    model: Model
    rng: random.Random
    seen: Seen

    def __post_init__(self) -> None:
        self._analyzer = CONFIG.build_analyzer()
        self._stored = self.model.stored()

    def all(self, *, whole: bool) -> None:
        """Run all checks that need no raw rows; the vocabulary only for `whole` or after a fault."""
        with self.seen.timed("first search"):
            self.index.search(self.visitor.texts.piece(self.rng), namespace=None)
        with self.seen.timed("verify"):
            self._check_verify()
        self._check_sums()
        self._check_chunks()
        self._check_prefixes()
        self.seen.figures["chunks"] = len(self._stored)
        if whole or self.seen.faults:
            self._check_told()

    def _fault(self, text: str) -> None:
        self.seen.faults.append(text)

    def _check_verify(self) -> None:
        report = self.index.verify()
        if not report.ok or report.num_chunks != len(self._stored):
            first = [str(one) for one in report.differences[:SHOWN]]
            self._fault(
                f"verify: {report.num_chunks:,} chunks, expected {len(self._stored):,}; "
                f"{len(report.differences):,} differences: {first}"
            )

    def _check_told(self) -> None:
        """Check that since the last visit no term was lost or got another id."""
        with self.seen.timed("telling"):
            told, before = Told.by(self.index), Told.read(self.visitor.file) if self.visitor.keeps_words else Told()
        for what, terms in (("lost", before.lost(told)), ("with another id", before.moved(told))):
            if terms:
                number = f"{len(terms):,} of {len(before.ids):,} terms {what}, now {len(told.ids):,}"
                self._fault(f"vocabulary: {number}: {terms[:SHOWN]}")
        if told.nameless() or len(set(told.ids.values())) != len(told.ids):
            self._fault(f"vocabulary: {len(told.nameless()):,} ids without a term, or two terms with one id")
        if not self.seen.faults:
            told.write(self.visitor.file)
        self._check_known_terms(told)
        self.seen.questions = self._questions(told)
        self.seen.figures["terms"] = len(told.ids)

    def _check_sums(self) -> None:
        for namespace in dict.fromkeys(NAMESPACES):
            expected, told = len(self.model.stored(namespace)), self.index.stats(namespace=namespace).num_chunks
            if told != expected:
                self._fault(f"N of {namespace!r}: {told:,} of {expected:,}")

    def _check_chunks(self) -> None:
        """Get some chunks by id, including deleted ones."""
        used = self.model.used
        for number in self.rng.sample(range(used), min(SAMPLE, used)):
            version, namespace = int(self.model.versions[number]), namespace_of(number)
            found = [chunk.text for chunk in self.index.get([chunk_id(number)], namespace=namespace)]
            if found != ([self.visitor.texts.text(number, version)] if version > 0 else []):
                self._fault(f"{chunk_id(number)} should have version {version}, has {found}")

    def _check_known_terms(self, told: Told) -> None:
        """Check that the vocabulary has the terms of some texts, of replaced and deleted ones where it keeps them."""
        used = self.model.used
        for number in self.rng.sample(range(used), min(SAMPLE, used)):
            last = int(self.model.versions[number])
            version = self.rng.randint(1, abs(last)) if last and self.visitor.keeps_words else max(last, 0)
            tokens = self._analyzer(self.visitor.texts.text(number, version)) if version else []
            missing = sorted(set(tokens) - told.ids.keys())
            if missing:
                self._fault(f"terms of version {version} of {chunk_id(number)} are lost: {missing[:SHOWN]}")

    def _check_prefixes(self) -> None:
        """Find some chunks by a prefix of their unique word."""
        for number in self.rng.sample(self._stored.tolist(), min(SHOWN, len(self._stored))):
            version, id_ = int(self.model.versions[number]), chunk_id(number)
            if not self.visitor.texts.text(number, version).startswith(rare_word(number, version)):
                continue  # it has no terms
            # All versions that the chunk ever had begin so, and the search completes only some dozen words.
            prefix = rare_word(number, version)[: None if version > COMPLETIONS else -len(str(version))]
            hits = self.index.search(Query.parse(f"{prefix}*"), k=HITS, namespace=namespace_of(number))
            if id_ not in [hit.id for hit in hits]:
                self._fault(f"search for {prefix}*: {[hit.id for hit in hits]}, expected {id_}")

    def _questions(self, told: Told) -> list[Question]:
        """Search for pieces of sentences whose words are rare enough for a recount."""
        questions: list[Question] = []
        for _ in range(20 * QUESTIONS):
            query, namespace = self.visitor.texts.piece(self.rng), namespace_of(self.rng.randrange(4))
            text = AnalysedText.of_query(self._analyzer, query)
            terms = Counter(text.terms)
            words = Counter(word for word in text.question_terms if word not in terms)
            df = told.df.get(namespace, {})
            known = {term: found for term in terms | words if (found := df.get(told.ids.get(term) or 0, 0))}
            # Of single characters alone, a search adds the pairs that hold them, which the recount does not keep.
            if any(len(term) > 1 for term in known.keys() & terms) and max(known.values()) <= MOST_POSTINGS:
                hits = self.index.search(query, k=HITS, namespace=namespace, weighting=QueryWeighting(idf="lucene"))
                questions.append(Question(query, namespace, terms, words, [(hit.id, hit.score) for hit in hits]))
            if len(questions) == QUESTIONS:
                break
        return questions
