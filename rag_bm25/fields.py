"""Fields beside the text of a chunk, such as its title: their weights, and where their texts are found (BM25F)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError, shown
from rag_bm25.parameters import check_parameter, comparable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["FieldWeight", "check_field_values", "field_text"]

MAX_WEIGHT = 1_000.0


@dataclass(frozen=True, kw_only=True)
class FieldWeight:
    """How much a field beside the text counts, and how its length does.

    Parameters
    ----------
    chunk_size : float
        Constant in place of the mean length of the field, in the index's unit; > 0.
    weight : float
        What one occurrence in the field is worth, where one in the text is worth 1; in [0.001, 1000].
    b : float
        Share of the length normalisation within the field, in [0, 1].

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    Examples
    --------
    >>> FieldWeight(chunk_size=30, weight=2.0)
    FieldWeight(chunk_size=30, weight=2.0, b=0.75)
    """

    chunk_size: float
    weight: float = 1.0
    b: float = 0.75

    def __post_init__(self) -> None:
        """Check the ranges."""
        within = 1 / MAX_WEIGHT <= comparable(self.weight) <= MAX_WEIGHT
        check_parameter("weight of a field", self.weight, f"in [{1 / MAX_WEIGHT:g}, {MAX_WEIGHT:g}]", within)
        check_parameter("b of a field", self.b, "in [0, 1]", 0 <= comparable(self.b) <= 1)
        positive = comparable(self.chunk_size) > 0
        check_parameter("chunk_size of a field", self.chunk_size, "a finite number > 0", positive)


def field_text(metadata: Mapping[str, Any], name: str) -> str:
    r"""Return the text of a field: the metadata under its name.

    Parameters
    ----------
    metadata : mapping of str to JSON values
        Metadata of the chunk.
    name : str
        The field.

    Returns
    -------
    str
        The value, or the values of a list on a line each; "" where there is none, or something else than text.

    Examples
    --------
    >>> field_text({"title": ["BM25F", "fields"]}, "title")
    'BM25F\nfields'
    """
    value = metadata.get(name)
    parts = value if isinstance(value, list) else [value]
    return "\n".join(part for part in parts if isinstance(part, str))


def check_field_values(metadatas: Sequence[Mapping[str, Any]], names: Iterable[str]) -> None:
    """Refuse metadata that has something else than text where a field is to be.

    Parameters
    ----------
    metadatas : sequence of mappings
        Metadata of each chunk.
    names : iterable of str
        The fields.

    Raises
    ------
    InputError
        A value is neither a str, nor a list of str, nor None.
    """
    for name in names:
        for position, metadata in enumerate(metadatas):
            if not _is_text(metadata.get(name)):
                msg = (
                    f"metadatas[{position}][{name!r}] must be a str or a list of str, since {name!r} is a field of "
                    f"the index, got {shown(metadata[name])}"
                )
                raise InputError(msg)


def _is_text(value: object) -> bool:
    parts = value if isinstance(value, list) else [value]
    return value is None or all(isinstance(part, str) for part in parts)
