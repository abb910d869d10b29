"""Chunks as users give and get them, and the checks that come before any write."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rag_bm25.errors import InputError, shown
from rag_bm25.parameters import as_str

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.store import ChunkRow

__all__ = [
    "AddReport",
    "Chunk",
    "GivenChunk",
    "Hit",
    "HybridHit",
    "NewChunk",
    "batches",
    "check_distinct",
    "check_id",
    "check_ids",
    "check_namespace",
    "check_sequence",
    "check_texts",
    "given_parts",
    "new_chunks",
    "pk_digest",
]

SLOTS = "ab"  # how a primary key ends: a new version of a chunk goes into the free one of two
MAX_TEXT_BYTES = 65_535
MAX_ID_BYTES = 512
MAX_NAMESPACE_BYTES = 256
MAX_METADATA_BYTES = 65_536
MAX_METADATA_DEPTH = 100  # engines and clients read it recursively
MAX_BATCH_CHUNKS = 1_000
MAX_BATCH_BYTES = 8 << 20  # with its vectors, such a batch stays below the 64 MB that a Milvus message may have


@dataclass(frozen=True)
class Chunk:
    """A stored chunk.

    Parameters
    ----------
    id : str
        The user's id.
    text : str
        The chunk.
    metadata : dict
        Exactly as it was given.
    namespace : str
        Tenant or sub-corpus.
    length : int
        Its length, in the index's unit.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""
    length: int = 0

    @classmethod
    def of(cls, row: ChunkRow) -> Chunk:
        """Return the chunk of a stored row.

        Parameters
        ----------
        row : ChunkRow
            Read with its contents.

        Returns
        -------
        Chunk
            As users see it.
        """
        return cls(row.id, row.text, row.metadata, row.namespace, row.length)


@dataclass(frozen=True)
class Hit:
    """A chunk that a search found.

    Parameters
    ----------
    id : str
        The user's id.
    score : float
        BM25 score, > 0.
    text : str
        The chunk.
    metadata : dict
        Exactly as it was given.
    namespace : str
        Tenant or sub-corpus.
    """

    id: str
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""


@dataclass(frozen=True)
class HybridHit(Hit):
    """A chunk that a hybrid search found.

    Parameters
    ----------
    id : str
        The user's id.
    score : float
        Fused score; its scale is that of the fusion.
    text, metadata, namespace
        As for :class:`Hit`.
    sparse_score, dense_score : float or None
        Score in each arm; None where the chunk is not among the arm's candidates, or scores of the arms were not asked
        for.
    """

    sparse_score: float | None = None
    dense_score: float | None = None


@dataclass(frozen=True)
class NewChunk:
    """A checked chunk, ready to be written.

    Parameters
    ----------
    id : str
        The user's id, or a hash of the contents.
    text : str
        The chunk.
    metadata : dict
        JSON values only.
    size : int
        Bytes of text and metadata.
    dense : ndarray of float32, shape (dim,), or None
        Its dense vector, where the index has them.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    size: int
    dense: NDArray[np.float32] | None = field(default=None, compare=False)  # arrays have no truth value


class GivenChunk(Protocol):
    """What a stream of chunks may consist of: :class:`Chunk` has these, and so has any class of yours."""

    @property
    def id(self) -> str | None:
        """The user's id; None stands for a hash of text and metadata."""
        ...

    @property
    def text(self) -> str:
        """The chunk."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """JSON values only; None stands for an empty one."""
        ...


@dataclass(frozen=True)
class AddReport:
    """What became of chunks that were added.

    Parameters
    ----------
    added : int
        Chunks that were not there before; with ``assume_new=True``, all of them.
    updated : int
        Chunks that differed from what was stored under their ids.
    unchanged : int
        Chunks that were stored as they are, and cost no write.

    Examples
    --------
    >>> AddReport(added=2) + AddReport(updated=1, unchanged=7)
    AddReport(added=2, updated=1, unchanged=7)
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0

    @property
    def total(self) -> int:
        """How many chunks there were."""
        return self.added + self.updated + self.unchanged

    def __add__(self, other: AddReport) -> AddReport:
        """Return the sum of two."""
        return AddReport(self.added + other.added, self.updated + other.updated, self.unchanged + other.unchanged)


