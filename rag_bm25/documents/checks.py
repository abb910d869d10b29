"""Check texts, ids, namespaces and metadata."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, cast

from rag_bm25.checks import as_str, find_bad_character, is_iterable
from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS, Chunk, GivenChunk, GivenDocument, Hit, NewChunk
from rag_bm25.errors import InputError, short_repr

MAX_TEXT_BYTES = 65_535
MAX_ID_BYTES = 512
MAX_NAMESPACE_BYTES = 256
MAX_METADATA_BYTES = 65_536
MAX_METADATA_DEPTH = 100  # engines and clients read it recursively


def check_namespace(namespace: object, name: str = "namespace") -> str:
    """Check a namespace."""
    plain = _check_storable(name, namespace)
    if any(character < " " for character in plain):
        raise InputError(f"{name} must not have control characters, got {short_repr(plain)}")
    _check_size(name, plain, MAX_NAMESPACE_BYTES)
    return plain


def check_ids(ids: Sequence[str], name: str = "ids") -> list[str]:
    """Check ids."""
    check_sequence(name, ids, "str")
    return [check_id(f"{name}[{position}]", id_) for position, id_ in enumerate(ids)]


def check_id(name: str, id_: object) -> str:
    """Check an id."""
    if isinstance(id_, Hit | Chunk):
        raise InputError(f"{name} must be a str, got {type(id_).__name__}: pass its id")
    plain = _check_storable(name, id_)
    if not plain:
        raise InputError(f"{name} must not be empty")
    _check_size(name, plain, MAX_ID_BYTES)
    return plain


def check_sequence(name: str, given: object, of: str) -> None:
    """Refuse a single text, and iterables that are no sequences."""
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Sequence):
        countable = isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray | Mapping)
        hint = f"; list({name}) may be one" if countable else ""
        if isinstance(given, str) and of.startswith("str"):
            hint = f"; for a single one, pass a list: [{name}]"
        raise InputError(f"{name} must be a sequence of {of}, got {type(given).__name__}{hint}")


def check_texts(
    texts: Sequence[str], metadatas: Sequence[Mapping[str, Any] | None] | None, fields: Iterable[str] = ()
) -> tuple[list[str], list[Mapping[str, Any]] | None]:
    """Check texts to encode; they are not stored, and may have any size."""
    check_sequence("texts", texts, "str")
    plain = [_check_str(f"texts[{position}]", text) for position, text in enumerate(texts)]
    if metadatas is None:
        return plain, None
    _take_parallel("metadatas", metadatas, "mappings", texts)
    given: list[Mapping[str, Any]] = [{} if metadata is None else metadata for metadata in metadatas]
    for position, metadata in enumerate(given):
        _check_mapping(f"metadatas[{position}]", metadata)
        _check_fields(f"metadatas[{position}]", metadata, fields)
    return plain, given


def check_chunks(
    texts: Iterable[str | GivenChunk | GivenDocument],
    ids: Iterable[str | None] | None,
    metadatas: Iterable[Mapping[str, Any] | None] | None,
    fields: Iterable[str] = (),
) -> list[NewChunk]:
    """Check the chunks of one call: texts, or objects that have theirs."""
    given = _take("texts", texts, "str")
    if _has_parts(given[0] if given else ""):
        return _check_given_chunks(given, fields, ids=ids, metadatas=metadatas)
    named: Sequence[str | None] = [None] * len(given)
    if ids is not None:
        parallel = _take_parallel("ids", ids, "str", given)
        named = [None if id_ is None else check_id(f"ids[{at}]", id_) for at, id_ in enumerate(parallel)]
    described: Sequence[Any] = [None] * len(given)
    if metadatas is not None:
        described = _take_parallel("metadatas", metadatas, "mappings", given)
    return [
        _make_chunk(f"texts[{at}]", text, named[at], f"metadatas[{at}]", described[at], fields)
        for at, text in enumerate(given)
    ]


def _check_given_chunks(given: Sequence[Any], fields: Iterable[str], **separate: object) -> list[NewChunk]:
    """Check objects that have an id, a text and metadata, which are not given separately."""
    for name, values in separate.items():
        if values is not None:
            raise InputError(f"{name} must not be given: each {type(given[0]).__name__} of texts has its own")
    return [check_given_chunk(item, fields, f"texts[{at}]: ") for at, item in enumerate(given)]


def check_given_chunk(item: GivenChunk | GivenDocument, fields: Iterable[str], place: str = "") -> NewChunk:
    """Check an item of a call or a stream, at a place that messages begin with."""
    if not _has_parts(item):
        parts = "id, text (or page_content) and metadata as attributes"
        raise InputError(f"{place}it must have {parts}, got {type(item).__name__}")
    text = item.text if hasattr(item, "text") else item.page_content
    try:
        return check_chunk(text, item.id, item.metadata, fields)
    except InputError as error:
        raise InputError(f"{place}{error}") from None


def _has_parts(item: object) -> bool:
    """Return whether an item has the parts of a chunk, as those of this package and LangChain's documents have."""
    return (
        hasattr(item, "id") and hasattr(item, "metadata") and (hasattr(item, "text") or hasattr(item, "page_content"))
    )


