"""``python scripts/soak``: import the folder, the package and the tests' reference from a fresh clone."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:1] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]
    from soak.command import main

    sys.exit(main())
