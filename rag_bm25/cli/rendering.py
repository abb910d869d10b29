"""Results as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from rag_bm25.analysis import query_tokens
from rag_bm25.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from rag_bm25.chunks import Hit
    from rag_bm25.config import IndexConfig
    from rag_bm25.evaluation import EvaluationResult
    from rag_bm25.explanation import Explanation
    from rag_bm25.index import IndexStats

__all__ = ["Highlighter", "counted", "evaluation_table", "explanation_tree", "highlighter", "hit_lines", "stats_table"]

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


def evaluation_table(name: str, result: EvaluationResult, config: IndexConfig) -> Text:
    """Return the measures and what they were measured with."""
    delta = config.document_weighting().delta
    parameters = {"k1": config.k1, "b": config.b, **({} if delta is None else {"delta": delta})}
    shown = ", ".join(f"{name} {value:g}" for name, value in parameters.items())
    size = f"chunk size {config.chunk_size:.1f} {config.length_unit}"
    used = f"{config.weighting}, idf {config.idf}, {shown}, {size}"
    rows = {
        "nDCG@10": f"{result.measures.ndcg_10:.4f}",
        "Recall@100": f"{result.measures.recall_100:.4f}",
        "MRR@10": f"{result.measures.mrr_10:.4f}",
        "queries": f"{result.queries:,}, {result.queries_per_second:,.0f}/s",
        "chunks": f"{result.chunks:,}, {result.chunks_per_second:,.0f}/s",
    }
    return _lines(Text.assemble((name, "bold"), f": {used}"), rows)


def _lines(title: Text, rows: dict[str, str]) -> Text:
    """Return a title, and a line for each name and value."""
    width = max(map(len, rows))
    lines = [Text.assemble((f"{name:<{width}}", "dim"), f"  {value}") for name, value in rows.items()]
    return Text("\n").join([title, *lines])
