"""`scripts/release_check.py` stops a release that depends on what it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import release_check

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "metadata", "compatible"),
    [
        ("one", "License-Expression: BSD-3-Clause AND MIT", True),
        ("one", "Classifier: License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)", True),
        ("one", "License: Apache License, Version 2.0", True),
        ("one", "License-Expression: LGPL-3.0-only", False),
        ("one", "Classifier: License :: OSI Approved :: GNU General Public License (GPL)\nLicense: MIT", False),
        ("one", "License: Use is permitted to its author", False),
        ("one", "Summary: without a licence", False),
        ("milvus-lite", "Summary: without a licence", True),
    ],
)
def test_a_licence_must_be_known_to_be_compatible(tmp_path: Path, name: str, metadata: str, compatible: bool) -> None:
    folder = tmp_path / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}\n", "utf-8")
    assert (release_check.incompatible(tmp_path) == set()) is compatible
