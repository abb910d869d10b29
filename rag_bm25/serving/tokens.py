"""Access tokens with a scope: a file of digests, one JSON object a line, which is followed while the server runs.

A token has 256 random bits. So nobody can guess it, however fast, nor find it from a plain digest: salt and slow hashes
are for what people choose.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Container, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from rag_bm25.definitions import Between, options_of, read_json, read_options
from rag_bm25.documents.checks import check_namespace
from rag_bm25.errors import FilterError, ParameterError, RagBM25Error
from rag_bm25.filters import FilterMapping, parse_filter
from rag_bm25.serving.access import Access
from rag_bm25.serving.answers import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_BYTES = 1 << 20
WRITABLE_BY_ALL = 0o002
LIMITS = ("namespaces", "filter")

Name: TypeAlias = Annotated[str, Between(1, 100)]
Names: TypeAlias = Annotated[Sequence[str], Between(1, 1_000)]


@dataclass(frozen=True, kw_only=True)
class AccessToken:
    """A line of the file.

    Parameters
    ----------
    name : str
        Name, for those who keep the file.
    digest : str
        SHA-256 of the token, in hexadecimal digits.
    namespaces : sequence of str
        Namespaces that the token is for; by default all.
    filter : mapping
        Only the chunks that fit it.
    write : bool
        Whether it may add and delete.
    """

    name: Name
    digest: str
    namespaces: Names | None = None
    filter: FilterMapping | None = None
    write: bool = False

    def __post_init__(self) -> None:
        if self.filter is not None and parse_filter(self.filter) is None:
            raise ParameterError("filter must have a condition; without any, leave it out")
        if self.filter is not None and self.write:
            raise ParameterError("a token with a filter only reads: a chunk that it may not see has an id, too")
        for name in self.namespaces or ():
            check_namespace(name)

    @property
    def access(self) -> Access:
        """What it gives access to."""
        return Access(None if self.namespaces is None else tuple(self.namespaces), self.filter, self.write)

    @classmethod
    def read(cls, plain: Any) -> AccessToken:
        """Read a line; no message has a digest, in whose place somebody may have put a token."""
        if not isinstance(plain, dict):
            raise ParameterError("a token must be a JSON object")
        if not re.fullmatch("[0-9a-f]{64}", str(plain.get("digest"))):
            raise ParameterError("digest must be the SHA-256 of a token, in 64 hexadecimal digits")
        for key in LIMITS:
            if plain.get(key, ...) is None:
                raise ParameterError(f"{key} must not be null: without limits, leave it out")
        return cls(**read_options(options_of(cast("type", cls)), plain, "token"))


class TokenFile:
    """The tokens of a file, as it is now; a change that breaks a rule is logged, and the former ones stay in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data: bytes | None = _read(path)
        self._tokens = read_tokens(path, self._data)
        self._problem = ""
        self._check: Callable[[Access], None] = lambda _: None

    def check_scopes(self, check: Callable[[Access], None]) -> None:
        """Have each scope checked by the index, now and after each change: `check` raises what is wrong."""
        self._check = check
        self._require_scopes(self._tokens)

    def find(self, token: bytes) -> Access | None:
        """Return what a token gives access to; None if there is no such token."""
        self._follow()
        digest = sha256(token).hexdigest()
        return next((one.access for one in self._tokens if compare_digest(one.digest, digest)), None)

    def _follow(self) -> None:
        """Take over a change; the same bytes are parsed once, be they good or bad."""
        data, problem = None, ""
        try:
            data = _read(self._path)
            if data == self._data:
                return
            tokens = read_tokens(self._path, data)
            self._require_scopes(tokens)
            self._tokens = tokens
        except ParameterError as error:
            problem = str(error)
        self._data = data
        if problem and problem != self._problem:
            LOGGER.error("%s; the former tokens stay in force", problem)
        self._problem = problem

    def _require_scopes(self, tokens: Sequence[AccessToken]) -> None:
        """Refuse a filter that the engine of the index cannot evaluate: each request would be."""
        name = ""
        try:
            for token in tokens:
                name = token.name
                self._check(token.access)
        except FilterError as error:
            raise ParameterError(f"{self._path}, the token {name!r}: {error}") from None


def _read(path: Path) -> bytes:
    """Read the file: all of it, since its times may stay the same when it changes."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # to open a pipe would wait for its writer
            raise ParameterError(f"{path} is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & WRITABLE_BY_ALL:
        raise ParameterError(f"{path} can be written by everybody, who could so add a token: chmod o-w")
    if len(data) > MAX_BYTES:
        raise ParameterError(f"{path} must have at most {MAX_BYTES:,} bytes")
    return data


def read_tokens(path: Path, data: bytes) -> tuple[AccessToken, ...]:
    """Read tokens; an error names the file, the line and the rule."""
    tokens: dict[str, AccessToken] = {}
    digests: set[str] = set()
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                token = AccessToken.read(read_json(line.decode()))
                _require_new(token, tokens, digests)
            except RagBM25Error as error:
                raise ParameterError(f"{path}, line {number}: {error}") from None
            except (RecursionError, ValueError):
                raise ParameterError(f"{path}, line {number}: not JSON in UTF-8") from None
            tokens[token.name] = token
            digests.add(token.digest)
    return tuple(tokens.values())


def _require_new(token: AccessToken, names: Container[str], digests: Container[str]) -> None:
    if token.name in names:
        raise ParameterError(f"the name {token.name!r} is taken")
    if token.digest in digests:
        raise ParameterError(f"the digest of {token.name!r} is that of another token")


def make_token(name: str, **given: Any) -> tuple[str, str]:
    """Return a new token, and its line of the file; what is None is left out."""
    secret = secrets.token_urlsafe(32)
    row = {"name": name, "digest": sha256(secret.encode()).hexdigest(), **given}
    row = {key: value for key, value in row.items() if value is not None}
    AccessToken.read(row)
    return secret, json.dumps(row, ensure_ascii=False)
