"""Stop structures of questions are dropped, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.segmentation import load_segmenter
from rag_bm25.analysis.stop_structures import skip_stop_structures
from rag_bm25.analysis.text import AnalysedText

CUT = load_segmenter("auto", {}).exact

DROPPED = [
    ("Can you tell me about ", "photosynthesis"),
    ("Could you please explain how ", "HNSW works"),
    ("Please explain the ", "attention mechanism"),
    ("can you describe ", "photosynthesis"),
    ("I want to know how to ", "cancel"),
    ("I'd like to know more about ", "BM25"),
    ("what can you tell me about ", "BM25"),
    ("Give me an overview of ", "RAG"),
    ("Please provide details on ", "X200"),
    ("I am looking for a ", "cheap flight"),
    ("We are interested in articles written by ", "Salton"),
    ("Interested in ", "robotics"),
    ("I am interested in ", "general relativity"),
    ("I want ", "more insurance"),
    ("Hello, can you help me with my ", "order"),
    ("I need help with my ", "invoice"),
    ("Is there any information on ", "pricing"),
    ("what references on ", "auroras"),
    ("Find all documents about ", "security"),
    ("My question is about the ", "invoice"),
    ("Of particular interest are ", "inductors"),
    ("能给我介绍一下", "什么是BCPL"),
    ("你好，我想了解一下", "劳动合同解除的流程"),
    ("请问一下", "公积金怎么提取"),
    ("请帮我查一下关于", "GPT-4的价格"),
    ("麻烦您告诉我", "营业时间"),
    ("请介绍", "信用卡的年费"),
    ("讲讲", "唐朝的历史"),
    ("请介绍", "下载方法"),
    ("我想找", "工作"),
]

KEPT = [
    "information retrieval",
    "need for speed",
    "how to get a document about pandas",
    "get all the files in a folder",
    "list of lists python",
    "explain analyze postgres",
    "describe table postgres",
    "what papers are required for a visa",
    "what article was published in 1937",
    "can I get a refund",
    "do you need a visa for Japan",
    "I love cats",
    "I'm on-line",
    "my dissertation",
    "Tell us",
    "www.information.about.me",
    "IT information",
    "IT information about laptops",  # the department
    "US documents on tax",
    "请假条怎么写",
    "请求权基础",
    "介绍信怎么开",
    "查询社保",
    "能不能退货",
    "我要离婚",
    "告诉我",
    "给我介绍信怎么写",
    "请说明书在哪里",
    "我要看病去哪",
    "我要查封财产",
    "我要问责制度",
    "我想找回密码",
    "请解释权归谁",
]


@pytest.mark.parametrize(("structure", "topic"), DROPPED)
def test_a_structure_is_dropped(structure: str, topic: str) -> None:
    assert skip_stop_structures(structure + topic, CUT).strip() == topic


@pytest.mark.parametrize("query", KEPT)
def test_a_topic_is_kept(query: str) -> None:
    assert skip_stop_structures(query, CUT) == query


def test_each_sentence_has_a_structure_of_its_own() -> None:
    text = "I am interested in libraries. I would be pleased to receive papers on their use! They lend information."
    assert skip_stop_structures(text, CUT) == " libraries.  use! They lend information."


def test_a_query_is_searched_for_its_topic() -> None:
    analyzer = Analyzer()
    query = "I would like some information about tenancy agreements"
    assert analyzer.query(query) == analyzer.query("tenancy agreements")
    assert analyzer.stop_words_in(query) == ["i", "would", "like", "some", "information", "about"]
    assert analyzer.query("我想了解一下向量数据库") == analyzer.query("向量数据库")
    assert analyzer.query("能不能給我介紹一下向量資料庫") == analyzer.query("向量資料庫")


def test_chunks_and_queries_of_other_settings_keep_all_words() -> None:
    text = "Tell me about apples"
    assert "tell" in Analyzer()(text)
    assert Analyzer(AnalyzerConfig(query_stop_structures=False)).query(text)[:2] == ["tell", "about"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Tell me about it", ["tell", "about"]),
        ("tell me about the a", ["tell", "about"]),
        ("I am interested in what?", ["what"]),
    ],
)
def test_where_nothing_else_is_said_less_is_dropped(query: str, words: list[str]) -> None:
    assert AnalysedText.of_query(Analyzer(), query).words == tuple(words)


PIECES = ["I am", "interested in", "papers on", "Tell me", "about IT", "information", "robots", ".", "? ", "(", ","]
PIECES += ["你好", "我想了解一下", "合同", "。", "retrieval"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_a_query_with_words_has_tokens_of_its_own(query: str) -> None:
    analyzer = Analyzer()
    whole = Analyzer(AnalyzerConfig(query_stop_structures=False)).query(query)
    tokens = analyzer.query(query)
    assert bool(tokens) == bool(whole)
    left = skip_stop_structures(query, CUT)
    characters = iter(query)
    assert all(character in characters for character in left)  # parts are left out, nothing else changes
