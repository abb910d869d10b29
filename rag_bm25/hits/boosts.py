"""Boost scores by metadata: recency, values, and any function."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping  # noqa: TC003 - the definitions of options
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from rag_bm25.budget import check_budget
from rag_bm25.checks import check_parameter, comparable, is_number, parameter_error
from rag_bm25.definitions import FINITE, NOT_EMPTY, Between, check_fields, parse_plain
from rag_bm25.errors import InputError, short_repr
from rag_bm25.query.explanation import Explanation, explain_product, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

Shape = Literal["exp", "gauss", "linear"]

MAX_FACTOR = 1_000.0
Key: TypeAlias = Annotated[str, NOT_EMPTY]
Factor: TypeAlias = Annotated[float, Between(0, MAX_FACTOR)]
DAY = 86_400.0  # seconds


def _as_number(value: object) -> float | None:
    """Return a number as a float; None for anything else, a bool included."""
    if not is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _as_time(value: object) -> float | None:
    """Return a date in days since 1970; one without a time zone is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the time zone follows
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp() / DAY


class Boost(ABC):
    """A factor of the score that depends on the metadata."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name for messages."""

    @property
    @abstractmethod
    def upper_bound(self) -> float:
        """Largest possible factor."""

    @abstractmethod
    def factor(self, metadata: Mapping[str, Any]) -> float:
        """Return the factor of a chunk with this metadata, in [0, `upper_bound`]; 0 leaves the chunk out."""

    @abstractmethod
    def explain(self, metadata: Mapping[str, Any]) -> Explanation:
        """Return the factor in a line."""


@dataclass(frozen=True)
class Decay(Boost):
    r"""Lower scores with the distance of a date or a number from an origin: recency, for example.

    With the distance :math:`x = \max(0, |value - origin| - offset)` the factor is, as in Elasticsearch's decay
    functions [1]_,

    ======== =========================================
    exp      :math:`decay^{x / scale}`
    gauss    :math:`decay^{(x / scale)^2}`
    linear   :math:`\max(0, 1 - (1 - decay) x / scale)`
    ======== =========================================

    so that it is `decay` at the distance `scale` + `offset`; and then ``floor + (1 - floor) * factor``.

    Parameters
    ----------
    key : str
        Metadata key. Dates are in ISO 8601: ``"2026-01-31"``, ``"2026-01-31T12:00:00Z"``; without a time zone, UTC.
    scale : float
        Distance at which the factor is `decay`, > 0: in days for dates, in the unit of the value for numbers.
    origin : str, date, datetime, int, float or None
        A date, for dates; a number, for numbers. None, the default, is the time of the search. Values of the other kind
        count as missing.
    shape : {"exp", "gauss", "linear"}
        Formula of the factor.
    offset : float
        Distance up to which the factor is 1, >= 0.
    decay : float
        Factor at the distance `scale`, in (0, 1).
    floor : float
        Smallest factor, in [0, 1). With 0, ``"linear"`` leaves out what is too far away.
    missing : float
        Factor of chunks without the key, or with another kind of value, in [0, 1000].

    References
    ----------
    .. [1] Elasticsearch reference, "Function score query", decay functions.

    Examples
    --------
    >>> Decay("date", scale=30, origin="2026-01-31").factor({"date": "2026-01-01"})
    0.5
    """

    key: Key
    scale: Annotated[float, Between(0, FINITE.high, above=True)]
    origin: str | date | float | None = None
    shape: Shape = "exp"
    offset: Annotated[float, Between(0, FINITE.high)] = 0.0
    decay: Annotated[float, Between(0, 1, above=True, below=True)] = 0.5
    floor: Annotated[float, Between(0, 1, below=True)] = 0.0
    missing: Factor = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.origin is not None and _as_number(self.origin) is None and _as_time(self.origin) is None:
            rule = "a date, a date in ISO 8601, a finite number, or None for the time of the search"
            raise parameter_error("origin", rule, self.origin)

    @property
    def name(self) -> str:
        return self.key

    @property
    def upper_bound(self) -> float:
        return max(1.0, self.missing)

    def factor(self, metadata: Mapping[str, Any]) -> float:
        distance = self._distance(metadata)
        if distance is None:
            return self.missing
        share = max(0.0, distance - self.offset) / self.scale
        if self.shape == "linear":
            factor = max(0.0, 1 - (1 - self.decay) * share)
        else:
            power = share if self.shape == "exp" else share * share
            factor = math.exp(math.log(self.decay) * power)
        return self.floor + (1 - self.floor) * factor

    def explain(self, metadata: Mapping[str, Any]) -> Explanation:
        distance, value = self._distance(metadata), short_repr(metadata.get(self.key))
        kind, unit = ("date", " days") if _as_number(self.origin) is None else ("number", "")
        if distance is None and metadata.get(self.key) is not None:
            return Explanation(self.missing, f"factor of {self.key!r} = {value}: that is no {kind}, as the origin is")
        if distance is None:
            return Explanation(self.missing, f"factor of {self.key!r}: the chunk has no such value")
        away = f"{format_value(distance)}{unit} from the origin"
        scale = f"{self.decay:g} at {self.scale:g}{unit}"
        scale += f" beyond the first {self.offset:g}{unit}" if self.offset else ""
        scale += f", floor {self.floor:g}" if self.floor else ""
        return Explanation(
            self.factor(metadata), f"factor of {self.key!r} = {value}: {self.shape} decay, {away}, {scale}"
        )

    def _distance(self, metadata: Mapping[str, Any]) -> float | None:
        """Return how far a value is from the origin; None if it is missing, or of another kind."""
        origin, value = _as_number(self.origin), metadata.get(self.key)
        if origin is not None:
            number = _as_number(value)
            return None if number is None else abs(number - origin)
        time = _as_time(value) if isinstance(value, str) else None
        start = _as_time(datetime.now(timezone.utc) if self.origin is None else self.origin)
        return None if time is None or start is None else abs(time - start)


