"""The steps of Python's interpreter: how long work takes, whatever the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(work: Callable[[], object]) -> int:
    """Count the steps of Python's interpreter."""
    steps = 0

    def count(frame: FrameType, event: str, _value: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for it once, when tracing begins
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
