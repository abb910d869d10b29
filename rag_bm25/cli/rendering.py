"""Results as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rag_bm25.analysis import query_tokens
from rag_bm25.evaluation import config_line
from rag_bm25.evaluation.settings import field_setting
from rag_bm25.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from rag_bm25.calibration import Calibration
    from rag_bm25.chunks import Hit
    from rag_bm25.config import IndexConfig
    from rag_bm25.evaluation import EvaluationResult, PairedTest, Tuning
    from rag_bm25.explanation import Explanation
    from rag_bm25.index_stats import IndexStats

__all__ = [
    "Highlighter",
    "calibration_table",
    "comparison_table",
    "counted",
    "evaluation_table",
    "explanation_tree",
    "highlighter",
    "hit_lines",
    "stats_table",
    "tuning_report",
]

Highlighter: TypeAlias = Callable[[str], "list[tuple[int, int]]"]

SNIPPET_LINES = 3
INDENT = 4
LEAD = 40  # characters shown before the first term

HAN = "㐀-䶿一-鿿"
RUNS = re.compile(rf"[{HAN}]+|[^\W{HAN}]+(?:[.'’_-][^\W{HAN}]+)*")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 chunk``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# Hits


def hit_lines(rank: int, hit: Hit, width: int, mark: Highlighter | None) -> RenderableType:
    """Return a hit: its place, score and id, and the part of its text with the query's terms."""
    title = str(hit.metadata.get("title") or "")
    head = Text.assemble((f"{rank:>2}  ", "dim"), (f"{hit.score:.4f}", "cyan"), "  ", (hit.id, "bold"))
    for detail in (title, str(hit.metadata.get("source") or "")):
        if detail and detail not in hit.id:
            head.append(f"  {detail}", "dim")
    text = Text(hit.text)
    for start, end in mark(hit.text) if mark else ():
        text.stylize("bold yellow", start, end)
    return Group(head, Padding(_snippet(text, (width - INDENT - 1) * SNIPPET_LINES), (0, 0, 0, INDENT), expand=False))


def highlighter(query: str, config: IndexConfig) -> Highlighter:
    """Return what finds the query's terms in a text, in whichever form the analyzer knows them again."""
    analyzer = config.build_analyzer()
    terms = frozenset(_as_written(query_tokens(analyzer, query)))
    tokens_of = lru_cache(maxsize=10_000)(lambda text: frozenset(_as_written(analyzer(text))))

    def spans(text: str) -> list[tuple[int, int]]:
        present = terms & tokens_of(text)
        return list(_spans(text, present, tokens_of)) if present else []

    return spans


def _as_written(tokens: list[str]) -> Iterator[str]:
    """Yield tokens without the mark of bigrams."""
    return (token.removeprefix(BIGRAM_MARK) for token in tokens)


def _spans(text: str, terms: frozenset[str], tokens_of: Callable[[str], frozenset[str]]) -> Iterator[tuple[int, int]]:
    """Yield where words have one of the terms among their tokens; of Chinese runs, each part that is a term."""
    lengths = sorted({len(term) for term in terms}, reverse=True)
    for run in RUNS.finditer(text):
        if not re.match(f"[{HAN}]", run[0]):
            if terms & tokens_of(run[0]):
                yield run.span()
            continue
        for length in lengths:
            for start in range(run.start(), run.end() - length + 1):
                part = tokens_of(text[start : start + length])
                if any(len(term) == length for term in terms & part):
                    yield start, start + length


def _snippet(text: Text, width: int) -> Text:
    """Return a part of the text in one line, beginning a little before the first marked term."""
    first = min((span.start for span in text.spans), default=0)
    start = max(0, first - LEAD)
    part = text[start:] if start else text
    part.plain = re.sub(r"\s", " ", part.plain)
    part.truncate(width - 2, overflow="ellipsis")
    return Text("…").append_text(part) if start else part


# Trees and tables


def explanation_tree(explanation: Explanation) -> Tree:
    """Return an explanation as a tree with lines."""
    tree = Tree(_node(explanation), guide_style="dim")
    _grow(tree, explanation)
    return tree


def _grow(tree: Tree, explanation: Explanation) -> None:
    for detail in explanation.details:
        _grow(tree.add(_node(detail)), detail)


def _node(explanation: Explanation) -> Text:
    value = explanation.value
    shown = f"{value:,.0f}" if float(value).is_integer() else f"{value:.6g}"
    return Text.assemble((shown, "cyan"), f"  {explanation.description}")


def stats_table(stats: IndexStats) -> Text:
    """Return the figures of an index, with the drift report."""
    unit = stats.length_unit
    rows = {
        "chunks": f"{stats.num_chunks:,}",
        "terms": f"{stats.num_terms:,}",
        "namespaces": ", ".join(name or "(default)" for name in stats.namespaces) or "none",
        "mean IDF": f"{stats.average_idf:.4f}",
        "mean length": f"{stats.mean_length:,.1f} {unit}",
        "chunk size": f"{stats.chunk_size:g} {unit}",
        "weighting": stats.weighting,
        "k1, b": f"{stats.k1:g}, {stats.b:g}",
        "s": f"{stats.chunk_size_ratio:.3f} = chunk size / mean length",
        "k1', b'": f"{stats.effective_k1:.3f}, {stats.effective_b:.3f}: what k1 and b amount to with the mean length",
    }
    return _lines(Text(stats.name, style="bold"), rows)