def pk_digest(namespace: str, id_: str) -> str:
    """Return the part of the primary key that names a chunk, without the slot.

    Parameters
    ----------
    namespace, id_ : str
        What identifies the chunk to the user; any characters.

    Returns
    -------
    str
        40 hex digits: some engines cannot address keys with quotes, backslashes or newlines.
    """
    named = f"{len(namespace)}:{namespace}{id_}".encode()
    return hashlib.blake2b(named, digest_size=20).hexdigest()


def check_namespace(namespace: object, name: str = "namespace") -> str:
    """Check a namespace.

    Parameters
    ----------
    namespace : object
        What was given.
    name : str
        Stands in the message.

    Returns
    -------
    str
        The same, as a plain ``str``.

    Raises
    ------
    InputError
        It is not a str, too long, or has control characters.
    """
    plain = _checked_str(name, namespace)
    if any(character < " " for character in plain):
        msg = f"{name} must not have control characters, got {shown(plain)}"
        raise InputError(msg)
    _check_size(name, plain, MAX_NAMESPACE_BYTES)
    return plain


def check_ids(ids: Sequence[str], name: str = "ids") -> list[str]:
    """Check ids.

    Parameters
    ----------
    ids : sequence of str
        What was given.
    name : str
        Stands in the message.

    Returns
    -------
    list of str
        The same, as plain ``str``.

    Raises
    ------
    InputError
        One of them is not a str, empty or too long.
    """
    check_sequence(name, ids, "str")
    return [check_id(f"{name}[{position}]", id_) for position, id_ in enumerate(ids)]


def check_id(name: str, id_: object) -> str:
    """Check an id.

    Parameters
    ----------
    name : str
        Stands in the message.
    id_ : object
        What was given.

    Returns
    -------
    str
        The same, as a plain ``str``.

    Raises
    ------
    InputError
        It is not a str, empty or too long.
    """
    plain = _checked_str(name, id_)
    if not plain:
        msg = f"{name} must not be empty"
        raise InputError(msg)
    _check_size(name, plain, MAX_ID_BYTES)
    return plain


def check_sequence(name: str, given: object, of: str) -> None:
    """Refuse what is no sequence: one text, or what can be read once only.

    Parameters
    ----------
    name : str
        Stands in the message.
    given : object
        What was given.
    of : str
        What it is to consist of, for the message.

    Raises
    ------
    InputError
        It is no sequence.
    """
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Sequence):
        countable = isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray | Mapping)
        hint = f"; list({name}) may be one" if countable else ""
        msg = f"{name} must be a sequence of {of}, got {type(given).__name__}{hint}"
        raise InputError(msg)


def check_texts(
    texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None
) -> tuple[list[str], list[Mapping[str, Any]] | None]:
    """Check texts that are encoded and not stored: they may be of any size.

    Parameters
    ----------
    texts : sequence of str
        What was given.
    metadatas : sequence of mappings, optional
        What was given, one for each text.

    Returns
    -------
    texts : list of str
        The same, as plain ``str``.
    metadatas : list of mappings or None
        The same.

    Raises
    ------
    InputError
        A text is not a str, a metadata not a mapping, or there are more of one than of the other.
    """
    check_sequence("texts", texts, "str")
    plain = [_str(f"texts[{position}]", text) for position, text in enumerate(texts)]
    if metadatas is None:
        return plain, None
    check_sequence("metadatas", metadatas, "mappings")
    _check_same_length("metadatas", len(metadatas), len(plain))
    for position, metadata in enumerate(metadatas):
        _check_mapping(f"metadatas[{position}]", metadata)
    return plain, list(metadatas)


