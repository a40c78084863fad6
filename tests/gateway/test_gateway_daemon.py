"""The gateway of a whole daemon, as it is configured: a model's bound, a tenant's limits, a backend's outage."""

from pathlib import Path
from typing import Any

import httpx2

from tests.daemon.serving import config, serving

CONFIGURED = """
[backends.sim]
kind = "simulated"
speed = 200

[models.small]
backends = ["sim"]
max_output = 200

[tenants.default]
output_tpm = 100
rpm = 60
"""

NOBODY = """
[backends.gone]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
retry = { attempts = 1 }
"""


def chat(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "say hi"}], **fields}


async def test_what_is_configured_holds_for_programs(tmp_path: Path):
    """A request without a bound needs the model's maximum; headers show the tenant's limits, the list the models."""
    async with serving(config(tmp_path, CONFIGURED)) as served, httpx2.AsyncClient(base_url=served.url) as program:
        unbounded = await program.post("/v1/chat/completions", json=chat("small"))
        bounded = await program.post("/v1/chat/completions", json=chat("small", max_tokens=20))
        unknown = await program.post("/v1/chat/completions", json=chat("huge"))
        models = await program.get("/v1/models")
    assert unbounded.status_code == 413
    assert "200" in unbounded.json()["error"]["message"]
    assert bounded.status_code == 200
    assert bounded.json()["choices"][0]["message"]["content"]
    assert bounded.headers["x-ratelimit-limit-tokens"] == "100"
    assert bounded.headers["x-ratelimit-limit-requests"] == "60"
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert [entry["id"] for entry in models.json()["data"]] == ["small"]


async def test_a_backend_that_cannot_be_reached_is_503(tmp_path: Path):
    """Where nothing can serve it is 503 in every dialect, and not the 429 of a full queue."""
    async with serving(config(tmp_path, NOBODY)) as served, httpx2.AsyncClient(base_url=served.url) as program:
        answers = [
            await program.post("/v1/chat/completions", json=chat("m", max_tokens=5)),
            await program.post("/v1/messages", json=chat("m", max_tokens=5)),
            await program.post("/v1/responses", json={"model": "m", "input": "hi", "stream": True}),
        ]
    assert [answer.status_code for answer in answers] == [503] * 3
    assert answers[1].json()["error"]["type"] == "api_error"


async def test_where_any_model_is_served_the_default_one_is_listed(tmp_path: Path):
    """A daemon without a table of models names the one that who names none gets, so that a program can find it out."""
    async with serving(config(tmp_path)) as served, httpx2.AsyncClient(base_url=served.url) as program:
        models = await program.get("/v1/models")
    assert [entry["id"] for entry in models.json()["data"]] == ["simulated"]
