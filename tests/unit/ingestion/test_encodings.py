"""Texts are decoded: as they say, as the user says, or as it is detected."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.files import run, write

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.ingestion import find_files, ingest
from rag_bm25.ingestion.encodings import decode, is_mostly_utf8
from rag_bm25.ingestion.lines import line_encoding
from rag_bm25.ingestion.reading import ReadOptions

LAW = "第一条 为了保护劳动者的合法权益，调整劳动关系，建立和维护适应社会主义市场经济的劳动制度，根据宪法，制定本法。"
TRADITIONAL = "第一條 為了保護勞動者的合法權益，調整勞動關係，建立和維護適應社會主義市場經濟的勞動制度，制定本法。"


@pytest.mark.parametrize(
    ("text", "encoding"), [(LAW, "gb18030"), (TRADITIONAL, "big5hkscs"), (LAW, "utf-16-le"), (LAW, "utf-16-be")]
)
def test_an_encoding_is_detected_and_told(tmp_path: Path, index: BM25Index, text: str, encoding: str) -> None:
    pytest.importorskip("chardet")
    report = run(index, write(tmp_path / "a.txt", text.encode(encoding)))
    assert "".join(chunk.text for chunk in sorted(index.chunks(), key=lambda chunk: chunk.id)).startswith(text[:20])
    assert report.notes == [f"read as {encoding.upper()}: a.txt (give --encoding if that is wrong)"]


def test_utf8_is_no_news() -> None:
    assert decode("text 文".encode(), "a") == ("text 文", "")
    assert decode(b"\xef\xbb\xbftext", "a", "gb18030") == ("text", "")
    assert decode("plain words".encode("utf-16-le"), "a") == ("plain words", "utf-16-le")  # which is UTF-8 with NULs


def test_an_encoding_that_is_given_is_taken() -> None:
    assert decode("劳".encode("gb18030"), "a", "GBK") == ("劳", "gb18030")
    assert decode("勞".encode("big5"), "a", "big5") == ("勞", "big5hkscs")
    with pytest.raises(InputError, match="a: not GB18030 at byte 1 of the file"):
        decode(b"x\xff\xff", "a", "gbk")


def test_a_byte_order_mark_overrides_what_is_given() -> None:
    assert decode("\ufeff劳".encode("utf-16-le"), "a", "gbk") == ("劳", "utf-16-le")


def test_one_bad_byte_after_a_byte_order_mark_is_told_and_read_as_without_one() -> None:
    text = "Größe der Pumpe: über 9 ".encode()
    assert decode(b"\xef\xbb\xbf" + text + b"\xff", "a") == decode(text + b"\xff", "a")
    with pytest.raises(InputError, match="a: not UTF-8 at byte 4 of the file"):
        decode(b"\xef\xbb\xbfa\xff\xfe\xff", "a")


def test_what_a_text_declares_is_taken_if_it_is_true() -> None:
    assert decode("劳动".encode("gb18030"), "a", None, "gb2312") == ("劳动", "gb18030")
    assert decode(LAW.encode("gb18030"), "a", None, "utf-8")[1] in ("gb18030", "")
    assert decode(LAW.encode("utf-16-le"), "a", None, "nonsense") == (LAW, "utf-16-le")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="not UTF-8 at byte 0 of the file, and has NULs: it is not a text"):
        decode(b"\x89PNG\r\n\0\0\xff", "a")


def test_without_the_detector_an_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "chardet", None)
    with pytest.raises(InputError, match=r"--encoding gb18030\), or have it detected: pip install"):
        decode(LAW.encode("gb18030"), "a")


@pytest.mark.parametrize("name", ["latin-9000", "base64", "rot13", "", "\0"])
def test_an_encoding_that_no_text_has_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="encoding must be a text encoding that Python knows"):
        ReadOptions(encoding=name)


def test_one_wrong_row_does_not_make_another_encoding() -> None:
    assert is_mostly_utf8("é\né\n".encode() + b"\xff")
    assert not is_mostly_utf8("劳动\n合同\n".encode("gb18030"))
    assert not is_mostly_utf8("a".encode("utf-16"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_rows_in_another_encoding(tmp_path: Path, index: BM25Index, name: str) -> None:
    pytest.importorskip("chardet")
    text = f"id,text\n1,{LAW}\n" if name == "a.csv" else f'{{"id": 1, "text": "{LAW}"}}\n'
    path = write(tmp_path / name, text.encode("gb18030"))
    for options in (ReadOptions(), ReadOptions(encoding="gbk")):
        report = ingest(index, find_files([path]), options=options, split_size=200)
        assert (report.rejected, report.chunks) == ({}, 1)
        assert next(index.chunks()).text == LAW


@pytest.mark.parametrize("data", [b"abc\0def\n" * 10, b"abc\0de" * 20])
def test_zeros_in_a_plain_text_are_not_taken_for_chinese(data: bytes) -> None:
    assert decode(data, "a") == (data.decode(), "")  # the checks of texts refuse it
    assert decode("名字 name 一".encode("utf-16-le"), "a") == ("名字 name 一", "utf-16-le")


def test_a_first_row_of_many_bytes_has_an_encoding_too(tmp_path: Path, index: BM25Index) -> None:
    pytest.importorskip("chardet")
    rows = f"id,text\n1,{LAW * 999}\n2,{LAW}\n".encode("gb18030")
    assert not run(index, write(tmp_path / "a.csv", rows)).rejected
    assert {chunk.id.partition("#")[0] for chunk in index.chunks()} == {"1", "2"}


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
def test_many_rows_in_utf16_without_a_mark_tell_it(tmp_path: Path, name: str) -> None:
    rows = "id,text\n" + "".join(f"{number},row\n" for number in range(5_000))
    with write(tmp_path / "a.csv", rows.encode(name)).open("rb") as file:
        assert line_encoding(file) == (name, 0)


def test_a_long_row_that_is_no_text_is_rejected(tmp_path: Path, index: BM25Index) -> None:
    rows = b"id,text\n1,a\n2," + b"\xff" * 999 + b"\n"
    path = write(tmp_path / "a.csv", rows)
    report = ingest(index, find_files([path]), options=ReadOptions(encoding="utf-8"))
    assert report.reasons == [f"{path} line 3: text (id '2') has a lone surrogate at character 0"]


def test_one_bad_byte_does_not_make_another_encoding() -> None:
    for text in ("打开下部阀门并等待十分钟。" * 9, "Close the valve – it’s on the left, near the café. ", "é\n" * 9):
        assert decode(text.encode() + b"\xe6\x9c", "a") == (f"{text}\ufffd", "utf-8, damaged")


@pytest.mark.parametrize(
    "text", ["吾輩は猫である", "この契約は甲と乙の間で締結される。賃料は毎月五日までに支払うものとする。" * 8]
)
def test_pairs_of_bytes_are_no_utf16_without_a_sign_of_it(text: str) -> None:
    pytest.importorskip("chardet")
    assert decode(text.encode("shift_jis"), "a") == (text, "cp932")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("L\u2019été à Genève: le café est naïf, très français et déjà prêt. ", "cp1252"),
        ("don\u2019t pay \u20ac5 \u2013 \u201cnow\u201d", "cp1252"),
        ("The price list of the pump 阀门 and its parts", "gb18030"),
        ("Привет, как дела? Это текст.", "cp1251"),
        ("劳动合同法", "gb18030"),
    ],
)
def test_a_weak_guess_of_a_rare_encoding_gives_way_to_the_usual_one(text: str, encoding: str) -> None:
    pytest.importorskip("chardet")
    assert decode(text.encode(encoding), "a") == (text, encoding)


@pytest.mark.parametrize(
    ("label", "written"),
    [("iso-8859-1", "cp1252"), ("us-ascii", "cp1252"), ("iso-8859-9", "cp1254"), ("tis-620", "cp874")],
)
def test_labels_mean_what_browsers_take_them_for(label: str, written: str) -> None:
    text = "don\u2019t \u2013 \u201cnow\u201d"
    assert decode(text.encode(written), "a", None, label) == (text, written)
    assert decode(b"\x81\x92", "a", "latin-1") == ("\x81\u2019", "cp1252")
