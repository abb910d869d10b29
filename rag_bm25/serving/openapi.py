"""The description of the API in OpenAPI 3.1, made of the table of operations and the models of their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25._version import __version__
from rag_bm25.definitions import Choice, Number, Text
from rag_bm25.serving.fields import arguments_of, schema, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.definitions import Option
    from rag_bm25.serving.routes import Operation

REFERENCES = "#/components/schemas/{model}"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}


def describe(api: str, operations: Sequence[Operation], *, with_token: bool) -> dict[str, Any]:
    """Return the description."""
    models = sorted({each.model for each in operations}, key=lambda model: model.__name__)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        path = paths.setdefault(api + each.path.replace(":path", ""), {})
        for method in each.methods:
            path[method.lower()] = _describe_operation(each, method)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "rag-bm25", "version": __version__, "description": "One index, served to many."},
        "paths": paths,
        "components": {"schemas": {**{model.__name__: schema(model) for model in models}, "Error": ERROR}},
    }
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _describe_operation(operation: Operation, method: str) -> dict[str, Any]:
    in_path = "{id:path}" in operation.path
    described: dict[str, Any] = {
        "operationId": f"{operation.name}{'_by_id' if in_path else ''}_{method.lower()}",
        "summary": summary(operation.model),
        "responses": {
            "200": {"description": operation.answer, "content": {"application/json": {"schema": {"type": "object"}}}},
            "default": {
                "description": "What is wrong, and what to do.",
                "content": {"application/json": {"schema": {"$ref": REFERENCES.format(model="Error")}}},
            },
        },
    }
    if method == "GET" or in_path:
        described["parameters"] = _describe_parameters(operation, in_path=in_path)
    else:
        body = {"$ref": REFERENCES.format(model=operation.model.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return described


def _describe_parameters(operation: Operation, *, in_path: bool) -> list[dict[str, Any]]:
    own = arguments_of(operation.model)
    hidden = own.keys() - {"namespace"} if in_path and operation.call.writes else {"id"} if in_path else set()
    parameters = [_describe_parameter(option) for name, option in own.items() if name not in hidden]
    if in_path:
        about = "Id of the chunk; / and # are written %2F and %23."
        given = {"name": "id", "in": "path", "required": True, "description": about, "schema": {"type": "string"}}
        parameters.insert(0, given)
    return parameters


def _describe_parameter(option: Option) -> dict[str, Any]:
    """Return an argument of a query string, which spells what is no text, number or name in a form of its own."""
    given = {"name": option.name, "in": "query", "required": option.is_required}
    if isinstance(option.kind, Choice | Number | Text):
        return {**given, "description": option.summary, "schema": option.schema()}
    return {**given, "description": f"{option.summary} Form: {option.kind.form}", "schema": {"type": "string"}}
