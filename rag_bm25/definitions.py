"""Definitions of options: read once from types and docstrings, and turned into what each surface needs.

An option is a key of a ``TypedDict``, or a field of a frozen dataclass, which is a *value type*. Its type is the
annotation, its limits are a :class:`Between` in it, or a function that checks a value, its description is in the
numpydoc section of its class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rag_bm25.checks import as_str, is_int, is_number, parameter_error
from rag_bm25.errors import ParameterError, short_repr

V = TypeVar("V")

MAX_IN_ORDER = 2  # optional fields that the form on the command line shows
MAX_ITEMS = 100
TAG = "type"  # of a value type among others, in JSON


class Unset:
    """The value of a field that was not given: that of the index holds."""

    def __repr__(self) -> str:
        return "<as in the index>"

    def __reduce__(self) -> str:
        return "UNSET"  # a copy, and one of another process, is the same object


UNSET: Any = Unset()


class Between(NamedTuple):
    """Limits of a number, or of the length of a text or a sequence."""

    low: float
    high: float
    above: bool = False  # whether `low` itself is too low
    below: bool = False  # whether `high` itself is too high

    def hold(self, number: float) -> bool:
        """Return whether a number is within the limits; NaN is not."""
        low, high, above, below = self
        is_above = low < number if above else low <= number
        return is_above and (number < high if below else number <= high)


FINITE = Between(float.fromhex("-0x1.fffffep+127"), float.fromhex("0x1.fffffep+127"))  # of float32
NOT_EMPTY = Between(1, 65_535)


class Kind:
    """The values that an option can have."""

    rule: str
    form: str  # on the command line
    is_plain: bool = True  # whether JSON can express it

    def holds(self, value: object) -> bool:
        """Return whether a value is of this kind."""
        raise NotImplementedError

    def clean(self, value: Any) -> Any:
        """Return a value that holds as it is kept: a subclass of a plain type as that type."""
        return value

    def parse(self, text: str) -> Any:
        """Turn a word of the command line into a JSON value; a word that cannot be one stays, and `read` refuses it."""
        return text

    def read(self, name: str, plain: Any) -> Any:
        """Make a value of a JSON value; `name` is for the message."""
        if not self.holds(plain):
            raise parameter_error(name, self.rule, plain)
        return plain

    def within(self, name: str, limits: Mapping[str, float]) -> Kind:
        """Return the kind of an option where limits are lower, by the names of options."""
        if name not in limits or not isinstance(self, Number | Text | Many):
            return self
        return replace(self, between=self.between._replace(high=min(self.between.high, limits[name])))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Kind):
    """A number within limits."""

    between: Between
    whole: bool
    form = "NUMBER"

    @property
    def rule(self) -> str:  # type: ignore[override]
        low, high, above, below = self.between
        if self.whole and self.between is FINITE:
            return "an int"
        if self.whole:
            return f"an int in {low}..{high}" if high < FINITE.high else f"an int >= {low}"
        if self.between is FINITE:
            return "a finite number"
        if high >= FINITE.high:
            return f"a finite number {'>' if above else '>='} {low:g}"
        return f"a number in {'[('[above]}{low:g}, {high:,.12g}{'])'[below]}"

    def holds(self, value: object) -> bool:
        return (is_int if self.whole else is_number)(value) and self.between.hold(value)

    def clean(self, value: float) -> float:
        return int(value) if isinstance(value, int) else float(value)

    def parse(self, text: str) -> Any:
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() else number

    def schema(self) -> dict[str, Any]:
        low, high, above, below = self.between
        limits = {"exclusiveMinimum" if above else "minimum": low, "exclusiveMaximum" if below else "maximum": high}
        finite = {name: limit for name, limit in limits.items() if abs(limit) < FINITE.high}
        return {"type": "integer" if self.whole else "number", **finite}


@dataclass(frozen=True)
class Text(Kind):
    """A text."""

    between: Between
    form = "TEXT"

    @property
    def rule(self) -> str:  # type: ignore[override]
        low, high = self.between.low, self.between.high
        if self.between != NOT_EMPTY and high < FINITE.high:
            return f"a str of {low}..{high} characters" if low else f"a str of at most {high:,} characters"
        return "a str that is not empty" if low else "a str"

    def holds(self, value: object) -> bool:
        return isinstance(value, str) and self.between.hold(len(value))

    def clean(self, value: str) -> str:
        return as_str(value)

    def schema(self) -> dict[str, Any]:
        least = {"minLength": self.between.low} if self.between.low else {}
        most = {"maxLength": self.between.high} if self.between.high < FINITE.high else {}
        return {"type": "string", **least, **most}


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few constants: names, True and False, or None alone."""

    values: tuple[object, ...]

    @property
    def is_switch(self) -> bool:
        """Whether the values are True and False."""
        return any(one is True for one in self.values)

    @property
    def rule(self) -> str:  # type: ignore[override]
        names = list(map(str, self.values))
        is_list = len(names) > 1 and isinstance(self.values[0], str)
        return f"one of {', '.join(names)}" if is_list else " or ".join(names)

    @property
    def form(self) -> str:  # type: ignore[override]
        return "|".join(map(str, self.values)).lower()

    def holds(self, value: object) -> bool:
        return any(
            value is one or (isinstance(one, str) and isinstance(value, str) and value == one) for one in self.values
        )

    def clean(self, value: Any) -> Any:
        return as_str(value) if isinstance(value, str) else value

    def parse(self, text: str) -> Any:
        return {str(one).lower(): one for one in self.values}.get(text.lower(), text)

    def schema(self) -> dict[str, Any]:
        if self.is_switch:
            return {"type": "boolean"}
        return {"type": "null"} if self.values == (None,) else {"enum": list(self.values)}


