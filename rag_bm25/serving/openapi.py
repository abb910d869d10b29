"""The description of the API in OpenAPI 3.1, made of the table of operations and the models of their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from rag_bm25._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.serving.requests import Request
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
    models: set[type[Request]] = {each.model for each in operations}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in ordered], ref_template=REFERENCES)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        path = paths.setdefault(api + each.path.replace(":path", ""), {})
        for method in each.methods:
            path[method.lower()] = _describe_operation(each, method)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "rag-bm25", "version": __version__, "description": "One index, served to many."},
        "paths": paths,
        "components": {"schemas": {**schemas["$defs"], "Error": ERROR}},
    }
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _describe_operation(operation: Operation, method: str) -> dict[str, Any]:
    summary = (operation.model.__doc__ or "").partition("\n")[0]
    in_path = "{id:path}" in operation.path
    described: dict[str, Any] = {
        "operationId": f"{operation.name}{'_by_id' if in_path else ''}_{method.lower()}",
        "summary": summary,
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
        schema = {"$ref": REFERENCES.format(model=operation.model.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _describe_parameters(operation: Operation, *, in_path: bool) -> list[dict[str, Any]]:
    schema = operation.model.model_json_schema(ref_template=REFERENCES)
    required = set(schema.get("required", ()))
    parameters: list[dict[str, Any]] = []
    for name, rule in schema.get("properties", {}).items():
        if in_path and (name == "id" or (operation.call.writes and name != "namespace")):
            continue
        about = rule.get("description", "")
        parameters.append(
            {"name": name, "in": "query", "required": name in required, "description": about, "schema": rule}
        )
    if in_path:
        about = "Id of the chunk; / and # are written %2F and %23."
        given = {"name": "id", "in": "path", "required": True, "description": about, "schema": {"type": "string"}}
        parameters.insert(0, given)
    return parameters
