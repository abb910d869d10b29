"""Options that several commands share, written once: a parameter of a command may be a group of options.

A group is a dataclass whose fields are flags, or a TypedDict of options, whose flags come from their definitions.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import TYPE_CHECKING, Any, get_type_hints, is_typeddict

from rag_bm25.cli.flags import flags_of, read_flags

if TYPE_CHECKING:
    from collections.abc import Callable


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups as parameters, which Typer makes options of."""
    hints = get_annotations(
        command, eval_str=True
    )  # get_type_hints of Python 3.10 hides an option whose default is None
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
