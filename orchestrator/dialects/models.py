"""The list of models (`GET /v1/models`) in both providers' shapes.

Sources: the OpenAI API reference, "List models"; the Claude API reference, "List Models".
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from orchestrator.dialects.text import scrub

OWNER = "headrace"


def models_document(shape: Literal["openai", "anthropic"], names: Iterable[str], now: float) -> bytes:
    """Every name once, in order. `now` is in seconds since the epoch: no model here is older than this answer."""
    entries = [model_entry(shape, name, now) for name in dict.fromkeys(names)]
    if shape == "openai":
        return msgspec.json.encode({"object": "list", "data": entries})
    ids = [entry["id"] for entry in entries] or [None]
    return msgspec.json.encode({"data": entries, "has_more": False, "first_id": ids[0], "last_id": ids[-1]})


def model_document(shape: Literal["openai", "anthropic"], name: str, now: float) -> bytes:
    """One model, as `GET /v1/models/{name}` answers."""
    return msgspec.json.encode(model_entry(shape, name, now))


def model_entry(shape: Literal["openai", "anthropic"], name: str, now: float) -> dict[str, Any]:
    """One model of the list."""
    name = scrub(name)
    if shape == "openai":
        return {"id": name, "object": "model", "created": int(now), "owned_by": OWNER}
    created = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": created, "lifecycle": "active"}
