"""The plans that Milvus makes of our filters find what the filters mean, by the logic of each version."""

from __future__ import annotations

import json
import logging
import random
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import milvus_plans
from support.filter_conditions import CONDITIONS, DOCUMENTS, WITH_BOOLS, A
from support.milvus_logic import FailsError, Logic, can_tell, wrong_rows
from support.milvus_plans import LOGICS, PROTOCOL, plans_of, tree_of
from support.milvus_programs import Program

from rag_bm25.errors import FilterError
from rag_bm25.filters import ID, And, Comparison, Filter, Not, Or
from rag_bm25.store.milvus.expressions import Dialect, where_clause
from rag_bm25.store.rows import Scope

LOG = logging.getLogger(__name__)
EVERY = [*CONDITIONS, *WITH_BOOLS]
OF_ONE_PATH = [condition for condition in EVERY if isinstance(condition, Comparison) and condition.path == A]
NUM_TREES = 1000
NAMED = [pytest.param(program, id=program.path.name) for program in milvus_plans.programs()]
LOGICS_OF = [
    pytest.param((program, logic), id=f"{program.path.name}, {logic.name}")
    for program in milvus_plans.programs()
    for logic in LOGICS[program.version]
]
needs_programs = pytest.mark.skipif(not NAMED, reason="RAG_BM25_MILVUS names no programs: make test-plans")


@dataclass
class Trees:
    """Draws filters; those of one path are what the rewriter unites."""

    random: random.Random

    def any(self, depth: int = 3) -> Filter:
        kind = self.random.random()
        if depth == 0 or kind < 0.3:
            return self.random.choice(EVERY)
        if kind < 0.45:
            return Not(self.any(depth - 1))
        return self._joined([self.any(depth - 1) for _ in range(self.random.randint(1, 4))])

    def of_one_path(self) -> Filter:
        some: list[Filter] = [*self.random.choices(OF_ONE_PATH, k=self.random.randint(2, 8))]
        return self._joined([Not(part) if self.random.random() < 0.3 else part for part in some])

    def _joined(self, parts: list[Filter]) -> Filter:
        joined: Filter = And(tuple(parts)) if self.random.random() < 0.5 else Or(tuple(parts))
        return Not(joined) if self.random.random() < 0.2 else joined


def drawn() -> list[Filter]:
    trees = Trees(random.Random(51))
    some = [draw() for draw in (trees.any, trees.of_one_path) for _ in range(NUM_TREES)]
    return [*EVERY, *map(Not, EVERY), *some]


def written(wanted: list[Filter]) -> Iterator[tuple[str, Filter]]:
    """Write filters for a server, which refuses some keys."""
    for where in wanted:
        with suppress(FilterError):
            yield where_clause(Dialect(), Scope(where)), where


@pytest.fixture(scope="module")
def filters() -> list[tuple[str, Filter]]:
    return [*written(drawn())]


def wrong_of(logic: Logic, where: Filter, plan: dict[str, Any]) -> set[str]:
    """List the rows that a plan finds, or not, unlike the filter."""
    documents = {name: data for name, data in DOCUMENTS.items() if can_tell(logic, where, data)}
    try:
        return wrong_rows(logic, where, documents, tree_of(plan))
    except FailsError:
        return set(documents)


@needs_programs
@pytest.mark.parametrize("rewritten", [True, False], ids=["rewritten", "as parsed"])
@pytest.mark.parametrize("of", LOGICS_OF)
def test_plans_find_what_the_filters_mean(
    of: tuple[Program, Logic], filters: list[tuple[str, Filter]], rewritten: bool
) -> None:
    program, logic = of
    plans = plans_of(program, [text for text, _ in filters], rewritten=rewritten)
    assert len(filters) > 2000
    assert [plan for plan in plans if "error" in plan] == []
    judged = [(text, wrong_of(logic, where, plan)) for (text, where), plan in zip(filters, plans, strict=True)]
    of_ids = sum("id " in text for text, _ in filters)
    LOG.info("%s: %d filters, %d of ids, on %d rows", logic.name, len(judged), of_ids, len(DOCUMENTS))
    assert [(text, wrong) for text, wrong in judged if wrong] == []


