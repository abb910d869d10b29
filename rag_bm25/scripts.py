"""The scripts that text is written in, as far as words are found otherwise in one than in another.

A segmenter for another language is one new module and a line here: its script, with the name of the module.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, eq=False)
class Script:
    """A script: its characters, as in a regular expression's set, and how its runs become words."""

    chars: str
    ideographic: bool = False  # a character is a word, and two neighbours are a bigram
    segmenter: str = ""  # module whose `load_segmenter` loads what cuts a run into words

    @property
    def syllabic(self) -> bool:
        """Whether a run is cut into pairs of characters."""
        return bool(self.chars) and not (self.ideographic or self.segmenter)

    @property
    def run(self) -> str:
        """Pattern of a run; without a segmenter, an ideograph is one."""
        return f"[{self.chars}]" if self.ideographic and not self.segmenter else f"[{self.chars}]+"


HAN = Script("\u4e00-\u9fd5", ideographic=True, segmenter="rag_bm25.analysis.segmentation")  # as jieba has it
OTHER_IDEOGRAPHS = Script(
    "\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u9fd6-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", ideographic=True
)
KANA = Script("\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff")
HANGUL = Script("\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb")
SOUTH_EAST_ASIAN = Script(  # Thai, Lao, Burmese, Khmer and their neighbours, where no space is between words
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17d7"
    "\u17dc\u17dd\u1950-\u1974\u1980-\u19c9\u1a20-\u1a7c\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f\uaa80-\uaadd"
)
LETTERS = Script("")
"""All scripts that put spaces between words, and some that do not; and signs."""

SCRIPTS = (HAN, OTHER_IDEOGRAPHS, KANA, HANGUL, SOUTH_EAST_ASIAN)
"""The scripts besides letters."""

IDEOGRAPHS = "".join(script.chars for script in SCRIPTS if script.ideographic)
SEGMENTED = "".join(script.chars for script in SCRIPTS if script.segmenter)


def _find_marks() -> str:
    """Return the signs of vowels and tones, accents and points, as in a regular expression's set.

    Those that Python 3.10 knows are marks in every later version, too. Beyond the Basic Multilingual Plane, a regular
    expression would compare them one by one.
    """
    kinds = "".join(map(unicodedata.category, map(chr, range(0x10000))))
    found = re.finditer("(?:M[nc])+", kinds)
    return "".join(f"{chr(match.start() // 2)}-{chr(match.end() // 2 - 1)}" for match in found)


MARKS = _find_marks()
"""The characters that belong to the one before them."""

CJK = (
    r"[\u3005-\u3007\u3021-\u3029\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7fb\uf900-\ufaff"
    rf"\U00020000-\U0003ffff{SOUTH_EAST_ASIAN.chars}]"
)
"""Pattern of a Chinese character, kana, hangul or Thai, with a few signs among them: lengths are stored by it."""


@lru_cache(maxsize=1 << 16)
def script_of(char: str) -> Script:
    """Return the script of a character."""
    return next((script for script in SCRIPTS if re.match(script.run, char)), LETTERS)


HAN_DIGITS = "零一二三四五六七八九"
HAN_NUMERALS = f"{HAN_DIGITS}〇○十百千"
"""The characters of numbers below 10,000; the first twelve are digits."""
_ZEROS = str.maketrans("〇○", "零零")
_HAN_UNITS = {"千": 1000, "百": 100, "十": 10}


def han_number(number: int) -> str:
    """Return a number in 1..9999 as laws have it: 十二, 一百零五, 一千零一十."""
    spelt = ""
    for unit, size in (*_HAN_UNITS.items(), ("", 1)):
        digit = number // size % 10
        if digit:
            spelt += HAN_DIGITS[digit] + unit
        elif spelt and not spelt.endswith("零"):
            spelt += "零"
    return spelt.rstrip("零").removeprefix("一" if 10 <= number < 20 else "")


_HAN_NUMBER = re.compile(
    r"(?:([{0}]?)(千))?零?(?:([{0}]?)(百))?零?(?:([{0}]?)(十))?零?((?<![百千])[{0}])?".format(HAN_DIGITS[1:])
)


def read_han_number(characters: str) -> int:
    """Return a number below 10,000 in characters, as laws have it (一百〇五) or by digits (二〇二五); 0 for none."""
    characters = characters.translate(_ZEROS)
    if all(char in HAN_DIGITS for char in characters):
        return int("0" + "".join(str(HAN_DIGITS.index(char)) for char in characters))
    if (match := _HAN_NUMBER.fullmatch(characters)) is None:
        return 0
    *pairs, ones = match.groups("")
    sizes = zip(pairs[::2], pairs[1::2], strict=True)
    tens = sum(_HAN_UNITS[unit] * HAN_DIGITS.index(digit or "一") for digit, unit in sizes if unit)
    return tens + (HAN_DIGITS.index(ones) if ones else 0)
