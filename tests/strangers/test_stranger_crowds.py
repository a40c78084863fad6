"""Strangers by the thousand: slow ones, and ones with a new name each time."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import trio

from orchestrator.instruments.books import TENANT_LABELS
from tests.daemon.serving import config, serving

SLOW = 1_000
MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
BODY = json.dumps({**MESSAGE, "stream": True}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
KINDS = (
    b"",  # says nothing
    b"POST /v1/chat/com",  # stops in the middle of the line
    HEAD + b"X-Slow: 1\r\n",  # does not end its head
    HEAD + b"Content-Length: 1000\r\n\r\n{",  # does not send its body
    HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,  # does not read its answer
)


async def test_slow_clients_by_the_thousand_slow_nobody_else(tmp_path: Path) -> None:
    """While they dawdle in every phase there is, calls of others are answered; those that said nothing whole are shown
    out."""
    text = "[daemon]\nidle_seconds = 1.0\nbody_seconds = 1.0\n"
    async with serving(config(tmp_path, text)) as served:
        port = int(served.url.rpartition(":")[2])
        shown_out = 0

        async def dawdle(words: bytes) -> None:
            nonlocal shown_out
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                await stream.send_all(words)
                started.append(words)
                if words != KINDS[4]:
                    while await stream.receive_some():
                        pass
                    shown_out += 1
                else:
                    await trio.sleep_forever()

        started: list[bytes] = []
        async with trio.open_nursery() as crowd:
            for number in range(SLOW):
                crowd.start_soon(dawdle, KINDS[number % len(KINDS)])
            async with httpx2.AsyncClient(base_url=served.url, trust_env=False, timeout=20) as http:
                while len(started) < SLOW:
                    answer = await http.post("/v1/chat/completions", json=MESSAGE)
                    assert answer.status_code == 200
                while shown_out < SLOW * 4 // 5:
                    assert (await http.post("/v1/chat/completions", json=MESSAGE)).status_code == 200
                    await trio.sleep(0.1)
            crowd.cancel_scope.cancel()


async def test_names_without_end_are_no_labels_without_end(tmp_path: Path) -> None:
    """A thousand tenants, models, jobs and runs that nobody has heard of leave at most so many labels in the metrics,
    the rest in one; and no name can write a line of its own."""
    async with serving(config(tmp_path)) as served:
        async with httpx2.AsyncClient(base_url=served.url, trust_env=False, timeout=30) as http:

            async def ask(number: int) -> None:
                headers = {"x-headrace-tenant": f"t{number}", "x-headrace-job": f"j{number}"}
                body = {**MESSAGE, "model": f"m{number}"}
                assert (await http.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200

            for first in range(0, 1_000, 100):
                async with trio.open_nursery() as asking:
                    for number in range(first, first + 100):
                        asking.start_soon(ask, number)
            body = {**MESSAGE, "model": 'm"} 1\nheadrace_forged{x="'}
            assert (await http.post("/v1/chat/completions", json=body)).status_code == 200
            metrics = (await http.get("/metrics")).text
        series = Counter(line.partition("{")[0] for line in metrics.splitlines() if not line.startswith("#"))
        assert not any("forged" in line for line in metrics.splitlines())
        assert 'tenant="other"' in metrics
        calls = sum("headrace_calls_total{" in line for line in metrics.splitlines())
        assert calls <= TENANT_LABELS + 2
        assert sum(series.values()) < 3_000