def given_parts(chunk: GivenChunk) -> tuple[str | None, str, Mapping[str, Any] | None]:
    """Take a chunk of a stream apart.

    Parameters
    ----------
    chunk : GivenChunk
        What was given.

    Returns
    -------
    tuple of str, str and mapping
        Its id, text and metadata, not checked yet.

    Raises
    ------
    InputError
        It lacks one of them.

    Examples
    --------
    >>> given_parts(Chunk("1", "apple", {"page": 2}))
    ('1', 'apple', {'page': 2})
    """
    try:
        return chunk.id, chunk.text, chunk.metadata
    except AttributeError:
        msg = f"it must have id, text and metadata as attributes, got {type(chunk).__name__}"
        raise InputError(msg) from None


def new_chunks(
    texts: Sequence[str],
    ids: Sequence[str | None] | None,
    metadatas: Sequence[Mapping[str, Any] | None] | None,
) -> list[NewChunk]:
    """Check the input of one call, before anything of it is written.

    Parameters
    ----------
    texts : sequence of str
        The chunks.
    ids : sequence of str, optional
        One for each text; None stands for a hash of text and metadata.
    metadatas : sequence of mappings, optional
        One for each text, JSON values only; None stands for an empty one.

    Returns
    -------
    list of NewChunk
        In the order of `texts`; two may have one id, see :func:`check_distinct`.

    Raises
    ------
    InputError
        Something breaks a rule; the message names the item and the rule.
    """
    check_sequence("texts", texts, "str")
    named: Sequence[str | None] = [None] * len(texts)
    if ids is not None:
        check_sequence("ids", ids, "str")
        _check_same_length("ids", len(ids), len(texts))
        named = [None if id_ is None else check_id(f"ids[{at}]", id_) for at, id_ in enumerate(ids)]
    if metadatas is not None:
        check_sequence("metadatas", metadatas, "mappings")
        _check_same_length("metadatas", len(metadatas), len(texts))
    return [
        _new_chunk(position, text, named[position], metadatas[position] if metadatas else None)
        for position, text in enumerate(texts)
    ]


def check_distinct(chunks: Sequence[NewChunk]) -> None:
    """Refuse two chunks of one call that have one id and differ: one of them would be lost.

    Ids are compared as they are stored: one that was given may be the hash that stands for the contents of another.

    Parameters
    ----------
    chunks : sequence of NewChunk
        Those of one call; the same one may be there twice.

    Raises
    ------
    InputError
        Two with one id differ; the message names their places.

    Examples
    --------
    >>> check_distinct(new_chunks(["apple", "fig"], ["1", "1"], None))
    Traceback (most recent call last):
        ...
    rag_bm25.errors.InputError: ids must be distinct in one call: texts[0] and texts[1] both have the id '1', ...
    """
    places: dict[str, int] = {}
    for position, chunk in enumerate(chunks):
        first = places.setdefault(chunk.id, position)
        if first != position and (difference := _difference(chunks[first], chunk)):
            msg = (
                f"ids must be distinct in one call: texts[{first}] and texts[{position}] both have the id "
                f"{_shortened(chunk.id)}, and differ in their {difference}"
            )
            raise InputError(msg)


def batches(chunks: Iterable[NewChunk], dense_bytes: int = 0) -> Iterator[list[NewChunk]]:
    """Cut chunks into batches that one message can carry.

    Parameters
    ----------
    chunks : iterable of NewChunk
        Any number.
    dense_bytes : int
        Size of a dense vector.

    Yields
    ------
    list of NewChunk
        At most 1,000 chunks and about 8 MiB, in order; an id that comes again begins another batch.
    """
    batch: list[NewChunk] = []
    ids: set[str] = set()
    size = 0
    for chunk in chunks:
        more = chunk.size + dense_bytes
        if batch and (len(batch) == MAX_BATCH_CHUNKS or size + more > MAX_BATCH_BYTES or chunk.id in ids):
            yield batch
            batch, ids, size = [], set(), 0
        batch.append(chunk)
        ids.add(chunk.id)
        size += more
    if batch:
        yield batch


