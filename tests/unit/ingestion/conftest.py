"""An index for files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.files import CONFIG

if TYPE_CHECKING:
    from rag_bm25 import IndexConfig


@pytest.fixture
def config() -> IndexConfig:
    return CONFIG
