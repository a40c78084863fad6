"""What a tenant could make the daemon fetch or run: nothing, whatever it writes into its requests."""

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.keys.test_scoping import Tenants
from tests.strangers.before import worked


class Canary:
    """A server that nobody should ask for anything, and who did."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async def hear(stream: trio.SocketStream) -> None:
            async with stream:
                self.heard.append(bytes(await stream.receive_some()))

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        await trio.serve_listeners(hear, [listener], task_status=task_status)


def requests(url: str) -> list[tuple[str, dict[str, Any]]]:
    """Requests that name an address, or a program, in every place that takes words."""
    chat = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    picture = {"type": "image_url", "image_url": {"url": url}}
    source = {"type": "image", "source": {"type": "url", "url": url}}
    return [
        ("/v1/chat/completions", {**chat, "messages": [{"role": "user", "content": [picture]}]}),
        ("/v1/chat/completions", {**chat, "base_url": url, "api_base": url, "webhook": url}),
        ("/v1/chat/completions", {**chat, "model": url}),
        ("/v1/chat/completions", {**chat, "tools": [{"type": "mcp", "server_url": url, "server_label": "x"}]}),
        ("/v1/messages", {**chat, "messages": [{"role": "user", "content": [source]}]}),
        ("/v1/messages", {**chat, "mcp_servers": [{"type": "url", "url": url, "name": "x"}]}),
        ("/v1/responses", {"model": "m", "input": [{"role": "user", "content": [{**picture, "image_url": url}]}]}),
        ("/v1/responses", {"model": "m", "input": "x", "tools": [{"type": "mcp", "server_url": url}]}),
        ("/v1/embeddings", {"model": "m", "input": url}),
        ("/api/runs", {"task": url}),
        ("/api/runs", {"task": f"$(curl {url})", "who": {"model": f"`curl {url}`", "system": url}}),
        ("/api/runs", {"task": "x", "who": {"agent": f"../../{url}"}}),
        ("/api/runs", {"task": "x", "tools": [{"command": ["touch", "{mark}"]}]}),
        ("/api/runs", {"task": "x", "who": {"model": "m", "tools": ["send"]}}),
        ("/api/jobs", {"prompt": "{text.__class__.__mro__}"}),
        ("/api/jobs", {"prompt": "{0.__init__.__globals__}"}),
        ("/api/jobs", {"prompt": url, "tools": {"x": {"command": ["touch", "{mark}"]}}}),
        ("/api/calls", {"request": {**chat, "wire": {"url": url}}}),
    ]


@pytest.mark.parametrize("scheme", ["http", "https", "file", "gopher"])
async def test_nothing_that_a_tenant_writes_is_fetched_or_run(tmp_path: Path, scheme: str) -> None:
    """Addresses in contents, models, tools and settings are passed to the provider at most, or refused; the daemon
    opens no connection and starts no program of its own for them."""
    mark = tmp_path / "mark"
    canary = Canary()
    async with trio.open_nursery() as nursery:
        await nursery.start(canary.run)
        url = f"file://{mark}" if scheme == "file" else f"{scheme}://127.0.0.1:{canary.port}/x"
        async with worked(tmp_path) as (they, _):
            for path, body in requests(url):
                answer = await they.ask("acme", "POST", path, body)
                assert answer.status_code < 500 or answer.status_code in (502, 503), (path, answer.text)
                if answer.status_code == 201 and path == "/api/runs":
                    await they.ask("acme", "GET", f"/api/runs/{answer.json()['run']}?wait=10")
            await in_jobs(they, url)
            assert canary.heard == []
            assert not mark.exists()
        nursery.cancel_scope.cancel()


async def in_jobs(they: Tenants, url: str) -> None:
    """A job whose inputs have addresses, and fields that reach for more than they are."""
    made = await they.ask("acme", "POST", "/api/jobs", {"prompt": "See {text}", "job": "reach"})
    assert made.is_success
    lines = f'{{"text": "{url}"}}\n{{"text": "{{text.__class__}}"}}\n'
    assert (await they.send("acme", "PATCH", "/api/jobs/reach/inputs?offset=0", lines.encode())).is_success
    assert (await they.send("acme", "POST", "/api/jobs/reach/inputs/complete", b"")).is_success
    with trio.fail_after(20):
        while (await they.ask("acme", "GET", "/api/jobs/reach")).json()["phase"] == "running":  # noqa: ASYNC110
            await trio.sleep(0.05)  # its events would be another thing to test
    results = (await they.ask("acme", "GET", "/api/jobs/reach/results")).text
    assert "<class" not in results
