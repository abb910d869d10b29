"""An index for files."""

from __future__ import annotations

import pytest
from support.files import CONFIG

from rag_bm25 import IndexConfig


@pytest.fixture
def config() -> IndexConfig:
    return CONFIG
