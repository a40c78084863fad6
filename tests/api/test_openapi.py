"""The description of the surface says what the surface does."""

import re

import msgspec
import pytest
from starlette.routing import Route

from orchestrator.api.app import all_routes, make_app
from orchestrator.api.openapi import make_document
from tests.api.surface_rig import ask, make_services


@pytest.fixture(scope="module")
def document():
    return make_document([route.operation for route in all_routes(every_service())])


def every_service():
    return make_services()


def references(part):
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_every_route_is_described_and_nothing_else(document):
    """Paths and methods of the document are exactly those of the application."""
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    routed = {
        (re.sub(r"{(\w+):\w+}", r"{\1}", route.path), method)
        for route in all_routes(every_service())
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert described == routed
    assert {("/api/queue", "GET"), ("/api/calls", "POST"), ("/api/prune", "POST"), ("/metrics", "GET")} <= described


def test_every_reference_resolves(document):
    """No schema points to one that is not there."""
    schemas = document["components"]["schemas"]
    found = set(references(document))
    assert found
    assert {reference.rpartition("/")[2] for reference in found} <= set(schemas)
    assert all(reference.startswith("#/components/schemas/") for reference in found)


def test_every_operation_has_a_name_of_its_own_and_says_what_comes(document):
    """Names are unique, and each has a summary and an answer for when all is well."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        assert operation["summary"]
        assert any(status.startswith("2") for status in operation["responses"])


def test_every_parameter_of_a_path_is_described(document):
    """What stands in braces is a parameter."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            described = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert described == set(re.findall(r"{(\w+)}", path))


def test_bounds_of_a_query_are_in_the_document(document):
    """What is refused at the edge can be read beforehand."""
    (every,) = document["paths"]["/api/queue/events"]["get"]["parameters"]
    assert every["schema"] == {"type": "number", "minimum": 0.25, "maximum": 60.0, "default": 1.0}
    assert every["description"]


async def test_the_document_can_be_fetched():
    """The daemon serves it, itself included."""
    answer = await ask(make_app(make_services()), "GET", "/api/openapi.json")
    fetched = msgspec.json.decode(answer.body)
    assert fetched["openapi"] == "3.1.0"
    assert "/api/openapi.json" in fetched["paths"]


def test_a_route_without_an_operation_is_a_mistake(monkeypatch):
    """Nobody can add a route that the document does not know."""
    monkeypatch.setattr("orchestrator.api.health.routes", lambda services: [Route("/x", lambda request: None)])
    with pytest.raises(TypeError, match="declares no operation"):
        all_routes(make_services())
