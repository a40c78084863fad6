"""The OpenAPI 3.1 document, made from the operations that the routes declare and the structs that they name."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec import inspect as shapes
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.api.operations import Operation, phrase
from orchestrator.api.streams import LINES
from orchestrator.views.errors import ErrorAnswer

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
REFERENCE: Final = "#/components/schemas/{name}"

_PARAMETER: Final = re.compile(r"{(\w+)(?::\w+)?}")


def routes(operations: Sequence[Operation]) -> list[Route]:
    """The route to the document about these operations, and itself."""

    async def describe(request: Request) -> Response:
        return Response(document, media_type=JSON)

    own = Operation("GET", "/api/openapi.json", describe, "This document", media_type=JSON)
    document = msgspec.json.encode(make_document([*operations, own]))
    return [own.route()]


def make_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document, as what JSON knows."""
    types = _types(operations)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": version("headrace"),
            "description": "Leads model calls of many agents to scarce model backends.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _types(operations: Iterable[Operation]) -> list[Any]:
    found: dict[Any, None] = {ErrorAnswer: None}
    for operation in operations:
        for shape in (operation.body, operation.document, operation.answer, *operation.events.values()):
            if shape is not None:
                found[shape] = None
    return list(found)


def _described(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "tags": [_tag(operation.path)],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation.query)],
        "responses": _responses(operation, schema_of),
    }
    body = operation.document if operation.body is None else operation.body
    if body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of[body]}}}
    if operation.upload:
        described["requestBody"] = {"required": True, "content": {operation.upload: {}}}
    return described


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[1] if parts[0] == "api" and len(parts) > 1 else "daemon"


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(operation.path)
    ]


def _query_parameters(query: type[Struct] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    shape = shapes.type_info(query)
    assert isinstance(shape, shapes.StructType), query
    _, components = msgspec.json.schema_components([query], ref_template=REFERENCE)
    properties = components[query.__name__]["properties"]
    parameters = []
    for field in shape.fields:
        schema = dict(properties[field.encode_name])
        described = {"name": field.encode_name, "in": "query", "required": field.required, "schema": schema}
        if "description" in schema:
            described["description"] = schema.pop("description")
        parameters.append(described)
    return parameters


def _responses(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content[LINES if operation.lines else JSON] = {"schema": schema_of[operation.answer]}
    if operation.events:
        content[EVENTS] = {"schema": {"type": "string"}, "x-events": _events(operation, schema_of)}
    for media_type in (operation.media_type, *operation.media_types):
        if media_type:
            content[media_type] = {}
    good: dict[str, Any] = {"description": phrase(operation.status)}
    if content:
        good["content"] = content
    responses = {str(operation.status): good}
    asks = operation.body is not None or operation.query is not None or bool(operation.upload)
    for status in sorted({*operation.errors, *([400] if asks else [])}):
        answer = {"schema": schema_of[ErrorAnswer]}
        responses[str(status)] = {"description": phrase(status), "content": {JSON: answer}}
    for status, media_type in operation.problems.items():
        responses[str(status)] = {"description": phrase(status), "content": {media_type: {}}}
    return responses


def _events(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: schema_of[shape] for name, shape in operation.events.items()}
