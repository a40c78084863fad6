"""Requests that no client of good will makes, byte by byte, before a whole daemon with keys and a real upstream."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.backends.payloads import COMPLETION, whole
from tests.backends.upstream import Upstream, upstream
from tests.keys.test_scoping import Tenants, tenants

CONFIG = """
[backends.up]
kind = "openai"
base_url = "{url}"
headers = {{ "x-own" = "ours" }}

[models."*"]
backends = ["up"]
"""

MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
OURS = frozenset({"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"})


@asynccontextmanager
async def before_upstream(folder: Path) -> AsyncGenerator[tuple[Tenants, Upstream], None]:
    async with (
        upstream(whole(200, json.dumps(COMPLETION).encode())) as up,
        tenants(folder, CONFIG.format(url=up.base_url)) as they,
    ):
        yield they, up


async def said(they: Tenants, sent: bytes) -> bytes:
    """What the daemon answers to these bytes, to the end of the connection."""
    stream = await trio.open_tcp_stream("127.0.0.1", int(they.url.rpartition(":")[2]))
    async with stream:
        with suppress(trio.BrokenResourceError):  # it had seen enough
            await stream.send_all(sent)
        heard = b""
        with trio.move_on_after(5), suppress(trio.BrokenResourceError):
            while data := await stream.receive_some(65_536):
                heard += data
        return heard


def status(answer: bytes) -> int:
    """0 where there was none: a connection that is closed while something comes loses what it had to say."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def head(they: Tenants, target: str, *lines: str, method: str = "GET", who: str = "acme") -> bytes:
    key = [f"Authorization: Bearer {they.keys[who]}"] if who else []
    return "\r\n".join(
        [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *key, *lines, "", ""]
    ).encode("latin-1")


TRICKS = (
    "/api/../metrics",
    "/page/../api/runs",
    "/page/..%2f..%2fapi/runs",
    "/page/%2e%2e/%2e%2e/pyproject.toml",
    "/page/main.js%00.css",
    "//api/runs",
    "/api//runs",
    "/API/RUNS",
    "/healthz/../api/runs",
    "/healthz%2f..%2fapi%2fruns",
    "/healthz;/api/runs",
    "/%61pi/runs",
    "/api/runs/r1%2fcancel",
    "/api/runs/%ff%fe",
    "/./api/runs",
    "/api/runs\\..\\metrics",
    "http://127.0.0.1/api/runs",
    "http://elsewhere.example/api/runs",
    "*",
    "/page/" + "../" * 40 + "etc/passwd",
)


@pytest.mark.parametrize("target", TRICKS)
async def test_no_way_of_writing_a_path_gets_past_the_key(tmp_path: Path, target: str) -> None:
    """However the path is written, without a key nothing is answered but 401, or that it cannot be read; with a
    tenant's, nothing of other tenants, of admins or of the disk."""
    async with before_upstream(tmp_path) as (they, _):
        assert (await they.ask("web", "POST", "/api/runs", {"task": "secret-task", "run": "w1"})).is_success
        assert status(await said(they, head(they, target, who=""))) in (400, 401, 404, 421)
        for who in ("", "acme"):
            answer = await said(they, head(they, target, who=who))
            for secret in (b"secret-task", b"root:", b"[project]", b"headrace_", b"# HELP"):
                assert secret not in answer, answer[:300]


FORGED = (
    "x\r\nX-Evil: 1",
    "x\nX-Evil: 1",
    "x\rX-Evil: 1",
    "x\x00y",
    "../../etc/passwd",
    "\x1b[2Jx",
    "café",
    "a" * 100,
    "{job}",
    "a b",
)


@pytest.mark.parametrize("value", FORGED)
@pytest.mark.parametrize("header", ["X-Headrace-Job", "X-Headrace-Run", "X-Headrace-Tenant"])
async def test_what_flow_headers_say_reaches_no_other_header(tmp_path: Path, header: str, value: str) -> None:
    """A value that is no name is refused and never sent on; a line behind it is a header of its own at most, which
    goes nowhere."""
    async with before_upstream(tmp_path) as (they, up):
        body = json.dumps(MESSAGE).encode()
        sent = head(they, "/v1/chat/completions", f"{header}: {value}", f"Content-Length: {len(body)}", method="POST")
        answer = await said(they, sent + body)
        assert status(answer) in (0, 200, 400, 403), answer
        assert (status(answer) == 200) == ("\nX-Evil" in value) or status(answer) == 403
        assert b"X-Evil" not in answer.partition(b"\r\n\r\n")[0]
        for request in up.received:
            lines = request.head.decode("latin-1").split("\r\n")[1:]
            assert {line.partition(":")[0].lower() for line in lines} <= OURS | {"x-own"}


