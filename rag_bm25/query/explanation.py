"""Explain scores: a tree of numbers, each with its formula.

The shape, a value with a description and details, is that of Lucene's ``Explanation``.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.documents.lengths import unit_name
from rag_bm25.vectors.terms import channel_of, is_bigram, is_word_bigram
from rag_bm25.weighting.fields import FieldWeight
from rag_bm25.weighting.formulas import WEIGHTINGS
from rag_bm25.weighting.idf import idf_branches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.documents.encoder import FieldCounts
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.vectors.sparse import SparseVector
    from rag_bm25.weighting.document import DocumentWeighting
    from rag_bm25.weighting.idf import IdfInputs
    from rag_bm25.weighting.query import QueryWeighting
    from rag_bm25.weighting.term_k1 import TermK1


@dataclass(frozen=True)
class Explanation:
    """A number, its formula, and the numbers that the formula needs.

    Parameters
    ----------
    value : float
        The number.
    description : str
        Its formula or meaning, or the reason for a zero.
    details : tuple of Explanation
        The numbers of the formula.

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
        return self.tree

    @property
    def tree(self) -> str:
        """The tree as text, a number a line: the numbers of a formula are below it, indented."""
        lines = [f"{format_value(self.value)} = {self.description}"]
        lines += [f"  {line}" for detail in self.details for line in detail.tree.splitlines()]
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

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.tree)}</pre>"


def format_value(value: float) -> str:
    """Return whole numbers whole, and others with six digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.6g}"


def boosted(score: float, factor: float) -> float:
    """Multiply a score by a factor; a fused score below 0, which a small factor would raise, stays as it is."""
    return score * factor if score > 0 else score


def explain_product(score: Explanation, factors: Sequence[Explanation]) -> Explanation:
    """Explain a score that is multiplied by factors, if there are any."""
    if not factors:
        return score
    value = boosted(score.value, math.prod(factor.value for factor in factors))
    what = "boosted score, product of:" if score.value >= 0 else "score below 0, which factors leave as it is:"
    return Explanation(value, what, (score, *factors))


@dataclass(frozen=True, eq=False)
class QueryFacts:
    """The query's half of a score."""

    text: str
    terms: QueryTerms
    stop_words: Sequence[str]  # that the analyzer dropped
    weighting: QueryWeighting
    corpus: IdfInputs
    min_should_match: int | str | None = None
    tolerance: float | None = None  # of the score of the search, if the engine rounds the weights in its index
    unmet: str = ""  # the condition that the chunk does not meet, as a clause
    learned: TermK1 | None = None  # which has G(1)


@dataclass(frozen=True, eq=False)
class ChunkFacts:
    """The chunk's half of a score."""

    id: str
    text: FieldCounts  # of the stored text, with the stored length
    fields: Mapping[str, FieldCounts]
    vector: SparseVector  # as it is scored
    weighting: DocumentWeighting
    length_unit: str
    stored: DocumentWeighting | None = None  # of the stored vector, if known

    @property
    def kind_of_weight(self) -> str:
        """Whether the weights of the vector are stored, or those that a search asks for."""
        return "stored weight" if self.stored in (None, self.weighting) else "weight of this search"

    def has_mean(self, name: str | None) -> bool:
        """Return whether the mean length stands in the norm of the text (None), which no field has."""
        return name is None and self.stored is not None and self.stored.chunk_size != self.weighting.chunk_size

    def has(self, term: str) -> bool:
        """Return whether a term is in the text or a field, whatever its weight."""
        return any(term in counts.tf for counts in (self.text, *self.fields.values()))


def explain_factors(query: QueryFacts, at: int) -> list[Explanation]:
    """Explain the factors of a term's query weight but for the IDF; each description begins with a name and a comma."""
    factors = [Explanation(value, what) for what, value in query.terms.sources[at].factors]
    return [*factors, _explain_repetition(query.weighting, int(query.terms.qtf[at]))]


def _explain_repetition(weighting: QueryWeighting, qtf: int) -> Explanation:
    if weighting.k3 is None or qtf == 1:  # which stays 1
        return Explanation(qtf, "qtf, occurrences in the query")
    details = (Explanation(qtf, "qtf, occurrences in the query"), Explanation(weighting.k3, "k3"))
    value = float(weighting.term_weights(qtf))
    return Explanation(value, "qtf, saturated: qtf * (k3 + 1) / (qtf + k3) from:", details)


def explain_idf(query: QueryFacts, at: int) -> Explanation:
    """Explain the IDF by the branch of its formula that applies."""
    weighting, corpus = query.weighting, query.corpus
    known = _explain_df(query, at)
    channel = channel_of(query.terms.terms[at])
    branches = idf_branches(weighting.idf, known.value, corpus, weighting.epsilon, channel, _gain(query, at))
    branch = next(branch for branch in branches if branch.applies)
    if "df" not in branch.formula:
        return Explanation(float(branch.values), f"idf {weighting.idf!r}, {branch.formula}")
    details = [known, Explanation(corpus.num_chunks, "N, chunks")]
    if "epsilon" in branch.formula:
        details.append(Explanation(weighting.epsilon, "epsilon"))
    if "avgIDF" in branch.formula:
        of_all = ("words", "bigrams", "single characters")[channel]
        details.append(Explanation(float(corpus.average_idfs(channel)), f"avgIDF, mean over all {of_all}"))
    return Explanation(float(branch.values), f"idf {weighting.idf!r}, {branch.formula} from:", tuple(details))


