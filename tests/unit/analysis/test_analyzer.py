from __future__ import annotations

import ast
import copy
import json
import pickle
import unicodedata
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.programs import run_python
from support.steps import count_steps

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.contract import PROBES, contract_of
from rag_bm25.analysis.stop_words import QUESTION_WORDS
from rag_bm25.analysis.text import AnalysedText, query_tokens
from rag_bm25.errors import ParameterError
from rag_bm25.vectors.terms import BIGRAM_MARK, QUESTION_MARK, term_text

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "analysis.json").read_text(encoding="utf-8")
)

WORDS = AnalyzerConfig(bigrams=False, characters=False, word_bigrams=False)


@pytest.fixture(scope="module", params=["jieba", "rjieba"])
def with_exact_queries(request: pytest.FixtureRequest) -> Analyzer:
    """An analyzer on each segmenter."""
    if request.param == "rjieba":
        pytest.importorskip("rjieba")
    return Analyzer(AnalyzerConfig(query_segmentation="exact", characters=False), segmenter=request.param)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["text"] for case in GOLDEN])
def test_worked_strings(case: dict[str, Any], with_exact_queries: Analyzer) -> None:
    analyzer = with_exact_queries
    bigrams = [BIGRAM_MARK + bigram for bigram in case["bigrams"] + case.get("word_bigrams", [])]
    assert analyzer(case["text"]) == case["chunk"] + bigrams
    questions = [QUESTION_MARK + term for term in case.get("question", [])]
    assert analyzer.query(case["text"]) == case["exact_query"] + bigrams + questions


def test_the_worked_strings_are_probes_of_the_contract() -> None:
    assert [case["text"] for case in GOLDEN] == list(PROBES[:30])


@pytest.mark.parametrize("text", ["", " \n\t", "，。！?", "👍🏽", "\ud800"])
def test_text_without_words_has_no_tokens(text: str) -> None:
    assert Analyzer()(text) == []


def test_tokens_are_in_text_order_with_repeats_and_bigrams_after_words() -> None:
    words = ["法院", "court", "法院", "court"]
    assert Analyzer(WORDS)("法院 court 法院 courts") == words
    assert Analyzer()("法院 court。法院 courts") == [*words, "\0法院", "\0法院"]


def test_each_side_has_its_segmentation() -> None:
    analyzer = Analyzer(replace(WORDS, segmentation="exact", query_segmentation="search"))
    assert analyzer("长江大桥") == ["长江大桥"]
    assert analyzer.query("长江大桥") == ["长江", "大桥", "长江大桥"]


def test_stop_words_are_met_in_every_script_and_spelling() -> None:
    analyzer = Analyzer(replace(WORDS, stop_words=("的", "這", "DON'T", "cafe\u0301", "を")))
    assert analyzer("这是我的 the don’t Café １ を") == ["是", "我", "the", "1"]


def test_stop_words_are_dropped_from_queries_too() -> None:
    assert Analyzer(replace(WORDS, stop_words=("的",))).query("民的the") == ["民", "the"]


@pytest.mark.parametrize(
    ("query", "words", "questions", "dropped"),
    [
        ("What is a tenancy?", ["tenanc"], ["what"], ["is", "a"]),
        ("WHO do I ask?", ["who", "ask"], ["do", "i"], []),
        ("Did the u.s. Congress vote for us", ["us", "congress", "vote"], ["did", "us"], ["the", "for"]),
        ("劳动合同怎么解除？", ["劳动合同", "解除"], ["怎么"], []),
        ("langchain 是什么", ["langchain"], ["是", "什么"], []),  # 是 is rare where most chunks are English
        ("什么是劳动合同", ["劳动合同"], ["什么", "是"], []),
        ("how are you", ["how", "you"], [], ["are"]),  # nothing else is asked for
        ("什么", ["什么"], [], []),
    ],
)
def test_question_words_are_apart_in_queries_alone(
    query: str, words: list[str], questions: list[str], dropped: list[str]
) -> None:
    analyzer = Analyzer(WORDS)
    assert analyzer.query(query) == words + [QUESTION_MARK + term for term in questions]
    assert analyzer.stop_words_in(query) == dropped
    assert set(questions) <= set(analyzer(query))
    kept = Analyzer(replace(WORDS, question_words=(), query_segmentation="search", query_stop_structures=False))
    assert kept.query(query) == kept(query)


