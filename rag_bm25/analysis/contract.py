"""The analyzer contract: settings and digests of tokens, stored with an index to recognise another analyzer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

from rag_bm25.analysis.analyzer import Analyzer
from rag_bm25.analysis.config import AnalyzerConfig
from rag_bm25.analysis.fingerprint import fingerprint_of
from rag_bm25.analysis.text import query_tokens
from rag_bm25.errors import ConfigMismatchError, FormatError, ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rag_bm25.analysis.text import TextAnalyzer

BUILT_IN = "rag_bm25"
CALLABLE = "callable"
MAX_SHOWN = 5

# fmt: off
PROBES = (
    "iPhone15 Pro 和 iPhone 15", "Milvus v2.5.1支持BM25全文检索", "GPT-4o与gpt4o的区别", "增长3.5%，约1,000万元",
    "2024-08-22 / 2024年8月22日", "联系 foo.bar@example.com", "https://milvus.io/docs/full-text-search.md?x=1",
    "user_id 和 getUserName()", "ＡＢＣ１２３，全角文字！", "經典資訊檢索模型之一", "㎏ ½ ℃ ① ﬁle",
    "⼈⼯智能（康熙部首）", "C++、C# 与 .NET", "don't stop: user's running tests", "The state-of-the-art model",
    "很好😀👍🏽 nice", "ラーメンを食べる", "한국어 검색 엔진", "café naïve résumé", "南京市长江大桥",
    "T恤和5G网络、U盘", "IT部门用IP 192.168.1.1:8080，it is", "550e8400-e29b-41d4-a716-446655440000",
    "学习\u200b资料 co\u00adoperate", "x₁²+y=3 $w_{t,d}$", "10GB内存 10 GB RAM", "k1=1.2, b=0.75, 1,234,567条",
    "北京大学生物系", "TF-IDF/BM25+", "𠮷野家 㐂",
    # Words whose English stems differ between Snowball 2.2, 3.0 and 3.1.
    "added", "biologists", "emergency", "evening", "international", "internal", "interval", "laterally",
    "organization", "paste", "university", "vying",
    "2.4GHz, Python3.11 and milvus-2.5.1",
    "हिन्दी, العَرَبِيَّة, שָׁלוֹם", "ภาษาไทย ខ្មែរ မြန်မာ", "⻛险，劳动合\n同", "Łódź İzmir",
    "iPhone15Pro 12V5A H2O，截至8月15，130人",
    "劳动合同法38条，第二十一条第（三）项，第二百八十条之一", "2023-08-05T12:30Z, 05.08.2023, 10\u00a0000",
    "AIDS, iOS 和 LLMs", "getUserById() IOException miRNA", "R&D at&t .NET Core™ i7 10x20mm 1920×1080",
    "vitamin B-12 F16 Ph.D. Node.js", "ⓐ1º donʼt",
)
# fmt: on
"""Texts whose tokens distinguish analyzers. They are stored by their text: add new ones, but never change one."""


@dataclass(frozen=True)
class AnalyzerContract:
    """The settings of an analyzer, and digests of its tokens, in JSON values."""

    settings: dict[str, Any]  # of the built-in analyzer, or ``{"analyzer": "callable", "name": ...}`` for any other
    probes: dict[str, str]  # fixed texts, each with a digest of its tokens; they do not depend on the segmenter
    fingerprint: str | None = field(default=None, compare=False)  # under which they need not be computed again


@dataclass(frozen=True)
class MissingAnalyzer:
    """Stand-in for the callable that an index was made with, where it was not given: every call of it raises."""

    contract: AnalyzerContract = field(hash=False)

    def __call__(self, text: str, /) -> NoReturn:  # noqa: ARG002 - in the place of an analyzer
        """Raise a ConfigMismatchError that names the callable, and the ways to give it."""
        raise ConfigMismatchError(
            f"the index was made with the analyzer {self}: pass that callable as analyzer, or as preprocess_func; on "
            "the command line, name it by --analyzer MODULE:NAME"
        )

    def __repr__(self) -> str:
        return str(self.contract.settings.get("name"))


def require_analyzer(analyzer: object) -> None:
    """Refuse work that needs an analyzer before any of it is done."""
    if isinstance(analyzer, MissingAnalyzer):
        analyzer("")


def contract_of(analyzer: TextAnalyzer) -> AnalyzerContract:
    """Compute the contract of an analyzer, by running it on every probe."""
    probes = {probe: _digest(analyzer, probe) for probe in PROBES}
    return AnalyzerContract(settings_of(analyzer), probes, fingerprint_of(analyzer, probes))


def is_contract_of(stored: AnalyzerContract, analyzer: TextAnalyzer) -> bool:
    """Return whether a stored contract is known to be that of an analyzer by its fingerprint, without a probe."""
    return (
        stored.fingerprint is not None
        and stored.settings == settings_of(analyzer)
        and stored.fingerprint == fingerprint_of(analyzer, stored.probes)
    )


def differences(stored: AnalyzerContract, given: AnalyzerContract) -> list[str]:
    """Return a sentence for each difference of two contracts, but for the names of callables.

    Probes that only one of them has, from another version, are not compared.

    >>> differences(contract_of(Analyzer()), contract_of(Analyzer(AnalyzerConfig(simplify=False))))
    ['simplify: stored True, given False', "tokens of '經典資訊檢索模型之一' differ"]
    """
    return _setting_differences(stored.settings, given.settings) + [
        f"tokens of {probe!r} differ"
        for probe, digest in stored.probes.items()
        if given.probes.get(probe, digest) != digest
    ]


def stored_analyzer(contract: AnalyzerContract) -> AnalyzerConfig | MissingAnalyzer:
    """Return the analyzer that an index was made with, or a stand-in for a callable, which only the caller has."""
    settings = dict(contract.settings)
    kind = settings.pop("analyzer", None)
    if kind == CALLABLE:
        return MissingAnalyzer(contract)
    if kind != BUILT_IN:
        raise FormatError(f"analyzer must be stored as {BUILT_IN!r} or {CALLABLE!r}, got {kind!r}")
    return AnalyzerConfig.from_dict(settings)


def settings_of(analyzer: TextAnalyzer) -> dict[str, Any]:
    """Return the settings of the built-in analyzer, or the name of a callable."""
    if isinstance(analyzer, MissingAnalyzer):
        return analyzer.contract.settings
    if isinstance(analyzer, Analyzer):
        return {"analyzer": BUILT_IN, **analyzer.config.to_dict()}
    named = analyzer if hasattr(analyzer, "__qualname__") else type(analyzer)
    module = getattr(named, "__module__", None) or "builtins"
    return {"analyzer": CALLABLE, "name": f"{module}.{named.__qualname__}"}


def _digest(analyzer: TextAnalyzer, probe: str) -> str:
    """Hash the tokens of a probe as a chunk and as a query."""
    tokens = [_check_tokens(analyzer(probe)), _check_tokens(query_tokens(analyzer, probe))]
    return blake2b(json.dumps(tokens).encode(), digest_size=6).hexdigest()


def _check_tokens(tokens: object) -> list[str]:
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    raise ParameterError(f"analyzer must return a list of str, got {short_repr(tokens)}")


def _setting_differences(stored: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Describe each setting that differs, apart from the names of callables, which may do the same."""
    names = {**stored, **given}.keys() if stored["analyzer"] == given["analyzer"] else ("analyzer",)
    return list_differences(stored, given, (name for name in names if name != "name"))


def list_differences(stored: Mapping[str, Any], given: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Describe each of these settings that differs."""
    return [
        f"{name}: {_describe(stored.get(name), given.get(name))}"
        for name in names
        if stored.get(name) != given.get(name)
    ]


def _describe(stored: object, given: object) -> str:
    """Show both values, or a few members that only one of two lists has."""
    if isinstance(stored, list) and isinstance(given, list):
        only = (_show_missing("only stored", stored, given), _show_missing("only given", given, stored))
        return ", ".join(filter(None, only))
    return f"stored {stored!r}, given {given!r}"


def _show_missing(label: str, these: Sequence[object], those: Sequence[object]) -> str:
    """Show a few members of one list that the other lacks."""
    known = set(map(json.dumps, those))
    missing = [member for member in these if json.dumps(member) not in known]
    more = f" and {len(missing) - MAX_SHOWN} more" if len(missing) > MAX_SHOWN else ""
    return f"{label} {', '.join(map(_show, missing[:MAX_SHOWN]))}{more}" if missing else ""


def _show(member: object) -> str:
    """Show a member of a list; a word of the user is stored with its frequency, or None."""
    parts = member if isinstance(member, list) else [member]
    return " ".join(repr(part) for part in parts if part is not None)
