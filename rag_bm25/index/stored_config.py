"""Convert a config to and from its stored form, and compare the two."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.contract import (
    BUILT_IN,
    AnalyzerContract,
    MissingAnalyzer,
    contract_of,
    differences,
    is_contract_of,
    list_differences,
    settings_of,
    stored_analyzer,
)
from rag_bm25.definitions import TAG, Value, given_fields, options_of
from rag_bm25.errors import ConfigMismatchError, FormatError, ParameterError
from rag_bm25.index.config import QUERY_SIDE, IndexConfig, query_side, with_query_side
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.store.rows import DenseField
from rag_bm25.weighting.fields import FieldWeight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.analysis import TextAnalyzer

_Config = TypeVar("_Config", IndexConfig, AnalyzerConfig)

MAX_NAMED = 8  # differences in a message: another callable differs in nearly every probe
_NOT_OF_ROWS = ("analyzer", *QUERY_SIDE)
_NO_CONFIG = "the stored parameters are damaged: they are not those of an index"


def _document_side(config: IndexConfig) -> dict[str, Any]:
    """Return the parameters that the rows depend on, as JSON values; delta as it is used."""
    return {
        **{name: getattr(config, name) for name in options_of(IndexConfig) if name not in _NOT_OF_ROWS},
        "delta": config.document_weighting().delta,
        "fields": {name: asdict(weight) for name, weight in config.document_weighting().fields.items()},
    }


def config_to_dict(config: IndexConfig, contract: AnalyzerContract) -> dict[str, Any]:
    """Return the JSON form in which a config is stored with its index."""
    return {
        "document": _document_side(config),
        "query": query_side_to_dict(query_side(config)),
        "analyzer": {"settings": contract.settings, "probes": contract.probes},
        "fingerprint": contract.fingerprint,
    }


def query_side_to_dict(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON form of parameters of the query side."""
    plain = dict(values)
    if isinstance(expansion := plain.get("expansion"), QueryExpansion):
        plain["expansion"] = {name: _plain_of_expansion(one) for name, one in given_fields(expansion).items()}
    if (fusion := plain.get("fusion")) is not None:
        plain["fusion"] = {TAG: Value(type(fusion)).tag, **asdict(fusion)}
    return plain


def _plain_of_expansion(value: Any) -> Any:
    if isinstance(value, Synonyms):
        return value.to_lists()
    return asdict(value) if isinstance(value, Fuzzy) else value