_PAIR = re.compile(r"""([^=<>!"'()[\]]*[^=<>!"'()[\]\s])=(?!=)(.*)""", re.DOTALL)  # NAME=VALUE, and no comparison


@dataclass(frozen=True)
class Object(Kind):
    """A mapping of names to JSON values."""

    form = "NAME=VALUE,..."
    rule = "a mapping of str to JSON values"

    def holds(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def parse(self, text: str) -> Any:
        if text.startswith("{"):
            return parse_object(text)
        pairs = [_PAIR.fullmatch(word) for word in text.split(",")]
        return once((pair[1], _parse_member(pair[2])) for pair in pairs if pair) if all(pairs) else text

    def read(self, name: str, plain: Any) -> Any:
        if isinstance(plain, str):
            raise parameter_error(name, f"{self.rule}, as {self.form} or as JSON", plain)
        return super().read(name, plain)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True)
class Conditions(Object):
    """A filter. A text is left to the parser of filters, which refuses it with an example of what is meant."""

    form = "KEY=VALUE,...|JSON"

    def parse(self, text: str) -> Any:
        if not text.lstrip().startswith("{"):
            return super().parse(text)
        try:
            return read_json(text)
        except ParameterError:
            raise
        except (RecursionError, ValueError) as error:
            raise ParameterError(f"a filter that begins with {{ must be JSON: {error}") from None

    def holds(self, value: object) -> bool:
        return isinstance(value, Mapping | str)

    def read(self, name: str, plain: Any) -> Any:
        return Kind.read(self, name, plain)


