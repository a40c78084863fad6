"""The simulated provider's list of models, in both providers' words."""

from collections.abc import Sequence
from typing import Any

import msgspec

DEFAULT = "simulated"
"""The name that stands in the list of a provider which serves every name."""


def models_document(names: Sequence[str], *, anthropic: bool) -> bytes:
    """All models."""
    rows = [_row(name, anthropic) for name in names]
    if not anthropic:
        return msgspec.json.encode({"object": "list", "data": rows})
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return msgspec.json.encode({"data": rows, "has_more": False, **ends})


def model_document(name: str, *, anthropic: bool) -> bytes:
    """One model."""
    return msgspec.json.encode(_row(name, anthropic))


def _row(name: str, anthropic: bool) -> dict[str, Any]:
    if not anthropic:
        return {"id": name, "object": "model", "created": 0, "owned_by": "headrace"}
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2025-01-01T00:00:00Z",
        "lifecycle": "active",
    }
