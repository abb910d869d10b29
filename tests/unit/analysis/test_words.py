from __future__ import annotations

import pytest

from rag_bm25.analysis import words
from rag_bm25.analysis.runs import find_runs
from rag_bm25.analysis.stop_words import LUCENE_33
from rag_bm25.analysis.words import Stemming, TermMemo, WordRules, phrase_of, without_accents, words_of


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("中文english中文", ["中文", "english", "中文"]),
        ("𠮷野家 㐂 〇〇", ["𠮷", "野家", "㐂", "〇", "〇"]),
        ("カタカナひらがな한국어", ["カタカナひらがな", "한국어"]),
        ("a.b a..b a-b a--b a_b a__b _a_ a' 'b", ["a.b", "a", "b", "a-b", "a", "b", "a_b", "a__b", "a", "a", "b"]),
        ("c++ C# f# x++ g# a+b #c", ["c++", "C#", "f#", "x", "g", "a", "b", "c"]),
        ("f'text' rb'data' N'é'", ["f", "text", "rb", "data", "N'é"]),
        ("l'accord qu'une", ["l", "accord", "qu", "une"]),
        ("使用f'text'格式，见l'accord", ["使用", "f", "text", "格式", "见", "l", "accord"]),
        ("I'LL WE'VE I'll试试", ["I'LL", "WE'VE", "I'll", "试试"]),
        ("I'll don't O'Brien rock'n'roll x's 'tis", ["I'll", "don't", "O'Brien", "rock'n'roll", "x's", "tis"]),
        ("café cafe\u0301 наука", ["café", "cafe\u0301", "наука"]),
        ("R&D at&t S&P500 研发R&D投入 B&B-hotel", ["R&D", "at&t", "S&P500", "研发", "R&D", "投入", "B&B-hotel"]),
        ("a&b&c ?a=1&b=2&c x&lt;y rock&roll", ["a", "b", "c", "a", "1", "b", "2", "c", "x", "lt", "y", "rock", "roll"]),
        (".NET 用.net开发 ASP.NET .NETwork x).net", [".NET", "用", ".net", "开发", "ASP.NET", "NETwork", "x", "net"]),
        ("a@b/c:d%e$f&g=h", ["a", "b", "c", "d", "e", "f", "g", "h"]),
    ],
)
def test_a_text_is_cut_at_borders_of_scripts_and_at_signs(text: str, runs: list[str]) -> None:
    assert find_runs(text) == runs


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("1,000 12,345,678", ["1,000", "12,345,678"]),
        ("1,234.50元", ["1,234.50", "元"]),
        ("1,000,0000", ["1", "000", "0000"]),
        ("12,34,567", ["12", "34", "567"]),
        ("1234,567", ["1234", "567"]),
        ("1,000kg", ["1,000", "kg"]),
        ("1,2,3", ["1", "2", "3"]),
        ("1,000.", ["1,000"]),
        ("1，000 12，345，678.5元", ["1，000", "12，345，678.5", "元"]),
        ("5000，1,234,567", ["5000", "1,234,567"]),
        ("15，130,000元", ["15", "130,000", "元"]),
        ("1,234，567", ["1,234", "567"]),
        ("10，2000", ["10", "2000"]),
    ],
)
def test_commas_belong_to_a_number_only_where_they_group_thousands(text: str, runs: list[str]) -> None:
    assert find_runs(text) == runs


