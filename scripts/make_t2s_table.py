"""Write the traditional-to-simplified table of characters, from OpenCC's data.

    python scripts/make_t2s_table.py            write the file
    python scripts/make_t2s_table.py --check    exit with 1 where the kept file is not what would be written

Every character that OpenCC's ``t2s`` changes, where the simplified one lies in U+4E00..9FFF; the characters beyond are
not in the segmenter's dictionary and not in common fonts. Chains are followed to their end (薴 -> 苧 -> 苎), so
simplifying twice is simplifying once.

OpenCC also knows words, a table of characters does not. Characters that simplified Chinese keeps in common words are
therefore left out (`STAYING`): 乾隆 and 乾坤 would no longer be words of the dictionary. The price is that
traditional 餅乾 becomes 饼乾 and not 饼干.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import opencc

TABLE = Path(__file__).resolve().parents[1] / "rag_bm25" / "analysis" / "data" / "t2s.txt"
STAYING = "乾吒薹"  # 乾隆 乾坤, 哪吒, 蒜薹: in jieba's dictionary more frequent than all words where they change
IDEOGRAPHS = (range(0x3400, 0xA000), range(0x20000, 0x33480))


def simplified_characters() -> dict[str, str]:
    """Return the single characters that OpenCC changes to one of U+4E00..9FFF."""
    convert = opencc.OpenCC("t2s").convert
    pairs = ((char, convert(char)) for block in IDEOGRAPHS for char in map(chr, block))
    table = {old: new for old, new in pairs if new != old and "\u4e00" <= new <= "\u9fff"}
    return {old: new for old, new in table.items() if old not in STAYING}


def follow_chains(table: dict[str, str]) -> dict[str, str]:
    """Replace targets that are themselves changed, until none is."""
    while any(new in table for new in table.values()):
        table = {old: table.get(new, new) for old, new in table.items()}
    return table


def rendered() -> str:
    """Return the text of the file: a line of characters by code point, and a line of their replacements."""
    table = follow_chains(simplified_characters())
    return "".join(table) + "\n" + "".join(table.values()) + "\n"


def main() -> int:
    """Write the table, or compare it with the kept one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    new = rendered()
    if not parser.parse_args().check:
        TABLE.write_text(new, encoding="utf-8")
        print(f"{TABLE.name}: {len(new) // 2 - 1} characters from OpenCC {opencc.__version__}")
        return 0
    same = TABLE.read_text(encoding="utf-8") == new
    print(f"{TABLE.name}: {'equal to' if same else 'differs from'} what OpenCC {opencc.__version__} gives")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
