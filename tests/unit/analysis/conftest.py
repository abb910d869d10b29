"""What the tests of analysis share."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from rag_bm25.analysis import segmentation


@pytest.fixture(scope="package", autouse=True)
def _dictionaries_stay_loaded() -> Iterator[None]:
    """Keep the dictionary of each segmenter, which takes a second to load: the tests ask for them in turns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segmentation, "_load", functools.lru_cache(maxsize=6)(segmentation._load.__wrapped__))
        yield
