"""The list of models, in the shape of whoever asks."""

import pytest

from orchestrator.api.app import all_routes, make_app
from orchestrator.api.openapi import make_document
from tests.api.surface_rig import ask, make_services

ANTHROPIC = {"anthropic-version": "2023-06-01"}


async def test_the_list_has_the_shape_of_whoever_asks():
    """OpenAI's SDK and Anthropic's each get their own form of the same names."""
    app = make_app(make_services(wall=lambda: 0.0))
    openai = await ask(app, "GET", "/v1/models")
    anthropic = await ask(app, "GET", "/v1/models", headers=ANTHROPIC)
    assert (openai.status, anthropic.status) == (200, 200)
    assert openai.json["object"] == "list"
    assert "first_id" in anthropic.json
    assert [entry["id"] for entry in openai.json["data"]] == ["small"]
    assert [entry["id"] for entry in anthropic.json["data"]] == ["small"]


@pytest.mark.parametrize("headers", [{}, ANTHROPIC])
async def test_one_model_is_told_by_its_name(headers):
    """A model that is served is shown; any other is a 404 in the client's shape."""
    app = make_app(make_services())
    known = await ask(app, "GET", "/v1/models/small", headers=headers)
    assert (known.status, known.json["id"]) == (200, "small")
    for name in ("huge", "a/b", "*", ""):
        unknown = await ask(app, "GET", f"/v1/models/{name}", headers=headers)
        assert unknown.status == 404
        assert (unknown.json.get("type") == "error") == bool(headers)


async def test_a_name_with_slashes_is_one_name():
    """Names of models may have slashes in them."""
    app = make_app(make_services(model=lambda name: name))
    answer = await ask(app, "GET", "/v1/models/org/model-7b")
    assert answer.json["id"] == "org/model-7b"


def test_every_route_of_the_gateway_is_in_the_document():
    """The OpenAPI document has the gateway's routes, with the members that are read, and says that others may come."""
    document = make_document([route.operation for route in all_routes(make_services())])
    for path in ("chat/completions", "responses", "embeddings", "messages", "messages/count_tokens"):
        body = document["paths"][f"/v1/{path}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        schema = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        assert "model" in schema["required"]
        assert schema.get("additionalProperties", True) is True
    assert set(document["paths"]["/v1/models/{model}"]) == {"get"}
