"""Results as people read them."""

from __future__ import annotations

import re
from dataclasses import asdict, astuple, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rag_bm25.definitions import Value
from rag_bm25.documents.lengths import unit_name
from rag_bm25.hits.highlights import SIZES, Highlighting
from rag_bm25.index.arguments import name_namespace
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.query_defaults import flat_query_side
from rag_bm25.query.synonyms import Synonyms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from rag_bm25.documents.chunks import Hit
    from rag_bm25.evaluation import BeirDataset
    from rag_bm25.evaluation.changes import Changes, QueryChange
    from rag_bm25.evaluation.comparison import PairedTest
    from rag_bm25.evaluation.fusion import FusionCalibration
    from rag_bm25.evaluation.running import EvaluationResult
    from rag_bm25.index.maintenance.answers import AnswerCalibration
    from rag_bm25.index.maintenance.learning import LearnedK1
    from rag_bm25.index.stats import IndexStats
    from rag_bm25.store.storage import StorageInfo
    from rag_bm25.weighting.calibration import Calibration

MAX_LISTED = 5
MAX_QUERIES = 10  # that are worse, and that are better
MAX_QUERY_CELLS = 60
MAX_FALLS = 3  # of a query
SNIPPET_LINES = 3
INDENT = 4
GAP = " … "  # between fragments


def join_first(values: Iterable[object]) -> str:
    """Return the first few values, with commas between."""
    every = list(map(str, values))
    return ", ".join(every[:MAX_LISTED]) + (", ..." if len(every) > MAX_LISTED else "")


