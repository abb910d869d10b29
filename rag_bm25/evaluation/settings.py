"""Parameters by their names: as written on the command line, and as changes of a config."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.config import IndexConfig
from rag_bm25.errors import ParameterError
from rag_bm25.fields import FieldWeight
from rag_bm25.similarity import QueryWeighting

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SETTING_NAMES",
    "Value",
    "config_line",
    "differing",
    "document_side",
    "field_setting",
    "parse_field",
    "parse_setting",
    "parse_value",
    "query_options",
    "require_setting",
    "with_settings",
]

Value: TypeAlias = float | bool | str | None
"""What one parameter is set to."""

_WORDS: dict[str, Value] = {"none": None, "true": True, "false": False}
_ANALYZER_NAMES = tuple(one.name for one in fields(AnalyzerConfig) if not isinstance(one.default, tuple))
_INDEX_NAMES = tuple(
    one.name for one in fields(IndexConfig) if one.default_factory is MISSING and not one.name.startswith("dense_")
)
_QUERY_NAMES = tuple(one.name for one in fields(QueryWeighting))

SETTING_NAMES = (*_INDEX_NAMES, "field", *_ANALYZER_NAMES)
"""What a lexical score depends on: the parameters of :class:`IndexConfig` and its analyzer that have a single value,
and its fields, see :func:`field_setting`."""


def require_setting(name: str) -> None:
    """Refuse a name that is no parameter's.

    Parameters
    ----------
    name : str
        What ought to be one of :data:`SETTING_NAMES`.

    Raises
    ------
    ParameterError
        There is no such parameter.

    Examples
    --------
    >>> require_setting("k1")
    """
    if name not in SETTING_NAMES:
        msg = f"a parameter must be one of {', '.join(SETTING_NAMES)}, got {name!r}"
        raise ParameterError(msg)


def parse_setting(text: str) -> tuple[str, str]:
    """Split ``name=value``.

    Parameters
    ----------
    text : str
        The name may have hyphens, as the options of the command line do.

    Returns
    -------
    name : str
        One of :data:`SETTING_NAMES`.
    value : str
        What is to be read by :func:`parse_value`; "" where there is no ``=``.

    Raises
    ------
    ParameterError
        There is no such parameter.

    Examples
    --------
    >>> parse_setting("query-segmentation=exact")
    ('query_segmentation', 'exact')
    """
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    require_setting(name)
    return name, value.strip()


def parse_value(text: str) -> Value:
    """Read a value: a number, ``true``, ``false``, ``none``, or a word.

    Parameters
    ----------
    text : str
        In any case.

    Returns
    -------
    float, int, bool, str or None
        A whole number comes back as one.

    Examples
    --------
    >>> [parse_value(text) for text in ("0.9", "8", "True", "none", "lucene")]
    [0.9, 8, True, None, 'lucene']
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        number = float(word)
    except ValueError:
        return word
    return int(number) if number.is_integer() else number


def parse_field(text: str) -> tuple[str, FieldWeight]:
    """Read ``name:chunk_size``, ``name:chunk_size:weight`` or ``name:chunk_size:weight:b``.

    Parameters
    ----------
    text : str
        The numbers are those of :class:`FieldWeight`; those left out have their defaults.

    Returns
    -------
    name : str
        The field.
    weight : FieldWeight
        How much it counts.

    Raises
    ------
    ParameterError
        There is no name or no chunk size, or a number is out of its range.

    Examples
    --------
    >>> parse_field("title:30:2.5")
    ('title', FieldWeight(chunk_size=30, weight=2.5, b=0.75))
    """
    name, *numbers = text.strip().split(":")
    if not name or not 1 <= len(numbers) <= 3:
        msg = f"a field must be NAME:CHUNK_SIZE, NAME:CHUNK_SIZE:WEIGHT or NAME:CHUNK_SIZE:WEIGHT:B, got {text!r}"
        raise ParameterError(msg)
    given: dict[str, Any] = dict(zip(("chunk_size", "weight", "b"), map(parse_value, numbers), strict=False))
    return name, FieldWeight(**given)


