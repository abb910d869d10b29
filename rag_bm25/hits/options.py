"""Options for what a search makes of its hits: one set for all methods that return hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from rag_bm25.checks import check_callable, check_choice, check_int, check_parameter, comparable
from rag_bm25.documents.chunks import Hit
from rag_bm25.errors import ParameterError
from rag_bm25.hits.boosts import Boost, check_boosts, check_metadata_key
from rag_bm25.hits.groups import Grouping, GroupScore
from rag_bm25.hits.highlights import Highlighting, check_highlight
from rag_bm25.query.options import QUERY_OPTIONS, QueryOptions

Expansion = Literal["neighbors", "document"]
Rerank: TypeAlias = Callable[[str, Sequence[Hit]], Sequence[float]]
"""A function of the query and hits that returns a score for each of them."""

MAX_K = 16_384  # no engine returns more hits of a query
DEFAULT_CANDIDATES = 100
NAMES_OF_K = ("top_k", "limit", "n", "size", "num_results", "topk", "top_n")
"""What other libraries call `k`."""


class HitOptions(TypedDict, total=False):
    """Options for what a search makes of its hits. They take effect in this order; by default, none does.

    Attributes
    ----------
    boosts : sequence of Decay, ValueBoost and FunctionBoost
        Factors of the score that depend on the metadata. More candidates are looked at until no other chunk can be
        among the best, even with the largest factors.
    rerank : callable of (str, sequence of Hit) to sequence of float
        Scores the `candidates` best hits again, in place of their scores, such as a cross-encoder; higher is better.
    near_duplicates : float
        Leave out hits whose stored vectors have at least this cosine with that of a better hit, in (0, 1]; 0.9 is a
        good begin. Other hits take their places.
    group_by : str
        Metadata key, such as ``"source"``: `k` counts groups of hits with the same text, number or bool under it. A hit
        without one is a group of its own. More candidates are looked at until there are `k` groups.
    group_size : int
        Maximum number of hits of a group, one after the other, best first; 1 by default.
    group_score : {"max", "sum"}
        Whether groups are ranked by their best hit (the default), or by the sum of the scores of all their hits among
        the `candidates` best ones.
    mmr : float
        Choose hits, or groups, that differ from each other, by maximal marginal relevance: lambda in [0, 1]; 1 is the
        order of the scores. It chooses from the `candidates` best ones.
    candidates : int
        Number of hits for `rerank`, `mmr` and ``group_score="sum"``, in 1..16384; by default 100, or k if that is more.
    expand : {"neighbors", "document"}
        Give each hit its `context`: the chunks before and after it, or the whole document, see
        :meth:`rag_bm25.BM25Index.neighbors`.
    highlight : bool or Highlighting
        Give each hit its `highlights`: the best sentences of its text, and the places of the query's terms in them,
        those of expansion, feedback, `must` and `phrases` included.
    """

    boosts: Sequence[Boost] | None
    rerank: Rerank | None
    near_duplicates: float | None
    group_by: str | None
    group_size: int
    group_score: GroupScore
    mmr: float | None
    candidates: int | None
    expand: Expansion | None
    highlight: bool | Highlighting


class SearchOptions(QueryOptions, HitOptions, total=False):
    """All options of a search: those of the query, and those for its hits."""


HIT_OPTIONS = frozenset(HitOptions.__annotations__)
"""The names of the options for hits."""


@dataclass(frozen=True)
class HitPlan:
    """Checked options for hits."""

    boosts: tuple[Boost, ...] = ()
    rerank: Rerank | None = None
    near_duplicates: float | None = None
    grouping: Grouping | None = None
    mmr: float | None = None
    candidates: int | None = None
    expand: Expansion | None = None
    highlighting: Highlighting | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the hits are those of the search, in its order."""
        chosen = self.boosts, self.rerank, self.near_duplicates, self.grouping, self.mmr
        return all(option is None or option == () for option in chosen)

    @property
    def needs_candidates(self) -> bool:
        """Whether a given number of the best hits is reranked, added up or chosen from."""
        sums = self.grouping is not None and self.grouping.score == "sum"
        return sums or self.rerank is not None or self.mmr is not None

    @property
    def needs_vectors(self) -> bool:
        """Whether hits are compared by their vectors."""
        return self.near_duplicates is not None or self.mmr is not None

    def num_candidates(self, k: int) -> int:
        """Return how many of the best hits are reranked, added up or chosen from."""
        return max(k, DEFAULT_CANDIDATES) if self.candidates is None else max(k, self.candidates)


def split_options(options: Mapping[str, Any]) -> tuple[HitPlan, QueryOptions]:
    """Check the options for hits, and return the others as they are."""
    if unknown := sorted(set(options) - HIT_OPTIONS - QUERY_OPTIONS):
        known = ", ".join(sorted(HIT_OPTIONS | QUERY_OPTIONS | {"filter", "namespace"}))
        hint = "; k is the number of hits" if unknown[0] in NAMES_OF_K else ""
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}{hint}; the options are {known}")
    given = {name: value for name, value in options.items() if name in HIT_OPTIONS}
    others: Any = {name: value for name, value in options.items() if name not in HIT_OPTIONS}
    return (_check_plan(given) if given else HitPlan()), others


def _check_plan(options: Mapping[str, Any]) -> HitPlan:
    check_callable("rerank", options.get("rerank"))
    near, mmr, candidates = options.get("near_duplicates"), options.get("mmr"), options.get("candidates")
    if near is not None:
        check_parameter("near_duplicates", near, "a number in (0, 1]", 0 < comparable(near) <= 1)
    if mmr is not None:
        check_parameter("mmr", mmr, "a number in [0, 1]", 0 <= comparable(mmr) <= 1)
    if candidates is not None:
        candidates = check_int("candidates", candidates, 1, MAX_K)
    expand = options.get("expand")
    if expand is not None:
        check_choice("expand", expand, get_args(Expansion))
    boosts, grouping = check_boosts(options.get("boosts")), _check_grouping(options)
    highlighting = check_highlight(options.get("highlight"))
    return HitPlan(boosts, options.get("rerank"), near, grouping, mmr, candidates, expand, highlighting)


def _check_grouping(options: Mapping[str, Any]) -> Grouping | None:
    size = check_int("group_size", options.get("group_size", 1), 1, MAX_K)
    score: Any = check_choice("group_score", options.get("group_score", "max"), get_args(GroupScore))
    key = options.get("group_by")
    if key is not None:
        return Grouping(check_metadata_key("group_by", key), size, score)
    if size != 1 or score != "max":
        raise ParameterError("group_size and group_score need group_by, the metadata key to group by")
    return None
