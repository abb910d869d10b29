"""What is written for a Milvus server is parsed by Milvus's own grammar, of every version that is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import milvus_grammar
from support.filter_inputs import MAPPINGS
from support.milvus_grammar import Grammar
from support.rows import HOSTILE
from support.strategies import any_terms

from rag_bm25.errors import FilterError
from rag_bm25.filters import ID, And, Comparison, Filter, Not, Or, parse_filter
from rag_bm25.store.milvus.collection import Collection
from rag_bm25.store.milvus.expressions import EVERYTHING, Dialect, Lite2Dialect, where_clause
from rag_bm25.store.rows import Scope

pytestmark = pytest.mark.skipif(bool(milvus_grammar.why_not()), reason=milvus_grammar.why_not())

SERVER, LITE2 = Dialect(), Lite2Dialect()
NAMESPACES = st.none() | st.lists(any_terms, max_size=3).map(tuple)
A = ("a",)
NUMBERS = [0, -1, 2**63 - 1, -(2**63) + 1, 0.5, -0.0, 1e300, 5e-324, 1e-5, 123456789.123]
CONDITIONS: list[Filter] = [
    *(Comparison(A, op, value) for op in ("==", "!=", ">", "<=") for value in [*NUMBERS, *HOSTILE.values()]),
    *(Comparison(A, op, (1, True, 0.5, "x", *HOSTILE.values())) for op in ("in", "not in")),
    *(Comparison(A, op, ()) for op in ("in", "not in")),
    *(Comparison(A, "contains", value) for value in (True, 2, 2.5, *HOSTILE.values())),
    *(Comparison(A, "like", text) for text in ("", "%", "a%b%", "法%", "𠮷%", "it's%\"")),
    *(Comparison((key, "b", key), "==", False) for key in [*HOSTILE.values(), "0", "a.b", "]", "["] if key),
    Comparison(A, "exists", value=True),
    *(Comparison(ID, op, text) for op in ("==", "!=", ">", "<=", "like") for text in HOSTILE.values()),
    *(Comparison(ID, op, tuple(HOSTILE.values())) for op in ("in", "not in")),
]


@pytest.fixture(scope="module", params=milvus_grammar.files() or [Path("none")], ids=lambda file: file.stem)
def grammar(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Grammar:
    return milvus_grammar.compile_grammar(request.param, tmp_path_factory.mktemp("grammar"))


@pytest.mark.parametrize("dialect", [SERVER, LITE2], ids=lambda dialect: dialect.engine)
def test_every_condition_is_parsed(grammar: Grammar, dialect: Dialect) -> None:
    parsed = 0
    for condition in CONDITIONS:
        for where in (condition, Not(condition), Or((And((condition, Not(condition))), condition))):
            try:
                text = where_clause(dialect, Scope(where, ("", 'q"uo\\te', "𠮷野")))
            except FilterError:  # what an engine cannot say
                continue
            assert grammar.faults(text) == [], text
            parsed += 1
    assert parsed > len(CONDITIONS)


@given(where=MAPPINGS, namespaces=NAMESPACES)
@settings(suppress_health_check=list(HealthCheck))
def test_filters_are_parsed(grammar: Grammar, where: Any, namespaces: tuple[str, ...] | None) -> None:
    for dialect in (SERVER, LITE2):
        try:
            text = where_clause(dialect, Scope(parse_filter(where), namespaces))
        except FilterError:
            continue
        assert not text or grammar.faults(text) == [], text


class Recording:
    """An engine of which only the expressions are kept."""

    def __init__(self, keys: list[str]) -> None:
        self.dialect, self.engine = SERVER, self
        self.clauses, self.keys = list[str](), iter(keys)
        self.keys_per_query = len(keys)

    def read(self, call: str, name: str, *, filter: str, **options: Any) -> list[dict[str, str]]:
        self.clauses.append(filter)
        return [{"pk": key} for key in [next(self.keys, None)] if key]


@given(keys=st.lists(any_terms, min_size=1, max_size=5))
@settings(suppress_health_check=list(HealthCheck))
def test_reading_by_key_and_page_by_page_is_parsed(grammar: Grammar, keys: list[str]) -> None:
    recording = Recording(keys)
    collection = Collection(recording, "x")  # type: ignore[arg-type]
    collection.is_prepared = True
    list(collection.scan("", ["pk"]))
    list(collection.scan(EVERYTHING, ["pk"]))
    collection.get(keys, ["pk"])
    assert len(recording.clauses) > len(keys)
    for clause in recording.clauses:
        assert grammar.faults(clause) == [], clause