def test_a_question_word_within_a_word_of_letters_is_none() -> None:
    analyzer = Analyzer(replace(WORDS, stem="russian", stop_words=("не",), question_words=("как",)))
    assert analyzer.query("как понедельник, не какао") == ["понедельник", "кака", f"{QUESTION_MARK}как"]


@pytest.mark.parametrize("question", ["{}办理退款", "办理退款{}", "{}？办理退款", "{} refunds are made"])
def test_every_question_word_is_apart(question: str) -> None:
    analyzer = Analyzer()
    rest = AnalysedText.of_query(analyzer, question.format("")).words
    for word in QUESTION_WORDS:
        query = AnalysedText.of_query(analyzer, question.format(word))
        assert query.words == rest, word
        assert not any(term_text(bigram) in word for bigram in query.bigrams), word


def test_question_words_are_whole_words_with_their_bigrams() -> None:
    assert Analyzer().query("会不会是可能性") == [
        *("是", "可能性", "\0会是", "\0是可", "\0可能", "\0能性"),
        *("\0\0会", "\0\0不会", "\0\0\0会不", "\0\0\0不会"),
    ]


def test_a_question_of_which_bigrams_alone_are_left_keeps_its_words() -> None:
    analyzer = Analyzer()
    assert analyzer.query("为什么如何")[:2] == ["为什么", "如何"]
    assert analyzer.stop_words_in("为什么如何") == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("हिन्दी में नदी का पानी", ["हिन्दी", "में", "नदी", "का", "पानी"]),
        ("বাংলা ভাষা", ["বাংলা", "ভাষা"]),
        ("தமிழ் மொழி, తెలుగు", ["தமிழ்", "மொழி", "తెలుగు"]),
        ("हिन्दी-उर्दू राम२", ["हिन्दी", "उर्दू", "राम२"]),  # letters and marks are no identifier
        ("العَرَبِيَّة ــ مُحَمَّد", ["العربية", "محمد"]),
        ("שָׁלוֹם עֲלֵיכֶם", ["שלום", "עליכם"]),
        ("ภาษาไทย ปี๒๕๖๗", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย", "ปี", "๒๕๖๗"]),
        ("ខ្មែរ ພາສາ", ["ខ្មែ", "មែរ", "ພາ", "າສ", "ສາ"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        ("カ゚キ 한국어 é", ["カ゚キ", "한국", "국어", "e"]),
        ("İstanbul i\u0307zmir ISPARTA ısparta", ["istanbul", "izmir", "isparta", "isparta"]),
        ("Łódź København Malmö œuvre Straße", ["lodz", "kobenhavn", "malmo", "oeuvr", "strass"]),
        ("naïve naive résumés x\u20d7", ["naiv", "naiv", "resum", "x"]),
        ("май ёлка ΐ が", ["май", "ёлка", "ΐ", "が"]),  # accents of other letters are their own
        ("1\ufe0f\u20e3 ⻛险 劳动合\n同", ["1", "风险", "劳动", "合同", "劳动合同"]),
    ],
)
def test_the_words_of_each_script(text: str, tokens: list[str]) -> None:
    words = Analyzer(WORDS)(text)
    assert words == [unicodedata.normalize("NFC", word) for word in tokens]
    assert [token.text for token in Analyzer(WORDS).locate(text)] == words


@pytest.mark.parametrize(
    ("chunk", "query"),
    [
        ("ฉันชอบภาษาไทยมาก", "ภาษาไทย"),
        ("ខ្ញុំរៀនភាសាខ្មែរ", "ភាសា"),
        ("اللغة العَرَبِيَّة جميلة", "العربية"),
        ("العربية", "العَرَبِيَّة"),
        ("un café noir", "cafe"),
        ("the cafe", "CAFÉ"),
        ("解除劳动合\n同，应当", "劳动合同"),
        ("⻋辆", "车"),
    ],
)
def test_a_word_is_found_as_others_spell_it(chunk: str, query: str) -> None:
    analyzer = Analyzer()
    assert set(query_tokens(analyzer, query)) <= {*analyzer(chunk), "车"}
    phrase = analyzer.phrase_text(query)
    assert analyzer.phrase_text(chunk).holds(phrase, 0)


@pytest.mark.parametrize(
    ("chunk", "queries"),
    [
        ("iPhone15Pro 手机壳", ["iphone 15 pro", "iphone15", "iphone", "iphone15pro", "iPhone15 Pro"]),
        ("Galaxy S24Ultra", ["s24 ultra", "galaxy s24"]),
        ("12V5A adapter", ["12v", "5a", "12V 5A"]),
        ("截至2023年8月15，130人受灾", ["15", "130", "8月15", "15，130", "15130", "130人"]),
        ("价格10，200元起", ["10", "200", "10200", "10,200"]),
        ("第1，200，300页", ["1", "200", "300", "1,200,300"]),
        ("5000，1,234,567", ["5000", "1234567"]),
    ],
)
def test_what_is_written_together_is_found_by_its_parts(chunk: str, queries: list[str]) -> None:
    analyzer = Analyzer(WORDS)
    for query in queries:
        assert set(query_tokens(analyzer, query)) <= set(analyzer(chunk)), query


def test_a_clause_after_a_number_and_a_full_width_comma_is_a_phrase() -> None:
    analyzer = Analyzer()
    for phrase in ("8月15", "130人受灾", "15，130人"):
        assert analyzer.phrase_text("截至8月15，130人受灾").holds(analyzer.phrase_text(phrase), 0)
        assert set(analyzer.phrase_terms(phrase)) <= set(analyzer("截至8月15，130人受灾"))


def test_the_time_of_a_phrase_grows_like_a_text_of_one_word() -> None:
    analyzer = Analyzer()
    analyzer.phrase_text("1x1 é")  # compiles patterns
    few, many = (count_steps(lambda size=size: analyzer.phrase_text("1x" * size)) for size in (50, 500))
    assert many < 12 * few


def test_hashes_are_not_cut_into_noise() -> None:
    analyzer, random = Analyzer(WORDS), Random(0)
    hashes = [random.randbytes(20).hex() for _ in range(1000)]
    base64 = [b64encode(random.randbytes(24)).decode("ascii").replace("+", "1").replace("/", "2") for _ in range(1000)]
    assert len(analyzer(" ".join(hashes))) == 1000
    assert len(analyzer(" ".join(base64))) < 1100


def test_words_that_share_their_consonants_alone_are_two() -> None:
    assert not set(Analyzer()("नदी का पानी")) & set(Analyzer().query("दान"))


def test_words_in_capitals_are_kept() -> None:
    assert Analyzer()("WHO is it, IT or US? A") == ["who", "it", "us", "a"]


def test_the_dropped_stop_words_are_told_once_in_text_order() -> None:
    analyzer = Analyzer(AnalyzerConfig(stop_words=["的", "the", "of", "it"], question_words=()))
    text = "It's 民的 state-of-the-art 的 IT, the 5G网络"
    assert analyzer.stop_words_in(text) == ["it", "的", "of", "the"]
    assert Analyzer().stop_words_in("北京 BM25") == []


def test_user_words_are_no_dropped_stop_words() -> None:
    analyzer = Analyzer(AnalyzerConfig(user_words=["the卡"]))  # type: ignore[arg-type]
    assert analyzer.stop_words_in("the卡 and 卡") == ["and"]


def test_an_english_text_is_searched_for_stop_words_without_the_dictionary() -> None:
    analyzer = Analyzer(segmenter="jieba")
    assert analyzer.stop_words_in("what is it") == ["is", "it"]  # and "what" is all that is left
    assert not analyzer._exact


def test_camel_case_is_split_on_request() -> None:
    analyzer = Analyzer(AnalyzerConfig(split_camel_case=True))
    assert analyzer("getUserName") == ["getusernam", "get", "user", "name"]


@pytest.mark.parametrize("duplicate", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
def test_a_copy_has_the_settings_and_loads_again(duplicate: Any) -> None:
    analyzer = Analyzer(AnalyzerConfig(stem=False, user_words=["数据湖"]), segmenter="jieba")  # type: ignore[arg-type]
    tokens = analyzer("数据湖 running")
    copied = duplicate(analyzer)
    assert not copied._exact
    assert len(pickle.dumps(analyzer)) < 2000
    assert copied.config == analyzer.config
    assert copied("数据湖 running") == tokens


def test_an_unknown_segmenter_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        Analyzer(segmenter="hanlp")  # type: ignore[arg-type]
    assert str(caught.value) == "segmenter must be one of auto, jieba, rjieba, got 'hanlp'"


def test_a_callable_is_asked_for_query_tokens_where_it_has_no_query() -> None:
    assert query_tokens(str.split, "a b") == ["a", "b"]
    analyzer = Analyzer(replace(WORDS, query_segmentation="exact"))
    assert query_tokens(analyzer, "长江大桥") == ["长江大桥"]


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("german", "Häuser der Städte", ["haus", "der", "stadt"]),
        ("french", "élèves français", ["elev", "franc"]),
        ("russian", "книги 检索", ["книг", "检索"]),
        ("english", "élèves running", ["elev", "run"]),  # as True
        ("hindi", "लड़के किताबें", ["लड\u093cक", "किताब"]),
    ],
)
def test_another_language_is_stemmed(language: str, text: str, tokens: list[str]) -> None:
    analyzer = Analyzer(AnalyzerConfig(stem=language, bigrams=False, characters=False, word_bigrams=False))
    assert analyzer(text) == tokens
    assert [token.text for token in analyzer.locate(text)] == tokens


