"""The score of a chunk, term by term: numbers in fields, a table, and the tree that they come from."""

from __future__ import annotations

import html
import unicodedata
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rag_bm25.budget import check_budget
from rag_bm25.query.explanation import (
    Explanation,
    explain_document_weight,
    explain_factors,
    explain_idf,
    explain_product,
    format_value,
)
from rag_bm25.query.min_should_match import required_words
from rag_bm25.vectors.terms import channel_of, is_word_bigram, term_name, term_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rag_bm25.query.explanation import ChunkFacts, QueryFacts

Channel = Literal["word", "bigram", "word bigram", "character"]

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
    channel : {"word", "bigram", "word bigram", "character"}
        Whether it is a word, two neighbouring characters, two neighbouring words, or a single character.
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
    factors : dict of str to float
        What the IDF is multiplied by, by name: ``"qtf"``, which `k3` saturates, and, where they apply, ``"boost"``,
        ``"bigram_weight"``, ``"character_weight"``, ``"word_bigram_weight"``, ``"latin_weight"``,
        ``"synonym_weight"``, ``"similarity"`` of a near spelling, ``"share"`` of an addition.
    query_weight : float
        Weight in the query, the product of `idf` and all `factors`, >= 0.
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
    factors: Mapping[str, float]
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
    group_key : str
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
    group_key: str = ""
    group: str | float | None = None
    group_score: float | None = None