@dataclass(frozen=True)
class Value(Kind):
    """A value type. In JSON an object; on the command line ``KEY:SIZE,score=sum``: its fields in order, or by name."""

    cls: type
    limits: tuple[tuple[str, float], ...] = ()  # lower ones than the definition's, by the names of fields

    @cached_property
    def options(self) -> dict[str, Option]:
        """The fields, by their names."""
        return {name: option.within(dict(self.limits)) for name, option in options_of(self.cls).items()}

    def within(self, _: str, limits: Mapping[str, float]) -> Kind:
        return Value(self.cls, tuple(limits.items()))

    @property
    def rule(self) -> str:  # type: ignore[override]
        name = self.cls.__name__
        return f"{'an' if name[0] in 'AEIO' or name[:2].isupper() else 'a'} {name}"

    @property
    def is_plain(self) -> bool:  # type: ignore[override]
        return all(option.kind.is_plain for option in options_of(self.cls).values() if option.is_required)

    @property
    def tag(self) -> str:
        """Name of the type in JSON: near_duplicates."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.cls.__name__).lower().removesuffix("_boost")

    @property
    def has_names(self) -> bool:
        """Whether a word of the command line can name fields: if none of them has names of its own."""
        return not any(isinstance(one.kind, Object) and one.is_required for one in options_of(self.cls).values())

    @property
    def form(self) -> str:  # type: ignore[override]
        own = options_of(self.cls).values()
        needed = ":".join(_form_of(option) for option in own if option.is_required)
        if not self.has_names:
            return needed
        others = [option.name.upper() for option in own if not option.is_required]
        if len(others) > MAX_IN_ORDER:
            return f"{needed},NAME=VALUE,...".removeprefix(",")
        return needed + "".join(f"[:{name}" for name in others) + "]" * len(others)

    def holds(self, value: object) -> bool:
        return isinstance(value, self.cls)

    def parse(self, text: str) -> Any:
        return parse_object(text) if text.startswith("{") else once(self._parse_fields(text))

    def _parse_fields(self, text: str) -> Any:
        """Yield the fields that a word gives: those in order first, then those by name; a repeated one is a list."""
        own = options_of(self.cls)
        for option in own.values():
            if isinstance(option.kind, Object) and option.is_required:
                yield option.name, option.kind.parse(text)
                return
            word, rest = _next_in_order(text)
            if not word or word in own or _holds_a(Object, option.kind):
                break
            text = rest
            yield option.name, parse_words(option.name, option.kind, [word])
        for name, words in _words_by_name(text).items():
            yield name, parse_words(name, own[name].kind if name in own else Text(NOT_EMPTY), words)

    def read(self, name: str, plain: Any) -> Any:
        if self.holds(plain):
            return plain
        if not isinstance(plain, dict):
            raise parameter_error(name, f"an object with {', '.join(self.options)}", plain)
        given = {key: one for key, one in plain.items() if (key, one) != (TAG, self.tag)}
        return getattr(self.cls, "from_json", self.cls)(**read_options(self.options, given, name))

    def schema(self) -> dict[str, Any]:
        return schema_of(self.options.values())


@dataclass(frozen=True)
class OneOf(Kind):
    """One of several kinds."""

    kinds: tuple[Kind, ...]

    @property
    def rule(self) -> str:  # type: ignore[override]
        return " or ".join(kind.rule for kind in self.kinds)

    @property
    def is_plain(self) -> bool:  # type: ignore[override]
        return any(kind.is_plain for kind in self.kinds)

    @cached_property
    def tagged(self) -> dict[str, Value]:
        """The value types by their tags; none if there is one alone, which needs no tag."""
        values = [kind for kind in self.kinds if isinstance(kind, Value)]
        return {kind.tag: kind for kind in values if kind.is_plain} if len(values) > 1 else {}

    @property
    def form(self) -> str:  # type: ignore[override]
        forms = [kind.form for kind in self.kinds if kind.is_plain and not (isinstance(kind, Value) and self.tagged)]
        tagged = [f"{tag}:{kind.form}".replace(":[:", "[:").replace("_", "-") for tag, kind in self.tagged.items()]
        return "|".join([*tagged, *forms])

    def holds(self, value: object) -> bool:
        return any(kind.holds(value) for kind in self.kinds)

    def clean(self, value: Any) -> Any:
        return next(kind.clean(value) for kind in self.kinds if kind.holds(value))

    def within(self, name: str, limits: Mapping[str, float]) -> Kind:
        return OneOf(tuple(kind.within(name, limits) for kind in self.kinds))

    def parse(self, text: str) -> Any:
        tag = re.split("[:,]", text, maxsplit=1)[0]
        if kind := self.tagged.get(tag.replace("-", "_")):
            return {TAG: kind.tag, **kind.parse(text[len(tag) :].removeprefix(":"))}
        if self.tagged and text.startswith("{"):
            return parse_object(text)
        others = [kind for kind in self.kinds if not (isinstance(kind, Value) and self.tagged)]
        for one in sorted(others, key=lambda kind: _GREED.get(type(kind), 0)):
            plain = one.parse(text) if one.is_plain else text
            if isinstance(plain, dict) or one.holds(plain):
                return plain
        return text

    def read(self, name: str, plain: Any) -> Any:
        if self.holds(plain):
            return plain
        if not self.tagged:
            last = [kind for kind in self.kinds if isinstance(kind, Value | Named) and isinstance(plain, dict)]
            return last[0].read(name, plain) if last else super().read(name, plain)
        tag = plain.get(TAG) if isinstance(plain, dict) else plain
        if not isinstance(tag, str) or tag not in self.tagged:
            raise parameter_error(f"{name}.{TAG}", f"one of {', '.join(self.tagged)}", tag)
        return self.tagged[tag].read(name, plain if isinstance(plain, dict) else {})

    def schema(self) -> dict[str, Any]:
        plain = [kind for kind in self.kinds if kind.is_plain]
        schemas = [kind.schema() for kind in plain if not isinstance(kind, Value) or not self.tagged]
        for tag, kind in self.tagged.items():
            schema = kind.schema()
            schema["properties"] = {TAG: {"const": tag}, **schema["properties"]}
            schemas.append({**schema, "title": kind.cls.__name__, "required": [TAG, *schema["required"]]})
        return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]


@dataclass(frozen=True)
class Many(Kind):
    """A sequence; on the command line, the flag or the name repeated."""

    item: Kind
    between: Between

    @property
    def rule(self) -> str:  # type: ignore[override]
        low, high = self.between.low, self.between.high
        size = f"{low}..{high}" if low else f"at most {high:,.0f}"
        return f"a sequence of {size}, each {self.item.rule}"

    @property
    def form(self) -> str:  # type: ignore[override]
        return self.item.form

    def holds(self, value: object) -> bool:
        return isinstance(value, list | tuple) and self.between.hold(len(value)) and all(map(self.item.holds, value))

    def clean(self, value: Any) -> Any:
        return tuple(map(self.item.clean, value))

    def within(self, name: str, limits: Mapping[str, float]) -> Kind:
        own = super().within(name, limits)
        return replace(cast("Many", own), item=self.item.within("", limits))  # the name is that of the sequence

    def parse(self, text: str) -> Any:
        return self.item.parse(text)

    def read(self, name: str, plain: Any) -> Any:
        if not isinstance(plain, list | tuple) or not self.between.hold(len(plain)):
            raise parameter_error(name, self.rule, plain)
        if all(map(self.item.holds, plain)):
            return list(plain)
        return [self.item.read(f"{name}.{at}", one) for at, one in enumerate(plain)]

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self.between.low} if self.between.low else {}
        return {"type": "array", "items": self.item.schema(), **least, "maxItems": self.between.high}


@dataclass(frozen=True)
class Named(Kind):
    """A mapping of names to values of one type; on the command line ``NAME:VALUE+NAME:VALUE``."""

    item: Value

    @property
    def rule(self) -> str:  # type: ignore[override]
        return f"a mapping of names to {self.item.cls.__name__}"

    @property
    def form(self) -> str:  # type: ignore[override]
        return f"NAME:{self.item.form}"

    def holds(self, value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        return all(isinstance(name, str) and name and self.item.holds(one) for name, one in value.items())

    def clean(self, value: Any) -> Any:
        return {as_str(name): self.item.clean(one) for name, one in value.items()}

    def parse(self, text: str) -> Any:
        if text.startswith("{"):
            return parse_object(text)
        pairs = [] if text.lower() == "none" else [word.strip().partition(":") for word in text.split("+")]
        items = {name: self.item.parse(rest) for name, _, rest in pairs}
        return items if len(items) == len(pairs) else text

    def read(self, name: str, plain: Any) -> Any:
        if isinstance(plain, dict):
            plain = {key: self.item.read(f"{name}.{key}", one) for key, one in plain.items()}
        return super().read(name, plain)


@dataclass(frozen=True)
class PythonOnly(Kind):
    """A callable, or an instance of a class that JSON does not have."""

    cls: type
    is_plain = False
    form = "MODULE:NAME"

    @property
    def rule(self) -> str:  # type: ignore[override]
        return f"a {self.cls.__name__}".replace("a Callable", "a callable")

    def holds(self, value: object) -> bool:
        return isinstance(value, self.cls)


@dataclass(frozen=True)
class Option:
    """An option as it is defined."""

    name: str
    kind: Kind
    description: str
    default: Any = UNSET
    is_required: bool = False
    marks: tuple[Any, ...] = ()  # what else the annotation says

    @property
    def rule(self) -> Callable[[str, Any], Any] | None:
        """Check of name and value, in place of that of the kind."""
        return next(filter(callable, self.marks), None)

    @property
    def summary(self) -> str:
        """First sentence of the description, without markup: what a help line or a schema has room for."""
        text = re.sub(r":\w+:`~?([^`]*?)`", lambda match: match[1].rpartition(".")[2], self.description)
        return re.split(r"(?<=[.;]) (?=[A-Z])", text.replace("`", ""), maxsplit=1)[0]

    def check(self, value: object) -> Any:
        """Refuse a value that breaks the rule; return it as it is kept."""
        if self.rule:
            return self.rule(self.name, value)
        if not self.kind.holds(value):
            raise parameter_error(self.name, self.kind.rule, value)
        return self.kind.clean(value)

    def read(self, plain: Any) -> Any:
        """Make a value of a JSON value, and check it."""
        return self.check(self.kind.read(self.name, plain))

    def within(self, limits: Mapping[str, float]) -> Option:
        """Return the option where limits are lower, by the names of options."""
        return replace(self, kind=self.kind.within(self.name, limits))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema, with description and default."""
        default = {} if self.default is UNSET or not self.kind.is_plain else {"default": self.default}
        return {**self.kind.schema(), "description": self.summary, **default}


