"""Write a file so that readers have the old one or the whole new one."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield the place of a new file, which replaces the one at a path when it is complete."""
    part = Path(f"{path}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the user knows nothing of the part
        raise