def field_setting(weights: Mapping[str, FieldWeight]) -> str | None:
    """Return fields as the one value that ``field`` is set to.

    Parameters
    ----------
    weights : mapping of str to FieldWeight
        As `fields` of :class:`IndexConfig`.

    Returns
    -------
    str or None
        Each as :func:`parse_field` reads it, with ``+`` between; None for none.

    Examples
    --------
    >>> field_setting({"title": FieldWeight(chunk_size=30, weight=2.5), "tags": FieldWeight(chunk_size=8)})
    'title:30:2.5:0.75+tags:8:1.0:0.75'
    """
    written = (f"{name}:{one.chunk_size}:{one.weight}:{one.b}" for name, one in weights.items())
    return "+".join(written) or None


def _fields_of(setting: Value) -> dict[str, FieldWeight]:
    """Read what :func:`field_setting` returns."""
    return {} if setting is None else dict(map(parse_field, str(setting).split("+")))


def with_settings(config: IndexConfig, settings: Mapping[str, Value]) -> IndexConfig:
    """Return a config with some parameters changed.

    Parameters
    ----------
    config : IndexConfig
        The others.
    settings : mapping of str to value
        Name, one of :data:`SETTING_NAMES`, -> value.

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
        msg = (
            f"{', '.join(of_analyzer)} must be settings of the built-in analyzer, got the analyzer {config.analyzer!r}"
        )
        raise ParameterError(msg)
    if of_analyzer:
        changes["analyzer"] = replace(config.analyzer, **of_analyzer)  # type: ignore[type-var]  # is a dataclass here
    if "field" in settings:
        changes["fields"] = _fields_of(settings["field"])
    return replace(config, **changes)


def differing(base: IndexConfig, other: IndexConfig) -> dict[str, Value]:
    """Return what has to be set to get from one config to another.

    Parameters
    ----------
    base, other : IndexConfig
        From, and to.

    Returns
    -------
    dict of str to value
        As for :func:`with_settings`.

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
    return found if base.fields == other.fields else {**found, "field": field_setting(other.fields)}


def query_options(config: IndexConfig) -> dict[str, Value]:
    """Return what may differ each time that an index is searched.

    Parameters
    ----------
    config : IndexConfig
        Any.

    Returns
    -------
    dict of str to value
        Every parameter of the query's side, as :meth:`BM25Index.search` takes them.

    Examples
    --------
    >>> query_options(IndexConfig(500, idf="lucene"))["idf"]
    'lucene'
    """
    return {name: getattr(config, name) for name in _QUERY_NAMES}


def document_side(config: IndexConfig) -> IndexConfig:
    """Return a config with the defaults on the query's side: equal ones can share an index.

    Parameters
    ----------
    config : IndexConfig
        Any.

    Returns
    -------
    IndexConfig
        With the same chunk size, k1, b, analyzer and so on.

    Examples
    --------
    >>> document_side(IndexConfig(500, idf="lucene")) == document_side(IndexConfig(500, k3=8.0))
    True
    """
    return with_settings(config, {name: getattr(QueryWeighting(), name) for name in _QUERY_NAMES})


def config_line(config: IndexConfig) -> str:
    """Return the Python expression for a config, without what has its default.

    Parameters
    ----------
    config : IndexConfig
        With the built-in analyzer, or a callable, which is shown by its name.

    Returns
    -------
    str
        To be pasted into a program.

    Examples
    --------
    >>> config_line(IndexConfig(500, idf="lucene", analyzer=AnalyzerConfig(stem=False)))
    "IndexConfig(chunk_size=500, idf='lucene', analyzer=AnalyzerConfig(stem=False))"
    """
    return _call(config)


def _call(made: Any) -> str:
    arguments = [
        f"{one.name}={_expression(getattr(made, one.name))}"
        for one in fields(made)
        if getattr(made, one.name) != _default(one)
    ]
    return f"{type(made).__name__}({', '.join(arguments)})"


def _expression(value: object) -> str:
    if isinstance(value, AnalyzerConfig):
        return _call(value)
    return getattr(value, "__qualname__", repr(value))


def _default(one: Field[Any]) -> object:
    return one.default if one.default_factory is MISSING else one.default_factory()
