"""The options that shape the chunks of a source: as given, else as the index remembers them, else by default."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.checks import parameter_error
from rag_bm25.errors import StoreError
from rag_bm25.index.arguments import list_first
from rag_bm25.ingestion.files import NO_PATTERNS
from rag_bm25.ingestion.reading import FileOptions, ReadOptions
from rag_bm25.ingestion.rows import RowFields
from rag_bm25.ingestion.shapes import shape_of
from rag_bm25.ingestion.source_roots import ATTEMPTS, read_source_roots, set_source_roots
from rag_bm25.ingestion.splitting import default_size, splitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.contextualizing import Contextualizer
    from rag_bm25.ingestion.files import FileSelection
    from rag_bm25.ingestion.source_names import SourceNames
    from rag_bm25.statistics.log.source_roots import SourceRoot

_Changes: TypeAlias = "dict[SourceRoot, dict[str, Any]]"
FIELD = "_field"
DEFAULTS = {
    "split_size": None,
    "chunk_overlap": None,
    **NO_PATTERNS,
    "encoding": None,
    **{f"{name}{FIELD}": value for name, value in asdict(RowFields()).items()},
    "id_prefix": "",
    "hidden": False,
    "repeated": False,
    "contextualize": "",
}
"""The options that are remembered."""


def flatten(options: ReadOptions | None) -> dict[str, Any]:
    """Return reading options by the names that they are remembered under."""
    if not isinstance(options, ReadOptions | None):
        raise parameter_error("options", "ReadOptions or None", options)
    own = {} if options is None else dict(vars(options))
    of_rows = vars(own.pop("fields")) if own else {}
    return own | {f"{name}{FIELD}": value for name, value in of_rows.items()}


def unflatten(values: Mapping[str, Any]) -> ReadOptions:
    """Return the reading options among others; those that are missing have their defaults."""
    own = {option.name: values[option.name] for option in fields(ReadOptions) if option.name in values}
    of_rows = {name.removesuffix(FIELD): value for name, value in values.items() if name.endswith(FIELD)}
    return ReadOptions(fields=RowFields(**of_rows), **own)


def merge(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Put the given options in the place of known ones; an empty value stands for the default."""
    whole = {**known, **given}
    return {name: value for name, value in whole.items() if value not in ("", [], None, DEFAULTS.get(name))}


def _as_stored(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they come back from the index."""
    stored: dict[str, Any] = json.loads(json.dumps(options, default=int))
    return stored


def as_flags(options: Mapping[str, Any]) -> str:
    """Write options as the command line has them."""
    return shlex.join(word for name in DEFAULTS if name in options for word in _flags_of(name, options[name]))


def _flags_of(name: str, value: Any) -> Iterator[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        yield f"--{flag}" if value else f"--no-{flag}"
        return
    for each in value if isinstance(value, list) else [value]:
        yield from (f"--{flag}", str(each))


class RememberedOptions:
    """The options of the files of a run, by their sources."""

    def __init__(
        self, config: IndexConfig, names: SourceNames, given: Mapping[str, Any], contextualize: Contextualizer
    ) -> None:
        is_default = given.get("split_size") == default_size(config)
        by_name = {"contextualize": contextualize.name} if "contextualize" in given else {}
        self._config, self._names, self._contextualize = config, names, contextualize
        self._given = {**given, **by_name, **({"split_size": None} if is_default else {})}
        self._made: dict[str, FileOptions] = {}

    def of(self, source: str) -> FileOptions:
        """Return how the file of a source is cut and read."""
        root = self._names.root_named(source)
        values = merge({} if root is None else root.options, self._given)
        key = repr(sorted(values.items()))
        if key not in self._made:
            split = splitter(self._config, values.get("chunk_overlap"), values.get("split_size"))
            reading = unflatten(values)
            context = self._contextualize.named(values.get("contextualize", ""))
            shape = shape_of(self._config, split, reading, context.name)
            self._made[key] = FileOptions(split, reading, context, shape)
        return self._made[key]

    def remember(self, index: BM25Index, found: FileSelection, namespace: str) -> list[str]:
        """Store the given options with the folders and files that were given; return notes about what has changed."""
        given = _as_stored({name: self._given[name] for name in DEFAULTS if name in self._given})
        if not given:
            return []
        paths = (found.whole or found).given
        notes: list[str] = []
        for _ in range(ATTEMPTS):
            changed = self._find_changed(index, paths, given, namespace)
            if not changed:
                return notes + self._passing_notes(paths, given)
            notes = notes or self._change_notes(changed)
            replaced = [replace(root, options=options) for root, options in changed.items()]
            set_source_roots(index, replaced, namespace=namespace)
        msg = f"the options could not be stored: other processes stored others {ATTEMPTS} times meanwhile. Try again."
        raise StoreError(msg)

    def _find_changed(
        self, index: BM25Index, paths: Iterable[Path], given: Mapping[str, Any], namespace: str
    ) -> _Changes:
        """Return the new options of the roots within some paths; those whose options stay are left out."""
        roots = read_source_roots(index, namespace=namespace)
        own = {self._names.source_of(path) for path in paths}
        within = {name for path in paths for name, _ in self._names.below(path)}
        inner = {name: value for name, value in given.items() if name not in NO_PATTERNS}  # relative to the outer one
        wanted = {
            root: merge(root.options, given if root.name in own else inner) for root in roots if root.name in within
        }
        return {root: options for root, options in wanted.items() if options != root.options}

    def _change_notes(self, changed: _Changes) -> list[str]:
        """Say which options have changed, and of which sources; those of a new one are no change."""
        new = {root.name for root in self._names.new}
        sources: dict[str, list[str]] = {}
        for root, options in changed.items():
            if root.name not in new:
                sources.setdefault(_describe_change(root.options, options), []).append(root.name)
        return [f"options of {list_first(names)}: {change}" for change, names in sources.items()]

    def _passing_notes(self, paths: Iterable[Path], given: Mapping[str, Any]) -> list[str]:
        """Name the paths whose options are those of the folder that they are in."""
        parts: dict[str, list[str]] = {}
        for source in sorted(map(self._names.source_of, paths)):
            root = self._names.root_named(source)
            if root is not None and source != root.name and merge(root.options, given) != root.options:
                parts.setdefault(root.name, []).append(source)
        return [
            f"part of {root}: {list_first(sources)}. The options given hold for this run alone; give them with {root} "
            "to have them remembered"
            for root, sources in parts.items()
        ]


def _describe_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    differing = [name for name in DEFAULTS if now.get(name) != before.get(name)]
    new, old = (as_flags({name: each[name] for name in differing if name in each}) for each in (now, before))
    again = "" if NO_PATTERNS.keys() >= {*differing} else "; the files are cut anew"
    return f"{new or 'the default'}, no longer {old or 'the default'}{again}"
