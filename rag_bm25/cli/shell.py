"""``rag-bm25 shell``: an interactive session."""

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import is_terminal, open_console, print_error, print_note, show
from rag_bm25.cli.embedding import DenseSearch, Model
from rag_bm25.cli.hits import Boosts, Selection
from rag_bm25.cli.listing import describe_chunk
from rag_bm25.cli.passages import render_chunk
from rag_bm25.cli.rendering import render_explanation, render_stats
from rag_bm25.cli.searching import HitCount, Question, mark_contexts, print_hits
from rag_bm25.cli.settings import parse_query_settings
from rag_bm25.documents.chunks import Hit
from rag_bm25.errors import InputError, RagBM25Error
from rag_bm25.filters import parse_filter
from rag_bm25.hits.options import HIT_OPTIONS, MAX_K
from rag_bm25.index.arguments import name_namespace
from rag_bm25.index.index import BM25Index
from rag_bm25.query.scores import ScoreExplanation

MAX_HISTORY = 2_000  # lines
RECOVERABLE = (RagBM25Error, typer.BadParameter, OSError)


def shell(
    place: opt.Place,
    question: Question,
    boosts: Boosts,
    selection: Selection,
    dense: DenseSearch,
    k: HitCount = 10,
    history: Annotated[
        bool, opt.option("Keep the lines typed in the user's state folder; by default yes.", "--history/--no-history")
    ] = True,
) -> None:
    """Search an index interactively.

    Type words to search; `:help` lists the commands, which explain and show hits, and filter and refine the last query.
    The options are those of `rag-bm25 search`, and hold until a command changes them. The index stays open for reading:
    meanwhile, no other process can open a .db file. Ctrl-C ends a search, Ctrl-D the session. Lines may be piped in;
    the exit code is 1 then if one of them failed.
    """
    scope, asked = question.scope(), {**question.options(), **boosts.options()}
    chosen, model = selection.options(), dense.load()
    with place.open_existing(read_only=True) as index:
        dense.note_missing(index)
        session = Session(index, dense, model, k, scope, asked, chosen)
        with _lines(place.collection, history) as lines:
            failed = sum(not session.obey(line) for line in lines)
    if failed and not is_terminal():
        raise typer.Exit(1)


