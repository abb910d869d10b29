"""Write the table of radicals and strokes that look like ideographs, from a file of the Unicode Character Database.

    python scripts/make_radicals_table.py EquivalentUnifiedIdeograph.txt

Those that NFKC changes, as it does Kangxi radicals, are left out.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "rag_bm25" / "analysis" / "data" / "radicals.txt"
_LINE = re.compile(r"^(\w+)(?:\.\.(\w+))?\s*;\s*(\w+)", re.MULTILINE)  # a code point or a range; the ideograph


def equivalents(data: str) -> dict[str, str]:
    """Return the ideograph of each radical and stroke."""
    lines = [(int(first, 16), int(last or first, 16), chr(int(new, 16))) for first, last, new in _LINE.findall(data)]
    table = {chr(point): new for first, last, new in lines for point in range(first, last + 1)}
    return {old: new for old, new in sorted(table.items()) if unicodedata.normalize("NFKC", old) == old}


def main() -> None:
    """Write a line of characters by code point, and a line of their ideographs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    table = equivalents(parser.parse_args().file.read_text(encoding="utf-8"))
    TABLE.write_text("".join(table) + "\n" + "".join(table.values()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
