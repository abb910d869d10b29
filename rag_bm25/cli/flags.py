"""The flags of the options of a search, made of their definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from rag_bm25.cli.options import option as flag
from rag_bm25.cli.reranking import FORM, NOTE, Reranker
from rag_bm25.cli.settings import as_usage
from rag_bm25.definitions import Choice, Many, Option, Value, options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.query.synonyms import Synonyms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rag_bm25.definitions import Kind

NOT_GIVEN: tuple[Any, ...] = (None, False, [])


def _read_expansion(text: str) -> Any:
    """Read an expansion, whose synonyms are in a file."""
    kind = options_of(SearchOptions)["expansion"].kind
    plain = kind.parse(text)
    if file := re.match(r"(?!\{)(?:.*,)?synonyms=(?!none(?:,|$))([^,]+)", text):
        plain["synonyms"] = Synonyms.read(file[1])
    return kind.read("expansion", plain)


class Spelling(NamedTuple):
    """How the command line writes what JSON cannot express, or what it has in a file."""

    form: str
    read: Callable[[str], Any]
    note: str = ""


SPELLINGS = {
    "expansion": Spelling(
        "NAME=VALUE,...",
        _read_expansion,
        "The synonyms are the name of a file of lines such as `car, automobile` or "
        "`NBA => National Basketball Association`.",
    ),
    "min_should_match": Spelling("COUNT", str),
    "rerank": Spelling(FORM, Reranker, NOTE),
}


@dataclass(frozen=True)
class Flag:
    """The flag of an option."""

    option: Option

    @property
    def is_repeated(self) -> bool:
        """Whether each flag has one of several values."""
        return isinstance(self.option.kind, Many)

    @property
    def word(self) -> str:
        """Name of a value: boost of boosts."""
        return self.option.name.removesuffix("s") if self.is_repeated else self.option.name

    @property
    def name(self) -> str:
        """The flag as it is written."""
        return f"--{self.word}".replace("_", "-")

    @property
    def kind(self) -> Kind:
        """The kind of a value."""
        return self.option.kind.item if isinstance(self.option.kind, Many) else self.option.kind

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that a value can have."""
        return getattr(self.kind, "kinds", (self.kind,))

    @property
    def is_switch(self) -> bool:
        """Whether it has no value: a word after it would be one of the query."""
        return any(isinstance(kind, Choice) and kind.is_switch for kind in self.kinds)

    @property
    def parameter(self) -> Parameter:
        """The flag as a parameter of a command."""
        words = list[str] if self.is_repeated else str
        hint: Any = bool if self.is_switch else words | None
        more = {} if self.is_switch else {"metavar": self._form, "autocompletion": self._complete}
        annotated: Any = Annotated[hint, flag(self._help, self.name, **more)]
        default = False if self.is_switch else None
        return Parameter(self.option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotated)

    @property
    def _form(self) -> str:
        return SPELLINGS[self.option.name].form if self.option.name in SPELLINGS else self.kind.form

    @property
    def _help(self) -> str:
        spelling = SPELLINGS.get(self.option.name)
        notes = [*self._describe_names(), *([spelling.note] if spelling else [])]
        notes += ["May be repeated."] if self.is_repeated else []
        return " ".join([self.option.summary, *filter(None, notes)])

    def _describe_names(self) -> Iterator[str]:
        """Yield the names that a form has no room for."""
        tagged = getattr(self.kind, "tagged", {})
        for tag, kind in (tagged or dict.fromkeys([""], self.kind)).items():
            if isinstance(kind, Value) and kind.has_names and "NAME" in kind.form:
                names = ", ".join(name for name, one in options_of(kind.cls).items() if one.kind.is_plain)
                yield f"Names{tag and f' of {tag}'}: {names}."

    def _complete(self, incomplete: str) -> list[str]:
        constants = [value for kind in self.kinds if isinstance(kind, Choice) for value in kind.values]
        words = [*getattr(self.kind, "tagged", ()), *map(str, constants)]
        return [word for word in (word.replace("_", "-") for word in words) if word.startswith(incomplete)]

    def read(self, given: Any) -> Any:
        """Turn the words of the command line into the value of the option."""
        with as_usage(self.name):
            return self.option.check([*map(self._read_word, given)] if self.is_repeated else self._read_word(given))

    def _read_word(self, word: Any) -> Any:
        if self.is_switch:
            return word
        if spelling := SPELLINGS.get(self.option.name):
            return spelling.read(word)
        return self.kind.read(self.word, self.kind.parse(word))


def flags_of(options: type) -> dict[str, Flag]:
    """Return the flags of the options that a TypedDict defines, by the names of the options."""
    return {name: Flag(option) for name, option in options_of(options).items()}


def read_flags(flags: Mapping[str, Flag], given: dict[str, Any]) -> dict[str, Any]:
    """Take the words of flags out of what a command got, and return the options that were given."""
    words = {name: given.pop(name) for name in flags}
    return {name: flags[name].read(word) for name, word in words.items() if word not in NOT_GIVEN}