def natural_key(text: str) -> str:
    """Return a key by which ``a#2`` comes before ``a#10``."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(20), text)


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 chunk``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def changed_query_side(config: IndexConfig) -> dict[str, str]:
    """Return the parameters of the query side that are not the defaults, as people read them."""
    usual, flat = flat_query_side(IndexConfig(config.chunk_size)), flat_query_side(config)
    return {name: shown_value(value) for name, value in flat.items() if value != usual[name]}


def shown_value(value: object) -> str:
    """Return a parameter as the command line takes it, and synonyms as the number of their rules."""
    if isinstance(value, Synonyms):
        return count(len(value.rules), "rule")
    if is_dataclass(value):
        fields = ",".join(f"{name}={field}" for name, field in vars(value).items())
        return f"{Value(type(value)).tag}:{fields}"
    return "none" if value is None else f"{value}"


# Hits


def highlighting_for(width: int) -> Highlighting:
    """Return the highlighting that fills the lines of a hit on a terminal: an ideograph takes two places."""
    least, most = SIZES
    return Highlighting(max_fragments=10, size=min(max((width - INDENT - 1) * SNIPPET_LINES // 2, least), most))


def render_hit(
    rank: int, hit: Hit, width: int, marks: Sequence[tuple[int, int]] = (), collection: str = ""
) -> RenderableType:
    """Return a hit: its place, score and id, and its best fragments, or its whole context with marks."""
    confidence = "" if hit.confidence is None else f"  {hit.confidence:.0%}"
    head = Text.assemble((f"{rank:>2}  ", "dim"), (f"{hit.score:.4f}{confidence}", "cyan"), "  ", (hit.id, "bold"))
    for name in ("title", "source"):
        detail = str(hit.metadata.get(name) or "")
        if detail and detail not in hit.id:
            head.append(f"  {detail}", "dim")
    if collection:
        head.append(f"  collection {collection}", "dim")
    if hit.context is not None:
        snippet = _mark(Text(hit.context.text), marks)
    else:
        snippet = _make_snippet(hit, (width - INDENT - 1) * SNIPPET_LINES)
    return Group(head, Padding(snippet, (0, 0, 0, INDENT), expand=False))


def _mark(text: Text, marks: Iterable[tuple[int, int]]) -> Text:
    for start, end in marks:
        text.stylize("bold yellow", start, end)
    return text


def _make_snippet(hit: Hit, width: int) -> Text:
    """Return the best fragments of a hit that fit into a width, in text order, or else the beginning of its text."""
    text = _mark(Text(hit.text), chain.from_iterable(one.marks for one in hit.highlights or ()))
    text.plain = re.sub(r"\s", " ", text.plain)
    places = [(0, len(hit.text))] if cell_len(text.plain) <= width or not hit.highlights else []
    room = width - 2  # the ellipses at both ends
    for one in [] if places else hit.highlights or ():
        needed = cell_len(text.plain[one.start : one.end]) + len(GAP)
        if needed <= room or not places:
            places.append((one.start, one.end))
            room -= needed
    snippet = Text()
    end = 0
    for start, after in sorted(places):
        if start > end:
            snippet.append("…" if not end else GAP if hit.text[end:start].strip() else " ")
        snippet.append_text(text[start:after])
        end = after
    if end < len(hit.text.rstrip()):
        snippet.append("…")
    snippet.truncate(width, overflow="ellipsis")
    return snippet


# Tables


def render_stats(stats: IndexStats, searches_by: Mapping[str, str]) -> Text:
    """Return the figures of an index, the effect of its chunk size, and what searches go by."""
    unit = unit_name(stats.length_unit)
    means = {"bigrams": stats.average_bigram_idf, "characters": stats.average_character_idf}
    of_channels = "".join(f", {mean:.4f} of {name}" for name, mean in means.items() if mean)
    rows = {
        "chunks": f"{stats.num_chunks:,}",
        "terms": f"{stats.num_terms:,}",
        "namespaces": ", ".join(map(name_namespace, stats.namespaces)) or "none",
        "mean IDF": f"{stats.average_idf:.4f}{' of words' * bool(of_channels)}{of_channels}",
        "mean length": f"{stats.mean_length:,.1f} {unit}",
        "chunk size": f"{stats.chunk_size:g} {unit}",
        "weighting": stats.weighting,
        "k1, b": f"{stats.k1:g}, {stats.b:g}",
        "s": f"{stats.chunk_size_ratio:.3f} = chunk size / mean length",
        "k1', b'": f"{stats.effective_k1:.3f}, {stats.effective_b:.3f}: effective k1 and b, with the mean length",
        "engine": _format_storage(stats.storage),
    }
    if searches_by:
        rows["searches by"] = ", ".join(f"{name} {value}" for name, value in searches_by.items())
    if stats.k1_growth is not None:
        rows["k1 of terms"] = f"learned at {stats.k1_learned}; N is {stats.k1_growth:.3f} times that of then"
    return _format_lines(Text(stats.name, style="bold"), rows)


def render_query_side(name: str, shown: dict[str, str]) -> Text:
    """Return what searches of an index go by."""
    return _format_lines(Text(name, style="bold"), shown)


def _format_storage(storage: StorageInfo) -> str:
    """Return how an engine stores the chunks, as far as it says."""
    facts = {name: value for name, value in asdict(storage).items() if value is not None}
    engine, version = facts.pop("engine"), facts.pop("version", "")
    name = f"{engine}, version {version}" if version else engine
    built = ", ".join(f"{name} {str(value).lower() if name == 'mmap' else value}" for name, value in facts.items())
    return f"{name}: {built}" if built else name


def render_calibration(proposal: Calibration, split_size: int | None) -> Text:
    """Return a proposed chunk size, and for files that are cut at `split_size` the command that uses it."""
    unit = unit_name(proposal.length_unit)
    rows = {
        "measured": f"{count(proposal.chunks, 'chunk')}, mean length {proposal.mean_length:,.1f} {unit}",
        "s": f"{proposal.ratio:.3f} = chunk size / mean length",
        "k1', b'": f"{proposal.effective_k1:.3f}, {proposal.effective_b:.3f}: effective k1 and b",
    }
    if split_size is not None:
        rows["use"] = f"rag-bm25 ingest --chunk-size {proposal.chunk_size} --split-size {split_size}"
    return _format_lines(Text(f"chunk size {proposal.chunk_size:,} {unit}", style="bold"), rows)


def render_k1(name: str, learned: LearnedK1) -> Text:
    """Return what the k1 of each term was learned from."""
    rows = {
        "chunks": f"{learned.num_chunks:,}",
        "terms": f"{learned.num_terms:,} in two chunks or more, {learned.adapted:,} of them with a k1 by adpt",
        "use": "rag-bm25 search QUERY --weighting k1=bm25t, or k1=adpt,idf=adpt",
    }
    return _format_lines(Text(f"k1 of terms in {name}", style="bold"), rows)


def render_answers(name: str, found: AnswerCalibration) -> Text:
    """Return how well the confidence tells answers."""
    rows = {
        "queries": f"{found.queries:,}; the first hit answers {found.answered:.1%}",
        "AUC": f"{found.auc:.3f}, and {found.score_auc:.3f} of the score: answers from questions without one",
        "error": f"{found.error:.3f}, the mean distance of the confidence from the share that answers",
    }
    return _format_lines(Text(f"confidence in {name}", style="bold"), rows)


def render_fusion(name: str, found: FusionCalibration) -> Text:
    """Return what each fusion found of the judged questions, and the one that is kept."""
    rows = {shown_value(fusion): f"{value:.4f}" for fusion, value in found.measured.items()}
    gain = f": {found.difference:+.4f} ({found.low:+.4f} to {found.high:+.4f}) over the default" if found.low else ""
    rows["kept"] = f"{shown_value(found.fusion)}{gain}"
    return _format_lines(Text(f"nDCG@10 of {count(found.queries, 'question')} in {name}", style="bold"), rows)


HEADINGS = ("nDCG@10", "Recall@100", "MRR@10")


def render_evaluation(name: str, result: EvaluationResult, config: IndexConfig) -> Text:
    """Return the measures, and the settings that they were measured with."""
    weighting = config.query_weighting().of_documents(config.document_weighting(), config.chunk_size)
    delta = {} if weighting.delta is None else {"delta": f"{weighting.delta:g}"}
    of_terms = config.query_k1 if config.query_weighting().has_k1_of_terms else None
    parameters = {"k1": of_terms or f"{weighting.k1:g}", "b": f"{weighting.b:g}", **delta}
    shown = ", ".join(f"{name} {value}" for name, value in parameters.items())
    length = ", length mean" if config.length == "mean" or of_terms else ""
    size = f"chunk size {config.chunk_size:.1f} {unit_name(config.length_unit)}"
    of_fields = "+".join(":".join(map(str, (name, *astuple(one)))) for name, one in weighting.fields.items())
    fields = f", fields {of_fields}" if of_fields else ""
    used = f"{config.weighting}, idf {config.idf}, {shown}{length}, {size}{fields}"
    speed = "" if result.chunks_per_second is None else f", {result.chunks_per_second:,.0f}/s"
    rows = {
        **{heading: f"{value:.4f}" for heading, value in _with_headings(result).items()},
        "queries": f"{result.queries:,}, {result.queries_per_second:,.0f}/s",
        "chunks": f"{result.chunks:,}{speed}",
    }
    return _format_lines(Text.assemble((name, "bold"), f": {used}"), rows)


def render_failing(dataset: BeirDataset, failing: Sequence[str]) -> list[Text]:
    """Return the first queries without a relevant hit, if there are any."""
    head = [Text(f"\n{count(len(failing), 'query', 'queries')} without a relevant hit:")] if failing else []
    lines = [_render_query(query, dataset.queries[query]) for query in failing[:MAX_QUERIES]]
    more = len(failing) - len(lines)
    return [*head, *lines, *([Text(f"and {more:,} more; --json has all")] if more else ())]


def _render_query(id_: str, text: str) -> Text:
    shown = Text(text)
    shown.truncate(MAX_QUERY_CELLS, overflow="ellipsis")
    return Text.assemble((id_, "bold"), "  ", shown)


def _with_headings(result: EvaluationResult) -> dict[str, float]:
    return dict(zip((*HEADINGS, *result.measures.others), result.measures.to_dict().values(), strict=True))


def render_comparison(labels: Sequence[str], results: Sequence[EvaluationResult], tests: Sequence[PairedTest]) -> Table:
    """Return configurations side by side; the tests are of nDCG@10, of all but the first against the first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for heading in (*_with_headings(results[0]), "difference", "p", "better", "worse"):
        table.add_column(heading, justify="right")
    for label, result, test in zip(labels, results, (None, *tests), strict=True):
        cells = [f"{value:.4f}" for value in _with_headings(result).values()]
        if test:
            cells += f"{test.difference:+.4f}", _format_p_value(test), f"{test.better:,}", f"{test.worse:,}"
        table.add_row(label, *cells)
    return table


