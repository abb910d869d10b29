"""The plans that Milvus's own parser and rewriter make of filters, in a program of support.milvus_programs.

``RAG_BM25_MILVUS`` names the folder. The protocol ``plans 1``: the arguments are the schema of a collection, as JSON of
Milvus's protocol buffer, and ``true`` or ``false``: whether plans are rewritten, or left as they are parsed. The input
has a filter a line, as a JSON string. For each, the program writes its plan on one line, as JSON of the protocol buffer
of an expression, or ``{"error": "..."}`` for one that is refused.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_bm25.store.milvus.schema import CHUNK_FIELDS
from support import milvus_programs
from support.milvus_logic import SERVERS, FailsError
from support.milvus_programs import Program

PROTOCOL = "plans 1"
LOGICS = {
    version: [replace(logic, unites=False) for logic in logics]  # plans are united already
    for version, logics in {"2.6": SERVERS[1:3], "3.0": SERVERS[3:]}.items()
}
TYPES = {"VARCHAR": "VarChar", "JSON": "JSON", "INT64": "Int64", "SPARSE_FLOAT_VECTOR": "SparseFloatVector"}
FIELDS = dict(enumerate(CHUNK_FIELDS, 100))  # numbered as Milvus does
SCHEMA = {
    "name": "docs",
    "fields": [
        {"fieldID": number, "name": name, "dataType": TYPES[field["datatype"]], "isPrimaryKey": name == "pk"}
        for number, (name, field) in enumerate(CHUNK_FIELDS.items(), 100)
    ],
}


def programs() -> list[Program]:
    return milvus_programs.named("RAG_BM25_MILVUS", PROTOCOL, LOGICS)


def plans_of(program: Program, filters: Sequence[str], *, rewritten: bool) -> list[dict[str, Any]]:
    """Make a plan of each filter; one that is refused has an error."""
    lines = "".join(f"{json.dumps(text)}\n" for text in filters)
    plans = program.run(json.dumps(SCHEMA), str(rewritten).lower(), lines=lines)
    assert len(plans) == len(filters), f"{program.path} made {len(plans)} plans of {len(filters)} filters"
    return plans


COMPARISONS: dict[str, ast.cmpop] = {
    "Equal": ast.Eq(),
    "NotEqual": ast.NotEq(),
    "GreaterThan": ast.Gt(),
    "GreaterEqual": ast.GtE(),
    "LessThan": ast.Lt(),
    "LessEqual": ast.LtE(),
}
PATTERNS = {"PrefixMatch": "{}%", "PostfixMatch": "%{}", "InnerMatch": "%{}%", "Match": "{}"}
CONNECTIVES: dict[str, ast.boolop] = {"LogicalAnd": ast.And(), "LogicalOr": ast.Or()}


def tree_of(plan: dict[str, Any]) -> ast.expr:
    """Read a plan as the tree that milvus_logic evaluates; FailsError where operands are of several types."""
    ((kind, node),) = ((kind, node) for kind, node in plan.items() if kind != "isTemplate")
    match kind:
        case "binaryExpr":
            return ast.BoolOp(CONNECTIVES[node["op"]], [tree_of(node["left"]), tree_of(node["right"])])
        case "unaryExpr":
            assert node["op"] == "Not", node
            return ast.UnaryOp(ast.Not(), tree_of(node["child"]))
        case "alwaysTrueExpr":
            return ast.BoolOp(ast.And(), [])
        case "existsExpr":
            return ast.UnaryOp(ast.Invert(), _path(node["info"]))
    return _condition(kind, node, _path(node["columnInfo"]))


def _condition(kind: str, node: dict[str, Any], path: ast.expr) -> ast.expr:
    match kind:
        case "unaryRangeExpr" if node["op"] in PATTERNS:
            pattern = PATTERNS[node["op"]].format(_value(node["value"]))
            return ast.BinOp(path, ast.MatMult(), ast.Constant(pattern))
        case "unaryRangeExpr":
            return _compare(path, COMPARISONS[node["op"]], node["value"])
        case "binaryRangeExpr":
            low, high = node["lowerValue"], node["upperValue"]
            _check_same_type([low, high])
            above = ast.GtE() if node.get("lowerInclusive") else ast.Gt()
            below = ast.LtE() if node.get("upperInclusive") else ast.Lt()
            return ast.BoolOp(ast.And(), [_compare(path, above, low), _compare(path, below, high)])
        case "termExpr":
            _check_same_type(node.get("values", []))
            return ast.Compare(path, [ast.In()], [ast.List([_constant(value) for value in node.get("values", [])])])
        case "jsonContainsExpr":
            (element,) = node["elements"]
            return ast.Call(ast.Name("json_contains"), [path, _constant(element)], [])
        case "binaryArithOpEvalRangeExpr":
            assert (node["arithOp"], node["op"], _value(node["value"])) == ("ArrayLength", "NotEqual", 0), node
            return ast.Compare(ast.Call(ast.Name("array_length"), [path], []), [ast.NotEq()], [ast.Constant(0)])
    raise AssertionError(f"no plan that a filter of ours has: {kind} {node}")


def _path(column: dict[str, Any]) -> ast.expr:
    path: ast.expr = ast.Name(FIELDS[int(column["fieldId"])])
    for key in column.get("nestedPath", []):
        path = ast.Subscript(path, ast.Constant(key))
    return path


def _compare(path: ast.expr, op: ast.cmpop, value: dict[str, Any]) -> ast.expr:
    return ast.Compare(path, [op], [_constant(value)])


def _constant(value: dict[str, Any]) -> ast.Constant:
    return ast.Constant(_value(value))


def _value(value: dict[str, Any]) -> Any:
    """Read a value, whose integers are written as strings; 0, "" and false may be left out."""
    ((kind, read),) = value.items()
    return {"int64Val": int, "floatVal": float}.get(kind, lambda same: same)(read)


def _check_same_type(values: list[dict[str, Any]]) -> None:
    """Fail where a list or a range has operands of several types, of which segments look at the first alone."""
    if len({kind for value in values for kind in value}) > 1:
        raise FailsError(f"several types in one condition: {values}")
