from __future__ import annotations

import functools
import json
import random
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.data import shared_data
from support.programs import environment, run_python

from rag_bm25.analysis import Analyzer, AnalyzerConfig, segmentation
from rag_bm25.analysis.dictionary import read_dictionary, whole_word_frequencies
from rag_bm25.analysis.segmentation import RUN_END, Cutters, load_segmenter
from rag_bm25.errors import MissingExtraError, install_extra


@pytest.fixture
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "_load", functools.lru_cache(maxsize=1)(segmentation._load.__wrapped__))


@pytest.fixture
def _no_rjieba(monkeypatch: pytest.MonkeyPatch, _nothing_loaded: None) -> None:
    """Make importing rjieba fail as if it were not installed."""
    monkeypatch.setitem(sys.modules, "rjieba", None)


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, rag_bm25.analysis as a\n"
        "def loaded(): return sorted({'jieba', 'rjieba', 'Stemmer', 'pkg_resources'} & set(sys.modules))\n"
        "print(loaded())\n"
        "analyzer = a.Analyzer(segmenter='jieba')\n"
        "print(loaded())\n"
        "analyzer('3.5 GB')\n"
        "print(loaded())\n"
        "analyzer('running 한국어')\n"
        "print(loaded())\n"
        "analyzer('中文')\n"
        "print('jieba' in loaded())\n"
    )
    assert run_python(code).stdout.splitlines() == ["[]", "[]", "[]", "['Stemmer']", "True"]


def test_jieba_is_used_without_warnings_logs_or_cache_files(tmp_path: Path) -> None:
    bytecode, temporary = tmp_path / "bytecode", tmp_path / "temporary"
    temporary.mkdir()
    code = "from rag_bm25.analysis import Analyzer; print(*Analyzer(segmenter='jieba')('全文检索')[:3])"
    # An empty folder of bytecode makes Python compile jieba, which is when it warns of jieba's escape sequences.
    env = environment(PYTHONPYCACHEPREFIX=str(bytecode), TMPDIR=str(temporary), PYTHONUTF8="1")
    done = run_python(code, flags=("-W", "error"), env=env)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "全文 检索 全文检索\n")
    assert list(temporary.iterdir()) == []


def test_the_global_tokenizer_of_jieba_is_neither_used_nor_changed(tmp_path: Path) -> None:
    code = (
        "import logging, jieba\n"
        "jieba.setLogLevel(logging.ERROR)\n"
        "jieba.add_word('全文检', 10**9); jieba.del_word('检索')\n"
        "before = dict(jieba.dt.FREQ), jieba.dt.total\n"
        "from rag_bm25.analysis import Analyzer, AnalyzerConfig\n"
        "print(*Analyzer(segmenter='jieba')('全文检索')[:3])\n"
        "Analyzer(AnalyzerConfig(user_words=['索引擎']), segmenter='jieba')('索引擎')\n"
        "print((jieba.dt.FREQ, jieba.dt.total) == before)\n"
    )
    done = run_python(code, env=environment(TMPDIR=str(tmp_path), PYTHONUTF8="1"))
    assert done.stdout.splitlines() == ["全文 检索 全文检索", "True"], done.stderr


def test_the_global_dictionary_of_rjieba_is_neither_used_nor_changed() -> None:
    rjieba = pytest.importorskip("rjieba")
    rjieba.add_word("全检测", 10**9, None)
    assert Analyzer(AnalyzerConfig(bigrams=False, characters=False), segmenter="rjieba")("全检测") == ["全", "检测"]
    Analyzer(AnalyzerConfig(user_words=["索引擎"]), segmenter="rjieba")("索引擎")
    assert not rjieba.has_word("索引擎")


