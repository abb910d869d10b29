"""Numbers of articles, which laws spell in characters."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig, ParameterError, Query, QueryExpansion
from rag_bm25.query.expansion import spell_numbers

VALUES = {"零": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
SIZES = {"十": 10, "百": 100, "千": 1000}


def value_of(spelt: str) -> int:
    """Read a number as a reader does: each digit times the unit after it."""
    total, digit = 0, 1  # 十 alone is 10
    for char in spelt:
        if char in SIZES:
            total, digit = total + digit * SIZES[char], 0
        else:
            digit = VALUES[char]
    return total + (digit if spelt[-1] not in SIZES else 0)


def spelling(number: str) -> str:
    (found,) = spell_numbers(f"第{number}条")
    return found.spelling[1:-1]


def test_every_number_is_read_as_itself() -> None:
    assert [value_of(spelling(str(number))) for number in range(1, 10_000)] == list(range(1, 10_000))


@pytest.mark.parametrize(
    ("number", "spelt"),
    # As article 10, 12, 20, 47, 100, 105, 110, 200, 312, 1000, 1002, 1010, 1062 and 1260 of Chinese laws are headed.
    [
        *[("10", "十"), ("12", "十二"), ("20", "二十"), ("47", "四十七"), ("100", "一百"), ("105", "一百零五")],
        *[("110", "一百一十"), ("200", "二百"), ("312", "三百一十二"), ("1000", "一千"), ("1002", "一千零二")],
        *[
            ("1010", "一千零一十"),
            ("1062", "一千零六十二"),
            ("1260", "一千二百六十"),
            ("007", "七"),
            ("４７", "四十七"),
        ],
    ],
)
def test_numbers_are_spelt_as_laws_spell_them(number: str, spelt: str) -> None:
    assert spelling(number) == spelt


def test_each_number_of_a_part_of_a_law_is_spelt() -> None:
    text = "第 3 編第12章，第5款第0条，第47次，第四条，第12345条，47条"
    assert [found.spelling for found in spell_numbers(text)] == ["第三編", "第十二章", "第五款", "第4条"]


def test_numbers_in_characters_are_read_where_laws_spell_them_so() -> None:
    text = "第四十七条 第 一百零五 章 第十款 第一十二条 第二〇条 第零条 第百条 第四十七次"
    assert [found.spelling for found in spell_numbers(text)] == ["第47条", "第105章", "第10款"]
    for number in range(1, 10_000):
        (back,) = spell_numbers(f"第{spelling(str(number))}条")
        assert back.spelling == f"第{number}条"


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


def test_an_article_in_characters_has_all_words_that_its_digits_are_written_with(law: BM25Index) -> None:
    assert found(law, "第47条 经济补偿", min_should_match="100%") == ["47"]
    assert found(law, "第74条 经济补偿", min_should_match="100%") == []


def test_explain_names_the_digits(law: BM25Index) -> None:
    explained = law.explain(Query.parse("劳动第47条^2"), "47")
    of_article = {term.term: term for term in explained.terms if term.source}
    assert {term.source for term in of_article.values()} == {"'第47条' as '第四十七条'"}
    assert of_article.keys() == {"第四十七条", "第四", "四十", "十七", "七条", "四", "七"}
    single = {term.term: term.query_weight for term in law.explain("第47条", "47").terms}
    assert all(term.query_weight == pytest.approx(2 * single[term.term]) for term in of_article.values())
    assert explained.value == pytest.approx(law.search(Query.parse("劳动第47条^2"))[0].score)


def test_the_other_spelling_weighs_no_more_than_what_is_written(law: BM25Index) -> None:
    for query, known in (("第47条", True), ("第40条", False)):
        weights = {term.term: term.query_weight for term in law.explain(query, "47").terms}
        # Each of three unknown words counts as one of one chunk.
        assert ("第四十七条" in weights) == known
        assert weights.get("第四十七条", 0) <= 3 * law.term_statistics(["劳动者"])[0].idf


def contract() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(12))
    texts = {"rust": "src/main.rs:28:47", "47": "第47条 买方应于十日内付款。", "48": "第48条 卖方应当交货。"}
    index.add([*texts.values(), CHUNKS["74"]], ids=[*texts, "74"])
    return index


def test_an_article_in_digits_is_found_by_its_characters() -> None:
    index = contract()
    assert found(index, "第四十七条", min_should_match="100%") == ["47"]
    assert found(index, "第四十七条")[0] == "47"
    (hit,) = index.search("第四十七条 付款", min_should_match="100%", highlight=True)
    assert hit.highlights is not None
    assert "47" in [hit.text[start:end] for start, end in hit.highlights[0].marks]


def test_digits_of_an_article_are_not_doubled() -> None:
    index = contract()
    for query in ("第47条 付款", "第四十七条 付款"):
        explained = index.explain(query, "47")
        (number,) = (term for term in explained.terms if term.term == "47")
        assert "latin_weight" not in number.factors
        assert explained.value == pytest.approx(index.search(query)[0].score)
    (plain,) = (term for term in index.explain("付款 47", "47").terms if term.term == "47")
    assert "latin_weight" in plain.factors


def test_numerals_can_be_left_alone(law: BM25Index) -> None:
    plain = QueryExpansion(numerals=False)
    assert found(law, "第47条", expansion=plain, min_should_match=1) == []
    with pytest.raises(ParameterError, match="numerals must be True or False, got 'no'"):
        QueryExpansion(numerals="no")  # type: ignore[arg-type]


def test_without_bigrams_each_word_counts_by_itself() -> None:
    analyzer = AnalyzerConfig(bigrams=False, characters=False)
    index = index_of(IndexConfig(30, analyzer=analyzer))
    terms = {term.term for term in index.explain(Query("第47条"), "47").terms}
    assert terms == {"第", "47", "条", "第四十七条"}