def test_the_language_is_stored_and_stems_alike_in_another_process() -> None:
    config = AnalyzerConfig(stem="german")
    code = (
        "import json, sys; from rag_bm25.analysis import Analyzer; "
        "from rag_bm25.analysis.contract import AnalyzerContract, contract_of, stored_analyzer; "
        "analyzer = Analyzer(stored_analyzer(AnalyzerContract(json.load(sys.stdin), {}))); "
        "print(json.dumps([analyzer('Häuser der Städte'), contract_of(analyzer).probes]))"
    )
    contract = contract_of(Analyzer(config))
    answer = run_python(code, input=json.dumps(contract.settings))
    assert json.loads(answer.stdout) == [Analyzer(config)("Häuser der Städte"), contract.probes]


THAI = """
import sys, types
from rag_bm25 import scripts
module = types.ModuleType("thai")
class Cutter:
    def exact(self, run): return [run[at : at + 3] for at in range(0, len(run), 3)]
    search = exact
module.load_segmenter = lambda name, user_words: Cutter()
sys.modules["thai"] = module
scripts.SCRIPTS = (scripts.Script("\u0e01-\u0e4e", segmenter="thai"), *scripts.SCRIPTS)
scripts.SEGMENTED += "\u0e01-\u0e4e"
from rag_bm25.analysis import Analyzer
print(ascii(Analyzer()("\u0e01\u0e02\u0e03\u0e04 \u5168\u6587\u68c0\u7d22 running")))
"""


def test_a_segmenter_of_another_script_is_a_line_in_the_table_of_scripts() -> None:
    answer = run_python(THAI)
    words = ["กขฃ", "ค", "全文", "检索", "全文检索", "run"]
    assert ast.literal_eval(answer.stdout)[: len(words)] == words