def _new_chunk(position: int, text: object, id_: str | None, metadata: Mapping[str, Any] | None) -> NewChunk:
    name = f"texts[{position}]" if id_ is None else f"texts[{position}] (id {_shortened(id_)})"
    plain = _checked_str(name, text)
    size = _check_size(name, plain, MAX_TEXT_BYTES)
    copy, encoded = _checked_metadata(f"metadatas[{position}]", metadata)
    if id_ is None:
        id_ = hashlib.blake2b(f"{encoded}\0{plain}".encode(), digest_size=16).hexdigest()
    return NewChunk(id_, plain, copy, size + len(encoded))


def _difference(first: NewChunk, second: NewChunk) -> str:
    """Return in which part two chunks with one id differ, "" where they are the same."""
    if first.text != second.text:
        return "text"
    same = _as_json(first.metadata) == _as_json(second.metadata)  # to Python, 1 equals True and 1.0
    return "" if same else "metadata"


def _as_json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)


def _checked_metadata(name: str, metadata: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """Return the metadata as a dict of its own, and as canonical JSON."""
    if metadata is None:
        return {}, "{}"
    _check_mapping(name, metadata)
    plain = dict(metadata.items())
    _check_object(name, plain, MAX_METADATA_DEPTH)
    encoded = _as_json(plain)
    if len(encoded.encode()) > MAX_METADATA_BYTES:
        msg = f"{name} has {len(encoded.encode()):,} bytes of JSON, at most {MAX_METADATA_BYTES:,} are allowed"
        raise InputError(msg)
    copy: dict[str, Any] = json.loads(encoded)
    return copy, encoded


def _check_mapping(name: str, metadata: object) -> None:
    if not isinstance(metadata, Mapping):
        msg = f"{name} must be a mapping, got {type(metadata).__name__}"
        raise InputError(msg)


def _check_object(name: str, entries: Mapping[Any, Any], depth: int) -> None:
    """Check the entries of a JSON object."""
    for key, value in entries.items():
        if not isinstance(key, str):
            msg = f"{name} has the key {shown(key)}: keys must be str"
            raise InputError(msg)
        plain = _checked_str(f"{name} key {shown(key)}", key)
        _check_json(f"{name}[{shown(plain)}]", value, depth)


def _check_json(name: str, value: object, depth: int) -> None:
    """Raise ``InputError`` unless `value` comes back from JSON as it was, subclasses as what they are made from."""
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
        msg = f"{name} must be a JSON value (str, int, float, bool, None, list, dict), got {kind}{hint}"
        raise InputError(msg)


def _check_depth(name: str, depth: int) -> None:
    if not depth:
        msg = f"{name[:60]}... is nested more than {MAX_METADATA_DEPTH} levels deep"
        raise InputError(msg)


def _check_number(name: str, value: float) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"{name} is {float(value)!r}, which JSON does not have"
        raise InputError(msg)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        msg = f"{name} is {shown(value)}, which does not fit into 64 bits"
        raise InputError(msg)


def _check_same_length(name: str, given: int, texts: int) -> None:
    if given != texts:
        msg = f"{name} and texts must have the same length, got {given} and {texts}"
        raise InputError(msg)


def _str(name: str, given: object) -> str:
    if not isinstance(given, str):
        msg = f"{name} must be a str, got {type(given).__name__}"
        raise InputError(msg)
    return as_str(given)


def _checked_str(name: str, given: object) -> str:
    """Return a text that UTF-8 and the engines can hold, as a plain ``str``."""
    plain = _str(name, given)
    _check_characters(name, plain)
    return plain


def _check_characters(name: str, text: str) -> None:
    """Refuse what UTF-8 or the engines cannot hold."""
    position = text.find("\0")
    if position >= 0:
        msg = f"{name} has a NUL at character {position}"
        raise InputError(msg)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"{name} has a lone surrogate at character {error.start}"
        raise InputError(msg) from None


def _check_size(name: str, text: str, limit: int) -> int:
    size = len(text.encode())
    if size > limit:
        msg = f"{name} has {size:,} bytes of UTF-8, at most {limit:,} are allowed"
        raise InputError(msg)
    return size


def _shortened(id_: str) -> str:
    return repr(id_ if len(id_) <= 60 else id_[:57] + "...")