def _take(name: str, given: Any, of: str) -> Sequence[Any]:
    """Return a sequence, the items of what has a length and an order, or those of a short iterator."""
    if (
        isinstance(given, Sequence | Mapping | set | frozenset)
        or hasattr(given, "page_content")
        or not is_iterable(given)
    ):
        check_sequence(name, given, of)
        return cast("Sequence[Any]", given)
    if (ndim := getattr(given, "ndim", 1)) != 1:  # a DataFrame is iterated over by the names of its columns
        raise InputError(f"{name} must have one dimension, such as a column, got a {type(given).__name__} of {ndim}")
    items = list(given if isinstance(given, Sized) else islice(given, MAX_BATCH_CHUNKS + 1))
    if len(items) > MAX_BATCH_CHUNKS and not isinstance(given, Sized):
        kind = type(given).__name__
        raise InputError(f"{name} is a {kind} of more than {MAX_BATCH_CHUNKS:,} items; add_stream takes any number")
    return items


def check_chunk(text: str, id_: str | None, metadata: Mapping[str, Any] | None, fields: Iterable[str] = ()) -> NewChunk:
    """Check one chunk; messages call its parts id, text and metadata, and callers add its position."""
    return _make_chunk("text", text, None if id_ is None else check_id("id", id_), "metadata", metadata, fields)


def check_distinct(chunks: Sequence[NewChunk]) -> None:
    """Refuse different chunks with equal ids: one of them would be lost."""
    first_at: dict[str, int] = {}
    for position, chunk in enumerate(chunks):  # ids as stored: a given id may equal the content hash of another chunk
        first = first_at.setdefault(chunk.id, position)
        if first != position and (difference := _find_difference(chunks[first], chunk)):
            raise InputError(
                f"ids must be distinct in one call: texts[{first}] and texts[{position}] both have the id "
                f"{_shorten(chunk.id)}, and differ in their {difference}"
            )


def _make_chunk(
    text_name: str,
    text: object,
    id_: str | None,
    metadata_name: str,
    metadata: Mapping[str, Any] | None,
    fields: Iterable[str],
) -> NewChunk:
    name = text_name if id_ is None else f"{text_name} (id {_shorten(id_)})"
    plain = _check_storable(name, text)
    size = _check_size(name, plain, MAX_TEXT_BYTES)
    copy, encoded = _check_metadata(metadata_name, metadata)
    _check_fields(metadata_name, copy, fields)
    if id_ is None:
        id_ = hashlib.blake2b(f"{encoded}\0{plain}".encode(), digest_size=16).hexdigest()
    return NewChunk(id_, plain, copy, size + len(encoded))


def _find_difference(first: NewChunk, second: NewChunk) -> str:
    """Name the part in which two chunks with one id differ, "" if they are equal."""
    if first.text != second.text:
        return "text"
    same = canonical_json(first.metadata) == canonical_json(second.metadata)
    return "" if same else "metadata"