_GREED = {Value: 1, Object: 1, Text: 2}  # kinds that take words of other kinds, too: they are tried last


def read_json(text: str | bytes | bytearray, **given: Any) -> Any:
    """Read JSON, as `json.loads` does, and refuse a key that an object has twice."""
    return json.loads(text, object_pairs_hook=once, **given)


def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dict; reject duplicates: readers notice the first, and a dict keeps the last."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ParameterError(f"{short_repr(name)} must be given once")
        made[name] = value
    return made


def parse_object(text: str) -> Any:
    """Read JSON; a text that is none stays, and is refused later."""
    try:
        return read_json(text)
    except ParameterError:
        raise
    except ValueError:
        return text


def parse_plain(text: str) -> Any:
    """Read a number, true, false or null as JSON has them; anything else is a text."""
    value = parse_object(text)
    return value if value is None or isinstance(value, int | float) else text


def _parse_member(text: str) -> Any:
    """Read a value of a mapping: as plain JSON, where quotes make a text of what would be a number."""
    return parse_object(text) if text.startswith('"') else parse_plain(text)


def parse_words(name: str, kind: Kind, words: Sequence[str]) -> Any:
    """Turn the words that are given under one name into a JSON value: a list if the kind holds one."""
    if _holds_a(Many, kind):
        return list(map(kind.parse, words))
    if len(words) > 1:
        raise ParameterError(f"{name} must be given once, got {len(words)} times")
    return kind.parse(words[0])


