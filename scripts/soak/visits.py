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
from typing import Any, Literal, Protocol

from rag_bm25 import BM25Index, Chunk, IndexConfig, Progress, Query, QueryWeighting
from rag_bm25.analysis.text import AnalysedText
from soak.model import NAMESPACES, PARTS, Model, Write, chunk_id, namespace_of
from soak.processes import memory
from soak.texts import Texts, rare_word
from soak.told import Told

CONFIG = IndexConfig(chunk_size=150, length_unit="characters")
Depth = Literal["none", "quick", "whole"]
CONNECTING = 5  # attempts
SAMPLE = 50  # of chunks, and of texts
QUESTIONS = 4
HITS = 10
MOST_POSTINGS = 20_000  # of a word that is searched for: the recount keeps them
SHOWN = 5
PROGRESS_EVERY = 50_000
COMPLETIONS = 50


class Place(Protocol):
    """Location of an index."""

    def open(self) -> BM25Index: ...

    def log_rows(self) -> int:
        """Count the rows of the statistics log; the index must be closed."""
        ...

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield id, namespace, text, length and sparse of each stored chunk."""
        ...


@dataclass(frozen=True)
class MilvusPlace:
    """A file of the embedded engine, or a server."""

    uri: str
    collection: str
    token: str | None = None

    def open(self) -> BM25Index:
        return BM25Index.open(self.uri, self.collection, config=CONFIG, token=self.token)

    def log_rows(self) -> int:
        with self._pymilvus(log := f"{self.collection}_bm25") as client:
            return int(client.query(log, filter="", output_fields=["count(*)"])[0]["count(*)"])

    def rows(self) -> Iterator[dict[str, Any]]:
        fields = ["id", "namespace", "text", "length", "sparse"]
        with self._pymilvus(self.collection) as client:
            pages = client.query_iterator(self.collection, batch_size=1_000, filter="", output_fields=fields)
            while page := pages.next():
                yield from page

    @contextmanager
    def _pymilvus(self, collection: str) -> Iterator[Any]:
        """Connect by pymilvus alone; on a busy machine the engine may start too slowly for one attempt."""
        from pymilvus import MilvusClient, MilvusException

        for left in reversed(range(CONNECTING)):
            try:
                client = MilvusClient(self.uri, token=self.token or "")
                break
            except MilvusException:
                if not left:
                    raise
        try:
            client.load_collection(collection)
            yield client
        finally:
            client.close()


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
                    for write in writes:
                        self._write(index, write)
            seen.figures.update(memory())
        return seen

    @property
    def file(self) -> Path:
        """The file of what the last visit was told."""
        return self.workdir / "told.pickle"

    def _write(self, index: BM25Index, write: Write) -> None:
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
            told, before = Told.by(self.index), Told.read(self.visitor.file)
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
        """Check that the vocabulary has the terms of some texts, including replaced and deleted ones."""
        used = self.model.used
        for number in self.rng.sample(range(used), min(SAMPLE, used)):
            last = abs(int(self.model.versions[number]))
            version = self.rng.randint(1, last) if last else 0
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