@pytest.mark.usefixtures("_nothing_loaded")
def test_threads_load_the_dictionary_once() -> None:
    analyzer = Analyzer(AnalyzerConfig(bigrams=False, characters=False))
    start = threading.Barrier(6)
    results: list[list[str]] = []

    def analyze() -> None:
        start.wait()
        results.append(analyzer("全文检索 running"))

    threads = [threading.Thread(target=analyze) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [["全文", "检索", "全文检索", "run"]] * 6
    assert segmentation._load.cache_info().misses == 1


def test_analyzers_with_equal_words_share_a_dictionary() -> None:
    assert load_segmenter("auto", {"数据湖": 3}) is load_segmenter("auto", {"数据湖": 3})


@pytest.mark.usefixtures("_no_rjieba")
def test_jieba_is_taken_where_rjieba_is_not_installed() -> None:
    assert type(load_segmenter("auto", {})).__name__ == "JiebaSegmenter"


def test_rjieba_is_taken_where_it_is_installed() -> None:
    pytest.importorskip("rjieba")
    assert type(load_segmenter("auto", {})).__name__ == "RjiebaSegmenter"


ONE_DICTIONARY = """
import sys
from rag_bm25.analysis.segmentation import load_segmenter
segmenter = load_segmenter("rjieba", {"数据湖": None})
print("rjieba" in sys.modules, *segmenter.exact("中国的数据湖"))
import rjieba
rjieba.add_word("的数据", 10**9, None)
print(*rjieba.cut("中国的数据湖", False), *load_segmenter("rjieba", {}).exact("中国的数据湖"))
"""


def test_rjieba_loads_one_dictionary_that_its_package_does_not_change() -> None:
    pytest.importorskip("rjieba")
    assert run_python(ONE_DICTIONARY).stdout.splitlines() == ["False 中国 的 数据湖", "中国 的数据 湖 中国 的 数据 湖"]


@pytest.mark.usefixtures("_no_rjieba")
def test_asking_for_rjieba_where_it_is_not_installed_names_the_extra() -> None:
    analyzer = Analyzer(segmenter="rjieba")
    with pytest.raises(MissingExtraError) as caught:
        analyzer("中文")
    assert str(caught.value) == f'the segmenter "rjieba" needs rjieba 0.2.2 or later: {install_extra("fast")}'


def test_without_jieba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.analysis.dictionary.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"jieba is not installed.*: pip install jieba"):
        read_dictionary()


def test_the_dictionary_is_that_of_jieba() -> None:
    words, total = read_dictionary()
    assert (len(words), total, words["乾隆"]) == (349_045, 60_101_967, 2435)


def test_a_frequency_is_the_least_that_keeps_the_word_whole() -> None:
    found = whole_word_frequencies({"中国法": None, "数据": None}, load_segmenter("auto", {}).exact)
    assert found["数据"] == read_dictionary()[0]["数据"]
    assert load_segmenter("auto", {"中国法": found["中国法"]}).exact("中国法") == ["中国法"]
    assert load_segmenter("auto", {"中国法": found["中国法"] - 1}).exact("中国法") == ["中国", "法"]


def test_a_frequency_does_not_depend_on_the_other_words() -> None:
    cut = load_segmenter("auto", {}).exact
    alone = whole_word_frequencies({"云计算平台": None}, cut)
    beside = whole_word_frequencies({"计算平台": 9999, "云计算": None, "云计算平台": None}, cut)
    assert beside == {**alone, "计算平台": 9999, "云计算": beside["云计算"]}


def test_the_own_loop_cuts_as_jieba_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba
    plain = jieba.Tokenizer()
    with (Path(jieba.__file__).with_name("dict.txt")).open("rb") as dictionary:
        plain.FREQ, plain.total = plain.gen_pfdict(dictionary)
    plain.initialized = True
    ours = load_segmenter("jieba", {})
    for run in random_runs(1000):
        assert ours.exact(run) == plain.lcut(run, HMM=False)
        assert ours.search(run) == plain.lcut_for_search(run, HMM=False)


@functools.cache
def han_words() -> list[str]:
    return [word for word in read_dictionary()[0] if all("\u4e00" <= char <= "\u9fd5" for char in word)]


