"""A budget for what one request may cost: long work asks between two steps whether to go on.

Only a server sets one. It is a variable of the context, since the steps lie in many functions below the call.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def check_budget() -> None:
    """Raise the error of the budget if it is spent; without a budget, do nothing."""
    check = _CHECK.get()
    if check is not None:
        check()


def has_budget() -> bool:
    """Return whether a server has set one."""
    return _CHECK.get() is not None


@contextmanager
def limited(check: Callable[[], None]) -> Iterator[None]:
    """Set the budget of the calls in the body of a ``with`` statement: a function that raises once it is spent."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)
