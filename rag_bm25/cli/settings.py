"""Settings of an index by their names: ``--set``, ``--compare``, and the options for the most common ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rag_bm25.analysis import AnalyzerConfig, read_stop_words, read_user_words
from rag_bm25.checks import check_choice
from rag_bm25.cli import options as opt
from rag_bm25.errors import ParameterError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.settings import SETTING_NAMES, Value, parse_setting, parse_value, split_setting, with_settings
from rag_bm25.ingestion.splitting import Splitter, splitter
from rag_bm25.store.storage import STORAGE_NAMES, StorageOptions
from rag_bm25.weighting.idf import IdfName
from rag_bm25.weighting.query import QueryWeighting

AUTO = "auto"
DEFAULT_CHUNK_SIZE = 500
QUERY_NAMES = tuple(one.name for one in fields(QueryWeighting))

K1: TypeAlias = Annotated[float | None, opt.option("Saturation of repeated terms.")]
B: TypeAlias = Annotated[float | None, opt.option("Share of the length normalisation.")]
Settings: TypeAlias = Annotated[
    list[str] | None,
    opt.option(
        f"Other settings, such as stem=false,bigrams=false; may be repeated. There are {', '.join(SETTING_NAMES)}.",
        "--set",
        metavar="NAME=VALUE,...",
    ),
]

Storage: TypeAlias = Annotated[
    list[str] | None,
    opt.option(
        "How a Milvus server stores the chunks of a new index, such as shards=4,mmap=true: shards, mmap, index_type, "
        "inverted_index_algo, quant_type; by default as the server does. May be repeated.",
        "--storage",
        metavar="NAME=VALUE,...",
    ),
]


@dataclass(frozen=True)
class IndexOptions:
    """The settings of an index that most people use, and ``--set`` for the others."""

    chunk_size: Annotated[
        str | None, opt.option("Constant in place of the mean length of chunks.", metavar="NUMBER")
    ] = None
    k1: K1 = None
    b: B = None
    idf: Annotated[IdfName | None, opt.option("IDF formula.")] = None
    field: Annotated[
        list[str] | None,
        opt.option(
            "Text of the metadata that counts beside the chunk's own (BM25F), such as title:30 or "
            "title:30:2.0:0.75: its name, the constant in place of its mean length, its weight and its b; "
            "may be repeated.",
            metavar="NAME:CHUNK_SIZE[:WEIGHT[:B]]",
        ),
    ] = None
    setting: Settings = None

    def given(self, *, auto: bool = False) -> dict[str, Value]:
        """Return the settings that were given; `auto` allows this word for the chunk size."""
        own: dict[str, Any] = {
            "chunk_size": None if self.chunk_size is None else parse_value(self.chunk_size),
            "k1": self.k1,
            "b": self.b,
            "idf": self.idf,
            "field": "+".join(self.field or ()) or None,
        }
        own = {name: value for name, value in own.items() if value is not None}
        for name, value in own.items():
            _check({name: value}, f"--{name.replace('_', '-')}", auto=auto)
        others = parse_settings(self.setting, "--set")
        _check(others, "--set", auto=auto)
        return _join(own, others)


@dataclass(frozen=True)
class WordFiles:
    """The words of the analyzer of a new index, in files."""

    user_words: Annotated[
        Path | None,
        opt.option(
            "Words to keep whole, such as names of products: a file in UTF-8 with a word a line, which a frequency may "
            "follow, as in a user dictionary of jieba.",
            metavar="FILE",
        ),
    ] = None
    stop_words: Annotated[
        Path | None,
        opt.option(
            "Words to leave out, in place of 33 English ones: a file in UTF-8 with a word a line. An empty file leaves "
            "out none.",
            metavar="FILE",
        ),
    ] = None

    def change(self) -> Callable[[IndexConfig], IndexConfig]:
        """Read the files; return a function that gives their words to a config."""
        words: dict[str, Any] = {}
        if self.user_words is not None:
            words["user_words"] = read_user_words(self.user_words)
        if self.stop_words is not None:
            words["stop_words"] = read_stop_words(self.stop_words)

        def change(config: IndexConfig) -> IndexConfig:
            if not words:
                return config
            if not isinstance(config.analyzer, AnalyzerConfig):
                named = ", ".join(f"--{name.replace('_', '-')}" for name in words)
                raise ParameterError(f"{named} must be for the built-in analyzer, got {config.analyzer!r}")
            return replace(config, analyzer=replace(config.analyzer, **words))

        return change


def parse_settings(texts: Iterable[str] | None, option: str) -> dict[str, Value]:
    """Read ``name=value,name=value``; the values are not checked."""
    with as_usage(option):
        return _parse_pairs(texts, option, parse_setting)


def parse_grid(text: str, option: str) -> list[tuple[str, dict[str, Value]]]:
    """Read ``name=value,value,name=value``; return each combination of the values, as text and as settings."""
    grid: dict[str, list[str]] = {}
    name = ""
    for part in filter(None, text.split(",")):
        if "=" in part:
            with as_usage(option):
                name, value = parse_setting(part)
        else:
            value = part.strip()
        if not (name and value):
            raise _no_pair(part, option)
        grid.setdefault(name, []).append(value)
    found = []
    for values in product(*grid.values()):
        pairs = dict(zip(grid, values, strict=True))
        settings = {name: parse_value(value) for name, value in pairs.items()}
        _check(settings, option, auto=True)
        found.append((",".join("=".join(pair) for pair in pairs.items()), settings))
    return found


def _no_pair(part: str, option: str) -> typer.BadParameter:
    return typer.BadParameter(f"must be NAME=VALUE,..., got {part!r}", param_hint=option)


def _parse_pairs(texts: Iterable[str] | None, option: str, parse: Callable[[str], tuple[str, str]]) -> dict[str, Value]:
    """Read ``name=value,name=value``, each pair by `parse`."""
    pairs: dict[str, Value] = {}
    for part in filter(None, ",".join(texts or ()).split(",")):
        name, value = parse(part)
        if not value:
            raise _no_pair(part, option)
        pairs[name] = parse_value(value)
    return pairs


def parse_parameters(texts: Iterable[str] | None, option: str, kind: str, names: Sequence[str]) -> dict[str, Value]:
    """Read ``name=value,name=value`` of these names; the values are not checked."""

    def parse(text: str) -> tuple[str, str]:
        name, value = split_setting(text)
        return check_choice(kind, name, names), value

    with as_usage(option):
        return _parse_pairs(texts, option, parse)


def parse_storage(texts: Iterable[str] | None) -> StorageOptions | None:
    """Read the storage options of a new index; None without any."""
    given: dict[str, Any] = parse_parameters(texts, "--storage", "a storage option", STORAGE_NAMES)
    with as_usage("--storage"):
        return StorageOptions(**given) if given else None


def parse_query_settings(idf: IdfName | None, texts: Iterable[str] | None) -> dict[str, Any]:
    """Return the settings of the query's side; a search can change no others."""
    settings = parse_settings(texts, "--set")
    if fixed := [name for name in settings if name not in QUERY_NAMES]:
        msg = f"a search can change {', '.join(QUERY_NAMES)} only: {', '.join(fixed)} is fixed in the index"
        raise typer.BadParameter(msg, param_hint="--set")
    _check(settings, "--set")
    return _join({} if idf is None else {"idf": idf}, settings)


def _join(own: Mapping[str, Value], others: Mapping[str, Value]) -> dict[str, Value]:
    """Put the settings of options and of ``--set`` together, which must not name one twice."""
    if twice := own.keys() & others.keys():
        msg = f"{', '.join(sorted(twice))} must be given once, as an option or by --set"
        raise typer.BadParameter(msg, param_hint="--set")
    return {**own, **others}


def _check(settings: dict[str, Value], option: str, *, auto: bool = False) -> None:
    """Refuse values that no index can have."""
    if auto and settings.get("chunk_size") == AUTO:
        settings = {name: value for name, value in settings.items() if name != "chunk_size"}
    if "delta" in settings:  # which the default weighting does not have
        settings = {"weighting": "bm25l", **settings}
    with as_usage(option):
        with_settings(IndexConfig(1), settings)


@contextmanager
def as_usage(option: str) -> Iterator[None]:
    """Report a wrong value as wrong usage of an option."""
    try:
        yield
    except ParameterError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def make_splitter(config: IndexConfig, chunk_overlap: int | None, split_size: int | None = None) -> Splitter:
    """Return a text splitter; the options of its lengths may not suit each other."""
    with as_usage("--chunk-overlap"):
        return splitter(config, chunk_overlap, split_size)