@dataclass
class Session:
    """An open index, the options of its searches, and the last one."""

    index: BM25Index
    dense: DenseSearch
    model: Model | None
    k: int
    scope: dict[str, Any]
    asked: dict[str, Any]
    selection: dict[str, Any]
    query: str = ""
    hits: Sequence[Hit] = field(default_factory=list)  # of the query
    listed: Sequence[Hit] = field(default_factory=list)  # by the numbers of what was printed last

    def obey(self, line: str) -> bool:
        """Search for a line, or run the command that it is; return whether that worked."""
        text = line.strip()
        if not text:
            return True
        try:
            self._run(text)
        except RECOVERABLE as error:
            print_error(error.message if isinstance(error, typer.BadParameter) else str(error))
            return False
        except KeyboardInterrupt:
            if not is_terminal():
                raise
            print_note("interrupted")
            return False
        return True

    def _run(self, text: str) -> None:
        if text.startswith("+"):
            text = f":add {text[1:]}"
        if not text.startswith(":"):
            self._change(query=text)
            return
        name, _, argument = text[1:].partition(" ")
        command = COMMANDS.get(name) or COMMANDS.get(ABBREVIATIONS.get(name, ""))
        if command is None:
            like = difflib.get_close_matches(name, COMMANDS, 1)
            meant = f"did you mean :{like[0]}?" if like else ":help lists them"
            raise InputError(f"there is no command :{name}; {meant}")
        command.run(self, argument.strip())

    def _change(self, **changes: Any) -> None:
        """Change the search and run it again; if it fails, everything stays as it was."""
        before = {name: getattr(self, name) for name in changes}
        vars(self).update(changes)
        try:
            parse_filter(self.scope["filter"])
            if self.query:
                self.hits = self._search(self.k)
        except BaseException:
            vars(self).update(before)
            raise
        if self.query:
            self._print_hits()

    @property
    def _options(self) -> dict[str, Any]:
        return {**self.scope, **self.asked, **self.selection}

    def _search(self, k: int) -> Sequence[Hit]:
        shown = {"highlight": self.dense.highlighting(open_console().width)}
        return self.dense.search(self.index, self.model, self.query, k, {**self._options, **shown})

    def _print_hits(self, first: int = 1) -> None:
        hits, options = self.hits[first - 1 :], {"namespace": self.scope["namespace"], **self.asked}
        print_hits(hits, marks=mark_contexts(self.index, self.query, hits, options), first=first)
        self.listed = self.hits
        if not self.hits:
            print_note(str(self.index.why_nothing(self.query, self.k, **self._options)))

    def _require_query(self) -> None:
        if not self.query:
            raise InputError("there is no query yet: type words to search")

    def _find(self, argument: str) -> tuple[str, str | None]:
        """Return id and namespace of the hit with a number, by default the first, or of a chunk by its id."""
        if not re.fullmatch(r"\d*", argument):
            return argument, None
        number = int(argument or 1)
        if not 1 <= number <= len(self.listed):
            there = f"in 1..{len(self.listed)}" if self.listed else "that of a hit, and there are no hits"
            raise InputError(f"the number must be {there}, got {number}")
        hit = self.listed[number - 1]
        return hit.id, hit.namespace

    # Commands

    def explain(self, argument: str) -> None:
        explained = self._explain(argument)
        show(Text(explained.table(open_console().width)))

    def tree(self, argument: str) -> None:
        show(render_explanation(self._explain(argument)))

    def _explain(self, argument: str) -> ScoreExplanation:
        self._require_query()
        id_, namespace = self._find(argument)
        selection = self.selection if self.model is None else {}  # the place of a hit is that of the search by words
        asked = {**self.scope, **self.asked, **selection}
        return self.index.explain(self.query, id_, chunk_namespace=namespace, k=self.k, **asked)

    def why(self, argument: str) -> None:
        self._require_query()
        id_, namespace = self._find(argument)
        show(Text(str(self.index.why_not(self.query, id_, self.k, chunk_namespace=namespace, **self._options))))

    def show(self, argument: str) -> None:
        id_, namespace = self._find(argument)
        found = describe_chunk(self.index, id_, self.scope["namespace"] or "" if namespace is None else namespace, 10)
        console = open_console()
        console.print(render_chunk(found, self.index.config, console.width if console.is_terminal else None))

    def similar(self, argument: str) -> None:
        id_, _ = self._find(argument)
        of_hits = {name: value for name, value in self._options.items() if name in HIT_OPTIONS}
        self.listed = self.index.more_like_this(id_, self.k, **self.scope, **of_hits)
        print_hits(self.listed)
        if not self.listed:
            print_note("nothing found: no other chunk shares a term with it")

    def more(self, argument: str) -> None:
        self._require_query()
        shown = len(self.hits)
        wanted = min(shown + _number(argument or str(self.k)), MAX_K)
        self.hits = self._search(wanted)
        if len(self.hits) <= shown:
            print_note("there are no more hits")
        else:
            self._print_hits(shown + 1)

    def add(self, argument: str) -> None:
        self._change(query=f"{self.query} {_given(argument)}".strip())

    def must(self, argument: str) -> None:
        self._ask_for("must", argument)

    def must_not(self, argument: str) -> None:
        self._ask_for("must_not", argument)

    def phrase(self, argument: str) -> None:
        self._ask_for("phrases", argument)

    def _ask_for(self, name: str, argument: str) -> None:
        """Add a condition; without an argument, take those of the kind away."""
        known = self.asked.get(name) or []
        self._change(asked={**self.asked, name: [*known, argument] if argument else None})

    def filter(self, argument: str) -> None:
        self._change(scope={**self.scope, "filter": opt.parse_filter_option(argument or None)})

    def namespace(self, argument: str) -> None:
        self._change(scope={**self.scope, "namespace": None if argument == "*" else argument})

    def set_k(self, argument: str) -> None:
        self._change(k=_number(argument))

    def set(self, argument: str) -> None:
        self._change(asked={**self.asked, **parse_query_settings(None, [_given(argument)])})

    def stats(self, _argument: str) -> None:
        show(render_stats(self.index.stats(namespace=self.scope["namespace"] or None)))

    def state(self, _argument: str) -> None:
        """Show the query, and what is not as it was at the start of a session without options."""
        shown = {
            "query": self.query,
            "k": self.k,
            "filter": self.scope["filter"],
            "namespace": "all" if self.scope["namespace"] is None else name_namespace(self.scope["namespace"]),
            **self.asked,
            **self.selection,
        }
        unset = (None, "", False, "namespace")  # the last one is the default of `statistics`
        show(_columns((name, str(value)) for name, value in shown.items() if value not in unset))

    def help(self, _argument: str) -> None:
        usages = ((f":{name} {command.argument}".strip(), command.help) for name, command in COMMANDS.items())
        show(_columns([("WORDS", "search"), ("+WORDS", "search for these words, too"), *usages]))


def _given(argument: str) -> str:
    if not argument:
        raise InputError("the command needs an argument; :help lists them")
    return argument