def random_runs(count: int, words: tuple[str, ...] = ()) -> list[str]:
    """Draw runs of words of the dictionary, of `words`, and of single characters in between."""
    draw = random.Random(20)
    han = han_words()
    pools = (han, list(words) or han, "".join(map(chr, range(0x4E00, 0x9FD6))))
    return ["".join(draw.choice(draw.choice(pools)) for _ in range(draw.randint(1, 9))) for _ in range(count)]


@pytest.fixture
def both() -> Callable[..., tuple[Analyzer, Analyzer]]:
    """Build an analyzer on each segmenter."""
    pytest.importorskip("rjieba")

    def build(**settings: Any) -> tuple[Analyzer, Analyzer]:
        config = AnalyzerConfig(query_segmentation="exact", **settings)
        return Analyzer(config, segmenter="jieba"), Analyzer(config, segmenter="rjieba")

    return build


def test_both_segmenters_cut_random_words_alike(both: Callable[..., tuple[Analyzer, Analyzer]]) -> None:
    in_python, in_rust = both()
    for run in random_runs(1000):
        assert in_python(run) == in_rust(run)
        assert in_python.query(run) == in_rust.query(run)


def test_both_segmenters_agree_on_user_words(both: Callable[..., tuple[Analyzer, Analyzer]]) -> None:
    draw = random.Random(3)
    new = tuple(run[: draw.randint(2, 6)] for run in random_runs(300) if len(run) > 6)
    known = draw.sample([word for word in read_dictionary()[0] if "\u4e00" <= word <= "\u9fd5"], 50)
    weighed = [(word, draw.choice([1, 50, 10**6, 2**31 - 1])) for word in known]
    in_python, in_rust = both(user_words=[*new, *(pair for pair in weighed if pair[0] not in new)])
    for run in random_runs(1000, (*new, *known)):
        assert in_python(run) == in_rust(run)
        assert in_python.query(run) == in_rust.query(run)


@pytest.mark.data
@pytest.mark.parametrize("name", ["longdocs-zh-law/docs.jsonl", "cmrc2018/corpus.jsonl", "xquad-mixed/corpus.jsonl"])
def test_both_segmenters_cut_real_text_alike(name: str, both: Callable[..., tuple[Analyzer, Analyzer]]) -> None:
    in_python, in_rust = both()
    with shared_data(name).open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(60), lines, strict=False)]
    for text in texts:
        assert in_python(text[:2000]) == in_rust(text[:2000])
        assert in_python.query(text[:2000]) == in_rust.query(text[:2000])


@pytest.mark.usefixtures("_nothing_loaded")
@pytest.mark.parametrize("segmenter", ["jieba", "rjieba"])
def test_no_cache_of_the_dictionary_is_read_or_written(
    segmenter: Literal["jieba", "rjieba"], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """jieba itself unmarshals a file in the shared folder for temporary files, which anybody may have put there."""
    if segmenter == "rjieba":
        pytest.importorskip("rjieba")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "jieba.cache").write_bytes(b"not of ours")

    def refuse(*_: object) -> None:
        raise AssertionError

    for name in ("load", "dump"):  # of files; importing modules takes "loads"
        monkeypatch.setattr(f"marshal.{name}", refuse)
    assert "合同" in Analyzer(AnalyzerConfig(user_words=["云计算合"]), segmenter=segmenter)("劳动合同")
    assert [path.name for path in tmp_path.iterdir()] == ["jieba.cache"]


@pytest.mark.parametrize("mode", ["exact", "search"])
@pytest.mark.parametrize("name", ["jieba", "rjieba"])
@given(st.lists(st.text("增值税的中华人民共和国劳动合同法了龥鿕", min_size=1, max_size=8), max_size=8))
def test_runs_that_are_cut_at_once_have_the_words_that_each_has(name: Any, mode: Any, runs: list[str]) -> None:
    cutters = dict(zip(("exact", "search"), Cutters.of(name, {}), strict=True))[mode]
    assert cutters.cut_all(runs) == [word for run in runs for word in (*cutters.cut(run), RUN_END)]
