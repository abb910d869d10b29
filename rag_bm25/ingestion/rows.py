"""Rows of JSON lines, CSV and Parquet: their ids, titles, texts and metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.definitions import check_fields
from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_DOCUMENT_BYTES = 64 << 20
"""Maximum size of a text to split, and of a row."""

ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".json")
COLLECTION = "milvus://"
"""Beginning of the sources of rows of collections; no name of a file has it."""

IDS = ("_id", "id")


@dataclass(frozen=True)
class RowFields:
    """The names of the fields of a row; all others are metadata.

    Parameters
    ----------
    text, title : str
        Text and title. The text may be several fields, ``"name,note"``: a line ``name: value`` for each. In CSV and
        Parquet, it is all columns if there is none of the default name.
    id : str, optional
        Id; by default ``_id``, as in BEIR, or ``id``.

    Raises
    ------
    ParameterError
        A name is no str.
    """

    text: str = "text"
    title: str = "title"
    id: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def ids(self) -> tuple[str, ...]:
        """Names that the id may have."""
        return IDS if self.id is None else (self.id,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the fields that are the text together, none if it is one."""
        return tuple(self.text.split(",")) if "," in self.text else ()


DEFAULT_FIELDS = RowFields()

Reject: TypeAlias = "Callable[[InputError], None]"


def raise_error(error: InputError) -> None:
    """Raise the error of a row, instead of going on with the next."""
    raise error


@dataclass(frozen=True)
class Row:
    """A row of a file."""

    where: str  # file and line, for messages
    row: Mapping[str, Any]
    end: int  # of the row in the file, in bytes
    default_id: str | None = None
    columns: tuple[str, ...] = ()  # that are the text together


def row_id(row: Row, fields: RowFields = DEFAULT_FIELDS, prefix: str = "") -> str:
    """Return the id of a row: its own with a prefix, or that of its place."""
    value = next((row.row[name] for name in fields.ids if row.row.get(name) is not None), None)
    if value is None and row.default_id is not None:
        return row.default_id
    if value is None:
        names = " or ".join(f'an "{name}"' for name in fields.ids)
        raise InputError(f"{row.where}: a row needs {names}")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{row.where}: an id must be text or an integer, got {type(value).__name__}")
    return f"{prefix}{value}"


def row_text(row: Row, fields: RowFields = DEFAULT_FIELDS) -> str:
    """Return the text of a row."""
    text = row.row.get(fields.text)
    if isinstance(text, str):
        return text
    columns = row.columns or fields.columns
    if any(name in row.row for name in columns):
        values = ((name, row.row.get(name)) for name in columns if name != fields.title)
        return "\n".join(f"{name}: {value}" for name, value in values if isinstance(value, str | int | float))
    found = f"got {_type_name(text)}" if fields.text in row.row else f"and has only {', '.join(row.row)[:200]}"
    raise InputError(f'{row.where}: a row needs a "{fields.text}", {found}')


def row_parts(row: Row, fields: RowFields = DEFAULT_FIELDS) -> tuple[str, str]:
    """Return the title and the text of a row."""
    text, title = row_text(row, fields), row.row.get(fields.title, "")
    if not isinstance(title, str):
        raise InputError(f'{row.where}: "{fields.title}" must be text, got {_type_name(title)}')
    return title, text


def _type_name(value: object) -> str:
    return "null" if value is None else type(value).__name__


def row_metadata(row: Row, fields: RowFields = DEFAULT_FIELDS) -> dict[str, Any]:
    """Return the metadata of a row: its title and other keys, overridden by its ``metadata``."""
    metadata = row.row.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InputError(f'{row.where}: "metadata" must be a JSON object, got {type(metadata).__name__}')
    title = {"title": row.row[fields.title]} if row.row.get(fields.title) else {}
    own = {*fields.ids, fields.text, fields.title, "metadata"}
    others = {key: value for key, value in row.row.items() if key not in own}
    return {**title, **others, **metadata}


def join_title(title: str, text: str) -> str:
    """Join title and text with a space, as is customary for BEIR; a text without a title is not changed."""
    return f"{title} {text}".strip() if title else text


def is_from_source(id_: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a chunk came from what its source names; rows of files may have a source of their own."""
    source, number = metadata.get("source"), metadata.get("chunk")
    if isinstance(source, str) and source.startswith(COLLECTION):
        return True
    if not isinstance(source, str) or type(number) is not int:
        return False
    is_row = source.lower().endswith(ROW_SUFFIXES) and (number == 0 or id_.endswith(f"#{number}"))
    return is_row or id_ == f"{source}#{number}"