def render_changes(changes: Changes) -> list[RenderableType]:
    """Return the measures before and after, and the queries that have others, the worse ones with reasons."""
    table = Table(box=None, pad_edge=False)
    for heading in ("measure", "before", "after", "difference", "p", "better", "worse"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for name, one in changes.measures.items():
        means = f"{one.before:.4f}", f"{one.after:.4f}", f"{one.test.difference:+.4f}"
        table.add_row(name, *means, _format_p_value(one.test), f"{one.test.better:,}", f"{one.test.worse:,}")
    counts = f"{len(changes.worse):,} worse, {len(changes.better):,} better, {len(changes.reordered):,} only reordered"
    summary = f"{count(changes.num_queries, 'query', 'queries')}: {counts}"
    worse = map(_render_worse, changes.worse[:MAX_QUERIES])
    better = map(_render_measures, changes.better[:MAX_QUERIES])
    is_cut = max(len(changes.worse), len(changes.better)) > MAX_QUERIES
    note = f"of the worse and of the better queries, {MAX_QUERIES} each are shown at most; --json has all"
    return [table, "", Text(summary), *worse, *better, *([Text(note)] if is_cut else ())]


def _render_measures(change: QueryChange) -> Text:
    """Return a query with the measures that have changed."""
    moved = [(name, change.before[name], value) for name, value in change.after.items() if change.before[name] != value]
    shown = ", ".join(f"{name} {before:.4f} -> {after:.4f}" for name, before, after in moved)
    return Text.assemble(_render_query(change.id, change.text), f"  {shown}")


def _render_worse(change: QueryChange) -> Text:
    """Return a query with its measures, and with the reasons why relevant documents have worse places."""
    lines = [_render_measures(change)]
    for fall in change.falls[:MAX_FALLS]:
        place = "not found" if fall.after is None else f"{fall.after}"
        above = f", above it now {fall.displaced_by}" if fall.displaced_by else ""
        lines += [Text(f"  {fall.id}: place {fall.before} -> {place}{above}")]
        lines += [Text(f"    {reason}") for reason in fall.reasons]
    if (more := len(change.falls) - MAX_FALLS) > 0:
        lines += [Text(f"  and {count(more, 'more relevant document')} with a worse place")]
    return Text("\n").join(lines)


def _format_p_value(test: PairedTest) -> str:
    return f"{test.p_value:.4f}" if test.p_value >= 0.001 else "< 0.001"


def _format_lines(title: Text, rows: dict[str, str]) -> Text:
    """Return a title, and a line for each name and value."""
    width = max(map(len, rows))
    lines = [Text.assemble((f"{name:<{width}}", "dim"), f"  {value}") for name, value in rows.items()]
    return Text("\n").join([title, *lines])