def _number(argument: str) -> int:
    if not argument.isascii() or not argument.isdigit() or not 1 <= int(argument) <= MAX_K:
        raise InputError(f"must be a whole number in 1..{MAX_K:,}, got {argument!r}")
    return int(argument)


def _columns(rows: Any) -> Table:
    """Return names with their values or meanings."""
    rows = list(rows)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold", min_width=max((cell_len(name) for name, _ in rows), default=0))
    table.add_column(overflow="fold")
    for name, meaning in rows:
        table.add_row(name, Text(meaning))
    return table


@dataclass(frozen=True)
class Command:
    """A command of the session."""

    run: Callable[[Session, str], None]
    argument: str
    help: str


COMMANDS = {
    "explain": Command(Session.explain, "[N|ID]", "how the score of a hit comes about: a line for each term"),
    "tree": Command(Session.tree, "[N|ID]", "the same with every formula"),
    "why": Command(Session.why, "[N|ID]", "why a chunk is no hit"),
    "show": Command(Session.show, "[N|ID]", "a hit or chunk: text, metadata, neighbours, terms"),
    "similar": Command(Session.similar, "[N|ID]", "chunks that resemble a hit or chunk"),
    "more": Command(Session.more, "[NUMBER]", "the next hits"),
    "add": Command(Session.add, "WORDS", "search for these words, too; +WORDS is short for it"),
    "must": Command(Session.must, "[WORDS]", "words that every hit must have; without words, none must be there"),
    "not": Command(Session.must_not, "[WORDS]", "words that no hit may have together, likewise"),
    "phrase": Command(Session.phrase, "[WORDS]", "a phrase that every hit must have, likewise"),
    "filter": Command(
        Session.filter, "[FILTER]", "conditions on the metadata, as JSON or a Milvus expression, or none"
    ),
    "namespace": Command(
        Session.namespace, "[NAME]", "search another namespace: * all, without a name the default one"
    ),
    "k": Command(Session.set_k, "NUMBER", "maximum number of hits"),
    "set": Command(Session.set, "NAME=VALUE", "settings of the query's side: idf, epsilon, k3, bigram_weight"),
    "state": Command(Session.state, "", "the query and its options"),
    "stats": Command(Session.stats, "", "the figures of the index"),
    "help": Command(Session.help, "", "this list"),
    "quit": Command(Session.help, "", "end the session, as Ctrl-D does"),
}
ABBREVIATIONS = {
    "e": "explain",
    "s": "show",
    "m": "more",
    "f": "filter",
    "h": "help",
    "?": "help",
    "q": "quit",
    "n": "namespace",
}


# Lines


@contextmanager
def _lines(name: str, history: bool) -> Iterator[Iterator[str]]:
    """Read lines: typed, with a prompt, editing and history, or piped in."""
    if not is_terminal():
        yield _piped()
        return
    print_note(f"{name}: type words to search, :help for commands, Ctrl-D to end")
    with _line_editor(_history_file() if history else None):
        yield _typed(f"{name}> ")


def _piped() -> Iterator[str]:
    with suppress(AttributeError):  # what stands in for it in tests need not have it
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for line in iter(sys.stdin.readline, ""):
        if re.match(r"\s*:q(uit)?\s*$", line):
            return
        yield line


def _typed(prompt: str) -> Iterator[str]:
    while True:
        try:
            line = input(prompt)
        except KeyboardInterrupt:
            sys.stdout.write("\n")  # the line is dropped, as in other shells
            continue
        except EOFError:
            sys.stdout.write("\n")
            return
        if re.match(r"\s*:q(uit)?\s*$", line):
            return
        yield line


def _history_file() -> Path:
    """Return the place of the history: in the state folder of the XDG base directories."""
    given = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return folder / "rag-bm25" / "history"


@contextmanager
def _line_editor(file: Path | None) -> Iterator[None]:
    """Let lines be edited, completed and remembered, where readline is there; only their user may read them."""
    try:
        import readline
    except ModuleNotFoundError:  # on Windows
        yield
        return
    readline.set_completer_delims(" ")
    readline.set_completer(_complete)
    readline.parse_and_bind("tab: complete")
    if file is None:
        yield
        return
    readline.set_history_length(MAX_HISTORY)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        readline.read_history_file(file)
    except OSError as error:
        print_note(f"no history: {file} cannot be read ({error.strerror})")
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(file)


def _complete(text: str, at: int) -> str | None:
    """Return the command that completes a text, as readline asks for them one by one."""
    fitting = [f":{name} " for name in COMMANDS if text.startswith(":") and f":{name}".startswith(text)]
    return fitting[at] if at < len(fitting) else None
