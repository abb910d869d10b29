"""BM25F: weighted fields beside the text of a chunk, such as its title."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from rag_bm25.definitions import FINITE, Between, check_fields

MAX_WEIGHT = 1_000.0

ChunkSize: TypeAlias = Annotated[float, Between(0, FINITE.high, above=True)]
B: TypeAlias = Annotated[float, Between(0, 1)]


@dataclass(frozen=True, kw_only=True)
class FieldWeight:
    """Weight and length normalisation of a field beside the text.

    Parameters
    ----------
    chunk_size : float
        Constant instead of the mean length of the field, in the index's unit; > 0.
    weight : float
        Weight of an occurrence in the field, in [0.001, 1000]; that of an occurrence in the text is 1.
    b : float
        Length normalisation within the field, in [0, 1].

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    Examples
    --------
    >>> FieldWeight(chunk_size=30, weight=2.0)
    FieldWeight(chunk_size=30, weight=2.0, b=0.75)
    """

    chunk_size: ChunkSize
    weight: Annotated[float, Between(1 / MAX_WEIGHT, MAX_WEIGHT)] = 1.0
    b: B = 0.75

    def __post_init__(self) -> None:
        check_fields(self)


CONTEXT = "chunk_context"
"""The field that is not shown, and is embedded with the text."""

# Constants, not means of the data: a vector depends on its chunk alone, not on the chunks that came first.
DEFAULT_FIELDS = MappingProxyType(
    {
        "title": FieldWeight(chunk_size=60),
        "headings": FieldWeight(chunk_size=60),
        CONTEXT: FieldWeight(chunk_size=240, weight=0.25),
    }
)
"""The fields that are called ``"default"``, for the metadata of files and rows."""

Fields: TypeAlias = Literal["default"] | Mapping[str, FieldWeight]


def field_text(metadata: Mapping[str, Any], name: str) -> str:
    """Return the text of a field: the metadata under its name, the items of a list on a line each."""
    return "\n".join(field_items(metadata, name))


def field_items(metadata: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a list under the name of a field, or the one that is there."""
    value = metadata.get(name)
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