def query_side_from_dict(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the query side of which a JSON form is stored."""
    values = dict(plain)
    try:
        if (stored := values.get("expansion")) is not None:
            synonyms, fuzzy = stored.get("synonyms"), stored.get("fuzzy")
            made = {
                "synonyms": None if synonyms is None else Synonyms.from_lists(synonyms),
                "fuzzy": Fuzzy(**fuzzy) if isinstance(fuzzy, dict) else fuzzy,
            }
            values["expansion"] = QueryExpansion(**{**stored, **made})
        if (fusion := values.get("fusion")) is not None:
            values["fusion"] = options_of(IndexConfig)["fusion"].read(fusion)
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"{_NO_CONFIG}: {error}") from error
    return values


def with_stored_query_side(config: IndexConfig, plain: Mapping[str, Any]) -> IndexConfig:
    """Return a config with the parameters of the query side of which a JSON form is stored."""
    return _with_stored(config, query_side_from_dict(plain))


def _with_stored(config: IndexConfig, values: Mapping[str, Any]) -> IndexConfig:
    if unknown := sorted(values.keys() - set(QUERY_SIDE)):
        raise FormatError(f"{_NO_CONFIG}: {', '.join(unknown)} is not of queries")
    return with_query_side(config, values)


def config_from_dict(
    stored: dict[str, Any], given: IndexConfig | None, analyzer: TextAnalyzer | None = None
) -> IndexConfig:
    """Return the stored config, with the analyzer of the given one, which is checked against it."""
    _check_stored(stored)
    config = _rebuild(stored, analyzer) if given is None else _with_stored(given, _query_side(stored))
    require_same(stored, config)
    return config


def _check_stored(stored: Mapping[str, Any]) -> None:
    """Refuse a value that has not the shape of a stored config."""
    parts = [stored.get("document"), stored.get("query"), contract := stored.get("analyzer")]
    if isinstance(contract, dict):
        parts += [contract.get("settings"), contract.get("probes")]
    if not all(isinstance(part, dict) for part in parts) or "analyzer" not in parts[-2]:  # type: ignore[operator]
        raise FormatError(_NO_CONFIG)


def _rebuild(stored: dict[str, Any], analyzer: TextAnalyzer | None) -> IndexConfig:
    used = stored_analyzer(_stored_contract(stored)) if analyzer is None else analyzer
    document = dict(stored["document"])
    try:
        document["fields"] = _field_weights(document["fields"])
        return IndexConfig(**document, **_query_side(stored), analyzer=used)
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError(f"{_NO_CONFIG}: {error}") from error


def _query_side(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored parameters of queries; before there was a k3, repeated words counted linearly."""
    return query_side_from_dict({"k3": None, **_part(stored, "query")})


def config_of_former(stored: Mapping[str, Any]) -> tuple[IndexConfig, list[str]] | None:
    """Return the values of an earlier format that this one has, and the names of the others; None if they are lost."""
    document, settings = _part(stored, "document"), _part(_part(stored, "analyzer"), "settings")
    left_out: list[str] = []
    try:
        config = IndexConfig(document.pop("chunk_size"))
    except (LookupError, ParameterError):
        return None
    is_built_in = settings.pop("analyzer", BUILT_IN) == BUILT_IN
    missing = MissingAnalyzer(AnalyzerContract(settings, {}))
    analyzer = _replace_known(AnalyzerConfig(), settings, left_out) if is_built_in else missing
    values = {**document, **_query_side(stored)}
    return _replace_known(replace(config, analyzer=analyzer), values, left_out), left_out


def _part(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = stored.get(name)
    return dict(part) if isinstance(part, dict) else {}


def _replace_known(config: _Config, given: Mapping[str, Any], left_out: list[str]) -> _Config:
    """Replace one value after the other, and note those that are unknown or refused."""
    for name, value in given.items():
        try:
            known: Any = {name: _field_weights(value) if name == "fields" else value}
            config = replace(config, **known)
        except (AttributeError, ParameterError, TypeError):  # noqa: PERF203 - there are some twenty
            left_out.append(name)
    return config


def _field_weights(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, FieldWeight]:
    return {name: FieldWeight(**weight) for name, weight in stored.items()}


def dense_field_of(stored: dict[str, Any]) -> DenseField | None:
    """Return the dense field of a stored index; its analyzer need not be at hand."""
    _check_stored(stored)
    document = stored["document"]
    if document.get("dense_dim") is None:
        return None
    return DenseField(document["dense_dim"], document.get("dense_metric"))


def require_same(stored: dict[str, Any], given: IndexConfig) -> None:
    """Refuse a config whose vectors would not fit the stored ones; the message lists the differences."""
    _check_stored(stored)
    document, wanted = stored["document"], _document_side(given)
    if missing := sorted(wanted.keys() - document.keys()):
        raise FormatError(f"{_NO_CONFIG}: {', '.join(missing)} not found")
    found = list_differences(document, wanted, wanted)
    contract = _stored_contract(stored)
    found += differences(contract, contract_in(given, contract))
    if found:
        more = f"; and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
        msg = f"the index was created with other parameters: {'; '.join(found[:MAX_NAMED])}{more}"
        raise ConfigMismatchError(msg)


def contract_in(config: IndexConfig, known: AnalyzerContract | None = None) -> AnalyzerContract:
    """Return the contract of the analyzer of a config, also of one that is missing; `known` if that is its."""
    analyzer = config.build_analyzer()
    if isinstance(analyzer, MissingAnalyzer):
        return analyzer.contract
    return known if known is not None and is_contract_of(known, analyzer) else contract_of(analyzer)


def _stored_contract(stored: Mapping[str, Any]) -> AnalyzerContract:
    contract = stored["analyzer"]
    return AnalyzerContract(contract["settings"], contract["probes"], stored.get("fingerprint"))


def differing(stored: IndexConfig, given: IndexConfig) -> list[str]:
    """Describe each parameter that differs, those of queries and of the analyzer, too."""
    was, now = map(parameters_of, (stored, given))
    return list_differences(was, now, now)


def parameters_of(config: IndexConfig) -> dict[str, Any]:
    """Return all parameters by their names, those of queries and of the analyzer, too, as JSON values."""
    return {**_document_side(config), **query_side_to_dict(query_side(config)), **settings_of(config.build_analyzer())}
