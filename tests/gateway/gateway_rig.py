"""A gateway to test: a backend that answers requests of programs from a script, and requests as SDKs send them."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import trio

from agents.errors import ModelError
from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage, WireEvent
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.api.app import make_app
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.api.surface_rig import make_services

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
    "count_tokens": "/v1/messages/count_tokens",
}
STREAMED = ("chat", "responses", "messages")
ONE_TRY = DispatchConfig(retry=RetryConfig(attempts=1))


def chunk(text: str, **more: Any) -> WireEvent:
    """A chunk of a chat completion that says something."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return WireEvent(
        "", json.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **more}).encode()
    )


def finish(**more: Any) -> WireEvent:
    """The chunk that says why a chat completion ended."""
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return WireEvent(
        "", json.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **more}).encode()
    )


def named(event: str, **data: Any) -> WireEvent:
    """An event of `responses` or `messages`, whose data say its name, too."""
    return WireEvent(event, json.dumps({"type": event, **data}).encode())


USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}

CHAT = ((chunk("one "),), (chunk("two"), finish()))
MESSAGES = (
    (
        named(
            "message_start",
            message={
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "small",
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "output_tokens": 1},
            },
        ),
        named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": "one "}),
    ),
    (
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": "two"}),
        named("content_block_stop", index=0),
        named("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2}),
        named("message_stop"),
    ),
)
_RESPONSE = {"id": "r1", "object": "response", "status": "in_progress", "output": []}
_TEXT = {"type": "output_text", "text": "one two", "annotations": []}
_ITEM = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [_TEXT]}
RESPONSES = (
    (
        named("response.created", sequence_number=0, response=_RESPONSE),
        named(
            "response.output_text.delta", sequence_number=1, item_id="i1", output_index=0, content_index=0, delta="one "
        ),
    ),
    (
        named(
            "response.output_text.delta", sequence_number=2, item_id="i1", output_index=0, content_index=0, delta="two"
        ),
        named(
            "response.completed", sequence_number=3, response={**_RESPONSE, "status": "completed", "output": [_ITEM]}
        ),
    ),
)
SCRIPTS: dict[str, Sequence[tuple[WireEvent, ...]]] = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
DOCUMENTS = {"embeddings": b'{"object":"list","data":[]}', "count_tokens": b'{"input_tokens":7}'}


def body(dialect: str, text: str = "hello", **fields: Any) -> bytes:
    """A request as an SDK sends it."""
    request: dict[str, Any] = {"model": "small"}
    if dialect in ("responses", "embeddings"):
        request["input"] = text
    else:
        request["messages"] = [{"role": "user", "content": text}]
    if dialect == "messages":
        request["max_tokens"] = 16
    return json.dumps({**request, **fields}).encode()


class WireBackend:
    """Answers each request with the batches of its dialect's script. Calls wait where a test holds them.

    The phases are `headers`, `middle` (behind each batch) and `end`. `plan` may give other batches, and an error in
    their place or behind them.
    """

    name = "wire"

    def __init__(self, *held: str, step: float = 0.0) -> None:
        self.held = {phase: trio.Event() for phase in held}
        self.plan: Callable[[int, ModelRequest], Iterable[tuple[WireEvent, ...] | ModelError]] = _scripted
        self.step = step
        self.sent: list[ModelRequest] = []
        self.delivered = 0
        self.busy = 0
        self.aborted = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="script")

    def connect(self) -> Connection:
        return _WireConnection(self)

    def release(self, phase: str) -> None:
        self.held.pop(phase).set()

    async def pass_by(self, phase: str) -> None:
        held = self.held.get(phase)
        if held is not None:
            await held.wait()
        elif self.step:
            await trio.sleep(self.step)


def _scripted(number: int, request: ModelRequest) -> Iterable[tuple[WireEvent, ...]]:
    assert request.wire is not None
    return SCRIPTS.get(request.wire.dialect, ())


class _WireConnection:
    def __init__(self, backend: WireBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        backend = self._backend
        backend.sent.append(request)
        backend.busy += 1
        try:
            progress.connected()
            progress.written()
            await backend.pass_by("headers")
            progress.headers(())
            for batch in backend.plan(len(backend.sent), request):
                if isinstance(batch, ModelError):
                    raise batch
                await progress.deltas((Delta(wire=batch, tokens=1),))
                backend.delivered += 1
                await backend.pass_by("middle")
            usage = Usage(input=10, output=2)
            progress.usage(usage)
            await backend.pass_by("end")
        except trio.Cancelled:
            backend.aborted += 1
            raise
        finally:
            backend.busy -= 1
        assert request.wire is not None
        document = DOCUMENTS.get(request.wire.dialect, b"")
        return ModelReply(Message("assistant", "one two"), "stop", usage, wire=document)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def wire_owner(backend: WireBackend, *, slots: int = 1, dispatch: DispatchConfig | None = None) -> Owner:
    """An owner of one scripted endpoint."""
    endpoint = Endpoint(backend.name, cast("Any", backend), concurrency=ConcurrencyConfig(fixed=slots))
    return Owner(OwnerConfig("test", dispatch or DispatchConfig()), [endpoint])


class OwnerCalls:
    """Implements `Calls` over one owner, and keeps the flows and priorities that were asked for."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.asked: list[tuple[Flow, Priority, bool]] = []

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = True) -> OwnerPort:
        self.asked.append((flow, priority, agent))
        return OwnerPort(self.owner.inbox, flow, priority, agent=agent)


def gateway(owner: Owner, calls: OwnerCalls | None = None, **given: Any):
    """The surface over this owner."""
    return make_app(make_services(calls=calls or OwnerCalls(owner), **given))


def blocks(raw: bytes) -> list[bytes]:
    """The blocks of an event stream, comments among them."""
    assert raw.endswith(b"\n\n"), raw[-80:]
    return raw.split(b"\n\n")[:-1]
