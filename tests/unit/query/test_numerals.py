"""Numbers that are written in several ways: articles, which laws spell in characters, days, and quantities."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, ParameterError, Query, QueryExpansion
from rag_bm25.query.encoder import ARTICLE_WEIGHT
from rag_bm25.query.expansion import spell_numbers

CHUNKS = {
    "47": "第四十七条 经济补偿按劳动者在本单位工作的年限支付。",
    "74": "第七十四条 县级以上地方人民政府对下列事项进行监督检查。",
    "sum": "赔偿四十万元，第七天付清。",
}


@pytest.fixture(scope="module")
def law() -> BM25Index:
    return index_of(IndexConfig(30))


def index_of(config: IndexConfig) -> BM25Index:
    made = BM25Index.from_store(MemoryStore(), config=config)
    made.add(list(CHUNKS.values()), ids=list(CHUNKS))
    return made


def found(index: BM25Index, query: Any, **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


def test_an_article_is_found_by_its_digits(law: BM25Index) -> None:
    assert found(law, "第47条")[0] == "47"
    assert found(law, "第 47 条", min_should_match=1) == found(law, "第四十七条", min_should_match=1) == ["47"]
    assert law.search("第47条", highlight=True)[0].highlights[0].text.startswith("第四十七条")  # type: ignore[index]


SPELLINGS = ["第四十七条", "第47条", "第 47 条", "劳动法47条", "劳动法四十七条"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("stored", ["第四十七条 付款", "依《合同法》47条付款"])
def test_each_spelling_finds_each_other_by_conditions_too(spelling: str, stored: str) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(12))
    index.add([stored, "第四十八条 付款", "第七条、第四条 付款 47"], ids=["47", "48", "7"])
    article = spelling.removeprefix("劳动法")
    assert found(index, spelling)[0] == "47"
    assert found(index, Query("付款", must=[article])) == ["47"]
    assert found(index, Query("付款", phrases=[article])) == ["47"]
    assert "47" not in found(index, Query("付款", must_not=[article]))
    assert found(index, f"{article} 付款", min_should_match="100%") == ["47"]


def test_all_spellings_give_the_same_scores(law: BM25Index) -> None:
    first, *others = ([(hit.id, hit.score) for hit in law.search(spelling)] for spelling in SPELLINGS[:3])
    assert all(hits == first for hits in others)


def test_the_number_outweighs_the_name_of_the_law(law: BM25Index) -> None:
    (article,) = (term for term in law.explain("劳动第47条", "47").terms if term.term == "第47条")
    assert article.factors == {"article_weight": ARTICLE_WEIGHT, "qtf": 1}
    assert article.query_weight == pytest.approx(ARTICLE_WEIGHT * article.idf)


def test_digits_of_an_article_find_nothing_else() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(12))
    index.add(["src/main.rs:28:47", "第47条 买方应于十日内付款。", "第48条 卖方应当交货。"], ids=["rust", "47", "48"])
    assert found(index, "第四十七条") == found(index, "第47条") == ["47"]
    (hit,) = index.search("第四十七条 付款", min_should_match="100%", highlight=True)
    assert hit.highlights is not None
    assert "第47条" in [hit.text[start:end] for start, end in hit.highlights[0].marks]


DAYS = ["2023-08-05", "2023/8/5", "2023年8月5日", "05.08.2023", "2023-08-05T12:30:45Z"]


@pytest.mark.parametrize("asked", [*DAYS[:4], "2023年08月05号", "二〇二三年八月五日"])
def test_a_day_is_found_before_others_however_it_is_written(asked: str) -> None:
    others = [
        "2023-08-15",
        "2023-05-08",
        "2023年8月15日",
        "15.08.2023",
        "2023-08-06T12:30:45Z",
        "5 items in 2023, 08 new",
    ]
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(30))
    index.add([f"{text} 会议 meeting" for text in [*others, *DAYS]], ids=[*others, *DAYS])
    assert set(found(index, asked, k=5)) == set(DAYS)
    assert set(found(index, Query("会议", must=[asked]))) == set(DAYS)
    assert set(found(index, Query("会议", phrases=[asked]))) == set(DAYS)


def test_a_month_and_a_day_of_any_year_find_their_days() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(12))
    index.add(["8月15日放假", "08月05日放假", "2023-08-05 放假", "2024年9月5日放假"], ids=["15", "05", "iso", "9"])
    assert set(found(index, "8月5日", k=2)) == {"05", "iso"}
    assert found(index, "2023年8月") == ["iso"]


@pytest.mark.parametrize(
    ("text", "spellings"),
    [
        ("工作满十年有几天年假", ["10年"]),
        ("10年", ["十年"]),
        ("2年", ["二年", "两年"]),
        ("两个月", ["2个月"]),
        ("七天无理由", ["7天"]),
        ("十五日内", ["15日"]),
        ("30 分钟", ["三十分钟"]),
        ("二倍的工资", ["2倍"]),
        ("2023年 8月5日 第三级 一年级 年代 0天", []),
    ],
)
def test_quantities_have_another_spelling(text: str, spellings: list[str]) -> None:
    assert [number.spelling for number in spell_numbers(text)] == spellings


def quantities() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(12))
    index.add(["工作满十年的职工", "工作满10年的职工", "工作满20年的职工"], ids=["han", "digits", "other"])
    return index


@pytest.mark.parametrize("asked", ["工作满十年", "工作满10年"])
def test_a_quantity_is_found_in_either_spelling(asked: str) -> None:
    assert set(found(quantities(), asked, k=2)) == {"han", "digits"}


def test_the_other_spelling_weighs_no_more_than_what_is_written() -> None:
    index = quantities()
    for asked, spelt in (("10年", "han"), ("十年", "digits")):
        terms = index.explain(Query.parse(f"{asked}^2"), spelt).terms
        added = [term for term in terms if term.source]
        assert {term.source for term in added} == {f"{asked!r} as {'十年' if asked == '10年' else '10年'!r}"}
        limit = sum(known.idf for known in index.term_statistics(asked))
        assert 0 < sum(term.query_weight for term in added if term.channel == "word") <= 2 * limit * 1.000001


def test_quantities_can_be_left_alone() -> None:
    assert found(quantities(), "十年", expansion=QueryExpansion(numerals=False), min_should_match=1) == ["han"]
    with pytest.raises(ParameterError, match="numerals must be True or False, got 'no'"):
        QueryExpansion(numerals="no")  # type: ignore[arg-type]
