"""The operations of the server, on an open index: a request to an answer of JSON values. They block."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import ChunkNotFoundError, InputError, MissingExtraError
from rag_bm25.events import Progress
from rag_bm25.hits.neighbors import order_in_source, source_of
from rag_bm25.index.arguments import list_first, name_namespace, narrow, parse_scope
from rag_bm25.index.searching.finding import Pattern, find
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.serving import requests
from rag_bm25.serving.answers import LOGGER
from rag_bm25.serving.jobs import Jobs
from rag_bm25.weighting.calibration import calibrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.index.arguments import Namespaces
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.files import FileSelection
    from rag_bm25.query.scores import ScoreExplanation
    from rag_bm25.serving.fields import Request

WARM_UP = 100  # characters
MAX_SOURCE_CHUNKS = 100_000
MAX_COMPARED = 50_000  # chunks whose sources are compared with a name that has none
NEAR = 0.4  # similarity of a source that may be meant; a name without its folder is near


class Operations:
    """What the server does with an index; clients know it by its title."""

    def __init__(self, index: BM25Index, title: str, seconds: float, jobs: Jobs) -> None:
        self._index = self._written = index
        self._title = title
        self._seconds = seconds  # of one call of `find`, whose answer then says how to go on
        self.jobs = jobs

    def within(self, part: BM25Index) -> Operations:
        """Return the operations on a part of the index, which show no other jobs than their own."""
        narrowed = Operations(part, self._title, self._seconds, Jobs(self.jobs))
        narrowed._written = self._index
        return narrowed

    def warm_up(self) -> None:
        """Search once, and for another spelling, so that nobody waits until engine and vocabulary are loaded."""
        chunk = next(self._index.chunks(namespace=None), None)
        if chunk is not None:
            self._index.search(chunk.text[:WARM_UP], 1, namespace=None)
            self._correct(chunk.text[:WARM_UP], None)

    # Searching

    def search(self, asked: requests.Search) -> dict[str, Any]:
        """Return hits; if there are none, the reason."""
        hits = self._index.search(asked.to_query(), asked.k, **asked.scope(), **asked.options)
        answer: dict[str, Any] = {"hits": [cut(hit.to_dict(), asked.max_text) for hit in hits], "count": len(hits)}
        if not hits:
            is_beyond_last = bool(asked.options.get("offset"))
            answer["suggestion"] = None if is_beyond_last else self._correct(asked.query, asked.namespaces)
        return answer

    def _correct(self, query: str, namespaces: Namespaces) -> str | None:
        try:
            return self._index.suggest(query, namespace=namespaces)
        except MissingExtraError:
            return None

    def explain(self, asked: requests.Explain) -> dict[str, Any]:
        """Return how the score of a chunk comes about, term by term."""
        return {"explanation": self._explain(asked).to_dict(tree=asked.tree)}

    def _explain(self, asked: requests.Explain) -> ScoreExplanation:
        scope = {**asked.scope(), "chunk_namespace": asked.chunk_namespace, "part": asked.part, "k": asked.k}
        return self._index.explain(asked.to_query(), asked.id, **scope, **asked.options)

    def why(self, asked: requests.Why) -> dict[str, Any]:
        """Return why a search finds nothing, or does not find a chunk."""
        scope = {**asked.scope(), "chunk_namespace": asked.chunk_namespace, "part": asked.part}
        found = self._index.diagnose(asked.to_query(), asked.id, asked.k, **scope, **asked.options)
        return {"diagnosis": {**found.to_dict(), "text": str(found)}}

    def suggest(self, asked: requests.Suggest) -> dict[str, Any]:
        """Return the query with corrected spelling, None if there is nothing to correct."""
        return {"suggestion": self._index.suggest(asked.query, namespace=asked.namespaces)}

    def highlight(self, asked: requests.Highlight) -> dict[str, Any]:
        """Return the parts of a text that have words of the query."""
        given = {**asked.options, "namespace": asked.namespaces}
        fragments = self._index.highlight(asked.to_query(), asked.text, given.pop("highlight", None), **given)
        return {"highlights": [fragment.to_dict() for fragment in fragments]}

    # Statistics

    def statistics(self, asked: requests.Statistics) -> dict[str, Any]:
        """Return the figures of the index."""
        stats = self._index.stats(namespace=asked.namespace)
        proposed = calibrate(stats.mean_length, stats.num_chunks).chunk_size if stats.mean_length else None
        figures = {**asdict(stats), "name": self._title, "proposed_chunk_size": proposed}
        figures["frequent_names"] = self._index.frequent_names(namespace=asked.namespace)
        return {"index": figures, "problems": self._index.problems}

    def term_statistics(self, asked: requests.TermStatisticsRequest) -> dict[str, Any]:
        """Return N, df and IDF of the words of a text."""
        found = self._index.term_statistics(asked.terms, **asked.scope())
        return {"terms": [asdict(term) for term in found]}

    def top_terms(self, asked: requests.TopTerms) -> dict[str, Any]:
        """Return the terms that most chunks have."""
        found = self._index.terms(prefix=asked.prefix, k=asked.k, **asked.scope())
        return {"terms": [asdict(term) for term in found]}

    def progress(self, _: Request) -> dict[str, Any]:
        """Return the jobs that write, the newest first."""
        jobs = self.jobs.to_json()
        return {"writing": any(job["state"] == "running" for job in jobs), "jobs": jobs}

    # Chunks

    def chunk(self, asked: requests.ReadChunk) -> dict[str, Any]:
        """Return a chunk, with its context if asked for."""
        found = self._index.get([asked.id], namespace=asked.namespace)
        if not found:
            raise ChunkNotFoundError(f"no chunk {asked.id!r} in {name_namespace(asked.namespace)}")
        answer = found[0].to_dict()
        if asked.context is not None:
            window = None if asked.context == "document" else 1
            answer["context"] = self._index.neighbors(found[0], window, window).to_dict()
        return answer

    def sources(self, asked: requests.ListSources) -> dict[str, Any]:
        """Return the sources by their names, with the number of their chunks."""
        counts, wanted = self._count_sources(**asked.scope()), asked.contains.casefold()
        found = sorted(name for name in counts if wanted in name.casefold())
        page = found[asked.offset : asked.offset + asked.limit]
        return {"sources": [{"source": name, "chunks": counts[name]} for name in page], "total": len(found)}

    def _count_sources(self, most: int | None = None, **scope: Any) -> dict[str, int]:
        """Return the number of chunks of each source, of so many chunks."""
        chunks = islice(self._index.chunks(**scope), most)
        return Counter(source for source in map(source_of, chunks) if source is not None)

    def chunks(self, asked: requests.ReadChunks) -> dict[str, Any]:
        """Return the chunks of a source, in the order of the document."""
        found = self._index.chunks(filter={"source": asked.source}, namespace=asked.namespace)
        chunks = sorted(islice(found, MAX_SOURCE_CHUNKS), key=_place_of)
        if not chunks:
            known = sorted(self._count_sources(MAX_COMPARED, namespace=asked.namespace))
            similar = get_close_matches(asked.source, known, cutoff=NEAR)
            hint = f"; did you mean {list_first(map(repr, similar))}?" if similar else ""
            raise ChunkNotFoundError(f"no chunk has the source {asked.source!r}{hint}")
        start = asked.offset if asked.around is None else _page_with(asked.around, chunks, asked)
        page = chunks[start : start + asked.limit]
        return {"chunks": [chunk.to_dict() for chunk in page], "total": len(chunks), "offset": start}

    # For agents, who have fewer tools than programs have routes

    def find(self, asked: requests.AgentSearch) -> dict[str, Any]:
        """Return hits; if there are none, the reasons."""
        answer = self.search(asked)
        if not answer["hits"]:
            found = self._index.diagnose(asked.to_query(), k=asked.k, **asked.scope(), **asked.options)
            answer["reasons"] = str(found)
        return answer

    def find_text(self, asked: requests.FindText) -> dict[str, Any]:
        """Return the chunks whose texts match a pattern, with what stands around the match."""
        pattern = Pattern(asked.pattern, ignore_case=asked.ignore_case)
        scope = narrow(parse_scope(**asked.scope()), asked.of_source())
        bounds = asked.limit, asked.around
        findings = find(self._index, pattern, scope, *bounds, after=asked.after, seconds=self._seconds)
        found = sorted(findings.found, key=lambda one: (source_of(one.chunk) or "", *_place_of(one.chunk)))
        end = {"next": findings.after or None, "reason": findings.reason}
        return {"hits": [one.to_dict() for one in found], "read": findings.read, **end}

    def explain_in_words(self, asked: requests.AgentExplain) -> dict[str, Any]:
        """Return how the score of a chunk comes about, as a text."""
        explained = self._explain(asked)
        return {"text": explained.tree if asked.tree else str(explained)}

    def figures(self, asked: requests.AgentStatistics) -> dict[str, Any]:
        """Return the figures of the index, and of terms if asked for."""
        if asked.prefix and not asked.k:
            raise InputError("a prefix needs k, the number of terms to list")
        if asked.filter and asked.terms is None and not asked.k:
            raise InputError("a filter needs terms, or k, the number of terms to list: the figures are of namespaces")
        answer = self.statistics(requests.Statistics(namespace=asked.namespaces))
        if asked.terms is not None:
            answer |= self.term_statistics(asked.of_terms())
        if asked.k:
            answer["top"] = self.top_terms(asked.of_top())["terms"]
        return answer

    def read(self, asked: requests.AgentChunks) -> dict[str, Any]:
        """Return a chunk, or those of a source."""
        if (asked.id is None) == (asked.source is None):
            raise InputError("exactly one of id and source must be given")
        if asked.id is not None:
            return self.chunk(requests.ReadChunk(id=asked.id, namespace=asked.namespace, context=asked.context))
        page: dict[str, Any] = {"offset": asked.offset, "limit": asked.limit}
        return self.chunks(requests.ReadChunks(source=str(asked.source), namespace=asked.namespace, **page))

    # Writing

    def add(self, asked: requests.Add) -> dict[str, Any]:
        """Store chunks, and return their ids."""
        given = asked.chunks
        vectors = [chunk.embedding for chunk in given]
        if any(vector is not None for vector in vectors) and None in vectors:
            raise InputError("either every chunk has an embedding, or none")
        with self.jobs.run("add") as job:
            job.report(Progress("chunks", 0, len(given)))
            ids = self._written.add(
                [chunk.text for chunk in given],
                ids=[chunk.id for chunk in given],
                metadatas=[chunk.metadata for chunk in given],
                embeddings=None if vectors[0] is None else np.asarray(vectors, np.float32),
                namespace=asked.namespace,
            )
            job.note(Progress("chunks", len(given), len(given)))
        return {"ids": ids, "count": len(ids)}

    def ingest(self, found: FileSelection, **options: Any) -> list[str]:
        """Bring the index up to date with files; return the sources that failed."""
        with self.jobs.run("ingest", repeats=True) as job:
            report = ingest(self._index, found, progress=job.report, **options)
            counts = {name: value for name, value in asdict(report).items() if isinstance(value, int)}
            rejected = sum(report.rejected.values())
            job.result = {**counts, "failed": len(report.failed), "rejected": rejected}
            reasons = [*report.failed.values(), *report.reasons]
            job.reason = list_first(reasons)
            for reason in reasons:
                LOGGER.warning("not ingested: %s", reason)
            return list(report.failed)

    def delete(self, asked: requests.Delete) -> dict[str, Any]:
        """Delete chunks, and return how many there were."""
        if sum(given is not None for given in (asked.ids, asked.source, asked.filter)) != 1:
            raise InputError("exactly one of ids, source and filter must be given")
        condition = asked.filter if asked.source is None else {"source": asked.source}
        with self.jobs.run("delete") as job:
            deleted = self._written.delete(asked.ids, filter=condition, namespace=asked.namespace)
            job.note(Progress("chunks", deleted, deleted))
        return {"deleted": deleted}


def _page_with(id_: str, chunks: Sequence[Chunk], asked: requests.ReadChunks) -> int:
    """Return where the page of a source begins that has a chunk."""
    if asked.offset:
        raise InputError("either offset or around may be given")
    at = next((at for at, chunk in enumerate(chunks) if chunk.id == id_), None)
    if at is None:
        raise ChunkNotFoundError(f"no chunk of the source {asked.source!r} has the id {id_!r}")
    return at // asked.limit * asked.limit


def _place_of(chunk: Chunk) -> tuple[float, str]:
    return order_in_source(chunk), chunk.id


def cut(hit: dict[str, Any], max_text: int | None) -> dict[str, Any]:
    """Cut the text of a hit, and that of its context; what is cut says how many characters there are."""
    given = {**hit, "context": cut(hit["context"], max_text)} if "context" in hit else hit
    if max_text is None or len(hit["text"]) <= max_text:
        return given
    return {**given, "text": hit["text"][:max_text], "characters": len(hit["text"])}


@dataclass(frozen=True)
class Call:
    """A method of `Operations`, and whether it writes."""

    method: Callable[[Operations, Any], dict[str, Any]]
    writes: bool = False