def calibration_table(proposal: Calibration, split_size: int | None) -> Text:
    """Return a proposed chunk size, and how to use it where it is for files that are cut at `split_size`."""
    unit = proposal.length_unit
    rows = {
        "measured": f"{counted(proposal.chunks, 'chunk')}, mean length {proposal.mean_length:,.1f} {unit}",
        "s": f"{proposal.ratio:.3f} = chunk size / mean length",
        "k1', b'": f"{proposal.effective_k1:.3f}, {proposal.effective_b:.3f}: what k1 and b amount to",
    }
    if split_size is not None:
        rows["use"] = f"rag-bm25 ingest --chunk-size {proposal.chunk_size} --split-size {split_size}"
    return _lines(Text(f"chunk size {proposal.chunk_size:,} {unit}", style="bold"), rows)


def evaluation_table(name: str, result: EvaluationResult, config: IndexConfig) -> Text:
    """Return the measures and what they were measured with."""
    delta = config.document_weighting().delta
    parameters = {"k1": config.k1, "b": config.b, **({} if delta is None else {"delta": delta})}
    shown = ", ".join(f"{name} {value:g}" for name, value in parameters.items())
    size = f"chunk size {config.chunk_size:.1f} {config.length_unit}"
    fields = f", field {field_setting(config.fields)}" if config.fields else ""
    used = f"{config.weighting}, idf {config.idf}, {shown}, {size}{fields}"
    rows = {
        "nDCG@10": f"{result.measures.ndcg_10:.4f}",
        "Recall@100": f"{result.measures.recall_100:.4f}",
        "MRR@10": f"{result.measures.mrr_10:.4f}",
        "queries": f"{result.queries:,}, {result.queries_per_second:,.0f}/s",
        "chunks": f"{result.chunks:,}, {result.chunks_per_second:,.0f}/s",
    }
    return _lines(Text.assemble((name, "bold"), f": {used}"), rows)


def comparison_table(labels: Sequence[str], results: Sequence[EvaluationResult], tests: Sequence[PairedTest]) -> Table:
    """Return configurations side by side; the tests are of nDCG@10, of all but the first against the first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for heading in ("nDCG@10", "Recall@100", "MRR@10", "difference", "p", "better", "worse"):
        table.add_column(heading, justify="right")
    for label, result, test in zip(labels, results, (None, *tests), strict=True):
        measured = (f"{value:.4f}" for value in result.measures.to_dict().values())
        table.add_row(label, *measured, *(_test_cells(test) if test else ()))
    return table


def _test_cells(test: PairedTest) -> tuple[str, ...]:
    return f"{test.difference:+.4f}", _p_value(test), f"{test.better:,}", f"{test.worse:,}"


def _p_value(test: PairedTest) -> str:
    return f"{test.p_value:.4f}" if test.p_value >= 0.001 else "< 0.001"


def tuning_report(name: str, tuning: Tuning, confirmed: float | None, commands: Mapping[str, list[str]]) -> Text:
    """Return what tuning found, what may be expected of it, and how to use it."""
    test, folds = tuning.test, tuning.folds
    how = f"{len(folds)} folds" if len(folds) > 1 else "held-out split"
    rows = {
        "before": f"{tuning.base_mean:.4f}  {config_line(tuning.base)}",
        "tuned, on unseen queries": f"{tuning.held_out_mean:.4f}  {test.difference:+.4f}, p {_p_value(test)}, "
        f"{test.better:,} better, {test.worse:,} worse",
        **{
            f"  {f'fold {place}' if len(folds) > 1 else how}": f"{fold.tuned:.4f}  {fold.tuned - fold.base:+.4f}  "
            + (_settings_text(fold.settings) or "nothing changed")
            for place, fold in enumerate(folds, 1)
        },
        "verdict": _verdict(tuning),
        "winner": config_line(tuning.best),
        "its mean": f"{tuning.best_mean:.4f} on counts" + ("" if confirmed is None else f", {confirmed:.4f} in Milvus"),
        "tried": counted(len(tuning.points), "configuration"),
        **{f"rag-bm25 {command}": " ".join(flags) for command, flags in commands.items() if flags},
    }
    return _lines(Text.assemble((name, "bold"), f": {tuning.measure}, {how}"), rows)


def _verdict(tuning: Tuning) -> str:
    if not tuning.settings:
        return "nothing tried is better: keep what there is"
    if tuning.pays:
        return "tuning pays: the gain on unseen queries is significant"
    return "no significant gain on unseen queries: the winner may have been lucky"


def _settings_text(settings: Mapping[str, object]) -> str:
    """Return settings as they are written on the command line."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in settings.items())


def _lines(title: Text, rows: dict[str, str]) -> Text:
    """Return a title, and a line for each name and value."""
    width = max(map(len, rows))
    lines = [Text.assemble((f"{name:<{width}}", "dim"), f"  {value}") for name, value in rows.items()]
    return Text("\n").join([title, *lines])