def canonical_json(metadata: Mapping[str, Any]) -> str:
    """Return a form in which 1, 1.0 and True differ, and the order of keys does not matter."""
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)


def _check_metadata(name: str, metadata: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """Return a copy of the metadata, and its canonical JSON."""
    if metadata is None:
        return {}, "{}"
    _check_mapping(name, metadata)
    plain = dict(metadata.items())
    _check_object(name, plain, MAX_METADATA_DEPTH)
    encoded = canonical_json(plain)
    if len(encoded.encode()) > MAX_METADATA_BYTES:
        msg = f"{name} has {len(encoded.encode()):,} bytes of JSON, at most {MAX_METADATA_BYTES:,} are allowed"
        raise InputError(msg)
    copy: dict[str, Any] = json.loads(encoded)
    return copy, encoded


def _check_mapping(name: str, metadata: object) -> None:
    if not isinstance(metadata, Mapping):
        raise InputError(f"{name} must be a mapping, got {type(metadata).__name__}")


def _check_object(name: str, entries: Mapping[Any, Any], depth: int) -> None:
    """Check the entries of a JSON object."""
    for key, value in entries.items():
        if not isinstance(key, str):
            raise InputError(f"{name} has the key {short_repr(key)}: keys must be str")
        plain = _check_storable(f"{name} key {short_repr(key)}", key)
        _check_json(f"{name}[{short_repr(plain)}]", value, depth)


def _check_json(name: str, value: object, depth: int) -> None:
    """Check that a value survives JSON unchanged; subclasses of JSON types become those types."""
    _check_depth(name, depth)
    if isinstance(value, str):
        _check_characters(name, value)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_json(f"{name}[{position}]", item, depth - 1)
    elif isinstance(value, dict):
        _check_object(name, value, depth - 1)
    elif isinstance(value, int | float):
        _check_number(name, value)
    elif value is not None:
        hint = "; call its item() or tolist() first" if type(value).__module__ == "numpy" else ""
        kind = type(value).__name__
        raise InputError(f"{name} must be a JSON value (str, int, float, bool, None, list, dict), got {kind}{hint}")


def _check_depth(name: str, depth: int) -> None:
    if not depth:
        raise InputError(f"{name[:60]}... is nested more than {MAX_METADATA_DEPTH} levels deep")


def _check_number(name: str, value: float) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {float(value)!r}, which JSON does not have")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{name} is {short_repr(value)}, which does not fit into 64 bits")


def _check_fields(name: str, metadata: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Check that the metadata has text, or nothing, for each field of the index."""
    for field in fields:
        if not _is_text(metadata.get(field)):
            raise InputError(
                f"{name}[{field!r}] must be a str or a list of str, since {field!r} is a field of the index, got "
                f"{short_repr(metadata[field])}"
            )


def _is_text(value: object) -> bool:
    parts = value if isinstance(value, list) else [value]
    return value is None or all(isinstance(part, str) for part in parts)


def _take_parallel(name: str, given: Iterable[object], of: str, texts: Sequence[object]) -> Sequence[Any]:
    """Return items, one for each text."""
    taken = _take(name, given, of)
    if len(taken) != len(texts):
        raise InputError(f"{name} and texts must have the same length, got {len(taken)} and {len(texts)}")
    return taken


def _check_str(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise InputError(f"{name} must be a str, got {type(given).__name__}")
    return as_str(given)


def _check_storable(name: str, given: object) -> str:
    """Check a text that is stored, and convert it to a plain ``str``."""
    plain = _check_str(name, given)
    _check_characters(name, plain)
    return plain


def _check_characters(name: str, text: str) -> None:
    if fault := find_bad_character(text):
        raise InputError(f"{name} has {fault}")


def _check_size(name: str, text: str, limit: int) -> int:
    size = len(text.encode())
    if size > limit:
        raise InputError(f"{name} has {size:,} bytes of UTF-8, at most {limit:,} are allowed")
    return size


def _shorten(id_: str) -> str:
    return repr(id_ if len(id_) <= 60 else id_[:57] + "...")
