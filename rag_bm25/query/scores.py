"""The score of a chunk, term by term: numbers in fields, a table, and the tree that they come from."""

from __future__ import annotations

import html
import unicodedata
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rag_bm25.query.explanation import Explanation, contribution, explain, explain_idf, explain_product, why_zero
from rag_bm25.vectors.terms import is_bigram, is_word_bigram, term_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rag_bm25.query.explanation import ChunkFacts, QueryFacts

Channel = Literal["word", "bigram", "word bigram"]

TABLE_WIDTH = 80
MAX_TERM_CELLS = 24
MAX_QUERY_CELLS = 60
COLUMNS = ("term", "score", "tf", "df", "IDF", "query", "chunk")


@dataclass(frozen=True)
class TermScore:
    """Contribution of one term of a query to the score of a chunk.

    Parameters
    ----------
    term : str
        The term, as the analyzer makes it of a word.
    channel : {"word", "bigram", "word bigram"}
        Whether it is a word, two neighbouring characters, or two neighbouring words.
    contribution : float
        ``query_weight * weight``, the share of the score, >= 0.
    tf : int
        Occurrences in the chunk, in its text and its fields.
    qtf : int
        Occurrences in the query.
    df : int
        Chunks with the term, among those that count for the statistics.
    idf : float
        The IDF by the formula of the search; 0.0 if `df` is 0.
    query_weight : float
        Weight in the query: the IDF times repetition, boosts and other factors, >= 0.
    weight : float
        Weight in the chunk, as it is stored, >= 0; 0.0 if the chunk does not have the term.
    source : str
        Why the term is in the query, such as ``"synonym of 'contract'"``; empty for a term of the query itself.
    fields : dict of str to int
        Occurrences in the text, under ``"text"``, and in each field with the term; empty if the index has no fields.
    """

    term: str
    channel: Channel
    contribution: float
    tf: int
    qtf: int
    df: int
    idf: float
    query_weight: float
    weight: float
    source: str = ""
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Placement:
    """Place of a chunk among the hits of a search that reranks, groups or chooses them.

    Parameters
    ----------
    k : int
        Maximum number of hits, or groups of them.
    rank : int or None
        Place among the hits, from 1; None if the chunk is not among them.
    reranker : str
        Name of the reranker; empty without one.
    num_reranked : int
        Number of hits that the reranker scored.
    rerank_score : float or None
        Its score of the chunk; None without a reranker, or if it did not get the chunk.
    group_by : str
        Metadata key of the groups; empty without groups.
    group : str, int, float, bool or None
        Value of the chunk under the key; None if the chunk is a group of its own.
    group_score : float or None
        Score of its group; None if the chunk is not among the hits.
    """

    k: int
    rank: int | None
    reranker: str = ""
    num_reranked: int = 0
    rerank_score: float | None = None
    group_by: str = ""
    group: str | float | None = None
    group_score: float | None = None


