"""Requests: their fields, and the options that they take, are read and described by their definitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from rag_bm25.definitions import (
    UNSET,
    Choice,
    Kind,
    OneOf,
    Option,
    options_of,
    parse_words,
    read_options,
    schema_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

R = TypeVar("R", bound="Request")

LIMITS = {"candidates": 1_000, "fb_terms": 1_000, "relevant": 100}
"""Limits for those who ask over a network, where an index itself takes more."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request without arguments, and the base of all others."""

    taken: ClassVar[dict[str, Option]] = {}

    options: dict[str, Any] = field(default_factory=dict)  # those of `takes`, as a search takes them


def takes(options: type, *, without: Collection[str] = ()) -> Callable[[type[R]], type[R]]:
    """Return a decorator that lets a request take options, but for some and for those that JSON cannot express."""
    own = {name: one.within(LIMITS) for name, one in options_of(options).items() if name not in without}

    def decorate(model: type[R]) -> type[R]:
        model.taken = {name: option for name, option in own.items() if option.kind.is_plain}
        return model

    return decorate


def arguments_of(model: type[Request]) -> dict[str, Option]:
    """Return the arguments of a request, by their names."""
    return _arguments_of(cast("type", model))


@cache
def _arguments_of(model: Any) -> dict[str, Option]:
    own = {option.name: _without_none(option) for option in options_of(model).values() if option.kind.is_plain}
    return {**own, **model.taken}


def _without_none(option: Option) -> Option:
    """Return an argument whose null is one that was not given."""
    kinds = tuple(kind for kind in getattr(option.kind, "kinds", (option.kind,)) if kind != Choice((None,)))
    kind: Kind = kinds[0] if len(kinds) == 1 else OneOf(kinds)
    return replace(option, kind=kind, default=UNSET if option.default is None else option.default)


def read(model: type[R], plain: Mapping[str, Any]) -> R:
    """Read a request of JSON values; a refusal names the argument, its rule and the value."""
    given = {name: value for name, value in plain.items() if value is not None}
    values = read_options(arguments_of(model), given)
    options = {name: values.pop(name) for name in model.taken if name in values}
    return model(**values, options=options)


def read_words(model: type[R], words: Mapping[str, list[str]]) -> R:
    """Read a request of a query string, which spells arguments as the command line does."""
    own = arguments_of(model)
    parsed = {name: parse_words(name, own[name].kind, some) if name in own else some for name, some in words.items()}
    return read(model, parsed)


def schema(model: type[Request]) -> dict[str, Any]:
    """Return the JSON schema of a request."""
    return {"title": model.__name__, "description": summary(model), **schema_of(arguments_of(model).values())}


def summary(model: type[Request]) -> str:
    """Return what a request asks for, in one sentence."""
    return (model.__doc__ or "").partition("\n")[0]