@pytest.mark.parametrize("text", ["don't a.b 1,000.5 c++ v2.5.1 _x_ 12,34,567 a--b", "f# state-of-the-art 1,000,0000"])
def test_ascii_text_is_cut_as_within_other_text(text: str) -> None:
    assert find_runs(text + " é") == [*find_runs(text), "é"]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("v2.5.1", ["2.5.1", "2.5"]),
        ("3.5", ["3.5"]),
        ("V3.5", ["3.5"]),
        ("1.1.1.1", ["1.1.1.1", "1.1"]),
        ("1,234.5", ["1234.5"]),
        ("x2.5", ["x2.5", "x2", "x", "2", "5"]),
        ("2.4GHz", ["2.4GHz", "2.4", "GHz"]),
        ("1.5T", ["1.5T", "1.5", "T"]),
        ("4.5-inch", ["4.5-inch", "4.5", "inch"]),
        ("python3.11", ["python3.11", "python3", "python", "3.11"]),
        ("GPT-4.5", ["GPT-4.5", "GPT", "4.5"]),
        ("milvus-v2.5.1", ["milvus-v2.5.1", "milvus", "2.5.1", "2.5"]),
        ("2.0.0-rc1", ["2.0.0-rc1", "2.0.0", "2.0", "rc1", "rc", "1"]),
        ("foo.v2.bar", ["foo.v2.bar", "foo", "v2", "v", "2", "bar"]),
        ("1.0b2", ["1.0b2", "1", "0b2", "0", "b2", "b", "2"]),
        ("No.5", ["No.5", "No", "5"]),
        ("user_id", ["user_id", "user", "id"]),
        ("a-b-c-d-e", ["a", "b", "c", "d", "e"]),
        ("1-b-c-d-e", ["1-b-c-d-e", "1", "b", "c", "d", "e"]),
        ("1-b-c-d-e-f", ["1", "b", "c", "d", "e", "f"]),
        ("bm25", ["bm25", "bm", "25"]),
        ("k1", ["k1", "k", "1"]),
        ("10gb", ["10gb", "10", "gb"]),
        ("5g", ["5g", "5", "g"]),
        ("220V", ["220V", "220", "V"]),
        ("50m2", ["50m2", "50", "m2", "m", "2"]),
        ("10cm3", ["10cm3", "10", "cm3", "cm", "3"]),
        ("50m4", ["50m4"]),
        ("0x17", ["0x17"]),
        ("404,500,502", ["404500502", "404", "500", "502"]),
        ("332,344,351,359", ["332344351359", "332", "344", "351", "359"]),
        ("12,345,678", ["12345678"]),
        ("123,456.5", ["123456.5"]),
        ("15，130", ["15130", "15", "130"]),
        ("1，200，300.50", ["1200300.50", "1", "200", "300.50"]),
        ("iPhone15Pro", ["iPhone15Pro", "iPhone15", "iPhone", "15", "Pro"]),
        ("GTX1060Ti", ["GTX1060Ti", "GTX1060", "GTX", "1060", "Ti"]),
        ("S24Ultra", ["S24Ultra", "S24", "S", "24", "Ultra"]),
        ("12V5A", ["12V5A", "12V", "12", "V", "5A", "5", "A"]),
        *[
            (name, [name])
            for name in ("H2O", "B2B", "p2p", "log4j", "e29b", "h3k27me3", "da39a3ee5e6b4b0d", "0x17", "a12345")
        ],
        ("10abcde", ["10abcde"]),
        ("user's-guide", ["user", "guide"]),
        ("rock'n'roll", ["rocknroll"]),
        ("CEO'S", ["CEO"]),
        ("c++", ["c++"]),
        ("U.S.A", ["USA"]),
        ("u.s", ["US"]),
        ("Ph.D", ["PhD", "Ph", "D"]),
        ("b.sc", ["bsc", "b", "sc"]),
        ("information-retrieval", ["information", "retrieval"]),
        ("on-line", ["online", "on", "line"]),
        ("pre-war", ["prewar", "pre", "war"]),
        ("post-war", ["post", "war"]),
        ("e-mail", ["email", "e", "mail"]),
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("GPT-4o", ["GPT-4o", "GPT", "4o", "4", "o"]),
        ("getUser-Name", ["getUser-Name", "getUser", "get", "User", "Name"]),
        ("node.js", ["nodejs", "node", "js"]),
        ("os.path", ["os.path", "os", "path"]),
        ("H.264", ["H264", "H", "264"]),
        ("B-12", ["B12", "B", "12"]),
        ("3-D", ["3D", "3", "D"]),
        ("B-12345", ["B-12345", "B", "12345"]),
        ("R&D", ["R&D", "R", "D"]),
        ("R&D-team", ["R&D-team", "R&D", "R", "D", "team"]),
        (".NET", [".NET", "NET"]),
        ("10x20", ["10x20", "10", "x", "20"]),
        ("M8x30mm", ["M8x30mm", "M8", "M", "8", "x", "30mm", "30", "mm"]),
        ("2.5x4", ["2.5x4", "2.5", "x", "4"]),
        ("日", ["日"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("ン", ["ン"]),
    ],
)
def test_a_run_holds_the_whole_and_its_parts(run: str, expected: list[str]) -> None:
    assert [word.text for word in words_of(run)] == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("a-b-c-d-e", ["a-b-c-d-e", "a", "b", "c", "d", "e"]),
        ("a-b-c-d-e-f", ["a", "b", "c", "d", "e", "f"]),
        ("on-line", ["on-line", "on", "line"]),
        ("U.S", ["U.S", "U", "S"]),
        ("user's-guide", ["user-guide", "user", "guide"]),
    ],
)
def test_on_request_all_compounds_are_words_as_a_whole(run: str, expected: list[str]) -> None:
    assert [word.text for word in words_of(run, WordRules(compounds="all"))] == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("on-line", ["online"]),
        ("U.S", ["US"]),
        ("user_id2", ["user", "id2"]),
        ("v2.5.1", []),
        ("iPhone15Pro", ["iPhone15Pro"]),
        ("C++", []),
        ("カタカナ", []),
    ],
)
def test_a_phrase_has_each_part_of_a_run_once(run: str, expected: list[str]) -> None:
    assert [word.text for word in phrase_of(run)] == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("getUserName", ["getUserName", "get", "User", "Name"]),
        ("HTTPServer2", ["HTTPServer2", "HTTPServer", "2", "HTTP", "Server2", "Server"]),
        ("plain", ["plain"]),
        ("UPPER", ["UPPER"]),
        ("miRNA", ["miRNA", "mi", "RNA"]),
    ],
)
def test_humps_of_camel_case_are_words_on_request(run: str, expected: list[str]) -> None:
    assert [word.text for word in words_of(run, WordRules(split_camel_case=True))] == expected