@dataclass(frozen=True)
class ScoreExplanation(Explanation):
    """The score of a chunk for a query, and the numbers that it is made of.

    As text, it is a table with a line for each term; :meth:`tree` has each formula with its numbers.

    Parameters
    ----------
    value, description, details
        The root of the tree, see :class:`Explanation`. `value` is the score of the hit, 0.0 if no search finds it.
    query : str
        Text of the query.
    id, namespace : str
        The chunk.
    num_chunks : int
        N, the chunks that count for the statistics.
    length : int
        Length of the chunk.
    length_unit : str
        Its unit, as in the config.
    terms : tuple of TermScore
        All terms of the query, by falling contribution.
    stop_words : tuple of str
        Words of the query that the analyzer leaves out.
    reason : str
        Why a search leaves the chunk out, as a clause; empty if it does not.
    factors : tuple of Explanation
        The factors of `boosts`.
    placement : Placement or None
        What reranking and grouping make of the hit; None without these.

    Examples
    --------
    ::

        explanation = index.explain("解除 合同", hits[0].id)
        print(explanation)
        explanation.terms[0].idf
    """

    query: str = ""
    id: str = ""
    namespace: str = ""
    num_chunks: int = 0
    length: int = 0
    length_unit: str = ""
    terms: tuple[TermScore, ...] = ()
    stop_words: tuple[str, ...] = ()
    reason: str = ""
    factors: tuple[Explanation, ...] = ()
    placement: Placement | None = None

    @property
    def bm25_score(self) -> float:
        """Sum of the contributions, before boosts and reranking; conditions do not change it."""
        return sum(term.contribution for term in self.terms)

    def __str__(self) -> str:
        return self.table()

    def table(self, width: int = TABLE_WIDTH) -> str:
        """Return a table with a line for each term, and lines for what else makes up the score.

        Parameters
        ----------
        width : int
            Columns of a terminal; ideographs take two. What does not fit goes to a line of its own.

        Returns
        -------
        str
            The columns are the term, its contribution, tf, df, IDF, its weight in the query and in the chunk.
        """
        title = f"{self.id!r} for {_cut(repr(self.query), MAX_QUERY_CELLS)}"
        rows = [_cells_of(term) for term in self.terms]
        lines = [f"{_number(self.value)}  {title}"]
        lines += _align([COLUMNS, *rows], ["", *map(_note, self.terms)], width) if rows else []
        return "\n".join([*lines, *self._remarks()])

    def to_dict(self, *, tree: bool = False) -> dict[str, Any]:
        """Return the numbers as plain JSON values.

        Parameters
        ----------
        tree : bool
            Whether to add the formulas, as ``details``.

        Returns
        -------
        dict
            The score as ``value``, and all fields but the tree.
        """
        return {
            "value": self.value,
            "query": self.query,
            "id": self.id,
            "namespace": self.namespace,
            "reason": self.reason,
            "bm25_score": self.bm25_score,
            "num_chunks": self.num_chunks,
            "length": self.length,
            "length_unit": self.length_unit,
            "terms": [asdict(term) for term in self.terms],
            "stop_words": list(self.stop_words),
            "factors": [{"value": factor.value, "description": factor.description} for factor in self.factors],
            "placement": None if self.placement is None else asdict(self.placement),
            **({"description": self.description, "details": [each.to_dict() for each in self.details]} if tree else {}),
        }

    def _remarks(self) -> list[str]:
        """Return the lines below the table."""
        lines = [f"N = {self.num_chunks:,} chunks; score = query weight * chunk weight"] if self.terms else []
        if self.stop_words:
            lines.append(f"stop words, which the analyzer leaves out: {', '.join(self.stop_words)}")
        if self.reason:
            lines.append(f"not found: {self.reason}")
        if self.factors:
            lines.append(f"boosts: {_number(self.bm25_score)}, times")
            lines += [f"  {_number(factor.value)}  {factor.description}" for factor in self.factors]
        return lines if self.placement is None else [*lines, *_placement_lines(self.placement)]

    def _repr_html_(self) -> str:
        rows = [[*_cells_of(term), _note(term)] for term in self.terms]
        head = "".join(f"<th>{name}</th>" for name in (*COLUMNS, ""))
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        remarks = "<br>".join(map(html.escape, self._remarks()))
        title = html.escape(f"{self.id!r} for {self.query!r}")
        return (
            f"<b>{_number(self.value)}</b> {title}<table><tr>{head}</tr>{body}</table>{remarks}"
            f"<details><summary>formulas</summary>{super()._repr_html_()}</details>"
        )


def with_factors(explained: ScoreExplanation, factors: Sequence[Explanation]) -> ScoreExplanation:
    """Multiply an explained score by the factors of boosts."""
    if not factors:
        return explained
    tree = explain_product(_tree_of(explained), factors)
    return replace(
        explained, value=tree.value, description=tree.description, details=tree.details, factors=tuple(factors)
    )


def with_placement(explained: ScoreExplanation, placement: Placement) -> ScoreExplanation:
    """Add to an explained score what was made of the hit."""
    if not placement.reranker or explained.value <= 0:
        return replace(explained, placement=placement)
    details, name = (_tree_of(explained),), placement.reranker
    if placement.rerank_score is None:
        reason = _why_not_reranked(placement)
        what = f"left out, since {reason}:"
        return replace(explained, value=0.0, description=what, details=details, reason=reason, placement=placement)
    what = f"score of {name}, in place of:"
    return replace(explained, value=placement.rerank_score, description=what, details=details, placement=placement)


def explain_placement(score: Explanation, placement: Placement) -> Explanation:
    """Explain what was made of a hit with a score that has no table."""
    lines, value = _placement_lines(placement), score.value
    if placement.reranker:
        value = placement.rerank_score or 0.0
        lines = [f"left out, since {_why_not_reranked(placement)}"] if placement.rerank_score is None else lines
    return Explanation(value, f"{'; '.join(lines)}; from:", (score,))


def _why_not_reranked(placement: Placement) -> str:
    return f"it is not among the {placement.num_reranked:,} best hits, which {placement.reranker} scores"