def read_options(options: Mapping[str, Option], plain: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """Make the values of JSON values; the names in messages begin with that of the owner."""
    if unknown := sorted(plain.keys() - options.keys()):
        known = ", ".join(options) or "no arguments"
        raise ParameterError(f"{owner or 'the request'} has no {short_repr(unknown[0])}; it has {known}")
    before = owner and f"{owner}."
    if missing := [option.name for option in options.values() if option.is_required and option.name not in plain]:
        raise ParameterError(f"{before}{missing[0]} is missing")
    return {name: options[name].kind.read(f"{before}{name}", one) for name, one in plain.items()}


def schema_of(options: Iterable[Option]) -> dict[str, Any]:
    """Return the JSON schema of an object with options; those that JSON cannot express are left out."""
    own = [option for option in options if option.kind.is_plain]
    return {
        "type": "object",
        "properties": {option.name: option.schema() for option in own},
        "required": [option.name for option in own if option.is_required],
        "additionalProperties": False,
    }


def _form_of(option: Option) -> str:
    return option.kind.form if isinstance(option.kind, Object) else option.name.upper()


def _holds_a(cls: type[Kind], kind: Kind) -> bool:
    return any(isinstance(one, cls) for one in getattr(kind, "kinds", (kind,)))


def _next_in_order(text: str) -> tuple[str, str]:
    """Split off the next field in order; empty if only fields by name are left."""
    word, comma, rest = text.partition(",")
    first, colon, others = word.partition(":")
    if "=" in first:
        return "", text
    return (first, others + comma + rest) if colon else (first, rest)


def _words_by_name(text: str) -> dict[str, list[str]]:
    words: dict[str, list[str]] = {}
    for word in filter(None, text.split(",")):
        name, sign, value = (part.strip() for part in word.partition("="))
        words.setdefault(name.replace("-", "_"), []).append(value if sign else "true")
    return words


def kind_of(hint: Any) -> Kind:
    """Return the kind of an annotation, which may have it as a mark."""
    marks = getattr(hint, "__metadata__", ())
    kind = next((one for one in marks if isinstance(one, Kind)), None)
    between = next((one for one in marks if isinstance(one, Between)), None)
    return kind or _kind_of_type(get_args(hint)[0] if marks else hint, between)


def _kind_of_type(hint: Any, between: Between | None) -> Kind:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (int, float):
        return Number(between or FINITE, whole=hint is int)
    if hint is str:
        return Text(between or Between(0, FINITE.high))
    if origin in (Union, UnionType):
        return OneOf(tuple(map(kind_of, arguments)))
    if constants := {bool: (True, False), NoneType: (None,)}.get(hint, arguments if origin is Literal else ()):
        return Choice(constants)
    if is_dataclass(hint):
        return Value(hint)  # type: ignore[arg-type]
    if origin is Sequence:
        return Many(kind_of(arguments[0]), between or Between(0, MAX_ITEMS))
    if origin is Mapping:
        item = kind_of(arguments[1])
        return Named(item) if isinstance(item, Value) else Object()
    return PythonOnly(origin or hint)


def descriptions_in(docstring: str) -> dict[str, str]:
    """Read the sections of parameters and attributes of a numpydoc docstring: their descriptions by name."""
    sections = re.findall(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n---|\Z)", docstring, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w[\w, ]*?)(?: :.*)?\n((?: .*\n?|\n(?= ))+)", "\n".join(sections), re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


@cache
def options_of(cls: type) -> dict[str, Option]:
    """Return the options that a TypedDict or a value type defines, by their names."""
    docstrings = [cleandoc(base.__doc__ or "") for base in reversed(cls.__mro__)]
    texts = {name: text for docstring in docstrings for name, text in descriptions_in(docstring).items()}
    own = {one.name: one.default for one in fields(cls)} if is_dataclass(cls) else {}
    options = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if own and name not in own:  # a class variable
            continue
        if not own and get_origin(hint) in (Union, UnionType):  # of a TypedDict: None is one that was not given
            hint = Union[tuple(one for one in get_args(hint) if one is not NoneType)]  # noqa: PLW2901, UP007
        default = own.get(name, UNSET)
        is_required = default is MISSING
        text, default = texts.get(name, ""), UNSET if is_required else default
        options[name] = Option(name, kind_of(hint), text, default, is_required, getattr(hint, "__metadata__", ()))
    return options


def check_fields(value: Any) -> None:
    """Check the fields of a value type, from its `__post_init__`."""
    for option in options_of(value.__class__).values():
        if (field := getattr(value, option.name)) is not UNSET:
            object.__setattr__(value, option.name, option.check(field))


def given_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a value type that were given."""
    return {name: field for name, field in vars(value).items() if field is not UNSET}


def repr_of_given(value: Any) -> str:
    """Return the repr of a value type, with the fields that were given."""
    return f"{type(value).__name__}({', '.join(f'{name}={field!r}' for name, field in given_fields(value).items())})"


def fill(value: V, base: V) -> V:
    """Return a value with the fields of `base` where it has none."""
    return replace(base, **given_fields(value))  # type: ignore[type-var]


def check_given(cls: type, given: Mapping[str, Any], hint: str = "", others: Collection[str] = ()) -> dict[str, Any]:
    """Check the options that a call got beside `others`, and return them without those that are None: not given."""
    options = options_of(cls)
    check_names(given, {*options, *others}, hint)
    return {name: options[name].check(value) for name, value in given.items() if value is not None}


def check_names(given: Mapping[str, Any], known: Collection[str], hint: str = "") -> None:
    """Refuse unknown options as Python refuses unknown keywords."""
    if unknown := sorted(given.keys() - known):
        names = ", ".join(sorted(known))
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}{hint}; the options are {names}")
