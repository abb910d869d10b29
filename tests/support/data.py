"""The shared retrieval sets, which are not part of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Return the path of a set or of a file in one; skip the test where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the shared retrieval set {name} is not there")
    return path
