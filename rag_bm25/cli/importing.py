"""Models and functions of the user's own, named on the command line: ``MODULE:NAME``."""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import typer

from rag_bm25.errors import RagBM25Error

T = TypeVar("T")

# What a message of a model may hold that nobody else should read: logins in addresses, and keys.
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
_KEY = re.compile(
    r"(?i)\bbearer\s+\S+"
    r"|\b(?:sk|pk|rk|hf|gh[opsu]|github_pat|glpat|gsk|xai|xox[abprs]|jina|pplx|nvapi)[-_](?=[\w-]*\d)[\w-]{8,}"
    r"|\b(?:AKIA|AIza|eyJ)[\w.-]{12,}"
)
_MAY_BE_KEY = re.compile(r"(?i)\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{20,}")
_WORD = re.compile(r"[A-Za-z]*\d{0,4}[A-Za-z]{0,4}")  # of names such as paraphrase-multilingual-MiniLM-L12-v2
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential")


class ModelError(RagBM25Error):
    """A model cannot be loaded, or has failed."""


@dataclass(frozen=True)
class ModelOption(Generic[T]):
    """An option that names a model, or a factory of one."""

    flag: str
    form: str  # such as MODULE:FACTORY
    example: str
    rule: str  # what the model must be
    adapt: Callable[[Any], T | None]  # from what is imported or made; None for what is no model

    def load(self, name: str) -> T:
        """Return the model of this name, from the current folder or an installed package."""
        found = self._find(name)
        model = self.adapt(found)
        if model is None and _is_factory(found):
            with one_line_errors(f"{self.flag} {name} has failed"):
                found = found()
            model = self.adapt(found)
        if model is None:
            raise ModelError(f"{self.flag} {name} must be {self.rule}, got {_describe(found)}")
        return model

    def _find(self, name: str) -> Any:
        """Import MODULE and return the attribute NAME."""
        module, _, path = name.partition(":")
        if not (module and path):
            msg = f"must be {self.form}, such as {self.example}, got {name!r}"
            raise typer.BadParameter(msg, param_hint=self.flag)
        found = self._import(name, module)
        for attribute in path.split("."):
            if not hasattr(found, attribute):
                raise ModelError(f"{self.flag} {name}: {module} has no {path!r}")
            found = getattr(found, attribute)
        return found

    def _import(self, name: str, module: str) -> Any:
        if os.getcwd() not in sys.path:  # noqa: PTH109  # where people keep a module of their own
            sys.path.append(os.getcwd())  # noqa: PTH109  # last: no other module may come from there
        with one_line_errors(f"{self.flag} {name}: {module} cannot be imported"):
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                missing = f"there is no module {error.name!r}"
                msg = f"{self.flag} {name}: {missing}, here or among the installed packages"
                raise ModelError(msg) from None


def _is_factory(found: object) -> bool:
    return isinstance(found, type) or takes_arguments(found, 0)


def takes_arguments(found: object, count: int) -> bool:
    """Return whether this can be called with so many arguments."""
    if not callable(found):
        return False
    try:
        inspect.signature(found).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a function in C may have no signature
        return True
    return True


def as_function(made: Any, count: int) -> Any:
    """Return a function of so many arguments; None for anything else, a class or coroutine function included."""
    fits = takes_arguments(made, count) and not isinstance(made, type) and not is_coroutine_function(made)
    return made if fits else None


def is_coroutine_function(found: object) -> bool:
    """Return whether calling this returns a coroutine, which nobody here awaits."""
    return any(map(inspect.iscoroutinefunction, (found, getattr(found, "__call__", None))))  # noqa: B004


def _describe(found: object) -> str:
    """Return the type of what is no model, and the parameters of a function, without defaults, which may be secrets."""
    kind = "coroutine function" if is_coroutine_function(found) else type(found).__name__
    return f"{kind} of ({', '.join(inspect.signature(found).parameters)})" if inspect.isfunction(found) else kind


@contextmanager
def one_line_errors(what: str) -> Iterator[None]:
    """Report whatever a model raises in one line without secrets."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a model may raise
        message = hide_secrets(str(error), os.environ)
        raise ModelError(f"{what}: {type(error).__name__}: {message}") from None


def hide_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Replace what may be a secret: logins, keys, and the values of variables that are named like one."""
    values = [value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= 4]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    return _MAY_BE_KEY.sub(_hide_unless_a_name, _KEY.sub("***", _LOGIN.sub("***@", text)))


def _hide_unless_a_name(found: re.Match[str]) -> str:
    """Keep the name of a model or a file, which consists of words: a key is letters and digits at random."""
    return found[0] if all(map(_WORD.fullmatch, re.split("[-_]", found[0]))) else "***"
