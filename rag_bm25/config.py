"""What an index is made with: the fixed side of the chunk, and the changeable side of the query."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from rag_bm25.analysis import (
    Analyzer,
    AnalyzerConfig,
    AnalyzerContract,
    analyzer_from_settings,
    contract_of,
    differences,
)
from rag_bm25.analysis.config import BEFORE_SETTINGS
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.errors import ConfigMismatchError, FormatError, ParameterError, shown
from rag_bm25.fields import FieldWeight
from rag_bm25.parameters import as_str, check_choice
from rag_bm25.similarity import DocumentWeighting, IdfName, QueryWeighting
from rag_bm25.store import DenseField, DenseMetric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.weightings import WeightingName

__all__ = ["IndexConfig", "config_from_dict", "config_to_dict", "dense_field_of", "require_same"]

LENGTH_UNITS: tuple[str, ...] = get_args(LengthUnit)
METRICS: tuple[str, ...] = get_args(DenseMetric)


class _Fields(dict[str, FieldWeight]):
    """A dict that cannot be changed, for `asdict`, JSON and pickle take no other mapping for one."""

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        msg = "the fields of a config cannot be changed: make another config with dataclasses.replace"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[_Fields], tuple[dict[str, FieldWeight]]]:
        """Be pickled and copied by way of the constructor: unpickling puts items into a dict one by one."""
        return type(self), (dict(self),)


@dataclass(frozen=True)
class IndexConfig:
    """Parameters of an index.

    `idf`, `epsilon`, `k3` and `bigram_weight` weigh the query, and may differ each time the index is opened or
    searched. Everything else is baked into the stored vectors and fixed when the index is created.

    Parameters
    ----------
    chunk_size : float
        Constant in place of the mean chunk length, > 0: the number that was given to the text splitter.
    length_unit : {"characters", "terms"}
        What `chunk_size` and the lengths of the chunks are counted in. LangChain's splitters count characters;
        ``"terms"`` counts tokens after analysis, bigrams aside. Mixing the two changes k1 and b.
    k1 : float
        How slowly further occurrences of a term saturate; >= 0.
    b : float
        Share of the length normalisation, in [0, 1].
    epsilon : float
        Factor of the floor of the ``epsilon`` IDF; > 0.
    idf : {"epsilon", "lucene", "zero", "plus", "tfidf", "plain"}
        Which IDF, see :func:`rag_bm25.similarity.idf`.
    k3 : float or None
        Saturation of repeated query terms, >= 0; None counts them linearly.
    analyzer : AnalyzerConfig, or callable of str to list of str
        Settings of the built-in analyzer, or any other text -> tokens.
    weighting : str
        The document side: one of :data:`rag_bm25.weightings.WEIGHTING_NAMES`.
    delta : float or None
        The delta of those weightings that have one; None for their default.
    fields : mapping of str to FieldWeight
        Fields that count beside the text (BM25F), each named after the metadata that has its text: a str or a list of
        str. The text itself has the weight 1, `b` and `chunk_size`; a chunk's length stays that of its text. The
        config has a copy that cannot be changed.
    dense_dim : int or None
        Dimension of the dense vectors that chunks have beside the lexical ones, in 2..32768; None for none.
    dense_metric : {"COSINE", "IP"}
        How dense vectors are compared, greater being better. ``"IP"`` is for models that were trained for inner
        products, such as DPR: the cosine drops the lengths of their vectors. Of normalised vectors, L2 ranks as both.
    bigram_weight : float
        Weight of the channel of bigrams, >= 0, beside that of words, which is 1; 0 searches by words alone. It matters
        where the analyzer makes bigrams, see :class:`rag_bm25.AnalyzerConfig`.

    Raises
    ------
    ParameterError
        A parameter is out of its range: the message has its name, the rule and the value.

    Examples
    --------
    >>> IndexConfig(chunk_size=500).k1
    1.5
    >>> config = IndexConfig(chunk_size=500, fields={"title": FieldWeight(chunk_size=30, weight=2.0)})
    >>> IndexConfig(chunk_size=0)
    Traceback (most recent call last):
        ...
    rag_bm25.errors.ParameterError: chunk_size must be a finite number > 0, got 0
    """

    chunk_size: float
    length_unit: LengthUnit = "characters"
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    idf: IdfName = "epsilon"
    k3: float | None = None
    analyzer: AnalyzerConfig | TextAnalyzer = field(default_factory=AnalyzerConfig)
    weighting: WeightingName = "bm25"
    delta: float | None = None
    fields: Mapping[str, FieldWeight] = field(default_factory=dict, hash=False)
    dense_dim: int | None = None
    dense_metric: DenseMetric = "COSINE"
    bigram_weight: float = 0.4

    def __post_init__(self) -> None:
        """Check every range, by building what uses it."""
        self.document_weighting()
        weights = _Fields({as_str(name): weight for name, weight in self.fields.items()})
        object.__setattr__(self, "fields", weights)  # the caller's may change
        object.__setattr__(self, "weighting", as_str(self.weighting))
        object.__setattr__(self, "idf", self.query_weighting().idf)
        object.__setattr__(self, "length_unit", check_choice("length_unit", self.length_unit, LENGTH_UNITS))
        object.__setattr__(self, "dense_metric", check_choice("dense_metric", self.dense_metric, METRICS))
        self.dense_field()
        if not (isinstance(self.analyzer, AnalyzerConfig) or callable(self.analyzer)):
            msg = f"analyzer must be an AnalyzerConfig or a callable, got {shown(self.analyzer)}"
            raise ParameterError(msg)

    def document_weighting(self) -> DocumentWeighting:
        """Return the chunk's side.

        Returns
        -------
        DocumentWeighting
            Form, k1, b, delta, chunk_size and fields.
        """
        return DocumentWeighting(self.chunk_size, self.k1, self.b, self.weighting, self.delta, self.fields)

    def query_weighting(self) -> QueryWeighting:
        """Return the query's side.

        Returns
        -------
        QueryWeighting
            idf, epsilon, k3 and bigram_weight.
        """
        return QueryWeighting(self.idf, self.epsilon, self.k3, self.bigram_weight)

    def dense_field(self) -> DenseField | None:
        """Return what the store is to keep beside the lexical vectors.

        Returns
        -------
        DenseField or None
            Dimension and metric.
        """
        if self.dense_dim is None:
            return None
        try:
            return DenseField(self.dense_dim, self.dense_metric)
        except ParameterError as error:
            msg = f"dense_{error}"
            raise ParameterError(msg) from None

    def build_analyzer(self) -> TextAnalyzer:
        """Return the callable that turns text into tokens.

        Returns
        -------
        callable of str to list of str
            A new :class:`~rag_bm25.analysis.Analyzer`, or the callable that was given.
        """
        return Analyzer(self.analyzer) if isinstance(self.analyzer, AnalyzerConfig) else self.analyzer


_QUERY_SIDE = ("epsilon", "idf", "k3", "bigram_weight")


def _document_side(config: IndexConfig) -> dict[str, Any]:
    """Return everything that is baked into the rows, as JSON values; delta as it is used."""
    as_they_are = ("chunk_size", "length_unit", "k1", "b", "dense_dim", "dense_metric", "weighting")
    return {
        **{name: getattr(config, name) for name in as_they_are},
        "delta": config.document_weighting().delta,
        "fields": {name: asdict(weight) for name, weight in config.fields.items()},
    }


def _stored_document_side(stored: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored; a parameter that came later has the value that changes nothing, its default."""
    return {**_document_side(IndexConfig(chunk_size=1)), **stored["document"]}


