"""An upstream that answers a check: well, except where a test gives other bytes for one of its requests."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents.errors import ModelError
from agents.messages import Message, ModelReply, ModelRequest, ToolCall, Usage
from orchestrator.check import probes
from orchestrator.check.answer import Answer
from orchestrator.check.report import CheckReport, Finding
from orchestrator.check.run import Check, Subject
from orchestrator.check.sender import Step
from tests.backends import payloads
from tests.backends.upstream import Received, Talk, Upstream, upstream

Bytes = bytes | Callable[[Any], bytes]
"""An answer, or what makes one from the request's JSON."""


def usage(given: int, output: int, cached: int | None = None) -> bytes:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return payloads.trailing({"prompt_tokens": given, "completion_tokens": output, **details})


def said(*texts: str, finish: str = "stop", given: int = 20, output: int = 4, cached: int | None = None) -> bytes:
    """A streamed answer of these pieces."""
    end = payloads.event(payloads.chunk(finish=finish))
    return payloads.stream(*map(payloads.text, texts), end, usage(given, output, cached), payloads.DONE)


CALL = payloads.stream(
    payloads.tool(id="call_1", name="water_level", arguments='{"gate": '),
    payloads.tool(arguments='"north"}'),
    payloads.CALLS,
    usage(40, 9),
    payloads.DONE,
)

WELL: dict[str, Bytes] = {
    "greeting": said("Mi", "ll"),
    "story": said(*("a ",) * 48, finish="length", output=48),
    "tool": CALL,
    "tool_result": said("It is 118 cm."),
    "schema": said('{"state": "open", ', '"safe": true}'),
    "long": said("6", given=1300, output=1, cached=0),
    "long_again": said("6", given=1300, output=1, cached=1280),
    "unknown_model": payloads.failure(404, {"message": "no such model", "code": "model_not_found"}),
}


def which(body: Any, before: Sequence[str] = ()) -> str:
    """The `Ask` that a request is, by its content and what was asked before."""
    messages = body["messages"]
    if body["model"] == probes.NO_SUCH_MODEL:
        return "unknown_model"
    if messages[0]["role"] == "system":
        return "greeting"
    if "response_format" in body:
        return "schema"
    if "tools" in body:
        return "tool_result" if messages[-1]["role"] == "tool" else "tool"
    if len(messages[0]["content"]) > 1000:
        return "long_again" if "long" in before else "long"
    return "story"


class Answering:
    """The upstream's script. `asked` are the asks that came, in order, with their bodies."""

    def __init__(self, answers: dict[str, Bytes]) -> None:
        self.answers = WELL | answers
        self.asked: list[tuple[str, Any]] = []
        self.server: Upstream

    async def __call__(self, talk: Talk) -> None:
        received: Received = self.server.received[-1]
        name = which(received.json, self.names)
        self.asked.append((name, received.json))
        answer = self.answers[name]
        await talk.send(answer if isinstance(answer, bytes) else answer(received.json))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@asynccontextmanager
async def answering(**answers: Bytes) -> AsyncGenerator[Answering, None]:
    script = Answering(answers)
    async with upstream(script) as server:
        script.server = server
        yield script


async def checked(
    script: Answering, *, spent: int = 0, timeout: float = 60.0, steps: list[Step] | None = None, **options: Any
) -> CheckReport:
    """The report on the upstream; `options` are of its `OpenAIConfig`."""
    backend = script.server.backend(**options)
    subject = Subject(backend="test", model="m-1", endpoints=(backend,), spent=spent)
    return await Check(subject, timeout=timeout, on_step=(steps if steps is not None else []).append).run()


def finding(report: CheckReport, name: str) -> Finding:
    (found,) = [one for one in report.findings if one.name == name]
    return found


def states(report: CheckReport) -> dict[str, str]:
    return {one.name: one.state for one in report.findings}


def answer(
    text: str = "",
    *,
    calls: Sequence[tuple[str, str]] = (),
    finish: Any = "stop",
    started: float = 0.0,
    first: float | None = 0.5,
    ended: float = 2.0,
    pieces: int = 10,
    reads: int = 5,
    given: int | None = 20,
    output: int | None = 10,
    cached: int | None = None,
    error: ModelError | None = None,
    request: ModelRequest | None = None,
    overlong: bool = False,
) -> Answer:
    """An answer as it might have been seen."""
    reported = Usage(None if given is None else given - (cached or 0), cached, None, output)
    made = tuple(ToolCall(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(calls))
    message = Message("assistant", text, made)
    reply = None if error is not None or overlong else ModelReply(message, finish, reported, "m-1")
    return Answer(
        endpoint="test",
        request=request or ModelRequest("m-1", (Message("user", "x" * 100),), max_tokens=48, seed=7),
        started=started,
        ended=ended,
        reply=reply,
        error=error,
        first=None if error is not None else first,
        last=None if error is not None else ended,
        pieces=0 if error is not None else pieces,
        reads=0 if error is not None else reads,
        usage=None if error is not None else reported,
        overlong=overlong,
    )


def dumped(report: CheckReport) -> str:
    """Everything that a report could print."""
    return json.dumps([repr(report), str(report)])