def _gain(query: QueryFacts, at: int) -> float:
    """Return the G(1) that counts in the IDF, NaN for none: with marked chunks, their counts stand in its place."""
    if query.learned is None or query.terms.relevance is not None:
        return math.nan
    return float(query.learned.get("gain", query.terms.ids[at : at + 1])[0])


def _explain_df(query: QueryFacts, at: int) -> Explanation:
    """Explain the df in the IDF: the term's own, or with marked chunks the one that stands for their counts."""
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


def explain_document_weight(chunk: ChunkFacts, term: str, id_: np.uint32, stored: float) -> Explanation:
    """Explain a stored weight by the formula of its form."""
    weighting = chunk.weighting
    formula = WEIGHTINGS[weighting.form].formula
    normed = "norm" in formula
    if chunk.fields:
        formula, normed = re.sub(" [*/] norm", "", formula), False
        details = [_explain_fields(chunk, term)]
    else:
        formula = formula.replace("norm", _norm_formula(chunk))
        details = [Explanation(chunk.text.tf.get(term, 0), _what_tf(term, "chunk"))]
    if "k1" in formula:
        details.append(_explain_k1(weighting, id_))
    if normed:
        norm = FieldWeight(chunk_size=weighting.chunk_size, b=weighting.b)
        details += _explain_length(chunk, norm, chunk.text.length, None, "chunk")
    if weighting.delta is not None:
        details.append(Explanation(weighting.delta, "delta"))
    return Explanation(stored, f"{chunk.kind_of_weight}, {formula} from:", tuple(details))


def _explain_k1(weighting: DocumentWeighting, id_: np.uint32) -> Explanation:
    """Explain the k1 of a term, which may be its own."""
    what = "k1, saturation"
    if weighting.k1_of_terms is None:
        return Explanation(weighting.k1, what)
    table, method = weighting.k1_of_terms
    own = float(table.get(method, np.array([id_]))[0])
    if math.isnan(own):
        return Explanation(weighting.k1, f"{what} of the index: this term has none of its own")
    return Explanation(own, f"{what} of this term by {method!r}")


def _what_tf(term: str, where: str) -> str:
    """Say what is counted: a sentence may have a bigram of characters once, however often it occurs in it."""
    if is_bigram(term) and not is_word_bigram(term):
        return f"tf, as often as the analyzer returns it for the {where}"
    return f"tf, occurrences in the {where}"


def _norm_formula(chunk: ChunkFacts, name: str | None = None) -> str:
    ratio = "length / mean_length" if chunk.has_mean(name) else "length / chunk_size"
    return f"(1 - b + b * {ratio})" if WEIGHTINGS[chunk.weighting.form].b is None else f"({ratio})"


def _explain_length(chunk: ChunkFacts, norm: FieldWeight, length: int, name: str | None, of: str) -> list[Explanation]:
    """Explain the numbers of a length norm."""
    share = [Explanation(norm.b, "b, share of the length")] if WEIGHTINGS[chunk.weighting.form].b is None else []
    of_chunk = Explanation(length, f"length of the {of} in {unit_name(chunk.length_unit)}")
    constant = f"chunk_size in {unit_name(chunk.length_unit)}, in place of the mean length"
    middle = f"mean_length, of the chunks in {unit_name(chunk.length_unit)}" if chunk.has_mean(name) else constant
    return [*share, of_chunk, Explanation(norm.chunk_size, middle)]


def _explain_fields(chunk: ChunkFacts, term: str) -> Explanation:
    """Explain the combined frequency of text and fields."""
    parts = [_explain_field(chunk, term, name) for name in (None, *chunk.fields)]
    what = "tf, occurrences weighted and normalised by field, sum of:"
    return Explanation(math.fsum(part.value for part in parts), what, tuple(parts))


def _explain_field(chunk: ChunkFacts, term: str, name: str | None) -> Explanation:
    """Explain the part of one field, or of the text (None), in the combined frequency."""
    weighting = chunk.weighting
    counts = chunk.text if name is None else chunk.fields[name]
    of = FieldWeight(chunk_size=weighting.chunk_size, b=weighting.b) if name is None else weighting.fields[name]
    where = "text" if name is None else f"field {name!r}"
    tf = counts.tf.get(term, 0)
    if not tf:
        return Explanation(0.0, f"not in the {where}")
    details = [Explanation(of.weight, "weight"), Explanation(tf, _what_tf(term, where))]
    formula = "weight * tf"
    if WEIGHTINGS[weighting.form].b != 0:
        formula = f"{formula} / {_norm_formula(chunk, name)}"
        details += _explain_length(chunk, of, counts.length, name, where)
    value = float(weighting.frequencies(tf, counts.length, name))
    return Explanation(value, f"in the {where}, {formula} from:", tuple(details))