@dataclass(frozen=True)
class ValueBoost(Boost):
    """Multiply scores by a factor for each value of a metadata key.

    Parameters
    ----------
    key : str
        Metadata key.
    factors : mapping of str, int, float or bool to float
        Value -> factor, in [0, 1000]; 0 leaves chunks out. Of a list of values, the largest factor counts.
    default : float
        Factor of all other chunks, in [0, 1000].

    Examples
    --------
    >>> boost = ValueBoost("kind", {"law": 2.0, "draft": 0.5})
    >>> boost.factor({"kind": "law"}), boost.factor({"kind": ["draft", "memo"]}), boost.factor({})
    (2.0, 0.5, 1.0)
    """

    key: Key
    factors: Mapping[str | float | bool, float]
    default: Factor = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.factors:
            raise parameter_error("factors", "a mapping of values to factors, not empty", self.factors)
        for value, factor in self.factors.items():
            rule, holds = f"a number in [0, {MAX_FACTOR:,.0f}]", 0 <= comparable(factor) <= MAX_FACTOR
            check_parameter(f"factor of {short_repr(value)}", factor, rule, holds)
        object.__setattr__(self, "factors", dict(self.factors))

    @classmethod
    def from_json(cls, key: str, factors: Mapping[str, float], default: float = 1.0) -> ValueBoost:
        """Make a boost of JSON, where a key is a text: it stands for the number or bool that it spells, too.

        Parameters
        ----------
        key, factors, default
            As for the class.

        Returns
        -------
        ValueBoost
            A number or bool that is spelt has its factor, and so has the text.
        """
        spelt = {value: factor for text, factor in factors.items() if (value := parse_plain(text)) is not None}
        return cls(key, {**dict[Any, float](factors), **spelt}, default)

    @property
    def name(self) -> str:
        return self.key

    @property
    def upper_bound(self) -> float:
        return max(self.default, *self.factors.values())

    def factor(self, metadata: Mapping[str, Any]) -> float:
        value = metadata.get(self.key)
        factors = map(self._factor_of, value if isinstance(value, list) else [value])
        return max((factor for factor in factors if factor is not None), default=self.default)

    def explain(self, metadata: Mapping[str, Any]) -> Explanation:
        return Explanation(
            self.factor(metadata), f"factor of {self.key!r} = {short_repr(metadata.get(self.key))}, by its value"
        )

    def _factor_of(self, value: object) -> float | None:
        """Return the factor of a value, however many there are; True is not 1."""
        return None if isinstance(value, list | dict) else self._factors.get((isinstance(value, bool), value))

    @cached_property
    def _factors(self) -> dict[tuple[bool, object], float]:
        return {(isinstance(value, bool), value): factor for value, factor in self.factors.items()}


@dataclass(frozen=True)
class FunctionBoost(Boost):
    """Multiply scores by any function of the metadata: popularity, rating, authority.

    Parameters
    ----------
    function : callable of (mapping of str to JSON values) to float
        It returns the factor of a chunk with this metadata, >= 0; 0 leaves it out. Anything else raises an InputError.
    maximum : float
        Upper bound of the factor, in (0, 1000]: a larger one counts as this. Without it, no number of candidates would
        be enough.

    Examples
    --------
    >>> popular = FunctionBoost(lambda metadata: 1 + metadata.get("stars", 0) / 5, maximum=2)
    >>> popular.factor({"stars": 2.5}), popular.factor({"stars": 90}), popular.factor({})
    (1.5, 2.0, 1.0)
    """

    function: Callable[[Mapping[str, Any]], float]
    maximum: Annotated[float, Between(0, MAX_FACTOR, above=True)]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    @property
    def upper_bound(self) -> float:
        return self.maximum

    def factor(self, metadata: Mapping[str, Any]) -> float:
        factor = self.function(metadata)
        if not (is_number(factor) and factor >= 0):  # NaN is not
            raise InputError(f"{self.name} of FunctionBoost must return a number >= 0, got {short_repr(factor)}")
        return float(min(factor, self.maximum))

    def explain(self, metadata: Mapping[str, Any]) -> Explanation:
        return Explanation(self.factor(metadata), f"factor by {self.name}, at most {self.maximum:g}")


def at_this_moment(boosts: Sequence[Boost]) -> tuple[Boost, ...]:
    """Give each decay without an origin the time of the search."""
    now = datetime.now(timezone.utc)
    return tuple(
        replace(boost, origin=now) if isinstance(boost, Decay) and boost.origin is None else boost for boost in boosts
    )


def factor_of(boosts: Sequence[Boost], metadata: Mapping[str, Any]) -> float:
    """Return the product of all factors of a chunk."""
    check_budget()
    return math.prod(boost.factor(metadata) for boost in boosts)


def largest_factor(boosts: Sequence[Boost]) -> float:
    """Return the largest product of factors that a chunk can have."""
    return math.prod(boost.upper_bound for boost in boosts)


def explain_boosts(score: Explanation, boosts: Sequence[Boost], metadata: Mapping[str, Any]) -> Explanation:
    """Explain a boosted score: that of the search, and a line for each factor."""
    return explain_product(score, [boost.explain(metadata) for boost in boosts])
