"""Scores that explain themselves: a tree of numbers, each with the formula that it comes from.

The shape, a value with a description and details, is that of Lucene's ``Explanation``.
"""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.fields import FieldWeight
from rag_bm25.min_should_match import required_words
from rag_bm25.similarity import idf_branches
from rag_bm25.sparse import EMPTY, SparseVector
from rag_bm25.terms import term_name
from rag_bm25.weightings import WEIGHTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.document_encoder import FieldCounts
    from rag_bm25.query_encoder import ChunkShare, FeedbackFactor, QueryTerms
    from rag_bm25.similarity import CorpusFigures, DocumentWeighting, QueryWeighting

__all__ = ["ChunkFacts", "Explanation", "QueryFacts", "explain"]


@dataclass(frozen=True)
class Explanation:
    """A number, what it is, and the numbers that it is made of.

    Parameters
    ----------
    value : float
        The number.
    description : str
        What it is; a formula, or the reason for a zero.
    details : tuple of Explanation
        What it is made of.

    Examples
    --------
    >>> print(Explanation(6.0, "area, product of:", (Explanation(2, "width"), Explanation(3, "height"))))
    6 = area, product of:
      2 = width
      3 = height
    """

    value: float
    description: str
    details: tuple[Explanation, ...] = ()

    def __str__(self) -> str:
        """Return an indented text, a line for each number."""
        lines = [f"{_shown(self.value)} = {self.description}"]
        lines += [f"  {line}" for detail in self.details for line in str(detail).splitlines()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as plain JSON values.

        Returns
        -------
        dict
            With the keys ``value``, ``description`` and ``details``.
        """
        return {
            "value": self.value,
            "description": self.description,
            "details": [detail.to_dict() for detail in self.details],
        }

    def to_json(self) -> str:
        """Return the tree as JSON.

        Returns
        -------
        str
            One object.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def _repr_html_(self) -> str:
        """Return nested lists, for notebooks."""
        line = f"<b>{_shown(self.value)}</b> {html.escape(self.description)}"
        details = "".join(f"<li>{detail._repr_html_()}</li>" for detail in self.details)
        return f"{line}<ul>{details}</ul>" if details else line


def _shown(value: float) -> str:
    """Return whole numbers whole, and others with six digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.6g}"


@dataclass(frozen=True, eq=False)
class QueryFacts:
    """The query's half of a score.

    Parameters
    ----------
    text : str
        The query.
    terms : QueryTerms
        Its terms and their weights.
    stop_words : sequence of str
        Words that the analyzer left out.
    weighting : QueryWeighting
        IDF and saturation.
    corpus : CorpusFigures
        N and the mean IDF.
    min_should_match : int or str, optional
        How many of its words a chunk has to have.
    """

    text: str
    terms: QueryTerms
    stop_words: Sequence[str]
    weighting: QueryWeighting
    corpus: CorpusFigures
    min_should_match: int | str | None = None


@dataclass(frozen=True, eq=False)
class ChunkFacts:
    """The chunk's half of a score.

    Parameters
    ----------
    id : str
        The user's id.
    text : FieldCounts
        Occurrences of each term, from analysing the stored text, and the stored length.
    fields : mapping of str to FieldCounts
        The same of each field beside the text.
    vector : SparseVector
        Stored weights.
    weighting : DocumentWeighting
        Form, k1, b, the chunk size, and the weights of the fields.
    length_unit : str
        Unit of length and chunk size.
    term_k1 : SparseVector
        Term id -> k1, where the weighting has one for each term.
    """

    id: str
    text: FieldCounts
    fields: Mapping[str, FieldCounts]
    vector: SparseVector
    weighting: DocumentWeighting
    length_unit: str
    term_k1: SparseVector = field(default_factory=lambda: EMPTY)


def explain(query: QueryFacts, chunk: ChunkFacts) -> Explanation:
    """Explain the score of one chunk for one query, or why it has none.

    Parameters
    ----------
    query : QueryFacts
        The query's half.
    chunk : ChunkFacts
        The chunk's half.

    Returns
    -------
    Explanation
        Its value is the score that Milvus gives, 0.0 where the chunk cannot be found.
    """
    details = [_term(query, chunk, at) for at in range(len(query.terms.terms))]
    details += [_reason(f"{word!r} is a stop word: the analyzer leaves it out") for word in query.stop_words]
    score = sum(detail.value for detail in details)
    what = f"score of chunk {chunk.id!r} for the query {query.text!r}"
    left_out = _left_out(query, chunk)
    if score > 0 and left_out:
        return Explanation(0.0, f"{what}: left out, since {left_out}", tuple(details))
    if score > 0:
        return Explanation(score, f"{what}, sum of:", tuple(details))
    why = "no term of the query is in the chunk" if len(query.terms.terms) else "the query has no terms"
    return Explanation(0.0, f"{what}: not found, since {why}", tuple(details))


def _left_out(query: QueryFacts, chunk: ChunkFacts) -> str:
    """Say why `min_should_match` leaves a chunk out, "" where it does not."""
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


def _reason(why: str) -> Explanation:
    return Explanation(0.0, why)


def _term(query: QueryFacts, chunk: ChunkFacts, at: int) -> Explanation:
    """Explain one term's contribution, or its absence."""
    terms = query.terms
    term, id_, df = terms.terms[at], int(terms.ids[at]), int(terms.df[at])
    name = _name(term, terms.origins[at].reason)
    if df == 0:
        return _reason(f"{name} is unknown: no chunk has it")
    stored = chunk.vector.get(id_)
    if stored == 0:
        return _reason(f"{name} is not in the chunk; df = {df:,} of N = {query.corpus.num_chunks:,} chunks have it")
    # As Milvus computes it: both weights are float32.
    weight = float(np.float32(terms.weights[at]))
    factors = (_query_weight(query, at, weight), _document_weight(chunk, term, id_, stored))
    return Explanation(weight * stored, f"{name}, product of:", factors)


def _name(term: str, reason: str) -> str:
    return f"{term_name(term)} ({reason})" if reason else term_name(term)


def _query_weight(query: QueryFacts, at: int, weight: float) -> Explanation:
    terms = query.terms
    origin = terms.origins[at]
    factors = [Explanation(value, what) for what, value in origin.factors]
    factors += [] if origin.feedback is None else [_feedback(origin.feedback)]
    factors += [_repetition(query.weighting, int(terms.qtf[at])), _idf(query, at)]
    return Explanation(weight, "query weight, product of:", tuple(factors))


def _feedback(factor: FeedbackFactor) -> Explanation:
    """Explain what feedback multiplies a weight by, chunk by chunk."""
    chunks = tuple(_chunk_share(chunk, stored) for chunk, stored in factor.shares)
    if not factor.own:
        return Explanation(factor.value, "weight that feedback gives, sum of:", chunks)
    addition = "addition, sum of:" if chunks else "addition: none, from no chunk of the feedback"
    details = (
        Explanation(factor.keep, factor.keep_name),
        Explanation(factor.addition, addition, chunks),
        Explanation(factor.own, "own, weight of the term in the query before feedback and IDF"),
    )
    return Explanation(factor.value, f"feedback, {factor.keep_name} + addition / own, at least 0, from:", details)


def _chunk_share(chunk: ChunkShare, stored: float) -> Explanation:
    parts = tuple(Explanation(value, what) for what, value in chunk.parts)
    share = Explanation(chunk.share, f"share of the chunk, {chunk.formula} from:", parts)
    details = (share, Explanation(stored, "weight of the term there, as stored"))
    return Explanation(chunk.share * stored, f"chunk {chunk.chunk!r}, product of:", details)


def _repetition(weighting: QueryWeighting, qtf: int) -> Explanation:
    if weighting.k3 is None:
        return Explanation(qtf, "qtf, occurrences in the query")
    details = (Explanation(qtf, "qtf, occurrences in the query"), Explanation(weighting.k3, "k3"))
    value = float(weighting.term_weights(qtf))
    return Explanation(value, "saturated qtf, qtf * (k3 + 1) / (qtf + k3) from:", details)


def _idf(query: QueryFacts, at: int) -> Explanation:
    """Explain the IDF by the branch that was taken."""
    weighting, corpus = query.weighting, query.corpus
    known = _df(query, at)
    branches = idf_branches(weighting.idf, known.value, corpus, weighting.epsilon)
    branch = next(branch for branch in branches if branch.applies)
    details = [known, Explanation(corpus.num_chunks, "N, chunks")]
    if "epsilon" in branch.formula:
        details.append(Explanation(weighting.epsilon, "epsilon"))
    if "avgIDF" in branch.formula:
        details.append(Explanation(corpus.average_idf, "avgIDF, mean over all terms"))
    return Explanation(float(branch.values), f"idf {weighting.idf!r}, {branch.formula} from:", tuple(details))


def _df(query: QueryFacts, at: int) -> Explanation:
    """Explain the df that the IDF was given: the term's own, or where chunks are marked, one that stands for them."""
    relevance, num_chunks = query.terms.relevance, query.corpus.num_chunks
    df = Explanation(int(query.terms.df[at]), "df, chunks with the term")
    if relevance is None:
        return df
    details = (
        df,
        Explanation(num_chunks, "N, chunks"),
        Explanation(int(relevance.r[at]), "r, relevant chunks with the term"),
        Explanation(relevance.num_relevant, "R, relevant chunks"),
    )
    formula = "ln(((r + 0.5) / (R - r + 0.5)) / ((df - r + 0.5) / (N - df - R + r + 0.5)))"
    value = float(relevance.weights(query.terms.df, num_chunks)[at])
    weight = Explanation(value, f"w, relevance weight, {formula} from:", details)
    informed = float(relevance.equivalent_df(query.terms.df, num_chunks)[at])
    what = "df that stands for w in the IDF, (N + 1) / (1 + e^w) - 0.5 from:"
    return Explanation(informed, what, (weight, Explanation(num_chunks, "N, chunks")))


def _document_weight(chunk: ChunkFacts, term: str, id_: int, stored: float) -> Explanation:
    """Explain a stored weight by its form, with the parameters that the form has."""
    weighting = chunk.weighting
    formula = WEIGHTINGS[weighting.form].formula
    normed = "norm" in formula
    if chunk.fields:
        formula, normed = re.sub(" [*/] norm", "", formula), False
        details = [_combined(chunk, term)]
    else:
        formula = formula.replace("norm", _norm_formula(weighting))
        details = [Explanation(chunk.text.tf.get(term, 0), "tf, occurrences in the chunk")]
    if "k1" in formula:
        details.append(_k1(chunk, id_, details[0].value, stored))
    if normed:
        details += _length(weighting, weighting.b, weighting.chunk_size, chunk.text.length, chunk.length_unit, "chunk")
    if weighting.delta is not None:
        details.append(Explanation(weighting.delta, "delta"))
    return Explanation(stored, f"stored weight, {formula} from:", tuple(details))


def _k1(chunk: ChunkFacts, id_: int, tf: float, stored: float) -> Explanation:
    """Explain the k1; where terms have their own, a chunk has the one that its term had when it was encoded."""
    weighting = chunk.weighting
    if not WEIGHTINGS[weighting.form].k1_per_term:
        return Explanation(weighting.k1, "k1, saturation")
    own = chunk.term_k1.get(id_) if id_ in chunk.term_k1.ids else None
    k1 = weighting.k1 if own is None else own
    norm = 1.0 if chunk.fields else float(weighting.norm(chunk.text.length))
    if math.isclose(float(weighting.combined_weights(tf / norm, k1)), stored, rel_tol=1e-5):
        return Explanation(k1, "k1, saturation" if own is None else "k1, saturation of this term")
    then = tf * (1 - stored) / (norm * stored - tf)  # the formula, solved for k1
    return Explanation(then, "k1, saturation of this term when the chunk was encoded; reencode brings it up to date")


def _norm_formula(weighting: DocumentWeighting) -> str:
    """Return the length norm in words; a form may have all of the length in it."""
    return "(1 - b + b * length / chunk_size)" if WEIGHTINGS[weighting.form].b is None else "(length / chunk_size)"


def _length(
    weighting: DocumentWeighting, b: float, chunk_size: float, length: int, unit: str, of: str
) -> list[Explanation]:
    """Return the numbers of a length norm."""
    share = [Explanation(b, "b, share of the length")] if WEIGHTINGS[weighting.form].b is None else []
    return [
        *share,
        Explanation(length, f"length of the {of} in {unit}"),
        Explanation(chunk_size, f"chunk_size in {unit}, in place of the mean length"),
    ]


def _combined(chunk: ChunkFacts, term: str) -> Explanation:
    """Explain the frequency that the fields add up to."""
    parts = [_field(chunk, term, None), *(_field(chunk, term, name) for name in chunk.fields)]
    what = "tf, occurrences weighted and normalised by field, sum of:"
    return Explanation(math.fsum(part.value for part in parts), what, tuple(parts))


def _field(chunk: ChunkFacts, term: str, name: str | None) -> Explanation:
    """Explain what one field adds to the frequency; None is the text."""
    weighting = chunk.weighting
    counts = chunk.text if name is None else chunk.fields[name]
    of = FieldWeight(chunk_size=weighting.chunk_size, b=weighting.b) if name is None else weighting.fields[name]
    where = "text" if name is None else f"field {name!r}"
    tf = counts.tf.get(term, 0)
    if not tf:
        return _reason(f"not in the {where}")
    details = [Explanation(of.weight, "weight"), Explanation(tf, f"tf, occurrences in the {where}")]
    formula = "weight * tf"
    if WEIGHTINGS[weighting.form].b != 0:
        formula = f"{formula} / {_norm_formula(weighting)}"
        details += _length(weighting, of.b, of.chunk_size, counts.length, chunk.length_unit, where)
    value = float(weighting.frequencies(tf, counts.length, name))
    return Explanation(value, f"in the {where}, {formula} from:", tuple(details))