def config_to_dict(config: IndexConfig, contract: AnalyzerContract) -> dict[str, Any]:
    """Return the JSON form in which a config is stored with its index.

    Parameters
    ----------
    config : IndexConfig
        The parameters.
    contract : AnalyzerContract
        What the analyzer promises.

    Returns
    -------
    dict
        JSON values only.
    """
    return {
        "document": _document_side(config),
        "query": {name: getattr(config, name) for name in _QUERY_SIDE},
        "analyzer": {"settings": contract.settings, "probes": contract.probes},
    }


def config_from_dict(stored: dict[str, Any], given: IndexConfig | None) -> IndexConfig:
    """Return the config with which a stored index is to be used.

    Parameters
    ----------
    stored : dict
        As made by :func:`config_to_dict`.
    given : IndexConfig or None
        What the caller asks for.

    Returns
    -------
    IndexConfig
        `given` where there is one, else the stored config. An index that was made before there was a setting of the
        analyzer is used as it was made, whatever `given` has for it.

    Raises
    ------
    ConfigMismatchError
        The chunk's side or the analyzer differ; the message lists every difference.
    FormatError
        What is stored is no config, or one of a newer version.
    """
    _check_stored(stored)
    if given is None:
        given = _rebuilt(stored)
    given = _as_made(stored["analyzer"]["settings"], given)
    require_same(stored, given)
    return given


def _check_stored(stored: Mapping[str, Any]) -> None:
    """Refuse what has not the shape of a stored config."""
    parts = [stored.get("document"), stored.get("query"), contract := stored.get("analyzer")]
    if isinstance(contract, dict):
        parts += [contract.get("settings"), contract.get("probes")]
    if not all(isinstance(part, dict) for part in parts) or "analyzer" not in parts[-2]:  # type: ignore[operator]
        raise FormatError(_NO_CONFIG)


_NO_CONFIG = "the stored parameters are damaged: they are not those of an index"


def _rebuilt(stored: dict[str, Any]) -> IndexConfig:
    """Return the stored config."""
    analyzer = analyzer_from_settings(stored["analyzer"]["settings"])
    document = _stored_document_side(stored)
    try:
        document["fields"] = {name: FieldWeight(**weight) for name, weight in document["fields"].items()}
        return IndexConfig(**document, **stored["query"], analyzer=analyzer.config)
    except (AttributeError, TypeError) as error:
        msg = f"{_NO_CONFIG}: {error}"
        raise FormatError(msg) from error


def dense_field_of(stored: dict[str, Any]) -> DenseField | None:
    """Return what a stored index keeps beside the lexical vectors; its analyzer need not be at hand.

    Parameters
    ----------
    stored : dict
        As made by :func:`config_to_dict`.

    Returns
    -------
    DenseField or None
        Dimension and metric.
    """
    _check_stored(stored)
    document = stored["document"]
    if document.get("dense_dim") is None:
        return None
    return DenseField(document["dense_dim"], document.get("dense_metric"))


def _as_made(settings: dict[str, Any], given: IndexConfig) -> IndexConfig:
    """Return the config with what settings of the analyzer were before there were these."""
    missing = {name: value for name, value in BEFORE_SETTINGS.items() if name not in settings}
    if not (missing and isinstance(given.analyzer, AnalyzerConfig)):
        return given
    return replace(given, analyzer=replace(given.analyzer, **missing))


def require_same(stored: dict[str, Any], given: IndexConfig) -> None:
    """Refuse a config whose vectors would not fit the stored ones.

    Parameters
    ----------
    stored : dict
        As made by :func:`config_to_dict`.
    given : IndexConfig
        What the caller asks for.

    Raises
    ------
    ConfigMismatchError
        Something differs; the message lists every difference, stored against given.
    FormatError
        What is stored is no config.
    """
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
        msg = "the index was created with other parameters: " + "; ".join(found)
        raise ConfigMismatchError(msg)
