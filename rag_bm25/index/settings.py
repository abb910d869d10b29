"""Settings: the parameters of a config and of its analyzer by their names, and as texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.checks import check_choice
from rag_bm25.definitions import options_of
from rag_bm25.errors import ParameterError
from rag_bm25.hits.fusion import DEFAULT_FUSION
from rag_bm25.index.config import IndexConfig, in_config
from rag_bm25.query.expansion import DEFAULT_EXPANSION
from rag_bm25.weighting.formulas import WEIGHTINGS
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.weighting.query import QueryWeighting

OF_ANALYZER = options_of(AnalyzerConfig)
PARAMETERS = {**options_of(IndexConfig), **OF_ANALYZER}

NOT_SETTINGS = ("analyzer", "dense_dim", "dense_metric", "expansion", "fusion")
"""Parameters that no lexical score depends on, the analyzer, whose own parameters are settings, and the expansion."""
SETTINGS = {name: one for name, one in PARAMETERS.items() if one.kind.is_plain and name not in NOT_SETTINGS}
"""Parameters that a text can give: all that a lexical score depends on, but for lists of words."""


def read_setting(name: str, given: object) -> Any:
    """Return the value of a setting that is given as a text, such as one of the command line, or as it is."""
    option = SETTINGS[check_choice("a parameter", name, tuple(SETTINGS))]
    return option.read(option.kind.parse(given) if isinstance(given, str) else given)


def with_settings(config: IndexConfig, settings: Mapping[str, Any]) -> IndexConfig:
    """Return a config with some parameters changed.

    Parameters
    ----------
    config : IndexConfig
        The config, which stays as it is.
    settings : mapping of str to object
        A parameter of :class:`IndexConfig` or :class:`AnalyzerConfig` -> its new value.

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
        check_choice("a parameter", name, tuple(PARAMETERS))
    changes = {name: value for name, value in settings.items() if name not in OF_ANALYZER}
    if of_analyzer := {name: value for name, value in settings.items() if name in OF_ANALYZER}:
        if not isinstance(config.analyzer, AnalyzerConfig):
            names = ", ".join(of_analyzer)
            raise ParameterError(
                f"{names} must be settings of the built-in analyzer, got the analyzer {config.analyzer!r}"
            )
        changes["analyzer"] = replace(config.analyzer, **of_analyzer)
    return replace(config, **changes)


def weighting_for(config: IndexConfig, stored: IndexConfig) -> QueryWeighting:
    """Return the weighting by which searches of an index are those of one with another config that can share it."""
    own = config.query_weighting()
    others = {name: getattr(config, name) for name in ("k1", "b") if getattr(own, name) is None}
    return replace(own, **{name: value for name, value in others.items() if value != getattr(stored, name)})


def shared_side(config: IndexConfig) -> IndexConfig:
    """Return a config with the defaults of all that a search can give: equal ones can share an index."""
    form, plain = WEIGHTINGS[config.weighting], document_side(config)
    if not config.k1:  # a weight does not tell the tf
        return plain
    return replace(plain, **{name: PARAMETERS[name].default for name in ("k1", "b") if name in form.parameters})


def document_side(config: IndexConfig) -> IndexConfig:
    """Return a config with the defaults on the query's side: equal ones have the same vectors."""
    return replace(config, **in_config(DEFAULT_WEIGHTING), expansion=DEFAULT_EXPANSION, fusion=DEFAULT_FUSION)
