"""All that shapes the chunks of a file beside its name and its bytes: an upgrade changes it, and other options do."""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

from rag_bm25._version import __version__
from rag_bm25.ingestion.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.ingestion.reading import ReadOptions
    from rag_bm25.ingestion.splitting import Splitter

TOLD = ("versions", "lengths")
"""Parts of a shape whose values are told; others may have names of fields, which no log has."""


def shape_of(config: IndexConfig, split: Splitter, options: ReadOptions, contextualized_by: str) -> str | None:
    """Return all that shapes the chunks of a file, as JSON; None if that cannot be known."""
    if options.read is not None:
        return None
    projects = {"chardet", "pyarrow", *(form.project for form in FORMATS.values() if form.project)}
    shape = {
        "versions": {"rag-bm25": __version__, "python": platform.python_version(), **dict(_versions(sorted(projects)))},
        "lengths": {"split_size": split.longest, "chunk_overlap": split.overlap, "length_unit": config.length_unit},
        "options": {name: value for name, value in vars(options).items() if name not in ("timeout", "read")},
        "index": {"fields": list(config.fields), "contextualize": contextualized_by},
    }
    return json.dumps(shape, default=vars)


def _versions(projects: Iterable[str]) -> Iterator[tuple[str, str]]:
    for project in projects:
        with suppress(metadata.PackageNotFoundError):
            yield project, metadata.version(project)


def shape_key(shape: str) -> str:
    """Return the short name that a shape is stored under."""
    return hashlib.blake2b(shape.encode(), digest_size=16).hexdigest()


def describe_recut(changes: Collection[tuple[str, str]], num_chunks: int) -> str:
    """Say how many files are cut anew, how many chunks they have, and why, given their shapes of then and now."""
    reasons = dict.fromkeys(reason for before, now in dict.fromkeys(changes) for reason in _differences(before, now))
    return (
        f"up to {num_chunks:,} chunks of files that have not changed ({len(changes):,}) are cut anew: "
        f"{', '.join(reasons)}. Chunks that stay the same cost no write, and texts that only move are not embedded "
        "again. A dry run counts what changes."
    )


def _differences(before: str, now: str) -> Iterator[str]:
    """Name what differs between two shapes, with the values where these may be told."""
    old, new = json.loads(before), json.loads(now)
    for part in new:
        for name, value in _changed(old.get(part, {}), new[part]):
            yield f"{name} {value}" if part in TOLD else name


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield name, f"{new.get(name, 'none')} (was {old.get(name, 'none')})"
