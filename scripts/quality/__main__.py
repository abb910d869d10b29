"""``python scripts/quality``: import the folder as a package: its modules must not shadow the standard library."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from quality.command import main

    sys.exit(main())
