from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import rag_bm25
from rag_bm25.analysis import normalization
from rag_bm25.analysis.normalization import is_plain, join_lines, keeps_places, normalize, plain_form
from rag_bm25.analysis.runs import find_ideographs

PROJECT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("plain ASCII, don't touch", "plain ASCII, don't touch"),
        ("ＡＢＣ１２３，！", "ABC123，!"),
        ("⼈⼯", "人工"),
        ("㎏ ½ ﬁle", "kg 1⁄2 file"),
        ("2019¹ 10² 1½ ３²", "2019 1  10 2  1 1⁄2  3 2 "),
        ("x² CO₂ ½ ²", "x2 CO2 1⁄2 2"),
        ("1998①起 ②2024 7❶", "1998 1 起  2 2024 7 1 "),
        ("Core™ i7, Vitalox℠, 1º, № 5", "Core  i7, Vitalox , 1 o ,  No  5"),
        ("℡123 10㏂ ⓐfirst ⓗⓘ 5㎏", " TEL 123 10 a.m.   a first  hi  5kg"),
        ("3×4 donʼt O‛Brien", "3 x 4 don't O'Brien"),
        ("学习\u200b资料 co\u00adoperate", "学习资料 cooperate"),
        ("\ufeffBOM \u202eRTL\u202c ❤\ufe0f 葛\U000e0100", "BOM RTL ❤ 葛"),
        ("user’s ‘quote’", "user's 'quote'"),
        ("2024‐08‑22–3−1", "2024-08-22-3-1"),
        ("e\u00ad\u0301", "é"),
        ("經典資訊檢索", "经典资讯检索"),
        ("⻛险 ⻑江 ⻋⻔ ⻘年 ㇐", "风险 长江 车门 青年 一"),
        ("العَرَبِيَّة العـــربية", "العربية العربية"),
        ("שָׁלוֹם שלום", "שלום שלום"),
        ("क्\u200dष क़ ভাষা", "क्ष क\u093c ভাষা"),
        ("آ أ ي\u0654", "آ أ ئ"),  # a hamza that belongs to a letter stays
    ],
)
def test_a_text_has_one_normal_form(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_em_dashes_separate_where_hyphens_join() -> None:
    assert normalize("一—二") == "一—二"


def test_traditional_characters_can_be_kept() -> None:
    assert normalize("經典⼈⼯⻑", simplify=False) == "經典人工長"


def test_every_radical_that_has_an_ideograph_becomes_it() -> None:
    radicals = [*map(chr, range(0x2E81, 0x2E9A)), *map(chr, range(0x2E9B, 0x2EF4))]
    assert all(find_ideographs(normalize(radical, simplify=False) * 2) for radical in radicals)
    for name in ("WIND", "LONG", "GATE", "SEE", "HORSE", "LEAF", "FISH", "BIRD", "DRAGON"):
        old, new = f"KANGXI RADICAL {name}", f"CJK RADICAL C-SIMPLIFIED {name}"
        assert normalize(unicodedata.lookup(old)) == normalize(unicodedata.lookup(new))


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("劳动合\n同", "劳动合同"),
        ("一\n二 \r\n\u3000三\t\n四", "一二三四"),
        ("東京タワ\nー、です\nか", "東京タワー、ですか"),
        ("一\n\n二", "一\n\n二"),
        ("一。\n二，\n三\n（四）", "一。\n二，\n三\n（四）"),
        ("一\nBM25\n二\n- 三", "一\nBM25\n二\n- 三"),
        ("한국\n어, ภาษา\nไทย, a\nb, か\n\u3099", "한국\n어, ภาษา\nไทย, a\nb, か\n\u3099"),
        ("一 二", "一 二"),
    ],
)
def test_a_line_break_between_two_ideographs_or_kana_is_nothing(text: str, joined: str) -> None:
    assert join_lines(text) == joined
    assert join_lines(joined) == joined
    assert keeps_places(text) is (text == joined and "ภ" not in text)


@pytest.mark.parametrize("word", ["乾隆", "乾坤", "哪吒", "蒜薹"])
def test_characters_that_simplified_words_keep_are_left_alone(word: str) -> None:
    assert normalize(word) == word


def test_chains_of_simplifications_are_followed_to_their_end() -> None:
    assert normalize("薴苧苎") == "苎苎苎"


@pytest.mark.parametrize(
    "text", ["ASCII", "简体（中文），“引号”……——；", "1，000", "ひらがなカタカナ", "한국어", "café", "\u3000〇"]
)
def test_common_text_is_plain(text: str) -> None:
    assert is_plain(text)


@pytest.mark.parametrize("text", ["檢", "１", "．", "’", "\u200b", "e\u0301", "ﬁ", "\u1112\u1161", "㐂"])
def test_text_that_normalising_may_cut_otherwise_is_not_plain(text: str) -> None:
    assert not is_plain(text)


def test_traditional_text_is_plain_where_it_is_kept() -> None:
    assert is_plain("檢索", simplify=False)


def test_the_kept_table_is_what_the_script_makes() -> None:
    pytest.importorskip("opencc")
    check = subprocess.run(
        [sys.executable, PROJECT / "scripts" / "make_t2s_table.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.parametrize(
    ("name", "source", "licence"),
    [
        ("OpenCC", "https://github.com/BYVoid/OpenCC", "Apache License"),
        ("Unicode", "EquivalentUnifiedIdeograph.txt", "Permission is hereby granted"),
    ],
)
def test_the_licence_of_each_table_is_beside_it(name: str, source: str, licence: str) -> None:
    kept = Path(rag_bm25.__file__).parent / "analysis" / "data" / f"LICENSE-{name}"
    text = kept.read_text(encoding="utf-8")
    assert source in text
    assert licence in text


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("全文檢索，合同。", "全文检索，合同。"),
        ("１，２３４ … 1，234，合同", "1，234 ... 1，234，合同"),
        ("e\u200b\u0301tat，ﬁle", "état，file"),
        ("カ\u3099，㎏", "ガ，kg"),
        ("\u0301，檢", "\u0301，检"),
        ("２０１９¹²，檢", "2019 12 ，检"),
        ("a\u200bb，檢\u200b", "ab，检"),
    ],
)
def test_only_what_is_not_plain_is_normalised(text: str, form: str) -> None:
    assert plain_form(text) == form
    assert len(form) == len(normalize(text))


def test_a_text_with_many_parts_that_are_not_plain_is_normalised_as_a_whole() -> None:
    few, many = ("檢！" * (normalization.MANY_PARTS + by) for by in (-1, 0))
    assert plain_form(few) == "检!" * (normalization.MANY_PARTS - 2) + "检！"  # each with the one before it
    assert plain_form(many) == normalize(many)


def test_no_plain_character_joins_the_one_before() -> None:
    joining = re.compile(f"[{normalization._JOINING}]")
    plain = [char for char in map(chr, range(0x110000)) if is_plain(char)]
    assert not any(map(joining.match, plain))
