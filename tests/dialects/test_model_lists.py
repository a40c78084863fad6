"""The list of models, read by both SDKs."""

from datetime import UTC, datetime

import anthropic
import httpx2
import openai
import pytest

from orchestrator.dialects.models import model_document, models_document

NOW = 1_800_000_000.9


def transport(body: bytes) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.MockTransport(
            lambda _: httpx2.Response(200, content=body, headers={"content-type": "application/json"})
        )
    )


def test_openai_sdk_lists_models() -> None:
    """OpenAI's SDK gets every name once, in order."""
    body = models_document("openai", ["small", "large", "small"], NOW)
    client = openai.OpenAI(api_key="k", base_url="http://gateway/v1", http_client=transport(body))
    models = list(client.models.list())
    assert [model.id for model in models] == ["small", "large"]
    assert {(model.object, model.created) for model in models} == {("model", 1_800_000_000)}
    openai.types.Model.model_validate_json(model_document("openai", "small", NOW))


@pytest.mark.parametrize("names", [[], ["one"], ["one", "two"]])
def test_anthropic_sdk_lists_models(names: list[str]) -> None:
    """Anthropic's SDK gets the same names on one page, which says that there is no other."""
    body = models_document("anthropic", names, NOW)
    client = anthropic.Anthropic(api_key="k", base_url="http://gateway", http_client=transport(body))
    page = client.models.list()
    assert [model.id for model in page] == names
    assert (page.has_more, page.first_id, page.last_id) == (
        (False, names[0], names[-1]) if names else (False, None, None)
    )
    for model in page.data:
        anthropic.types.ModelInfo.model_validate(model.model_dump())
        assert model.created_at == datetime.fromtimestamp(1_800_000_000, UTC)
