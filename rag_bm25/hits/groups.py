"""Group hits by a metadata key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from rag_bm25.checks import kind_of
from rag_bm25.definitions import NOT_EMPTY, Between, check_fields
from rag_bm25.documents.chunks import Hit
from rag_bm25.store.rows import MAX_K

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rag_bm25.filters import Scalar

GroupScore = Literal["max", "sum"]
GroupKey: TypeAlias = "tuple[object, ...]"

H = TypeVar("H", bound=Hit)


@dataclass(frozen=True)
class Grouping:
    """Groups of hits with the same text, number or bool in the metadata. A hit without one is a group of its own.

    Parameters
    ----------
    key : str
        Metadata key, such as ``"source"``.
    size : int
        Maximum number of hits of a group, one after the other, best first, in 1..16384.
    score : {"max", "sum"}
        Whether groups are ranked by their best hit, or by the sum of the scores of all their hits among the candidates.

    Examples
    --------
    >>> Grouping("source", size=2)
    Grouping(key='source', size=2, score='max')
    """

    key: Annotated[str, NOT_EMPTY]
    size: Annotated[int, Between(1, MAX_K)] = 1
    score: GroupScore = "max"

    def __post_init__(self) -> None:
        check_fields(self)


def key_of(how: Grouping, hit: Hit) -> GroupKey:
    """Return what the hits of a group have in common; without a text or a number under the key, a hit is alone."""
    value = value_of(how, hit)
    return ("alone", *hit.key) if value is None else (kind_of(value), value)


def value_of(how: Grouping, hit: Hit) -> Scalar | None:
    """Return the value of a hit's group; None if it is alone."""
    value: Any = hit.metadata.get(how.key)
    return value if isinstance(value, str | int | float) else None


def group(hits: Iterable[H], how: Grouping) -> list[list[H]]:
    """Group hits, best first: groups by their scores, and all hits of each as they come."""
    groups: dict[GroupKey, list[H]] = {}
    for hit in hits:
        groups.setdefault(key_of(how, hit), []).append(hit)
    if how.score == "max":
        return list(groups.values())
    return sorted(groups.values(), key=lambda members: -_score(members, how))  # stable: ties by the best hit


def cut(members: Sequence[H], how: Grouping) -> list[H]:
    """Cut a group to its size, and give its hits the score of the whole group."""
    score = _score(members, how)
    return [replace(hit, group_score=score) for hit in members[: how.size]]


def _score(members: Sequence[Hit], how: Grouping) -> float:
    return members[0].score if how.score == "max" else sum(hit.score for hit in members)