@needs_programs
@pytest.mark.parametrize("program", NAMED)
def test_a_filter_without_its_guard_is_noticed(program: Program) -> None:
    """The opposite of a comparison is unknown for other types, and for what is missing."""
    where, logic = Not(Comparison(A, "==", 3)), LOGICS[program.version][-1]
    guarded, bare = plans_of(
        program, [where_clause(Dialect(), Scope(where)), 'not (metadata["a"] == 3)'], rewritten=True
    )
    assert wrong_of(logic, where, guarded) == set()
    assert {"missing", "string three"} <= wrong_of(logic, where, bare)


@needs_programs
@pytest.mark.parametrize("program", [of for of in NAMED if str(of.id).startswith("2")])
def test_types_that_are_not_kept_apart_are_noticed(program: Program) -> None:
    where, logic = Comparison(A, "in", (1.0, 2, 3)), LOGICS[program.version][-1]
    kept, united = plans_of(
        program,
        [where_clause(Dialect(), Scope(where)), 'metadata["a"] in [1.0] or metadata["a"] in [2, 3]'],
        rewritten=True,
    )
    assert wrong_of(logic, where, kept) == set()
    assert wrong_of(logic, where, united)


@needs_programs
@pytest.mark.parametrize("text", ['metadata["a"] ==', 'metadata["a"] == 1) or (length == 2', 'id == "a\nb"'])
@needs_programs
@pytest.mark.parametrize("program", NAMED)
def test_what_is_wrong_is_refused(program: Program, text: str) -> None:
    (plan,) = plans_of(program, [text], rewritten=True)
    assert plan["error"]


METADATA = {"columnInfo": {"fieldId": "104", "nestedPath": ["a"]}}
THREE = {"unaryRangeExpr": {**METADATA, "op": "Equal", "value": {"int64Val": "3"}}}
NOT_THREE = {"unaryExpr": {"op": "Not", "child": THREE}}
ABC = {"termExpr": {"columnInfo": {"fieldId": "101"}, "values": [{"stringVal": "abc"}]}}
IS_3, IS_ABC = Comparison(A, "==", 3), Comparison(ID, "in", ("abc",))


def played(folder: Path, *plans: dict[str, Any]) -> Program:
    """Make a program that has these plans, whatever it is asked."""
    program, answer = folder / "3.0", folder / "answer"
    answer.write_text("".join(f"{json.dumps(line)}\n" for line in ({"protocol": PROTOCOL}, *plans)))
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {shlex.quote(str(answer))}\n")
    program.chmod(0o755)
    return Program(program, PROTOCOL)


@pytest.mark.parametrize(
    ("where", "plan", "wrong"),
    [
        (IS_3, THREE, set()),
        (IS_ABC, ABC, set()),
        (And((IS_3, Not(IS_ABC))), THREE, set()),
        (Not(IS_3), NOT_THREE, {"missing", "string three"}),
        (IS_ABC, THREE, {"three", "abc"}),
        (IS_3, {"alwaysTrueExpr": {}}, {"abc", "missing"}),
        (IS_3, {"termExpr": {**METADATA, "values": [{"int64Val": "3"}, {"stringVal": "x"}]}}, {"three", "abc"}),
    ],
)
def test_a_plan_that_finds_others_is_noticed(
    tmp_path: Path, where: Filter, plan: dict[str, Any], wrong: set[str]
) -> None:
    (answer,) = plans_of(played(tmp_path, plan), [where_clause(Dialect(), Scope(where))], rewritten=True)
    found = wrong_of(LOGICS["3.0"][0], where, answer)
    assert wrong <= found if wrong else not found


def test_a_plan_that_is_left_out_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"3\.0 made 1 plans of 2 filters"):
        plans_of(played(tmp_path, THREE), ["", ""], rewritten=True)
