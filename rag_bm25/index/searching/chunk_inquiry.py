"""Find out why a search does not find a given chunk."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rag_bm25.errors import ChunkNotFoundError
from rag_bm25.filters import Comparison, conjoin
from rag_bm25.hits.options import MAX_K
from rag_bm25.index.arguments import list_first, list_namespaces
from rag_bm25.index.searching.inquiry import MAX_VALUES, Inquiry, list_values, quoted, top_keys
from rag_bm25.index.searching.placing import Recorder
from rag_bm25.index.searching.rows import read_chunk_by_namespace, read_one, to_hit
from rag_bm25.query.diagnosis import Diagnosis, Reason
from rag_bm25.query.explanation import UNCOUNTED
from rag_bm25.store.rows import Match, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.filters import Filter
    from rag_bm25.store.rows import ChunkRow

CHOICES = ("near_duplicates", "group_by", "mmr")
"""Options that choose among hits."""

_GROUPING = {"group_by", "group_size", "group_score"}
_CHOOSING = {*CHOICES, *_GROUPING, "rerank", "candidates", "expand", "highlight"}


class ChunkInquiry(Inquiry):
    """Find the reasons for a chunk that is not among the hits of a search."""

    def why_not(self, id_: str, chunk_namespace: str | None) -> Diagnosis:
        """Return why a chunk is not among the hits."""
        given, recorder = self._asked.given, Recorder(self._asked.plan.rerank)
        hits = self._hits(self._asked.k, {**given, "rerank": recorder} if recorder.name else given)
        last = hits[-1].score if hits else None
        place = next(self._places(id_, chunk_namespace), None)
        if place is None:
            return Diagnosis(self._text, tuple(self._not_there(id_)), len(hits), id_, last_score=last)
        diagnosis = Diagnosis(self._text, (), len(hits), id_, place, last_score=last)
        scope = self._scope
        plan, options = self._asked.plan, self._asked.options
        explained = self._searcher.explain(self._asked.query, id_, scope, place, options, plan.boosts)
        found = next((hit for hit in hits if (hit.namespace, hit.id) == (place, id_)), None)
        rank, ranked = self._rank(id_, place) if explained.value > 0 else (None, None)
        score = next((hit.score for hit in (found, ranked) if hit is not None), explained.value)
        diagnosis = replace(diagnosis, rank=rank, score=score)
        if found is not None:
            return replace(diagnosis, reasons=tuple(self._below_minimum(found.score)))
        row = read_one(self._store, self._live.view, id_, (place,))
        of_query = list(self._in_query())
        reasons = [*of_query, *self._filtered_out(row)]
        if explained.reason == UNCOUNTED:
            reasons.append(Reason("statistics", UNCOUNTED))
        elif not explained.bm25_score and not of_query:
            words = self._written_words()
            reasons.append(Reason("no_term", f"it has no word of the query: {list_first(words)}", {"words": words}))
        elif explained.reason:
            reasons += self._left_out(row, explained.reason)
        elif not explained.value:
            keys = [boost.name for boost in plan.boosts]
            reasons.append(Reason("boosts", f"the boosts multiply its score by 0: those of {quoted(keys)}"))
        reasons = reasons or [self._outranked(row, diagnosis, hits, recorder)]
        return replace(diagnosis, reasons=tuple(reasons))

    def _places(self, id_: str, chunk_namespace: str | None) -> Iterator[str]:
        """Yield the searched namespace that has a chunk with an id; several are an error, as for `explain`."""
        names = self._scope.namespaces if chunk_namespace is None else (chunk_namespace,)
        self._live.current(names)
        with suppress(ChunkNotFoundError):
            yield read_one(self._store, self._live.view, id_, names).namespace

    def _not_there(self, id_: str) -> Iterator[Reason]:
        statistics = self._live.view.statistics
        if self._asked.elsewhere and self._scope.namespaces is not None:
            others = sorted(read_chunk_by_namespace(self._store, id_, statistics.namespaces))
            if others:
                message = f"it is in {list_namespaces(others)}, which the search leaves out"
                yield Reason("other_namespaces", message, {"namespaces": others})
                return
        whose = "the index" if self._scope.namespaces is None else list_namespaces(self._scope.namespaces)
        of_source = replace(self._scope, where=Comparison(("source",), "==", id_))
        ids = [row.id for row in next(self._store.scan_chunks(of_source), [])]
        hint = f"; it is the source of chunks such as {min(ids)!r}" if ids else ""
        yield Reason("no_chunk", f"{whose} has no chunk with this id{hint}", {"of_source": sorted(ids)[:MAX_VALUES]})

    def _filtered_out(self, row: ChunkRow) -> Iterator[Reason]:
        where = self._scope.where
        if where is None or self._row_passes(where, row):
            return
        values = {key: row.metadata.get(key) for key in top_keys(where)}
        yield Reason("filter", f"it does not pass the filter: it has {list_values(values)}", {"metadata": values})

    def _row_passes(self, where: Filter, row: ChunkRow) -> bool:
        """Return whether a chunk passes a filter, as the engine sees it."""
        for key, value in row.metadata.items():  # its own values, so that few other chunks are read
            if _is_plain(key) and _is_plain(value):
                where = conjoin(where, Comparison((key,), "==", value)) or where
        scope = Scope(where, (row.namespace,))
        return any(each.id == row.id for rows in self._store.scan_chunks(scope) for each in rows)

    def _left_out(self, row: ChunkRow, reason: str) -> Iterator[Reason]:
        """Yield the conditions that a chunk does not meet."""
        for (name, text), changes in self._each_condition():
            if not self._left(changes, [Match(row, 1.0)]):
                message = self._searcher.unmet(self._conditions(changes), row) or reason
                yield Reason(name, message, {"text": text})

    def _below_minimum(self, score: float) -> Iterator[Reason]:
        least = self._asked.min_score
        if least is not None and score < least:
            details = {"score": score, "min_score": least}
            yield Reason("min_score", f"its score is {score:.4g}, below the minimum of {least:g}", details)

    def _rank(self, id_: str, place: str) -> tuple[int | None, Hit | None]:
        """Return the rank of a chunk among all that match, by their boosted scores, and its hit."""
        options = {name: value for name, value in self._asked.given.items() if name not in _CHOOSING}
        limit = max(100, 4 * self._asked.k)
        while True:
            hits = self._hits(min(limit, MAX_K), options)
            ids = [(hit.namespace, hit.id) for hit in hits]
            if (place, id_) in ids:
                at = ids.index((place, id_))
                return at + 1, hits[at]
            if len(hits) < limit or limit >= MAX_K:
                return None, None
            limit *= 4

    def _outranked(self, row: ChunkRow, diagnosis: Diagnosis, hits: Sequence[Hit], recorder: Recorder) -> Reason:
        """Return which option chose other hits, or that others have higher scores."""
        k, rank, last = self._asked.k, diagnosis.rank, diagnosis.last_score
        score = recorder.scores.get((row.namespace, row.id)) if recorder.name else diagnosis.score
        details = {"rank": rank, "score": score, "k": k, "last_score": last}
        where = f"it is hit {rank:,} by score" if rank is not None else f"it is not among the best {MAX_K:,} chunks"
        if score is None:
            message = f"{where}, and {recorder.name} scores the first {len(recorder.scores):,}"
            return Reason("rerank", message, details)
        for name in CHOICES:
            if self._asked.given.get(name) is not None and self._is_found_without(name, row):
                return Reason(name, f"{self._chosen_by(name, row, hits)}; without {name}, it is a hit", details)
        scorer = f" by {recorder.name}" if recorder.name else ""
        of_last = "" if last is None else f", and the last of {len(hits):,} hits has {last:.4g}"
        return Reason("k", f"{where}, beyond k = {k:,}: its score{scorer} is {score:.4g}{of_last}", details)

    def _is_found_without(self, name: str, row: ChunkRow) -> bool:
        left_out = _GROUPING if name == "group_by" else {name}
        given = {key: value for key, value in self._asked.given.items() if key not in left_out}
        return any((hit.namespace, hit.id) == (row.namespace, row.id) for hit in self._hits(self._asked.k, given))

    def _chosen_by(self, name: str, row: ChunkRow, hits: Sequence[Hit]) -> str:
        """Say what an option has against a chunk."""
        grouping = self._asked.plan.grouping
        if name == "near_duplicates":
            return f"it resembles a better hit, by a cosine of {self._asked.given[name]:g} or more"
        if name == "group_by" and grouping is not None:
            key = grouping.key_of(to_hit(Match(row, 0.0)))
            better = [hit.id for hit in hits if grouping.key_of(hit) == key]
            of_group = f"better hits of its group, {grouping.key} = {key[-1]!r}, are {quoted(better)}"
            return of_group if better else f"its group, {grouping.key} = {key[-1]!r}, is beyond k = {self._asked.k:,}"
        return "the hits that were chosen differ more from each other"


def _is_plain(value: object) -> bool:
    """Return whether every engine compares a value as Python does."""
    return isinstance(value, str) and re.fullmatch(r"[\w ./#:-]{1,200}", value) is not None