@pytest.mark.parametrize(
    ("run", "humps"),
    [
        ("getUserById", ["get", "User", "By", "Id"]),
        ("isEmpty", ["is", "Empty"]),
        ("toJSON", ["to", "JSON"]),
        ("ArrayList", ["Array", "List"]),
        ("innerHTML", ["inner", "HTML"]),
        ("parseXMLFile", ["parse", "XML", "File"]),
        ("IOException", ["IO", "Exception"]),
        *[(name, []) for name in ("mRNA", "miRNA", "nCoV", "PhD", "LLMs", "iPhone", "iOS", "McDonald", "WiFi", "Word")],
    ],
)
def test_by_default_names_are_cut_where_their_humps_may_be_words(run: str, humps: list[str]) -> None:
    assert [word.text for word in words_of(run)] == [run, *humps]
    assert [word.text for word in words_of(run, WordRules(split_camel_case=False))] == [run]


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("AIDS", ("aids", "aid")),
        ("aids", ("aid",)),
        ("BIOS", ("bios", "bio")),
        ("iOS", ("ios", "io")),
        ("LLMs", ("llm", "llms")),
        ("APIs", ("api",)),
        ("NATO", ("nato",)),
        ("CAFÉ", ("cafe",)),
        ("RUNNING", ("run",)),  # of a heading
        ("Cats", ("cat",)),
        ("As", ("as",)),
        ("X", ("x",)),
    ],
)
def test_a_name_in_capitals_is_not_stemmed(word: str, terms: tuple[str, ...]) -> None:
    assert Stemming(stem=True).terms(word) == terms
    assert Stemming(stem=False).terms(word) == (without_accents(word.casefold()),)


@pytest.mark.parametrize(
    ("run", "terms"),
    [
        ("running", ("run",)),
        ("Running", ("run",)),
        ("is", ()),
        ("IS", ("is",)),
        ("a", ()),
        ("A", ("a",)),
        ("non-A", ("nona", "non", "a")),
        ("it's", ()),
        ("IT's", ("it",)),
        ("end-of-file", ("end", "file")),
        ("files2", ("files2", "file", "2")),
        ("as", ()),
        ("naïves", ("naiv",)),
        ("ids", ("id",)),
        ("\u0390", ("\u0390",)),  # folding alone would take the accents off the letter
    ],
)
def test_words_are_folded_stemmed_and_dropped(run: str, terms: tuple[str, ...]) -> None:
    assert TermMemo(WordRules(LUCENE_33), Stemming(stem=True))[run] == terms


def test_stemming_can_be_left_out() -> None:
    assert TermMemo(WordRules(), Stemming(stem=False))["Running"] == ("running",)


def test_too_long_tokens_are_dropped_and_their_parts_kept() -> None:
    memo = TermMemo(WordRules(), Stemming(stem=False))
    assert memo["a" * 64] == ("a" * 64,)
    assert memo["a" * 65] == ()
    assert memo["a" * 40 + "-" + "b" * 40] == ("a" * 40, "b" * 40)


@pytest.mark.parametrize("sign", [*".(_'’—👍", "\u0301", "\u3000"])
def test_signs_have_no_terms(sign: str) -> None:
    assert TermMemo(WordRules(), Stemming(stem=False))[sign] == ()


def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MEMO_SIZE", 2)
    memo = TermMemo(WordRules(), Stemming(stem=False))
    assert [memo[run] for run in "abcde"] == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert len(memo) <= 2


def test_the_memo_keeps_no_long_runs() -> None:
    memo = TermMemo(WordRules(), Stemming(stem=False))
    assert memo["-".join("a" * 40)] == ("a",) * 40
    assert not memo


def test_the_stop_words_are_those_of_lucene() -> None:
    assert len(LUCENE_33) == 33
    assert {"the", "of", "such", "will"} < set(LUCENE_33)


def test_a_signal_handler_may_stem_while_its_thread_does() -> None:
    stemming = Stemming(stem=True)
    with stemming._lock:
        assert stemming._lock.acquire(blocking=False)
        stemming._lock.release()