async def test_only_the_daemons_own_headers_go_to_the_provider(tmp_path: Path) -> None:
    """Keys, cookies, addresses and whatever else a program sends stay here, hop-by-hop ones too."""
    async with before_upstream(tmp_path) as (they, up):
        body = json.dumps(MESSAGE).encode()
        own = [
            "X-Api-Key: sk-of-the-program",
            "Cookie: session=secret",
            "X-Forwarded-For: 10.0.0.1",
            "Proxy-Authorization: Basic c2VjcmV0",
            "OpenAI-Organization: org-theirs",
            "X-Own: theirs",
            "Transfer-Encoding-X: chunked",
            "User-Agent: stranger/1",
        ]
        sent = head(they, "/v1/chat/completions", *own, f"Content-Length: {len(body)}", method="POST")
        assert status(await said(they, sent + body)) == 200
        (request,) = up.received
        lines = request.head.decode().split("\r\n")[1:]
        names = {line.partition(":")[0].lower() for line in lines}
        assert names <= OURS | {"x-own"}
        assert request.header("x-own") == "ours"
        for secret in ("sk-of", "secret", "10.0.0.1", "org-theirs", "stranger", they.keys["acme"]):
            assert secret not in request.head.decode()


LENGTHS = (
    ("Content-Length: 5", "Content-Length: 6"),
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Content-Length: -1",),
    ("Content-Length: 5, 6",),
    ("Content-Length: 0x10",),
    ("Transfer-Encoding: chunked, identity",),
    ("Transfer-Encoding: gzip",),
    (" Content-Length: 5",),
    ("Content-Length : 5",),
)


@pytest.mark.parametrize("lines", LENGTHS)
async def test_a_request_has_one_length(tmp_path: Path, lines: Sequence[str]) -> None:
    """Where a proxy could see two requests, or none, there is at most one answer, and nothing hidden behind the first
    request is done (RFC 9112, 6.3 and 11.2)."""
    async with before_upstream(tmp_path) as (they, _):
        hidden = head(they, "/api/runs", "Content-Length: 26", method="POST") + b'{"task":"x","run":"hidden"}'
        sent = head(they, "/v1/chat/completions", *lines, method="POST") + b"0\r\n\r\n" + hidden
        answer = await said(they, sent)
        assert status(answer) in (0, 400, 401, 411, 501), answer
        assert (await they.ask("acme", "GET", "/api/runs/hidden")).status_code == 404


async def large(they: Tenants, path: str, body: bytes) -> int:
    sent = head(they, path, f"Content-Length: {len(body)}", method="POST") + body
    return status(await said(they, sent))


async def test_everything_has_a_bound(tmp_path: Path) -> None:
    """Heads, queries, names, depths and lengths beyond all measure are 4xx, and the daemon answers the next request."""
    deep = b"[" * 200_000
    nested = json.dumps(MESSAGE).replace('"x"', '{"a":' * 20_000 + "1" + "}" * 20_000).encode()
    async with before_upstream(tmp_path) as (they, up):
        run: dict[str, Any] = {"task": "x"}
        assert status(await said(they, head(they, "/" + "a" * 100_000))) in (0, 400, 414, 431)
        assert status(await said(they, head(they, "/api/runs?" + "state=done&" * 20_000))) in (0, 400, 414, 431)
        assert status(await said(they, head(they, "/api/runs", *(f"X-{n}: {'v' * 90}" for n in range(2_000))))) in (
            400,
            431,
        )
        for path in ("/api/runs", "/api/jobs", "/v1/chat/completions", "/v1/messages", "/v1/responses"):
            assert await large(they, path, deep) == 400
            assert await large(they, path, b'{"task":' + b"9" * 1_000_000 + b"}") == 400
        assert await large(they, "/v1/chat/completions", nested) in (200, 400)
        for more in ({"run": "r" * 65}, {"tenant": "t" * 1_000}, {"session": "s" * 5_000}, {"job": "j" * 200}):
            assert await large(they, "/api/runs", json.dumps({**run, **more}).encode()) == 400, more
        for more in ({"budget": {"rounds": -1}}, {"budget": {"tokens": 10**30}}, {"expires_in": -5}):
            assert await large(they, "/api/runs", json.dumps({**run, **more}).encode()) == 400, more
        assert len(up.received) <= 1
        huge = f"Content-Length: {10**40}"
        assert status(await said(they, head(they, "/api/runs", huge, method="POST"))) in (400, 413)
        assert (await they.ask("acme", "GET", "/api/runs")).is_success
