"""Numbers of parts of laws, dates and thousands: one term, however they are written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.numbers import find_numbers
from rag_bm25.scripts import han_number, read_han_number

VALUES = {"零": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
SIZES = {"十": 10, "百": 100, "千": 1000}
ANALYZER = Analyzer()


def value_of(spelt: str) -> int:
    """Read a number as a reader does: each digit times the unit after it."""
    total, digit = 0, 1  # 十 alone is 10
    for char in spelt:
        if char in SIZES:
            total, digit = total + digit * SIZES[char], 0
        else:
            digit = VALUES[char]
    return total + (digit if spelt[-1] not in SIZES else 0)


def words_of(tokens: Iterable[str]) -> list[str]:
    return [token for token in tokens if token[0] != "\0"]


def words(tokens: Iterable[str]) -> set[str]:
    return set(words_of(tokens))


def terms(text: str) -> list[str]:
    return [number.terms[0] for number in find_numbers(text)]


def test_every_number_is_spelt_and_read_as_itself() -> None:
    spelt = [han_number(number) for number in range(1, 10_000)]
    assert [*map(value_of, spelt)] == [*map(read_han_number, spelt)] == list(range(1, 10_000))


@pytest.mark.parametrize(
    ("spelt", "number"),
    [
        ("一百〇五", 105),
        ("一百○五", 105),
        ("二〇", 20),
        ("一百十", 110),
        ("一十二", 12),
        ("二〇二五", 2025),
        ("百", 100),
        ("一百五", 0),
        ("十百", 0),
        ("二三十", 0),
        ("零", 0),
        ("", 0),
    ],
)
def test_numbers_are_read_as_people_write_them(spelt: str, number: int) -> None:
    assert read_han_number(spelt) == number


@pytest.mark.parametrize(
    "text",
    [
        "第三十八条",
        "第38条",
        "第 38 条",
        "第３８条",
        "劳动合同法38条",
        "劳动合同法三十八条",
        "《劳动合同法》38条",
        "条例38条",
        "民法典 38条",
        "若干规定38条",
        "解释（三）38条",
        "解释(三)三十八条",
        "38条",
        "三十八条",
        "第38條",
        "员工手册38条",
        "38条第2款",
    ],
)
def test_an_article_is_one_term_however_it_is_written(text: str) -> None:
    assert "第38条" in words(ANALYZER(text))
    assert "第38条" in words(ANALYZER.query(text))
    assert not {"38", "三十八", "十八条"} & words(ANALYZER.query(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("第二十一条第（三）项", ["第21条", "第3项"]),
        ("第21条第3项", ["第21条", "第3项"]),
        ("38条2款3项", ["第38条", "第2款", "第3项"]),
        ("第三十八条二款", ["第38条", "第2款"]),
        ("第二百八十条之一", ["第280条之1"]),
        ("第三百〇五条", ["第305条"]),
        ("第一编第二章第三节第四目", ["第1编", "第2章", "第3节", "第4目"]),
        ("第12部 第3卷 第4篇", ["第12部", "第3卷", "第4篇"]),
    ],
)
def test_parts_of_laws_are_found(text: str, found: list[str]) -> None:
    assert terms(text) == found


@pytest.mark.parametrize("text", ["第三十八、三十九条", "第38条和第39条", "第38至39条", "第38-39条"])
def test_each_article_of_a_list_is_a_term(text: str) -> None:
    assert words(ANALYZER.query(text)) >= {"第38条", "第39条"}


@pytest.mark.parametrize(
    "text",
    [
        "三项措施",
        "采取3项措施",
        "一条河",
        "这三条建议",
        "规定3条措施",
        "第一条件",
        "第一项目",
        "第三部分",
        "第二节日",
        "第四十七次",
        "12条建议",
        "第零条",
        "第12345条",
        "第一目标",
        "第一款式",
        "第 条",
        "38条裤子",
    ],
)
def test_counts_are_no_parts_of_laws(text: str) -> None:
    assert terms(text) == []


DAY = [
    *("2023-08-05", "2023-8-5", "2023/08/05", "2023/8/5", "2023.8.5", "05.08.2023", "5.8.2023", "2023年8月5日"),
    *("2023 年 8 月 5 日", "2023年08月05号", "二〇二三年八月五日", "二零二三年八月五日", "２０２３年８月５日"),
    *("2023-08-05T12:30:45Z", "2023-08-05t12:30", "2023-08-05 12:30", "2023‑08‑05"),
]


@pytest.mark.parametrize("text", DAY)
def test_a_day_is_one_term_however_it_is_written(text: str) -> None:
    of_query = words(ANALYZER.query(text))
    assert of_query >= {"2023年8月5日", "2023年8月", "2023"}
    assert not {"8", "08", "5", "05", "年", "月"} & of_query
    for other in DAY:
        assert words(ANALYZER.query(text)) - {"12", "30", "45", "45z", "z"} <= words(ANALYZER(other))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8月5日", "8月5日"),
        ("08月05日", "8月5日"),
        ("8月5号", "8月5日"),
        ("八月五日", "8月5日"),
        ("2023年8月", "2023年8月"),
        ("2023-08", "2023年8月"),
        ("2023/08", "2023年8月"),
        ("二〇二三年八月份", "2023年8月"),
    ],
)
def test_days_of_any_year_and_months_are_terms(text: str, found: str) -> None:
    assert terms(text) == [found]
    assert found in words(ANALYZER("2023年8月5日"))


@pytest.mark.parametrize(
    "text",
    [
        "2023-13-05",
        "2023-08-35",
        "12023-08-05",
        "2023-08-055",
        "v1.2023.8.5",
        "1.05.08.2023",
        "8月",
        "3个月",
        "2023-24",
        "CVE-2023-12",
        "10.8.20231",
        "10.8.3000 and 2023",
        "2023.8",
    ],
)
def test_other_numbers_are_no_dates(text: str) -> None:
    assert not any("年" in term or "日" in term for term in terms(text))


def test_a_time_is_apart_from_its_day() -> None:
    assert words(ANALYZER("2023-08-15T12:30:45Z")) >= {"2023-08-15", "15", "12", "30", "45"}
    assert "15t12" not in ANALYZER("2023-08-15T12:30:45Z")


def test_names_with_a_date_stay_whole() -> None:
    assert words(ANALYZER.query("log-2023-08-05.txt")) >= {"log", "txt", "2023", "2023年8月5日"}
    assert words(ANALYZER.query("log-2023-08-05.txt")) <= words(ANALYZER("log-2023-08-05.txt"))


@pytest.mark.parametrize("blank", "\u00a0\u2007\u2009\u202f")
def test_blanks_that_do_not_break_join_thousands(blank: str) -> None:
    assert ANALYZER(f"10{blank}000 units, 1{blank}234{blank}567") == ANALYZER("10,000 units, 1,234,567")
    assert ANALYZER(f"2023{blank}100 and 10{blank}00") == ANALYZER("2023 100 and 10 00")
    assert [token.start for token in ANALYZER.locate(f"a 10{blank}000 b")] == [2, 9]


@pytest.mark.parametrize("phrase", ["Milvus 2023-08-05 release", "GDPR第17条erasure"])
def test_a_phrase_with_a_number_between_words_asks_for_no_bigram_across_it(phrase: str) -> None:
    assert set(ANALYZER.phrase_terms(phrase)) <= set(ANALYZER(f"the {phrase} is"))


@pytest.mark.parametrize("word", ["2023年", "2023-08-05", "8月"])
def test_a_date_within_a_user_word_has_its_year(word: str) -> None:
    analyzer = Analyzer(AnalyzerConfig(user_words=[word]))
    for text in ("2023年8月5日", "2023-08-05"):
        assert analyzer(text).count("2023") == 1
        assert sorted(words_of(token.text for token in analyzer.locate(text))) == sorted(words_of(analyzer(text)))
        assert words(analyzer.query("2023年8月5日")) <= words(analyzer(text))


@given(st.lists(st.sampled_from([*DAY, "第三十八条", "法38条", "合同", "report", "，", " "]), max_size=6).map(" ".join))
def test_channels_and_places_agree_with_the_tokens(text: str) -> None:
    tokens = ANALYZER(text)
    assert sorted(words_of(token.text for token in ANALYZER.locate(text))) == sorted(words_of(tokens))
    numbers, _ = ANALYZER.channels([text])
    items, known = numbers.words()
    assert sorted(known[at] for at in items.items.tolist()) == sorted(words_of(tokens))


def test_stop_words_are_told_beside_numbers() -> None:
    assert ANALYZER.stop_words_in("第38条 of the law") == ["of", "the"]
