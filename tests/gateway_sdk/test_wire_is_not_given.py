"""What the gateway makes of a program's request cannot be handed in ready-made."""

import json
from pathlib import Path

from tests.gateway_sdk.cases_rig import ASK, between


async def test_a_call_cannot_bring_its_own_wire_request(tmp_path: Path) -> None:
    """`/api/calls` refuses `request.wire`, whose size its sender would choose, and nothing reaches the upstream."""
    wire = {"dialect": "chat", "fields": ASK, "input_bytes": 0}
    body = json.dumps({"request": {"model": "m-1", "messages": [], "wire": wire}}).encode()
    async with between(tmp_path, b"") as there:
        answer = await there.post("/api/calls", body)
        assert there.upstream.received == []
    assert answer.status in (400, 422)
    assert b"request.wire" in answer.body
