"""Give the chunks of a document their context, which counts for words and is embedded, and is not shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rag_bm25.checks import parameter_error
from rag_bm25.documents.chunks import Chunk
from rag_bm25.documents.contexts import CONTEXTUALIZED_BY, HEADINGS
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.weighting.fields import CONTEXT, field_text

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from rag_bm25.ingestion.documents import Piece
    from rag_bm25.ingestion.owners import LookUp

MAX_CONTEXT = 2_000
"""Maximum length of a context in characters: models embed the first few hundred words of a text."""

MakeContexts: TypeAlias = Callable[[str, Sequence[Chunk]], Sequence[str]]
"""The text of a document and its chunks -> the context of each."""
Contextualize: TypeAlias = MakeContexts | Literal["headings", ""]


def _name_of(contextualize: Contextualize, fields: Container[str]) -> str:
    """Return the name that a function is remembered by, with its version; refuse one that the index cannot count."""
    if contextualize in (HEADINGS, ""):
        return str(contextualize)
    if not callable(contextualize):
        raise parameter_error("contextualize", f'a callable, "{HEADINGS}" or ""', contextualize)
    if CONTEXT not in fields:
        raise ParameterError(
            f"contextualize gives chunks the field {CONTEXT!r}, which the index does not count: make one with "
            'fields="default", or with a FieldWeight of this name'
        )
    name = getattr(contextualize, "__qualname__", type(contextualize).__qualname__)
    return f"{name}({getattr(contextualize, 'version', '')})"


def contextualizer(
    contextualize: Contextualize | None, fields: Container[str], look_up: LookUp, *, strict: bool
) -> Contextualizer:
    """Return the given contextualizer, checked; with `strict`, documents are read twice, and it asks once."""
    made = contextualize if callable(contextualize) else None
    name = _name_of("" if contextualize is None else contextualize, fields)
    return Contextualizer(name, _ask_once(made) if strict and made is not None else made, look_up)


def _ask_once(make: MakeContexts) -> MakeContexts:
    """Return a function that asks another one once for each document."""
    made: dict[int, Sequence[str]] = {}

    def ask(document: str, chunks: Sequence[Chunk]) -> Sequence[str]:
        key = hash((document, *((chunk.id, chunk.text) for chunk in chunks)))
        if key not in made:
            made[key] = make(document, chunks)
        return made[key]

    return ask


@dataclass(frozen=True)
class Contextualizer:
    """Give pieces of documents their contexts."""

    name: str = ""  # "" for none
    make: MakeContexts | None = None
    look_up: LookUp = lambda _ids: ()  # stored chunks

    def named(self, name: str) -> Contextualizer:
        """Return the one of a name: the own one, or one that is remembered while no function is given."""
        return replace(self, name=name)

    def __call__(self, document: str, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """Mark the pieces with the name, and add their contexts, those that the same chunks are stored with if so."""
        if not self.name:
            return pieces
        marked = (_with(piece, CONTEXTUALIZED_BY, self.name) for piece in pieces)
        return marked if self.name == HEADINGS else self._with_contexts(document, list(marked))

    def _with_contexts(self, document: str, pieces: list[Piece]) -> Iterator[Piece]:
        contexts = self._stored(pieces) or (self._make(document, pieces) if pieces else [])
        for piece, context in zip(pieces, contexts, strict=True):
            yield _with(piece, CONTEXT, context) if context else piece

    def _stored(self, pieces: Sequence[Piece]) -> list[str] | None:
        """Return the contexts that the same chunks are stored with; None if one of them is new or has changed."""
        stored = {chunk.id: chunk for chunk in self.look_up([piece.id for piece in pieces])}
        if any(piece.id not in stored or not _is_same(piece, stored[piece.id]) for piece in pieces):
            return None
        return [field_text(stored[piece.id].metadata, CONTEXT) for piece in pieces]

    def _make(self, document: str, pieces: Sequence[Piece]) -> Sequence[str]:
        """Ask the function; whatever it raises or returns is about this document alone."""
        where = f"{pieces[0].where}: contextualize"
        if self.make is None:
            raise InputError(f"{where} must be given, since the chunks have contexts of {self.name}; '' is for none")
        try:
            contexts = self.make(document, [Chunk(piece.id, piece.text, dict(piece.metadata)) for piece in pieces])
        except Exception as error:  # whatever their models raise
            raise InputError(f"{where} has failed: {type(error).__name__}: {error}") from error
        return _checked(where, contexts, len(pieces))


NO_CONTEXT = Contextualizer()


def _checked(where: str, contexts: Any, count: int) -> list[str]:
    if inspect.iscoroutine(contexts):
        contexts.close()  # else Python warns that it was never awaited
        raise InputError(f"{where} must not be async: it returned a coroutine")
    is_plain = isinstance(contexts, Sequence) and not isinstance(contexts, str)
    if not is_plain or len(contexts) != count:
        got = len(contexts) if is_plain else type(contexts).__name__
        raise InputError(f"{where} must return a sequence of {count} str, one for each chunk, got {got}")
    for context in contexts:
        if not isinstance(context, str) or len(context) > MAX_CONTEXT:
            got = f"{len(context):,} of them" if isinstance(context, str) else type(context).__name__
            raise InputError(f"{where} must return str of at most {MAX_CONTEXT:,} characters, got {got}")
    return [context.strip() for context in contexts]


def _with(piece: Piece, key: str, value: str) -> Piece:
    return replace(piece, metadata={**piece.metadata, key: value})


def _is_same(piece: Piece, chunk: Chunk) -> bool:
    """Return whether a chunk differs from a piece in nothing but its context."""
    return piece.text == chunk.text and {**piece.metadata, CONTEXT: ""} == {**chunk.metadata, CONTEXT: ""}
