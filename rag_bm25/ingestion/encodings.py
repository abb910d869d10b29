"""Decode texts: UTF-8, an encoding that is given, or one that is detected."""

from __future__ import annotations

import codecs
import re

from rag_bm25.checks import parameter_error, require_extra
from rag_bm25.errors import InputError, MissingExtraError, install_extra

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # which begins like the next
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""The encodings of byte order marks."""

SUPERSETS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "cp950": "big5hkscs",
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""Encodings that others contain, which files in the former often use; browsers read those for them (WHATWG)."""

ASCII = ("ascii", "us-ascii")

DAMAGED = "utf-8, damaged"
"""UTF-8 with some other bytes, which are read as U+FFFD."""

DETECTED_BYTES = 1 << 20  # the beginning of a file, by which its encoding is detected
MIN_COMMON = 0.9  # share of common characters in a text in UTF-16
MIN_ZEROS = 0.25  # share of zero bytes in a text in UTF-16 without bytes beyond ASCII
MIN_BYTES = 64  # of a text that has such bytes if it is Chinese
MIN_VALID = 2  # characters of UTF-8 for each byte that is none
LOW_CONFIDENCE = 0.2  # of a guess, below which the usual encodings are more probable than rare ones
_USUAL = re.compile(r"windows-|gb|big5|cp9|euc|shift|iso-2022|koi8|utf", re.IGNORECASE)
_SIXTEEN = re.compile("[\\x00-\\x7f\u3001\u3002\uff0c]")  # signs that each text has, and pairs of other bytes are not
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_C1 = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0xA0)}
_COMMON = re.compile(r"[\t\r\n\x20-\x7e\u3000-\u303f\u4e00-\u9fff\uff01-\uffee\u2010-\u2027]")


def check_encoding(name: str) -> str:
    """Check the name of an encoding of texts, and return the encoding to decode with."""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        info = None
    if info is None or not getattr(info, "_is_text_encoding", True):
        raise parameter_error("encoding", "a text encoding that Python knows, such as gb18030, big5 or utf-16", name)
    return SUPERSETS.get(info.name, info.name)


def decode(data: bytes, where: str, encoding: str | None = None, declared: str | None = None) -> tuple[str, str]:
    """Decode a text, and return it with its encoding, "" for UTF-8.

    A byte order mark decides, then the encoding that is given. Without either, UTF-8 is tried, then what the text
    declares; last, the encoding is detected.
    """
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return _decode_marked(data, mark, name, where)
    if encoding is not None:
        name = check_encoding(encoding)
        return _decode_as(data, name, where), _unless_utf8(name)
    utf8 = _try(data, "utf-8")
    is_escaped = (declared or "").lower().startswith("iso-2022") and b"\x1b" in data  # Japanese in e-mail, as ASCII
    if utf8 is not None and "\0" not in utf8 and not is_escaped:
        return utf8, ""
    name = _fitting(data, "cp1252" if (declared or "").lower() in ASCII else declared)
    if not name and utf8 is None and is_mostly_utf8(data):
        return data.decode("utf-8", "replace"), DAMAGED
    name = name or _detect(data, where)
    if not name and utf8 is None:
        raise InputError(f"{where}: not UTF-8 at byte {_error_at(data)} of the file, and has NULs: it is not a text")
    if not name:
        return str(utf8), ""  # with NULs, which the checks of texts refuse
    return _decode_as(data, name, where), name


def _decode_marked(data: bytes, mark: bytes, name: str, where: str) -> tuple[str, str]:
    rest = data[len(mark) :]
    if name == "utf-8" and _try(rest, name) is None and is_mostly_utf8(rest):
        return rest.decode(name, "replace"), DAMAGED
    return _decode_as(rest, name, where, skipped=len(mark)), _unless_utf8(name)


def _fitting(data: bytes, supposed: str | None) -> str:
    """Return the encoding to decode with if the text is in the supposed one, else ""."""
    try:
        name = check_encoding(supposed) if supposed else ""
    except ValueError:
        return ""
    return name if name and _try(data, name) is not None else ""


def _detect(data: bytes, where: str) -> str:
    """Return the most probable encoding, "" if there is none."""
    sixteen = _detect_utf16(data)
    if sixteen or b"\0" in data:
        return sixteen
    try:
        with require_extra(""):
            import chardet
    except MissingExtraError:
        hint = f"Give its encoding (--encoding gb18030), or have it detected: {install_extra('documents')}"
        raise InputError(f"{where}: not UTF-8 at byte {_error_at(data)} of the file. {hint}") from None
    name = _fitting(data, _probable(data, **chardet.detect(data[:DETECTED_BYTES])))
    if not name:
        raise InputError(_not_utf8(data, where))
    return name


def _probable(data: bytes, encoding: str | None, confidence: float, **_others: object) -> str | None:
    """Return the encoding that was guessed; for a weak guess of a rare one, the usual one of such bytes."""
    runs = re.findall(rb"[\x80-\xff]+", data)
    if _USUAL.match(encoding or "") or confidence >= LOW_CONFIDENCE or 4 * sum(map(len, runs)) > len(data):
        return encoding
    return "cp1252" if any(len(run) % 2 for run in runs) else "gb18030"


def _detect_utf16(data: bytes) -> str:
    """Return the form of UTF-16 of a text without a byte order mark, "" if it is in another encoding."""
    if len(data) >= MIN_BYTES and data.isascii() and data.count(0) < MIN_ZEROS * len(data):
        return ""  # Chinese of some length would have bytes beyond ASCII, and English a zero in each character
    shares = {}
    for name in ("utf-16-le", "utf-16-be"):
        text = None if len(data) % 2 else _try(data, name)
        beginning = (text or "")[:10_000]
        shares[name] = len(_COMMON.findall(beginning)) / len(beginning) if _SIXTEEN.search(beginning) else 0.0
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= MIN_COMMON else ""


def _not_utf8(data: bytes, where: str) -> str:
    return (
        f"{where}: not UTF-8 at byte {_error_at(data)} of the file, and of no encoding that can be told from its bytes"
        ". Give its encoding (--encoding gb18030)"
    )


def _error_at(data: bytes) -> int:
    """Return the first byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _decode(data: bytes, name: str) -> str:
    """Decode a text; five bytes that Windows-1252 has not are control characters, as in browsers."""
    return data.decode("latin-1").translate(_C1) if name == "cp1252" else data.decode(name)


def _try(data: bytes, name: str) -> str | None:
    try:
        return _decode(data, name)
    except UnicodeError:
        return None


def _decode_as(data: bytes, name: str, where: str, skipped: int = 0) -> str:
    try:
        return _decode(data, name)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not {name.upper()} at byte {skipped + error.start} of the file") from None
    except UnicodeError as error:
        raise InputError(f"{where}: not {name.upper()}: {error}") from None


def _unless_utf8(name: str) -> str:
    return "" if name in ("utf-8", "utf-8-sig") else name


def is_mostly_utf8(sample: bytes) -> bool:
    """Return whether most of a sample is in UTF-8; one wrong row or byte does not make another encoding."""
    if b"\0" in sample:
        return False
    lines = [line for line in sample.split(b"\n") if not line.isascii()]
    if sum(_try(line, "utf-8") is not None for line in lines) * 2 >= len(lines):
        return True
    text = sample.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    return sum(len(run) for run in _BEYOND_ASCII.findall(text)) - wrong >= MIN_VALID * wrong
