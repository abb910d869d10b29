"""``python scripts/soak``: find the folder's modules, the package's and the tests' reference, in a fresh clone."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:1] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]
    from soak.command import main

    sys.exit(main())