def _tree_of(explained: ScoreExplanation) -> Explanation:
    return Explanation(explained.value, explained.description, explained.details)


def explain_score(query: QueryFacts, chunk: ChunkFacts, namespace: str) -> ScoreExplanation:
    """Explain the score of one chunk for one query, as Milvus computes it."""
    tree = explain(query, chunk)
    terms = [_score_term(query, chunk, at) for at in range(len(query.terms.terms))]
    return ScoreExplanation(
        tree.value,
        tree.description,
        tree.details,
        query=query.text,
        id=chunk.id,
        namespace=namespace,
        num_chunks=query.corpus.num_chunks,
        length=chunk.text.length,
        length_unit=chunk.length_unit,
        terms=tuple(sorted(terms, key=lambda term: -term.contribution)),
        stop_words=tuple(query.stop_words),
        reason=why_zero(query, chunk, sum(term.contribution for term in terms)),
    )


def _score_term(query: QueryFacts, chunk: ChunkFacts, at: int) -> TermScore:
    terms = query.terms
    term, df = terms.terms[at], int(terms.df[at])
    weight = chunk.vector.get(int(terms.ids[at])) if df else 0.0
    counts = {"text": chunk.text, **chunk.fields}
    tf = {name: count for name, counted in counts.items() if weight and (count := counted.tf.get(term, 0))}
    return TermScore(
        term_text(term),
        "word" if not is_bigram(term) else "word bigram" if is_word_bigram(term) else "bigram",
        contribution(query, chunk, at) if df else 0.0,
        sum(tf.values()),
        int(terms.qtf[at]),
        df,
        explain_idf(query, at).value if df else 0.0,
        float(np.float32(terms.weights[at])),
        weight,
        terms.sources[at].reason,
        tf if chunk.fields else {},
    )


# Text


def _cells_of(term: TermScore) -> tuple[str, ...]:
    """Return a line of the table."""
    numbers = (term.contribution, term.idf, term.query_weight, term.weight)
    score, idf, query_weight, weight = map(_number, numbers)
    return (_cut(term.term, MAX_TERM_CELLS), score, f"{term.tf:,}", f"{term.df:,}", idf, query_weight, weight)


def _note(term: TermScore) -> str:
    """Return what the columns do not say of a term."""
    notes: list[str] = [] if term.channel == "word" else [term.channel]
    notes += [term.source] if term.source else []
    notes += ["unknown"] if not term.df else []
    notes += [", ".join(f"{name} {tf:,}" for name, tf in term.fields.items())] if term.fields else []
    return "; ".join(notes)


def _placement_lines(placement: Placement) -> list[str]:
    lines = []
    if placement.reranker and placement.rerank_score is not None:
        score = _number(placement.rerank_score)
        lines.append(f"reranked: {score} by {placement.reranker}, in place of the score of the search")
    if placement.group_by and placement.rank is not None:
        group = "a group of its own" if placement.group is None else f"group {placement.group!r}"
        score = "" if placement.group_score is None else f", of score {_number(placement.group_score)}"
        lines.append(f"grouped by {placement.group_by!r}: {group}{score}")
    place = "not among the hits" if placement.rank is None else f"hit {placement.rank:,}"
    return [*lines, f"place: {place}, with k = {placement.k:,}"]


def _number(value: float) -> str:
    """Return a number with four digits after the point, a small one with those that count."""
    return f"{value:.3g}" if abs(value) < 0.001 else f"{value:,.4f}"


def _align(rows: Sequence[Sequence[str]], notes: Iterable[str], width: int) -> list[str]:
    """Align the first column to the left and the others to the right, by what they take on a terminal."""
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for (name, *numbers), note in zip(rows, notes, strict=True):
        padded = [f"{' ' * (size - len(number))}{number}" for number, size in zip(numbers, widths[1:], strict=True)]
        line = "  ".join([name + " " * (widths[0] - cell_width(name)), *padded])
        fits = cell_width(line) + 2 + cell_width(note) <= width
        lines += [line] if not note else [f"{line}  {note}"] if fits else [line, f"    {note}"]
    return lines


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for an ideograph, none for a combining mark."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(text: str, cells: int) -> str:
    """Cut a text to a width, and end it with an ellipsis then."""
    if cell_width(text) <= cells:
        return text
    kept = ""
    for character in text:
        if cell_width(kept) + _cells(character) >= cells:
            break
        kept += character
    return f"{kept}…"
