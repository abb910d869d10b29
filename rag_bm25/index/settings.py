"""Parameters by their names: as written on the command line, and as changes of a config."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.errors import ParameterError
from rag_bm25.index.config import IndexConfig
from rag_bm25.weighting.fields import FieldWeight
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

if TYPE_CHECKING:
    from collections.abc import Mapping

Value: TypeAlias = float | bool | str | None
"""The value of one parameter."""

_WORDS: dict[str, Value] = {"none": None, "true": True, "false": False}
_ANALYZER_NAMES = tuple(one.name for one in fields(AnalyzerConfig) if not isinstance(one.default, tuple))
_INDEX_NAMES = tuple(
    one.name for one in fields(IndexConfig) if one.default_factory is MISSING and not one.name.startswith("dense_")
)

SETTING_NAMES = (*_INDEX_NAMES, "field", *_ANALYZER_NAMES)
"""The parameters of :class:`IndexConfig` and its analyzer that have a single value, and ``field``, for its fields: all
that a lexical score depends on."""


def require_setting(name: str) -> None:
    """Refuse a name that is not one of :data:`SETTING_NAMES`."""
    if name not in SETTING_NAMES:
        raise ParameterError(f"a parameter must be one of {', '.join(SETTING_NAMES)}, got {name!r}")


def parse_setting(text: str) -> tuple[str, str]:
    """Split the ``name=value`` of a setting; see :func:`split_setting`."""
    name, value = split_setting(text)
    require_setting(name)
    return name, value


def split_setting(text: str) -> tuple[str, str]:
    """Split ``name=value``; the name may have hyphens, and the value is "" without ``=``."""
    name, _, value = text.partition("=")
    return name.strip().replace("-", "_"), value.strip()


def parse_value(text: str) -> Value:
    """Read a value: a number, ``true``, ``false``, ``none``, or a word."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        number = float(word)
    except ValueError:
        return word
    return int(number) if number.is_integer() else number


def parse_field(text: str) -> tuple[str, FieldWeight]:
    """Read ``name:chunk_size``, ``name:chunk_size:weight`` or ``name:chunk_size:weight:b``."""
    name, *numbers = text.strip().split(":")
    if not name or not 1 <= len(numbers) <= 3:
        msg = f"a field must be NAME:CHUNK_SIZE, NAME:CHUNK_SIZE:WEIGHT or NAME:CHUNK_SIZE:WEIGHT:B, got {text!r}"
        raise ParameterError(msg)
    given: dict[str, Any] = dict(zip(("chunk_size", "weight", "b"), map(parse_value, numbers), strict=False))
    return name, FieldWeight(**given)


def format_fields(weights: Mapping[str, FieldWeight]) -> str | None:
    """Return fields as one value of ``field``, with ``+`` between; None for none."""
    written = (f"{name}:{one.chunk_size}:{one.weight}:{one.b}" for name, one in weights.items())
    return "+".join(written) or None


def _parse_fields(setting: Value) -> dict[str, FieldWeight]:
    """Read a value of ``field``."""
    weights: dict[str, FieldWeight] = {}
    for text in [] if setting is None else str(setting).split("+"):
        name, weight = parse_field(text)
        if name in weights:
            raise ParameterError(f"a field must be given once, got {name!r} again")
        weights[name] = weight
    return weights


def with_settings(config: IndexConfig, settings: Mapping[str, Value]) -> IndexConfig:
    """Return a config with some parameters changed.

    Parameters
    ----------
    config : IndexConfig
        The config, which stays as it is.
    settings : mapping of str to value
        One of :data:`SETTING_NAMES` -> its new value.

    Returns
    -------
    IndexConfig
        A new one.

    Raises
    ------
    ParameterError
        There is no such parameter, or its value is out of its range.

    Examples
    --------
    >>> changed = with_settings(IndexConfig(500), {"k1": 0.9, "stem": False})
    >>> changed.k1, changed.analyzer.stem
    (0.9, False)
    """
    for name in settings:
        require_setting(name)
    of_analyzer: dict[str, Any] = {name: settings[name] for name in settings if name in _ANALYZER_NAMES}
    changes: dict[str, Any] = {name: settings[name] for name in settings if name in _INDEX_NAMES}
    if of_analyzer and not isinstance(config.analyzer, AnalyzerConfig):
        raise ParameterError(
            f"{', '.join(of_analyzer)} must be settings of the built-in analyzer, got the analyzer {config.analyzer!r}"
        )
    if of_analyzer:
        changes["analyzer"] = replace(config.analyzer, **of_analyzer)  # type: ignore[type-var]  # is a dataclass here
    if "field" in settings:
        changes["fields"] = _parse_fields(settings["field"])
    return replace(config, **changes)


def differing(base: IndexConfig, other: IndexConfig) -> dict[str, Value]:
    """Return the settings that lead from one config to another.

    Parameters
    ----------
    base, other : IndexConfig
        The configs.

    Returns
    -------
    dict of str to value
        Settings by which :func:`with_settings` makes `other` from `base`.

    Examples
    --------
    >>> differing(IndexConfig(500), IndexConfig(500, k1=0.9, analyzer=AnalyzerConfig(stem=False)))
    {'k1': 0.9, 'stem': False}
    """
    names: dict[str, tuple[object, object]] = dict.fromkeys(_INDEX_NAMES, (base, other))
    if isinstance(base.analyzer, AnalyzerConfig) and isinstance(other.analyzer, AnalyzerConfig):
        names |= dict.fromkeys(_ANALYZER_NAMES, (base.analyzer, other.analyzer))
    found: dict[str, Value] = {
        name: getattr(after, name)
        for name, (before, after) in names.items()
        if getattr(before, name) != getattr(after, name)
    }
    return found if base.fields == other.fields else {**found, "field": format_fields(other.fields)}


def query_options(config: IndexConfig) -> dict[str, Value]:
    """Return the settings of the query's side, as :meth:`BM25Index.search` takes them."""
    return asdict(config.query_weighting())


def document_side(config: IndexConfig) -> IndexConfig:
    """Return a config with the defaults on the query's side: equal ones can share an index."""
    return with_settings(config, asdict(DEFAULT_WEIGHTING))