@dataclass(frozen=True)
class ScoreExplanation(Explanation):
    """The score of a chunk for a query, and the numbers that it is made of.

    As text, it is a table with a line for each term; :attr:`tree` has each formula with its numbers.

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
            The columns are the term, its contribution, tf, df, IDF, its weight in the query and in the chunk, and what
            else there is: the factors other than 1 that make the query weight of the IDF, such as ``x2 latin_weight``.
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
        lines = []
        if self.terms:
            lines.append(f"N = {self.num_chunks:,} chunks; score = query * chunk; query = IDF * factors (x)")
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
    """Add reranking, grouping and rank to an explanation."""
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
    """Explain the score of one chunk for one query, as Milvus computes it, or the reason why it is 0."""
    explained = [_explain_term(query, chunk, at) for at in range(len(query.terms.terms))]
    score = sum(term.contribution for term, _ in explained)
    explained.sort(key=lambda pair: -pair[0].contribution)
    stop_words = [Explanation(0.0, f"{word!r} is a stop word: the analyzer leaves it out") for word in query.stop_words]
    what = f"score of chunk {chunk.id!r} for the query {query.text!r}"
    rounded = "" if query.tolerance is None else f", which the search gives to within {query.tolerance:.1%}"
    ending = f"{rounded}, sum of:"
    if reason := _why_zero(query, chunk, score):
        ending = f": {'left out' if score > 0 else 'not found'}, since {reason}"
    return ScoreExplanation(
        0.0 if reason else score,
        what + ending,
        (*(tree for _, tree in explained), *stop_words),
        query=query.text,
        id=chunk.id,
        namespace=namespace,
        num_chunks=query.corpus.num_chunks,
        length=chunk.text.length,
        length_unit=chunk.length_unit,
        terms=tuple(term for term, _ in explained),
        stop_words=tuple(query.stop_words),
        reason=reason,
    )


def _explain_term(query: QueryFacts, chunk: ChunkFacts, at: int) -> tuple[TermScore, Explanation]:
    """Collect the facts of a term, and make the tree of them."""
    check_budget()
    key = query.terms.terms[at]
    factors = explain_factors(query, at)
    idf = explain_idf(query, at) if query.terms.df[at] else Explanation(0.0, "0 for unknown terms")
    term = _score_term(query, chunk, at, factors, idf.value)
    name = f"{term_name(key)} ({term.source})" if term.source else term_name(key)
    if not term.weight:
        return term, Explanation(0.0, f"{name} {_why_no_weight(query, chunk, at)}")
    weights = (
        Explanation(term.query_weight, "query weight, product of:", (*factors, idf)),
        explain_document_weight(chunk, key, query.terms.ids[at], term.weight),
    )
    return term, Explanation(term.contribution, f"{name}, product of:", weights)


def _score_term(query: QueryFacts, chunk: ChunkFacts, at: int, factors: Sequence[Explanation], idf: float) -> TermScore:
    terms = query.terms
    term, df, query_weight = terms.terms[at], int(terms.df[at]), float(np.float32(terms.weights[at]))
    weight = chunk.vector.get(int(terms.ids[at])) if df else 0.0
    counts = {"text": chunk.text, **chunk.fields}
    tf = {name: count for name, counted in counts.items() if weight and (count := counted.tf.get(term, 0))}
    return TermScore(
        term_text(term),
        _channel_name(term),
        query_weight * weight,
        sum(tf.values()),
        int(terms.qtf[at]),
        df,
        idf,
        {factor.description.partition(",")[0]: factor.value for factor in factors},
        query_weight,
        weight,
        terms.sources[at].reason,
        tf if chunk.fields else {},
    )


def _channel_name(term: str) -> Channel:
    names: tuple[Channel, ...] = ("word", "word bigram" if is_word_bigram(term) else "bigram", "character")
    return names[channel_of(term)]


# Zeros


def _why_zero(query: QueryFacts, chunk: ChunkFacts, score: float) -> str:
    """Say why a search does not find a chunk with this sum of contributions; "" if it does."""
    if score > 0:
        return query.unmet or _missing_words(query, chunk)
    if any(_is_uncounted(query, chunk, at) for at in range(len(query.terms.terms))):
        return "no chunk that the statistics count has a word that it shares with the query"
    return "no term of the query is in the chunk" if len(query.terms.terms) else "the query has no terms"


def _why_no_weight(query: QueryFacts, chunk: ChunkFacts, at: int) -> str:
    """Say why a term has no weight in a chunk."""
    if _is_uncounted(query, chunk, at):
        return "has no weight: no chunk that the statistics count has it"
    if df := int(query.terms.df[at]):
        return f"is not in the chunk; df = {df:,} of N = {query.corpus.num_chunks:,} chunks have it"
    return "is unknown: no chunk has it"


def _is_uncounted(query: QueryFacts, chunk: ChunkFacts, at: int) -> bool:
    """Return whether the chunk has a term, and no chunk that the statistics count."""
    return int(query.terms.df[at]) == 0 and chunk.has(query.terms.terms[at])


def _missing_words(query: QueryFacts, chunk: ChunkFacts) -> str:
    """Say why `min_should_match` leaves a chunk out; "" if it does not."""
    if query.min_should_match is None:
        return ""
    words, had = query.terms.words, query.terms.words_had_by(chunk.vector)
    wanted = required_words(query.min_should_match, len(words))
    if len(had) >= wanted:
        return ""
    missing = ", ".join(map(repr, sorted(words - had)))
    return (
        f"it has {len(had)} of the {len(words)} words of the query, not {missing}, and min_should_match "
        f"{query.min_should_match!r} asks for {wanted}"
    )


# Text


def _cells_of(term: TermScore) -> tuple[str, ...]:
    """Return a line of the table."""
    numbers = (term.contribution, term.idf, term.query_weight, term.weight)
    score, idf, query_weight, weight = map(_number, numbers)
    return (_cut(term.term, MAX_TERM_CELLS), score, f"{term.tf:,}", f"{term.df:,}", idf, query_weight, weight)


def _note(term: TermScore) -> str:
    """Return the factors of the query weight other than 1, and what else the columns do not say of a term."""
    factors = {name: value for name, value in term.factors.items() if value != 1}
    notes = [" ".join(f"x{format_value(value)} {name}" for name, value in factors.items())] if factors else []
    weight_name = f"{term.channel.replace(' ', '_')}_weight"
    notes += [] if term.channel == "word" or weight_name in factors else [term.channel]
    notes += [term.source] if term.source else []
    notes += ["unknown"] if not term.df else []
    notes += [", ".join(f"{name} {tf:,}" for name, tf in term.fields.items())] if term.fields else []
    return "; ".join(notes)


def _placement_lines(placement: Placement) -> list[str]:
    lines = []
    if placement.reranker and placement.rerank_score is not None:
        score = _number(placement.rerank_score)
        lines.append(f"reranked: {score} by {placement.reranker}, in place of the score of the search")
    if placement.group_key and placement.rank is not None:
        group = "a group of its own" if placement.group is None else f"group {placement.group!r}"
        score = "" if placement.group_score is None else f", of score {_number(placement.group_score)}"
        lines.append(f"grouped by {placement.group_key!r}: {group}{score}")
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
