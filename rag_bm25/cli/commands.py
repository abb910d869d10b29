"""Make a command of a function: options from groups, and errors that are one line and an exit code."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import Any, get_type_hints, is_typeddict

import typer
from typer.core import TyperCommand
from typer.main import get_command

from rag_bm25.cli.console import fail, print_error
from rag_bm25.cli.flags import flags_of, read_flags
from rag_bm25.errors import RagBM25Error
from rag_bm25.hits.options import NAMES_OF_K
from rag_bm25.ingestion.files import os_error_message

WRITING = ("ingest", "delete", "repair", "copy", "reindex", "set", "drop-namespace")
SEVERAL = ("collection", "namespace")
"""Options that may be repeated, in some commands: of the others, Typer would take the last."""


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups as parameters, which Typer makes options of.

    A group is a dataclass whose fields are flags, or a TypedDict of options, whose flags come from their definitions.
    """
    # get_type_hints of Python 3.10 hides an option whose default is None.
    hints = get_annotations(command, eval_str=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flags = {name: flags_of(hint) for name, hint in hints.items() if is_typeddict(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if group := groups.get(parameter.name):
            of_group = get_type_hints(group, include_extras=True)
            parameters += [
                Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=of_group[one.name])
                for one in fields(group)
            ]
        elif of_options := flags.get(parameter.name):
            parameters += [one.parameter for one in of_options.values()]
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        for name, of_options in flags.items():
            given[name] = read_flags(of_options, given)
        command(**given)

    expanded.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


class ReportingCommand(TyperCommand):
    """A command whose foreseeable errors are a line on stderr."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command; a flag that other tools have for -k is answered with it."""
        try:
            self._require_once(ctx, [*args])
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "option_name", "").strip("-").replace("-", "_") in NAMES_OF_K:
                error.possibilities = ["-k"]  # type: ignore[attr-defined]  # of click, which Typer may have inside
            raise

    def _require_once(self, ctx: Any, args: list[str]) -> None:
        *_, given = self.make_parser(ctx).parse_args(args)
        for option, times in Counter(given).items():
            if times > 1 and option.name in SEVERAL and not option.multiple:
                msg = "must be given once: this command takes one"
                raise typer.BadParameter(msg, ctx=ctx, param_hint=f"--{option.name}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except RagBM25Error as error:
            fail(str(error))
        except BrokenPipeError:
            raise  # the reader of the output has closed it; Typer ends quietly
        except OSError as error:
            fail(os_error_message(error))
        except KeyboardInterrupt:
            advice = ": everything acknowledged is stored, and running the same command again continues"
            print_error(f"interrupted{advice if self.name in WRITING else ''}")
            raise typer.Exit(130) from None


def make_command(name: str | None, function: Callable[..., None], epilog: str | None) -> Any:
    """Return a function as a command of Typer."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = {"auto_envvar_prefix": "RAG_BM25"}  # RAG_BM25_COLLECTION is --collection, but for --yes
    alone.command(name, cls=ReportingCommand, epilog=epilog, context_settings=settings)(expand_groups(function))
    return get_command(alone)
