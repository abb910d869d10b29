"""Convert a config to and from its stored form, and compare the two."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.analysis import AnalyzerConfig, AnalyzerContract, analyzer_from_settings, contract_of, differences
from rag_bm25.analysis.config import BEFORE_SETTINGS
from rag_bm25.errors import ConfigMismatchError, FormatError
from rag_bm25.index.config import IndexConfig
from rag_bm25.store.rows import DenseField
from rag_bm25.weighting.fields import FieldWeight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.analysis.config import Segmentation
    from rag_bm25.documents.lengths import LengthUnit

# What an index of version 0.1 has where nobody has chosen: the defaults were others.
_FORMER_LENGTH_UNIT: LengthUnit = "characters"
_FORMER_QUERY_SEGMENTATION: Segmentation = "search"
_FORMER_BIGRAM_WEIGHT = 0.4
_FORMER_LATIN_WEIGHT = 1.0
_FORMER_DEFAULTS = {
    "length_unit": _FORMER_LENGTH_UNIT,
    "bigram_weight": _FORMER_BIGRAM_WEIGHT,
    "latin_weight": _FORMER_LATIN_WEIGHT,
}
_FORMER_ANALYZER_DEFAULTS = {
    "query_segmentation": _FORMER_QUERY_SEGMENTATION,
    "word_bigrams": False,
    "compounds": "all",
    "query_stop_words": (),
    "query_stop_structures": False,
    "distinct_bigrams": False,
}

_Config = TypeVar("_Config", IndexConfig, AnalyzerConfig)

_NO_CONFIG = "the stored parameters are damaged: they are not those of an index"


def _document_side(config: IndexConfig) -> dict[str, Any]:
    """Return the parameters that the rows depend on, as JSON values; delta as it is used."""
    as_they_are = ("chunk_size", "length_unit", "k1", "b", "dense_dim", "dense_metric", "weighting")
    return {
        **{name: getattr(config, name) for name in as_they_are},
        "delta": config.document_weighting().delta,
        "fields": {name: asdict(weight) for name, weight in config.fields.items()},
    }


def _stored_document_side(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the stored parameters; one that came later has the value that changes nothing, its default."""
    return {**_document_side(IndexConfig(chunk_size=1)), **stored["document"]}


def config_to_dict(config: IndexConfig, contract: AnalyzerContract) -> dict[str, Any]:
    """Return the JSON form in which a config is stored with its index."""
    return {
        "document": _document_side(config),
        "query": asdict(config.query_weighting()),
        "analyzer": {"settings": contract.settings, "probes": contract.probes},
    }


def config_from_dict(stored: dict[str, Any], given: IndexConfig | None) -> IndexConfig:
    """Return the given config, checked against the stored one, or by default the stored one.

    An index that is older than a setting of the analyzer is used as it was made, whatever `given` has for it.
    """
    _check_stored(stored)
    if given is None:
        given = _rebuild(stored)
    given = _restore_weights(stored["query"], _restore_length_unit(stored["document"], given))
    given = _restore_settings(stored["analyzer"]["settings"], given)
    require_same(stored, given)
    return given


def _check_stored(stored: Mapping[str, Any]) -> None:
    """Refuse a value that has not the shape of a stored config."""
    parts = [stored.get("document"), stored.get("query"), contract := stored.get("analyzer")]
    if isinstance(contract, dict):
        parts += [contract.get("settings"), contract.get("probes")]
    if not all(isinstance(part, dict) for part in parts) or "analyzer" not in parts[-2]:  # type: ignore[operator]
        raise FormatError(_NO_CONFIG)


def _rebuild(stored: dict[str, Any]) -> IndexConfig:
    analyzer = analyzer_from_settings(stored["analyzer"]["settings"])
    document = _stored_document_side(stored)
    try:
        document["fields"] = {name: FieldWeight(**weight) for name, weight in document["fields"].items()}
        return IndexConfig(**document, **stored["query"], analyzer=analyzer.config)
    except (AttributeError, TypeError) as error:
        raise FormatError(f"{_NO_CONFIG}: {error}") from error


def dense_field_of(stored: dict[str, Any]) -> DenseField | None:
    """Return the dense field of a stored index; its analyzer need not be at hand."""
    _check_stored(stored)
    document = stored["document"]
    if document.get("dense_dim") is None:
        return None
    return DenseField(document["dense_dim"], document.get("dense_metric"))


def renew_defaults(config: IndexConfig) -> IndexConfig:
    """Return the config with today's defaults, where it has those of version 0.1."""
    if isinstance(config.analyzer, AnalyzerConfig):
        config = replace(config, analyzer=_renew(config.analyzer, _FORMER_ANALYZER_DEFAULTS))
    return _renew(config, _FORMER_DEFAULTS)


def _renew(config: _Config, former: Mapping[str, Any]) -> _Config:
    changed = {name: getattr(type(config), name) for name, value in former.items() if getattr(config, name) == value}
    return replace(config, **changed)


def _restore_length_unit(document: dict[str, Any], given: IndexConfig) -> IndexConfig:
    """Return the config with the former default of the length unit, if that is stored and today's is given."""
    is_default = given.length_unit == IndexConfig.length_unit
    was_default = document.get("length_unit") == _FORMER_LENGTH_UNIT
    return replace(given, length_unit=_FORMER_LENGTH_UNIT) if is_default and was_default else given


def _restore_weights(query: dict[str, Any], given: IndexConfig) -> IndexConfig:
    """Return the config with former defaults of the weights of terms, if the index had them and today's are given."""
    if given.latin_weight == IndexConfig.latin_weight and "latin_weight" not in query:
        given = replace(given, latin_weight=_FORMER_LATIN_WEIGHT)
    is_default = given.bigram_weight == IndexConfig.bigram_weight
    was_default = "word_bigram_weight" not in query and query.get("bigram_weight") == _FORMER_BIGRAM_WEIGHT
    return replace(given, bigram_weight=_FORMER_BIGRAM_WEIGHT) if is_default and was_default else given


def _restore_settings(settings: dict[str, Any], given: IndexConfig) -> IndexConfig:
    """Return the config with the behaviour of the analyzer from before it had the settings that are not stored."""
    missing = {name: value for name, value in BEFORE_SETTINGS.items() if name not in settings}
    if not (missing and isinstance(given.analyzer, AnalyzerConfig)):
        return given
    was_default = settings.get("query_segmentation") == _FORMER_QUERY_SEGMENTATION
    if was_default and given.analyzer.query_segmentation == AnalyzerConfig.query_segmentation:
        missing["query_segmentation"] = _FORMER_QUERY_SEGMENTATION
    return replace(given, analyzer=replace(given.analyzer, **missing))


def require_same(stored: dict[str, Any], given: IndexConfig) -> None:
    """Refuse a config whose vectors would not fit the stored ones; the message lists every difference."""
    _check_stored(stored)
    document, wanted = _stored_document_side(stored), _document_side(given)
    found = [
        f"{name}: stored {document[name]!r}, given {value!r}"
        for name, value in wanted.items()
        if value != document[name]
    ]
    contract = AnalyzerContract(stored["analyzer"]["settings"], stored["analyzer"]["probes"])
    found += differences(contract, contract_of(given.build_analyzer()))
    if found:
        raise ConfigMismatchError("the index was created with other parameters: " + "; ".join(found))
