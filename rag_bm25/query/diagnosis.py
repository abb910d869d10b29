"""The reasons why a search finds nothing, or not a given chunk."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reason:
    """One reason.

    Parameters
    ----------
    code : str
        Its kind, for programs. Of the query: ``empty_query``, ``no_words``, ``stop_words``, ``unknown_words``,
        ``within_words``. Of the index: ``damage``, ``empty_index``, ``empty_namespace``, ``no_chunk``. Of a chunk:
        ``no_term``. Of the options: the name of the one that drops hits, such as ``filter``, ``must``, ``group``,
        ``min_score`` or ``k``; ``filter_field`` for a field that no chunk has, and ``options`` for several together.
    message : str
        The reason as a clause, in English.
    details : dict of str to JSON values
        Its numbers and suggestions, for programs.
    """

    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Diagnosis:
    """Why a search finds nothing, or not a given chunk.

    Parameters
    ----------
    query : str
        Text of the query.
    reasons : tuple of Reason
        Empty if the search finds something, or the chunk.
    num_hits : int
        Number of hits of the search.
    id, namespace : str or None
        The chunk that was asked about; None for the search as a whole.
    rank : int or None
        Place of the chunk in the ranking by score, from 1; None if it has none, or is beyond the first 16,384.
    score : float or None
        Score of the chunk, None if it does not match; of the best hit, if no chunk was asked about.
    last_score : float or None
        Score of the last of the hits, with `group` of the best one of the last group; None without hits.
    notes : tuple of Reason
        What a search with hits has not found: ``unknown_words`` for words that no chunk has, ``within_words`` for
        Chinese words of one character that chunks have within other words only.

    Examples
    --------
    ::

        diagnosis = index.diagnose("contarct", filter={"year": 2024})
        print(diagnosis)
        [reason.code for reason in diagnosis.reasons]
    """

    query: str
    reasons: tuple[Reason, ...] = ()
    num_hits: int = 0
    id: str | None = None
    namespace: str | None = None
    rank: int | None = None
    score: float | None = None
    last_score: float | None = None
    notes: tuple[Reason, ...] = ()

    @property
    def suggestion(self) -> str | None:
        """The query with corrected spelling; None if there is nothing to correct."""
        told = (*self.reasons, *self.notes)
        return next((one.details["suggestion"] for one in told if one.code == "unknown_words"), None)

    def __str__(self) -> str:
        first, *others = map(str, self.reasons or [self._found(), *self.notes])
        lead = "" if not self.reasons else "nothing found: " if self.id is None else f"{self.id!r} is not found: "
        return "\n".join([lead + first, *(f"  also: {other}" for other in others)])

    def _found(self) -> str:
        """Say what the search finds."""
        if self.id is None:
            return f"the search has {self.num_hits:,} hit{'' if self.num_hits == 1 else 's'}"
        return f"{self.id!r} is found: rank {self.rank:,}, score {self.score:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values, and the suggestion.

        Returns
        -------
        dict
            ``reasons`` and ``notes`` are lists of objects with ``code``, ``message`` and ``details``.
        """
        told = {"reasons": list(map(asdict, self.reasons)), "notes": list(map(asdict, self.notes))}
        return {**vars(self), **told, "suggestion": self.suggestion}
