"""Settings of an index on the command line: flags for the most common ones, ``--set`` and ``--compare`` for all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rag_bm25.analysis import AnalyzerConfig, TextAnalyzer, read_stop_words, read_user_words
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note
from rag_bm25.definitions import Value, once, options_of
from rag_bm25.errors import ParameterError
from rag_bm25.index.config import OF_QUERIES, IndexConfig
from rag_bm25.index.settings import SETTINGS, read_setting, with_settings
from rag_bm25.ingestion.language import describe, settings_for
from rag_bm25.ingestion.splitting import Splitter, splitter
from rag_bm25.store.storage import StorageOptions
from rag_bm25.weighting.idf import IdfName
from rag_bm25.weighting.term_k1 import K1_METHODS

AUTO = "auto"
DEFAULT_CHUNK_SIZE = 500
COUNT_TITLES = {"fields": "default"}


def _flag(name: str, *names: str, note: str = "", **more: Any) -> Any:
    return opt.option(SETTINGS[name].summary + note, *names, **more)


K1: TypeAlias = Annotated[float | None, _flag("k1")]
B: TypeAlias = Annotated[float | None, _flag("b")]
Settings: TypeAlias = Annotated[
    list[str] | None,
    opt.option(
        f"Other settings, such as stem=false,bigrams=false; may be repeated. There are {', '.join(SETTINGS)}.",
        "--set",
        metavar="NAME=VALUE,...",
    ),
]

Storage: TypeAlias = Annotated[
    list[str] | None,
    opt.option(
        "How a Milvus server stores the chunks of a new index, such as shards=4,mmap=true: "
        f"{', '.join(options_of(StorageOptions))}; by default as the server does. May be repeated.",
        "--storage",
        metavar=Value(StorageOptions).form,
    ),
]


@dataclass(frozen=True)
class IndexOptions:
    """The settings of an index that most people use, and ``--set`` for the others."""

    chunk_size: Annotated[str | None, _flag("chunk_size", metavar="NUMBER")] = None
    k1: K1 = None
    b: B = None
    idf: Annotated[IdfName | None, _flag("idf")] = None
    fields: Annotated[
        list[str] | None,
        _flag("fields", "--field", note=" May be repeated; none for no field.", metavar=SETTINGS["fields"].kind.form),
    ] = None
    setting: Settings = None

    def given(self, *, auto: bool = False) -> dict[str, Any]:
        """Return the settings that were given; `auto` allows this word for the chunk size."""
        words = {name: word for name, word in vars(self).items() if name in SETTINGS and word not in (None, [])}
        words |= {"fields": "+".join(self.fields)} if self.fields else {}
        own = {name: _read(name, word, f"--{name.replace('_', '-')}", auto=auto) for name, word in words.items()}
        pairs = [_split(pair, "--set") for pair in ",".join(self.setting or ()).split(",") if pair]
        with as_usage("--set"):
            others = once((name, _read(name, word, "--set", auto=auto)) for name, word in pairs)
        if twice := own.keys() & others.keys():
            msg = f"{', '.join(sorted(twice))} must be given once, as an option or by --set"
            raise typer.BadParameter(msg, param_hint="--set")
        return {**own, **others}


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

    def given(self) -> dict[str, Any]:
        """Read the files; return their words as settings."""
        readers = {"user_words": read_user_words, "stop_words": read_stop_words}
        return {name: read(path) for name, read in readers.items() if (path := getattr(self, name)) is not None}


def _split(pair: str, option: str, last: str = "") -> tuple[str, str]:
    """Split ``name=value``, whose name may have hyphens; a value alone is another one of the `last` name."""
    name, value = (part.strip() for part in (pair if "=" in pair else f"{last}={pair}").split("=", 1))
    if not (name and value):
        raise typer.BadParameter(f"must be NAME=VALUE,..., got {pair!r}", param_hint=option)
    return name.replace("-", "_"), value


def _read(name: str, given: object, option: str, *, auto: bool) -> Any:
    """Read the value of a setting; `auto` allows this word for the chunk size."""
    if auto and (name, given) == ("chunk_size", AUTO):
        return given
    with as_usage(option):
        return read_setting(name, given)


def parse_grid(text: str, option: str) -> list[tuple[str, dict[str, Any]]]:
    """Read ``name=value,value,name=value``; return each combination of the values, as text and as settings."""
    grid: dict[str, dict[str, Any]] = {}
    name = ""
    for part in filter(None, text.split(",")):
        name, value = _split(part, option, name)
        of_query = name == "k1" and value in K1_METHODS  # a k1 of each term is a choice of the query
        setting = OF_QUERIES[name] if of_query else name
        grid.setdefault(name, {})[value] = (setting, _read(setting, value, option, auto=True))
    if not grid:
        raise typer.BadParameter(f"must be NAME=VALUE,..., got {text!r}", param_hint=option)
    combinations = product(*(values.items() for values in grid.values()))
    return [_combine(grid, values) for values in combinations]


def _combine(names: Iterable[str], values: Iterable[tuple[str, Any]]) -> tuple[str, dict[str, Any]]:
    pairs = dict(zip(names, values, strict=True))
    label = ",".join(f"{name}={word}" for name, (word, _) in pairs.items())
    return label, dict(setting for _, setting in pairs.values())


def parse_storage(texts: list[str] | None) -> StorageOptions | None:
    """Read the storage options of a new index; None without any."""
    kind = Value(StorageOptions)
    with as_usage("--storage"):
        return kind.read("storage", kind.parse(",".join(texts))) if texts else None


def new_config(chunk_size: float, analyzer: TextAnalyzer | None, given: Mapping[str, Any]) -> IndexConfig:
    """Return the config of a new index: titles and headings count unless the settings say otherwise."""
    return with_settings(opt.with_analyzer(IndexConfig(chunk_size), analyzer), {**COUNT_TITLES, **given})


def with_language(config: IndexConfig, given: Mapping[str, Any], sample: Callable[[], Sequence[str]]) -> IndexConfig:
    """Return the config of a new index with what suits the language of its texts, unless a stem is given; tell it."""
    if "stem" in given or not isinstance(config.analyzer, AnalyzerConfig):
        return config
    if settings := settings_for(sample(), given):
        print_note(f"{describe(settings)} hold for the new index (--set stem=true keeps English stems)")
    return with_settings(config, settings)


@contextmanager
def as_usage(option: str | None = None) -> Iterator[None]:
    """Report a wrong value as wrong usage, of an option."""
    try:
        yield
    except ParameterError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def make_splitter(config: IndexConfig, chunk_overlap: int | None, split_size: int | None = None) -> Splitter:
    """Return a text splitter; the options of its lengths may not suit each other."""
    with as_usage("--chunk-overlap"):
        return splitter(config, chunk_overlap, split_size)
